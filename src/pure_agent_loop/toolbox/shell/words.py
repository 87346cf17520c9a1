"""One word of a shell line, taken apart the way bash does it, so that what it becomes is known or
known not to be.

Only what can be read without doubt is decoded; everything else is trouble, and trouble is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pure_agent_loop.toolbox.shell.reasons import say

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_WORDS = 50
Kind = Literal["text", "glob", "variable", "output"]

_UNQUOTED = re.compile(r"[A-Za-z0-9_./,:=+@%^~{}!#\-\]\x80-\xff]")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*|[?#])\}|([A-Za-z_]\w*|[?#$!@*0-9-]))\Z")
_SUMS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)\Z")
_ANSI = re.compile(r"\$'((?:[ !#-&(-\[\]-~]|\\[tn\\])*)'")
_GROUP = r"\{(?:[\w./*?-]*(?:,[\w./*?-]*)+|\d{1,4}\.\.\d{1,4})\}"
_BRACES = re.compile(rf"(?:[\w./:=+@%*?-]|{_GROUP})+")
_STARTS_EXPANSION = re.compile(r"[A-Za-z0-9_{(?#$!@*\[-]")


@dataclass(frozen=True)
class Part:
    """A piece of a word: text, a pattern, a variable's name, or the output of a command."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Word:
    """A word as written, and what is known about it.

    Args:
        raw: The word as it stands in the line.
        parts: Its pieces.
    """

    raw: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The word with its quotes removed; patterns and expansions stand in it as written."""
        return "".join(f"${part.text}" if part.kind == "variable" else part.text for part in self.parts)

    @property
    def is_plain(self) -> bool:
        """Written without quotes, escapes, patterns or expansions."""
        return self.is_literal and self.raw == self.text

    @property
    def is_literal(self) -> bool:
        """Stands for exactly its text."""
        return all(part.kind == "text" for part in self.parts)

    @property
    def has_expansion(self) -> bool:
        """Holds something whose value is not known here."""
        return any(part.kind in ("variable", "output") for part in self.parts)

    @property
    def head(self) -> str:
        """The characters that are certainly at its beginning."""
        found = ""
        for part in self.parts:
            if part.kind != "text":
                break
            found += part.text
        return found

    @property
    def may_be_option(self) -> bool:
        """Could begin with a dash once the shell has expanded it."""
        return self.head.startswith("-") or (not self.head and not self.is_literal)


class WordReader:
    """Decodes the words of one line.

    Args:
        source: The line's bytes, one character each, so that the parser's offsets hold.
        trouble: Called with what cannot be read.
        inside: Called with the node of each command whose output is used.
    """

    def __init__(self, source: str, trouble: Callable[[str], None], inside: Callable[[Node], None]) -> None:
        self._source = source
        self._trouble = trouble
        self._inside = inside

    def read_all(self, node: Node) -> list[Word]:
        """The words a node stands for, with its braces expanded the way bash does it."""
        raw = self._source[node.start_byte : node.end_byte]
        if "{" not in raw or not raw.isascii() or not re.search(_GROUP, raw) or not _BRACES.fullmatch(raw):
            return [self.read(node)]
        texts = _expanded(raw)
        if (
            len(texts) > _MOST_WORDS
            or not all(texts)
            or any(text.startswith("-") and not raw.startswith("-") for text in texts)
        ):
            self._trouble(say("shell_brace_options"))
        return [
            Word(raw, tuple(_Scan(text, 0, {}, self._trouble, self._inside).parts()))
            for text in texts[:_MOST_WORDS]
            if text
        ]

    def read(self, node: Node) -> Word:
        """The word a node stands for."""
        raw = self._source[node.start_byte : node.end_byte]
        nested: dict[int, Node] = {}
        _expansions(node, self._source, nested)
        scan = _Scan(raw, node.start_byte, nested, self._trouble, self._inside)
        word = Word(unbytes(raw), tuple(scan.parts()))
        if re.search(r"\{.*(,|\.\.)", "".join(scan.bare)):
            self._trouble(say("shell_brace"))
        return word


def _expanded(raw: str) -> list[str]:
    found = re.search(_GROUP, raw)
    if found is None:
        return [raw]
    inner = found.group()[1:-1]
    first, dots, last = inner.partition("..")
    if "," in inner:
        choices = inner.split(",")
    elif dots and (first[0] == "0" != first or last[0] == "0" != last):
        return [""]  # bash keeps the zeros in front
    else:
        step = 1 if int(first) <= int(last) else -1
        choices = [str(n) for n in range(int(first), int(last) + step, step)][: _MOST_WORDS + 1]
    rest = _expanded(raw[found.end() :])
    return [raw[: found.start()] + each + behind for each in choices for behind in rest][: _MOST_WORDS + 1]


def unbytes(text: str) -> str:
    """Characters again from one character per byte."""
    return text.encode("latin-1").decode("utf-8", "replace")


_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)


def _expansions(node: Node, source: str, found: dict[int, Node]) -> None:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.type in _EXPANSIONS:
            start = each.start_byte
            while source[start] in " \t\n" and start + 1 < each.end_byte:  # the grammar may begin at a blank
                start += 1
            found[start] = each
        else:
            waiting.extend(each.children)


class _Scan:
    """One pass over the characters of a word, keeping to bash's rules of quoting."""

    def __init__(
        self,
        raw: str,
        offset: int,
        nested: dict[int, Node],
        trouble: Callable[[str], None],
        inside: Callable[[Node], None],
    ) -> None:
        self._raw = raw
        self._offset = offset
        self._nested = nested
        self._trouble = trouble
        self._inside = inside
        self._at = 0
        self._parts: list[Part] = []
        self.bare: list[str] = []  # the characters without quotes, where braces would expand

    def parts(self) -> list[Part]:
        if self._raw.startswith("#"):
            self._trouble(say("shell_hash_word"))
        while self._at < len(self._raw):
            self._step()
        if not self._parts:
            self._text("")
        return self._parts

    def _step(self) -> None:
        sign = self._raw[self._at]
        if sign == "'":
            self._single()
        elif sign == '"':
            self._double()
        elif sign == "\\":
            self._escape()
        elif self._offset + self._at in self._nested:
            self._expansion()
        elif sign in "*?[":
            self._add("glob", sign)
            self.bare.append(sign)
            self._at += 1
        elif found := _ANSI.match(self._raw, self._at):
            self._text(re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n"}.get(m[1], m[1]), found[1]))
            self._at = found.end()
        elif sign == "$" and self._at + 1 == len(self._raw):
            self._text("$")
            self._at += 1
        elif _UNQUOTED.match(sign):
            self._text(sign)
            self.bare.append(sign)
            self._at += 1
        else:
            self._give_up(f"{unbytes(sign)!r} in a word")

    def _single(self) -> None:
        end = self._raw.find("'", self._at + 1)
        if end < 0:
            return self._give_up(say("shell_open_quote"))
        self._text(self._raw[self._at + 1 : end])
        self._at = end + 1
        return None

    def _escape(self) -> None:
        following = self._raw[self._at + 1 : self._at + 2]
        if following in ("", "\n"):
            return self._give_up("a backslash at the end of a line")
        self._text(following)
        self._at += 2
        return None

    def _double(self) -> None:
        self._at += 1
        self._text("")
        while self._at < len(self._raw) and self._raw[self._at] != '"':
            self._inside_double()
        if self._at >= len(self._raw):
            self._trouble(say("shell_open_quote"))
        self._at += 1

    def _inside_double(self) -> None:
        sign, following = self._raw[self._at], self._raw[self._at + 1 : self._at + 2]
        if sign == "\\" and following and following in '$`"\\':
            self._text(following)
            self._at += 2
        elif self._offset + self._at in self._nested and not self._raw.startswith("<(", self._at):
            self._expansion()
        elif sign == "`" or (sign == "\\" and following == "\n"):
            self._give_up("a backtick or a continued line in quotes")
        elif sign == "$" and _STARTS_EXPANSION.match(following):
            self._give_up("an expansion")
        else:
            self._text(sign)
            self._at += 1

    def _expansion(self) -> None:
        node = self._nested[self._offset + self._at]
        written = self._raw[self._at : node.end_byte - self._offset]
        variable = _VARIABLE.match(written)
        if variable and node.type in ("simple_expansion", "expansion"):
            name = variable.group(1) or variable.group(2)
            self._add("variable", name)
        elif node.type == "arithmetic_expansion" and _SUMS.match(written):
            self._text("0")
        elif node.type == "command_substitution" and written.startswith("$("):
            self._inside(node)
            self._add("output", unbytes(written))
        elif node.type == "process_substitution" and written.startswith("<(") and written == self._raw:
            self._inside(node)
            self._text("/dev/fd/63")
        else:
            self._trouble(say("shell_expansion", what=unbytes(written)[:40]))
            self._inside(node)
            self._add("output", unbytes(written))
        self._at += len(written)

    def _give_up(self, what: str) -> None:
        self._trouble(what)
        self._add("output", unbytes(self._raw[self._at :]))
        self._at = len(self._raw)

    def _text(self, text: str) -> None:
        if self._parts and self._parts[-1].kind == "text":
            before = self._parts.pop()
            self._parts.append(Part("text", before.text + text))
        else:
            self._parts.append(Part("text", text))

    def _add(self, kind: Kind, text: str) -> None:
        self._parts.append(Part(kind, text))
