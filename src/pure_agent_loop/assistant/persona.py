"""Who the assistant is: a name, what it is for, and how it speaks."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import default_language, in_language

MAX_FILE_BYTES = 64_000
_HELPFUL = "You help with whatever is asked, and say so when you do not know."


@dataclass(frozen=True, slots=True)
class PersonaConfig:
    """A persona.

        PersonaConfig("Ada", "You help with astronomy.", rules=("Give distances in light years.",))

    Args:
        name: What it is called.
        description: What it is and does, in the second person.
        style: How it speaks.
        rules: What it keeps to, a sentence each.
        language: ``en`` or ``zh``: of these words, and of what the framework says beside them; None for the
            default of the environment.

    Raises:
        ConfigError: One of them has the wrong type, or the name is empty.
    """

    name: str = "Assistant"
    description: str = _HELPFUL
    style: str = ""
    rules: tuple[str, ...] = ()
    language: str | None = None

    def __post_init__(self) -> None:
        for name in ("name", "description", "style"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"PersonaConfig.{name} must be text; it is {getattr(self, name)!r:.80}.")
        if not self.name.strip():
            raise ConfigError("PersonaConfig.name is empty. Give the assistant a name.")
        rules: Any = self.rules
        if not isinstance(rules, (tuple, list)) or not all(isinstance(each, str) for each in rules):
            raise ConfigError(f"PersonaConfig.rules must be a list of sentences; it is {self.rules!r:.80}.")
        if self.language not in (None, "en", "zh"):
            raise ConfigError(f"PersonaConfig.language={self.language!r} is not known. Use 'en' or 'zh'.")
        object.__setattr__(self, "rules", tuple(self.rules))  # a list was given, perhaps

    @classmethod
    def named(cls, name: str, language: str | None = None) -> PersonaConfig:
        """One of the personas that come with the package; `personas` lists them.

        Args:
            name: ``assistant``, ``coder``, ``researcher``, ``writer`` or ``reviewer``.
            language: ``en`` or ``zh``; None for the default of the environment.

        Raises:
            ConfigError: There is none of that name or language.
        """
        ready = personas(language)
        if name not in ready:
            raise ConfigError(f"There is no persona {name!r}. There are: {', '.join(ready)}.")
        return ready[name]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PersonaConfig:
        """A persona from plain data.

        Raises:
            ConfigError: A key is unknown, or a value cannot be right.
        """
        known = [each.name for each in fields(cls)]
        unknown = [str(key) for key in data if key not in known]
        if unknown:
            raise ConfigError(f"A persona has no field {unknown[0]!r}. It has: {', '.join(known)}.")
        rules = data.get("rules", ())
        return cls(**{**data, "rules": tuple(rules) if isinstance(rules, list) else rules})

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PersonaConfig:
        """A persona from a ``.toml`` or ``.json`` file.

        Raises:
            ConfigError: It cannot be read (TOML needs Python 3.11), or is wrong; the message names the file.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"The persona {path} cannot be read: {error.strerror}.") from error
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"The persona {path} is larger than {MAX_FILE_BYTES:,} bytes.")
        try:
            found = _parsed(data, path.suffix.lower())
            if not isinstance(found, Mapping):
                raise ConfigError("it must be an object with name and description")
            return cls.from_dict(found)
        except (ValueError, RecursionError) as error:  # ConfigError is a ValueError
            raise ConfigError(f"The persona {path} cannot be used: {error}") from error

    def text(self) -> str:
        """Style and rules, as they stand in the prompt below the identity."""
        rules = "\n".join(f"- {each.strip()}" for each in self.rules)
        return "\n".join(part for part in (self.style.strip(), rules) if part)


def _parsed(data: bytes, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(data)
    if suffix != ".toml":
        raise ConfigError("its name must end with .toml or .json.")
    if importlib.util.find_spec("tomllib") is None:
        raise ConfigError("this Python reads no TOML. Write it as JSON, or use Python 3.11.")
    return importlib.import_module("tomllib").loads(data.decode("utf-8"))


_READY: dict[str, dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "en": {
        "assistant": (
            "Assistant",
            _HELPFUL,
            "",
            (),
        ),
        "coder": (
            "Coder",
            "You write and change programs in the user's workspace.",
            "Be brief. Show code rather than talk about it.",
            (
                "Read the code before you change it, and keep to its style.",
                "Make the smallest change that does the work.",
                "Run the tests, and say what they said.",
            ),
        ),
        "researcher": (
            "Researcher",
            "You find things out and say how sure they are.",
            "Give the answer first, then what it rests on.",
            (
                "Name the source of each claim.",
                "Keep what was found apart from what you conclude.",
                "Say what you could not find out.",
            ),
        ),
        "writer": (
            "Writer",
            "You write and improve texts.",
            "Plain words, short sentences.",
            (
                "Keep the meaning and the facts of the original.",
                "Match the tone and the reader that were asked for.",
            ),
        ),
        "reviewer": (
            "Reviewer",
            "You look for what is wrong or missing in the work of others. You change nothing yourself.",
            "Put the most serious first.",
            (
                "Give the place, what happens there, and why it matters.",
                "Report only what you have checked; mark a suspicion as one.",
            ),
        ),
    },
    "zh": {
        "assistant": ("助手", "你帮助用户完成各种请求；不知道时就直说。", "", ()),
        "coder": (
            "程序员",
            "你在用户的工作区中编写和修改程序。",
            "简短。多给代码，少谈代码。",
            (
                "修改之前先阅读代码，并遵循其风格。",
                "只做完成任务所需的最小改动。",
                "运行测试，并说明测试结果。",
            ),
        ),
        "researcher": (
            "研究员",
            "你查明事实，并说明其可靠程度。",
            "先给答案，再给依据。",
            ("每个论断都注明来源。", "区分查到的内容和你的推断。", "说明哪些没能查明。"),
        ),
        "writer": (
            "写作者",
            "你撰写和改进文章。",
            "用词平实，句子简短。",
            ("保留原文的意思和事实。", "符合要求的语气和读者。"),
        ),
        "reviewer": (
            "审阅者",
            "你找出他人工作中的错误和遗漏，自己不做任何修改。",
            "最严重的放在最前面。",
            ("给出位置、问题和影响。", "只报告核实过的问题；怀疑要注明是怀疑。"),
        ),
    },
}


def personas(language: str | None = None) -> dict[str, PersonaConfig]:
    """The personas that come with the package, by name.

    Args:
        language: ``en`` or ``zh``; None for the default of the environment.

    Raises:
        ConfigError: There are none in that language.
    """
    ready, wanted = in_language(_READY, language), language or default_language()
    return {
        key: PersonaConfig(name, description, style, rules, wanted)
        for key, (name, description, style, rules) in ready.items()
    }
