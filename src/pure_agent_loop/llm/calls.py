"""Assembly of a response's tool calls from streamed fragments. Pure: no I/O.

Rules:

1.  A fragment belongs to the call with its index (and, among these, with its id), unless it clearly
    starts another one. Without an index, it continues the call with its id, else the last call.
2.  Only a fragment with a name starts another call, or one with a new index and a new id. Without
    indexes, neighbouring fragments with names in one delta are different calls.
3.  After complete arguments, a fragment with a name starts another call if it has a new id, another name,
    or arguments that are not a repetition. Before that, only another name does.
4.  An id that changes within a call is ignored from then on.
5.  If calls assembled this way hold unreadable arguments, but sorting the fragments by id alone, or by
    index alone, makes every call readable, that order is used.
6.  Calls are ordered by their first fragments; ids are unique, and generated if missing.
7.  Arguments are parsed once, at the end; invalid or truncated ones are marked, never guessed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.llm.arguments import parse_arguments
from pure_agent_loop.llm.control_tokens import meant_arguments
from pure_agent_loop.llm.extra import joined
from pure_agent_loop.llm.values import ToolCall, ToolCallDelta
from pure_agent_loop.support.language import message
from pure_agent_loop.support.text import clean_text, shorten


@dataclass(frozen=True, slots=True)
class Marked:
    """Arguments that a client has already rejected, with the reason."""

    reason: str


@dataclass(slots=True, eq=False, repr=False)
class OpenCall:
    """A call whose fragments are still coming in."""

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: Any = None  # arguments that came as an object
    extra: list[dict[str, Any]] = field(default_factory=list)
    changes_id: bool = False
    is_named_again: bool = False  # by a fragment without arguments, after complete arguments
    read: tuple[dict[str, Any], str | None] | None = None  # the parsed arguments

    def add(self, part: ToolCallDelta) -> None:
        """Add a fragment of this call."""
        self.read = None
        if part.id and self.id and part.id != self.id:
            self.changes_id = True
        self.id = self.id or part.id or ""
        if part.name and part.name != self.name:
            # A name is sent once, repeatedly, with growing length, or (rarely) in pieces.
            self.name = part.name if part.name.startswith(self.name) else self.name + part.name
        if isinstance(part.arguments, str):
            if part.arguments:
                self.pieces.append(part.arguments)
        elif part.arguments is not None:
            self.whole = part.arguments
        if part.extra:
            self.extra.append(part.extra)

    @property
    def text(self) -> str:
        """The arguments so far, as text; empty if they came as an object."""
        return "".join(self.pieces)

    @property
    def has_arguments(self) -> bool:
        """True if the arguments hold more than white space."""
        return self.whole is not None or any(map(str.strip, self.pieces))

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are a whole JSON object, even one that is rejected later."""
        return self.whole is not None or _is_object(self.text)

    @property
    def is_cut(self) -> bool:
        """True if the arguments are truncated."""
        return self.whole is None and _has_no_end(self.text.rstrip())

    def is_repeated_by(self, part: ToolCallDelta) -> bool:
        """Return True if a fragment repeats complete arguments, or replaces a placeholder."""
        same_id = bool(part.id) and part.id == self.id
        if not isinstance(part.arguments, str):
            return same_id and part.arguments == self.whole
        if same_id and (self.whole == {} or self.text.strip() in ("{}", part.arguments.strip())):
            return True
        grows = part.arguments.startswith(self.pieces[-1]) if self.pieces else False
        return grows and (same_id or (len(self.pieces) > 1 and _is_chain(self.pieces)))

    def arguments(self) -> tuple[dict[str, Any], str | None]:
        """Return the parsed arguments, and the reason if they are rejected."""
        self.read = self.read or self._parsed()
        return self.read

    def _parsed(self) -> tuple[dict[str, Any], str | None]:
        if isinstance(self.whole, Marked):
            return {}, self.whole.reason
        if self.whole is not None and (self.whole or not self.text.strip()):
            return parse_arguments(self.whole)
        parsed, invalid = parse_arguments(self.text)
        for text in [*self._other_readings(), meant_arguments(self.text)] if invalid else ():
            if _is_object(text):
                return parse_arguments(text)
        return parsed, invalid

    def _other_readings(self) -> list[str]:
        if len(self.pieces) < 2:
            return []
        after_placeholder = ["".join(self.pieces[1:])] if self.pieces[0].strip() == "{}" else []
        is_again = self.pieces[-1].strip() == "".join(self.pieces[:-1]).strip()
        repeated_in_full = [self.pieces[-1]] if is_again or _is_chain(self.pieces) else []
        return repeated_in_full + after_placeholder


def _is_chain(pieces: list[str]) -> bool:
    """Return True if each piece repeats and extends the one before."""
    return all(later.startswith(earlier) for earlier, later in itertools.pairwise(pieces))


def _has_no_end(text: str) -> bool:
    if not text.endswith("}"):
        return True
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) or error.msg.startswith("Unterminated")
    except (ValueError, RecursionError):
        return False
    return False


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


class CallGatherer:
    """Sorts fragments into calls: `add` the fragments of each delta, then `finish`."""

    def __init__(self) -> None:
        self._parts: list[ToolCallDelta] = []
        self._calls: list[OpenCall] = []

    def add(self, parts: Iterable[ToolCallDelta]) -> None:
        """Add the fragments of one delta."""
        for position, part in enumerate(parts):
            self._parts.append(part)
            is_separate = position > 0 and part.index is None and bool(part.name)
            self._add_part(part, is_separate)

    def _add_part(self, part: ToolCallDelta, is_separate: bool) -> None:
        call = self._call_for(part)
        if call is None or is_separate or _starts_another(call, part):
            call = self._open(part.index)
        elif call.is_named_again and _begins_object(part.arguments):
            call = self._open(call.index, call.name)
        call.add(part)

    @property
    def is_cut(self) -> bool:
        """True if the arguments of the last call are incomplete."""
        calls = self._named()
        return bool(calls) and calls[-1].is_cut and not calls[-1].is_complete

    @property
    def written(self) -> str:
        """Names and arguments so far."""
        return "".join([call.name + call.text for call in self._calls])

    @property
    def is_begun(self) -> bool:
        """True if a fragment had an id: without a name and arguments, its call was lost."""
        return any(call.id for call in self._calls)

    def finish(self, cut_off: str = "") -> list[ToolCall]:
        """Return the calls, in order.

        Args:
            cut_off: The finish reason, if the response was cut off. Then a last call with incomplete or
                missing arguments must not run: the model may not have finished writing them.
        """
        calls: list[ToolCall] = []
        used: set[str] = set()
        best = self._best()
        for number, call in enumerate(best, 1):
            arguments, invalid = call.arguments()
            if cut_off and call.is_cut and (invalid or call is best[-1]):
                written = shorten(call.text, 200)
                arguments, invalid = {}, message("cut_off", reason=cut_off, written=written)
            call_id = unique_id(clean_text(call.id) or f"call_{number}", used)
            extra = joined(call.extra) if call.extra else None
            invalid = invalid and clean_text(invalid)
            calls.append(ToolCall(call_id, clean_text(call.name), arguments, invalid, extra))
        return calls

    def _named(self) -> list[OpenCall]:
        return [call for call in self._calls if call.name or call.has_arguments]

    def _best(self) -> list[OpenCall]:
        calls = self._named()
        if all(call.arguments()[1] is None for call in calls):
            return calls
        for key in (lambda part: part.id or None, lambda part: part.index):
            others = _sorted_by(key, self._parts)
            if len(others) > 1 and all(c.name and c.is_complete and not c.arguments()[1] for c in others):
                return others
        return calls

    def _open(self, index: int | None, name: str = "") -> OpenCall:
        self._calls.append(OpenCall(index, name=name))
        return self._calls[-1]

    def _call_for(self, part: ToolCallDelta) -> OpenCall | None:
        """Return the call that this fragment may continue; None if it certainly starts a new one."""
        if not self._calls:
            return None
        same_index = [call for call in self._calls if part.index in (None, call.index)]
        same_id = [call for call in same_index or self._calls if call.id == part.id] if part.id else []
        if same_index:
            return (same_id or same_index)[-1]
        if part.name:
            return None
        return same_id[-1] if same_id else None if part.id else self._calls[-1]


def _sorted_by(key: Callable[[ToolCallDelta], Any], parts: list[ToolCallDelta]) -> list[OpenCall]:
    """Sort fragments into calls by one key alone; a fragment without it continues the last call."""
    calls: dict[Any, OpenCall] = {}
    current = None
    for part in parts:
        value = key(part)
        current = current if value is None else value
        calls.setdefault(current, OpenCall(part.index)).add(part)
    return list(calls.values())


def _starts_another(call: OpenCall, part: ToolCallDelta) -> bool:
    """Return True if a fragment that could belong to `call` begins a new one (rules 2 to 4)."""
    if not part.name:
        return False
    new_id = bool(part.id and call.id and part.id != call.id and not call.changes_id)
    other_name = part.name != call.name
    brings = part.arguments.strip() if isinstance(part.arguments, str) else part.arguments
    if call.is_complete:
        if brings in (None, ""):
            call.is_named_again = not new_id and not other_name
            return new_id or other_name
        return new_id or other_name or (_begins_object(brings) and not call.is_repeated_by(part))
    if call.has_arguments:
        return other_name or (new_id and not call.is_cut)
    return new_id and (other_name or not brings)


def _begins_object(arguments: Any) -> bool:
    return isinstance(arguments, Mapping) or (
        isinstance(arguments, str) and arguments.lstrip().startswith("{")
    )


def unique_id(wanted: str, used: set[str]) -> str:
    """Return `wanted`, with a number appended if it is taken, and add the result to `used`."""
    candidate, number = wanted, 1
    while candidate in used:
        number += 1
        candidate = f"{wanted}_{number}"
    used.add(candidate)
    return candidate
