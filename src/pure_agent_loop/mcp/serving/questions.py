"""What a run asks and tells, put to the client it works for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, get_args

import mcp_types as types

from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.mcp.connection import is_modern
from pure_agent_loop.mcp.serving.changes import connection_of
from pure_agent_loop.mcp.words import say
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool_context import current_call

_ALLOW = {"type": "object", "properties": {"allow": {"type": "boolean"}}, "required": ["allow"]}
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_LEVEL = "pure_agent_loop.level"
# What a client hears of a run as log messages, and how much each matters.
_LEVELS = {
    EventType.ACTION: "debug",
    EventType.PROGRESS: "info",
    EventType.NOTICE: "notice",
    EventType.RETRY: "warning",
    EventType.ERROR: "error",
}


async def set_level(context: Any, params: Any) -> Any:
    """Answer ``logging/setLevel``, of the versions before 2026: from then on the client hears of runs."""
    connection_of(context).state[_LEVEL] = params.level
    return types.EmptyResult()


def _wanted(context: Any, level: str) -> bool:
    """Whether a client wants messages of a level. One that has not said so wants none."""
    if is_modern(context):
        least = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    else:
        least = connection_of(context).state.get(_LEVEL)
    levels = get_args(types.LoggingLevel)
    return {least, level} <= set(levels) and levels.index(level) >= levels.index(least)


class Turn:
    """The turn of one call among those that change something. It is given up while a person is asked."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock, self._is_mine = lock, False

    async def take(self) -> None:
        """Wait for it."""
        await self._lock.acquire()
        self._is_mine = True

    def leave(self) -> None:
        """Let the next one have it."""
        if self._is_mine:
            self._is_mine = False
            self._lock.release()


class Asking:
    """Puts questions of a run to the client's user, and tells the client how far it is.

    Args:
        context: The SDK's context of the request.
        name: The tool, the agent, the prompt or the resource.
        answers: What was answered, where the client calls again with the answers.
        tells: Whether it tells how far it is.
    """

    def __init__(self, context: Any, name: str, answers: Any, *, tells: bool) -> None:
        self._context, self._name, self._answers, self._tells = context, name, answers or {}, tells
        self.is_stateless = True  # nothing is lost if the whole call is made again
        self.turn: Turn | None = None
        self.wanted: dict[str, Any] = {}
        self._told = 0

    @property
    def _can_ask(self) -> bool:
        capabilities = self._context.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    async def form(self, question: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """For `ask_form`: None if the user does not say.

        Raises:
            ToolExecutionError: The client cannot ask.
        """
        if not self._can_ask or is_modern(self._context):  # where a call is made again with the answers
            raise ToolExecutionError(say("mcp_nobody"))
        found = await self._context.session.elicit_form(question, schema, self._context.request_id)
        return found.content or {} if found.action == "accept" else None

    async def ask(self, request: PermissionRequest) -> Permission:
        """For ``Agent(on_ask=...)``."""
        if not self._can_ask:
            return Permission("deny", say("mcp_nobody"))
        is_open = current_call() is not None and request.args.keys() == {"question"}
        if not is_modern(self._context):
            before = self.turn if current_call() is None else None  # nothing was begun
            if before is not None:
                before.leave()
            found = await self._context.session.elicit_form(
                _question(request), _ANSWER if is_open else _ALLOW, self._context.request_id
            )
            if before is not None:
                await before.take()
            return _read(found, is_open=is_open)
        key = hashlib.sha256(_question(request).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if key in self._answers:
            return _read(self._answers[key], is_open=is_open)
        if self.is_stateless and not is_open:
            self.wanted[key] = _question(request)
        return Permission("deny", say("mcp_nobody"))

    def input_required(self) -> Any:
        """What the client is to ask before it calls again."""
        requests: dict[str, Any] = {}
        for key, text in self.wanted.items():
            form = types.ElicitRequestFormParams(message=text, requested_schema=_ALLOW)
            requests[key] = types.ElicitRequest(params=form)
        return types.InputRequiredResult(input_requests=requests)

    async def tell(self, event: AnyEvent) -> None:
        """Tell of progress, and write log messages, as far as the client wants to hear of them."""
        level = _LEVELS.get(event.type)
        if level is None or not self._tells:
            return
        level = str(event.data.get("level", level))  # a server that the run works with may say how much it is
        text = str(event.data["tool"]) if event.type is EventType.ACTION else event.content
        if event.type in (EventType.PROGRESS, EventType.ACTION):
            self._told += 1
            await self._context.session.report_progress(self._told, None, one_line(text))
        if _wanted(self._context, level):
            await self._log(level, text)

    async def _log(self, level: str, text: str) -> None:
        about = types.LoggingMessageNotificationParams.model_validate(
            {"level": level, "logger": self._name, "data": clean_text(text)}
        )
        message = types.LoggingMessageNotification(params=about)
        await self._context.session.send_notification(message, self._context.request_id)


async def followed(events: AsyncIterator[AnyEvent], asking: Asking) -> AsyncIterator[AnyEvent]:
    """The events of a run; the client is told of them."""
    async with aclosing(events) as coming:  # type: ignore[type-var] # they are generators
        async for event in coming:
            await asking.tell(event)
            yield event


def _question(request: PermissionRequest) -> str:
    if request.args.keys() == {"question"}:
        return str(request.args["question"])
    args = json.dumps(request.args, ensure_ascii=False, default=str)
    return f"May {request.tool} be called with {args}? {request.reason}".rstrip()


def _read(found: Any, *, is_open: bool) -> Permission:
    """What was answered; only what was asked for counts."""
    content = getattr(found, "content", None) or {}
    if getattr(found, "action", "") != "accept":
        return Permission("deny")
    if is_open:
        said = content.get("answer")
        return Permission("allow", said) if isinstance(said, str) else Permission("deny")
    return Permission("allow" if content.get("allow") is True else "deny")
