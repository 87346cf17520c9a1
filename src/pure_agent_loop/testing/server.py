"""A real HTTP server on loopback that speaks the chat-completions protocol and plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.testing.completions import Writing, error_body, to_json
from pure_agent_loop.testing.exchange import ClientLeft, Exchange
from pure_agent_loop.testing.faults import ServerFault, fault_for, unauthorized
from pure_agent_loop.testing.gate import Gate, ScriptError
from pure_agent_loop.testing.history import check_request
from pure_agent_loop.testing.listener import Listener
from pure_agent_loop.testing.plan import Plan, plan_item
from pure_agent_loop.testing.player import Player
from pure_agent_loop.testing.request import ServerRequest, read_request
from pure_agent_loop.testing.script import DEFAULT_USAGE, Step

if TYPE_CHECKING:
    from typing_extensions import Self


class ScriptedServer:
    """Chat-completions server that plays a script over real sockets.

    It answers ``POST .../chat/completions`` (streamed or not, as the request asks) and
    ``GET .../models``. Each request is checked as strict servers do (`check_request`): an invalid request
    gets status 400, uses no item of the script, and fails the test at the end of the block.

    Args:
        script: The items, one for each request, and faults (see `pure_agent_loop.testing.script`).
        handler: Function that answers every request instead of a script: ``(request) -> item``, sync or
            async. The handler runs on the server's event loop, so it must not block.
        strict: True to fail if the script runs out or items are left.
        usage: Token usage of answers that have none; streams contain it only if the request asks for it with
            ``stream_options``.
        api_key: The only key that is accepted; None to accept any key, or none.
        models: Names to return in the model list.
        rechunk: Piece size of streamed bodies in bytes; each piece is sent as one HTTP chunk, and several
            sizes are used in turn. Can be changed between requests.
        check: True to check requests.
        extra_keys: Keys of messages to accept in addition to the standard ones.

    Raises:
        ConfigError: The script has an invalid item, or both a script and a handler are given.

    Example:
        with ScriptedServer([call("add", a=1, b=2), deltas("It is ", Reset()), "It is 3."]) as server:
            ask_my_client(server.base_url)
    """

    def __init__(
        self,
        script: Iterable[object] | Callable[..., Any] | None = None,
        *,
        handler: Callable[[ServerRequest], Any] | None = None,
        strict: bool = True,
        usage: TokenUsage | None = DEFAULT_USAGE,
        api_key: str | None = None,
        models: Sequence[str] = ("scripted",),
        rechunk: int | Sequence[int] | None = None,
        check: bool = True,
        extra_keys: Iterable[str] = (),
    ) -> None:
        if (script is None) == (handler is None):
            raise ConfigError("ScriptedServer needs either a script or handler=, not both.")
        self._player = Player(script if script is not None else handler or [], strict=strict, faults=True)
        self._by_request = handler is not None
        self._usage, self._api_key, self._models = usage, api_key, tuple(models)
        self._check, self._extra_keys = check, tuple(extra_keys)
        self.rechunk = rechunk
        self.requests: list[ServerRequest] = []
        self.other_requests: list[ServerRequest] = []
        self.violations: list[str] = []
        self.connections = 0
        """Number of connections so far."""
        self._listener = Listener(self._serve)

    # -- lifecycle ------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """Base URL for clients, ending in ``/v1``.

        Raises:
            ScriptError: The server is not running.
        """
        if self._listener.port is None:
            raise ScriptError("The server is not running; use it as `with ScriptedServer(...) as server:`.")
        return f"http://127.0.0.1:{self._listener.port}/v1"

    def start(self, port: int = 0) -> None:
        """Start listening. The end of a ``with`` block closes the server; otherwise call `close`.

        Args:
            port: Port; 0 for a free one.
        """
        self._listener.start(port)

    def close(self) -> None:
        """Close every connection, including those waiting at a gate, and end the thread.

        Raises:
            ScriptError: The thread did not end, because a handler is blocking it.
        """
        self._listener.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._player.leave(error)

    # -- checks -------------------------------------------------------------------------------

    @property
    def remaining(self) -> int:
        """Number of items not yet used."""
        return self._player.remaining

    def assert_clean(self) -> None:
        """Fail if any request was invalid.

        Raises:
            ScriptError: The message lists all problems.
        """
        if self.violations:
            raise ScriptError("\n".join(self.violations))

    def assert_done(self) -> None:
        """Fail unless the script matched and all requests were valid.

        Raises:
            ScriptError: The message lists all problems.
        """
        self._player.assert_done()

    # -- one connection, on the server's thread -------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (request := await read_request(reader)) is not None:
            number = len(self.requests) + 1
            sizes = [self.rechunk] if isinstance(self.rechunk, int) else self.rechunk
            writing = self._new_writing(number, request)
            out = Exchange(request, reader, writer, writing, sizes if request.streamed else None)
            try:
                await self._route(request, out)
            except (ClientLeft, ConnectionError):
                request.left.set()
                return
            finally:
                request.done.set()
            if not out.keep_alive:
                return

    async def _route(self, request: ServerRequest, out: Exchange) -> None:
        path = request.path.partition("?")[0]
        is_task = request.method == "POST" and path.endswith(self._path)
        (self.requests if is_task else self.other_requests).append(request)
        if self._api_key is not None and self._key_of(request) != self._api_key:
            await unauthorized().play(out)
        elif is_task:
            await self._chat(request, out)
        elif (value := self._other(request, path)) is not None:
            await out.respond(200, to_json(value))
        else:
            await out.respond(404, to_json(error_body(f"Unknown endpoint {request.method} {path}.")))

    # -- what another protocol changes -----------------------------------------------------------

    _path: str | tuple[str, ...] = "/chat/completions"  # path endings of generation requests
    _always_counts = False  # True to send the usage even if it is not requested

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        """Return the writer of the answer to a request."""
        return Writing(number, str(request.options.get("model")))

    def _key_of(self, request: ServerRequest) -> str:
        """Return the API key of a request."""
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def _problems_of(self, request: ServerRequest) -> list[str]:
        """Return the violations in a request."""
        return check_request(request.body, extra_keys=self._extra_keys)

    def _refusal_of(self, request: ServerRequest) -> str:  # noqa: ARG002 - other protocols have limits
        """Return the error for a valid request that exceeds a limit of real servers; empty if it does not."""
        return ""

    def _other(self, request: ServerRequest, path: str) -> Any:
        """Return the JSON for a request to another endpoint; None if the endpoint is unknown."""
        return _model_list(self._models) if request.method == "GET" and path.endswith("/models") else None

    async def _chat(self, request: ServerRequest, out: Exchange) -> None:
        problems = self._problems_of(request) if self._check else []
        if problems:
            self._complain(problems)
            await out.respond(400, to_json(error_body("Invalid request: " + "; ".join(problems))))
            return
        if self._check and (words := self._refusal_of(request)):
            await out.respond(400, to_json(error_body(words)))
            return
        try:
            plan = plan_item(await self._next_item(request), request.messages, self._usage)
            await self._play(plan, request, out)
        except (ClientLeft, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - a script or a fault of a user may fail in any way
            await self._give_up(error, out)

    async def _give_up(self, error: Exception, out: Exchange) -> None:
        """Record an error in the test itself, and end the client's request."""
        self._player.note(str(error) if isinstance(error, AssertionError) else repr(error))
        if out.begun:
            await out.reset()
            return
        # The status is not 5xx, because clients would then retry the request, which cannot succeed.
        await out.respond(400, to_json(error_body(f"The test's script failed: {error}")))

    async def _next_item(self, request: ServerRequest) -> Any:
        asked = (request,) if self._by_request else (request.messages, request.tools, request.options)
        try:
            return await self._player.next(*asked)
        except (AssertionError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - what a callable raises is what it wants to happen
            return error

    def _complain(self, problems: list[str]) -> None:
        words = f"request {len(self.requests)} was invalid: " + "; ".join(problems)
        self.violations.append(words)
        self._player.note(words)

    async def _play(self, plan: Plan, request: ServerRequest, out: Exchange) -> None:
        out.mid_answer, out.writing.empty = plan.begun, plan.empty
        if plan.begun and out.streamed:
            await out.begin()
        for step in plan.steps:
            if _is_only_usage(step) and not (self._always_counts or request.wants_usage):
                continue
            if not await _play_step(step, out):
                return
        await out.finish(done=plan.done)


async def _play_step(step: Step, out: Exchange) -> bool:
    if isinstance(step, Delta):
        await out.delta(step)
        return True
    if isinstance(step, Gate):
        await out.hold(step)
        return True
    fault = fault_for(step, mid_answer=out.mid_answer) if isinstance(step, Exception) else step
    if not isinstance(fault, ServerFault):
        raise ScriptError(f"{fault!r:.80} cannot be played.")
    return await fault.play(out)


def _is_only_usage(step: Step) -> bool:
    return isinstance(step, Delta) and step.usage is not None and step == Delta(usage=step.usage)


def _model_list(names: Iterable[str]) -> Any:
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "scripted"} for name in names]
    return {"object": "list", "data": data}
