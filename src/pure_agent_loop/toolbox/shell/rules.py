"""Rules for simple commands: how they are written, and which commands each is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.shell.commands import COMMANDS
from pure_agent_loop.toolbox.shell.git import GIT, GIT_ESCAPES
from pure_agent_loop.toolbox.shell.harmless import Judge
from pure_agent_loop.toolbox.shell.line import Simple
from pure_agent_loop.toolbox.shell.options import Surroundings
from pure_agent_loop.toolbox.shell.readers import READERS
from pure_agent_loop.toolbox.shell.words import Word
from pure_agent_loop.toolbox.shell.wrappers import base_name

Field = Literal["allow", "ask", "deny"]

_MADE_TO_WRITE = frozenset({"gzip", "npm", "pip", "pip3", "ss"})  # a rule for them means more than looking


@dataclass(frozen=True)
class Rule:
    """A rule as written, and its words."""

    text: str
    words: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Ends in a star of its own, which stands for any further words."""
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

    def covers(self, words: Sequence[Word], objection: Judge) -> bool:
        """Whether a command, as it is written, is one that this rule allows."""
        fixed = self.words[:-1] if self.is_open else self.words
        if len(words) < len(fixed) or (len(words) > len(fixed) and not self.is_open):
            return False
        if not words[0].is_plain or words[0].text != self.words[0] or not _stays(words):
            return False
        if not all(matches(pattern, word.text) for pattern, word in zip(fixed, words, strict=False)):
            return False
        if not self.is_open or any(word.startswith("-") for word in fixed):
            return True
        return _star_reaches(words, len(fixed), objection)


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
    return Rule(rule, words)


def matches(pattern: str, text: str) -> bool:
    """Whether a word is one that a rule's word stands for; only the star is special."""
    return bool(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.S))


def _same_name(pattern: str, word: Word) -> bool:
    wanted, found = pattern.rpartition("/")[2].lower(), base_name(word)
    if any(part.kind == "glob" for part in word.parts) and fnmatchcase(wanted, found):
        return True
    return matches(wanted, found)


def _has_option(option: str, words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if any(matches(option, text) or text.startswith(f"{option}=") for text in texts):
        return True
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


def _stays(words: Sequence[Word]) -> bool:
    """Whether the shell adds no words, and none that could be taken for an option."""
    ended = False
    any_option = words[0].text in COMMANDS and COMMANDS[words[0].text].any_option
    for word in words[1:]:
        if word.has_expansion or (
            not word.is_literal and word.may_be_option and not ended and not any_option
        ):
            return False
        ended = ended or word.text == "--"
    return True


def _star_reaches(words: Sequence[Word], fixed: int, judge: Judge) -> bool:
    """Whether a star may stand for these words: not for what makes a command run others, or write."""
    name = words[0].text
    if name == "git" and not (len(words) > 1 and words[1].text in GIT):
        return not any(GIT_ESCAPES.fullmatch(word.text) for word in words[fixed:])
    if name in _MADE_TO_WRITE:
        return True
    if name in COMMANDS or name in READERS or name in ("find", "xargs"):
        anywhere = Judge(Surroundings(anywhere=True), judge.line)
        return anywhere.objection(Simple(tuple(words), (), name)) is None
    return True
