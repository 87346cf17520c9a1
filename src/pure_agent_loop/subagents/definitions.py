"""What a subagent is, before it has anything to do: in code, or in a Markdown file with a head."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.runs.checks import check_client
from pure_agent_loop.runs.handoff import Member
from pure_agent_loop.runs.settings import form_of
from pure_agent_loop.subagents.words import CHINESE, ENGLISH
from pure_agent_loop.support.front_matter import FrontMatterError, split_front_matter
from pure_agent_loop.support.language import default_language
from pure_agent_loop.tool import Tool

WorkspaceMode = Literal["shared", "read-only", "scratch", "worktree"]
WORKSPACE_MODES: tuple[str, ...] = ("shared", "read-only", "scratch", "worktree")
DEFAULT_RESULT_CHARS = 8_000
MOST_FILE_BYTES = 100_000
DEFINITIONS_FOLDER = ".agents/agents"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_FIELDS = {
    "name",
    "description",
    "tools",
    "model",
    "workspace",
    "background",
    "max_result_chars",
    "permission_mode",
    "max_turns",
    "max_tokens",
}
Text = str | Mapping[str, str]


@dataclass(frozen=True)
class AgentDefinition:
    """A kind of subagent.

    Args:
        name: What the model calls it: lower-case letters, digits, ``_`` and ``-``.
        description: When to use it, for the model that gives tasks; a text, or one by language.
        prompt: Its system prompt; a text, or one by language.
        tools: ``"inherit"`` for all tools of the agent that gives the task; or names of some of them; or
            `Tool` objects of its own, which its rules and its mode still judge.
        model: Another model at the same server; None for the same one.
        llm: Another client; None for the same one.
        limits: Its limits, cut to what is left of those above; None for the limits above.
        workspace: ``shared``; ``read-only``: only tools that change nothing; ``scratch``: a copy that is
            thrown away; ``worktree``: a git checkout of its own, kept if it has changes.
        background: Its tasks go on beside the agent that gives them, unless the call says otherwise.
        max_result_chars: A longer answer is cut; the whole of it stays readable.
        permission_mode: A narrower mode than that above; a wider one changes nothing.
        agent: An agent of its own making, with its own model, tools and words; see `Agent.as_tool`.
        output_type: What its answer must be, as `Agent` takes it; the agent above reads it as JSON.

    Raises:
        ConfigError: A value cannot be used.
    """

    name: str
    description: Text
    prompt: Text
    tools: Literal["inherit"] | Sequence[str | Tool] = "inherit"
    model: str | None = None
    llm: ChatModel | None = None
    limits: LoopLimits | None = None
    workspace: WorkspaceMode = "shared"
    background: bool = False
    max_result_chars: int = DEFAULT_RESULT_CHARS
    permission_mode: str | None = None
    agent: Member | None = None
    output_type: Any = None

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"AgentDefinition.name={name!r:.80} must be 1 to 32 lower-case letters, digits, _ and -, "
                "a letter first."
            )
        for field in ("description", "prompt") if self.agent is None else ("description",):
            _check_text(f"AgentDefinition {self.name!r}: {field}", getattr(self, field))
        self._check_tools()
        form_of(self.output_type)  # what has no form is refused here
        self._check_one_of("workspace", WORKSPACE_MODES)
        if self.permission_mode is not None:
            self._check_one_of("permission_mode", PERMISSION_MODES)
        most: object = self.max_result_chars
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ConfigError(f"AgentDefinition {self.name!r}: max_result_chars={most!r} must be positive.")
        if self.llm is not None:
            check_client(self.llm)
            if self.model is not None:
                raise ConfigError(f"AgentDefinition {self.name!r}: give model or llm, not both.")

    def _check_tools(self) -> None:
        given: Any = self.tools
        if given == "inherit":
            return
        listed = not isinstance(given, (str, Mapping)) and hasattr(given, "__iter__")
        tools = tuple(given) if listed else (None,)
        if not all(isinstance(each, (str, Tool)) for each in tools):
            raise ConfigError(
                f"AgentDefinition {self.name!r}: tools must be 'inherit', or a list of names or Tools; "
                f"it is {given!r:.80}."
            )
        object.__setattr__(self, "tools", tools)

    def _check_one_of(self, field: str, known: Sequence[str]) -> None:
        value = getattr(self, field)
        if value not in known:
            raise ConfigError(
                f"AgentDefinition {self.name!r}: {field}={value!r:.80} is not known. "
                f"Use one of: {', '.join(known)}."
            )

    @property
    def needs_folder(self) -> bool:
        """True if its tools must be made for a folder of its own."""
        return self.workspace in ("scratch", "worktree")


def _check_text(what: str, value: object) -> None:
    texts = list(value.values()) if isinstance(value, Mapping) else [value]
    if not texts or not all(isinstance(each, str) and each.strip() for each in texts):
        raise ConfigError(f"{what} must be a text, or texts by language; it is {value!r:.80}.")


def in_language(text: Text, language: str | None) -> str:
    """A text, or that of a language; English, or whatever there is, where it lacks."""
    if isinstance(text, str):
        return text
    return text.get(language or default_language()) or text.get("en") or next(iter(text.values()))


EXPLORE = AgentDefinition(
    name="explore",
    description={"en": ENGLISH.explore, "zh": CHINESE.explore},
    prompt={"en": ENGLISH.explore_prompt, "zh": CHINESE.explore_prompt},
    workspace="read-only",
)
VERIFY = AgentDefinition(
    name="verify",
    description={"en": ENGLISH.verify, "zh": CHINESE.verify},
    prompt={"en": ENGLISH.verify_prompt, "zh": CHINESE.verify_prompt},
    workspace="read-only",
)


def load_definitions(
    folder: str | os.PathLike[str] = DEFINITIONS_FOLDER, *, trusted: Callable[[bytes], bool] | None = None
) -> list[AgentDefinition]:
    """Read definitions from the Markdown files of a folder, in the order of their names.

    The head of a file has ``name`` and ``description``, and may have ``tools`` (names), ``model``,
    ``workspace``, ``background``, ``max_result_chars``, ``permission_mode``, ``max_turns`` and
    ``max_tokens``; what follows is the prompt.

    Args:
        folder: Where they are; one that does not exist holds none.
        trusted: Says of the bytes of each file whether it may be used; None for all.

    Raises:
        ConfigError: A file cannot be read; the message names it.
    """
    found = [_read(path, trusted) for path in sorted(Path(folder).expanduser().glob("*.md"))]
    names = [each.name for each in found]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(f"Two files in {folder} define the agent {double!r}. Rename one.")
    return found


def read_definition(path: str | os.PathLike[str]) -> AgentDefinition:
    """Read one definition; see `load_definitions`.

    Raises:
        ConfigError: The file cannot be read, or says something that cannot be used.
    """
    return _read(Path(path), None)


def _read(path: Path, trusted: Callable[[bytes], bool] | None) -> AgentDefinition:
    try:
        head, prompt = split_front_matter(_text(path, trusted))
        return _from_head(dict(head), prompt)
    except (OSError, UnicodeDecodeError, FrontMatterError, ConfigError) as error:
        raise ConfigError(f"The agent in {path} cannot be used: {error}") from error


def _text(path: Path, trusted: Callable[[bytes], bool] | None) -> str:
    if path.exists() and not path.is_file():
        raise ConfigError("it is no file.")
    with path.open("rb") as file:
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise ConfigError(f"it is longer than {MOST_FILE_BYTES} bytes.")
    if trusted is not None and not trusted(data):
        raise ConfigError("it has changed since it was trusted.")
    return data.decode("utf-8")


def _from_head(head: dict[str, Any], prompt: str) -> AgentDefinition:
    unknown = sorted(set(head) - _FIELDS)
    if unknown:
        raise ConfigError(f"the field {unknown[0]!r} is not known. There are: {', '.join(sorted(_FIELDS))}.")
    numbers: dict[str, Any] = {
        name: _number(name, head.pop(name)) for name in ("max_turns", "max_tokens") if name in head
    }
    if numbers:
        head["limits"] = LoopLimits(**numbers)
    if "max_result_chars" in head:
        head["max_result_chars"] = _number("max_result_chars", head["max_result_chars"])
    if isinstance(head.get("background", False), str):
        raise ConfigError(f"background={head['background']!r} must be true or false.")
    tools = head.get("tools", "inherit")
    if isinstance(tools, str) and tools != "inherit":
        head["tools"] = [name.strip() for name in tools.split(",") if name.strip()]
    missing = [name for name in ("name", "description") if not head.get(name)]
    if missing:
        raise ConfigError(f"the field {missing[0]!r} is missing.")
    return AgentDefinition(prompt=prompt, **head)


def _number(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r} must be a whole number.") from None
