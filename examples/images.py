"""Images in: a picture goes with the task, and a typed answer comes back."""

from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop import Agent, Image


@dataclass
class Receipt:
    shop: str
    total: float


agent = Agent(output_type=Receipt)
picture = Image(path=Path(__file__).with_name("receipt.png"))
receipt = agent.run("Read this receipt.", media=[picture]).unwrap()
print(f"{receipt.total:.2f} at {receipt.shop}")

# Output:
# 85.00 at Lamps & Co
