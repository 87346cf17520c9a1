"""Cost and limits: what a run may do and spend, and one budget for several runs."""

from pure_agent_loop import Agent, Budget, LoopLimits, Price, tool

# Prices of well-known models are shipped; for others, name yours: money for a million tokens.
PRICES = {"*": Price(input=1.00, output=4.00)}


@tool
def read_chapter(number: int) -> str:
    """Read a chapter."""
    return f"Chapter {number}: they walk on."


limits = LoopLimits(max_tool_calls=3, max_cost=0.50, prices=PRICES)
result = Agent(tools=[read_chapter], limits=limits).run("Read the book. How does it end?")
print(f"{result.stop_reason} after {result.steps} steps, for ${result.cost:.6f}")
print(result.content)  # a limit ends a run with a last answer, not with an exception

budget = Budget(max_cost=0.00006, prices=PRICES)  # for all of these runs together
for name in ("Ada", "Bob", "Cleo"):
    greeting = Agent(budget=budget).run(f"Greet {name}.")
    print(f"{name}: {greeting.stop_reason}: {greeting.content}")

# Output:
# max_tool_calls after 3 steps, for $0.000120
# I read three chapters: they walk on. I do not know the end.
#
# [Stopped: The tool call limit is reached (3).]
# Ada: completed: Hello, Ada!
# Bob: completed: Hello, Bob!
# Cleo: budget: [Stopped: The budget is used up.]
