"""Render streamed Markdown for a terminal, block by block, printing each line once.

markdown-it (a dependency of rich) parses the blocks with HTML and link references turned off, so that
everything a model writes is shown. Code is never wrapped or padded, so that it can be copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.blocks import Block, Blocks
from pure_agent_loop.cli.chat.styling import VERBATIM, Styler, clean
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.terminal import line_breaks, width_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.text import Text

MAX_CODE_LINE = 1_000  # maximum characters per line of highlighted code
MIN_ROOM = 8  # minimum columns for text, however deeply it is nested
MIN_COLUMN = 8  # minimum column width; a table that needs narrower columns is shown row by row
COLUMN_GAP = 2  # blank columns between the columns of a table
UNPRINTED_LINES = 1  # last lines of an unfinished paragraph that are not printed yet
MAX_ROWS = 24  # maximum rows of a paragraph to examine at once
WORD = 7  # average columns lost per line to wrapping
MAX_TAIL = 3_000  # maximum characters of a block in progress to render

_MARKS = lazy_pattern(r"\*\*|\*|~~|(?<!\w)_|_(?!\w)")
_BOX = lazy_pattern(r"\[([ xX])\] ")
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


@dataclass(slots=True)
class _Level:
    """A list item or quote around the text, with a prefix for its first line and one for its other lines."""

    first: str
    rest: str
    role: str = "label"
    used: bool = False


class Page:
    """Renders finished blocks."""

    def __init__(self, styler: Styler, words: Words) -> None:
        self.styler = styler
        self.words = words

    @cached_property
    def _parser(self) -> MarkdownIt:
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark", {"html": False})
        return parser.enable(["table", "strikethrough"]).disable("reference")

    def block(self, block: Block, width: int) -> list[Text]:
        """Render a block or a piece of a block."""
        if block.kind == "code":
            lines = self._code_piece(block)
        else:
            tokens = self._parser.parse(block.source)
            lines = _Layout(self, width).lines(tokens)
        return [self.styler.text(), *lines] if block.gap and lines else lines

    def _code_piece(self, block: Block) -> list[Text]:
        language = block.language.split()[0] if block.language else ""
        reader = self.styler.reader
        lines = self.code(block.source, language, block.before) if block.source else []
        if block.first:
            tag = language if language and not reader else self.words("code", language=language).strip()
            lines.insert(0, self.styler.text(("dim", tag)))
        if block.last and reader:
            lines.append(self.styler.text(("dim", self.words("code_end"))))
        return lines

    def code(self, source: str, language: str, before: str = "") -> list[Text]:
        """Render a piece of code, highlighted if that changes no character.

        Args:
            language: The Markdown name; an unknown language is not highlighted.
        """
        whole = f"{before}\n{source}" if before else source
        plain = [self.styler.code("", line) for line in source.split("\n")]
        lines = whole.split("\n")
        if not (self.styler.color and language) or max(map(len, lines)) > MAX_CODE_LINE:
            return plain
        from rich.syntax import Syntax

        theme = "ansi_light" if self.styler.theme == "light" else "ansi_dark"
        try:
            text = Syntax(whole, language, theme=theme).highlight(whole)
        except Exception:  # noqa: BLE001 - a lexer may fail in any way; show plain code
            return plain
        shown = text.split("\n", allow_blank=True)[: len(lines)]
        if [line.plain for line in shown] != lines:
            return plain
        for line in shown:
            line.overflow = VERBATIM
        return list(shown[len(lines) - source.count("\n") - 1 :])


class _Layout:
    """Lays out the tokens of a block. Token types without a method are not shown."""

    def __init__(self, page: Page, width: int) -> None:
        self._page, self._styler, self._width = page, page.styler, width
        self._out: list[Text] = []
        self._levels: list[_Level] = []
        self._numbers: list[int | None] = []
        self._style = ""
        self._rows: list[list[Text]] = []
        self._in_table = False

    def lines(self, tokens: Sequence[Token]) -> list[Text]:
        for token in tokens:
            method: Callable[[Token], None] | None = getattr(self, f"_on_{token.type}", None)
            if method:
                method(token)
        return self._out

    def _emit(self, line: Text) -> None:
        heads = []
        for level in self._levels:
            heads.append((level.role, level.rest if level.used else level.first))
            level.used = True
        whole = self._styler.text(*heads)
        whole.truncate(self._width // 2)
        whole.overflow = line.overflow
        self._out.append(whole.append_text(line))

    @property
    def _room(self) -> int:
        taken = sum(len(level.rest) for level in self._levels)
        return max(self._width - min(taken, self._width // 2), MIN_ROOM)

    def _wrapped(self, text: Text) -> None:
        for line in self._styler.wrapped(text, self._room):
            self._emit(line)

    def _space(self, token: Token) -> None:
        has_content = not self._levels or self._levels[-1].used
        if self._out and has_content and not token.hidden:
            self._emit(self._styler.text())

    _on_paragraph_open = _space

    def _on_heading_open(self, token: Token) -> None:
        self._space(token)
        self._style = "heading"

    def _on_heading_close(self, _token: Token) -> None:
        self._style = ""

    def _on_inline(self, token: Token) -> None:
        text = self._inline(token.children or [])
        if self._in_table:
            self._rows[-1].append(text)
            return
        if self._style == "heading" and not self._styler.color:
            text = self._styler.text(("", "# ")).append_text(text)
        self._wrapped(self._boxed(text))

    def _boxed(self, text: Text) -> Text:
        """Replace the sign of a list item by the checkbox at the start of its text."""
        item = self._levels[-1] if self._levels else None
        box = _BOX.match(text.plain)
        if item is None or item.used or item.rest.strip() or box is None:
            return text
        if self._styler.reader:
            item.first = f"{self._page.words('todo_pending' if box[1] == ' ' else 'todo_done')}: "
        else:
            item.first = "☐ " if box[1] == " " else "☑ "
        item.rest = " " * width_of(item.first)
        return text[box.end() :]

    def _on_bullet_list_open(self, _token: Token) -> None:
        self._numbers.append(None)

    def _on_ordered_list_open(self, token: Token) -> None:
        self._numbers.append(int(token.attrs.get("start", 1)))

    def _on_bullet_list_close(self, _token: Token) -> None:
        self._numbers.pop()

    _on_ordered_list_close = _on_bullet_list_close

    def _on_list_item_open(self, _token: Token) -> None:
        number = self._numbers[-1]
        if number is None:
            sign = "- " if self._styler.reader else "• "
        else:
            sign, self._numbers[-1] = f"{number}. ", number + 1
        self._levels.append(_Level(sign, " " * len(sign)))

    def _on_list_item_close(self, _token: Token) -> None:
        if not self._levels[-1].used:
            self._emit(self._styler.text())
        self._levels.pop()

    def _on_blockquote_open(self, token: Token) -> None:
        self._space(token)
        if self._styler.reader:
            first = f"{self._page.words('quote')}: "
            self._levels.append(_Level(first, " " * width_of(first)))
        else:
            self._levels.append(_Level("│ ", "│ ", "dim"))

    def _on_blockquote_close(self, _token: Token) -> None:
        self._levels.pop()

    def _on_fence(self, token: Token) -> None:
        language = token.info.split()[0] if token.info.strip() else ""
        for line in self._page.code(clean(token.content).removesuffix("\n"), language):
            self._emit(line)

    def _on_code_block(self, token: Token) -> None:
        self._space(token)
        self._on_fence(token)

    def _on_hr(self, _token: Token) -> None:
        self._emit(self._styler.text(("dim", "---")))

    def _on_table_open(self, _token: Token) -> None:
        self._in_table, self._rows = True, []

    def _on_tr_open(self, _token: Token) -> None:
        self._rows.append([])

    def _on_table_close(self, _token: Token) -> None:
        self._in_table = False
        widths = None if self._styler.reader else self._column_widths()
        for line in self._table_by_rows() if widths is None else self._table(widths):
            self._wrapped(line) if widths is None else self._emit(line)

    def _column_widths(self) -> list[int] | None:
        """Return the widths of the columns; None if the table does not fit without breaking words."""
        least, most = [0] * max(map(len, self._rows)), [0] * max(map(len, self._rows))
        for row in self._rows:
            for number, cell in enumerate(row):
                words = cell.divide(line_breaks(cell.plain, 1, fold=False))
                word = max((width_of(part.plain.rstrip()) for part in words), default=0)
                least[number] = max(least[number], word, min(cell.cell_len, MIN_COLUMN))
                most[number] = max(most[number], cell.cell_len)
        room = self._room - COLUMN_GAP * (len(most) - 1)
        if sum(least) > room:
            return None
        while sum(most) > room:
            widest = max(range(len(most)), key=lambda number: (most[number] > least[number], most[number]))
            most[widest] -= 1
        return most

    def _table_by_rows(self) -> Iterator[Text]:
        """Yield ``name: value`` for each cell, or one line per row for a screen reader."""
        head, *rows = self._rows
        for row_number, row in enumerate(rows or [head]):
            cells = []
            for number, cell in enumerate(row):
                named = rows and number < len(head) and head[number].plain
                name = (
                    self._styler.text(("bold", f"{head[number].plain}: ")) if named else self._styler.text()
                )
                cells.append(name.append_text(cell))
            if self._styler.reader:
                yield self._styler.text(("", "; ")).join(cells)
                continue
            yield from [self._styler.text()] * bool(row_number)
            yield from cells

    def _table(self, widths: Sequence[int]) -> Iterator[Text]:
        for number, row in enumerate(self._rows):
            cells = [self._styler.wrapped(cell, width) for cell, width in zip(row, widths, strict=False)]
            for pieces in zip_longest(*cells):
                line = self._styler.text()
                for piece, width in zip(pieces, widths, strict=False):
                    line.append_text(piece or self._styler.text())
                    line.append(" " * (width + COLUMN_GAP - (piece.cell_len if piece else 0)))
                if number == 0:
                    line.stylize(self._styler.styles["bold"])
                line.rstrip()
                yield line
            if number == 0:
                yield self._styler.text(("dim", "─" * (sum(widths) + COLUMN_GAP * (len(widths) - 1))))

    def _inline(self, tokens: Sequence[Token]) -> Text:
        text = self._styler.text()
        text.no_wrap = False
        styles = [self._style] if self._style else []
        links: list[tuple[str, int]] = []
        for token in tokens:
            name = token.type.removesuffix("_open").removesuffix("_close")
            if name == "link":
                self._link(token, text, styles, links)
            elif name in _STYLES and token.nesting:
                styles.append(_STYLES[name]) if token.nesting > 0 else styles.remove(_STYLES[name])
            else:
                words, role = self._words_of(token)
                start = len(text)
                text.append(clean(words).replace("\t", " "))
                for style in [*styles, *([role] if role else [])]:
                    text.stylize(self._styler.styles[style], start)
        return text

    def _words_of(self, token: Token) -> tuple[str, str]:
        if token.type in ("softbreak", "hardbreak"):
            return (" " if token.type == "softbreak" else "\n"), ""
        if token.type == "code_inline":
            return (token.content if self._styler.color else f"`{token.content}`"), "code"
        if token.type == "image":
            return f"[{self._page.words('image')}: {token.content}] ({token.attrs.get('src', '')})", "dim"
        return token.content, ""

    def _link(self, token: Token, text: Text, styles: list[str], links: list[tuple[str, int]]) -> None:
        """Show a link with its full URL, because its text may mislead."""
        if token.nesting > 0:
            styles.append("link")
            links.append((str(token.attrs.get("href", "")), len(text)))
            return
        styles.remove("link")
        address, start = links.pop()
        if text.plain[start:] not in (address, address.removeprefix("mailto:")):
            text.append(f" ({clean(address)})", self._styler.styles["dim"])


class Flow:
    """Renders a growing text: returns each finished line once, and exposes the unfinished rest."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._blocks = Blocks()
        self._shown: tuple[Any, list[Text]] = ((), [])

    def feed(self, text: str, width: int) -> list[Text]:
        """Add clean text; return the lines that it finishes."""
        return [line for block in self._blocks.feed(text) for line in self._page.block(block, width)]

    def cut(self, width: int) -> list[Text]:
        """Return the lines that are final: complete code lines, and a paragraph without its last line."""
        kind = self._blocks.tail.kind
        if kind == "code":
            pieces = self._blocks.cut_code()
            return [line for block in pieces for line in self._page.block(block, width)]
        return self._piece(width) if kind == "text" else []

    def close(self, width: int) -> list[Text]:
        """End the text; return the remaining lines."""
        lines = [line for block in self._blocks.close() for line in self._page.block(block, width)]
        self._blocks = Blocks()
        return lines

    def rows(self, width: int) -> int:
        """Estimate the number of unfinished lines."""
        tail = self._blocks.tail
        lines = tail.source.rstrip("\n").split("\n")
        wrapped = sum(self._page.styler.text(("", line)).cell_len // (width - WORD) + 1 for line in lines)
        return wrapped + tail.gap + (tail.kind == "code" and tail.first)

    def tail(self, width: int) -> list[Text]:
        """Return the unfinished lines; for a long block, only the last ones."""
        tail = self._blocks.tail
        key = (tail, width)
        if self._shown[0] != key:
            self._shown = (key, self._unfinished(tail, width))
        return self._shown[1]

    def _unfinished(self, tail: Block, width: int) -> list[Text]:
        if not tail.source.strip() and tail.kind != "code":
            return []
        if tail.kind == "table":  # each new row can change the column widths
            words = self._page.words("writing_table", count=tail.source.count("\n") + 1)
            return [self._page.styler.text(("dim", words))]
        return self._page.block(replace(tail, source=tail.source[-MAX_TAIL:]), width)

    def _piece(self, width: int) -> list[Text]:
        """Return the first lines of a long paragraph, cut at the end of a rendered line."""
        source = self._blocks.tail.source[: min(width * MAX_ROWS, self._blocks.settled)]
        whole = self._plain(source, width)
        # Long text is cut even within markup, which may never be closed.
        for forced in (False, True) if len(whole) > MAX_ROWS // 2 else (False,):
            for end in self._ends(source, len(whole) - UNPRINTED_LINES, width):
                if (forced or not _is_open(source[:end])) and self._splits(source, end, whole, width):
                    return self._page.block(self._blocks.cut(end), width)
        return []

    def _ends(self, source: str, lines: int, width: int) -> Iterator[int]:
        """Yield offsets at which a paragraph may be cut: the ends of the first lines, in reverse order."""
        for count in range(lines, 0, -1):
            length = self._length(source, count, width)
            ends = (length, source.rfind(" ", 0, length), source.rfind("\n", 0, length))
            yield from (end for end in ends if end > 0)

    def _splits(self, source: str, end: int, whole: Sequence[str], width: int) -> bool:
        """Return True if the text, split at `end`, renders like the whole text."""
        rest = source[end:].lstrip(" \n")
        return [*self._plain(source[:end], width), *self._plain(rest, width)] == whole

    def _plain(self, source: str, width: int) -> list[str]:
        lines = self._page.block(Block("text", source), width)
        return [self._page.styler.ansi(line) for line in lines]

    def _length(self, source: str, count: int, width: int) -> int:
        """Return the length of the text that fills `count` lines."""
        low, high = 0, len(source)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self._plain(source[:middle], width)) <= count:
                low = middle
            else:
                high = middle - 1
        return low


def _is_open(source: str) -> bool:
    """Return True if the text has unclosed markup, so that later text may change its rendering."""
    outside = "".join(source.split("`")[::2])
    marks = Counter(_MARKS.findall(outside))
    return (
        any(count % 2 for count in marks.values())
        or source.count("`") % 2 == 1
        or outside.rfind("[") > outside.rfind("]")
    )
