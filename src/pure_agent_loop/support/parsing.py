"""Parse JSON: every text that is not JSON, or is nested too deeply, raises a `ValueError`."""

from __future__ import annotations

import json
from typing import Any

# Levels of nesting: the limit of jiter, and twice the depth that `text.to_jsonable` writes; recursive
# functions can handle this depth.
MAX_DEPTH = 200


class TooDeepError(ValueError):
    """JSON is nested too deeply."""


class JsonDecoder(json.JSONDecoder):
    """Decoder that raises `TooDeepError` for more than `MAX_DEPTH` levels.

    The base class raises `RecursionError` at a depth that depends on the version of Python and on the stack.
    """

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        """Parse the value that begins at an index; see `json.JSONDecoder`."""
        try:
            value, end = super().raw_decode(s, idx)
        except RecursionError:
            raise TooDeepError("nested too deeply") from None
        if s.count("{", idx, end) + s.count("[", idx, end) > MAX_DEPTH and _is_too_deep(value):
            raise TooDeepError("nested too deeply")
        return value, end


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for inner in level
            if isinstance(inner, (dict, list))
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
    return any(isinstance(inner, (dict, list)) for inner in level)


_DECODER = JsonDecoder()


def reject_constant(name: str) -> Any:
    """Raise an error for NaN and infinities: a ``parse_constant``."""
    raise ValueError(f"{name} is not valid JSON")


def read_json(text: str | bytes) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply.
    """
    return _DECODER.decode(text) if isinstance(text, str) else json.loads(text, cls=JsonDecoder)


def json_or_text(text: str | bytes) -> Any:
    """Return the value of a JSON text, or the text itself if it is not JSON."""
    try:
        return read_json(text)
    except ValueError:
        return text


def parsed_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that a JSON text contains, or None if it contains none."""
    value = json_or_text(text)
    return value if isinstance(value, dict) else None
