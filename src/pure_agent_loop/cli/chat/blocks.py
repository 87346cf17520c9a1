"""Split streamed Markdown into finished blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pure_agent_loop.support.lazy import lazy_pattern

CODE_LINES = 40  # lines of a code block per piece
TABLE_ROWS = 40  # rows of a table that share column widths
MAX_LINES, MAX_CHARS = 120, 12_000  # maximum lines and characters of any other block
CONTEXT_LINES = 60  # lines before a piece of code, as context for highlighting

Kind = Literal["", "text", "heading", "rule", "item", "quote", "table", "code"]

_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING = lazy_pattern(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = lazy_pattern(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_UNDERLINE = lazy_pattern(r" {0,3}(?:=+|-+)[ \t]*$")
_ITEM = lazy_pattern(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_QUOTE = lazy_pattern(r" {0,3}>")
_COLUMNS = lazy_pattern(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_STARTS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("code", _FENCE),
    ("heading", _HEADING),
    ("rule", _RULE),
    ("item", _ITEM),
    ("quote", _QUOTE),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A Markdown block, or a piece of a long block.

    Args:
        source: The Markdown; for code, only the lines of code.
        gap: True if an empty line precedes the block.
        language: For code: the info string of the fence.
        before: For code: the lines before this piece.
        first: True for the first piece of the block.
        last: True for the last piece of the block.
    """

    kind: Kind
    source: str
    gap: bool = False
    language: str = ""
    before: str = ""
    first: bool = True
    last: bool = True


def kind_of(line: str) -> Kind:
    """Return the kind of block that a line starts."""
    return next((kind for kind, pattern in _STARTS if pattern.match(line)), "text")


class Blocks:
    """Incremental splitter, which takes text in pieces and returns finished blocks."""

    def __init__(self) -> None:
        self.kind: Kind = ""  # kind of the block in progress
        self._lines: list[str] = []  # complete lines of the block in progress
        self._line = ""  # the line in progress
        self._gap = False
        self._done: list[Block] = []
        self._last: Kind = ""  # kind of the previous block
        self._pieces = 0  # number of returned pieces of the block in progress
        self._fence, self._indent, self._language = "", 0, ""
        self._before: list[str] = []

    @property
    def tail(self) -> Block:
        """The block in progress."""
        line = self._line
        kind = self.kind or (kind_of(line) if line.strip() else "")
        opening = kind == "code" and not self.kind
        lines = self._lines if opening or (kind == "code" and not line) else [*self._lines, line]
        gap = self._has_gap(kind) and not self._pieces
        before = "\n".join(self._before)
        language = line.strip(" `~") if opening else self._language
        return Block(kind, "\n".join(lines), gap, language, before, not self._pieces, last=False)

    @property
    def settled(self) -> int:
        """Length of the unfinished source, without a last line that may turn out to be a table header."""
        lines = [*self._lines, self._line]
        head = "\n".join(lines[-2:] if self._lines and not self._line.strip(" \t|:-") else lines[-1:])
        return len("\n".join(lines)) - (len(head) if head.lstrip().startswith("|") else 0)

    def feed(self, text: str) -> list[Block]:
        """Add text; return the blocks that it finishes."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._add_line(line)
        done, self._done = self._done, []
        return done

    def close(self) -> list[Block]:
        """End the text; return the block in progress. The splitter cannot be reused after the end."""
        done = self.feed("\n") if self._line else []
        self._finish()
        return done + self._done

    def cut_code(self) -> list[Block]:
        """Return the complete lines of the code in progress as a piece."""
        if self._lines:
            self._piece()
        done, self._done = self._done, []
        return done

    def cut(self, length: int) -> Block:
        """Return the start of the paragraph in progress as a piece."""
        tail = self.tail
        *self._lines, self._line = tail.source[length:].lstrip(" \n").split("\n")
        self.kind = "text"
        self._pieces += 1
        return Block("text", tail.source[:length], tail.gap, first=tail.first, last=False)

    def _add_line(self, line: str) -> None:
        if self.kind == "code":
            self._in_code(line)
        elif not line.strip():
            self._blank()
        elif self.kind == "text" and self._lines and _UNDERLINE.match(line):
            self._lines.append(line)  # turns the lines above into a heading
            self._finish()
        elif self._continues(line):
            self._lines.append(line)
            if len(self._lines) > MAX_LINES or sum(map(len, self._lines)) > MAX_CHARS:
                self._finish()
        else:
            self._finish()
            self._begin(line)

    def _blank(self) -> None:
        if self.kind == "item":  # a list may continue after a blank line
            self._lines.append("")
            return
        self._finish()
        self._gap = True

    def _continues(self, line: str) -> bool:
        """Return True if a line belongs to the block in progress."""
        kind = kind_of(line)
        if self.kind == "text":
            return self._in_text(line, kind)
        if self.kind == "table":
            return self._in_table(line)
        if self.kind == "quote":
            return kind in ("quote", "text")
        return self.kind == "item" and self._in_item(line, kind)

    def _in_text(self, line: str, kind: Kind) -> bool:
        header = self._lines[-1] if self._lines else ""
        if "|" in header and "|" in line and _COLUMNS.match(line):
            self._lines.pop()
            if self._lines:
                self._finish()
            self._lines, self.kind = [header], "table"
            return True
        return kind == "text"

    def _in_table(self, line: str) -> bool:
        if "|" not in line:
            return False
        if len(self._lines) > TABLE_ROWS:
            header = self._lines[:2]
            self._piece()
            self._lines = header
        return True

    def _in_item(self, line: str, kind: Kind) -> bool:
        if len(line) - len(line.lstrip()) > self._indent + 1:
            return True
        return kind == "text" and bool(self._lines[-1])

    def _in_code(self, line: str) -> None:
        text = line.strip()
        if text.startswith(self._fence) and not text.strip(self._fence[0]):
            self._piece(last=True)
            self._reset()
            return
        indent = min(self._indent, len(line) - len(line.lstrip(" ")))
        self._lines.append(line[indent:])
        if len(self._lines) >= CODE_LINES:
            self._piece()

    def _begin(self, line: str) -> None:
        self.kind = kind_of(line)
        self._indent = len(line) - len(line.lstrip())
        opening = _FENCE.match(line)
        if opening:
            self._fence, self._language = opening.group(1), opening.group(2).strip()
            return
        self._lines = [line]
        if self.kind in ("heading", "rule"):
            self._finish()

    def _piece(self, last: bool = False) -> None:
        """Emit the complete lines as a piece; the block continues unless this is the last piece."""
        source, before = "\n".join(self._lines), "\n".join(self._before)
        gap = self._has_gap(self.kind) and not self._pieces
        self._done.append(Block(self.kind, source, gap, self._language, before, not self._pieces, last))
        if self.kind == "code":
            self._before = [*self._before, *self._lines][-CONTEXT_LINES:]
        self._lines = []
        self._pieces += 1

    def _finish(self) -> None:
        blank = False
        while self._lines and not self._lines[-1]:
            blank = self._lines.pop() == ""
        if self._lines or self.kind == "code":
            self._piece(last=True)
        self._reset()
        self._gap = self._gap or blank

    def _reset(self) -> None:
        if self.kind:
            self._gap = False
            self._last = self.kind
        self.kind, self._lines, self._before, self._pieces = "", [], [], 0
        self._fence, self._language, self._indent = "", "", 0

    def _has_gap(self, kind: Kind) -> bool:
        if not self._last:
            return False
        return self._gap or "code" in (kind, self._last) or "table" in (kind, self._last)
