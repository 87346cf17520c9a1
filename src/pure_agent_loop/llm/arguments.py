"""Arguments of a tool call: from whatever a model wrote to a JSON object, or a reason why not.

Nothing is repaired into a call: running a guess is worse than asking again. What is accepted beyond
strict JSON cannot change the meaning: nothing at all or ``null`` for no arguments, raw control characters
inside strings, an object instead of its text, and the text of an object encoded once more as a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import MAX_DEPTH, shorten, to_jsonable

PREVIEW_CHARS = 200
_HARMLESS = frozenset({str, int, bool, type(None)})


class _RefusedError(ValueError):
    """JSON that parses but must not be used."""


def parse_arguments(raw: Any) -> tuple[dict[str, Any], str | None]:
    """Parse arguments.

    Args:
        raw: JSON text, an object, or None.

    Returns:
        The arguments and None, or an empty dict and the reason they cannot be used, with a preview.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, None
    try:
        value = _decoded(raw) if isinstance(raw, str) else raw
        _check(value)
    except RecursionError:
        return {}, _reason(say("too_deep"), raw)
    except json.JSONDecodeError as error:
        problem = say("json_error", error=error, line=error.lineno, column=error.colno)
        return {}, _reason(say("no_json", error=problem), raw)
    except ValueError as error:
        return {}, _reason(say("no_json", error=error), raw)
    if value is None:
        return {}, None
    if not isinstance(value, (dict, Mapping)):
        return {}, _reason(say("no_object", kind=type(value).__name__), raw)
    return to_jsonable(value), None


def _decoded(raw: str) -> Any:
    value = loads_strictly(raw)
    return loads_strictly(value) if isinstance(value, str) else value


def loads_strictly(text: str) -> Any:
    """``json.loads`` that refuses NaN, infinities, numbers out of range and duplicate keys.

    Raises:
        ValueError: The text is not such JSON.
        RecursionError: It is nested too deeply.
    """
    return _strict().decode(text)


@cache
def _strict() -> json.JSONDecoder:
    return json.JSONDecoder(
        strict=False, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique
    )


def _no_constant(name: str) -> Any:
    raise _RefusedError(say("not_allowed", value=name))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError(say("out_of_range", value=shorten(text, PREVIEW_CHARS)))
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = keep_doubles(pairs)
    if isinstance(result, DoubledKeys):
        raise result.refusal()
    return result


class DoubledKeys(dict[str, Any]):
    """An object in which a key was given twice; kept apart, because it is not known which one was meant."""

    key = ""

    def refusal(self) -> ValueError:
        """Why this cannot be used."""
        return _RefusedError(say("key_twice", key=shorten(self.key, PREVIEW_CHARS)))


def keep_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For ``object_pairs_hook``: an object, as `DoubledKeys` if it is one."""
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


def _check(value: Any, depth: int = 0) -> None:
    """Refuse what parsed, or came as an object, but would be changed on its way to the tool."""
    if type(value) in _HARMLESS:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise _RefusedError(say("not_allowed", value=value))
    if isinstance(value, DoubledKeys):
        raise value.refusal()
    if isinstance(value, (dict, Mapping)):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    if depth >= MAX_DEPTH:
        raise RecursionError
    for each in value:
        _check(each, depth + 1)


def _reason(problem: str, raw: Any) -> str:
    text = raw if isinstance(raw, str) else json.dumps(to_jsonable(raw))
    preview = text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."
    return say("arguments", problem=problem, preview=preview)
