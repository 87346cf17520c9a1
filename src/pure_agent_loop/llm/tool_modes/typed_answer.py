"""How a typed answer is asked for: the three ways, and which one a server gets. Pure: no I/O.

========  ====================================================================================
native    the server holds the answer to a JSON schema, also beside tools
tool      the answer is the call of one more tool, ``final_result``
prompted  the schema is put into words; where no tool can be called, the server is also asked to hold the
          answer to it, to be JSON at least, or nothing of that, as far as it can
========  ====================================================================================

The profile names one. Else it is ``tool`` where a model may call tools natively, and ``prompted`` elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pure_agent_loop.llm.messages import joined_content
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultInt, OutputMode, Profile
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.language import speaking

FINAL_RESULT = "final_result"
MOST_FORMATS = 3
LEAST_TOKENS = 400  # of a typed answer, where the profile sets a limit for answers in words
Message = dict[str, Any]
Tools = list[dict[str, Any]]


class Shaped(NamedTuple):
    """What the inner client is asked: the arguments of its `chat`."""

    messages: list[Message]
    tools: Tools | None
    options: dict[str, Any]


def format_of(options: Mapping[str, Any]) -> AnswerFormat | None:
    """The form that the answer to a request must have; None for none of ours."""
    found = options.get("response_format")
    return found if isinstance(found, AnswerFormat) else None


def output_mode(
    profile: Profile | None, tool_mode: str, tools: Tools | None, options: Mapping[str, Any]
) -> OutputMode:
    """In which way a typed answer is asked for."""
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
    options: Mapping[str, Any],
    mode: OutputMode,
    prompts: Prompts,
    refused: int = 0,
) -> Shaped:
    """A request in one of the ways.

    Args:
        messages: The history.
        tools: Tool schemas, or None.
        options: Fields of the request, with an `AnswerFormat`.
        mode: The way.
        prompts: Whose words the model is told.
        refused: How many response formats the server has refused, from the best one on.
    """
    form = format_of(options)
    assert form is not None
    rest = {name: value for name, value in options.items() if name != "response_format"}
    if mode == "tool":
        return Shaped(messages, [*(tools or []), _final_tool(form, prompts)], rest)
    if mode == "native" and not refused:
        return Shaped(messages, tools, {**rest, "response_format": dict(form)})
    may_call = bool(tools) and options.get("tool_choice") != "none"
    formats: list[dict[str, Any] | None] = [dict(form), {"type": "json_object"}, None]
    wanted = None if may_call else formats[refused]
    rest = {**rest, "response_format": wanted} if wanted else rest
    return Shaped(in_words(messages, form, prompts), tools, rest)


def in_words(messages: list[Message], form: AnswerFormat, prompts: Prompts) -> list[Message]:
    """The history with the form of the answer in its system message."""
    with speaking(prompts):
        told = say("typed_answer", schema=json.dumps(form.schema, ensure_ascii=False))
    if messages and messages[0]["role"] in ("system", "developer"):
        content = joined_content(messages[0]["content"], told, "\n\n")
        return [{**messages[0], "content": content}, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]


def with_room(options: Mapping[str, Any], profile: Profile | None) -> dict[str, Any]:
    """The options with room for a typed answer: half an object is of no use."""
    least = None if profile is None else profile.max_output
    if least is None or "max_tokens" in options:
        return dict(options)
    return {**options, "max_tokens": DefaultInt(max(least, LEAST_TOKENS))}


def _final_tool(form: AnswerFormat, prompts: Prompts) -> dict[str, Any]:
    with speaking(prompts):
        about = say("final_result")
    description = form.schema.get("description")
    function = {
        "name": FINAL_RESULT,
        "description": f"{about}\n{description}" if description else about,
        "parameters": form.schema,
    }
    return {"type": "function", "function": function}


def answered(response: LLMResponse) -> tuple[LLMResponse, str]:
    """An answer that was given as a call of the final tool, as text; and what of that text is new.

    Beside other calls it was made up before their results were there, and is dropped. One that was cut off is
    not gone on with.
    """
    if response.finish_reason == "length" and not response.tool_calls:
        return replace(response, finish_reason=OUTPUT_LIMIT), ""
    finals = [call for call in response.tool_calls if call.name == FINAL_RESULT]
    others = [call for call in response.tool_calls if call.name != FINAL_RESULT]
    if not finals or (not others and finals[0].invalid is not None):  # the loop says what is wrong with it
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
