"""Wake-ups: waiting code sleeps until PostgreSQL reports a change, instead of polling.

Each process has one listening connection. A notification carries only a hash of its topic; the code that it
wakes reads the database. A notification may be lost, with the connection or with its sender. Therefore
waiting code also checks the database at long intervals, and once after each new connection. The listening
connection also holds the process's locks and writes its heartbeats.

SQLite has no notifications, so waiting code polls at short intervals.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.sessions.stores.postgres_pool import abandon
from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

# Workers listen to one channel and readers to the other, so that run events do not wake every worker.
WORK, RUNS = "pal_work", "pal_runs"
# Topic RUN_ID + EVENTS is for a run's events and its end; topic RUN_ID is for its end only.
EVENTS = " events"
SCHEDULES = "schedules"  # topic for changed due times, and for outcomes of scheduled runs
POLL_SECONDS = 0.1  # poll interval in seconds without notifications
LONG_SECONDS = 20.0  # seconds between checks if there are notifications
SEND_SECONDS = 0.05  # seconds to collect notifications for one commit, which takes a server-wide lock
_RETRY_SECONDS = 0.25
Beat = Callable[[Callable[..., Any]], float]


class ChangeWatch:
    """Waits for changes, in threads or in one event loop.

    Args:
        seconds: Maximum duration of one wait.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = threading.Event()
        self._in_loop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def wake(self) -> None:
        """End the current wait, or the next one if there is none. May be called from any thread."""
        self._changed.set()
        if self._in_loop is not None:
            loop, changed = self._in_loop
            with contextlib.suppress(RuntimeError):  # the event loop may be closed
                loop.call_soon_threadsafe(changed.set)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until something may have changed, at most `seconds`; return False if nothing was reported."""
        is_woken = self._changed.wait(self._seconds if seconds is None else min(seconds, self._seconds))
        self._changed.clear()
        return is_woken

    async def wait_in_loop(self, seconds: float | None = None) -> None:
        """Wait in an event loop; see `wait`."""
        if self._in_loop is None:
            self._in_loop = asyncio.get_running_loop(), asyncio.Event()
        changed = self._in_loop[1]
        if not self._changed.is_set():
            longest = self._seconds if seconds is None else min(seconds, self._seconds)
            await set_within(longest, changed)
        self._changed.clear()
        changed.clear()


class WakeupListener:
    """A process's permanent connection, which listens for changes. May be used from several threads.

    Args:
        connect: Function that opens a connection in autocommit mode; None on SQLite.
        notify: Function that sends notifications: pairs of a channel and a topic's hash.
    """

    def __init__(
        self, connect: Callable[[], Any] | None, notify: Callable[[Sequence[tuple[str, str]]], None]
    ) -> None:
        self._connect, self._notify = connect, notify
        self.forget()

    def forget(self) -> None:
        """Start without a connection; in a forked child, the old one belongs to the parent."""
        abandon(getattr(self, "_connection", None))
        self._lock, self._statements = threading.RLock(), threading.RLock()
        self._watches: dict[tuple[str, str], list[ChangeWatch]] = {}
        self._channels: set[str] = set()  # channels that the connection listens to
        self._unused: set[str] = set()
        self._beats: dict[Beat, float] = {}  # functions to call, with the time of the next call
        self._next_report = 0.0  # earliest time of the next log message: failures may repeat every 0.25 s
        self._connection: Any = None
        self.connections = 0  # number of connections opened so far
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._pokes: tuple[socket.socket, socket.socket] | None = None
        self._outgoing: set[tuple[str, str]] = set()
        self._sender: threading.Thread | None = None

    @contextlib.contextmanager
    def watch(self, channel: str, topic: str = "", *, poll: float = POLL_SECONDS) -> Iterator[ChangeWatch]:
        """Watch a topic for changes within a block.

        The first wait ends soon, because something may have changed before the watch began.

        Args:
            channel: `WORK` or `RUNS`.
            topic: What to watch, such as a run; empty for everything in the channel.
            poll: Maximum seconds of one wait if the database has no notifications.
        """
        watch, key = ChangeWatch(poll if self._connect is None else LONG_SECONDS), (channel, _hash(topic))
        with self._lock:
            self._watches.setdefault(key, []).append(watch)
            # If the connection is not listening yet, the watch is woken as soon as it is.
            if channel in self._channels:
                watch.wake()
        self._start()
        try:
            yield watch
        finally:
            with self._lock:
                self._watches[key].remove(watch)
                if not self._watches[key]:
                    del self._watches[key]

    def wake(self, channel: str, topic: str) -> None:
        """Wake the watches of a topic in this process."""
        with self._lock:
            watches = list(self._watches.get((channel, _hash(topic)), ()))
        for watch in watches:
            watch.wake()

    def send(self, channel: str, topic: str) -> None:
        """Wake the watches of a topic in all processes that use the database, soon after this call."""
        if self._connect is None:
            self.wake(channel, topic)
            return
        with self._lock:
            self._outgoing.add((channel, _hash(topic)))
            if self._sender is None:
                sender = threading.Thread(target=self._send_all, name="pal-notifier")
                with contextlib.suppress(RuntimeError):  # fails while the interpreter exits
                    sender.start()  # not a daemon: the last batch is sent before the process ends
                    self._sender = sender

    def keep(self, beat: Beat) -> None:
        """Have a function use the connection now, after each reconnection, and at intervals.

        If the first call fails, the thread calls the function again soon; `end` prevents that.

        Args:
            beat: Function to call; its argument is a function that executes one statement with values. It
                returns the seconds until its next call.

        Raises:
            Exception: The database is unavailable.
        """
        try:
            with self._statements:
                self._beats[beat] = 0.0
                self._call(beat, self._opened())
        finally:
            self._start()

    def end(self, beat: Beat) -> None:
        """Stop calling a function that was passed to `keep`."""
        with self._statements:
            self._beats.pop(beat, None)

    def execute(self, statement: str | bytes, values: Sequence[Any] = ()) -> Any:
        """Execute a statement on the connection, such as one for a lock.

        Raises:
            Exception: The database is unavailable.
        """
        with self._statements:
            return self._opened().execute(statement, values)

    def close(self) -> None:
        """Close the connection, after the last notifications are sent."""
        with self._lock:
            self._is_closed, threads = True, (self._sender, self._thread)
        self._poke()
        for thread in threads:
            if thread is not None:
                thread.join()
        with self._statements:
            self._drop()
            self._is_closed, self._thread = False, None

    # -- sender -----------------------------------------------------------------------------------

    def _send_all(self) -> None:
        while True:
            with self._lock:
                batch, self._outgoing = sorted(self._outgoing), set()
                if not batch:
                    self._sender = None
                    return
            # This batch is lost, but waiting code also checks at long intervals.
            with contextlib.suppress(PureAgentLoopError):
                self._notify(batch)
            time.sleep(SEND_SECONDS)

    # -- the thread that listens --------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._connect is None or self._thread is not None:
                self._poke()
                return
            self._pokes = socket.socketpair()
            for end in self._pokes:
                end.setblocking(False)
            self._thread = threading.Thread(target=self._run, name="pal-listener", daemon=True)
            self._thread.start()

    def _poke(self) -> None:
        if self._pokes is not None:
            with contextlib.suppress(OSError):  # a full pipe wakes the thread anyway
                self._pokes[1].send(b".")

    def _run(self) -> None:
        assert self._pokes is not None
        while not self._is_closed:
            try:
                self._listen(self._pokes[0])
            except Exception:  # noqa: BLE001, PERF203 - the database is unavailable: try again
                with self._statements:
                    self._drop()
                time.sleep(_RETRY_SECONDS)
        for end in self._pokes:
            end.close()
        self._pokes = None

    def _listen(self, pokes: socket.socket) -> None:
        connection = self._opened()
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(pokes, selectors.EVENT_READ)
            while connection is self._connection and not self._is_closed:
                self._set_channels(connection)
                seconds = self._call_beats()
                ready = [key.fileobj for key, _ in selector.select(seconds)]
                if pokes in ready:
                    pokes.recv(1024)
                with self._statements:
                    connection.pgconn.consume_input()
                    while (note := connection.pgconn.notifies()) is not None:
                        self._wake(note.relname.decode(), note.extra.decode())

    def _opened(self) -> Any:
        assert self._connect is not None
        with self._statements:
            if self._connection is not None and self._connection.closed:
                self._drop()
            if self._connection is None:
                self._connection = self._connect()
                # Handles notifications that arrive together with the result of a statement.
                self._connection.add_notify_handler(lambda note: self._wake(note.channel, note.payload))
                self.connections += 1
                self._beats = dict.fromkeys(self._beats, 0.0)
                self._poke()  # wake the thread, which may be waiting on the old connection
            return self._connection

    def _drop(self) -> None:
        with contextlib.suppress(Exception):
            if self._connection is not None:
                self._connection.close()
        self._connection = None
        self._channels = set()

    def _set_channels(self, connection: Any) -> None:
        with self._lock:
            wanted = {channel for channel, _ in self._watches}
            unused, self._unused = self._unused - wanted, set()
        with self._statements:
            for channel in unused & self._channels:
                connection.execute(f"UNLISTEN {channel}")
                self._channels.discard(channel)
            for channel in wanted - self._channels:
                connection.execute(f"LISTEN {channel}")
                self._channels.add(channel)
                with self._lock:  # wake all watches: before LISTEN, changes sent no notification
                    watches = [
                        each for key, all_ in self._watches.items() if key[0] == channel for each in all_
                    ]
                for watch in watches:
                    watch.wake()

    def _call_beats(self) -> float | None:
        """If any function is due, call all in one transaction; return the seconds until the next call."""
        with self._statements:
            if any(at <= time.monotonic() for at in self._beats.values()):
                connection = self._opened()
                with connection.transaction():
                    for beat in self._beats:
                        try:
                            self._call(beat, connection)
                        except Exception as error:  # noqa: PERF203 - the connection holds locks
                            if connection.closed:
                                raise
                            self._beats[beat] = time.monotonic() + _RETRY_SECONDS
                            self._report(error)
            return max(0.0, min(self._beats.values()) - time.monotonic()) if self._beats else None

    def _call(self, beat: Beat, connection: Any) -> None:
        with connection.transaction():  # inside another transaction, this is a savepoint
            self._beats[beat] = beat(connection.execute) + time.monotonic()

    def _report(self, error: Exception) -> None:
        if time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + LONG_SECONDS
            LOG.warning(notice("library.heartbeat_failed", error=safe_str(error)))

    def _wake(self, channel: str, key: str) -> None:
        with self._lock:
            watches = [*self._watches.get((channel, key), ()), *self._watches.get((channel, _hash("")), ())]
            if not any(each == channel for each, _ in self._watches):
                self._unused.add(channel)
        for watch in watches:
            watch.wake()


def _hash(topic: str) -> str:
    return f"{zlib.crc32(topic.encode('utf-8', 'replace')):08x}" if topic else ""
