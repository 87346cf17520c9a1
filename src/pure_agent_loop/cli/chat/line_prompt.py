"""Read lines at a terminal without escape sequences, such as the Emacs shell."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from pure_agent_loop.cli.chat.attention import Attention
from pure_agent_loop.cli.chat.pasted import InputEntry
from pure_agent_loop.cli.chat.prompt import PASTE_SECONDS, PromptActions
from pure_agent_loop.cli.chat.styling import clean
from pure_agent_loop.support.control import without_reports
from pure_agent_loop.support.language import user_text

MAX_BYTES = 4_000_000  # maximum bytes per read


class LinePrompt:
    """The `Prompt` of a plain terminal.

    Each line is submitted; several lines that arrive together are a paste.
    """

    is_away = False
    live_lines, room = 1, None  # no live lines are drawn
    rows = 1_000_000  # no limit on live lines, because none are drawn

    def __init__(self, acts: PromptActions, write: Callable[[str], None]) -> None:
        self._acts, self._write = acts, write
        self._shown, self._is_asking = "", False
        self.attention = Attention(write, "", {}, is_on=False, only_rings=True)
        self._done: asyncio.Future[None] | None = None

    @property
    def columns(self) -> int:
        """Terminal width in columns."""
        return shutil.get_terminal_size().columns

    @property
    def is_running(self) -> bool:
        """True while lines are read."""
        return self._done is not None and not self._done.done()

    async def run(self) -> None:
        """Read lines until `exit`."""
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        loop.add_reader(sys.stdin.fileno(), self._read)
        loop.add_signal_handler(signal.SIGINT, self._acts.stop)
        try:
            self.redraw()
            await self._done
        finally:
            loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGINT)

    def exit(self) -> None:
        """Stop reading."""
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def redraw(self) -> None:
        """Print a new question or notice, and a prompt if input is expected."""
        waiting = "\n".join(user_text("screen.queued", text=clean(text)) for text in self._acts.queued())
        notice = self._acts.answer_choices() or self._acts.note() or waiting
        if notice and notice != self._shown:
            self.print_above(f"{notice}\n")
        self._shown = notice
        if not self._is_asking and (self._acts.answer_choices() or not self._acts.is_working):
            self._is_asking = True
            self._write("> ")

    def print_above(self, text: str) -> None:
        """Print finished lines, which must be clean and complete."""
        self._write(f"\n{text}" if self._is_asking else text)
        self._is_asking = False
        self._shown = self._shown and self._acts.answer_choices()

    def put(self, text: str) -> None:
        """Print a text for the user to edit or send again."""
        self.print_above(f"{text}\n")

    def copy(self, text: str) -> None:
        """Print a text instead of copying it, because this terminal has no clipboard access."""
        self.print_above(f"{text}\n")

    def edit(self) -> None:
        """Report that no editor is available."""
        self._acts.print_notice(user_text("chat.no_editor"))

    def keys(self, _: str) -> str:
        """Return ``-``, because the terminal controls the key bindings."""
        return "-"

    def _read(self) -> None:
        data, has_ended = b"", True
        with suppress(OSError):
            data = piece = os.read(sys.stdin.fileno(), MAX_BYTES)
            while piece and select.select([sys.stdin], [], [], PASTE_SECONDS)[0] and len(data) < MAX_BYTES:
                piece = os.read(sys.stdin.fileno(), MAX_BYTES)
                data += piece
            has_ended = not piece  # a terminal reports Ctrl-D only once
        if not data:
            self._acts.leave()
            return
        self._is_asking = False
        text = without_reports(data.decode("utf-8", "replace")).rstrip("\r\n")
        if "\n" in text:
            self._acts.enter(InputEntry(text))
        elif text.strip():
            self._acts.enter(InputEntry.typed("/help ?" if text.strip() == "?" else text))
        elif not has_ended:
            self._acts.enter_nothing()
        if has_ended:
            self._acts.leave()
        self.redraw()
