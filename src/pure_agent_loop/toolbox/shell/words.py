"""Decode one word of a shell line as bash does, or detect that the word's value cannot be known.

Only unambiguous text is decoded; any other text is reported as unsupported, and a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from pure_agent_loop.support.language import model_text

if TYPE_CHECKING:
    from tree_sitter import Node
_MAX_WORDS = 50
Kind = Literal["text", "glob", "variable", "output"]

_UNQUOTED = re.compile(r"[A-Za-z0-9_./,:=+@%^~{}!#\-\]\x80-\xff]")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*|[?#])\}|([A-Za-z_]\w*|[?#$!@*0-9-]))\Z")
_SUMS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)\Z")
_ANSI = re.compile(r"\$'((?:[ !#-&(-\[\]-~]|\\[tn\\])*)'")
_GROUP = r"\{(?:[\w./*?-]*(?:,[\w./*?-]*)+|\d{1,4}\.\.\d{1,4})\}"
_BRACES = re.compile(rf"(?:[\w./:=+@%*?-]|{_GROUP})+")
_STARTS_EXPANSION = re.compile(r"[A-Za-z0-9_{(?#$!@*\[-]")
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)


@dataclass(frozen=True)
class WordPart:
    """A piece of a word: text, a pattern, a variable's name, or a command's output."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Word:
    """A word as written, and its decoded parts."""

    raw: str
    parts: tuple[WordPart, ...]

    @property
    def text(self) -> str:
        """The word without quotes; patterns and expansions are kept as written."""
        return "".join(f"${part.text}" if part.kind == "variable" else part.text for part in self.parts)

    @property
    def is_plain(self) -> bool:
        """True if the word has no quotes, escapes, patterns or expansions."""
        return self.is_literal and self.raw == self.text

    @property
    def is_literal(self) -> bool:
        """True if the word means exactly its text."""
        return all(part.kind == "text" for part in self.parts)

    @property
    def has_expansion(self) -> bool:
        """True if a part has an unknown value."""
        return any(part.kind in ("variable", "output") for part in self.parts)

    @property
    def head(self) -> str:
        """The characters before the first expansion."""
        return "".join(part.text for part in takewhile(lambda part: part.kind == "text", self.parts))

    @property
    def may_be_option(self) -> bool:
        """True if the expanded word could begin with a dash."""
        return self.head.startswith("-") or (not self.head and not self.is_literal)


class WordReader:
    """Decodes the words of one line.

    Args:
        source: The line with one character per byte, so that it matches the parser's offsets.
        inside: Called with the node of each command whose output is used.
    """

    def __init__(self, source: str, trouble: Callable[[str], None], inside: Callable[[Node], None]) -> None:
        self._source = source
        self._trouble = trouble
        self._inside = inside

    def read_all(self, node: Node) -> list[Word]:
        """Return the words of a node, with its braces expanded as bash does."""
        raw = self._source[node.start_byte : node.end_byte]
        if "{" not in raw or not raw.isascii() or not re.search(_GROUP, raw) or not _BRACES.fullmatch(raw):
            return [self.read(node)]
        texts = _expand_braces(raw)
        if (
            len(texts) > _MAX_WORDS
            or not all(texts)
            or any(text.startswith("-") and not raw.startswith("-") for text in texts)
        ):
            self._trouble(model_text("shell_brace_options"))
        return [
            Word(raw, tuple(_Scan(text, 0, {}, self._trouble, self._inside).parts()))
            for text in texts[:_MAX_WORDS]
            if text
        ]

    def read(self, node: Node) -> Word:
        """Return the word of a node."""
        raw = self._source[node.start_byte : node.end_byte]
        nested: dict[int, Node] = {}
        _collect_expansions(node, self._source, nested)
        scan = _Scan(raw, node.start_byte, nested, self._trouble, self._inside)
        word = Word(unbytes(raw), tuple(scan.parts()))
        after_brace = "".join(scan.bare).partition("{")[2]
        if "," in after_brace or ".." in after_brace:
            self._trouble(model_text("shell_brace"))
        return word


def _expand_braces(raw: str) -> list[str]:
    group = re.search(_GROUP, raw)
    if group is None:
        return [raw]
    inner = group.group()[1:-1]
    first, dots, last = inner.partition("..")
    if "," in inner:
        choices = inner.split(",")
    elif dots and (first[0] == "0" != first or last[0] == "0" != last):
        return [""]  # in a brace range, bash keeps leading zeros
    else:
        step = 1 if int(first) <= int(last) else -1
        choices = [str(n) for n in range(int(first), int(last) + step, step)][: _MAX_WORDS + 1]
    rest = _expand_braces(raw[group.end() :])
    return [raw[: group.start()] + choice + tail for choice in choices for tail in rest][: _MAX_WORDS + 1]


def unbytes(text: str) -> str:
    """Decode text that has one character per byte."""
    return text.encode("latin-1").decode("utf-8", "replace")


def _collect_expansions(node: Node, source: str, expansions: dict[int, Node]) -> None:
    pending = [node]
    while pending:
        child = pending.pop()
        if child.type in _EXPANSIONS:
            start = child.start_byte
            # The grammar's node may begin with blanks.
            while source[start] in " \t\n" and start + 1 < child.end_byte:
                start += 1
            expansions[start] = child
        else:
            pending.extend(child.children)


class _Scan:
    """One pass over the characters of a word, by bash's quoting rules."""

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
        self._parts: list[WordPart] = []
        self.bare: list[str] = []  # the unquoted characters, in which braces expand

    def parts(self) -> list[WordPart]:
        if self._raw.startswith("#"):
            self._trouble(model_text("shell_hash_word"))
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
        elif match := _ANSI.match(self._raw, self._at):
            self._text(re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n"}.get(m[1], m[1]), match[1]))
            self._at = match.end()
        elif sign == "$" and self._at + 1 == len(self._raw):
            self._text("$")
            self._at += 1
        elif _UNQUOTED.match(sign):
            self._text(sign)
            self.bare.append(sign)
            self._at += 1
        else:
            self._give_up(model_text("shell_sign_in_word", sign=unbytes(sign)))

    def _single(self) -> None:
        end = self._raw.find("'", self._at + 1)
        if end < 0:
            self._give_up(model_text("shell_open_quote"))
        else:
            self._text(self._raw[self._at + 1 : end])
            self._at = end + 1

    def _escape(self) -> None:
        following = self._raw[self._at + 1 : self._at + 2]
        if following in ("", "\n"):
            self._give_up(model_text("shell_backslash_end"))
        else:
            self._text(following)
            self._at += 2

    def _double(self) -> None:
        self._at += 1
        self._text("")
        while self._at < len(self._raw) and self._raw[self._at] != '"':
            self._inside_double()
        if self._at >= len(self._raw):
            self._trouble(model_text("shell_open_quote"))
        self._at += 1

    def _inside_double(self) -> None:
        sign, following = self._raw[self._at], self._raw[self._at + 1 : self._at + 2]
        if sign == "\\" and following and following in '$`"\\':
            self._text(following)
            self._at += 2
        elif self._offset + self._at in self._nested and not self._raw.startswith("<(", self._at):
            self._expansion()
        elif sign == "`" or (sign == "\\" and following == "\n"):
            self._give_up(model_text("shell_backtick_in_quotes"))
        elif sign == "$" and _STARTS_EXPANSION.match(following):
            self._give_up(model_text("shell_expansion_in_quotes"))
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
            self._trouble(model_text("shell_expansion", what=unbytes(written)[:40]))
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
            self._parts.append(WordPart("text", before.text + text))
        else:
            self._parts.append(WordPart("text", text))

    def _add(self, kind: Kind, text: str) -> None:
        self._parts.append(WordPart(kind, text))
