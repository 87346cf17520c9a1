"""A shell line taken apart into its simple commands, or the reason why it cannot be.

tree-sitter's grammar forgives much that bash reads otherwise. Its tree is believed only where every
kind of node
is on a list, every word decodes by bash's own rules, and the words and operators stand in the line
without a gap
and in an order in which bash, too, would begin a command exactly where the tree says one begins.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pure_agent_loop.toolbox.shell_words import Word, WordReader, unbytes

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH = 10_000
MAX_DEPTH = 40


@dataclass(frozen=True)
class Simple:
    """One simple command.

    Args:
        words: Its words, the name first.
        assignments: What is set for it, as written: ``("LC_ALL=C",)``.
        text: The command as it stands in the line.
        loops: What the loops around it put into their variables.
        fed_by: The command before it in its pipe.
        after_cd: A ``cd`` came before it, so it runs in another folder.
    """

    words: tuple[Word, ...]
    assignments: tuple[str, ...]
    text: str
    loops: Mapping[str, tuple[Word, ...]] = field(default_factory=dict)
    fed_by: Simple | None = None
    after_cd: bool = False


@dataclass(frozen=True)
class Redirect:
    """A redirection: its operator, where it goes, and how it is written."""

    operator: str
    target: Word
    text: str


@dataclass
class Line:
    """What stands in a line. `trouble` says what could not be read; then the rest is only a guess."""

    commands: list[Simple] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


_PLAIN_NODES = frozenset(
    {
        "program",
        "list",
        "pipeline",
        "compound_statement",
        "subshell",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "negated_command",
    }
)
_WORDS = frozenset(
    {"word", "string", "raw_string", "number", "concatenation", "simple_expansion", "expansion"}
)
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion"})
_BEGINS = frozenset(
    {";", "\n", "&&", "||", "|", "|&", "(", "{", "!", "if", "then", "else", "elif", "while", "until", "do"}
)
_ENDS = frozenset({")", "}", "fi", "done"})
_TEST_SIGNS = frozenset({"!", "=", "==", "!=", "test_operator"})
_TARGETS = {"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"}


@lru_cache(maxsize=1)
def parser() -> Parser | None:
    """The grammar, loaded once; None if it is not installed."""
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))


def read_line(text: str) -> Line:
    """Take a line apart. Never raises; `parser()` must have found the grammar.

    Args:
        text: What would be given to ``bash -c``.
    """
    line = Line()
    grammar = parser()
    line.trouble.extend(_unreadable(text))
    if grammar is None or len(text) > MAX_LENGTH:
        line.trouble.append(f"more than {MAX_LENGTH} characters" if grammar else "no parser is installed")
        return line
    source = _joined(text).encode("utf-8", "replace")
    tree = grammar.parse(source)
    if tree.root_node.has_error:
        line.trouble.append("an error of syntax")
    _Reader(source.decode("latin-1"), line).read(tree.root_node)
    return line


def _unreadable(text: str) -> Iterable[str]:
    for sign in sorted(set(text)):
        if sign in "\n\t" or " " <= sign <= "~":
            continue
        if unicodedata.category(sign)[0] in "CZ":
            yield f"the invisible character U+{ord(sign):04X}"


def _joined(text: str) -> str:
    """Lines continued by a backslash put together, where that cannot be inside quotes or a comment."""
    if re.search(r"['\"`#]|<<", text):
        return text
    return re.sub(r"(?<=[ \t])\\\n", " ", text)


@dataclass
class _Place:
    """Where the walk is: what the loops around set, how deep, and the tiles of this stretch of the line."""

    loops: Mapping[str, tuple[Word, ...]]
    depth: int
    tiles: list[tuple[int, int, str]]


class _Reader:
    def __init__(self, source: str, line: Line) -> None:
        self._source = source
        self._line = line
        self._after_cd = False
        self._place = _Place({}, 0, [])
        self._words = WordReader(source, self._trouble, self._substituted)

    def read(self, root: Node) -> None:
        self._walk(root)
        self._check_tiles(0, len(self._source))

    def _trouble(self, what: str) -> None:
        if what not in self._line.trouble:
            self._line.trouble.append(what)

    def _walk(self, node: Node) -> None:
        self._place.depth += 1
        if self._place.depth > MAX_DEPTH:
            self._trouble("too many levels")
        else:
            self._dispatch(node)
        self._place.depth -= 1

    def _dispatch(self, node: Node) -> None:
        if node.is_missing:
            self._trouble("an error of syntax")
        handler = getattr(self, f"_on_{node.type}", None) if node.is_named else None
        if handler is not None:
            handler(node)
        elif not node.is_named:
            self._tile(node, node.type)
        else:
            if node.type not in _PLAIN_NODES:
                self._trouble(f"a construct that is not looked into ({node.type.replace('_', ' ')})")
            for child in node.children:
                self._walk(child)

    def _tile(self, node: Node, kind: str) -> None:
        self._place.tiles.append((node.start_byte, node.end_byte, kind))

    def _on_comment(self, node: Node) -> None:
        self._tile(node, "comment")

    def _on_command(self, node: Node) -> None:
        words: list[Word] = []
        assignments: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._tile(child, "assignment")
                assignments.append(self._assignment(child))
            elif child.type == "command_name":
                self._tile(child, "name")
                words.append(self._words.read(child))
            elif child.type in _WORDS or child.type in _SUBSTITUTED:
                self._tile(child, "word")
                words.append(self._words.read(child))
            elif child.type in ("file_redirect", "herestring_redirect"):
                words.extend(self._redirect(child))
            elif child.type != "comment":
                self._trouble(f"a word that is not looked into ({child.type.replace('_', ' ')})")
                words.append(self._words.read(child))
        self._add(node, words, assignments)

    def _add(self, node: Node, words: list[Word], assignments: list[str]) -> None:
        text = unbytes(self._source[node.start_byte : node.end_byte])
        self._line.commands.append(
            Simple(tuple(words), tuple(assignments), text, self._place.loops, None, self._after_cd)
        )
        if words and words[0].text in ("cd", "pushd", "popd"):
            self._after_cd = True

    def _assignment(self, node: Node) -> str:
        for child in node.children:
            if child.type in _WORDS or child.type in _SUBSTITUTED:
                self._words.read(child)
            elif child.type not in ("variable_name", "="):
                self._trouble("an assignment that is not looked into")
        return unbytes(self._source[node.start_byte : node.end_byte])

    def _on_variable_assignment(self, node: Node) -> None:
        self._tile(node, "assignment")
        text = self._assignment(node)
        self._line.commands.append(Simple((), (text,), text, self._place.loops))

    def _on_pipeline(self, node: Node) -> None:
        before: Simple | None = None
        for child in node.children:
            count = len(self._line.commands)
            self._walk(child)
            new = self._line.commands[count:]
            if child.type not in ("command", "redirected_statement"):
                before = before if not child.is_named else None
                continue
            last = new[-1] if new else None
            if last is not None and before is not None:
                last = Simple(last.words, last.assignments, last.text, last.loops, before, last.after_cd)
                self._line.commands[-1] = last
            before = last

    def _on_redirected_statement(self, node: Node) -> None:
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                extra = self._redirect(child)
                if extra and self._line.commands:
                    last = self._line.commands.pop()
                    words = (*last.words, *extra)
                    self._line.commands.append(
                        Simple(words, last.assignments, last.text, last.loops, last.fed_by, last.after_cd)
                    )
            else:
                self._walk(child)

    def _redirect(self, node: Node) -> list[Word]:
        """Note a redirection; gives back the words the grammar wrongly took for part of it."""
        self._tile(node, "redirect")
        named = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        signs = [child.type for child in node.children if not child.is_named]
        known = set(signs) <= _TARGETS or signs == ["<<<"]
        odd = any(child.type not in _WORDS | _SUBSTITUTED | {"file_descriptor"} for child in named)
        words = [self._words.read(child) for child in named]
        if len(words) != 1 or len(signs) != 1 or not known or odd:
            self._trouble("a redirection that is not looked into")
        text = unbytes(self._source[node.start_byte : node.end_byte])
        if words and signs:
            self._line.redirects.append(Redirect(signs[0], words[0], text))
        return words[1:]

    def _on_heredoc_redirect(self, node: Node) -> None:
        self._trouble("a here-document")
        for child in node.children:
            self._walk(child)

    def _on_heredoc_body(self, node: Node) -> None:
        self._line.documents.append(unbytes(self._source[node.start_byte : node.end_byte]))
        for child in node.children:
            self._walk(child)

    def _on_for_statement(self, node: Node) -> None:
        name, values, body = "", [], None
        for child in node.children:
            if child.type == "variable_name":
                name = self._source[child.start_byte : child.end_byte]
                self._tile(child, "word")
            elif child.type in _WORDS or child.type in _SUBSTITUTED:
                self._tile(child, "word")
                values.append(self._words.read(child))
            elif child.type == "do_group":
                body = child
            elif child.type in ("for", "in", ";"):
                self._tile(child, child.type)
            else:
                self._trouble("a loop that is not looked into")
        if body is None or not values or len(values) > 50 or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            self._trouble("a loop that is not looked into")
        outer = self._place.loops
        self._place.loops = {**outer, name: tuple(bound for each in values for bound in each.bind(outer))}
        if body is not None:
            self._walk(body)
        self._place.loops = outer

    def _on_test_command(self, node: Node) -> None:
        words: list[Word] = []
        waiting = list(reversed(node.children))
        while waiting:
            each = waiting.pop()
            if each.type in _WORDS or each.type in ("[", "]", "[[", "]]") or each.type in _TEST_SIGNS:
                self._tile(each, "word" if words else "name")
                words.append(self._words.read(each))
            elif each.type in ("unary_expression", "binary_expression", "negated_command"):
                waiting.extend(reversed(each.children))
            else:
                self._trouble("a test that is not looked into")
                self._substituted(each)
        self._add(node, words, [])

    def _substituted(self, node: Node) -> None:
        """The commands inside a substitution: a stretch of their own."""
        outer, cd = self._place, self._after_cd
        self._place = _Place(outer.loops, outer.depth + 1, [])
        if self._place.depth > MAX_DEPTH:
            self._trouble("too many levels")
        else:
            for child in node.children:
                self._walk(child)
            start, end = node.start_byte, node.end_byte
            tiles = self._place.tiles
            if tiles and tiles[0][2] in ("$(", "<("):
                self._place.tiles = [(a, b, "(" if a == start else kind) for a, b, kind in tiles]
                self._check_tiles(start, end)
        self._place, self._after_cd = outer, cd

    def _check_tiles(self, start: int, end: int) -> None:
        """See that bash, reading from left to right, would begin its commands where the tree does."""
        beginning, before, ended = True, "", start
        for at, until, kind in self._place.tiles:
            gap = self._source[ended:at]
            if at < ended or gap.strip(" \t\n"):
                return self._trouble("text between the words")
            if "\n" in gap:
                beginning, before = True, "\n"
            elif _touches(kind, before, self._source[at:until]) and not gap:
                return self._trouble("words that touch")
            beginning = self._next(kind, beginning)
            before, ended = kind, until
        if self._source[ended:end].strip(" \t\n"):
            self._trouble("text after the last word")
        return None

    def _next(self, kind: str, beginning: bool) -> bool:
        if kind in _BEGINS:
            return True
        if kind == "name" or kind in ("for", "assignment"):
            if not beginning:
                self._trouble("a command where bash would see none")
            return kind == "assignment"
        if kind == "word" or kind == "in":
            if beginning:
                self._trouble("a word where bash would see a command")
            return False
        if kind in _ENDS:
            return False
        if kind not in ("redirect", "comment"):
            self._trouble(f"the operator {kind!r}")
        return beginning


def _touches(kind: str, before: str, text: str) -> bool:
    """Whether two neighbours need a blank between them for bash to tell them apart."""
    if kind == "comment":
        return before not in _BEGINS and before != ""
    if before in ("{", "!"):
        return True
    wordlike = kind.isalpha() and (kind != "redirect" or text[0].isdigit())
    return wordlike and before.isalpha()
