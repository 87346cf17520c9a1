"""Terminal output: make text from models, tools and servers safe to print.

`safe_text` removes all control characters except newline and tab. Invisible characters are dropped.
Characters that move the cursor, recolour, reorder or hide text become visible escapes, so that an attack is
shown, not executed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from pure_agent_loop.support.text import clean_text

# Colours in the output of tools such as test runners are harmless, so they are dropped, not shown.
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")

# Invisible or merely advisory: soft hyphen, direction marks, zero-width characters, tag characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

# C0 without tab and newline, DEL, C1, the line separators, direction overrides, embeddings and isolates.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# A word with the spaces after it: letters up to the next space, or a single Chinese character, with the
# punctuation that may not begin or end a line. The limit on brackets keeps the time linear for a text of
# brackets only.
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
_OPENING, _CLOSING = "（「『《【〔［｛〈“", "，。；：、！？）」』》】〕］｝〉”…—％"
_WORD = re.compile(
    rf"\s+|(?:[{_OPENING}(\[{{]{{0,16}}[{_WIDE}][,.;:!?)}}%\]]*|[{_OPENING}]*[^\s{_WIDE}{_OPENING}{_CLOSING}]+"
    rf"|[{_OPENING}]+|[{_CLOSING}])[{_CLOSING}]*\s*"
)
_PLAIN = re.compile(rf"[^\s{_WIDE}{_OPENING}{_CLOSING}]*")
_ENDS = re.compile(rf"[{_CLOSING}]+")
_STOPS = re.compile(r"[,.;:!?)}%\]]+")  # punctuation that stays with the preceding Chinese character
DEEPER = 4  # columns
_SECOND_COLUMN = re.compile(r"\S {2,}(?=\S)")


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


def width_of(text: str) -> int:
    """Return the width of a text in terminal columns: two for a Chinese character, none for a colour."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.isascii():
        return len(text)
    import unicodedata  # imported here, because ASCII text does not need it

    return sum(
        0
        if unicodedata.category(sign) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(sign) in "WF"
        else 1
        for sign in text
    )


def line_breaks(text: str, width: int, *, fold: bool = True, indent: int = 0) -> list[int]:
    """Return the offsets at which to break a line between words so that it fits the width.

    Args:
        width: Columns; spaces at the end of a line may exceed the width.
        fold: True also breaks a word that is wider than a line; otherwise it stays whole, so that it can be
            copied.
        indent: Columns by which further lines are indented.
    """
    breaks: list[int] = []
    column, is_blank = 0, True
    for match in _WORD.finditer(text) if width_of(text) > width else ():
        word = match[0].rstrip()
        size = width_of(word)
        if column + size > width and not is_blank:
            breaks.append(match.start())
            column = indent
        if fold and column + size > width:
            for offset, sign in enumerate(word, match.start()):
                if column + width_of(sign) > width and column:
                    breaks.append(offset)
                    column = indent
                column += width_of(sign)
        else:
            column += size
        is_blank = is_blank and not word
        column += len(match[0]) - len(word)
    return breaks


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a line, each with the spaces after it; the first word may be empty."""
    for match in _WORD.finditer(text):
        word = match[0].rstrip()
        yield word, match[0][len(word) :]


def is_plain(text: str) -> bool:
    """Return True for letters that form one word with any plain letters after them."""
    return _PLAIN.fullmatch(text) is not None


def continues(word: str, text: str, *, plain: bool) -> bool:
    """Return True if `text` extends the last word of a line; only `text` is scanned.

    Args:
        word: The end of the last word.
        plain: True if the word `is_plain`.
    """
    if plain and is_plain(text):
        return True
    return _ENDS.fullmatch(text) is not None or _STOPS.fullmatch(word[-1:] + text) is not None


def wrap_text(text: str, width: int, *, fold: bool = False) -> str:
    """Return a text with each line wrapped between words; a word wider than a line stays whole unless folded.

    Further lines begin at the second column of a table (after two or more spaces), or are indented deeper
    than the line, so that the rest of an argument does not look like another argument.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        column = _SECOND_COLUMN.search(line)
        space = width_of(line[: column.end()]) if column else 0
        if not 0 < space <= width // 2:
            leading = len(line) - len(line.lstrip())
            space = min(leading + DEEPER, width // 2) if leading else 0
        breaks = line_breaks(line, width, fold=fold, indent=space)
        parts = [line[start:end] for start, end in zip([0, *breaks], [*breaks, len(line)], strict=True)]
        parts[:-1] = [part.rstrip() for part in parts[:-1]]
        lines += [parts[0], *(" " * space + part.lstrip() for part in parts[1:])]
    return "\n".join(lines)


def one_row(text: str, columns: int) -> str:
    """Return `text` made safe, on one line, cut between words so that it fits."""
    line = one_line(text, max(len(text), 200))
    if width_of(line) <= columns:
        return line
    return line[: line_breaks(line, max(columns - 4, 2))[0]].rstrip() + " ..."


def aligned(texts: Iterable[str], *, right: bool = False) -> list[str]:
    """Return the cells of a column, padded to equal width."""
    cells = list(texts)
    width = max(map(width_of, cells), default=0)
    blanks = [" " * (width - width_of(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]


def excerpt(text: str, max_lines: int = 12, max_width: int = 400) -> str:
    """Return the head and the tail of a long text, with the number of omitted lines.

    Args:
        max_lines: Approximate number of lines to keep, one third of them from the end.
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


def columns_of(stream: TextIO | None) -> int | None:
    """Return the columns of a terminal; None if `stream` is not a terminal."""
    if not is_terminal(stream):
        return None
    import shutil  # imported here, because only a terminal needs it

    return shutil.get_terminal_size((80, 24)).columns


def fitted(text: str, stream: TextIO | None) -> str:
    """Return a text wrapped between words for a terminal; unchanged for any other stream."""
    columns = columns_of(stream)
    return text if columns is None else wrap_text(text, columns)


def knows_escapes(environ: Mapping[str, str] | None = None) -> bool:
    """True if the terminal supports escape sequences, according to ``TERM``.

    Args:
        environ: The environment; this process's if None.
    """
    env = os.environ if environ is None else environ
    return sys.platform == "win32" or env.get("TERM", "") not in ("", "dumb", "unknown")


def wants_colour(stream: TextIO | None, environ: Mapping[str, str] | None = None) -> bool:
    """Return True if colours should be written to `stream`.

    ``NO_COLOR`` (not empty) disables, then ``FORCE_COLOR`` (not empty, not 0) enables, then a terminal
    other than ``TERM=dumb`` gets colours.

    Args:
        environ: The environment; this process's if None.
    """
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR"):
        return False
    if forced := env.get("FORCE_COLOR"):
        return forced != "0"
    return is_terminal(stream) and knows_escapes(env)
