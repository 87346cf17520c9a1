"""The bottom of the terminal: live lines, the pending question, the input and the status line.

prompt_toolkit draws these lines and reads the keys, without full screen. Finished lines are printed above
these lines, each once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import select
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.cli.chat.attention import Attention
from pure_agent_loop.cli.chat.completion import Candidate, InputCompletions
from pure_agent_loop.cli.chat.custom import command_in, sign_of
from pure_agent_loop.cli.chat.keyboard import Keyboard
from pure_agent_loop.cli.chat.output import (
    MIN_COLUMNS,
    MIN_ROWS,
    at_once,
    follow_reflow,
    patch,
    sparing_output,
)
from pure_agent_loop.cli.chat.pasted import InputEntry, TagRow, TypedSign
from pure_agent_loop.cli.chat.styling import Styler
from pure_agent_loop.support.child import find_program
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import user_text

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.filters import Filter
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import ConditionalKeyBindings
    from prompt_toolkit.layout import Layout

    from pure_agent_loop.sessions import SessionInfo, SessionStore

_SYNC, _END_SYNC = (
    "\x1b[?2026h",
    "\x1b[?2026l",
)  # terminals that support these sequences draw the output between them in one frame
_MAX_ROWS = 10  # rows of the input
MAX_LIVE, _OWN_ROWS = 8, 6  # maximum live lines, and rows for the rest of the application
_RULED_ROWS = 20  # minimum rows of a terminal for lines around the input
_DIM, _GROUND = "ansibrightblack", "bg:default"
_NAME, _ABOUT = f"{_GROUND} ansicyan", f"{_GROUND} {_DIM}"
_STYLES = {  # the menu has no background of its own
    "rule": _DIM,
    "placeholder": _DIM,
    "completion-menu": _GROUND,
    "completion-menu.completion": _NAME,
    "completion-menu.completion.current": f"{_NAME} reverse",
    "completion-menu.meta.completion": _ABOUT,
    "completion-menu.meta.completion.current": f"{_ABOUT} reverse",
    "scrollbar.background": _GROUND,
    "scrollbar.button": f"bg:{_DIM}",
}
PASTE_SECONDS = 0.02  # pause that ends a paste without bracketed-paste markers
_LINES_AT_ONCE = re.compile(r"[^\r\n\t ][\r\n]+[^\r\n]")


class PromptActions(Protocol):
    """Actions of the keys, and the texts to show."""

    @property
    def is_working(self) -> bool:
        """True while a run or a command is running."""

    def enter(self, entry: InputEntry, *, at_end: bool = False) -> None:
        """Handle submitted input."""

    def enter_nothing(self) -> None:
        """Handle an empty line."""

    def stop(self) -> None:
        """Stop the run (Ctrl-C or Esc)."""

    def leave(self) -> None:
        """Exit (Ctrl-D)."""

    def unfold(self) -> None:
        """Unfold the last folded block (Ctrl-O)."""

    def to_background(self) -> None:
        """Move a subagent task to the background (Ctrl-B)."""

    def next_mode(self) -> None:
        """Switch the permission mode (Shift+Tab)."""

    def print_notice(self, text: str) -> None:
        """Print a notice."""

    def live(self) -> list[str]:
        """Return the live lines."""

    def answer_choices(self) -> str:
        """Return the possible answers to the pending question."""

    @property
    def answer_keys(self) -> Sequence[str]:
        """Keys that choose or give an answer."""

    def press_answer_key(self, key: str) -> None:
        """Handle one of the `answer_keys`."""

    def status(self) -> str:
        """Return the status line."""

    def note(self) -> str:
        """Return a short notice, for example that the run is stopping."""

    def queued(self) -> list[str]:
        """Return the sent messages that the agent has not read yet."""


class Prompt:
    """The prompt_toolkit application.

    Args:
        workspace: The folder; each folder has a separate input history.
        plain: True to draw no lines around the input, for a screen reader.
        calls: True to alert an absent person; see `Attention`.
    """

    def __init__(
        self,
        acts: PromptActions,
        completions: InputCompletions,
        workspace: Path,
        *,
        vi: bool,
        color: bool,
        plain: bool = False,
        calls: bool = True,
    ) -> None:
        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.enums import EditingMode
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.output import ColorDepth
        from prompt_toolkit.styles import Style

        self._acts, self._plain, self._color, self.chips = acts, plain, color, TagRow()
        history = _history_of(workspace)
        self.buffer = Buffer(
            completer=_completer(completions),
            complete_while_typing=True,
            history=InMemoryHistory() if history is None else FileHistory(str(history)),
            multiline=True,
            tempfile_suffix=".md",
            name="input",
        )
        self._typed = TypedSign(self.buffer)
        self._secret: asyncio.Future[str] | None = None  # pending request for hidden input
        output = sparing_output(sys.stdout)
        output.enable_cpr = False  # the terminal's replies would mix with typed keys
        self.attention = Attention(self._write, workspace.name, os.environ, is_on=calls, only_rings=plain)
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            input=_paste_aware_input(self.attention),
            output=output,
            style=Style.from_dict(_STYLES),
            enable_page_navigation_bindings=False,
        )
        self._above = 0  # minimum number of printed rows on the screen
        self._reflows = follow_reflow(self.app.renderer, output, os.environ, self._scroll)
        self.app.after_render += lambda _: self._scroll(0)
        self.app.key_processor.before_key_press += lambda _: self.attention.key()
        self.app.timeoutlen, self.app.ttimeoutlen = 0.15, 0.2  # over ssh, bytes may arrive late

    @property
    def rows(self) -> int:
        """Terminal height in rows."""
        return self.app.output.get_size().rows

    @property
    def columns(self) -> int:
        """Terminal width in columns."""
        return self.app.output.get_size().columns

    @property
    def live_lines(self) -> int:
        """The maximum number of live lines."""
        return max(min(MAX_LIVE, self.rows - _OWN_ROWS), 1)

    @property
    def has_rules(self) -> bool:
        """True if lines are drawn around the input: if there is room and no screen reader is used."""
        return not self._plain and self.rows >= _RULED_ROWS

    @property
    def room(self) -> tuple[int, int] | None:
        """Maximum rows of the live lines in a window of `MIN_COLUMNS`, and maximum rows added by rewrapping.

        When a narrower window rewraps the live lines, they must not scroll, because scrolled lines cannot be
        erased. tmux scrolls even if there are empty rows below. None if the terminal does not rewrap lines.
        """
        above = self._above - 1  # one row is reserved, because the status line may be rewrapped too
        return (min(self.rows, MIN_ROWS) - _OWN_ROWS, above) if self._reflows else None

    def _scroll(self, rows: int) -> None:
        """Reduce the count of printed rows on the screen.

        As many as `rows` may have scrolled off, and live lines may have displaced others.
        """
        screen = self.app.renderer.last_rendered_screen
        left = self._above if screen is None else min(self._above, self.rows - screen.height)
        self._above = max(left - rows, 0)

    @property
    def is_away(self) -> bool:
        """True while another program, such as an editor, uses the terminal."""
        return self.app._running_in_terminal

    @property
    def is_running(self) -> bool:
        """True while the application draws and reads keys."""
        return self.app.is_running

    async def run(self) -> None:
        """Draw and read keys until `exit`."""
        self.attention.open()
        try:
            await self.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            self.attention.close()

    def exit(self) -> None:
        """End the application."""
        self.app.exit()

    def redraw(self) -> None:
        """Schedule a redraw of the live lines."""
        self.app.invalidate()

    def keys(self, name: str) -> str:
        """Set the key bindings if the name is ``vi`` or ``emacs``; return the name of the bindings in use."""
        from prompt_toolkit.enums import EditingMode

        if name in ("vi", "emacs"):
            self.app.editing_mode = EditingMode(name.upper())
        return self.app.editing_mode.value.lower()

    def print_above(self, text: str) -> None:
        """Print finished lines, which must be clean and complete."""
        output = self.app.output
        with at_once(output):
            output.write_raw(_SYNC)
            self.app.renderer.erase()
            output.write_raw(text)
            self._above += text.count("\n")
            self.app._redraw()
            output.write_raw(_END_SYNC)

    def copy(self, text: str) -> None:
        """Ask the terminal to copy a text to its clipboard; base64 keeps control characters inert."""
        self._write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")

    def _write(self, sequence: str) -> None:
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    async def pick(self, sessions: Sequence[SessionInfo], store: SessionStore, theme: str) -> str | None:
        """Let the user choose a session on a separate screen; return its id, or None if none was chosen."""
        from prompt_toolkit.application import in_terminal
        from prompt_toolkit.application.current import set_app

        from pure_agent_loop.cli.chat.picker import SessionPicker

        with set_app(self.app):
            async with in_terminal():
                return await SessionPicker(sessions, store, Styler(self._color, theme, reader=False)).run()

    def put(self, text: str) -> None:
        """Replace the input with a text."""
        from prompt_toolkit.document import Document

        self.buffer.set_document(Document(text), bypass_readonly=True)
        self._typed.distrust()

    async def secret(self) -> str:
        """Return a line that is neither shown while it is typed nor kept in the history."""
        self._secret = asyncio.get_running_loop().create_future()
        try:
            self.redraw()
            return await self._secret
        finally:
            self._secret = None
            self._typed.forget()

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
        from prompt_toolkit.layout.processors import (
            AfterInput,
            BeforeInput,
            ConditionalProcessor,
            PasswordProcessor,
        )
        from prompt_toolkit.widgets import SearchToolbar

        def rule() -> ConditionalContainer:
            # The line is short, because a full-width line would wrap when the window gets narrower.
            text: Any = [("class:rule", "─" * MIN_COLUMNS)]
            window = Window(FormattedTextControl(text), height=1)
            return ConditionalContainer(window, Condition(lambda: self.has_rules))

        def lines(text: Callable[[], str], *, wrap: bool = False) -> ConditionalContainer:
            window = Window(
                FormattedTextControl(lambda: ANSI(text())), dont_extend_height=True, wrap_lines=wrap
            )
            return ConditionalContainer(window, Condition(lambda: bool(text())))

        search = SearchToolbar(
            forward_search_prompt=user_text("chat.search"), backward_search_prompt=user_text("chat.search")
        )
        hidden = ConditionalProcessor(PasswordProcessor(), Condition(lambda: self._secret is not None))
        below = AfterInput(self._placeholder, "class:placeholder")
        control = BufferControl(
            self.buffer,
            input_processors=[hidden, BeforeInput(self._label), below],
            search_buffer_control=search.control,
            preview_search=True,
        )
        height = Dimension(min=1, max=_MAX_ROWS)
        entry = Window(control, height=height, wrap_lines=True, dont_extend_height=True)
        menu = CompletionsMenu(max_height=8, scroll_offset=1)
        # One window per line: prompt_toolkit redraws the last line of a window when another line follows.
        live = [lines(partial(self._live_line, number), wrap=self._plain) for number in range(MAX_LIVE)]
        choices = lines(self._acts.answer_choices, wrap=True)
        status = lines(self._acts.status, wrap=self._plain)
        return Layout(
            HSplit([*live, choices, rule(), entry, search, menu, rule(), status]), focused_element=entry
        )

    def _placeholder(self) -> str:
        is_searching = self.app.layout.is_searching  # the search result is drawn in the empty input
        is_idle = not (
            self.buffer.text or is_searching or self._acts.is_working or self._acts.answer_choices()
        )
        return user_text("chat.placeholder") if is_idle and not self._plain else ""

    def _label(self) -> str:
        """Return the prompt, which explains what the input will do if its first character could mislead."""
        sign, is_working = self._typed.sign, self._acts.is_working
        word = {"!": "label_run", "#": "label_note"}.get("" if is_working else sign, "")
        if not sign and sign_of(self.buffer.text) and not (is_working and self.buffer.text[0] != "/"):
            word = "label_text"
        return user_text(f"chat.{word}") if word else "> "

    def _live_line(self, number: int) -> str:
        live = self._acts.live()
        return (live[number] or " ") if number < len(live) else ""

    def _keys(self) -> ConditionalKeyBindings:
        from prompt_toolkit.filters import (
            Condition,
            emacs_insert_mode,
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

        def takes(key: str) -> Filter:
            return Condition(lambda: key in acts.answer_keys) & empty & ~vi_navigation_mode

        asked = takes("enter")

        def answer(key: str, _: object) -> None:
            acts.press_answer_key(key)

        # Letters are not bound, because a typed text may begin with y or n.
        for name in ("up", "down", "enter", "1", "2", "3"):
            keys.add(name, filter=takes(name), eager=True)(partial(answer, name))
        add("enter", does=lambda _: self._enter(), when=~asked)
        add("escape", "enter", does=lambda _: self._send(at_end=True), when=working)
        add("escape", "enter", does=lambda _: buffer.newline(copy_margin=False), when=~working)
        is_continued = Condition(lambda: _is_continued(buffer.document.text_before_cursor))
        add("enter", does=lambda _: self._continue_line(), when=~asked & is_continued)
        idle = empty & ~working & ~has_completions & emacs_insert_mode
        add("escape", "escape", does=lambda _: acts.enter(InputEntry.typed("/rewind")), when=~asked & idle)
        add("c-j", does=lambda _: buffer.newline(copy_margin=False))
        add("<bracketed-paste>", does=lambda event: buffer.insert_text(self.chips.fold(event.data)))
        add("escape", does=lambda _: acts.stop(), when=~has_completions & working)
        add("escape", does=lambda _: buffer.cancel_completion(), when=has_completions & ~vi)
        add("c-c", does=lambda _: self._interrupt())
        add("<sigint>", does=lambda _: self._interrupt())
        add("c-d", does=lambda _: acts.leave(), when=empty)
        at_start = Condition(lambda: buffer.cursor_position == 0)
        for sign in "/!#":
            add(
                sign,
                does=lambda event: self._typed.type(event.data),
                when=at_start & (emacs_insert_mode | vi_insert_mode),
            )
        add("?", does=lambda _: acts.enter(InputEntry.typed("/help ?")), when=empty & ~vi_navigation_mode)
        add("c-o", does=lambda _: acts.unfold())
        add("c-b", does=lambda _: acts.to_background(), when=working)
        # A single completion is applied at once: in prompt_toolkit, a second Tab would undo it.
        has_one = Condition(lambda: self._only_one() is not None)
        add("tab", does=lambda _: buffer.apply_completion(self._only_one()), when=has_one)
        add("s-tab", does=lambda _: acts.next_mode(), when=~has_completions)
        add("c-v", does=lambda _: self._paste_image(), when=~vi_navigation_mode)
        add("c-x", "c-e", does=lambda _: self.edit(), when=~vi_navigation_mode)
        add("v", does=lambda _: self.edit(), when=vi_navigation_mode)
        add("c-l", does=lambda _: self._clear())
        add("c-z", does=lambda event: event.app.suspend_to_background())
        return ConditionalKeyBindings(keys, ~is_searching)  # the Ctrl-R search has separate key bindings

    def _enter(self) -> None:
        state = self.buffer.complete_state
        is_command = self.buffer.text.startswith("/")  # a complete command runs with one Enter
        if state is not None and state.current_completion is not None and not is_command:
            self.buffer.apply_completion(state.current_completion)
        else:
            self._send()

    def _continue_line(self) -> None:
        """Replace the backslash before the cursor by a line break, as a shell does."""
        self.buffer.delete_before_cursor(1)
        self.buffer.newline(copy_margin=False)

    def _only_one(self) -> Any:
        state = self.buffer.complete_state
        return state.completions[0] if state is not None and len(state.completions) == 1 else None

    def _clear(self) -> None:
        self._above = 0
        self.app.renderer.clear()

    def edit(self) -> None:
        """Open the input in the user's editor."""
        whole = self.chips.unfold(self.buffer.text)  # the editor shows the pasted text in full
        if whole != self.buffer.text:
            self.put(whole)
        for name in name_editors_by_path():
            self._acts.print_notice(user_text("chat.editor_missing", name=name))
        self.buffer.open_in_editor()

    def _paste_image(self) -> None:
        chip = self.chips.of_clipboard()
        if chip:
            self.buffer.insert_text(chip)
        else:
            self._acts.print_notice(user_text("chat.no_image"))

    def _interrupt(self) -> None:
        if self.buffer.text and not self._acts.is_working:
            self._typed.forget()
        else:
            self._acts.stop()

    def _send(self, *, at_end: bool = False) -> None:
        line = self.buffer.text
        if self._secret is not None:
            if not self._secret.done():
                self._secret.set_result(line)
            self._typed.forget()
            return
        if not line.strip():
            self._acts.enter_nothing()
            return
        sign = self._typed.sign
        entry = self.chips.entry(line, sign)
        with suppress(OSError):  # a history error must not stop the conversation
            # The leading space keeps the recalled line from becoming a command.
            if sign_of(line) and not sign:
                self.buffer.text = f" {line}"
            if not entry.has_key:
                self.buffer.append_to_history()
        self._typed.forget()
        self._acts.enter(entry, at_end=at_end)


def _paste_aware_input(attention: Attention) -> Input:
    """Return an input that treats lines arriving together as a paste, even without paste markers.

    Focus reports go to `attention`.
    """
    from prompt_toolkit.input import create_input
    from prompt_toolkit.key_binding.key_processor import KeyPress
    from prompt_toolkit.keys import Keys

    source = create_input(sys.stdin)
    if parser := getattr(source, "vt100_parser", None):  # None on Windows, which reports keys directly
        Keyboard(parser, attention.focus)
    read, cooked = source.read_keys, source.cooked_mode

    def read_keys() -> list[KeyPress]:
        pressed = read()
        texts = (
            "".join(key.data for key in keys) for is_text, keys in groupby(pressed, is_written) if is_text
        )
        if not any(_LINES_AT_ONCE.search(it) and not all(map(command_in, it.splitlines())) for it in texts):
            return pressed  # not a paste: one line, or typed commands
        while select.select([source.fileno()], [], [], PASTE_SECONDS)[0] and (further := read()):
            pressed += further
        first = next(number for number, key in enumerate(pressed) if not isinstance(key.key, Keys))
        # Keys between the texts keep their places, because input that was typed ahead also arrives at once.
        return pressed[:first] + [
            key
            for is_text, keys in groupby(pressed[first:], is_written)
            for key in (
                [KeyPress(Keys.BracketedPaste, "".join(key.data for key in keys))] if is_text else keys
            )
        ]

    def is_written(key: KeyPress) -> bool:
        return not isinstance(key.key, Keys) or key.key in written

    written = (Keys.ControlM, Keys.ControlJ, Keys.ControlI)
    patch(source, read_keys=read_keys, cooked_mode=lambda: attention.lent(cooked()))
    return source


def _completer(completions: InputCompletions) -> Completer:
    from prompt_toolkit.completion import Completer, Completion, ThreadedCompleter

    def shown(candidates: Iterable[Candidate]) -> Iterator[Completion]:
        for candidate in candidates:
            yield Completion(candidate.name, -candidate.replaces, candidate.shown, candidate.about)

    class Completing(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:  # noqa: ARG002 - required by the interface
            yield from shown(completions.of(document.text_before_cursor))

    class CommandCompleter(ThreadedCompleter):  # listing a large folder is slow
        async def get_completions_async(
            self, document: Any, complete_event: Any
        ) -> AsyncGenerator[Completion, None]:
            for completion in shown(await completions.from_server(document.text_before_cursor)):
                yield completion
            async with aclosing(super().get_completions_async(document, complete_event)) as others:
                async for completion in others:
                    yield completion

    return CommandCompleter(Completing())


def wants_vi(home: Path) -> bool:
    """Return True if the user's readline configuration selects vi keys."""
    try:
        text = (home / ".inputrc").read_text("utf-8", "replace")
    except OSError:
        return False
    return re.search(r"^\s*set\s+editing-mode\s+vi\b", text, re.M) is not None


def _history_of(workspace: Path) -> Path | None:
    """Return the input history file of a folder; None if it cannot be created."""
    name = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        path = private_folder(data_folder() / "history") / name
        path.touch(mode=0o600)
    except OSError:
        return None
    return path


def _is_continued(line: str) -> bool:
    """Return True if a text ends with an unescaped backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def name_editors_by_path() -> list[str]:
    """Make ``VISUAL`` and ``EDITOR`` absolute, because `PATH` may include the untrusted working folder.

    Returns:
        The settings whose program does not exist, such as ``EDITOR=nano``; they are not used.
    """
    missing = []
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):  # unbalanced quotes
            words = shlex.split(os.environ.get(name, ""))
            if words:
                program = find_program(words[0]) if "/" not in words[0] else _executable(words[0])
                missing += [] if program else [f"{name}={words[0]}"]
                os.environ[name] = shlex.join([program, *words[1:]]) if program else ""
    return missing


def _executable(path: str) -> str:
    """Return the absolute path of a program; empty if the path is not an executable file."""
    return os.path.abspath(path) if Path(path).is_file() and os.access(path, os.X_OK) else ""  # noqa: PTH100 - links stay
