"""Tool call arguments: parse the model's text to a JSON object, or give the reason for rejecting it.

Arguments are never repaired: running a guess is worse than asking again. These harmless variants are accepted
too: an empty string or ``null`` for no arguments, raw control characters inside strings, an object instead of
JSON text, and an object encoded twice as a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pure_agent_loop.llm.values import JsonObject
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import JsonDecoder, TooDeepError
from pure_agent_loop.support.text import MAX_DEPTH, shorten, to_jsonable

PREVIEW_CHARS = 200
_HARMLESS = frozenset({str, int, bool, type(None)})


class _RefusedError(ValueError):
    """Valid JSON that must not be used."""


def parse_arguments(raw: object) -> tuple[JsonObject, str | None]:
    """Parse arguments.

    Args:
        raw: JSON text, an object, or None.

    Returns:
        The arguments and None; or an empty dict and the reason for the rejection, with a preview.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, None
    try:
        value = _decoded(raw) if isinstance(raw, str) else raw
        _check(value)
    except TooDeepError:
        return {}, _reason(model_text("too_deep"), raw)
    except json.JSONDecodeError as error:
        problem = model_text("json_error", error=error, line=error.lineno, column=error.colno)
        return {}, _reason(model_text("no_json", error=problem), raw)
    except ValueError as error:
        return {}, _reason(model_text("no_json", error=error), raw)
    if value is None:
        return {}, None
    if not isinstance(value, (dict, Mapping)):
        return {}, _reason(model_text("no_object", kind=type(value).__name__), raw)
    return to_jsonable(value), None


def _decoded(raw: str) -> Any:
    value = loads_strictly(raw)
    return loads_strictly(value) if isinstance(value, str) else value


def loads_strictly(text: str) -> Any:
    """Parse JSON, but reject NaN, infinities, numbers out of range and duplicate keys.

    Raises:
        ValueError: The text is not valid JSON, holds a rejected value, or is nested too deeply.
    """
    return _strict().decode(text)


@cache
def _strict() -> JsonDecoder:
    return JsonDecoder(
        strict=False, parse_constant=_reject_constant, parse_float=_finite, object_pairs_hook=_unique
    )


def _reject_constant(name: str) -> Any:
    raise _RefusedError(model_text("not_allowed", value=name))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError(model_text("out_of_range", value=shorten(text, PREVIEW_CHARS)))
    return number


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    result = keep_doubles(pairs)
    if isinstance(result, DoubledKeys):
        raise result.refusal()
    return result


class DoubledKeys(dict[str, Any]):
    """An object with a duplicate key: its arguments are ambiguous, so it is rejected later."""

    key = ""

    def refusal(self) -> ValueError:
        """Return the error for the duplicate key."""
        return _RefusedError(model_text("key_twice", key=shorten(self.key, PREVIEW_CHARS)))


def keep_doubles(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Build an object for ``object_pairs_hook``; a `DoubledKeys` if a key occurs twice."""
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    doubled, seen = DoubledKeys(result), set()
    for key, _ in pairs:
        if key in seen:
            doubled.key = key
            break
        seen.add(key)
    return doubled


def _check(value: object, depth: int = 0) -> None:
    """Reject values that the tool would not receive unchanged."""
    if type(value) in _HARMLESS:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise _RefusedError(model_text("not_allowed", value=value))
    if isinstance(value, DoubledKeys):
        raise value.refusal()
    if isinstance(value, (dict, Mapping)):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    if depth >= MAX_DEPTH:
        raise TooDeepError
    for item in value:
        _check(item, depth + 1)


def check_numbers(written: object, made: object) -> None:
    """Reject non-finite floats that a conversion made from JSON values such as ``"NaN"`` or a huge number.

    ``"NaN"`` is allowed if it stays a string, and so is a type's infinite default.

    Raises:
        ValueError: `made` holds a non-finite number from `written`.
    """
    if (spelled := next(_non_finite_values(written), None)) is not None and _holds_infinite(made):
        raise _RefusedError(model_text("not_allowed", value=shorten(str(spelled), PREVIEW_CHARS)))


def _non_finite_values(value: object) -> Iterator[Any]:
    if isinstance(value, (dict, Mapping)):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _non_finite_values(item)
        return
    try:
        is_infinite = isinstance(value, (str, int, float)) and not math.isfinite(float(value))
    except OverflowError:
        is_infinite = True
    except ValueError:  # not a number
        is_infinite = False
    if is_infinite:
        yield f"{value:.0e}" if isinstance(value, float) else "1e309" if isinstance(value, int) else value


def _holds_infinite(value: object, depth: int = 0) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if depth > MAX_DEPTH or isinstance(value, (str, bytes, int, type(None))):
        return False
    if isinstance(value, (dict, Mapping)):
        value = list(value.values())
    elif not isinstance(value, (list, tuple, set, frozenset)):
        names = [*getattr(type(value), "__slots__", ()), *getattr(value, "__dict__", ())]
        # Of a pydantic model, check only the fields that were set.
        names = getattr(value, "model_fields_set", names)
        value = [getattr(value, name, None) for name in names]
    return any(_holds_infinite(item, depth + 1) for item in value)


def _reason(problem: str, raw: object) -> str:
    text = raw if isinstance(raw, str) else json.dumps(to_jsonable(raw))
    preview = text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."
    return model_text("arguments", problem=problem, preview=preview)
