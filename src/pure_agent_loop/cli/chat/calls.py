"""Tool calls, subtasks and task lists, a line each; and what unfolds behind a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pure_agent_loop.cli.chat.safe import Ink, clean, one_line, reads_right_to_left
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.events import Event
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from rich.text import Text

# The argument that says most about a call, in this order.
MAIN = ("command", "path", "file_path", "pattern", "query", "url", "question", "prompt", "task", "name")
SHORT_RESULT = 40  # characters of a result that stand in the line of its call
TODO_TOOL = "todo_write"
LEAST_ARGUMENT = 8  # columns; a short result gives way to it
_ERROR = lazy_pattern(r"^(?:Error: |错误信息：)(.+)$", re.M)  # of what a model reads about a failure
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_A_SECOND = 4
_TODO = ("todo_pending", "todo_in_progress", "todo_done")
_TODO_MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}

CallState = Literal["waiting", "running", "done", "failed", "stopped"]
_SIGNS: Mapping[CallState, tuple[str, str]] = {
    "waiting": ("warning", "?"),
    "running": ("label", "•"),
    "done": ("done", "✓"),
    "failed": ("error", "✗"),
    "stopped": ("warning", "■"),
}


@dataclass(slots=True)
class Call:
    """A tool call as it is shown.

    Args:
        tool: The tool.
        args: Its arguments.
        state: How far it is.
        started: Seconds since the epoch.
        duration: Seconds it took.
        result: What came out; of a running one what it says of itself.
        refused: Why it was not allowed; empty if it was.
    """

    tool: str
    args: Any
    state: CallState
    started: float
    duration: float = 0.0
    result: str = ""
    refused: str = ""


def id_of(event: Event) -> str:
    """Names the call that an event is about."""
    return str(event.data.get("call_id") or event.data.get("tool", ""))


def made_of(event: Event, state: CallState) -> Call:
    """The call that an event is about."""
    return Call(str(event.data.get("tool", "")), event.data.get("args"), state, event.timestamp)


@dataclass(frozen=True, slots=True)
class Folded:
    """What stands behind a folded line.

    Args:
        title: The line.
        sections: A name (a key of the words) and a text each.
    """

    title: Text
    sections: tuple[tuple[str, str], ...]


def seconds(value: float) -> str:
    """Such as ``3.2 s``, ``3 s`` (of an int), ``1:05`` or ``2:03:00``."""
    if value < 10 and isinstance(value, float):
        return f"{max(value, 0.0):.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def main_argument(args: Any) -> str:
    """The argument that says most about a call, on one line."""
    if not isinstance(args, Mapping):
        return one_line(str(args))
    named = [args[name] for name in MAIN if isinstance(args.get(name), str)]
    texts = named or [value for value in args.values() if isinstance(value, str)]
    if texts:
        return one_line(texts[0])
    return one_line(json.dumps(to_jsonable(args), ensure_ascii=False)) if args else ""


class Lines:
    """Makes the lines of calls, subtasks and task lists.

    Args:
        ink: Makes lines for the terminal.
        words: Says our words.
        animation: Whether running work moves.
    """

    def __init__(self, ink: Ink, words: Words, animation: bool) -> None:
        self._ink, self._words, self._animation = ink, words, animation

    def sign(self, state: CallState, now: float) -> tuple[str, str]:
        """The role and the sign of a state, a word for a screen reader."""
        role, sign = _SIGNS[state]
        if self._ink.reader:
            return role, f"{self._words(state)}: "
        if state == "running" and self._animation:
            sign = FRAMES[int(now * FRAMES_A_SECOND) % len(FRAMES)]
        return role, f"{sign} "

    def call(self, call: Call, width: int, now: float) -> Text:
        """The line of a call in any state."""
        detail, role = self._detail(call, now)
        head = [self.sign(call.state, now), ("bold", one_line(call.tool, 60))]
        argument = "" if call.tool == TODO_TOOL else main_argument(call.args)
        if reads_right_to_left(argument):
            argument = f"({self._words('right_to_left')}) {argument}"
        room = width - self._ink.text(*head).cell_len - 2
        tail = self._ink.text((role, f"  {detail}" if detail else ""))
        if room - tail.cell_len < LEAST_ARGUMENT:
            tail.truncate(max(room - LEAST_ARGUMENT, 0), overflow="ellipsis")
        middle = self._ink.fit(self._ink.text(("", argument)), max(room - tail.cell_len + 1, 1))
        line = self._ink.text(*head, ("", " " if argument else ""))
        return self._ink.fit(line.append_text(middle if argument else tail[:0]).append_text(tail), width)

    def _detail(self, call: Call, now: float) -> tuple[str, str]:
        if call.state == "waiting":
            return ("" if self._ink.reader else self._words("waiting")), "warning"
        if call.state == "running":
            took = now - call.started
            facts = [seconds(took) if took >= 1 and self._animation else "", one_line(call.result, 60)]
            return ", ".join(fact for fact in facts if fact), "dim"
        if call.state == "stopped":
            return ("" if self._ink.reader else self._words("stopped")), "dim"
        took_text = f"{seconds(call.duration)}, " if call.duration >= 0.05 else ""
        return took_text + self._short_result(call), "error" if call.state == "failed" else "dim"

    def _short_result(self, call: Call) -> str:
        text = clean(call.result).strip()
        first, _, rest = text.partition("\n")
        if call.tool == TODO_TOOL and call.state == "done":
            return ""
        if call.refused:
            said, why = self._words("refused"), one_line(call.refused)
            return said if why == said else f"{said}: {why}"
        if not text:
            return self._words("no_output")
        if call.state == "failed" and (found := _ERROR.search(text)):
            first = found.group(1)
        if call.state == "failed" or (not rest and len(text) <= SHORT_RESULT):
            return one_line(first)
        return self._words("lines", count=rest.count("\n") + 1 + bool(rest))

    def folded(self, call: Call, title: Text) -> Folded:
        """All of a call."""
        args = call.args if isinstance(call.args, Mapping) else {"": call.args}
        sections = (
            (str(name), each if isinstance(each, str) else _json(each)) for name, each in args.items()
        )
        return Folded(title, (*sections, ("result", call.result)))

    def task(self, task: Mapping[str, Any], width: int, now: float) -> Text:
        """The line of a subtask in any state."""
        state = str(task.get("state", ""))
        ended, started = number(task.get("ended")), number(task.get("started"))
        failed = state in ("failed", "killed", "cancelled")
        sign = self.sign("failed" if failed else "done" if ended else "running", now)
        facts = [one_line(str(task.get("last_tool") or ""), 40) if not ended else one_line(state, 40)]
        for name in ("calls", "tokens"):
            count = int(number(task.get(name)))
            facts.append(self._words(name, count=f"{count:,}") if count else "")
        if started and (ended or self._animation):
            facts.append(seconds((ended or now) - started))
        error = one_line(str(task.get("error") or ""))
        line = self._ink.text(sign, ("bold", one_line(str(task.get("id", "")), 40)))
        line.append_text(self._ink.text(("dim", " " + ", ".join(fact for fact in facts if fact))))
        return self._ink.fit(
            line.append_text(self._ink.text(("error", f": {error}" if error else ""))), width
        )

    def todo(self, args: Any) -> list[Text]:
        """A task list that the model wrote; empty if `args` are none."""
        items = args.get("items") if isinstance(args, Mapping) else None
        lines = []
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, Mapping):
                continue
            status = str(item.get("status", "pending"))
            mark = _TODO_MARKS.get(status, "[ ]")
            if self._ink.reader and f"todo_{status}" in _TODO:
                mark = f"{self._words(f'todo_{status}')}:"
            role = {"done": "dim", "in_progress": "bold"}.get(status, "")
            lines.append(self._ink.text(("label", f"  {mark} "), (role, one_line(str(item.get("task", ""))))))
        return lines


def number(value: Any) -> float:
    """A number out of foreign data; 0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0


def _json(value: Any) -> str:
    return json.dumps(to_jsonable(value), ensure_ascii=False, indent=2)
