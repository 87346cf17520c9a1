"""A person looks at the plan before anything is done: it is approved, changed or refused."""

from examples.models import ask, model
from pure_agent_loop import Agent, tool
from pure_agent_loop.testing import call


@tool(read_only=True)
def search(query: str) -> str:
    """Search the web."""
    return f"Three pages about {query}."


agent = Agent(
    llm=model(
        '["Search for news about tea", "Write a summary"]',
        call("search", query="news about green tea"),
        "Green tea is on three pages.",
    ),
    tools=[search],
)
# The plan and the work are two tasks of one history; no tool can be called for the first.
planning = agent.run("Plan, and do nothing yet: what is new about tea?", output_type=list[str], tools=[])
plan = planning.unwrap()
print("\n".join(f"{number}. {step}" for number, step in enumerate(plan, 1)))

answer = ask("Enter: go on. 'no': stop. Anything else is added to the plan:", "Only green tea.")
if answer != "no":
    task = f"The plan is approved. Do it. {answer}".strip()
    print(agent.run(task, planning.messages).content)

# Output:
# 1. Search for news about tea
# 2. Write a summary
# Enter: go on. 'no': stop. Anything else is added to the plan: Only green tea.
# Green tea is on three pages.
