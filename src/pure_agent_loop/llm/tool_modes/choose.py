"""Whether a tool answers, and which one: by what the model itself finds likely.

A small model that is asked "yes or no?" says nothing, and one that may write what it likes always likes the
same. But likelihoods tell what it understood, read in two directions:

    named(tool) = share of the surprise at its name, among the names of all tools, that the words of the
                  user take away, compared with words without content
    heard(tool) = share of the surprise at the words of the user that the tool takes away, compared with
                  no tool

    share = (log P(text | with) - log P(text | without)) / -log P(text | without)

The first is the calibration of Zhao et al., "Calibrate Before Use", arXiv:2102.09690, the second the noisy
channel of Min et al., arXiv:2108.04106. A share, because texts differ in length and in how likely they are by
themselves. The two err on different questions; their sum decides which tool. Whether it is called, the name
says twice: nearly every tool makes words somewhat likelier than none does. Above zero a tool explains more
than its absence does, so there is no threshold. What names come to without content is asked once for a set of
tools.

The model never writes any of these texts: the server is held to them, and says how likely they were. It takes
the likeliest token that the text still allows, so the more a text surprises, the smaller it is cut, and each
small token is a surprise by itself. Of a name, short as it is, the cut alone would decide; so two readings of
it are compared at the places where both begin a token. Of the words the beginning is heard, as far as both
readings came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from pure_agent_loop.llm.messages import Message, is_question, text_of
from pure_agent_loop.llm.response import CUT_OFF
from pure_agent_loop.llm.tool_modes.ask import Asking
from pure_agent_loop.llm.tool_modes.examples import Chosen, chosen_examples, no_tool
from pure_agent_loop.llm.values import get
from pure_agent_loop.prompts import Prompts

NO_CONTENT = "N/A"
MOST_TOOLS = 12  # one request each; with more, constrained output chooses
_MOST_HEARD = 2  # of them, for which what was said is looked at too
_LONGEST_SAID = 1_000  # characters of what was said, the newest
_LONGEST_HEARD = 120  # bytes of that, the newest
_MOST_HEARD_TOKENS = 20  # of these, the first: they are written, and writing is slow
_LONGEST_DESCRIPTION = 100
_MOST_TOKENS = 300

Tool = Mapping[str, Any]


class Piece(NamedTuple):
    """A token of a text that was read: from which byte to which, and how likely it was (a logarithm)."""

    start: int
    end: int
    likely: float


Reading = Sequence[Piece]


async def choose(
    asking: Asking,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    prompts: Prompts,
    known: dict[tuple[str, str], Reading],
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
    named = await _named(asking, said, tools, shots, prompts, known)
    best = sorted(range(len(tools)), key=named.__getitem__, reverse=True)[:_MOST_HEARD]
    try:
        heard = await _heard(asking, said, [tools[each] for each in best], shots, prompts)
    except NoProbabilitiesError:  # no server writes every text as it stands; then the names decide
        heard = [0.0] * len(best)
    sums = {each: named[each] + share for each, share in zip(best, heard, strict=True)}
    chosen = max(sums, key=sums.__getitem__)
    return tools[chosen] if has_to_call or named[chosen] + sums[chosen] > 0 else None


class NoProbabilitiesError(Exception):
    """A server did not say how likely its tokens are."""


async def _named(
    asking: Asking,
    said: str,
    tools: Sequence[Tool],
    shots: Sequence[Chosen],
    prompts: Prompts,
    known: dict[tuple[str, str], Reading],
) -> list[float]:
    """How much what was said speaks for each tool's name.

    The caller's system prompt is not looked at: it speaks of how to answer, and blurs what is compared.
    """
    lead: list[Message] = [{"role": "system", "content": prompts.choose}]
    none = no_tool(prompts)
    for shot in shots:
        lead += [] if shot.name in none else _turn(shot.request, shot.name)
    # The tools stand behind the examples: what is before them stays in the server's cache for all tools.
    listed = "\n".join("- " + ": ".join(_about(each)) for each in tools)
    lead += _turn(prompts.choose_tools.format(tools=listed), prompts.choose_ready)
    written = json.dumps(lead)
    keys = [(written, _about(each)[0]) for each in tools]
    # First all of the one, then all of the other: the server keeps what it read last.
    for key in keys:
        if key not in known:
            known[key] = await _read(asking, lead, NO_CONTENT, key[1])
    return [_share_of_name(await _read(asking, lead, said, key[1]), known[key]) for key in keys]


async def _heard(
    asking: Asking, said: str, tools: Sequence[Tool], shots: Sequence[Chosen], prompts: Prompts
) -> list[float]:
    """How much each tool speaks for what was said. The tools that are offered are not listed."""
    said = said.encode()[-_LONGEST_HEARD:].decode(errors="ignore")
    lead: list[Message] = [{"role": "system", "content": prompts.choose_heard}]
    for shot in shots:
        lead += _turn(f"{shot.name}: {shot.description}", shot.request)
    names = no_tool(prompts)
    none = next((f"{each.name}: {each.description}" for each in shots if each.name in names), NO_CONTENT)
    without = await _read(asking, lead, none, said, _MOST_HEARD_TOKENS)
    found = []
    for each in tools:
        reading = await _read(asking, lead, ": ".join(_about(each)), said, _MOST_HEARD_TOKENS)
        found.append(_share_of_words(reading, without))
    return found


def _share_of_name(reading: Reading, before: Reading) -> float:
    starts = {each.start for each in reading} & {each.start for each in before}
    likely, without = ([each for each in read if each.start in starts] for read in (reading, before))
    return _share(likely, without)


def _share_of_words(reading: Reading, before: Reading) -> float:
    end = min(max((each.end for each in read), default=0) for read in (reading, before))
    likely, without = ([each for each in read if each.end <= end] for read in (reading, before))
    return _share(likely, without)


def _share(reading: Reading, before: Reading) -> float:
    likely, without = (sum(each.likely for each in read) for read in (reading, before))
    return (likely - without) / -without if without else 0.0


async def _read(
    asking: Asking, lead: Sequence[Message], asked: str, text: str, most: int = _MOST_TOKENS
) -> Reading:
    """How likely the model finds a text as the next thing to say: the whole, or its first `most` tokens."""
    said = await asking.ask(
        [*lead, {"role": "user", "content": asked}],
        schema={"type": "string", "enum": [text]},
        max_tokens=most,
        logprobs=True,
        top_logprobs=1,
    )
    content = said.content or ""
    is_whole = _parsed(content) == text
    if not is_whole and not (said.finish_reason in CUT_OFF and _begins(text, content)):
        raise NoProbabilitiesError  # the server does not hold to schemas
    choices = get(said.raw, "choices") or [None]
    end = len(content.encode()) - is_whole  # where the closing quote stands
    reading, written = [], 0
    for token in get(get(choices[0], "logprobs"), "content") or ():
        piece, likely = get(token, "bytes") or (get(token, "token") or "").encode(), get(token, "logprob")
        if not isinstance(likely, (int, float)):
            raise NoProbabilitiesError
        if 0 < written < end:
            reading.append(Piece(written, written + len(piece), likely))
        written += len(piece)
    if written < end:
        raise NoProbabilitiesError
    return reading


def _parsed(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _begins(text: str, content: str) -> bool:
    return any(json.dumps(text, ensure_ascii=each).startswith(content) for each in (False, True))


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


def has_result(messages: Sequence[Message]) -> bool:
    """True if a tool has answered since the user said something."""
    newest_first = reversed(messages)
    return any(m["role"] == "tool" for m in takewhile(lambda each: not is_question(each), newest_first))


def last_question(messages: Sequence[Message]) -> str:
    """What the user said last, with what was said before it: "And in Paris?" needs both."""
    return "\n".join([text_of(m.get("content") or "") for m in messages if is_question(m)][-2:])
