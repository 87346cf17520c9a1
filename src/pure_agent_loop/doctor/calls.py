"""Probes of tools: calls, results, and tool modes without native calls."""

from __future__ import annotations

import json
from typing import Any

from pure_agent_loop.doctor.answers import Found, user
from pure_agent_loop.doctor.listing import template_caps
from pure_agent_loop.doctor.session import Message, ProbeResponse, ProbeSession
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.recover import TextCalls
from pure_agent_loop.prompts import prompts_for

CALL_TOKENS = 600  # the model may reason before a call
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
        return "partly", f"invalid call: {problem}"
    if _in_text(asked.text):
        return "partly", "the call is plain text"
    return "no", f"answered with text: {_begin(s, asked)}" if asked.text else "no call and no text"


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
        return (
            ("yes", "the chat template takes them") if says else ("no", "the chat template leaves them out")
        )
    if s.native is None or s.native.response.usage is None:
        return "unknown", "not reported"
    without = await s.ask(user(_QUESTION), max_tokens=CALL_TOKENS)
    if without.response.usage is None:
        return "unknown", "not reported"
    extra = s.native.response.usage.prompt_tokens - without.response.usage.prompt_tokens
    if extra > 0:
        return "yes", f"tools add {extra} tokens to the request"
    if s.native.response.tool_calls:
        return "yes", "the model called one"
    s.tools_dropped = extra == 0
    return "no", "tools add no tokens to the request"


async def parallel_calls(s: ProbeSession) -> Found:
    """Does the model make two calls in one response when asked to?"""
    asked = await s.ask(user(_TWO), TOOLS, max_tokens=CALL_TOKENS)
    count = len(asked.response.tool_calls)
    if count > 1:
        return "yes", f"{count} calls in one answer"
    return ("partly", "one call at a time") if count else ("no", "no call")


async def two_results(s: ProbeSession) -> Found:
    """Is a history with two calls in one message accepted?"""
    history = [*user(_TWO), _assistant(_call(1, "Oslo"), _call(2, "Lima")), _result(1), _result(2)]
    await s.ask(history, TOOLS)
    if not s.client.profile.parallel_calls:
        return "no", "each call is sent in a separate message"
    return "yes", "accepted"


async def user_after_tool(s: ProbeSession) -> Found:
    """Is a user's message accepted right after a tool's result?"""
    history = [*user(_QUESTION), _assistant(_call(1, "Oslo")), _result(1), *user("Say it in one word.")]
    await s.ask(history, TOOLS)
    if s.client.profile.user_after_tool:
        return "yes", "accepted"
    return "no", "an assistant message is inserted between them"


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
        return "partly", f"invalid call: {calls[0].invalid or _shown(calls[0].name, calls[0].arguments)}"
    return "no", f"no call: {_begin(s, asked)}" if asked.text else "no call"
