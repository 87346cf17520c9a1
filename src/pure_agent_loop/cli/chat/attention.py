"""Alert the person when a question is pending or a long run has ended."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pure_agent_loop.cli.chat.styling import one_line
from pure_agent_loop.support.language import user_text

# After this time without a key press, the person may be away. A run that takes this long is a long run.
AWAY_SECONDS = 10.0
MAX_WORDS = 80  # maximum characters of a title or a notification
_BELL, _TITLE = "\a", "\x1b]0;{}\a"
_KEEP_TITLE, _RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"  # on the terminal's title stack
_FOCUS_ON, _FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
_WITHOUT_TITLE = ("linux", "eterm-color", "cons25")  # terminals that print title sequences as text, or hang
_OSC_777 = ("rxvt", "foot", "contour")  # like VTE and Konsole, these support notifications with a title


class Attention:
    """Sets the terminal's title, and alerts an absent person once, by bell and notification.

    The person counts as back when the terminal gains focus or a key is pressed.

    Args:
        write: Function that writes a sequence to the terminal at once.
        folder: Name of the working folder.
        environ: The environment, which identifies the terminal.
        is_on: False to write nothing at all.
        only_rings: True to ring only: a screen reader would read titles and notifications aloud.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        folder: str,
        environ: Mapping[str, str],
        *,
        is_on: bool,
        only_rings: bool,
    ) -> None:
        self._send, self._is_on = write, is_on
        self._folder, self._environ = one_line(folder, MAX_WORDS), environ
        self._has_words = not only_rings and environ.get("TERM") not in _WITHOUT_TITLE
        self._has_focus: bool | None = None  # None before the terminal's first report
        self._last_key = -math.inf
        self._shown, self._until_back = "", False
        self._has_called = False
        self._due: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Save the terminal's title, set our own and turn on focus reports."""
        self._write(_FOCUS_ON, _KEEP_TITLE, self._title())

    def close(self) -> None:
        """Restore the terminal's title; a terminal without a title stack gets its default title."""
        self._cancel()
        self._write(_FOCUS_OFF, _TITLE.format(""), _RESTORE_TITLE)

    @contextmanager
    def lent(self, terminal: AbstractContextManager[None]) -> Iterator[None]:
        """Turn off focus reports while another program, such as an editor, uses the terminal."""
        self._write(_FOCUS_OFF)
        with terminal:
            yield
        self._write(_FOCUS_ON)

    def call(self, text: str, *, until_back: bool = False) -> None:
        """Show a text in the title, and alert the person if absent.

        Args:
            text: What needs attention; empty if nothing does any more.
            until_back: True to show the text only until the person is back.
        """
        text = one_line(text, MAX_WORDS)
        if text == self._shown:
            return
        self._cancel()
        self._shown, self._until_back = text, until_back
        self._write("", self._title())
        if text and not self._has_focus and not self._has_called:
            since = -math.inf if self._has_focus is False else self._last_key
            delay = max(since + AWAY_SECONDS - time.monotonic(), 0)
            self._due = asyncio.get_running_loop().call_later(delay, self._ring)

    def focus(self, has_focus: bool) -> None:
        """Handle the terminal's report that it gained or lost focus."""
        self._has_focus = has_focus
        if has_focus:
            self._is_back()

    def key(self) -> None:
        """Handle a key."""
        self._last_key = time.monotonic()
        self._is_back()

    def _is_back(self) -> None:
        self._cancel()
        self._has_called = False
        if self._until_back:
            self.call("")

    def _cancel(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _ring(self) -> None:
        self._has_called = True
        self._write(_BELL, self._notification())

    def _title(self) -> str:
        waits = f"● {user_text('chat.title_waits', text=self._shown)}"
        return _TITLE.format(waits if self._shown else user_text("chat.title", folder=self._folder))

    def _notification(self) -> str:
        env = self._environ
        if env.get("STY"):  # GNU screen
            return ""
        head, text = user_text("chat.title", folder=self._folder).replace(";", ","), self._shown
        takes_title = env.get("VTE_VERSION") or env.get("KONSOLE_VERSION")
        if takes_title or env.get("TERM", "").startswith(_OSC_777):
            sequence = f"\x1b]777;notify;{head};{text}\a"
        else:
            sequence = f"\x1b]9;{head}: {text}\a"
        # tmux passes on wrapped sequences if its option allow-passthrough is on.
        wrapped = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{wrapped}\x1b\\" if env.get("TMUX") else sequence

    def _write(self, sequence: str, *words: str) -> None:
        """Write a sequence, and `words` (titles and notifications) if they are turned on."""
        if self._is_on:
            self._send("".join([sequence, *(words if self._has_words else ())]))
