"""Secrets are removed from what tools return, before it is recorded, shown or sent to the model."""

import os

from pure_agent_loop import Agent, EventType, tool

os.environ["SHOP_API_KEY"] = "q9w8-e7r6-t5z4-u3i2"  # in real life it is there before the program starts


@tool
def read_settings() -> str:
    """Read the settings of the shop."""
    return f"currency=EUR\napi_key={os.environ['SHOP_API_KEY']}\nmail=https://shop:pa55w0rd-7@mail.example"


for event in Agent(tools=[read_settings]).run_stream("Which currency does the shop use?"):
    if event.type is EventType.OBSERVATION:
        print(event.result)
    elif event.type is EventType.LOOP_END:
        print("answer:", event.content)

# Output:
# currency=EUR
# api_key=[secret:SHOP_API_KEY removed]
# mail=https://shop:[secret removed]@mail.example
# answer: The shop uses euros.
