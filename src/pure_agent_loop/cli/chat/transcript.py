"""Render a conversation: events in, finished lines and a live region out.

The application owns the terminal (prompt_toolkit, not full screen); this module provides the text:

    screen = Transcript(80, color=True, language="en")
    above = screen.feed(event)       # "" or complete lines with "\n": print them above, once
    above = screen.user_input("my task")  # the same for input of the user; a long paste is folded
    above = screen.notice("saved")   # a notice of the program; role="error" or "warning" for others
    above = screen.markdown(text)    # a whole Markdown text: help, a memory, an old answer
    above = screen.diff(name, text)  # a whole colored diff, for a question; `max_lines=` cuts it
    above = screen.close()           # finish unfinished text: before a question, after a stop
    above = screen.unfold(1)         # the last folded block (reasoning, call, diff, paste), in full
    lines = screen.live()            # up to `screen.live_lines` lines to draw below, without "\n"
    if screen.is_due(): ...          # at each tick: draw them again only then
    line = screen.status(model="m", mode="ask", cost=0.02, seconds=65.0, note="2 queued")

`live()` and `status()` have no side effects. To write few bytes: draw at a tick (8 per second) only if
`is_due()` or after printing or typing; print lines of several events together; keep the live region at its
full height during a run, with one window per line (prompt_toolkit redraws the last line of a window when
another follows); write through `output.sparing_output`. Each line fits in `screen.width` columns, so
prompt_toolkit need not wrap it. Texts contain only ANSI colors (see `prompt_toolkit.formatted_text.ANSI`);
without `color` they contain no escape sequences.

`screen.width` and `screen.live_lines` may be set at any time, for example after a resize, and then
`screen.wide_lines`: with more live lines than that, each line is cut to `output.MIN_COLUMNS`. All texts pass
`safe.Styler`. Untrusted text that the application shows (a picker, a completion, a question) must pass
`safe.clean` (keeps lines) or `safe.one_line`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat import calls, diffs
from pure_agent_loop.cli.chat.calls import CallState, CallView, Folded, Lines, number, seconds
from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.output import MIN_COLUMNS, MIN_NEW, Pace, Styler, clean, one_line, positive
from pure_agent_loop.cli.chat.questions import AnswerInProgress
from pure_agent_loop.cli.chat.words import Words, words_in
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.toolbox import TODO_TOOL

if TYPE_CHECKING:
    from rich.text import Text

    from pure_agent_loop import QueryState


# -- the status line, shortened to the width of the terminal ---------------------------------------------

MIN_NAME = 10  # columns kept for the model name
FULL = 0.8  # share of the context window that causes a warning


@dataclass(frozen=True, slots=True)
class Facts:
    """The fields of the status line; an empty, None or 0 field is not shown.

    Args:
        note: A notice, such as the number of queued messages.
        window: Size of the context window, in tokens.
    """

    model: str = ""
    mode: str = ""
    note: str = ""
    step: int = 0
    used: int = 0
    window: int = 0
    tokens: int = 0
    cost: float | None = None
    seconds: float | None = None


def status_line(facts: Facts, styler: Styler, words: Words, width: int) -> Text:
    """Render the status line, dropping the least important fields until it fits."""
    fields = _fields(facts, styler, words)
    # The first fields to drop are the least useful; the last are the ones the user chose.
    for name in ("tokens", "step", "cost", "model", "seconds", "note", "context", "mode"):
        over = _line(fields, styler).cell_len - width
        if over <= 0:
            break
        role, words_shown = fields.pop(name, ("", ""))
        if name == "model":
            shorter = max(len(words_shown) - over, MIN_NAME)
            fields = {name: (role, _shortened(words_shown, shorter)), **fields}
    return styler.fit(_line(fields, styler), width)


def _fields(facts: Facts, styler: Styler, words: Words) -> dict[str, tuple[str, str]]:
    model, mode = one_line(facts.model.rpartition("/")[2], 60), one_line(facts.mode, 30)
    if styler.reader:
        model, mode = (
            words(key, name=name) if name else "" for key, name in (("model", model), ("mode", mode))
        )
    full = facts.used / facts.window if facts.window else 0.0
    used = f"{full:.0%}" if facts.window else short(facts.used)
    fields = {
        "model": ("bold", model),
        "mode": ("label", mode),
        "note": ("warning", one_line(facts.note, 60)),
        "step": ("dim", words("step", number=facts.step) if facts.step else ""),
        "context": ("warning" if full >= FULL else "dim", words("context", used=used) if facts.used else ""),
        "tokens": ("dim", words("tokens", count=short(facts.tokens)) if facts.tokens else ""),
        "cost": ("dim", f"${facts.cost:.2f}" if facts.cost else ""),
        "seconds": ("dim", "" if facts.seconds is None else seconds(int(facts.seconds))),
    }
    return {name: field for name, field in fields.items() if field[1]}


def _line(fields: dict[str, tuple[str, str]], styler: Styler) -> Text:
    line = styler.text()
    for field in fields.values():
        if line:
            line.append(", " if styler.reader else " · ", styler.styles["dim"])
        line.append_text(styler.text(field))
    return line


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def short(count: int) -> str:
    """Format a count, such as ``950``, ``4.1k``, ``38k`` or ``1.2M``."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{letter}" if value < 10 else f"{value:.0f}{letter}"
    return str(count)


def context_rows(state: QueryState, known: Mapping[str, Any], width: int) -> str:
    """Return what fills the context window, one row per role.

    Args:
        known: ``tokens`` of the last request and the ``window``, if known.
        width: Columns of the bars; 0 for no bars.
    """
    from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens

    sizes = {"system": estimate_tokens(state.system_prompt)}
    for message in state.messages:
        role = str(message.get("role"))
        sizes[role] = sizes.get(role, 0) + estimate_message(message)
    used, window = known.get("tokens") or sum(sizes.values()), known.get("window")
    sizes["tools"] = max(0, used - sum(sizes.values()))
    whole = max(window or used, 1)
    rows = [f"{name:<10} {_bar(size, whole, width)}{size}" for name, size in sizes.items()]
    return "\n".join([*rows, f"{'':<10} {_bar(used, whole, width)}{used} / {window or '?'}"])


def _bar(size: int, whole: int, width: int) -> str:
    filled = min(width, round(width * size / whole))
    return "█" * filled + "░" * (width - filled) + " " * bool(width)


MAX_LINES = 12  # lines of a notice, an error or user input; `unfold` shows all
MAX_FOLDED = 100  # blocks kept for `unfold`
_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA)
# Stop reasons that need no notice: the answer or an error precedes them.
_SILENT_REASONS = {str(name) for name, meaning in STOP_REASONS.items() if meaning.kind in ("done", "failed")}
_TOGETHER = {"call", "notice", "reasoning"}  # kinds of lines without an empty line in between


class TranscriptView:
    """Renders the events of a conversation; see the module docstring.

    Args:
        color: Write colors; see `support.terminal.wants_colour`.
        animation: Animate running work and count its seconds.
        theme: One of `safe.THEMES`.
        language: Language of the messages: ``"en"``, ``"zh"``, or None for the default.
        screen_reader: Use words in place of signs; draw no rules and no moving text.
        live_lines: Maximum number of live lines.

    Raises:
        ConfigError: A value is unknown or too small.
        MissingExtraError: ``rich`` is not installed.
    """

    def __init__(
        self,
        width: int = 80,
        *,
        color: bool = True,
        animation: bool = True,
        theme: str = "dark",
        language: str | None = None,
        screen_reader: bool = False,
        live_lines: int = 8,
    ) -> None:
        self.width, self.live_lines = width, live_lines
        self._styler = Styler(color, theme, screen_reader)
        self._words = words_in(language)
        self._page = Page(self._styler, self._words)
        self._lines = Lines(self._styler, self._words, animation and not screen_reader)
        self._answer = AnswerInProgress(self._page)
        self._folded: deque[Folded] = deque(maxlen=MAX_FOLDED)
        self._calls: dict[str, CallView] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._ended: set[str] = set()  # ids of tasks whose end was printed
        self._pace = Pace(animation and not screen_reader)
        self._facts = Facts()
        self._last = ""  # the kind of the last printed lines

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._width

    @width.setter
    def width(self, value: int) -> None:
        self._width = max(positive("width", value), 10)  # columns

    @property
    def live_lines(self) -> int:
        """Maximum number of live lines."""
        return self._live_lines

    @live_lines.setter
    def live_lines(self, value: int) -> None:
        self._live_lines = self.wide_lines = positive("live_lines", value)

    def feed(self, event: Event) -> str:
        """Add an event; return the lines that it finishes, to print once."""
        handler = _HANDLERS.get(event.type)
        begun = self._answer.has_text or self._answer.has_reasoning
        if handler:
            self._pace.note(len(event.content) if begun and event.type in _PIECES else MIN_NEW)
        return handler(self, event) if handler else ""

    def user_input(self, text: str) -> str:
        """Render user input, cut if long; `unfold` shows all."""
        mark = f"{self._words('you')}: " if self._styler.reader else "> "
        return self.close() + self._print(self._excerpt(text, "bold", mark), "asked")

    def notice(self, text: str, role: str = "dim", max_lines: int | None = MAX_LINES) -> str:
        """Render a notice of the program, a server or a tool, cut if long; `unfold` shows all.

        Args:
            role: ``dim``, ``warning`` or ``error``, or another role of `safe.THEMES`.
            max_lines: Maximum number of lines; None for all, as in a question.
        """
        mark = f"{self._words('error')}: " if role == "error" else "" if self._styler.reader else "· "
        return self._print(self._excerpt(text, role, mark, max_lines), "notice")

    def markdown(self, text: str) -> str:
        """Render a whole Markdown text."""
        flow = Flow(self._page)
        lines = flow.feed(clean(text), self.width) + flow.close(self.width)
        return self.close() + self._print(lines, "text")

    def diff(self, name: str, text: str, max_lines: int | None = None) -> str:
        """Render a diff.

        Args:
            name: The title, such as a path.
            max_lines: Maximum number of lines; None for all.
        """
        return self._print_diff(
            self._styler.text(("label", "~ "), ("bold", one_line(name, 400))), text, max_lines
        )

    def unfold(self, last: int = 1) -> str:
        """Render a folded block in full.

        Args:
            last: 1 for the last block, 2 for the one before it, and so on.
        """
        if not 1 <= last <= len(self._folded):
            return self._print([self._styler.text(("dim", self._words("nothing_folded")))], "notice")
        return self._print(diffs.unfolded(self._folded[-last], self._styler, self._words), "unfolded")

    def close(self) -> str:
        """Finish the reasoning and the text in progress."""
        return self._end_thinking(time.time()) + self._print_text(self._answer.close(self.width))

    def live(self, now: float | None = None) -> list[str]:
        """Return the live lines.

        Args:
            now: Seconds since the epoch; None for the current time.
        """
        now = time.time() if now is None else now
        width, max_lines = self.width, self.live_lines
        work = [self._lines.call(call, width, now) for call in self._calls.values()]
        work += [self._lines.task(task, width, now) for task in self._tasks.values()]
        work = work or self._activity(now)
        if len(work) > max_lines:
            omitted = self._words("more_running", count=len(work) - max_lines + 1)
            work = [*work[: max_lines - 1], self._styler.text(("dim", omitted))]
        text = (
            []
            if self._styler.reader
            else self._answer.tail(width, min(max_lines, self._text_lines) - len(work))
        )
        lines = [*text, *work]
        columns = width if len(lines) <= self.wide_lines else min(width, MIN_COLUMNS)
        return [self._styler.ansi(self._styler.fit(line, columns)) for line in lines]

    @property
    def _text_lines(self) -> int:
        return max(self.wide_lines, 1)

    def is_due(self, now: float | None = None) -> bool:
        """Return True if the live lines should be drawn. Call it at each tick, 8 times a second.

        Args:
            now: Seconds since the epoch; None for the current time.
        """
        now = time.time() if now is None else now
        return self._pace.is_due(now, bool(self._calls or self._tasks or self._activity(now)))

    def _activity(self, now: float) -> list[Text]:
        """Return a line for reasoning or for a call that is being written."""
        if not (self._answer.words or self._answer.writing):
            return []
        words = self._words("writing_call", tool=self._answer.writing)
        if self._answer.words:
            words = self._words("thinking", count=self._answer.words)
        return [self._styler.text(self._lines.sign("running", now), ("dim", words))]

    def status(
        self,
        model: str = "",
        mode: str = "",
        *,
        cost: float | None = None,
        seconds: float | None = None,
        note: str = "",
    ) -> str:
        """Render the status line; step, context and tokens come from the events.

        Args:
            mode: The permission mode.
            cost: Cost so far, in dollars.
            seconds: Duration of the run so far.
            note: A notice, such as the number of queued messages.
        """
        facts = replace(self._facts, model=model, mode=mode, cost=cost, seconds=seconds, note=note)
        return self._styler.ansi(status_line(facts, self._styler, self._words, self.width))

    def _print(self, lines: Sequence[Text], kind: str) -> str:
        """Render finished lines, after an empty line if their kind differs from the last."""
        if not lines:
            return ""
        together = kind == self._last or {kind, self._last} <= _TOGETHER
        gap = "\n" if self._last and not together else ""
        self._last = kind
        return gap + "".join(f"{self._styler.ansi(line)}\n" for line in lines)

    def _print_text(self, lines: Sequence[Text]) -> str:
        if lines and not self._answer.has_printed:
            self._answer.has_printed = True
            self._last = self._last and "another"  # an empty line also separates two answers
        return self._print(lines, "text")

    def _print_diff(self, title: Text, text: str, max_lines: int | None) -> str:
        lines, left = diffs.body(text, self._styler, self._words, max_lines)
        if left:
            self._folded.append(Folded(title, (("diff", text),)))
        return self.close() + self._print([title, *lines], "diff")

    def _excerpt(self, text: str, role: str, mark: str, max_lines: int | None = MAX_LINES) -> list[Text]:
        """Wrap the start of a text after a mark; `unfold` shows all of it."""
        lines = clean(text).strip("\n").split("\n")
        shown: list[Text] = []
        for words in lines[:max_lines]:
            line = self._styler.text(("label", mark), (role, words))
            line.no_wrap = False
            shown += line.wrap(self._styler.console, self.width, overflow="fold")
            mark = mark if mark == "> " else " " * min(len(mark), 2)
        if max_lines is not None and len(lines) > max_lines:
            self._folded.append(Folded(shown[0], (("", text),)))
            shown.append(self._styler.text(("dim", self._words("more_lines", count=len(lines) - max_lines))))
        return shown

    def _note(self, role: str, name: str, **values: object) -> str:
        return self.close() + self.notice(self._words(name, **values), role)

    def _text_delta(self, event: Event) -> str:
        before = self._end_thinking(event.timestamp)
        room = None if self._styler.reader else min(self.live_lines, self._text_lines)
        return before + self._print_text(self._answer.write(event.content, self.width, room))

    def _thought(self, event: Event) -> str:
        return ("" if self._answer.has_text else self._text_delta(event)) + self.close()

    def _reasoning_delta(self, event: Event) -> str:
        self._answer.think(event.content, event.timestamp)
        return ""

    def _reasoning(self, event: Event) -> str:
        if not self._answer.has_reasoning:
            self._reasoning_delta(event)
        return self._end_thinking(event.timestamp)

    def _end_thinking(self, now: float) -> str:
        reasoning = self._answer.end_thinking(now)
        if reasoning is None:
            return ""
        text, took, count = reasoning
        words = self._words("thought", seconds=seconds(took), count=count)
        line = self._styler.text(("dim", words if self._styler.reader else f"· {words}"))
        self._folded.append(Folded(line, (("reasoning", text),)))
        return self._print([line], "reasoning")

    def _call_delta(self, event: Event) -> str:
        self._answer.writing = one_line(str(event.data.get("tool") or self._answer.writing), 60)
        return self._end_thinking(event.timestamp)

    def _retry(self, event: Event) -> str:
        lines = ""
        if event.data.get("discard"):
            self._answer = AnswerInProgress(self._page)
            lines = self._note("warning", "again")
        tries, delay = int(number(event.data.get("attempt"))) + 1, seconds(number(event.data.get("delay")))
        error = one_line(event.content)
        return lines + self._note("warning", "retry", seconds=delay, number=tries, error=error)

    def _permission(self, event: Event) -> str:
        if (behavior := event.data.get("behavior")) == "ask":
            self._calls[calls.id_of(event)] = calls.made_of(event, "waiting")
        elif behavior == "deny":
            call = self._calls[calls.id_of(event)] = calls.made_of(event, "failed")
            call.refused = str(event.data.get("reason") or self._words("refused"))
        return self.close()

    def _part(self, event: Event) -> str:
        part = event.data["part"]
        if part["type"] != "tool" or part["state"] != "pending":
            return ""
        self._answer.writing = (
            ""  # the call is written; the decision may take time, because a command is tried first
        )
        self._calls[part["call_id"]] = CallView(part["tool"], part["input"], "running", event.timestamp)
        return ""

    def _action(self, event: Event) -> str:
        known = self._calls.get(calls.id_of(event))
        if not known or (known.state != "running" and not known.refused):
            self._calls[calls.id_of(event)] = calls.made_of(event, "running")
        return self.close()

    def _progress(self, event: Event) -> str:
        if call := self._calls.get(calls.id_of(event)):
            call.result = str(event.data.get("text", ""))
        elif not event.data.get("call_id"):  # a message of a toolset
            return self._message(event)
        return ""

    def _observation(self, event: Event) -> str:
        state: CallState = "failed" if event.data.get("is_error") else "done"
        return self.close() + self._print_call(event, state, str(event.data.get("result", "")))

    def _print_call(self, event: Event, state: CallState, result: str) -> str:
        call = self._calls.pop(calls.id_of(event), None) or calls.made_of(event, state)
        call.state, call.result, call.duration = state, result, number(event.data.get("duration"))
        line = self._lines.call(call, self.width, event.timestamp)
        self._folded.append(self._lines.folded(call, line))
        todo = self._lines.todo(call.args) if call.tool == TODO_TOOL and state == "done" else []
        return self._print([line, *todo], "call")

    def _file_change(self, event: Event) -> str:
        title = diffs.head(event.data, self._styler, self._words)
        return self._print_diff(title, str(event.data.get("diff") or ""), diffs.MAX_LINES)

    def _task(self, event: Event) -> str:
        task = event.data.get("task")
        if not isinstance(task, Mapping) or (name := str(task.get("id", ""))) in self._ended:
            return ""
        if not number(task.get("ended")):
            self._tasks[name] = task
            return ""
        self._ended.add(name)
        self._tasks.pop(name, None)
        line = self._lines.task(task, self.width, event.timestamp)
        sections = tuple((key, str(task.get(key, ""))) for key in ("prompt", "result"))
        self._folded.append(Folded(line, sections))
        return self.close() + self._print([line], "call")

    def _step_end(self, event: Event) -> str:
        before = self.close()
        usage, context = (event.data.get(name) or {} for name in ("usage", "context"))
        used, window = (int(number(context.get(name))) for name in ("tokens", "window"))
        self._facts = Facts("", "", "", event.step, used, window, int(number(usage.get("total_tokens"))))
        self._answer = AnswerInProgress(self._page)
        return before

    def _loop_end(self, event: Event) -> str:
        lines = self.close()
        self._answer = AnswerInProgress(self._page)
        for name, call in list(self._calls.items()):
            stopped = replace(event, data={"call_id": name, "tool": call.tool})
            lines += self._print_call(stopped, "stopped", "")
        reason = str(event.data.get("stop_reason", ""))
        if reason in _SILENT_REASONS:
            return lines
        return lines + self._note("warning", "ended", reason=one_line(reason))

    def _message(self, event: Event) -> str:
        return self.close() + self.notice(event.content, "error" if event.type is EventType.ERROR else "dim")

    def _soft_limit(self, event: Event) -> str:
        return self._note("warning", "soft_limit", reason=one_line(str(event.data.get("reason", ""))))

    def _compaction(self, event: Event) -> str:
        before, after = (short(int(number(event.data.get(f"tokens_{when}")))) for when in ("before", "after"))
        return self._note("dim", "compaction", before=before, after=after)


_HANDLERS: Mapping[EventType, Callable[[TranscriptView, Event], str]] = {
    EventType.TEXT_DELTA: TranscriptView._text_delta,
    EventType.THOUGHT: TranscriptView._thought,
    EventType.REASONING_DELTA: TranscriptView._reasoning_delta,
    EventType.REASONING: TranscriptView._reasoning,
    EventType.TOOL_CALL_DELTA: TranscriptView._call_delta,
    EventType.RETRY: TranscriptView._retry,
    EventType.PART: TranscriptView._part,
    EventType.PERMISSION: TranscriptView._permission,
    EventType.ACTION: TranscriptView._action,
    EventType.PROGRESS: TranscriptView._progress,
    EventType.OBSERVATION: TranscriptView._observation,
    EventType.FILE_CHANGE: TranscriptView._file_change,
    EventType.TASK: TranscriptView._task,
    EventType.STEP_END: TranscriptView._step_end,
    EventType.LOOP_END: TranscriptView._loop_end,
    EventType.ERROR: TranscriptView._message,
    EventType.NOTICE: TranscriptView._message,
    EventType.SOFT_LIMIT: TranscriptView._soft_limit,
    EventType.COMPACTION: TranscriptView._compaction,
}
