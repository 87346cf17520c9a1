"""A task known from LangGraph: many parts at the same time, then one choice, under one budget. No graph."""

import asyncio

from pure_agent_loop import Agent, Budget


async def main() -> None:
    """Write a joke on each subject, then choose the best."""
    budget = Budget(max_tokens=20_000)
    subjects = ["cats", "trains", "the rain"]
    async with (
        Agent(system_prompt="Write a joke of one line.", budget=budget) as writer,
        Agent(system_prompt="Say the number of the best joke.", budget=budget) as judge,
    ):
        jokes = await asyncio.gather(*(writer.arun(f"A joke about {subject}.") for subject in subjects))
        numbered = "\n".join(f"{number}. {joke.content}" for number, joke in enumerate(jokes, 1))
        print((await judge.arun(numbered)).content)


asyncio.run(main())
