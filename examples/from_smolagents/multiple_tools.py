"""Several tools, called at the same time where the task needs several; what fails is told to the model."""

from examples.models import model
from pure_agent_loop import Agent, EventType, ToolExecutionError, tool
from pure_agent_loop.testing import call

RATES = {("USD", "EUR"): 0.9, ("EUR", "USD"): 1.1}


@tool(read_only=True)
def get_weather(location: str, celsius: bool = True) -> str:
    """Tell the weather in a place."""
    return f"{location}: light rain, {'8 °C' if celsius else '46 °F'}"


@tool(read_only=True)
def convert_currency(amount: float, source: str, target: str) -> float:
    """Convert an amount of money.

    Args:
        amount: How much.
        source: The code of its currency, such as USD.
        target: The code of the other one.
    """
    return amount * RATES[source, target]


@tool(read_only=True, idempotent=True)
def get_joke() -> str:
    """Fetch a joke from a service."""
    raise ToolExecutionError("get_joke", "the service does not answer")  # a bug would be logged


llm = model(
    [
        call("convert_currency", amount=5000, source="USD", target="EUR"),
        call("get_weather", location="Oslo"),
        call("get_joke"),
    ],
    "5000 dollars are 4500 euros. It rains in Oslo, which is no joke: there was none to be had.",
)
agent = Agent(llm=llm, tools=[get_weather, convert_currency, get_joke])
for event in agent.run_stream("What are 5000 dollars in euros, how is Oslo, and do you know a joke?"):
    if event.type is EventType.OBSERVATION:
        print(f"{event.tool}: {event.result}")
    elif event.type is EventType.LOOP_END:
        print(event.content)

# Output:
# convert_currency: 4500.0
# get_weather: Oslo: light rain, 8 °C
# get_joke: Tool 'get_joke' failed.
# Error type: ToolExecutionError
# Error: the service does not answer
# Check the arguments, try another way, or use another tool.
# 5000 dollars are 4500 euros. It rains in Oslo, which is no joke: there was none to be had.
