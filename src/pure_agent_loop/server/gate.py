"""What stands before every handler: who asks, from where, how much and how often; and what every answer has.

    host ─► origin ─► who ─► how often ─► content type ─► size ─► the handler

Plain ASGI, for HTTP and WebSockets alike, so that no handler can be reached past it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pure_agent_loop.server.metrics import Metrics
from pure_agent_loop.server.people import People, Person
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.server.settings import Settings

ACCESS = logging.getLogger("pure_agent_loop.server.access")
OPEN_PATHS = ("/", "/healthz", "/readyz", "/api/login", "/favicon.ico")  # they say nothing of anybody
OPEN_BELOW = "/assets/"
_FIXED = (*OPEN_PATHS, "/ws", "/metrics", "/mcp", "/api/openapi.json")  # names of routes, for the numbers
READING = ("GET", "HEAD", "OPTIONS")
# No inline code, no other origin, no frames; scripts are made of strings nowhere.
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
BODY_SECONDS = 60.0  # for a whole request to arrive
# Of what a refused client still sends, so much is read and thrown away: many send all of it before they read.
LINGER_BYTES = 1 << 30
LINGER_SECONDS = 10.0
_CORS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
}
_MOST_BUCKETS = 10_000
_SINGLE = (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"sec-fetch-site")


class Rates:
    """How often each person may ask: a bucket that fills again with time.

    Args:
        rate: How many a second, for long.
        burst: How many at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        now = time.monotonic()
        left, since = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if len(self._left) > _MOST_BUCKETS:
            self._left.clear()
        self._left[name] = (max(left - 1, 0.0), now) if left >= 1 else (left, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate


class Gate:
    """The outermost part of the application.

    Args:
        app: What comes behind it.
        people: Who may ask.
        settings: Limits.
        metrics: Counts.
    """

    def __init__(self, app: ASGIApp, people: People, settings: Settings, metrics: Metrics) -> None:
        self._app, self._people, self._settings, self._metrics = app, people, settings, metrics
        self._rates = Rates(settings.rate, settings.rate * 4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        body = _Body(receive, self._settings.max_body, headers) if scope["type"] == "http" else None
        answer = _Answer(scope, send, headers, self._settings, body)
        try:
            self._check_single(scope)
            self._check(scope, headers)
            if _is_preflight(scope) and headers.get("origin") in self._settings.origins:
                await answer.allow()
                return
            if body is not None:
                body.check()
            await self._app(scope, body or receive, answer.send)
        except Problem as problem:
            self._metrics.count("pal_refused_total", reason=str(problem.status))
            await answer.refuse(problem)
        finally:
            self._log(scope, answer)

    def _check_single(self, scope: Scope) -> None:
        """What decides stands once: of two, a proxy may have looked at the other one."""
        names = [name.lower() for name, _ in scope["headers"]]
        for name in (*_SINGLE, self._people.header.encode()):
            if name and names.count(name) > 1:
                raise Problem(400, f"The header {name.decode()} stands twice.", {"Connection": "close"})
        if b"transfer-encoding" in names and b"content-length" in names:
            raise Problem(400, "A request has one length.", {"Connection": "close"})

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._settings.is_host(host):
            raise Problem(421, "This server is not called so. Name it with hosts= (--allow-host).")
        if origin is not None and not self._settings.is_origin(origin, host):
            raise Problem(403, "Pages of other origins may not call this server.")
        path = scope["path"]
        scope.setdefault("state", {})["settings"] = self._settings
        if path in OPEN_PATHS or path.startswith(OPEN_BELOW) or _is_preflight(scope):
            person = None
        else:
            person, by_cookie = self._who(headers)
            scope["state"]["person"] = person
            unsafe = scope["type"] == "websocket" or scope["method"] not in READING
            if by_cookie and unsafe and origin is None and headers.get("sec-fetch-site") != "same-origin":
                raise Problem(403, "A request with a cookie must say which page it comes from (Origin).")
        wait = self._rates.take(person.name if person else f"from {(scope.get('client') or ('',))[0]}")
        if wait:
            raise Problem(429, "Too many requests.", {"Retry-After": str(int(wait) + 1)})
        if scope["type"] == "http" and scope["method"] not in READING:
            _check_type(headers)

    def _who(self, headers: Mapping[str, str]) -> tuple[Person, bool]:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            person = self._people.by_token(token.strip())
            person = self._people.named(person, headers) if person else None
            if person is not None:
                return person, False
        elif (person := self._people.by_cookie(_cookie(headers, self._people.cookie_name))) is not None:
            return person, True
        raise Problem(
            401,
            "Say who you are: Authorization: Bearer TOKEN, or open the link that the server printed.",
            {"WWW-Authenticate": 'Bearer realm="pure-agent-loop"'},
        )

    def _log(self, scope: Scope, answer: _Answer) -> None:
        seconds = time.monotonic() - answer.begun
        path = scope["path"]
        route = scope.get("state", {}).get("route") or (path if path in _FIXED else "-")
        method = scope.get("method", "WS")
        self._metrics.request(method, route, answer.status, None if answer.is_stream else seconds)
        person = scope.get("state", {}).get("person")
        said = {
            "method": method,
            "path": scope["path"],  # not the query: a token may stand there, where somebody put it by mistake
            "status": answer.status,
            "ms": round(seconds * 1000, 1),
            "who": person.name if person else "",
            "from": (scope.get("client") or ("",))[0],
            "bytes": answer.bytes,
        }
        ACCESS.info("%s", json.dumps(said))


def _is_preflight(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and scope["method"] == "OPTIONS")


def _check_type(headers: Mapping[str, str]) -> None:
    """A form of another page can send text, but no JSON without asking first."""
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and (has_body or kind):
        raise Problem(415, "Send JSON: Content-Type: application/json.")


def _cookie(headers: Mapping[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


class _Body:
    """A request's body, up to a size."""

    def __init__(self, receive: Receive, most: int, headers: Mapping[str, str]) -> None:
        self._receive, self._most, self._got = receive, most, 0
        self._length = headers.get("content-length", "0")
        self._is_whole = self._length == "0" and "transfer-encoding" not in headers
        self._may_come = "expect" not in headers  # else it waits for a word that it does not get
        self._until = time.monotonic() + BODY_SECONDS

    @property
    def is_too_large(self) -> bool:
        """More is still to come than was allowed, as far as that is known."""
        length = self._length
        return not length.isdecimal() or len(length) > 15 or max(int(length), self._got) > self._most

    @property
    def may_be_long(self) -> bool:
        """It is still to come, and nothing says that it is short."""
        return not self._is_whole and (self._length == "0" or self.is_too_large)

    def check(self) -> None:
        """Refuse what is too large before any of it is read.

        Raises:
            Problem: It is.
        """
        if self.is_too_large:
            raise _too_large(self._most)

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            message = await self._next(self._until)
        except asyncio.TimeoutError:
            raise Problem(408, "The request took too long to arrive.") from None
        self.check()
        return message

    async def throw_away(self) -> None:
        """Read on for a while: a connection that is closed before takes the answer with it."""
        until = time.monotonic() + LINGER_SECONDS
        with contextlib.suppress(asyncio.TimeoutError):
            while self._may_come and not self._is_whole and self._got < LINGER_BYTES:
                await self._next(until)

    async def _next(self, until: float) -> Message:
        message = await asyncio.wait_for(self._receive(), max(until - time.monotonic(), 0.01))
        self._got += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return message


def _too_large(most: int) -> Problem:
    return Problem(413, f"A request has at most {most:,} bytes.")


class _Answer:
    """What is sent back, with the headers that every answer has."""

    def __init__(
        self, scope: Scope, send: Send, headers: Mapping[str, str], settings: Settings, body: _Body | None
    ) -> None:
        self._scope, self._send, self._body = scope, send, body
        self.begun, self.status, self.bytes = time.monotonic(), 0, 0
        self.is_stream = scope["type"] == "websocket"
        origin = headers.get("origin", "")
        self._origin = origin if origin in settings.origins else ""

    async def send(self, message: Message) -> None:
        """Pass a message of the application on."""
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            given = {name.decode("latin-1").lower(): value for name, value in message.get("headers", [])}
            self.is_stream = self.is_stream or given.get("content-type", b"").startswith(b"text/event-stream")
            more = {name: value for name, value in self._more().items() if name not in given}
            if self.status >= 400 and self._body is not None and self._body.may_be_long:
                more["connection"] = "close"
            added = [(name.encode(), value.encode()) for name, value in more.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        elif kind == "websocket.accept":
            self.status = 101
        self.bytes += len(message.get("body") or message.get("text") or b"")
        is_end = kind == "http.response.body" and not message.get("more_body")
        if is_end and self.status >= 400 and self._body is not None:
            await self._send({**message, "more_body": True})
            await self._body.throw_away()
            message = {"type": kind, "body": b""}
        await self._send(message)

    def _more(self) -> dict[str, str]:
        if not self._origin:
            return HEADERS
        allowed = {"access-control-allow-origin": self._origin, "vary": "Origin"}
        return {**HEADERS, "cross-origin-resource-policy": "cross-origin", **allowed}

    async def allow(self) -> None:
        """Answer a browser that asks whether a page of a named origin may call."""
        headers = [(name.encode(), value.encode()) for name, value in _CORS.items()]
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, if nothing was answered yet."""
        if self.status:
            return
        body, kind = problem.body(self._scope["path"])
        lead = "websocket." if self._scope["type"] == "websocket" else ""
        headers: list[tuple[Any, Any]] = [(b"content-type", kind.encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers.append((b"content-length", str(len(body)).encode()))
        start = {"type": f"{lead}http.response.start", "status": problem.status, "headers": headers}
        await self.send(start)
        await self.send({"type": f"{lead}http.response.body", "body": body})
        if lead:  # uvicorn calls a handshake unfinished until its connection is gone, and logs that
            await asyncio.sleep(0)
            await asyncio.sleep(0)
