"""Probe functions for content other than text: JSON, with and without a schema, and an image."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.doctor.session import ProbeResponse, ProbeSession
from pure_agent_loop.doctor.values import Found
from pure_agent_loop.errors import LLMError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import parsed_object

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}
_RED = (  # a PNG of 32 by 32 pixels
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQMAAABJtOi3AAAAA1BMVEXm"
    "AAAKFZHIAAAADElEQVR42mNgGNwAAACgAAGO+7G0AAAAAElFTkSuQmCC"
)


def json_schema(_: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether a response conforms to a JSON Schema that the question does not describe."""
    value = parsed_object(answer.text)
    if value is None:
        return "no", notice("doctor.not_json")
    fits = set(value) == set(SCHEMA["required"]) and isinstance(value["sure"], bool)
    return ("yes", notice("doctor.obeyed")) if fits else ("partly", notice("doctor.not_schema"))


def json_object(_: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether the older JSON mode is accepted."""
    if parsed_object(answer.text) is None:
        return "no", notice("doctor.not_object")
    return "yes", notice("doctor.obeyed")


async def image(s: ProbeSession) -> Found:
    """Test whether the model can see an image."""
    text = {"type": "text", "text": "What colour is this image? Answer with one word."}
    picture = {"type": "image_url", "image_url": {"url": _RED}}
    try:
        with s.trying():  # a rejected image must not change how images in tool results are sent
            answer = await s.ask([{"role": "user", "content": [text, picture]}])
    except LLMError as error:
        if error.status is None or error.status < 500:
            raise
        words = s.target.cleaned(error.said)
        return "no", notice("doctor.refused_status", status=error.status, words=words)  # llama.cpp: 500
    if "red" in answer.text.lower():
        return "yes", notice("doctor.seen")
    return "partly", notice("doctor.not_recognised")
