"""Wrong uses. A type checker must flag each line that says so, and no other; the file is never run.

Both mypy and pyright say so, because an ignore that ignores nothing is an error here.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from dataclasses import dataclass

from pure_agent_loop import Agent, LoopLimits, ModelSettings, RunContext


@dataclass
class City:
    name: str


class Bank:
    money = 1


teller = Agent[Bank, City](output_type=City)
teller.run("x", deps="money")  # type: ignore[call-overload] # other deps
teller.run(5)  # type: ignore[call-overload] # no task
teller.run("x", output_typ=int)  # type: ignore[call-overload] # no such option
teller.run("x", limits=5)  # type: ignore[call-overload] # no limits
teller.run("x", temperature="hot")  # type: ignore[call-overload] # no number
teller.run("x").output.name  # type: ignore[union-attr] # there may be none # noqa: B018
Agent(output_type=City).run("x").output.people  # type: ignore[union-attr] # no such field # noqa: B018
teller.override(deps=5)  # type: ignore[arg-type] # other deps
teller.override(limits=LoopLimits())  # type: ignore[call-arg] # cannot be overridden
Agent(top_k=5)  # type: ignore[call-arg] # no field of requests
Agent(seed="x")  # type: ignore[arg-type] # of another type
Agent(output_retries="2")  # type: ignore[arg-type] # no number
settings: ModelSettings = {"top_pp": 0.2}  # type: ignore[typeddict-unknown-key] # no such field


def wrong(ctx: RunContext[Bank]) -> str:
    return ctx.deps.name  # type: ignore[attr-defined,no-any-return] # what deps are is known
