"""Cases for an agent, and what must be true of its answers: also for `pal eval examples/evaluation.py`."""

from pure_agent_loop import Agent, tool
from pure_agent_loop.evaluation import CalledTools, Case, Contains, Dataset, MaxSteps


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Light rain and 8 degrees in {city}"


agent = Agent(tools=[get_weather])
dataset = Dataset(
    [
        Case("Do I need an umbrella in Oslo today?", expected="rain", name="umbrella"),
        Case("How warm is it in Oslo?", expected="8", name="warmth"),
    ],
    evaluators=[Contains(), CalledTools(["get_weather"]), MaxSteps(3)],
    name="weather",
)

if __name__ == "__main__":
    report = dataset.run(agent, concurrency=2)
    print(report)
