"""The last lines of the terminal: what moves, what is asked, the input, and how things stand.

prompt_toolkit draws them and reads the keys, not full screen. What is finished is printed above them, once.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.cli.chat.completion import Completions, Found
from pure_agent_loop.cli.chat.output import sparing_output
from pure_agent_loop.cli.chat.pasted import Chips
from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.paths import data_folder, private_folder

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.filters import Filter
    from prompt_toolkit.key_binding import ConditionalKeyBindings
    from prompt_toolkit.layout import Layout

_SYNC, _END_SYNC = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know it show what is between them at once
_MOST_ROWS = 10  # of the input
MOST_LIVE = 8  # lines that move


class Acts(Protocol):
    """What the keys do."""

    @property
    def is_working(self) -> bool:
        """Whether a run is going on."""

    def enter(self, text: str, *, at_end: bool = False) -> None:
        """A text was sent."""

    def stop(self) -> None:
        """Ctrl-C or Esc."""

    def leave(self) -> None:
        """Ctrl-D."""

    def unfold(self) -> None:
        """Ctrl-O."""

    def to_background(self) -> None:
        """Ctrl-B."""

    def next_mode(self) -> None:
        """Shift+Tab."""

    def say(self, text: str) -> None:
        """Say something of ours."""

    def live(self) -> list[str]:
        """The lines that move."""

    def asked(self) -> str:
        """What can be answered now."""

    def status(self) -> str:
        """The last line."""


class Prompt:
    """The application of prompt_toolkit.

    Args:
        acts: What the keys do.
        completions: What the input may become.
        workspace: The folder, which has a history of its own.
        vi: Keys as in vi, else as in emacs.
        color: Whether to write colours.
    """

    def __init__(
        self, acts: Acts, completions: Completions, workspace: Path, *, vi: bool, color: bool
    ) -> None:
        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.enums import EditingMode
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.output import ColorDepth

        self._acts, self.chips = acts, Chips()
        place = _history_of(workspace)
        self.buffer = Buffer(
            completer=_completer(completions),
            complete_while_typing=True,
            history=InMemoryHistory() if place is None else FileHistory(str(place)),
            multiline=True,
            tempfile_suffix=".md",
            name="input",
        )
        output = sparing_output(sys.stdout)
        output.enable_cpr = False  # a terminal's answers would come between the keys
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=output,
            enable_page_navigation_bindings=False,
        )
        self.app.timeoutlen, self.app.ttimeoutlen = 0.3, 0.05

    @property
    def rows(self) -> int:
        """Lines of the terminal."""
        return self.app.output.get_size().rows

    @property
    def columns(self) -> int:
        """Columns of the terminal."""
        return self.app.output.get_size().columns

    @property
    def is_away(self) -> bool:
        """Whether another program has the terminal, such as an editor."""
        return self.app._running_in_terminal

    def print_above(self, text: str) -> None:
        """Print finished lines; they are never drawn again.

        Args:
            text: Whole lines, clean.
        """
        output = self.app.output
        output.write_raw(_SYNC)
        self.app.renderer.erase()
        output.write_raw(text)
        self.app._redraw()
        output.write_raw(_END_SYNC)
        output.flush()

    def copy(self, text: str) -> None:
        """Ask the terminal to put a text on its clipboard; in base64 nothing in it means anything.

        Args:
            text: The text.
        """
        self.app.output.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
        self.app.output.flush()

    def put(self, text: str) -> None:
        """Put a text into the input line."""
        from prompt_toolkit.document import Document

        self.buffer.set_document(Document(text), bypass_readonly=True)

    def _layout(self) -> Layout:
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.formatted_text import ANSI
        from prompt_toolkit.layout import (
            BufferControl,
            CompletionsMenu,
            ConditionalContainer,
            Dimension,
            FormattedTextControl,
            HSplit,
            Layout,
            Window,
        )
        from prompt_toolkit.layout.processors import BeforeInput
        from prompt_toolkit.widgets import SearchToolbar

        def lines(text: Callable[[], str], *, wrap: bool = False) -> ConditionalContainer:
            window = Window(
                FormattedTextControl(lambda: ANSI(text())), dont_extend_height=True, wrap_lines=wrap
            )
            return ConditionalContainer(window, Condition(lambda: bool(text())))

        search = SearchToolbar(
            forward_search_prompt=chat_word("search"), backward_search_prompt=chat_word("search")
        )
        control = BufferControl(
            self.buffer,
            input_processors=[BeforeInput("> ")],
            search_buffer_control=search.control,
            preview_search=True,
        )
        height = Dimension(min=1, max=_MOST_ROWS)
        entry = Window(control, height=height, wrap_lines=True, dont_extend_height=True)
        menu = CompletionsMenu(max_height=6, scroll_offset=1)
        # A window for each line: the last line of a window is drawn anew when another one follows.
        live = [lines(partial(self._live_line, number)) for number in range(MOST_LIVE)]
        asked, status = lines(self._acts.asked, wrap=True), lines(self._acts.status)
        return Layout(HSplit([*live, asked, entry, search, menu, status]), focused_element=entry)

    def _live_line(self, number: int) -> str:
        live = self._acts.live()
        return (live[number] or " ") if number < len(live) else ""

    def _keys(self) -> ConditionalKeyBindings:
        from prompt_toolkit.filters import (
            Condition,
            has_completions,
            is_searching,
            vi_insert_mode,
            vi_navigation_mode,
        )
        from prompt_toolkit.key_binding import ConditionalKeyBindings, KeyBindings

        keys, acts, buffer = KeyBindings(), self._acts, self.buffer
        working = Condition(lambda: acts.is_working)
        empty = Condition(lambda: not buffer.text)
        vi = vi_insert_mode | vi_navigation_mode

        def add(*names: str, does: Callable[[Any], Any], when: Filter | bool = True) -> None:
            keys.add(*names, filter=when)(does)

        add("enter", does=lambda _: self._enter())
        add("escape", "enter", does=lambda _: self._send(at_end=True), when=working)
        add("escape", "enter", does=lambda _: buffer.newline(copy_margin=False), when=~working)
        add("c-j", does=lambda _: buffer.newline(copy_margin=False))
        add("<bracketed-paste>", does=lambda event: buffer.insert_text(self.chips.fold(event.data)))
        add("escape", does=lambda _: acts.stop(), when=~has_completions & working)
        add("escape", does=lambda _: buffer.cancel_completion(), when=has_completions & ~vi)
        add("c-c", does=lambda _: self._interrupt())
        add("<sigint>", does=lambda _: self._interrupt())
        add("c-d", does=lambda _: acts.leave(), when=empty)
        add("?", does=lambda _: acts.enter("/help"), when=empty & ~vi_navigation_mode)
        add("c-o", does=lambda _: acts.unfold())
        add("c-b", does=lambda _: acts.to_background(), when=working)
        add("tab", does=lambda _: self._complete(), when=Condition(lambda: self._only_one() is not None))
        add("s-tab", does=lambda _: acts.next_mode(), when=~has_completions)
        add("c-v", does=lambda _: self._paste_image(), when=~vi_navigation_mode)
        add("c-x", "c-e", does=lambda _: self.edit(), when=~vi_navigation_mode)
        add("v", does=lambda _: self.edit(), when=vi_navigation_mode)
        add("c-z", does=lambda event: event.app.suspend_to_background())
        return ConditionalKeyBindings(keys, ~is_searching)  # Ctrl-R has keys of its own

    def _enter(self) -> None:
        state = self.buffer.complete_state
        is_command = self.buffer.text.startswith("/")  # it stands there whole: one Enter does it
        if state is not None and state.current_completion is not None and not is_command:
            self.buffer.apply_completion(state.current_completion)
        else:
            self._send()

    def _only_one(self) -> Any:
        state = self.buffer.complete_state
        return state.completions[0] if state is not None and len(state.completions) == 1 else None

    def _complete(self) -> None:
        """Take the only completion; a second Tab would otherwise take it back."""
        self.buffer.apply_completion(self._only_one())

    def edit(self) -> None:
        """Open the person's editor on the input."""
        self.put(self.chips.unfold(self.buffer.text))  # the whole text, also of a paste
        name_editors_by_path()
        self.buffer.open_in_editor()

    def _paste_image(self) -> None:
        chip = self.chips.of_clipboard()
        if chip:
            self.buffer.insert_text(chip)
        else:
            self._acts.say(chat_word("no_image"))

    def _interrupt(self) -> None:
        if self.buffer.text and not self._acts.is_working:
            self.buffer.reset()
        else:
            self._acts.stop()

    def _send(self, *, at_end: bool = False) -> None:
        line = self.buffer.text
        if not line.strip():
            return
        with suppress(OSError):  # a history that cannot be written stops no conversation
            self.buffer.append_to_history()
        self.buffer.reset()
        self._acts.enter(self.chips.unfold(line), at_end=at_end)


def _completer(completions: Completions) -> Completer:
    from prompt_toolkit.completion import Completer, Completion, ThreadedCompleter

    def shown(found: Iterable[Found]) -> Iterator[Completion]:
        for each in found:
            yield Completion(each.name, -each.replaces, each.shown, each.about)

    class Completing(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:  # noqa: ARG002 - its shape
            yield from shown(completions.of(document.text_before_cursor))

    class Asking(ThreadedCompleter):  # a large folder takes its time
        async def get_completions_async(
            self, document: Any, complete_event: Any
        ) -> AsyncGenerator[Completion, None]:
            for each in shown(await completions.asked(document.text_before_cursor)):
                yield each
            async with aclosing(super().get_completions_async(document, complete_event)) as others:
                async for each in others:
                    yield each

    return Asking(Completing())


def wants_vi(home: Path) -> bool:
    """Whether the person's readline has the keys of vi.

    Args:
        home: Their home.
    """
    try:
        text = (home / ".inputrc").read_text("utf-8", "replace")
    except OSError:
        return False
    return re.search(r"^\s*set\s+editing-mode\s+vi\b", text, re.M) is not None


def _history_of(workspace: Path) -> Path | None:
    """Where what was typed in a folder is kept; None if it cannot be."""
    name = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        path = private_folder(data_folder() / "history") / name
        path.touch(mode=0o600)
    except OSError:
        return None
    return path


def name_editors_by_path() -> None:
    """Say in ``VISUAL`` and ``EDITOR`` where they are: a `PATH` may name the working folder."""
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):  # quotes that do not close
            words = shlex.split(os.environ.get(name, ""))
            if words and "/" not in words[0]:
                program = find_program(words[0])
                os.environ[name] = shlex.join([program, *words[1:]]) if program else ""
