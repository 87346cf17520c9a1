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
from pure_agent_loop.support.language import notice

_WAYS_TO_THINK = (THINKING_ENABLED, REASONING_EFFORT, TEMPLATE_KWARGS, ENABLE_THINKING, REASONING)
_PUZZLE = "What is 17 + 25? Answer with the number only."
_RED = (  # a PNG of 32 by 32 pixels
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQMAAABJtOi3AAAAA1BMVEXm"
    "AAAKFZHIAAAADElEQVR42mNgGNwAAACgAAGO+7G0AAAAAElFTkSuQmCC"
)
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
        return "no", notice("doctor.not_json")
    fits = set(value) == {"colour", "sure"} and isinstance(value["sure"], bool)
    return ("yes", notice("doctor.obeyed")) if fits else ("partly", notice("doctor.not_schema"))


async def json_object(s: ProbeSession) -> Found:
    """Is the older JSON mode accepted?"""
    question = "What colour is the sky on a clear day? Answer as a JSON object with the key colour."
    asked = await s.ask(user(question), response_format={"type": "json_object"})
    if _object(asked.text) is None:
        return "no", notice("doctor.not_object")
    return "yes", notice("doctor.obeyed")


async def image(s: ProbeSession) -> Found:
    """Does the model see an image?"""
    text = {"type": "text", "text": "Which colour has this image? Answer with one word."}
    picture = {"type": "image_url", "image_url": {"url": _RED}}
    try:
        with s.trying():  # what a refusal teaches about media concerns results of tools
            asked = await s.ask([{"role": "user", "content": [text, picture]}])
    except LLMError as error:
        if error.status is None or error.status < 500:
            raise
        words = s.target.cleaned(error.said)
        return "no", notice("doctor.refused_status", status=error.status, words=words)  # llama.cpp: 500
    if "red" in asked.text.lower():
        return "yes", notice("doctor.seen")
    return "partly", notice("doctor.not_recognised")


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
        return "partly", notice("doctor.thinking_hidden", tokens=tokens)
    return "no", notice("doctor.no_thinking_default")


def _thinks(asked: ProbeResponse) -> bool:
    return bool(asked.response.reasoning_content or _thinking_tokens(asked))


def _thinking_tokens(asked: ProbeResponse) -> int:
    return (asked.response.usage.reasoning_tokens or 0) if asked.response.usage else 0


def _place_of_thinking(asked: ProbeResponse) -> str:
    if not asked.response.reasoning_content:
        return ""
    if asked.message is None:
        return notice("doctor.in_stream")
    for name in ("reasoning_content", "reasoning"):
        if get(asked.message, name):
            return notice("doctor.in_field", name=name)
    is_text = isinstance(get(asked.message, "content"), str)
    return notice("doctor.as_tags") if is_text else notice("doctor.in_parts")


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
            asked = await s.ask(user(_PUZZLE), thinking_level="low")
        except LLMError as error:
            if error.kind != "bad_request":
                raise
            return True, False
        return any(name in s.client.profile.refuses for name in way), _thinks(asked)
