"""Whether a tool answers, and which one: by what the model itself finds likely.

A small model that is asked "yes or no?" says nothing, and one that may write what it likes always likes the
same. But likelihoods tell what it understood. Each tool is read by its name, and where the words of the user
speak for several, these are read by what they do, too:

    named(tool)     = share of the surprise at its name, among the names of all tools, that the words of the
                      user take away
    described(tool) = share of the surprise at its name and what it does, where no tools are listed, that
                      the words of the user take away

    share = (log P(text | words) - log P(text | "N/A")) / -log P(text | "N/A")

Words without content are the calibration of Zhao et al., "Calibrate Before Use", arXiv:2102.09690. A share,
because texts differ in length and in how likely they are by themselves; above zero, the words speak for the
tool, so there is no threshold. The two readings err on different questions: of several tools the one with
the greatest sum is called.

What the user said is only read, and all that is written belongs to the tools: it is short, and how likely it
is without content is asked once for a set of tools. (The other direction, the words given the tool, says as
much and costs several times as much: a chat server has no likelihoods of what it reads, so the words had to
be written, once for each tool and once for none.)

The model never writes any of these texts: the server is held to them, and says how likely they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pure_agent_loop.llm.messages import Message, text_of
from pure_agent_loop.llm.tool_modes.ask import Asking
from pure_agent_loop.llm.tool_modes.examples import Chosen, chosen_examples, no_tool
from pure_agent_loop.llm.values import get
from pure_agent_loop.prompts import Prompts

NO_CONTENT = "N/A"
MOST_TOOLS = 12  # one request each; with more, constrained output chooses
_MOST_DESCRIBED = 4  # of them, of which what they do is looked at too
_LONGEST_SAID = 1_000  # characters of what was said, the newest
_LONGEST_DESCRIPTION = 100
_MOST_TOKENS = 300

Tool = Mapping[str, Any]


async def choose(
    asking: Asking,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    prompts: Prompts,
    known: dict[tuple[str, str], float],
    *,
    has_to_call: bool = False,
) -> Tool | None:
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
        NoProbabilitiesError: The server does not say how likely texts are.
        LLMError: A request failed.
    """
    said = last_question(messages)[-_LONGEST_SAID:]
    shots = [*chosen_examples(prompts), *_own_examples(tools)]
    reading = _Reading(asking, said, known)
    named = await reading.shares(_names_lead(tools, shots, prompts), [_about(each)[0] for each in tools])
    best = sorted(range(len(tools)), key=named.__getitem__, reverse=True)[:_MOST_DESCRIBED]
    if not has_to_call:
        best = [each for each in best if named[each] > 0]
    if len(best) < 2:
        return tools[best[0]] if best else None
    texts = [": ".join(_about(tools[each])) for each in best]
    described = await reading.shares(_descriptions_lead(shots, prompts), texts)
    sums = {each: named[each] + share for each, share in zip(best, described, strict=True)}
    return tools[max(sums, key=sums.__getitem__)]


class NoProbabilitiesError(Exception):
    """A server did not say how likely its tokens are."""


class _Reading:
    """How much what a user said speaks for each of some texts.

    Args:
        asking: Where to ask.
        said: What the user said.
        known: How likely texts are without content, by instructions and text; added to.
    """

    def __init__(self, asking: Asking, said: str, known: dict[tuple[str, str], float]) -> None:
        self._asking = asking
        self._said = said
        self._known = known

    async def shares(self, lead: Sequence[Message], texts: Sequence[str]) -> list[float]:
        """For each text, behind the instructions, the share of the surprise that goes."""
        keys = [(json.dumps(lead), text) for text in texts]
        # First all of the one, then all of the other: the server keeps what it read last.
        for key in keys:
            if key not in self._known:
                self._known[key] = await _likelihood(self._asking, lead, NO_CONTENT, key[1])
        likely = [await _likelihood(self._asking, lead, self._said, text) for text in texts]
        without = [self._known[key] for key in keys]
        return [(now - then) / -then if then else 0.0 for now, then in zip(likely, without, strict=True)]


def _names_lead(tools: Sequence[Tool], shots: Sequence[Chosen], prompts: Prompts) -> list[Message]:
    """Instructions and examples, before a tool is named.

    The caller's system prompt is not looked at: it speaks of how to answer, and blurs what is compared.
    """
    none = no_tool(prompts)
    lead: list[Message] = [{"role": "system", "content": prompts.choose}]
    for shot in shots:
        lead += [] if shot.name in none else _turn(shot.request, shot.name)
    # The tools stand behind the examples: what is before them stays in the server's cache for all tools.
    listed = "\n".join("- " + ": ".join(_about(each)) for each in tools)
    return lead + _turn(prompts.choose_tools.format(tools=listed), prompts.choose_ready)


def _descriptions_lead(shots: Sequence[Chosen], prompts: Prompts) -> list[Message]:
    """The same, before it is said what the tool does. The tools that are offered are not listed."""
    lead: list[Message] = [{"role": "system", "content": prompts.choose_described}]
    for shot in shots:
        lead += _turn(shot.request, f"{shot.name}: {shot.description}")
    return lead


async def _likelihood(asking: Asking, lead: Sequence[Message], asked: str, text: str) -> float:
    """The logarithm of how likely the model finds a text as the next thing to say."""
    said = await asking.ask(
        [*lead, {"role": "user", "content": asked}],
        schema={"type": "string", "enum": [text]},
        max_tokens=_MOST_TOKENS,
        logprobs=True,
        top_logprobs=1,
    )
    if _read(said.content) != text:  # the server does not hold to schemas, or cut it off
        raise NoProbabilitiesError
    choices = get(said.raw, "choices") or [None]
    end = len(json.dumps(text, ensure_ascii=False).encode()) - 1  # where the closing quote stands
    total, written = 0.0, 0
    for token in get(get(choices[0], "logprobs"), "content") or ():
        piece, likely = get(token, "bytes") or (get(token, "token") or "").encode(), get(token, "logprob")
        if not isinstance(likely, (int, float)):
            raise NoProbabilitiesError
        total += likely if 0 < written < end else 0.0
        written += len(piece)
    if written <= end:
        raise NoProbabilitiesError
    return total


def _read(content: str | None) -> Any:
    try:
        return json.loads(content or "")
    except ValueError:
        return None


def _turn(asked: str, said: str) -> list[Message]:
    said = json.dumps(said, ensure_ascii=False)
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


def _about(tool: Tool) -> tuple[str, str]:
    """A tool's name, and what it does, in short."""
    function = tool["function"]
    return function["name"], _first_sentence(function.get("description") or "")


def _own_examples(tools: Sequence[Tool]) -> list[Chosen]:
    """The worked examples that tools bring along."""
    return [
        Chosen(request, *_about(each))
        for each in tools
        for request, _ in each["function"].get("examples") or ()
    ]


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
