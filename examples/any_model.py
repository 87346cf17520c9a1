"""Any model: a server that refuses tools gets them described in the prompt, and the agent works the same."""

from pure_agent_loop import Agent, EventType, tool


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"Light rain and 8 degrees in {city}"


# tool_mode="auto", the default: the server's own tool calls, until they are seen not to work
agent = Agent(model="gemma3:1b", tools=[get_weather])
for event in agent.run_stream("Do I need an umbrella in Oslo today?"):
    if event.type is EventType.NOTICE:
        print("notice:", event.content)
    elif event.type is EventType.ACTION:
        print(f"calls {event.tool} with {event.args}")
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# notice: Model: gemma3:1b at http://127.0.0.1:8000/v1, as configured.
# notice: Switching to tool_mode='json': the server rejects tools (This model does not support tools.).
# calls get_weather with {'city': 'Oslo'}
# Yes: light rain and 8 degrees in Oslo.
