"""Send a run's questions and progress to the client."""

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
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.support.language import model_text, user_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool_context import current_call

_ALLOW = {"type": "object", "properties": {"allow": {"type": "boolean"}}, "required": ["allow"]}
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
_LEVEL = "pure_agent_loop.level"
# Events sent to a client as log messages, with their levels.
_LEVELS = {
    EventType.ACTION: "debug",
    EventType.PROGRESS: "info",
    EventType.NOTICE: "notice",
    EventType.RETRY: "warning",
    EventType.ERROR: "error",
}


async def set_level(context: Any, params: Any) -> Any:
    """Answer ``logging/setLevel``, by which clients of versions before 2026 request log messages."""
    connection_of(context).state[_LEVEL] = params.level
    return types.EmptyResult()


def _wanted(context: Any, level: str) -> bool:
    """Return whether a client wants messages at a level; by default a client wants none."""
    if is_modern(context):
        least = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    else:
        least = connection_of(context).state.get(_LEVEL)
    levels = get_args(types.LoggingLevel)
    return {least, level} <= set(levels) and levels.index(level) >= levels.index(least)


class Turn:
    """A call's hold on the lock for calls that change something; released while a person is being asked."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock, self._is_mine = lock, False

    async def take(self) -> None:
        """Acquire the lock."""
        await self._lock.acquire()
        self._is_mine = True

    def leave(self) -> None:
        """Release the lock, if held."""
        if self._is_mine:
            self._is_mine = False
            self._lock.release()


class ClientLink:
    """A link from a run to its client: asks the user questions and reports progress.

    Args:
        name: The tool, the agent, the prompt or the resource.
        answers: The user's answers, if the client is repeating the call with them.
    """

    def __init__(self, context: Any, name: str, answers: Any, *, reports_progress: bool) -> None:
        self._context, self._name, self._answers, self._reports_progress = (
            context,
            name,
            answers or {},
            reports_progress,
        )
        self.is_stateless = True  # True while the whole call can be repeated without loss
        self.turn: Turn | None = None
        self.wanted: dict[str, Any] = {}
        self._reports = 0

    @property
    def _can_ask(self) -> bool:
        capabilities = self._context.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    async def form(self, question: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Show a form for `ask_form`; return None if the user declines.

        Raises:
            ToolExecutionError: The client cannot ask.
        """
        # Clients of the 2026 protocol cannot answer a running tool: they would repeat the whole call instead.
        if not self._can_ask or is_modern(self._context):
            raise ToolExecutionError(model_text("mcp_nobody"))
        result = await self._context.session.elicit_form(question, schema, self._context.request_id)
        return result.content or {} if result.action == "accept" else None

    async def ask(self, request: PermissionRequest) -> Permission:
        """Have the client's user answer a permission request; for ``Agent(on_ask=...)``."""
        if not self._can_ask:
            return Permission("deny", model_text("mcp_nobody"))
        is_open = request.question is not None
        if not is_modern(self._context):
            turn = self.turn if current_call() is None else None  # released only before the call starts
            if turn is not None:
                turn.leave()
            result = await self._context.session.elicit_form(
                _question(request), _ANSWER if is_open else _ALLOW, self._context.request_id
            )
            if turn is not None:
                await turn.take()
            return _read(result, is_open=is_open)
        key = hashlib.sha256(_question(request).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if key in self._answers:
            return _read(self._answers[key], is_open=is_open)
        if self.is_stateless and not is_open:
            self.wanted[key] = _question(request)
        return Permission("deny", model_text("mcp_nobody"))

    def input_required(self) -> Any:
        """Return the questions that the client must ask before it repeats the call."""
        forms = {
            key: types.ElicitRequestFormParams(message=text, requested_schema=_ALLOW)
            for key, text in self.wanted.items()
        }
        requests: dict[str, Any] = {key: types.ElicitRequest(params=form) for key, form in forms.items()}
        return types.InputRequiredResult(input_requests=requests)

    async def tell(self, event: AnyEvent) -> None:
        """Send progress and log messages, if the client wants them."""
        level = _LEVELS.get(event.type)
        if level is None or not self._reports_progress:
            return
        level = str(event.data.get("level", level))  # a nested server's message carries its own level
        data = event.data
        text = str(data.get("title") or data["tool"]) if event.type is EventType.ACTION else event.content
        if event.type in (EventType.PROGRESS, EventType.ACTION):
            self._reports += 1
            await self._context.session.report_progress(self._reports, None, one_line(text))
        if _wanted(self._context, level):
            await self._log(level, text)

    async def _log(self, level: str, text: str) -> None:
        params = types.LoggingMessageNotificationParams.model_validate(
            {"level": level, "logger": self._name, "data": clean_text(text)}
        )
        message = types.LoggingMessageNotification(params=params)
        await self._context.session.send_notification(message, self._context.request_id)


async def followed(events: AsyncIterator[AnyEvent], link: ClientLink) -> AsyncIterator[AnyEvent]:
    """Yield the events of a run and report them to the client."""
    async with aclosing(events) as source:  # type: ignore[type-var] # they are generators
        async for event in source:
            await link.tell(event)
            yield event


def _question(request: PermissionRequest) -> str:
    if request.question is not None:
        return request.question
    args = json.dumps(request.args, ensure_ascii=False, default=str)
    text = user_text("library.may_call", tool=request.tool, args=args, reason=request.reason).rstrip()
    return f"{request.title}\n{text}" if request.title else text


def _read(result: Any, *, is_open: bool) -> Permission:
    """Parse an answer; ignore fields that were not requested."""
    content = getattr(result, "content", None) or {}
    if getattr(result, "action", "") != "accept":
        return Permission("deny")
    if is_open:
        answer = content.get("answer")
        return Permission("allow", answer) if isinstance(answer, str) else Permission("deny")
    return Permission("allow" if content.get("allow") is True else "deny")
