"""Noticing a model that goes round in circles. Pure: one ledger, three moments, a verdict each time.

1.  A window of the newest calls is kept, as digests, so the ledger and its cost stay the same however long
    the run is and however large its results are.
2.  A result is *news* if it was not in the window before: an unseen result of that call, or an unseen
    error of that tool. Finding nothing is no news, nor is the same long page for other arguments. Two equal
    calls with news between are no loop: running the same tests after each edit is work.
3.  The same call several times in a row needs no further evidence: it is refused, whatever it answers.
4.  Everything else is warned about with a result, at least once, before it is refused. And a run is stopped
    only after an answer that could read a refusal. Calls of one answer are one repetition, except in 3.
5.  A call of a polling tool is never judged, and always news: time has passed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from itertools import islice
from typing import Any, Literal

from pure_agent_loop.llm.values import ToolCall

WINDOW = 24
LONG = 200  # characters from which an equal result is no coincidence, as "ok" is
MASKED = 2000  # characters of an error that are looked at
MASKS = 50  # arguments that are looked for in it
SHORT_TEXT = 12  # "Done." beside a call says nothing

DoomAction = Literal["run", "warn", "refuse", "stop"]
DoomPattern = Literal[
    "", "identical_call", "alternating", "identical_result", "repeated_error", "repeated_text"
]
Kind = Literal["open", "plain", "long", "empty", "error", "refused", "polled"]

_NOTHING_FOUND = re.compile(
    r"""\W*(?:
        (?:no|0|zero)\s(?:\w+\s){0,2}?(?:results?|match(?:es)?|hits?|rows?|entries|items|files|records|documents)\b
      | (?:nothing|none|not)\s(?:was\s|were\s)?found\b
      | (?:没有|未)(?:找到|发现|查到|搜索到) | 无(?:结果|匹配|数据) | 找不到
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_EMPTY_JSON = re.compile(r'\s*(?:\[\s*\]|\{\s*(?:"\w+"\s*:\s*\[\s*\][^\[{]*)?\})\s*')
_MISSING = re.compile(r"not found|no such|does not exist|doesn't exist|不存在|找不到|未找到", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class DoomVerdict:
    """What to do, and why.

    Args:
        action: ``run``; ``warn`` (tell the model with the result); ``refuse`` (do not run the call, tell the
            model); ``stop`` (the same, and end the run).
        pattern: What is repeated; empty with ``run``.
        count: How often it came before; with a warning, this time included.
    """

    action: DoomAction = "run"
    pattern: DoomPattern = ""
    count: int = 0


RUN = DoomVerdict()


@dataclass(slots=True)
class Made:
    """One call in the window."""

    id: str
    """Digest of the call's id."""
    turn: int
    """In which answer it came."""
    tool: str
    """Digest of the tool's name."""
    call: str
    """Digest of name and arguments."""
    kind: Kind = "open"
    """What became of it."""
    outcome: str = ""
    """Digest of the result; empty until there is one."""
    shape: str = ""
    """Digest of what makes results of different arguments the same; empty where nothing does."""
    news: bool = False
    """Whether it told something new."""
    action: DoomAction = "run"
    """What was said about it."""
    pattern: DoomPattern = ""
    """Which repetition was seen."""
    count: int = 0
    """How often."""

    def say(self, verdict: DoomVerdict) -> DoomVerdict:
        """Keep a verdict: later ones depend on it."""
        self.action, self.pattern, self.count = verdict.action, verdict.pattern, verdict.count
        return verdict

    def said(self) -> DoomVerdict:
        """The verdict that was kept."""
        return DoomVerdict(self.action, self.pattern, self.count)


@dataclass(slots=True)
class DoomLedger:
    """What was done lately. Part of the state; never longer than a window.

    Args:
        last: Digest of the last call.
        count: How many times in a row it came.
        turn: Answers so far.
        text: Digest of the last answer's text.
        texts: How often that came since the last news.
        window: The newest calls.
    """

    last: str = ""
    count: int = 0
    turn: int = 0
    text: str = ""
    texts: int = 0
    window: list[Made] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "window": [[getattr(made, name) for name in _MADE] for made in self.window],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DoomLedger:
        """The reverse of :meth:`to_dict`. A field that an older version did not have may be missing."""
        plain = {name: data[name] for name in _PLAIN if name in data}
        return cls(**plain, window=[Made(*row) for row in data.get("window", ())])

    def since_news(self) -> Iterator[Made]:
        """The newest calls, the newest first, up to the last that told something new."""
        for made in reversed(self.window):
            yield made
            if made.news:
                return

    def find(self, call: ToolCall) -> Made | None:
        """The entry of a call of the newest answer, or None if there is none, or none any more."""
        wanted = (self.turn, _digest(call.id))
        return next((made for made in self.window if (made.turn, made.id) == wanted), None)


_PLAIN = ("last", "count", "turn", "text", "texts")
_MADE = tuple(each.name for each in fields(Made))


# -- the three moments ------------------------------------------------------------------------------------


def note_answer(ledger: DoomLedger, text: str, threshold: int | None) -> DoomVerdict:
    """An answer has come: begin a turn and count its text. To be called for every answer, even without text.

    Args:
        ledger: Is brought up to date.
        text: What the model said, beside its calls or as its answer.
        threshold: As for `judge`.

    Returns:
        ``run``; ``warn`` or ``stop`` when the same text came again and again and nothing new with it. Of
        interest only where the answer has no calls: with calls, `judge` and `note_result` say it.
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
    if ledger.texts < max(2, threshold):
        return RUN
    action: DoomAction = "stop" if ledger.texts >= 2 * max(2, threshold) else "warn"
    return DoomVerdict(action, "repeated_text", ledger.texts)


def judge(ledger: DoomLedger, call: ToolCall, threshold: int | None, *, polls: bool = False) -> DoomVerdict:
    """A call is asked for: may it run? Asking again for the same call id gives the same answer.

    Args:
        ledger: Is brought up to date.
        call: The call the model asks for.
        threshold: That many equal calls in a row are too many, and that many repetitions of another kind are
            worth a warning; None switches this off.
        polls: Whether its tool is meant to be called again and again.

    Returns:
        ``run``, ``refuse`` or ``stop``.
    """
    if threshold is None:
        return RUN
    known = ledger.find(call)
    if known is not None:  # a run that was resumed between an answer and its results asks twice
        return known.said() if known.kind == "refused" else RUN
    made = Made(_digest(call.id), ledger.turn, _digest(call.name), _call_key(call))
    ledger.count = ledger.count + 1 if made.call == ledger.last else 1
    ledger.last = made.call
    if polls:
        made.kind, made.news, ledger.texts = "polled", True, 0
        verdict = RUN
    else:
        verdict = made.say(_row(ledger, made, threshold) or _soft(ledger, made, max(2, threshold)) or RUN)
        made.kind = "open" if verdict.action == "run" else "refused"
    ledger.window.append(made)
    del ledger.window[:-WINDOW]
    return verdict


def note_result(
    ledger: DoomLedger, call: ToolCall, text: str, is_error: bool, threshold: int | None
) -> DoomVerdict:
    """A call has a result: take it in. The result of a refused call is ignored.

    Args:
        ledger: Is brought up to date.
        call: The call.
        text: Its result, as the model will read it.
        is_error: Whether it failed.
        threshold: As for `judge`.

    Returns:
        ``run``, or ``warn`` when the result shows a repetition the model should be told about.
    """
    made = ledger.find(call)
    if threshold is None or made is None or made.kind != "open":
        return RUN
    made.outcome = _digest(f"{is_error} {text}")
    made.kind = _kind_of(text, is_error, said_before=_was_seen(ledger, made))
    made.shape = _shape_of(made, call, text, is_error)
    made.news = _is_news(ledger, made)
    if made.news and made.kind != "error":
        ledger.texts = 0
        return RUN
    return made.say(_warning(ledger, made, max(2, threshold)) or RUN)


# -- the rules --------------------------------------------------------------------------------------------


def _row(ledger: DoomLedger, made: Made, threshold: int) -> DoomVerdict | None:
    """The same call, nothing between."""
    if ledger.count < threshold:
        return None
    told = False
    for before in reversed(ledger.window):
        if before.call != made.call:
            break
        told = told or (before.kind == "refused" and before.turn < made.turn)
    return DoomVerdict("stop" if told else "refuse", "identical_call", ledger.count - 1)


def _soft(ledger: DoomLedger, made: Made, threshold: int) -> DoomVerdict | None:
    """A repetition that was warned about and goes on."""
    pattern, count = _going_on(ledger, made, threshold)
    earlier = [before.action for before in ledger.since_news() if before.turn < made.turn]
    refused = "refuse" in earlier or "stop" in earlier
    if not pattern or not (refused or "warn" in earlier):
        return None
    return DoomVerdict("stop" if refused else "refuse", pattern, count)


def _going_on(ledger: DoomLedger, made: Made, threshold: int) -> tuple[DoomPattern, int]:
    laps, idle = _circle(ledger, made)
    if laps > threshold and idle >= threshold - 1:
        return "alternating", laps - 1
    newest = _newest_of(ledger, made.tool)
    if newest is not None and newest.kind in _FLAILING:
        pattern, _, most = _FLAILING[newest.kind]
        times = _times(ledger, newest.shape)
        if times + 1 >= most * threshold:
            return pattern, times
    if ledger.texts >= 2 * threshold:
        return "repeated_text", ledger.texts
    return "", 0


def _warning(ledger: DoomLedger, made: Made, threshold: int) -> DoomVerdict | None:
    laps, idle = _circle(ledger, made)
    if laps >= threshold and idle >= max(1, threshold - 2):
        return DoomVerdict("warn", "alternating", laps)
    if made.kind in _FLAILING:
        pattern, least, _ = _FLAILING[made.kind]
        times = _times(ledger, made.shape)
        if times >= least * threshold:
            return DoomVerdict("warn", pattern, times)
    if ledger.texts >= threshold:
        return DoomVerdict("warn", "repeated_text", ledger.texts)
    return None


# Results that are the same though the arguments differ: the pattern, and from how many thresholds on it is
# warned about and refused. Finding nothing several times is ordinary work, so it takes longer.
_FLAILING: dict[Kind, tuple[DoomPattern, int, int]] = {
    "error": ("repeated_error", 1, 2),
    "long": ("identical_result", 1, 2),
    "empty": ("identical_result", 2, 3),
}


def _circle(ledger: DoomLedger, made: Made) -> tuple[int, int]:
    """How often the agent came back to a call and had the same result as last time, this time included, and
    how many of the newest of these rounds brought no news. In a row, and in one answer, it counts once.
    """
    turns, idle, unbroken, quiet, away = {made.turn}, 0, True, True, False
    outcome = made.outcome
    for before in reversed(ledger.window):
        if before.call != made.call:
            quiet, away = quiet and not before.news, True
        if before is made or before.call != made.call or not before.outcome:
            continue
        outcome = outcome or before.outcome
        if before.outcome != outcome:
            break
        if away and before.turn not in turns:
            unbroken = unbroken and quiet
            idle += unbroken
            turns.add(before.turn)
        quiet, away = True, False
    return len(turns), idle


def _times(ledger: DoomLedger, shape: str) -> int:
    """In how many answers results of this shape came, with no other news between."""
    turns: set[int] = set()
    for made in reversed(ledger.window):
        if made.shape == shape:
            turns.add(made.turn)
        elif made.news:
            break
    return len(turns)


def _newest_of(ledger: DoomLedger, tool: str) -> Made | None:
    return next((made for made in reversed(ledger.window) if made.tool == tool and made.outcome), None)


# -- what a result is -------------------------------------------------------------------------------------


def _was_seen(ledger: DoomLedger, made: Made) -> bool:
    known = {(before.tool, before.outcome) for before in ledger.window if before is not made}
    return (made.tool, made.outcome) in known


def _kind_of(text: str, is_error: bool, *, said_before: bool) -> Kind:
    if is_error:  # that each of several things is missing is an answer; the same complaint again is not
        return "empty" if not said_before and _MISSING.search(text[:MASKED]) else "error"
    if len(text) >= LONG:
        return "long"
    return "empty" if _NOTHING_FOUND.match(text) or _EMPTY_JSON.fullmatch(text) else "plain"


def _shape_of(made: Made, call: ToolCall, text: str, is_error: bool) -> str:
    """Errors are the same if they differ only in numbers and in what was asked for."""
    if made.kind == "plain":
        return ""
    if made.kind == "long":
        return _digest(f"{made.tool} {made.outcome}")
    if made.kind == "empty" and not is_error:
        return _digest(f"{made.tool} nothing")
    text = text[:MASKED]
    for value in sorted(islice(_strings(call.arguments), MASKS), key=len, reverse=True):
        text = text.replace(value, "?")
    return _digest(f"{made.tool} {_DIGITS.sub('#', text)}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if 2 <= len(value) <= LONG:
            yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _is_news(ledger: DoomLedger, made: Made) -> bool:
    earlier = [before for before in ledger.window if before is not made]
    if made.shape:
        return made.kind != "empty" and all(before.shape != made.shape for before in earlier)
    return all((before.call, before.outcome) != (made.call, made.outcome) for before in earlier)


def _call_key(call: ToolCall) -> str:
    return _digest(f"{call.name} {call.invalid or json.dumps(call.arguments, sort_keys=True)}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# -- until tool_round.py uses the above ----------------------------------------------------------------------
