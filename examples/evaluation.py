"""An evaluation of two prompts: the same cases for both, and what got better.

`pal eval evaluation.py` runs the cases of this file too.
"""

from pure_agent_loop import Agent, tool
from pure_agent_loop.evaluation import CalledTools, Case, Contains, Dataset, MaxSteps


@tool(read_only=True)
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"Light rain and 8 degrees in {city}"


dataset = Dataset(
    [
        Case("Do I need an umbrella in Oslo today?", expected="rain", name="umbrella"),
        Case("How warm is it in Oslo?", expected="8", name="warmth"),
    ],
    evaluators=[Contains(), CalledTools(["get_weather"]), MaxSteps(3)],
    name="weather",
)
agent = Agent(tools=[get_weather], system_prompt="Look it up before you answer.")

if __name__ == "__main__":
    before = dataset.run(agent.clone(system_prompt="Answer briefly."))
    after = dataset.run(agent)
    print(f"passed before: {before.passed:.0%}, after: {after.passed:.0%}")
    print(after.compare(before))

# Output:
# passed before: 0%, after: 100%
# better: umbrella: passed 0 -> 1
# better: umbrella: called_tools 0 -> 1
# better: warmth: passed 0 -> 1
# better: warmth: contains 0 -> 1
# better: warmth: called_tools 0 -> 1
