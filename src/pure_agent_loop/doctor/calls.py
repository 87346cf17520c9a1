"""Probe functions for tool calls: native calls, their results, and calls in other tool modes."""

from __future__ import annotations

import json
from typing import Any

from pure_agent_loop.doctor.listing import template_caps
from pure_agent_loop.doctor.session import Message, ProbeResponse, ProbeSession, user
from pure_agent_loop.doctor.values import Found
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.recover import TextCalls
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.support.language import notice

CALL_TOKENS = 600  # maximum tokens of a response with a call; the model may reason first
QUESTION = "What is the weather in Oslo now? Use the tool."
TWO_CITIES = "What is the weather in Oslo and in Lima now? Call the tool once for each city, both at once."
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
RESULT = "Rain, 8 degrees."


def tool_call(s: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether the model calls the required tool with valid arguments."""
    s.native = answer
    found = _call_in(s, "native", answer)
    if found is not None:
        return found
    if _in_text(answer.text):
        return "partly", notice("doctor.call_in_text")
    if answer.text:
        return "no", notice("doctor.answered_with_text", text=_begin(s, answer))
    return "no", notice("doctor.no_call_no_text")


def _call_in(s: ProbeSession, mode: str, answer: ProbeResponse) -> Found | None:
    """Return a finding about the first call of a response, and record whether the tool mode works."""
    call = next(iter(answer.response.tool_calls), None)
    s.acts[mode] = call is not None and _is_right(call)
    if call is None:
        return None
    shown = f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)})"
    if s.acts[mode]:
        return "yes", shown
    return "partly", notice("doctor.invalid_call", problem=call.invalid or shown)


def _is_right(call: ToolCall) -> bool:
    is_valid = call.name == "get_weather" and not call.invalid
    return is_valid and "oslo" in str(call.arguments.get("city", "")).lower()


def _begin(s: ProbeSession, answer: ProbeResponse) -> str:
    return repr(s.target.cleaned(answer.text)[:60])


def _in_text(text: str) -> bool:
    scanner = TextCalls(TOOLS)
    scanner.feed(text)
    return bool(scanner.finish()[0])


async def tools_reach(s: ProbeSession) -> Found:
    """Test whether the tools reach the model. Some chat templates silently drop the tools."""
    says = template_caps(s.props).get("supports_tools")
    if says is not None:
        s.tools_dropped = not says
        return ("yes", notice("doctor.template_takes")) if says else ("no", notice("doctor.template_drops"))
    if s.native is None or s.native.response.usage is None:
        return "unknown", notice("doctor.not_reported")
    without = (await s.ask(user(QUESTION), max_tokens=CALL_TOKENS)).response.usage
    if without is None:
        return "unknown", notice("doctor.not_reported")
    extra = s.native.response.usage.prompt_tokens - without.prompt_tokens
    if extra > 0:
        return "yes", notice("doctor.tools_add", extra=extra)
    if s.native.response.tool_calls:
        return "yes", notice("doctor.called_one")
    s.tools_dropped = extra == 0
    return "no", notice("doctor.tools_add_none")


def parallel_calls(_: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether the model makes two calls in one response when asked to."""
    count = len(answer.response.tool_calls)
    if count > 1:
        return "yes", notice("doctor.calls_in_one", count=count)
    return ("partly", notice("doctor.one_call_at_a_time")) if count else ("no", notice("doctor.no_call"))


def forced_call(_: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether ``tool_choice`` forces a call for a question that does not need one."""
    if answer.response.tool_calls:
        return "yes", notice("doctor.obeyed")
    return "partly", notice("doctor.ignored_here")


def two_results(s: ProbeSession, _: ProbeResponse) -> Found:
    """Test whether a history with two calls in one message is accepted."""
    if s.client.profile.parallel_calls:
        return "yes", notice("doctor.accepted")
    return "no", notice("doctor.separate_messages")


def user_after_tool(s: ProbeSession, _: ProbeResponse) -> Found:
    """Test whether a user message directly after a tool result is accepted."""
    if s.client.profile.user_after_tool:
        return "yes", notice("doctor.accepted")
    return "no", notice("doctor.inserted")


def calls_and_results(question: str, *cities: str) -> list[Message]:
    """Return a history of one question, a call for each city in one message, and their results."""
    calls = [_call(number, city) for number, city in enumerate(cities, 1)]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]
    return [*user(question), {"role": "assistant", "content": None, "tool_calls": calls}, *results]


def _call(number: int, city: str) -> Message:
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"id": f"call_{number}", "type": "function", "function": function}


async def act(s: ProbeSession, mode: str) -> Found:
    """Test whether the model can call a tool in a tool mode."""
    wrapped = ToolModeClient(s.client, mode, prompts_for())
    answer = await s.ask(user(QUESTION), TOOLS, client=wrapped, stream=True, max_tokens=CALL_TOKENS)
    found = _call_in(s, mode, answer)
    if found is None and answer.text:
        return "no", notice("doctor.no_call_but", text=_begin(s, answer))
    return found or ("no", notice("doctor.no_call"))
