"""JSON tool mode for servers with token likelihoods: first choose a tool, then fill in its arguments.

After a tool result, an able model (see `is_able_model`) may call more tools, with one JSON object per step.
Other models have to answer, because small models would repeat a call that succeeded.

The yes-or-no answers of a small model carry no information, and asked in free text, it always makes the same
choice. Its token likelihoods, however, show which tool it associates with a request. They are measured in two
directions:

    by_name(tool)    = share by which the user's request lowers the surprisal of the tool's name, compared
                       with a request without content; the names of all tools are in the prompt
    by_request(tool) = share by which the tool lowers the surprisal of the user's request, compared with no
                       tool

    share = (log P(text | with) - log P(text | without)) / -log P(text | without)

The first is the calibration of Zhao et al., "Calibrate Before Use", arXiv:2102.09690, the second the noisy
channel of Min et al., arXiv:2108.04106. Shares are used because texts differ in length and in base
likelihood. The two measures fail on different questions, so their sum selects the tool. The decision whether
to call that tool counts by_name twice, because nearly every tool makes a request somewhat likelier than no
tool does. A score above zero means that the tool explains the request better than no tool does, so no
threshold is needed. The likelihoods of names for the request without content are fetched once per set of
tools.

The model does not choose these texts: a schema forces the server to write them, and it returns their
likelihoods. The server takes the likeliest token that the text allows, so unlikely texts are split into
smaller tokens, each with a low likelihood. The number of tokens alone could decide the comparison of a short
name, so two tokenizations of a name are compared only at positions where both begin a token. Requests are
compared up to the end of the shorter tokenization.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import Any, NamedTuple

from pure_agent_loop.llm.base import ChatModel, GivesLikelihoods, profile_of, stream_of
from pure_agent_loop.llm.messages import Message, is_json_of, is_question, text_of
from pure_agent_loop.llm.response import CUT_OFF
from pure_agent_loop.llm.tool_modes.examples import Chosen, answered_examples, chosen_examples, no_tool
from pure_agent_loop.llm.tool_modes.fill import AuxiliaryRequests, fill, is_able_model, last_question
from pure_agent_loop.llm.tool_modes.react import write_history, write_words
from pure_agent_loop.llm.tool_modes.tool_choice import wanted_tools, without_tools
from pure_agent_loop.llm.tool_modes.typed_answers import format_of
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, Options, ToolCallDelta, Tools, get
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.frames import unframed
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.text import shorten

NO_CONTENT = "N/A"
MAX_TOOLS = 12  # each tool takes one request; with more tools, the model chooses in constrained output
_MAX_CANDIDATES = 2  # number of tools that are also scored by request: those with the best scores by name
_MAX_QUESTION_CHARS = 1_000  # only the end of a long question is used
_MAX_REQUEST_BYTES = 120  # bytes from the end of the question, for scores by request
_MAX_REQUEST_TOKENS = 20  # number of tokens read from these bytes; few, because output is slow
_MAX_DESCRIPTION_CHARS = 100
_MAX_TOKENS = 300

Tool = Mapping[str, Any]
_MAX_RESULT_CHARS = 1_200  # a longer result would confuse a small model
_ARGUMENT_TOKENS = 400  # default output limit for the arguments of a call


class ReadToken(NamedTuple):
    """A token of a text: its byte range and log-likelihood."""

    start: int
    end: int
    likely: float


Reading = Sequence[ReadToken]


class NoProbabilitiesError(Exception):
    """A server did not return token likelihoods."""


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
    """Read the token likelihoods of a text as the model's answer, up to `limit` tokens."""
    answer = await requests.ask(
        [*lead, {"role": "user", "content": user_text}],
        schema={"type": "string", "enum": [text]},
        max_tokens=limit,
        logprobs=True,
        top_logprobs=1,
    )
    content = answer.content or ""
    is_whole = is_json_of(content, text)
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


# -- a step of this mode ---------------------------------------------------------------------------------


class Chooser:
    """Chooses a tool by token likelihoods, and fills in its arguments."""

    def __init__(self, client: ChatModel, prompts: Prompts) -> None:
        self._client = client
        self._prompts = prompts
        self._gives_likelihoods: bool | None = None
        self._able: bool | None = None
        # Likelihoods of tool names for a request without content.
        self._likelihoods: dict[tuple[str, str], Reading] = {}

    async def can_choose(self, messages: list[Message], tools: Tools, options: Options) -> bool:
        """Return True if the next step should be a choice by likelihood, and the server supports that."""
        if (
            not any(map(is_question, messages))
            or not 0 < len(tools) <= MAX_TOOLS
            or ("response_format" in options and format_of(options) is None)
        ):
            return False
        if self._gives_likelihoods is None:
            client = as_protocol(self._client, GivesLikelihoods)
            self._gives_likelihoods = client is not None and await client.gives_likelihoods() is True
        if not self._gives_likelihoods or not has_result(messages) or wanted_tools(tools, options)[1]:
            return self._gives_likelihoods
        # After a result, an able model continues with one JSON object per step instead.
        return not await self._is_able(AuxiliaryRequests(self._client, options))

    async def step(
        self, messages: list[Message], tools: Tools, options: JsonObject
    ) -> AsyncGenerator[Delta, None]:
        """Choose a tool and fill in its arguments, or answer in words."""
        requests = AuxiliaryRequests(self._client, options)
        tools, has_to_call = wanted_tools(tools, options)
        has_results = has_result(messages) and not has_to_call
        if not has_results:
            tool = await self._choose(requests, messages, tools, has_to_call=has_to_call)
            if tool is not None:
                yield await self._filled(requests, messages, tool, options)
                yield Delta(finish_reason="tool_calls", usage=requests.usage, raw={"requests": requests.sent})
                return
        plain = self._result_question(messages) if has_results else write_history(messages, "", write_words)
        requests.sent += 1
        async with aclosing(stream_of(self._client, plain, None, without_tools(options))) as deltas:
            async for delta in deltas:
                requests.count(delta.usage)
                yield delta._replace(usage=None)
        yield Delta(usage=requests.usage, raw={"requests": requests.sent})

    def _result_question(self, messages: list[Message]) -> list[Message]:
        """Build a request for an answer from the results alone, because more confuses the smallest models."""
        format_question = self._prompts.answer_question.format
        lead: list[Message] = [{"role": "system", "content": self._prompts.answer}]
        for question, result, answer in answered_examples(self._prompts):
            lead += [
                {"role": "user", "content": format_question(question=question, result=result)},
                {"role": "assistant", "content": answer},
            ]
        since = [*takewhile(lambda message: not is_question(message), reversed(messages))]
        texts = [text_of(m.get("content") or "") for m in reversed(since) if m["role"] == "tool"]
        result = shorten("\n".join(unframed(self._prompts, text) for text in texts), _MAX_RESULT_CHARS)
        request = format_question(question=last_question(messages), result=result)
        return [*lead, {"role": "user", "content": request}]

    async def _filled(
        self,
        requests: AuxiliaryRequests,
        messages: list[Message],
        tool: JsonFields,
        options: Options,
    ) -> Delta:
        calls = await fill(
            requests,
            messages,
            tool,
            self._prompts,
            is_able=await self._is_able(requests),
            several=options.get("parallel_tool_calls") is not False,
            max_tokens=options.get("max_tokens") or _ARGUMENT_TOKENS,
        )
        name = tool["function"]["name"]
        return Delta(tool_calls=tuple(ToolCallDelta(i, None, name, call) for i, call in enumerate(calls)))

    async def _is_able(self, requests: AuxiliaryRequests) -> bool:
        """Return True if the model is able, by its profile, or else by a cached test on worked examples."""
        if self._able is None:
            profile = profile_of(self._client)
            is_able = None if profile is None else profile.able
            self._able = await is_able_model(requests, self._prompts) if is_able is None else is_able
        return self._able

    async def _choose(
        self, requests: AuxiliaryRequests, messages: list[Message], tools: Tools, *, has_to_call: bool
    ) -> Tool | None:
        """Return the tool to call, or None for an answer in words.

        Raises:
            NoProbabilitiesError: The server does not return token likelihoods.
            LLMError: A request failed.
        """
        if has_to_call and len(tools) == 1:
            return tools[0]
        question = last_question(messages)[-_MAX_QUESTION_CHARS:]
        shots = [*chosen_examples(self._prompts), *_own_examples(tools)]
        try:
            by_name = await self._scores_by_name(requests, question, tools, shots)
        except NoProbabilitiesError:
            self._gives_likelihoods = False
            raise
        best = sorted(range(len(tools)), key=by_name.__getitem__, reverse=True)[:_MAX_CANDIDATES]
        try:
            by_request = await self._scores_by_request(requests, question, [tools[i] for i in best], shots)
        except NoProbabilitiesError:  # the server cannot write this text, so only the scores by name are used
            by_request = [0.0] * len(best)
        sums = {index: by_name[index] + share for index, share in zip(best, by_request, strict=True)}
        chosen = max(sums, key=sums.__getitem__)
        return tools[chosen] if has_to_call or by_name[chosen] + sums[chosen] > 0 else None

    async def _scores_by_name(
        self, requests: AuxiliaryRequests, question: str, tools: Sequence[Tool], shots: Sequence[Chosen]
    ) -> list[float]:
        """Return each tool's score by name.

        The caller's system prompt is left out: instructions for answering would distort the comparison.
        """
        prompts, known = self._prompts, self._likelihoods
        lead: list[Message] = [{"role": "system", "content": prompts.choose}]
        none = no_tool(prompts)
        for shot in shots:
            lead += [] if shot.name in none else _turn(shot.request, shot.name)
        # List the tools after the examples, so that the cached examples can be reused for any set of tools.
        listed = "\n".join("- " + ": ".join(_summary_of(tool)) for tool in tools)
        lead += _turn(prompts.choose_tools.format(tools=listed), prompts.choose_ready)
        written = json.dumps(lead)
        keys = [(written, _summary_of(tool)[0]) for tool in tools]
        # Two loops keep requests with the same beginning together, for the server's prompt cache.
        for key in keys:
            if key not in known:
                known[key] = await _read(requests, lead, NO_CONTENT, key[1])
        return [_share_of_name(await _read(requests, lead, question, key[1]), known[key]) for key in keys]

    async def _scores_by_request(
        self, requests: AuxiliaryRequests, question: str, tools: Sequence[Tool], shots: Sequence[Chosen]
    ) -> list[float]:
        """Return each tool's score by request. The prompt does not list the tools."""
        question = question.encode()[-_MAX_REQUEST_BYTES:].decode(errors="ignore")
        lead: list[Message] = [{"role": "system", "content": self._prompts.choose_heard}]
        for shot in shots:
            lead += _turn(f"{shot.name}: {shot.description}", shot.request)
        names = no_tool(self._prompts)
        none = next((f"{shot.name}: {shot.description}" for shot in shots if shot.name in names), NO_CONTENT)
        without = await _read(requests, lead, none, question, _MAX_REQUEST_TOKENS)
        scores = []
        for tool in tools:
            reading = await _read(requests, lead, ": ".join(_summary_of(tool)), question, _MAX_REQUEST_TOKENS)
            scores.append(_share_of_words(reading, without))
        return scores
