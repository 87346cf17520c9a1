"""What stands before every handler: who asks, from where, how much and how often; and what every answer has.

    host ─► origin ─► who ─► how often ─► content type ─► size ─► the handler

Plain ASGI, for HTTP and WebSockets alike, so that no handler can be reached past it.
"""

from __future__ import annotations

import asyncio
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
_CORS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
}
_MOST_BUCKETS = 10_000


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
        answer = _Answer(scope, send, headers, self._settings)
        try:
            self._check(scope, headers)
            if _is_preflight(scope) and headers.get("origin") in self._settings.origins:
                await answer.allow()
                return
            body = _Body(receive, self._settings.max_body, headers) if scope["type"] == "http" else receive
            await self._app(scope, body, answer.send)
        except Problem as problem:
            self._metrics.count("pal_refused_total", reason=str(problem.status))
            await answer.refuse(problem)
        finally:
            self._log(scope, answer)

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
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 15 or int(length) > most:
            raise _too_large(most)
        self._receive, self._most, self._got = receive, most, 0
        self._until, self._is_whole = time.monotonic() + BODY_SECONDS, False

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            left = self._until - time.monotonic()
            message = await asyncio.wait_for(self._receive(), max(left, 0.01))
        except asyncio.TimeoutError:
            raise Problem(408, "The request took too long to arrive.", {"Connection": "close"}) from None
        self._got += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._got > self._most:
            raise _too_large(self._most)
        return message


def _too_large(most: int) -> Problem:
    return Problem(413, f"A request has at most {most:,} bytes.", {"Connection": "close"})


class _Answer:
    """What is sent back, with the headers that every answer has."""

    def __init__(self, scope: Scope, send: Send, headers: Mapping[str, str], settings: Settings) -> None:
        self._scope, self._send = scope, send
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
            added = [(name.encode(), value.encode()) for name, value in more.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        elif kind == "websocket.accept":
            self.status = 101
        self.bytes += len(message.get("body") or message.get("text") or b"")
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
