"""The loop as an object: a model, tools, and `run`, which can be awaited or iterated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable
from dataclasses import replace
from typing import Any

from pure_agent_loop.compaction import Ladder
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import AnyEvent
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.checks import check_client, check_types
from pure_agent_loop.runs.fields import check_fields
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.start import start_state
from pure_agent_loop.support.secrets.redaction import redactor_for
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

DEFAULT_MAX_STEPS = 15


class LoopRun:
    """One run of a `ReactLoop`: await it for the final answer, or iterate it for the events. Once."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, str]:
        return self._answer().__await__()

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._run.stream()

    async def _answer(self) -> str:
        return (await self._run.wait()).raise_for_error().content


class ReactLoop:
    """Think, act, observe, until the model gives its answer.

        loop = ReactLoop(client, [search])
        answer = await loop.run("Who wrote it?")
        async for event in loop.run("And when?"): ...

    Args:
        llm: The model client; ``client=`` says the same.
        tool_registry: The tools, as a `ToolRegistry` or a list.
        limits: How far a run may go.
        retry: How failed requests are repeated.
        max_steps: Hard limit of steps (15 unless `limits` sets ``max_turns``); None for no limit.
        enable_retry: False sends each request once.
        enable_doom_detection: False lets the model repeat the same call for ever.
        llm_kwargs: Further fields of every request; see `Agent`.
        emit_reasoning_events: Whether events show the thinking.
        after_tools: Said to the model after the tool results of each step, as a message marked ``synthetic``.
        client: Another name for `llm`.

    Raises:
        ConfigError: There is no client, or two.
    """

    def __init__(
        self,
        llm: ChatModel | None = None,
        tool_registry: ToolRegistry | Iterable[ToolLike | Toolset] | None = None,
        limits: LoopLimits | None = None,
        retry: RetryConfig | None = None,
        *,
        max_steps: int | None = DEFAULT_MAX_STEPS,
        enable_retry: bool = True,
        enable_doom_detection: bool = True,
        llm_kwargs: dict[str, Any] | None = None,
        emit_reasoning_events: bool = False,
        after_tools: str = "",
        client: ChatModel | None = None,
    ) -> None:
        if (llm is None) == (client is None):
            raise ConfigError(
                "ReactLoop needs one model client: pass llm=... (or client=..., which is the same)."
            )
        chosen = llm if llm is not None else client
        assert chosen is not None
        check_client(chosen)
        check_types(limits=(limits, LoopLimits), retry=(retry, RetryConfig), after_tools=(after_tools, str))
        check_fields("llm_kwargs", llm_kwargs or {})
        limits = limits or LoopLimits()
        if limits.max_turns is None:
            limits = replace(limits, max_turns=max_steps)
        if not enable_doom_detection:
            limits = replace(limits, doom_loop_threshold=None)
        retry = retry or RetryConfig()
        tools = (
            tool_registry if isinstance(tool_registry, ToolRegistry) else ToolRegistry(tool_registry or ())
        )
        tools.to_openai_schema()
        self._kit = Kit(
            client=chosen,
            tools=tools,
            limits=limits,
            retry=retry if enable_retry else replace(retry, max_retries=0),
            options=dict(llm_kwargs or {}),
            compactor=Ladder(),
            emit_reasoning=emit_reasoning_events,
            after_tools=after_tools,
            redactor=redactor_for(True, chosen, llm_kwargs or {}),
        )

    def run(
        self,
        task: str,
        system_prompt: str = "You are a helpful assistant.",
        messages: list[Message] | None = None,
    ) -> LoopRun:
        """Prepare a run; it starts when it is awaited or iterated.

        Args:
            task: What to do.
            system_prompt: The leading system message; `react_prompt` writes one.
            messages: A history to go on from.

        Raises:
            ConfigError: `task` is no text.
            HistoryError: `messages` is no list of messages.
            LLMError: When awaited: the model could not be reached or refused the request.
            ConfigError: When awaited or iterated: this run was started before.
        """
        state, notices = start_state(task, messages, system_prompt, prompts_for())
        redactor = self._kit.redactor and self._kit.redactor.as_of_now()
        return LoopRun(Run(state, replace(self._kit, opening=tuple(notices), redactor=redactor)))
