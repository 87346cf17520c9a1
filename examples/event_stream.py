"""Events while they happen: the answer appears as the model writes it."""

import asyncio

from pure_agent_loop import Agent
from pure_agent_loop.events import ActionEvent, LoopEndEvent, ObservationEvent, TextDeltaEvent


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with Agent(tools=[add]) as agent:  # closes its connections at the end
        async for event in agent.arun_stream("What is 17 + 25?"):
            match event:
                case ActionEvent(tool=tool, args=args):
                    print(f"\n[calls {tool} with {args}]")
                case ObservationEvent(result=result):
                    print(f"[it returned {result}]")
                case TextDeltaEvent(content=piece):
                    print(piece, end="", flush=True)
                case LoopEndEvent(stop_reason=reason):
                    print(f"\n[{reason}]")


asyncio.run(main())

# Output:
# Let me add them.
# [calls add with {'a': 17, 'b': 25}]
# [it returned 42.0]
# 17 + 25 is 42.
# [completed]
