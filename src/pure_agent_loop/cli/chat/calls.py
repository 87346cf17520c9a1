"""Render tool calls, subagent tasks and to-do lists as lines that can be unfolded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pure_agent_loop.cli.chat.styling import Styler, clean, one_line, reads_right_to_left
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.events import Event
from pure_agent_loop.permissions import EDIT_TOOLS
from pure_agent_loop.support.language import table
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.toolbox import TODO_TOOL

if TYPE_CHECKING:
    from rich.text import Text

# The arguments that identify a call best, in this order.
MAIN = ("command", "path", "file_path", "pattern", "query", "url", "question", "prompt", "task", "name")
READ_TOOL = "read_file"
MAX_SPOKEN = 8_000  # maximum characters of an argument for a screen reader
SHORT_RESULT = 40  # maximum characters of a result on its call's line
TAIL_LINES, TAIL_CHARS = 4, 2_000  # maximum lines and characters of a running call's output
MIN_ARGUMENT = 8  # minimum columns for the call; the result is cut to fit beside it
_ERROR = lazy_pattern(r"^(?:Error: |错误信息：)(.+)$", re.M)  # matches the first line of an error result
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_A_SECOND = 4
_TODO = ("todo_pending", "todo_in_progress", "todo_done")
_BACKGROUND = {"start": "background_start", "read": "background_read", "end": "background_end"}
_TODO_MARKS = {"pending": "☐", "in_progress": "▸", "done": "☑"}

CallState = Literal["waiting", "running", "done", "failed", "denied", "stopped"]
_TEXT_ROLES: Mapping[CallState, str] = {"failed": "error", "denied": "warning"}
_SIGNS: Mapping[CallState, tuple[str, str]] = {
    "waiting": ("warning", "?"),
    "running": ("label", "•"),
    "done": ("done", "✓"),
    "failed": ("error", "✗"),
    "denied": ("warning", "⊘"),
    "stopped": ("warning", "■"),
}


@dataclass(slots=True)
class CallView:
    """A tool call as displayed.

    Args:
        started: Start time in seconds since the epoch.
        has_begun: True once the call is running; before that, its permission is being decided.
        duration: Duration of the call in seconds.
        title: The tool's own title for the call; empty if it has none.
        result: The result; for a running call, the end of its output so far.
        refused: Why the call was denied; empty if it was not denied.
        unasked: True if nobody was asked about the call, because the call would fail.
        command: How the command of the call ended; see `Event.observation`.
        has_task: True if the call started a subagent task, which has a separate line.
    """

    tool: str
    args: Any
    state: CallState
    started: float
    has_begun: bool = False
    duration: float = 0.0
    title: str = ""
    result: str = ""
    refused: str = ""
    unasked: bool = False
    command: Mapping[str, Any] = field(default_factory=dict)
    has_task: bool = False


def id_of(event: Event) -> str:
    """Return the call id of an event."""
    return str(event.data.get("call_id") or event.data.get("tool", ""))


def made_of(event: Event, state: CallState) -> CallView:
    """Create the view of an event's call."""
    data = event.data
    title = one_line(str(data.get("title") or ""))
    return CallView(str(data.get("tool", "")), data.get("args"), state, event.timestamp, title=title)


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded block.

    Args:
        sections: Pairs of name (a message key or an argument name) and text.
    """

    title: Text
    sections: tuple[tuple[str, str], ...]


def seconds(value: float) -> str:
    """Format seconds, such as ``3.2 s``, ``3 s`` (for an int), ``1:05`` or ``2:03:00``."""
    if value < 10 and isinstance(value, float):
        return f"{max(value, 0.0):.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def main_argument(args: Any, limit: int = 200) -> str:
    """Return the argument that identifies a call best, on one line of about `limit` characters."""
    if not isinstance(args, Mapping):
        return one_line(str(args), limit)
    named = [args[name] for name in MAIN if isinstance(args.get(name), str)]
    texts = named or [value for value in args.values() if isinstance(value, str)]
    if texts:
        return one_line(texts[0], limit)
    return one_line(json.dumps(to_jsonable(args), ensure_ascii=False), limit) if args else ""


class Lines:
    """Renders calls, subagent tasks and to-do lists.

    Args:
        animation: True to animate running calls and show elapsed seconds.
    """

    def __init__(self, styler: Styler, words: Words, animation: bool) -> None:
        self._styler, self._words, self._animation = styler, words, animation
        self._limit = MAX_SPOKEN if styler.reader else 200

    def sign(self, state: CallState, now: float) -> tuple[str, str]:
        """Return the role and the sign of a state; the sign is a word for a screen reader."""
        role, sign = _SIGNS[state]
        if self._styler.reader:
            return role, f"{self._words(state)}: "
        if state == "running" and self._animation:
            sign = FRAMES[int(now * FRAMES_A_SECOND) % len(FRAMES)]
        return role, f"{sign} "

    def call(self, call: CallView, width: int, now: float) -> Text:
        """Render a call."""
        facts, reason, role = self._detail(call, now)
        head = [self.sign(call.state, now)]
        title = "" if call.refused or call.unasked else call.title  # the call has not run
        if title:
            argument = title if call.state in ("running", "waiting") else title.rstrip("…?？")
        else:
            head.append(("bold", self.verb(call)))
            argument = "" if call.tool == TODO_TOOL else main_argument(call.args, self._limit)
        if reads_right_to_left(argument):
            argument = f"({self._words('right_to_left')}) {argument}"
        unasked = f"  ({self._words('not_asked')})" if call.unasked else ""
        argument_style = "bold" if title else ""
        between = "  " if not facts else ", " if self._styler.reader else " · "
        end = [(role, f"  {facts}" if facts else ""), (role, f"{between}{reason}" if reason else "")]
        end += [("", "")] if call.state == "done" else []  # the result is short: do not cut it
        return self._line(head, (argument_style, argument), end, width, kept=(role, unasked))

    def _line(
        self,
        head: Sequence[tuple[str, str]],
        argument: tuple[str, str],
        end: Sequence[tuple[str, str]],
        width: int,
        kept: tuple[str, str] = ("", ""),
    ) -> Text:
        """Render a line that fits the width: the last part of `end` is cut first, then the argument.

        The other parts of `end` are not cut, and `end` may take a third of the room, unless that leaves the
        argument fewer than `MIN_ARGUMENT` columns. The text `kept`, at the end of the line, is never cut.
        """
        last = self._styler.text(kept)
        room = width - self._styler.text(*head).cell_len - last.cell_len - 2
        tail, middle = self._styler.text(*end), self._styler.text(argument)
        if not self._styler.reader:
            least = max(self._styler.text(*end[:-1]).cell_len, room // 3)
            wanted = min(max(room - middle.cell_len, least), room - MIN_ARGUMENT)
            tail.truncate(max(wanted, 0), overflow="ellipsis")
        middle = self._styler.fit(middle, max(room - tail.cell_len + 1, 1))
        tail.append_text(last)
        line = self._styler.text(*head, ("", " " if argument[1] and len(head) > 1 else ""))
        return self._styler.fit(
            line.append_text(middle if argument[1] else tail[:0]).append_text(tail), width
        )

    def verb(self, call: CallView) -> str:
        """Return the action of a call in the present or past tense; the tool's name if it has no verb."""
        has_run = call.state in ("done", "failed") and not call.unasked
        key = f"{'did' if has_run else 'do'}_{call.tool}"
        return self._words(key) if key in table("screen", "en") else one_line(call.tool, 60)

    def _detail(self, call: CallView, now: float) -> tuple[str, str, str]:
        """Return a call's facts, its result or failure reason, and the role for both texts."""
        if call.state == "waiting":
            return ("" if self._styler.reader else self._words("waiting")), "", "warning"
        if call.state == "running":
            took = now - call.started
            return seconds(took) if took >= 1 and self._animation else "", "", "dim"
        if call.state == "stopped":
            return ("" if self._styler.reader else self._words("stopped")), "", "dim"
        facts, output = [seconds(call.duration) if call.duration >= 1 else ""], self._short_result(call)
        if code := call.command.get("exit_code"):
            facts, output = [*facts, self._words("exit_code", code=code)], ""
        what = str(call.args.get("background")) if isinstance(call.args, Mapping) else ""
        if call.state == "done" and not call.command and what in _BACKGROUND:
            facts, output = [*facts, self._words(_BACKGROUND[what])], output if what == "read" else ""
        if call.command.get("read_only"):
            facts.append(self._words("read_only"))
        return ", ".join(filter(None, facts)), output, _TEXT_ROLES.get(call.state, "dim")

    def tail(self, call: CallView) -> list[Text]:
        """Render the last lines of a running call, or of a command that failed."""
        text = call.result if call.state == "running" else ""
        if call.command.get("exit_code"):
            text = str(call.command.get("tail") or "")
        lines = [one_line(line, self._limit) for line in clean(text).split("\n") if line.strip()][
            -TAIL_LINES:
        ]
        return [self._styler.text(("dim", f"  {line}")) for line in lines]

    def _short_result(self, call: CallView) -> str:
        text = clean(call.result).strip()
        first, _, rest = text.partition("\n")
        if call.command.get("exit_code") == 0 and call.state == "done":
            return self._short_output(call.command)
        if call.tool == TODO_TOOL and call.state == "done":
            items = [item for item in items_of(call.args) if isinstance(item, Mapping)]
            done = sum(item.get("status") == "done" for item in items)
            return f"{done}/{len(items)}" if items else ""
        if call.tool in EDIT_TOOLS and call.state == "done":
            return ""  # not shown, because the change itself is shown
        if call.refused:
            denied, reason = self._words("refused"), one_line(call.refused, self._limit)
            return denied if reason == denied else f"{denied}: {reason}"
        if not text:
            return self._words("no_output")
        if call.state == "failed" and (error := _ERROR.search(text)):
            first = error.group(1)
        if call.state == "failed" or (not rest and len(text) <= SHORT_RESULT):
            return one_line(first, self._limit)
        return self._words("lines", count=rest.count("\n") + 1 + bool(rest))

    def _short_output(self, command: Mapping[str, Any]) -> str:
        """Return a summary of a successful command's output: the last line, or the number of lines."""
        count, last = int(number(command.get("lines"))), str(command.get("tail") or "").rpartition("\n")[2]
        if not count:
            return self._words("no_output")
        return one_line(last) if len(last) <= SHORT_RESULT else self._words("lines", count=count)

    def folded(self, call: CallView, title: Text) -> Folded:
        """Return the arguments and the result of a call as a folded block."""
        args = call.args if isinstance(call.args, Mapping) else {"": call.args}
        sections = (
            (str(name), value)
            if isinstance(value, str)
            else (str(name), json.dumps(to_jsonable(value), ensure_ascii=False, indent=2))
            for name, value in args.items()
        )
        name = "error" if call.state == "failed" and not call.command else "result"
        return Folded(title, (*sections, (name, self._output(call))))

    def _output(self, call: CallView) -> str:
        """Return a command's output without the notes for the model; the whole result for other calls."""
        lines, tail = call.result.splitlines(), str(call.command.get("tail") or "").splitlines()
        count = int(number(call.command.get("lines", -1)))
        if count == 0:
            return self._words("no_output")
        # A result changed by a hook or a limit lacks the output's last line, and is then returned whole.
        is_whole = bool(tail) and 0 < count <= len(lines) and lines[count - 1].endswith(tail[-1])
        return "\n".join(lines[:count]) if is_whole else call.result

    def task(self, task: Mapping[str, Any], width: int, now: float) -> Text:
        """Render a subagent task: the agent, the task, its last call, the call count, and the seconds."""
        state = str(task.get("state", ""))
        ended, started = number(task.get("ended")), number(task.get("started"))
        failed = state in ("failed", "killed", "cancelled")
        sign = self.sign("failed" if failed else "done" if ended else "running", now)
        facts = [one_line(state, 40) if ended else self._doing(task)]
        for name in ("calls", "tokens") if ended else ("calls",):
            count = int(number(task.get(name)))
            facts.append(self._words(name, count=f"{count:,}") if count else "")
        if started and (ended or self._animation):
            facts.append(seconds((ended or now) - started))
        error, prompt = (one_line(str(task.get(name) or ""), self._limit) for name in ("error", "prompt"))
        about = ", ".join(filter(None, facts))
        name = one_line(str(task.get("agent") or task.get("id", "")), 40)
        end = [("dim", f"  {about}" if about else ""), ("error", f": {error}" if error else "")]
        return self._line([sign, ("bold", name)], ("", prompt), end, width)

    def _doing(self, task: Mapping[str, Any]) -> str:
        """Return a task's last call; only its tool if the arguments are unknown."""
        part, tool = task.get("part") or {}, str(task.get("last_tool") or "")
        if part.get("tool") != tool:
            return one_line(tool, 40)
        call = CallView(tool, part.get("input"), "running", 0.0)
        return one_line(f"{self.verb(call)} {main_argument(call.args)}", 40)

    def todo(self, items: Sequence[Any]) -> list[Text]:
        """Render the valid entries of the model's to-do list."""
        lines = []
        for item in items:
            if not isinstance(item, Mapping):
                continue
            status = str(item.get("status", "pending"))
            mark = _TODO_MARKS.get(status, "☐")
            if self._styler.reader and f"todo_{status}" in _TODO:
                mark = f"{self._words(f'todo_{status}')}:"
            role = {"done": "dim", "in_progress": "bold"}.get(status, "")
            lines.append(
                self._styler.text(("label", f"  {mark} "), (role, one_line(str(item.get("task", "")))))
            )
        return lines


def items_of(args: Any) -> Sequence[Any]:
    """Return the entries of a to-do list; empty for invalid arguments."""
    items = args.get("items") if isinstance(args, Mapping) else None
    return items if isinstance(items, list) else ()


def number(value: Any) -> float:
    """Return a number from untrusted data; 0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0
