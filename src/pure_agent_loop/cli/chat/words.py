"""Commands and keys of the conversation, by name; the catalogue describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pure_agent_loop.support.language import LANGUAGES, in_language, message_in, user_text

Words = Callable[..., str]


def words_in(language: str | None) -> Words:
    """Return a function that formats a message of the section ``screen`` by its name.

    Args:
        language: ``"en"`` or ``"zh"``; None for the default.

    Raises:
        ConfigError: The language is unknown.
    """
    return partial(_word, in_language({name: name for name in LANGUAGES}, language))


def _word(language: str, name: str, /, **values: object) -> str:
    return message_in(language, f"screen.{name}", **values)


KEYS = (
    "Enter",
    "Alt+Enter",
    "Ctrl-J",
    "Esc, Ctrl-C",
    "Ctrl-D",
    "Ctrl-O",
    "Ctrl-B",
    "Shift+Tab",
    "Ctrl-R",
    "Ctrl-V",
    "Ctrl-X Ctrl-E",
    "Tab",
    "@file",
    "!command",
    "#note",
)
COMMANDS = [
    "help",
    "model",
    "mcp",
    "mode",
    "permissions",
    "tools",
    "sessions",
    "new",
    "fork",
    "rewind",
    "copy",
    "editor",
    "undo",
    "redo",
    "diff",
    "compact",
    "context",
    "cost",
    "memory",
    "skills",
    "agents",
    "tasks",
    "export",
    "theme",
    "doctor",
    "unfold",
    "keys",
    "exit",
]
HABITS = ["add", "ask", "web", "run", "drop", "init"]  # commands of other programs, answered by a hint
SAME: Mapping[str, str] = {
    "quit": "exit",
    "resume": "sessions",
    "clear": "new",
    "reset": "new",
    "tokens": "context",
    "checkpoint": "rewind",
    "edit": "editor",
    "usage": "cost",
    "rules": "permissions",
    "read-only": "add",
    "read": "add",
    "ls": "add",
    "architect": "ask",
    "plan": "ask",
    "code": "ask",
    "test": "run",
    "git": "run",
    "lint": "run",
    "commit": "run",
    "bash": "run",
    "shell": "run",
}


def keys_help() -> str:
    """Return the help on keys, as Markdown."""
    return "\n".join(f"- `{key}` {user_text(f'chat.key_{key}')}" for key in KEYS)
