"""Choice of a tool, or of none, by the model's token likelihoods.

The yes-or-no answers of a small model carry no information, and in free text it always makes the same choice.
But its likelihoods show what it understood, measured in two directions:

    by_name(tool)    = share of the surprise at the tool's name, among the names of all tools, that the
                       user's request removes, compared with a request without content
    by_request(tool) = share of the surprise at the user's request that the tool removes, compared with
                       no tool

    share = (log P(text | with) - log P(text | without)) / -log P(text | without)

The first is the calibration of Zhao et al., "Calibrate Before Use", arXiv:2102.09690, the second the noisy
channel of Min et al., arXiv:2108.04106. Shares are used because texts differ in length and in base
likelihood. The two measures fail on different questions; their sum selects the tool. The decision to call it
counts the name twice, because nearly every tool makes a request somewhat likelier than no tool does. Above
zero, a tool explains more than its absence, so there is no threshold. The likelihoods of names without
content are requested once per set of tools.

The model does not choose these texts: the schema forces the server to write them and to return their
likelihoods. It takes the likeliest token that the text allows, so surprising texts are split into smaller
tokens, each a surprise by itself. For a short name, the split alone would decide; so two readings of a name
are compared only at positions where both begin a token. Requests are compared up to the end of the shorter
reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from pure_agent_loop.llm.messages import Message, is_question, text_of
from pure_agent_loop.llm.response import CUT_OFF
from pure_agent_loop.llm.tool_modes.ask import AuxiliaryRequests
from pure_agent_loop.llm.tool_modes.examples import Chosen, chosen_examples, no_tool
from pure_agent_loop.llm.values import get
from pure_agent_loop.prompts import Prompts

NO_CONTENT = "N/A"
MAX_TOOLS = 12  # one request each; with more tools, constrained output chooses
_MAX_CANDIDATES = 2  # best tools by name, whose request likelihood is read too
_MAX_QUESTION_CHARS = 1_000  # newest characters of the question
_MAX_REQUEST_BYTES = 120  # newest bytes of the question, for the second measure
_MAX_REQUEST_TOKENS = 20  # first tokens of these bytes; few, because output is slow
_MAX_DESCRIPTION_CHARS = 100
_MAX_TOKENS = 300

Tool = Mapping[str, Any]


class ReadToken(NamedTuple):
    """A token of a text: its byte range and log-likelihood."""

    start: int
    end: int
    likely: float


Reading = Sequence[ReadToken]


async def choose(
    requests: AuxiliaryRequests,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    prompts: Prompts,
    known: dict[tuple[str, str], Reading],
    *,
    has_to_call: bool = False,
) -> Tool | None:
    """Choose the tool to call.

    Args:
        requests: Sends the requests.
        messages: The conversation.
        tools: The tool schemas; each may hold ``examples``.
        prompts: The prompt texts.
        known: Cache of readings of names without content, by instructions and name.
        has_to_call: Whether a tool must be chosen.

    Returns:
        The tool's schema, or None for an answer in words.

    Raises:
        NoProbabilitiesError: The server does not return token likelihoods.
        LLMError: A request failed.
    """
    question = last_question(messages)[-_MAX_QUESTION_CHARS:]
    shots = [*chosen_examples(prompts), *_own_examples(tools)]
    by_name = await _scores_by_name(requests, question, tools, shots, prompts, known)
    best = sorted(range(len(tools)), key=by_name.__getitem__, reverse=True)[:_MAX_CANDIDATES]
    try:
        by_request = await _scores_by_request(requests, question, [tools[i] for i in best], shots, prompts)
    except NoProbabilitiesError:  # the server cannot write this text; only the names decide
        by_request = [0.0] * len(best)
    sums = {index: by_name[index] + share for index, share in zip(best, by_request, strict=True)}
    chosen = max(sums, key=sums.__getitem__)
    return tools[chosen] if has_to_call or by_name[chosen] + sums[chosen] > 0 else None


class NoProbabilitiesError(Exception):
    """A server did not return token likelihoods."""


async def _scores_by_name(
    requests: AuxiliaryRequests,
    question: str,
    tools: Sequence[Tool],
    shots: Sequence[Chosen],
    prompts: Prompts,
    known: dict[tuple[str, str], Reading],
) -> list[float]:
    """Return each tool's score by name.

    The caller's system prompt is left out: instructions for answering would distort the comparison.
    """
    lead: list[Message] = [{"role": "system", "content": prompts.choose}]
    none = no_tool(prompts)
    for shot in shots:
        lead += [] if shot.name in none else _turn(shot.request, shot.name)
    # The tools follow the examples, so that the server's cache holds the examples for all sets of tools.
    listed = "\n".join("- " + ": ".join(_summary_of(tool)) for tool in tools)
    lead += _turn(prompts.choose_tools.format(tools=listed), prompts.choose_ready)
    written = json.dumps(lead)
    keys = [(written, _summary_of(tool)[0]) for tool in tools]
    # Two separate loops, for the server's prompt cache.
    for key in keys:
        if key not in known:
            known[key] = await _read(requests, lead, NO_CONTENT, key[1])
    return [_share_of_name(await _read(requests, lead, question, key[1]), known[key]) for key in keys]


async def _scores_by_request(
    requests: AuxiliaryRequests,
    question: str,
    tools: Sequence[Tool],
    shots: Sequence[Chosen],
    prompts: Prompts,
) -> list[float]:
    """Return each tool's score by request. The prompt does not list the tools."""
    question = question.encode()[-_MAX_REQUEST_BYTES:].decode(errors="ignore")
    lead: list[Message] = [{"role": "system", "content": prompts.choose_heard}]
    for shot in shots:
        lead += _turn(f"{shot.name}: {shot.description}", shot.request)
    names = no_tool(prompts)
    none = next((f"{shot.name}: {shot.description}" for shot in shots if shot.name in names), NO_CONTENT)
    without = await _read(requests, lead, none, question, _MAX_REQUEST_TOKENS)
    scores = []
    for tool in tools:
        reading = await _read(requests, lead, ": ".join(_summary_of(tool)), question, _MAX_REQUEST_TOKENS)
        scores.append(_share_of_words(reading, without))
    return scores


def _share_of_name(reading: Reading, before: Reading) -> float:
    starts = {token.start for token in reading} & {token.start for token in before}
    likely, without = ([token for token in read if token.start in starts] for read in (reading, before))
    return _share(likely, without)


def _share_of_words(reading: Reading, before: Reading) -> float:
    end = min(max((token.end for token in read), default=0) for read in (reading, before))
    likely, without = ([token for token in read if token.end <= end] for read in (reading, before))
    return _share(likely, without)


def _share(reading: Reading, before: Reading) -> float:
    likely, without = (sum(token.likely for token in read) for read in (reading, before))
    return (likely - without) / -without if without else 0.0


async def _read(
    requests: AuxiliaryRequests, lead: Sequence[Message], user_text: str, text: str, limit: int = _MAX_TOKENS
) -> Reading:
    """Read the likelihoods of a text as the model's answer: the whole text, or its first `limit` tokens."""
    answer = await requests.ask(
        [*lead, {"role": "user", "content": user_text}],
        schema={"type": "string", "enum": [text]},
        max_tokens=limit,
        logprobs=True,
        top_logprobs=1,
    )
    content = answer.content or ""
    is_whole = _parsed(content) == text
    if not is_whole and not (answer.finish_reason in CUT_OFF and _begins(text, content)):
        raise NoProbabilitiesError  # the server does not enforce schemas
    choices = get(answer.raw, "choices") or [None]
    end = len(content.encode()) - is_whole  # position of the closing quote
    reading, written = [], 0
    for token in get(get(choices[0], "logprobs"), "content") or ():
        piece, likely = get(token, "bytes") or (get(token, "token") or "").encode(), get(token, "logprob")
        if not isinstance(likely, (int, float)):
            raise NoProbabilitiesError
        if 0 < written < end:
            reading.append(ReadToken(written, written + len(piece), likely))
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
    return any(json.dumps(text, ensure_ascii=is_ascii).startswith(content) for is_ascii in (False, True))


def _turn(question: str, answer: str) -> list[Message]:
    answer = json.dumps(answer, ensure_ascii=False)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _summary_of(tool: Tool) -> tuple[str, str]:
    """Return a tool's name and short description."""
    function = tool["function"]
    return function["name"], _first_sentence(function.get("description") or "")


def _own_examples(tools: Sequence[Tool]) -> list[Chosen]:
    """Return the worked examples of the given tools."""
    return [
        Chosen(request, *_summary_of(tool))
        for tool in tools
        for request, _ in tool["function"].get("examples") or ()
    ]


def _first_sentence(description: str) -> str:
    line = description.strip().partition("\n")[0]
    return line.partition(". ")[0][:_MAX_DESCRIPTION_CHARS]


def has_result(messages: Sequence[Message]) -> bool:
    """Return True if there is a tool result after the last question."""
    newest_first = reversed(messages)
    return any(m["role"] == "tool" for m in takewhile(lambda message: not is_question(message), newest_first))


def last_question(messages: Sequence[Message]) -> str:
    """Return the last two questions of the user: "And in Paris?" needs the one before."""
    return "\n".join([text_of(m.get("content") or "") for m in messages if is_question(m)][-2:])
