"""`ReactLoop`: a model and tools, with a `run` that can be awaited or iterated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import DEFAULT_SYSTEM_PROMPT, Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.parts import Part
from pure_agent_loop.permissions import PermissionMode, PermissionPolicy
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.run import Run, RunInput, begin
from pure_agent_loop.runs.settings import (
    check_client,
    check_fields,
    check_types,
    kit_of,
    with_server_tools_of,
)
from pure_agent_loop.support.language import Language
from pure_agent_loop.support.secrets.redaction import Redactor, redactor_for
from pure_agent_loop.support.text import names_options
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

if TYPE_CHECKING:
    from pure_agent_loop.explain import Explanation

DEFAULT_MAX_STEPS = 15


class LoopRun:
    """Single-use run of a `ReactLoop`: await it for the final answer, or iterate it for the events."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, str]:
        return self._answer().__await__()

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._run.stream()

    @property
    def parts(self) -> list[Part]:
        """Parts of the responses so far, in order, in their current states."""
        latest = {e.data["part"]["id"]: e.data["part"] for e in self._run.events if e.type is EventType.PART}
        return [Part.from_dict(part) for part in latest.values()]

    async def _answer(self) -> str:
        return (await self._run.wait()).raise_for_error().content


@names_options(tools="tool_registry", model="llm", session="session_id", max_turns="max_steps")
class ReactLoop:
    """Reason-act-observe loop that runs until the model answers.

        loop = ReactLoop(client, [search])
        answer = await loop.run("Who wrote it?")
        async for event in loop.run("And when?"): ...

    Args:
        llm: Model client, or an `AIClient` or other `Agent`. An agent supplies its client and, as
            defaults, its tools, permissions, hooks and language.
        tool_registry: Tools, as a `ToolRegistry` or a list.
        limits: Limits of a run.
        retry: Retry policy for failed requests.
        max_steps: Hard limit on steps (15 unless `limits` sets ``max_turns``); None for no limit.
        enable_retry: False sends each request once.
        enable_doom_detection: False allows unlimited repetition of the same call.
        llm_kwargs: Additional fields for every request; see `Agent`.
        emit_reasoning_events: True emits the model's reasoning as events.
        after_tools: Text sent to the model after the tool results of each step, as a ``synthetic`` message.
        client: Alias for `llm`.
        language: Language of the framework's prompts, ``en`` or ``zh``.
        permission_mode: ``auto``, ``ask``, ``plan`` or ``bypass``; see `Agent`. A question ends the run,
            because `ReactLoop` has no `on_ask`.
        session_id: Id of the session that records the runs; each run continues the session.
        cancel_token: Token that cancels the runs from outside.

    Raises:
        ConfigError: The client is missing or given twice, or another argument is invalid.
    """

    def __init__(
        self,
        llm: ChatModel | Agent[Any, Any] | None = None,
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
        client: ChatModel | Agent[Any, Any] | None = None,
        language: Language | None = None,
        permission_mode: PermissionMode | None = None,
        session_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> None:
        if (llm is None) == (client is None):
            raise ConfigError("ReactLoop needs a model client: pass llm=... (alias: client=...).")
        chosen = llm if llm is not None else client
        assert chosen is not None
        check_types(
            limits=(limits, LoopLimits),
            retry=(retry, RetryConfig),
            after_tools=(after_tools, str),
            session_id=(session_id, str),
            cancel_token=(cancel_token, CancelToken),
        )
        if isinstance(chosen, Agent):
            base = kit_of(chosen)
            tool_registry = chosen.tools if tool_registry is None else tool_registry
            limits, retry = limits or base.limits, retry or base.retry
        else:
            check_client(chosen)
            base = Kit(client=chosen, prompts=prompts_for(), redactor=Redactor())
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
        prompts = base.prompts if language is None else prompts_for(language)
        tools.to_openai_schema(prompts)
        policy = base.permissions
        if permission_mode is not None:
            policy = PermissionPolicy(permission_mode, policy.rules)
        self._session_id = session_id
        self._last: LoopRun | None = None
        options = with_server_tools_of(tools, {**base.options, **(llm_kwargs or {})}, base.client)
        self._kit = replace(
            base,
            tools=tools,
            limits=limits,
            retry=retry if enable_retry else replace(retry, max_retries=0),
            options=options,
            redactor=redactor_for(base.redactor or False, (base.client, tools), options),
            compactor=Ladder(),
            emit_reasoning=emit_reasoning_events,
            after_tools=after_tools,
            prompts=prompts,
            permissions=policy,
            cancel_token=cancel_token,
            tool_rounds=None,
            lead=None,
        )

    @property
    def parts(self) -> list[Part]:
        """Parts of the responses of the last run, in their current states; empty before the first run."""
        return [] if self._last is None else self._last.parts

    def run(
        self,
        task: str,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        messages: list[Message] | None = None,
    ) -> LoopRun:
        """Prepare a run; it starts when it is awaited or iterated.

        Args:
            task: Task text.
            system_prompt: Leading system message; `react_prompt` writes one.
            messages: History to continue. A leading system message replaces `system_prompt`.

        Raises:
            ConfigError: `task` is not a string.
            HistoryError: `messages` is not a list of messages.
            LLMError: When awaited: the model could not be reached or rejected the request.
            ConfigError: When awaited or iterated: the run was already started.
        """
        kit, run_input = self._input(task, system_prompt, messages)
        if self._session_id is None:
            state, kit = begin(kit, run_input)
        else:
            from pure_agent_loop.sessions import default_store
            from pure_agent_loop.sessions.resume import begin_in_session  # loaded only for runs in a session

            state, kit = begin_in_session(kit, run_input, default_store(), self._session_id)
        self._last = LoopRun(Run(state, kit))
        return self._last

    def explain(
        self,
        task: str,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        messages: list[Message] | None = None,
    ) -> Explanation:
        """Show the first request `run` would send for a task, and its limits. Nothing is sent.

        Args:
            task: Task text.
            system_prompt: Leading system message; see `run`.
            messages: History to continue; see `run`.

        Raises:
            ConfigError: `task` is not a string.
            HistoryError: `messages` is not a list of messages.
            LLMError: The request could not be sent in this `tool_mode`.
        """
        from pure_agent_loop.explain import explain

        return explain(*begin(*self._input(task, system_prompt, messages)))

    def _input(self, task: str, system_prompt: str, messages: list[Message] | None) -> tuple[Kit, RunInput]:
        """Return the kit and the input of a run."""
        if system_prompt is DEFAULT_SYSTEM_PROMPT:
            system_prompt = self._kit.prompts.system_prompt
        kit = self._kit.replace(redactor=self._kit.redactor and self._kit.redactor.for_run())
        return kit, RunInput(task, messages, system_prompt)
