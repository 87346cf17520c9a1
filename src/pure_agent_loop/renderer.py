"""Renderers of events as text, for people and for programs.

`Renderer` writes plain text, `RichRenderer` adds colours, `JsonLinesRenderer` writes a JSON object per line.
Each has two modes:

* ``Renderer()`` returns one block per event, without a final newline. Delta events render as empty text;
  the THOUGHT that follows has the complete text.
* ``Renderer(stream=True)`` returns the next text, newlines included.
  A response is streamed, and its THOUGHT is not repeated. After a RETRY with ``discard``, a line announces
  that the response restarts.

``renderer.print(event)`` prints this text, and nothing for an event that shows nothing.

Text from models and tools is untrusted: `terminal.safe_text` cleans it before it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TextIO, TypeVar

from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.explained import failure_lines
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import excerpt, one_line, safe_text
from pure_agent_loop.support.text import counted, to_jsonable

Handler = Callable[[Event], str]
H = TypeVar("H", bound=Callable[[Event], str])

# For each type of delta event, the type of the event that has the complete text.
_WHOLE = {
    EventType.TEXT_DELTA: EventType.THOUGHT,
    EventType.REASONING_DELTA: EventType.REASONING,
    EventType.TOOL_CALL_DELTA: EventType.ACTION,
}


@dataclass(frozen=True, slots=True)
class Segment:
    """Text with a style: ``label``, ``name``, ``dim``, ``error``, ``added`` ... or none."""

    text: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    handler: Handler
    raw: bool


class Renderer:
    """Plain-text renderer for people, and base class of the other renderers.

    A custom function replaces the built-in text; one for a tool takes precedence over one for an event type:

        renderer = Renderer()

        @renderer.on_tool("search")
        def search(event: Event) -> str:
            return f"searching: {event.data['args']}"

    If the function fails, the built-in text is shown with a note about the failure.

    Args:
        stream: True streams responses and returns text with its newlines; see the module docstring.
        max_lines: Longer tool results are shortened to their head and tail.
    """

    def __init__(self, *, stream: bool = False, max_lines: int = 12) -> None:
        require_value(max_lines >= 1, "max_lines", max_lines, "1 or more")
        self.stream = stream
        self.max_lines = max_lines
        self._by_tool: dict[tuple[str, EventType], _Entry] = {}
        self._args: dict[str, Any] = {}  # arguments of pending calls, for functions that render results
        self._by_type: dict[EventType, _Entry] = {}
        self._streamed: set[EventType] = set()  # types already streamed for the current response
        self._tasks: dict[str, tuple[str, float]] = {}  # last shown state and number of calls, by task
        self._line: EventType | None = None  # event type of the unfinished line

    def on_tool(self, name: str, *, result: bool = False, raw: bool = False) -> Callable[[H], H]:
        """Decorate a function to render the calls of one tool: the ACTION events, with ``args``.

        Args:
            name: Name of the tool.
            result: True renders the results instead: the OBSERVATION events, with ``args`` and ``result``.
            raw: True keeps escape sequences in the returned text. The function must then clean text from the
                event with `pure_agent_loop.support.terminal.safe_text`.
        """

        def register(handler: H) -> H:
            checked_function(f"on_tool({name!r})", handler, "event")
            self._by_tool[name, EventType.OBSERVATION if result else EventType.ACTION] = _Entry(handler, raw)
            return handler

        return register

    def on_event(self, event_type: EventType, *, raw: bool = False) -> Callable[[H], H]:
        """Decorate a function to render one type of event.

        Args:
            event_type: Type of the event.
            raw: As for `on_tool`.
        """
        known = EventType(event_type)

        def register(handler: H) -> H:
            checked_function(f"on_event({known.value!r})", handler, "event")
            self._by_type[known] = _Entry(handler, raw)
            return handler

        return register

    def render(self, event: Event) -> str:
        """Return the text of an event; empty if it shows nothing. To print it, use `print`."""
        entry, with_args = self._find(event), self._with_args(event)
        if entry is None:
            return self._place(event, self._built_in(event))
        try:
            text = entry.handler(with_args)
            if not isinstance(text, str):
                raise TypeError(f"it returned {type(text).__name__}, not str")  # noqa: TRY301 - one way to report it
        except Exception as error:  # noqa: BLE001 - a view must not end a run
            return self._place(event, self._failed(event, f"{type(error).__name__}: {error}"))
        return self._place(event, text if entry.raw else safe_text(text))

    def print(self, event: Event, file: TextIO | None = None) -> None:
        """Print the text of an event; print nothing, not even an empty line, if it shows nothing.

        Args:
            file: A stream; ``sys.stdout`` if None.
        """
        if text := self.render(event):
            print(text, end="" if self.stream else "\n", file=file, flush=True)

    def _with_args(self, event: Event) -> Event:
        """Return the event; an OBSERVATION gets its call's arguments, so that its text can name them."""
        key = str(event.data.get("call_id") or event.data.get("tool"))
        if event.type is EventType.ACTION:
            self._args[key] = event.data.get("args")
        elif event.type is EventType.OBSERVATION and "args" not in event.data:
            return replace(event, data={**event.data, "args": self._args.pop(key, None) or {}})
        return event

    def _find(self, event: Event) -> _Entry | None:
        handler = self._by_tool.get((str(event.data.get("tool")), event.type)) if self._by_tool else None
        return handler or self._by_type.get(event.type)

    def _place(self, event: Event, text: str) -> str:
        """Return `text` with the newlines that stream mode needs after the previous text."""
        if not self.stream:
            return text
        if event.type in _WHOLE:
            return self._piece(event.type, text)
        begin = "\n" if self._line and (text or event.type in _WHOLE.values()) else ""
        if begin:
            self._line = None
        if event.type in (EventType.STEP_END, EventType.ACTION, EventType.RETRY, EventType.LOOP_END):
            self._streamed.clear()  # the next delta begins a new response
        return f"{begin}{text}\n" if text else begin

    def _piece(self, kind: EventType, text: str) -> str:
        begin = "\n" if self._line not in (None, kind) else ""
        if text:
            self._streamed.add(_WHOLE[kind])
            self._line = None if text.endswith("\n") else kind
        return begin + text if text else ""

    def _failed(self, event: Event, problem: str) -> str:
        words = self._compose([Segment(f"(the custom renderer function failed: {problem})", "warning")])
        return "\n".join(part for part in (self._built_in(event), words) if part)

    def _built_in(self, event: Event) -> str:
        template = _TEMPLATES.get(event.type)
        return self._compose(template(self, event)) if template else ""

    def _compose(self, segments: list[Segment]) -> str:
        """Join segments. All text from models and tools passes through here and is made safe."""
        return "".join(safe_text(segment.text) for segment in segments)

    # -- the built-in texts -------------------------------------------------------------------------

    def _loop_start(self, event: Event) -> list[Segment]:
        task = one_line(str(event.data.get("task", "")))
        return [Segment("== ", "label"), Segment(task, "name")] if task else []

    def _piece_of_text(self, event: Event) -> list[Segment]:
        if not self.stream:
            return []
        fresh = _WHOLE[event.type] not in self._streamed
        text = event.content.lstrip("\r\n") if fresh else event.content  # many models start with blank lines
        return [Segment(text, "dim" if event.type is EventType.REASONING_DELTA else "")]

    def _text(self, event: Event) -> list[Segment]:
        if event.type in self._streamed:
            return []
        return [Segment(event.content.strip("\r\n"), "dim" if event.type is EventType.REASONING else "")]

    def _action(self, event: Event) -> list[Segment]:
        tool, args = str(event.data.get("tool", "")), event.data.get("args")
        return [
            Segment("-> ", "label"),
            Segment(f"{title}  " if (title := str(event.data.get("title") or "")) else "", "name"),
            Segment(one_line(tool), "name"),
            Segment(f"({_arguments(args)})", "dim"),
        ]

    def _observation(self, event: Event) -> list[Segment]:
        exit_code = _number((event.data.get("command") or {}).get("exit_code"))
        failed = bool(event.data.get("is_error") or exit_code)
        head = [
            Segment("<- ", "error" if failed else "label"),
            Segment(one_line(str(event.data.get("tool", ""))), "name"),
        ]
        if exit_code:
            head.append(Segment(f" exit code {exit_code:.0f}", "error"))
        elif failed:
            unasked = " (not asked)" if event.data.get("unasked") else ""
            head.append(Segment(f" failed{unasked}", "error"))
        result = excerpt(safe_text(event.content), self.max_lines)
        body = "".join(f"\n   {line}" for line in result.split("\n")) if result else " (no output)"
        return [
            *head,
            Segment(_seconds(event.data.get("duration")), "dim"),
            Segment(body, "error" if failed else "dim"),
        ]

    def _progress(self, event: Event) -> list[Segment]:
        name, text = one_line(str(event.data.get("tool", ""))), one_line(safe_text(event.content))
        return [Segment(".. ", "label"), Segment(name, "name"), Segment(f" {text}", "dim")] if text else []

    def _soft_limit(self, event: Event) -> list[Segment]:
        reason = str(event.data.get("reason", ""))
        return [Segment(f"-- {reason}: asked the model to review its progress", "warning")]

    def _error(self, event: Event) -> list[Segment]:
        lines = failure_lines(event.data) or [event.content]
        return [Segment("!! " + "\n   ".join(lines), "error")]

    def _retry(self, event: Event) -> list[Segment]:
        data = event.data
        again = "; the answer starts again" if data.get("discard") and self.stream else ""
        words = (
            f"-- try {_number(data.get('attempt')) + 1:.0f} in {_number(data.get('delay')):.1f} s{again}: "
        )
        why = " ".join(failure_lines(data)) or one_line(event.content)
        return [Segment(words + why, "warning")]

    def _notice(self, event: Event) -> list[Segment]:
        return [Segment(f"-- {event.content}", "dim")]

    def _permission(self, event: Event) -> list[Segment]:
        data = event.data
        words = {"ask": "may it run?", "deny": "not allowed", "allow": "allowed"}
        reason = one_line(safe_text(str(data.get("reason") or "")))
        what = words.get(str(data.get("behavior")), "")
        call = f"{one_line(str(data.get('tool', '')))}({_arguments(data.get('args'))})"
        call = f"{data['title']}  {call}" if data.get("title") else call
        return [Segment(f"? {call}: {what}{f' ({reason})' if reason else ''}", "warning")]

    def _compaction(self, event: Event) -> list[Segment]:
        data = event.data
        old_tokens, new_tokens = data.get("tokens_before", 0), data.get("tokens_after", 0)
        line = (
            f"-- {data.get('rung', '')}: history compacted from about {old_tokens:,} to {new_tokens:,} tokens"
        )
        if "cost" in data:
            line += f"; rewriting costs {data['cost']:,}, saves {data['saving']:,}"
        return [Segment(line, "dim")]

    def _file_change(self, event: Event) -> list[Segment]:
        data = event.data
        mark = {"created": "+ ", "deleted": "- "}.get(str(data.get("kind")), "~ ")
        counts = f" +{_number(data.get('added')):.0f} -{_number(data.get('removed')):.0f}"
        what = " (not text)" if data.get("is_binary") else counts
        name = one_line(str(data.get("path", "")))
        head = [Segment(mark, "label"), Segment(name, "name"), Segment(what, "dim")]
        lines = safe_text(str(data.get("diff") or "")).rstrip("\n").split("\n")
        # The heading already shows the file name.
        lines = [line for line in lines if not line.startswith(("--- a/", "+++ b/"))]
        diff = excerpt("\n".join(lines), self.max_lines)
        roles = {"+": "added", "-": "removed", "@": "label"}
        shown = diff.split("\n") if diff else []
        return head + [Segment(f"\n   {line}", roles.get(line[:1], "dim")) for line in shown]

    def _task(self, event: Event) -> list[Segment]:
        task = event.data.get("task")
        data: Mapping[str, Any] = task if isinstance(task, Mapping) else {}
        state, calls, tool = str(data.get("state", "")), _number(data.get("calls")), data.get("last_tool")
        if event.data.get("part"):
            return []  # skip changes of the task's own calls; the end of a step is shown instead
        ended = _number(data.get("ended")) > 0
        what = one_line(str(tool), 60) if tool and state in ("running", "backgrounded") else state
        if self._tasks.get(name := str(data.get("id", ""))) == (state, calls):
            return []  # show nothing if neither the state nor the number of calls changed
        self._tasks[name] = (state, calls)
        count = f"{counted(int(calls), 'call')}, {counted(int(_number(data.get('tokens'))), 'token')}"
        seconds = _number(data.get("ended")) - _number(data.get("started")) if data.get("started") else 0.0
        count += f",{_seconds(seconds)}" if _seconds(seconds) else ""
        error = one_line(safe_text(str(data.get("error") or "")))
        return [
            Segment(">> ", "error" if error else "label"),
            Segment(one_line(name), "name"),
            Segment(f" {what}", "error" if error else ""),
            Segment(f" ({count})" if calls or ended else "", "dim"),
            Segment(f": {error}" if error else "", "error"),
        ]

    def _loop_end(self, event: Event) -> list[Segment]:
        return [Segment("== ", "label"), Segment(str(event.data.get("stop_reason", "")), "name")]


_TEMPLATES: Mapping[EventType, Callable[[Renderer, Event], list[Segment]]] = {
    EventType.LOOP_START: Renderer._loop_start,
    EventType.TEXT_DELTA: Renderer._piece_of_text,
    EventType.REASONING_DELTA: Renderer._piece_of_text,
    EventType.THOUGHT: Renderer._text,
    EventType.REASONING: Renderer._text,
    EventType.ACTION: Renderer._action,
    EventType.OBSERVATION: Renderer._observation,
    EventType.PROGRESS: Renderer._progress,
    EventType.SOFT_LIMIT: Renderer._soft_limit,
    EventType.ERROR: Renderer._error,
    EventType.RETRY: Renderer._retry,
    EventType.NOTICE: Renderer._notice,
    EventType.PERMISSION: Renderer._permission,
    EventType.COMPACTION: Renderer._compaction,
    EventType.FILE_CHANGE: Renderer._file_change,
    EventType.TASK: Renderer._task,
    EventType.LOOP_END: Renderer._loop_end,
}

PlainRenderer = Renderer


def _arguments(args: Any) -> str:
    if not isinstance(args, Mapping):
        return one_line(str(args))
    pairs = (f"{one_line(str(name), 60)}={_value(value)}" for name, value in args.items())
    return one_line(", ".join(pairs), 600)


def _value(value: Any) -> str:
    return one_line(json.dumps(to_jsonable(value), ensure_ascii=False))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _seconds(duration: Any) -> str:
    return f" {_number(duration):.1f} s" if _number(duration) >= 0.05 else ""


class RichRenderer(Renderer):
    """Renderer with colours, using the package ``rich`` of the extra ``[cli]``; same text as `Renderer`.

    Markup from models and tools has no effect: their text goes into ``rich.text.Text`` verbatim.

    Args:
        stream: As for `Renderer`.
        max_lines: As for `Renderer`.
        color_system: Colour system of rich; ``"standard"`` uses the colours of the terminal theme.

    Raises:
        MissingExtraError: ``rich`` is not installed.
    """

    STYLES: ClassVar[Mapping[str, str]] = {
        "label": "bold cyan",
        "name": "bold",
        "dim": "dim",
        "error": "red",
        "warning": "yellow",
        "added": "green",
        "removed": "red",
    }

    def __init__(self, *, stream: bool = False, max_lines: int = 12, color_system: str = "standard") -> None:
        super().__init__(stream=stream, max_lines=max_lines)
        try:
            from rich.console import Console
            from rich.text import Text
        except ImportError as error:
            raise MissingExtraError(notice("library.feature_rich"), "cli") from error
        self._text_class = Text
        self._console = Console(
            force_terminal=True,
            color_system=color_system,  # type: ignore[arg-type]  # rich refuses others
            width=1_000_000,  # the terminal wraps long lines, which rich would truncate and pad
            no_color=False,
            legacy_windows=False,
        )

    def _compose(self, segments: list[Segment]) -> str:
        if not any(segment.role for segment in segments):
            return super()._compose(segments)
        text = self._text_class(end="")
        for segment in segments:
            text.append(safe_text(segment.text), self.STYLES.get(segment.role))
        with self._console.capture() as captured:
            self._console.print(text, end="", soft_wrap=True)
        return captured.get()


class JsonLinesRenderer(Renderer):
    """Renderer of one JSON object per line for each event, deltas included.

    The output is ASCII only, so that no text can forge a line. With ``stream=True`` every line ends with a
    newline. Text that custom functions return is shown verbatim.
    """

    def _built_in(self, event: Event) -> str:
        return json.dumps(event.to_dict(), allow_nan=False)

    def _failed(self, event: Event, problem: str) -> str:
        return json.dumps({**event.to_dict(), "renderer_error": problem}, allow_nan=False)

    def _place(self, event: Event, text: str) -> str:  # noqa: ARG002 - lines do not depend on what came before
        return f"{text}\n" if self.stream and text else text
