"""Which session a command is about, and clear words if there is no such one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.runs.run import Run
from pure_agent_loop.sessions import SessionInfo, SessionStore, check_session_id, default_store
from pure_agent_loop.sessions.export import moment

if TYPE_CHECKING:
    from pure_agent_loop.durable import Engine

NEWEST = 3


class Place:
    """Where ``run`` is kept.

    Args:
        session_id: The session; None for nowhere.
        store: The place of the session; None for the usual one.
        engine: The durable runs of that place, if it has any.
    """

    def __init__(
        self, session_id: str | None = None, store: SessionStore | None = None, engine: Engine | None = None
    ) -> None:
        self.session_id = session_id
        self._store, self._engine = store, engine

    def prepare(self, agent: Agent, task: str | None, token: CancelToken) -> Run:
        """A run there, which knows what came in meanwhile."""
        inbox = Inbox()
        run = agent.prepare(
            task, cancel_token=token, session_id=self.session_id, sessions=self._store, inbox=inbox
        )
        if self.session_id is not None and self._engine is not None:
            self._engine.bring_notices(self.session_id, inbox, run.prompts)
        return run

    def close(self) -> None:
        """Give the connections back."""
        if self._engine is not None:
            self._engine.close()


def place_for_run(options: argparse.Namespace) -> Place:
    """Where ``run`` is to be kept.

    Args:
        options: The parsed command line.

    Raises:
        ConfigError: The id cannot be one, there is none to go on with, or the address is none.
        MissingExtraError: The extra for that kind of database is missing.
        SessionNotFoundError: There is no such session.
    """
    if options.session is None and options.resume is None and not options.go_on:
        if options.database is not None:
            raise ConfigError(
                "--database says where a session is. Say which: --session ID, --resume ID or --continue."
            )
        return Place()
    if options.explain:
        raise ConfigError(
            "--explain shows the first request of a new run. Leave out --session, or --explain."
        )
    with ExitStack() as undo:
        engine = _open_engine(options.database)
        if engine is not None:
            undo.callback(engine.close)
        store = default_store() if engine is None else engine.sessions
        place = Place(_session_id(options, store), store, engine)
        undo.pop_all()
        return place


@contextmanager
def store_for(database: str | None) -> Iterator[SessionStore]:
    """Where the sessions are that a command is about.

    Args:
        database: The option ``--database``.

    Raises:
        ConfigError: The address is none.
        MissingExtraError: The extra for that kind of database is missing.
    """
    engine = _open_engine(database)
    if engine is None:
        yield default_store()
    else:
        with closing(engine):
            yield engine.sessions


def to_resume(session_id: str, database: str | None) -> str:
    """What has to be typed after ``pal run`` to go on in a session; no password is in it."""
    return f"--resume {session_id}{at_database(database)}"


def at_database(database: str | None) -> str:
    """The option ``--database`` again, for a command that is proposed; no password is in it.

    Args:
        database: What was given; None if nothing was.
    """
    if database is None:
        return ""
    from pure_agent_loop.durable.database import hidden

    return f" --database {shlex.quote(hidden(database))}"


def _open_engine(database: str | None) -> Engine | None:
    if database is None:
        return None
    from pure_agent_loop.durable import Engine

    return Engine(database)


def _session_id(options: argparse.Namespace, store: SessionStore) -> str:
    if options.session is not None:
        return checked(options.session)
    if options.resume is not None:
        return existing(options.resume, store)
    found = store.list()
    if not found:
        raise ConfigError('There is no session to go on with. Begin one: pal run --session NAME "your task"')
    return found[0].id


def existing(session_id: str, store: SessionStore) -> str:
    """The id, if there is such a session.

    Raises:
        ConfigError: The id cannot be one.
        SessionNotFoundError: There is none; the newest are named.
    """
    if store.exists(checked(session_id)):
        return session_id
    newest = ", ".join(_named(info) for info in store.list()[:NEWEST])
    there = f"The newest: {newest}." if newest else "There are none."
    raise SessionNotFoundError(f"There is no session {session_id!r}. {there}")


def checked(session_id: str) -> str:
    """The id, if it can be one.

    Raises:
        ConfigError: It cannot.
    """
    try:
        return check_session_id(session_id)
    except ConfigError as error:
        reason = str(error).partition("; new_session_id")[0].rstrip(".")
        raise ConfigError(f"{reason.replace('session_id=', '', 1)}.") from None


def _named(info: SessionInfo) -> str:
    return f"{info.id} ({moment(info.updated)})"
