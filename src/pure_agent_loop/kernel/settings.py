"""Settings of a run that belong together. Their names are those of `Agent`, so that an error names them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pure_agent_loop.budget import check_limit
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.typed import dataclass

if TYPE_CHECKING:
    from pure_agent_loop.kernel.tools.observers import Auditor, Snapshots


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait; None for no limit.

    Args:
        first_byte: For an answer to begin.
        idle: For the next piece of an answer.
        tool: For a tool, unless it says otherwise.
    """

    first_byte: float | None = 60.0
    idle: float | None = 60.0
    tool: float | None = 120.0

    def __post_init__(self) -> None:
        for each in fields(self):
            check_limit(f"{each.name}_timeout", getattr(self, each.name))


class ResultLimits(NamedTuple):
    """How much of a tool's result enters the history; see `long_results`.

    Args:
        max_chars: A longer result is cut.
        max_error_chars: The same for the result of a call that failed.
        folder: Where the whole texts are kept; None for a folder in the data folder.
    """

    max_chars: int = 30_000
    max_error_chars: int = 4_000
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class ToolRetries:
    """How a tool marked ``idempotent`` is repeated before its error goes to the model.

    Args:
        attempts: How often it is tried.
        delay: Seconds between these tries.
    """

    attempts: int = 1
    delay: float = 1.0

    def __post_init__(self) -> None:
        delay: object = self.delay
        if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not 0 <= delay < float("inf"):
            raise ConfigError(f"tool_retry_delay={delay!r} must be a number of seconds, 0 or more.")


class Observers(NamedTuple):
    """Who watches the tools of a run.

    Args:
        audit: Writes down every call.
        snapshots: Knows what a step changed in the workspace.
    """

    audit: Auditor | None = None
    snapshots: Snapshots | None = None
