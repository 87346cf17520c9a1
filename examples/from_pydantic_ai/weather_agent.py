"""Two tools in turn, for two places at the same time: where they are, then the weather there."""

from dataclasses import dataclass, field

from examples.models import model
from pure_agent_loop import Agent, Retry, RunContext, tool
from pure_agent_loop.testing import call


@dataclass
class Place:
    lat: float
    lng: float


@dataclass
class Services:
    """In the place of web services."""

    places: dict[str, Place] = field(
        default_factory=lambda: {"London": Place(51.5, -0.1), "Wiltshire": Place(51.3, -1.9)}
    )


@tool(read_only=True, retries=2)
async def locate(ctx: RunContext[Services], place: str) -> Place:
    """Find the latitude and longitude of a place.

    Args:
        place: Its name.
    """
    if place not in ctx.deps.places:
        raise Retry(f"{place} is not known. There are: {', '.join(ctx.deps.places)}.")
    return ctx.deps.places[place]


@tool(read_only=True)
async def weather(lat: float, lng: float) -> dict[str, str]:
    """Tell the weather at a place."""
    return {"temperature": f"{round(60 - lat)} °C", "sky": "sunny" if lng < -1 else "rain"}


llm = model(
    [call("locate", place="London"), call("locate", place="Wiltshire")],
    [call("weather", lat=51.5, lng=-0.1), call("weather", lat=51.3, lng=-1.9)],
    "London has rain and 8 °C, Wiltshire sun and 9 °C.",
)
agent = Agent[Services](llm=llm, tools=[locate, weather], system_prompt="Reply with one sentence.")
result = agent.run("What is the weather like in London and in Wiltshire?", deps=Services())
print(result.content)

# Output:
# London has rain and 8 °C, Wiltshire sun and 9 °C.
