"""What a server may ask of us: folders, questions to a person, answers of a model."""

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
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool_context import RunContext

MOST_WORDS = 1_000  # characters of a question
MOST_FIELDS = 20
TRIES = 3
MOST_QUESTIONS = MOST_FIELDS * TRIES  # of a call to a person, who is to live in peace
MOST_LOGS = 100  # messages of a call that are told
MOST_TOKENS = 4_096  # of an answer of the model
_NO = ("no", "n", "false", "0", "否")
_YES = ("yes", "y", "true", "1", "是")


@dataclass(eq=False)
class _Call:
    """A call that is made: what the server asks comes from elsewhere, and belongs to it, and ends with it."""

    run: RunContext[Any]
    context: Context
    logs: Iterator[int] = field(default_factory=count)
    questions: Iterator[int] = field(default_factory=count)
    is_over: bool = False
    asked: asyncio.Future[str] | None = None

    async def ask(self, question: str) -> str:
        if self.is_over or next(self.questions) >= MOST_QUESTIONS:
            raise ToolExecutionError(say("mcp_nobody"))
        self.asked = asked = self.context.run(asyncio.ensure_future, self.run.ask(question))
        try:
            await asyncio.wait({asked})
        finally:
            asked.cancel()
        if asked.cancelled():
            raise ToolExecutionError(say("mcp_nobody"))
        return asked.result()

    def end(self) -> None:
        self.is_over = True
        if self.asked is not None:
            self.asked.cancel()


class Asking:
    """Answers a server, with the help of the run whose call it is at work on.

    Args:
        settings: Which server.
        sampling: The model it may ask; None for none.
    """

    def __init__(self, settings: ServerSettings, sampling: ChatModel | None) -> None:
        self._settings, self._sampling = settings, sampling
        self._calls: list[_Call] = []
        self._one_at_a_time = asyncio.Lock()

    @contextlib.contextmanager
    def during(self, run: RunContext[Any] | None) -> Iterator[None]:
        """A call is made for a run: what the server asks meanwhile is asked there."""
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
        """As the SDK's client takes them."""
        found: dict[str, Any] = {"elicitation_callback": self.elicit}
        if self._settings.roots:
            found["list_roots_callback"] = self.roots
        if self._sampling is not None:
            found["sampling_callback"] = self.sample
        return {name: partial(self._in_private, each) for name, each in found.items()}

    async def _in_private(self, callback: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        """Answer; the server reads of no failure what it was: that may name what is ours."""
        from mcp_types import INTERNAL_ERROR, ErrorData

        try:
            return await callback(*given)
        except Exception as error:  # noqa: BLE001 - what a server asks, or a model, may fail in any way
            self.log("error", "", f"{type(error).__name__}: {safe_str(error)}")
            return ErrorData(code=INTERNAL_ERROR, message="It failed here.")

    @property
    def _call(self) -> _Call | None:
        """The call that the server asks about; None where it may be that of one run or of another one."""
        return self._calls[-1] if len({id(each.run.run) for each in self._calls}) == 1 else None

    def log(self, level: str, logger: str, text: str) -> None:
        """The server says something: the run whose call it is at work on tells it, up to so many times."""
        if (call := self._call) is None:
            return
        if (number := next(call.logs)) > MOST_LOGS:
            return
        shown = f"[{level}] {logger}: {text}" if logger else f"[{level}] {text}"
        if number == MOST_LOGS:
            shown = say("mcp_more_logs", server=self._settings.name)
        call.context.run(partial(call.run.progress, shown, level=level, logger=logger))

    async def roots(self, _: Any) -> Any:
        """The folders that the server should keep to."""
        from mcp_types import ListRootsResult, Root

        paths = [Path(each).expanduser().resolve() for each in self._settings.roots]
        return ListRootsResult(
            roots=[Root.model_validate({"uri": each.as_uri(), "name": each.name or "/"}) for each in paths]
        )

    async def elicit(self, _: Any, params: Any) -> Any:
        """Ask a person for what the server wants to know."""
        from mcp_types import ElicitResult

        if (call := self._call) is None:
            return ElicitResult(action="cancel")
        text = say("mcp_asks", server=self._settings.name, text=_short(params.message))
        async with self._one_at_a_time:
            try:
                if params.mode == "url":
                    url = one_line(params.url, MOST_WORDS)
                    if not url.lower().startswith(("https://", "http://")):
                        return ElicitResult(action="decline")
                    said = await call.ask(say("mcp_asks_url", text=text, url=url))
                    return ElicitResult(action="decline" if _is_no(said) else "accept")
                content = await one_by_one(call, text, params.requested_schema)
            except ToolExecutionError:  # nobody can be asked
                return ElicitResult(action="cancel")
        return (
            ElicitResult(action="decline")
            if content is None
            else ElicitResult(action="accept", content=content)
        )

    async def sample(self, _: Any, params: Any) -> Any:
        """Let the server ask the model, if a person agrees to this very question."""
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        refused = ErrorData(code=INVALID_REQUEST, message="The user did not agree.")
        try:
            messages = [_message(each) for each in params.messages]
        except ValueError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        if params.system_prompt:
            messages.insert(0, {"role": "system", "content": params.system_prompt})
        shown = json.dumps([each["content"] for each in messages], ensure_ascii=False)
        question = say("mcp_asks_model", server=self._settings.name, text=_short(shown))
        if (call := self._call) is None or self._sampling is None or len(shown) > MOST_WORDS:
            return refused  # nobody could see all of it
        try:
            async with self._one_at_a_time:
                if not _is_yes(await call.ask(question)):
                    return refused
        except ToolExecutionError:
            return refused
        most = min(params.max_tokens, MOST_TOKENS)
        answer = await self._sampling.chat(messages, max_tokens=most)
        text = TextContent(type="text", text=answer.content or "")
        model = str(getattr(self._sampling, "model", "model"))
        return CreateMessageResult(role="assistant", content=text, model=model, stop_reason="endTurn")


def _message(message: Any) -> dict[str, Any]:
    blocks = message.content if isinstance(message.content, list) else [message.content]
    if any(each.type != "text" for each in blocks):
        raise ValueError("Only text can be asked of the model here.")
    return {"role": message.role, "content": "\n".join(each.text for each in blocks)}


async def one_by_one(
    call: _Call | RunContext[Any], text: str, schema: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The values of a form, asked one by one; None if the person says no."""
    fields = schema.get("properties", {})
    if not isinstance(fields, Mapping) or len(fields) > MOST_FIELDS:
        return None
    if not fields:
        return None if _is_no(await call.ask(text)) else {}
    found: dict[str, Any] = {}
    for name, given in fields.items():
        about = given if isinstance(given, Mapping) else {}
        kind = _kind_words(about)
        question = say("mcp_asks_field", text=text, field=one_line(str(name), 60), kind=kind)
        for _ in range(TRIES):
            said = await call.ask(question)
            if about.get("type") != "boolean" and _is_no(said):
                return None
            is_agreed = _is_yes(said) and about.get("type") != "boolean"
            value = about["default"] if is_agreed and "default" in about else _read(said.strip(), about)
            if value is not None:
                found[name] = value
                break
        else:
            return None
    return found


def _kind_words(about: Mapping[str, Any]) -> str:
    described = one_line(str(about.get("description") or about.get("title") or ""), 200)
    choices = choices_of(about)
    kind = " | ".join(one_line(each, 60) for each in choices[:20]) if choices else str(about.get("type"))[:20]
    kind += f" = {one_line(str(about['default']), 60)}" if "default" in about else ""
    return f"{described}; {kind}" if described else kind


def choices_of(about: Mapping[str, Any]) -> list[str]:
    """What a field of a form may be, or what may be in it; nothing if that is open."""
    about = about.get("items") or {} if about.get("type") == "array" else about
    listed = about.get("enum") or [
        each.get("const")
        for each in (*about.get("oneOf", ()), *about.get("anyOf", ()))
        if isinstance(each, Mapping)
    ]
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def _read(said: str, about: Mapping[str, Any]) -> Any:
    """What was said as a value of the kind that is wanted; None if it is none."""
    kind, choices = about.get("type"), choices_of(about)
    if kind == "boolean":
        return True if _is_yes(said) else False if _is_no(said) else None
    if kind in ("integer", "number"):
        try:
            return int(said) if kind == "integer" else float(said)
        except ValueError:
            return None
    if kind == "array":
        several = [each.strip() for each in said.split(",") if each.strip()]
        return several if not choices or set(several) <= set(choices) else None
    return said if not choices or said in choices else None


def _is_no(said: str) -> bool:
    return said.strip().lower() in _NO


def _is_yes(said: str) -> bool:
    return said.strip().lower() in _YES


def _short(text: str) -> str:
    text = safe_text(text)
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]} ..."
