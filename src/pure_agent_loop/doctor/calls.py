"""Probes of tools: calls, results, and tool modes without native calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pure_agent_loop.doctor.answers import Found, user
from pure_agent_loop.doctor.listing import template_caps
from pure_agent_loop.doctor.session import Message, ProbeResponse, ProbeSession
from pure_agent_loop.llm.base import origin_of
from pure_agent_loop.llm.messages import assistant_message, to_wire, tool_message
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.recover import TextCalls
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.support.language import notice

CALL_TOKENS = 600  # the model may reason before a call
_THINKING_TOKENS = 5_000  # above the smallest budget of the Messages protocol
_QUESTION = "What is the weather in Oslo now? Use the tool."
_TWO = "What is the weather in Oslo and in Lima now? Call the tool once for each city, both at once."
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city."}},
            "required": ["city"],
        },
    },
}
TOOLS = [WEATHER]
NATIVE = "tool call"


async def tool_call(s: ProbeSession) -> Found:
    """Does the model call the required tool with valid arguments?"""
    s.native = asked = await s.ask(user(_QUESTION), TOOLS, max_tokens=CALL_TOKENS)
    calls = asked.response.tool_calls
    s.acts["native"] = _is_right(asked)
    if s.acts["native"]:
        return "yes", _shown(calls[0].name, calls[0].arguments)
    if calls:
        problem = calls[0].invalid or _shown(calls[0].name, calls[0].arguments)
        return "partly", notice("doctor.invalid_call", problem=problem)
    if _in_text(asked.text):
        return "partly", notice("doctor.call_in_text")
    if asked.text:
        return "no", notice("doctor.answered_with_text", text=_begin(s, asked))
    return "no", notice("doctor.no_call_no_text")


def _begin(s: ProbeSession, asked: ProbeResponse) -> str:
    return repr(s.target.cleaned(asked.text)[:60])


def _shown(name: str, arguments: Any) -> str:
    return f"{name}({json.dumps(arguments, ensure_ascii=False)})"


def _is_right(asked: ProbeResponse) -> bool:
    calls = asked.response.tool_calls
    if not calls or calls[0].name != "get_weather" or calls[0].invalid:
        return False
    return "oslo" in str(calls[0].arguments.get("city", "")).lower()


def _in_text(text: str) -> bool:
    scanner = TextCalls(TOOLS)
    scanner.feed(text)
    return bool(scanner.finish()[0])


async def tools_reach(s: ProbeSession) -> Found:
    """Does the model see the tools? Some templates silently drop them."""
    says = template_caps(s.props).get("supports_tools")
    if says is not None:
        s.tools_dropped = not says
        return ("yes", notice("doctor.template_takes")) if says else ("no", notice("doctor.template_drops"))
    if s.native is None or s.native.response.usage is None:
        return "unknown", notice("doctor.not_reported")
    without = await s.ask(user(_QUESTION), max_tokens=CALL_TOKENS)
    if without.response.usage is None:
        return "unknown", notice("doctor.not_reported")
    extra = s.native.response.usage.prompt_tokens - without.response.usage.prompt_tokens
    if extra > 0:
        return "yes", notice("doctor.tools_add", extra=extra)
    if s.native.response.tool_calls:
        return "yes", notice("doctor.called_one")
    s.tools_dropped = extra == 0
    return "no", notice("doctor.tools_add_none")


async def parallel_calls(s: ProbeSession) -> Found:
    """Does the model make two calls in one response when asked to?"""
    asked = await s.ask(user(_TWO), TOOLS, max_tokens=CALL_TOKENS)
    count = len(asked.response.tool_calls)
    if count > 1:
        return "yes", notice("doctor.calls_in_one", count=count)
    if count:
        return "partly", notice("doctor.one_call_at_a_time")
    return "no", notice("doctor.no_call")


async def forced_call(s: ProbeSession) -> Found:
    """Does ``tool_choice`` force a call that the question does not need?"""
    choice = {"type": "function", "function": {"name": "get_weather"}}
    asked = await s.ask(user("Say hello to Oslo."), TOOLS, tool_choice=choice, max_tokens=CALL_TOKENS)
    if asked.response.tool_calls:
        return "yes", notice("doctor.obeyed")
    return "partly", notice("doctor.ignored_here")


async def thinking_back(s: ProbeSession) -> Found:
    """Is the thinking of a response part of the next request, and is it accepted there?"""
    if s.thought is None:
        return "unknown", notice("doctor.no_thinking_arrived")
    response = replace(s.thought.response, origin=origin_of(s.client))
    bare = [replace(call, extra=None) for call in response.tool_calls]
    results = [tool_message(call.id, "Rain, 8 degrees.") for call in bare] or user("Say it in one word.")
    kept = [*user(_QUESTION), assistant_message(response), *results]
    without = [*user(_QUESTION), assistant_message(LLMResponse(response.content, bare)), *results]
    options = _thinking(s)
    bodies = [s.client.request_body(_for_client(s, m), TOOLS, options, stream=False) for m in (kept, without)]
    if bodies[0] == bodies[1]:
        return "no", notice("doctor.not_sent_back")
    await s.ask(_for_client(s, kept), TOOLS, **options)
    return "yes", notice("doctor.accepted")


def _for_client(s: ProbeSession, messages: list[Message]) -> list[Message]:
    return messages if s.client.takes_meta else to_wire(messages, s.client)


async def thinking_returned(s: ProbeSession) -> Found:
    """Does thinking come with a call, if it is requested?"""
    asked = await s.ask(user(_QUESTION), TOOLS, **_thinking(s))
    response = asked.response
    tokens = (response.usage.reasoning_tokens or 0) if response.usage else 0
    if response.reasoning_content or response.extra or tokens:
        s.thought = asked
    if response.reasoning_content:
        return "yes", notice("doctor.with_text")
    if tokens:
        return "partly", notice("doctor.without_text", tokens=tokens)
    return "no", notice("doctor.no_thinking")


def _thinking(s: ProbeSession) -> dict[str, Any]:
    """Return the options of a request for thinking. A tiny model may write up to any limit; it stays low."""
    return {
        "thinking_level": "low",
        "max_tokens": _THINKING_TOKENS if s.target.protocol else CALL_TOKENS,
        "temperature": None,  # rejected together with thinking
    }


async def two_results(s: ProbeSession) -> Found:
    """Is a history with two calls in one message accepted?"""
    history = [*user(_TWO), _assistant(_call(1, "Oslo"), _call(2, "Lima")), _result(1), _result(2)]
    await s.ask(history, TOOLS)
    if not s.client.profile.parallel_calls:
        return "no", notice("doctor.separate_messages")
    return "yes", notice("doctor.accepted")


async def user_after_tool(s: ProbeSession) -> Found:
    """Is a user's message accepted right after a tool's result?"""
    history = [*user(_QUESTION), _assistant(_call(1, "Oslo")), _result(1), *user("Say it in one word.")]
    await s.ask(history, TOOLS)
    if s.client.profile.user_after_tool:
        return "yes", notice("doctor.accepted")
    return "no", notice("doctor.inserted")


def _assistant(*calls: Message) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _call(number: int, city: str) -> Message:
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _result(number: int) -> Message:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": "Rain, 8 degrees."}


async def json_actions(s: ProbeSession) -> Found:
    """Can the model act with ``tool_mode="json"``?"""
    return await _act(s, "json")


async def text_actions(s: ProbeSession) -> Found:
    """Can the model act with ``tool_mode="text"``?"""
    return await _act(s, "text")


async def _act(s: ProbeSession, mode: str) -> Found:
    wrapped = ToolModeClient(s.client, mode, prompts_for())
    asked = await s.ask(user(_QUESTION), TOOLS, client=wrapped, stream=True, max_tokens=CALL_TOKENS)
    s.acts[mode] = _is_right(asked)
    calls = asked.response.tool_calls
    if s.acts[mode]:
        return "yes", _shown(calls[0].name, calls[0].arguments)
    if calls:
        problem = calls[0].invalid or _shown(calls[0].name, calls[0].arguments)
        return "partly", notice("doctor.invalid_call", problem=problem)
    if asked.text:
        return "no", notice("doctor.no_call_but", text=_begin(s, asked))
    return "no", notice("doctor.no_call")
