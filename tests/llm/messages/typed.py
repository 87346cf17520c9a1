"""The types of Anthropic's SDK as a referee of requests."""

from functools import cache
from typing import Any

from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from pydantic import TypeAdapter


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def leaves(value: Any) -> Any:
    """Walk a value to its leaves: fields typed `Iterable` are validated lazily."""
    if isinstance(value, dict):
        return {name: leaves(inner) for name, inner in value.items()}
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    return [leaves(inner) for inner in value]


def assert_typed(body: dict[str, Any]) -> None:
    """Fail unless the SDK's types accept a body."""
    kind = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
    known = kind.__annotations__.keys()
    unknown = body.keys() - known
    assert not unknown, f"unknown fields {unknown}"
    leaves(_adapter(kind).validate_python(body))
