"""The assistant as chat surfaces call it: a message goes in, text comes out while it is written."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.agent import Agent
from pure_agent_loop.assistant.context_builder import ContextBuilder
from pure_agent_loop.assistant.memory import MemoryStore
from pure_agent_loop.assistant.provider import as_model
from pure_agent_loop.assistant.skills import SkillsLoader
from pure_agent_loop.assistant.trust import guidance_of, is_trusted
from pure_agent_loop.assistant.words import AssistantWords
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.compaction import Chain, Ladder, MemoryOverflow
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.equip import equipped, leave_tools, list_tools, spoken
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.tool_round import run_calls
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.profiles import DEFAULT_TEMPERATURE, DefaultInt
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.media import MediaItem
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.fields import check_fields
from pure_agent_loop.runs.run import Run
from pure_agent_loop.session import SessionManager
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import Language
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset
from pure_agent_loop.toolbox.files.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AgentLoop"]

MAX_RUN_TOKENS = 1_000_000
DEFAULT_MAX_HISTORY = 200
DEFAULT_MAX_TOKENS = DefaultInt(4096)
_OURS = ("cwd", "limits", "retry", "sessions", "llm", "system_prompt", "tools")


class AgentLoop:
    """An assistant with sessions, memory and skills.

        loop = AgentLoop(provider, "workspace", tools=[search])
        async for text in loop.process_message("Who wrote it?", "session-1"):
            print(text, end="", flush=True)

    It runs no loop of its own: `agent` is an `Agent`, and each message is one of its runs.

    Args:
        provider: The model: a client of this package, or an object with ``chat_stream`` or ``chat``. None
            for the one that `model` names.
        workspace: A `Workspace`, or a folder that exists.
        tools: Functions, `Tool` objects or dicts, or a `ToolRegistry`. Those of memory and skills are added.
        context_builder: What the model is told; None for memory in the workspace, the user's skills, and the
            persona ``assistant``.
        session_manager: Where sessions are kept; in the data folder if None.
        subagent_manager: If it has ``tools()``, they are added.
        model: A model's name; with a provider it is sent with each request.
        max_iterations: Steps for one message; then the answer ends with a note.
        max_retries: How often a failed request is repeated; also how often an ``idempotent`` tool is tried.
        retry_delay: Seconds before the first repetition of a request, and between two tries of a tool.
        temperature: Randomness of the answers; None to leave it out.
        max_tokens: Greatest length of one answer of the model, in tokens; None to leave it out.
        max_tool_calls: Tool calls for one message; then the answer ends with a note.
        max_history: Past so many messages the oldest are summarised into memory; None for no limit.
        limits: Further limits; its ``max_turns`` and ``max_tool_calls`` do not count.
        language: ``en`` or ``zh`` for what the framework says; else that of the context builder.
        trust_folder: Whether ``AGENTS.md`` and the skills of the workspace may guide the model; None for what
            a person has said about them, as they are, when ``pal run`` asked. What is left out is logged.
        agent_options: What else `Agent` takes: ``can_use_tool``, ``permission_mode`` (``auto``), ``hooks``;
            ``audit``, which is an `AuditLog` in the data folder unless None is given.

    Raises:
        ConfigError: An argument cannot work; the message says which and what to do.
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
        for name in _OURS:
            if name in agent_options:
                raise ConfigError(f"AgentLoop takes no {name}=; its own arguments say the same.")
        known = {**inspect.signature(AgentLoop).parameters, **inspect.signature(Agent).parameters}
        check_fields("AgentLoop", {k: v for k, v in agent_options.items() if k not in known}, known)
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        if context_builder is not None and trust_folder is not None:
            raise ConfigError("trust_folder= is for the builder here: ContextBuilder(trust_folder=...).")
        builder = context_builder or _default_builder(self.workspace, language, trust_folder)
        self.context_builder = builder
        self.sessions = session_manager or SessionManager()
        limits = replace(
            limits or LoopLimits(max_tokens=MAX_RUN_TOKENS),
            max_turns=max_iterations,
            max_tool_calls=max_tool_calls,
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
            max_tokens=max_tokens,
            language=cast("Language | None", language or self.context_builder.language),
            sessions=self.sessions.store,
            cwd=self.workspace.root,
            tool_attempts=max(1, max_retries),
            tool_retry_delay=retry_delay,
            **agent_options,
        )

    @property
    def tools(self) -> ToolRegistry:
        """Every tool it has."""
        return self.agent.tools

    def prepare(
        self,
        message: str,
        session_id: str,
        context: Mapping[str, Any] | str | None = None,
        media: Iterable[MediaItem] | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> Run:
        """Make the run that answers a message, without starting it; see `process_message`.

        For a surface that shows more than text: ``run.stream()`` gives the events.
        """
        builder = self.context_builder
        is_first = not self.sessions.exists(session_id)
        prompt = {"role": "system", "content": builder.build_system_prompt()} if is_first else None
        inbox = Inbox()
        note = builder.note(context, channel, chat_id, is_first=is_first)
        if note:
            inbox.put(note, synthetic=True)
        return self.agent.prepare(
            message,
            None if prompt is None else [prompt],
            cancel_token=cancel_token,
            inbox=inbox,
            session_id=session_id,
            media=media,
        )

    async def process_message(
        self,
        message: str,
        session_id: str,
        context: Mapping[str, Any] | str | None = None,
        media: Iterable[MediaItem] | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> AsyncGenerator[str, None]:
        """Answer a message; yields text while the model writes it. Closing it cancels the run.

        Where a limit ends the work, where a person has to allow a call, and where an answer had to begin
        again, the text says so in brackets.

        Args:
            message: What the user says.
            session_id: The session it belongs to; a new one is made if there is none of that name.
            context: What the model should know for this message: a text, or names and values.
            media: Images: paths, bytes, ``data:`` URLs or parts; see `media_parts`.
            channel: Where the message came from; the model is told.
            chat_id: Which conversation there; the model is told.
            cancel_token: Stops the model, running tools, and this generator; the text so far is kept.

        Raises:
            ConfigError: An argument cannot work.
            ImageError: One of `media` cannot be sent.
            SessionError: The session is in use, or cannot be read or written.
            LLMError: The model could not be reached or refused; what it had written was yielded before.
        """
        run = self.prepare(message, session_id, context, media, channel, chat_id, cancel_token)
        view, events = _TextView(self.context_builder.words), run.stream()
        try:
            async for event in events:
                text = view.feed(event)
                if text:
                    yield text
        finally:
            await events.aclose()
        result = run.result()
        rest = _after(result, self.context_builder.words)
        if rest:
            yield f"\n\n{rest}" if view.shown else rest
        result.raise_for_error()

    async def process_direct(
        self,
        content: str,
        session_id: str,
        channel: str | None = None,
        *,
        context: Mapping[str, Any] | str | None = None,
        media: Iterable[MediaItem] | None = None,
        chat_id: str | None = None,
        cancel_token: CancelToken | None = None,
    ) -> str:
        """Answer a message and return the final answer; takes and raises what `process_message` does."""
        run = self.prepare(content, session_id, context, media, channel, chat_id, cancel_token)
        result = (await run.wait()).raise_for_error()
        if result.stop_reason in WAITING:
            return _after(result, self.context_builder.words)
        return result.content

    async def execute_tool(self, name: str, args: Mapping[str, Any]) -> str:
        """Call a tool as the model does: under the agent's permissions, hooks, deadlines and retries.

        Args:
            name: The tool.
            args: Its arguments.

        Returns:
            What the model would read, failures and refusals included.

        Raises:
            ConfigError: `args` is no mapping.
        """
        if not isinstance(args, Mapping):
            raise ConfigError(f"args must be a mapping of names to values; it is {args!r:.80}.")
        state, zero = QueryState(), TokenUsage.zero()
        state.begin_step()
        state.add_response(LLMResponse(None, [ToolCall("call_1", name, dict(args))], zero, None), zero)
        await _made(state, equipped(state, self.agent._kit))  # the two are one package
        return _waiting(state, self.context_builder.words) or str(state.messages[-1]["content"])

    async def aclose(self) -> None:
        """Give back what the model's client holds."""
        await self.agent.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@spoken
async def _made(state: QueryState, kit: Kit) -> None:
    try:
        await list_tools(state, kit)
        await run_calls(state, kit)
    finally:
        await leave_tools(kit)


class _TextView:
    """The text of a run as a reader of a chat sees it: with a gap where tools were used in between."""

    def __init__(self, words: AssistantWords) -> None:
        self._words = words
        self.shown = False
        self._in_answer = False
        self._gap = False

    def feed(self, event: Event) -> str:
        """What an event adds to the text."""
        if event.type is EventType.TEXT_DELTA:
            lead = "\n\n" if self._gap and self.shown else ""
            self.shown, self._in_answer, self._gap = True, True, False
            return lead + event.content
        if event.type is EventType.RETRY and event.data["discard"] and self._in_answer:
            self._in_answer, self._gap = False, True
            return f"\n\n{self._words.starts_again}"
        if event.type is EventType.ACTION or (event.type is EventType.NOTICE and not self._in_answer):
            self._gap = True  # a notice between two answers: somebody has said more
        if event.type in (EventType.ACTION, EventType.STEP_END):
            self._in_answer = False
        return ""


def _after(result: AgentResult, words: AssistantWords) -> str:
    """What stands behind the text: why the work ended before its end."""
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
    """The given tools and those of memory, skills and subagents; a given one counts where names are equal."""
    registry = ToolRegistry(tools or ())
    for source in (builder.memory, builder.skills, subagent_manager):
        make = getattr(source, "tools", None)
        for tool in make() if callable(make) else ():
            if tool.name not in registry:
                registry.register(tool)
    return registry
