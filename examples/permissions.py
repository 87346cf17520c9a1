"""Permissions: reading is free, changes are asked about, and a rule that denies always holds."""

from pure_agent_loop import Agent, Permission, PermissionRequest, PermissionRules, tool


@tool(read_only=True)
def look_up(customer: str) -> str:
    """Look up the orders of a customer."""
    return f"{customer}: order 7, 30.00, broken; order 8, 900.00, late"


@tool
def refund(customer: str, amount: float) -> str:
    """Give money back."""
    return f"refunded {amount:.2f} to {customer}"


def ask(request: PermissionRequest) -> Permission:
    """Decide instead of a person: this could be input(), a chat message or a ticket."""
    small = request.args["amount"] <= 50
    print(f"{request.tool} {request.args}: {'allowed' if small else 'denied'}")
    return Permission("allow") if small else Permission("deny", "More than 50 needs the manager.")


agent = Agent(
    tools=[look_up, refund],
    permission_mode="ask",
    permission_rules=PermissionRules(deny=["refund(customer=Mallory)"]),
    on_ask=ask,
)
print(agent.run("Refund what is wrong with Ann's orders, and Mallory's.").content)

# Output:
# refund {'customer': 'Ann', 'amount': 30.0}: allowed
# refund {'customer': 'Ann', 'amount': 900.0}: denied
# Ann got 30.00 back. Her 900.00 need the manager, and Mallory gets nothing.
