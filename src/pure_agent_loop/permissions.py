"""May this call be made? One function answers for each call, before it starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

Behavior = Literal["allow", "deny"]


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer for one call.

    Args:
        behavior: ``allow`` or ``deny``.
        message: Why, told to the model when the call is denied.
        updated_args: Arguments to use instead of the model's.
    """

    behavior: Behavior
    message: str = ""
    updated_args: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """What is known about a call besides its name and arguments.

    Args:
        step: The step it belongs to.
        call_id: Its id in the history.
    """

    step: int
    call_id: str


Verdict = Permission | Behavior
PermissionFunction = Callable[[str, dict[str, Any], PermissionContext], Verdict | Awaitable[Verdict]]

ALLOWED = Permission("allow")


def allow_all(tool_name: str, args: dict[str, Any], context: PermissionContext) -> Permission:  # noqa: ARG001 - the shape of every permission function
    """Allow every call."""
    return ALLOWED


def as_permission(verdict: Verdict) -> Permission:
    """A verdict given as a word becomes a `Permission`. Anything that is not clearly allowed is denied."""
    if isinstance(verdict, Permission):
        return verdict
    return ALLOWED if verdict == "allow" else Permission("deny")
