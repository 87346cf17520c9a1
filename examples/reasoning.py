"""Reasoning: how much of it, and how to watch it. It never enters the history."""

from pure_agent_loop import Agent, EventType

agent = Agent(thinking_level="high", emit_reasoning_events=True)
for event in agent.run_stream("Which weighs more, a pound of feathers or a pound of lead?"):
    if event.type is EventType.REASONING:
        print("thinking:", event.content)
    elif event.type is EventType.THOUGHT:
        print("answer:  ", event.content)

# Output:
# thinking: A pound is a pound, of whatever it is.
# answer:   They weigh the same.
