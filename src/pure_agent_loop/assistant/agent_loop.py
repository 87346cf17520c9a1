"""The assistant's interface for chat surfaces: message in, streamed text out."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.agent import Agent
from pure_agent_loop.assistant.context_builder import Context, ContextBuilder, are_messages, in_language_of
from pure_agent_loop.assistant.memory import MemoryStore
from pure_agent_loop.assistant.providers import as_model
from pure_agent_loop.assistant.situation import Situation
from pure_agent_loop.assistant.skills import SkillsLoader
from pure_agent_loop.assistant.trust import guidance_of, is_trusted
from pure_agent_loop.assistant.words import AssistantWords
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.budget import check_limit
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.compaction import Chain, Ladder, MemoryOverflow
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.bind import bind_kit, list_tools, release_toolsets
from pure_agent_loop.kernel.calls import run_calls
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.profiles import DEFAULT_TEMPERATURE, DefaultInt
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.media import MediaItem
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import check_fields, kit_of
from pure_agent_loop.runs.together import least
from pure_agent_loop.session import SessionManager
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import Language, use_messages
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset
from pure_agent_loop.toolbox.files.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AgentLoop"]

MAX_RUN_TOKENS = 1_000_000
DEFAULT_MAX_HISTORY = 200
DEFAULT_MAX_TOKENS = 4096
_RESERVED = (
    "cwd",
    "facts",
    "limits",
    "llm",
    "retry",
    "sessions",
    "subagents",
    "system_prompt_per",
    "system_prompt",
    "tool_attempts",
    "tool_retry_delay",
    "tools",
)


class AgentLoop:
    """An assistant with sessions, memory and skills.

        loop = AgentLoop(provider, "workspace", tools=[search])
        async for text in loop.process_message("Who wrote it?", "session-1"):
            print(text, end="", flush=True)

    Each message is one run of `agent`, an ordinary `Agent`.

    Args:
        provider: A model client of this package, or an object with ``chat_stream`` or ``chat``; None to
            create a client for `model`.
        workspace: A `Workspace`, or an existing folder.
        tools: Functions, `Tool` objects or dicts, or a `ToolRegistry`; memory and skill tools are added.
        context_builder: Builds the prompt; None for memory in the workspace, the user's skills, and the
            persona ``assistant``.
        session_manager: Manager of the sessions; None for those in the data folder.
        subagent_manager: Object whose ``tools()`` are added, if it has that method.
        model: Model name; with a provider it is sent with each request.
        max_iterations: Steps per message; at the limit the answer ends with a note.
        max_retries: Retries of a failed request; also attempts of an ``idempotent`` tool.
        retry_delay: Seconds before the first retry of a request, and between attempts of a tool.
        temperature: Sampling temperature; None to omit it from requests.
        max_tokens: Maximum tokens per model response; None to omit it from requests. 4096, the default, is
            omitted or lowered for models that reject it.
        max_tool_calls: Tool calls per message; at the limit the answer ends with a note.
        max_history: Messages to keep; older ones are summarised into memory. None means no limit.
        limits: Further limits. Of ``max_turns`` and `max_iterations`, and of the two `max_tool_calls`, the
            smaller one applies.
        language: ``en`` or ``zh`` for the framework's texts; None for the language of the context builder.
        trust_folder: True uses ``AGENTS.md`` and the skills of the workspace. None uses them only if a person
            trusted their exact content in ``pal run``. Texts that are left out are logged.
        agent_options: Further arguments of `Agent`, such as ``can_use_tool``, ``hooks``, ``permission_mode``
            (default: ``auto``) and ``audit`` (default: an `AuditLog` in the data folder; None for no log).

    Raises:
        ConfigError: An argument is invalid; the message names it and the fix.
    """

    def __init__(
        self,
        provider: Any,
        workspace: Workspace | str | os.PathLike[str],
        tools: Iterable[ToolLike | Toolset] | ToolRegistry | None = None,
        context_builder: ContextBuilder | None = None,
        session_manager: SessionManager | None = None,
        subagent_manager: Any = None,
        model: str | None = None,
        max_iterations: int | None = 25,
        max_retries: int = 3,
        retry_delay: float = 1.0,
        temperature: float | None = DEFAULT_TEMPERATURE,
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        *,
        max_tool_calls: int | None = 25,
        max_history: int | None = DEFAULT_MAX_HISTORY,
        limits: LoopLimits | None = None,
        language: Language | None = None,
        trust_folder: bool | None = None,
        **agent_options: Any,
    ) -> None:
        for name in _RESERVED:
            if name in agent_options:
                raise ConfigError(f"{name}= is not an argument of AgentLoop; use its own arguments instead.")
        known = {**inspect.signature(AgentLoop).parameters, **inspect.signature(Agent).parameters}
        check_fields("AgentLoop", {k: v for k, v in agent_options.items() if k not in known}, known)
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        if context_builder is not None and trust_folder is not None:
            raise ConfigError("trust_folder= conflicts with context_builder=; pass it to ContextBuilder.")
        chosen = language or getattr(agent_options.get("prompts"), "language", None)
        builder = context_builder or _default_builder(self.workspace, chosen, trust_folder)
        builder = in_language_of(chosen, builder)
        self.context_builder = builder
        if not isinstance(session_manager, SessionManager):
            session_manager = SessionManager(session_manager)
        self.sessions = session_manager
        check_limit("max_iterations", max_iterations)
        check_limit("max_tool_calls", max_tool_calls)
        limits = limits or LoopLimits(max_tokens=MAX_RUN_TOKENS)
        limits = replace(
            limits,
            max_turns=least(limits.max_turns, max_iterations),
            max_tool_calls=least(limits.max_tool_calls, max_tool_calls),
        )
        if "audit" not in agent_options:
            agent_options["audit"] = AuditLog(
                notes={"permission_mode": agent_options.get("permission_mode", "auto")}
            )
        agent_options.setdefault("compaction", _compaction(self.context_builder.memory, max_history))
        self.agent = Agent(
            **({"model": model} if provider is None else {"llm": as_model(provider, model)}),
            tools=_all_tools(tools, self.context_builder, subagent_manager),
            subagents=subagent_manager if hasattr(subagent_manager, "for_sessions") else None,
            system_prompt=self.context_builder.build_system_prompt(),
            limits=limits,
            retry=RetryConfig(max_retries=max_retries, base_delay=retry_delay),
            temperature=temperature,
            max_tokens=DefaultInt(max_tokens) if max_tokens == DEFAULT_MAX_TOKENS else max_tokens,
            language=cast("Language | None", chosen or builder.language),
            sessions=self.sessions.store,
            cwd=self.workspace.root,
            tool_attempts=max(1, max_retries),
            tool_retry_delay=retry_delay,
            **agent_options,
        )

    @property
    def tools(self) -> ToolRegistry:
        """All tools of the assistant."""
        return self.agent.tools

    def prepare(
        self,
        message: str,
        session_id: str,
        context: Context | None = None,
        media: Iterable[MediaItem] | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> Run:
        """Create the run that answers a message, without starting it; see `process_message`.

        For chat surfaces that show more than text, ``run.stream()`` yields the events.
        """
        builder = self.context_builder
        is_first = not self.sessions.exists(session_id)
        prompt = {"role": "system", "content": builder.build_system_prompt()} if is_first else None
        history = list[Message]()
        # Only for a new session, because an existing one already has a history.
        if is_first and are_messages(context):
            history, context = list(context), None
        about, config = builder.note(context, channel, chat_id, is_first=True), self.agent.config
        mode = "" if all(tool.read_only for tool in self.tools) else config.permission_mode
        situation = Situation(
            self.workspace.root, mode=mode, is_attended=True, limits=config.limits, about=about
        )
        return self.agent.prepare(
            message,
            None if prompt is None else [prompt, *history],
            cancel_token=cancel_token,
            session_id=session_id,
            media=media,
            facts=situation.text if about else None,
        )

    async def process_message(
        self,
        message: str,
        session_id: str,
        context: Context | None = None,
        media: Iterable[MediaItem] | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> AsyncGenerator[str, None]:
        """Answer a message, yielding text as the model writes it. Closing the generator cancels the run.

        A note in brackets marks a reached limit, a pending approval, or a restarted answer.

        Args:
            message: The user's message.
            session_id: The session; created if missing.
            context: Context for this message: a string, a mapping, or a list of messages. In a new session, a
                list of messages becomes the history before this message.
            media: Images: paths, bytes, ``data:`` URLs or content parts; see `media_parts`.
            channel: Source of the message, shown to the model.
            chat_id: Conversation in the channel, shown to the model.
            cancel_token: Stops the model, running tools, and this generator; the text so far is kept.

        Raises:
            ConfigError: An argument is invalid.
            ImageError: One of `media` cannot be sent.
            SessionError: The session is in use, or cannot be read or written.
            LLMError: The request to the model failed; text written before that has already been yielded.
        """
        run = self.prepare(message, session_id, context, media, channel, chat_id, cancel_token)
        view, events = _TextView(self.context_builder.words), run.stream()
        try:
            async for event in events:
                if text := view.feed(event):
                    yield text
        finally:
            await events.aclose()
        result = run.result()
        if rest := _after(result, self.context_builder.words):
            yield f"\n\n{rest}" if view.shown else rest
        result.raise_for_error()

    async def process_direct(
        self,
        content: str,
        session_id: str,
        channel: str | None = None,
        *,
        context: Context | None = None,
        media: Iterable[MediaItem] | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> str:
        """Answer a message and return the final answer; see `process_message`."""
        run = self.prepare(content, session_id, context, media, channel, chat_id, cancel_token)
        result = (await run.wait()).raise_for_error()
        if result.stop_reason in WAITING:
            return _after(result, self.context_builder.words)
        return result.content

    async def execute_tool(self, tool_name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool as the model would, with the agent's permissions, hooks, timeouts and retries.

        Args:
            tool_name: Name of the tool.
            arguments: Arguments for the tool.

        Returns: The result as the model reads it, even for an error or a denial.

        Raises:
            ConfigError: `arguments` is not a mapping.
        """
        if not isinstance(arguments, Mapping):
            raise ConfigError(f"arguments={arguments!r:.80} must be a mapping of names to values.")
        state, zero = QueryState(), TokenUsage.zero()
        state.begin_step()
        state.add_response(
            LLMResponse(None, [ToolCall("call_1", tool_name, dict(arguments))], zero, None), zero
        )
        await _run_calls(state, bind_kit(state, kit_of(self.agent)))
        return _waiting(state, self.context_builder.words) or str(state.messages[-1]["content"])

    async def aclose(self) -> None:
        """Close the model client."""
        await self.agent.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _run_calls(state: QueryState, kit: Kit) -> None:
    with use_messages(kit.prompts):
        try:
            await list_tools(state, kit)
            await run_calls(Step(state, kit))
        finally:
            await release_toolsets(state, kit)


class _TextView:
    """The text of a run for a chat, with blank lines where tools ran."""

    def __init__(self, words: AssistantWords) -> None:
        self._words = words
        self.shown = False
        self._in_answer = False
        self._gap = False

    def feed(self, event: Event) -> str:
        """Return the text that an event adds."""
        if event.type is EventType.TEXT_DELTA:
            lead = "\n\n" if self._gap and self.shown else ""
            self.shown, self._in_answer, self._gap = True, True, False
            return lead + event.content
        if event.type is EventType.RETRY and event.data["discard"] and self._in_answer:
            self._in_answer, self._gap = False, True
            return f"\n\n{self._words.starts_again}"
        if event.type is EventType.ACTION or (event.type is EventType.NOTICE and not self._in_answer):
            self._gap = True  # a notice between two answers means that a new message has arrived
        if event.type in (EventType.ACTION, EventType.STEP_END):
            self._in_answer = False
        return ""


def _after(result: AgentResult, words: AssistantWords) -> str:
    """Return the note to add after the text: the reason why the run ended early."""
    return result.state.answer.note or _waiting(result.state, words)


def _waiting(state: QueryState, words: AssistantWords) -> str:
    open_calls = (call.name for call in state.open_calls)
    calls = ", ".join([*(question.tool for question in state.questions), *open_calls])
    return words.waiting.format(calls=calls) if calls else ""


def _default_builder(workspace: Workspace, language: str | None, trusted: bool | None) -> ContextBuilder:
    guidance = guidance_of(workspace.root)
    may_guide = trusted if trusted is not None else is_trusted(guidance) and guidance.holds
    skills = SkillsLoader(workspace=workspace, trust_project=may_guide, language=language)
    memory = MemoryStore(workspace, language=language)
    return ContextBuilder(workspace, memory, skills, language=language, trust_folder=trusted)


def _compaction(memory: MemoryStore | None, max_history: int | None) -> Chain | bool:
    if memory is None or max_history is None:
        return True
    return Chain(MemoryOverflow(memory.workspace, max_history), Ladder())


def _all_tools(
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None, builder: ContextBuilder, subagent_manager: Any
) -> ToolRegistry:
    """Return the caller's tools, then the memory, skill and subagent tools whose names are not taken."""
    registry = ToolRegistry(tools or ())
    for source in (builder.memory, builder.skills, subagent_manager):
        make = getattr(source, "tools", None)
        for tool in make() if callable(make) else ():
            if tool.name not in registry:
                registry.register(tool)
    return registry
