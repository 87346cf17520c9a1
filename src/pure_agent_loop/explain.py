"""Preview of the first request of a run, without sending it.

The real loop runs with a client that records the request and stops. Limits, notices and the history therefore
match those of a run exactly.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from pure_agent_loop.budget import Budget
from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.bind import with_toolsets
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import Request
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import SOFT
from pure_agent_loop.llm.base import (
    BaseLLMClient,
    ShowsRequest,
    model_of,
    origin_of,
    takes_meta,
    with_server_tools,
)
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.typed_answers import format_of
from pure_agent_loop.permissions import Permission, Rule
from pure_agent_loop.runs.run import drive
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.tool import Tool


@dataclass(frozen=True, slots=True)
class Explanation:
    """First request of a run, and the settings of the run.

    Args:
        model: Model name.
        tool_mode: Tool mode; with ``auto``, the mode detected so far.
        output: Mode of a typed answer: ``native``, ``tool`` or ``prompted``; empty for a text answer.
        request: Body of the request.
        is_exact: True if `request` is the exact body sent to the server; False if it is only the input of the
            client.
        notices: Notices at the start of the run.
        limits: Each limit that is set.
        permissions: What the rules and the mode decide, per tool.
        estimated_tokens: Estimated tokens of the request.
    """

    model: str
    tool_mode: str
    output: str
    request: dict[str, Any]
    is_exact: bool
    notices: tuple[str, ...]
    limits: dict[str, Any]
    permissions: dict[str, str]
    estimated_tokens: int

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {**asdict(self), "notices": list(self.notices)}

    def __str__(self) -> str:
        exact = "as it would be sent" if self.is_exact else "as passed to the client"
        hard, soft = (
            ", ".join(
                f"{name}={json.dumps(value, ensure_ascii=False)}"
                for name, value in self.limits.items()
                if (name in SOFT) == is_soft
            )
            for is_soft in (False, True)
        )
        return "\n".join(
            [
                f"model: {self.model}",
                f"tool mode: {self.tool_mode}",
                *([f"typed answer: {self.output}"] if self.output else []),
                f"limits: {hard or 'none'}",
                *([f"notices, after which the run continues: {soft}"] if soft else []),
                *_section("permissions", [f"{name}: {ruling}" for name, ruling in self.permissions.items()]),
                *_section("notices", self.notices),
                f"request, about {self.estimated_tokens} tokens, {exact}:",
                json.dumps(self.request, ensure_ascii=False, indent=2),
            ]
        )


def explain(state: QueryState, kit: Kit) -> Explanation:
    """Return the next request of a run.

    Args:
        state: Start state of the run; it is modified.
        kit: Kit of the run; its client sends nothing.

    Raises:
        LLMError: The request cannot be sent in the tool mode of the client.
    """
    events: list[Event] = []

    async def keep(event: Event) -> None:
        events.append(event)

    recorder = _Recorder(origin_of(kit.client), takes_meta=takes_meta(kit.client))
    kit = with_toolsets(kit)
    quiet = replace(kit, client=recorder, emit=keep, journal=MemoryJournal())
    run_sync(drive(state, quiet))
    if recorder.asked is None:
        raise state.failure or LLMError(f"The run would stop before its first request ({state.stop_reason}).")
    request, is_exact = _request(recorder.asked, kit)
    noticed = (EventType.NOTICE, EventType.SOFT_LIMIT)
    return Explanation(
        model=model_of(kit.client),
        tool_mode=_tool_mode(kit),
        output=_output_mode(recorder.asked, kit),
        request=request,
        is_exact=is_exact,
        notices=tuple(event.content for event in events if event.type in noticed),
        limits=_limits(kit),
        permissions={tool.name: _permission(tool, kit) for tool in kit.tools},
        estimated_tokens=_tokens(recorder.asked, kit),
    )


class _Recorder(BaseLLMClient):
    """Client that records the request instead of sending it."""

    def __init__(self, origin: str, *, takes_meta: bool) -> None:
        self.origin = origin
        self.takes_meta = takes_meta
        self.asked: Request | None = None

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> NoReturn:
        self.asked = Request(messages, tools, kwargs)
        # An error of this kind ends the loop without counting usage.
        raise LLMError("Recorded, not sent.", kind="bad_request")


def _request(request: Request, kit: Kit) -> tuple[dict[str, Any], bool]:
    """Return the body as an independent copy, and True if the client supplied it."""
    showing = as_protocol(kit.client, ShowsRequest)
    body = None if showing is None else showing.request_body(*request, stream=True)
    if body is not None:
        return read_json(encode_body(body)), True
    if isinstance(kit.client, ToolModeClient) and format_of(request.options) is not None:
        # Add what the output mode adds to a request for a typed answer.
        request = Request(*kit.client.shape(*request))
    tools = {"tools": request.tools} if request.tools else {}
    return to_jsonable({"messages": request.messages, **tools, **request.options}), False


def _tool_mode(kit: Kit) -> str:
    client = kit.client
    if not isinstance(client, ToolModeClient):
        return "native"
    return f"auto, {client.current} so far" if client.mode == "auto" else client.current


def _output_mode(request: Request, kit: Kit) -> str:
    if format_of(request.options) is None or not isinstance(kit.client, ToolModeClient):
        return ""
    return kit.client.output_mode(request.tools, request.options)


def _limits(kit: Kit) -> dict[str, Any]:
    limits = {name: value for name, value in to_jsonable(kit.limits).items() if value not in (None, {})}
    if kit.tool_rounds is not None:
        limits["tool_rounds"] = kit.tool_rounds
    return limits if kit.budget is None else {**limits, "budget": _budget(kit.budget)}


def _budget(budget: Budget) -> dict[str, Any]:
    names = ("max_tokens", "max_tool_calls", "max_cost", "max_seconds")
    limits = {name: getattr(budget, name) for name in names if getattr(budget, name) is not None}
    used = {"tokens": budget.tokens, "tool_calls": budget.tool_calls, "cost": budget.cost}
    return {**limits, "used": used}


def _permission(tool: Tool, kit: Kit) -> str:
    """Describe the ruling on calls to a tool, before their arguments are known."""
    policy = kit.permissions
    asks = model_text("destructive") if tool.destructive is True else ""
    suggestion = policy.suggest(
        tool.name,
        {},
        read_only=tool.read_only,
        judges=tool.judge is not None,
        asks=asks,
        guard=Permission("ask", model_text("guard_may_ask")),
    )
    parts = [
        f"{suggestion.behavior} ({suggestion.message.rstrip('.')})"
        if suggestion.message
        else suggestion.behavior
    ]
    if suggestion.behavior == "deny":
        return parts[0]
    for behavior in ("deny", "ask", "allow"):
        if behavior != "ask" or policy.mode != "bypass":
            parsed = map(Rule.parse, getattr(policy.rules, behavior))
            rules = [rule.text for rule in parsed if rule.args and rule.is_about(tool.name)]
            parts += [f"{behavior} calls that match {text!r}" for text in rules]
    return "; ".join(
        [
            *parts,
            *(["decided per call by the tool"] if tool.judge else []),
            *(["decided by can_use_tool"] if kit.can_use_tool else []),
        ]
    )


def _tokens(request: Request, kit: Kit) -> int:
    """Estimate the tokens of a request in the client's tool mode; the client's protocol is ignored."""
    shaped = kit.client.shape(*request) if isinstance(kit.client, ToolModeClient) else request
    tools = with_server_tools(shaped.tools, shaped.options)
    about_tools = estimate_tokens(json.dumps(tools, ensure_ascii=False)) if tools else 0
    return sum(map(estimate_message, shaped.messages)) + about_tools


def _section(title: str, lines: Any) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []
