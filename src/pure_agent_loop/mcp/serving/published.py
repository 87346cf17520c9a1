"""Prompts and resources, as functions of the user, that the MCP server exposes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from typing_extensions import Self

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.tool import Tool, ToolLike, as_tool

_PLACE = re.compile(r"\{(\+?)(\w+)\}")
MAX_ADDRESS = 1_000  # characters
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:\S+", re.IGNORECASE)
MAX_SUBSCRIBED = 1_000  # URIs per connection
_KEY = "pure_agent_loop.subscribed"
NO_JSON, NO_REQUEST = -32700, -32600
_FIRST = "The first request must be 'initialize', or a request of the 2026 protocol with its _meta."


@dataclass(frozen=True, slots=True)
class Resource:
    """A readable resource.

    Args:
        uri: The URI or URI template.
    """

    uri: str
    tool: Tool
    pattern: re.Pattern[str]

    @property
    def is_template(self) -> bool:
        """True if the URI is a template."""
        return bool(self.pattern.groups)

    def arguments(self, uri: str) -> dict[str, str] | None:
        """Return the template's values in a URI; None if it does not match."""
        # Long URIs make a template with several placeholders backtrack.
        match = self.pattern.fullmatch(uri) if len(uri) <= MAX_ADDRESS else None
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        one_step = (name for plus, name in _PLACE.findall(self.uri) if not plus)
        return None if any("/" in values[name] for name in one_step) else values


class Published:
    """Prompts and resources for the clients of an MCP server.

        def review(path: str, depth: Literal["quick", "thorough"] = "quick") -> str:
            "Have a file reviewed."
            return f"Review {path}, and be {depth}."

        published = Published(prompts=[review], resources={"notes://{day}": read_note})
        app = create_app(agent, published=published)

    The functions are called like tools: docstrings and annotations describe them, they may take a
    `RunContext`, and the audit log records them. They must be read-only.

    Args:
        prompts: Each returns a user message: a string, an `Image`, a `File`, or a list of these. Its
            parameters are the prompt's arguments; those of a ``Literal`` are completed.
        resources: By URI or by URI template such as ``notes://{day}``: ``{name}`` matches one path segment,
            ``{+name}`` one or more. Each function takes the placeholders of its template as parameters, and
            returns a string, an `Image`, a `File`, or a JSON value.

    Raises:
        ConfigError: Two prompts have the same name, or a URI is invalid or does not fit its function.
    """

    def __init__(
        self, prompts: Iterable[ToolLike] = (), resources: Mapping[str, ToolLike] | None = None
    ) -> None:
        self.prompts: dict[str, Tool] = {}
        for prompt in map(_reading, prompts):
            if prompt.name in self.prompts:
                raise ConfigError(f"Two prompts have the name {prompt.name!r}. Give one another name.")
            self.prompts[prompt.name] = prompt
        self.resources = [_resource(uri, _reading(reader)) for uri, reader in (resources or {}).items()]
        self._listeners: list[Callable[[str], None]] = []

    def changed(self, uri: str) -> None:
        """Notify the subscribers of a URI that its resource has changed; callable from any thread."""
        for listener in self._listeners:
            listener(uri)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Register a function to call with each URI passed to `changed`."""
        self._listeners.append(listener)

    def resource_at(self, uri: str) -> tuple[Resource, dict[str, Any]] | None:
        """Return the resource at a URI and its arguments; None if missing."""
        for resource in self.resources:
            arguments = resource.arguments(uri)
            if arguments is not None:
                return resource, arguments
        return None


def choices(tool: Tool, argument: str) -> list[str]:
    """Return the allowed values of an argument, if they are a list."""
    field = tool.parameters.get("properties", {}).get(argument, {})
    return [str(value) for value in field.get("enum", ())]


def _reading(function: ToolLike) -> Tool:
    return as_tool(function).changed(read_only=True)


def _resource(uri: str, tool: Tool) -> Resource:
    if not _ADDRESS.fullmatch(uri) or uri.startswith("pal:"):
        raise ConfigError(
            f"resources: {uri!r:.80} must be a URI such as 'notes://{{day}}', and must not begin with 'pal:'."
        )
    names = [name for _, name in _PLACE.findall(uri)]
    known = tool.parameters.get("properties", {}).keys()
    if len(set(names)) < len(names) or set(names) != set(known):
        raise ConfigError(
            f"resources: {uri!r:.80} has the placeholders {', '.join(names) or 'none'}, "
            f"and {tool.name} takes {', '.join(known) or 'none'}. They must be the same."
        )
    pattern = "".join(
        re.escape(part) if kind == 0 else f"(?P<{part}>{'.+' if plus else '[^/?#]+'})"
        for kind, part, plus in _pieces(uri)
    )
    return Resource(uri, tool, re.compile(pattern))


def _pieces(uri: str) -> Iterable[tuple[int, str, str]]:
    pieces = _PLACE.split(uri)  # text, then per placeholder: sign, name, text
    yield 0, pieces[0], ""
    for plus, name, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield 1, name, plus
        yield 0, text, ""


# -- subscriptions of clients to resources. A client that does not read never blocks others --------------


class Changes(InMemorySubscriptionBus):
    """A notifier of resource changes, in the form of each protocol version."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.listen = ListenHandler(self)  # protocol of 2026: the response is the stream

    def tell(self, uri: str) -> None:
        """Notify subscribers that a resource has changed; callable from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no client is left
                self._loop.call_soon_threadsafe(self._publish, ResourceUpdated(uri=uri))

    def _publish(self, event: ServerEvent) -> None:
        asyncio.ensure_future(self.publish(event))  # noqa: RUF006 - it never awaits anything

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a function to call on each change; return a function that removes it."""
        self._loop = asyncio.get_running_loop()
        return super().subscribe(listener)

    def add(self, context: Any, uri: str) -> None:
        """Answer ``resources/subscribe`` of protocol versions before 2026.

        Raises:
            ValueError: The connection has too many subscriptions.
        """
        connection = connection_of(context)
        subscribed = connection.state.get(_KEY)
        if subscribed is None:
            subscribed = connection.state[_KEY] = _Subscribed(self, context.session)
            connection.exit_stack.push_async_callback(subscribed.close)
        if len(subscribed.uris) >= MAX_SUBSCRIBED:
            raise ValueError(f"Too many subscriptions: at most {MAX_SUBSCRIBED} resources per connection.")
        subscribed.uris.add(uri)

    def remove(self, context: Any, uri: str) -> None:
        """Answer ``resources/unsubscribe``."""
        subscribed = connection_of(context).state.get(_KEY)
        if subscribed is not None:
            subscribed.uris.discard(uri)


def connection_of(context: Any) -> Any:
    """Return a request's connection, which holds the client's data between requests."""
    return context.session._connection  # the SDK has no public access to it


class _Subscribed:
    """The subscriptions of one connection."""

    def __init__(self, changes: Changes, session: Any) -> None:
        self.uris: set[str] = set()
        self._session, self._changed, self._has_changes = session, dict[str, None](), asyncio.Event()
        self._end = changes.subscribe(self._note)
        self._task = asyncio.create_task(self._send())

    def _note(self, event: Any) -> None:
        uri = getattr(event, "uri", None)
        if uri in self.uris:
            self._changed[uri] = None  # several changes, one notification
            self._has_changes.set()

    async def _send(self) -> None:
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            while self._changed:
                uri = next(iter(self._changed))
                del self._changed[uri]
                await self._session.send_resource_updated(uri)

    async def close(self) -> None:
        self._end()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task


# -- reject IDs still in use and lines that are not messages, before they reach the SDK ------------------
# In the SDK, a second request with the same ID replaces the first, which can then neither be answered nor
# cancelled. The SDK does not answer lines that are not messages.


def _duplicate_id(number: Any) -> str:
    return f"The id {number!r:.80} is in use by an unanswered request."


@asynccontextmanager
async def checked_lines(reading: Any, writing: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Yield streams of the SDK without rejected messages; the sender gets an error."""
    lines = _Lines(writing)
    forward, passed = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(lines.pass_on, reading, forward)
        yield passed, lines
        group.cancel_scope.cancel()


class _Lines:
    """The writing stream, which tracks the open requests."""

    def __init__(self, writing: Any) -> None:
        self._writing = writing
        self._open: set[str] = set()
        self._has_begun = False

    async def pass_on(self, reading: Any, forward: Any) -> None:
        async with reading, forward:
            async for item in reading:
                refusal = self._refusal(item)
                await (forward.send(item) if refusal is None else self._writing.send(refusal))

    def _refusal(self, item: Any) -> Any:
        if isinstance(item, Exception):
            return _error(None, NO_JSON, "The line is not a JSON-RPC message.")
        message = item.message
        number, method = getattr(message, "id", None), getattr(message, "method", None)
        if method == "notifications/cancelled":  # a cancelled request gets no answer
            self._open.discard(str((message.params or {}).get("requestId")))
        if number is None or method is None:
            return None
        if str(number) in self._open:
            return _error(number, NO_REQUEST, _duplicate_id(number))
        if not self._has_begun and method not in ("initialize", "ping") and not _has_version(message):
            return _error(number, NO_REQUEST, _FIRST)
        self._has_begun = self._has_begun or method != "ping"
        self._open.add(str(number))
        return None

    async def send(self, item: Any) -> None:
        if getattr(item.message, "method", None) is None:
            self._open.discard(str(getattr(item.message, "id", None)))
        await self._writing.send(item)

    async def aclose(self) -> None:
        await self._writing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _has_version(message: Any) -> bool:
    meta = (message.params or {}).get("_meta")
    return isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta


def _error(number: Any, code: int, text: str) -> Any:
    return SessionMessage(
        types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=text))
    )


class OpenIds:
    """The unanswered HTTP requests, by session and ID."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._open: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Forward a request or reject it."""
        session = dict(scope["headers"]).get(b"mcp-session-id")
        if scope["method"] != "POST" or session is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        number = _id_of(body)
        key = (session, str(number))
        if number is not None and key in self._open:
            error = {"code": NO_REQUEST, "message": _duplicate_id(number)}
            content = json.dumps({"jsonrpc": "2.0", "id": number, "error": error})
            await Response(content, 400, media_type="application/json")(scope, receive, send)
            return
        if number is not None:
            self._open.add(key)
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        try:
            await self._app(scope, again, send)
        finally:
            self._open.discard(key)


def _id_of(body: bytes) -> Any:
    """Return the ID of a request; None for anything else, which the SDK rejects."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value.get("id") if isinstance(value, dict) and "method" in value else None
