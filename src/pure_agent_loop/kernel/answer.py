"""The final answer while it comes in: cut off and continued, empty and asked for again, or whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse
from pure_agent_loop.stop_reasons import COMPLETED
from pure_agent_loop.support.typed import dataclass

MAX_CONTINUATIONS = 3
ONCE_MORE = ("continue_answer", "empty_answer")  # the prompts that send the model on


@dataclass(slots=True)
class Answer:
    """An answer in progress.

    Args:
        pieces: Its text: more than one where it was cut off and continued.
        note: A visible sentence behind it, when a limit ended the run.
        continued: How often it was cut off and continued.
        asked_again: True once an empty answer was asked for again.
        output_raised: True once the output limit cut off a call, or everything; a limit of the caller is
            doubled then.
    """

    pieces: list[str] = field(default_factory=list)
    note: str = ""
    continued: int = 0
    asked_again: bool = False
    output_raised: bool = False

    @property
    def content(self) -> str:
        """The text as a user reads it, with the note behind it."""
        text = "".join(self.pieces)
        return f"{text}\n\n{self.note}" if text and self.note else text or self.note

    def take(self, response: LLMResponse) -> None:
        """Take in what the model has just written."""
        is_cut = response.finish_reason == "length"
        lacks_all = not response.content and not response.tool_calls
        if is_cut and (lacks_all or any(call.invalid for call in response.tool_calls)):
            self.output_raised = True
        if response.tool_calls:  # what was said before a call is no part of the answer
            self.pieces, self.continued = [], 0
        elif response.content:
            self.pieces.append(response.content)

    def judge(self, response: LLMResponse) -> str:
        """What an answer without calls means.

        Returns:
            A stop reason, or one of `ONCE_MORE`.

        Raises:
            LLMError: It is empty for the second time.
        """
        if response.finish_reason in ("content_filter", OUTPUT_LIMIT):
            return str(response.finish_reason)
        if not response.content:
            return self._after_empty()
        if response.finish_reason != "length":
            return COMPLETED
        if self.continued >= MAX_CONTINUATIONS:
            return "output_limit"
        self.continued += 1
        return "continue_answer"

    def _after_empty(self) -> str:
        if self.pieces:  # it was cut off, and no more came
            return "output_limit"
        if self.asked_again:
            raise LLMError("The model gave an empty answer, twice.", kind="incomplete")
        self.asked_again = True
        return "empty_answer"

    def begin_anew(self) -> None:
        """Something more was asked: what follows is another answer."""
        self.pieces, self.continued, self.asked_again = [], 0, False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form, as part of the state's."""
        return {
            "answer": list(self.pieces),
            "note": self.note,
            "max_output_recovery_count": self.continued,
            "asked_again": self.asked_again,
            "output_raised": self.output_raised,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """The reverse of :meth:`to_dict`."""
        known = (data["note"], data["max_output_recovery_count"], data["asked_again"], data["output_raised"])
        return cls(list(data["answer"]), *known)
