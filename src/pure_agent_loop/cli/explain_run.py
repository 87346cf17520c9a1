"""Show a recorded run in loop order: each value, its event or record, and the line that produced it.

The run is replayed offline, so the lines are those of the current code.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pure_agent_loop
from pure_agent_loop.cli.database import store_for
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import CommandOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.which_session import existing
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.support.language import LANGUAGE_VARIABLE, notice, user_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import to_jsonable

_OPTIONS = {"explain_run", "database", "output_format", "quiet", "language", "task"}
_PACKAGE = Path(pure_agent_loop.__file__).parent
_LOOP = Path("kernel", "loop.py")
_REPLAY = "sessions"  # the package that replays the run
_MAX_VALUE = 120
Line = tuple[Path, int]  # file within the package, and line number


@dataclass(frozen=True)
class _Value:
    """A value of the run.

    Args:
        name: Type of its event, key of its record, or ``checkpoint``.
        way: Lines from the loop to the line that made the value, outermost first.
        step: Step of the session, from 1.
    """

    name: str
    value: Any
    way: tuple[Line, ...]
    run: int
    step: int

    @property
    def in_loop(self) -> Line:
        """The line of the loop that led to the value."""
        return next(line for line in reversed(self.way) if line[0] == _LOOP)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        lines = [f"{file.as_posix()}:{number}" for file, number in self.way]
        return {"run": self.run, "step": self.step, "name": self.name, "lines": lines, "value": self.value}

    def rows(self) -> list[str]:
        """Return the value as text and, if code outside the loop made it, the line that made it."""
        value = one_line(json.dumps(_without_empty(self.value), ensure_ascii=False), _MAX_VALUE)
        rows, inner = [f"    {self.name}  {value}"], [line for line in self.way if line[0] != _LOOP]
        if inner:
            before = "".join(f"{file.as_posix()}:{number} > " for file, number in inner[:-1])
            rows.append(f"        {before}{_source(inner[-1])}")
        return rows


class _Walk:
    """Collects the values of a session, in the order in which the loop makes them."""

    def __init__(self) -> None:
        self.values: list[_Value] = []
        self._run, self._step, self._step_of_run = 0, 0, 0
        self._early: list[_Value] = []  # values that precede their step
        self._in_loop: tuple[Line, ...] = ()

    def add(self, name: str, value: Any) -> None:
        """Add an event, the recorded value of an effect, or the state at a checkpoint."""
        step = value.step if hasattr(value, "step") else _number(name)
        if name == "loop_start":
            self._run, self._step_of_run = self._run + 1, 0
        added = _Value(name, _plain(value), self._way(), self._run, self._step)
        if step == 0:
            self._early.append(added)
            return
        if step != self._step_of_run:
            self._step, self._step_of_run = self._step + 1, step
        self.values += [replace(early, step=self._step) for early in (*self._early, added)]
        self._early = []

    def all_values(self) -> list[_Value]:
        """Return all values; values after the last step are assigned to that step."""
        return [*self.values, *self._early]

    def _way(self) -> tuple[Line, ...]:
        lines, frame = list[Line](), sys._getframe(2)
        while frame.f_back is not None:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(_PACKAGE) and (part := file.relative_to(_PACKAGE)).parts[0] != _REPLAY:
                lines.insert(0, (part, frame.f_lineno))
            frame = frame.f_back
        if lines and lines[0][0] == _LOOP:
            self._in_loop = tuple(line for line in lines if line[0] == _LOOP)
            return tuple(lines)
        return (*self._in_loop, *lines)  # a call runs in its own task, which the loop waits for


def _number(key: str) -> int:
    """Return the step in a record's key; 0 if the key has none, as for incoming messages."""
    step = key.partition(":")[0]
    return int(step) if step.isdecimal() else 0


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()["data"]
    if hasattr(value, "messages"):
        return {
            "messages": len(value.messages),
            "usage": value.usage.to_dict(),
            "stop_reason": value.stop_reason,
        }
    return to_jsonable(value)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item not in (None, "", [], {})}
    return value


def _source(line: Line) -> str:
    file, number = line
    return f"{file.as_posix()}:{number}  {linecache.getline(str(_PACKAGE / file), number).strip()}"


def explain_run(options: CommandOptions, output: CommandOutput) -> int:
    """Print the steps of a recorded session, or one of them, and return the exit code.

    Raises:
        ConfigError: An option or the step is invalid, or the session has no run.
        SessionNotFoundError: The session does not exist.
    """
    if options.language:
        os.environ[LANGUAGE_VARIABLE] = options.language
    wanted = " ".join(options.task)
    if others := sorted(options.typed_options - _OPTIONS):
        raise ConfigError(notice("cli.explain_run_option", option=f"--{others[0].replace('_', '-')}"))
    walk = _Walk()
    with store_for(options.database) as store:
        loaded = store.read(existing(str(options.explain_run), store))
    report = replay_session(loaded.records, watch=walk.add)
    steps = {str(step): list(group) for step, group in groupby(walk.all_values(), lambda value: value.step)}
    if wanted and wanted not in steps:
        raise ConfigError(notice("cli.explain_run_step", step=wanted, most=len(steps)))
    shown = {wanted: steps[wanted]} if wanted else steps
    if options.output_format in ("text", "code"):
        output.result("\n".join(_lines(shown)) + "\n")
    else:
        kind = {"type": "walk"} if options.output_format == "stream-json" else {}
        output.json({**kind, "values": [value.to_dict() for group in shown.values() for value in group]})
    if report.difference is not None:
        output.fail(str(report.difference))
    return DONE if report.difference is None else FAILED


def _lines(steps: Mapping[str, Sequence[_Value]]) -> list[str]:
    lines, seen = list[str](), set[Line]()
    for step, values in steps.items():
        lines.append(user_text("cli.explain_run_head", step=step, run=values[-1].run))
        for at, group in groupby(values, lambda value: value.in_loop):
            seen.add(at)
            lines += [_source(at), *(row for value in group for row in value.rows())]
        lines.append("")
    return [*lines, user_text("cli.explain_run_end", lines=len(seen), values=sum(map(len, steps.values())))]
