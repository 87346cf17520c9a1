"""Three agents find a flight and a seat: one asks another one, the answer is checked, a person decides."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from examples.models import ask, model
from pure_agent_loop import Agent, Budget, Retry, RunContext, tool
from pure_agent_loop.testing import call

PAGE = """AK123: San Francisco (SFO) to Anchorage (ANC), 10 January 2031, $350
LA101: San Francisco (SFO) to Anchorage (ANC), 10 January 2031, $250
CH202: Chicago (ORD) to Miami (MIA), 12 January 2031, $200"""


@dataclass
class Flight:
    number: str
    price: int
    origin: str
    destination: str
    day: date


@dataclass
class NoFlight:
    """No flight fits."""


@dataclass
class Wish:
    page: str
    origin: str
    destination: str
    day: date


@dataclass
class Seat:
    row: Annotated[int, Field(ge=1, le=30)]
    letter: Literal["A", "B", "C", "D", "E", "F"]


budget = Budget(max_tokens=50_000)  # of all three
LA101 = '{"number": "LA101", "price": 250, "origin": "SFO", "destination": "ANC", "day": "2031-01-10"}'
AK123 = '{"number": "AK123", "price": 350, "origin": "SFO", "destination": "ANC", "day": "2031-01-10"}'
WRONG = '{"number": "CH202", "price": 200, "origin": "ORD", "destination": "MIA", "day": "2031-01-12"}'
reader = Agent(
    llm=model(f"[{LA101}, {AK123}, {WRONG}]"),
    output_type=list[Flight],
    system_prompt="Extract all flights.",
    budget=budget,
)
seats = Agent(
    llm=model('{"row": 1, "letter": "A"}'),
    output_type=Seat,
    system_prompt="Extract the seat. A and F are at the window; row 1 has room for legs.",
    budget=budget,
)


@tool(read_only=True)
async def flights(ctx: RunContext[Wish]) -> list[Flight]:
    """Find all flights."""
    return (await reader.arun(ctx.deps.page)).unwrap()


searcher = Agent[Wish, Flight | NoFlight](
    llm=model(call("flights"), WRONG, LA101, AK123),
    tools=[flights],
    output_type=[Flight, NoFlight],
    output_retries=4,
    system_prompt="Find the cheapest flight.",
    budget=budget,
)


@searcher.output_check
def fits(ctx: RunContext[Wish], flight: Flight | NoFlight) -> None:
    wish = ctx.deps
    if isinstance(flight, Flight) and (flight.origin, flight.destination, flight.day) != (
        wish.origin,
        wish.destination,
        wish.day,
    ):
        raise Retry(f"It must go from {wish.origin} to {wish.destination} on {wish.day}.")


def main() -> None:
    """Offer flights until one is bought."""
    wish = Wish(PAGE, "SFO", "ANC", date(2031, 1, 10))
    talk = searcher.conversation()
    task = f"A flight from {wish.origin} to {wish.destination} on {wish.day}."
    for answer in ("search", "buy"):
        flight = talk.send_sync(task, deps=wish).unwrap()
        if isinstance(flight, NoFlight):
            print("There is no such flight.")
            return
        if ask(f"{flight.number} for ${flight.price}: buy it, or search on?", answer) == "buy":
            print(f"{flight.number} is yours:", seats.run(ask("Which seat?", "In front, a window.")).unwrap())
            return
        task = "Suggest another flight."


main()

# Output:
# LA101 for $250: buy it, or search on? search
# AK123 for $350: buy it, or search on? buy
# Which seat? In front, a window.
# AK123 is yours: Seat(row=1, letter='A')
