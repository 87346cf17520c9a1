"""Parse docstrings into a function's description and the descriptions of its parameters.

Google, NumPy and Sphinx (reST) styles are supported, also mixed, with ASCII or full-width colons. Sections
about results, errors and examples are omitted. Unrecognized text becomes part of the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from pure_agent_loop.support.lazy import lazy_pattern

_PARAMETERS = {
    *("args", "arguments", "parameters", "params", "keyword args", "keyword arguments"),
    *("other args", "other arguments", "other parameters", "keyword parameters"),
    *("参数", "参数说明", "参数列表"),
}
_OTHERS = {
    *("returns", "return", "yields", "yield", "receives", "raises", "raise", "exceptions", "warns"),
    *("example", "examples", "references", "see also", "attributes", "methods", "todo"),
    *("返回", "返回值", "异常", "抛出", "示例", "例子"),
}
_SECTIONS = _PARAMETERS | _OTHERS
_COLONS = ":："
_BRACKETS = {"(": 1, "（": 1, "[": 1, ")": -1, "）": -1, "]": -1}
_UNDERLINE = lazy_pattern(r"\s*(-{3,}|={3,})\s*$")
_NAME = lazy_pattern(r"\\?\*{0,2}(\w+)\s*")
_NUMPY_NAMES = lazy_pattern(r"(\\?\*{0,2}\w+(?:\s*,\s*\\?\*{0,2}\w+)*)\s*(?:[:：].*)?$")
_SPHINX = lazy_pattern(
    r":(?P<kind>param|parameter|arg|argument|key|keyword|kwarg|type|kwtype|raises?|except|exception|returns?|rtype"
    r"|yields?|ytype|var|ivar|cvar|vartype|meta)(?:\s+(?P<subject>[^:：]*))?[:：](?P<text>.*)$"
)
_SPHINX_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"}
_BULLET = lazy_pattern(r"([-*•]|\d+[.)])\s")


class Docstring(NamedTuple):
    """A parsed docstring.

    Args:
        description: Summary and extended description, without the sections.
        params: Description of each parameter; names without leading stars.
    """

    description: str
    params: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring. Never raises: a malformed docstring must not break a tool.

    Args:
        text: The docstring, indented or not, or None.
    """
    return _parsed(str(text or ""))  # a plain str, because a subclass may not be hashable


@lru_cache(maxsize=1024)  # a service may create an agent with the same functions for each request
def _parsed(text: str) -> Docstring:
    return _DocstringReader(inspect.cleandoc(text).splitlines()).read()


class _DocstringReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._prose: list[str] = []
        self._params: dict[str, str] = {}

    def read(self) -> Docstring:
        while self._at < len(self._lines):
            if not (self._sphinx() or self._numpy() or self._google()):
                self._prose.append(self._lines[self._at].rstrip())
                self._at += 1
        description = re.sub(r"\n{3,}", "\n\n", "\n".join(self._prose)).strip()
        return Docstring(description, MappingProxyType(self._params))

    def _sphinx(self) -> bool:
        line = self._lines[self._at]
        text = line.strip()
        match = _SPHINX.match(text) if text.startswith(":") else None
        if match is None:
            return False
        self._at += 1
        body = [match["text"], *self._deeper_than(_indent(line))]
        subject = (match["subject"] or "").split()
        if match["kind"] in _SPHINX_PARAMETERS and subject:
            self._add(subject[-1], body)
        return True

    def _numpy(self) -> bool:
        title = self._lines[self._at].strip().lower()
        if title not in _SECTIONS or not self._underlined(self._at):
            return False
        margin = _indent(self._lines[self._at])
        self._at += 2
        body = []
        while self._at < len(self._lines) and not self._underlined(self._at):
            body.append(self._lines[self._at])
            self._at += 1
        if title in _PARAMETERS:
            self._numpy_items(body, margin)
        return True

    def _numpy_items(self, body: list[str], margin: int) -> None:
        names: list[str] = []
        items: dict[str, list[str]] = {}
        for line in body:
            match = _NUMPY_NAMES.match(line.strip()) if _indent(line) <= margin else None
            if match:
                names = match[1].split(",")
                items.update({name: [] for name in names})
            else:
                for name in names:
                    items[name].append(line)
        for name, lines in items.items():
            self._add(name, lines)

    def _google(self) -> bool:
        line = self._lines[self._at]
        title = line.strip().lower()
        if title[-1:] not in _COLONS or title[:-1].strip() not in _SECTIONS:
            return False
        self._at += 1
        body = self._deeper_than(_indent(line))
        if title[:-1].strip() in _PARAMETERS:
            self._google_items(body)
        return True

    def _google_items(self, body: list[str]) -> None:
        indents = [_indent(line) for line in body]
        margin = min(indents, default=0)
        name, items = "", dict[str, list[str]]()
        for line, indent in zip(body, indents, strict=True):
            item = _google_item(line.strip()) if indent == margin else None
            if item:
                name, first = item
                items[name] = [first]
            elif name:
                items[name].append(line)
        for key, lines in items.items():
            self._add(key, lines)

    def _deeper_than(self, margin: int) -> list[str]:
        """Consume the remaining lines of the item at `margin`: blank lines and lines indented deeper."""
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and _indent(line) <= margin:
                break
            self._at += 1
        return self._lines[start : self._at]

    def _underlined(self, at: int) -> bool:
        following = self._lines[at + 1 : at + 2]
        return bool(self._lines[at].strip() and following and _UNDERLINE.match(following[0]))

    def _add(self, name: str, lines: list[str]) -> None:
        name, text = name.strip().lstrip("\\*"), _joined(lines)
        if name and text:
            self._params[name] = text


def _indent(line: str) -> int:
    text = line.lstrip()
    return len(line) - len(text) if text else 10_000


def _google_item(line: str) -> tuple[str, str] | None:
    """Split ``name: text`` or ``name (type): text``, where the type may contain brackets and colons."""
    match = _NAME.match(line)
    if match is None:
        return None
    rest = line[match.end() :]
    if rest[:1] in {"(", "（"}:
        rest = rest[_closing(rest) :].lstrip()
    return (match[1], rest[1:]) if rest and rest[0] in _COLONS else None


def _closing(text: str) -> int:
    """Return the index after the bracket that closes the first one."""
    depth = 0
    for index, character in enumerate(text):
        depth += _BRACKETS.get(character, 0)
        if depth == 0:
            return index + 1
    return len(text)


def _joined(lines: list[str]) -> str:
    """Join wrapped lines: one line per paragraph or bullet."""
    result = ""
    gap = ""
    for line in (line.strip() for line in lines):
        if not line:
            gap = "\n\n" if result else ""
            continue
        if result:
            gap = gap or ("\n" if _BULLET.match(line) else " ")
        result, gap = result + gap + line, ""
    return result
