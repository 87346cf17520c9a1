"""What a person sees of a conversation: events go in, finished lines come out, and the few lines that still move.

The application owns the terminal (prompt_toolkit, not full screen); this module says what stands there:

    screen = Transcript(80, color=True, language="en")
    above = screen.feed(event)      # "" or whole lines, each with its "\\n": print them above, once, as they are
    above = screen.asked("my task") # the same for: what the person said; a long paste is folded
    above = screen.say("saved")     # words of the application; role="error" or "warning" for others
    above = screen.markdown(text)   # a whole text as Markdown: help, a memory, an old answer
    above = screen.diff(name, text) # a whole diff in colours, for a question; `most=` cuts it
    above = screen.close()          # what is unfinished is finished now: before a question, after a stop
    above = screen.unfold(1)        # the last folded thing (reasoning, call, diff, paste) in full; 2: the one before
    lines = screen.live()           # at most `screen.live_lines` lines to draw below, without "\\n"
    line = screen.status(model="m", mode="ask", cost=0.02, seconds=65.0, note="2 queued")

`live()` and `status()` read the clock and change nothing, so they may be called at any rate; 8 times a second is
plenty. Each of their lines fits in `screen.width` columns, so prompt_toolkit need not wrap them. All texts are ANSI with
colours only (`prompt_toolkit.formatted_text.ANSI` reads them); without `color` they have no escape at all.

`screen.width` and `screen.live_lines` may be set at any time, such as after a resize: what is printed stays as it is.
Nothing foreign reaches the terminal unclean: every text passes `safe.Ink`. What the application itself shows of
foreign text (a picker, a completion, a question) passes `safe.clean` (may have lines) or `safe.one_line`.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat import diffs
from pure_agent_loop.cli.chat.calls import Call, CallState, Folded, Lines, number, seconds
from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.safe import Cleaner, Ink, clean, one_line
from pure_agent_loop.cli.chat.status import Facts, short, status_line
from pure_agent_loop.cli.chat.words import words_in
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.stop_reasons import STOP_REASONS

if TYPE_CHECKING:
    from rich.text import Text

MOST_ASKED = 6  # lines of what a person typed; of more, the first ones and a count are shown
MOST_SAID = 12  # lines of a message or an error
MOST_FOLDED = 100  # things that can be unfolded
LEAST_WIDTH, LEAST_LINES = 10, 1

# A word, or one character of a script that is written without spaces.
_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)


class Transcript:
    """See the top of this module.

    Args:
        width: Columns of the terminal.
        color: Whether to write colours; `support.terminal.wants_colour` knows.
        animation: Whether running work moves and its seconds count.
        theme: One of `safe.THEMES`.
        language: Of our words: ``"en"``, ``"zh"``, or None for the default.
        screen_reader: Words in the place of signs, no lines drawn, nothing that moves; finished blocks only.
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
        self._animation = animation and not screen_reader
        self._ink = Ink(color, theme, screen_reader)
        self._words = words_in(language)
        self._page = Page(self._ink, self._words)
        self._lines = Lines(self._ink, self._words, self._animation)
        self._folded: deque[Folded] = deque(maxlen=MOST_FOLDED)
        self._calls: dict[str, Call] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._facts = Facts()
        self._begun = time.time()
        self._last = ""  # what kind of thing was printed last
        self._new_answer()

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._width

    @width.setter
    def width(self, value: int) -> None:
        if value < 1:
            raise ConfigError(f"width={value!r} must be 1 or more.")
        self._width = max(value, LEAST_WIDTH)

    @property
    def live_lines(self) -> int:
        """Greatest number of lines that `live` gives."""
        return self._live_lines

    @live_lines.setter
    def live_lines(self, value: int) -> None:
        if value < LEAST_LINES:
            raise ConfigError(f"live_lines={value!r} must be {LEAST_LINES} or more.")
        self._live_lines = value

    def feed(self, event: Event) -> str:
        """Take in an event of a run. Returns the lines that are finished by it, to print once."""
        handler = _HANDLERS.get(event.type)
        return handler(self, event) if handler else ""

    # -- what the application says -------------------------------------------------------------------

    def asked(self, text: str) -> str:
        """What the person said; of a long paste the beginning, and `unfold` shows all."""
        lines = clean(text).strip("\n").split("\n")
        mark = f"{self._words('you')}: " if self._ink.reader else "> "
        shown = [self._ink.text(("label", mark), ("bold", line)) for line in lines[:MOST_ASKED]]
        if len(lines) > MOST_ASKED:
            note = self._words("more_lines", count=len(lines) - MOST_ASKED)
            self._folded.append(Folded(shown[0], (("", text),)))
            shown.append(self._ink.text(("dim", f"{mark}{note}")))
        return self.close() + self._print(shown, "asked")

    def say(self, text: str, role: str = "dim") -> str:
        """A message of the application, a server or a tool.

        Args:
            text: The message; of a long one the beginning, and `unfold` shows all.
            role: ``dim``, ``warning`` or ``error``, or another role of `safe.THEMES`.
        """
        lines = clean(text).strip("\n").split("\n")
        mark = f"{self._words('error')}: " if role == "error" else "" if self._ink.reader else "· "
        shown = [
            line
            for number, words in enumerate(lines[:MOST_SAID])
            for line in self._wrapped((role, ("  " if number else mark) + words))
        ]
        if len(lines) > MOST_SAID:
            self._folded.append(Folded(shown[0], (("", text),)))
            shown.append(self._ink.text(("dim", self._words("more_lines", count=len(lines) - MOST_SAID))))
        return self._print(shown, "said")

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
        lines, left = diffs.body(text, self._ink, self._words, most)
        title = self._ink.text(("label", "~ "), ("bold", one_line(name, 400)))
        if left:
            self._folded.append(Folded(title, (("diff", text),)))
        return self._print([title, *lines], "diff")

    def unfold(self, last: int = 1) -> str:
        """A folded thing in full.

        Args:
            last: Which: 1 is the one folded last, 2 the one before it.
        """
        if not 1 <= last <= len(self._folded):
            return self._print([self._ink.text(("dim", self._words("nothing_folded")))], "said")
        folded = self._folded[-last]
        lines = [folded.title]
        for name, text in folded.sections:
            if name == "diff":
                lines += diffs.body(text, self._ink, self._words, None)[0]
                continue
            title = self._words(name) if name in ("result", "reasoning", "prompt") else one_line(name)
            lines += [self._ink.text(("label", f"{title}:"))] if title else []
            lines += [self._ink.text(("", f"  {line}")) for line in clean(text).rstrip().split("\n")]
        return self._print(lines, "unfolded")

    def close(self) -> str:
        """Finish what is unfinished: the text as it is, and a line for the reasoning."""
        return self._close_reasoning() + self._close_text()

    # -- what still moves ------------------------------------------------------------------------------

    def live(self, now: float | None = None) -> list[str]:
        """The lines that still move, the newest text first cut.

        Args:
            now: Seconds since the epoch; this moment if None.
        """
        now = time.time() if now is None else now
        width = self.width
        work = [self._lines.call(call, width, now) for call in self._calls.values()]
        work += [self._lines.task(task, width, now) for task in self._tasks.values()]
        most = self.live_lines
        if len(work) > most:
            left = len(work) - most + 1
            work = [*work[: most - 1], self._ink.text(("dim", self._words("more_running", count=left)))]
        if doing := self._doing(now):
            work = [*work, doing][-most:] if not work else work
        text = [] if self._ink.reader else self._flow.tail(width, most - len(work))
        return [self._ink.ansi(self._ink.fit(line, width)) for line in [*text, *work]]

    def _doing(self, now: float) -> Text | None:
        """A line for what has no other: thinking, and a call that is being written."""
        if self._reasoning:
            words = self._words("thinking", count=self._word_count)
        elif self._writing:
            words = self._words("writing_call", tool=self._writing)
        else:
            return None
        return self._ink.fit(self._ink.text(self._lines.sign("running", now), ("dim", words)), self.width)

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
        known = self._facts
        facts = Facts(model, mode, note, known.step, known.used, known.window, known.tokens, cost, seconds)
        return self._ink.ansi(status_line(facts, self._ink, self._words, self.width))

    # -- printing --------------------------------------------------------------------------------------

    def _print(self, lines: Sequence[Text], kind: str) -> str:
        """Lines for above, with an empty line before where something else begins."""
        if not lines:
            return ""
        together = kind == self._last or {kind, self._last} <= {"call", "said", "reasoning"}
        gap = "\n" if self._last and not together else ""
        self._last = kind
        return gap + "".join(f"{self._ink.ansi(line)}\n" for line in lines)

    def _wrapped(self, *spans: tuple[str, str]) -> list[Text]:
        line = self._ink.text(*spans)
        line.no_wrap = False
        return list(line.wrap(self._ink.console, self.width, overflow="fold"))

    def _note(self, role: str, name: str, **values: object) -> str:
        return self.say(self._words(name, **values), role)

    # -- the answer in progress ------------------------------------------------------------------------

    def _new_answer(self) -> None:
        self._flow = Flow(self._page)
        self._cleaner = Cleaner()
        self._reasoning: list[str] = []
        self._reasoning_since = 0.0
        self._word_count = 0
        self._writing = ""
        self._has_text = self._has_reasoning = False  # it came in pieces
        self._has_printed = False

    def _text_delta(self, event: Event) -> str:
        before = self._close_reasoning(event.timestamp)
        piece = event.content if self._has_text else event.content.lstrip("\r\n")
        if not piece:
            return before
        self._has_text = True
        return before + self._print_text(self._flow.feed(self._cleaner.feed(piece), self.width))

    def _print_text(self, lines: list[Text]) -> str:
        if not lines:
            return ""
        if not self._has_printed:  # another answer stands apart from the one before
            self._last = self._last and "before"
        self._has_printed = True
        return self._print(lines, "text")

    def _close_text(self) -> str:
        lines = self._flow.feed(self._cleaner.close(), self.width) + self._flow.close(self.width)
        self._writing = ""
        return self._print_text(lines)

    def _thought(self, event: Event) -> str:
        before = self._close_reasoning(event.timestamp)
        if not self._has_text:
            before += self._text_delta(event)
        return before + self._close_text()

    def _reasoning_delta(self, event: Event) -> str:
        self._reasoning_since = self._reasoning_since or event.timestamp
        self._reasoning.append(event.content)
        self._has_reasoning = True
        self._word_count += len(_WORD.findall(event.content))
        return ""

    def _whole_reasoning(self, event: Event) -> str:
        if not self._has_reasoning:
            self._reasoning_delta(event)
        return self._close_reasoning(event.timestamp)

    def _close_reasoning(self, now: float | None = None) -> str:
        if not self._reasoning:
            return ""
        text = "".join(self._reasoning)
        took = (time.time() if now is None else now) - self._reasoning_since
        count = len(_WORD.findall(text))
        words = self._words("thought", seconds=seconds(max(took, 0.0)), count=count)
        line = self._ink.text(("dim", words if self._ink.reader else f"· {words}"))
        self._reasoning, self._reasoning_since, self._word_count = [], 0.0, 0
        self._folded.append(Folded(line, (("reasoning", text),)))
        return self._print([line], "reasoning")

    def _call_delta(self, event: Event) -> str:
        before = self._close_reasoning(event.timestamp)
        self._writing = one_line(str(event.data.get("tool") or self._writing), 60)
        return before

    def _retry(self, event: Event) -> str:
        data = event.data
        said = ""
        if data.get("discard"):
            self._new_answer()
            said = self._note("warning", "again")
        delay = seconds(number(data.get("delay")))
        tries = int(number(data.get("attempt"))) + 1
        return said + self._note(
            "warning", "retry", number=tries, seconds=delay, error=one_line(event.content)
        )

    # -- calls -----------------------------------------------------------------------------------------

    def _permission(self, event: Event) -> str:
        data, before = event.data, self.close()
        behavior = data.get("behavior")
        if behavior == "ask":
            self._put_call(event, "waiting")
        elif behavior == "deny":
            call = self._calls.pop(_call_id(event), None) or self._call(event, "failed")
            reason = str(data.get("reason") or "")
            call.state, call.result = "failed", self._words("refused") + (f": {reason}" if reason else "")
            return before + self._print_call(call, event.timestamp)
        return before

    def _action(self, event: Event) -> str:
        before = self.close()
        self._put_call(event, "running")
        return before

    def _call(self, event: Event, state: CallState) -> Call:
        data = event.data
        return Call(str(data.get("tool", "")), data.get("args"), state, event.timestamp)

    def _put_call(self, event: Event, state: CallState) -> None:
        self._calls[_call_id(event)] = self._call(event, state)

    def _observation(self, event: Event) -> str:
        data, before = event.data, self.close()
        call = self._calls.pop(_call_id(event), None) or self._call(event, "done")
        call.state = "failed" if data.get("is_error") else "done"
        call.duration, call.result = number(data.get("duration")), str(data.get("result", ""))
        return before + self._print_call(call, event.timestamp)

    def _print_call(self, call: Call, now: float) -> str:
        line = self._lines.call(call, self.width, now)
        self._folded.append(self._lines.folded(call, line))
        todo = self._lines.todo(call.args) if call.tool == "todo_write" and call.state == "done" else []
        return self._print([line, *todo], "call")

    def _file_change(self, event: Event) -> str:
        title = diffs.head(event.data, self._ink, self._words)
        text = str(event.data.get("diff") or "")
        lines, left = diffs.body(text, self._ink, self._words)
        if left:
            self._folded.append(Folded(title, (("diff", text),)))
        return self.close() + self._print([title, *lines], "diff")

    def _task(self, event: Event) -> str:
        task = event.data.get("task")
        if not isinstance(task, Mapping):
            return ""
        name = str(task.get("id", ""))
        if not number(task.get("ended")):
            self._tasks[name] = task
            return ""
        if self._tasks.pop(name, None) is None:
            return ""  # its end was told before
        line = self._lines.task(task, self.width, event.timestamp)
        sections = (("prompt", str(task.get("prompt", ""))), ("result", str(task.get("result", ""))))
        self._folded.append(Folded(line, sections))
        return self.close() + self._print([line], "call")

    # -- the run ---------------------------------------------------------------------------------------

    def _loop_start(self, event: Event) -> str:  # noqa: ARG002 - the application showed the task
        before = self.close()
        self._facts = Facts(used=self._facts.used, window=self._facts.window)
        self._new_answer()
        return before

    def _step_end(self, event: Event) -> str:
        before = self.close()
        usage, context = (event.data.get(name) for name in ("usage", "context"))
        total = number(usage.get("total_tokens")) if isinstance(usage, Mapping) else 0
        used, window = self._facts.used, self._facts.window
        if isinstance(context, Mapping):
            used, window = (int(number(context.get(name))) for name in ("tokens", "window"))
        self._facts = Facts(step=event.step, used=used, window=window, tokens=int(total))
        self._new_answer()
        return before

    def _loop_end(self, event: Event) -> str:
        said = self.close()
        for call in self._calls.values():
            call.state = "stopped"
            said += self._print_call(call, event.timestamp)
        self._calls.clear()
        self._new_answer()
        reason = str(event.data.get("stop_reason", ""))
        known = STOP_REASONS.get(reason)
        if known and known.kind in ("done", "failed"):
            return said  # the answer says it, or the error before it
        return said + self._note("warning", "ended", reason=one_line(reason))

    def _error(self, event: Event) -> str:
        return self.close() + self.say(event.content, "error")

    def _notice(self, event: Event) -> str:
        return self.close() + self.say(event.content)

    def _soft_limit(self, event: Event) -> str:
        reason = one_line(str(event.data.get("reason", "")))
        return self.close() + self._note("warning", "soft_limit", reason=reason)

    def _compaction(self, event: Event) -> str:
        before, after = (int(number(event.data.get(f"tokens_{when}"))) for when in ("before", "after"))
        return self.close() + self._note("dim", "compaction", before=short(before), after=short(after))


def _call_id(event: Event) -> str:
    return str(event.data.get("call_id") or event.data.get("tool", ""))


_HANDLERS: Mapping[EventType, Callable[[Transcript, Event], str]] = {
    EventType.LOOP_START: Transcript._loop_start,
    EventType.TEXT_DELTA: Transcript._text_delta,
    EventType.THOUGHT: Transcript._thought,
    EventType.REASONING_DELTA: Transcript._reasoning_delta,
    EventType.REASONING: Transcript._whole_reasoning,
    EventType.TOOL_CALL_DELTA: Transcript._call_delta,
    EventType.RETRY: Transcript._retry,
    EventType.PERMISSION: Transcript._permission,
    EventType.ACTION: Transcript._action,
    EventType.OBSERVATION: Transcript._observation,
    EventType.FILE_CHANGE: Transcript._file_change,
    EventType.TASK: Transcript._task,
    EventType.STEP_END: Transcript._step_end,
    EventType.LOOP_END: Transcript._loop_end,
    EventType.ERROR: Transcript._error,
    EventType.NOTICE: Transcript._notice,
    EventType.SOFT_LIMIT: Transcript._soft_limit,
    EventType.COMPACTION: Transcript._compaction,
}
