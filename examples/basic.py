"""An agent with one tool, in ten lines."""

from pure_agent_loop import Agent, tool


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: Its name, e.g. Oslo.
    """
    return f"Light rain and 8 degrees in {city}"


agent = Agent(tools=[get_weather])
result = agent.run("Do I need an umbrella in Oslo today?")
print(result.content)
print(f"({result.stop_reason}, {result.steps} steps, {result.usage.total_tokens} tokens)")
