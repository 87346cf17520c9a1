"""A bank answers its customers: data of the run in a tool and in the prompt, and a typed answer."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from examples.models import model
from pure_agent_loop import Agent, RunContext, tool
from pure_agent_loop.testing import call


@dataclass
class Support:
    customer: str
    balances: dict[str, float]


@dataclass
class Advice:
    text: str
    block_card: bool
    risk: Annotated[int, Field(ge=0, le=10)]


@tool(read_only=True)
def balance(ctx: RunContext[Support]) -> str:
    """Look up the customer's balance."""
    return f"${ctx.deps.balances[ctx.deps.customer]:.2f}"


def customer(ctx: RunContext[Support]) -> str:
    return f"The customer is {ctx.deps.customer}."


llm = model(
    call("balance"),
    '{"text": "Ann, you have $1250.00.", "block_card": false, "risk": 1}',
    '{"text": "Your card is blocked, Ann.", "block_card": true, "risk": 8}',
)
agent = Agent[Support, Advice](
    llm=llm,
    tools=[balance],
    system_prompt=["You support customers of our bank, and judge the risk.", customer],
    output_type=Advice,
)
deps = Support("Ann", {"Ann": 1250.0})
for question in ("What is my balance?", "I lost my card!"):
    print(agent.run(question, deps=deps).unwrap())

# Output:
# Advice(text='Ann, you have $1250.00.', block_card=False, risk=1)
# Advice(text='Your card is blocked, Ann.', block_card=True, risk=8)
