"""JSON tool mode for servers with token likelihoods: first choose a tool, then fill in its arguments.

After a result, an able model may call more tools, with one JSON object per step. Other models have to answer:
small models repeat a successful call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import takewhile
from typing import Any

from pure_agent_loop.llm.base import ChatModel, GivesLikelihoods, profile_of, stream_of
from pure_agent_loop.llm.messages import Message, is_question, text_of
from pure_agent_loop.llm.tool_modes.ask import AuxiliaryRequests
from pure_agent_loop.llm.tool_modes.choose import (
    MAX_TOOLS,
    NoProbabilitiesError,
    Reading,
    choose,
    has_result,
    last_question,
)
from pure_agent_loop.llm.tool_modes.examples import answered_examples
from pure_agent_loop.llm.tool_modes.fill import fill, is_able_model
from pure_agent_loop.llm.tool_modes.react import write_history, write_words
from pure_agent_loop.llm.tool_modes.refusals import format_of
from pure_agent_loop.llm.tool_modes.tool_choice import wanted_tools, without_tools
from pure_agent_loop.llm.values import Delta, ToolCallDelta
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.frames import unframed
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.text import shorten

Tools = list[dict[str, Any]]
_MAX_RESULT_CHARS = 1_200  # more would confuse such a model
_ARGUMENT_TOKENS = 400  # default output limit for the arguments of a call


class Chooser:
    """Chooses and fills tool calls by token likelihoods."""

    def __init__(self, client: ChatModel, prompts: Prompts) -> None:
        self._client = client
        self._prompts = prompts
        self._gives_likelihoods: bool | None = None
        self._able: bool | None = None
        self._likelihoods: dict[tuple[str, str], Reading] = {}

    async def can_choose(self, messages: list[Message], tools: Tools, options: Mapping[str, Any]) -> bool:
        """Return True if there is a question and the server supports a choice by likelihood."""
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
        # A capable model may call another tool.
        return not await self._is_able(AuxiliaryRequests(self._client, options))

    async def step(
        self, messages: list[Message], tools: Tools, options: dict[str, Any]
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
        """Build a request for an answer from the results only: more text confuses the smallest models."""
        format_question = self._prompts.answer_question.format
        lead: list[Message] = [{"role": "system", "content": self._prompts.answer}]
        for question, result, answer in answered_examples(self._prompts):
            lead += [
                {"role": "user", "content": format_question(question=question, result=result)},
                {"role": "assistant", "content": answer},
            ]
        since = [*takewhile(lambda message: not is_question(message), reversed(messages))]
        texts = [text_of(m.get("content") or "") for m in reversed(since) if m["role"] == "tool"]
        results = [unframed(self._prompts, text) for text in texts]
        result = shorten("\n".join(results), _MAX_RESULT_CHARS)
        request = format_question(question=last_question(messages), result=result)
        return [*lead, {"role": "user", "content": request}]

    async def _filled(
        self,
        requests: AuxiliaryRequests,
        messages: list[Message],
        tool: Mapping[str, Any],
        options: Mapping[str, Any],
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
        """Return whether the model is able, per its profile or else a test on worked examples, cached."""
        if self._able is None:
            profile = profile_of(self._client)
            is_able = None if profile is None else profile.able
            self._able = await is_able_model(requests, self._prompts) if is_able is None else is_able
        return self._able

    async def _choose(
        self, requests: AuxiliaryRequests, messages: list[Message], tools: Tools, *, has_to_call: bool
    ) -> Mapping[str, Any] | None:
        if has_to_call and len(tools) == 1:
            return tools[0]
        try:
            return await choose(
                requests, messages, tools, self._prompts, self._likelihoods, has_to_call=has_to_call
            )
        except NoProbabilitiesError:
            self._gives_likelihoods = False
            raise
