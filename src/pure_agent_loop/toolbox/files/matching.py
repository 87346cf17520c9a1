"""Find lines in a stream with a child process that opens no files and can be killed.

The child is ripgrep if installed, else a small Python program. The child reads the text from a pipe, so only
files that this process opened are searched and no link can lead outside; a search that takes too long is
ended by killing the child.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pure_agent_loop.support.child import NEUTRAL_DIR, find_program, script_argv
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import clean_text, excerpt_around
from pure_agent_loop.toolbox.complaints import WorkspaceError

CHECK_SECONDS = 10.0
_PROGRAM = Path(__file__).with_name("line_matcher.py")
_NO_MATCH, _BAD_PATTERN = 1, 2
START = "\x01"  # a mark that the child prints before the match
_ESCAPE, _WORD = re.compile(r"\\."), re.compile(r"\w{2,}")
_Command = tuple["str | bytes", ...]


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A matching line or a context line.

    Args:
        number: Counted from 1 over the whole input.
        text: The line without its line break; for a long line, the part around the match.
    """

    number: int
    text: str
    matches: bool


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A line search.

    Args:
        pattern: A regular expression for a part of a line.
        context: Number of lines before and after each match.
    """

    pattern: str
    ignore_case: bool = False
    context: int = 0


class Matcher:
    """A search for one pattern.

    Args:
        ripgrep: Path of ripgrep; None to use Python.
        seconds: Time limit; the child is killed after it.

    Raises:
        WorkspaceError: The pattern is not a regular expression.
    """

    def __init__(self, wanted: LinePattern, ripgrep: str | None, seconds: float) -> None:
        self._command = _command(wanted, ripgrep)
        self._likely_words = _likely_words(wanted.pattern)
        self._seconds = seconds
        self.too_slow = False
        """True once the child was killed by the time limit."""
        self.failed = False
        """True once the child failed unexpectedly."""

    @contextmanager
    def lines(self, pieces: Iterable[bytes], max_chars: int) -> Iterator[Iterator[MatchedLine]]:
        """Provide the matching lines in a context, while another thread writes the pieces to the child.

        Args:
            pieces: UTF-8 text in whole lines; consumed or closed before the context ends.
        """
        process = _start(self._command)
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = threading.Thread(
            target=copy_context().run, args=(_feed, process.stdin, pieces), name="pal-grep", daemon=True
        )
        alarm = threading.Timer(self._seconds, self._kill, (process,))
        alarm.daemon = True
        alarm.start()
        feeder.start()
        try:
            yield self._read_lines(process, max_chars)
        finally:
            process.kill()  # discard the remaining output
            feeder.join()
            alarm.cancel()
            process.stdout.close()
            process.wait()

    def _read_lines(self, process: subprocess.Popen[bytes], max_chars: int) -> Iterator[MatchedLine]:
        assert process.stdout is not None
        yield from _parse(process.stdout, self._likely_words, max_chars)
        self.failed = process.wait() not in (0, _NO_MATCH) and not self.too_slow

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self.too_slow = True
        process.kill()


def _start(command: _Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own script, or ripgrep by full path
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        cwd=NEUTRAL_DIR,
    )


def _environment() -> dict[str, str]:
    """Return an environment without variables, except those that Windows needs to start a program."""
    return {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def _feed(pipe: IO[bytes], pieces: Iterable[bytes]) -> None:
    with suppress(OSError), pipe:  # the child has ended or been killed
        for piece in pieces:
            pipe.write(piece)
    close = getattr(pieces, "close", None)
    if close is not None:
        close()  # a generator may hold open folders


def _parse(pipe: IO[bytes], words: list[str], max_chars: int) -> Iterator[MatchedLine]:
    """Parse lines such as ``12:text``; cut long lines to the part around the match, which a mark precedes."""
    for line in pipe:
        digits = len(line) - len(line.lstrip(b"0123456789"))
        if digits:  # skip the "--" between groups
            text = line[digits + 1 :].rstrip(b"\n").decode("utf-8", "replace")
            matches = line[digits : digits + 1] == b":"
            yield MatchedLine(
                int(line[:digits]), _shorten(text, words if matches else [], max_chars), matches
            )


def _shorten(text: str, words: list[str], max_chars: int) -> str:
    """Remove a line's marks. Cut a long matching line to the part around a word of the pattern."""
    start = max(0, text.find(START))
    text = text.replace(START, "")
    if len(text) <= max_chars:
        return text
    lower = text.lower()  # positions stay valid, unless this changes the length, which is rare
    positions = (lower.find(word, start) for word in words)
    return excerpt_around(text, next((at for at in positions if at >= 0), start), max_chars)


def _likely_words(pattern: str) -> list[str]:
    """Return words that a matching line probably contains, longest first."""
    return sorted(_WORD.findall(_ESCAPE.sub(" ", pattern).lower()), key=len, reverse=True)


def find_ripgrep(root: Path) -> str | None:
    """Return the path of ripgrep; a program inside the workspace is not trusted."""
    path = find_program("rg")
    if path is None or Path(path).resolve().is_relative_to(root):
        return None
    return path if _is_ripgrep(path) else None


@functools.lru_cache(maxsize=8)
def _is_ripgrep(path: str) -> bool:
    """Check the version, because a broken wrapper script may exit like ripgrep that has found nothing."""
    return _run_once((path, "--no-config", "--version")).stdout.startswith(b"ripgrep")


@functools.lru_cache(maxsize=64)
def _command(wanted: LinePattern, ripgrep: str | None) -> _Command:
    """Return the first command that accepts the pattern.

    ripgrep lacks look-around, and Python lacks POSIX classes.
    """
    pattern = clean_text(wanted.pattern)
    commands: list[_Command] = []
    if ripgrep is not None:
        options = (
            "--no-config",
            "--color=never",
            "--no-heading",
            "--no-filename",
            "--line-number",
            "--text",
            "--threads=1",
            f"--replace={START}$0",
        )
        flags = ("--ignore-case" if wanted.ignore_case else "--case-sensitive", f"--context={wanted.context}")
        argument = pattern if sys.platform == "win32" else pattern.encode()
        commands.append((ripgrep, *options, *flags, "-e", argument, "-"))
    arguments = (pattern.encode().hex(), str(int(wanted.ignore_case)), str(wanted.context))
    commands.append(tuple(script_argv(_PROGRAM, *arguments)))
    problem = ""
    for command in commands:
        done = _run_once(command)
        if done.returncode in (0, _NO_MATCH):
            return command
        problem = done.stderr.decode("utf-8", "replace").strip()
    raise WorkspaceError(model_text("bad_regex", pattern=pattern[:200], problem=problem[:300]))


def _run_once(command: _Command) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - as above
            command,
            input=b"",
            capture_output=True,
            check=False,
            env=_environment(),
            cwd=NEUTRAL_DIR,
            timeout=CHECK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, _BAD_PATTERN, b"", model_text("slow_regex").encode())
    except OSError as error:
        return subprocess.CompletedProcess(command, _BAD_PATTERN, b"", str(error).encode())
