"""Which session a command is about, and clear words if there is no such one."""

from __future__ import annotations

import argparse

from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.sessions import SessionInfo, SessionStore, check_session_id
from pure_agent_loop.sessions.export import moment

NEWEST = 3


def session_for_run(options: argparse.Namespace, store: SessionStore) -> str | None:
    """The session that ``run`` is to be kept in; None for none.

    Args:
        options: The parsed command line.
        store: Where sessions are kept.

    Raises:
        ConfigError: The id cannot be one, or there is none to go on with.
        SessionNotFoundError: There is no such session.
    """
    if options.session is not None:
        return checked(options.session)
    if options.resume is not None:
        return existing(options.resume, store)
    if not options.go_on:
        return None
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
