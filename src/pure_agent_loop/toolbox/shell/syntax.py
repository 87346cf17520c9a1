"""Parse a shell line into its simple commands, or report why it cannot be parsed.

tree-sitter's grammar accepts much that bash parses differently. A tree is trusted only if every kind of
node is on a list, every word can be decoded by bash's own rules, the words and operators cover the line
without a gap, and bash would begin commands at the same places.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.shell.line import Redirect, ShellLine, Simple
from pure_agent_loop.toolbox.shell.reasons import Tile, check_tiles
from pure_agent_loop.toolbox.shell.words import Word, WordReader, unbytes

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH = 10_000
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
MAX_DEPTH = 40

_PLAIN_NODES = frozenset(
    [
        *("program", "list", "pipeline", "compound_statement", "subshell", "do_group", "if_statement"),
        *("elif_clause", "else_clause", "negated_command", "while_statement"),
    ]
)
_WORDS = frozenset(
    [
        *("word", "string", "raw_string", "number", "concatenation", "simple_expansion", "expansion"),
        *("brace_expression", "ansi_c_string"),
    ]
)
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion"})
_TEST_SIGNS = frozenset({"!", "=", "==", "!=", "test_operator", "[", "]", "[[", "]]"})
_TARGETS = {"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"}
_REDIRECTS = ("file_redirect", "herestring_redirect")


@lru_cache(maxsize=1)
def parser() -> Parser | None:
    """Load the grammar once; return None if it is not installed."""
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))


def read_line(text: str) -> ShellLine:
    """Parse a line. Never raises; `parser()` must have found the grammar.

    Args:
        text: The argument of ``bash -c``.
    """
    line = ShellLine()
    grammar = parser()
    line.trouble.extend(_invisible_chars(text))
    if grammar is None or len(text) > MAX_LENGTH:
        line.trouble.append(
            model_text("shell_too_long", count=MAX_LENGTH) if grammar else model_text("shell_no_parser")
        )
        return line
    source = _join_lines(text).encode("utf-8", "replace")
    # The grammar's scanner passes letters beyond ASCII to C tables, which can crash this process. Bash treats
    # each of their bytes as a word character, and so does this parser.
    tree = grammar.parse(_NOT_ASCII.sub(b"x", source))
    if tree.root_node.has_error:
        line.trouble.append(model_text("shell_syntax_error"))
    _LineReader(source.decode("latin-1"), line).read(tree.root_node)
    return line


def simple_commands(tool: str, args: Mapping[str, Any]) -> list[str]:
    """Return the simple commands of a shell call, if there are several."""
    line = args.get("command") if tool == "shell" else None
    texts = [simple.text for simple in read_line(line).commands] if isinstance(line, str) else []
    return texts if len(texts) > 1 else []


def _invisible_chars(text: str) -> Iterable[str]:
    for sign in sorted(set(text)):
        if sign in "\n\t" or " " <= sign <= "~":
            continue
        if unicodedata.category(sign)[0] in "CZ":
            yield model_text("shell_invisible", code=ord(sign))


def _join_lines(text: str) -> str:
    """Join lines continued by a backslash, unless the backslash may be inside quotes or a comment."""
    if re.search(r"['\"`#]|<<", text):
        return text
    return re.sub(r"(?<=[ \t])\\\n", " ", text)


class _LineReader:
    def __init__(self, source: str, line: ShellLine) -> None:
        self._source = source
        self._line = line
        self._after_cd = False
        self._depth = 0
        # Covered source ranges of the current substitution, or of the whole line.
        self._tiles: list[Tile] = []
        self._words = WordReader(source, self._trouble, self._read_substitution)

    def read(self, root: Node) -> None:
        self._walk(root)
        check_tiles(self._source, self._tiles, 0, len(self._source), self._trouble)

    def _trouble(self, what: str) -> None:
        if what not in self._line.trouble:
            self._line.trouble.append(what)

    def _text(self, node: Node) -> str:
        return unbytes(self._source[node.start_byte : node.end_byte])

    def _tile(self, node: Node, kind: str) -> None:
        self._tiles.append((node.start_byte, node.end_byte, kind))

    def _walk(self, node: Node) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._trouble(model_text("shell_too_many_levels"))
        else:
            self._dispatch(node)
        self._depth -= 1

    def _dispatch(self, node: Node) -> None:
        if node.is_missing:
            self._trouble(model_text("shell_syntax_error"))
        handler = getattr(self, f"_on_{node.type}", None) if node.is_named else None
        if handler is not None:
            handler(node)
        elif not node.is_named:
            self._tile(node, node.type)
        else:
            if node.type not in _PLAIN_NODES:
                self._trouble(model_text("shell_construct", what=node.type.replace("_", " ")))
            self._walk_children(node)

    def _walk_children(self, node: Node) -> None:
        for child in node.children:
            self._walk(child)

    def _on_comment(self, node: Node) -> None:
        self._tile(node, "comment")

    def _on_command(self, node: Node) -> None:
        words: list[Word] = []
        assignments: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "command_name":
                self._tile(child, "name")
                words.append(self._words.read(child))
            elif child.type in _WORDS or child.type in _SUBSTITUTED:
                self._tile(child, "word")
                words.extend(self._words.read_all(child))
            elif child.type in _REDIRECTS:
                words.extend(self._redirect(child))
            elif child.type != "comment":
                self._trouble(model_text("shell_word", what=child.type.replace("_", " ")))
                words.append(self._words.read(child))
        self._add(node, words, assignments)

    def _add(self, node: Node, words: list[Word], assignments: list[str]) -> None:
        self._line.commands.append(Simple(tuple(words), tuple(assignments), self._text(node), self._after_cd))
        if words and words[0].text in ("cd", "pushd", "popd"):
            self._after_cd = True

    def _assignment(self, node: Node) -> str:
        self._tile(node, "assignment")
        for child in node.children:
            if child.type in _WORDS or child.type in _SUBSTITUTED:
                self._words.read(child)
            elif child.type not in ("variable_name", "="):
                self._trouble(model_text("shell_assignment"))
        return self._text(node)

    def _on_variable_assignment(self, node: Node) -> None:
        self._add(node, [], [self._assignment(node)])

    def _on_redirected_statement(self, node: Node) -> None:
        for child in node.children:
            if child.type not in _REDIRECTS:
                self._walk(child)
            elif (extra := self._redirect(child)) and self._line.commands:
                last = self._line.commands.pop()
                self._line.commands.append(replace(last, words=(*last.words, *extra)))

    def _redirect(self, node: Node) -> list[Word]:
        """Record a redirection; return words that the grammar wrongly includes in it."""
        self._tile(node, "redirect")
        named = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        signs = [child.type for child in node.children if not child.is_named]
        known = set(signs) <= _TARGETS or signs == ["<<<"]
        odd = any(child.type not in _WORDS | _SUBSTITUTED | {"file_descriptor"} for child in named)
        words = [self._words.read(child) for child in named]
        if len(words) != 1 or len(signs) != 1 or not known or odd:
            self._trouble(model_text("shell_redirection"))
        if words and signs:
            self._line.redirects.append(Redirect(signs[0], words[0], self._text(node)))
        return words[1:]

    def _on_heredoc_redirect(self, node: Node) -> None:
        self._trouble(model_text("shell_here_document"))
        self._walk_children(node)

    def _on_heredoc_body(self, node: Node) -> None:
        self._line.documents.append(self._text(node))
        self._walk_children(node)

    def _on_for_statement(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                self._tile(child, "word")
            elif child.type in _WORDS or child.type in _SUBSTITUTED:
                self._tile(child, "word")
                self._words.read_all(child)
            elif child.type == "do_group":
                self._walk(child)
            elif child.type in ("for", "in", ";"):
                self._tile(child, child.type)
            else:
                self._trouble(model_text("shell_loop"))

    def _on_test_command(self, node: Node) -> None:
        words: list[Word] = []
        pending = list(reversed(node.children))
        while pending:
            child = pending.pop()
            if child.type in _WORDS or child.type in _TEST_SIGNS:
                self._tile(child, "word" if words else "name")
                words.append(self._words.read(child))
            elif child.type in ("unary_expression", "binary_expression", "negated_command"):
                pending.extend(reversed(child.children))
            else:
                self._trouble(model_text("shell_test"))
                self._read_substitution(child)
        self._add(node, words, [])

    def _read_substitution(self, node: Node) -> None:
        """Read the commands inside a substitution, whose source ranges are checked separately."""
        outer, cd, self._tiles = self._tiles, self._after_cd, []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._trouble(model_text("shell_too_many_levels"))
        else:
            self._walk_children(node)
            start, end, tiles = node.start_byte, node.end_byte, self._tiles
            if tiles and tiles[0][2] in ("$(", "<("):
                tiles = [(a, b, "(" if a == start else kind) for a, b, kind in tiles]
                check_tiles(self._source, tiles, start, end, self._trouble)
        self._depth -= 1
        self._tiles, self._after_cd = outer, cd
