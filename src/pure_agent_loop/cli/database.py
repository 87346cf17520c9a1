"""Open the sessions for a command: the files on this machine, or the database that ``--database`` names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pure_agent_loop.sessions import (
    SessionStore,
    default_store,
)
from pure_agent_loop.support.variables import DATABASE_VARIABLE

if TYPE_CHECKING:
    from pure_agent_loop.durable import Engine


@contextmanager
def store_for(database: str | None) -> Iterator[SessionStore]:
    """Open the session store of a command.

    Args:
        database: The option ``--database``.

    Raises:
        ConfigError: The URL is invalid.
        MissingExtraError: The extra for the database is missing.
    """
    engine = open_engine(database)
    if engine is None:
        yield default_store()
    else:
        with closing(engine):
            yield engine.sessions


def at_database(database: str | None) -> str:
    """Return the ``--database`` option for a suggested command, without the password."""
    if database is None:
        return ""
    from pure_agent_loop.durable import hide_password

    return f" --database {shlex.quote(hide_password(database))}"


def database_of(option: str | None) -> str | None:
    """Return the URL of ``--database``, or else of ``PAL_DATABASE``; None for the files on this machine."""
    return option or os.environ.get(DATABASE_VARIABLE) or None


def open_engine(option: str | None) -> Engine | None:
    """Open the engine of a database; return None for the files on this machine."""
    database = database_of(option)
    if database is None:
        return None
    from pure_agent_loop.durable import Engine

    return Engine(database)
