"""Untrusted text as HTML or Markdown: no raw HTML, no images, no links to scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import counted

MAX_DEPTH = 10  # of lists and quotes; deeper ones are paragraphs
_BACKTICKS = re.compile("`+")
_RUN = re.compile(r"(?<!\\)(\\*)(`+)")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})([^`]*)")
_WORD = re.compile(r"[\w+#.-]*")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*)")
_RULE = re.compile(r"\s*(?:[-*_]\s*){3,}")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(\s+)(.*)")
_UNDERLINE = re.compile(r"\s*(=+|-+)\s*")
_DELIMITER = re.compile(":?-+:?")
_BLOCK = re.compile(r"\s*(?:>|#{1,6}\s|`{3}|~{3}|(?:[-*+]|\d{1,9}[.)])\s|(?:[-*_]\s*){3,}$)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_STORED = re.compile("\0(\\d+)\0")
_STYLES = (  # no style has another in it that was set before, so that elements nest
    (re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]*)(?:\s[^()]*)?\)"), r"\1 (\2)"),
    (re.compile(r"\*\*(?=\S)([^*<]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*<]+)\*(?![\w*])"), r"<em>\1</em>"),
    (re.compile(r"~~(?=\S)([^~<]+)~~"), r"<del>\1</del>"),
    (re.compile(r"(?<! ) {2,}\n"), "<br>\n"),
    (re.compile(r"\A\[ \] "), "\u2610 "),
    (re.compile(r"\A\[[xX]\] "), "\u2611 "),
)
# What can begin HTML, an image, a fence, a reference, or a link to anything but a page or a mailbox.
_MARKUP = re.compile(r"(?<!\\)(\\*)(<|!(?=\[)|`{3,}|~{3,})|(?<=\])(\((?!https?://|mailto:)|:)", re.IGNORECASE)


def prose_to_html(text: str) -> str:
    """Return Markdown as HTML elements without attributes, except numbers of lists; links become text.

    Args:
        text: Untrusted Markdown; HTML in it stays text.
    """
    return "\n".join(_html(_lines(text), MAX_DEPTH))


def prose_to_markdown(text: str) -> str:
    """Return Markdown that cannot load anything, contain HTML, or leave a fence open.

    Headings lose three levels, so that they stay below those of the document around them.

    Args:
        text: Untrusted Markdown.
    """
    return "\n".join(_markdown(_lines(text), MAX_DEPTH))


def fenced(text: str, language: str = "text", indent: str = "") -> list[str]:
    """Return the lines of a fenced block that its text, free of control characters, cannot close."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [indent + line for line in (f"{fence}{language}", *text.split("\n"), fence)]


def escaped(text: str) -> str:
    """Return a text as HTML on one line, in which no blank line ends an HTML block of Markdown."""
    return html.escape(safe_text(text)).replace("\n", "<br>")


def cell_to_markdown(text: str) -> str:
    """Return a text as a cell of a Markdown table, which cannot load anything or contain HTML."""
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
    """Return a table as HTML that can be unfolded, with the number of its rows as summary; empty without any.

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
    """Return the text and the end of the quotation that begins at a line; no text if none does."""
    end = at
    while end < len(lines) and lines[end].lstrip().startswith(">"):
        end += 1
    return [line.lstrip()[1:].removeprefix(" ") for line in lines[at:end]], end


def _spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a text: whether it is code, and the part."""
    runs = list(_RUN.finditer(text))
    places: dict[int, list[int]] = {}  # runs by length, the first one last
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
    if underline := _UNDERLINE.fullmatch(line):  # would make a heading of the line before
        return [f"\\{line.strip()}"] if underline[1][0] == "=" else [*([""] if before else []), line]
    return [_markdown_inline(line)]


def _markdown_inline(text: str) -> str:
    return "".join(
        _markdown_code(part) if is_code else _MARKUP.sub(_inert, part) for is_code, part in _spans(text)
    )


def _markdown_code(text: str) -> str:
    """Return code in backticks if it is harmless also where a parser pairs them in another way."""
    if "`" in text or _MARKUP.search(text):
        return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in text)}</code>"
    return f"`{text}`"


def _inert(match: re.Match[str]) -> str:
    before, signs = (match[1], match[2]) if match[2] else ("", match[3])
    entities = "".join("&lt;" if sign == "<" else f"&#{ord(sign)};" for sign in signs)
    return before[: len(before) // 2 * 2] + entities  # an odd backslash would escape the entity


def _html(lines: Sequence[str], depth: int) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        quoted, end = _quote(lines, at) if depth else ([], at)
        if not line.strip():
            at += 1
        elif code := _code(lines, at):
            at = code[-1]
            out.append(f"<pre>{html.escape(code[2])}</pre>")
        elif heading := _HEADING.fullmatch(line):
            level = min(6, len(heading[1]) + 2)
            out.append(f"<h{level}>{_inline(heading[2].strip().rstrip('#').rstrip())}</h{level}>")
            at += 1
        elif _RULE.fullmatch(line):
            out.append("<hr>")
            at += 1
        elif quoted:
            out += ["<blockquote>", *_html(quoted, depth - 1), "</blockquote>"]
            at = end
        elif depth and _ITEM.fullmatch(line):
            at = _list(lines, at, depth - 1, out)
        else:
            at = _table(lines, at, out) or _paragraph(lines, at, out)
    return out


def _paragraph(lines: Sequence[str], at: int, out: list[str]) -> int:
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _BLOCK.match(lines[end]):
        end += 1
    text = "\n".join(line.lstrip() for line in lines[at:end])
    out.append(f"<p>{_inline(text)}</p>")
    return end


def _list(lines: Sequence[str], at: int, depth: int, out: list[str]) -> int:
    """Append a list; return its end."""
    marker = lines[at].split()[0]
    number = marker[:-1] if marker[0].isdigit() else ""
    out.append(f'<ol start="{int(number)}">' if number else "<ul>")
    while at < len(lines) and (item := _ITEM.fullmatch(lines[at])):
        if item[2][0].isdigit() is not bool(number):
            break
        own, inner = len(item[1]), len(item[1]) + len(item[2]) + len(item[3])
        content, at = [item[4]], at + 1
        while at < len(lines):
            code, line = _code(lines, at), lines[at].expandtabs(4)
            ends = not content[-1].strip() or _BLOCK.match(line)
            if line.strip() and _indent(line) <= own and ends:
                break
            taken = lines[at : code[-1]] if code else [line]
            content += [each[min(_indent(each), inner) :] for each in taken]
            at += len(taken)
        parts = _html(content, depth)
        if parts and parts[0].startswith("<p>"):
            parts[0] = parts[0][3:-4]
        out.append(f"<li>{chr(10).join(parts)}</li>")
    out.append("</ol>" if number else "</ul>")
    return at


def _table(lines: Sequence[str], at: int, out: list[str]) -> int:
    """Append the table that begins at a line; return its end, or 0 if none begins there."""
    if at + 1 >= len(lines) or "|" not in lines[at] or "|" not in lines[at + 1]:
        return 0
    if not all(_DELIMITER.fullmatch(cell.strip()) for cell in _cells(lines[at + 1])):
        return 0
    out += ["<table>", _row(_cells(lines[at]), "th")]
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        out.append(_row(_cells(lines[end]), "td"))
        end += 1
    out.append("</table>")
    return end


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell.strip())}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    stored: list[str] = []

    def store(source: str) -> str:
        stored.append(source)
        return f"\0{len(stored) - 1}\0"  # no text has this character

    shown = ""
    for is_code, part in _spans(text):
        if is_code:
            shown += store(f"<code>{html.escape(part)}</code>")
        else:
            literal = _ESCAPE.sub(lambda match: store(html.escape(match[1])), part)
            shown += html.escape(literal, quote=False)
    for pattern, form in _STYLES:
        shown = pattern.sub(form, shown)
    return _STORED.sub(lambda match: stored[int(match[1])], shown)
