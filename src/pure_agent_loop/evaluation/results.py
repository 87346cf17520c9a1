"""The results file: one JSON object a line for each question, so that a run can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

REQUEST_FAILED = "request:"


@dataclass(frozen=True, slots=True)
class Record:
    """What happened with one question.

    Args:
        id: The question.
        set: Its set.
        run: Which model was asked, and how; records of different runs are never mixed.
        messages: What the model was asked.
        calls: What it called: ``{"name", "arguments"}``, and ``"invalid"`` where they were unusable.
        text: What it wrote besides.
        right: The verdict.
        error_type: What was wrong; starts with ``request:`` if there was no answer. Empty if right.
        error: The same in a sentence.
        seconds: From request to answer, of the last try.
        finish_reason: Why the answer ended.
        requests: Requests the client sent for it, if the client says so.
        usage: Tokens, if the server said so.
    """

    id: str
    set: str
    run: str
    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]] = field(default_factory=list)
    text: str | None = None
    right: bool = False
    error_type: str = ""
    error: str = ""
    seconds: float = 0.0
    finish_reason: str | None = None
    requests: int | None = None
    usage: dict[str, Any] | None = None

    @property
    def answered(self) -> bool:
        """False if the request failed: then nothing about the model is known."""
        return not self.error_type.startswith(REQUEST_FAILED)


_FIELDS = frozenset(each.name for each in fields(Record))
_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "set": str,
    "run": str,
    "messages": list,
    "right": bool,
    "error_type": str,
    "seconds": (int, float),
}


def parse_line(line: str) -> Record | None:
    """The record on a line, or None if there is none: torn writes and foreign lines are not results."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not all(isinstance(data.get(name), t) for name, t in _TYPES.items()):
        return None
    # A newer version may have written more; that is no reason to ask everything again.
    return Record(**{name: value for name, value in data.items() if name in _FIELDS})


class ResultsFile:
    """The results of one run. Use it as a context manager, or call `close`.

    Args:
        path: The file; it is made if missing.
        run: Which model is asked, and how.

    Attributes:
        records: What the file held when it was opened, by question; the last line of each counts.
        broken: How many lines could not be read.

    Raises:
        ConfigError: It cannot be read or written, belongs to another run, or holds something else.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        self.broken = 0
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            self._read(text.splitlines(), run)
            self._file = path.open("a", encoding="utf-8", newline="\n")
            if text and not text.endswith("\n"):
                self._file.write("\n")  # a write was torn; what comes next must not be glued to it
        except OSError as error:
            raise ConfigError(f"The results file {path} cannot be used: {error}") from error

    def _read(self, lines: Iterable[str], run: str) -> None:
        for line in filter(str.strip, lines):
            record = parse_line(line)
            if record is None:
                self.broken += 1
            elif record.run != run:
                raise ConfigError(
                    f"{self.path} holds the results of another run ({record.run!r}, not {run!r}). "
                    "Name another file, or delete it."
                )
            else:
                self.records[record.id] = record
        if self.broken and not self.records:
            raise ConfigError(f"{self.path} holds something else than results. Name another file.")

    def add(self, record: Record) -> None:
        """Write a record, at once."""
        self._file.write(json.dumps(asdict(record)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
