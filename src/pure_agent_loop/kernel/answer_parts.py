"""Parts of a response that is being written: text and reasoning; see `parts`."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.kernel.step import Step
from pure_agent_loop.parts import PartState, PartType, moved, new_part


class AnswerParts:
    """Text and reasoning of one response that is being written."""

    def __init__(self, step: Step) -> None:
        self._step, self._clock = step, step.kit.clock
        self._message_id = f"msg_{step.state.answers}"
        self._count = 0
        self._written: list[str] = []
        self.open: dict[str, Any] | None = None
        """Part that is being written, if any."""

    async def write(self, kind: PartType, text: str) -> None:
        """Add text of one kind; an open part of another kind is completed first."""
        if self.open is None or self.open["type"] != kind:
            await self.end("completed")
            self._count += 1
            now, name = self._clock.now(), f"{self._message_id}.{self._count}"
            part = new_part(name, self._message_id, kind, now, session_id=self._step.state.session_id)
            self.open = running = moved(part, "running", now)
            await self._step.send_part(part)
            await self._step.send_part({**running})
        self._written.append(text)

    async def end(self, state: PartState) -> None:
        """End the open part as completed or, if the response failed, as an error."""
        # Clear `open` first, so that a part is not ended twice if sending fails.
        part, self.open = self.open, None
        if part is not None:
            output, self._written = "".join(self._written), []
            await self._step.send_part(moved(part, state, self._clock.now(), output))
