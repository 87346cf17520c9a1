"""A table that grows while the model writes it: parts of a typed answer, as they come."""

from typing import Annotated

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from examples.models import model
from pure_agent_loop import Agent, EventType


class Whale(TypedDict):
    name: str
    length: Annotated[float, Field(description="Of an adult, in meters.")]
    ocean: NotRequired[str]


llm = model(
    '[{"name": "Blue whale", "length": 25, "ocean": "all"}, '
    '{"name": "Beluga", "length": 4.5, "ocean": "the Arctic"}, {"name": "Narwhal", "length": 4.5}]'
)
agent = Agent(llm=llm, output_type=list[Whale])


def show(whale: Whale) -> None:
    print(f"{whale['name']:12} {whale['length']:5} m  {whale.get('ocean', '?')}", flush=True)


run = agent.prepare("Describe three whales.")
shown = 0
for event in run.stream_sync():
    if event.type is EventType.PARTIAL_OUTPUT:
        whole = event.output[shown:-1]  # the last one is still being written, and nothing is validated yet
        for whale in whole:
            show(whale)
        shown += len(whole)
for whale in run.result().unwrap()[shown:]:
    show(whale)

# Output:
# Blue whale      25 m  all
# Beluga         4.5 m  the Arctic
# Narwhal        4.5 m  ?
