"""Permission decisions on calls, part of a run's state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.guard import without
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import (
    Permission,
    PermissionRequest,
    PermissionRules,
    PlainOrigin,
    Ruling,
    wider_rules,
)
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import to_jsonable

NO_CALLS_LEFT = "LimitReached"


@dataclass(slots=True)
class PermissionLedger:
    """Permission decisions on calls.

    Args:
        rulings: Decisions on the pending calls, by call id.
        denied: Denied calls with their reasons; no further question is asked about them.
        always_allowed: Tools, rules and individual calls that a person allowed for the whole run.
        denied_rounds: Number of consecutive rounds without an allowed call.
        known: What people wrote in answers, and recipients that they made known; see `Permission`.
        is_guarded: True once the run has been in ``guard`` mode; after that, the history records where its
            texts come from.
    """

    rulings: dict[str, Ruling] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)
    always_allowed: list[str] = field(default_factory=list)
    denied_rounds: int = 0
    known: list[str] = field(default_factory=list)
    is_guarded: bool = False

    def for_next(self) -> PermissionLedger:
        """Return the ledger for the next run on the same history, with what people allowed or made known."""
        return PermissionLedger(
            always_allowed=list(self.always_allowed), known=list(self.known), is_guarded=self.is_guarded
        )

    def questions(self, pending: Sequence[ToolCall], step: int) -> list[PermissionRequest]:
        """Return the open questions about the pending calls of a step."""
        return [
            PermissionRequest(
                call.id,
                call.name,
                ruling.args,
                ruling.message,
                step,
                origins=ruling.origins,
                title=ruling.title,
            )
            for call in pending
            if (ruling := self.rulings.get(call.id)) is not None and ruling.behavior == "ask"
        ]

    def rule(
        self,
        call: ToolCall,
        permission: Permission,
        args: dict[str, Any],
        origins: Sequence[PlainOrigin] = (),
        title: str = "",
    ) -> Ruling:
        """Record the ruling on a pending call.

        Args:
            origins: Where the call's values come from.
            title: For a question: the question, as the tool words it.
        """
        told = self._told(call.id, origins) if self.is_guarded else []
        if permission.behavior == "deny":
            self.denied[call_key(call.name, call.arguments)] = permission.message
            ruling = Ruling("deny", args, "PermissionDenied", permission.message, origins=told)
        else:
            updated = args if permission.updated_args is None else to_arguments(permission.updated_args)
            if permission.similar and told and self._knows_recipients(told):
                pass  # only this call is allowed
            elif allowed := further_allowed(permission, call.name, updated):
                self.always_allowed = list(dict.fromkeys([*self.always_allowed, *allowed]))
            ruling = Ruling(
                permission.behavior,
                updated,
                message=permission.message,
                read_only=permission.read_only,
                origins=told,
                title=title,
            )
        self.rulings[call.id] = ruling
        return ruling

    def _told(self, call_id: str, origins: Sequence[PlainOrigin]) -> list[PlainOrigin]:
        before = self.rulings.get(call_id)
        return [dict(origin) for origin in origins] or ([] if before is None else before.origins)

    def _knows_recipients(self, origins: Sequence[PlainOrigin]) -> bool:
        recipients = [origin["value"] for origin in origins if origin["recipient"]]
        self.learn(*recipients)
        return bool(recipients)

    def learn(self, *texts: str, about: Sequence[PlainOrigin] = ()) -> None:
        """In ``guard`` mode, treat texts as the user's own words.

        Args:
            about: Origins of the values in the call that the texts answer. A strange value among these does
                not become known merely because a text repeats the value.
        """
        strange = [origin["value"] for origin in about if origin["is_strange"]]
        texts = tuple(without(text, strange) for text in texts) if self.is_guarded else ()
        self.known = list(dict.fromkeys([*self.known, *filter(None, texts)]))

    def is_too_many(self, call_id: str) -> bool:
        """Return True if a pending call exceeds the call limit."""
        ruling = self.rulings.get(call_id)
        return ruling is not None and ruling.kind == NO_CALLS_LEFT

    def count_round(self, calls: Sequence[ToolCall]) -> None:
        """Count a round if a call in it was denied and none was allowed; otherwise, reset `denied_rounds`."""
        allowed, refused = False, False
        for call in calls:
            ruling = self.rulings[call.id]
            allowed = allowed or ruling.behavior == "allow"
            refused = refused or ruling.kind == "PermissionDenied"
        self.denied_rounds = self.denied_rounds + 1 if refused and not allowed else 0

    def forget_refusals(self) -> None:
        """Clear the denials, because they belong to an earlier task."""
        self.denied, self.denied_rounds = {}, 0

    def refuse(self, calls: Sequence[ToolCall], message: str) -> None:
        """Deny pending calls that exceed the call limit."""
        for call in calls:
            self.rulings[call.id] = Ruling("deny", call.arguments, NO_CALLS_LEFT, message)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {
            "rulings": {call_id: ruling.to_dict() for call_id, ruling in self.rulings.items()},
            "denied": dict(self.denied),
            "always_allowed": list(self.always_allowed),
            "denied_rounds": self.denied_rounds,
            **({"known": list(self.known)} if self.known else {}),
            **({"is_guarded": True} if self.is_guarded else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PermissionLedger:
        """Build a ledger from what :meth:`to_dict` returned."""
        rulings = {call_id: Ruling.from_dict(ruling) for call_id, ruling in data["rulings"].items()}
        given = (dict(data["denied"]), list(data["always_allowed"]), data["denied_rounds"])
        return cls(rulings, *given, list(data.get("known", ())), bool(data.get("is_guarded")))


def has_call(allowed: Sequence[str], tool: str, args: Mapping[str, object]) -> bool:
    """Return True if a list from `further_allowed` contains the call's tool, or an equal call."""
    return bool(allowed) and (tool in allowed or call_key(tool, args) in allowed)


def rules_among(allowed: Sequence[str]) -> PermissionRules:
    """Return the rules in a list from `further_allowed`."""
    return PermissionRules(allow=[rule for rule in allowed if rule.endswith(")")], shared=True)


def further_allowed(permission: Permission, tool: str, args: Mapping[str, object]) -> list[str]:
    """Return what else an answer about one call allows: all calls to its tool, some rules, or equal calls."""
    if permission.always:
        return [tool]
    return (wider_rules(tool, args) or [call_key(tool, args)]) if permission.similar else []


def to_arguments(value: object) -> dict[str, Any]:
    """Convert arguments from a user function to plain JSON: they become part of the state.

    Raises:
        ConfigError: The arguments are not an object.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(model_text("no_arguments", value=f"{value!r:.80}"))
    plain: dict[str, Any] = to_jsonable(value)
    return plain


def call_key(tool: str, args: Mapping[str, object]) -> str:
    """Return a key that is equal for equal calls."""
    return f"{tool} {json.dumps(args, sort_keys=True, default=str)}"
