"""Event streams: Server-Sent Events, and the part shared with WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.server.api import models
from pure_agent_loop.server.api.operation import ApiRequest, Operation
from pure_agent_loop.server.channel import MAX_LAG, Channel, Gap
from pure_agent_loop.server.entries import RUN_END, ChannelEntry, Visibility
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.server.service import Service
from pure_agent_loop.support.language import notice

LAGGING = "too far behind"
SLOW = "too slow"
STOPPING = "the server stops"
CLOSE_FACTOR = 3  # factor: how many `viewer_seconds` a dropped viewer may take to accept the reason
PIECES = ("text_delta", "reasoning_delta", "tool_call_delta")
_MEDIA = ("text/event-stream",)


class DroppedError(Exception):
    """A viewer was dropped; the exception's text gives the reason."""


class Viewer:
    """A viewer of a session, or of one of its runs.

    Args:
        after: The number of the viewer's last event.
        run: Show only this run and end the stream with it; empty for the whole session.
        whole: Omit the deltas of runs that have ended, because other events contain the complete texts.
    """

    def __init__(
        self,
        service: Service,
        channel: Channel,
        after: int,
        visibility: Visibility,
        run: str = "",
        *,
        whole: bool = False,
    ) -> None:
        self._service, self._channel, self._visibility, self._run = service, channel, visibility, run
        self._whole = whole
        self.cursor = after

    async def follow(
        self,
        send_event: Callable[[ChannelEntry, str], Awaitable[None]],
        send_reset: Callable[[Gap], Awaitable[None]],
        send_keep_alive: Callable[[], Awaitable[None]],
    ) -> None:
        """Send events until the run ends; for a session, until the client leaves.

        Args:
            send_event: Sends an event, given the entry and its JSON.
            send_keep_alive: Called when no event has come for a while.

        Raises:
            DroppedError: The viewer is too slow, or the server is stopping.
        """
        channel, limits = self._channel, self._service.settings
        while True:
            batch = await channel.read(self.cursor)
            with Interrupt() as block:
                block.after(limits.viewer_seconds)
                if isinstance(batch, Gap):
                    self.cursor = batch.first - 1
                    await send_reset(batch)
                    batch = []
                for entry in batch:
                    block.after(limits.viewer_seconds)
                    if self._run in ("", entry.run) and not self._is_left_out(entry):
                        await send_event(entry, entry.to_json(self._visibility))
                    self.cursor = entry.number
                    if self._run and entry.run == self._run and entry.type == RUN_END:
                        return
            if block.fired:
                raise DroppedError(SLOW)
            if channel.last - self.cursor > MAX_LAG:
                raise DroppedError(LAGGING)
            if not batch and not await channel.wait(self.cursor, limits.keep_alive_seconds):
                await send_keep_alive()
            if self._service.closing.is_set() and self.cursor >= channel.last:
                raise DroppedError(STOPPING)

    def _is_left_out(self, entry: ChannelEntry) -> bool:
        run = self._service.hub.runs.get(entry.run) if self._whole and entry.type in PIECES else None
        return run is not None and not run.is_open


class EventResponse(Response):
    """A Server-Sent Events response. The response ends when the client disconnects."""

    def __init__(self, service: Service, person: Person, viewer: Viewer, channel: Channel) -> None:
        super().__init__(status_code=200)
        self._service, self._person, self._viewer, self._channel = service, person, viewer, channel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI signature
        """Send events until the viewer's stream ends or the client disconnects."""
        self._service.open_viewer(self._person, "sse")
        self._channel.viewers += 1
        try:
            async with first_of(wait_disconnect(receive), self._stream(send)):
                pass
        finally:
            self._channel.viewers -= 1
            self._service.close_viewer(self._person, "sse")

    async def _stream(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        async def send_event(entry: ChannelEntry, text: str) -> None:
            await write(f"id: {entry.number}\ndata: {text}\n\n")

        async def send_reset(gap: Gap) -> None:
            await write(f"event: reset\ndata: {json.dumps({'first': gap.first, 'last': gap.last})}\n\n")

        async def send_keep_alive() -> None:
            await write(": keep-alive\n\n")

        reason = "ended"
        try:
            await write("retry: 1000\n\n")
            await self._viewer.follow(send_event, send_reset, send_keep_alive)
        except DroppedError as dropped:
            reason = str(dropped)
            self._service.metrics.count("pal_viewers_dropped_total", reason=reason)
        with Interrupt() as block:  # limited, because a slow client must first receive the buffered events
            block.after(CLOSE_FACTOR * self._service.settings.viewer_seconds)
            await write(f"event: end\ndata: {json.dumps({'reason': reason})}\n\n")
            await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def first_of(*works: Awaitable[Any]) -> AsyncIterator[Sequence[asyncio.Future[Any]]]:
    """Run awaitables as tasks, yield the tasks once one is done, and cancel the rest after the block."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        yield tasks
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks, wait until all have ended, and ignore their errors."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _after(request: ApiRequest) -> int:
    last_id = request.http.headers.get("last-event-id")
    if last_id is None:
        return int(request.query.after)
    if not last_id.isdecimal() or len(last_id) > 16:
        raise HttpProblem(400, "Last-Event-ID must be an event number.")
    return int(last_id)


async def _of_run(request: ApiRequest) -> Response:
    info = request.service.run_of(request.person, request.path["run"])
    channel, after = request.service.hub.channel(info.session), _after(request)
    if not info.is_open and after >= channel.last:
        return Response(status_code=204)  # status 204 makes an EventSource stop reconnecting
    first = int(info.id.rpartition(":")[2])
    return _stream(request, channel, max(after, first - 1), info.id)


async def _of_session(request: ApiRequest) -> Response:
    session = request.service.session_of(request.person, request.path["session"])
    if not request.service.hub.of_session(session):
        raise HttpProblem(404, notice("library.server_no_runs"))
    return _stream(request, request.service.hub.channel(session), _after(request), "")


def _stream(request: ApiRequest, channel: Channel, after: int, run: str) -> Response:
    visibility = request.service.settings.visibility_of(request.person)
    viewer = Viewer(request.service, channel, after, visibility, run)
    return EventResponse(request.service, request.person, viewer, channel)


OPERATIONS = [
    Operation("GET", "/api/runs/{run}/events", "run_events", "Stream the events of a run until it ends.",
              _of_run, query=models.EventsQuery, media=_MEDIA, problems=(404,)),
    Operation("GET", "/api/sessions/{session}/events", "session_events", "Stream the events of a session.",
              _of_session, query=models.EventsQuery, media=_MEDIA, problems=(404,)),
]  # fmt: skip
