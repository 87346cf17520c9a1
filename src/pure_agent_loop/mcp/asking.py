"""Answer a server's requests: roots, elicitation (questions to a person), sampling (a model's answer)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import present, safe_str, yes_or_no
from pure_agent_loop.tool_context import RunContext

MAX_WORDS = 1_000  # maximum characters of a question
MAX_FIELDS = 20
TRIES = 3
MAX_QUESTIONS = MAX_FIELDS * TRIES  # maximum questions per call, so that a server cannot flood the user
MAX_LOGS = 100  # maximum log messages reported per call
MAX_TOKENS = 4_096  # maximum tokens of a model's answer
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(eq=False)
class _Call:
    """A running call. The server's questions arrive in another task and are cancelled when the call ends."""

    run: RunContext[Any]
    context: Context
    logs: Iterator[int] = field(default_factory=count)
    questions: Iterator[int] = field(default_factory=count)
    is_over: bool = False
    asked: asyncio.Future[str] | None = None

    async def ask(self, question: str) -> str:
        if self.is_over or next(self.questions) >= MAX_QUESTIONS:
            raise ToolExecutionError(model_text("mcp_nobody"))
        self.asked = asked = self.context.run(asyncio.ensure_future, self.run.ask(question))
        try:
            await asyncio.wait({asked})
        finally:
            asked.cancel()
        if asked.cancelled():
            raise ToolExecutionError(model_text("mcp_nobody"))
        return asked.result()

    def end(self) -> None:
        self.is_over = True
        if self.asked is not None:
            self.asked.cancel()


class ServerRequests:
    """Handlers that answer a server's requests on behalf of the run whose call the server is processing.

    Args:
        sampling: The model the server may use; None if it may use no model.
    """

    def __init__(self, settings: ServerSettings, sampling: ChatModel | None) -> None:
        self._settings, self._sampling = settings, sampling
        self._calls: list[_Call] = []
        self._one_at_a_time = asyncio.Lock()

    @contextlib.contextmanager
    def during(self, run: RunContext[Any] | None) -> Iterator[None]:
        """Answer the server's requests on behalf of a run while one of its calls executes in the block."""
        if run is None:
            yield
            return
        self._calls.append(call := _Call(run, copy_context()))
        try:
            yield
        finally:
            self._calls.remove(call)
            call.end()

    def callbacks(self) -> dict[str, Any]:
        """Return the callbacks for the SDK's client."""
        handlers = present(
            elicitation_callback=self.elicit,
            list_roots_callback=self.roots if self._settings.roots else None,
            sampling_callback=None if self._sampling is None else self.sample,
        )
        return {name: partial(self._in_private, handler) for name, handler in handlers.items()}

    async def _in_private(self, callback: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Answer a request; hide the cause of a failure from the server, since it may hold private data."""
        from mcp_types import INTERNAL_ERROR, ErrorData

        try:
            return await callback(*args)
        except Exception as error:  # noqa: BLE001 - a callback or a model may fail in any way
            self.log("error", "", f"{type(error).__name__}: {safe_str(error)}")
            return ErrorData(code=INTERNAL_ERROR, message="The client failed to process the request.")

    @property
    def _call(self) -> _Call | None:
        """The call that a request belongs to; None unless exactly one run has calls in progress."""
        return self._calls[-1] if len({id(call.run.run) for call in self._calls}) == 1 else None

    def log(self, level: str, logger: str, text: str) -> None:
        """Forward a log message to the run of the current call, up to a limit."""
        if (call := self._call) is None:
            return
        if (number := next(call.logs)) > MAX_LOGS:
            return
        shown = f"[{level}] {logger}: {text}" if logger else f"[{level}] {text}"
        if number == MAX_LOGS:
            shown = model_text("mcp_more_logs", server=self._settings.name)
        call.context.run(partial(call.run.progress, shown, level=level, logger=logger))

    async def roots(self, _: Any) -> Any:
        """Return the folders that the server should use."""
        from mcp_types import ListRootsResult, Root

        paths = [Path(root).expanduser().resolve() for root in self._settings.roots]
        return ListRootsResult(
            roots=[Root.model_validate({"uri": path.as_uri(), "name": path.name or "/"}) for path in paths]
        )

    async def elicit(self, _: Any, params: Any) -> Any:
        """Ask a person for the values that the server requests."""
        from mcp_types import ElicitResult

        if (call := self._call) is None:
            return ElicitResult(action="cancel")
        text = model_text("mcp_asks", server=self._settings.name, text=_short(params.message))
        async with self._one_at_a_time:
            try:
                if params.mode == "url":
                    url = one_line(params.url, MAX_WORDS)
                    if not url.lower().startswith(("https://", "http://")):
                        return ElicitResult(action="decline")
                    answer = await call.ask(model_text("mcp_asks_url", text=text, url=url))
                    return ElicitResult(action="decline" if yes_or_no(answer) is False else "accept")
                content = await one_by_one(call, text, params.requested_schema)
            except ToolExecutionError:  # no person can be asked
                return ElicitResult(action="cancel")
        return (
            ElicitResult(action="decline")
            if content is None
            else ElicitResult(action="accept", content=content)
        )

    async def sample(self, _: Any, params: Any) -> Any:
        """Let the server query the model, if a person approves this request."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        refused = ErrorData(code=INVALID_REQUEST, message="The user did not agree.")
        try:
            messages = [_message(request) for request in params.messages]
        except ValueError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        if params.system_prompt:
            messages.insert(0, {"role": "system", "content": params.system_prompt})
        shown = json.dumps([entry["content"] for entry in messages], ensure_ascii=False)
        question = model_text("mcp_asks_model", server=self._settings.name, text=_short(shown))
        if (call := self._call) is None or self._sampling is None or len(shown) > MAX_WORDS:
            return refused  # no run, no model, or too long to review
        try:
            async with self._one_at_a_time:
                if not yes_or_no(await call.ask(question)):
                    return refused
        except ToolExecutionError:
            return refused
        max_tokens = min(params.max_tokens, MAX_TOKENS)
        answer = await self._sampling.chat(messages, max_tokens=max_tokens)
        text = TextContent(type="text", text=answer.content or "")
        model = str(getattr(self._sampling, "model", "model"))
        return CreateMessageResult(role="assistant", content=text, model=model, stop_reason="endTurn")


def _message(message: Any) -> dict[str, Any]:
    blocks = message.content if isinstance(message.content, list) else [message.content]
    if any(block.type != "text" for block in blocks):
        raise ValueError("Sampling supports text content only.")
    return {"role": message.role, "content": "\n".join(block.text for block in blocks)}


async def one_by_one(
    call: _Call | RunContext[Any], text: str, schema: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Ask for the values of a form one by one; return None if the person declines."""
    fields = schema.get("properties", {})
    if not isinstance(fields, Mapping) or len(fields) > MAX_FIELDS:
        return None
    if not fields:
        return None if yes_or_no(await call.ask(text)) is False else {}
    values: dict[str, Any] = {}
    for name, entry in fields.items():
        field_schema = entry if isinstance(entry, Mapping) else {}
        kind = _kind_words(field_schema)
        question = model_text("mcp_asks_field", text=text, field=one_line(str(name), 60), kind=kind)
        for _ in range(TRIES):
            answer = (await call.ask(question)).strip()
            agreed = None if field_schema.get("type") == "boolean" else yes_or_no(answer)
            if agreed is False:
                return None
            value = field_schema.get("default") if agreed else None
            value = _read(answer, field_schema) if value is None else value
            if value is not None:
                values[name] = value
                break
        else:
            return None
    return values


def _kind_words(field_schema: Mapping[str, Any]) -> str:
    description = one_line(str(field_schema.get("description") or field_schema.get("title") or ""), 200)
    choices = choices_of(field_schema)
    kind = (
        " | ".join(one_line(choice, 60) for choice in choices[:20])
        if choices
        else str(field_schema.get("type"))[:20]
    )
    kind += f" = {one_line(str(field_schema['default']), 60)}" if "default" in field_schema else ""
    return f"{description}; {kind}" if description else kind


def choices_of(field_schema: Mapping[str, Any]) -> list[str]:
    """Return the allowed values of a form field or of its items; empty if any value is allowed."""
    field_schema = field_schema.get("items") or {} if field_schema.get("type") == "array" else field_schema
    listed = field_schema.get("enum") or [
        variant.get("const")
        for variant in (*field_schema.get("oneOf", ()), *field_schema.get("anyOf", ()))
        if isinstance(variant, Mapping)
    ]
    return [value for value in listed if isinstance(value, str)] if isinstance(listed, list) else []


def _read(answer: str, field_schema: Mapping[str, Any]) -> Any:
    """Parse an answer as the requested type; return None if it does not fit."""
    kind, choices = field_schema.get("type"), choices_of(field_schema)
    if kind == "boolean":
        return _FLAGS.get(answer.lower(), yes_or_no(answer))
    if kind in ("integer", "number"):
        try:
            return int(answer) if kind == "integer" else float(answer)
        except ValueError:
            return None
    if kind == "array":
        several = [item.strip() for item in answer.split(",") if item.strip()]
        return several if not choices or set(several) <= set(choices) else None
    return answer if not choices or answer in choices else None


def _short(text: str) -> str:
    text = safe_text(text)
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]} ..."
