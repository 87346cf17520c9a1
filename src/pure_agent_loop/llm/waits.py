"""Retry delays that a server names after a failure: in headers, fields, words and reset times. Pure: no
I/O."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Protocol

from pure_agent_loop.support.lazy import lazy_pattern

_UNITS = {"millisec": 0.001, "ms": 0.001, "sec": 1, "s": 1, "min": 60, "m": 60, "hour": 3600, "h": 3600}
_UNITS |= {"day": 86_400, "d": 86_400}  # seconds
_AMOUNT = rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})(?:ond|ute)?s?(?![a-z])"
_DURATION = rf"(?:{_AMOUNT}(?: and |, | )?)+"
_AMOUNTS, _WHOLE = lazy_pattern(_AMOUNT), lazy_pattern(_DURATION)
_WORDS = lazy_pattern(rf"(?:again|retry[a-z-]*|wait|resets?)(?:[ :]+[a-z]+){{0,3}}?[ :]+({_DURATION})")
_FIELD = lazy_pattern(r"retry-?(?:after|delay)(?:-?(?:ms|s|sec|seconds))?")
_RESET = lazy_pattern(r"rate-?limit.*reset")
_EPOCH = 1e9  # a larger number is a time since 1970: in seconds, or in milliseconds above `_EPOCH` * 100


class Headers(Protocol):
    """Response headers with case-insensitive names."""

    def get(self, name: str, default: str, /) -> str:
        """Return a header, or the default."""

    def items(self) -> Any:
        """Return pairs of a name and its text."""


def named_wait(headers: Headers, details: object, *, is_rate_limit: bool) -> float | None:
    """Return the seconds that a server asks the client to wait; None if it names no wait.

    ``Retry-After`` is used first, then the longest wait in the body, then the reset times of the limits.

    Args:
        headers: Headers of the response.
        details: Error in the body, in any form.
        is_rate_limit: Whether a limit has been reached. Reset times are used only then, because other
            responses also have them.
    """
    wait = parse_retry_after(headers)
    if wait is None:
        wait = wait_in_body(details)
    return _reset(headers) if wait is None and is_rate_limit else wait


def parse_retry_after(headers: Headers) -> float | None:
    """Return the seconds in ``Retry-After-Ms`` or ``Retry-After``, which may be an HTTP date.

    None if it is missing, invalid, negative, infinite or a past date (clocks may differ).

    Source: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    wait = _seconds(headers.get("retry-after-ms", ""), milliseconds=True)
    return _seconds(headers.get("retry-after", "")) if wait is None else wait


def wait_in_body(details: object) -> float | None:
    """Return the longest wait that a body names in a field or in words; None if it names no wait above 0.

    The longest is used, because Google cuts off the fraction of a second in ``retryDelay``, but not in words.
    """
    waits: list[float | None] = []
    for name, text in fields_of(details):
        if _FIELD.fullmatch(name):
            waits.append(_seconds(text, milliseconds=name.endswith("ms")))
        elif found := _WORDS.search(text.lower()):
            waits.append(_seconds(found[1]))
    return max(filter(None, waits), default=None)


def fields_of(document: object) -> Iterator[tuple[str, str]]:
    """Yield the name, in lower case with hyphens, and the text of each field at any depth."""
    left = [("", document)]
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):
            left += [(str(key).lower().replace("_", "-"), item) for key, item in value.items()]
        elif isinstance(value, list):
            left += [(name, item) for item in value]
        elif isinstance(value, (str, int, float)):
            yield name, str(value)


def _reset(headers: Headers) -> float | None:
    """Return the seconds until every limit that is used up has room again; None if the headers do not say.

    If the headers do not name the remaining amounts, the earliest reset is used.
    """
    used_up, unclear = list[float](), list[float]()
    for name, text in headers.items():
        if _RESET.search(name := name.lower()) and (wait := _seconds(text)):
            left = headers.get(name.replace("reset", "remaining"), "")
            if left[:1] in ("", "0", "-"):
                (used_up if left else unclear).append(wait)
    return max(used_up, default=None) or min(unclear, default=None)


def _seconds(text: str, *, milliseconds: bool = False) -> float | None:
    """Return the seconds of a number, a duration such as ``6m0s``, or a date; None if it is not a wait."""
    text = text.strip().lower()
    try:
        seconds = float(text) / (1000 if milliseconds else 1)
        if _EPOCH < seconds < math.inf:
            seconds = seconds / (1000 if seconds > _EPOCH * 100 else 1) - time.time()
    except ValueError:
        if _WHOLE.fullmatch(text):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in _AMOUNTS.findall(text))
        else:
            seconds = _seconds_until(text)
    return seconds if 0 <= seconds < math.inf else None


def _seconds_until(text: str) -> float:
    """Return the seconds until an HTTP or ISO 8601 date; NaN if the text is not a date."""
    import email.utils  # rarely needed

    try:
        iso = re.sub(r"\.\d+|z$", "", text)  # remove fractions and the Z, which Python 3.10 cannot parse
        date = datetime.fromisoformat(iso) if text[:4].isdigit() else email.utils.parsedate_to_datetime(text)
        date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
        return date.timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return math.nan
