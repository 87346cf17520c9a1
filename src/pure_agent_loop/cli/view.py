"""Show a run on standard error and collect its outcome."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.renderer import Renderer, RichRenderer
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.explained import failure_lines
from pure_agent_loop.support.language import user_language
from pure_agent_loop.support.terminal import continues, is_plain, width_of, words_of, wrap_text

_PIECES = (EventType.TEXT_DELTA, EventType.REASONING_DELTA)
_EXACT = (*_PIECES, EventType.FILE_CHANGE)  # not wrapped, so that a diff can be copied
_WORDS = (*_PIECES, EventType.THOUGHT, EventType.REASONING)


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a run, collected from its events."""

    content: str = ""
    stop_reason: str = "error"
    steps: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    error_kind: str = ""
    error_lines: list[str] = field(default_factory=list)  # the error for people; see `failure_lines`
    questions: list[dict[str, Any]] = field(default_factory=list)
    output: Any = None

    def note(self, event: Event) -> None:
        """Update the outcome from an event."""
        data = event.data
        if event.type is EventType.STEP_END:
            self.steps, self.usage = event.step, data["usage"]
        elif is_question(event):
            self.questions.append({name: data[name] for name in ("call_id", "tool", "args", "reason")})
        elif event.type is EventType.ERROR and data["fatal"]:
            self.error, self.error_kind = data["error"], data["kind"]
            self.error_lines = failure_lines(data, user_language()) or [self.error]
        elif event.type is EventType.LOOP_END:
            self.steps = event.step
            self.content, self.stop_reason = data["content"], data["stop_reason"]

    @property
    def is_waiting(self) -> bool:
        """True if the run is suspended for an approval."""
        return self.stop_reason == SUSPENDED

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``--output-format json``."""
        result: dict[str, Any] = {
            "content": self.content,
            "stop_reason": self.stop_reason,
            "steps": self.steps,
            "usage": self.usage,
        }
        if self.output is not None:
            result["output"] = self.output
        if self.is_waiting:
            result["questions"] = self.questions
        if self.error:
            result["error"] = {"kind": self.error_kind, "message": self.error}
        return result


def is_question(event: Event) -> bool:
    """Return True if the event asks the user about a call."""
    return event.type is EventType.PERMISSION and event.data["behavior"] == "ask"


class ProgressPrinter:
    """Shows events as they arrive.

    On a terminal, answers appear piece by piece. A log or a pipe gets one block per event, without the final
    answer, which is written to standard output.

    Args:
        quiet: True to show only errors.
    """

    def __init__(self, output: CommandOutput, *, quiet: bool = False) -> None:
        self._output = output
        self._quiet = quiet
        self._live = output.err_is_terminal
        self._renderer = _renderer(output, live=self._live)
        self._held: Event | None = None  # a text held back, because it may be the final answer
        self._answer, self._step = list[str](), 0
        self._below_results = False
        self._wrap = StreamWrapper(output.error_columns) if self._live else None

    @property
    def shown_answer(self) -> str:
        """The last answer if the terminal has already shown it, else an empty string."""
        return (
            "".join(self._answer) if self._live and not self._quiet and self._output.out_is_terminal else ""
        )

    def show(self, event: Event) -> None:
        """Show one event."""
        self._follow(event)
        if self._quiet:
            return
        if not self._live and event.type is EventType.THOUGHT:
            self._held = event
            return
        self._release(event)
        self._write(event)

    def _follow(self, event: Event) -> None:
        """Track the text of the current answer."""
        if event.step != self._step or event.type is EventType.RETRY:
            self._answer, self._step = [], event.step
        if event.type is EventType.TEXT_DELTA:
            self._answer.append(event.content)
        elif event.type is EventType.THOUGHT:
            self._answer = [event.content]

    def _release(self, event: Event) -> None:
        """Show a held-back text that turns out not to be the final answer."""
        held, ends = self._held, (EventType.STEP_END, EventType.LOOP_END)
        if held is not None and event.type not in ends:
            self._held = None
            self._write(held)

    def _write(self, event: Event) -> None:
        text = self._renderer.render(event)
        if text and self._below_results and event.type in _WORDS:
            self._output.progress("\n")  # separate the model's text from the results above
        if text:
            self._below_results = event.type in (EventType.OBSERVATION, EventType.FILE_CHANGE)
        if self._wrap is not None and event.type in _PIECES:
            text = self._wrap.feed(text)
        elif self._wrap is not None:
            text = self._wrap.close() + (text if event.type in _EXACT else wrap_text(text, self._wrap.width))
        self._output.progress(text)


class StreamWrapper:
    """Wraps a text that arrives in pieces, between words; lines of code are not wrapped.

    Args:
        width: Columns.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        # Held back, because later text may extend or drop them.
        self._word, self._blanks = list[str](), list[str]()
        self._column, self._first = 0, ""  # width of the current line, and its first word
        self._in_code = self._plain = False

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that is final: all except the last word."""
        first, *lines = piece.split("\n")
        out = self._add(first)
        for line in lines:
            out += f"{self._end_word()}\n"
            if self._first.startswith(("```", "~~~")):
                self._in_code = not self._in_code
            self._begin_line()
            out += self._add(line)
        return out

    def close(self) -> str:
        """End the text; return the rest."""
        out = self._end_word() + "".join(self._blanks)
        self._begin_line()
        self._in_code = False
        return out

    def _begin_line(self) -> None:
        self._word, self._blanks, self._column, self._first = [], [], 0, ""

    def _add(self, text: str) -> str:
        """Add a part of a line; return the finished words, wrapped if the line is too wide."""
        if self._word and text and continues(self._word[-1], text, plain=self._plain):
            self._word.append(text)
            self._plain = self._plain and is_plain(text)
            return ""
        out, held, self._word = "", "".join([*self._word, text]), []
        for word, blanks in words_of(held):
            out += self._end_word()
            self._word = [word] if word else []
            if blanks:
                out += self._end_word()
                self._blanks.append(blanks)
                self._column += len(blanks)
        self._plain = bool(self._word) and is_plain(self._word[0])
        return out

    def _end_word(self) -> str:
        """Return the held-back word, after the blanks before it or on a new line."""
        word, self._word = "".join(self._word), []
        if not word:
            return ""
        before, size = "".join(self._blanks), width_of(word)
        if self._first and self._column + size > self.width and not self._in_code:
            before, self._column = "\n", 0
        self._first = self._first or word
        self._blanks, self._column = [], self._column + size
        return before + word


def _renderer(output: CommandOutput, *, live: bool) -> Renderer:
    renderer = Renderer(stream=True)
    if output.colour:
        with suppress(MissingExtraError):
            renderer = RichRenderer(stream=True)
    # Not shown: the user has just typed the task, and the command itself reports the end and errors.
    unseen = (EventType.LOOP_START, EventType.LOOP_END, EventType.ERROR)
    for kind in unseen if live else (*unseen, *_PIECES):
        renderer.on_event(kind)(lambda _: "")
    return renderer
