"""A planner, an agent that does the next step, and the planner again, until it has the answer."""

from dataclasses import dataclass

from examples.models import model
from pure_agent_loop import Agent, tool
from pure_agent_loop.testing import call


@dataclass
class Plan:
    """The steps that are still to be done, in order."""

    steps: list[str]


@dataclass
class Answer:
    """The answer to the task; nothing is left to be done."""

    text: str


@tool(read_only=True)
def search(query: str) -> str:
    """Search the web."""
    return "Ada won the open." if "won" in query else "Ada comes from Bergen."


worker = Agent(
    llm=model(
        call("search", query="who won"), "Ada won.", call("search", query="where is Ada from"), "From Bergen."
    ),
    tools=[search],
    system_prompt="Do this one step of a plan.",
)
planner = Agent[None, Plan | Answer](
    llm=model(
        '{"steps": ["Find out who won", "Find out where they come from"]}',
        '{"steps": ["Find out where Ada comes from"]}',
        '{"text": "Bergen"}',
    ),
    output_type=[Plan, Answer],
    system_prompt="Plan the steps that are still needed, or give the answer.",
).conversation()

plan = planner.send_sync("Where does the winner of the open come from?").unwrap()
for _ in range(10):
    if isinstance(plan, Answer):
        print(plan.text)
        break
    print("to do:", "; ".join(plan.steps))
    done = worker.run(plan.steps[0]).content
    plan = planner.send_sync(f"{plan.steps[0]}: {done}").unwrap()

# Output:
# to do: Find out who won; Find out where they come from
# to do: Find out where Ada comes from
# Bergen
