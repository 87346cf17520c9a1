"""A supervisor with two workers: one searches, one calculates, and each sees only what it is asked."""

from examples.models import model
from pure_agent_loop import Agent, EventType, tool
from pure_agent_loop.testing import call


@tool(read_only=True)
def search(query: str) -> str:
    """Search the web."""
    return "Norway: 500 billion. Bergen: 50 billion."


@tool(read_only=True)
def divide(a: float, b: float) -> float:
    """Divide two numbers."""
    return a / b


researcher = Agent(
    llm=model(call("search", query="product of Norway and Bergen"), "Norway 500 billion, Bergen 50 billion."),
    name="research",
    description="Finds facts. Does no mathematics.",
    tools=[search],
)
calculator = Agent(
    llm=model(call("divide", a=50, b=500), "0.1"),
    name="math",
    description="Calculates. Knows no facts.",
    tools=[divide],
)
supervisor = Agent(
    llm=model(
        call("research", input="The product of Norway and of Bergen."),
        call("math", input="50 / 500"),
        "Bergen has 10 percent of the product of Norway.",
    ),
    tools=[researcher, calculator],
    system_prompt="Give one task at a time to one of your workers. Do no work yourself.",
)
for event in supervisor.run_stream("What share of Norway's product does Bergen have?"):
    if event.type is EventType.OBSERVATION:
        print(f"{event.tool}: {event.result}")
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# research: Norway 500 billion, Bergen 50 billion.
# math: 0.1
# Bergen has 10 percent of the product of Norway.
