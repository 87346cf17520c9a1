"""Probes of constrained output and reasoning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.doctor.answers import Found, user
from pure_agent_loop.doctor.session import ProbeResponse, ProbeSession
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.profiles import (
    ENABLE_THINKING,
    PLAIN,
    REASONING,
    REASONING_EFFORT,
    TEMPLATE_KWARGS,
    THINKING_ENABLED,
)
from pure_agent_loop.llm.values import get

_WAYS_TO_THINK = (THINKING_ENABLED, REASONING_EFFORT, TEMPLATE_KWARGS, ENABLE_THINKING, REASONING)
_PUZZLE = "What is 17 + 25? Answer with the number only."
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}


async def json_schema(s: ProbeSession) -> Found:
    """Is a JSON Schema obeyed that the question does not mention?"""
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
    asked = await s.ask(user("What colour is the sky on a clear day?"), response_format=response_format)
    value = _object(asked.text)
    if value is None:
        return "no", "accepted, but the answer is not JSON"
    fits = set(value) == {"colour", "sure"} and isinstance(value["sure"], bool)
    return ("yes", "obeyed") if fits else ("partly", "the answer is JSON, but not of the schema")


async def json_object(s: ProbeSession) -> Found:
    """Is the older JSON mode accepted?"""
    question = "What colour is the sky on a clear day? Answer as a JSON object with the key colour."
    asked = await s.ask(user(question), response_format={"type": "json_object"})
    return ("yes", "obeyed") if _object(asked.text) is not None else ("no", "the answer is not a JSON object")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


async def thinking_shown(s: ProbeSession) -> Found:
    """Does the model reason by default, and in which field?"""
    asked = await s.ask(user(_PUZZLE))
    place = _place_of_thinking(asked)
    if place:
        return "yes", place
    tokens = _thinking_tokens(asked)
    if tokens:
        return "partly", f"reasoning uses {tokens} tokens, but is hidden"
    return "no", "no reasoning by default"


def _thinks(asked: ProbeResponse) -> bool:
    return bool(asked.response.reasoning_content or _thinking_tokens(asked))


def _thinking_tokens(asked: ProbeResponse) -> int:
    return (asked.response.usage.reasoning_tokens or 0) if asked.response.usage else 0


def _place_of_thinking(asked: ProbeResponse) -> str:
    if not asked.response.reasoning_content:
        return ""
    if asked.message is None:
        return "in the stream"
    for name in ("reasoning_content", "reasoning"):
        if get(asked.message, name):
            return f"in the field {name}"
    is_text = isinstance(get(asked.message, "content"), str)
    return "as <think> tags in the text" if is_text else "in parts of the content"


async def thinking_switch(s: ProbeSession) -> Found:
    """Which request field turns reasoning on? Many servers ignore unknown fields."""
    by_itself = _thinks(await s.ask(user(_PUZZLE)))
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
            effect = "accepted; the model reasons anyway" if by_itself else "the model reasons"
            return "yes", f"{json.dumps(way)}: {effect}"
    detail = "no known field enables reasoning"
    return "no", f"{detail}; rejected: {', '.join(refused)}" if refused else detail


async def _try_to_think(s: ProbeSession, way: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the server rejects these fields, and whether the model reasons with them."""
    without = [name for name in s.client.profile.refuses if name not in way]
    with s.trying(thinking=way, refuses=without):
        try:
            asked = await s.ask(user(_PUZZLE), thinking_level="low")
        except LLMError as error:
            if error.kind != "bad_request":
                raise
            return True, False
        return any(name in s.client.profile.refuses for name in way), _thinks(asked)
