"""A toolset that changes: the tools of a step depend on what happened before."""

from typing import Any

from typing_extensions import Self

from pure_agent_loop import Agent, Tool
from pure_agent_loop.toolsets import StepContext

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Door:
    """Nobody can enter before somebody has knocked."""

    async def __aenter__(self) -> Self:
        self.open = False  # a run enters the toolset at its beginning, and leaves it at its end
        return self

    async def __aexit__(self, *error: object) -> None:
        self.open = False

    async def list(self, context: StepContext) -> list[Tool]:
        knock = Tool(None, name="knock", description="Knock at the door.", parameters=NAME)
        enter = Tool(None, name="enter", description="Go through the open door.", parameters=NAME)
        tools = [enter] if self.open else [knock]
        print(f"step {context.step}: {[tool.name for tool in tools]}")
        return tools

    async def call(self, name: str, args: dict[str, Any]) -> str:
        self.open = name == "knock"
        print(f"{name}: the door is {'open' if self.open else 'closed'}")
        return "The door opens." if self.open else f"Welcome, {args['name']}."


print(Agent(tools=[Door()]).run("Go in. Your name is Ada.").content)

# Output:
# step 1: ['knock']
# knock: the door is open
# step 2: ['enter']
# enter: the door is closed
# step 3: ['knock']
# I am in.
