"""The connection to a server: opened on first use, owned by one task, reopened after a loss."""

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
from pure_agent_loop.mcp.lenient import lenient
from pure_agent_loop.mcp.pipes import CloseReason, Log, TooLargeError, piped
from pure_agent_loop.mcp.progress import LOG
from pure_agent_loop.mcp.settings import LOG_LEVELS, ServerSettings
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, error_text
from pure_agent_loop.support.threads import in_thread

FIRST_WAIT, MAX_WAIT = 0.5, 60.0  # seconds to wait for a new start after a failure, doubled each time
PATIENCE = 2.0  # maximum seconds that a caller waits for the next start
PING_SECONDS = 5.0
LAST_WORDS_SECONDS = 0.5  # time to wait for a program's last output
_CLOSED = -32000  # the SDK's code for a closed connection
_ERROR_CHARS = 500
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")  # error numbers, removed from messages
_MAX_LOG_CHARS = 10_000  # maximum characters of a log message


class ServerError(ToolExecutionError):
    """A server cannot be used, or has rejected a request. The model reads the reason; the run continues."""


class Connection:
    """The connection to one server. A connection belongs to one event loop.

    Args:
        callbacks: Returns the handlers for the server's requests, as keyword arguments of the SDK's client.
        auth: Creates the auth object for requests; None for no authentication.
        on_change: Called when the server reports a changed list, or restarts.
        on_log: Called with each log message: level, logger name, text.
        start_timeout: Seconds for the start; the settings' value if None.
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
        self._session: _SdkSession | None = None
        self._failures, self._next_start = 0, 0.0
        self._checks: set[asyncio.Task[None]] = set()
        self.failure = self.last_error = ""  # texts of the last error; a successful start clears them

    @property
    def is_ready(self) -> bool:
        """True if the connection is open now."""
        return self._session is not None and self._session.is_ready

    async def client(self) -> Any:
        """Return the SDK client; connect first if there is no open connection.

        Raises:
            ServerError: The connection failed; the message gives the reason.
        """
        session = self._session
        if session is not None and session.is_ready:
            return session.client
        if session is None or session.has_ended:
            await self._wait()
            if self._session is session:  # skip if another caller has already replaced the connection
                self._session = _SdkSession(self._settings, self._start_timeout, self._connect, self._follow)
                if session is not None:  # after a restart the server's tools may differ
                    self._on_change()
        assert self._session is not None
        return await self._await_start(self._session)

    async def _wait(self) -> None:
        left = self._next_start - asyncio.get_running_loop().time()
        if left > PATIENCE:
            why = model_text("mcp_wait", count=self._failures, seconds=left, why=self.last_error)
            raise ServerError(model_text("mcp_failed", server=self._settings.name, why=why))
        if left > 0:
            await asyncio.sleep(left)

    async def _await_start(self, session: _SdkSession) -> Any:
        await session.started.wait()
        if session.is_ready:
            self._failures, self.failure, self.last_error = 0, "", ""
            return session.client
        error = ServerError(model_text("mcp_failed", server=self._settings.name, why=session.why))
        if not session.is_failure_noted:
            self._failures += 1
            wait = min(MAX_WAIT, FIRST_WAIT * 2 ** (self._failures - 1))
            self._next_start = asyncio.get_running_loop().time() + wait
        raise self._note(error, session)

    def _note(self, error: ServerError, session: _SdkSession) -> ServerError:
        """Store a failure for the runs that are using this server, and log it once per connection."""
        if not session.is_failure_noted:
            LOG.warning("%s", error.message, extra={"is_event": True})
        session.is_failure_noted = True
        self.failure, self.last_error = error.message, session.why
        return error

    async def ask(self, question: Callable[[Any], Awaitable[Any]], is_repeatable: bool = True) -> Any:
        """Send a request to the server.

        Args:
            question: Sends the request through the SDK's client and returns the answer.
            is_repeatable: Whether to send the request once more, in a new session, if the server no longer
                has the session.

        Raises:
            ServerError: The server cannot be reached, was lost during the request, or rejected the request.
        """
        client = await self.client()
        session = self._session
        try:
            return await question(client)
        except asyncio.CancelledError:
            self._check_soon(session)
            raise
        except Exception as error:
            failure = await self._failure(error, session)
            if not is_repeatable or session is None or not session.close_reason.is_session_gone:
                raise failure from error
        return await self.ask(question, is_repeatable=False)

    async def _failure(self, error: Exception, session: _SdkSession | None) -> ServerError:
        is_closed = _code_of(error) == _CLOSED
        if session is not None and (is_closed or session.has_ended or _is_of_network(error)):
            session.close_reason.set("" if is_closed else reason_of(error, self._settings))
            await asyncio.wait({session.task}, timeout=LAST_WORDS_SECONDS)
            lost = ServerError(model_text("mcp_lost", server=self._settings.name, why=session.why))
            return lost if session.close_reason.is_session_gone else self._note(lost, session)
        why = reason_of(error, self._settings, "" if session is None else session.close_reason.hint)
        return ServerError(model_text("mcp_refused", server=self._settings.name, error=why))

    def _check_soon(self, session: _SdkSession | None) -> None:
        """Ping the server after an abandoned call, to check that it still answers."""
        if session is not None and session.is_ready:
            task = asyncio.create_task(self._check(session))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check(self, session: _SdkSession) -> None:
        try:
            await within(PING_SECONDS, ping(session.client))
        except Exception as error:  # noqa: BLE001 - any error means that the server did not answer
            if _code_of(error) in (None, _CLOSED):  # an error with another code shows that the server answers
                session.close_reason.set(model_text("mcp_start_timeout", seconds=PING_SECONDS))

    async def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        for task in self._checks:
            task.cancel()
        if session is not None:
            session.end()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(session.task)

    async def _connect(self, stack: AsyncExitStack, close_reason: CloseReason) -> Any:
        """Connect; the stack closes what this method opens."""
        make_client = await load_sdk()
        settings = self._settings
        log = Log(settings)
        stack.callback(log.close)
        if settings.url:
            from pure_agent_loop.mcp.network import reached  # this imports the SDK's HTTP part

            transport = reached(settings, await self._auth(), close_reason)
        else:
            close_reason.last_output = lambda: log.last_output
            transport = piped(settings, log, close_reason)

        async def on_message(message: Any) -> None:
            if type(message).__name__.endswith("ListChangedNotification"):
                self._on_change()

        async def on_log_message(message: Any) -> None:
            if LOG_LEVELS.index(message.level) < LOG_LEVELS.index(settings.log_level):
                return
            text = log.cleaned(as_text(message.data)[:_MAX_LOG_CHARS])
            level, logger = message.level, one_line(message.logger or "", 60)
            log.write(f"[{level}] {logger}: {text}\n".encode("utf-8", "replace"))
            self._on_log(level, logger, one_line(text, _ERROR_CHARS))

        ready: list[Any] = []
        client = make_client(
            lenient(transport, lambda: ready[0].protocol_version if ready else None),
            message_handler=on_message,
            logging_callback=on_log_message,
            log_level=settings.log_level,
            mode="legacy" if settings.legacy else "auto",
            **self._callbacks(),
        )
        ready.append(await stack.enter_async_context(client))
        ready[0].session.validate_tool_result = _unchecked
        return ready[0]

    async def _follow(self, client: Any) -> None:
        """Set the log level; listen for changed lists if the server has a stream for them."""
        capabilities = client.server_capabilities
        if capabilities.logging is not None and not is_modern(client):
            # A failure is harmless, because this client also filters messages by level.
            with contextlib.suppress(Exception):
                await _set_level(client, self._settings.log_level)
        if not getattr(capabilities.tools, "list_changed", False):
            return
        with contextlib.suppress(Exception):  # without a stream, changes are seen at the next start
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._on_change()


class _SdkSession:
    """One connection from start to end, in its own task: only that task may close what it opened."""

    def __init__(
        self,
        settings: ServerSettings,
        start_timeout: float,
        make: Callable[[AsyncExitStack, CloseReason], Awaitable[Any]],
        follow: Callable[[Any], Awaitable[None]],
    ) -> None:
        self._settings, self._seconds, self._connect, self._follow = settings, start_timeout, make, follow
        self._ended, self.started = asyncio.Event(), asyncio.Event()
        self.close_reason = CloseReason(notify=self._ended.set)
        self.client: Any = None
        self.is_failure_noted = False
        self._timer = asyncio.get_running_loop().call_later(start_timeout, self._time_out)
        self.task = asyncio.create_task(self._run())

    @property
    def is_ready(self) -> bool:
        return self.client is not None and not self._ended.is_set()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def why(self) -> str:
        """Why the connection has ended, with the program's last output."""
        output = self.close_reason.last_output()
        return " ".join(
            [
                self.close_reason.why or model_text("mcp_closed"),
                *([model_text("mcp_said", text=output)] if output else []),
            ]
        )

    async def _run(self) -> None:
        follower: asyncio.Task[None] | None = None
        try:
            async with AsyncExitStack() as stack:
                self.client = await self._connect(stack, self.close_reason)
                self._timer.cancel()
                self.started.set()
                follower = asyncio.ensure_future(self._follow(self.client))
                await self._ended.wait()
                follower.cancel()
                await asyncio.wait({follower})
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any SDK error ends this connection, and only this
            self.close_reason.set(reason_of(error, self._settings, self.close_reason.hint))
        finally:
            self._timer.cancel()
            self.client = None
            self.close_reason.notify()
            self.started.set()

    def end(self) -> None:
        """Close the connection; abandon one that is still starting."""
        self.close_reason.set(model_text("mcp_closed"))
        if not self.started.is_set():
            self._abandon()

    def _time_out(self) -> None:
        self.close_reason.set(model_text("mcp_start_timeout", seconds=self._seconds))
        self._abandon()

    def _abandon(self) -> None:
        self._timer.cancel()  # the timer must not cancel again while closing
        self.started.set()  # release waiters before close completes
        self.task.cancel()


async def _unchecked(name: str, result: Any) -> None:
    """Accept any result: the call has already run, and matching a pattern of its schema might never end."""


def _sdk() -> Any:
    """Return a factory of SDK clients that send this package's name and version."""
    from mcp.client.client import Client
    from mcp_types import Implementation

    silence_sdk_logs()
    return partial(Client, client_info=Implementation(name="pure-agent-loop", version=__version__))


def silence_sdk_logs() -> None:
    """Keep SDK tracebacks off stderr, where one sentence is enough; configured logging still gets them."""
    for name in ("mcp", "client"):
        log = logging.getLogger(name)
        if not log.handlers:
            log.addHandler(logging.NullHandler())


async def load_sdk() -> Any:
    """Import the SDK in a thread: the import takes more than a second.

    Raises:
        MissingExtraError: The extra ``[mcp]`` is not installed.
    """
    if importlib.util.find_spec("mcp_types") is None:
        raise MissingExtraError("MCP", "mcp")
    return await in_thread(_sdk)


async def ping(client: Any) -> None:
    """Check that a server answers."""
    if is_modern(client):  # protocol versions from 2026 have no ping
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_ping()


def is_modern(side: Any) -> bool:
    """Return whether the peer uses a protocol version of 2026 or later."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return side.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _set_level(client: Any, level: Any) -> None:
    from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

    request = SetLevelRequest(params=SetLevelRequestParams(level=level))
    await client.session.send_request(request, EmptyResult)


def reason_of(error: BaseException, settings: ServerSettings, hint: str = "") -> str:
    """Return a sentence that explains an error."""
    leaf = error
    while errors := getattr(leaf, "exceptions", None):  # explain only the first error of a group
        leaf = errors[0]
    kinds = {kind.__name__ for kind in type(leaf).__mro__}
    text = _NUMBER.sub("", one_line(error_text(leaf), _ERROR_CHARS))
    if isinstance(leaf, ServerError):
        return leaf.message
    if isinstance(leaf, (MissingExtraError, TooLargeError)):
        return text
    if isinstance(leaf, OSError) and settings.command:
        return _not_started(leaf, settings)
    if kinds & {"OAuthFlowError", "OAuthTokenError", "OAuthRegistrationError"}:
        return model_text("mcp_login_failed", error=text)
    if hint and kinds & {"HTTPStatusError", "MCPError"}:
        return f"{hint} {text}"
    if _is_of_network(leaf):
        return model_text("mcp_unreachable", url=settings.shown, error=text)
    if "ValidationError" in kinds:
        return model_text("mcp_protocol", error=one_line(_first_problem(leaf), _ERROR_CHARS))
    return text


def is_answered(error: Exception) -> bool:
    """Return True if the server is alive: it answered with an error or an unusable answer."""
    return isinstance(error, ValueError) or _code_of(error) not in (None, _CLOSED)


def _not_started(error: OSError, settings: ServerSettings) -> str:
    program = settings.command[0]
    if error.errno != errno.ENOENT:
        return model_text("mcp_cannot_start", program=program, error=error.strerror or error)
    # A missing folder raises the same error as a missing program.
    if settings.cwd and not Path(settings.cwd).is_dir():
        return model_text("mcp_no_folder", folder=settings.cwd)
    return model_text("mcp_one_word" if " " in program.strip() else "mcp_no_program", program=program)


def _first_problem(error: Any) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{error.title}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _is_of_network(error: BaseException) -> bool:
    return "TransportError" in {kind.__name__ for kind in type(error).__mro__}


def _code_of(error: BaseException) -> int | None:
    code = getattr(getattr(error, "error", None), "code", None)
    return code if isinstance(code, int) else None
