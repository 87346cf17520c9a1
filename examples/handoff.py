"""A handoff: an agent that sorts, and one that answers in its place."""

from pure_agent_loop import Agent

billing = Agent(
    name="billing",
    description="Answers questions about bills.",
    system_prompt="You answer questions about bills, in one sentence.",
)
triage = Agent(
    name="triage",
    system_prompt="You find out who can help, and hand over to them.",
    handoffs=[billing],
)
result = triage.run("Why is my bill so high this month?")
print(f"{result.agent}: {result.content}")
print(f"{result.steps} steps of both")

# Output:
# billing: It is high because two months are on it.
# 2 steps of both
