"""What an effect gave: its plain form in a record, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypedDict

from pure_agent_loop.errors import LLMError, SessionReadError
from pure_agent_loop.hooks import BeforeTool
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage, get
from pure_agent_loop.permissions import Permission
from pure_agent_loop.support.text import safe_str, to_jsonable
from pure_agent_loop.support.typed import mistyped
from pure_agent_loop.tool import ToolOutcome

_WANTED = {
    "model": LLMResponse,
    "tool": ToolOutcome,
    "timeout": ToolOutcome,
    "permit": Permission,
    "ask": Permission,
    "before": BeforeTool,
    "judge": Permission | None,
    "forms": list[str],
    "refusal": list[str],
}
# Of an outcome; a value is the program's own object, and parts stand there if there are some.
_OF_OUTCOME = [each.name for each in fields(ToolOutcome) if each.name not in ("parts", "value")]
_NOTHING = TokenUsage.zero().to_dict()


class _Spent(TypedDict, total=False):
    usage: dict[str, Any] | None
    cost: float | None
    tool_calls: int | None
    in_budget: bool | None


def encode(value: Any) -> tuple[str, Any]:
    """The record type and the plain form of what an effect gave."""
    if isinstance(value, LLMResponse):
        requests = get(value.raw, "requests")  # an answer that took several says so there
        return "answer", {**value.to_dict(), **({"requests": requests} if isinstance(requests, int) else {})}
    if isinstance(value, ToolOutcome):
        plain = {name: getattr(value, name) for name in _OF_OUTCOME}
        return "outcome", {**plain, "parts": value.parts} if value.parts else plain
    if isinstance(value, (Permission, BeforeTool)):
        return "value", {type(value).__name__: asdict(value)}
    return "value", to_jsonable(value)


def decode(kind: str, value: Any) -> Any:
    """The reverse of `encode`."""
    if kind == "answer":
        response = LLMResponse.from_dict(value)
        return replace(response, raw={"requests": value["requests"]}) if "requests" in value else response
    if kind == "outcome":
        return ToolOutcome(**value)
    for known in (Permission, BeforeTool):
        if isinstance(value, dict) and list(value) == [known.__name__]:
            return known(**value[known.__name__])
    return value


def read_effect(key: str, kind: str, value: Any) -> Any:
    """What an effect gave, from its plain form, as the one who asks for this key needs it.

    Raises:
        SessionReadError: It is of another type.
    """
    step, _, what = key.partition(":")
    wanted = list[Any] if step == "inbox" else _WANTED.get(what.partition(":")[0], Any)
    try:
        found = decode(kind, value)
        wrong = mistyped(found, type(found) if wanted is Any else wanted, "the value")
        if not wrong and step == "inbox":
            found = [Incoming(*each) for each in found]
            wrong = mistyped(found, list[Incoming])
        spent = found.spent if isinstance(found, ToolOutcome) else None
        wrong = wrong or _wrong_account(spent)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        raise SessionReadError(wrong)
    return found


def wrong_effect(key: str, kind: str, value: Any) -> str:
    """What `read_effect` would refuse, as half a sentence; empty if nothing."""
    try:
        read_effect(key, kind, value)
    except SessionReadError as error:
        return str(error)
    return ""


def _wrong_account(spent: Mapping[str, Any] | None) -> str:
    found = mistyped(spent or {}, _Spent)
    return found or mistyped(TokenUsage.from_dict((spent or {}).get("usage") or _NOTHING), TokenUsage)


def describe_failure(error: Exception) -> dict[str, Any]:
    """What a replay needs to fail in the same way."""
    kind = {"kind": error.kind} if isinstance(error, LLMError) else {}
    return {"error": type(error).__name__, "message": safe_str(error), **kind}
