"""Choose a session with the arrow keys, with a filter, a preview of the last answer, and renaming."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.keyboard import Keyboard
from pure_agent_loop.cli.chat.output import sparing_output
from pure_agent_loop.cli.chat.styling import Styler, clean, one_line
from pure_agent_loop.cli.output import counted, error_text
from pure_agent_loop.cli.session_list import age, rename, story_of
from pure_agent_loop.errors import SessionError
from pure_agent_loop.sessions import SessionInfo, SessionStore
from pure_agent_loop.support.language import in_user_language, user_text

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from rich.text import Text

    from pure_agent_loop.sessions.story import Story

_WIDE = 80  # minimum columns to show the preview to the right of the list
_NARROW_PREVIEW = 5  # rows of the preview below the list
_OWN_ROWS = 2  # rows of the filter and the keys


@dataclass(slots=True)
class _Row:
    id: str
    updated: float
    story: Story

    @property
    def title(self) -> str:
        return one_line(self.story.title) or self.id

    @property
    def last(self) -> str:
        """The last answer; the last task if there is none."""
        answers = [entry.text for entry in self.story.entries if entry.kind == "answer"]
        return answers[-1] if answers else self.story.task


class SessionPicker:
    """A list of sessions on the alternate screen, so that nothing of it remains afterwards.

    Args:
        sessions: The sessions, most recently used first.
    """

    def __init__(self, sessions: Sequence[SessionInfo], store: SessionStore, styler: Styler) -> None:
        from prompt_toolkit.buffer import Buffer

        self._store, self._styler = store, styler
        self._rows = [_Row(info.id, info.updated, story_of(store, info.id)) for info in sessions]
        self._at = 0
        self._note = ""
        self._named: _Row | None = None  # the session that gets a new name
        self._filter = ""
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._typed())
        self._app = self._application()

    async def run(self) -> str | None:
        """Let the user choose a session; return its id, or None if none was chosen."""
        return await self._app.run_async(handle_sigint=False, set_exception_handler=False)

    def _typed(self) -> None:
        if self._named is None and self._buffer.text != self._filter:
            self._filter, self._at, self._note = self._buffer.text, 0, ""

    @property
    def _shown(self) -> list[_Row]:
        words = self._filter.lower().split()
        return [row for row in self._rows if all(word in self._text_of(row) for word in words)]

    def _text_of(self, row: _Row) -> str:
        tasks = (entry.text for entry in row.story.entries if entry.kind in ("task", "user"))
        return " ".join([row.id, row.title, *tasks]).lower()

    @property
    def _chosen(self) -> _Row | None:
        return self._shown[self._at] if self._shown else None

    def _move(self, by: int) -> None:
        self._at = max(min(self._at + by, len(self._shown) - 1), 0)

    def _enter(self) -> None:
        if self._named is None:
            self._app.exit(result=self._chosen.id if self._chosen else None)
            return
        row, name = self._named, " ".join(self._buffer.text.split())
        try:
            if name:
                rename(self._store, row.id, name)
                row.story.title = name
        except SessionError as error:
            self._note = one_line(error_text(error))
        self._end_naming()

    def _begin_naming(self) -> None:
        if self._named is None and (row := self._chosen):
            self._named = row
            self._buffer.text = row.title
            self._buffer.cursor_position = len(row.title)

    def _end_naming(self) -> None:
        self._named = None
        self._buffer.text = self._filter
        self._move(0)  # the new name might not match the filter

    def _escape(self) -> None:
        if self._named is None:
            self._app.exit(result=None)
        else:
            self._end_naming()

    # -- drawing ------------------------------------------------------------------------------------------

    def _application(self) -> Application[str | None]:
        from prompt_toolkit.application import Application
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.formatted_text import ANSI
        from prompt_toolkit.input import create_input
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.layout import (
            BufferControl,
            ConditionalContainer,
            FormattedTextControl,
            HSplit,
            Layout,
            VSplit,
            Window,
        )
        from prompt_toolkit.layout.processors import BeforeInput

        def lines(render: Callable[[], Sequence[Text]], height: int | None = None) -> Window:
            def text() -> Any:
                return ANSI("\n".join(self._styler.ansi(line) for line in render()))

            return Window(FormattedTextControl(text), height=height, dont_extend_height=height is not None)

        keys = KeyBindings()
        actions: dict[str, Callable[[], None]] = {
            "up": lambda: self._move(-1),
            "c-p": lambda: self._move(-1),
            "down": lambda: self._move(1),
            "c-n": lambda: self._move(1),
            "enter": self._enter,
            "c-r": self._begin_naming,
            "escape": self._escape,
            "c-c": self._escape,
            "c-d": self._escape,
            "<sigint>": self._escape,
        }
        for key, action in actions.items():
            keys.add(key, eager=True)(lambda _, action=action: action())
        source, output = create_input(sys.stdin), sparing_output(sys.stdout)
        if parser := getattr(source, "vt100_parser", None):  # None on Windows, which reports keys directly
            Keyboard(parser)
        output.enable_cpr = False  # the terminal's replies would mix with typed keys
        label = BeforeInput(lambda: user_text("chat.picker_name") if self._named else "> ")
        entry = Window(BufferControl(self._buffer, input_processors=[label]), height=1)
        wide = Condition(lambda: self._is_wide)
        beside = VSplit([lines(self._list), Window(width=1, char="│"), lines(self._preview)], padding=1)
        below = HSplit([lines(self._list), lines(self._preview, _NARROW_PREVIEW)])
        body = [ConditionalContainer(beside, wide), ConditionalContainer(below, ~wide)]
        app: Application[str | None] = Application(
            Layout(HSplit([entry, *body, lines(self._keys, 1)]), focused_element=entry),
            key_bindings=keys,
            full_screen=True,
            input=source,
            output=output,
        )
        app.ttimeoutlen = 0.2  # over ssh, the bytes of a key may arrive late
        return app

    @property
    def _is_wide(self) -> bool:
        return self._app.output.get_size().columns >= _WIDE

    @property
    def _columns(self) -> int:
        """The width of the list, and of the preview."""
        columns = self._app.output.get_size().columns
        return (columns - 3) // 2 if self._is_wide else columns

    def _list(self) -> list[Text]:
        rows = self._app.output.get_size().rows - _OWN_ROWS
        height = max(rows if self._is_wide else rows - _NARROW_PREVIEW, 1)
        first = max(self._at - height + 1, 0)
        shown = enumerate(self._shown[first : first + height], first)
        return [self._line(row, is_chosen=number == self._at) for number, row in shown] or [
            self._styler.text(("dim", user_text("chat.no_sessions")))
        ]

    def _line(self, row: _Row, *, is_chosen: bool) -> Text:
        when = self._styler.text(("dim", f"  {age(row.updated, time.time())}"))
        room = self._columns - when.cell_len
        mark, role = ("❯ ", "bold") if is_chosen else ("  ", "")
        line = self._styler.fit(self._styler.text(("label", mark), (role, row.title)), room)
        return line.append(" " * (room - line.cell_len)).append_text(when)

    def _preview(self) -> list[Text]:
        if (row := self._chosen) is None:
            return []
        steps = in_user_language(counted(row.story.steps, "step"))
        head = self._styler.text(("bold", row.title), ("dim", f"  {steps}"))
        text = [self._styler.text(("", line)) for line in clean(row.last).strip().split("\n")]
        width = self._columns
        return [
            self._styler.fit(head, width),
            *(line for one in text for line in self._styler.wrapped(one, width)),
        ]

    def _keys(self) -> list[Text]:
        keys = self._styler.text(("dim", user_text("chat.picker_keys")))
        return [self._styler.text(("warning", self._note)) if self._note else keys]
