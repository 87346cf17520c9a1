"""An agent that sorts, and one that it hands over to."""

from pure_agent_loop import Agent

billing = Agent(
    name="billing",
    description="Takes care of money.",
    system_prompt="You answer questions about bills, in one sentence.",
)
triage = Agent(
    name="triage",
    system_prompt="You find out who can help, and hand over to them.",
    handoffs=[billing],
)
result = triage.run("Why is my bill so high this month?")
print(result.content)
print(f"(answered by {result.agent or 'triage'}, {result.steps} steps)")
