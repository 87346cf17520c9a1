"""Answers from documents: the agent searches as often as it needs to, in its own words."""

import re

from examples.models import model
from pure_agent_loop import Agent, LoopLimits, RunContext, tool
from pure_agent_loop.testing import call

DOCUMENTS = """The forward pass computes the outputs of each layer.

The backward pass computes gradients. It takes about twice as long as the forward pass.

Gradient checkpointing saves memory by computing some outputs again."""


class Library:
    """Passages, ranked by the share of their words that are asked for; put your own index here."""

    def __init__(self, text: str) -> None:
        self._passages = [(passage, words_of(passage)) for passage in text.split("\n\n")]

    def find(self, query: str, most: int = 2) -> list[str]:
        wanted = words_of(query)
        ranked = sorted(self._passages, key=lambda each: len(each[1] & wanted) / len(each[1]), reverse=True)
        return [passage for passage, words in ranked[:most] if words & wanted]


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@tool(read_only=True)
def retrieve(ctx: RunContext[Library], query: str) -> str:
    """Find passages of the documentation.

    Args:
        query: Words that the passage may have; a statement finds more than a question.
    """
    found = ctx.deps.find(query)
    return "\n\n".join(found) or "Nothing was found. Try other words."


llm = model(
    call("retrieve", query="slower"),
    call("retrieve", query="the backward pass takes long"),
    "The backward pass is slower: it takes about twice as long.",
)
agent = Agent[Library](llm=llm, tools=[retrieve], limits=LoopLimits(max_turns=4))
print(agent.run("Which is slower, the forward or the backward pass?", deps=Library(DOCUMENTS)).content)

# Output:
# The backward pass is slower: it takes about twice as long.
