"""Many parts at the same time, then one choice, under one budget."""

import asyncio

from examples.models import model
from pure_agent_loop import Agent, Budget

SUBJECTS = ["cats", "trains", "the rain"]


async def main() -> None:
    """Write a joke on each subject, then choose the best."""
    budget = Budget(max_tokens=20_000)
    writer = Agent(
        llm=model("A cat walks in.", "A train walks in.", "It rains."),
        system_prompt="Write a joke of one line.",
        budget=budget,
    )
    judge = Agent(
        llm=model("2"), output_type=int, system_prompt="Say the number of the best joke.", budget=budget
    )
    runs = await asyncio.gather(*(writer.arun(f"A joke about {subject}.") for subject in SUBJECTS))
    jokes = [run.unwrap() for run in runs]
    best = await judge.arun("\n".join(f"{number}. {joke}" for number, joke in enumerate(jokes, 1)))
    print(jokes[best.unwrap() - 1])


asyncio.run(main())

# Output:
# A train walks in.
