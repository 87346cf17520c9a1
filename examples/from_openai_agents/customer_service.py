"""An airline's desk: agents that hand over to each other, and share what they learn about a passenger."""

from dataclasses import dataclass

from examples.models import ask, model
from pure_agent_loop import Agent, BeforeTool, EventType, HookContext, Hooks, QueryState, RunContext, tool
from pure_agent_loop.testing import call


@dataclass
class Passenger:
    flight: str = ""
    confirmation: str = ""
    seat: str = ""


ANSWERS = {"bag": "One bag of 20 kg is free.", "wifi": "The network is Sky-Wifi."}


@tool(read_only=True)
def look_up(topic: str) -> str:
    """Look up frequent questions: 'bag' or 'wifi'."""
    return ANSWERS.get(topic, "There is no answer.")


@tool
def update_seat(ctx: RunContext[Passenger], confirmation: str, seat: str) -> str:
    """Give the passenger another seat.

    Args:
        confirmation: The number of the booking.
        seat: Such as 12A.
    """
    ctx.deps.confirmation, ctx.deps.seat = confirmation, seat
    return f"{seat} on flight {ctx.deps.flight}"


def on_handoff(
    ctx: RunContext[Passenger], name: str, args: dict[str, object], context: HookContext
) -> BeforeTool | None:
    if name == "transfer_to_seats":
        ctx.deps.flight = "FLT-123"
    return None


questions = Agent[Passenger](
    llm=model(call("look_up", topic="bag"), "One bag of 20 kg is free.", call("transfer_to_desk")),
    name="questions",
    description="Answers questions about the airline.",
    system_prompt="Look questions up. For anything else transfer back to the desk.",
    tools=[look_up],
)
seats = Agent[Passenger](
    llm=model(
        "Your confirmation number, and the seat?", call("update_seat", confirmation="X1", seat="12A"), "Done."
    ),
    name="seats",
    description="Changes seats.",
    system_prompt="Ask for the confirmation number and the seat, then update it.",
    tools=[update_seat],
)
desk = Agent[Passenger](
    llm=model(call("transfer_to_questions"), call("transfer_to_seats")),
    name="desk",
    description="Sends customers to whoever can help.",
    system_prompt="Send the customer to whoever can help.",
    handoffs=[questions, seats],
    hooks=Hooks(before_tool=[on_handoff]),
)
questions.add_handoff(desk)
seats.add_handoff(desk)

passenger, state = Passenger(), QueryState()
for words in ("How many bags may I take?", "I want another seat.", "X1, and 12A please."):
    result = desk.run(ask("You:", words), state=state, deps=passenger)
    for event in result.events:
        if event.type is EventType.LOOP_START:
            print(f"({event.agent})")
    print(f"{result.agent}: {result.content}")
    state = result.state
print(passenger)

# Output:
# You: How many bags may I take?
# (desk)
# (questions)
# questions: One bag of 20 kg is free.
# You: I want another seat.
# (questions)
# (desk)
# (seats)
# seats: Your confirmation number, and the seat?
# You: X1, and 12A please.
# (seats)
# seats: Done.
# Passenger(flight='FLT-123', confirmation='X1', seat='12A')
