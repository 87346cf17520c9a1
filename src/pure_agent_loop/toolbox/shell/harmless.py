"""Whether a simple command is known only to look, also behind the commands that run others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from pure_agent_loop.toolbox.shell.commands import (
    COMMANDS,
    ENVIRONMENT,
    SHELLS,
    VERSIONS,
    WRAPPERS,
    Command,
)
from pure_agent_loop.toolbox.shell.find import FIND_FILES, FIND_TESTS
from pure_agent_loop.toolbox.shell.git import GIT_ELSEWHERE
from pure_agent_loop.toolbox.shell.line import Simple
from pure_agent_loop.toolbox.shell.listing import listed
from pure_agent_loop.toolbox.shell.options import Surroundings, objection, path_objection, value_objection
from pure_agent_loop.toolbox.shell.readers import READERS
from pure_agent_loop.toolbox.shell.words import Part, Word, literal

MAX_ROUNDS = 64
_XARGS = Command("0rt", "nPLsdI", long="null no-run-if-empty max-args= max-procs= delimiter= verbose")
_HELP = re.compile(r"[a-z]\w+ --(?:help|version)")
_OWN_HELP = frozenset({"xxd", "unzip", "test", "history", "help", "cd", "echo", "bc"})
_ITEM = Word("(items)", (Part("glob", "items", quoted=False),))
_FOUND = literal("./found")


@dataclass(frozen=True)
class Judge:
    """Knows the surroundings of a command and how to judge a line inside it.

    Args:
        around: What counts as inside the workspace.
        line: What speaks against a whole line, for ``bash -c``, and whether a ``cd`` came before it.
    """

    around: Surroundings
    line: Callable[[str, bool], str | None]

    def objection(self, simple: Simple) -> str | None:
        """What speaks against running a command unasked; None if it only looks."""
        if simple.binds:
            return None
        for assignment in simple.assignments:
            if not ENVIRONMENT.fullmatch(assignment) or not simple.words:
                return f"{assignment.partition('=')[0]} is set"
        for words in rounds(simple):
            said = self._words(words, simple)
            if said:
                return said
        return None if simple.words else "there is no command"

    def _words(self, words: Sequence[Word], simple: Simple) -> str | None:
        name = words[0].raw if words else ""
        if name not in ("[", "[[") and not (words and words[0].is_plain and re.fullmatch(r"[\w.:+-]+", name)):
            return "the command's name is not written plainly"
        if name == "git" and simple.after_cd and not _is_exact(words, GIT_ELSEWHERE):
            return "git in another folder may read another configuration, which can run programs"
        if _is_exact(words, _HELP) and name in COMMANDS and name not in _OWN_HELP:
            return None
        if name in VERSIONS and len(words) == 2 and words[1].is_plain and words[1].text in VERSIONS[name]:
            return None
        own = getattr(self, f"_on_{name}", None) if name.isalpha() else None
        if own is not None:
            found: str | None = own(words, simple)
            return found
        if name in SHELLS:
            return self._shell(words, simple)
        if name in WRAPPERS:
            return self._wrapper(words, simple)
        if name in READERS:
            return READERS[name](words, self.around)
        if name in COMMANDS:
            return objection(COMMANDS[name], words[1:], self.around)
        return f"{name} is not known to be harmless"

    def _on_command(self, words: Sequence[Word], simple: Simple) -> str | None:
        if len(words) > 1 and words[1].text in ("-v", "-V"):
            return next((said for said in map(value_objection, words[2:]) if said), None)
        return self._wrapper(words, simple)

    def _wrapper(self, words: Sequence[Word], simple: Simple) -> str | None:
        inner = unwrap(words)
        if inner is None:
            return f"{words[0].text} is used with an option that is not known to be harmless"
        return self._words(inner, simple) if inner else f"{words[0].text} without a command"

    def _shell(self, words: Sequence[Word], simple: Simple) -> str | None:
        if len(words) < 3 or not re.fullmatch(r"-[elux]*c", words[1].text) or not words[2].is_literal:
            return "a shell that reads its commands from somewhere else"
        if any(word.has_expansion for word in words[3:]):
            return "a shell with arguments that are not known"
        return self.line(words[2].text, simple.after_cd)

    def _on_find(self, words: Sequence[Word], simple: Simple) -> str | None:
        rest = list(words[1:])
        while rest and rest[0].is_literal and not rest[0].text.startswith(("-", "(", "!", ",")):
            said = path_objection(rest[0], self.around)
            if said:
                return said
            rest = rest[1:]
        while rest:
            word = rest.pop(0)
            said = self._find_test(word, rest, simple)
            if said:
                return said
        return None

    def _find_test(self, word: Word, rest: list[Word], simple: Simple) -> str | None:
        if not word.is_literal:
            return f"{word.raw} may become an action"
        if word.text == "-exec":
            return self._find_exec(rest, simple)
        if word.text in FIND_FILES and rest:
            value = rest.pop(0)
            return "the file is not known" if value.may_be_option else path_objection(value, self.around)
        if word.text not in FIND_TESTS:
            return f"{word.text} is not known to be harmless"
        for _ in range(FIND_TESTS[word.text]):
            if not rest:
                return f"{word.text} without its value"
            value = rest.pop(0)
            if not value.is_literal and not (value.parts[-1].kind == "text" and "." in value.parts[-1].text):
                return f"{value.raw} may become several words"
            if value.has_expansion:
                return f"{value.raw} is not known"
        return None

    def _find_exec(self, rest: list[Word], simple: Simple) -> str | None:
        inner: list[Word] = []
        while rest and not (rest[0].is_literal and rest[0].text in (";", "+")):
            inner.append(rest.pop(0))
        if not rest or not inner or inner[0].text == "find":
            return "-exec is not known to be harmless"
        rest.pop(0)
        return self._with_items(inner, "{}", _FOUND, simple)

    def _with_items(self, inner: list[Word], mark: str, item: Word, simple: Simple) -> str | None:
        if any(mark in word.text and word.text != mark for word in inner) or inner[0].text == mark:
            return f"{mark} becomes part of a word"
        return self._words([item if word.text == mark else word for word in inner], simple)

    def _on_xargs(self, words: Sequence[Word], simple: Simple) -> str | None:
        inner = _behind(_XARGS, words[1:])
        if inner is None:
            return "xargs is used with an option that is not known to be harmless"
        if not inner:
            return None
        name = inner[0].text
        if not (name in COMMANDS and COMMANDS[name].operands == "text") and listed(simple.fed_by) != "names":
            return "what it is given is not known to be names of files in the workspace"
        options = words[1 : len(words) - len(inner)]
        marks = [b.text for a, b in pairwise(options) if a.text == "-I"]
        marks += [word.text[2:] for word in options if word.is_literal and re.match("-I.", word.text)]
        if len(marks) == 1:
            return self._with_items(list(inner), marks[0], _ITEM, simple)
        if any(re.match(r"-\w*I", word.text) for word in options):
            return "write -I and its mark apart from other options"
        return self._words([*inner, _ITEM], simple)


def rounds(simple: Simple) -> list[tuple[Word, ...]]:
    """The command's words for each round of the loops around it."""
    used = {part.text for word in simple.words for part in word.parts if part.kind == "variable"}
    names = sorted(used & set(simple.loops))
    choices = list(product(*(simple.loops[name] for name in names)))[: MAX_ROUNDS + 1]
    if len(choices) > MAX_ROUNDS:
        return [simple.words]
    found = []
    for values in choices:
        bound = {name: (value,) for name, value in zip(names, values, strict=True)}
        found.append(tuple(word.bind(bound)[0] for word in simple.words))
    return found


def _is_exact(words: Sequence[Word], known: re.Pattern[str]) -> bool:
    return all(word.is_plain for word in words) and bool(
        known.fullmatch(" ".join(word.text for word in words))
    )


def unwrap(words: Sequence[Word]) -> Sequence[Word] | None:
    """The command behind a wrapper; None if the wrapper's own options are not all known."""
    options, operands = WRAPPERS[words[0].text]
    inner = _behind(options, words[1:])
    if inner is None or len(inner) < operands or any(word.may_be_option for word in inner[:operands]):
        return None
    inner = inner[operands:]
    if words[0].text == "env":
        while inner and inner[0].is_plain and ENVIRONMENT.fullmatch(inner[0].text):
            inner = inner[1:]
    return inner


def _behind(options: Command, words: Sequence[Word]) -> Sequence[Word] | None:
    """The words behind a command's options, which all have to be known."""
    at = 0
    while at < len(words) and words[at].head.startswith("-"):
        text = words[at].text
        if text == "--":
            return words[at + 1 :]
        waits = bool(text[1:] and text[-1] in options.takes and not text.startswith("--"))
        waits = waits or (text.startswith("--") and f"{text[2:]}=" in options.long.split())
        step = 2 if waits and (text.startswith("--") or set(text[1:-1]) <= set(options.short)) else 1
        if objection(replace(options, most=None), words[at : at + step], Surroundings()):
            return None
        at += step
    return words[at:]
