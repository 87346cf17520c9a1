"""Dependencies: your objects reach tools and prompts; the model never sees them."""

from dataclasses import dataclass

from pure_agent_loop import Agent, RunContext, tool


@dataclass
class Shop:
    customer: str
    orders: dict[int, str]


@tool
def order_status(ctx: RunContext[Shop], order: int) -> str:
    """Look up the status of an order of this customer."""
    return ctx.deps.orders.get(order, "This customer has no such order.")


def who(ctx: RunContext[Shop]) -> str:
    return f"You help {ctx.deps.customer}."


agent = Agent[Shop](tools=[order_status], system_prompt=["Be brief.", who])

for shop in (Shop("Ada", {7: "sent on Monday"}), Shop("Bob", {})):
    print(f"{shop.customer}: {agent.run('Where is order 7?', deps=shop).content}")

# Output:
# Ada: It was sent on Monday.
# Bob: You have no order 7.
