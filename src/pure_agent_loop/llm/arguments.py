"""Arguments of a tool call: from whatever a model wrote to a JSON object, or a reason why not.

Nothing is repaired into a call: running a guess is worse than asking again. What is accepted beyond
strict JSON cannot change the meaning: nothing at all for no arguments, raw control characters inside
strings, an object instead of its text, and the text of an object encoded once more as a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.text import to_jsonable

PREVIEW_CHARS = 200


class _RefusedError(ValueError):
    """JSON that parses but must not be used."""


def parse_arguments(raw: Any) -> tuple[dict[str, Any], str | None]:
    """Parse arguments.

    Args:
        raw: JSON text, an object, or None.

    Returns:
        The arguments and None, or an empty dict and the reason they cannot be used, with a preview.
    """
    if raw is None:
        return {}, None
    if isinstance(raw, Mapping):
        return to_jsonable(raw), None
    if not isinstance(raw, str):
        return {}, _reason("must be a JSON object", raw)
    if not raw.strip():
        return {}, None
    try:
        value = loads_strictly(raw)
        if isinstance(value, str):
            value = loads_strictly(value)
    except RecursionError:
        return {}, _reason("are nested too deeply", raw)
    except ValueError as error:
        return {}, _reason(f"are not valid JSON ({error})", raw)
    if not isinstance(value, dict):
        return {}, _reason(f"must be a JSON object, not {type(value).__name__}", raw)
    return to_jsonable(value), None


def loads_strictly(text: str) -> Any:
    """``json.loads`` that refuses NaN, infinities, numbers out of range and duplicate keys.

    Raises:
        ValueError: The text is not such JSON.
        RecursionError: It is nested too deeply.
    """
    return json.loads(
        text, strict=False, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique
    )


def _no_constant(name: str) -> Any:
    raise _RefusedError(f"{name} is not allowed")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError(f"{text} is out of range")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise _RefusedError(f"the key {double!r} is given twice")
    return result


def _reason(problem: str, raw: Any) -> str:
    text = raw if isinstance(raw, str) else json.dumps(to_jsonable(raw))
    preview = text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."
    return f"the arguments {problem}. You wrote: {preview}"
