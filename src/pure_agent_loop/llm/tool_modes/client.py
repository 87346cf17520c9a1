"""Any chat model can act: the same calls come out, however the model has to be asked for them.

========  ====================================================================================
native    the server's own tool calls; calls left in the text are recovered
json      constrained output: a tool is chosen, then its arguments are filled in, where the server says how
          likely its tokens are; else one JSON object a step, without constraints where there are none
text      the ReAct format in plain text
auto      native, until the server or the model shows that it does not work there; then json
========  ====================================================================================

The client is a wrapper around another one, so the loop knows nothing of it. Where no tools are offered
and the history holds no calls, it changes nothing at all. What it learns about a server (a response
format or a parameter that is refused) it remembers, and says so in a notice.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import BaseLLMClient, ChatModel, profile_of, stream_of
from pure_agent_loop.llm.profiles import OutputMode
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse, assembled
from pure_agent_loop.llm.think import ThinkSplitter
from pure_agent_loop.llm.tool_modes.examples import check_worked_examples
from pure_agent_loop.llm.tool_modes.json_action import FINAL, JsonReader, response_formats, write_action
from pure_agent_loop.llm.tool_modes.native import NativeReader, is_cut
from pure_agent_loop.llm.tool_modes.react import (
    STOP,
    ReactReader,
    describe_tools,
    write_history,
    write_react,
)
from pure_agent_loop.llm.tool_modes.refusals import (
    REFUSES_STOP,
    REFUSES_TOOLS,
    Formats,
    drops_tools,
    is_refusal,
)
from pure_agent_loop.llm.tool_modes.tool_choice import refuse_choice, wanted_tools, without_tools
from pure_agent_loop.llm.tool_modes.typed_answer import (
    MOST_FORMATS,
    Shaped,
    format_of,
    in_words,
    output_mode,
    typed_request,
    with_room,
)
from pure_agent_loop.llm.values import NOTHING, Delta
from pure_agent_loop.prompts import Prompts

if TYPE_CHECKING:
    from pure_agent_loop.llm.tool_modes.chooser import Chooser

ToolMode = Literal["auto", "native", "json", "text"]
TOOL_MODES: tuple[str, ...] = get_args(ToolMode)
Message = dict[str, Any]
Tools = list[dict[str, Any]]


class _Reader(Protocol):
    def feed(self, text: str) -> Delta: ...

    def finish(self, *, is_cut: bool = False) -> Delta: ...


ExamplesOf = Callable[[str, Prompts], Sequence[tuple[str, Mapping[str, Any]]]]


def no_examples(
    name: str,  # noqa: ARG001 - the shape of `ExamplesOf`
    prompts: Prompts,  # noqa: ARG001 - likewise
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """No tool has any."""
    return ()


def check_tool_mode(mode: str) -> None:
    """Refuse a tool mode that does not exist.

    Raises:
        ConfigError: It names the modes there are.
    """
    if mode not in TOOL_MODES:
        raise ConfigError(f"tool_mode={mode!r} is not known. Use one of: {', '.join(TOOL_MODES)}.")


class ToolModeClient(BaseLLMClient):
    """Makes the model behind another client act.

    Args:
        inner: The client of the model.
        mode: ``auto``, ``native``, ``json`` or ``text``.
        prompts: The words the model is told about actions.
        examples: The worked examples of a tool, by its name.

    Raises:
        ConfigError: There is no such mode.
    """

    def __init__(
        self, inner: ChatModel, mode: str, prompts: Prompts, examples: ExamplesOf = no_examples
    ) -> None:
        check_tool_mode(mode)
        check_worked_examples(prompts)
        self.inner = inner
        self.mode = mode
        found = profile_of(inner)
        begins = found.tool_mode if found is not None else ""
        self.current = (begins or "native") if mode == "auto" else mode
        self._prompts = prompts
        self._examples = examples
        self._probed = self.current != "native" or mode != "auto"
        self._formats = Formats()
        self._takes_stop = True
        self._choosers: list[Chooser] = []  # one, also of those that are copied
        self.takes_meta = getattr(inner, "takes_meta", False)

    def around(self, inner: ChatModel) -> ToolModeClient:
        """The same around another client."""
        return ToolModeClient(inner, self.mode, self._prompts, self._examples)

    def with_examples(self, examples: ExamplesOf) -> ToolModeClient:
        """The same for other tools; what was learned about the server holds."""
        other = copy.copy(self)
        other._examples = examples
        return other

    @property
    def model(self) -> str:
        """What the inner client calls its model, as far as it says."""
        name = getattr(self.inner, "model", None) or getattr(self.inner, "name", None)
        return str(name or type(self.inner).__name__)

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read from another client, never set here
        """Tokens of the inner client's window, as far as it says."""
        return getattr(self.inner, "context_window", None)

    async def find_context_window(self) -> int | None:
        """The same, after the inner client has asked its server if it can."""
        ask = getattr(self.inner, "find_context_window", None)
        return self.context_window if ask is None else await ask()

    async def chat(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> LLMResponse:
        """Answer in one piece. See `BaseLLMClient.chat`."""
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    async def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Answer piece by piece. See `BaseLLMClient.chat_stream`."""
        if tools and not self._probed:
            self._probed = True
            if await drops_tools(self.inner):
                yield self._switch("the server's template for this model leaves tools out")
        shown = False
        deltas, watch = self._ask(messages, tools, kwargs)
        try:
            async for delta in deltas:
                seen = delta if watch is None else watch.take(delta)
                yield seen
                shown = shown or seen != NOTHING
        except LLMError as error:
            if shown or not tools or not self._switches() or not is_refusal(error, REFUSES_TOOLS):
                raise
            refusal = error.said
        else:
            for last in () if watch is None else self._last(watch):
                yield last
            return
        finally:
            await deltas.aclose()
        yield self._switch(f"the server refuses tools ({refusal[:200]})")
        async with aclosing(self._ask(messages, tools, kwargs)[0]) as deltas:
            async for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        """Close the inner client."""
        close = getattr(self.inner, "aclose", None)
        if close is not None:
            await close()

    def _last(self, watch: NativeReader) -> Iterator[Delta]:
        last = watch.finish()
        yield last
        if last.tool_calls and self._switches():
            yield self._switch("the model writes its calls as text")

    def _switches(self) -> bool:
        """True if another mode can be gone on with."""
        return self.mode == "auto" and self.current == "native"

    def _switch(self, why: str) -> Delta:
        self.current = "json"
        return Delta(notice=f"Tools are put to the model as JSON from now on: {why}.")

    def request_body(
        self, messages: list[Message], tools: Tools | None, options: Mapping[str, Any], stream: bool
    ) -> dict[str, Any] | None:
        """The request as the inner client will send it in the current mode; None if that client cannot say.

        Args:
            messages: The history.
            tools: Tool schemas, or None.
            options: Fields of the request.
            stream: Whether the answer should be streamed.

        Raises:
            LLMError: It cannot be sent in this mode.
        """
        body_of = getattr(self.inner, "request_body", None)
        return None if body_of is None else body_of(*self.shape(messages, tools, options), stream)

    def shape(self, messages: list[Message], tools: Tools | None, options: Mapping[str, Any]) -> Shaped:
        """What the inner client is asked in the current mode.

        Args:
            messages: The history.
            tools: Tool schemas, or None.
            options: Fields of the request.

        Raises:
            LLMError: It cannot be asked in this mode.
        """
        tools, options = self._callable(tools, options)
        if self._is_plain(messages, tools):
            if format_of(options) is not None:
                return self._typed_request(messages, tools, options, self._formats.refused)
            return Shaped(messages, tools, dict(options))
        shape = self._shape_text if self.current == "text" else self._shape_json
        return shape(messages, self._shown_how(tools or []), options)

    def output_mode(self, tools: Tools | None, options: Mapping[str, Any]) -> OutputMode:
        """How a typed answer is asked for."""
        return output_mode(profile_of(self.inner), self.current, tools, options)

    def _shown_how(self, tools: Tools) -> Tools:
        """The tools with their worked examples, which no server gets to see as they are."""
        return [
            {**each, "function": {**each["function"], "examples": shown}}
            if (shown := self._examples(each["function"]["name"], self._prompts))
            else each
            for each in tools
        ]

    def _callable(
        self, tools: Tools | None, options: Mapping[str, Any]
    ) -> tuple[Tools | None, Mapping[str, Any]]:
        """The tools and options; no tools where they are put into words and must not be called."""
        if self.current != "native" and tools and options.get("tool_choice") == "none":
            return None, without_tools(options)
        return tools, options

    def _is_plain(self, messages: list[Message], tools: Tools | None) -> bool:
        return self.current == "native" or (not tools and not any(map(_is_of_tools, messages)))

    def _ask(
        self, messages: list[Message], tools: Tools | None, options: dict[str, Any]
    ) -> tuple[AsyncGenerator[Delta, None], NativeReader | None]:
        """The answer, and what has to look through it for calls that were left in its text."""
        tools, given = self._callable(tools, options)
        options = dict(given)
        if self._is_plain(messages, tools):
            if format_of(options) is not None:
                return self._typed(messages, tools, options)
            return stream_of(self.inner, messages, tools, options), _watch(tools, options)
        tools = self._shown_how(tools or [])
        ask = self._text if self.current == "text" else self._json
        return ask(messages, tools, options), None

    def _typed_request(
        self, messages: list[Message], tools: Tools | None, options: Mapping[str, Any], refused: int
    ) -> Shaped:
        mode = self.output_mode(tools, options)
        options = with_room(options, profile_of(self.inner))
        return typed_request(messages, tools, options, mode, self._prompts, refused)

    def _typed(
        self, messages: list[Message], tools: Tools | None, options: dict[str, Any]
    ) -> tuple[AsyncGenerator[Delta, None], NativeReader | None]:
        """A typed answer, with the best response format that the server takes."""
        asked = [self._typed_request(messages, tools, options, number) for number in range(MOST_FORMATS)]
        formats = [each.options.get("response_format") for each in asked]
        deltas = self._formats.ask(lambda number: stream_of(self.inner, *asked[number]), formats)
        return deltas, _watch(asked[0].tools, options)

    def _shape_text(self, messages: list[Message], tools: Tools, options: Mapping[str, Any]) -> Shaped:
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
        self, messages: list[Message], tools: Tools, options: dict[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        shaped, is_ours = (
            self._shape_text(messages, tools, options),
            self._takes_stop and "stop" not in options,
        )
        try:
            async with aclosing(self._read(shaped, ReactReader(tools))) as deltas:
                async for delta in deltas:
                    yield delta
        except LLMError as error:
            if not is_ours or not is_refusal(error, REFUSES_STOP):
                raise
            self._takes_stop = False  # not needed: what is made up behind an action is cut off here too
        else:
            return
        shaped = self._shape_text(messages, tools, options)
        async with aclosing(self._read(shaped, ReactReader(tools))) as deltas:
            async for delta in deltas:
                yield delta

    def _shape_json(
        self, messages: list[Message], tools: Tools, options: Mapping[str, Any], number: int | None = None
    ) -> Shaped:
        """With the response format of that number, else with the best one the server is known to take."""
        if any(tool["function"]["name"] == FINAL for tool in tools):
            raise LLMError(
                f"A tool cannot be called {FINAL!r} in tool_mode='json'. Rename it.", kind="bad_request"
            )
        instructions = self._prompts.json_action.format(tools=describe_tools(tools)) if tools else ""
        number = self._formats.refused if number is None else number
        allowed, has_to_call = wanted_tools(tools, options)
        if has_to_call and number:
            raise refuse_choice(options, "by this server, which refuses a JSON schema")
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
        self, messages: list[Message], tools: Tools, options: dict[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        from pure_agent_loop.llm.tool_modes.choose import NoProbabilitiesError

        if not self._choosers:
            from pure_agent_loop.llm.tool_modes.chooser import Chooser  # most models choose by themselves

            self._choosers.append(Chooser(self.inner, self._prompts))
        chooser = self._choosers[0]
        try:
            if await chooser.can_choose(messages, tools, options):
                async with aclosing(chooser.step(messages, tools, options)) as deltas:
                    async for delta in deltas:
                        yield delta
                return
        except NoProbabilitiesError:
            pass  # known from now on; nothing was said yet
        async with aclosing(self._action(messages, tools, options)) as deltas:
            async for delta in deltas:
                yield delta

    async def _action(
        self, messages: list[Message], tools: Tools, options: dict[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        form = format_of(options)
        formats = response_formats(tools, None if form is None else form.schema)
        if form is None and "response_format" in options:  # the caller's own
            formats = [None] * len(formats)

        def ask(number: int) -> AsyncGenerator[Delta, None]:
            shaped = self._shape_json(messages, tools, options, number)
            return self._read(shaped, JsonReader(tools, typed=form is not None))

        async with aclosing(self._formats.ask(ask, formats)) as deltas:
            async for delta in deltas:
                yield delta

    async def _read(self, shaped: Shaped, reader: _Reader) -> AsyncGenerator[Delta, None]:
        """Stream without tools, and let `reader` make calls of the text."""
        is_constrained = "response_format" in shaped.options
        think = ThinkSplitter()
        was_cut = False
        async with aclosing(stream_of(self.inner, *shaped)) as deltas:
            async for delta in deltas:
                was_cut = was_cut or is_cut(delta)
                text, reasoning = think.feed(delta.text)
                read = reader.feed(text)
                # A constrained answer that was cut off is not gone on with: the next one begins anew.
                reason = OUTPUT_LIMIT if was_cut and is_constrained else delta.finish_reason
                reasoning = delta.reasoning + reasoning + read.reasoning
                yield delta._replace(text=read.text, reasoning=reasoning, finish_reason=reason)
        text, reasoning = think.flush()
        read, last = reader.feed(text), reader.finish(is_cut=was_cut)
        yield Delta(read.text + last.text, reasoning + read.reasoning + last.reasoning, last.tool_calls)


def _watch(tools: Tools | None, options: Mapping[str, Any]) -> NativeReader | None:
    return NativeReader(tools) if tools and options.get("tool_choice") != "none" else None


def _is_of_tools(message: Message) -> bool:
    return message.get("role") in ("tool", "function") or bool(message.get("tool_calls"))
