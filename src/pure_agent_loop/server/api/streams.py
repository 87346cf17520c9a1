"""Events as Server-Sent Events, and what both kinds of stream have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.channel import MOST_LAG, Channel, Gap
from pure_agent_loop.server.entries import RUN_END, Entry, Sight
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.server.service import Service

LAGGING = "too far behind"
SLOW = "too slow"
LEAVING = "the server stops"


class DroppedError(Exception):
    """A viewer cannot go on; its text says why."""


class Following:
    """One viewer of one session, or of one run in it.

    Args:
        service: The server.
        channel: The session.
        after: The number of the last event that the viewer has.
        sight: How much it sees.
        run: Only the events of this run; the viewer has ended when it has. Empty for the whole session.
    """

    def __init__(self, service: Service, channel: Channel, after: int, sight: Sight, run: str = "") -> None:
        self._service, self._channel, self._sight, self._run = service, channel, sight, run
        self.place = after

    async def follow(
        self,
        tell: Callable[[Entry, str], Awaitable[None]],
        reset: Callable[[Gap], Awaitable[None]],
        idle: Callable[[], Awaitable[None]],
    ) -> None:
        """Tell events until the run has ended, or for ever.

        Args:
            tell: Sends an event, given as it is and as it is to be sent.
            reset: Says that events are missing.
            idle: Says that the stream still lives.

        Raises:
            DroppedError: The viewer is too slow, or the server stops.
        """
        channel, limits = self._channel, self._service.settings
        while True:
            found = await channel.read(self.place)
            with Interrupt() as block:
                block.after(limits.viewer_seconds)
                if isinstance(found, Gap):
                    self.place = found.first - 1
                    await reset(found)
                    found = []
                for entry in found:
                    block.after(limits.viewer_seconds)
                    if self._run in ("", entry.run):
                        await tell(entry, entry.wire(self._sight))
                    self.place = entry.number
                    if self._run and entry.run == self._run and entry.type == RUN_END:
                        return
            if block.fired:
                raise DroppedError(SLOW)
            if channel.last - self.place > MOST_LAG:
                raise DroppedError(LAGGING)
            if not found and not await channel.wait(self.place, limits.keep_alive_seconds):
                await idle()
            if self._service.closing.is_set() and self.place >= channel.last:
                raise DroppedError(LEAVING)


class EventResponse(Response):
    """A stream of Server-Sent Events; it ends when its client leaves."""

    def __init__(self, service: Service, person: Person, following: Following, channel: Channel) -> None:
        super().__init__(status_code=200)
        self._service, self._person, self._following, self._channel = service, person, following, channel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of ASGI
        """Send it."""
        self._service.open_viewer(self._person, "sse")
        self._channel.viewers += 1
        leaving = asyncio.ensure_future(left(receive))
        following = asyncio.ensure_future(self._stream(send))
        try:
            await asyncio.wait({leaving, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._channel.viewers -= 1
            self._service.close_viewer(self._person, "sse")
            for task in (leaving, following):
                task.cancel()
            await asyncio.gather(leaving, following, return_exceptions=True)

    async def _stream(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        async def tell(entry: Entry, wire: str) -> None:
            await write(f"id: {entry.number}\ndata: {wire}\n\n")

        async def reset(gap: Gap) -> None:
            await write(f"event: reset\ndata: {json.dumps({'first': gap.first, 'last': gap.last})}\n\n")

        async def idle() -> None:
            await write(": still there\n\n")

        reason = "ended"
        try:
            await write("retry: 1000\n\n")
            await self._following.follow(tell, reset, idle)
        except DroppedError as dropped:
            reason = str(dropped)
            self._service.metrics.count("pal_viewers_dropped_total", reason=reason)
        with Interrupt() as block:  # who was too slow reads why, once it has read the rest
            block.after(self._service.settings.viewer_seconds)
            await write(f"event: end\ndata: {json.dumps({'reason': reason})}\n\n")
            await send({"type": "http.response.body", "body": b""})


async def left(receive: Receive) -> None:
    """Wait until a client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _after(asked: Asked) -> int:
    given = asked.request.headers.get("last-event-id")
    if given is None:
        return int(asked.query.after)
    if not given.isdecimal() or len(given) > 16:
        raise Problem(400, "Last-Event-ID is the number of an event.")
    return int(given)


async def _of_run(asked: Asked) -> Response:
    info = asked.service.run_of(asked.person, asked.path["run"])
    channel, after = asked.service.hub.channel(info.session), _after(asked)
    if not info.is_open and after >= channel.last:
        return Response(status_code=204)  # which tells a browser not to come back
    begins = int(info.id.rpartition(":")[2])
    return _stream(asked, channel, max(after, begins - 1), info.id)


async def _of_session(asked: Asked) -> Response:
    session = asked.service.session_of(asked.person, asked.path["session"])
    if not asked.service.hub.of_session(session):
        raise Problem(404, "No run of this server has worked in a session of that id.")
    return _stream(asked, asked.service.hub.channel(session), _after(asked), "")


def _stream(asked: Asked, channel: Channel, after: int, run: str) -> Response:
    sight = asked.service.settings.sight_of(asked.person)
    following = Following(asked.service, channel, after, sight, run)
    return EventResponse(asked.service, asked.person, following, channel)


_MEDIA = ("text/event-stream",)
OPERATIONS = [
    Operation("GET", "/api/runs/{run}/events", "run_events", "The events of a run, until it has ended.",
              _of_run, query=models.EventsQuery, media=_MEDIA, problems=(404,)),
    Operation("GET", "/api/sessions/{session}/events", "session_events", "The events of a session, for ever.",
              _of_session, query=models.EventsQuery, media=_MEDIA, problems=(404,)),
]  # fmt: skip
