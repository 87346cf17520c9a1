"""Interface between the loop and typed answers."""

from __future__ import annotations

from typing import Any, Protocol

from pure_agent_loop.llm.values import Delta


class PartialOutput(Protocol):
    """Reads a typed answer while the answer is being streamed."""

    def feed(self, delta: Delta) -> list[Any]:
        """Return the value so far, as a list of one; empty if unchanged."""


class OutputSpec(Protocol):
    """Output specification of a run."""

    retries: int

    @property
    def response_format(self) -> dict[str, Any] | None:
        """The response format for requests; None for text."""

    def partial(self) -> PartialOutput | None:
        """Return a reader for a streamed answer; None for text."""

    async def judge(self, text: str) -> tuple[dict[str, Any], Any]:
        """Return ``{"value": ...}`` in plain form or ``{"why": ...}``, and the output itself."""

    def load(self, plain: Any) -> Any:
        """Restore an output from its plain form."""
