"""The agent: a model, tools and rules, put together once and run as often as you like."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.choose import DEFAULT_MODEL, choose_model
from pure_agent_loop.conversation import Conversation
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kit import Kit
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.profiles import Profile, check_thinking_level
from pure_agent_loop.llm.tool_mode import ToolModeClient, check_tool_mode
from pure_agent_loop.messages import Message
from pure_agent_loop.prompts import Prompts, prompts_for
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runner import Run, check_client, check_types, start_state
from pure_agent_loop.tool import ToolLike, ToolRegistry

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Agent", "AgentResult"]

LOG = logging.getLogger("pure_agent_loop")
DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."


class Agent:
    """A language model that acts through tools until a task is done.

        agent = Agent(model="gpt-4o-mini", tools=[get_weather])
        print(agent.run("Will it rain in Oslo?").content)

    Without a key and an address the default model is what is at hand: a server running on this
    machine, else the embedded model of the extra ``[local]``. Which one it is, is logged, and said in the
    first events.

    Args:
        model: The model's name; ``"local"``, ``"local:NAME"`` or a ``PATH.gguf`` for an embedded one.
        api_key: The key; else ``OPENAI_API_KEY``.
        base_url: The server; else ``OPENAI_BASE_URL``, else OpenAI.
        llm: A client of your own instead of `model`.
        tools: Functions, `Tool` objects or dicts; or a `ToolRegistry`.
        system_prompt: The leading system message; empty for none.
        limits: How far a run may go.
        retry: How failed requests are repeated.
        temperature: Randomness of the answers; left out for models that refuse it, and when None.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``.
        emit_reasoning_events: Whether events show the thinking.
        tool_mode: How the model is brought to act: ``native`` tool calls, constrained ``json``, ReAct
            ``text``, or ``auto`` to find out.
        language: ``"en"`` or ``"zh"`` for what the framework says to the model; else
            ``PURE_AGENT_LOOP_LANG``, else English.
        prompts: Words of your own instead.
        profile: What the server needs, where it is not known; found by address and model name if None.
        first_byte_timeout: Seconds to wait for an answer to begin; None for no limit.
        idle_timeout: Seconds an answer may pause; None for no limit.
        tool_timeout: Seconds a tool may take unless it says otherwise; None for no limit.
        llm_kwargs: Further fields of every request, such as ``top_p`` or ``extra_body``.

    Raises:
        ConfigError: An argument cannot work; the message says which and what to do.
    """

    def __init__(
        self,
        model: str | None = DEFAULT_MODEL,
        api_key: str | None = None,
        base_url: str | None = None,
        llm: ChatModel | None = None,
        tools: Iterable[ToolLike] | ToolRegistry | None = None,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        limits: LoopLimits | None = None,
        retry: RetryConfig | None = None,
        temperature: float | None = 0.7,
        thinking_level: str = "off",
        emit_reasoning_events: bool = False,
        *,
        tool_mode: str = "auto",
        language: str | None = None,
        prompts: Prompts | None = None,
        profile: Profile | None = None,
        first_byte_timeout: float | None = 60.0,
        idle_timeout: float | None = 60.0,
        tool_timeout: float | None = 120.0,
        **llm_kwargs: Any,
    ) -> None:
        check_thinking_level(thinking_level)
        check_tool_mode(tool_mode)
        check_types(system_prompt, limits, retry)
        model = DEFAULT_MODEL if model is None else _checked_name(model)
        self.tools = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools or ())
        self.tools.to_openai_schema()  # a tool that cannot be described is refused here, not in the first run
        self.system_prompt = system_prompt
        options = {"temperature": temperature, **llm_kwargs}
        opening: tuple[str, ...] = ()
        if llm is None:
            choice = choose_model(model, api_key, base_url, thinking_level, LOG.warning, profile)
            llm, opening = choice.client, (f"Model: {choice.reason}.",)
            if model is DEFAULT_MODEL and choice.model != model:
                LOG.warning("Using %s.", choice.reason)
        else:
            _check_client(llm, model, api_key, base_url, profile)
            if thinking_level != "off":
                options["thinking_level"] = thinking_level
        self.llm: ChatModel = llm
        words = prompts or prompts_for(language)
        self._kit = Kit(
            client=ToolModeClient(llm, tool_mode, words),
            tools=self.tools,
            limits=limits or LoopLimits(),
            retry=retry or RetryConfig(),
            prompts=words,
            options={key: value for key, value in options.items() if value is not None},
            emit_reasoning=emit_reasoning_events,
            first_byte_timeout=first_byte_timeout,
            idle_timeout=idle_timeout,
            tool_timeout=tool_timeout,
            opening=opening,
        )

    def run(
        self, task: str, messages: list[Message] | None = None, *, cancel_token: CancelToken | None = None
    ) -> AgentResult:
        """Do a task and wait for the result. Works in sync code, also inside a running event loop.

        Args:
            task: What to do.
            messages: A history to go on from, e.g. `AgentResult.messages`. A leading system message in it
                takes the place of `system_prompt`; what is not valid in it is repaired, with a notice.
            cancel_token: Stops the run from outside.

        Raises:
            ConfigError: `task` is no text.
            HistoryError: `messages` is no list of messages.
        """
        return self.prepare(task, messages, cancel_token=cancel_token).wait_sync()

    async def arun(
        self, task: str, messages: list[Message] | None = None, *, cancel_token: CancelToken | None = None
    ) -> AgentResult:
        """Do a task and await the result; see `run`."""
        return await self.prepare(task, messages, cancel_token=cancel_token).wait()

    def run_stream(
        self, task: str, messages: list[Message] | None = None, *, cancel_token: CancelToken | None = None
    ) -> Generator[Event, None, None]:
        """Do a task and yield the events while they happen; see `run`. Closing it cancels the run."""
        return self.prepare(task, messages, cancel_token=cancel_token).stream_sync()

    def arun_stream(
        self, task: str, messages: list[Message] | None = None, *, cancel_token: CancelToken | None = None
    ) -> AsyncGenerator[Event, None]:
        """Do a task and yield the events while they happen; see `run`. Closing it cancels the run."""
        return self.prepare(task, messages, cancel_token=cancel_token).stream()

    async def aclose(self) -> None:
        """Give back the connections of the running event loop, and the embedded model if one was started.

        Sync code need not: what `run` and `run_stream` opened is closed when the program ends.
        """
        close = getattr(self.llm, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def conversation(self) -> Conversation:
        """A conversation with this agent, which keeps the history for you."""
        return Conversation(self.prepare)

    def prepare(
        self, task: str, messages: list[Message] | None = None, *, cancel_token: CancelToken | None = None
    ) -> Run:
        """Make a run without starting it; `run` and its three siblings start it. See `run`."""
        state, notices = start_state(task, messages, self.system_prompt, self._kit.prompts)
        return Run(
            state, replace(self._kit, cancel_token=cancel_token, opening=(*self._kit.opening, *notices))
        )


def _checked_name(model: object) -> str:
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(f"model must be a model's name; it is {model!r:.80}.")
    return model


def _check_client(
    llm: object, model: str, api_key: str | None, base_url: str | None, profile: Profile | None
) -> None:
    if model is not DEFAULT_MODEL or api_key or base_url or profile:
        raise ConfigError(
            "llm and model (or api_key, base_url, profile) were both given. "
            "Pass llm=... for a client of your own, or model=... to have one built."
        )
    check_client(llm)
