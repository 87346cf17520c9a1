"""A manager and an agent that reads the web: searching and visiting are the other one's work."""

from examples.models import model
from pure_agent_loop import Agent, LoopLimits, Retry, tool
from pure_agent_loop.testing import call

# In the place of the web. A real one: `pure_agent_loop.toolbox` has a tool that fetches pages.
PAGES = {
    "https://example.com/growth": "The economy grew by 2.8 percent last year.",
    "https://example.com/tea": "Tea is grown on hills.",
}


@tool(read_only=True)
def search(query: str) -> list[str]:
    """Search the web; the result is a list of addresses."""
    words = set(query.lower().split())
    return [address for address, text in PAGES.items() if words & set(text.lower().split())]


@tool(read_only=True)
def visit(address: str) -> str:
    """Read a page."""
    if address not in PAGES:
        raise Retry("There is no such page. Search first.")
    return PAGES[address]


@tool(read_only=True)
def years_to_double(percent: float) -> float:
    """Say how many years something takes to double that grows by so many percent a year."""
    years, size = 0, 1.0
    while size < 2 and years < 1000:
        years, size = years + 1, size * (1 + percent / 100)
    return years


reader = Agent(
    llm=model(
        call("search", query="growth of the economy"),
        call("visit", address="https://example.com/growth"),
        "2.8 percent (https://example.com/growth)",
    ),
    name="web_search",
    description="Searches the web and reads pages.",
    tools=[search, visit],
    limits=LoopLimits(max_turns=10),
)
manager = Agent(
    llm=model(
        call("web_search", input="How much did the economy grow last year?"),
        call("years_to_double", percent=2.8),
        "It doubles in 26 years.",
    ),
    tools=[reader, years_to_double],
)
result = manager.run("How long does the economy take to double at last year's rate? Say your source.")
print(result.content)
print(f"({result.usage.total_tokens} tokens of both)")

# Output:
# It doubles in 26 years.
# (90 tokens of both)
