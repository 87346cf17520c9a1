"""One small pool of PostgreSQL connections per process, for DBOS, this package's tables and the sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pure_agent_loop.durable.listener import WakeupListener
from pure_agent_loop.sessions.stores.postgres import PostgresStore
from pure_agent_loop.sessions.stores.postgres_pool import ConnectionPool, StoreOwner, connect, import_psycopg
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import module_of_extra

if TYPE_CHECKING:
    from pure_agent_loop.sessions.stores.postgres_pool import Connection, Execute

POOL = 2  # connections; DBOS's migration needs two at the same time
_WAIT_SECONDS = 30.0  # timeout in seconds to get a connection from the pool
_BEATS_PER_LEASE = 3


class SharedConnections:
    """Connection pool. May be used from several threads.

    Args:
        url: URL of the database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine: Any = None

    @property
    def engine(self) -> Any:
        """SQLAlchemy engine for DBOS.

        Raises:
            MissingExtraError: The extra is not installed.
        """
        if self._engine is None:
            psycopg = import_psycopg()
            sqlalchemy = module_of_extra("sqlalchemy", notice("library.feature_durable"), "durable")
            engine = sqlalchemy.create_engine(
                sqlalchemy.make_url(self._url).set(drivername="postgresql+psycopg"),
                creator=partial(_connect, self._url),
                pool_size=POOL,
                max_overflow=0,
                pool_timeout=_WAIT_SECONDS,
            )

            def check(connection: Any, *_: Any) -> None:
                """Make the pool replace a connection that the server has closed; this takes no round trip."""
                try:
                    connection.pgconn.consume_input()  # reads the server's last message
                    connection.pgconn.consume_input()  # reads the end of the stream
                except psycopg.OperationalError as error:
                    raise sqlalchemy.exc.DisconnectionError(str(error)) from error

            sqlalchemy.event.listen(engine, "checkout", check)
            self._engine = engine
        return self._engine

    @contextlib.contextmanager
    def lend(self) -> Iterator[Connection]:
        """Yield a connection in autocommit mode. The block must not need a second connection.

        Raises:
            psycopg.Error: The database is unavailable.
        """
        import sqlalchemy

        try:
            lent = self.engine.raw_connection()
        except sqlalchemy.exc.TimeoutError as error:
            raise import_psycopg().OperationalError(str(error)) from error
        connection = lent.driver_connection
        try:
            connection.autocommit = True
            yield connection
        finally:
            # Discard a connection that is broken or still inside a transaction.
            if connection.closed or connection.info.transaction_status:
                lent.invalidate()
            else:
                connection.autocommit = False  # restore the mode that DBOS expects
            lent.close()

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()

    def forget(self) -> None:
        """Use new connections in a forked child."""
        if self._engine is not None:
            self._engine.dispose(close=False)


class SharedStore(PostgresStore):
    """Session store that uses the connections of a `Database`.

    Args:
        owner: Name of the writer; None for a generated name.
        lease: Seconds without a heartbeat after which a writer may be replaced.
    """

    def __init__(
        self,
        url: str,
        connections: SharedConnections,
        listener: WakeupListener,
        *,
        owner: str | None,
        lease: float,
    ) -> None:
        self._connections, self._listener = connections, listener
        super().__init__(url, owner=owner, lease=lease)

    def _new_pool(self, url: str, schema: str, patience: float, connections: int) -> ConnectionPool:
        return _SharedPool(self._connections, url, schema, patience, connections)

    def _new_owner(self, name: str | None, lease: float) -> StoreOwner:
        return _SharedOwner(self._listener, self._pool, name, lease)


class _SharedPool(ConnectionPool):
    def __init__(self, shared: SharedConnections, *options: Any) -> None:
        super().__init__(*options)
        self._shared = shared

    def close(self) -> None:
        """Do nothing: `Database` closes the connections."""

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        with self._shared.lend() as connection:
            yield connection


class _SharedOwner(StoreOwner):
    """Writer of a session store, with its lock and heartbeat on the listener's connection."""

    def __init__(self, listener: WakeupListener, *options: Any) -> None:
        self._listener = listener
        super().__init__(*options)

    def stop(self) -> None:
        if self._number is not None:
            self._listener.end(self._renewed)
            # If this fails, the connection is lost and so is its lock.
            with contextlib.suppress(import_psycopg().Error, OSError):
                self._listener.execute(
                    "SELECT pg_advisory_unlock(%s, %s)", (self._pool.lock_space, self._number)
                )
        self._number = None

    def _start(self) -> None:
        with contextlib.suppress(import_psycopg().Error, OSError):  # if this fails, the listener tries again
            self._listener.keep(self._renewed)

    def _renewed(self, execute: Execute) -> float:
        self._renew(lambda statement, values=(): execute(self._pool.sql(statement), values))
        return self._lease / _BEATS_PER_LEASE


def _connect(url: str) -> Connection:
    connection = connect(url)
    connection.autocommit = False
    return connection
