"""Requests for typed answers: three output modes, and the choice among them. Pure: no I/O.

    native    the server enforces a JSON schema, even together with tools
    tool      the answer is a call to an additional tool, ``final_result``
    prompted  the schema is in the prompt; if there are no tools, the server is also asked to enforce the
              schema, or at least JSON, if it supports that

With native tool calls, the profile can set a mode; the default is ``tool`` if there are tools that may be
called, else ``prompted``. In other tool modes, the mode is always ``prompted``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

from pure_agent_loop.llm.messages import Message, is_json_of, joined_content
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultInt, OutputMode, Profile
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse
from pure_agent_loop.llm.values import JsonObject, Options, Tools
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.language import model_text, use_messages

FINAL_RESULT = "final_result"
MIN_TOKENS = 400  # lowest output limit that a profile can set for a typed answer


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
        refused: Number of response formats that the server has refused; the best ones are tried first.
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
    """Raise the profile's output limit for a typed answer, because a truncated object is useless."""
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
    """Convert a call of the final tool to a text response; return the response and the text added to it.

    If there are also other calls, the final call is dropped, because it was written before their results. A
    truncated response is marked as one that must not be continued.
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
    if is_json_of(response.content, finals[0].arguments):  # the model also wrote this object as text
        return replace(response, tool_calls=[], finish_reason="stop"), ""
    new = f"\n\n{text}" if response.content else text
    content = f"{response.content or ''}{new}"
    return replace(response, content=content, tool_calls=[], finish_reason="stop"), new
