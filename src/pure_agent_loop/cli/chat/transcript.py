"""Render a conversation: events in, finished lines and a live region out.

The application controls the terminal (prompt_toolkit, not full screen); this module provides the text:

    screen = TranscriptView(80, color=True, language="en")
    above = screen.feed(event)       # "" or complete lines with "\n": print them above, once
    above = screen.user_input("my task")  # the same for the user's input; a long paste is folded
    above = screen.notice("saved")   # a notice from the program; role="error" or "warning" for others
    above = screen.markdown(text)    # a whole Markdown text: help, a memory, an old answer
    above = screen.diff(name, text)  # a whole colored diff, for a question; `max_lines=` cuts it
    above = screen.recorded(entry)   # an entry of a recorded session, as its event was rendered
    above = screen.close()           # finish unfinished text: before a question, after a stop
    above = screen.unfold(1)         # the last folded block (reasoning, call, diff, paste), in full
    lines = screen.live()            # up to `screen.live_lines` lines to draw below, without "\n"
    if screen.is_due(): ...          # at each tick: draw them again only then
    line = screen.status(model="m", mode="ask", cost=0.02, seconds=65.0, note="Stopping")

`live()` and `status()` have no side effects. To write few bytes: draw at a tick (8 per second) only if
`is_due()` or after printing or typing; print lines of several events together; keep the live region at its
full height during a run, with one window per line (prompt_toolkit redraws the last line of a window when
another follows); write through `output.sparing_output`. Each line fits into `screen.width` columns, so
prompt_toolkit does not need to wrap it. Texts contain only ANSI colors (see
``prompt_toolkit.formatted_text.ANSI``); without `color` they contain no escape sequences.

`screen.width`, `screen.live_lines` and `screen.room` may be set at any time, for example after a resize. If a
narrower window would rewrap the live lines, `screen.room` limits their rows, and the most important lines get
width first. All texts pass `styling.Styler`. Untrusted text that the application shows (a picker, a
completion, a question) must pass `styling.clean` (keeps lines) or `styling.one_line`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.cli.chat import calls, diffs
from pure_agent_loop.cli.chat.answer import AnswerInProgress
from pure_agent_loop.cli.chat.calls import (
    READ_TOOL,
    CallState,
    CallView,
    Folded,
    Lines,
    number,
    seconds,
)
from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.output import MIN_COLUMNS, MIN_NEW, RedrawRate
from pure_agent_loop.cli.chat.status import MIN_NAME, Facts, short, status_line
from pure_agent_loop.cli.chat.styling import Styler, clean, one_line
from pure_agent_loop.cli.chat.words import Groups, words_in
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.permissions import EDIT_TOOLS
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.language import LANGUAGES, in_language, notice
from pure_agent_loop.support.parsing import json_or_text
from pure_agent_loop.support.terminal import width_of
from pure_agent_loop.support.text import as_sentence
from pure_agent_loop.toolbox import TODO_TOOL

if TYPE_CHECKING:
    from rich.text import Text

    from pure_agent_loop.sessions.story import Entry

MAX_LINES = 12  # maximum lines of a notice, an error or user input; `unfold` shows all
MAX_QUEUED = 3  # maximum lines of messages that the agent has not read yet
DENIED = "PermissionDenied"  # kind of error in the result of a denied call
MAX_CAUSE = 120  # maximum characters of the error of a retried request
MAX_FOLDED = 100  # maximum blocks kept for `unfold`
# An event in the first tuple is followed by a request; at an event in the second tuple, the response has
# arrived or never will.
_BEFORE_MODEL = (EventType.LOOP_START, EventType.STEP_END)
_AFTER_MODEL = (EventType.THOUGHT, EventType.REASONING, EventType.ACTION, EventType.LOOP_END)
_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA)
_ACTS = {"auth": "act_key", "not_found": "act_model", "context_overflow": "act_compact"}  # by kind of failure
QUIET_SECONDS = 5.0  # seconds without output from the model before a notice that it is working
# Stop reasons without a notice, because the answer or an error precedes them.
_SILENT_REASONS = {""} | {
    str(name) for name, meaning in STOP_REASONS.items() if meaning.kind in ("done", "failed")
}
_TOGETHER = {"call", "notice", "reasoning"}  # kinds of lines that no empty line separates


class FailedRequest(NamedTuple):
    """A failed attempt of a request that is retried.

    Args:
        tries: Number of attempts so far.
        cause: Why the attempt failed, as a sentence.
        error: The complete error.
    """

    tries: int
    cause: str
    error: str


@dataclass(frozen=True, slots=True)
class LiveLine:
    """A line to draw below the finished lines.

    Args:
        render: Renders the line in a number of columns.
        rank: Lines of lower ranks get width first.
    """

    render: Callable[[int], Text]
    rank: int = 0


class TranscriptView:
    """Renders the events of a conversation; see the module docstring.

    Args:
        color: True to write colors; see `support.terminal.wants_colour`.
        animation: True to animate running calls and show elapsed seconds.
        theme: One of `styling.THEMES`.
        language: Language of the messages: ``"en"``, ``"zh"``, or None for the default.
        screen_reader: True to use words instead of signs, and to draw no lines and no moving text.
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
        self.width = max(positive("width", width), 10)  # columns
        self.live_lines = positive("live_lines", live_lines)
        self.room: tuple[int, int] | None = None  # see `Prompt.room`
        self._styler = Styler(color, theme, screen_reader)
        self._words, self._language = words_in(language), language
        self._is_still = screen_reader or not animation
        self._page = Page(self._styler, self._words)
        self._lines = Lines(self._styler, self._words, animation and not screen_reader)
        self._answer = AnswerInProgress(self._page)
        self._folded: deque[Folded] = deque(maxlen=MAX_FOLDED)
        self._calls: dict[str, CallView] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._ended: set[str] = set()  # ids of tasks whose end has been printed
        self._pace = RedrawRate(animation and not screen_reader)
        self._reads: list[tuple[str, Folded]] = []  # successive read calls, printed as one line
        self._edits: dict[str, Text] = {}  # lines of edits by path, printed together with the reported change
        self._plan: list[Any] = []  # the last printed to-do list
        self._facts = Facts()
        self._last = ""  # the kind of the last printed lines
        self._waits_since: float | None = None  # start time of the request that has no response yet
        self._has_told_of_work = False
        self._compacted: dict[str, str] = {}  # the last printed numbers of a compaction in this run
        self._failed: FailedRequest | None = None  # the last failed attempt of the current request

    def feed(self, event: Event) -> str:
        """Add an event; return the lines that it finishes, each to be printed once."""
        handler = _HANDLERS.get(event.type)
        if event.type in _BEFORE_MODEL:
            self._waits_since = event.timestamp
        if event.type is EventType.LOOP_START:
            self._has_told_of_work, self._compacted = False, {}
        begun = self._answer.has_text or self._answer.has_reasoning
        if handler:
            self._pace.note(len(event.content) if begun and event.type in _PIECES else MIN_NEW)
        lines = handler(self, event) if handler else ""
        if event.type in _PIECES + _AFTER_MODEL:
            self._waits_since = self._failed = None
        return lines

    def user_input(self, text: str) -> str:
        """Render user input, cut if it is long; `unfold` shows all of it."""
        mark = f"{self._words('you')}: " if self._styler.reader else "> "
        return self.close() + self._print(self._excerpt(text, "bold", mark), "asked")

    def notice(self, text: str, role: str = "dim", max_lines: int | None = MAX_LINES) -> str:
        """Render a notice from the program, a server or a tool, cut if it is long; `unfold` shows all of it.

        Args:
            role: ``dim``, ``warning`` or ``error``, or another role of `styling.THEMES`.
            max_lines: Maximum number of lines; None for all, as in a question.
        """
        mark = "" if self._styler.reader or not role else "· "  # no empty line before a table or output
        mark = f"{self._words('error')}: " if role == "error" else mark
        text = text.replace(" · ", ", ") if self._styler.reader else text
        return self._print(self._excerpt(text, role, mark, max_lines), "notice")

    def recorded(self, entry: Entry) -> str:
        """Render an entry of a recorded session like its event; return "" for a notice to the model."""
        event, about = partial(_recorded, entry), {"tool": entry.tool, "call_id": entry.call_id}
        match entry.kind:
            case "task" | "user":
                return self.user_input(entry.text)
            case "thinking" | "answer":  # each begins a new answer
                before, self._answer = self._close() + self._print_edits(), AnswerInProgress(self._page)
                kind = EventType.THOUGHT if entry.kind == "answer" else EventType.REASONING
                return before + self.feed(event(kind, content=entry.text, seconds=entry.seconds))
            case "call":
                return self.feed(
                    event(EventType.ACTION, **about, args=json_or_text(entry.text), title=entry.title)
                )
            case "result":
                return self._recorded_result(entry, event, about)
            case "end":
                reason, _, why = entry.text.partition(": ")
                why = why or (self._words("ended", reason=reason) if reason == "error" else "")
                error = self.feed(event(EventType.ERROR, error=why, **entry.told)) if why else ""
                return error + self.feed(event(EventType.LOOP_END, stop_reason=reason))
        return ""

    def _recorded_result(self, entry: Entry, event: Callable[..., Event], about: Mapping[str, str]) -> str:
        lines, call, prompts = "", self._calls.get(entry.call_id), [prompts_for(code) for code in LANGUAGES]
        if entry.text in [text for own in prompts for text in (own.tool_not_started, own.tool_cancelled)]:
            return ""  # the end of the run reports the stopped call
        if call and (entry.verdict == "deny" or (entry.failed and DENIED in entry.text)):
            frames = [own.tool_denied.split("{reason}") for own in prompts]
            reasons = [
                entry.text.partition(before)[2].partition(after)[0].strip() for before, after in frames
            ]
            denial = {**about, "args": call.args, "behavior": "deny", "reason": "".join(reasons)}
            lines = self.feed(event(EventType.PERMISSION, **denial))
        told: dict[str, Any] = {"result": entry.text, "duration": entry.seconds, "is_error": entry.failed}
        told |= {"command": entry.command, "unasked": entry.unasked}
        return lines + self.feed(event(EventType.OBSERVATION, **about, **told))

    def forget(self, call_id: str) -> None:
        """Remove a call from the live lines."""
        self._calls.pop(call_id, None)

    def command_end(self, end: Mapping[str, Any], output: str) -> str:
        """Render the output of a command that the person entered, with the exit code if it failed.

        Args:
            end: How the command ended; see `Event.observation`.
        """
        output, took = clean(output).rstrip(), number(end["seconds"])
        lines = self.notice(output, "") if output else ""
        if code := end["exit_code"]:
            facts = [self._words("exit_code", code=code), seconds(took) if took >= 1 else ""]
            shown = ", ".join(filter(None, facts))
            return lines + self._print(
                [self._styler.text(self._lines.sign("failed", 0), ("error", shown))], "call"
            )
        return lines or self.notice(self._words("no_output"))

    def card(self, title: str, *lines: str) -> str:
        """Render the first lines of a conversation, wrapped between words."""
        between = ", " if self._styler.reader else " · "
        below = (self._excerpt(line.replace(" · ", between), "dim", "") for line in lines)
        return self._print(sum(below, self._excerpt(title, "bold", "")), "card")

    def markdown(self, text: str) -> str:
        """Render a complete Markdown text."""
        flow = Flow(self._page)
        lines = flow.feed(clean(text), self.width) + flow.close(self.width)
        return self.close() + self._print(lines, "text")

    def groups(self, groups: Groups) -> str:
        """Render names with descriptions by group, in two columns if the window is wide enough."""
        names = [name for rows in groups.values() for name, _ in rows]
        indent = 0 if self._styler.reader else max(map(width_of, names)) + 2
        blocks = [self._group(title, rows, indent) for title, rows in groups.items()]
        columns: list[list[Text]] = [[], []]
        for block in blocks:
            column = min(columns, key=len)
            column += [self._styler.text(), *block] if column else block
        size = max(line.cell_len for line in columns[0]) + 2
        if self._styler.reader or size + max((line.cell_len for line in columns[1]), default=0) > self.width:
            lines = [line for block in blocks for line in (self._styler.text(), *block)][1:]
            return self.close() + self._print(lines, "groups")
        pairs = zip_longest(*columns, fillvalue=self._styler.text())
        lines = [self._padded(first, size).append_text(second) for first, second in pairs]
        return self.close() + self._print(lines, "groups")

    def _padded(self, line: Text, size: int) -> Text:
        return line.copy().append(" " * (size - line.cell_len))

    def _group(self, title: str, rows: Sequence[tuple[str, str]], indent: int) -> list[Text]:
        lines = [self._styler.text(("bold", title))]
        for name, about in rows:
            head = self._styler.text(("label", f"{name}: " if self._styler.reader else name))
            pieces = self._styler.wrapped(self._styler.text(("", about)), max(self.width - indent, MIN_NAME))
            lines.append(self._padded(head, indent).append_text(pieces[0]))
            lines += [self._styler.text(("", " " * indent)).append_text(piece) for piece in pieces[1:]]
        return lines

    def diff(self, name: str, text: str, max_lines: int | None = None) -> str:
        """Render a diff.

        Args:
            name: The title, such as a path; empty if the line above names it.
            max_lines: Maximum number of lines; None for all.
        """
        title = self._styler.text(("label", "~ "), ("bold", one_line(name, 400)))
        return self._print_diff(title, text, max_lines, has_title=bool(name))

    def question(self, title: str, lines: Sequence[str]) -> list[str]:
        """Render a question's title and some lines of the question or its diff, each cut to one row."""
        rendered = diffs.body("\n".join(lines), self._styler, self._words, None)[0]
        rows = [self._styler.text(("warning", title)), *rendered]
        return [self._styler.ansi(self._styler.fit(line, self.width)) for line in rows]

    def choices(self, lines: Sequence[str], count: int) -> list[str]:
        """Render answers to choose from, wrapped between words.

        Args:
            lines: The answers, then hints.
            count: Number of answers. Each answer ends with its number, unless the answer fits on one line
                only without it.
        """
        rendered = list[str]()
        for index, line in enumerate(lines, 1):
            text = self._styler.text(("", line))
            fits_alone = 0 <= self.width - text.cell_len < len(f"  {index}")
            number = "" if index > count or self._styler.reader or fits_alone else f"  {index}"
            pieces = self._styler.wrapped(text, self.width - len(number))
            pieces[-1].append_text(self._styler.text(("dim", number)))
            rendered += map(self._styler.ansi, pieces)
        return rendered

    def unfold(self, last: int = 1) -> str:
        """Render a folded block in full.

        Args:
            last: 1 for the last block, 2 for the one before it, and so on.
        """
        if not 1 <= last <= len(self._folded):
            return self._print([self._styler.text(("dim", self._words("nothing_folded")))], "notice")
        return self._print(
            diffs.unfolded(self._folded[-last], self._styler, self._words, self.width), "unfolded"
        )

    def close(self) -> str:
        """Finish the reasoning, the text and the lines in progress."""
        return self._close() + self._print_edits() + self._print_reads()

    def _close(self) -> str:
        return self._end_thinking(time.time()) + self._print_text(self._answer.close(self.width))

    def live(
        self, now: float | None = None, queued: Sequence[str] = (), background: Sequence[str] = ()
    ) -> list[str]:
        """Return the live lines.

        Args:
            now: Seconds since the epoch; None for the current time.
            queued: Messages that the agent has not read yet.
            background: The running background commands.
        """
        now = time.time() if now is None else now
        words = [self._words("queued", text=one_line(text)) for text in queued[:MAX_QUEUED]]
        if len(queued) > MAX_QUEUED:
            words[-1] = self._words("more_running", count=len(queued) - MAX_QUEUED + 1)
        words += [self._words("in_background", commands=", ".join(background))] if background else []
        waiting = [self._still(self._styler.text(("dim", text))) for text in words]
        max_lines = max(self.live_lines - len(waiting), 1)
        work = self._work(now)
        work = [*([self._still(self._reading())] if self._reads else []), *(work or self._activity(now))]
        if len(work) > max_lines:
            omitted = self._words("more_running", count=len(work) - max_lines + 1)
            work = [*work[: max_lines - 1], self._still(self._styler.text(("dim", omitted)))]
        room = 0 if self._styler.reader else min(max_lines, self._text_lines) - len(work)
        text = [self._still(line) for line in self._answer.tail(self.width, room)]
        # An empty line will be printed before the work, so draw it from the beginning.
        has_gap = (
            work and not text and len(work) < max_lines and self._gap("call") and not self._styler.reader
        )
        gap = [self._still(self._styler.text())] if has_gap else []
        return [self._styler.ansi(line) for line in self._fitted([*gap, *text, *work, *waiting])]

    def _fitted(self, lines: Sequence[LiveLine]) -> list[Text]:
        """Render lines as wide as needed, but so that all fit into `room` if a narrower window rewraps them.

        Each line gets the width of the narrower window, `MIN_COLUMNS`. Rows left over in `room` make lines
        wider: first answers, calls and tasks, then output, beginning with the newest line.
        """
        spare = self.width
        if self.room is not None:
            spare = max(min(self.room[0] - len(lines), self.room[1]), 0)
        widths = [0] * len(lines)
        for index in sorted(range(len(lines)), key=lambda index: lines[index].rank):
            rows = -(-lines[index].render(self.width).cell_len // MIN_COLUMNS) - 1
            widths[index] = min(MIN_COLUMNS * (1 + min(rows, spare)), self.width)
            spare -= min(rows, spare)
        return [line.render(width) for line, width in zip(lines, widths, strict=True)]

    @property
    def _text_lines(self) -> int:
        """The maximum number of live lines at full width."""
        rows = -(-self.width // MIN_COLUMNS)
        if self.room is None or rows == 1:
            return self.live_lines
        return max(min(self.live_lines, self.room[0] // rows, self.room[1] // (rows - 1)), 1)

    def _still(self, line: Text) -> LiveLine:
        return LiveLine(lambda width: self._styler.fit(line, width))

    def _work(self, now: float) -> list[LiveLine]:
        """Return the lines of running calls and tasks; a single running call also shows its last output."""
        asks = any(call.state == "waiting" for call in self._calls.values())
        running = [call for call in self._calls.values() if call.state == "running"]
        lines: list[LiveLine] = []
        for call in self._calls.values():
            # A pending question has separate lines. Calls are decided one after another, so later calls are
            # not running yet.
            if (asks and not call.has_begun) or call.has_task:
                continue
            lines.append(LiveLine(partial(self._lines.call, call, now=now)))
            if running == [call] and not self._styler.reader:
                tail = self._lines.tail(call)[-max(self.live_lines - 1, 0) :]
                ranks = range(len(tail), 0, -1)
                lines += [replace(self._still(line), rank=n) for n, line in zip(ranks, tail, strict=True)]
        return lines + [LiveLine(partial(self._lines.task, task, now=now)) for task in self._tasks.values()]

    def is_due(self, now: float | None = None) -> bool:
        """Return True if the live lines should be drawn. Call this method at each tick, 8 times per second.

        Args:
            now: Seconds since the epoch; None for the current time.
        """
        now = time.time() if now is None else now
        return self._pace.is_due(now, bool(self._calls or self._tasks or self._activity(now)))

    def _activity(self, now: float) -> list[LiveLine]:
        """Return a line to show while the model thinks, writes a call, or has sent nothing yet."""
        since, count = self._answer.thinks_since or self._waits_since, self._answer.words
        if self._answer.writing and not count:
            words = self._words("writing_call", tool=self._answer.writing)
        elif since is not None and (count or not (self._styler.reader or self._answer.has_text)):
            early = since > now  # a failed request will be sent again at that time
            whole = int(since - now + 1 if early else now - since)
            took = f" {seconds(whole)}" if whole else ""
            took += f" · {self._words('words', count=count)}" if count else ""
            words = self._words("waiting_again" if early else "thinking", took="" if self._is_still else took)
        else:
            return []
        return [self._still(self._styler.text(self._lines.sign("running", now), ("dim", words)))]

    def still_working(self, now: float) -> str:
        """Return a notice, once per run, if nothing is animated and the model has been silent for a while."""
        since, told = self._waits_since, self._has_told_of_work
        if told or not self._is_still or since is None or now - since < QUIET_SECONDS:
            return ""
        self._has_told_of_work = True
        return self.notice(self._words("still_working"))

    def status(
        self,
        model: str = "",
        mode: str = "",
        *,
        cost: float | None = None,
        currency: str = "USD",
        seconds: float | None = None,
        note: str = "",
        window: int = 0,
    ) -> str:
        """Render the status line; the size of the context comes from the events.

        Args:
            mode: The permission mode.
            cost: Cost so far.
            currency: Currency of the cost; see `money`.
            seconds: Duration of the run so far.
            note: A notice, for example that the run is stopping.
            window: Tokens of the context window, used if the events do not contain it; 0 if unknown.
        """
        facts = replace(
            self._facts, model=model, mode=mode, cost=cost, currency=currency, seconds=seconds, note=note
        )
        speed = 0 if self._is_still else self._answer.speed
        facts = replace(facts, window=facts.window or window, speed=speed)
        return self._styler.ansi(status_line(facts, self._styler, self._words, self.width))

    def _print(self, lines: Sequence[Text], kind: str) -> str:
        """Render finished lines, after an empty line if the last lines were of another kind."""
        if not lines:
            return ""
        before = self._print_reads()
        gap, self._last = self._gap(kind), kind
        if self._styler.reader:  # for a screen reader, nothing is cut
            lines = [piece for line in lines for piece in self._styler.broken(line, self.width)]
        return before + gap + "".join(f"{self._styler.ansi(line)}\n" for line in lines)

    def _gap(self, kind: str) -> str:
        together = kind == self._last or {kind, self._last} <= _TOGETHER
        return "\n" if self._last and not together else ""

    def _print_reads(self) -> str:
        """Print successive read calls as one line."""
        if not self._reads:
            return ""
        line, reads, self._reads = self._reading(), self._reads, []
        sections = tuple((path, folded.sections[-1][1]) for path, folded in reads)
        self._folded.append(reads[0][1] if len(reads) == 1 else Folded(line, sections))
        return self._print([line], "call")

    def _reading(self) -> Text:
        """Render successive read calls."""
        count = len({path for path, _ in self._reads})
        if count == 1:
            return self._reads[-1][1].title
        return self._styler.text(
            self._lines.sign("done", 0),
            ("bold", self._words("did_read_file")),
            ("", " "),
            ("", self._words("files", count=count)),
        )

    def _print_edits(self) -> str:
        """Print edits for which no change was reported."""
        lines, self._edits = list(self._edits.values()), {}
        return self._print(lines, "call")

    def _print_text(self, lines: Sequence[Text]) -> str:
        if lines and not self._answer.has_printed:
            self._answer.has_printed = True
            self._last = self._last and "another"  # an empty line also separates two answers
        return self._print(lines, "text")

    def _print_diff(self, title: Text, text: str, max_lines: int | None, *, has_title: bool = True) -> str:
        lines, left = diffs.body(text, self._styler, self._words, max_lines)
        if left:
            self._folded.append(Folded(title, (("diff", text),)))
        if not has_title:
            return self._close() + self._print(lines, self._last)
        return self._close() + self._print([title, *lines], "diff")

    def _excerpt(self, text: str, role: str, mark: str, max_lines: int | None = MAX_LINES) -> list[Text]:
        """Wrap the start of a text after a mark; `unfold` shows the whole text."""
        lines = clean(text).strip("\n").split("\n")
        shown: list[Text] = []
        for words in lines[:max_lines]:
            line = self._styler.text(("error_label" if role == "error" else "label", mark), (role, words))
            shown += self._styler.wrapped(line, self.width)
            mark = mark if mark == "> " else " " * min(len(mark), 2)
        if max_lines is not None and len(lines) > max_lines:
            name = diffs.PROSE if role in ("dim", "warning", "error") else ""
            self._folded.append(Folded(shown[0], ((name, text),)))
            shown.append(self._styler.text(("dim", self._words("more_lines", count=len(lines) - max_lines))))
        return shown

    def _note(self, role: str, name: str, **values: object) -> str:
        return self._close() + self.notice(self._words(name, **values), role)

    def _text_delta(self, event: Event) -> str:
        before = self._end_thinking(event.timestamp)
        self._answer.note_speed(event.content, event.timestamp)
        room = None if self._styler.reader else self._text_lines
        return before + self._print_text(self._answer.write(event.content, self.width, room))

    def _thought(self, event: Event) -> str:
        return ("" if self._answer.has_text else self._text_delta(event)) + self._close()

    def _reasoning_delta(self, event: Event) -> str:
        self._answer.think(event.content, self._waits_since or event.timestamp)
        return ""

    def _reasoning(self, event: Event) -> str:
        if not self._answer.has_reasoning:  # the reasoning arrived whole, without deltas
            since = event.timestamp - number(event.data.get("seconds"))
            self._answer.think(event.content, self._waits_since or since)
        return self._end_thinking(event.timestamp)

    def _end_thinking(self, now: float) -> str:
        reasoning = self._answer.end_thinking(now)
        if reasoning is None:
            return ""
        text, took, count = reasoning
        key, words = "thought" if took >= 1 else "thought_briefly", self._words("words", count=count)
        words = self._words(key, seconds=seconds(round(took)), words=words)
        line = self._styler.text(("dim", words if self._styler.reader else f"▸ {words}"))
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
        tries, every = (int(number(event.data.get(name))) for name in ("attempt", "attempts"))
        cause, before = self._cause(event), self._failed
        self._failed = FailedRequest(tries, cause, event.content)
        self._waits_since = event.timestamp + number(event.data.get("delay"))
        if not every:  # no delay: retried immediately, with another model or a shorter history
            return lines + self._note("warning", "retry_at_once", cause=cause)
        delay = seconds(round(number(event.data.get("delay"))))
        shown = {"seconds": delay, "number": tries + 1, "all": every}
        if before is not None and before.cause == cause:
            return lines + self._note("warning", "retry_again", **shown)
        lines += self._note("warning", "retry", cause=cause, **shown)
        self._folded.append(Folded(self._styler.text(("warning", cause)), ((diffs.PROSE, event.content),)))
        return lines

    def _cause(self, event: Event) -> str:
        """Return why a request failed, as a sentence."""
        said = one_line(str(event.data.get("said") or ""), MAX_CAUSE)
        if status := event.data.get("status"):
            return self._words("server_answered", status=status, said=said)
        return self._told(event.data, "title") or as_sentence(one_line(event.content, MAX_CAUSE))

    def _permission(self, event: Event) -> str:
        behavior = event.data.get("behavior")
        states: dict[object, calls.CallState] = {"ask": "waiting", "deny": "failed"}
        call = self._calls[calls.id_of(event)] = calls.made_of(event, states.get(behavior, "running"))
        if behavior == "deny":
            call.refused = str(event.data.get("reason") or self._words("refused"))
        if behavior != "ask":
            # Later calls were waiting for this decision, so their time starts now.
            for other in self._calls.values():
                other.started = other.started if other.has_begun else event.timestamp
        return self._close()

    def _part(self, event: Event) -> str:
        part = event.data["part"]
        if part["type"] != "tool" or part["state"] != "pending":
            return ""
        # The model has finished writing the call. The decision may take some time, because a command may be
        # tried first.
        self._answer.writing, self._waits_since = "", None
        self._calls[part["call_id"]] = CallView(part["tool"], part["input"], "running", event.timestamp)
        return ""

    def _action(self, event: Event) -> str:
        known = self._calls.get(calls.id_of(event))
        if not known or (known.state != "running" and not known.refused):
            known = self._calls[calls.id_of(event)] = calls.made_of(event, "running")
        known.has_begun, known.title = True, calls.made_of(event, "running").title
        return self._close()

    def _progress(self, event: Event) -> str:
        if call := self._calls.get(calls.id_of(event)):
            call.result = (call.result + str(event.data.get("text", "")))[-calls.TAIL_CHARS :]
        elif not event.data.get("call_id"):  # a notice from a toolset
            return self._message(event)
        return ""

    def _observation(self, event: Event) -> str:
        command = event.data.get("command") or {}
        failed = event.data.get("is_error") or command.get("exit_code")
        known = self._calls.get(calls.id_of(event))
        state: CallState = "denied" if known and known.refused else "failed" if failed else "done"
        return self._close() + self._print_call(event, state, str(event.data.get("result", "")))

    def _print_call(self, event: Event, state: CallState, result: str) -> str:
        call = self._calls.pop(calls.id_of(event), None) or calls.made_of(event, state)
        if call.has_task:
            return ""  # the task's line shows more
        call.state, call.result, call.duration = state, result, number(event.data.get("duration"))
        call.command = event.data.get("command") or {}
        call.unasked = bool(event.data.get("unasked"))
        line = self._lines.call(call, self.width, event.timestamp)
        folded = self._lines.folded(call, line)
        is_plain = state == "done" and not self._styler.reader
        path = call.args.get("path") if isinstance(call.args, Mapping) and is_plain else None
        if call.tool == READ_TOOL and isinstance(path, str):
            self._reads.append((path, folded))
            return ""
        self._folded.append(folded)
        if call.tool in EDIT_TOOLS and isinstance(path, str):
            self._edits[path] = line
            return ""
        tail = [self._styler.fit(line, self.width) for line in self._lines.tail(call)]
        todo = self._print_plan(call.args) if call.tool == TODO_TOOL and state == "done" else []
        return self._print([line, *tail, *todo], "call")

    def _print_plan(self, args: Any) -> list[Text]:
        """Render a to-do list: completely the first time, then only the changes."""
        before, self._plan = self._plan, list(calls.items_of(args))
        return self._lines.todo([item for item in self._plan if item not in before])

    def changed(self, event: Event, *, has_diff: bool = True) -> str:
        """Render a changed file; if an edit call changed it, on the line of that call.

        Args:
            has_diff: False to omit a diff that has just been shown.
        """
        edit = self._edits.pop(str(event.data.get("path", "")), None)
        title = diffs.head(event.data, self._styler, self._words)
        if edit is not None:
            counts = self._styler.text(*diffs.counts(event.data, self._styler, self._words))
            room = self.width - counts.cell_len
            title = self._styler.fit(edit, room).append_text(counts)
        if not has_diff:
            return self._close() + self._print([title], "call" if edit is not None else "notice")
        return self._print_diff(title, str(event.data.get("diff") or ""), diffs.MAX_LINES)

    def _task(self, event: Event) -> str:
        task = event.data.get("task")
        if not isinstance(task, Mapping) or (name := str(task.get("id", ""))) in self._ended:
            return ""
        if name not in self._tasks and (call := self._calls.get(str(task.get("call_id")))):
            call.has_task = True
        part = event.data.get("part") or self._tasks.get(name, {}).get("part") or {}
        if not number(task.get("ended")):
            self._tasks[name] = {**task, "part": part}  # `part` is the task's last call
            return ""
        self._ended.add(name)
        self._tasks.pop(name, None)
        line = self._lines.task(task, self.width, event.timestamp)
        sections = tuple((key, str(task.get(key, ""))) for key in ("prompt", "result"))
        self._folded.append(Folded(line, sections))
        return self._close() + self._print([line], "call")

    def _step_end(self, event: Event) -> str:
        before = self._close() + self._print_edits()
        context = event.data.get("context") or {}
        used, window = (int(number(context.get(name))) for name in ("tokens", "window"))
        self._facts = Facts(used=used, window=window)
        self._answer = AnswerInProgress(self._page)
        return before

    def _loop_end(self, event: Event) -> str:
        lines = self.close()
        self._answer, self._plan = AnswerInProgress(self._page), []
        tells_of_stop = bool(self._calls)  # the lines of stopped calls already report the stop
        for name, call in list(self._calls.items()):
            stopped = replace(event, data={"call_id": name, "tool": call.tool})
            lines += self._print_call(stopped, "stopped", "")
        reason = str(event.data.get("stop_reason", ""))
        if reason in _SILENT_REASONS:
            return lines
        if reason == "cancelled":
            return lines if tells_of_stop else lines + self._note("dim", "stopped_run")
        told = prompts_for(self._language).why(reason)
        shown = self._words("ended", reason=one_line(reason)) if told == reason else told
        return lines + self.notice(shown, "warning")

    def _message(self, event: Event) -> str:
        return self._close() + self.notice(event.content)

    def _notice(self, event: Event) -> str:
        """Render a notice; a message that the user sent meanwhile is shown as user input."""
        if event.data.get("synthetic") is False:
            return self.user_input(event.content)
        return self._message(event)

    def _error(self, event: Event) -> str:
        """Render a failure in up to three lines: what happened, what to do, what the server answered."""
        before, self._failed, data = self._failed, None, event.data
        title = self._told(data, "title")
        text = title or (before.cause if before and event.content == before.error else event.content)
        if before is not None:
            text = self._words("gave_up", count=before.tries + 1, cause=as_sentence(text))
        lines = self._close() + self.notice(text, "error")
        if title or before:
            act = self._words(_ACTS.get(str(data.get("kind")), "act_again"))
            below = [f"{self._told(data, 'fix')} {act}".strip(), one_line(str(data.get("said") or ""))]
            self._folded.append(Folded(self._styler.text(("error", text)), (("", event.content),)))
            lines += self._print(self._excerpt("\n".join(filter(None, below)), "dim", "  "), "notice")
        return lines

    def _told(self, data: Mapping[str, Any], key: str) -> str:
        """Return an event's text in the language of this view; empty if the event has no such text."""
        texts = data.get(key)
        return in_language(texts, self._language) if texts else ""

    def _soft_limit(self, event: Event) -> str:
        return self._note("warning", "soft_limit", reason=one_line(str(event.data.get("reason", ""))))

    def _compaction(self, event: Event) -> str:
        counts = {"before": "tokens_before", "after": "tokens_after", "cost": "cost", "saving": "saving"}
        shown = {name: short(int(number(event.data.get(key)))) for name, key in counts.items()}
        before, self._compacted = self._compacted, shown
        return "" if shown == before else self._note("dim", "compaction", **shown)


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
    EventType.FILE_CHANGE: TranscriptView.changed,
    EventType.TASK: TranscriptView._task,
    EventType.STEP_END: TranscriptView._step_end,
    EventType.LOOP_END: TranscriptView._loop_end,
    EventType.ERROR: TranscriptView._error,
    EventType.NOTICE: TranscriptView._notice,
    EventType.SOFT_LIMIT: TranscriptView._soft_limit,
    EventType.COMPACTION: TranscriptView._compaction,
}


def _recorded(entry: Entry, kind: EventType, /, **data: Any) -> Event:
    return Event(kind, entry.step, data, entry.time)


def positive(name: str, value: int) -> int:
    """Check that a size is positive and return it.

    Raises:
        ConfigError: The size is below 1.
    """
    if value < 1:
        raise ConfigError(notice("cli.at_least_one", name=name, value=value))
    return value
