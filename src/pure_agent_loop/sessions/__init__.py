"""Sessions: what happened in runs, kept so that it can be gone on with, whatever happens to the process.

    store         the interface of a store, and the names of sessions
    stores/       where records are kept: JSON lines, SQLite, PostgreSQL
    transcript    writes a run into a store, as its journal
    run_record    what a run was begun with
    resume        from records to a run that goes on
    replay        the loop again, offline, over what was recorded (`replay_journal` hands it out)
    story         what happened, for people; `export` makes documents of it
    fork          a new session that begins as another one did

docs/sessions.md describes the format and what happens after damage.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.errors import (
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadError,
    SessionWriteError,
)
from pure_agent_loop.sessions.store import (
    Loaded,
    SessionInfo,
    SessionLog,
    SessionStore,
    check_session_id,
    new_session_id,
)
from pure_agent_loop.sessions.stores.jsonl import JsonlStore, RepairReport
from pure_agent_loop.sessions.stores.parse import Transcript, parse
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.support.lazy import names_loaded_later
from pure_agent_loop.support.paths import data_folder

if TYPE_CHECKING:
    from pure_agent_loop.sessions.stores.postgres import PostgresStore
    from pure_agent_loop.sessions.stores.sqlite import SqliteStore

__all__ = [
    "JsonlStore",
    "Loaded",
    "PostgresStore",
    "Record",
    "RepairReport",
    "SessionError",
    "SessionInfo",
    "SessionLockedError",
    "SessionLog",
    "SessionNotFoundError",
    "SessionReadError",
    "SessionStore",
    "SessionWriteError",
    "SqliteStore",
    "Transcript",
    "check_session_id",
    "default_store",
    "new_session_id",
    "parse",
]

_LATER = {"PostgresStore": "stores.postgres", "SqliteStore": "stores.sqlite"}


__getattr__, __dir__ = names_loaded_later(__name__, _LATER)


def default_store() -> JsonlStore:
    """The sessions of this user: files of JSON lines in ``sessions`` in the data folder."""
    return JsonlStore(data_folder() / "sessions")
