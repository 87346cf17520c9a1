"""Convert the key sequences of modern terminals to keys of prompt_toolkit; drop the terminals' reports."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.output import patch
from pure_agent_loop.support.control import ESC, SENT

if TYPE_CHECKING:
    from prompt_toolkit.input.vt100_parser import Vt100Parser

REST_SECONDS, MAX_HELD = (
    1.0,
    64,
)  # an unfinished sequence ends after this pause or at this length
_BEGIN = re.compile("[\x1b\x8f\x90\x98\x9b\x9d-\x9f]")
_EIGHT_BIT = {"\x9b": "\x1b[", "\x8f": "\x1bO"}
# A key with modifiers, as encoded by xterm (first) and kitty: code, modifiers, and 3 for a released key.
_MODIFIED = re.compile(r"\x1b\[(?:27;(\d+);(\d+)~|(\d+)[\d:]*(?:;(\d*)(?::(\d))?(?:;[\d:]*)?)?u)")
_FOCUS = ("\x1b[I", "\x1b[O")  # focus gained, focus lost
_SHIFT, _ALT, _CONTROL, _LOCKS = 1, 2, 4, 64 | 128
_TAB, _ENTER, _ESCAPE, _SURROGATES = 9, 13, 27, 0xD800


class Keyboard:
    """Passes keys and pastes to the parser of prompt_toolkit, and drops every other complete sequence.

    A sequence may arrive in several reads. Esc, alone or before one key (Alt), is held until `flush` is
    called, because it may begin a longer sequence.

    Args:
        on_focus: Function called when the terminal reports that it gained or lost focus.
    """

    def __init__(self, parser: Vt100Parser, on_focus: Callable[[bool], None] = lambda _: None) -> None:
        from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES

        self._parser, self._keys, self._on_focus = parser, ANSI_SEQUENCES, on_focus
        self._feed, self._flush = parser.feed, parser.flush
        self._held, self._when = "", 0.0
        patch(parser, feed=self.feed, flush=self.flush)

    def feed(self, text: str) -> None:
        """Process the next input."""
        now = time.monotonic()
        if now - self._when < REST_SECONDS:
            text = self._held + text
        self._held, self._when = "", now
        while text:
            text = self._take(text)

    def flush(self) -> None:
        """Pass on a held Esc, or Esc with one character (Alt), because no more input follows."""
        self._flush()
        if self._held.startswith(ESC) and len(self._held) <= 2:
            held, self._held = self._held, ""
            self._feed(held)
            self._flush()

    def _take(self, text: str) -> str:
        """Process the first piece of input: a paste, plain text or a sequence; return the remaining input."""
        begin = None if self._parser._in_bracketed_paste else _BEGIN.search(text)
        if size := len(text) if begin is None else begin.start():
            self._feed(text[:size])
            return text[size:]
        match = SENT.match(text)
        rest = text[match.end() if match else 1 :]
        if match and match.lastindex:
            self._press(_EIGHT_BIT.get(text[0], text[0]) + match[0][1:])
        elif (match and rest in ("", ESC)) or text == ESC:
            self._held = text if len(text) < MAX_HELD else text[:3] + text[-1]
            return ""
        elif match is None:
            self._feed(ESC)
        return rest

    def _press(self, sequence: str) -> None:
        if sequence in _FOCUS:
            self._on_focus(sequence == _FOCUS[0])
            return
        modified = _MODIFIED.fullmatch(sequence)
        key = _plain_key(modified) if modified else sequence if sequence in self._keys else ""
        self._feed(key)
        if key == ESC:
            self._flush()


def _plain_key(match: re.Match[str]) -> str:
    """Return the legacy encoding of a key with modifiers; empty if it has none."""
    code, modifiers = int(match[2] or match[3]), (int(match[1] or match[4] or 1) - 1) & ~_LOCKS
    is_usual = code in (_TAB, _ENTER, _ESCAPE) or 32 <= code < _SURROGATES
    if match[5] == "3" or modifiers > _SHIFT + _ALT + _CONTROL or not is_usual:
        return ""
    key = chr(code)
    if code == _ENTER:
        key = "\n" if modifiers & (_SHIFT | _CONTROL) else "\r"
    elif modifiers & _CONTROL:
        key = chr(code & 31) if re.match(r"[@-_a-z ]", key) else ""
    elif modifiers & _SHIFT:
        key = "\x1b[Z" if code == _TAB else key.upper()
    return ESC + key if modifiers & _ALT else key
