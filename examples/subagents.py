"""Subagents: an agent gives tasks to others, whose long searches do not fill its own history."""

from pathlib import Path

from pure_agent_loop import Agent, EventType
from pure_agent_loop.subagents import EXPLORE, AgentDefinition, SubagentManager
from pure_agent_loop.toolbox import workspace_tools

folder = Path("project")
folder.mkdir()
(folder / "retry.py").write_text("DELAYS = [1, 2, 4]\n")

poet = AgentDefinition(
    name="poet",
    description="Writes one line of verse about anything.",
    prompt="You write one line of verse. Answer with the line alone.",
    tools=[],
)
agent = Agent(tools=workspace_tools(folder), subagents=SubagentManager([EXPLORE, poet]))

for event in agent.run_stream("Where are the delays of the retries? Put them into one line of verse."):
    if event.type is EventType.TASK and event.task["state"] == "completed":
        print(f"{event.task['agent']}: {event.task['state']}")
    elif event.type is EventType.LOOP_END:
        print(event.content)
        print(f"{len(event.messages)} messages in the history of the agent itself")

# Output:
# explore: completed
# poet: completed
# One, two, four: it knocks once more. (retry.py, line 1)
# 6 messages in the history of the agent itself
