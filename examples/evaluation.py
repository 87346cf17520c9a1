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
    before = dataset.run(agent.clone(system_prompt="Answer briefly."), repeats=3)
    after = dataset.run(agent, repeats=3)
    print(f"passed before: {before.passed:.0%}, after: {after.passed:.0%}")
    print(after.compare(before))

# Output:
# passed before: 0%, after: 100%
# better: passed 0.000 -> 1.000 (+1.000, 95 %: +0.291 … +1.709)
# no difference beyond chance: contains 0.500 -> 1.000 (+0.500, 95 %: -0.001 … +1.001)
# better: called_tools 0.000 -> 1.000 (+1.000, 95 %: +0.291 … +1.709)
# To show a difference of 5 points in passed, both runs need about 1141 repeats per case (now 3).
# Cases that changed, largest change first (single cases also change by chance):
#   umbrella: passed 0 -> 1, called_tools 0 -> 1
#   warmth: passed 0 -> 1, contains 0 -> 1, called_tools 0 -> 1
