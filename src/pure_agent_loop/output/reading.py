"""JSON in what a model wrote: whole, in a fence, between words, or not yet complete. Pure: no I/O."""

from __future__ import annotations

import json
import re
from typing import Any

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.tool_modes.typed_answer import FINAL_RESULT
from pure_agent_loop.llm.values import Delta

WRAPPER = "response"  # the name under which a value stands that is no object
MOST_STARTS = 50
_START = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder()


def json_values(text: str) -> list[Any]:
    """The JSON values a text may stand for: itself, else the objects and lists in it, last one first."""
    try:
        return [loads_strictly(text)]
    except (ValueError, RecursionError):
        return [*reversed(_embedded(text))]


def _embedded(text: str) -> list[Any]:
    found, position = list[Any](), 0
    for _ in range(MOST_STARTS):
        start = _START.search(text, position)
        if start is None:
            break
        try:
            _, position = _DECODER.raw_decode(text, start.start())
            found.append(loads_strictly(text[start.start() : position]))
        except (ValueError, RecursionError):
            position = max(position, start.end())
    return found


class PartialReader:
    """A typed answer while it is written, as plain JSON.

    Args:
        wrapped: The value stands under `WRAPPER`.
    """

    def __init__(self, *, wrapped: bool) -> None:
        self._wrapped = wrapped
        self._text = ""
        self._next = 0  # reading all of it again at each piece of a long answer would be slow
        self._final: int | None = None
        self._last: list[Any] = []

    def feed(self, delta: Delta) -> list[Any]:
        """Take in a piece.

        Returns:
            What has come so far, as a list of one; empty if that is nothing new.
        """
        self._text += delta.text + "".join(map(self._of_final, delta.tool_calls))
        if len(self._text) < self._next:
            return []
        found = self._parsed()
        if not found or found == self._last:
            return []
        self._last, self._next = found, len(self._text) + len(self._text) // 50
        return found

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
                found = from_json(text, allow_partial="trailing-strings")
            except TypeError:  # an older pydantic, which shows a text once it is whole
                found = from_json(text, allow_partial=True)
        except ValueError:  # words behind it, or it is none
            return []
        if not self._wrapped or not isinstance(found, dict):
            return [found]
        return [found[WRAPPER]] if WRAPPER in found else []
