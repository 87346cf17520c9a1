"""A typed answer while it is written: each partial output holds more than the one before."""

from pydantic import BaseModel

from pure_agent_loop import Agent, EventType


class Trip(BaseModel):
    city: str
    stops: list[str]


agent = Agent(output_type=Trip)
run = agent.prepare("Plan half a day in Oslo.")
shown = 0
for event in run.stream_sync():
    if event.type is EventType.PARTIAL_OUTPUT:
        stops = event.output.get("stops", [])
        for stop in stops[shown:-1]:  # the last one may not be complete yet
            print("next stop:", stop)
        shown = max(shown, len(stops) - 1)

trip = run.result().unwrap()  # checked: a Trip
print(f"{len(trip.stops)} stops in {trip.city}, the last one is {trip.stops[-1]}")

# Output:
# next stop: the opera
# next stop: the fortress
# next stop: the harbour
# 4 stops in Oslo, the last one is a cafe
