"""Send the output of a running command in pieces, with a pause after each."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable

from pure_agent_loop.support.clock import set_within
from pure_agent_loop.support.screen import written_text

PAUSE_SECONDS, MAX_CHARS = 0.25, 2_000  # pause after each piece; maximum characters of a piece


class LiveOutput:
    """Sends output in pieces, with a pause after each; if output is too fast, only its end is sent.

    Args:
        send: Sends a piece.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._is_in_line = False  # True if the last piece ended in the middle of a line
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Add bytes of the output."""
        self._text = (self._text + self._decoder.decode(data))[-MAX_CHARS:]
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop sending; output that was not sent is in the result of the command."""
        self._ended.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._text and not self._ended.is_set():
            text, self._text = self._text, ""
            begin = "\n" if self._is_in_line and "\r" in text.replace("\r\n", "") else ""
            # A sent line cannot be overwritten, so its new text goes on a new line.
            if shown := written_text(text):
                self._is_in_line = not shown.endswith("\n")
                await self._send(begin + shown)
            await set_within(PAUSE_SECONDS, self._ended)
