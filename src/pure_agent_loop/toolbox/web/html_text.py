"""Convert a web page to text for a model: headings, links, lists, tables, code; no scripts, nothing hidden.

A custom scanner is used because the standard library's parser takes quadratic time on some broken pages.
Nothing here recurses, and each character is scanned a bounded number of times.
"""

from __future__ import annotations

import html
import re
import urllib.parse
from collections.abc import Callable

_TAG = re.compile(r"</?([a-zA-Z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"[\s/]*([^\s/>=]+)(?:\s*=\s*(?:(?P<quote>[\"'])|(?P<bare>[^\s>]*)))?")
_LONG_NUMBER = re.compile(r"&#[xX]?[0-9a-fA-F]{9,};?")
_SPACE = re.compile(r"[ \t\n\r\f\v\xa0]+")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.I)
_TEXT_ONLY = frozenset({"title", "textarea"})
_HEADINGS = {f"h{number}": "#" * number + " " for number in range(1, 7)}
_MAX_INDENT = 5
_MAX_HREF = 2_000
# Maximum total characters of link addresses; each relative link grows by the length of the page's address.
_MAX_HREFS = 2_000_000


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RAW = _set("script style template noscript iframe noembed noframes xmp svg math object canvas")
_VOID = _set("area base br col embed hr img input link meta param source track wbr")
_OPEN_ENDED = _set("p li dt dd tr td th option optgroup thead tbody tfoot")
_BLOCKS = _set(
    "div section article header footer main nav aside form address figure figcaption fieldset details "
    "summary dt dd caption thead tbody tfoot body head html option legend dialog menu hgroup search"
)
_PARAGRAPHS = _set("p blockquote table ul ol dl pre")


def html_to_text(source: str, base_url: str = "") -> str:
    """Return the readable part of a page. Very long links, and links over a total limit, are dropped.

    Args:
        source: HTML, valid or broken.
        base_url: The URL of the page, which completes relative links.
    """
    page = _PageText(base_url)
    _scan(source, page)
    return page.text()


def clean_page(text: str) -> str:
    """Remove invisible characters: controls, direction marks, tags."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _scan(source: str, page: _PageText) -> None:
    position, end = 0, len(source)
    while position < end:
        start = source.find("<", position)
        if start < 0:
            start = end
        if start > position:
            page.add(_unescape(source[position:start]))
        position = start if start == end else _markup(source, start, page)


def _markup(source: str, start: int, page: _PageText) -> int:
    """Process markup that begins with ``<``; return the position after it."""
    if source.startswith("<!--", start):
        return _after(source, "-->", start + 2 if source.startswith("<!-->", start) else start + 4)
    if source.startswith(("<!", "<?"), start):
        return _after(source, ">", start)
    tag = _TAG.match(source, start)
    if tag is None:
        if source.startswith("</", start):
            return _after(source, ">", start)
        page.add("<")
        return start + 1
    name = tag[1].lower()
    if source.startswith("</", start):
        page.end(name)
        return _after(source, ">", tag.end())
    attributes, position = _attributes(source, tag.end())
    if name in _RAW or name in _TEXT_ONLY:
        inner, position = _raw(source, name, position)
        if name in _TEXT_ONLY:
            page.inner(name, _unescape(inner))
        return position
    page.begin(name, attributes)
    return position


def _after(source: str, text: str, start: int) -> int:
    position = source.find(text, start)
    return len(source) if position < 0 else position + len(text)


def _raw(source: str, name: str, start: int) -> tuple[str, int]:
    closing = _closing(name).search(source, start)
    if closing is None:
        return source[start:], len(source)
    return source[start : closing.start()], _after(source, ">", closing.end())


def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\s/>])", re.I | re.A)


def _attributes(source: str, position: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag and its end. An open quote extends to the end of the page."""
    attributes: dict[str, str] = {}
    while match := _ATTRIBUTE.match(source, position):
        position, value = match.end(), match["bare"] or ""
        if match["quote"]:
            close = source.find(match["quote"], position)
            if close < 0:
                return attributes, len(source)
            value, position = source[position:close], close + 1
        name = match[1].lower()
        if name in _ATTRIBUTES:
            attributes.setdefault(name, _unescape(value[:_MAX_HREF]))
    return attributes, _after(source, ">", position)


_ATTRIBUTES = _set("href alt hidden style start aria-hidden")


def _unescape(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _is_hidden(attributes: dict[str, str]) -> bool:
    if "hidden" in attributes and attributes["hidden"].lower() != "until-found":
        return True
    return bool(_HIDDEN_STYLE.search(attributes.get("style", "")))


class _PageText:
    """The text of a page under construction."""

    def __init__(self, base_url: str) -> None:
        self._base = base_url
        self._out: list[str] = []
        self._title = ""
        self._lines = 0  # line ends to write before the next text
        self._gap = False  # a space to write before the next text
        self._lead = ""  # the prefix of the next text: "# ", "- "
        self._lists: list[int] = []  # number of the next item, 0 for a list without numbers
        self._pre = 0
        self._cells = -1  # cells in the current row; -1 outside of rows
        self._link: str | None = None
        self._in_link = False
        self._room = _MAX_HREFS  # characters left for link addresses
        self._hidden = ""
        self._depth = 0

    def text(self) -> str:
        """Return the whole text."""
        self._close_link()
        if self._pre:
            self._end_pre()
        body = clean_page("".join(self._out)).strip("\n")
        title = clean_page(_SPACE.sub(" ", self._title)).strip()
        return "\n\n".join(part for part in (f"Title: {title}" if title else "", body) if part)

    def inner(self, name: str, text: str) -> None:
        if name == "title" and not self._title:
            self._title = text[:500]
        elif name == "textarea":
            self.add(text)

    def add(self, text: str) -> None:
        if self._hidden:
            return
        if self._pre:
            self._flush()
            self._out.append(text)
            return
        words = _SPACE.sub(" ", text)
        if words.startswith(" "):
            self._gap, words = True, words[1:]
        if not words:
            return
        trailing = words.endswith(" ")
        self._flush()
        if self._link and not self._in_link:
            self._in_link = True
            self._out.append("[")
        self._out.append(words[:-1] if trailing else words)
        self._gap = trailing

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if self._hidden:
            self._begin_hidden(name)
            if self._hidden:
                return
        if name not in _VOID and _is_hidden(attributes):
            self._hidden, self._depth = name, 1
            return
        if name in _STARTS:
            _STARTS[name](self, attributes)
        else:
            self._break_around(name)
            self._lead = _HEADINGS.get(name, self._lead)

    def end(self, name: str) -> None:
        if self._hidden:
            self._depth -= name == self._hidden
            if self._depth <= 0:
                self._hidden = ""
            return
        if name in _ENDS:
            _ENDS[name](self)
        self._lead = "" if name in _HEADINGS else self._lead
        self._break_around(name)

    def _break_around(self, name: str) -> None:
        if name in _HEADINGS or name in _PARAGRAPHS:
            self._break(2)
        elif name in _BLOCKS:
            self._break(1)

    def _begin_hidden(self, name: str) -> None:
        if name != self._hidden:
            return
        if name in _OPEN_ENDED:  # the next element of this name closes the current element implicitly
            self._hidden = ""
        else:
            self._depth += 1

    def _break(self, lines: int) -> None:
        """Require a number of line ends before the next text; inside links and rows, only a space."""
        if self._in_link or self._cells > 0:
            self._gap = True
        elif not self._pre:
            self._lines = max(self._lines, lines)
            self._gap = False

    def _flush(self) -> None:
        if self._lines:
            if self._out:
                self._out.append("\n" * self._lines)
        elif self._gap and self._out and not self._lead:
            self._out.append(" ")
        self._lines, self._gap = 0, False
        if self._lead:
            self._out.append(self._lead)
            self._lead = ""

    def _begin_link(self, attributes: dict[str, str]) -> None:
        self._close_link()
        if not self._pre and self._room > 0:
            self._link = self._target(attributes.get("href", ""))

    def _target(self, href: str) -> str | None:
        link = _link_target(self._base, href)
        self._room -= len(link or "")
        return link if link and len(link) < _MAX_HREF else None

    def _close_link(self) -> None:
        if self._in_link:
            self._out.append(f"]({self._link})")
        self._link, self._in_link = None, False

    def _line_break(self, _: dict[str, str]) -> None:
        if self._pre:
            self._out.append("\n")
        elif self._in_link or self._cells > 0:
            self._gap = True
        else:
            self._lines, self._gap = min(self._lines + 1, 2), False

    def _rule(self, _: dict[str, str]) -> None:
        self._break(2)
        self.add("---")
        self._break(2)

    def _item(self, _: dict[str, str]) -> None:
        self._close_link()
        self._break(1)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        indent = "  " * min(max(len(self._lists) - 1, 0), _MAX_INDENT)
        self._lead = f"{indent}{number}. " if number else f"{indent}- "

    def _begin_list(self, numbered: bool, start: str = "1") -> None:
        self._break(1 if self._lists else 2)
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1
        self._lists.append(first if numbered else 0)

    def _end_list(self) -> None:
        if self._lists:
            self._lists.pop()
        self._lead = ""

    def _row(self, _: dict[str, str]) -> None:
        self._end_row()
        self._break(1)
        self._cells = 0

    def _cell(self, _: dict[str, str]) -> None:
        self._close_link()
        if self._cells > 0:
            self._gap = True
            self.add("| ")
        self._cells = max(self._cells, 0) + 1

    def _end_row(self) -> None:
        self._close_link()
        self._cells = -1
        self._break(1)

    def _begin_pre(self, _: dict[str, str]) -> None:
        self._close_link()
        self._cells = -1
        if not self._pre:
            self._break(2)
            self._flush()
            self._out.append("```\n")
        self._pre += 1

    def _end_pre(self) -> None:
        if self._pre:
            self._pre = 0
            self._out.append("\n```")

    def _code(self) -> None:
        if not self._pre:
            self.add("`")

    def _image(self, attributes: dict[str, str]) -> None:
        words = _SPACE.sub(" ", attributes.get("alt", "")).strip()
        if words:
            self.add(f"[image: {words[:300]}]")


_STARTS: dict[str, Callable[[_PageText, dict[str, str]], None]] = {
    "a": _PageText._begin_link,
    "br": _PageText._line_break,
    "hr": _PageText._rule,
    "li": _PageText._item,
    "ul": lambda page, _: page._begin_list(numbered=False),
    "ol": lambda page, attributes: page._begin_list(numbered=True, start=attributes.get("start", "1")),
    "tr": _PageText._row,
    "td": _PageText._cell,
    "th": _PageText._cell,
    "pre": _PageText._begin_pre,
    "img": _PageText._image,
    "code": lambda page, _: page._code(),
}
_ENDS: dict[str, Callable[[_PageText], None]] = {
    "a": _PageText._close_link,
    "ul": _PageText._end_list,
    "ol": _PageText._end_list,
    "tr": _PageText._end_row,
    "table": _PageText._end_row,
    "pre": _PageText._end_pre,
    "code": _PageText._code,
}


def _link_target(base: str, href: str) -> str | None:
    """Return a link's absolute URL; None if it is too long, or does not lead to another web page."""
    href = href.strip()
    if not href or href.startswith("#") or len(href) >= _MAX_HREF:
        return None
    try:
        url = urllib.parse.urljoin(base, href)
    except ValueError:
        return None
    is_web = url.startswith(("http://", "https://")) or (not base and ":" not in url.split("/")[0])
    return _SPACE.sub("%20", url).replace(")", "%29") if is_web else None
