"""Log of ``pal worker`` and ``pal serve``: one line per event, with time and level, as text or JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from pure_agent_loop.support.language import TranslatedText, in_user_language
from pure_agent_loop.support.terminal import safe_text
from pure_agent_loop.support.text import safe_str, to_jsonable

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_OURS, _ACCESS = "pure_agent_loop", "pure_agent_loop.server.access"


def add_log_options(parser: Any) -> None:
    """Add ``--log-format`` and ``--log-level``."""
    parser.add_argument(
        "--log-format", choices=FORMATS, default=FORMATS[0], help="format of the log lines (default: text)"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="lowest level to log (default: info)"
    )


class LogFormatter(logging.Formatter):
    """Formatter of log lines. Tracebacks are shown only with ``PAL_DEBUG``.

    For a message from the catalogue, a JSON line has the message's name as ``event``, and its values as
    fields.

    Args:
        form: One of `FORMATS`.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self._is_json = form == "json"
        self._has_tracebacks = bool(os.environ.get("PAL_DEBUG"))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record, without the line ending."""
        fields = getattr(record, "fields", None)  # fields of a request; see `server.gate`
        if fields is not None and not self._is_json:
            return record.getMessage()
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
        }
        message = record.msg if isinstance(record.msg, TranslatedText) else record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = f"{type(error).__name__}: {safe_str(error)}"
            if self._has_tracebacks:
                line["traceback"] = self.formatException(record.exc_info)
        return self._as_json(line, message, fields) if self._is_json else self._as_text(line, message)

    def _as_json(self, line: dict[str, Any], message: str, fields: dict[str, Any] | None) -> str:
        if isinstance(message, TranslatedText):
            line["event"] = message.id.rpartition(".")[2]
            fields = {
                name: to_jsonable(value)
                for name, value in message.values.items()
                # A translated fragment of the sentence is not a field.
                if not isinstance(value, TranslatedText)
            }
        line["message"] = str(message) if fields is None or "event" in line else "request"
        return json.dumps(
            {**line, **{name: value for name, value in (fields or {}).items() if name not in line}}
        )

    def _as_text(self, line: dict[str, Any], message: str) -> str:
        said = [in_user_language(message), *([line["error"]] if "error" in line else [])]
        text = " ".join(part.strip() for part in said)
        if not self._has_tracebacks:
            text = " ".join(text.split("\n"))
        shown = f"{line['time']} {line['level'].upper():7} {safe_text(text)}"
        return f"{shown}\n{safe_text(line['traceback'])}" if "traceback" in line else shown

    def line(self, level: int, message: str) -> str:
        """Return the line for a message that does not come from `logging`."""
        return self.format(logging.LogRecord(_OURS, level, "", 0, message, None, None))


@contextmanager
def service_log(options: argparse.Namespace, write: Callable[[str], None]) -> Iterator[None]:
    """Show the log of the process within the block; see `CommandOutput.as_log`.

    Args:
        options: The options of `add_log_options`; with `access_log`, requests are also shown.
        write: Function that writes to standard error.
    """
    level = getattr(logging, options.log_level.upper())
    shows_requests = getattr(options, "access_log", False)
    levels = {
        logging.getLogger(): max(level, logging.WARNING),  # of libraries
        logging.getLogger(_OURS): level,
        logging.getLogger(_ACCESS): logging.INFO if shows_requests else logging.WARNING,
    }
    handler = _LineHandler(write, LogFormatter(options.log_format))
    before = {logger: logger.level for logger in levels}
    for logger, least in levels.items():
        logger.setLevel(least)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, least in before.items():
            logger.setLevel(least)


class _LineHandler(logging.Handler):
    """Handler that writes to standard error and skips repeated messages."""

    def __init__(self, write: Callable[[str], None], formatter: LogFormatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._write, self._last = write, ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last or record.name == _ACCESS:
            self._last = text
            self._write(f"{self.format(record)}\n")
