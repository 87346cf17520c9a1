"""Middleware before every handler: checks host, origin, authentication, rate and size; adds common headers.

    host ─► origin ─► authentication ─► rate ─► content type ─► size ─► handler

Plain ASGI for HTTP and WebSockets alike, so that no handler is reachable without these checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Collection, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import SLASH, People, Person
from pure_agent_loop.server.problems import HttpProblem, language_of, path_of
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.language import notice

ACCESS = logging.getLogger("pure_agent_loop.server.access")
LOGIN = "/api/login"
# Paths that need no token: they reveal nothing private.
OPEN_PATHS = ("/", "/live", "/ready", "/healthz", "/readyz", LOGIN, "/favicon.ico")
SHARED = "/s/"
OPEN_BELOW = ("/assets/", SHARED)
# Paths that are used as route names in metrics.
_FIXED = (*OPEN_PATHS, "/ws", "/metrics", "/mcp", "/api/openapi.json")
READING = ("GET", "HEAD", "OPTIONS")
# No inline code, no other origins, no frames; trusted-types: no scripts from strings.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; media-src 'self' data: blob:; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types pal dompurify"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
BODY_SECONDS = 60.0  # seconds allowed for the whole request to arrive
# Limits for discarding the rest of a rejected request: many clients read no response before they have
# sent all of it.
LINGER_BYTES = 1 << 30
LINGER_SECONDS = 10.0
_CORS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
}
_POLICY = 1008  # WebSocket close code for a policy violation
_MAX_BUCKETS = 10_000
_SINGLE = (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"sec-fetch-site")


class RateLimiter:
    """A token-bucket rate limiter, one bucket per person. A burst may reach four times the rate.

    Args:
        rate: Sustained requests per second.
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, rate * 4
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take a token. Return 0, or the seconds to wait if the bucket is empty."""
        now = time.monotonic()
        level, since = self._buckets.get(name, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.clear()
        self._buckets[name] = (max(level - 1, 0.0), now) if level >= 1 else (level, now)
        return 0.0 if level >= 1 else (1 - level) / self._rate


class GateMiddleware:
    """Outermost middleware of the application: rejects requests before any handler runs."""

    def __init__(self, app: ASGIApp, people: People, settings: Settings, metrics: Metrics) -> None:
        self._app, self._people, self._settings, self._metrics = app, people, settings, metrics
        self._rates = RateLimiter(settings.rate)
        self._open: dict[asyncio.Task[Any] | None, tuple[Person, _ResponseSender]] = {}
        self._ended: set[asyncio.Task[Any] | None] = set()  # tasks whose user lost access
        people.on_ended = self._end_streams

    def _end_streams(self, people: Collection[Person]) -> None:
        """End the open streams of users whose token or roles have changed."""
        for task, (person, response) in self._open.items():
            if task is not None and response.is_stream and person in people:
                self._ended.add(task)
                task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        body = _RequestBody(receive, self._settings.max_body, headers) if scope["type"] == "http" else None
        response, task = _ResponseSender(scope, send, headers, self._settings, body), asyncio.current_task()
        try:
            _keep_slashes(scope)
            _set_prefix(scope, self._settings.prefix)
            self._check_single(scope)
            self._check(scope, headers)
            if _is_preflight(scope) and headers.get("origin") in self._settings.origins:
                await response.allow()
                return
            if body is not None:
                body.check()
            await scope["app"].state.life.begin_mounted(scope["app"])
            if (credential := scope["state"].get("credential")) is not None:
                self._open[task] = credential, response
            await self._app(scope, body or receive, response.send)
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            await response.end()
        except HttpProblem as problem:
            self._metrics.count("pal_refused_total", reason=str(problem.status))
            await response.refuse(problem)
        finally:
            self._open.pop(task, None)
            self._ended.discard(task)
            self._log(scope, response)

    def _check_single(self, scope: Scope) -> None:
        """Reject security headers that occur twice: a proxy may have checked only one of the values."""
        names = [name.lower() for name, _ in scope["headers"]]
        for name in (*_SINGLE, self._people.header.encode()):
            if name and names.count(name) > 1:
                raise HttpProblem(400, f"Header {name.decode()} was sent twice.", {"Connection": "close"})
        if b"transfer-encoding" in names and b"content-length" in names:
            detail = "Both Content-Length and Transfer-Encoding were sent."
            raise HttpProblem(400, detail, {"Connection": "close"})

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._settings.is_host(host):
            raise HttpProblem(421, notice("library.server_host"))
        if origin is not None and not self._settings.is_origin(origin, host):
            raise HttpProblem(403, notice("library.server_origin_refused"))
        path = path_of(scope)
        scope.setdefault("state", {})["settings"] = self._settings
        if path in OPEN_PATHS or path.startswith(OPEN_BELOW) or _is_preflight(scope):
            person = self._person(headers) if path == LOGIN and scope["method"] != "POST" else None
            scope["state"]["person"] = person
        else:
            person, credential, by_cookie = self._authenticate(headers)
            scope["state"] |= {"person": person, "credential": credential}
            unsafe = scope["type"] == "websocket" or scope["method"] not in READING
            if by_cookie and unsafe and origin is None and headers.get("sec-fetch-site") != "same-origin":
                raise HttpProblem(403, "Requests with a cookie need an Origin header.")
        wait = self._rates.take(person.name if person else f"from {(scope.get('client') or ('',))[0]}")
        if wait:
            raise HttpProblem(429, notice("library.server_rate"), {"Retry-After": str(int(wait) + 1)})
        if scope["type"] == "http" and scope["method"] not in READING:
            _check_type(headers)

    def _person(self, headers: Mapping[str, str]) -> Person | None:
        """Return the authenticated person; None (not an error) if the request is not authenticated."""
        try:
            return self._authenticate(headers)[0]
        except HttpProblem:
            return None

    def _authenticate(self, headers: Mapping[str, str]) -> tuple[Person, Person, bool]:
        """Return the acting user, the user who owns the token or cookie, and whether a cookie was sent."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            owner = self._people.by_token(token.strip())
            person = self._people.named(owner, headers) if owner else None
            if person is not None and owner is not None:
                return person, owner, False
        elif (person := self._people.by_cookie(_cookie(headers, self._people.cookie_name))) is not None:
            return person, person, True
        raise HttpProblem(
            401,
            notice("library.server_not_authenticated"),
            {"WWW-Authenticate": 'Bearer realm="pure-agent-loop"'},
        )

    def _log(self, scope: Scope, response: _ResponseSender) -> None:
        seconds = time.monotonic() - response.started
        path = path_of(scope)
        route = scope.get("state", {}).get("route") or (path if path in _FIXED else "-")
        method = scope.get("method", "WS")
        self._metrics.request(method, route, response.status, None if response.is_stream else seconds)
        person = scope.get("state", {}).get("person")
        fields = {
            "method": method,
            # Omit a link's token, and the query, which may contain a token by mistake.
            "path": SHARED if path.startswith(SHARED) else path,
            "status": response.status,
            "ms": round(seconds * 1000, 1),
            "who": person.name if person else "",
            "from": (scope.get("client") or ("",))[0],
            "bytes": response.bytes,
        }
        ACCESS.info("%s", json.dumps(fields), extra={"fields": fields})


def _keep_slashes(scope: Scope) -> None:
    """Replace ``%2F`` in the path by NUL, so that a slash in a session name is not taken for a separator.

    Raises:
        HttpProblem: The path already contains a NUL.
    """
    raw: bytes = scope.get("raw_path") or b""
    if "\0" in scope["path"] or b"%00" in raw:
        raise HttpProblem(404, notice("library.server_not_found"))
    if b"%2f" in raw.lower():
        parts = raw.partition(b"?")[0].decode("latin-1").split("/")
        scope["path"] = "/".join(unquote(part).replace("/", SLASH) for part in parts)


def _set_prefix(scope: Scope, prefix: str) -> None:
    """Set the root path of the request, and restore the prefix if a proxy stripped it."""
    if prefix and not scope.get("root_path"):
        scope["root_path"] = prefix
        if not f"{scope['path']}/".startswith(f"{prefix}/"):
            scope["path"] = prefix + scope["path"]


def _is_preflight(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and scope["method"] == "OPTIONS")


def _check_type(headers: Mapping[str, str]) -> None:
    """Require JSON, because another site's page can send text, but not JSON, without a CORS preflight."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and (has_body or kind):
        raise HttpProblem(415, "Send JSON: Content-Type: application/json.")


def _cookie(headers: Mapping[str, str], name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


class _RequestBody:
    """Reads a request body up to a maximum size."""

    def __init__(self, receive: Receive, max_bytes: int, headers: Mapping[str, str]) -> None:
        self._receive, self._max, self._received = receive, max_bytes, 0
        self._length = headers.get("content-length", "0")
        self._is_complete = self._length == "0" and "transfer-encoding" not in headers
        self._has_no_expect = "expect" not in headers  # a client that expects 100 Continue sends no body
        self._deadline = time.monotonic() + BODY_SECONDS

    @property
    def is_too_large(self) -> bool:
        """True if the body is known to exceed the limit."""
        length = self._length
        return not length.isdecimal() or len(length) > 15 or max(int(length), self._received) > self._max

    @property
    def may_be_long(self) -> bool:
        """True if unread bytes of unknown or excessive length remain."""
        return not self._is_complete and (self._length == "0" or self.is_too_large)

    def check(self) -> None:
        """Reject an oversized body before reading it.

        Raises:
            HttpProblem: The body is too large.
        """
        if self.is_too_large:
            raise HttpProblem(413, notice("library.server_body_too_large", limit=self._max))

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            message = await self._receive_chunk(self._deadline)
        except TimeoutError:
            raise HttpProblem(408, notice("library.server_too_slow")) from None
        self.check()
        return message

    async def drain(self) -> None:
        """Discard the rest of the body, up to a limit: closing at once would lose the response."""
        deadline = time.monotonic() + LINGER_SECONDS
        with contextlib.suppress(TimeoutError):
            while self._has_no_expect and not self._is_complete and self._received < LINGER_BYTES:
                await self._receive_chunk(deadline)

    async def _receive_chunk(self, deadline: float) -> Message:
        message = await within(max(deadline - time.monotonic(), 0.01), self._receive())
        self._received += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return message


class _ResponseSender:
    """Sends a response with the common headers."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        headers: Mapping[str, str],
        settings: Settings,
        body: _RequestBody | None,
    ) -> None:
        self._scope, self._send, self._body = scope, send, body
        self.started, self.status, self.bytes = time.monotonic(), 0, 0
        self.is_stream = scope["type"] == "websocket"
        self._languages = headers.get("accept-language", "")
        origin = headers.get("origin", "")
        self._origin = origin if origin in settings.origins else ""

    async def send(self, message: Message) -> None:
        """Forward an ASGI message from the application."""
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            own = {name.decode("latin-1").lower(): value for name, value in message.get("headers", [])}
            self.is_stream = self.is_stream or own.get("content-type", b"").startswith(b"text/event-stream")
            common = {name: value for name, value in self._headers().items() if name not in own}
            if self.status >= 400 and self._body is not None and self._body.may_be_long:
                common["connection"] = "close"
            added = [(name.encode(), value.encode()) for name, value in common.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        elif kind == "websocket.accept":
            self.status = 101
        self.bytes += len(message.get("body") or message.get("text") or b"")
        is_end = kind == "http.response.body" and not message.get("more_body")
        if is_end and self.status >= 400 and self._body is not None:
            await self._send({**message, "more_body": True})
            await self._body.drain()
            message = {"type": kind, "body": b""}
        await self._send(message)

    def _headers(self) -> dict[str, str]:
        if not self._origin:
            return HEADERS
        allowed = {"access-control-allow-origin": self._origin, "vary": "Origin"}
        return {**HEADERS, "cross-origin-resource-policy": "cross-origin", **allowed}

    async def allow(self) -> None:
        """Answer a CORS preflight of an allowed origin."""
        headers = [(name.encode(), value.encode()) for name, value in _CORS.items()]
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def end(self) -> None:
        """End a stream whose user no longer has access."""
        if self._scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": _POLICY, "reason": "signed out"})
        else:
            await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, problem: HttpProblem) -> None:
        """Send a problem unless the response has started."""
        if self.status:
            return
        body, kind = problem.body(path_of(self._scope), language_of(self._languages))
        prefix = "websocket." if self._scope["type"] == "websocket" else ""
        headers: list[tuple[Any, Any]] = [(b"content-type", kind.encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers.append((b"content-length", str(len(body)).encode()))
        start = {"type": f"{prefix}http.response.start", "status": problem.status, "headers": headers}
        await self.send(start)
        await self.send({"type": f"{prefix}http.response.body", "body": body})
        if prefix:  # let the connection close first, or uvicorn logs an unfinished handshake
            await asyncio.sleep(0)
            await asyncio.sleep(0)
