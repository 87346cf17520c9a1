"""Describe a conversation's background commands to the person: their state and newest output."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.secrets.redaction import redactor_for
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.toolbox import BackgroundCommand

MAX_LINES = 30  # lines of the newest output


def background_row(command: BackgroundCommand) -> str:
    """Return a command's number, state and command line."""
    if command.finished is None:
        start = datetime.fromtimestamp(command.started).astimezone()
        state = user_text("chat.background_since", time=f"{start:%H:%M}")
    elif command.must_end.is_set():
        state = user_text("screen.background_end")
    else:
        state = user_text("screen.exit_code", code=command.finished.exit_code)
    return f"{command.number}  {state}  {one_line(command.command)}"


def numbered_command(commands: Iterable[BackgroundCommand], number: str) -> BackgroundCommand:
    """Return the command with a number.

    Raises:
        ConfigError: No command has this number.
    """
    for command in commands:
        if str(command.number) == number:
            return command
    raise ConfigError(user_text("chat.background_unknown", number=one_line(number, 20)))


def newest_output(command: BackgroundCommand, client: Any) -> str:
    """Return the newest lines of a command's output, with secrets redacted as in a run."""
    redactor = redactor_for(True, client, {})
    text = command.newest() if redactor is None else redactor.redact(command.newest())
    return "\n".join(text.rstrip("\n").split("\n")[-MAX_LINES:]) or user_text("screen.no_output")
