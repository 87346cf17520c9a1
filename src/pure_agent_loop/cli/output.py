"""Write results to standard output and all other text to standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from pure_agent_loop.errors import (
    AlreadyAnsweredError,
    AuditError,
    MissingExtraError,
    SessionLockedError,
    SessionWriteError,
)
from pure_agent_loop.support.language import (
    LANGUAGES,
    TranslatedText,
    in_user_language,
    user_language,
    user_text,
)
from pure_agent_loop.support.terminal import (
    columns_of,
    fitted,
    is_terminal,
    knows_escapes,
    safe_text,
    wants_colour,
)
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.variables import former_names

if TYPE_CHECKING:
    import argparse

    from pure_agent_loop.cli.service_log import LogFormatter

PREFIX = "pal: "
SCHEMA_VERSION = 1  # written to every JSON object that a command prints
BOLD, DIM, RED = "1", "2", "31"
WIDTH, MAX_WIDTH = 80, 110  # columns if there is no terminal; maximum on a terminal
_CURRENCY_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "CNY": "¥", "INR": "₹"}
# Messages for errors whose English text is built from their fields.
_MESSAGES: dict[type[BaseException], str] = {
    AlreadyAnsweredError: "cli.already_answered",
    AuditError: "cli.audit_error",
    MissingExtraError: "cli.extra",
    SessionLockedError: "cli.session_locked",
    SessionWriteError: "cli.session_write",
}


def counted(number: int, noun: str) -> TranslatedText:
    """Return a count with its noun, such as ``1 step`` or ``2 steps``.

    Args:
        noun: The messages are ``one_NOUN`` and ``more_NOUNs``.
    """
    return TranslatedText(f"cli.one_{noun}" if number == 1 else f"cli.more_{noun}s", count=number)


def former_names_notice() -> str:
    """Return one notice about all variables that are set under a former name; empty if there are none."""
    names = [
        user_text("cli.renamed_name", former=former, name=name) for former, name in former_names().items()
    ]
    return user_text("cli.renamed", names=", ".join(names)) if names else ""


def error_text(error: BaseException) -> str:
    """Return the text of an error, in the user's language if the catalogue has its message.

    A failed request has up to three lines: what happened, what to do, and why.
    """
    from pure_agent_loop.support.explained import explain, failure_lines  # only for an error

    text = in_user_language(error_notice(error))
    if lines := failure_lines({"error": text, **explain(error)._asdict()}, user_language()):
        return "\n  ".join(lines)
    if type(error) in _MESSAGES and user_language() != LANGUAGES[0]:
        return user_text(_MESSAGES[type(error)], **vars(error))
    return text


def error_notice(error: BaseException) -> str:
    """Return the message of an error: from the catalogue if it has one, else the error's text."""
    text = error.args[0] if error.args else ""
    return text if isinstance(text, TranslatedText) and str(error) == text else safe_str(error)


class ResultLostError(Exception):
    """Standard output cannot be written. The error message is empty if the reader has closed the pipe."""


def money(cost: float, currency: str = "USD") -> str:
    """Format a cost, such as ``$1.20``, ``$0.0004``, ``1.20 SEK``, or ``1.20`` in an unnamed currency.

    Args:
        currency: The code of the currency, such as ``USD``; see `currency_of`.
    """
    sign = _CURRENCY_SIGNS.get(currency, "")
    shown = f"{sign}{cost:.2f}" if cost >= 0.01 or not cost else f"{sign}{max(cost, 0.0001):.4f}"
    return f"{'<' if 0 < cost < 0.0001 else ''}{shown} {'' if sign else currency}".rstrip()


def currency_of(price: object) -> str:
    """Return the currency of the prices in use; empty if the caller has set a `price`."""
    from pure_agent_loop.llm.prices import price_list  # reads a file

    return price_list().currency if price is None else ""


class CommandOutput:
    """Standard output and standard error of a command.

    Args:
        out: Stream for results; ``sys.stdout`` if None.
        err: Stream for progress and messages; ``sys.stderr`` if None.
        colour: False disables colours regardless of the environment.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, colour: bool = True) -> None:
        # Either stream may be None, because a process can be started with closed streams.
        self._out: TextIO | None = sys.stdout if out is None else out
        self._err: TextIO | None = sys.stderr if err is None else err
        for stream in (self._out, self._err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # some terminals cannot show every character
        self.err_is_terminal = is_terminal(self._err)
        self.out_is_terminal = is_terminal(self._out)
        self.can_clear = self.err_is_terminal and knows_escapes()
        self.colour = colour and wants_colour(self._err)
        self.result_colour = colour and wants_colour(self._out)
        self._unfinished = False
        self._secrets: list[str] = []
        self._formatter: LogFormatter | None = None
        self._least = logging.INFO

    def as_log(self, options: argparse.Namespace) -> None:
        """Switch messages and errors to log lines, if the command has log options."""
        if hasattr(options, "log_format"):
            from pure_agent_loop.cli.service_log import LogFormatter

            self._formatter = LogFormatter(options.log_format)
            self._least = getattr(logging, options.log_level.upper())

    def hide(self, secret: str | None) -> None:
        """Replace `secret` by ``***`` in all further output."""
        if secret and len(secret) >= 8:
            self._secrets.append(secret)

    def result(self, text: str) -> None:
        """Write to standard output and flush.

        Raises:
            ResultLostError: Standard output could not be written.
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

    def paint(self, code: str, text: str) -> str:
        """Return a part of a result with an SGR color code, if standard output shows colors."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.result_colour else text

    def json(self, value: Mapping[str, Any]) -> None:
        """Write one JSON object on one line, ``schema_version`` first.

        Raises:
            ResultLostError: Standard output could not be written.
        """
        self.result(json.dumps({"schema_version": SCHEMA_VERSION, **value}, allow_nan=False) + "\n")

    def progress(self, text: str) -> None:
        """Write text to standard error unchanged. A closed stderr must not stop the run."""
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
        """Record that Enter has ended the current line of standard error."""
        self._unfinished = False

    def end_line(self) -> None:
        """End an unfinished line on standard error."""
        if self._unfinished:
            self.progress("\n")

    def info(self, message: str) -> None:
        """Write a message to standard error on separate lines, without control characters."""
        self.end_line()
        if self._formatter is not None:
            if self._least <= logging.INFO:
                self.progress(f"{self._formatter.line(logging.INFO, message)}\n")
            return
        text = f"{PREFIX}{safe_text(in_user_language(message))}"
        self.progress(self._style(DIM, fitted(text, self._err)) + "\n")

    def fail(self, problem: str | BaseException) -> None:
        """Write an error to standard error on separate lines, without control characters."""
        self.end_line()
        if self._formatter is not None:
            message = problem if isinstance(problem, str) else error_notice(problem)
            self.progress(f"{self._formatter.line(logging.ERROR, message)}\n")
            return
        error = self._style(RED, user_text("cli.error"))
        message = in_user_language(problem) if isinstance(problem, str) else error_text(problem)
        text = f"{PREFIX}{error}{safe_text(message)}"
        self.progress(fitted(text, self._err) + "\n")

    @property
    def error_columns(self) -> int:
        """Columns of standard error; `WIDTH` if it is not a terminal."""
        return columns_of(self._err) or WIDTH

    def question(self, text: str) -> None:
        """Write a question to standard error; the answer is typed on the same line."""
        self.progress(fitted(text, self._err))

    def lines(self, text: str) -> None:
        """Write lines for a person to standard output, at a terminal wrapped between words.

        Raises:
            ResultLostError: Standard output could not be written.
        """
        self.result(fitted(text, self._out))

    @property
    def width(self) -> int:
        """Maximum columns of a result line."""
        return min(columns_of(self._out) or WIDTH, MAX_WIDTH)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _style(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def error_fileno(self) -> int | None:
        """Return the file descriptor of standard error, for signal handlers."""
        try:
            return None if self._err is None else self._err.fileno()
        except (OSError, ValueError):
            return None


def _abandon(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that the final flush of the interpreter succeeds."""
    with suppress(OSError, ValueError):
        redirect_to_null(stream.fileno())


def redirect_to_null(descriptor: int) -> None:
    """Redirect a file descriptor to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
