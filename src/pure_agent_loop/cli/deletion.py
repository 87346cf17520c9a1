"""Delete sessions in a folder or a database, after asking for confirmation."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from pure_agent_loop.cli.database import open_engine
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import default_store
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.terminal import is_terminal


def is_deletion_confirmed(names: Sequence[str], output: CommandOutput) -> bool:
    """Ask at the terminal whether to delete.

    Raises:
        ConfigError: There is no terminal for the question.
    """
    questions = TerminalQuestions.at_terminal(output) if is_terminal(sys.stdin) else None
    if questions is None:
        raise ConfigError(notice("cli.needs_yes"))
    return questions.confirm(user_text("cli.delete_question", sessions=", ".join(names)))


class Deletes(Protocol):
    """Deletion of sessions, in a folder or a database."""

    def delete(self, session_id: str) -> None:
        """Delete a session; in a database, also the session's durable runs."""

    def delete_stray(self, before: float) -> list[str]:
        """Delete the runs that ended before a time and have no session; return their ids."""


class _FileDeletion:
    def __init__(self, *, is_trial: bool) -> None:
        from pure_agent_loop.session import SessionManager

        self._manager, self._is_trial = SessionManager(default_store()), is_trial

    def delete(self, session_id: str) -> None:
        if not self._is_trial:
            self._manager.delete(session_id)

    def delete_stray(self, before: float) -> list[str]:  # noqa: ARG002 - every run there has a session
        return []


@contextmanager
def deletion_for(database: str | None, *, is_trial: bool = False) -> Iterator[Deletes]:
    """Open the object that deletes sessions for a command.

    Args:
        database: The option ``--database``.
        is_trial: True to only check and delete nothing.
    """
    engine = open_engine(database)
    if engine is None:
        yield _FileDeletion(is_trial=is_trial)
    else:
        with closing(engine), engine.deletion(is_trial=is_trial) as deletion:
            yield deletion
