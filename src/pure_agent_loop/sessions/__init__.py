"""Sessions: records of runs, from which a run can be resumed after a crash.

    store         session store interface, session ids, and shared parts of the stores
    stores/       stores: JSON lines, SQLite, PostgreSQL
    transcript    writes a run to a store, as the run's journal
    key_journal   a run's journal in a mapping, for third-party stores and engines
    run_record    the configuration a run started with
    resume        restores a run from its records
    replay        runs the loop again offline on recorded effects
    story         a session as a readable history; `export` renders it as a document
    fork          starts a session from a point in another session

docs/journal.md describes the format, and how damaged sessions are recovered.
"""

import os
from typing import TYPE_CHECKING, cast

from pure_agent_loop.errors import (
    ConfigError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions.store import (
    BaseLog,
    Loaded,
    SessionInfo,
    SessionLog,
    SessionPlace,
    SessionStore,
    check_session_id,
    check_session_name,
    lock_session,
    new_session_id,
)
from pure_agent_loop.sessions.stores.jsonl import JsonlStore, RepairReport
from pure_agent_loop.sessions.stores.records import Record, Transcript, parse
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.sessions.key_journal import KeyJournal
    from pure_agent_loop.sessions.links import LinkFolder, SharedLink
    from pure_agent_loop.sessions.requests import requests_in
    from pure_agent_loop.sessions.stores.postgres import PostgresStore
    from pure_agent_loop.sessions.stores.sqlite import SqliteStore

__all__ = [
    "BaseLog",
    "JsonlStore",
    "KeyJournal",
    "LinkFolder",
    "Loaded",
    "PostgresStore",
    "Record",
    "RepairReport",
    "SessionError",
    "SessionInfo",
    "SessionLockedError",
    "SessionLog",
    "SessionNotFoundError",
    "SessionPlace",
    "SessionReadError",
    "SessionStore",
    "SessionWriteError",
    "SharedLink",
    "SqliteStore",
    "Transcript",
    "check_session_id",
    "check_session_name",
    "default_store",
    "lock_session",
    "new_session_id",
    "parse",
    "requests_in",
    "store_at",
]

_LATER = {
    "KeyJournal": "key_journal",
    "LinkFolder": "links",
    "PostgresStore": "stores.postgres",
    "SharedLink": "links",
    "SqliteStore": "stores.sqlite",
    "requests_in": "requests",
}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)


def default_store() -> JsonlStore:
    """Return this user's session store: JSON lines files in ``sessions`` in the data folder."""
    return JsonlStore(data_folder() / "sessions")


def store_at(place: SessionPlace | None, option: str = "sessions") -> SessionStore:
    """Return the store for a folder, a store or a `SessionManager`; for None, this user's store.

    Args:
        place: Value passed by the caller.
        option: Name of the option, for the error.

    Raises:
        ConfigError: `place` is none of these.
    """
    if place is None:
        return default_store()
    if isinstance(place, (str, os.PathLike)):
        return JsonlStore(place)
    for store in (place, getattr(place, "store", None)):
        if not isinstance(store, type) and all(
            callable(getattr(store, name, None)) for name in ("open", "read")
        ):
            return cast("SessionStore", store)
    raise ConfigError(
        f"{option}={place!r:.80} cannot store sessions. Pass a folder, a store such as "
        "JsonlStore(folder), or a SessionManager."
    )
