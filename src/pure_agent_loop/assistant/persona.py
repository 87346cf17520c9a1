"""Personas of the assistant: name, description, style and rules."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import checked_choice, in_language
from pure_agent_loop.support.parsing import read_json

MAX_FILE_BYTES = 64_000
_HELPFUL = "You help with any request, and say so if you do not know the answer."
_BUILT_IN: dict[str, dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
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
                "Run the tests, and report their results.",
            ),
        ),
        "researcher": (
            "Researcher",
            "You research facts and state how certain they are.",
            "Give the answer first, then the evidence.",
            (
                "Name the source of each claim.",
                "Separate findings from your own conclusions.",
                "Say what you could not find out.",
            ),
        ),
        "writer": (
            "Writer",
            "You write and improve texts.",
            "Plain words, short sentences.",
            (
                "Keep the meaning and the facts of the original.",
                "Match the requested tone and audience.",
            ),
        ),
        "reviewer": (
            "Reviewer",
            "You look for mistakes and omissions in the work of others. You change nothing yourself.",
            "Put the most serious problem first.",
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


@dataclass(frozen=True, slots=True)
class PersonaConfig:
    """A persona.

        PersonaConfig("Ada", "You help with astronomy.", rules=("Give distances in light years.",))

    Args:
        name: Name of the persona.
        description: Role of the persona, in the second person.
        style: Writing style of the persona.
        rules: Rules of the persona, one sentence each.
        language: ``en`` or ``zh``, for the persona and the framework's texts; None for the language of the
            `ContextBuilder`, else the default of the environment.

    Raises:
        ConfigError: A value has the wrong type, or the name is empty.
    """

    name: str = "Assistant"
    description: str = _HELPFUL
    style: str = ""
    rules: tuple[str, ...] = ()
    language: str | None = None

    def __post_init__(self) -> None:
        for name in ("name", "description", "style"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"PersonaConfig.{name}={getattr(self, name)!r:.80} must be text.")
        if not self.name.strip():
            raise ConfigError("PersonaConfig.name must not be empty.")
        rules: Any = self.rules
        if not isinstance(rules, (tuple, list)) or not all(isinstance(rule, str) for rule in rules):
            raise ConfigError(f"PersonaConfig.rules={self.rules!r:.80} must be a list of sentences.")
        if self.language not in (None, "en", "zh"):
            raise ConfigError(f"PersonaConfig.language={self.language!r} is not supported. Use 'en' or 'zh'.")
        object.__setattr__(self, "rules", tuple(self.rules))  # accept a list
        built_in, mine = (
            in_language(_BUILT_IN, self.language),
            (self.name, self.description, self.style, self.rules),
        )
        for key, theirs in [pair for texts in _BUILT_IN.values() for pair in texts.items()]:
            for field_, text, own in zip(fields(self), theirs, built_in[key], strict=False):
                # Translate fields with their default value, and all fields of an unchanged built-in persona.
                if text and getattr(self, field_.name) == text and (key == "assistant" or mine == theirs):
                    object.__setattr__(self, field_.name, own)

    @classmethod
    def named(cls, name: str, language: str | None = None) -> PersonaConfig:
        """Return a built-in persona; see `personas`.

        Args:
            name: ``assistant``, ``coder``, ``researcher``, ``writer`` or ``reviewer``.
            language: As for `PersonaConfig`.

        Raises:
            ConfigError: The name or language is unknown.
        """
        ready = personas(language)
        return ready[checked_choice("persona", name, ready)]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PersonaConfig:
        """Create a persona from a dict.

        Raises:
            ConfigError: A key is unknown, or a value is invalid.
        """
        known = [field.name for field in fields(cls)]
        if unknown := [str(key) for key in data if key not in known]:
            raise ConfigError(f"unknown persona field {unknown[0]!r}. Use: {', '.join(known)}.")
        rules = data.get("rules", ())
        return cls(**{**data, "rules": tuple(rules) if isinstance(rules, list) else rules})

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PersonaConfig:
        """Read a persona from a ``.toml`` or ``.json`` file.

        Raises:
            ConfigError: The file cannot be read (TOML needs Python 3.11) or is invalid; the message has its
                path.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"Persona file {path} cannot be read: {error.strerror}.") from error
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"Persona file {path} is larger than {MAX_FILE_BYTES:,} bytes.")
        try:
            persona = _parse_file(data, path.suffix.lower())
            if not isinstance(persona, Mapping):
                raise ConfigError("must be an object with name and description")
            return cls.from_dict(persona)
        except (ValueError, RecursionError) as error:  # ConfigError is also a ValueError
            raise ConfigError(f"Persona file {path} is invalid: {error}") from error

    def text(self) -> str:
        """Return style and rules as they appear in the prompt."""
        rules = "\n".join(f"- {rule.strip()}" for rule in self.rules)
        return "\n".join(part for part in (self.style.strip(), rules) if part)


def _parse_file(data: bytes, suffix: str) -> Any:
    if suffix == ".json":
        return read_json(data)
    if suffix != ".toml":
        raise ConfigError("the file name must end with .toml or .json.")
    if importlib.util.find_spec("tomllib") is None:
        raise ConfigError("TOML needs Python 3.11. Use JSON instead.")
    return importlib.import_module("tomllib").loads(data.decode("utf-8"))


def personas(language: str | None = None) -> dict[str, PersonaConfig]:
    """Return the built-in personas, by name.

    Args:
        language: As for `PersonaConfig`.

    Raises:
        ConfigError: The language is not supported.
    """
    return {key: PersonaConfig(*texts, language) for key, texts in in_language(_BUILT_IN, language).items()}
