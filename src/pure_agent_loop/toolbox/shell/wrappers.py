"""The commands that hide behind others, for the rules that forbid: a guess too many only costs a refusal.

What is allowed is decided elsewhere and strictly; here `sudo -u bob rm -rf x`, `busybox rm`,
`bash -c 'rm x'`, `echo rm x | sh` and a here-document for a shell are all looked through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pure_agent_loop.toolbox.shell.line import Line, Simple
from pure_agent_loop.toolbox.shell.syntax import read_line
from pure_agent_loop.toolbox.shell.words import Word

MAX_NESTING = 5
_MOST_STARTS = 40

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
"""Commands that may run the command behind them."""


def base_name(word: Word) -> str:
    """A command's name without its folder, in small letters: some file systems do not tell them apart."""
    return word.text.rstrip("/").rpartition("/")[2].lower()


def reachable(line: Line, depth: int = 0) -> Iterator[tuple[Simple, Sequence[Word]]]:
    """Every command that a line may run, with the simple command of this line that would run it."""
    for simple in line.commands:
        for words in _behind(simple.words, depth):
            yield simple, words
    if line.commands and depth < MAX_NESTING:
        for text in _fed(line):
            for _, words in reachable(read_line(text), depth + 1):
                yield line.commands[0], words


def _fed(line: Line) -> Iterator[str]:
    """Texts that a shell in this line reads as commands."""
    if not any(base_name(word) in SHELLS for simple in line.commands for word in simple.words[:3]):
        return
    yield from line.documents
    for redirect in line.redirects:
        if redirect.operator == "<<<":
            yield redirect.target.text
    for simple in line.commands:
        if simple.words and base_name(simple.words[0]) in ("echo", "printf"):
            yield " ".join(word.text for word in simple.words[1:])


def _behind(words: Sequence[Word], depth: int) -> Iterator[Sequence[Word]]:
    if not words or depth > MAX_NESTING:
        return
    yield words
    name = base_name(words[0])
    if name in RUNNERS:
        for start in range(1, min(len(words), _MOST_STARTS)):
            yield words[start:]
            yield from _texts(words[start:], depth)
    if name in SHELLS or name in RUNNERS:
        yield from _texts(words, depth)
    if name == "eval":
        yield from _parsed(" ".join(word.text for word in words[1:]), depth)


def _texts(words: Sequence[Word], depth: int) -> Iterator[Sequence[Word]]:
    """What stands behind `-c`, or in one word with blanks, read as commands."""
    for before, word in pairwise(words):
        if re.fullmatch(r"-\w*c|--command", before.text) or " " in word.text:
            yield from _parsed(word.text, depth)


def _parsed(text: str, depth: int) -> Iterator[Sequence[Word]]:
    if depth < MAX_NESTING:
        for _, words in reachable(read_line(text), depth + 1):
            yield words
