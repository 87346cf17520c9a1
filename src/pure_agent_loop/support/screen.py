"""Text that a terminal shows after a program has written its output."""

from __future__ import annotations

import re

from pure_agent_loop.support.control import WRITTEN

HEIGHT = 50  # number of rows at the end that the cursor can return to
WIDTH = 200  # columns that the cursor can reach beyond the end of a row
# Maximum characters kept of a row that can change, and of an unfinished sequence.
MAX_ROW, MAX_REST = 10_000, 4_000
_BEGIN = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
_CONTROL = re.compile(f"[\a\b\r{_BEGIN}]")
_TOKEN = re.compile(rf"[^\a\b\r\n{_BEGIN}]+|\r?\n|[\a\b\r]|{WRITTEN.pattern}")
_MOVE = re.compile(r"(?:\x1b\[|\x9b)(\d*)(?:;(\d*))?[\d;]*([A-HJKfsu])|\x1b([78])")
_MAX_DIGITS = 5
_WIDE = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f300-\U0001faff\U00020000-\U0003fffd]"
)
_SECOND = "\ud800"  # marks the second column of a wide character; never occurs in decoded text


class WrittenScreen:
    """The rows of a terminal of any width; text without control characters stays as it is.

    Colours, titles and unknown sequences are dropped. Time and memory are linear in the text.
    """

    def __init__(self) -> None:
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._saved = (0, 0)
        self._rest = ""

    def feed(self, text: str) -> str:
        """Write the next piece; return the text that can no longer change."""
        text, self._rest = self._rest + text, ""
        control = _CONTROL.search(text)
        is_at_end = (self._row, self._column) == (len(self._rows) - 1, len(self._rows[-1]))
        plain = text[: control.start()] if control else text
        done = self._append(plain) if is_at_end else ""
        for token in _TOKEN.finditer(text, len(plain) if is_at_end else 0):
            if token.end() == len(text) and (
                token[0] == "\r" or (token[0][0] in _BEGIN and not token.lastindex)
            ):
                self._rest = token[0] if len(token[0]) < MAX_REST else token[0][:2] + token[0][-1]
            else:
                self._take(token[0])
            if len(self._rows) > 2 * HEIGHT:
                done += self._append("")
        if len(self._rows[-1]) > MAX_ROW:
            done += self.close()
            self._rows, self._row, self._column = [[]], 0, 0
        return done

    def close(self) -> str:
        """Return the rest of the text."""
        return "\n".join(map("".join, self._rows)).replace(_SECOND, "")

    def _append(self, text: str) -> str:
        """Append text without control characters; return the rows that scrolled out of reach."""
        below = len(self._rows) - self._row
        whole = "\n".join(map("".join, self._rows)) + _WIDE.sub(rf"\g<0>{_SECOND}", text)
        lines = whole.rsplit("\n", HEIGHT)
        done = f"{lines.pop(0)}\n".replace(_SECOND, "") if len(lines) > HEIGHT else ""
        self._rows = list(map(list, lines))
        self._row, self._column = len(lines) - below, len(lines[-1]) if text else self._column
        return done

    def _take(self, piece: str) -> None:
        row = self._rows[self._row]
        match piece:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(self._column - 1, 0)
            case "\n" | "\r\n":
                row += "\r" if piece == "\r\n" and row[-1:] != ["\r"] else ""
                self._row, self._column = self._row + 1, 0
                self._rows += [[]] if self._row == len(self._rows) else []
            case _ if move := _MOVE.fullmatch(piece):
                counts = [int((digits or "0")[:_MAX_DIGITS]) for digits in move.group(1, 2)]
                self._move(move[3] or move[4], *counts)
            case _ if piece[0] not in f"\a{_BEGIN}":
                cells = _WIDE.sub(rf"\g<0>{_SECOND}", piece)
                end = self._column + len(cells)
                row += " " * (self._column - len(row))
                row[self._column : end] = cells
                if row[end : end + 1] == [_SECOND]:
                    row[end] = " "
                self._column = end

    def _move(self, kind: str, count: int, column: int) -> None:
        top, times, row = max(len(self._rows) - HEIGHT, 0), max(count, 1), self._rows[self._row]
        match kind:
            case "A" | "B" | "E" | "F":
                self._row += times if kind in "BE" else -times
                self._column = 0 if kind in "EF" else self._column
            case "C" | "D":
                self._column += times if kind == "C" else -times
            case "G":
                self._column = times - 1
            case "H" | "f":
                self._row, self._column = top + min(times, HEIGHT) - 1, column - 1
                self._rows += [[] for _ in range(self._row + 1 - len(self._rows))]
            case "J" if count >= 2:
                self._rows[top:], self._row, self._column = [[]], top, 0
            case "J" | "K" if count == 1:
                row[: self._column + 1] = " " * min(self._column + 1, len(row))
            case "J" | "K":
                del row[0 if count else self._column :]
                del self._rows[self._row + 1 if kind == "J" else len(self._rows) :]
            case "s" | "7":
                self._saved = (self._row, self._column)
            case "u" | "8":
                self._row, self._column = self._saved
        self._row = min(max(self._row, top), len(self._rows) - 1)
        self._column = min(max(self._column, 0), max(WIDTH, len(self._rows[self._row])))


def written_text(text: str) -> str:
    """Return the text that a terminal shows after the whole output."""
    screen = WrittenScreen()
    return screen.feed(text) + screen.close()
