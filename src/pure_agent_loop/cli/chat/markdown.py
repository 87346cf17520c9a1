"""Markdown as lines for a terminal: block by block while it is written, without drawing anything twice.

A block is parsed by markdown-it (which rich brings), without HTML and without link references: whatever a
model writes is shown. Code is never wrapped or padded, so that it can be copied; the terminal folds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.blocks import Block, Blocks
from pure_agent_loop.cli.chat.safe import TAB, Ink, clean
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.support.lazy import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.text import Text

MOST_CODE_LINE = 1_000  # characters; longer lines stay without colours
LEAST_ROOM = 8  # columns that a text keeps, however deep it stands
LEAST_COLUMN = 8  # columns of a table's column; narrower tables are shown row by row
STAYING = 1  # lines of a paragraph in progress that are not printed yet
MOST_ROWS = 24  # of a paragraph that are looked at together
WORD = 7  # columns that a line loses where a word does not fit, about
MOST_TAIL = 3_000  # characters of a block in progress that are looked at

_MARKS = lazy_pattern(r"\*\*|\*|~~|(?<!\w)_|_(?!\w)")
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


@dataclass(slots=True)
class _Level:
    """A list item or a quote around the text: what stands before its first line, and before the others."""

    first: str
    rest: str
    used: bool = False


class Page:
    """Makes lines of finished blocks.

    Args:
        ink: Makes lines of them for the terminal.
        words: Says our words.
    """

    def __init__(self, ink: Ink, words: Words) -> None:
        self.ink = ink
        self.words = words

    @cached_property
    def _parser(self) -> MarkdownIt:
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark", {"html": False})
        return parser.enable(["table", "strikethrough"]).disable("reference")

    def block(self, block: Block, width: int) -> list[Text]:
        """The lines of a block or of a piece of one."""
        if block.kind == "code":
            lines = self._code_piece(block)
        else:
            tokens = self._parser.parse(block.source)
            lines = _Layout(self, width).lines(tokens)
        return [self.ink.text(), *lines] if block.gap and lines else lines

    def _code_piece(self, block: Block) -> list[Text]:
        language = block.language.split()[0] if block.language else ""
        reader = self.ink.reader
        lines = self.code(block.source, language, block.before) if block.source else []
        if block.first:
            opening = self.words("code", language=language).strip() if reader else f"```{language}"
            lines.insert(0, self.ink.text(("dim", opening)))
        if block.last:
            lines.append(self.ink.text(("dim", self.words("code_end") if reader else "```")))
        return lines

    def code(self, source: str, language: str, before: str = "") -> list[Text]:
        """The lines of a piece of code, coloured if that leaves every character as it is.

        Args:
            source: The code.
            language: Its name as in Markdown; unknown ones are shown without colours.
            before: The code before it.
        """
        source, before = source.expandtabs(TAB), before.expandtabs(TAB)
        whole = f"{before}\n{source}" if before else source
        lines = whole.split("\n")
        if not (self.ink.color and language) or max(map(len, lines)) > MOST_CODE_LINE:
            return [self.ink.text(("", line)) for line in source.split("\n")]
        from rich.syntax import Syntax

        theme = "ansi_light" if self.ink.theme == "light" else "ansi_dark"
        try:
            text = Syntax(whole, language, theme=theme).highlight(whole)
        except Exception:  # noqa: BLE001 - a lexer is foreign code, and the code is shown without it too
            return [self.ink.text(("", line)) for line in source.split("\n")]
        shown = text.split("\n", allow_blank=True)[: len(lines)]
        if [line.plain for line in shown] != lines:
            return [self.ink.text(("", line)) for line in source.split("\n")]
        return list(shown[len(lines) - source.count("\n") - 1 :])


class _Layout:
    """Lays the tokens of one block out. Each kind of token has a method; others have nothing to show."""

    def __init__(self, page: Page, width: int) -> None:
        self._page, self._ink, self._width = page, page.ink, width
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
        head = ""
        for level in self._levels:
            head += level.rest if level.used else level.first
            level.used = True
        whole = self._ink.text(("label", head[: self._width // 2]))
        self._out.append(whole.append_text(line))

    @property
    def _room(self) -> int:
        taken = sum(len(level.rest) for level in self._levels)
        return max(self._width - min(taken, self._width // 2), LEAST_ROOM)

    def _wrapped(self, text: Text) -> None:
        for line in text.wrap(self._ink.console, self._room, tab_size=TAB, overflow="fold") or [text]:
            self._emit(line)

    def _space(self, token: Token) -> None:
        begun = not self._levels or self._levels[-1].used
        if self._out and begun and not token.hidden:
            self._emit(self._ink.text())

    def _on_paragraph_open(self, token: Token) -> None:
        self._space(token)

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
        if self._style == "heading" and not self._ink.color:
            text = self._ink.text(("", "# ")).append_text(text)
        self._wrapped(text)

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
            sign = "- " if self._ink.reader else "• "
        else:
            sign, self._numbers[-1] = f"{number}. ", number + 1
        self._levels.append(_Level(sign, " " * len(sign)))

    def _on_list_item_close(self, _token: Token) -> None:
        if not self._levels[-1].used:
            self._emit(self._ink.text())
        self._levels.pop()

    def _on_blockquote_open(self, token: Token) -> None:
        self._space(token)
        self._levels.append(_Level("> ", "> "))

    def _on_blockquote_close(self, _token: Token) -> None:
        self._levels.pop()

    def _on_fence(self, token: Token) -> None:
        language = token.info.split()[0] if token.info.strip() else ""
        for line in self._page.code(clean(token.content).rstrip("\n"), language):
            self._emit(line)

    def _on_code_block(self, token: Token) -> None:
        self._space(token)
        self._on_fence(token)

    def _on_hr(self, _token: Token) -> None:
        self._emit(self._ink.text(("dim", "---")))

    def _on_table_open(self, _token: Token) -> None:
        self._in_table, self._rows = True, []

    def _on_tr_open(self, _token: Token) -> None:
        self._rows.append([])

    def _on_table_close(self, _token: Token) -> None:
        self._in_table = False
        columns = max(map(len, self._rows))
        if self._ink.reader or self._room < columns * LEAST_COLUMN:
            self._table_by_rows()
        else:
            for line in self._table(columns):
                self._emit(line)

    def _table_by_rows(self) -> None:
        head, *rows = self._rows
        for row in rows or [head]:
            line = self._ink.text()
            for number, cell in enumerate(row):
                line.append("; " if number else "")
                if rows and number < len(head) and head[number].plain:
                    line.append_text(head[number]).append(": ")
                line.append_text(cell)
            line.no_wrap = False
            self._wrapped(line)

    def _table(self, columns: int) -> Iterator[Text]:
        from rich import box
        from rich.segment import Segment
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        head, *rows = self._rows
        for number in range(columns):
            title = head[number].copy() if number < len(head) else self._ink.text()
            title.stylize(self._ink.styles["bold"])
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*row)
        options = self._ink.console.options.update(width=self._room)
        for segments in self._ink.console.render_lines(table, options, pad=False):
            line = self._ink.text()
            for segment in Segment.strip_links(segments):
                line.append(segment.text, segment.style)
            yield line

    def _inline(self, tokens: Sequence[Token]) -> Text:
        text = self._ink.text()
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
                    text.stylize(self._ink.styles[style], start)
        return text

    def _words_of(self, token: Token) -> tuple[str, str]:
        if token.type in ("softbreak", "hardbreak"):
            return (" " if token.type == "softbreak" else "\n"), ""
        if token.type == "code_inline":
            return (token.content if self._ink.color else f"`{token.content}`"), "code"
        if token.type == "image":
            return f"[{self._page.words('image')}: {token.content}] ({token.attrs.get('src', '')})", "dim"
        return token.content, ""

    def _link(self, token: Token, text: Text, styles: list[str], links: list[tuple[str, int]]) -> None:
        """A link is shown with its whole address: what it says is no reason to believe where it leads."""
        if token.nesting > 0:
            styles.append("link")
            links.append((str(token.attrs.get("href", "")), len(text)))
            return
        styles.remove("link")
        address, start = links.pop()
        if text.plain[start:] not in (address, address.removeprefix("mailto:")):
            text.append(f" ({clean(address)})", self._ink.styles["dim"])


class Flow:
    """A text that grows: its finished lines come out once, and the rest can be looked at.

    Args:
        page: Makes lines of blocks.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._blocks = Blocks()
        self._shown: tuple[Any, list[Text]] = ((), [])

    def feed(self, text: str, width: int) -> list[Text]:
        """More clean text. Returns the lines that are finished by it."""
        return [line for block in self._blocks.feed(text) for line in self._page.block(block, width)]

    def cut(self, width: int) -> list[Text]:
        """Finish as much as cannot change: whole lines of code, and of a paragraph all but the last."""
        kind = self._blocks.tail.kind
        if kind == "code":
            pieces = self._blocks.cut_code()
            return [line for block in pieces for line in self._page.block(block, width)]
        return self._piece(width) if kind == "text" else []

    def close(self, width: int) -> list[Text]:
        """The text is over. Returns the rest of its lines."""
        lines = [line for block in self._blocks.close() for line in self._page.block(block, width)]
        self._blocks = Blocks()
        return lines

    def rows(self, width: int) -> int:
        """About how many lines are not finished."""
        tail = self._blocks.tail
        lines = tail.source.rstrip("\n").split("\n")
        taken = sum(self._page.ink.text(("", line)).cell_len // (width - WORD) + 1 for line in lines)
        return taken + tail.gap + (tail.kind == "code" and tail.first)

    def tail(self, width: int) -> list[Text]:
        """What is not finished; of a long one its end."""
        tail = self._blocks.tail
        key = (tail, width)
        if self._shown[0] != key:
            self._shown = (key, self._unfinished(tail, width))
        return self._shown[1]

    def _unfinished(self, tail: Block, width: int) -> list[Text]:
        if not tail.source.strip() and tail.kind != "code":
            return []
        if tail.kind == "table":  # its columns move with each row
            words = self._page.words("writing_table", count=tail.source.count("\n") + 1)
            return [self._page.ink.text(("dim", words))]
        return self._page.block(replace(tail, source=tail.source[-MOST_TAIL:]), width)

    def _piece(self, width: int) -> list[Text]:
        """The first lines of a paragraph that grew long, cut where a line ends anyway."""
        source = self._blocks.tail.source[: width * MOST_ROWS]
        whole = self._plain(source, width)
        for forced in (False, True) if len(whole) > MOST_ROWS // 2 else (False,):  # it may stay open for ever
            for end in self._ends(source, len(whole) - STAYING, width):
                if (forced or not _is_open(source[:end])) and self._splits(source, end, whole, width):
                    return self._page.block(self._blocks.cut(end), width)
        return []

    def _ends(self, source: str, lines: int, width: int) -> Iterator[int]:
        """Where a paragraph may be cut: at the ends of its first lines, the last of them first."""
        for count in range(lines, 0, -1):
            length = self._length(source, count, width)
            ends = (length, source.rfind(" ", 0, length), source.rfind("\n", 0, length))
            yield from (end for end in ends if end > 0)

    def _splits(self, source: str, end: int, whole: Sequence[str], width: int) -> bool:
        """Whether the two parts look as the whole does."""
        rest = source[end:].lstrip(" \n")
        return [*self._plain(source[:end], width), *self._plain(rest, width)] == whole

    def _plain(self, source: str, width: int) -> list[str]:
        lines = self._page.block(Block("text", source), width)
        return [self._page.ink.ansi(line) for line in lines]

    def _length(self, source: str, count: int, width: int) -> int:
        """How much of a text fills that many lines."""
        low, high = 0, len(source)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self._plain(source[:middle], width)) <= count:
                low = middle
            else:
                high = middle - 1
        return low


def _is_open(source: str) -> bool:
    """Whether what follows a text could still change how it looks: a mark in it has no end yet."""
    outside = "".join(source.split("`")[::2])
    marks = Counter(_MARKS.findall(outside))
    return (
        any(count % 2 for count in marks.values())
        or source.count("`") % 2 == 1
        or outside.rfind("[") > outside.rfind("]")
    )
