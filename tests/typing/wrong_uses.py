"""Wrong uses: a type checker must flag each line that says so, and no other. The file is never run.

Both mypy and pyright say so, because an ignore that ignores nothing is an error here;
`tests/test_types.py` compares the lines without the comments.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true, reportUnnecessaryComparison=true

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

from pure_agent_loop import (
    Agent,
    AgentOptions,
    AnyEvent,
    BaseLLMClient,
    BeforeTool,
    Budget,
    EventType,
    Handoff,
    HookContext,
    Hooks,
    Image,
    LoopLimits,
    ModelSettings,
    Permission,
    PermissionContext,
    PermissionRequest,
    Price,
    Retry,
    RetryConfig,
    RunContext,
    SessionManager,
    StopReason,
    Tool,
    tool,
)
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.toolsets import StepContext, filtered


@dataclass
class City:
    name: str


class Bank:
    money = 1


class Shop:
    goods = 1


# An agent's options

teller = Agent[Bank, City](output_type=City)
billing = Agent(name="billing")
Agent(top_k=5)  # type: ignore[call-arg] # no field of requests
Agent(seed="x")  # type: ignore[arg-type] # of another type
Agent(temprature=0.5)  # type: ignore[call-arg] # misspelled
Agent(temperature="hot")  # type: ignore[arg-type] # no number
Agent(output_retries="2")  # type: ignore[arg-type] # no number
Agent(output_type="City")  # type: ignore[arg-type] # no type
Agent(mode="loop")  # type: ignore[arg-type] # no such mode
Agent(tool_mode="xml")  # type: ignore[arg-type] # no such way
Agent(language="fr")  # type: ignore[arg-type] # no such language
Agent(system_prompt=5)  # type: ignore[arg-type] # no text
Agent(system_prompt_per="turn")  # type: ignore[arg-type] # neither run nor step
Agent(limits={"max_turns": 5})  # type: ignore[arg-type] # no limits
Agent(retry=3)  # type: ignore[arg-type] # no RetryConfig
Agent(llm="gpt-4o-mini")  # type: ignore[arg-type] # a name is no client
Agent(hooks=[print])  # type: ignore[arg-type] # no Hooks
Agent(handoffs=["billing"])  # type: ignore[list-item] # no agent
Handoff("billing")  # type: ignore[arg-type] # no agent
Handoff(billing, filter="some")  # type: ignore[arg-type] # no such filter
billing.add_handoff("billing")  # type: ignore[arg-type] # no agent

# A run's options

teller.run("x", deps="money")  # type: ignore[call-overload] # other deps
teller.run(5)  # type: ignore[call-overload] # no task
teller.run("x", output_typ=int)  # type: ignore[call-overload] # no such option
teller.run("x", max_turns=3)  # type: ignore[call-overload] # a field of limits
teller.run("x", limits=5)  # type: ignore[call-overload] # no limits
teller.run("x", temperature="hot")  # type: ignore[call-overload] # no number
teller.run("x", message=[])  # type: ignore[call-overload] # misspelled
teller.run_stream("x", session="s")  # type: ignore[call-arg] # no such option
teller.run_stream("x", deps=Shop())  # type: ignore[arg-type] # other deps
teller.conversation().send_sync("x", session_id="s")  # type: ignore[call-overload] # it has its own history
teller.override(deps=5)  # type: ignore[arg-type] # other deps
teller.override(limits=LoopLimits())  # type: ignore[call-arg] # cannot be overridden
teller.override(tools=[5])  # type: ignore[list-item] # no tool
teller.conversation().send_sync("x", deps="money")  # type: ignore[call-overload] # other deps
teller.conversation().send_sync("x", output_type=5)  # type: ignore[call-overload] # no type
teller.conversation().send_stream_sync("x", deps=Shop())  # type: ignore[arg-type] # other deps
AgentOptions(temprature=0.5)  # type: ignore[typeddict-unknown-key] # misspelled
teller.clone(temprature=0.5)  # type: ignore[call-overload] # misspelled
teller.clone(tool_attempts="2")  # type: ignore[call-overload] # no number
teller.clone(output_type=5)  # type: ignore[call-overload] # no type
settings: ModelSettings = {"top_pp": 0.2}  # type: ignore[typeddict-unknown-key] # no such field
LoopLimits(max_turn=3)  # type: ignore[call-arg] # misspelled
LoopLimits(max_turns="3")  # type: ignore[arg-type] # no number
LoopLimits(prices={"m": 0.5})  # type: ignore[dict-item] # no Price
Budget(max_money=3)  # type: ignore[call-arg] # misspelled
Price("free", 1)  # type: ignore[arg-type] # no number
RetryConfig(retries=3)  # type: ignore[call-arg] # misspelled
Image(data="a.png")  # type: ignore[arg-type] # that is a path

# Results and events

teller.run("x").output.name  # type: ignore[union-attr] # there may be none # noqa: B018
teller.run("x").unwrap().people  # type: ignore[attr-defined] # no such field # noqa: B018
teller.run("x").answer  # type: ignore[attr-defined] # no such field # noqa: B018
billing.run("x").unwrap() + 1  # type: ignore[operator] # a text
teller.run("x").stop_reason == "done"  # type: ignore[comparison-overlap] # no such reason # noqa: B015
reason: StopReason = "finished"  # type: ignore[assignment] # no such reason
billing.run("x").state.answer_permission("call_1", "yes")  # type: ignore[arg-type] # no such verdict
SessionManager().answer("s", "call_1", "maybe")  # type: ignore[arg-type] # no such verdict


def attributes(event: AnyEvent) -> None:
    event.tool  # type: ignore[union-attr] # not every event has one # noqa: B018
    if event.type is EventType.ACTION:
        event.result  # type: ignore[attr-defined] # an action has none yet # noqa: B018
    elif event.type is EventType.TEXT_DELTA:
        event.content.args  # type: ignore[attr-defined] # a text # noqa: B018
    elif event.type is EventType.PERMISSION:
        event.behavior == "yes"  # type: ignore[comparison-overlap] # no such one # noqa: B015


# Functions of one's own


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


add("x")  # type: ignore[arg-type] # no number
add(1, c=2)  # type: ignore[call-arg] # no such argument
add(1).upper()  # type: ignore[attr-defined] # a number
tool(retry=2)  # type: ignore[call-overload] # misspelled
Agent(tools=[5])  # type: ignore[list-item] # no tool
Agent(tools=add)  # type: ignore[arg-type] # no list


def of_bank(ctx: RunContext[Bank]) -> str:
    return ctx.deps.name  # type: ignore[attr-defined,no-any-return] # what deps are is known


@teller.output_check  # type: ignore[arg-type] # not what the answer is
def takes_text(text: str) -> None:
    raise Retry(text)


@teller.output_check  # type: ignore[arg-type] # not what the answer is
def gives_text(city: City) -> str:
    return city.name


@teller.output_check  # type: ignore[arg-type] # other deps
def of_shop(ctx: RunContext[Shop], city: City) -> City:
    return city


def no_before_hook(name: str) -> None: ...


def no_wish(name: str, args: dict[str, Any], context: HookContext) -> bool:
    return True


def of_before(
    ctx: RunContext[Bank], name: str, args: dict[str, Any], context: HookContext
) -> BeforeTool | None:
    return None


def maybe(name: str, args: dict[str, Any], context: PermissionContext) -> int:
    return 1


def asks(request: PermissionRequest) -> list[str]:
    return [request.tool]


Hooks(before_tool=[of_before])
Hooks(before_tool=[no_before_hook])  # type: ignore[list-item] # takes too little
Hooks(before_tool=[no_wish])  # type: ignore[list-item] # returns no BeforeTool
Hooks(after_tool=[of_before])  # type: ignore[list-item] # is no such hook
Agent(can_use_tool=maybe)  # type: ignore[arg-type] # no verdict
Agent(on_ask=asks)  # type: ignore[arg-type] # no verdict
Permission("yes")  # type: ignore[arg-type] # no behavior

# Sets of tools, clients, scripts


class NoCall:
    """A set that cannot be called."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def list(self, context: StepContext) -> Sequence[Tool]:
        return []

    async def call(self, name: str) -> str:
        return name


class NoChat:
    """A client that cannot chat."""

    async def complete(self, text: str) -> str:
        return text


class Wrong(BaseLLMClient):
    async def chat(self, text: str) -> str:  # type: ignore[override] # not what a client returns
        return text


Agent(tools=[NoCall()])  # type: ignore[list-item] # no set
filtered([add], lambda context, each: each.title)  # type: ignore[attr-defined] # no such field
Agent(llm=NoChat())  # type: ignore[arg-type] # no client
ScriptedLLM(5)  # type: ignore[arg-type] # no script
