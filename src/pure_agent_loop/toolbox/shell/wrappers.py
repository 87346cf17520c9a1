"""Find commands run by other commands, for deny and ask rules. A wrong guess only costs a denial.

Allow rules are matched strictly, by other code. Here `sudo -u bob rm -rf x`, `busybox rm`, `bash -c 'rm x'`,
`echo rm x | sh` and a here-document for a shell are all searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pure_agent_loop.toolbox.shell.line import ShellLine, Simple
from pure_agent_loop.toolbox.shell.syntax import read_line
from pure_agent_loop.toolbox.shell.words import Word

MAX_NESTING = 5
MAX_WORDS = 10_000  # maximum total words of all commands that a line may run
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
# Number of a runner's own operands before the command that it runs; 0 for runners not listed.
_LEADING_OPERANDS = dict.fromkeys(
    ("timeout", "gtimeout", "flock", "taskset", "chrt", "chroot", "setarch", "su", "ssh", "gosu"), 1
)
_LEADING_OPERANDS["direnv"] = 2
# Commands that may run the command that follows them.
_MORE_RUNNERS = frozenset(
    [
        *RUNNERS,
        *SHELLS,
        *("ssh", "gosu", "npx", "bunx", "pnpx", "uvx", "entr", "chronic", "valgrind", "direnv"),
        *("hyperfine", "rlwrap", "tmux", "screen", "dbus-run-session", "faketime", "rsh", "winpty"),
        *("proxychains", "proxychains4", "torsocks", "tsocks", "bwrap", "gdb", "numactl", "catchsegv"),
        *("softlimit", "cpulimit", "timelimit", "choom", "uclampset", "ifne", "eatmydata", "gtimeout"),
        "dotenv",
    ]
)
# These names are runners only as the first word of a command.
_ONLY_FIRST = frozenset({".", "source", "at", "batch", "ts", "retry"})
_CONTAINERS = frozenset({"docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc", "lxc", "incus"})
_LAUNCHERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "pixi", "pipx"})
# Options without a value; the word after any other option may be its value.
_FLAGS = {
    "git": ("--no-pager", "-p", "--paginate"),
    "sudo": ("-n", "-E", "-H"),
    "xargs": ("-0", "-r", "-t"),
    **dict.fromkeys(("env", "time", "strace", "bash"), ("-i", "-p", "-f", "-e", "-x")),
}


def may_be_a_command(words: Sequence[str], at: int) -> bool:
    """Return True if, in any reading, a word with a star could be a command that an earlier word runs.

    Args:
        words: The words of a rule; a star as the last word matches several.
    """
    names = [word.rpartition("/")[2].lower() for word in words[:at]]
    if names[-1:] == ["--"] and names[0] != "cargo" and names[-2] in ("run", "exec"):
        return True  # any program may have such a subcommand
    is_several = words[at] == "*" and at == len(words) - 1
    return any(
        own is not None and _is_operand(words[start + 1 : at], _FLAGS.get(names[start], ()), own, is_several)
        for start in range(at)
        for own in [_own_operands(names, start)]
    )


def _is_operand(words: Sequence[str], flags: Sequence[str], number: int, is_several: bool) -> bool:
    """Return True if the next word (or, with `is_several`, one after it) could be operand `number`."""
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
    if name in ("git", "make"):  # an operand can name a program to run only after an option
        return 0 if following and following[0].startswith("-") else None
    if first == "find" and (at == 0 or name.startswith("-")):
        return 0 if name in ("-exec", "-execdir", "-ok", "-okdir") else None
    if name in ("exec", "dlx", "x", "run") and at:
        if first in _CONTAINERS:
            return 1
        return 0 if name != "run" or first in _LAUNCHERS else None
    # As an operand of another command, a runner counts only if the star follows it directly.
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
        TooMuchError: There are too many commands to search.
    """
    left = left or _WordBudget()
    for simple in line.commands:
        for words in _nested(simple.words, depth, left):
            yield simple, words
    for text in _input_texts(line) if line.commands else ():
        for words in _parse(text, depth, left):
            yield line.commands[0], words


def _input_texts(line: ShellLine) -> Iterator[str]:
    """Yield the strings that a shell in this line reads as commands."""
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
