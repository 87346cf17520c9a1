"""Client wrapper for the tool modes, which give the calls of any chat model the same form.

    native    the server's tool calls; calls left in the text are recovered
    json      constrained output: if the server returns token likelihoods, first choose a tool, then fill in
              its arguments; else one JSON object per step, without constraints if the server has none
    text      the ReAct format in plain text
    auto      native until the server or the model turns out not to support it; then json

The wrapper is transparent to the loop. If there are no tools and no calls in the history, it changes nothing.
It remembers each response format or parameter that a server refuses, and reports it in a notice.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, get_args

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import (
    BecomesReady,
    ChatModel,
    GroupsModels,
    ShowsRequest,
    StreamingClient,
    origin_of,
    profile_of,
    stream_of,
    takes_server_tools,
    thinks_in_text,
)
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.profiles import OutputMode
from pure_agent_loop.llm.response import CUT_OFF, FINISH_REASONS, OUTPUT_LIMIT, ThinkSplitter
from pure_agent_loop.llm.tool_modes.examples import check_worked_examples
from pure_agent_loop.llm.tool_modes.json_action import FINAL, JsonReader, response_formats, write_action
from pure_agent_loop.llm.tool_modes.react import (
    STOP,
    ReactReader,
    describe_tools,
    write_history,
    write_react,
)
from pure_agent_loop.llm.tool_modes.recover import TextCalls
from pure_agent_loop.llm.tool_modes.refusals import (
    MAX_FORMATS,
    REFUSES_STOP,
    REFUSES_TOOLS,
    Formats,
    drops_tools,
    is_refusal,
)
from pure_agent_loop.llm.tool_modes.tool_choice import refuse_choice, wanted_tools, without_tools
from pure_agent_loop.llm.tool_modes.typed_answers import (
    Shaped,
    format_of,
    in_words,
    output_mode,
    typed_request,
    with_room,
)
from pure_agent_loop.llm.values import NOTHING, Delta, JsonFields, JsonObject, Options, ToolCallDelta, Tools
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import checked_choice

if TYPE_CHECKING:
    from pure_agent_loop.llm.tool_modes.choose import Chooser


# -- native calls, and recovery of calls that a model left in the text -----------------------------------


def is_cut(delta: Delta) -> bool:
    """Return True if the response ended at a limit."""
    if delta.finish_reason is None:
        return False
    reason = delta.finish_reason.lower()
    return FINISH_REASONS.get(reason, reason) in CUT_OFF


class NativeReader:
    """Passes native calls through; recovers calls from the text if there are no native ones."""

    def __init__(self, tools: Sequence[JsonObject]) -> None:
        self._tools = tools
        self._think: ThinkSplitter | None = None  # both are created with the first text
        self._scanner: TextCalls | None = None
        self._saw_call = False
        self._is_cut = False

    def take(self, delta: Delta) -> Delta:
        """Add a delta; return the delta to display."""
        self._is_cut = self._is_cut or is_cut(delta)
        begins_calls = bool(delta.tool_calls) and not self._saw_call
        self._saw_call = self._saw_call or begins_calls
        if self._think is None or self._scanner is None:
            if not delta.text:
                return delta
            self._think, self._scanner = ThinkSplitter(), TextCalls(self._tools)
        text, reasoning = self._think.feed(delta.text)
        if begins_calls:
            text = self._scanner.held + text
        shown = text if self._saw_call else self._scanner.feed(text)
        if shown is delta.text and not reasoning:
            return delta
        return delta._replace(text=shown, reasoning=delta.reasoning + reasoning)

    def finish(self) -> Delta:
        """Return the buffered text, or the calls in it, at the end of the stream."""
        if self._think is None or self._scanner is None:
            return NOTHING
        text, reasoning = self._think.flush()
        if self._saw_call:
            return Delta(text, reasoning)
        shown = self._scanner.feed(text)
        calls, rest = self._scanner.finish(is_cut=self._is_cut, has_thought=self._think.has_opened)
        parts = tuple(ToolCallDelta(i, None, call.name, call.arguments) for i, call in enumerate(calls))
        return Delta(shown + rest, reasoning, parts)


ToolMode = Literal["auto", "native", "json", "text"]
TOOL_MODES: tuple[str, ...] = get_args(ToolMode)


class _ResponseReader(Protocol):
    def feed(self, text: str) -> Delta: ...

    def finish(self, *, is_cut: bool = False) -> Delta: ...


ExamplesOf: TypeAlias = "Callable[[str, Prompts], Sequence[tuple[str, JsonFields]]]"


def no_examples(
    name: str,  # noqa: ARG001 - the shape of `ExamplesOf`
    prompts: Prompts,  # noqa: ARG001 - likewise
) -> Sequence[tuple[str, JsonFields]]:
    """Return no examples."""
    return ()


def check_tool_mode(mode: str) -> None:
    """Reject an unknown tool mode.

    Raises:
        ConfigError: The mode is unknown.
    """
    checked_choice("tool_mode", mode, TOOL_MODES)


class ToolModeClient(StreamingClient):
    """Adds tool modes to another client.

    Args:
        mode: ``auto``, ``native``, ``json`` or ``text``.
        examples: Returns the worked examples of a tool, by name.

    Raises:
        ConfigError: The mode is unknown.
    """

    def __init__(
        self, inner: ChatModel, mode: str, prompts: Prompts, examples: ExamplesOf = no_examples
    ) -> None:
        check_tool_mode(mode)
        check_worked_examples(prompts)
        self.inner = inner
        self.mode = mode
        self._prompts = prompts
        self._examples = examples
        self._begin()
        self._formats = Formats()
        self._takes_stop = True
        group = as_protocol(inner, GroupsModels)
        # Each client of a group has its own tool mode.
        self._group = None if group is None else group.with_each(self.around)
        self._choosers: list[Chooser] = []  # at most one chooser, shared by copies of this client
        self.takes_meta = getattr(inner, "takes_meta", False)
        self.takes_server_tools = takes_server_tools(inner)
        self.takes_timeouts = getattr(inner, "takes_timeouts", False)
        self._is_ready = as_protocol(inner, BecomesReady) is None

    def _begin(self) -> None:
        self.thinks_in_text = thinks_in_text(self.inner)
        profile = profile_of(self.inner)
        begins = profile.tool_mode if profile is not None else ""
        self.current = (begins or "native") if self.mode == "auto" else self.mode
        self._probed = self.current != "native" or self.mode != "auto"

    async def become_ready(self) -> Sequence[str]:
        """Let the inner client choose its model, and start in that model's mode; see `BecomesReady`."""
        inner = as_protocol(self.inner, BecomesReady)
        notices = () if inner is None else await inner.become_ready()
        if not self._is_ready:
            self._is_ready = True
            self._begin()
        return notices

    def around(self, inner: ChatModel) -> ToolModeClient:
        """Return the same wrapper around another client."""
        return ToolModeClient(inner, self.mode, self._prompts, self._examples)

    def with_examples(self, examples: ExamplesOf) -> ToolModeClient:
        """Return a copy for other tools that keeps what is known about the server."""
        return self._copied(_examples=examples)

    def with_words(self, prompts: Prompts) -> ToolModeClient:
        """Return a copy with other prompts that keeps what is known about the server."""
        return self._copied(_prompts=prompts)

    def _copied(self, **changes: Any) -> ToolModeClient:
        other = copy.copy(self)
        vars(other).update(changes)
        if (group := as_protocol(self._group, GroupsModels)) is not None:
            other._group = group.with_each(lambda member: cast("ToolModeClient", member)._copied(**changes))
        return other

    @property
    def model(self) -> str:
        """The inner client's model name, or else its class name."""
        name = getattr(self.inner, "model", None) or getattr(self.inner, "name", None)
        return str(name or type(self.inner).__name__)

    @property
    def origin(self) -> str:
        """The inner client's origin; see `origin_of`."""
        return origin_of(self.inner)

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """The inner client's context window in tokens; None if unknown."""
        return getattr(self.inner, "context_window", None)

    async def find_context_window(self) -> int | None:
        """Return `context_window`; if the inner client can query its server, it does so first."""
        ask = getattr(self.inner, "find_context_window", None)
        return self.context_window if ask is None else await ask()

    async def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the response. See `BaseLLMClient.chat_stream`."""
        if tools and not self._probed and self._group is None:
            self._probed = True
            if await drops_tools(self.inner):
                yield self._switch("the server's chat template does not support tools")
        while True:
            shown = False
            deltas, reader = self._ask(messages, tools, kwargs)
            try:
                async for delta in deltas:
                    seen = delta if reader is None else reader.take(delta)
                    yield seen
                    shown = shown or seen != NOTHING
            except LLMError as error:
                if shown or not tools or not self._may_switch() or not is_refusal(error, REFUSES_TOOLS):
                    raise
                refusal = error.said
            else:
                break
            finally:
                await deltas.aclose()
            yield self._switch(f"the server rejects tools ({refusal[:200]})")
        if reader is not None:
            last = reader.finish()
            yield last
            if last.tool_calls and self._may_switch():
                yield self._switch("the model writes tool calls as text")

    def tool_failed(self, name: str, error: BaseException) -> None:
        """Notify the inner client of a bug in a tool, if it supports that."""
        notify = getattr(self.inner, "tool_failed", None)
        if callable(notify):
            notify(name, error)

    async def aclose(self) -> None:
        """Close the inner client."""
        close = getattr(self.inner, "aclose", None)
        if close is not None:
            await close()

    def _may_switch(self) -> bool:
        """Return True if the client may switch to another mode."""
        return self.mode == "auto" and self.current == "native" and self._group is None

    def _switch(self, reason: str) -> Delta:
        self.current = "json"
        return Delta(notice=f"Switching to tool_mode='json': {reason}.")

    def request_body(
        self, messages: list[Message], tools: Tools | None, options: Options, stream: bool
    ) -> JsonObject | None:
        """Build the inner client's request in the current mode; None if that client cannot build it.

        Args:
            tools: Tool schemas, or None.

        Raises:
            LLMError: The request cannot be sent in this mode.
        """
        if (group := as_protocol(self._group, ShowsRequest)) is not None:
            return group.request_body(messages, tools, options, stream)
        body_of = getattr(self.inner, "request_body", None)
        return None if body_of is None else body_of(*self.shape(messages, tools, options), stream)

    def shape(self, messages: list[Message], tools: Tools | None, options: Options) -> Shaped:
        """Build the arguments of the inner client's `chat` in the current mode.

        Args:
            tools: Tool schemas, or None.

        Raises:
            LLMError: The request cannot be sent in this mode.
        """
        tools, options = self._callable(tools, options)
        if self._is_plain(messages, tools):
            if format_of(options) is not None:
                return self._typed_request(messages, tools, options, self._formats.refused)
            return Shaped(messages, tools, dict(options))
        shape = self._shape_text if self.current == "text" else self._shape_json
        return shape(messages, self._with_examples(tools or []), options)

    def output_mode(self, tools: Tools | None, options: Options) -> OutputMode:
        """Return the output mode for a typed answer."""
        return output_mode(profile_of(self.inner), self.current, tools, options)

    def _with_examples(self, tools: Tools) -> Tools:
        """Add worked examples to tools, for prompts only."""
        return [
            {**tool, "function": {**tool["function"], "examples": examples}}
            if (examples := self._examples(tool["function"]["name"], self._prompts))
            else tool
            for tool in tools
        ]

    def _callable(self, tools: Tools | None, options: Options) -> tuple[Tools | None, JsonFields]:
        """Return the tools and options; drop tools that would be in the prompt but must not be called."""
        if self.current != "native" and tools and options.get("tool_choice") == "none":
            return None, without_tools(options)
        return tools, options

    def _is_plain(self, messages: list[Message], tools: Tools | None) -> bool:
        if self.current == "native" or tools:
            return self.current == "native"
        return not any(m.get("role") in ("tool", "function") or m.get("tool_calls") for m in messages)

    def _ask(
        self, messages: list[Message], tools: Tools | None, options: JsonObject
    ) -> tuple[AsyncGenerator[Delta, None], NativeReader | None]:
        """Return the response stream, and the reader that recovers calls from its text, if needed."""
        if self._group is not None:
            return stream_of(self._group, messages, tools, options), None
        tools, callable_options = self._callable(tools, options)
        options = dict(callable_options)
        if self._is_plain(messages, tools):
            if format_of(options) is not None:
                return self._typed(messages, tools, options)
            return stream_of(self.inner, messages, tools, options), self._native_reader(tools, options)
        tools = self._with_examples(tools or [])
        ask = self._text if self.current == "text" else self._json
        return ask(messages, tools, options), None

    def _typed_request(
        self, messages: list[Message], tools: Tools | None, options: Options, refused: int
    ) -> Shaped:
        mode = self.output_mode(tools, options)
        options = with_room(options, profile_of(self.inner))
        return typed_request(messages, tools, options, mode, self._prompts, refused)

    def _typed(
        self, messages: list[Message], tools: Tools | None, options: JsonObject
    ) -> tuple[AsyncGenerator[Delta, None], NativeReader | None]:
        """Request a typed answer with the best response format that the server accepts."""
        requests = [self._typed_request(messages, tools, options, number) for number in range(MAX_FORMATS)]
        formats = [request.options.get("response_format") for request in requests]
        deltas = self._formats.ask(lambda number: stream_of(self.inner, *requests[number]), formats)
        return deltas, self._native_reader(requests[0].tools, options)

    def _shape_text(self, messages: list[Message], tools: Tools, options: Options) -> Shaped:
        if wanted_tools(tools, options)[1]:
            raise refuse_choice(options, "in tool_mode='text'")
        instructions = self._prompts.react.format(tools=describe_tools(tools)) if tools else ""
        if (form := format_of(options)) is not None:
            messages = in_words(messages, form, self._prompts)
            options = {name: value for name, value in options.items() if name != "response_format"}
        stop = {"stop": STOP} if self._takes_stop else {}
        plain = write_history(messages, instructions, write_react)
        return Shaped(plain, None, {**stop, **without_tools(options)})

    async def _text(
        self, messages: list[Message], tools: Tools, options: JsonObject
    ) -> AsyncGenerator[Delta, None]:
        while True:
            shaped, is_default = self._shape_text(messages, tools, options), self._takes_stop
            try:
                async with aclosing(self._read(shaped, ReactReader(tools))) as deltas:
                    async for delta in deltas:
                        yield delta
            except LLMError as error:
                if not is_default or "stop" in options or not is_refusal(error, REFUSES_STOP):
                    raise
                self._takes_stop = False  # `stop` is optional: the reader drops text after an action anyway
            else:
                return

    def _native_reader(self, tools: Tools | None, options: Options) -> NativeReader | None:
        if not tools or not self.thinks_in_text or options.get("tool_choice") == "none":
            return None
        return NativeReader(tools)

    def _shape_json(
        self, messages: list[Message], tools: Tools, options: Options, number: int | None = None
    ) -> Shaped:
        """Build a JSON-mode request with the given response format, by default the best accepted one."""
        if any(tool["function"]["name"] == FINAL for tool in tools):
            raise LLMError(
                f"Tool name {FINAL!r} is reserved in tool_mode='json'. Rename the tool.", kind="bad_request"
            )
        instructions = self._prompts.json_action.format(tools=describe_tools(tools)) if tools else ""
        number = self._formats.refused if number is None else number
        allowed, has_to_call = wanted_tools(tools, options)
        if has_to_call and number:
            raise refuse_choice(options, "by this server, which rejects JSON schemas")
        form, final = format_of(options), None
        if form is not None:
            messages, final = in_words(messages, form, self._prompts), form.schema
            options = with_room(options, profile_of(self.inner))
            del options["response_format"]
        format_ = response_formats(allowed, final, has_to_call=has_to_call)[number]
        wanted = {"response_format": format_} if format_ else {}
        plain = write_history(messages, instructions, write_action)
        return Shaped(plain, None, {**wanted, **without_tools(options)})

    async def _json(
        self, messages: list[Message], tools: Tools, options: JsonObject
    ) -> AsyncGenerator[Delta, None]:
        from pure_agent_loop.llm.tool_modes.choose import Chooser, NoProbabilitiesError  # rarely needed

        if not self._choosers:
            self._choosers.append(Chooser(self.inner, self._prompts))
        chooser = self._choosers[0]
        try:
            if await chooser.can_choose(messages, tools, options):
                async with aclosing(chooser.step(messages, tools, options)) as deltas:
                    async for delta in deltas:
                        yield delta
                return
        except NoProbabilitiesError:
            pass  # continue without the chooser; nothing has been streamed yet
        async with aclosing(self._action(messages, tools, options)) as deltas:
            async for delta in deltas:
                yield delta

    def _action(
        self, messages: list[Message], tools: Tools, options: JsonObject
    ) -> AsyncGenerator[Delta, None]:
        """Request one JSON object with the best response format that the server accepts."""
        form = format_of(options)
        formats = response_formats(tools, None if form is None else form.schema)
        if form is None and "response_format" in options:  # the caller's own response_format is kept
            formats = [None] * len(formats)

        def ask(number: int) -> AsyncGenerator[Delta, None]:
            shaped = self._shape_json(messages, tools, options, number)
            return self._read(shaped, JsonReader(tools, typed=form is not None))

        return self._formats.ask(ask, formats)

    async def _read(self, shaped: Shaped, reader: _ResponseReader) -> AsyncGenerator[Delta, None]:
        """Stream without tools, and let `reader` turn the text into calls."""
        is_constrained = "response_format" in shaped.options
        think = ThinkSplitter()
        was_cut = False
        async with aclosing(stream_of(self.inner, *shaped)) as deltas:
            async for delta in deltas:
                was_cut = was_cut or is_cut(delta)
                text, reasoning = think.feed(delta.text)
                read = reader.feed(text)
                # A truncated constrained response cannot be continued, so the next one starts over.
                reason = OUTPUT_LIMIT if was_cut and is_constrained else delta.finish_reason
                reasoning = delta.reasoning + reasoning + read.reasoning
                yield delta._replace(text=read.text, reasoning=reasoning, finish_reason=reason)
        text, reasoning = think.flush()
        read, last = reader.feed(text), reader.finish(is_cut=was_cut)
        yield Delta(read.text + last.text, reasoning + read.reasoning + last.reasoning, last.tool_calls)
