"""Describe invalid arguments for a model: briefly, completely, and without library jargon."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pure_agent_loop.support.language import default_language, model_text

MAX_PROBLEMS = 8
PREVIEW_CHARS = 60
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def describe_problems(
    errors: list[dict[str, Any]], arguments: Any, names: Sequence[str], required: AbstractSet[str]
) -> str:
    """Format pydantic's errors as one line.

    Args:
        errors: The result of ``ValidationError.errors()``.
        required: Parameters without a default.
    """
    problems: dict[str, list[str]] = {}
    got: dict[str, str | None] = {}
    unknown = []
    for error in errors:
        if error["type"] in _UNKNOWN and len(error["loc"]) == 1:
            unknown.append(_unknown(str(error["loc"][0]), arguments, names, required))
            continue
        path, text, value = _problem(error, arguments)
        problems.setdefault(path, []).append(text)
        got[path] = value
    lines = []
    for path, texts in problems.items():
        text, value = model_text("or").join(dict.fromkeys(texts)), got[path]
        lines.append(f"{path}: {text if value is None else model_text('given', problem=text, value=value)}")
    return "; ".join(_bounded(lines + unknown))


def _unknown(name: str, arguments: Any, names: Sequence[str], required: AbstractSet[str]) -> str:
    start = model_text("unknown_argument", name=_preview(name))
    if not names:
        return model_text("takes_none", start=start)
    free = [known for known in names if known not in arguments]
    # If no name is similar, the unknown name probably stands for the only missing required argument.
    import difflib  # loaded only for an error

    close = difflib.get_close_matches(name, free, n=1) or [known for known in free if known in required]
    if len(close) == 1:
        return model_text("did_you_mean", start=start, name=close[0])
    return model_text("known_arguments", start=start, names=", ".join(names))


def _problem(error: dict[str, Any], arguments: Any) -> tuple[str, str, str | None]:
    """Return the path, the problem, and the given value, if any."""
    kind, location = error["type"], error["loc"]
    if kind == "missing":
        return _path(location, arguments, last=True), model_text("required"), None
    if kind in _UNKNOWN:
        return _path(location[:-1], arguments), model_text("unknown_field", name=_preview(location[-1])), None
    return _path(location, arguments), _wording(error), _preview(error["input"])


def _path(location: tuple[Any, ...], arguments: Any, last: bool = False) -> str:
    """Return a path such as ``items[0].name``, without pydantic's names of union members."""
    path, node = "", arguments
    for index, part in enumerate(location):
        if isinstance(node, list) and isinstance(part, int) and part < len(node):
            path, node = f"{path}[{part}]", node[part]
        elif isinstance(node, dict) and part in node:
            path, node = f"{path}.{part}", node[part]
        elif last and index == len(location) - 1:
            path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}"
    return path.removeprefix(".") or "arguments"


def _wording(error: dict[str, Any]) -> str:
    if default_language() == "zh":
        return _in_chinese(error["type"], error.get("ctx", {}))
    text = re.sub(r"^(Input |Value error, |Assertion failed, )", "", error["msg"])
    text = re.sub(r", unable to (parse|interpret) .*| or an instance of \w+", "", text)
    text = (
        text.replace("a valid array", "a valid list")
        .replace("a valid dictionary", "an object")
        .replace("a dictionary", "an object")
    )
    return text[:1].lower() + text[1:]


def _in_chinese(kind: str, context: dict[str, Any]) -> str:
    """Return a pydantic error message in Chinese.

    Args:
        context: The values of the placeholders; for an error raised by a validator, the error itself.
    """
    from pure_agent_loop.prompts.chinese.pydantic import ERRORS, OTHER_ERROR

    text = ERRORS.get(kind) or (ERRORS["date_parsing"] if kind.startswith("date_") else OTHER_ERROR)
    values = {name: str(value).replace(" or ", ", ") for name, value in context.items()}
    try:
        return text.format(**values)
    except KeyError:  # placeholders differ between versions of pydantic
        return OTHER_ERROR


def _preview(value: Any) -> str:
    try:
        text = "null" if value is None else repr(value)
    except Exception:  # noqa: BLE001 - a huge integer or a foreign object has no text
        return model_text("of_type", kind=type(value).__name__)
    return text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + "..."


def _bounded(lines: list[str]) -> list[str]:
    rest = len(lines) - MAX_PROBLEMS
    return [*lines[:MAX_PROBLEMS], model_text("more_problems", count=rest)] if rest > 0 else lines
