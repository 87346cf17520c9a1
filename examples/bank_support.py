"""A task known from pydantic-ai: support with an account to look at, and a typed answer."""

from dataclasses import dataclass
from typing import Literal

from pure_agent_loop import Agent, Retry, RunContext, tool


@dataclass
class Support:
    """What the functions of a run may use."""

    customer: str
    balances: dict[str, float]


@dataclass
class Advice:
    """What the customer is told."""

    text: str
    risk: Literal["low", "high"]


@tool(read_only=True)
def balance(ctx: RunContext[Support]) -> float:
    """Look up the customer's balance."""
    return ctx.deps.balances[ctx.deps.customer]


def customer_words(ctx: RunContext[Support]) -> str:
    """The part of the prompt that is about the customer."""
    return f"You support {ctx.deps.customer}, a customer of our bank."


agent = Agent[Support, Advice](
    tools=[balance], system_prompt=["Be brief.", customer_words], output_type=Advice
)


@agent.output_check
def has_text(advice: Advice) -> None:
    """Send an empty answer back."""
    if not advice.text.strip():
        raise Retry("Write an advice.")


result = agent.run("Can I buy a bicycle for 300?", deps=Support("Ann", {"Ann": 1250.0}))
if result.output is not None:
    print(f"{result.output.text} (risk: {result.output.risk})")
