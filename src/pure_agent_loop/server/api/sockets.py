"""Events and messages of any number of sessions over a WebSocket.

A client sends objects with a `type` and an optional `id`, which the reply repeats. A frame with an event has
the same JSON as the data of a Server-Sent Event. All other frames have a `control` field.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.websockets import WebSocket, WebSocketDisconnect

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.operation import request_json, validated
from pure_agent_loop.server.api.streams import (
    CLOSE_FACTOR,
    STOPPING,
    DroppedError,
    Viewer,
    cancel_all,
    first_of,
)
from pure_agent_loop.server.channel import Gap
from pure_agent_loop.server.entries import ChannelEntry
from pure_agent_loop.server.gate import RateLimiter
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import HttpProblem, as_problem, language_of
from pure_agent_loop.server.service import Service
from pure_agent_loop.support.language import notice

MAX_WATCHED = 100  # sessions per connection
TRY_LATER, GOING_AWAY, POLICY = 1013, 1001, 1008
MAX_ERRORS = 50  # rejected messages per connection
_ENVELOPE = ("type", "id", "session", "run", "after", "key")
# Actions by message type: the body's model, the field with the run's or session's id, the function.
_ACTIONS: dict[str, tuple[type[BaseModel], str, Callable[..., Awaitable[BaseModel]]]] = {
    "steer": (models.Steer, "run", actions.steer),
    "stop": (models.Stop, "run", actions.stop),
    "answer": (models.VerdictBody, "session", actions.answer),
    "result": (models.Result, "session", actions.give_result),
    "fork": (models.Fork, "session", actions.fork),
    "undo": (models.Undo, "session", actions.undo),
}


class Socket:
    """A WebSocket connection of a person."""

    def __init__(self, service: Service, person: Person, socket: WebSocket) -> None:
        self._service, self._person, self._socket = service, person, socket
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._unreachable = asyncio.Event()
        self._rates = RateLimiter(service.settings.rate)
        self._errors = 0
        asked = socket.query_params.get("language") or socket.headers.get("accept-language", "")
        self._language = language_of(asked)
        self._actions: dict[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "ping": self._ping,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "message": self._message,
            "edit": self._edit,
            **dict.fromkeys(_ACTIONS, self._act),
        }

    async def serve(self) -> None:
        """Serve until the client disconnects or the server stops."""
        await self._socket.accept()
        await self._control("hello", version=1, name=self._person.name)
        closing, unreachable = self._service.closing.wait(), self._unreachable.wait()
        try:
            async with first_of(closing, self._read(), unreachable) as (closed, reading, _):
                if closed.done() and not reading.done():
                    await self._close(GOING_AWAY, STOPPING)
        finally:
            await cancel_all([*self._watching.values()])

    async def _read(self) -> None:
        try:
            while True:
                text = await self._socket.receive_text()
                if self._rates.take(""):
                    await self._close(POLICY, "too many messages")
                    return
                await self._handle(text)
                if self._errors > MAX_ERRORS:
                    await self._close(POLICY, "too many invalid messages")
                    return
        except (WebSocketDisconnect, KeyError, RuntimeError):  # the client has left or sent binary data
            await self._close(1003, "text frames only")

    async def _handle(self, text: str) -> None:
        message: Any = None
        try:
            message = request_json(text)
            if not isinstance(message, dict) or message.get("type") not in self._actions:
                raise HttpProblem(400, f"type: use one of {', '.join(self._actions)}.")
            result = await self._actions[message["type"]](message)
            data = result.model_dump(mode="json") if isinstance(result, BaseModel) else result
            await self._control("reply", id=message.get("id"), data=data)
        except PureAgentLoopError as error:
            self._errors += 1
            problem = as_problem(error).to_dict(self._language)
            await self._control(
                "problem", id=message.get("id") if isinstance(message, dict) else None, **problem
            )

    async def _control(self, control: str, **fields: Any) -> None:
        await self._socket.send_text(json.dumps({"control": control, **fields}))

    async def _close(self, code: int, reason: str) -> None:
        with Interrupt() as block:  # limited, because a slow client must first receive the buffered events
            block.after(CLOSE_FACTOR * self._service.settings.viewer_seconds)
            try:
                await self._socket.close(code, reason)
            except RuntimeError:
                return  # already closed
        if block.fired:  # without this, the client would keep waiting on a dead connection
            self._service.metrics.count("pal_viewers_dropped_total", reason="unreachable")
            self._unreachable.set()

    # -- watching -------------------------------------------------------------------------------

    async def _ping(self, _: Mapping[str, Any]) -> None:
        return None

    async def _watch(self, message: Mapping[str, Any]) -> dict[str, Any]:
        session = self._service.session_of(self._person, _required_text(message, "session"))
        after = message.get("after", 0)
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise HttpProblem(400, "after: must be the number of the last received event, 0 for none.")
        if not self._service.hub.of_session(session):
            raise HttpProblem(404, notice("library.server_no_runs"))
        if session not in self._watching and len(self._watching) >= MAX_WATCHED:
            raise HttpProblem(429, f"A connection can watch at most {MAX_WATCHED} sessions.")
        await self._unwatch(message)
        channel = self._service.hub.channel(session)
        self._service.open_viewer(self._person, "websocket")
        channel.viewers += 1
        # The task starts only after this reply has been sent, so the reply precedes all events.
        self._watching[session] = asyncio.ensure_future(
            self._follow(session, after, whole=message.get("whole") is True)
        )
        return {"session": session, "last": channel.last}

    async def _unwatch(self, message: Mapping[str, Any]) -> None:
        task = self._watching.pop(_required_text(message, "session"), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, session: str, after: int, *, whole: bool) -> None:
        channel = self._service.hub.channel(session)
        visibility = self._service.settings.visibility_of(self._person)

        async def send_event(_: ChannelEntry, text: str) -> None:
            await self._socket.send_text(text)

        async def send_reset(gap: Gap) -> None:
            await self._control("reset", session=session, first=gap.first, last=gap.last)

        async def send_keep_alive() -> None:  # not needed: the WebSocket has pings
            return None

        try:
            viewer = Viewer(self._service, channel, after, visibility, whole=whole)
            await viewer.follow(send_event, send_reset, send_keep_alive)
        except DroppedError as dropped:
            self._service.metrics.count("pal_viewers_dropped_total", reason=str(dropped))
            if str(dropped) != STOPPING:
                await self._close(TRY_LATER, str(dropped))
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            channel.viewers -= 1
            self._service.close_viewer(self._person, "websocket")

    # -- actions --------------------------------------------------------------------------------

    async def _message(self, message: Mapping[str, Any]) -> models.RunBody:
        body = validated(models.Message, _inner(message, "session"), 422)
        run, _ = await actions.send(self._service, self._person, body, str(message.get("key", "")))
        return run

    async def _act(self, message: Mapping[str, Any]) -> BaseModel:
        model, target, action = _ACTIONS[message["type"]]
        body = validated(model, _inner(message), 422)
        result: BaseModel = await action(self._service, self._person, _required_text(message, target), body)
        return result

    async def _edit(self, message: Mapping[str, Any]) -> models.RunBody:
        body = validated(models.Edit, _inner(message), 422)
        session, key = _required_text(message, "session"), str(message.get("key", ""))
        run, _ = await actions.edit(self._service, self._person, session, body, key)
        return run


def _required_text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise HttpProblem(400, f"{name}: must be a string of 1 to 200 characters.")
    return value


def _inner(message: Mapping[str, Any], *kept: str) -> dict[str, Any]:
    """Return a message without its envelope, as the body of the equivalent REST request."""
    return {name: value for name, value in message.items() if name in kept or name not in _ENVELOPE}


async def socket(websocket: WebSocket) -> None:
    """Serve the endpoint ``/ws``."""
    service: Service = websocket.app.state.service
    person: Person = websocket.scope["state"]["person"]
    if not person.may("use") and not person.may("approve"):
        raise HttpProblem(403, notice("library.server_role", role="use"))
    await Socket(service, person, websocket).serve()
