"""Probe functions for thinking: by default, on request, together with a call, and sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pure_agent_loop.doctor.calls import CALL_TOKENS, QUESTION, RESULT, TOOLS
from pure_agent_loop.doctor.session import Message, ProbeResponse, ProbeSession, user
from pure_agent_loop.doctor.values import Found
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import origin_of
from pure_agent_loop.llm.messages import assistant_message, to_wire, tool_message
from pure_agent_loop.llm.profiles import (
    ENABLE_THINKING,
    PLAIN,
    REASONING,
    REASONING_EFFORT,
    TEMPLATE_KWARGS,
    THINKING_ENABLED,
)
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import get
from pure_agent_loop.support.language import notice

PUZZLE = "What is 17 + 25? Answer with the number only."
_WAYS_TO_THINK = (THINKING_ENABLED, REASONING_EFFORT, TEMPLATE_KWARGS, ENABLE_THINKING, REASONING)
_THINKING_TOKENS = 5_000  # maximum tokens; more than the minimum thinking budget of the Messages protocol


def thinking_shown(_: ProbeSession, answer: ProbeResponse) -> Found:
    """Report whether the model reasons by default, and in which field."""
    if answer.response.reasoning_content:
        return "yes", _place_of_thinking(answer)
    if answer.thinking_tokens:
        return "partly", notice("doctor.thinking_hidden", tokens=answer.thinking_tokens)
    return "no", notice("doctor.no_thinking_default")


def _place_of_thinking(answer: ProbeResponse) -> str:
    if answer.message is None:
        return notice("doctor.in_stream")
    for name in ("reasoning_content", "reasoning"):
        if get(answer.message, name):
            return notice("doctor.in_field", name=name)
    is_text = isinstance(get(answer.message, "content"), str)
    return notice("doctor.as_tags") if is_text else notice("doctor.in_parts")


async def thinking_switch(s: ProbeSession) -> Found:
    """Find the request field that makes the model reason.

    Acceptance of a field proves nothing, because many servers silently ignore unknown fields.
    """
    by_itself = (await s.ask(user(PUZZLE))).thinks
    own = s.client.profile.thinking
    others = [] if s.before.name != PLAIN.name else [way for way in _WAYS_TO_THINK if way != own]
    refused = []
    for way in (own, *others):
        is_refused, thinks = await _try_to_think(s, way)
        if is_refused:
            refused.append(" and ".join(way))
        elif thinks:
            if way != own:
                s.adopt(thinking=way)
            shown = json.dumps(way)
            return "yes", (
                notice("doctor.thinks_anyway", way=shown) if by_itself else notice("doctor.thinks", way=shown)
            )
    if refused:
        return "no", notice("doctor.no_switch_rejected", refused=", ".join(refused))
    return "no", notice("doctor.no_switch")


async def _try_to_think(s: ProbeSession, way: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the server rejects these fields, and whether the model reasons with them."""
    without = [name for name in s.client.profile.refuses if name not in way]
    with s.trying(thinking=way, refuses=without):
        try:
            answer = await s.ask(user(PUZZLE), thinking_level="low")
        except LLMError as error:
            if error.kind != "bad_request":
                raise
            return True, False
        return any(name in s.client.profile.refuses for name in way), answer.thinks


async def thinking_returned(s: ProbeSession) -> Found:
    """Test whether a response to a request with tools has the requested thinking."""
    answer = await s.ask(user(QUESTION), TOOLS, **_thinking(s))
    if answer.thinks or answer.response.extra:
        s.thought = answer
    if answer.response.reasoning_content:
        return "yes", notice("doctor.with_text")
    if answer.thinking_tokens:
        return "partly", notice("doctor.without_text", tokens=answer.thinking_tokens)
    return "no", notice("doctor.no_thinking")


def _thinking(s: ProbeSession) -> dict[str, Any]:
    """Return request options that turn on thinking, with a low limit: a tiny model may use all of it."""
    return {
        "thinking_level": "low",
        "max_tokens": _THINKING_TOKENS if s.target.protocol else CALL_TOKENS,
        "temperature": None,  # servers reject a temperature together with thinking
    }


async def thinking_back(s: ProbeSession) -> Found:
    """Test whether a response's thinking is sent back in the next request, and the server accepts it."""
    if s.thought is None:
        return "unknown", notice("doctor.no_thinking_arrived")
    response = replace(s.thought.response, origin=origin_of(s.client))
    bare = [replace(call, extra=None) for call in response.tool_calls]
    results = [tool_message(call.id, RESULT) for call in bare] or user("Say it in one word.")
    kept = [*user(QUESTION), assistant_message(response), *results]
    without = [*user(QUESTION), assistant_message(LLMResponse(response.content, bare)), *results]
    options = _thinking(s)
    bodies = [s.client.request_body(_for_client(s, m), TOOLS, options, stream=False) for m in (kept, without)]
    if bodies[0] == bodies[1]:
        return "no", notice("doctor.not_sent_back")
    await s.ask(_for_client(s, kept), TOOLS, **options)
    return "yes", notice("doctor.accepted")


def _for_client(s: ProbeSession, messages: list[Message]) -> list[Message]:
    return messages if s.client.takes_meta else to_wire(messages, s.client)
