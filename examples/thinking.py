"""A model that thinks: how hard, and how to watch it. The thinking never enters the history."""

from pure_agent_loop import Agent, EventType

agent = Agent(thinking_level="high", emit_reasoning_events=True)
for event in agent.run_stream("Which weighs more, a pound of feathers or a pound of lead?"):
    if event.type is EventType.REASONING:
        print(f"(thinking) {event.content}")
    elif event.type is EventType.THOUGHT:
        print(event.content)
