"""Outcomes of trials, and the file that has a line for each, so that an evaluation can be resumed."""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeAlias

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.identity import PARTS
from pure_agent_loop.support.disk import write_all
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.locking import try_lock
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import as_text, shorten, to_jsonable
from pure_agent_loop.support.typed import mistyped

LOG = logging.getLogger("pure_agent_loop.evaluation")
Values: TypeAlias = "dict[str, array[float]]"  # numbers by name, one for each trial
MEASURES = ("seconds", "steps", "tokens", "cost")
MAX_SPOOLED = 1_000_000  # maximum bytes of outcomes in memory; more go into a temporary file
MAX_ROWS, MAX_CHARS = 500, 5_000  # maximum rows and characters shown in a notebook
_MARKS = {True: "✓", False: "✗"}
_HEAD = b'{"identity":'  # first bytes of each line of an outcome file; files without them are not changed


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of one trial.

    Args:
        case: Name of the case.
        repeat: Number of the repetition, from 1.
        passed: True if the run completed and no evaluator returned False.
        scores: Score by evaluator name: True or False, or a number (higher is better).
        notes: Further texts that evaluators returned.
        output: Output of the agent, as JSON.
        stop_reason: Why the run ended.
        error: Error of the run or of an evaluator; empty if there is none.
        tools: The tools that were called.
        calls: The calls, in order: ``{"tool", "args"}``.
        messages: The history of the run; empty in a report that was saved without messages.
        seconds: Duration of the run in seconds.
        steps: Number of steps.
        tokens: Number of tokens.
        cost: Cost of the run; None if unknown.
        session: Session that recorded the run; empty if none did.
        system_prompt: System prompt of the last request; empty if it had none.
        offered: The tools of the requests, as sent: ``{"type": "function", "function": {...}}``.
        token_details: For each assistant message in `messages`, the server's report about its tokens, as in
            ``LLMResponse.token_details``, or None; empty if the server reported nothing.
    """

    case: str
    repeat: int
    passed: bool
    scores: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    output: Any = None
    stop_reason: str = ""
    error: str = ""
    tools: list[str] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    calls: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list, repr=False)
    session: str = ""
    system_prompt: str = ""
    offered: list[dict[str, Any]] = field(default_factory=list, repr=False)
    token_details: list[dict[str, Any] | None] = field(default_factory=list, repr=False)

    @property
    def right(self) -> bool:
        """Same as `passed`."""
        return self.passed

    def why(self) -> str:
        """Reason for the failure, in one line."""
        notes = [f"{name}: {text}" for name, text in self.notes.items()]
        wrong = [name for name, score in self.scores.items() if score is False]
        ended = (
            []
            if self.stop_reason in ("completed", "error", "invalid_output")
            else [f"stop_reason {self.stop_reason}"]
        )
        session = f"session {self.session}" if self.session else ""
        parts = [*ended, ", ".join(wrong), self.error, f"output {self.output!r:.120}", *notes, session]
        return "; ".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        """Return the output, the calls and the messages as HTML for notebooks."""
        from pure_agent_loop.support.prose import escaped, folded_table, prose_to_html

        output = shorten(as_text(self.output), 4 * MAX_CHARS)
        why = "" if self.passed else f"<p>{escaped(shorten(self.why(), MAX_CHARS))}</p>"
        calls = [[call["tool"], shorten(as_text(call["args"]), MAX_CHARS)] for call in self.calls]
        messages = [
            [
                str(message["role"]),
                shorten(as_text(message.get("content") or message.get("tool_calls") or ""), MAX_CHARS),
            ]
            for message in self.messages[:MAX_ROWS]
        ]
        parts = [
            f"<p>{escaped(f'{_MARKS[self.passed]} {self.case} ({self.repeat})')}</p>{why}",
            prose_to_html(output) if isinstance(self.output, str) else f"<pre>{escaped(output)}</pre>",
            folded_table("call", ["tool", "arguments"], calls),
            folded_table("message", ["role", "content"], messages),
        ]
        return f"<div>{''.join(parts)}</div>"


class OutcomeLine(NamedTuple):
    """A line of the file.

    Args:
        identity: Value of each of `PARTS`.
        name: Name of the dataset.
        about: Model and settings of the run.
        outcome: The outcome.
    """

    identity: list[Any]
    name: str
    about: dict[str, Any]
    outcome: CaseOutcome


class StoredOutcomes(Sequence[CaseOutcome]):  # noqa: PLW1641 - as unhashable as a list
    """Outcomes in a file; only the offsets are in memory.

    Args:
        file: The file; closed with this object.
        offsets: Offset of each outcome in the file, in bytes.
    """

    def __init__(self, file: IO[bytes], offsets: Sequence[int]) -> None:
        self._file, self._offsets, self._lock = file, array("q", offsets), threading.Lock()
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._read(offset) for offset in self._offsets[index]]
        return self._read(self._offsets[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    @cached_property
    def scored(self) -> dict[str, Values]:
        """Values of the outcomes by case; see `scored`."""
        return scored(iter(self))

    def _read(self, offset: int) -> CaseOutcome:
        with self._lock:
            self._file.seek(offset)
            line = self._file.readline()
        return CaseOutcome(**read_json(line)["outcome"])


def scored(outcomes: Iterable[CaseOutcome]) -> dict[str, Values]:
    """Return the values of outcomes by case: ``passed``, each score, and `MEASURES`; NaN if unknown."""
    if isinstance(outcomes, StoredOutcomes):
        return outcomes.scored
    cases: dict[str, Values] = {}
    for outcome in outcomes:
        values = cases.setdefault(outcome.case, {})
        measures = {name: getattr(outcome, name) for name in MEASURES}
        for name, value in {"passed": outcome.passed, **outcome.scores, **measures}.items():
            values.setdefault(name, array("d")).append(math.nan if value is None else value)
    return cases


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of an evaluation: all repetitions of each case.

    Args:
        cases: Names of the cases.
        repeats: Number of trials per case.
        identity: Function of a case number and a repetition number, both from 0, that returns the value of
            each of `PARTS`.
    """

    cases: Sequence[str]
    repeats: int
    identity: Callable[[int, int], list[Any]]

    def __len__(self) -> int:
        return len(self.cases) * self.repeats

    def split(self, place: int) -> tuple[int, int]:
        """Return the case number and the repetition number of a trial, both from 0."""
        return divmod(place, self.repeats)


class _TemporaryFile(tempfile.SpooledTemporaryFile[bytes]):
    """Temporary file that is closed once no object refers to it."""

    def __del__(self) -> None:
        self.close()


class OutcomeFile:
    """File of outcomes, open for appending and locked against other processes.

    Args:
        path: The file; created if missing. A line that a killed process left unfinished is removed. None for
            a temporary file.
        name: Name of the dataset.
        about: Model and settings of the run.
        trials: The trials of the evaluation.

    Raises:
        ConfigError: The file cannot be opened, another process has it open, or it is not an outcome file.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, name: str, about: Mapping[str, Any], trials: Trials
    ) -> None:
        self._trials, self._path, self._end = trials, path, 0
        self._head: dict[str, Any] = {"name": name, "about": to_jsonable(about)}
        self._offsets = array("q", [-1]) * len(trials)
        if path is None:
            self._file: IO[bytes] = _TemporaryFile(max_size=MAX_SPOOLED)
            return
        try:
            self._file = Path(path).open("ab+", buffering=0)  # noqa: SIM115 - closed by `close`
            self._find_finished(self._file, Path(path))
        except OSError as error:
            raise _unwritable(path, error) from error
        except ConfigError:
            self.close()
            raise

    def _find_finished(self, file: BinaryIO, path: Path) -> None:
        """Lock the file, find its finished outcomes, remove an unfinished line, and warn about others.

        Outcomes with an error do not count as finished. The warnings do not count outcomes of other models,
        because a file may have outcomes of several models.
        """
        if not try_lock(file.fileno()):
            raise ConfigError(notice("library.outcomes_locked", path=path))
        numbers = {name: number for number, name in enumerate(self._trials.cases)}
        others = array("b", [0]) * len(self._trials)  # for each trial, a bit per differing part of `PARTS`
        for offset, end, line in read_lines(path):
            self._end, repeat = end, line.outcome.repeat - 1
            number = numbers.get(line.outcome.case)
            if number is None or not 0 <= repeat < self._trials.repeats:
                continue
            place, wanted = number * self._trials.repeats + repeat, self._trials.identity(number, repeat)
            if line.identity == wanted:
                self._offsets[place] = offset if _is_finished(line.outcome) else -1
                others[place] = -1
            elif others[place] >= 0 and line.about.get("model") == self._head["about"].get("model"):
                others[place] = sum(
                    1 << bit
                    for bit, pair in enumerate(zip(line.identity, wanted, strict=True))
                    if len({*pair}) > 1
                )
        file.truncate(self._end)
        for bit, part in enumerate(PARTS):
            if count := sum(mask > 0 and mask >> bit & 1 for mask in others):
                what = user_text(f"library.outcomes_{part}")
                LOG.warning(user_text("library.outcomes_of_others", path=path, count=count, part=what))

    def places(self, *, finished: bool) -> Iterator[int]:
        """Yield the trials that have a finished outcome, or those that have none."""
        return (place for place, offset in enumerate(self._offsets) if (offset >= 0) is finished)

    def outcomes(self) -> StoredOutcomes:
        """Return the finished outcomes in the order of the trials."""
        file = self._file if self._path is None else Path(self._path).open("rb")  # noqa: SIM115 - closed with the outcomes
        return StoredOutcomes(file, [self._offsets[place] for place in self.places(finished=True)])

    def add(self, place: int, outcome: CaseOutcome) -> None:
        """Append an outcome.

        Raises:
            ConfigError: The file cannot be written.
        """
        identity = self._trials.identity(*self._trials.split(place))
        plain = {"identity": identity, **self._head, "outcome": to_jsonable(outcome)}
        line = json.dumps(plain, ensure_ascii=False).encode() + b"\n"
        try:
            if self._path is None:
                self._file.seek(self._end)
                self._file.write(line)
            else:
                write_all(self._file.fileno(), line)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._offsets[place], self._end = self._end, self._end + len(line)

    def close(self) -> None:
        """Close the file, so that other processes can open it. A temporary file stays open for reading."""
        if self._path is not None:
            self._file.close()


class AgentOutcomes(NamedTuple):
    """Outcomes of an agent in a file.

    Args:
        name: Name of the dataset.
        outcomes: The newest outcome of each trial, in the order of cases.
        about: Model and settings of the run.
    """

    name: str
    outcomes: StoredOutcomes
    about: dict[str, Any]


def read_outcomes(path: Path) -> list[AgentOutcomes]:
    """Read the outcomes in a file by agent, in the order in which the agents were last used.

    Raises:
        ConfigError: The file has other content.
        ValueError: The file has no outcomes.
        OSError: The file cannot be read.
    """
    agents: dict[str, tuple[str, dict[str, Any], dict[tuple[str, int], int]]] = {}
    for offset, _, line in read_lines(path):
        _, _, offsets = agents.pop(line.identity[0], ("", {}, {}))
        offsets[line.outcome.case, line.outcome.repeat] = offset
        agents[line.identity[0]] = line.name, line.about, offsets
    if not agents:
        raise ValueError("it has no outcomes")
    read = []
    for name, about, offsets in agents.values():
        order = {case: number for number, case in enumerate(dict.fromkeys(case for case, _ in offsets))}
        places = sorted(offsets, key=lambda place: (order[place[0]], place[1]))
        file = path.open("rb")
        read.append(AgentOutcomes(name, StoredOutcomes(file, [offsets[place] for place in places]), about))
    return read


def read_lines(path: Path) -> Iterator[tuple[int, int, OutcomeLine]]:
    """Yield the complete lines of a file, each with its start and end offset.

    Raises:
        ConfigError: The file has other content.
        OSError: The file cannot be read.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(notice("library.outcomes_foreign", path=path, line=1))
    with path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, 1):
            is_whole = line.endswith(b"\n")
            entry = _parse(line) if is_whole else None
            if entry is not None:
                yield offset, offset + len(line), entry
            elif is_whole or not _HEAD.startswith(line[: len(_HEAD)]):
                raise ConfigError(notice("library.outcomes_foreign", path=path, line=number))
            offset += len(line)


def _parse(line: bytes) -> OutcomeLine | None:
    """Return the content of a line; None if it is not an outcome."""
    try:
        plain = read_json(line)
        entry = OutcomeLine(plain["identity"], plain["name"], plain["about"], CaseOutcome(**plain["outcome"]))
        problem = mistyped(entry, OutcomeLine) or len(entry.identity) != len(PARTS)
    except (ValueError, TypeError, KeyError):
        return None
    return None if problem else entry


def _is_finished(outcome: CaseOutcome) -> bool:
    """Return False if the run failed or was cancelled, or an evaluator failed."""
    has_error = bool(outcome.error) and outcome.stop_reason != "invalid_output"
    return not has_error and outcome.stop_reason not in ("error", "cancelled")


def _unwritable(path: object, error: OSError) -> ConfigError:
    return ConfigError(notice("library.cannot_be_written", path=path, error=error.strerror or error))


# Former name of this class.
Outcome = CaseOutcome
