"""The agents of the deployment. Put yours here."""

from pure_agent_loop import Agent, LoopLimits, tool


@tool
def refund(order: int) -> str:
    """Give the money for an order back."""
    return f"order {order} is refunded"


agents = {
    "helper": Agent(
        model="gpt-4o-mini",  # an agent that names none takes what the machine has
        tools=[refund],
        permission_mode="ask",  # a person allows each refund
        limits=LoopLimits(max_turns=25, max_seconds=600),
    )
}
