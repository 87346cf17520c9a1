"""Whether a tool answers, and which one: by how likely the model itself finds each tool's name.

A small model that is asked "yes or no?" says nothing, and one that may write what it likes always likes the
same. But how much more likely a name becomes through the conversation, compared with a conversation
without content, tells what the model understood:

    gain(name)  = log P(name | conversation) - log P(name | no content)
    share(name) = gain(name) / -log P(name | no content)

The comparison is the calibration of Zhao et al., "Calibrate Before Use", arXiv:2102.09690. What counts is
the share of the surprise at a name that the conversation takes away, because names differ in length and in
how likely they are by themselves. "answer" is one more name, so there is no threshold: the greatest share
wins.

Without content means "N/A" and the like. The likeliest of several counts, because a server that is held to a
name may spell it in unlucky tokens. The model never writes a name: the server is held to each of them, and
says how likely it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pure_agent_loop.llm.messages import Message, text_of
from pure_agent_loop.llm.tool_modes.ask import Asking
from pure_agent_loop.llm.tool_modes.examples import chosen_examples
from pure_agent_loop.llm.values import get
from pure_agent_loop.prompts import Prompts

ANSWER = "answer"
NO_CONTENT = ("N/A", "...", "?")
MOST_TOOLS = 12  # one request each; with more, constrained output chooses
_LONGEST_DESCRIPTION = 100
_NAME_TOKENS = 64


async def choose(
    asking: Asking,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    prompts: Prompts,
    known: dict[tuple[str, str], float],
    *,
    has_to_call: bool = False,
) -> Mapping[str, Any] | None:
    """The tool to call.

    Args:
        asking: Where to ask.
        messages: The conversation.
        tools: The schemas that are offered; one may hold ``examples``.
        prompts: The words.
        known: How likely names are without content, by instructions and name; added to.
        has_to_call: True if an answer in words is no choice.

    Returns:
        The tool's schema, or None for an answer in words.

    Raises:
        NoProbabilitiesError: The server does not say how likely names are.
        LLMError: A request failed.
    """
    lead = _lead(tools, prompts)
    asked = last_question(messages)

    async def share(name: str) -> float:
        key = (json.dumps(lead), name)
        if key not in known:
            known[key] = max([await _likelihood(asking, lead, each, name) for each in NO_CONTENT])
        before = known[key]
        return (await _likelihood(asking, lead, asked, name) - before) / -before if before else 0.0

    shares = [await share(tool["function"]["name"]) for tool in tools]
    best = max(range(len(tools)), key=shares.__getitem__)
    if has_to_call or shares[best] > max(0.0, await share(ANSWER)):
        return tools[best]
    return None


class NoProbabilitiesError(Exception):
    """A server did not say how likely its tokens are."""


async def _likelihood(asking: Asking, lead: Sequence[Message], asked: str, name: str) -> float:
    """The logarithm of how likely the model finds a name as the next thing to say."""
    said = await asking.ask(
        [*lead, {"role": "user", "content": asked}],
        schema={"type": "string", "enum": [name]},
        max_tokens=_NAME_TOKENS,
        logprobs=True,
        top_logprobs=1,
    )
    choices = get(said.raw, "choices") or [None]
    tokens = get(get(choices[0], "logprobs"), "content")
    total, written = 0.0, ""
    for token in tokens or ():
        text, likely = get(token, "token"), get(token, "logprob")
        if not isinstance(text, str) or not isinstance(likely, (int, float)):
            raise NoProbabilitiesError
        begins_inside = written.startswith('"') and len(written) <= len(name)
        total += likely if begins_inside else 0.0
        written += text
    if not written.startswith(f'"{name}'):
        raise NoProbabilitiesError
    return total


def _lead(tools: Sequence[Mapping[str, Any]], prompts: Prompts) -> list[Message]:
    """What stands before the question, the same for every question: a server keeps it in its cache.

    The caller's system prompt is no part of it. It speaks of how to answer, and blurs what is compared here.
    """
    listed = "\n".join(
        f"- {each['function']['name']}: {_first_sentence(each['function'].get('description') or '')}"
        for each in tools
    )
    lead: list[Message] = [{"role": "system", "content": prompts.choose.format(tools=listed)}]
    given = [
        (question, each["function"]["name"])
        for each in tools
        for question, _ in each["function"].get("examples") or ()
    ]
    for question, name in [*chosen_examples(prompts), *given]:
        lead += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": json.dumps(name, ensure_ascii=False)},
        ]
    return lead


def _first_sentence(description: str) -> str:
    line = description.strip().partition("\n")[0]
    return line.partition(". ")[0][:_LONGEST_DESCRIPTION]


def is_question(message: Mapping[str, Any]) -> bool:
    """True for what the user said; False for notices of the framework."""
    return message["role"] == "user" and not (message.get("meta") or {}).get("synthetic")


def has_result(messages: Sequence[Message]) -> bool:
    """True if a tool has answered since the user said something."""
    newest_first = reversed(messages)
    return any(m["role"] == "tool" for m in takewhile(lambda each: not is_question(each), newest_first))


def last_question(messages: Sequence[Message]) -> str:
    """What the user said last, with what was said before it: "And in Paris?" needs both."""
    return "\n".join([text_of(m.get("content") or "") for m in messages if is_question(m)][-2:])
