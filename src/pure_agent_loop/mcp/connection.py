"""The connection to a server: made when it is needed, owned by one task, made again when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import importlib.util
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pure_agent_loop._version import __version__
from pure_agent_loop.errors import MissingExtraError, ToolExecutionError
from pure_agent_loop.mcp.pipes import Ending, Log, TooLargeError, piped
from pure_agent_loop.mcp.settings import LOG_LEVELS, ServerSettings
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, safe_str
from pure_agent_loop.support.threads import in_thread

FIRST_WAIT, MOST_WAIT = 0.5, 60.0  # seconds between starts that failed; doubled each time
PATIENCE = 2.0  # of a caller, for the next start
PING_SECONDS = 5.0
LAST_WORDS_SECONDS = 0.5  # for what a program said at its end to come in
_CLOSED = -32000  # the SDK's code for a connection that is over
_ERROR_CHARS = 500
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")  # says nothing to people
_MOST_SAID = 10_000  # characters of a log message


class ServerError(ToolExecutionError):
    """A server cannot be used, or refuses. The model is told why; the run goes on."""


class Connection:
    """A server as it can be asked. It belongs to one event loop.

    Args:
        settings: Which server.
        callbacks: Arguments of the SDK's client: what the server may ask of us.
        auth: Makes what puts the login into requests; None for none.
        on_change: Told when the server says that one of its lists has changed, or starts anew.
        on_log: Told what it says: the level, the name of the logger, the text.
        start_timeout: Seconds it may take to start; those of the settings if None.
    """

    def __init__(
        self,
        settings: ServerSettings,
        callbacks: Callable[[], dict[str, Any]],
        auth: Callable[[], Awaitable[Any]],
        on_change: Callable[[], None],
        on_log: Callable[[str, str, str], None] = lambda *_: None,
        start_timeout: float | None = None,
    ) -> None:
        self._start_timeout = start_timeout or settings.start_timeout
        self._settings, self._callbacks, self._auth, self._on_change = settings, callbacks, auth, on_change
        self._on_log = on_log
        self._life: _Life | None = None
        self._failures, self._next_start = 0, 0.0
        self._checks: set[asyncio.Task[None]] = set()
        self.last_error = ""

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked right now."""
        return self._life is not None and self._life.is_ready

    async def client(self) -> Any:
        """The SDK's client, connected.

        Raises:
            ServerError: It cannot be; the message says why.
        """
        life = self._life
        if life is not None and life.is_ready:
            return life.client
        if life is None or life.is_over:
            await self._wait()
            if self._life is life:  # nobody else was quicker
                self._life = _Life(self._settings, self._start_timeout, self._make, self._follow)
                if life is not None:  # it may have other tools now
                    self._on_change()
        assert self._life is not None
        return await self._begun(self._life)

    async def _wait(self) -> None:
        left = self._next_start - asyncio.get_running_loop().time()
        if left > PATIENCE:
            why = say("mcp_wait", count=self._failures, seconds=left, why=self.last_error)
            raise ServerError(say("mcp_failed", server=self._settings.name, why=why))
        if left > 0:
            await asyncio.sleep(left)

    async def _begun(self, life: _Life) -> Any:
        await life.begun.wait()
        if life.is_ready:
            self._failures, self.last_error = 0, ""
            return life.client
        if not life.is_counted:
            life.is_counted = True
            self._failures += 1
            wait = min(MOST_WAIT, FIRST_WAIT * 2 ** (self._failures - 1))
            self._next_start = asyncio.get_running_loop().time() + wait
            self.last_error = life.why
        raise ServerError(say("mcp_failed", server=self._settings.name, why=self.last_error))

    async def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask the server something.

        Args:
            question: The SDK's client to what it answers.

        Raises:
            ServerError: It cannot be asked, was lost while it was, or refuses.
        """
        client = await self.client()
        life = self._life
        try:
            return await question(client)
        except asyncio.CancelledError:
            self._doubt(life)
            raise
        except Exception as error:
            raise await self._failure(error, life) from error

    async def _failure(self, error: Exception, life: _Life | None) -> ServerError:
        is_closed = _code_of(error) == _CLOSED or "session terminated" in safe_str(error).lower()
        if life is not None and (is_closed or life.is_over or _is_of_network(error)):
            life.ending.because("" if is_closed else reason_of(error, self._settings))
            await asyncio.wait({life.task}, timeout=LAST_WORDS_SECONDS)
            self.last_error = life.why
            return ServerError(say("mcp_lost", server=self._settings.name, why=life.why))
        why = reason_of(error, self._settings, "" if life is None else life.ending.hint)
        return ServerError(say("mcp_refused", server=self._settings.name, error=why))

    def _doubt(self, life: _Life | None) -> None:
        """A call was given up: does the server live at all?"""
        if life is not None and life.is_ready:
            task = asyncio.create_task(self._check(life))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check(self, life: _Life) -> None:
        try:
            await asyncio.wait_for(ping(life.client), PING_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it was, it did not answer
            if _code_of(error) in (None, _CLOSED):  # any other error is an answer
                life.ending.because(say("mcp_start_timeout", seconds=PING_SECONDS))

    async def close(self) -> None:
        """End it."""
        life, self._life = self._life, None
        for task in self._checks:
            task.cancel()
        if life is not None:
            life.end()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(life.task)

    async def _make(self, stack: AsyncExitStack, ending: Ending) -> Any:
        """Connect; what belongs to it is put on the stack."""
        make_client = await load_sdk()
        settings = self._settings
        log = Log(settings)
        stack.callback(log.close)
        if settings.url:
            from pure_agent_loop.mcp.network import reached  # with the SDK's part for it

            transport = reached(settings, await self._auth(), ending)
        else:
            ending.said = lambda: log.said
            transport = piped(settings, log, ending)

        async def heard(message: Any) -> None:
            if type(message).__name__.endswith("ListChangedNotification"):
                self._on_change()

        async def logged(message: Any) -> None:
            if LOG_LEVELS.index(message.level) < LOG_LEVELS.index(settings.log_level):
                return
            text = log.cleaned(as_text(message.data)[:_MOST_SAID])
            level, logger = message.level, one_line(message.logger or "", 60)
            log.write(f"[{level}] {logger}: {text}\n".encode("utf-8", "replace"))
            self._on_log(level, logger, one_line(text, _ERROR_CHARS))

        client = make_client(
            transport,
            message_handler=heard,
            logging_callback=logged,
            log_level=settings.log_level,
            mode="legacy" if settings.legacy else "auto",
            **self._callbacks(),
        )
        return await stack.enter_async_context(client)

    async def _follow(self, client: Any) -> None:
        """Say which log messages are wanted; listen for changed lists, where there is a stream for that."""
        capabilities = client.server_capabilities
        if capabilities.logging is not None and not is_modern(client):
            with contextlib.suppress(Exception):  # we leave out what is not wanted, too
                await _set_level(client, self._settings.log_level)
        if not getattr(capabilities.tools, "list_changed", False):
            return
        with contextlib.suppress(Exception):  # then changes are seen at the next start
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._on_change()


class _Life:
    """One connection, from its start to its end, in a task of its own: only that may close what it opened."""

    def __init__(
        self,
        settings: ServerSettings,
        start_timeout: float,
        make: Callable[[AsyncExitStack, Ending], Awaitable[Any]],
        follow: Callable[[Any], Awaitable[None]],
    ) -> None:
        self._settings, self._seconds, self._make, self._follow = settings, start_timeout, make, follow
        self._over, self.begun = asyncio.Event(), asyncio.Event()
        self.ending = Ending(tell=self._over.set)
        self.client: Any = None
        self.is_counted = False
        self._timer = asyncio.get_running_loop().call_later(start_timeout, self._give_up)
        self.task = asyncio.create_task(self._own())

    @property
    def is_ready(self) -> bool:
        return self.client is not None and not self._over.is_set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def why(self) -> str:
        """Why it is over, with the last words of the program."""
        said = self.ending.said()
        return " ".join(
            [self.ending.why or say("mcp_closed"), *([say("mcp_said", text=said)] if said else [])]
        )

    async def _own(self) -> None:
        follower: asyncio.Task[None] | None = None
        try:
            async with AsyncExitStack() as stack:
                self.client = await self._make(stack, self.ending)
                self._timer.cancel()
                self.begun.set()
                follower = asyncio.ensure_future(self._follow(self.client))
                await self._over.wait()
                follower.cancel()
                await asyncio.wait({follower})
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever comes out of the SDK ends this, and only this
            self.ending.because(reason_of(error, self._settings, self.ending.hint))
        finally:
            self._timer.cancel()
            self.client = None
            self.ending.tell()
            self.begun.set()

    def end(self) -> None:
        """End it; one that has not begun is not waited for."""
        self.ending.because(say("mcp_closed"))
        if not self.begun.is_set():
            self._abandon()

    def _give_up(self) -> None:
        self.ending.because(say("mcp_start_timeout", seconds=self._seconds))
        self._abandon()

    def _abandon(self) -> None:
        self._timer.cancel()  # what is closed now is not disturbed again
        self.begun.set()  # who waits need not wait until it is closed
        self.task.cancel()


def _sdk() -> Any:
    """What makes a client of the SDK, which says who we are."""
    from mcp.client.client import Client
    from mcp_types import Implementation

    hush()
    return partial(Client, client_info=Implementation(name="pure-agent-loop", version=__version__))


def hush() -> None:
    """Keep the SDK's tracebacks from people, who are told in a sentence; a program's own logging has them."""
    for name in ("mcp", "client"):
        log = logging.getLogger(name)
        if not log.handlers:
            log.addHandler(logging.NullHandler())


async def load_sdk() -> Any:
    """Load the SDK, beside the event loop: it takes more than a second.

    Raises:
        MissingExtraError: The extra ``[mcp]`` is not installed.
    """
    if importlib.util.find_spec("mcp_types") is None:
        raise MissingExtraError("MCP", "mcp")
    return await in_thread(_sdk)


async def ping(client: Any) -> None:
    """Find out whether a server answers."""
    if is_modern(client):  # they have no ping any more
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_ping()


def is_modern(side: Any) -> bool:
    """Whether the other side speaks a version of the protocol from 2026 on."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return side.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _set_level(client: Any, level: Any) -> None:
    from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

    request = SetLevelRequest(params=SetLevelRequestParams(level=level))
    await client.session.send_request(request, EmptyResult)


def reason_of(error: BaseException, settings: ServerSettings, hint: str = "") -> str:
    """What went wrong, in a sentence.

    Args:
        hint: What is known besides.
    """
    leaf = error
    while found := getattr(leaf, "exceptions", None):  # a group: the first is as good as any
        leaf = found[0]
    kinds = {kind.__name__ for kind in type(leaf).__mro__}
    text = _NUMBER.sub("", one_line(safe_str(leaf), _ERROR_CHARS)) or type(leaf).__name__
    if isinstance(leaf, ServerError):
        return leaf.message
    if isinstance(leaf, (MissingExtraError, TooLargeError)):
        return text
    if isinstance(leaf, OSError) and settings.command:
        return _not_started(leaf, settings)
    if kinds & {"OAuthFlowError", "OAuthTokenError", "OAuthRegistrationError"}:
        return say("mcp_login_failed", error=text)
    if hint and kinds & {"HTTPStatusError", "MCPError"}:
        return f"{hint} {text}"
    if _is_of_network(leaf):
        return say("mcp_unreachable", url=settings.shown, error=text)
    if "ValidationError" in kinds:
        return say("mcp_protocol", error=one_line(_first_problem(leaf), _ERROR_CHARS))
    return text


def _not_started(error: OSError, settings: ServerSettings) -> str:
    program = settings.command[0]
    if error.errno != errno.ENOENT:
        return say("mcp_cannot_start", program=program, error=error.strerror or error)
    if settings.cwd and not Path(settings.cwd).is_dir():  # the system does not say what it did not find
        return say("mcp_no_folder", folder=settings.cwd)
    return say("mcp_one_word" if " " in program.strip() else "mcp_no_program", program=program)


def _first_problem(error: Any) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{error.title}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _is_of_network(error: BaseException) -> bool:
    return "TransportError" in {kind.__name__ for kind in type(error).__mro__}


def _code_of(error: BaseException) -> int | None:
    code = getattr(getattr(error, "error", None), "code", None)
    return code if isinstance(code, int) else None
