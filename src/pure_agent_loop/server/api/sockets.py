"""Events and messages over one WebSocket, for any number of sessions.

A client sends objects with a `type`, and an `id` of its choice that comes back with the answer. Frames with
events are what the data of Server-Sent Events are. All other frames have a `control`.
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
from pure_agent_loop.server.api.operation import checked, read_json
from pure_agent_loop.server.api.streams import LEAVING, DroppedError, Following
from pure_agent_loop.server.channel import Gap
from pure_agent_loop.server.entries import Entry
from pure_agent_loop.server.gate import Rates
from pure_agent_loop.server.people import Person
from pure_agent_loop.server.problems import Problem, as_problem
from pure_agent_loop.server.service import Service

MOST_WATCHED = 100  # sessions over one connection
TRY_LATER, GOING_AWAY, POLICY = 1013, 1001, 1008
MOST_MISTAKES = 50  # of one connection, then it is closed
_ENVELOPE = ("type", "id", "session", "run", "after", "key")


class Socket:
    """One connection.

    Args:
        service: The server.
        person: Who is there.
        socket: The connection.
    """

    def __init__(self, service: Service, person: Person, socket: WebSocket) -> None:
        self._service, self._person, self._socket = service, person, socket
        self._watching: dict[str, asyncio.Task[None]] = {}
        rate = service.settings.rate
        self._rates = Rates(rate, rate * 4)
        self._mistakes = 0
        self._actions: dict[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "ping": self._ping,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "message": self._message,
            "edit": self._edit,
            **dict.fromkeys(_ACTS, self._act),
        }

    async def serve(self) -> None:
        """Serve it until one side leaves."""
        await self._socket.accept()
        closing = asyncio.ensure_future(self._service.closing.wait())
        reading = asyncio.ensure_future(self._read())
        try:
            hello = {"version": 1, "name": self._person.name}
            await self._control("hello", **hello)
            await asyncio.wait({closing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if closing.done() and not reading.done():
                await self._leave(GOING_AWAY, LEAVING)
        finally:
            tasks = [closing, reading, *self._watching.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while True:
                text = await self._socket.receive_text()
                if self._rates.take(""):
                    await self._leave(POLICY, "too many messages")
                    return
                await self._handle(text)
                if self._mistakes > MOST_MISTAKES:
                    await self._leave(POLICY, "too many messages that mean nothing")
                    return
        except (WebSocketDisconnect, KeyError, RuntimeError):  # it left, or sent bytes
            await self._leave(1003, "text frames only")

    async def _handle(self, text: str) -> None:
        said: Any = None
        try:
            said = read_json(text)
            if not isinstance(said, dict) or said.get("type") not in self._actions:
                raise Problem(400, f"type: use one of {', '.join(self._actions)}.")
            found = await self._actions[said["type"]](said)
            data = found.model_dump(mode="json") if isinstance(found, BaseModel) else found
            await self._control("reply", id=said.get("id"), data=data)
        except PureAgentLoopError as error:
            self._mistakes += 1
            problem = as_problem(error).to_dict()
            await self._control("problem", id=said.get("id") if isinstance(said, dict) else None, **problem)

    async def _control(self, control: str, **about: Any) -> None:
        await self._socket.send_text(json.dumps({"control": control, **about}))

    async def _leave(self, code: int, reason: str) -> None:
        with Interrupt() as block:  # who was too slow reads why, once it has read the rest
            block.after(self._service.settings.viewer_seconds)
            try:
                await self._socket.close(code, reason)
            except RuntimeError:
                return  # it is closed

    # -- watching -------------------------------------------------------------------------------

    async def _ping(self, _: Mapping[str, Any]) -> None:
        return None

    async def _watch(self, said: Mapping[str, Any]) -> dict[str, Any]:
        session = self._service.session_of(self._person, _word(said, "session"))
        after = said.get("after", 0)
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise Problem(400, "after: the number of the last event you have, 0 for none.")
        if not self._service.hub.of_session(session):
            raise Problem(404, "No run of this server has worked in a session of that id.")
        if session not in self._watching and len(self._watching) >= MOST_WATCHED:
            raise Problem(429, f"One connection watches at most {MOST_WATCHED} sessions.")
        await self._unwatch(said)
        channel = self._service.hub.channel(session)
        self._service.open_viewer(self._person, "websocket")
        channel.viewers += 1
        self._watching[session] = asyncio.ensure_future(self._follow(session, after))
        return {"session": session, "last": channel.last}

    async def _unwatch(self, said: Mapping[str, Any]) -> None:
        task = self._watching.pop(_word(said, "session"), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, session: str, after: int) -> None:
        channel = self._service.hub.channel(session)
        sight = self._service.settings.sight_of(self._person)

        async def tell(_: Entry, wire: str) -> None:
            await self._socket.send_text(wire)

        async def reset(gap: Gap) -> None:
            await self._control("reset", session=session, first=gap.first, last=gap.last)

        async def idle() -> None:  # the server's pings say that it lives
            return None

        try:
            await Following(self._service, channel, after, sight).follow(tell, reset, idle)
        except DroppedError as dropped:
            self._service.metrics.count("pal_viewers_dropped_total", reason=str(dropped))
            if str(dropped) != LEAVING:
                await self._leave(TRY_LATER, str(dropped))
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            channel.viewers -= 1
            self._service.close_viewer(self._person, "websocket")

    # -- doing ----------------------------------------------------------------------------------

    async def _message(self, said: Mapping[str, Any]) -> models.Run:
        body = checked(models.Message, _inner(said, "session"), 422)
        run, _ = await actions.send(self._service, self._person, body, str(said.get("key", "")))
        return run

    async def _act(self, said: Mapping[str, Any]) -> BaseModel:
        kind, place, act = _ACTS[said["type"]]
        found: BaseModel = await act(
            self._service, self._person, _word(said, place), checked(kind, _inner(said), 422)
        )
        return found

    async def _edit(self, said: Mapping[str, Any]) -> models.Run:
        body = checked(models.Edit, _inner(said), 422)
        given = (_word(said, "session"), body, str(said.get("key", "")))
        run, _ = await actions.edit(self._service, self._person, *given)
        return run


# What is done to a run or a session: its body by REST, what it is done to, and what does it.
_ACTS: dict[str, tuple[type[BaseModel], str, Callable[..., Awaitable[BaseModel]]]] = {
    "steer": (models.Steer, "run", actions.steer),
    "stop": (models.Stop, "run", actions.stop),
    "answer": (models.Verdict, "session", actions.answer),
    "result": (models.Result, "session", actions.give_result),
    "fork": (models.Fork, "session", actions.fork),
    "undo": (models.Undo, "session", actions.undo),
}


def _word(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= 200:
        raise Problem(400, f"{name}: it must be given, as a text.")
    return found


def _inner(said: Mapping[str, Any], *kept: str) -> dict[str, Any]:
    """A message without its envelope: what the same thing has as a body by REST."""
    return {name: value for name, value in said.items() if name in kept or name not in _ENVELOPE}


async def socket(websocket: WebSocket) -> None:
    """The endpoint ``/ws``."""
    service: Service = websocket.app.state.service
    person: Person = websocket.scope["state"]["person"]
    if not person.may("use") and not person.may("approve"):
        raise Problem(403, "This needs the role 'use'.")
    await Socket(service, person, websocket).serve()
