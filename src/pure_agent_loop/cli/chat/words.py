"""Names of the commands and keys of the conversation; the catalogue has the descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pure_agent_loop.support.language import LANGUAGES, in_language, message_in, table, user_text

Words = Callable[..., str]
KEYS = (
    "Enter",
    "Alt+Enter",
    "Ctrl-J",
    "Esc, Ctrl-C",
    "Esc Esc",
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
COMMANDS = [  # the most used commands first
    "help",
    "status",
    "model",
    "mode",
    "new",
    "sessions",
    "undo",
    "context",
    "cost",
    "compact",
    "diff",
    "permissions",
    "mcp",
    "tools",
    "rewind",
    "time",
    "fork",
    "redo",
    "copy",
    "editor",
    "memory",
    "skills",
    "agents",
    "tasks",
    "background",
    "export",
    "doctor",
    "theme",
    "unfold",
    "key",
    "keys",
    "exit",
]
GROUPS = {  # for `/help`, which lists /unfold and /editor with the keys
    "session": ["new", "sessions", "context", "cost", "compact", "fork", "rewind", "export", "exit"],
    "model": ["model", "mode", "permissions", "tools", "mcp", "skills", "agents", "tasks", "background"],
    "files": ["diff", "undo", "redo", "time", "memory", "copy"],
    "more": ["help", "status", "theme", "key", "keys", "doctor"],
}
# Commands from other programs, answered with a hint.
HABITS = ["add", "ask", "web", "run", "drop", "init", "config", "bug", "hooks", "todos", "review"]
SAME: Mapping[str, str] = {
    "quit": "exit",
    "resume": "sessions",
    "clear": "new",
    "reset": "new",
    "tokens": "context",
    "checkpoint": "rewind",
    "edit": "editor",
    "vim": "keys",
    "usage": "cost",
    "rules": "permissions",
    "todo": "todos",
    "settings": "config",
    "feedback": "bug",
    "report": "bug",
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


def words_in(language: str | None) -> Words:
    """Return a function that formats a message in the section ``screen`` by its name.

    Args:
        language: ``"en"`` or ``"zh"``; None for the default.

    Raises:
        ConfigError: The language is unknown.
    """
    return partial(_word, in_language({name: name for name in LANGUAGES}, language))


def _word(language: str, name: str, /, **values: object) -> str:
    """Return a message; for a count of one, the message ``one_NAME`` if it exists."""
    if str(values.get("count")) == "1" and f"one_{name}" in table("screen", language):
        name = f"one_{name}"
    return message_in(language, f"screen.{name}", **values)


Groups = Mapping[str, Sequence[tuple[str, str]]]  # title -> names with descriptions


def keys_help() -> Groups:
    """Return the keys with their descriptions."""
    return {user_text("chat.group_keys"): [(key, user_text(f"chat.key_{key}")) for key in KEYS]}


def commands_help(own: Sequence[tuple[str, str]]) -> Groups:
    """Return the commands by group with their descriptions.

    Args:
        own: Additional commands from the user, the project and MCP servers.
    """
    groups = {
        user_text(f"chat.group_{group}"): [(f"/{name}", user_text(f"chat.command_{name}")) for name in names]
        for group, names in GROUPS.items()
    }
    return {**groups, user_text("chat.group_own"): own} if own else groups
