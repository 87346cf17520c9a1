"""What would be sent, without sending it.

The loop itself is run, with a client that writes down what it is asked and refuses. So nothing here can
differ from what a run does: limits, notices and the history take their usual way.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from pure_agent_loop.budget import Budget
from pure_agent_loop.errors import LLMError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.equip import with_toolsets
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.request import Request
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import BaseLLMClient, ShowsRequest, model_of, takes_meta
from pure_agent_loop.llm.openai_client import encode_body
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.typed_answer import format_of
from pure_agent_loop.permissions import Rule
from pure_agent_loop.prompts.words import say
from pure_agent_loop.runs.live import drive
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.tool import Tool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The first request of a run, and what the run would go by.

    Args:
        model: The model's name.
        tool_mode: How the model would be asked for calls; with ``auto``, what has been found out so far.
        output: How the model would be asked for a typed answer: ``native``, ``tool`` or ``prompted``; empty
            for an answer in words.
        request: The body of the request.
        is_exact: True if `request` is what would be sent, byte for byte; else the client cannot say, and
            `request` is what it would be given.
        notices: What the events would tell at the beginning.
        limits: Each limit that is set.
        permissions: By tool: what the rules and the mode say about calling it.
        estimated_tokens: About how many tokens the request has.
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
        """Plain JSON form."""
        return {**asdict(self), "notices": list(self.notices)}

    def __str__(self) -> str:
        exact = "exactly as it would be sent" if self.is_exact else "as the client would be given it"
        limits = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.limits.items()
        )
        return "\n".join(
            [
                f"model: {self.model}",
                f"tool mode: {self.tool_mode}",
                *([f"typed answer: {self.output}"] if self.output else []),
                f"limits: {limits or 'none'}",
                *_section("permissions", [f"{name}: {said}" for name, said in self.permissions.items()]),
                *_section("notices", self.notices),
                f"request, about {self.estimated_tokens} tokens, {exact}:",
                json.dumps(self.request, ensure_ascii=False, indent=2),
            ]
        )


def explain(state: QueryState, kit: Kit) -> Explanation:
    """Find out what the next request of a run would be.

    Args:
        state: Where the run would start; it is used up.
        kit: What it would work with; its client is asked nothing.

    Raises:
        LLMError: The request could not be sent in the tool mode of the client.
    """
    events: list[Event] = []

    async def keep(event: Event) -> None:
        events.append(event)

    recorder = _Recorder(takes_meta=takes_meta(kit.client))
    kit = with_toolsets(kit)
    quiet = replace(kit, client=recorder, emit=keep, journal=MemoryJournal())
    run_sync(drive(state, quiet))
    if recorder.asked is None:
        raise state.failure or LLMError(f"The run would end before its first request ({state.stop_reason}).")
    request, is_exact = _request(recorder.asked, kit)
    told = (EventType.NOTICE, EventType.SOFT_LIMIT)
    return Explanation(
        model=model_of(kit.client),
        tool_mode=_tool_mode(kit),
        output=_output_mode(recorder.asked, kit),
        request=request,
        is_exact=is_exact,
        notices=tuple(event.content for event in events if event.type in told),
        limits=_limits(kit),
        permissions={tool.name: _permission(tool, kit) for tool in kit.tools},
        estimated_tokens=_tokens(request),
    )


class _Recorder(BaseLLMClient):
    """Writes down what it is asked."""

    def __init__(self, *, takes_meta: bool) -> None:
        self.takes_meta = takes_meta
        self.asked: Request | None = None

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> NoReturn:
        self.asked = Request(messages, tools, kwargs)
        raise LLMError(
            "Written down and not sent.", kind="bad_request"
        )  # so the loop ends, and counts nothing


def _request(asked: Request, kit: Kit) -> tuple[dict[str, Any], bool]:
    """The body as plain data that shares nothing with the agent, and whether the client has said it."""
    showing = able(kit.client, ShowsRequest)
    body = None if showing is None else showing.request_body(*asked, stream=True)
    if body is not None:
        return json.loads(encode_body(body)), True
    if isinstance(kit.client, ToolModeClient) and format_of(asked.options) is not None:
        asked = Request(*kit.client.shape(*asked))  # a typed answer is asked for in one of three ways
    tools = {"tools": asked.tools} if asked.tools else {}
    return to_jsonable({"messages": asked.messages, **tools, **asked.options}), False


def _tool_mode(kit: Kit) -> str:
    client = kit.client
    if not isinstance(client, ToolModeClient):
        return "native"
    return f"auto, {client.current} so far" if client.mode == "auto" else client.current


def _output_mode(asked: Request, kit: Kit) -> str:
    if format_of(asked.options) is None or not isinstance(kit.client, ToolModeClient):
        return ""
    return kit.client.output_mode(asked.tools, asked.options)


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
    """What happens to a call of the tool, as far as that can be said before there is one."""
    policy = kit.permissions
    asks = say("destructive") if tool.destructive is True else ""
    said = policy.suggest(tool.name, {}, read_only=tool.read_only, judges=tool.judge is not None, asks=asks)
    parts = [f"{said.behavior} ({said.message.rstrip('.')})" if said.message else said.behavior]
    if said.behavior == "deny":
        return parts[0]
    for behavior in ("deny", "ask", "allow"):
        if behavior != "ask" or policy.mode != "bypass":
            rules = [text for text in getattr(policy.rules, behavior) if _looks_at_arguments(text, tool)]
            parts += [f"{behavior} what fits {text!r}" for text in rules]
    return "; ".join(
        [
            *parts,
            *(["it judges each call itself"] if tool.judge else []),
            *(["can_use_tool decides"] if kit.can_use_tool else []),
        ]
    )


def _looks_at_arguments(text: str, tool: Tool) -> bool:
    rule = Rule.parse(text)
    return bool(rule.args) and fnmatch.fnmatchcase(tool.name, rule.tool)


def _tokens(request: dict[str, Any]) -> int:
    tools = request.get("tools")
    about_tools = estimate_tokens(json.dumps(tools, ensure_ascii=False)) if tools else 0
    return sum(map(estimate_message, request["messages"])) + about_tools


def _section(title: str, lines: Any) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []
