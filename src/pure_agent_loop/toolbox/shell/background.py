"""Background commands: a call to the ``shell`` tool starts one, and later calls read its output or end it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime

from pure_agent_loop.llm.messages import Message, calls_of, text_of
from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.portal import get_portal
from pure_agent_loop.support.screen import written_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.captured import Captured
from pure_agent_loop.toolbox.sandbox.process import REAPER_SECONDS, TERM_SECONDS, Finished

MAX_RUNNING, MAX_KEPT = 8, 20
START_SECONDS = 1.0  # seconds to wait after a start, to report the first output or an early end
LOG_BYTES, MAX_LINE = 65_536, 4_096
Execute = Callable[[asyncio.Event, Callable[[bytes], object]], Awaitable[Finished]]
Owner = object  # a session id, or a run that has no session


class BackgroundCommand:
    """A command that outlives the call that started it.

    Args:
        number: Number of the command in lists for a person.
        command: The command line, which is its name for a model.
        owner: Session id or run whose calls may read and end the command.
        max_output: Maximum bytes that one call reads.
    """

    def __init__(self, number: int, command: str, owner: Owner, max_output: int) -> None:
        self.number, self.command, self.owner = number, command, owner
        self.started = time.time()
        """Time of the start in seconds since the epoch."""
        self.finished: Finished | None = None
        """How the command ended; None while it is running."""
        self.must_end, self.loop = asyncio.Event(), get_portal().loop
        self.done: Future[None] = Future()
        self._max_output, self._lock = max_output, threading.Lock()
        self._new = Captured(max_output)
        self._line, self._newest = b"", bytearray()
        self.is_told = False
        """True once a call has read how the command ended."""

    def add(self, data: bytes) -> None:
        """Add bytes of the command's output."""
        with self._lock:
            self._newest += data
            del self._newest[:-LOG_BYTES]
            whole, end, self._line = (self._line + data).rpartition(b"\n")
            if len(self._line) > MAX_LINE:
                whole, end, self._line = whole + end, self._line, b""
            if end:
                self._new.add(whole + end)

    def take(self) -> tuple[str, int]:
        """Return the output since the last call of this method, and how many bytes of it were left out.

        While the command runs, an incomplete last line is held back, because a secret is redacted only as a
        whole.
        """
        with self._lock:
            self.is_told = self.finished is not None
            if self.is_told:
                self._new.add(self._line)
                self._line = b""
            new, self._new = self._new, Captured(self._max_output)
        return new.text(), new.cut

    def newest(self) -> str:
        """Return the newest output, whether or not a call has read it."""
        with self._lock:
            return written_text(bytes(self._newest).decode("utf-8", "replace"))


class BackgroundCommands:
    """The background commands of one shell.

    They run on a separate thread's event loop, so that they outlive the run's event loop.

    Args:
        max_output: Maximum bytes that one call reads.
    """

    def __init__(self, max_output: int) -> None:
        self._max_output = max_output
        self._commands: list[BackgroundCommand] = []
        self.is_held = False
        """True if the shell's owner ends the commands; otherwise, each run ends those that it started."""
        self._on_end: Callable[[BackgroundCommand], object] | None = None

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter(tuple(self._commands))

    def hold(self, on_end: Callable[[BackgroundCommand], object] | None = None) -> None:
        """Let commands outlive the runs that start them; the caller must end the commands.

        Args:
            on_end: Called, on the caller's event loop, with a command that has ended by itself.
        """
        self.is_held, loop = True, asyncio.get_running_loop()
        if on_end is not None:
            self._on_end = lambda command: loop.call_soon_threadsafe(on_end, command)

    @property
    def running(self) -> list[BackgroundCommand]:
        """The running commands, oldest first."""
        return [each for each in self._commands if each.finished is None]

    def find(self, command: str, owner: Owner) -> BackgroundCommand | None:
        """Return the newest command with this line and owner; None if there is none."""
        same = (each for each in reversed(self._commands) if each.command == command and each.owner == owner)
        return next(same, None)

    async def start(self, command: str, owner: Owner, execute: Execute) -> BackgroundCommand:
        """Start a command, and wait a moment in case it ends early.

        Args:
            execute: Runs the command; takes an event that ends the command, and a function for its output.

        Raises:
            WorkspaceError: The owner is already running this line, or too many commands are running.
        """
        before = self.find(command, owner)
        if before is not None and before.finished is None:
            raise WorkspaceError(model_text("background_runs"))
        if len(self.running) >= MAX_RUNNING:
            raise WorkspaceError(model_text("background_many", count=MAX_RUNNING))
        number = self._commands[-1].number + 1 if self._commands else 1
        started = BackgroundCommand(number, command, owner, self._max_output)
        ended = [each for each in self._commands if each.finished is not None]
        for old in [each for each in ended if each is before] or ended[:-MAX_KEPT]:
            self._commands.remove(old)
        self._commands.append(started)
        started.done = asyncio.run_coroutine_threadsafe(self._work(started, execute), started.loop)
        await _wait([started], START_SECONDS)
        return started

    async def _work(self, command: BackgroundCommand, execute: Execute) -> None:
        finished = Finished(None, "")
        try:
            finished = await execute(command.must_end, command.add)
        except WorkspaceError as error:
            finished = Finished(None, "", problem=str(error))
        finally:
            command.finished = finished
        if self._on_end is not None and not command.must_end.is_set():
            self._on_end(command)

    def facts(self, owner: Owner, history: Iterable[Message]) -> str:
        """Describe an owner's commands to its model, on one line; "" if there are none.

        Args:
            history: The conversation's messages, which show commands that earlier processes started.
        """
        own = [each for each in self._commands if each.owner == owner and not each.is_told]
        states = [f"{_named(each.command)} {_state(each)}" for each in own]
        lines = {each.command for each in self._commands if each.owner == owner}
        lost = [_named(command) for command in _open_in(history) if command not in lines]
        states += [model_text("background_lost", commands=", ".join(lost))] if lost else []
        return model_text("facts_background", states="; ".join(states)) if states else ""

    def stop(self, commands: Iterable[BackgroundCommand]) -> None:
        """Ask the commands that are still running to end; do not wait for them."""
        for each in (each for each in commands if each.finished is None):
            with suppress(RuntimeError):  # the loop has been closed, and the commands have ended with it
                each.loop.call_soon_threadsafe(each.must_end.set)

    async def end(self, commands: Sequence[BackgroundCommand]) -> None:
        """End commands and wait: each process gets SIGTERM, and some seconds later SIGKILL."""
        self.stop(commands)
        await _wait(commands, TERM_SECONDS + 2 * REAPER_SECONDS)


def _named(command: str) -> str:
    return f"`{one_line(command)}`"


def _state(command: BackgroundCommand) -> str:
    if command.finished is None:
        since = f"{datetime.fromtimestamp(command.started).astimezone():%H:%M}"
        return model_text("background_since", time=since)
    return model_text("exit_code", code=command.finished.exit_code)


def _open_in(history: Iterable[Message]) -> list[str]:
    """Return the commands that the conversation shows as started but not as ended."""
    calls, open_lines = dict[str, tuple[str, str]](), dict[str, None]()
    goes_on = {"start": model_text("background_started"), "read": model_text("background_running")}
    for message in history:
        for call in calls_of(message):
            args = parsed_object(call["function"]["arguments"]) or {}
            if args.get("background") in ("start", "read", "end"):
                calls[call["id"]] = (args["background"], str(args.get("command")))
        what, command = calls.get(str(message.get("tool_call_id")), ("", ""))
        if what and goes_on.get(what, "\0") in text_of(message["content"]):
            open_lines[command] = None
        elif what != "start":
            open_lines.pop(command, None)
    return list(open_lines)


async def _wait(commands: Sequence[BackgroundCommand], seconds: float) -> None:
    loop, all_ended = asyncio.get_running_loop(), asyncio.Event()

    def note(_: Future[None]) -> None:
        if all(each.done.done() for each in commands):
            with suppress(RuntimeError):  # the waiting loop has been closed
                loop.call_soon_threadsafe(all_ended.set)

    for each in commands:
        each.done.add_done_callback(note)
    if commands:
        await set_within(seconds, all_ended)
