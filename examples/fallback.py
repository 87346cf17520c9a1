"""Two models: the second one goes on where the first one failed, also in the middle of an answer."""

from pure_agent_loop import Agent, EventType, Fallback, OpenAIClient

# Any clients, in order: of another maker, such as AnthropicClient(...), or of a server of your own.
agent = Agent(llm=Fallback([OpenAIClient("gpt-5.2"), OpenAIClient("gpt-5-mini")], cooldown=30))

for event in agent.run_stream("Count to four."):
    if event.type is EventType.NOTICE:
        print(f"{event.model} goes on after {event.start} characters")
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# gpt-5-mini goes on after 10 characters
# One, two, three, four.
