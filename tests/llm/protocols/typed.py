"""The types of the makers' SDKs as referees of requests."""

from functools import cache
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

try:  # older SDKs, as the oldest dependencies have them, have other types
    from anthropic.types.beta import message_create_params as beta_params
    from anthropic.types.message_create_params import (
        MessageCreateParamsNonStreaming,
        MessageCreateParamsStreaming,
    )
    from openai.types.responses.response_create_params import (
        ResponseCreateParamsNonStreaming,
        ResponseCreateParamsStreaming,
    )
except ImportError:
    HAS_TYPES = False
else:
    HAS_TYPES = "background_options" in ResponseCreateParamsNonStreaming.__annotations__  # the newest field

HAS_GOOGLE = find_spec("google") is not None and find_spec("google.genai") is not None  # Python 3.11 on


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _leaves(value: Any) -> Any:
    """Walk a value to its leaves: fields typed `Iterable` are validated lazily."""
    if isinstance(value, dict):
        return {name: _leaves(inner) for name, inner in value.items()}
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    return [_leaves(inner) for inner in value]


def assert_typed(body: dict[str, Any], *, is_beta: bool = False) -> None:
    """Fail unless the SDK's types accept a body, to its leaves and without unknown fields.

    Args:
        is_beta: Whether the request has features in beta, which have types of their own.
    """
    if not HAS_TYPES:
        return
    if "contents" in body:
        _assert_google(body)
        return
    if is_beta:
        streams = body.get("stream")
        kind: Any = beta_params.MessageCreateParamsNonStreaming
        kind = beta_params.MessageCreateParamsStreaming if streams else kind
    elif "max_tokens" in body:
        kind = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
    else:
        kind = ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming
    unknown = body.keys() - kind.__annotations__.keys()
    assert not unknown, f"unknown fields {unknown}"
    _leaves(_adapter(kind).validate_python(body))


def _assert_google(body: dict[str, Any]) -> None:
    """Check the fields one by one: the SDK has no type of a whole request."""
    if not HAS_GOOGLE:
        return
    from google.genai import types

    kinds: dict[str, Any] = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "generationConfig": types.GenerationConfig,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "safetySettings": list[types.SafetySetting],
        "cachedContent": str,
    }
    for name, value in body.items():
        _adapter(kinds[name]).validate_python(value)
