"""Explain failures to people: what happened and what to do, in each reader's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pure_agent_loop.errors import LLMError
from pure_agent_loop.support.language import LANGUAGES, in_language, message_in, table
from pure_agent_loop.support.lazy import lazy_pattern

# Fields of `LLMError.about` that the advice mentions if they are known, by error kind.
_NAMED: Mapping[str, tuple[str, ...]] = {
    "auth": ("key", "url"),
    "connection": ("url",),
    "timeout": ("url",),
    "not_found": ("model", "url"),
}
_LEAST_SIZE = 256  # tokens; smaller numbers in an error are not prompt or window sizes
_NUMBER = lazy_pattern(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?!\w)|(?<![\w.])\d+(?![\w.]\d)")
_WINDOW = lazy_pattern(r"(?:maximum|context|window|limit|allowed|>)\D{0,40}?([\d,]+)|([\d,]+) maximum", re.I)
_SUM = lazy_pattern(r"(\d+) \+ (\d+)")


class FailureText(NamedTuple):
    """Explanation of a failure for people, by language.

    Args:
        title: What happened; names no server, model or key, so that anybody may read it.
        fix: What to do, with the names of server, model and key; empty if there is no advice.
        said: Why it failed, in the words of the server or system; the same in each language.
    """

    title: dict[str, str]
    fix: dict[str, str]
    said: str = ""


def explain(error: BaseException) -> FailureText:
    """Return what an error means; empty unless it is a known failure of a model or its server."""
    if not isinstance(error, LLMError) or error.kind not in table("failures", LANGUAGES[0]):
        return FailureText({}, {})
    kind, about = error.kind, dict(error.about or {})
    used, window = sizes_in(error.said) or about.get("sizes") or (0, 0)
    values = {
        "status": f" ({error.status})" if error.status else "",
        "used": f"{used:,}",
        "window": f"{window:,}",
    }
    title = "failures.context_sizes" if kind == "context_overflow" and used else f"failures.{kind}"
    advice = [f"{kind}_fix", *(f"named_{name}" for name in _NAMED.get(kind, ()) if about.get(name))]
    fix = {
        language: (" " if language == "en" else "").join(
            message_in(language, f"failures.{name}", **about)
            for name in advice
            if name in table("failures", language)
        )
        for language in LANGUAGES
    }
    told = {language: message_in(language, title, **values) for language in LANGUAGES}
    return FailureText(told, fix, error.said if error.said != error.message else "")


def failure_lines(told: Mapping[str, Any], language: str | None = None) -> list[str]:
    """Return a failure in up to three lines: what happened, what to do, and why.

    Args:
        told: The fields of a `FailureText`, as in the data of an error event. If the server gave no
            reason, its `error` is the reason.
        language: ``"en"`` or ``"zh"``; None for the default.

    Returns: The lines; none if the failure is not explained.
    """
    if not told.get("title"):
        return []
    lines = [in_language(told[key], language) if told.get(key) else "" for key in ("title", "fix")]
    return [
        line for line in (*lines, " ".join(str(told.get("said") or told.get("error") or "").split())) if line
    ]


def recorded_failure(record: Mapping[str, Any]) -> LLMError:
    """Return the failed request that a record describes; see `describe_failure`."""
    status, said, about = (record.get(name) for name in ("status", "said", "about"))
    error = LLMError(str(record.get("message")), kind=record.get("kind") or "unknown", said=str(said or ""))
    error.status = status if isinstance(status, int) else None
    error.about = about if isinstance(about, dict) else None
    return error


def sizes_in(said: str) -> tuple[int, int] | None:
    """Return an overlong request's tokens, and the window; None unless the server's error names both."""
    said = _SUM.sub(lambda parts: str(int(parts[1]) + int(parts[2])), said)
    numbers = {int(number.replace(",", "")) for number in _NUMBER.findall(said)}
    sizes = sorted(number for number in numbers if number >= _LEAST_SIZE)[-2:]
    windows = {"".join(found).replace(",", "") for found in _WINDOW.findall(said)}
    return (sizes[1], sizes[0]) if len(sizes) == 2 and str(sizes[0]) in windows else None
