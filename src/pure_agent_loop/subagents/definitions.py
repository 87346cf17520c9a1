"""Subagent definitions, written in code or as Markdown files with front matter."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.runs.handoff import HandoffTarget
from pure_agent_loop.runs.settings import check_client, form_of
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.front_matter import FrontMatterError, split_front_matter
from pure_agent_loop.support.language import checked_choice, default_language, in_each_language
from pure_agent_loop.tool import Tool

WorkspaceMode = Literal["shared", "read-only", "scratch", "worktree"]
WORKSPACE_MODES: tuple[str, ...] = ("shared", "read-only", "scratch", "worktree")
DEFAULT_RESULT_CHARS = 8_000
MAX_FILE_BYTES = 100_000
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
    """Definition of a subagent.

    Args:
        name: Name for the model: lower-case letters, digits, ``_`` and ``-``.
        description: When the parent's model should use the subagent; a string, or a dict of strings by
            language.
        prompt: System prompt; a string, or a dict of strings by language. With `agent`, it may be empty: the
            agent keeps its own.
        tools: ``"inherit"`` for all tools of the parent; or a list of names of the parent's tools, of
            additional `Tool` objects, or of both. The parent's rules and permission mode apply to all these
            tools.
        model: A different model on the same server; None for the parent's model.
        llm: A different client; None for the parent's client.
        limits: Limits, capped at those of `agent` and at what the parent has left; None for the agent's
            limits, or the parent's if there is no agent.
        workspace: ``shared``; ``read-only``: only read-only tools; ``scratch``: a copy, deleted
            afterwards; ``worktree``: a separate git worktree, kept if it has changes.
        background: True to run tasks in the background, unless the call requests otherwise.
        max_result_chars: Length to which longer answers are truncated; the full answer remains readable in a
            file.
        permission_mode: A narrower mode than the parent's; a wider mode has no effect.
        agent: A complete agent, which works with all its own options; see `Agent.as_tool`. It
            cannot be combined with `tools`, `output_type` or a separate folder.
        output_type: Type of the subagent's answer, as for `Agent`; the parent reads the answer as JSON.

    Raises:
        ConfigError: A value is invalid.
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
    agent: HandoffTarget | None = None
    output_type: Any = None

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"AgentDefinition.name={name!r:.80} must be 1 to 32 lower-case letters, digits, _ and -, "
                "starting with a letter."
            )
        for field in ("description", "prompt") if self.agent is None or self.prompt else ("description",):
            _check_text(f"AgentDefinition {self.name!r}: {field}", getattr(self, field))
        self._check_tools()
        self._check_agent()
        form_of(self.output_type)  # rejects a type that JSON cannot express
        owner = f"AgentDefinition {self.name!r}"
        checked_choice(f"{owner}: workspace", self.workspace, WORKSPACE_MODES)
        if self.permission_mode is not None:
            checked_choice(f"{owner}: permission_mode", self.permission_mode, PERMISSION_MODES)
        max_chars: object = self.max_result_chars
        if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < 1:
            raise ConfigError(
                f"AgentDefinition {self.name!r}: max_result_chars={max_chars!r} must be positive."
            )
        if self.llm is not None:
            check_client(self.llm)
            if self.model is not None:
                raise ConfigError(f"AgentDefinition {self.name!r}: give model or llm, not both.")

    def _check_tools(self) -> None:
        value: Any = self.tools
        if value == "inherit":
            return
        is_list = not isinstance(value, (str, Mapping)) and hasattr(value, "__iter__")
        tools = tuple(value) if is_list else (None,)
        if not all(isinstance(tool, (str, Tool)) for tool in tools):
            raise ConfigError(
                f"AgentDefinition {self.name!r}: tools={value!r:.80} must be 'inherit', or a list of names "
                "or Tools."
            )
        object.__setattr__(self, "tools", tools)

    def _check_agent(self) -> None:
        """Reject an invalid agent, and options that conflict with those of the agent."""
        if self.agent is None:
            return
        owner = f"AgentDefinition {self.name!r}"
        require(hasattr(self.agent, "_kit"), f"{owner}: agent", self.agent, "an Agent")
        if self.needs_folder:
            raise ConfigError(
                f"{owner}: workspace={self.workspace!r} conflicts with agent, whose tools have their own "
                "folder. Use 'shared' or 'read-only', or leave agent out and pass the tools."
            )
        for option, default in (("tools", "inherit"), ("output_type", None)):
            if getattr(self, option) != default:
                raise ConfigError(
                    f"{owner}: {option} conflicts with agent, which has its own. "
                    f"Pass agent=agent.clone({option}=...) instead."
                )

    @property
    def needs_folder(self) -> bool:
        """True if the subagent works in a separate folder, for which its tools are created."""
        return self.workspace in ("scratch", "worktree")


def _check_text(field: str, value: object) -> None:
    texts = list(value.values()) if isinstance(value, Mapping) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ConfigError(f"{field}={value!r:.80} must be a string, or a dict of strings by language.")


def in_language(text: Text, language: str | None) -> str:
    """Return the text in a language, or else in English, or else in any language."""
    if isinstance(text, str):
        return text
    return text.get(language or default_language()) or text.get("en") or next(iter(text.values()))


EXPLORE = AgentDefinition(
    name="explore",
    description=in_each_language("subagents.explore"),
    prompt=in_each_language("subagents.explore_prompt"),
    workspace="read-only",
)
VERIFY = AgentDefinition(
    name="verify",
    description=in_each_language("subagents.verify"),
    prompt=in_each_language("subagents.verify_prompt"),
    workspace="read-only",
)


def load_definitions(
    folder: str | os.PathLike[str] = DEFINITIONS_FOLDER,
    *,
    trusted: Callable[[bytes], bool] | None = None,
    problems: list[str] | None = None,
) -> list[AgentDefinition]:
    """Read definitions from the Markdown files of a folder, sorted by file name.

    The front matter of a file has ``name`` and ``description``, and may have ``tools`` (names), ``model``,
    ``workspace``, ``background``, ``max_result_chars``, ``permission_mode``, ``max_turns`` and
    ``max_tokens``. The rest of a file is the prompt.

    Args:
        folder: The folder; if missing, there are no definitions.
        trusted: Function that returns True for the bytes of a file that may be used; None to trust all files.
        problems: List that receives the errors of invalid files, which are then skipped; None to raise the
            errors.

    Raises:
        ConfigError: A file is invalid or cannot be read; the message has its path.
        MissingExtraError: The extra ``[skills]`` is not installed.
    """
    checked_function("trusted", trusted, "content")
    by_name: dict[str, AgentDefinition] = {}
    for path in sorted(Path(folder).expanduser().glob("*.md")):
        try:
            definition = _read(path, trusted)
            if by_name.setdefault(definition.name, definition) is not definition:
                text = f"Agent {definition.name!r} is defined by two files in {folder}. Rename one."
                raise ConfigError(text)  # noqa: TRY301 - a problem of this file
        except (ConfigError, MissingExtraError) as error:  # noqa: PERF203 - a problem per file
            if problems is None:
                raise
            problems.append(str(error))
    return list(by_name.values())


def read_definition(path: str | os.PathLike[str]) -> AgentDefinition:
    """Read one definition; see `load_definitions`.

    Raises:
        ConfigError: The file is invalid or cannot be read.
    """
    return _read(Path(path), None)


def _read(path: Path, trusted: Callable[[bytes], bool] | None) -> AgentDefinition:
    try:
        fields, prompt, _ = split_front_matter(_text(path, trusted))
        return _from_front_matter(dict(fields), prompt)
    except (OSError, UnicodeDecodeError, FrontMatterError, ConfigError) as error:
        raise ConfigError(f"Agent file {path}: {error}") from error


def _text(path: Path, trusted: Callable[[bytes], bool] | None) -> str:
    if path.exists() and not path.is_file():
        raise ConfigError("not a file.")
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"larger than {MAX_FILE_BYTES} bytes.")
    if trusted is not None and not trusted(data):
        raise ConfigError("changed since it was trusted.")
    return data.decode("utf-8")


def _from_front_matter(front_matter: dict[str, Any], prompt: str) -> AgentDefinition:
    unknown = sorted(set(front_matter) - _FIELDS)
    if unknown:
        raise ConfigError(f"unknown field {unknown[0]!r}. Use one of: {', '.join(sorted(_FIELDS))}.")
    numbers: dict[str, Any] = {
        name: _to_int(name, front_matter.pop(name))
        for name in ("max_turns", "max_tokens")
        if name in front_matter
    }
    if numbers:
        front_matter["limits"] = LoopLimits(**numbers)
    if "max_result_chars" in front_matter:
        front_matter["max_result_chars"] = _to_int("max_result_chars", front_matter["max_result_chars"])
    if isinstance(front_matter.get("background", False), str):
        raise ConfigError(f"background={front_matter['background']!r} must be true or false.")
    tools = front_matter.get("tools", "inherit")
    if isinstance(tools, str) and tools != "inherit":
        front_matter["tools"] = [name.strip() for name in tools.split(",") if name.strip()]
    missing = [name for name in ("name", "description") if not front_matter.get(name)]
    if missing:
        raise ConfigError(f"field {missing[0]!r} is missing.")
    return AgentDefinition(prompt=prompt, **front_matter)


def _to_int(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r} must be a whole number.") from None
