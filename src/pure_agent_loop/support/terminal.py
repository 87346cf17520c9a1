"""Terminal output: make text from models, tools and servers safe to print.

`safe_text` passes no control characters except newline and tab. Invisible characters are
dropped. Characters that move the cursor, recolour, reorder or hide text become visible escapes, so
that an attack is shown, not executed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TextIO

from pure_agent_loop.support.text import clean_text

# Colours in the output of tools such as test runners: harmless, so they are dropped.
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")

# Invisible or merely advisory: soft hyphen, marks of direction, zero-width characters, tag characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

# C0 without tab and newline, DEL, C1, the line separators, direction overrides, embeddings and isolates.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def safe_text(text: str) -> str:
    """Make untrusted text safe for a terminal; newline and tab are the only control characters left.

    Args:
        text: Text from a model, a tool, a server or a file name.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _COLOUR.sub("", clean_text(text).replace("\r\n", "\n"))
    return _HARMFUL.sub(_visible, _INVISIBLE.sub("", text))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` made safe, on one line, cut at about `limit` characters."""
    line = " ".join(safe_text(text).split())
    return line if len(line) <= limit else line[: limit - 4].rstrip() + " ..."


def excerpt(text: str, max_lines: int = 12, max_width: int = 400) -> str:
    """Return the head and the tail of a long text, with a count of the lines left out.

    Args:
        max_lines: Approximate limit of lines; one third of them from the end.
    """
    lines = text.rstrip().split("\n")
    if len(lines) > max_lines:
        tail = max_lines // 3
        head = max_lines - tail
        missing = len(lines) - head - tail
        lines = [*lines[:head], f"[... {missing} lines left out ...]", *lines[len(lines) - tail :]]
    return "\n".join(_cut(line, max_width) for line in lines)


def _cut(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    head, tail = width * 2 // 3, width // 3
    return f"{line[:head]} [... {len(line) - head - tail} characters left out ...] {line[len(line) - tail :]}"


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if `stream` is an open terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def knows_escapes(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal supports escape sequences, by ``TERM``.

    Args:
        environ: The environment; this process's if None.
    """
    env = os.environ if environ is None else environ
    return sys.platform == "win32" or env.get("TERM", "") not in ("", "dumb", "unknown")


def wants_colour(stream: TextIO | None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to write colours to `stream`.

    ``NO_COLOR`` (not empty) disables, then ``FORCE_COLOR`` (not empty, not 0) enables, then a terminal
    other than ``TERM=dumb`` gets colours.

    Args:
        environ: The environment; this process's if None.
    """
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR"):
        return False
    forced = env.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return is_terminal(stream) and knows_escapes(env)
