"""Untrusted text as HTML or Markdown: no raw HTML, no images, no links to scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING

from pure_agent_loop.support.formulas import to_mathml
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import counted

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MAX_STYLED = 100_000  # characters; parsing a longer text takes seconds
MAX_DEPTH = 10  # maximum depth of quotes; deeper quotes become paragraphs
_BACKTICKS = re.compile("`+")
_RUN = re.compile(r"(?<!\\)(\\*)(`+)")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})([^`]*)")
_WORD = re.compile(r"[\w+#.-]*")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*)")
_UNDERLINE = re.compile(r"\s*(=+|-+)\s*")
# A dollar sign with a blank on its inner side, or with a digit after the closing one, means money.
_FORMULA = re.compile(
    r"\$\$[^$]{1,400}\$\$|\$(?![\s$])[^$\n]{1,400}(?<!\s)\$(?!\d)|\\\([^\n]{1,400}?\\\)|\\\[[^$]{1,400}?\\\]"
)
_UNCHECKED, _CHECKED = re.compile(r"\A\[ \] "), re.compile(r"\A\[[xX]\] ")
# Anything that can begin HTML, an image, a fence, a reference, or a link other than to a page or a mailbox.
_MARKUP = re.compile(r"(?<!\\)(\\*)(<|!(?=\[)|`{3,}|~{3,})|(?<=\])(\((?!https?://|mailto:)|:)", re.IGNORECASE)


def prose_to_html(text: str) -> str:
    """Return Markdown as HTML elements without attributes, except list numbers; links become text.

    Without the ``[cli]`` extra, or over `MAX_STYLED` characters, the result is preformatted text.

    Args:
        text: Untrusted Markdown; HTML in it stays text.
    """
    text = safe_text(text)
    try:
        tokens = _parser().parse(text) if len(text) <= MAX_STYLED else None
    except ImportError:
        tokens = None
    if tokens is None:
        return f"<pre>{html.escape(text)}</pre>"
    _make_plain(tokens)
    return str(_parser().renderer.render(tokens, _parser().options, {})).rstrip("\n")


def prose_to_markdown(text: str) -> str:
    """Return Markdown that cannot load anything, contain HTML, or leave a fence open.

    Headings are lowered by three levels, so that they stay below the headings of the enclosing document.

    Args:
        text: Untrusted Markdown.
    """
    return "\n".join(_markdown(_lines(text), MAX_DEPTH))


def fenced(text: str, language: str = "text", indent: str = "") -> list[str]:
    """Return the lines of a fenced block; its text has no control characters and cannot close the block."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [indent + line for line in (f"{fence}{language}", *text.split("\n"), fence)]


def escaped(text: str) -> str:
    """Return a text as one line of HTML, so that no blank line in it can end an HTML block in Markdown."""
    return html.escape(safe_text(text)).replace("\n", "<br>")


def cell_to_markdown(text: str) -> str:
    """Return a text as a Markdown table cell that cannot load anything or contain HTML."""
    return _markdown_inline(one_line(text)).replace("|", "\\|")


def table_to_html(rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML on one line, the header first.

    Args:
        rows: Untrusted cells.
    """
    lines = [
        "".join(f"<{tag}>{escaped(cell)}</{tag}>" for cell in row)
        for tag, row in zip(chain(["th"], repeat("td")), rows, strict=False)
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def folded_table(noun: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as collapsible HTML, with its row count as summary; empty if it has no rows.

    Args:
        noun: Name of one row.
        rows: Untrusted cells.
    """
    if not rows:
        return ""
    table = table_to_html([header, *rows])
    return f"<details><summary>{escaped(counted(len(rows), noun))}</summary>{table}</details>"


def _lines(text: str) -> list[str]:
    return safe_text(text).split("\n")


def _code(lines: Sequence[str], at: int) -> tuple[str, str, str, int] | None:
    """Return indent, language, text and end of the fenced code that begins at a line."""
    opened = _FENCE.fullmatch(lines[at])
    if opened is None:
        return None
    indent, fence, info = opened.groups()
    closing = re.compile(rf" *{fence[0]}{{{len(fence)},}} *")
    end = next((n for n in range(at + 1, len(lines)) if closing.fullmatch(lines[n])), len(lines))
    text = "\n".join(line[min(len(indent), _indent(line)) :] for line in lines[at + 1 : end])
    word = _WORD.match(info.strip())
    return indent, word[0] if word else "", text, end + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _quote(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """Return the text and the end of the quotation that begins at a line; empty if there is no quotation."""
    end = at
    while end < len(lines) and lines[end].lstrip().startswith(">"):
        end += 1
    return [line.lstrip()[1:].removeprefix(" ") for line in lines[at:end]], end


def _spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each part of a text, preceded by True if the part is code."""
    runs = list(_RUN.finditer(text))
    places: dict[int, list[int]] = {}  # indexes of runs of backticks in reverse order, by length
    for number in reversed(range(len(runs))):
        places.setdefault(len(runs[number][2]), []).append(number)
    number = end = 0
    while number < len(runs):
        same = places[len(runs[number][2])]
        while same and same[-1] <= number:
            same.pop()
        if same and len(runs[number][1]) % 2 == 0:  # not escaped
            yield False, text[end : runs[number].start(2)]
            yield True, text[runs[number].end() : runs[same[-1]].start(2)]
            end, number = runs[same[-1]].end(), same[-1]
        number += 1
    yield False, text[end:]


def _markdown(lines: Sequence[str], depth: int) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        quoted, end = _quote(lines, at) if depth else ([], at)
        if code := _code(lines, at):
            indent, language, text, at = code
            out += ["", *fenced(text, language, indent), ""]
        elif quoted:
            out += ["", *(f"> {line}".rstrip() for line in _markdown(quoted, depth - 1)), ""]
            at = end
        else:
            out += _markdown_line(lines[at].expandtabs(4), out[-1] if out else "")
            at += 1
    return out


def _markdown_line(line: str, before: str) -> list[str]:
    if heading := _HEADING.fullmatch(line):
        return [f"{'#' * min(6, len(heading[1]) + 3)} {_markdown_inline(heading[2])}"]
    # Escape a line that would turn the previous line into a heading.
    if underline := _UNDERLINE.fullmatch(line):
        return [f"\\{line.strip()}"] if underline[1][0] == "=" else [*([""] if before else []), line]
    return [_markdown_inline(line)]


def _markdown_inline(text: str) -> str:
    return "".join(
        _markdown_code(part) if is_code else _MARKUP.sub(_inert, part) for is_code, part in _spans(text)
    )


def _markdown_code(text: str) -> str:
    """Return code in backticks, or as HTML if other pairings of backticks could reveal markup in it."""
    if "`" in text or _MARKUP.search(text):
        return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in text)}</code>"
    return f"`{text}`"


def _inert(match: re.Match[str]) -> str:
    before, signs = (match[1], match[2]) if match[2] else ("", match[3])
    entities = "".join("&lt;" if sign == "<" else f"&#{ord(sign)};" for sign in signs)
    return before[: len(before) // 2 * 2] + entities  # an odd backslash would escape the entity


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _formula)
    for kind in ("fence", "code_block"):
        parser.add_render_rule(kind, _render_code)
    parser.add_render_rule("formula", _render_formula)
    return parser


def _formula(state: StateInline, silent: bool) -> bool:
    """Consume a formula, such as ``$x_1$``, so that nothing in it is read as markup."""
    match = _FORMULA.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _render_formula(_: RendererHTML, tokens: Sequence[Token], at: int, *__: object) -> str:
    """Return a formula as MathML, or as code if it cannot be parsed."""
    text = tokens[at].content
    size = 1 if text[0] == "$" != text[1] else 2
    shown = to_mathml(text[size:-size], is_display=text[:2] in ("$$", "\\["))
    return shown or f"<code>{html.escape(text)}</code>"


def _render_code(_: RendererHTML, tokens: Sequence[Token], at: int, *__: object) -> str:
    return f"<pre>{html.escape(tokens[at].content.removesuffix(chr(10)))}</pre>\n"


def _make_plain(tokens: list[Token], is_item: bool = False) -> None:
    """Lower headings, turn links and images into text with addresses, keep only list-number attributes."""
    addresses: list[object] = []
    for number, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        elif token.type == "link_open":
            addresses.append(token.attrs.get("href", ""))
            _to_text(token, "")
        elif token.type == "link_close":
            _to_text(token, f" ({addresses.pop()})")
        elif token.type == "image":
            _to_text(token, f"{token.content} ({token.attrs.get('src', '')})")
        elif token.type == "text" and number == 0 and is_item:
            token.content = _CHECKED.sub("\u2611 ", _UNCHECKED.sub("\u2610 ", token.content))
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        before = tokens[number - 2].type if number > 1 else ""
        _make_plain(token.children or [], before == "list_item_open")
        if before == "list_item_open" and token.content.startswith(("[ ] ", "[x] ", "[X] ")):
            tokens[number - 2].attrs["class"] = "box"  # a checkbox needs no bullet


def _to_text(token: Token, text: str) -> None:
    token.type, token.content, token.children, token.nesting = "text", text, None, 0
