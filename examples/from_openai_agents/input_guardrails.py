"""A guard beside the agent: both begin at once, and what the guard refuses never gets an answer."""

import asyncio
from dataclasses import dataclass

from examples.models import model
from pure_agent_loop import Agent, CancelToken
from pure_agent_loop.llm.messages import Message


@dataclass
class Check:
    reasoning: str
    is_homework: bool


guard = Agent(
    llm=model(
        '{"reasoning": "geography", "is_homework": false}',
        '{"reasoning": "an equation", "is_homework": true}',
    ),
    output_type=Check,
    system_prompt="Say whether the user wants you to do homework in mathematics.",
)
helper = Agent(llm=model("Sacramento.", "x is 3."), system_prompt="You help customers.")


async def guarded(task: str, history: list[Message]) -> str:
    """Ask the agent, unless the guard says no; a refusal stands in the history too."""
    token = CancelToken()
    answer = asyncio.create_task(helper.arun(task, history, cancel_token=token))
    if (await guard.arun(task)).unwrap().is_homework:
        token.cancel()
        await answer
        words = "I cannot do your homework."
        history += [{"role": "user", "content": task}, {"role": "assistant", "content": words}]
        return words
    result = await answer
    history[:] = result.messages
    return result.content


async def main() -> None:
    history: list[Message] = []
    for task in ("What is the capital of California?", "Solve 2x + 5 = 11 for me."):
        print(await guarded(task, history))


asyncio.run(main())

# Output:
# Sacramento.
# I cannot do your homework.
