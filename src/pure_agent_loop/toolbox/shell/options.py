"""Whether a plain command is called only with options and operands that are known to do no harm."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from pure_agent_loop.toolbox.shell.commands import VARIABLES, Command
from pure_agent_loop.toolbox.shell.words import Word

_HARMLESS_FILES = frozenset(
    ["/dev/null", "/dev/stdin", "/dev/fd/63", "/etc/os-release", "/proc/cpuinfo", "/proc/meminfo"]
)


@dataclass(frozen=True)
class Surroundings:
    """What counts as inside.

    Args:
        root: The workspace's absolute path, if absolute paths below it are fine.
        anywhere: Paths are not looked at.
    """

    root: str | None = None
    anywhere: bool = False


def objection(command: Command, words: Sequence[Word], around: Surroundings) -> str | None:
    """What speaks against running a command unasked; None if nothing does.

    Args:
        command: What is known of it.
        words: Its words after the name, with loop variables put in.
        around: What counts as inside the workspace.
    """
    found = _Reading(command, around)
    for word in words:
        said = found.read(word)
        if said:
            return said
    return found.finish()


def path_objection(word: Word, around: Surroundings) -> str | None:
    """What speaks against reading the file a word names; None if it stays inside the folder."""
    if _only_names(word):
        return None
    if word.has_expansion:
        return value_objection(word) or f"{word.raw} may name a file outside the workspace"
    text = "".join(part.text for part in word.parts)
    if text in _HARMLESS_FILES or not _leaves(text, word, around):
        return None
    return f"{word.raw} is outside the workspace"


def _only_names(word: Word) -> bool:
    """Whether a word is the name of a file below this folder, perhaps behind the path of a folder."""
    if not word.parts:
        return False
    *before, last = word.parts
    head = "".join(part.text for part in before)
    inside = not head.startswith(("/", "~")) and ".." not in head and (not head or head.endswith("/"))
    return last.gives == "names" and inside and all(part.kind == "text" for part in before)


def text_objection(word: Word, around: Surroundings) -> str | None:
    """What speaks against a word that is only text; a pattern becomes the names of files."""
    if any(part.kind == "glob" for part in word.parts):
        return path_objection(word, around)
    return value_objection(word)


def value_objection(word: Word) -> str | None:
    """What speaks against the expansions in a word whose value does no harm otherwise."""
    if word.raw.startswith("~") and len(word.raw) > 1 and word.raw[1] != "/":
        return f"{word.raw} shows another user's home"
    for part in word.parts:
        if part.kind == "variable" and part.text not in VARIABLES:
            return f"${part.text} may hold anything, also a secret"
        if part.kind == "output" and not part.quoted and not part.gives:
            return f"{word.raw} may become any words"
    return None


def _leaves(text: str, word: Word, around: Surroundings) -> bool:
    if around.anywhere:
        return False
    if any(_is_up(step, word) for step in re.split(r"[/=:]", text)):
        return True
    if re.search(r"(^|[=:])~", text):
        return True
    if text.startswith("/"):
        inside = around.root is not None and posixpath.normpath(text) + "/"
        return not (inside and inside.startswith(f"{around.root}/"))
    return bool(re.search(r"[=:]/", text)) or bool(re.match(r"-\w*[/~]", text))


def _is_up(step: str, word: Word) -> bool:
    """Whether one step of a path is, or as a pattern could be, the folder above."""
    if step == "..":
        return True
    return (
        step.startswith(".") and any(part.kind == "glob" for part in word.parts) and fnmatchcase("..", step)
    )


@lru_cache(maxsize=256)
def _long_options(table: str) -> dict[str, str]:
    return {name: value for name, _, value in (_long(entry) for entry in table.split())}


def _long(entry: str) -> tuple[str, str, str]:
    name, sign, kind = entry.partition("=")
    return name, sign, (kind or "text") if sign else ""


@dataclass
class _Reading:
    """The state of reading a command's words from left to right."""

    command: Command
    around: Surroundings
    waiting: str = ""  # the kind of value the option before waits for
    ended: bool = False  # "--" was there
    given: set[str] = field(default_factory=set)
    operands: list[Word] = field(default_factory=list)

    def read(self, word: Word) -> str | None:
        if self.waiting:
            kind, self.waiting = self.waiting, ""
            return self._value(word, kind)
        if self.ended or not self._is_option(word):
            self.operands.append(word)
            return None
        return self._option(word)

    def finish(self) -> str | None:
        if self.waiting:
            return "an option without its value"
        needs = self.command.needs.split()
        if needs and not self.given & set(needs):
            return f"none of {', '.join(needs)} is there"
        if self.command.operands == "none" and self.operands:
            return f"the operand {self.operands[0].raw}"
        if self.command.most is not None and len(self._with_patterns()) > self.command.most:
            return f"more than {self.command.most} operand{'s' if self.command.most > 1 else ''}"
        return self._operands()

    def _with_patterns(self) -> list[Word]:
        """The operands; a pattern counts as two, since it may become several."""
        return [
            word for word in self.operands for _ in range(1 + (not word.is_literal and not self._sure(word)))
        ]

    @staticmethod
    def _sure(word: Word) -> bool:
        return not word.splits and all(part.kind != "glob" for part in word.parts)

    def _is_option(self, word: Word) -> bool:
        if self.command.operands == "text" and not self._options_known():
            return False
        return word.head.startswith("-") and not (word.is_literal and word.head == "-")

    def _options_known(self) -> bool:
        command = self.command
        return bool(command.short or command.takes or command.long or command.files or command.optional)

    def _option(self, word: Word) -> str | None:
        if not word.is_literal and not self._value_is_pattern(word):
            return f"the option {word.raw} is not known"
        text = word.text
        if text == "--":
            self.ended = True
            return None
        if self.command.numbers and re.fullmatch(r"-\d+", text):
            return None
        return self._long(word, text) if text.startswith("--") else self._short(word, text)

    def _value_is_pattern(self, word: Word) -> bool:
        """Whether all it can become is the same long option with some text, as in ``--include=*.py``."""
        name, sign, _ = word.head.partition("=")
        kind = _long_options(self.command.long).get(name[2:], "") if name.startswith("--") else ""
        plain = all(part.kind in ("text", "glob") for part in word.parts)
        return bool(sign) and plain and kind in ("text", "?")

    def _long(self, word: Word, text: str) -> str | None:
        name, sign, value = text[2:].partition("=")
        kind = _long_options(self.command.long).get(name)
        if kind is None or (sign and not kind):
            return f"the option {word.raw} is not known to be harmless"
        self.given.add(f"--{name}")
        if sign:
            return self._attached(word, value, kind)
        self.waiting = kind if kind not in ("", "?") else ""
        return None

    def _short(self, word: Word, text: str) -> str | None:
        command = self.command
        for at, letter in enumerate(text[1:], 2):
            self.given.add(f"-{letter}")
            rest = text[at:]
            if letter in command.takes or letter in command.files:
                kind = "@" if letter in command.files else "text"
                if rest:
                    return self._attached(word, rest, kind)
                self.waiting = kind
                return None
            if letter in command.optional and (rest or letter not in command.short):
                return self._attached(word, rest, "text")
            if letter not in command.short:
                return f"the option -{letter} in {word.raw} is not known to be harmless"
        return None

    def _attached(self, word: Word, value: str, kind: str) -> str | None:
        if kind == "@" and _leaves(value, word, self.around):
            return f"{word.raw} names a file outside the workspace"
        return None

    def _value(self, word: Word, kind: str) -> str | None:
        if word.may_be_option and not (word.is_literal and word.text == "-"):
            if kind == "text" and word.is_literal and re.fullmatch(r"-\d+", word.text):
                return None  # the option takes the next word, whatever it is
            return f"{word.raw} stands where an option's value should"
        if word.splits or not word.is_literal:
            return f"{word.raw} may become any words"
        return path_objection(word, self.around) if kind == "@" else None

    def _operands(self) -> str | None:
        text = 0 if self.given & set(self.command.pattern.split()) else self.command.text
        for at, word in enumerate(self.operands):
            said = self._operand(word, is_text=self.command.operands == "text" or at < text)
            if said:
                return said
        return None

    def _operand(self, word: Word, *, is_text: bool) -> str | None:
        if not self.ended and word.may_be_option and not self._harmless_option(word):
            return f"{word.raw} may become an option"
        if is_text:
            return text_objection(word, self.around)
        return path_objection(word, self.around)

    def _harmless_option(self, word: Word) -> bool:
        if word.is_literal or self.command.any_option:
            return True
        return self.command.operands == "text" and not self._options_known()
