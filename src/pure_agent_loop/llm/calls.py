"""Assembly of a response's tool calls from streamed fragments. Pure: no I/O.

Rules:

1.  A fragment belongs to the call with its index (if several calls have that index, to the one with its id),
    unless it clearly starts another call. Without an index, it continues the call with its id, else the last
    call.
2.  Only a fragment with a name, or with a new index and a new id, starts another call. Without indexes,
    adjacent fragments with names in one delta are different calls.
3.  After complete arguments, a fragment with a name starts another call if it has a new id, another name, or
    arguments that are not a repetition. After truncated arguments, only another name starts another call;
    after unreadable arguments, so does a new id. Before any arguments, a fragment starts another call only if
    it has a new id, and either another name or no arguments.
4.  Once the id has changed within a call, that call's ids are ignored.
5.  If calls assembled this way hold unreadable arguments, but sorting the fragments by id alone, or by index
    alone, makes every call readable, that sorting is used.
6.  Calls are ordered by their first fragments; ids are unique, and generated if missing.
7.  Arguments are parsed once, at the end; invalid or truncated ones are marked, never guessed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from pure_agent_loop.llm.arguments import parse_arguments
from pure_agent_loop.llm.control_tokens import meant_arguments
from pure_agent_loop.llm.extra import joined
from pure_agent_loop.llm.values import JsonObject, ToolCall, ToolCallDelta
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import JsonDecoder
from pure_agent_loop.support.text import clean_text, shorten

# Accepts raw control characters in strings, which weak models write.
_LENIENT = JsonDecoder(strict=False)
Parsed: TypeAlias = "tuple[JsonObject, str | None]"  # the arguments, and the reason if they are rejected


@dataclass(frozen=True, slots=True)
class RejectedArguments:
    """Arguments that a client has already rejected, with the reason."""

    reason: str


class Phase(Enum):
    """Progress of a call's arguments."""

    EMPTY = 0
    CUT = 1  # an incomplete JSON text
    UNREADABLE = 2  # a complete text that is not a JSON object
    COMPLETE = 3  # a JSON object, even one that is rejected later


def phase_of(text: str) -> Phase:
    """Return the phase of arguments that were sent as text."""
    text = text.rstrip()
    if not text.endswith("}"):
        return Phase.CUT if text.strip() else Phase.EMPTY
    try:
        is_object = isinstance(_LENIENT.decode(text), dict)
    except json.JSONDecodeError as error:
        has_no_end = error.pos >= len(text) or error.msg.startswith("Unterminated")
        return Phase.CUT if has_no_end else Phase.UNREADABLE
    except ValueError:
        return Phase.UNREADABLE
    return Phase.COMPLETE if is_object else Phase.UNREADABLE


@dataclass(slots=True, eq=False, repr=False)
class OpenCall:
    """A call whose fragments are still coming in.

    Args:
        pieces: The arguments, if they were sent as text.
        whole: The arguments, if they were sent as an object.
        changes_id: Whether the fragments had different ids.
        is_named_again: Whether a fragment with only the name followed complete arguments.
    """

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: Any = None
    extra: list[JsonObject] = field(default_factory=list)
    changes_id: bool = False
    is_named_again: bool = False

    def add(self, part: ToolCallDelta) -> None:
        """Add a fragment of this call."""
        if part.id and self.id and part.id != self.id:
            self.changes_id = True
        self.id = self.id or part.id or ""
        is_name_alone = part.name and part.name == self.name and _stripped(part.arguments) in (None, "")
        if is_name_alone and self.phase is Phase.COMPLETE:
            self.is_named_again = True
        if part.name and part.name != self.name:
            # Servers send a name once, in every fragment, as a growing prefix, or (rarely) in pieces.
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
        """The arguments so far, as text; empty if they were sent as an object."""
        return "".join(self.pieces)

    @property
    def phase(self) -> Phase:
        """Progress of the arguments."""
        return phase_of(self.text) if self.whole is None else Phase.COMPLETE

    @property
    def is_cut(self) -> bool:
        """True if the arguments are truncated or missing."""
        return self.phase in (Phase.EMPTY, Phase.CUT)

    def ends_before(self, part: ToolCallDelta) -> bool:
        """Return True if a fragment that could belong to this call begins another one (rules 2 to 4)."""
        if not part.name:
            return False
        new_id = bool(part.id and self.id and part.id != self.id and not self.changes_id)
        other_name = part.name != self.name
        brings = _stripped(part.arguments)
        phase = self.phase
        if phase is Phase.COMPLETE:
            repeats = not _begins_object(brings) or self._is_repeated_by(part)
            return new_id or other_name or not repeats
        if phase is Phase.EMPTY:
            return new_id and (other_name or not brings)
        return other_name or (new_id and phase is Phase.UNREADABLE)

    def _is_repeated_by(self, part: ToolCallDelta) -> bool:
        """Return True if a fragment repeats complete arguments, or replaces a placeholder."""
        same_id = bool(part.id) and part.id == self.id
        if not isinstance(part.arguments, str):
            return same_id and part.arguments == self.whole
        if same_id and (self.whole == {} or self.text.strip() in ("{}", part.arguments.strip())):
            return True
        grows = part.arguments.startswith(self.pieces[-1]) if self.pieces else False
        return grows and (same_id or (len(self.pieces) > 1 and _is_chain(self.pieces)))

    def parsed(self) -> Parsed:
        """Return the parsed arguments, and the reason if they are rejected."""
        if isinstance(self.whole, RejectedArguments):
            return {}, self.whole.reason
        if self.whole is not None and (self.whole or not self.text.strip()):
            return parse_arguments(self.whole)
        parsed, invalid = parse_arguments(self.text)
        for text in [*self._other_readings(), meant_arguments(self.text)] if invalid else ():
            if phase_of(text) is Phase.COMPLETE:
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


def _stripped(arguments: object) -> Any:
    return arguments.strip() if isinstance(arguments, str) else arguments


def _begins_object(arguments: object) -> bool:
    return isinstance(arguments, Mapping) or (
        isinstance(arguments, str) and arguments.lstrip().startswith("{")
    )


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
        if call is None or is_separate or call.ends_before(part):
            call = self._open(part.index)
        elif call.is_named_again and _begins_object(part.arguments):
            call = self._open(call.index, call.name)
        call.add(part)

    @property
    def is_cut(self) -> bool:
        """True if the arguments of the last call are incomplete."""
        calls = self._named()
        return bool(calls) and calls[-1].is_cut

    @property
    def written(self) -> str:
        """Names and arguments of all calls so far."""
        return "".join([call.name + call.text for call in self._calls])

    @property
    def is_begun(self) -> bool:
        """True if a fragment had an id; if `finish` then returns no call, one was lost."""
        return any(call.id for call in self._calls)

    def finish(self, cut_off: str = "") -> list[ToolCall]:
        """Return the calls, in order.

        Args:
            cut_off: The finish reason if the response was cut off, else empty. In a response that was cut
                off, a last call with incomplete, empty or missing arguments must not run, because the model
                may not have finished writing them.
        """
        calls: list[ToolCall] = []
        used: set[str] = set()
        best = self._best()
        for number, (call, parsed) in enumerate(best, 1):
            arguments, invalid = parsed
            may_be_cut = call.is_cut or not (
                arguments or invalid
            )  # a server may send an empty object in place of truncated arguments
            if cut_off and may_be_cut and (invalid or number == len(best)):
                written = shorten(call.text, 200)
                arguments, invalid = {}, model_text("cut_off", reason=cut_off, written=written)
            call_id = unique_id(clean_text(call.id) or f"call_{number}", used)
            extra = joined(call.extra) if call.extra else None
            invalid = invalid and clean_text(invalid)
            calls.append(ToolCall(call_id, clean_text(call.name), arguments, invalid, extra))
        return calls

    def _named(self) -> list[OpenCall]:
        return [call for call in self._calls if call.name or call.phase is not Phase.EMPTY]

    def _best(self) -> list[tuple[OpenCall, Parsed]]:
        """Return the calls and their arguments, with the fragments sorted in the best way (rule 5)."""
        calls = [(call, call.parsed()) for call in self._named()]
        if all(invalid is None for _, (_, invalid) in calls):
            return calls
        for key in ("id", "index"):
            others = [(call, call.parsed()) for call in _sorted_by(key, self._parts)]
            are_complete = all(call.name and call.phase is Phase.COMPLETE for call, _ in others)
            if len(others) > 1 and are_complete and not any(invalid for _, (_, invalid) in others):
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


def _sorted_by(field_name: str, parts: list[ToolCallDelta]) -> list[OpenCall]:
    """Sort fragments into calls by one field alone; a fragment without it continues the last call."""
    calls: dict[Any, OpenCall] = {}
    current = None
    for part in parts:
        value = getattr(part, field_name)
        current = current if value in (None, "") else value
        calls.setdefault(current, OpenCall(part.index)).add(part)
    return list(calls.values())


def unique_id(wanted: str, used: set[str]) -> str:
    """Return `wanted`, with a number appended if it is taken, and add the result to `used`."""
    candidate, number = wanted, 1
    while candidate in used:
        number += 1
        candidate = f"{wanted}_{number}"
    used.add(candidate)
    return candidate
