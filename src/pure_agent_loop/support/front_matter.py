"""Parse the front matter of a ``SKILL.md``: a safe subset of YAML.

Supported: plain, quoted and block (``|``, ``>``) scalars, lists, and one level of nested keys. Every
scalar is text, except ``true`` and ``false``. Anchors, tags and deeper levels raise an error with the line.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.lazy import lazy_pattern

Scalar: TypeAlias = "str | bool"
Value: TypeAlias = "Scalar | list[Scalar] | dict[str, Scalar]"

_FENCE = lazy_pattern(r"---[ \t]*")
_END = lazy_pattern(r"(---|\.\.\.)[ \t]*")
_KEY = lazy_pattern(r"""(?P<key>[A-Za-z_][\w.-]*|"[^"]+"|'[^']+')[ \t]*:(?:[ \t]+(?P<value>.*))?""")
_BLOCK = lazy_pattern(r"(?P<style>[|>])(?P<chomp>[+-]?)(?:[1-9])?[ \t]*(?:#.*)?")
_COMMENT = lazy_pattern(r"(^|[ \t])#.*$")
_ESCAPE = lazy_pattern(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "/": "/", " ": " "}
_REFUSED = "&*!%@`"
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": "", "~": ""}


class FrontMatterError(PureAgentLoopError, ValueError):
    """Front matter that cannot be parsed. The message names the line."""


def split_front_matter(text: str) -> tuple[dict[str, Value], str]:
    """Return the front-matter fields of a document, and its body.

    Args:
        text: The document; its first line must be ``---``.

    Raises:
        FrontMatterError: The front matter is missing or cannot be parsed.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise FrontMatterError("line 1: the file must begin with a line '---', then name and description.")
    end = next((number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line)), None)
    if end is None:
        raise FrontMatterError("the front matter is not closed: a second line '---' is missing.")
    return _Head(lines[1:end]).read(), "\n".join(lines[end + 1 :]).strip("\n")


class _Head:
    """Parser of front-matter lines, in one pass."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> dict[str, Value]:
        values: dict[str, Value] = {}
        while self._skip_blank():
            key, rest = self._key(indent=0)
            if key in values:
                raise self._error(f"{key!r} occurs twice")
            self._at += 1
            values[key] = self._value(rest)
        return values

    def _key(self, indent: int) -> tuple[str, str]:
        line = self._lines[self._at]
        match = _KEY.fullmatch(line[indent:].rstrip())
        if "\t" in line[:indent] or _indent(line) != indent or match is None:
            raise self._error("expected 'key: value'")
        return match["key"].strip("\"'"), (match["value"] or "").strip()

    def _value(self, rest: str) -> Value:
        block = _BLOCK.fullmatch(rest)
        if block is not None:
            return self._block(block["style"], block["chomp"])
        if rest[:1] == "[":
            return self._flow_list(rest)
        if rest[:1] == "{":
            raise self._error("{...} is not supported; write one 'key: value' a line", -1)
        if _COMMENT.sub("", rest).strip():
            return self._scalar(" ".join([rest, *self._more_lines(rest)]))
        if not self._skip_blank() or (_indent(self._line) == 0 and not self._line.startswith("- ")):
            return ""
        return self._list() if self._line.lstrip().startswith(("- ", "-\n")) else self._map()

    @property
    def _line(self) -> str:
        return self._lines[self._at]

    def _more_lines(self, first: str) -> list[str]:
        """Read the indented continuation lines of a scalar."""
        lines: list[str] = []
        while self._at < len(self._lines) and self._line[:1] in (" ", "\t") and self._line.strip():
            lines.append(self._line.strip())
            self._at += 1
        if lines and first[:1] not in "\"'":
            lines = [_COMMENT.sub("", line).strip() for line in lines]
        return lines

    def _block(self, style: str, chomp: str) -> str:
        lines: list[str] = []
        while self._at < len(self._lines) and (not self._line.strip() or self._line[:1] in (" ", "\t")):
            lines.append(self._line)
            self._at += 1
        depth = min((_indent(line) for line in lines if line.strip()), default=0)
        body = "\n".join(line[depth:].rstrip() if line.strip() else "" for line in lines)
        text = body.rstrip("\n")
        if style == ">":
            text = re.sub(r"(?<!\n)\n(?![\n ])", " ", text)
            text = re.sub(r"\n\n", "\n", text)
        if chomp == "-" or not text:
            return text
        return text + (body[len(body.rstrip("\n")) :] if chomp == "+" else "") + "\n"

    def _list(self) -> list[Scalar]:
        items: list[Scalar] = []
        depth = _indent(self._line)
        while self._skip_blank() and _indent(self._line) == depth and self._line.lstrip().startswith("- "):
            text = self._line.lstrip()[2:].strip()
            self._at += 1
            items.append(self._scalar(text))
        self._must_be_outside(depth)
        return items

    def _map(self) -> dict[str, Scalar]:
        values: dict[str, Scalar] = {}
        depth = _indent(self._line)
        while self._skip_blank() and _indent(self._line) == depth:
            key, rest = self._key(depth)
            self._at += 1
            values[key] = self._scalar(rest)
        self._must_be_outside(depth)
        return values

    def _must_be_outside(self, depth: int) -> None:
        if depth and self._at < len(self._lines) and _indent(self._line) > 0:
            raise self._error("unsupported indentation")

    def _flow_list(self, rest: str) -> list[Scalar]:
        text = _COMMENT.sub("", rest).strip() if "'" not in rest and '"' not in rest else rest
        if not text.endswith("]"):
            raise self._error("a list '[a, b]' must be on one line", -1)
        items = re.findall(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*)\s*(?:,|$)""", text[1:-1])
        return [self._scalar(item.strip()) for item in items if item.strip()]

    def _scalar(self, text: str) -> Scalar:
        if text[:1] == '"':
            match = re.fullmatch(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?', text, re.S)
            if match is None:
                raise self._error("unterminated quoted text", -1)
            return _ESCAPE.sub(self._unescaped, match[1])
        if text[:1] == "'":
            match = re.fullmatch(r"'((?:[^']|'')*)'[ \t]*(?:#.*)?", text, re.S)
            if match is None:
                raise self._error("unterminated quoted text", -1)
            return match[1].replace("''", "'")
        text = _COMMENT.sub("", text).strip()
        if text[:1] and text[0] in _REFUSED:
            raise self._error(f"a text that begins with {text[0]!r} must be quoted", -1)
        return _WORDS.get(text.lower(), text)

    def _unescaped(self, match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise self._error(f"'\\{code}' is not a valid escape in a quoted text", -1)
        return _ESCAPES[code]

    def _skip_blank(self) -> bool:
        """Skip to the next line with content; False at the end."""
        while self._at < len(self._lines) and self._line.strip()[:1] in ("", "#"):
            self._at += 1
        return self._at < len(self._lines)

    def _error(self, what: str, back: int = 0) -> FrontMatterError:
        return FrontMatterError(f"line {self._at + back + 2}: {what}.")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
