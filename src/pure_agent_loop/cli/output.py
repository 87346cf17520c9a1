"""Where a command writes: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from pure_agent_loop.support.terminal import is_terminal, safe_text, wants_colour

PREFIX = "pal: "
SCHEMA_VERSION = 1  # of each JSON object that a command prints
DIM, RED = "2", "31"
WIDTH, MOST_WIDTH = 80, 110  # where no terminal says another one; of a wide terminal


class ResultLostError(Exception):
    """Standard output takes nothing more. Its text is empty if the reader just went away."""


class Output:
    """The two streams of a command.

    Args:
        out: For results; ``sys.stdout`` if None.
        err: For progress and messages; ``sys.stderr`` if None.
        colour: False forbids colours, whatever the environment says.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, colour: bool = True) -> None:
        # Either may be None: a process can be started with closed streams.
        self._out: TextIO | None = sys.stdout if out is None else out
        self._err: TextIO | None = sys.stderr if err is None else err
        for stream in (self._out, self._err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # not every terminal can show every character
        self.err_is_terminal = is_terminal(self._err)
        self.out_is_terminal = is_terminal(self._out)
        self.colour = colour and wants_colour(self._err)
        self._unfinished = False
        self._secrets: list[str] = []

    def hide(self, secret: str | None) -> None:
        """Never write `secret` from now on."""
        if secret and len(secret) >= 8:
            self._secrets.append(secret)

    def result(self, text: str) -> None:
        """Write to standard output, at once.

        Raises:
            ResultLostError: It could not be written.
        """
        if self.out_is_terminal:
            self.end_line()
        if self._out is None:
            return
        try:
            self._out.write(self._without_secrets(text))
            self._out.flush()
        except (OSError, ValueError) as error:
            _abandon(self._out)
            raise ResultLostError("" if isinstance(error, BrokenPipeError) else str(error)) from error

    def json(self, value: Mapping[str, Any]) -> None:
        """Write one JSON object as a result, on a line of its own; its version leads.

        Raises:
            ResultLostError: It could not be written.
        """
        self.result(json.dumps({"schema_version": SCHEMA_VERSION, **value}, allow_nan=False) + "\n")

    def progress(self, text: str) -> None:
        """Write to standard error as it is. Nobody listening there is no reason to stop."""
        if not text or self._err is None:
            return
        try:
            self._err.write(self._without_secrets(text))
            self._err.flush()
        except (OSError, ValueError):
            _abandon(self._err)
            self._err = None
        self._unfinished = not text.endswith("\n")

    def typed_line(self) -> None:
        """Enter was pressed at the terminal: the line begun on standard error is finished."""
        self._unfinished = False

    def end_line(self) -> None:
        """Finish the line begun on standard error, if there is one."""
        if self._unfinished:
            self.progress("\n")

    def say(self, message: str) -> None:
        """Write a message of ours on standard error, cleaned, on lines of its own."""
        self.end_line()
        self.progress(self._style(DIM, f"{PREFIX}{safe_text(message)}") + "\n")

    def fail(self, message: str) -> None:
        """Write what went wrong on standard error, cleaned, on lines of its own."""
        self.end_line()
        self.progress(f"{PREFIX}{self._style(RED, 'error:')} {safe_text(message)}\n")

    @property
    def width(self) -> int:
        """How many columns a line of a result should have at most."""
        if not self.out_is_terminal:
            return WIDTH
        return min(shutil.get_terminal_size((WIDTH, 24)).columns, MOST_WIDTH)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _style(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def error_fileno(self) -> int | None:
        """The descriptor of standard error, for writing from a signal handler."""
        try:
            return None if self._err is None else self._err.fileno()
        except (OSError, ValueError):
            return None


def _abandon(stream: TextIO) -> None:
    """Point a broken stream at nothing, so that the interpreter's last flush does not fail as well."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        return
