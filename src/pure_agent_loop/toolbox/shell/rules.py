"""Rules for simple commands: their syntax, and the commands they match."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.globs import fits
from pure_agent_loop.toolbox.shell.words import Word
from pure_agent_loop.toolbox.shell.wrappers import base_name, may_be_a_command

Field = Literal["allow", "ask", "deny"]

# The first operand of these commands is a script (sed) or options without a dash (tar), so a star matches it
# only in these harmless forms.
_PROGRAMS: Final = {
    "sed": re.compile(r"(?:(?:\d+|\$)(?:,(?:\d+|\$))?)?[pd=]|s/[^/\\\n]*/[^/\\\n]*/g?"),
    "tar": re.compile(r"t[vzjJ]*f"),
}
# The subcommands that a star directly after `git` matches; all other subcommands can run arbitrary programs.
_GIT: Final = frozenset(
    [
        *("add", "blame", "branch", "checkout", "cherry-pick", "commit", "describe", "diff", "fetch", "log"),
        *("ls-files", "merge", "mv", "pull", "push", "reset", "restore", "rev-parse", "revert", "rm", "show"),
        *("stash", "status", "switch", "tag"),
    ]
)
_TEXTS: Final = frozenset({"-m", "--message", "-k", "--title", "--body", "--description", "--grep"})
_NAME: Final = re.compile(r"(?![-+:])(?!.*::)[\w./:@%,^~+-]+")  # the name of a file, branch, test or package


@dataclass(frozen=True)
class ShellRule:
    """A rule as written, and its words."""

    text: str
    words: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """True if the rule ends in a separate star, which matches any further operands."""
        return self.words[-1] == "*"

    def catches(self, words: Sequence[Word]) -> bool:
        """Return True if the rule forbids or asks about a command, however the command is written.

        The rule matches the beginning of the command. Options may be in any order and between the other
        words.
        """
        if not _same_name(self.words[0], words[0]):
            return False
        own_words = [word for word in self.words[1:] if not (word == "*" and word is self.words[-1])]
        options = [word for word in own_words if word.startswith("-") and word != "-"]
        if not all(_has_option(option, words[1:]) for option in options):
            return False
        return _in_order([word for word in own_words if word not in options], words[1:])

    def covers(self, words: Sequence[Word], *, after_cd: bool = False) -> bool:
        """Return True if the rule allows a command as it is written.

        Args:
            after_cd: The command runs in another folder, where git may read a hostile configuration.
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
        """Return True if the last star matches these words; it never matches options or programs."""
        named = [word for word in fixed if not word.startswith("-")]
        name = named[-1].rpartition("/")[2]
        if not rest or rest[0].may_be_option:
            return not rest
        if name == "git" and rest[0].text not in _GIT:
            return False
        if name in _PROGRAMS:
            return _PROGRAMS[name].fullmatch(rest[0].text) is not None and all(map(_is_name, rest[1:]))
        # A text argument, such as a commit message, is harmless; the value of any other option may be a
        # program.
        value = 1 if fixed[-1] in _TEXTS else 0
        return all(map(_is_name, rest[value:]))


def read_rules(field: Field, rules: Iterable[str]) -> tuple[ShellRule, ...]:
    """Read the rules of one field.

    Raises:
        ConfigError: A rule is not a string, is empty, has shell operators, or allows everything.
    """
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise ConfigError(f"{field} must be a list of rules such as 'git log *', not {rules!r}")
    return tuple(_read(field, rule) for rule in rules)


def _read(field: Field, rule: object) -> ShellRule:
    if not isinstance(rule, str) or not rule.strip():
        raise ConfigError(f"{field}: {rule!r} is not a rule; write a command such as 'git log *'")
    try:
        words = tuple(shlex.split(rule))
    except ValueError as error:
        raise ConfigError(f"{field}: {rule!r} has an unclosed quote") from error
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", rule)
    if not words or re.search(r"[;|&<>$`()\n]", bare) or not rule.isprintable():
        raise ConfigError(f"{field}: {rule!r} must be one simple command, without operators or expansions")
    if field == "allow" and ("*" in words[0] or "=" in words[0]):
        raise ConfigError(f"allow: {rule!r} must name the command that it allows")
    if field == "allow" and any(re.match(r"-[^=]*\*", word) for word in words):
        raise ConfigError(f"allow: {rule!r}: a star cannot match options, only values: '--x=*'")
    # In `scripts/*.sh`, the star cannot leave the folder named before it.
    stars = [at for at, word in enumerate(words) if "*" in word and not re.match(r"(\./)?\w[^/*]*/", word)]
    if field == "allow" and any(may_be_a_command(words, at) for at in stars):
        raise ConfigError(
            f"allow: the star in {rule!r} could be any command that {words[0]} runs; write that command "
            f"after the options of {words[0]}, then a star: 'timeout 5 npm test *'"
        )
    return ShellRule(rule, words)


def matches(pattern: str, text: str) -> bool:
    """Match a word against a word of a rule; only the star is special."""
    return fits(pattern, text, marks=False)


def _allows(pattern: str, text: str) -> bool:
    """Match for an allow rule: a star cannot match an option in place of an operand, or leave a folder."""
    if not matches(pattern, text):
        return False
    leaves = "/" in pattern and ".." in text.split("/") and ".." not in pattern.split("/")
    return not ("*" in pattern and leaves) and not (pattern.startswith("*") and text.startswith(("-", "+")))


def _is_name(word: Word) -> bool:
    if not word.is_literal:  # in `src/*.py`, the shell keeps the head as written
        return bool(word.head) and _NAME.fullmatch(word.head) is not None
    return _NAME.fullmatch(word.text) is not None


def _same_name(pattern: str, word: Word) -> bool:
    wanted, name = pattern.rpartition("/")[2].lower(), base_name(word)
    if any(part.kind == "glob" for part in word.parts) and fnmatchcase(wanted, name):
        return True
    return matches(wanted, name)


def _has_option(option: str, words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if any(matches(option, text) or text.startswith(f"{option}=") for text in texts):
        return True
    if option.startswith("--"):  # also match abbreviated long options, which programs accept
        prefixes = (text.partition("=")[0] for text in texts)
        return any(len(text) > 3 and text.startswith("--") and option.startswith(text) for text in prefixes)
    if not re.fullmatch(r"-[A-Za-z]+", option):
        return False
    letters = {letter for text in texts if re.match(r"-[A-Za-z]", text) for letter in text[1:]}
    letters |= {text[2] for text in texts if re.match(r"--[a-z]", text)} if option != "-c" else set()
    return set(option[1:].lower()) <= {letter.lower() for letter in letters}


def _in_order(own_words: Sequence[str], words: Sequence[Word]) -> bool:
    """Match the rule's words against the first operands; a word after an option may be its value."""
    reached, before = {0}, ""  # possible numbers of rule words matched so far
    for word in words:
        if len(own_words) in reached:
            return True
        if not word.text.startswith("-") or word.text == "-":
            further = {count + 1 for count in reached if matches(own_words[count], word.text)}
            reached = further | (reached if before.startswith("-") else set())
        before = word.text
    return len(own_words) in reached
