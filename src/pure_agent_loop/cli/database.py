"""Open the sessions for a command: the files on this machine, or the database that ``--database`` names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import SessionStore, default_store
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.variables import DATABASE_VARIABLE

if TYPE_CHECKING:
    from pure_agent_loop.durable import Engine


@contextmanager
def store_for(database: str | None) -> Iterator[SessionStore]:
    """Open the session store for a command that only reads; see `engine_to_read`.

    Args:
        database: The option ``--database``.

    Raises:
        ConfigError: The URL is invalid, or names a file that does not exist.
        MissingExtraError: The extra for the database is missing.
    """
    if database_of(database) is None:
        yield default_store()
    else:
        with engine_to_read(database) as engine:
            yield engine.sessions


@contextmanager
def engine_to_read(option: str | None) -> Iterator[Engine]:
    """Open a database's engine; a named database must exist, so that a mistyped name creates no file.

    Raises:
        ConfigError: The URL is invalid, or names a file that does not exist.
        MissingExtraError: The extra for the database is missing.
    """
    from pure_agent_loop.durable import Engine

    named = database_of(option)
    with closing(Engine(named)) as engine:
        database = engine.database
        if named and database.is_sqlite and not database.path.exists():
            raise ConfigError(notice("cli.no_database", path=database.path))
        yield engine


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
