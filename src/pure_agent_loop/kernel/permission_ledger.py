"""Which calls wait for a person, and what was decided about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import Behavior, Permission, PermissionRequest
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.typed import dataclass

NO_CALLS_LEFT = "LimitReached"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided about one call. Part of the state, so that nothing is decided or asked twice.

    Args:
        behavior: ``allow``: it runs with `args`; ``deny``: it does not; ``ask``: it waits for a person.
        args: The arguments in force.
        kind: Why it is denied, in one word, such as ``PermissionDenied`` or ``RepeatedCall``.
        message: Why, in words.
        read_only: With ``allow``: it runs so that it changes nothing.
    """

    behavior: Behavior
    args: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    message: str = ""
    read_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ruling:
        """The reverse of :meth:`to_dict`."""
        return cls(**data)


@dataclass(slots=True)
class PermissionLedger:
    """What was decided about calls.

    Args:
        rulings: About the pending calls, by call id.
        denied: Calls that were refused, with the reason: they are not asked about again.
        always_allowed: Tools that a person allowed for the whole run.
        denied_rounds: How many rounds in a row had no call that was allowed.
    """

    rulings: dict[str, Ruling] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)
    always_allowed: list[str] = field(default_factory=list)
    denied_rounds: int = 0

    def questions(self, pending: Sequence[ToolCall], step: int) -> list[PermissionRequest]:
        """What a person has to answer about the pending calls of a step."""
        return [
            PermissionRequest(call.id, call.name, ruling.args, ruling.message, step)
            for call in pending
            if (ruling := self.rulings.get(call.id)) is not None and ruling.behavior == "ask"
        ]

    def rule(self, call: ToolCall, permission: Permission, args: dict[str, Any]) -> Ruling:
        """Write down what was decided about a pending call."""
        if permission.behavior == "deny":
            self.denied[call_key(call.name, call.arguments)] = permission.message
            ruling = Ruling("deny", args, "PermissionDenied", permission.message)
        else:
            updated = args if permission.updated_args is None else to_arguments(permission.updated_args)
            if permission.always and call.name not in self.always_allowed:
                self.always_allowed.append(call.name)
            ruling = Ruling(
                permission.behavior, updated, message=permission.message, read_only=permission.read_only
            )
        self.rulings[call.id] = ruling
        return ruling

    def is_too_many(self, call_id: str) -> bool:
        """True if a pending call is not made because no more were left."""
        ruling = self.rulings.get(call_id)
        return ruling is not None and ruling.kind == NO_CALLS_LEFT

    def count_round(self, calls: Sequence[ToolCall]) -> None:
        """Note whether any of these calls was allowed; see `denied_rounds`."""
        allowed, refused = False, False
        for call in calls:
            ruling = self.rulings[call.id]
            allowed = allowed or ruling.behavior == "allow"
            refused = refused or ruling.kind == "PermissionDenied"
        self.denied_rounds = self.denied_rounds + 1 if refused and not allowed else 0

    def forget_refusals(self) -> None:
        """They were about another task."""
        self.denied, self.denied_rounds = {}, 0

    def refuse(self, calls: Sequence[ToolCall], message: str) -> None:
        """Decide that pending calls are not made, because no more are left."""
        for call in calls:
            self.rulings[call.id] = Ruling("deny", call.arguments, NO_CALLS_LEFT, message)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "rulings": {call_id: ruling.to_dict() for call_id, ruling in self.rulings.items()},
            "denied": dict(self.denied),
            "always_allowed": list(self.always_allowed),
            "denied_rounds": self.denied_rounds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PermissionLedger:
        """The reverse of :meth:`to_dict`."""
        rulings = {call_id: Ruling.from_dict(each) for call_id, each in data["rulings"].items()}
        return cls(rulings, dict(data["denied"]), list(data["always_allowed"]), data["denied_rounds"])


def to_arguments(value: object) -> dict[str, Any]:
    """Arguments given by a function of the user, as plain JSON: they become part of the state.

    Raises:
        ConfigError: They are no object.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(say("no_arguments", value=f"{value!r:.80}"))
    plain: dict[str, Any] = to_jsonable(value)
    return plain


def call_key(tool: str, args: Mapping[str, Any]) -> str:
    """The same text for the same call."""
    return f"{tool} {json.dumps(args, sort_keys=True, default=str)}"
