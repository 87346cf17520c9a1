"""Rules for simple commands: how they are written, and which commands each is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.shell.words import Word
from pure_agent_loop.toolbox.shell.wrappers import RUNNERS, base_name

Field = Literal["allow", "ask", "deny"]

# Their first operand is a program, or options without a dash: a star stands for these at most.
_PROGRAMS: Final = {
    "sed": re.compile(r"(?:(?:\d+|\$)(?:,(?:\d+|\$))?)?[pd=]|s/[^/\\\n]*/[^/\\\n]*/g?"),
    "tar": re.compile(r"t[vzjJ]*f"),
}
# What a star behind `git` itself stands for; of the others each can run programs that somebody names.
_GIT: Final = frozenset(
    [
        *("add", "blame", "branch", "checkout", "cherry-pick", "commit", "describe", "diff", "fetch", "log"),
        *("ls-files", "merge", "mv", "pull", "push", "reset", "restore", "rev-parse", "revert", "rm", "show"),
        *("stash", "status", "switch", "tag"),
    ]
)
_NAME: Final = re.compile(r"(?![-+:])(?!.*::)[\w./:@%,^~+-]+")  # of a file, a branch, a test, a package


@dataclass(frozen=True)
class Rule:
    """A rule as written, and its words."""

    text: str
    words: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Ends in a star of its own, which stands for any further operands."""
        return self.words[-1] == "*"

    def catches(self, words: Sequence[Word]) -> bool:
        """Whether a command is one that this rule forbids or asks about, however it is written.

        The rule is the beginning of the command. Options may stand in any order and between the other words.
        """
        if not _same_name(self.words[0], words[0]):
            return False
        ours = [word for word in self.words[1:] if not (word == "*" and word is self.words[-1])]
        options = [word for word in ours if word.startswith("-") and word != "-"]
        if not all(_has_option(option, words[1:]) for option in options):
            return False
        return _in_order([word for word in ours if word not in options], words[1:])

    def covers(self, words: Sequence[Word], *, after_cd: bool = False) -> bool:
        """Whether a command, as it is written, is one that this rule allows.

        Args:
            words: The command.
            after_cd: It runs in another folder, where git may find a hostile configuration.
        """
        fixed = self.words[:-1] if self.is_open else self.words
        if len(words) < len(fixed) or (len(words) > len(fixed) and not self.is_open):
            return False
        if any(word.has_expansion or (word.may_be_option and not word.is_literal) for word in words):
            return False
        if after_cd and any(word.text == "git" for word in words):
            return False
        if not words[0].is_plain or not all(map(_allows, fixed, (word.text for word in words))):
            return False
        return self._star(fixed, words[len(fixed) :])

    def _star(self, fixed: Sequence[str], rest: Sequence[Word]) -> bool:
        """Whether the last star stands for these words: for operands, never for options or programs."""
        named = [word for word in fixed if not word.startswith("-")]
        name = named[-1].rpartition("/")[2]
        if not rest or rest[0].may_be_option:
            return not rest
        if name == "git" and rest[0].text not in _GIT:
            return False
        if name in _PROGRAMS:
            return _PROGRAMS[name].fullmatch(rest[0].text) is not None and all(map(_is_name, rest[1:]))
        # The value of an option that the rule names may be any text, such as a message.
        value = 1 if fixed[-1].startswith("-") else 0
        return all(map(_is_name, rest[value:]))


def read_rules(field: Field, rules: Iterable[str]) -> tuple[Rule, ...]:
    """Read the rules of one field.

    Raises:
        ConfigError: A rule is no text, is empty, holds shell operators, or allows everything.
    """
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise ConfigError(f"{field} must be a list of rules such as 'git log *', not {rules!r}")
    return tuple(_read(field, rule) for rule in rules)


def _read(field: Field, rule: object) -> Rule:
    if not isinstance(rule, str) or not rule.strip():
        raise ConfigError(f"{field} holds {rule!r}; a rule is a command such as 'git log *'")
    try:
        words = tuple(shlex.split(rule))
    except ValueError as error:
        raise ConfigError(f"{field} holds {rule!r}, which has an open quote; close it") from error
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", rule)
    if not words or re.search(r"[;|&<>$`()\n]", bare) or not rule.isprintable():
        raise ConfigError(
            f"{field} holds {rule!r}; a rule is about one simple command, without operators or expansions"
        )
    if field == "allow" and ("*" in words[0] or "=" in words[0]):
        raise ConfigError(f"allow holds {rule!r}; name the command that it allows")
    if field == "allow" and any(re.match(r"-[^=]*\*", word) for word in words):
        raise ConfigError(f"allow holds {rule!r}; a star cannot stand for options, only for values: '--x=*'")
    if field == "allow" and words[-1] == "*" and words[-2].rpartition("/")[2] in RUNNERS - {"find"}:
        raise ConfigError(f"allow holds {rule!r}, which is any command; name the command behind {words[-2]}")
    return Rule(rule, words)


def matches(pattern: str, text: str) -> bool:
    """Whether a word is one that a rule's word stands for; only the star is special."""
    return bool(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.S))


def _allows(pattern: str, text: str) -> bool:
    """The same for a rule that allows: a star makes no option of an operand, and leads out of no folder."""
    if not matches(pattern, text):
        return False
    leaves = "/" in pattern and ".." in text.split("/") and ".." not in pattern.split("/")
    return not ("*" in pattern and leaves) and not (pattern.startswith("*") and text.startswith(("-", "+")))


def _is_name(word: Word) -> bool:
    if not word.is_literal:  # `src/*.py`: the shell puts in names of files behind what is written
        return bool(word.head) and _NAME.fullmatch(word.head) is not None
    return _NAME.fullmatch(word.text) is not None


def _same_name(pattern: str, word: Word) -> bool:
    wanted, found = pattern.rpartition("/")[2].lower(), base_name(word)
    if any(part.kind == "glob" for part in word.parts) and fnmatchcase(wanted, found):
        return True
    return matches(wanted, found)


def _has_option(option: str, words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if any(matches(option, text) or text.startswith(f"{option}=") for text in texts):
        return True
    if option.startswith("--"):  # programs take the beginning of a long option for it
        begun = (text.partition("=")[0] for text in texts)
        return any(len(text) > 3 and text.startswith("--") and option.startswith(text) for text in begun)
    if not re.fullmatch(r"-[A-Za-z]+", option):
        return False
    letters = {letter for text in texts if re.match(r"-[A-Za-z]", text) for letter in text[1:]}
    letters |= {text[2] for text in texts if re.match(r"--[a-z]", text)} if option != "-c" else set()
    return set(option[1:].lower()) <= {letter.lower() for letter in letters}


def _in_order(ours: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether the rule's words begin the operands; a word behind an option may be that option's value."""
    if not ours:
        return True
    for at, word in enumerate(words):
        if word.text.startswith("-") and word.text != "-":
            continue
        if matches(ours[0], word.text) and _in_order(ours[1:], words[at + 1 :]):
            return True
        if at == 0 or not words[at - 1].text.startswith("-"):
            return False
    return False
