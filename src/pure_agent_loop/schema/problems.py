"""Telling a model what was wrong with the arguments it sent: short, complete, no library jargon."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pure_agent_loop.schema.words import in_chinese, say
from pure_agent_loop.support.language import default_language

MAX_PROBLEMS = 8
PREVIEW_CHARS = 60
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def describe_problems(
    errors: list[dict[str, Any]], arguments: Any, names: Sequence[str], required: AbstractSet[str]
) -> str:
    """Write pydantic's errors as one line.

    Args:
        errors: What ``ValidationError.errors()`` returned.
        required: Those without a default.
    """
    found: dict[str, list[str]] = {}
    got: dict[str, str | None] = {}
    unknown = []
    for error in errors:
        if error["type"] in _UNKNOWN and len(error["loc"]) == 1:
            unknown.append(_unknown(str(error["loc"][0]), arguments, names, required))
            continue
        path, text, value = _problem(error, arguments)
        found.setdefault(path, []).append(text)
        got[path] = value
    lines = []
    for path, texts in found.items():
        text, value = say("or").join(dict.fromkeys(texts)), got[path]
        lines.append(f"{path}: {text if value is None else say('given', problem=text, value=value)}")
    return "; ".join(_bounded(lines + unknown))


def _unknown(name: str, arguments: Any, names: Sequence[str], required: AbstractSet[str]) -> str:
    start = say("unknown_argument", name=_preview(name))
    if not names:
        return say("takes_none", start=start)
    free = [known for known in names if known not in arguments]
    # Where exactly one required argument is missing, that is the one meant, whatever it was called.
    import difflib  # not before something is wrong

    close = difflib.get_close_matches(name, free, n=1) or [known for known in free if known in required]
    if len(close) == 1:
        return say("did_you_mean", start=start, name=close[0])
    return say("known_arguments", start=start, names=", ".join(names))


def _problem(error: dict[str, Any], arguments: Any) -> tuple[str, str, str | None]:
    """Where, what, and what was given instead, if anything."""
    kind, location = error["type"], error["loc"]
    if kind == "missing":
        return _path(location, arguments, last=True), say("required"), None
    if kind in _UNKNOWN:
        return _path(location[:-1], arguments), say("unknown_field", name=_preview(location[-1])), None
    return _path(location, arguments), _wording(error), _preview(error["input"])


def _path(location: tuple[Any, ...], arguments: Any, last: bool = False) -> str:
    """``items[0].name``. pydantic mixes names of union members into locations; those are left out."""
    path, here = "", arguments
    for index, part in enumerate(location):
        if isinstance(here, list) and isinstance(part, int) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
        elif isinstance(here, dict) and part in here:
            path, here = f"{path}.{part}", here[part]
        elif last and index == len(location) - 1:
            path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}"
    return path.removeprefix(".") or "arguments"


def _wording(error: dict[str, Any]) -> str:
    if default_language() == "zh":
        return in_chinese(error["type"], error.get("ctx", {}))
    text = re.sub(r"^(Input |Value error, |Assertion failed, )", "", error["msg"])
    text = re.sub(r", unable to (parse|interpret) .*| or an instance of \w+", "", text)
    text = text.replace("a valid dictionary", "an object").replace("a dictionary", "an object")
    return text[:1].lower() + text[1:]


def _preview(value: Any) -> str:
    try:
        text = "null" if value is None else repr(value)
    except Exception:  # noqa: BLE001 - a huge integer or a foreign object has no text
        return say("of_type", kind=type(value).__name__)
    return text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_PROBLEMS
    return [*lines[:MAX_PROBLEMS], say("more_problems", count=more)] if more > 0 else lines
