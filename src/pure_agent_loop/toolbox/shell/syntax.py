"""Parse a shell line into its simple commands, or report why it cannot be parsed.

tree-sitter's grammar accepts much that bash parses differently. Its tree is trusted only if every kind of
node is on a list, every word decodes by bash's own rules, and the words and operators cover the line without
a gap, in an order in which bash would begin its commands at the same places.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

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
MAX_NESTING = 5
MAX_WORDS = 10_000  # words of all commands that a line may run
SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"})
RUNNERS: Final = frozenset(
    [
        *("builtin", "busybox", "cgexec", "chroot", "chrt", "command", "coproc", "doas", "env", "eval"),
        *("exec", "fakeroot", "find", "firejail", "flock", "ionice", "linux32", "linux64", "ltrace", "nice"),
        *("nohup", "nsenter", "parallel", "pkexec", "prlimit", "proot", "runuser", "script", "setarch"),
        *("setpriv", "setsid", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "time"),
        *("timeout", "toybox", "trap", "unbuffer", "unshare", "watch", "xargs", "xvfb-run"),
    ]
)
# Number of operands before the command; 0 for the others.
_LEADING_OPERANDS = dict.fromkeys(
    ("timeout", "gtimeout", "flock", "taskset", "chrt", "chroot", "setarch", "su", "ssh", "gosu"), 1
)
_LEADING_OPERANDS["direnv"] = 2
_MORE_RUNNERS = (
    RUNNERS | SHELLS | {"ssh", "gosu", "npx", "bunx", "pnpx", "uvx", "entr", "chronic", "valgrind"}
)
_ONLY_FIRST = frozenset({".", "source", "at", "batch", "ts", "retry"})  # elsewhere these are plain words
_CONTAINERS = frozenset({"docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc", "lxc", "incus"})
_LAUNCHERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "pixi", "pipx"})
# Options without a value; the word after any other option may be its value.
_FLAGS = {
    "git": ("--no-pager", "-p", "--paginate"),
    "sudo": ("-n", "-E", "-H"),
    "xargs": ("-0", "-r", "-t"),
    **dict.fromkeys(("env", "time", "strace", "bash"), ("-i", "-p", "-f", "-e", "-x")),
}


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
    # each of their bytes as a word character, and so does this.
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
    """Join lines continued by a backslash, unless it may be inside quotes or a comment."""
    if re.search(r"['\"`#]|<<", text):
        return text
    return re.sub(r"(?<=[ \t])\\\n", " ", text)


class _LineReader:
    def __init__(self, source: str, line: ShellLine) -> None:
        self._source = source
        self._line = line
        self._after_cd = False
        self._depth = 0
        self._tiles: list[Tile] = []  # tiles of the current substitution, or of the whole line
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
        for child in node.children:
            self._walk(child)

    def _on_heredoc_body(self, node: Node) -> None:
        self._line.documents.append(self._text(node))
        for child in node.children:
            self._walk(child)

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
        """Read the commands inside a substitution, with separate tiles."""
        outer, cd, self._tiles = self._tiles, self._after_cd, []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._trouble(model_text("shell_too_many_levels"))
        else:
            for child in node.children:
                self._walk(child)
            start, end, tiles = node.start_byte, node.end_byte, self._tiles
            if tiles and tiles[0][2] in ("$(", "<("):
                tiles = [(a, b, "(" if a == start else kind) for a, b, kind in tiles]
                check_tiles(self._source, tiles, start, end, self._trouble)
        self._depth -= 1
        self._tiles, self._after_cd = outer, cd


# -- find commands run by other commands, for deny and ask rules. A wrong guess only costs a denial ------
# Allow rules match strictly elsewhere. Here `sudo -u bob rm -rf x`, `busybox rm`, `bash -c 'rm x'`,
# `echo rm x | sh` and a here-document for a shell are all searched.


"""Commands that may run the command after them."""


_MORE_RUNNERS |= {
    *("hyperfine", "rlwrap", "tmux", "screen", "dbus-run-session", "faketime", "rsh", "winpty"),
    *("proxychains", "proxychains4", "torsocks", "tsocks", "bwrap", "gdb", "numactl", "catchsegv"),
    *("softlimit", "cpulimit", "timelimit", "choom", "uclampset", "ifne", "eatmydata", "gtimeout", "dotenv"),
    "direnv",
}


def may_be_a_command(words: Sequence[str], at: int) -> bool:
    """Return True if a word with a star could be a command that an earlier word runs, in any reading.

    Args:
        words: The words of a rule; a star as the last word matches several.
    """
    names = [word.rpartition("/")[2].lower() for word in words[:at]]
    if names[-1:] == ["--"] and names[0] != "cargo" and names[-2] in ("run", "exec"):
        return True  # for every program with such a subcommand
    is_several = words[at] == "*" and at == len(words) - 1
    return any(
        own is not None and _is_operand(words[start + 1 : at], _FLAGS.get(names[start], ()), own, is_several)
        for start in range(at)
        for own in [_own_operands(names, start)]
    )


def _is_operand(words: Sequence[str], flags: Sequence[str], number: int, is_several: bool) -> bool:
    """Return True if the next word could be operand `number`, or a later one if several."""
    least = values = 0
    after_option = False
    for word in words:
        if word.startswith("-") and word != "-":
            after_option = "=" not in word and word != "--" and word not in flags
        elif after_option:
            values, after_option = values + 1, False
        else:
            least += re.match(r"\w+=", word) is None
    return least <= number and (is_several or number <= least + values)


def _own_operands(names: Sequence[str], at: int) -> int | None:
    """Count the operands before the command that a word runs; return None if it runs none."""
    name, first, following = names[at], names[0], names[at + 1 : at + 2]
    if name in ("git", "make"):  # their operands name what they run, but only after their options
        return 0 if following and following[0].startswith("-") else None
    if first == "find" and (at == 0 or name.startswith("-")):
        return 0 if name in ("-exec", "-execdir", "-ok", "-okdir") else None
    if name in ("exec", "dlx", "x", "run") and at:
        if first in _CONTAINERS:
            return 1
        return 0 if name != "run" or first in _LAUNCHERS else None
    # As a word of another command it counts as a runner only if the star follows directly.
    is_one = name in _MORE_RUNNERS and (first in _MORE_RUNNERS or not following)
    return _LEADING_OPERANDS.get(name, 0) if is_one or (not at and name in _ONLY_FIRST) else None


def base_name(word: Word) -> str:
    """Return a command's name without its folder, in lower case, as on case-insensitive file systems."""
    return word.text.rstrip("/").rpartition("/")[2].lower()


class TooMuchError(Exception):
    """A line nests more commands than can be searched quickly."""


class _WordBudget:
    """The number of words that may still be searched."""

    def __init__(self) -> None:
        self._words = MAX_WORDS

    def take(self, words: Sequence[Word]) -> Sequence[Word]:
        self._words -= len(words)
        if self._words < 0:
            raise TooMuchError
        return words


def reachable(
    line: ShellLine, depth: int = 0, left: _WordBudget | None = None
) -> Iterator[tuple[Simple, Sequence[Word]]]:
    """Yield every command that a line may run, with the simple command of the line that runs it.

    Raises:
        TooMuchError: There are too many.
    """
    left = left or _WordBudget()
    for simple in line.commands:
        for words in _nested(simple.words, depth, left):
            yield simple, words
    for text in _input_texts(line) if line.commands else ():
        for words in _parse(text, depth, left):
            yield line.commands[0], words


def _input_texts(line: ShellLine) -> Iterator[str]:
    """Yield the texts that a shell in this line reads as commands."""
    if not any(base_name(word) in SHELLS for simple in line.commands for word in simple.words[:3]):
        return
    yield from line.documents
    for redirect in line.redirects:
        if redirect.operator == "<<<":
            yield redirect.target.text
    for simple in line.commands:
        if simple.words and base_name(simple.words[0]) in ("echo", "printf"):
            yield " ".join(word.text for word in simple.words[1:])


def _nested(words: Sequence[Word], depth: int, left: _WordBudget) -> Iterator[Sequence[Word]]:
    if not words:
        return
    yield left.take(words)
    name = base_name(words[0])
    if name in RUNNERS:
        yield from (left.take(words[start:]) for start in range(1, len(words)))
    if name in SHELLS or name in RUNNERS:
        yield from _texts(words, depth, left)
    if name == "eval":
        yield from _parse(" ".join(word.text for word in words[1:]), depth, left)


def _texts(words: Sequence[Word], depth: int, left: _WordBudget) -> Iterator[Sequence[Word]]:
    """Parse the word after `-c`, and words with blanks, as commands."""
    for before, word in pairwise(words):
        if re.fullmatch(r"-\w*c|--command", before.text) or " " in word.text:
            yield from _parse(word.text, depth, left)


def _parse(text: str, depth: int, left: _WordBudget) -> Iterator[Sequence[Word]]:
    if depth >= MAX_NESTING:
        raise TooMuchError
    for _, words in reachable(read_line(text), depth + 1, left):
        yield words
