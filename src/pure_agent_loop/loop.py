"""`ReactLoop`: a model and tools, with a `run` that can be awaited or iterated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.agent import Agent
from pure_agent_loop.ai_client import answer_of
from pure_agent_loop.budget import check_limit
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.parts import Part
from pure_agent_loop.permissions import PermissionMode, PermissionPolicy
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import UNSET, check_fields, check_types, kit_of, view_of
from pure_agent_loop.runs.together import least
from pure_agent_loop.support.language import Language
from pure_agent_loop.support.text import names_options
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

if TYPE_CHECKING:
    from pure_agent_loop.explain import Explanation
    from pure_agent_loop.runs.options import ModelSettings, RunSettings

DEFAULT_MAX_STEPS = 15


class LoopRun(Coroutine[Any, Any, str]):
    """Run of a `ReactLoop`: await it for the answer, or iterate over it for the events.

    A run starts only once. After it ends, ``await`` returns the answer again, and `result` has the rest.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, str]:
        return self._answer().__await__()

    @cached_property
    def _steps(self) -> Coroutine[Any, Any, str]:
        return self._answer()

    def send(self, value: Any) -> Any:
        """Continue the run; called by the event loop."""
        return self._steps.send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:  # noqa: ARG002 - the error has it
        """Raise an error where the run is waiting; called by the event loop."""
        return self._steps.throw(typ if val is None else val)

    def close(self) -> None:
        """Stop the coroutine, started or not."""
        self._steps.close()

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self._run.stream()

    @property
    def result(self) -> AgentResult:
        """Result of the ended run, such as its stop reason, usage, cost, messages and open questions.

        Raises:
            ConfigError: The run has not ended.
        """
        if not self._run.has_ended:
            raise ConfigError(
                "This run has not ended, so it has no result. Await it, or read its events to the end."
            )
        return self._run.result()

    @property
    def parts(self) -> list[Part]:
        """Parts of the responses so far, in order, in their current states."""
        latest = {e.data["part"]["id"]: e.data["part"] for e in self._run.events if e.type is EventType.PART}
        return [Part.from_dict(part) for part in latest.values()]

    async def _answer(self) -> str:
        if not self._run.has_ended:
            await self._run.wait()
        return answer_of(self.result, "Pass an agent with on_ask=...", "Or read the result of the run: it")


@names_options(tools="tool_registry", model="llm", session="session_id", max_turns="max_steps")
class ReactLoop:
    """Reason-act-observe loop that runs until the model answers. It adds no prompt; see `react_prompt`.

        loop = ReactLoop(client, [search])
        answer = await loop.run("Who wrote it?")
        async for event in loop.run("And when?"): ...

    Args:
        llm: Model client, or an `AIClient` or other `Agent`. An agent keeps all its options, except its
            ``mode`` and those that are passed here.
        tool_registry: Tools, as a `ToolRegistry` or a list.
        limits: Limits of a run.
        retry: Retry policy for failed requests.
        max_steps: Hard limit on steps (15 unless `limits` sets ``max_turns``); None for no limit. If
            ``max_turns`` is also set, the smaller one applies.
        enable_retry: False sends each request once.
        enable_doom_detection: False allows unlimited repetition of the same call.
        llm_kwargs: Additional fields for every request; see `Agent`.
        emit_reasoning_events: True emits the model's reasoning as events; None for the agent's setting.
        after_tools: Text sent to the model after the tool results of each step, as a ``synthetic`` message;
            None for the agent's text.
        client: Alias for `llm`.
        language: Language of the framework's prompts, ``en`` or ``zh``.
        permission_mode: ``auto``, ``guard``, ``ask``, ``plan`` or ``bypass``; see `Agent`. A question ends
            the run unless the agent has an `on_ask`.
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
        max_steps: int | None = UNSET,
        enable_retry: bool = True,
        enable_doom_detection: bool = True,
        llm_kwargs: dict[str, Any] | None = None,
        emit_reasoning_events: bool | None = None,
        after_tools: str | None = None,
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
        check_fields("llm_kwargs", llm_kwargs or {})
        if max_steps is not UNSET:
            check_limit("max_steps", max_steps)
        self._client, self._enable_retry = chosen, enable_retry
        agent = chosen if isinstance(chosen, Agent) else Agent(llm=chosen, temperature=None)
        base = kit_of(agent)
        limits, retry = limits or base.limits, retry or base.retry
        if max_steps is UNSET:
            max_steps = limits.max_turns or DEFAULT_MAX_STEPS
        policy = base.permissions
        changes: dict[str, Any] = {
            "limits": replace(
                limits,
                max_turns=least(limits.max_turns, max_steps),
                doom_loop_threshold=limits.doom_loop_threshold if enable_doom_detection else None,
            ),
            "retry": retry if enable_retry else replace(retry, max_retries=0),
            "permissions": policy
            if permission_mode is None
            else PermissionPolicy(permission_mode, policy.rules),
            "emit_reasoning": emit_reasoning_events,
            "after_tools": after_tools,
            "prompts": None if language is None else prompts_for(language),
        }
        self._agent = view_of(
            agent,
            {"tools": tool_registry, "model_settings": cast("ModelSettings", llm_kwargs)},
            tool_rounds=None,
            **{name: value for name, value in changes.items() if value is not None},
        )
        self._session_id, self._cancel_token = session_id, cancel_token
        self._last: LoopRun | None = None

    @property
    def client(self) -> ChatModel | Agent[Any, Any]:
        """The client or agent that the loop was made with."""
        return self._client

    @property
    def max_steps(self) -> int | None:
        """Effective hard limit on steps; None for no limit."""
        return kit_of(self._agent).limits.max_turns

    @property
    def enable_retry(self) -> bool:
        """True if failed requests are retried."""
        return self._enable_retry

    @property
    def parts(self) -> list[Part]:
        """Parts of the responses of the last run, in their current states; empty before the first run."""
        return [] if self._last is None else self._last.parts

    def run(
        self,
        task: str,
        system_prompt: str | None = None,
        messages: list[Message] | None = None,
    ) -> LoopRun:
        """Prepare a run; it starts when it is awaited or iterated.

        Args:
            task: Task text.
            system_prompt: Leading system message; `react_prompt` writes one. None for the agent's.
            messages: History to continue. A leading system message replaces `system_prompt`.

        Raises:
            ConfigError: `task` is not a string.
            HistoryError: `messages` is not a list of messages.
            LLMError: When awaited: the model could not be reached or rejected the request.
            ConfigError: When awaited: a call is waiting for a permission or for an external result; the
                message names the call. When awaited or iterated: the run has already been started but has not
                ended.
        """
        run = self._agent.prepare(
            task,
            messages,
            session_id=self._session_id,
            cancel_token=self._cancel_token,
            **_prompt(system_prompt),
        )
        self._last = LoopRun(run)
        return self._last

    def explain(
        self,
        task: str,
        system_prompt: str | None = None,
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
        return self._agent.explain(task, messages, **_prompt(system_prompt))


def _prompt(system_prompt: str | None) -> RunSettings:
    """Return the run settings that set the system prompt."""
    check_types(system_prompt=(system_prompt, str))
    return {"system_prompt": system_prompt}
