"""Typed outputs, deps and other settings of one run. Only type checkers read this file; it is never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from typing_extensions import Unpack, assert_type

from pure_agent_loop import (
    Agent,
    AgentOptions,
    AgentResult,
    LoopLimits,
    ModelSettings,
    Retry,
    RunContext,
    tool,
)
from pure_agent_loop.toolsets import searchable


@dataclass
class City:
    name: str


class Trip(TypedDict):
    to: str


class Bank:
    money = 1


def make(**options: Unpack[AgentOptions]) -> Agent:
    return Agent(**options)


make(temperature=0.1, tools=[], sessions=None)


def book(city: str) -> City:
    return City(city)


async def book_later(ctx: RunContext[Bank], city: str) -> str:
    return city * ctx.deps.money


plain = Agent()
assert_type(plain.run("x"), AgentResult[str])
assert_type(plain.run("x").output, str | None)
assert_type(Agent(output_type=City).run("x").output, City | None)
assert_type(Agent(output_type=Trip).run("x").output, Trip | None)
assert_type(Agent(output_type=int).run("x").output, int | None)
assert_type(Agent(output_type=list[City]).run("x").output, list[City] | None)
assert_type(Agent(output_type=book).run("x").output, City | None)
assert_type(Agent[Bank, City | Trip](output_type=[City, Trip]).run("x").output, City | Trip | None)
assert_type(plain.run("x", output_type=City).output, City | None)
assert_type(plain.conversation().send_sync("x"), AgentResult[str])

teller = Agent[Bank, City](output_type=City, system_prompt=["Be kind.", lambda: "Now."], top_p=0.1, seed=3)
assert_type(teller.run("x", deps=Bank()).output, City | None)
chosen = Agent[None, Literal["a", "b"]](output_type=str)  # type: ignore[arg-type] # pyright: ignore - no TypeForm yet


async def asynchronous() -> None:
    assert_type((await teller.arun("x", deps=Bank())).output, City | None)
    assert_type((await teller.arun("x", output_type=int)).output, int | None)
    with teller.override(deps=Bank(), tools=[balance]):
        async for event in teller.arun_stream("x", temperature=None):
            assert_type(event.step, int)


@tool
def balance(ctx: RunContext[Bank], account: str) -> int:
    """The balance."""
    assert_type(ctx.deps, Bank)
    assert_type(ctx.step, int)
    ctx.progress("half")
    return ctx.deps.money


@teller.output_check
def small(ctx: RunContext[Bank], city: City) -> None:
    if ctx.remaining.steps == 0:
        raise Retry(city.name)


settings: ModelSettings = {"top_p": 0.2, "temperature": None}
teller.run("x", model="m", limits=LoopLimits(), model_settings=settings, metadata={"a": 1})
assert_type(teller.clone(temperature=0.1), Agent[Bank, City])
assert_type(teller.clone(output_type=int, tools=[searchable([balance])]), Agent[Bank, int])
with teller.override(tools=[searchable([balance])], deps=Bank()):
    talk = teller.conversation()
assert_type(talk.send_sync("x", deps=Bank(), tools=[searchable([balance])]).output, City | None)
assert_type(talk.send_sync("x", output_type=int).output, int | None)
