"""A step in the json mode where the server says how likely its tokens are: choose first, then fill in.

An able model goes on after a result as it likes, with one JSON object a step. One that is not answers: small
models repeat a call that has worked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import takewhile
from typing import Any

from pure_agent_loop.llm.base import ChatModel, GivesLikelihoods, profile_of, stream_of
from pure_agent_loop.llm.messages import Message, is_question, text_of
from pure_agent_loop.llm.tool_modes.ask import Asking
from pure_agent_loop.llm.tool_modes.choose import (
    MOST_TOOLS,
    NoProbabilitiesError,
    Reading,
    choose,
    has_result,
    last_question,
)
from pure_agent_loop.llm.tool_modes.examples import answered_examples
from pure_agent_loop.llm.tool_modes.fill import fill, is_able_model
from pure_agent_loop.llm.tool_modes.react import write_history, write_words
from pure_agent_loop.llm.tool_modes.tool_choice import wanted_tools, without_tools
from pure_agent_loop.llm.tool_modes.typed_answer import format_of
from pure_agent_loop.llm.values import Delta, ToolCallDelta
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.frames import unframed
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.text import shorten

Tools = list[dict[str, Any]]
_MOST_RESULT = 1_200  # characters of results that such a model can still make sense of
_ARGUMENT_TOKENS = 400  # of the arguments of a call, unless the caller says otherwise


class Chooser:
    """Makes calls of what a model finds likely.

    Args:
        client: The client of the model.
        prompts: The words.
    """

    def __init__(self, client: ChatModel, prompts: Prompts) -> None:
        self._client = client
        self._prompts = prompts
        self._gives_likelihoods: bool | None = None
        self._able: bool | None = None
        self._likelihoods: dict[tuple[str, str], Reading] = {}

    async def can_choose(self, messages: list[Message], tools: Tools, options: Mapping[str, Any]) -> bool:
        """True where a tool can be chosen by likelihood: something was asked, and the server tells."""
        if (
            not any(map(is_question, messages))
            or not 0 < len(tools) <= MOST_TOOLS
            or ("response_format" in options and format_of(options) is None)
        ):
            return False
        if self._gives_likelihoods is None:
            client = able(self._client, GivesLikelihoods)
            self._gives_likelihoods = client is not None and await client.gives_likelihoods() is True
        if not self._gives_likelihoods or not has_result(messages) or wanted_tools(tools, options)[1]:
            return self._gives_likelihoods
        return not await self._is_able(Asking(self._client, options))  # it may want another tool

    async def step(
        self, messages: list[Message], tools: Tools, options: dict[str, Any]
    ) -> AsyncGenerator[Delta, None]:
        """Choose first, then fill in the arguments, or answer in words."""
        asking = Asking(self._client, options)
        tools, has_to_call = wanted_tools(tools, options)
        is_told = has_result(messages) and not has_to_call
        if not is_told:
            tool = await self._choose(asking, messages, tools, has_to_call=has_to_call)
            if tool is not None:
                yield await self._filled(asking, messages, tool, options)
                yield Delta(finish_reason="tool_calls", usage=asking.usage, raw={"requests": asking.requests})
                return
        plain = self._result_question(messages) if is_told else write_history(messages, "", write_words)
        asking.requests += 1
        async with aclosing(stream_of(self._client, plain, None, without_tools(options))) as deltas:
            async for delta in deltas:
                asking.count(delta.usage)
                yield delta._replace(usage=None)
        yield Delta(usage=asking.usage, raw={"requests": asking.requests})

    def _result_question(self, messages: list[Message]) -> list[Message]:
        """A request for an answer from the results alone: what is more confuses the smallest models."""
        asks = self._prompts.answer_question.format
        lead: list[Message] = [{"role": "system", "content": self._prompts.answer}]
        for question, result, answer in answered_examples(self._prompts):
            lead += [
                {"role": "user", "content": asks(question=question, result=result)},
                {"role": "assistant", "content": answer},
            ]
        since = [*takewhile(lambda each: not is_question(each), reversed(messages))]
        said = [text_of(m.get("content") or "") for m in reversed(since) if m["role"] == "tool"]
        results = [unframed(self._prompts, each) for each in said]
        result = shorten("\n".join(results), _MOST_RESULT)
        asked = asks(question=last_question(messages), result=result)
        return [*lead, {"role": "user", "content": asked}]

    async def _filled(
        self, asking: Asking, messages: list[Message], tool: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Delta:
        found = await fill(
            asking,
            messages,
            tool,
            self._prompts,
            is_able=await self._is_able(asking),
            several=options.get("parallel_tool_calls") is not False,
            max_tokens=options.get("max_tokens") or _ARGUMENT_TOKENS,
        )
        name = tool["function"]["name"]
        return Delta(tool_calls=tuple(ToolCallDelta(i, None, name, each) for i, each in enumerate(found)))

    async def _is_able(self, asking: Asking) -> bool:
        """What the profile says of the model, else what a few worked examples show, once."""
        if self._able is None:
            profile = profile_of(self._client)
            said = None if profile is None else profile.able
            self._able = await is_able_model(asking, self._prompts) if said is None else said
        return self._able

    async def _choose(
        self, asking: Asking, messages: list[Message], tools: Tools, *, has_to_call: bool
    ) -> Mapping[str, Any] | None:
        if has_to_call and len(tools) == 1:
            return tools[0]
        try:
            return await choose(
                asking, messages, tools, self._prompts, self._likelihoods, has_to_call=has_to_call
            )
        except NoProbabilitiesError:
            self._gives_likelihoods = False
            raise
