"""Finding lines in a stream with a process that never opens a file and can be killed.

ripgrep does it if it is installed, else a small Python program. Either reads the text from a pipe: what is
searched is only what was opened by us, so no link can lead the search outside, and a regular expression
that takes too long ends with its process.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pure_agent_loop.support.child import ELSEWHERE, find_program, script_argv
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.words import say

CHECK_SECONDS = 10.0
_PROGRAM = Path(__file__).with_name("line_matcher.py")
_NO_MATCH, _BAD_PATTERN = 1, 2
_PIECE = 1 << 16
_Command = tuple["str | bytes", ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was found, or one near it.

    Args:
        number: Counted from 1 over all that was fed.
        text: Without its end, cut at some length.
        matches: False if it only stands near one that does.
    """

    number: int
    text: str
    matches: bool


@dataclass(frozen=True, slots=True)
class LinePattern:
    """What to look for.

    Args:
        pattern: A regular expression for a part of a line.
        ignore_case: Whether upper and lower case are the same.
        context: Number of lines wanted before and after each.
    """

    pattern: str
    ignore_case: bool = False
    context: int = 0


class Matcher:
    """Looks for one pattern.

    Args:
        wanted: The pattern.
        ripgrep: Where ripgrep is; None to do without.
        seconds: How long it may take; then it is killed.

    Raises:
        WorkspaceError: The pattern is no regular expression.
    """

    def __init__(self, wanted: LinePattern, ripgrep: str | None, seconds: float) -> None:
        self._command = _command(wanted, ripgrep)
        self._seconds = seconds
        self.too_slow = False
        """True once it was killed for the time it took."""
        self.failed = False
        """True once its program ended in an unexpected way."""

    @contextmanager
    def lines(self, pieces: Iterable[bytes], max_chars: int) -> Iterator[Iterator[Line]]:
        """The lines that fit, while the pieces are fed in by another thread.

        Args:
            pieces: UTF-8 text in whole lines. It is used up, or closed early, before this ends.
            max_chars: Greatest length of the text of a line.
        """
        process = _started(self._command)
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
            yield self._until_the_end(process, max_chars)
        finally:
            process.kill()  # what it still had to say is not wanted
            feeder.join()
            alarm.cancel()
            process.stdout.close()
            process.wait()

    def _until_the_end(self, process: subprocess.Popen[bytes], max_chars: int) -> Iterator[Line]:
        assert process.stdout is not None
        yield from _parsed(process.stdout, max_chars)
        self.failed = process.wait() not in (0, _NO_MATCH) and not self.too_slow

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self.too_slow = True
        process.kill()


def _started(command: _Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own program, or ripgrep by its full path
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        cwd=ELSEWHERE,
    )


def _environment() -> dict[str, str]:
    """Nothing that changes what the program does, and on Windows what no program starts without."""
    return {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def _feed(pipe: IO[bytes], pieces: Iterable[bytes]) -> None:
    with suppress(OSError), pipe:  # the process has ended, or was killed
        for piece in pieces:
            pipe.write(piece)
    close = getattr(pieces, "close", None)
    if close is not None:
        close()  # a generator that holds folders open


def _parsed(pipe: IO[bytes], max_chars: int) -> Iterator[Line]:
    """Lines as ``12:text``; the rest of a long one is read and dropped."""
    while head := pipe.readline(_PIECE):
        rest = head
        while not rest.endswith(b"\n") and (rest := pipe.readline(_PIECE)):
            pass
        digits = len(head) - len(head.lstrip(b"0123456789"))
        if digits:  # not the "--" between groups
            text = head[digits + 1 :].rstrip(b"\n").decode("utf-8", "replace")
            cut = "..." if len(text) > max_chars else ""
            yield Line(int(head[:digits]), text[:max_chars] + cut, head[digits : digits + 1] == b":")


def find_ripgrep(root: Path) -> str | None:
    """Where ripgrep is installed; one that lies in the workspace itself is not trusted."""
    found = find_program("rg")
    if found is None or Path(found).resolve().is_relative_to(root):
        return None
    return found if _is_ripgrep(found) else None


@functools.lru_cache(maxsize=8)
def _is_ripgrep(path: str) -> bool:
    """A wrapper that misses its environment would end as ripgrep does when nothing matches."""
    return _try((path, "--no-config", "--version")).stdout.startswith(b"ripgrep")


@functools.lru_cache(maxsize=64)
def _command(wanted: LinePattern, ripgrep: str | None) -> _Command:
    """The first program that understands it: ripgrep knows no look-around, Python no ``[[:alpha:]]``."""
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
        )
        more = ("--ignore-case" if wanted.ignore_case else "--case-sensitive", f"--context={wanted.context}")
        given = pattern if sys.platform == "win32" else pattern.encode()
        commands.append((ripgrep, *options, *more, "-e", given, "-"))
    arguments = (pattern.encode().hex(), str(int(wanted.ignore_case)), str(wanted.context))
    commands.append(tuple(script_argv(_PROGRAM, *arguments)))
    problem = ""
    for command in commands:
        done = _try(command)
        if done.returncode in (0, _NO_MATCH):
            return command
        problem = done.stderr.decode("utf-8", "replace").strip()
    raise WorkspaceError(say("bad_regex", pattern=pattern[:200], problem=problem[:300]))


def _try(command: _Command) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - as above
            command,
            input=b"",
            capture_output=True,
            check=False,
            env=_environment(),
            cwd=ELSEWHERE,
            timeout=CHECK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, _BAD_PATTERN, b"", say("slow_regex").encode())
    except OSError as error:
        return subprocess.CompletedProcess(command, _BAD_PATTERN, b"", str(error).encode())
