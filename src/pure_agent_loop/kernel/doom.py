"""Repetition detection: pure functions on one ledger, with three entry points that return a verdict.

1.  The ledger keeps digests of the newest calls only, so its size and cost depend neither on the length of
    the run nor on the size of the results.
2.  Only identical calls are refused: the same call several times in a row, whatever its result, or the same
    call alternating with others while there is no new call or result. A call or a result counts as new if it
    is not in the window. A job with many different calls is therefore not stopped, even if they fail with the
    same error.
3.  Before a call is refused, a warning is added to the result of an earlier repetition. A run is stopped only
    at an answer that follows a refusal. Identical calls in one answer count as one repetition, unless they
    are consecutive.
4.  Ambiguous repetition (the same error, page or text for different calls) is reported to the model, at most
    twice, and has no other effect.
5.  A call to a polling tool is never judged and always counts as new, because time has passed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Literal

from pure_agent_loop.llm.values import ToolCall

WINDOW = 24
LAPS = 3  # minimum repetitions of alternating calls, whatever the threshold
LONG = 200  # characters; a shorter equal result, such as "ok", may be a coincidence
MASKED = 2000  # characters of an error that are compared
SHORT_TEXT = 12  # characters; a shorter text, such as "Done." next to a call, is not significant

DoomAction = Literal["run", "warn", "refuse", "stop"]
DoomPattern = Literal[
    "", "identical_call", "alternating", "identical_result", "repeated_error", "repeated_text"
]
Kind = Literal["open", "done", "error", "refused"]

_DIGITS = re.compile(r"\d+")
_JSON = json.JSONEncoder(sort_keys=True)
_PLAIN = ("last", "count", "turn", "text", "texts")


@dataclass(frozen=True, slots=True)
class DoomVerdict:
    """Action for a call, and its reason.

    Args:
        action: ``run``; ``warn`` (add a warning to the result); ``refuse`` (return an error to the model
            instead of running the call); ``stop`` (refuse the call and end the run).
        pattern: Kind of repetition; empty with ``run``.
        count: Number of earlier occurrences; for a warning, the current one is included.
    """

    action: DoomAction = "run"
    pattern: DoomPattern = ""
    count: int = 0


RUN = DoomVerdict()


@dataclass(slots=True)
class WindowEntry:
    """A call in the window."""

    id: str
    """Digest of the call's id."""
    turn: int
    """Number of the answer with the call."""
    tool: str
    """Digest of the tool's name."""
    call: str
    """Digest of the name and the arguments."""
    kind: Kind = "open"
    """Outcome of the call."""
    outcome: str = ""
    """Digest of the result; empty until there is one."""
    shape: str = ""
    """Digest that is equal for similar results of calls with different arguments; may be empty."""
    news: bool = False
    """True if the call, or its result, was not in the window before."""
    action: DoomAction = "run"
    """Action of the verdict on the call."""
    pattern: DoomPattern = ""
    """Kind of repetition."""
    count: int = 0
    """Number of repetitions."""

    def keep(self, verdict: DoomVerdict) -> DoomVerdict:
        """Store a verdict: later verdicts depend on it."""
        self.action, self.pattern, self.count = verdict.action, verdict.pattern, verdict.count
        return verdict


@dataclass(slots=True)
class DoomLedger:
    """Recent calls and texts: a part of the state that is never longer than the window.

    Args:
        last: Digest of the last call.
        count: Number of times the last call has been repeated in a row.
        text: Digest of the last answer's text.
        texts: Number of times this text has been repeated since the last new call or result.
    """

    last: str = ""
    count: int = 0
    turn: int = 0
    text: str = ""
    texts: int = 0
    window: list[WindowEntry] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "window": [[getattr(made, name) for name in _MADE] for made in self.window],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DoomLedger:
        """Build a ledger from what :meth:`to_dict` returned; fields of newer versions may be missing."""
        plain = {name: data[name] for name in _PLAIN if name in data}
        return cls(**plain, window=[WindowEntry(*row) for row in data.get("window", ())])

    def find(self, call: ToolCall) -> WindowEntry | None:
        """Return the entry of a call in the newest answer, or None if there is none."""
        if not self.window or self.window[-1].turn != self.turn:
            return None
        wanted = _name_digest(call.id)
        for made in self.window:
            if made.turn == self.turn and made.id == wanted:
                return made
        return None


_MADE = tuple(entry.name for entry in fields(WindowEntry))


def note_answer(ledger: DoomLedger, text: str, threshold: int | None) -> DoomVerdict:
    """Record an answer: begin a turn and count its text. Call it for every answer, even without text.

    Args:
        text: Text from the model, sent with calls or as its answer.
        threshold: As for `judge`.

    Returns:
        ``run``, or ``stop`` if the same text was repeated without anything new. ``stop`` matters only for an
        answer without calls; with calls, `note_result` decides.
    """
    if threshold is None:
        return RUN
    ledger.turn += 1
    words = _DIGITS.sub("#", " ".join(text.casefold().split()))
    if len(words) < SHORT_TEXT:
        return RUN
    key = _digest(words)
    ledger.texts = ledger.texts + 1 if key == ledger.text else 1
    ledger.text = key
    if ledger.texts < 2 * max(2, threshold):
        return RUN
    return DoomVerdict("stop", "repeated_text", ledger.texts)


def judge(ledger: DoomLedger, call: ToolCall, threshold: int | None, *, polls: bool = False) -> DoomVerdict:
    """Decide whether a call may run. The same call id gets the same verdict.

    Args:
        threshold: Number of identical consecutive calls at which the last one is refused; other repetitions
            get a warning at this number. None disables the check.

    Returns:
        ``run``, ``refuse`` or ``stop``.
    """
    if threshold is None:
        return RUN
    known = ledger.find(call)
    if known is not None:  # a run resumed between an answer and its results judges these calls again
        return DoomVerdict(known.action, known.pattern, known.count) if known.kind == "refused" else RUN
    key = _digest(f"{call.name} {call.invalid or _JSON.encode(call.arguments)}")
    made = WindowEntry(_name_digest(call.id), ledger.turn, _name_digest(call.name), key)
    ledger.count = ledger.count + 1 if made.call == ledger.last else 1
    ledger.last = made.call
    if polls:
        made.kind, made.news, ledger.texts = "done", True, 0
        verdict = RUN
    else:
        verdict = made.keep(_in_a_row(ledger, made, threshold) or _in_turn(ledger, made, threshold))
        made.kind = "open" if verdict.action == "run" else "refused"
    ledger.window.append(made)
    del ledger.window[:-WINDOW]
    return verdict


def note_result(
    ledger: DoomLedger, call: ToolCall, text: str, is_error: bool, threshold: int | None
) -> DoomVerdict:
    """Record the result of a call. The result of a refused call is ignored.

    Args:
        text: The result, as the model will read it.
        threshold: As for `judge`.

    Returns:
        ``run``, or ``warn`` if the result shows a repetition to report to the model.
    """
    made = None if threshold is None else ledger.find(call)
    if threshold is None or made is None or made.kind != "open":
        return RUN
    outcome = _digest(f"{is_error} {text}")
    made.news = (made.call, outcome) not in {(before.call, before.outcome) for before in ledger.window}
    made.outcome, made.kind = outcome, "error" if is_error else "done"
    made.shape = _shape_of(made, call, text)
    verdict = made.keep(_warning(ledger, made, max(2, threshold)))
    if made.news and not is_error:
        ledger.texts = 0
    return verdict


def _in_a_row(ledger: DoomLedger, made: WindowEntry, threshold: int) -> DoomVerdict | None:
    """Judge a call that is repeated several times in a row."""
    if ledger.count < threshold:
        return None
    row = takewhile(lambda before: before.call == made.call, reversed(ledger.window))
    was_refused = any(before.kind == "refused" and before.turn < made.turn for before in row)
    return DoomVerdict("stop" if was_refused else "refuse", "identical_call", ledger.count - 1)


def _in_turn(ledger: DoomLedger, made: WindowEntry, threshold: int) -> DoomVerdict:
    """Judge a call that alternates with other repeated calls; refuse it only after a warning."""
    laps = _laps(ledger, made)
    since_news = takewhile(lambda before: not before.news, reversed(ledger.window))
    actions = {before.action for before in since_news if before.turn < made.turn}
    refused = bool(actions & {"refuse", "stop"})
    if laps < max(LAPS, threshold) or not (refused or "warn" in actions):
        return RUN
    return DoomVerdict("stop" if refused else "refuse", "alternating", laps)


def _laps(ledger: DoomLedger, made: WindowEntry) -> int:
    """Count the answers since the last new call or result in which this call had the same result.

    The current answer is included; repetitions in a row count once.
    """
    turns, outcome, away = {made.turn}, made.outcome, False
    for before in reversed(ledger.window):
        if before is made:
            continue
        if before.news or (before.call == made.call and before.outcome != (outcome or before.outcome)):
            break
        if before.call != made.call:
            away = True
        elif before.outcome:
            outcome = before.outcome
            turns |= {before.turn} if away else set()
            away = False
    return len(turns)


def _warning(ledger: DoomLedger, made: WindowEntry, threshold: int) -> DoomVerdict:
    laps = 0 if made.news else _laps(ledger, made) + 1
    if laps >= max(LAPS, threshold):
        return DoomVerdict("warn", "alternating", laps)
    often = (threshold, 2 * threshold)  # warn only twice: further repetitions may be real work
    if made.shape and (times := _times(ledger, made.shape)) in often:
        return DoomVerdict("warn", "repeated_error" if made.kind == "error" else "identical_result", times)
    if ledger.texts in often and (made.kind == "error" or not made.news):
        return DoomVerdict("warn", "repeated_text", ledger.texts)
    return RUN


def _times(ledger: DoomLedger, shape: str) -> int:
    """Count the answers with results of this shape since the last new call or result that is not an error."""
    turns: set[int] = set()
    for made in reversed(ledger.window):
        if made.shape == shape:
            turns.add(made.turn)
        elif made.news and made.kind != "error":
            break
    return len(turns)


def _shape_of(made: WindowEntry, call: ToolCall, text: str) -> str:
    """Return the shape of a result. Errors that differ only in numbers and arguments have the same shape."""
    if made.kind != "error":
        return _digest(f"{made.tool} {made.outcome}") if len(text) >= LONG else ""
    text = text[:MASKED]
    strings = (value for value in call.arguments.values() if isinstance(value, str))
    for value in sorted((text for text in strings if 2 <= len(text) <= LONG), key=len, reverse=True):
        text = text.replace(value, "?")
    return _digest(f"{made.tool} {_DIGITS.sub('#', text)}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_name_digest = lru_cache(maxsize=256)(_digest)  # cached, because names and call ids recur
