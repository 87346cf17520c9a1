"""Compaction: a history that grows beyond the model's window is shortened before it is too long."""

from pure_agent_loop import Agent, EventType, LoopLimits, tool


@tool(read_only=True)
def read_log(day: str) -> str:
    """Read the log of a day."""
    return "\n".join(f"{day} {minute:04}: all is well, nothing to report" for minute in range(150))


agent = Agent(tools=[read_log], context_window=8_000, limits=LoopLimits(max_tokens=None))
for event in agent.run_stream("Was there anything this week?"):
    if event.type is EventType.STEP_END:
        print(f"step {event.step}: {event.context['tokens']} of {event.context['window']} tokens")
    elif event.type is EventType.COMPACTION:
        print(f"{event.rung}: {event.tokens_before} -> {event.tokens_after} tokens")
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# step 1: 1826 of 8000 tokens
# step 2: 1846 of 8000 tokens
# step 3: 5706 of 8000 tokens
# step 4: 7594 of 8000 tokens
# prune: 7594 -> 2268 tokens
# step 5: 4115 of 8000 tokens
# step 6: 4125 of 8000 tokens
# No, all is well.
