"""Results file: one line of JSON per question, so that a run can be resumed."""

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
class QuestionResult:
    """Result of one question.

    Args:
        id: The question.
        set: Its set.
        run: Model and settings; records of different runs are never mixed.
        messages: The request to the model.
        calls: Its calls: ``{"name", "arguments"}``, and ``"invalid"`` for unusable arguments.
        text: Its text.
        right: The verdict.
        error_type: Kind of error; starts with ``request:`` if the request failed. Empty if right.
        error: The error as a sentence.
        seconds: From request to answer, of the last attempt.
        finish_reason: Why the answer ended.
        requests: Requests the client sent for it, if reported.
        usage: Tokens, if reported by the server.
        kills: Times that the agent was killed.
        unknown: Calls whose outcome was unknown after a kill.
        same_state: Whether the final state is that of the right calls; None if nothing has a state.
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
    kills: int = 0
    unknown: int = 0
    same_state: bool | None = None

    @property
    def answered(self) -> bool:
        """False if the request failed, which says nothing about the model."""
        return not self.error_type.startswith(REQUEST_FAILED)


_FIELDS = frozenset(field_.name for field_ in fields(QuestionResult))
_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "set": str,
    "run": str,
    "messages": list,
    "right": bool,
    "error_type": str,
    "seconds": (int, float),
}


def parse_line(line: str) -> QuestionResult | None:
    """Parse a line to a record; None for a torn write or a foreign line."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not all(isinstance(data.get(name), t) for name, t in _TYPES.items()):
        return None
    # Ignore fields of a newer version, so that its results are reused.
    return QuestionResult(**{name: value for name, value in data.items() if name in _FIELDS})


class ResultsFile:
    """Results file of one run. Use it as a context manager, or call `close`.

    Args:
        path: The file; created if missing.
        run: Model and settings.

    Attributes:
        records: Records in the file when it was opened, by question; the last line counts.
        broken: Number of unreadable lines.

    Raises:
        ConfigError: The file cannot be read or written, belongs to another run, or is not a results file.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self.records: dict[str, QuestionResult] = {}
        self.broken = 0
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            self._read(text.splitlines(), run)
            self._file = path.open("a", encoding="utf-8", newline="\n")
            if text and not text.endswith("\n"):
                self._file.write("\n")  # end a torn line, so that the next record has its own
        except OSError as error:
            raise ConfigError(f"The results file {path} cannot be used: {error}") from error

    def _read(self, lines: Iterable[str], run: str) -> None:
        for line in filter(str.strip, lines):
            record = parse_line(line)
            if record is None:
                self.broken += 1
            elif record.run != run:
                raise ConfigError(
                    f"{self.path} contains the results of another run ({record.run!r}, not {run!r}). "
                    "Use another file, or delete this one."
                )
            else:
                self.records[record.id] = record
        if self.broken and not self.records:
            raise ConfigError(f"{self.path} is not a results file. Use another file.")

    def add(self, record: QuestionResult) -> None:
        """Write a record and flush it."""
        self._file.write(json.dumps(asdict(record)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
