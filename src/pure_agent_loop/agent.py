"""The agent: a model, tools and rules, put together once and run as often as you like."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from pure_agent_loop.budget import Budget
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.conversation import Conversation
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.kit import Compactor, Kit, Subagents
from pure_agent_loop.kernel.settings import Observers, ResultLimits, Timeouts, ToolRetries
from pure_agent_loop.kernel.tools.rules import check_rules
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.profiles import (
    DEFAULT_MODEL,
    DEFAULT_TEMPERATURE,
    Profile,
    ThinkingLevel,
    check_thinking_level,
)
from pure_agent_loop.llm.tool_modes.client import ToolMode, ToolModeClient, check_tool_mode
from pure_agent_loop.media import MediaItem, media_parts
from pure_agent_loop.permissions import (
    AskFunction,
    PermissionFunction,
    PermissionMode,
    PermissionPolicy,
    PermissionRules,
)
from pure_agent_loop.prompts import ENGLISH, Prompts, prompts_for
from pure_agent_loop.result import AgentResult, Out
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.runs.checks import (
    all_tools,
    check_only_client,
    check_price,
    check_types,
    checked_choice,
    checked_compactor,
    checked_folder,
    checked_function,
    checked_number,
    checked_retries,
    read_again,
)
from pure_agent_loop.runs.fields import check_fields
from pure_agent_loop.runs.handoff import Handoff, Member, checked_handoffs
from pure_agent_loop.runs.run import Run
from pure_agent_loop.runs.settings import (
    UNSET,
    Makings,
    check_output,
    form_of,
    hooks_in_run,
    lead_of,
)
from pure_agent_loop.runs.start import RunInput, begin_run, brings_system
from pure_agent_loop.runs.variants import Variants
from pure_agent_loop.runs.ways import OutputType, T
from pure_agent_loop.schema.context import contextual
from pure_agent_loop.support.language import Language
from pure_agent_loop.support.secrets.redaction import Redactor, redactor_for
from pure_agent_loop.tool import Tool, ToolLike, ToolRegistry, Toolset
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from pure_agent_loop.agent_options import AgentMode, AgentOptions
    from pure_agent_loop.explain import Explanation
    from pure_agent_loop.kernel.tools.observers import Auditor, Snapshots
    from pure_agent_loop.runs.options import Given, RequestFields, RunSettings, SystemPrompt
    from pure_agent_loop.sessions.store import SessionStore

__all__ = ["Agent", "AgentResult"]

DEFAULT_SYSTEM_PROMPT = ENGLISH.system_prompt
TOOL_ROUNDS: dict[AgentMode, int | None] = {"react": None, "single": 1}  # of each mode


class Agent(Variants[Deps, Out]):
    """A language model that acts through tools until a task is done.

        agent = Agent(model="gpt-4o-mini", tools=[get_weather])
        print(agent.run("Will it rain in Oslo?").content)

    Without a key and an address the default model is what is at hand: a server running on this
    machine, else the embedded model of the extra ``[local]``. Which one it is, is logged, and said in the
    first events.

    ``Agent[Deps, Out]`` is one whose functions find a `Deps` in their `RunContext`, and whose results have an
    `Out` as their `output`.

    Args:
        model: The model's name; without an address ``"local"``, ``"local:NAME"`` or a ``PATH.gguf`` for an
            embedded one.
        api_key: The key; else ``OPENAI_API_KEY``.
        base_url: The server; else ``OPENAI_BASE_URL``, else OpenAI.
        llm: A client of your own instead of `model`.
        tools: Functions, `Tool` objects, dicts and toolsets; or a `ToolRegistry`.
        system_prompt: The leading system message; empty for none. `react_prompt` writes one. Also a function
            that returns it, async or not, or a list of texts and functions.
        limits: How far a run may go.
        retry: How failed requests are repeated.
        temperature: Randomness of the answers; models that refuse the default of 0.7 get none, as with None.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``.
        emit_reasoning_events: Whether events show the thinking.
        output_type: What the answer must be: a dataclass, a TypedDict, a pydantic model, `Literal`, an enum,
            a list, a union, a plain type, or a function whose arguments it is; or a list of these.
        output_retries: How often the model is told what is wrong with its answer.
        system_prompt_per: When functions write the system prompt: for each ``run``, or for each ``step``.
        mode: ``react`` works in steps until there is an answer; ``single`` decides about tools once, runs
            them together and answers. The default is ``react``, and ``single`` in `AIClient`.
        after_tools: Said to the model after the tool results of each step, as a message marked ``synthetic``.
        tool_mode: How the model is brought to act: ``native`` tool calls, constrained ``json``, ReAct
            ``text``, or ``auto`` to find out.
        language: ``"en"`` or ``"zh"`` for what the framework says to the model; else
            ``PURE_AGENT_LOOP_LANG``, else English.
        prompts: Words of your own instead.
        profile: What the server needs, where it is not known; found by address and model name if None.
        permission_mode: ``auto``, the default, allows every call that no rule forbids; ``ask`` asks about
            tools that are not marked ``read_only``; ``plan`` allows only these; ``bypass`` asks nothing.
        permission_rules: Calls that are denied, asked about or allowed, by name and arguments.
        can_use_tool: Your own decision about each call: ``(tool, args, context)`` to ``"allow"``, ``"deny"``,
            ``"ask"`` or a `Permission`.
        on_ask: Asks a person: ``(request)`` to ``"allow"``, ``"deny"`` or a `Permission`; a function that is
            not async runs in a thread. Without it a run is suspended at a question, see
            `AgentResult.questions`.
        hooks: Functions before and after tools, and before the end.
        budget: Hard limits shared with other runs.
        name: The agent's name, for the audit log and for other agents.
        description: What it is good for, for agents that use it as a tool or hand over to it.
        handoffs: Agents that a conversation can be handed over to: `Agent` or `Handoff` objects.
        cwd: The folder the work is in, told to tools and permission functions in their contexts; None for
            the one the program is in. It binds nothing: file tools and the shell have a folder of their own.
        audit: Writes down every call, such as an `AuditLog`.
        snapshots: Knows what a step changed in a folder and can undo it, such as `WorkspaceSnapshots`.
        subagents: Others that it can give tasks to: a `SubagentManager`.
        compaction: True shortens a long history with a `Ladder`, False never does; or one of your own.
        context_window: Tokens of the model's window; None for what the server or the profile says.
        max_result_chars: A tool's longer result is cut; the model can read the rest with `read_result`.
        results_folder: Where the whole texts are kept, for good; None for a week in the data folder.
        sessions: Where runs with a `session_id` are kept; files in the data folder if None.
        first_byte_timeout: Seconds to wait for an answer to begin; None for no limit.
        idle_timeout: Seconds an answer may pause; None for no limit.
        tool_timeout: Seconds a tool may take unless it says otherwise; None for no limit.
        redact: Whether secrets are taken out of what is recorded, shown and sent; or a `Redactor`.
        tool_attempts: How often a tool marked ``idempotent`` is tried before its error goes to the model.
        tool_retry_delay: Seconds between these tries.
        llm_kwargs: Further fields of every request, as the chat-completions protocol has them, such as
            ``top_p``; what only your server knows goes into ``extra_body={...}``.

    Raises:
        ConfigError: An argument cannot work; the message says which and what to do.
    """

    default_mode: ClassVar[AgentMode] = "react"

    def __init__(
        self,
        model: str | None = DEFAULT_MODEL,
        api_key: str | None = None,
        base_url: str | None = None,
        llm: ChatModel | None = None,
        tools: Iterable[ToolLike | Toolset] | ToolRegistry | None = None,
        system_prompt: SystemPrompt = DEFAULT_SYSTEM_PROMPT,
        limits: LoopLimits | None = None,
        retry: RetryConfig | None = None,
        temperature: float | None = DEFAULT_TEMPERATURE,
        thinking_level: ThinkingLevel = "off",
        emit_reasoning_events: bool = False,
        *,
        output_type: OutputType[Out] | None = None,
        output_retries: int = 2,
        system_prompt_per: Literal["run", "step"] = "run",
        mode: AgentMode | None = None,
        after_tools: str = "",
        tool_mode: ToolMode = "auto",
        language: Language | None = None,
        prompts: Prompts | None = None,
        profile: Profile | None = None,
        permission_mode: PermissionMode = "auto",
        permission_rules: PermissionRules | None = None,
        can_use_tool: PermissionFunction | None = None,
        on_ask: AskFunction | None = None,
        hooks: Hooks | None = None,
        budget: Budget | None = None,
        name: str = "",
        description: str = "",
        handoffs: Iterable[Member | Handoff] = (),
        cwd: str | os.PathLike[str] | None = None,
        audit: Auditor | None = None,
        snapshots: Snapshots | None = None,
        subagents: Subagents | None = None,
        compaction: Compactor | bool = True,
        context_window: int | None = None,
        max_result_chars: int = 30_000,
        results_folder: str | os.PathLike[str] | None = None,
        sessions: SessionStore | None = None,
        first_byte_timeout: float | None = 60.0,
        idle_timeout: float | None = 60.0,
        tool_timeout: float | None = 120.0,
        redact: bool | Redactor = True,
        tool_attempts: int = 1,
        tool_retry_delay: float = 1.0,
        **llm_kwargs: Unpack[RequestFields],
    ) -> None:
        tools, handoffs = read_again(tools), read_again(handoffs)  # for clones
        self._given = {**{name: each for name, each in locals().items() if name in _ARGUMENTS}, **llm_kwargs}
        check_fields("Agent", {"temperature": temperature, **llm_kwargs}, _ARGUMENTS)
        check_thinking_level(thinking_level)
        check_tool_mode(tool_mode)
        mode = checked_choice("mode", self.default_mode if mode is None else mode, TOOL_ROUNDS)
        check_types(
            after_tools=(after_tools, str),
            limits=(limits, LoopLimits),
            retry=(retry, RetryConfig),
            profile=(profile, Profile),
            hooks=(hooks, Hooks),
            budget=(budget, Budget),
            name=(name, str),
            description=(description, str),
        )
        self.description, self._sessions = description, sessions
        self._own_tools = all_tools(tools, subagents)
        self.handoffs, self.tools = checked_handoffs(handoffs, name, self._own_tools)
        words = prompts or prompts_for(language)
        self.tools.to_openai_schema(words)  # what cannot be described is refused here, not in the first run
        system_prompt = words.system_prompt if system_prompt is DEFAULT_SYSTEM_PROMPT else system_prompt
        self.system_prompt, lead = lead_of(system_prompt)
        checked_choice("system_prompt_per", system_prompt_per, ("run", "step"))
        options: dict[str, Any] = {"temperature": temperature, **llm_kwargs}
        opening: tuple[str, ...] = ()
        connect: Callable[[str | None], tuple[ChatModel, tuple[str, ...]]] | None = None
        if llm is None:
            from pure_agent_loop.runs.choose import client_for

            connect = partial(
                client_for, api_key=api_key, base_url=base_url, thinking_level=thinking_level, profile=profile
            )
            llm, opening = connect(model)
        else:
            check_only_client(llm, model, api_key, base_url, profile)
            if thinking_level != "off":
                options["thinking_level"] = thinking_level
        self.llm: ChatModel = llm
        policy = PermissionPolicy(permission_mode, permission_rules or PermissionRules())
        if not policy.rules.shared:
            check_rules(policy.rules, self.tools, subagents)
        kit = Kit(
            client=ToolModeClient(llm, tool_mode, words, self.tools.examples_of),
            tools=self.tools,
            limits=limits or LoopLimits(),
            retry=retry or RetryConfig(),
            prompts=words,
            permissions=policy,
            can_use_tool=can_use_tool and contextual(checked_function("can_use_tool", can_use_tool)),
            on_ask=on_ask and contextual(checked_function("on_ask", on_ask)),
            hooks=hooks_in_run(hooks or Hooks()),
            budget=budget,
            name=name,
            cwd=checked_folder("cwd", cwd),
            observers=Observers(audit, snapshots),
            background=None if subagents is None else subagents.for_sessions(sessions),
            tool_rounds=TOOL_ROUNDS[mode],
            after_tools=after_tools,
            options={key: value for key, value in options.items() if value is not None},
            emit_reasoning=emit_reasoning_events,
            compactor=checked_compactor(compaction),
            context_window=checked_number("context_window", context_window),
            results=ResultLimits(
                checked_number("max_result_chars", max_result_chars) or 30_000,
                folder=None if results_folder is None else Path(results_folder),
            ),
            timeouts=Timeouts(first_byte_timeout, idle_timeout, tool_timeout),
            redactor=redactor_for(redact, llm, options),
            tool_retries=ToolRetries(checked_number("tool_attempts", tool_attempts) or 1, tool_retry_delay),
            lead=lead,
            lead_each_step=system_prompt_per == "step",
            opening=opening,
        )
        check_price(kit)
        self._makings = Makings(connect, subagents, form_of(output_type), checked_retries(output_retries))
        self._kit = replace(kit, output=self._makings.output())
        check_output(self._kit)

    @overload
    def clone(self, *, output_type: OutputType[T], **changes: Unpack[AgentOptions]) -> Agent[Deps, T]: ...
    @overload
    def clone(self, **changes: Unpack[AgentOptions]) -> Self: ...
    def clone(self, **changes: Any) -> Any:
        """An agent of the same arguments with some changes, and the same output checks.

        Args:
            changes: Arguments of `Agent`. With ``llm`` those that name a model are left out, and the other
                way round; with ``output_type`` the checks are.

        Raises:
            ConfigError: An argument cannot work.
        """
        return self._cloned(changes)

    def explain(
        self,
        task: str,
        messages: list[Message] | None = None,
        media: Iterable[MediaItem] | None = None,
        *,
        deps: Deps | None = None,
        output_type: Any = UNSET,
        **settings: Unpack[RunSettings],
    ) -> Explanation:
        """Show what `run` would send first for a task, and under which limits. Nothing is sent.

        Args:
            task: What to do.
            messages: A history to go on from.
            media: Images that come with the task; see `run`.
            deps: For its functions.
            output_type: What the answer must be, if not what the agent says.
            settings: Other settings, as `run` takes them.

        Raises:
            ConfigError: `task` is no text.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is no list of messages.
            LLMError: The request could not be sent in this `tool_mode`.
        """
        from pure_agent_loop.explain import explain

        given = RunInput(task, messages, self.system_prompt, media=media_parts(media))
        kit = self._makings.kit_for(self._kit, settings, deps, output_type, brings_system(messages))
        return explain(*begin_run(kit, given))

    def conversation(self) -> Conversation[Out, Deps]:
        """A conversation with this agent, which keeps the history for you."""
        return Conversation(self.prepare)

    def as_tool(self, name: str = "", description: str = "", input_type: Any = str) -> Tool:
        """This agent as a tool of another one, which is also what ``Agent(tools=[agent])`` does.

        It works in a context of its own and gives back its answer. Rules, budget, audit and limits of the
        agent above hold for it too. In a session it has a session of its own beside that of the run, and
        goes on where it stood when the program was killed.

        Args:
            name: As the model sees it; the agent's name if empty.
            description: What it is good for; that of the agent if empty.
            input_type: What the model gives it: text, or a dataclass, a TypedDict or a pydantic model, which
                reaches it as JSON.

        Raises:
            ConfigError: There is no name, or the type has no JSON form.
        """
        from pure_agent_loop.subagents.agent_tool import agent_tool

        return agent_tool(self, name, description or self.description, input_type)

    def prepare(
        self,
        task: str | None,
        messages: list[Message] | None = None,
        *,
        cancel_token: CancelToken | None = None,
        state: Given = None,
        inbox: Inbox | None = None,
        session_id: str | None = None,
        media: Iterable[MediaItem] | None = None,
        sessions: SessionStore | None = None,
        deps: Deps | None = None,
        output_type: Any = UNSET,
        **settings: Unpack[RunSettings],
    ) -> Run[Out]:
        """Make a run without starting it; `run` and its three siblings start it.

        Args:
            task: What to do; None, with `state`, to go on with what was being done.
            messages: A history to go on from; see `run`.
            cancel_token: Stops the run from outside.
            state: Where to go on: `AgentResult.state`, or its saved `to_dict` form. It is not changed.
            inbox: Messages put into it reach the agent while it works.
            session_id: Keeps the run in a session of that name, and goes on from what is there: after a crash
                nothing that was finished happens twice. `messages` counts only for a new session.
            media: Images that come with the task: paths, bytes, ``data:`` URLs or parts; see `media_parts`.
            sessions: Where the session is kept, instead of where this agent keeps its own.
            deps: What functions find in their `RunContext`. It is never written down: a run that goes on
                later needs it again.
            output_type: What the answer must be, instead of what the agent says.
            settings: What this run has otherwise than its agent: a `model` (a name, or a client), `limits`,
                `temperature`, `tools`, `system_prompt`, further fields of its requests as `model_settings`,
                and `metadata` of yours, which stands in the record and in `RunContext`.

        Raises:
            ConfigError: `task` is no text, or `state` is no state.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is no list of messages.
            SessionError: The session cannot be opened.
        """
        given = RunInput(task, messages, self.system_prompt, state, media_parts(media), self)
        kit = self._makings.kit_for(self._kit, settings, deps, output_type, brings_system(messages))
        if session_id is None:
            start, kit = begin_run(kit, given)
        else:
            from pure_agent_loop.sessions.resume import begin_in_session

            start, kit = begin_in_session(kit, given, sessions or self._sessions, session_id)
        return Run(start, kit.changed(cancel_token=cancel_token, inbox=inbox or Inbox()), self)


_ARGUMENTS = dict.fromkeys(name for name in inspect.signature(Agent).parameters if name != "llm_kwargs")
