"""What a person sees of a conversation: events in, finished lines out, and the few lines that still move.

The application owns the terminal (prompt_toolkit, not full screen); this module says what stands there:

    screen = Transcript(80, color=True, language="en")
    above = screen.feed(event)       # "" or whole lines with their "\\n": print them above, once, as they are
    above = screen.asked("my task")  # the same for what the person said; a long paste is folded
    above = screen.say("saved")      # words of the application; role="error" or "warning" for others
    above = screen.markdown(text)    # a whole text as Markdown: help, a memory, an old answer
    above = screen.diff(name, text)  # a whole diff in colours, for a question; `most=` cuts it
    above = screen.close()           # finish what is unfinished: before a question, after a stop
    above = screen.unfold(1)         # what was folded last (reasoning, call, diff, paste), in full
    lines = screen.live()            # at most `screen.live_lines` lines to draw below, without "\\n"
    if screen.is_due(): ...          # at each tick: whether it is worth drawing them again
    line = screen.status(model="m", mode="ask", cost=0.02, seconds=65.0, note="2 queued")

`live()` and `status()` change nothing and may be called at any rate. To write few bytes: draw at a tick (8 a
second) only if `is_due()` or something was printed or typed; print what several events finished at once; give
the live region its full height while a run is on, and each of its lines a window of its own (prompt_toolkit
draws the last line of a window anew when another follows); write through `output.sparing_output`. Each line
fits in `screen.width` columns, so prompt_toolkit need not wrap it. All texts are ANSI with
colours only (`prompt_toolkit.formatted_text.ANSI` reads them); without `color` they have no escape at all.

`screen.width` and `screen.live_lines` may be set at any time, as after a resize; what is printed stays.
Nothing foreign reaches the terminal unclean: every text passes `safe.Ink`. What the application itself shows
of foreign text (a picker, a completion, a question) passes `safe.clean` (may have lines) or `safe.one_line`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat import calls, diffs
from pure_agent_loop.cli.chat.answer import Answer
from pure_agent_loop.cli.chat.calls import TODO_TOOL, Call, CallState, Folded, Lines, number, seconds
from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.output import LEAST_NEW, Pace, positive
from pure_agent_loop.cli.chat.safe import Ink, clean, one_line
from pure_agent_loop.cli.chat.status import Facts, short, status_line
from pure_agent_loop.cli.chat.words import words_in
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.stop_reasons import STOP_REASONS

if TYPE_CHECKING:
    from rich.text import Text

MOST_LINES = 12  # of a message, an error or what a person typed; `unfold` shows all
MOST_FOLDED = 100  # things that can be unfolded
_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA, EventType.TOOL_CALL_DELTA)
# The answer says these, or the error before them.
_TOLD = {str(name) for name, meaning in STOP_REASONS.items() if meaning.kind in ("done", "failed")}
_TOGETHER = {"call", "said", "reasoning"}  # kinds of lines that stand together


class Transcript:
    """See the top of this module.

    Args:
        width: Columns of the terminal.
        color: Whether to write colours; `support.terminal.wants_colour` knows.
        animation: Whether running work moves and its seconds count.
        theme: One of `safe.THEMES`.
        language: Of our words: ``"en"``, ``"zh"``, or None for the default.
        screen_reader: Words in the place of signs, no lines drawn, no text that moves.
        live_lines: Greatest number of lines that `live` gives.

    Raises:
        ConfigError: A value is not known or too small.
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
        self._ink = Ink(color, theme, screen_reader)
        self._words = words_in(language)
        self._page = Page(self._ink, self._words)
        self._lines = Lines(self._ink, self._words, animation and not screen_reader)
        self._answer = Answer(self._page)
        self._folded: deque[Folded] = deque(maxlen=MOST_FOLDED)
        self._calls: dict[str, Call] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._ended: set[str] = set()  # tasks whose end was told
        self._pace = Pace(animation and not screen_reader)
        self._facts = Facts()
        self._last = ""  # what kind of thing was printed last

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._width

    @width.setter
    def width(self, value: int) -> None:
        self._width = max(positive("width", value), 10)  # columns

    @property
    def live_lines(self) -> int:
        """Greatest number of lines that `live` gives."""
        return self._live_lines

    @live_lines.setter
    def live_lines(self, value: int) -> None:
        self._live_lines = positive("live_lines", value)

    def feed(self, event: Event) -> str:
        """Take in an event of a run. Returns the lines that are finished by it, to print once."""
        handler = _HANDLERS.get(event.type)
        begun = self._answer.has_text or self._answer.has_reasoning
        if handler:
            self._pace.note(len(event.content) if begun and event.type in _PIECES else LEAST_NEW)
        return handler(self, event) if handler else ""

    def asked(self, text: str) -> str:
        """What the person said; of a long paste the beginning, and `unfold` shows all."""
        mark = f"{self._words('you')}: " if self._ink.reader else "> "
        return self.close() + self._print(self._excerpt(text, "bold", mark), "asked")

    def say(self, text: str, role: str = "dim", most: int | None = MOST_LINES) -> str:
        """A message of the application, a server or a tool.

        Args:
            text: The message; of a long one the beginning, and `unfold` shows all.
            role: ``dim``, ``warning`` or ``error``, or another role of `safe.THEMES`.
            most: Greatest number of lines; None for all of them, as in a question.
        """
        mark = f"{self._words('error')}: " if role == "error" else "" if self._ink.reader else "· "
        return self._print(self._excerpt(text, role, mark, most), "said")

    def markdown(self, text: str) -> str:
        """A whole text as Markdown."""
        flow = Flow(self._page)
        lines = flow.feed(clean(text), self.width) + flow.close(self.width)
        return self.close() + self._print(lines, "text")

    def diff(self, name: str, text: str, most: int | None = None) -> str:
        """A diff in colours.

        Args:
            name: What it is about, such as a path.
            text: A unified diff.
            most: Greatest number of lines; None for all of it.
        """
        return self._print_diff(self._ink.text(("label", "~ "), ("bold", one_line(name, 400))), text, most)

    def unfold(self, last: int = 1) -> str:
        """A folded thing in full.

        Args:
            last: Which: 1 is the one folded last, 2 the one before it.
        """
        if not 1 <= last <= len(self._folded):
            return self._print([self._ink.text(("dim", self._words("nothing_folded")))], "said")
        return self._print(diffs.unfolded(self._folded[-last], self._ink, self._words), "unfolded")

    def close(self) -> str:
        """Finish what is unfinished: the text as it is, and a line for the reasoning."""
        return self._end_thinking(time.time()) + self._print_text(self._answer.close(self.width))

    def live(self, now: float | None = None) -> list[str]:
        """The lines that still move.

        Args:
            now: Seconds since the epoch; this moment if None.
        """
        now = time.time() if now is None else now
        width, most = self.width, self.live_lines
        work = [self._lines.call(call, width, now) for call in self._calls.values()]
        work += [self._lines.task(task, width, now) for task in self._tasks.values()]
        work = work or self._doing(now)
        if len(work) > most:
            left = self._words("more_running", count=len(work) - most + 1)
            work = [*work[: most - 1], self._ink.text(("dim", left))]
        text = [] if self._ink.reader else self._answer.tail(width, most - len(work))
        return [self._ink.ansi(self._ink.fit(line, width)) for line in [*text, *work]]

    def is_due(self, now: float | None = None) -> bool:
        """Whether `live` has enough that is new to be drawn; call it at each tick, 8 times a second.

        Args:
            now: Seconds since the epoch; this moment if None.
        """
        now = time.time() if now is None else now
        return self._pace.is_due(now, bool(self._calls or self._tasks or self._doing(now)))

    def _doing(self, now: float) -> list[Text]:
        """A line for what has no other: thinking, and a call that is being written."""
        if not (self._answer.words or self._answer.writing):
            return []
        words = self._words("writing_call", tool=self._answer.writing)
        if self._answer.words:
            words = self._words("thinking", count=self._answer.words)
        return [self._ink.text(self._lines.sign("running", now), ("dim", words))]

    def status(
        self,
        model: str = "",
        mode: str = "",
        *,
        cost: float | None = None,
        seconds: float | None = None,
        note: str = "",
    ) -> str:
        """One line on how things stand; step, context and tokens are known from the events.

        Args:
            model: Its name.
            mode: What the agent may do.
            cost: Money spent so far.
            seconds: Time of the run so far.
            note: A word of the application, such as what is queued.
        """
        facts = replace(self._facts, model=model, mode=mode, cost=cost, seconds=seconds, note=note)
        return self._ink.ansi(status_line(facts, self._ink, self._words, self.width))

    def _print(self, lines: Sequence[Text], kind: str) -> str:
        """Lines for above, with an empty line before where something else begins."""
        if not lines:
            return ""
        together = kind == self._last or {kind, self._last} <= _TOGETHER
        gap = "\n" if self._last and not together else ""
        self._last = kind
        return gap + "".join(f"{self._ink.ansi(line)}\n" for line in lines)

    def _print_text(self, lines: Sequence[Text]) -> str:
        if lines and not self._answer.has_printed:
            self._answer.has_printed = True
            self._last = self._last and "another"  # even if an answer stands above it
        return self._print(lines, "text")

    def _print_diff(self, title: Text, text: str, most: int | None) -> str:
        lines, left = diffs.body(text, self._ink, self._words, most)
        if left:
            self._folded.append(Folded(title, (("diff", text),)))
        return self.close() + self._print([title, *lines], "diff")

    def _excerpt(self, text: str, role: str, mark: str, most: int | None = MOST_LINES) -> list[Text]:
        """The beginning of a text, wrapped behind a mark; the whole can be unfolded."""
        lines = clean(text).strip("\n").split("\n")
        shown: list[Text] = []
        for words in lines[:most]:
            line = self._ink.text(("label", mark), (role, words))
            line.no_wrap = False
            shown += line.wrap(self._ink.console, self.width, overflow="fold")
            mark = mark if mark == "> " else " " * min(len(mark), 2)
        if most is not None and len(lines) > most:
            self._folded.append(Folded(shown[0], (("", text),)))
            shown.append(self._ink.text(("dim", self._words("more_lines", count=len(lines) - most))))
        return shown

    def _note(self, role: str, name: str, **values: object) -> str:
        return self.close() + self.say(self._words(name, **values), role)

    def _text_delta(self, event: Event) -> str:
        before = self._end_thinking(event.timestamp)
        room = None if self._ink.reader else self.live_lines
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
        over = self._answer.end_thinking(now)
        if over is None:
            return ""
        text, took, count = over
        words = self._words("thought", seconds=seconds(took), count=count)
        line = self._ink.text(("dim", words if self._ink.reader else f"· {words}"))
        self._folded.append(Folded(line, (("reasoning", text),)))
        return self._print([line], "reasoning")

    def _call_delta(self, event: Event) -> str:
        self._answer.writing = one_line(str(event.data.get("tool") or self._answer.writing), 60)
        return self._end_thinking(event.timestamp)

    def _retry(self, event: Event) -> str:
        said = ""
        if event.data.get("discard"):
            self._answer = Answer(self._page)
            said = self._note("warning", "again")
        tries, delay = int(number(event.data.get("attempt"))) + 1, seconds(number(event.data.get("delay")))
        error = one_line(event.content)
        return said + self._note("warning", "retry", seconds=delay, number=tries, error=error)

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
            ""  # it is written; to decide about it may take a while: a command is tried first
        )
        self._calls[part["call_id"]] = Call(part["tool"], part["input"], "running", event.timestamp)
        return ""

    def _action(self, event: Event) -> str:
        known = self._calls.get(calls.id_of(event))
        if not known or (known.state != "running" and not known.refused):
            self._calls[calls.id_of(event)] = calls.made_of(event, "running")
        return self.close()

    def _progress(self, event: Event) -> str:
        if call := self._calls.get(calls.id_of(event)):
            call.result = str(event.data.get("text", ""))
        elif not event.data.get("call_id"):  # a toolset has something to say
            return self._told(event)
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
        title = diffs.head(event.data, self._ink, self._words)
        return self._print_diff(title, str(event.data.get("diff") or ""), diffs.MOST_LINES)

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
        self._answer = Answer(self._page)
        return before

    def _loop_end(self, event: Event) -> str:
        said = self.close()
        self._answer = Answer(self._page)
        for name, call in list(self._calls.items()):
            left = replace(event, data={"call_id": name, "tool": call.tool})
            said += self._print_call(left, "stopped", "")
        reason = str(event.data.get("stop_reason", ""))
        if reason in _TOLD:
            return said
        return said + self._note("warning", "ended", reason=one_line(reason))

    def _told(self, event: Event) -> str:
        return self.close() + self.say(event.content, "error" if event.type is EventType.ERROR else "dim")

    def _soft_limit(self, event: Event) -> str:
        return self._note("warning", "soft_limit", reason=one_line(str(event.data.get("reason", ""))))

    def _compaction(self, event: Event) -> str:
        before, after = (short(int(number(event.data.get(f"tokens_{when}")))) for when in ("before", "after"))
        return self._note("dim", "compaction", before=before, after=after)


_HANDLERS: Mapping[EventType, Callable[[Transcript, Event], str]] = {
    EventType.TEXT_DELTA: Transcript._text_delta,
    EventType.THOUGHT: Transcript._thought,
    EventType.REASONING_DELTA: Transcript._reasoning_delta,
    EventType.REASONING: Transcript._reasoning,
    EventType.TOOL_CALL_DELTA: Transcript._call_delta,
    EventType.RETRY: Transcript._retry,
    EventType.PART: Transcript._part,
    EventType.PERMISSION: Transcript._permission,
    EventType.ACTION: Transcript._action,
    EventType.PROGRESS: Transcript._progress,
    EventType.OBSERVATION: Transcript._observation,
    EventType.FILE_CHANGE: Transcript._file_change,
    EventType.TASK: Transcript._task,
    EventType.STEP_END: Transcript._step_end,
    EventType.LOOP_END: Transcript._loop_end,
    EventType.ERROR: Transcript._told,
    EventType.NOTICE: Transcript._told,
    EventType.SOFT_LIMIT: Transcript._soft_limit,
    EventType.COMPACTION: Transcript._compaction,
}
