"""The types of the makers' SDKs as referees of requests."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter

try:  # older SDKs, as the oldest dependencies have them, have other types
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
    HAS_TYPES = True


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


def assert_typed(body: dict[str, Any]) -> None:
    """Fail unless the SDK's types accept a body, to its leaves and without unknown fields."""
    if not HAS_TYPES:
        return
    if "max_tokens" in body:
        kind: Any = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
    else:
        kind = ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming
    unknown = body.keys() - kind.__annotations__.keys()
    assert not unknown, f"unknown fields {unknown}"
    _leaves(_adapter(kind).validate_python(body))
