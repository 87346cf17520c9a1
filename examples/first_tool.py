"""A first tool: a Python function with types and a docstring."""

from pure_agent_loop import Agent, tool


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city.

    Args:
        city: Name of the city, for example Oslo.
    """
    return f"Light rain and 8 degrees in {city}"


agent = Agent(tools=[get_weather])
result = agent.run("Do I need an umbrella in Oslo today?")
print(result.unwrap())  # the answer, or the error that ended the run
print(f"{result.stop_reason}: {result.steps} steps, {result.usage.total_tokens} tokens")

# Output:
# Yes, take one: light rain and 8 degrees in Oslo.
# completed: 2 steps, 30 tokens
