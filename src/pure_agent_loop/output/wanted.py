"""What the loop knows of a typed answer."""

from __future__ import annotations

from typing import Any, Protocol

from pure_agent_loop.llm.values import Delta


class PartialOutput(Protocol):
    """Reads a typed answer while it is written."""

    def feed(self, delta: Delta) -> list[Any]:
        """What has come so far, as a list of one; empty if that is nothing new."""
        ...


class Output(Protocol):
    """What a run's answer has to be."""

    retries: int

    @property
    def response_format(self) -> dict[str, Any] | None:
        """What a request asks for; None for nothing."""
        ...

    def partial(self) -> PartialOutput | None:
        """Reads an answer while it is written."""
        ...

    async def judge(self, text: str) -> tuple[dict[str, Any], Any]:
        """``{"value": ...}`` in plain form with the output itself, or ``{"why": ...}``."""
        ...

    def load(self, plain: Any) -> Any:
        """The output from its plain form."""
        ...

    def complaint(self, why: str) -> str:
        """What the model is told about an answer that cannot be taken."""
        ...
