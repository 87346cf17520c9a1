"""The part of a state that knows which calls wait for a person, and what was decided about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import (
    Permission,
    PermissionRequest,
    Ruling,
    Verdict,
    as_answer,
    call_key,
    to_arguments,
)


class Questions(ABC):
    """What `QueryState` can do about permissions; it holds the values."""

    pending: list[ToolCall]
    rulings: dict[str, Ruling]
    denied: dict[str, str]
    always_allowed: list[str]
    must_close: str

    @property
    @abstractmethod
    def step(self) -> int:
        """Number of the step the run is in."""

    @property
    def questions(self) -> list[PermissionRequest]:
        """The pending calls that wait for an answer of a person."""
        return [
            PermissionRequest(call.id, call.name, ruling.args, ruling.message, self.step)
            for call in self.pending
            if (ruling := self.rulings.get(call.id)) is not None and ruling.behavior == "ask"
        ]

    def answer_permission(self, call_id: str, verdict: Verdict) -> None:
        """Answer one of the `questions`. Once all are answered the run can go on.

        Args:
            call_id: Which one.
            verdict: ``allow``, ``deny``, or a `Permission` that says more.

        Raises:
            ConfigError: Nothing is asked about that call, or the verdict is neither.
        """
        asked = {question.call_id: question for question in self.questions}
        if call_id not in asked:
            waiting = ", ".join(asked) or "none"
            raise ConfigError(f"No question waits for the call {call_id!r}. Waiting: {waiting}.")
        self.rule(call_id, as_answer(verdict), asked[call_id].args)

    def rule(self, call_id: str, permission: Permission, args: dict[str, Any]) -> Ruling:
        """Write down what was decided about a pending call."""
        call = next(call for call in self.pending if call.id == call_id)
        if permission.behavior == "deny":
            self.denied[call_key(call.name, call.arguments)] = permission.message
            if permission.interrupt:
                self.must_close = "permission_denied"
            ruling = Ruling("deny", args, "PermissionDenied", permission.message)
        else:
            updated = args if permission.updated_args is None else to_arguments(permission.updated_args)
            if permission.always and call.name not in self.always_allowed:
                self.always_allowed.append(call.name)
            ruling = Ruling(
                permission.behavior, updated, message=permission.message, read_only=permission.read_only
            )
        self.rulings[call_id] = ruling
        return ruling
