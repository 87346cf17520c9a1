"""Requests in a tool mode: `tool_choice`, typed answers, and what to request where a server refuses."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.messages import Message, joined_content
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultInt, OutputMode, Profile
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse
from pure_agent_loop.llm.values import NOTHING, Delta
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.language import model_text, use_messages
from pure_agent_loop.support.lazy import lazy_pattern

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import JsonFields, JsonObject, Options

# Errors of servers or models that do not support tools.
REFUSES_TOOLS = lazy_pattern(
    r"not support (?:this )?(?:tools?\b|tool[_ -]?(?:us|call|choice)|functions?\b|function[_ -]?call)"
    r"|(?:tools?|tool[_ -]?(?:us\w*|call\w*|choice)|function[_ -]?call\w*) (?:is|are) "
    r"(?:not (?:supported|enabled|available|allowed)|unsupported|disabled)"
    r"|support tool use|tool-call-parser|enable-auto-tool-choice|tools param requires"
    r"|(?:unsupported|unknown|unrecognized|unexpected|invalid)\b.{0,60}\W(?:tools|functions)(?:['\"`]|\s*$)"
    r"|\btools\b.{0,10}extra inputs|extra inputs.{0,60}\btools\b",
    re.I | re.S,
)
# Errors for an unknown response format, as opposed to other 400 errors.
REFUSES_FORMAT = lazy_pattern(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured[_ ]output|guided"
    r"|grammar|sampler|\bschema\b|(?:invalid|unsupported|unknown|output) format",
    re.I,
)
REFUSES_STOP = lazy_pattern(r"\bstop\b", re.I)
_REFUSAL_KINDS = ("bad_request", "not_found", "overloaded", "unknown")
FINAL_RESULT = "final_result"
MAX_FORMATS = 3
MIN_TOKENS = 400  # output limit of a typed answer if the profile sets a lower limit
_NEED_TOOLS = ("tool_choice", "parallel_tool_calls")  # options that servers reject without tools


def is_refusal(error: LLMError, words: re.Pattern[str]) -> bool:
    """Return True if an error is a refusal that matches a pattern."""
    return error.kind in _REFUSAL_KINDS and words.search(error.said) is not None


class Formats:
    """Finds and remembers the first response format of a list that the server accepts."""

    def __init__(self) -> None:
        self.refused = 0

    async def ask(
        self,
        ask: Callable[[int], AsyncGenerator[Delta, None]],
        formats: Sequence[JsonFields | None],
    ) -> AsyncGenerator[Delta, None]:
        """Stream a response with the first format that the server accepts.

        Args:
            ask: Sends the request with the format of the given index.
            formats: The formats, best first; None for no format, which cannot be refused.
        """
        refusal: LLMError | None = None
        shown = False
        for number in range(self.refused, len(formats)):
            answer = ask(number)
            try:
                async with aclosing(answer) as deltas:
                    async for delta in deltas:
                        if refusal is not None:
                            yield self._remember(number, formats, refusal)
                            refusal = None
                        yield delta
                        shown = shown or delta != NOTHING
            except LLMError as error:
                if formats[number] is None or shown or not is_refusal(error, REFUSES_FORMAT):
                    raise
                refusal = error
            else:
                return

    def _remember(self, number: int, formats: Sequence[JsonFields | None], refusal: LLMError) -> Delta:
        """Remember the accepted format; return a notice."""
        self.refused = max(self.refused, number)
        accepted = formats[number]
        name = f"response_format {accepted['type']!r}" if accepted else "no response_format"
        return Delta(
            notice=f"From now on, JSON is requested with {name}: the server rejected a stricter format "
            f"({refusal.said[:200]})."
        )


async def drops_tools(client: object) -> bool:
    """Return True if the server reports a chat template without tools."""
    ask = getattr(client, "template_supports_tools", None)
    try:
        return ask is not None and await ask() is False
    except Exception:  # noqa: BLE001 - a failed probe proves nothing
        return False


# -- requests for typed answers: three output modes, and the choice among them. Pure: no I/O -------------
# ========  ====================================================================================
# native    the server enforces a JSON schema, also together with tools
# tool      the answer is a call of an additional tool, ``final_result``
# prompted  the schema is in the prompt; without tools, the server is also asked to enforce the schema, else
#           JSON, else nothing, whichever it supports
# ========  ====================================================================================
#
# The profile can set one. The default is ``tool`` if the model may call tools natively, else ``prompted``.

Tools = list[dict[str, Any]]


class Shaped(NamedTuple):
    """Arguments of the inner client's `chat`."""

    messages: list[Message]
    tools: Tools | None
    options: JsonObject


def format_of(options: Options) -> AnswerFormat | None:
    """Return the format of a typed answer; None for other requests."""
    format_ = options.get("response_format")
    return format_ if isinstance(format_, AnswerFormat) else None


def output_mode(profile: Profile | None, tool_mode: str, tools: Tools | None, options: Options) -> OutputMode:
    """Return the output mode for a typed answer."""
    wanted = "" if profile is None else profile.output_mode
    if tool_mode != "native":
        return "prompted"
    may_call = options.get("tool_choice") != "none"
    if wanted == "tool" or (not wanted and tools):
        return "tool" if may_call else "prompted"
    return wanted or "prompted"


def typed_request(
    messages: list[Message],
    tools: Tools | None,
    options: Options,
    mode: OutputMode,
    prompts: Prompts,
    refused: int = 0,
) -> Shaped:
    """Build a request for a typed answer.

    Args:
        tools: Tool schemas, or None.
        options: Fields of the request, with an `AnswerFormat`.
        refused: Number of response formats that the server has refused, best first.
    """
    form = format_of(options)
    assert form is not None
    rest = {name: value for name, value in options.items() if name != "response_format"}
    if mode == "tool":
        return Shaped(messages, [*(tools or []), _final_tool(form, prompts)], rest)
    if mode == "native" and not refused:
        return Shaped(messages, tools, {**rest, "response_format": dict(form)})
    may_call = bool(tools) and options.get("tool_choice") != "none"
    formats: list[JsonObject | None] = [dict(form), {"type": "json_object"}, None]
    wanted = None if may_call else formats[refused]
    rest = {**rest, "response_format": wanted} if wanted else rest
    return Shaped(in_words(messages, form, prompts), tools, rest)


def in_words(messages: list[Message], form: AnswerFormat, prompts: Prompts) -> list[Message]:
    """Add the answer's schema to the system message of a history."""
    with use_messages(prompts):
        instructions = model_text("typed_answer", schema=json.dumps(form.schema, ensure_ascii=False))
    if messages and messages[0]["role"] in ("system", "developer"):
        content = joined_content(messages[0]["content"], instructions, "\n\n")
        return [{**messages[0], "content": content}, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]


def with_room(options: Options, profile: Profile | None) -> JsonObject:
    """Raise the profile's output limit for a typed answer: a truncated object is useless."""
    limit = None if profile is None else profile.max_output
    if limit is None or "max_tokens" in options:
        return dict(options)
    return {**options, "max_tokens": DefaultInt(max(limit, MIN_TOKENS))}


def _final_tool(form: AnswerFormat, prompts: Prompts) -> JsonObject:
    with use_messages(prompts):
        purpose = model_text("final_result")
    description = form.schema.get("description")
    function = {
        "name": FINAL_RESULT,
        "description": f"{purpose}\n{description}" if description else purpose,
        "parameters": form.schema,
    }
    return {"type": "function", "function": function}


def answered(response: LLMResponse) -> tuple[LLMResponse, str]:
    """Convert a call of the final tool to a text response; return it and the added text.

    Together with other calls, the final call is dropped: it was written before their results. A truncated
    response is marked as final.
    """
    if response.finish_reason == "length" and not response.tool_calls:
        return replace(response, finish_reason=OUTPUT_LIMIT), ""
    finals = [call for call in response.tool_calls if call.name == FINAL_RESULT]
    others = [call for call in response.tool_calls if call.name != FINAL_RESULT]
    if not finals or (
        not others and finals[0].invalid is not None
    ):  # the loop reports the error to the model
        return response, ""
    if others:
        return replace(response, tool_calls=others), ""
    text = json.dumps(finals[0].arguments, ensure_ascii=False)
    with suppress(ValueError):  # it may have been written as text too
        if response.content and json.loads(response.content) == finals[0].arguments:
            return replace(response, tool_calls=[], finish_reason="stop"), ""
    new = f"\n\n{text}" if response.content else text
    content = f"{response.content or ''}{new}"
    return replace(response, content=content, tool_calls=[], finish_reason="stop"), new


# -- `tool_choice` for tools in the prompt: the server does not get these fields -------------------------


def without_tools(options: Options) -> JsonObject:
    """Remove the fields of a request that need tools."""
    return {key: value for key, value in options.items() if key not in _NEED_TOOLS}


def wanted_tools(tools: Tools, options: Options) -> tuple[Tools, bool]:
    """Return the tools that may be called, and whether a call is required.

    Args:
        options: Fields of the request. ``tool_choice`` may be ``auto``, ``none``, ``required`` or
            ``{"type": "function", "function": {"name": NAME}}``.

    Raises:
        LLMError: ``tool_choice`` names an unknown tool or has another form.
    """
    choice = options.get("tool_choice")
    if choice is None or choice in ("auto", "none") or not tools:
        return tools, False
    if choice == "required":
        return tools, True
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        raise LLMError(
            f"tool_choice={choice!r} does not name a tool of this request. Use 'auto', 'none', 'required', "
            "or a function's name.",
            kind="bad_request",
        )
    return named, True


def refuse_choice(options: Options, context: str) -> LLMError:
    """Return the error for a choice that cannot be enforced."""
    return LLMError(
        f"tool_choice={options.get('tool_choice')!r} cannot be enforced {context}. Remove it, or use a "
        "server that supports a JSON schema as response_format.",
        kind="bad_request",
    )
