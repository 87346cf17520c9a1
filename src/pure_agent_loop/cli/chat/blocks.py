"""Cuts Markdown that is still being written into blocks that cannot change any more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pure_agent_loop.support.lazy import lazy_pattern

CODE_LINES = 40  # of a code block that come out together
TABLE_ROWS = 40  # of a table that share their widths
MOST_LINES, MOST_CHARS = 120, 12_000  # of any other block
CONTEXT_LINES = 60  # before a piece of code that its colours may depend on

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
    """A block, or a piece of a long one.

    Args:
        kind: What it is.
        source: Its Markdown; of code the lines of code alone.
        gap: An empty line stands before it.
        language: Of code: what follows the fence.
        before: Of code: the lines before this piece.
        first: It is not the continuation of a piece.
        last: No further piece follows.
    """

    kind: Kind
    source: str
    gap: bool = False
    language: str = ""
    before: str = ""
    first: bool = True
    last: bool = True


def kind_of(line: str) -> Kind:
    """What begins with a line, wherever it stands."""
    return next((kind for kind, pattern in _STARTS if pattern.match(line)), "text")


class Blocks:
    """The cutter: text goes in as it is written, finished blocks come out."""

    def __init__(self) -> None:
        self.kind: Kind = ""  # of the block in progress
        self._lines: list[str] = []  # its whole lines
        self._line = ""  # the line in progress
        self._gap = False
        self._done: list[Block] = []
        self._last: Kind = ""  # the kind of the block before
        self._pieces = 0  # of the block in progress that came out already
        self._fence, self._indent, self._language = "", 0, ""
        self._before: list[str] = []

    @property
    def tail(self) -> Block:
        """The block in progress as far as it is known."""
        line = self._line
        kind = self.kind or (kind_of(line) if line.strip() else "")
        opening = kind == "code" and not self.kind
        lines = self._lines if opening or (kind == "code" and not line) else [*self._lines, line]
        gap = self._has_gap(kind) and not self._pieces
        before = "\n".join(self._before)
        language = line.strip(" `~") if opening else self._language
        return Block(kind, "\n".join(lines), gap, language, before, not self._pieces, last=False)

    def feed(self, text: str) -> list[Block]:
        """More text. Returns the blocks that are finished by it."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._take(line)
        done, self._done = self._done, []
        return done

    def close(self) -> list[Block]:
        """The text is over. Returns what was in progress. Another text needs another cutter."""
        done = self.feed("\n") if self._line else []
        self._finish()
        return done + self._done

    def cut_code(self) -> list[Block]:
        """Take the whole lines of the code in progress out as a piece."""
        if self._lines:
            self._piece()
        done, self._done = self._done, []
        return done

    def cut(self, length: int) -> Block:
        """Take the beginning of the paragraph in progress out as a piece."""
        tail = self.tail
        *self._lines, self._line = tail.source[length:].lstrip(" \n").split("\n")
        self.kind = "text"
        self._pieces += 1
        return Block("text", tail.source[:length], tail.gap, first=tail.first, last=False)

    def _take(self, line: str) -> None:
        if self.kind == "code":
            self._in_code(line)
        elif not line.strip():
            self._blank()
        elif self.kind == "text" and self._lines and _UNDERLINE.match(line):
            self._lines.append(line)  # it makes a heading of the lines before
            self._finish()
        elif self._goes_on(line):
            self._lines.append(line)
            if len(self._lines) > MOST_LINES or sum(map(len, self._lines)) > MOST_CHARS:
                self._finish()
        else:
            self._finish()
            self._begin(line)

    def _blank(self) -> None:
        if self.kind == "item":  # a list may go on after it
            self._lines.append("")
            return
        self._finish()
        self._gap = True

    def _goes_on(self, line: str) -> bool:
        """Whether a line belongs to the block in progress."""
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
        """Take the whole lines in progress out; the block goes on unless it is the last piece."""
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
