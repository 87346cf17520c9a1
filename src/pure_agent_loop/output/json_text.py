"""Find JSON in a model's text: whole, fenced, between words, or incomplete. Does no I/O."""

from __future__ import annotations

import re
from typing import Any

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.tool_modes.typed_answers import FINAL_RESULT
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.parsing import JsonDecoder

WRAPPER = "response"  # key under which a value that is not an object is wrapped
MAX_STARTS = 50
_START = re.compile(r"[\[{]")
_DECODER = JsonDecoder()


def json_values(text: str) -> list[Any]:
    """Return a string's JSON values: the whole string, or else its objects and lists, last one first."""
    try:
        return [loads_strictly(text)]
    except ValueError:
        return [*reversed(_embedded(text))]


def _embedded(text: str) -> list[Any]:
    values, position = list[Any](), 0
    for _ in range(MAX_STARTS):
        start = _START.search(text, position)
        if start is None:
            break
        try:
            _, position = _DECODER.raw_decode(text, start.start())
            values.append(loads_strictly(text[start.start() : position]))
        except ValueError:
            position = max(position, start.end())
    return values


class PartialReader:
    """Reads a typed answer as plain JSON while the answer is being streamed.

    Args:
        wrapped: True if the value is wrapped under `WRAPPER`.
    """

    def __init__(self, *, wrapped: bool) -> None:
        self._wrapped = wrapped
        self._text = ""
        self._next = 0  # text length at which to parse next; parsing after each piece would be slow
        self._final: int | None = None
        self._last: list[Any] = []

    def feed(self, delta: Delta) -> list[Any]:
        """Add a piece.

        Returns:
            The value so far, as a list of one; empty if unchanged.
        """
        self._text += delta.text + "".join(map(self._of_final, delta.tool_calls))
        if len(self._text) < self._next:
            return []
        value = self._parsed()
        if not value or value == self._last:
            return []
        self._last, self._next = value, len(self._text) + len(self._text) // 50
        return value

    def _of_final(self, part: Any) -> str:
        if part.name == FINAL_RESULT:
            self._final = part.index
        arguments = part.arguments if part.index == self._final or part.name == FINAL_RESULT else ""
        return arguments if isinstance(arguments, str) else ""

    def _parsed(self) -> list[Any]:
        from pydantic_core import from_json

        start = _START.search(self._text)
        if start is None:
            return []
        text = self._text[start.start() :]
        try:
            try:
                value = from_json(text, allow_partial="trailing-strings")
            except TypeError:  # older versions of pydantic return only complete strings
                value = from_json(text, allow_partial=True)
        except ValueError:  # not JSON, or JSON followed by words
            return []
        if not self._wrapped or not isinstance(value, dict):
            return [value]
        return [value[WRAPPER]] if WRAPPER in value else []
