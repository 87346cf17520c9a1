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
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pure_agent_loop.toolbox.shell.line import Line, Redirect, Simple
from pure_agent_loop.toolbox.shell.listing import listed
from pure_agent_loop.toolbox.shell.tiles import Tile, check_tiles
from pure_agent_loop.toolbox.shell.words import Part, Word, WordReader, literal, unbytes

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH = 10_000
MAX_DEPTH = 40


_PLAIN_NODES = frozenset(
    {
        "program",
        "pipeline",
        "compound_statement",
        "subshell",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "negated_command",
    }
)
_TRANSPARENT = frozenset({"program", "compound_statement", "negated_command"})
_WORDS = frozenset(
    [
        *("word", "string", "raw_string", "number", "concatenation", "simple_expansion", "expansion"),
        *("brace_expression", "ansi_c_string"),
    ]
)
_EMPTY = Word("", (Part("text", "", quoted=True),))
_NAME = re.compile(r"(?!\w*proxy|histchars|auto_resume)[a-z_][a-z0-9_]*")
_PATTERN = re.compile(r"[\w./*?-]+")
_FIELDS = re.compile(r"IFS=(?:''|\"\"|[,:]|'[^'/]?')?")
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion"})
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
    tiles: list[Tile]
    frames: Mapping[str, int] = field(default_factory=dict)  # the construct in which each name was set
    frame: int = 0


class _Reader:
    def __init__(self, source: str, line: Line) -> None:
        self._source = source
        self._line = line
        self._after_cd = False
        self._place = _Place({}, 0, [])
        self._frames = 0
        self._feed: Simple | None = None
        self._value = _EMPTY
        self._words = WordReader(source, self._trouble, self._substituted)

    def read(self, root: Node) -> None:
        self._walk(root)
        check_tiles(self._source, self._place.tiles, 0, len(self._source), self._trouble)

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
            self._framed(node.children, outside=node.type in _TRANSPARENT)

    def _framed(self, nodes: Iterable[Node], *, outside: bool = False) -> None:
        """Walk what may run not at all, or several times: what it sets is not known behind it."""
        place = self._place
        before = place.loops, place.frames, place.frame
        if not outside:
            self._frames += 1
            place.frame = self._frames
        for node in nodes:
            if node.type in ("elif_clause", "else_clause"):
                place.loops, place.frames = before[:2]
            self._walk(node)
        if not outside:
            place.loops, place.frames, place.frame = before

    def _bind(self, name: str, values: tuple[Word, ...]) -> None:
        place = self._place
        if not _NAME.fullmatch(name) or place.frames.get(name, place.frame) != place.frame:
            self._trouble(f"{name} is set in a way that is not looked into")
        place.loops = {**place.loops, name: values}
        place.frames = {**place.frames, name: place.frame}

    def _on_list(self, node: Node) -> None:
        outer = self._place.frame
        self._frames += 1
        self._place.frame = self._frames
        self._list(node, chained=False)
        self._place.frame = outer

    def _list(self, node: Node, *, chained: bool) -> tuple[Mapping[str, tuple[Word, ...]], Mapping[str, int]]:
        """Walk a list; gives back what its first command set, which is all that is known behind it."""
        place = self._place
        sure = None
        operator = next((child.type for child in node.children if child.type in ("&&", "||")), "")
        for child in node.children:
            if child.type == "list":
                sure = self._list(child, chained=operator == "&&")
            else:
                self._walk(child)
            sure = sure or (place.loops, place.frames)
            if operator == "||":
                place.loops, place.frames = sure
        sure = sure or (place.loops, place.frames)
        if not chained:
            place.loops, place.frames = sure
        return sure

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
                words.extend(self._words.read_all(child))
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
                self._value = self._words.read(child)
            elif child.type not in ("variable_name", "="):
                self._trouble("an assignment that is not looked into")
        return unbytes(self._source[node.start_byte : node.end_byte])

    def _on_variable_assignment(self, node: Node) -> None:
        self._tile(node, "assignment")
        self._value = _EMPTY
        text = self._assignment(node)
        name, sign, _ = text.partition("=")
        values = self._value.bind(self._place.loops)
        known = (
            sign and _NAME.fullmatch(name) and all(part.kind != "glob" for w in values for part in w.parts)
        )
        self._line.commands.append(Simple((), (text,), text, self._place.loops, binds=bool(known)))
        if known:
            self._bind(name, values if len(values) == 1 else (self._value,))

    def _on_pipeline(self, node: Node) -> None:
        before: Simple | None = None
        for child in node.children:
            count = len(self._line.commands)
            self._feed = before
            self._framed([child])
            self._feed = None
            new = self._line.commands[count:]
            if child.type not in ("command", "redirected_statement"):
                before = before if not child.is_named else None
                continue
            last = new[-1] if new else None
            if last is not None and before is not None:
                last = replace(last, fed_by=before)
                self._line.commands[-1] = last
            before = last

    def _on_redirected_statement(self, node: Node) -> None:
        self._feed = None
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                extra = self._redirect(child)
                if extra and self._line.commands:
                    last = self._line.commands.pop()
                    self._line.commands.append(replace(last, words=(*last.words, *extra), binds=False))
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
                values.extend(self._words.read_all(child))
            elif child.type == "do_group":
                body = child
            elif child.type in ("for", "in", ";"):
                self._tile(child, child.type)
            else:
                self._trouble("a loop that is not looked into")
        if body is None or not values or len(values) > 50:
            self._trouble("a loop that is not looked into")
        place = self._place
        before = place.loops, place.frames, place.frame
        self._frames += 1
        place.frame = self._frames
        self._bind(name, tuple(bound for each in values for bound in each.bind(place.loops)))
        if body is not None:
            self._walk(body)
        place.loops, place.frames, place.frame = before

    def _on_while_statement(self, node: Node) -> None:
        feed, self._feed = self._feed, None
        place = self._place
        before = place.loops, place.frames, place.frame
        self._frames += 1
        place.frame = self._frames
        for at, child in enumerate(node.children):
            count = len(self._line.commands)
            self._walk(child)
            if at == 1 and node.children[0].type == "while" and child.type == "command":
                self._reads(count, feed)
        place.loops, place.frames, place.frame = before

    def _reads(self, count: int, feed: Simple | None) -> None:
        """Note what `while read` sets, if that is what the condition is."""
        if len(self._line.commands) != count + 1 or not self._line.commands[-1].words:
            return
        simple = self._line.commands[-1]
        texts = [word.text for word in simple.words]
        names = texts[1:]
        while names[:1] == ["-r"] or names[:2] == ["-d", ""]:
            names = names[1:] if names[0] == "-r" else names[2:]
        plain = all(word.is_literal for word in simple.words) and simple.words[0].raw == "read"
        fields = all(_FIELDS.fullmatch(each) for each in simple.assignments)
        if not plain or not fields or not names or not all(map(_NAME.fullmatch, names)):
            return
        self._line.commands[-1] = replace(simple, binds=True)
        gives = listed(feed) if len(names) == 1 and simple.assignments in ((), ("IFS=",)) else ""
        for name in names:
            self._bind(name, (Word(f"${name}", (Part("output", f"${name}", quoted=False, gives=gives),)),))

    def _on_test_command(self, node: Node) -> None:
        words: list[Word] = []
        waiting = list(reversed(node.children))
        while waiting:
            each = waiting.pop()
            if each.type in _WORDS or each.type in ("[", "]", "[[", "]]") or each.type in _TEST_SIGNS:
                self._tile(each, "word" if words else "name")
                words.append(self._words.read(each))
            elif each.type in ("&&", "||") and words and words[0].raw == "[[":
                self._tile(each, "word")
                words.append(literal(each.type))
            elif each.type == "extglob_pattern" and _PATTERN.fullmatch(
                self._source[each.start_byte : each.end_byte]
            ):
                self._tile(each, "word")
                words.append(self._words.read(each))
            elif each.type in ("unary_expression", "binary_expression", "negated_command"):
                waiting.extend(reversed(each.children))
            else:
                self._trouble("a test that is not looked into")
                self._substituted(each)
        self._add(node, words, [])

    def _substituted(self, node: Node) -> str:
        """The commands inside a substitution: a stretch of their own. Says what they give."""
        outer, cd, value, count = self._place, self._after_cd, self._value, len(self._line.commands)
        self._frames += 1
        self._place = _Place(outer.loops, outer.depth + 1, [], outer.frames, self._frames)
        if self._place.depth > MAX_DEPTH:
            self._trouble("too many levels")
        else:
            for child in node.children:
                self._walk(child)
            start, end = node.start_byte, node.end_byte
            tiles = self._place.tiles
            if tiles and tiles[0][2] in ("$(", "<("):
                self._place.tiles = [(a, b, "(" if a == start else kind) for a, b, kind in tiles]
                check_tiles(self._source, self._place.tiles, start, end, self._trouble)
        self._place, self._after_cd, self._value = outer, cd, value
        inner = [child for child in node.children if child.is_named]
        if len(inner) != 1 or len(self._line.commands) == count:
            return ""
        last = inner[0].children[-1] if inner[0].type == "pipeline" else inner[0]
        return listed(self._line.commands[-1]) if last.type in ("command", "redirected_statement") else ""
