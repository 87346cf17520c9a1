"""Reading events while they happen: the answer appears as the model writes it."""

import asyncio

from pure_agent_loop import Agent, EventType


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with Agent(tools=[add]) as agent:  # closes its connections at the end
        async for event in agent.arun_stream("What is 17 + 25?"):
            if event.type is EventType.TEXT_DELTA:
                print(event.content, end="", flush=True)
            elif event.type is EventType.ACTION:
                print(f"[{event.data['tool']} {event.data['args']}]")
            elif event.type is EventType.OBSERVATION:
                print(f"[-> {event.content}]")
            elif event.type is EventType.LOOP_END:
                print(f"\n({event.data['stop_reason']})")


asyncio.run(main())
