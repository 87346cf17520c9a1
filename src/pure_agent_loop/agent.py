"""The agent: a model, tools and rules, configured once and run any number of times."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from pure_agent_loop.budget import Budget
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.conversation import Conversation
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.checks import check_deps, check_price
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import (
    FIRST_BYTE,
    Compactor,
    Kit,
    Observers,
    ResultLimits,
    Subagents,
    Timeouts,
    ToolRetries,
)
from pure_agent_loop.kernel.rule_checks import check_rules
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.profiles import (
    DEFAULT_MODEL,
    DEFAULT_TEMPERATURE,
    DefaultFloat,
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
from pure_agent_loop.runs.handoff import Handoff, HandoffTarget, checked_handoffs
from pure_agent_loop.runs.run import OutputType, Run, RunInput, Runnable, T, begin, brings_system
from pure_agent_loop.runs.settings import (
    UNSET,
    AgentConfig,
    KitBuilder,
    PromptWriter,
    all_tools,
    check_fields,
    check_only_client,
    check_output,
    check_starters,
    check_types,
    checked_compactor,
    checked_folder,
    checked_number,
    default_client,
    form_of,
    hooks_in_run,
    parse_system_prompt,
    read_again,
    with_server_tools_of,
)
from pure_agent_loop.schema.calling import checked_in_run, contextual
from pure_agent_loop.support.checks import is_whole, require_value
from pure_agent_loop.support.language import Language, checked_choice
from pure_agent_loop.support.secrets.redaction import Redactor, redactor_for
from pure_agent_loop.tool import Tool, ToolLike, ToolRegistry, Toolset
from pure_agent_loop.tool_context import Deps

if TYPE_CHECKING:
    from types import UnionType

    # Type checkers give a `Literal` this type; they do not support `TypeForm` yet.
    from typing import _SpecialForm

    from typing_extensions import Self, Unpack

    from pure_agent_loop.agent_options import AgentMode, AgentOptions
    from pure_agent_loop.explain import Explanation
    from pure_agent_loop.kernel.observers import Auditor, Snapshots
    from pure_agent_loop.runs.options import Given, RequestFields, RunSettings, SystemPrompt, TextFunction
    from pure_agent_loop.sessions.store import SessionPlace

__all__ = ["Agent", "AgentResult"]

DEFAULT_SYSTEM_PROMPT = ENGLISH.system_prompt
# Maximum rounds of tool calls, by mode.
TOOL_ROUNDS: dict[AgentMode, int | None] = {"react": None, "single": 1}


class Agent(Runnable[Deps, Out]):
    """A language model that acts through tools until a task is done.

        agent = Agent(model="gpt-4o-mini", tools=[get_weather])
        print(agent.run("Will it rain in Oslo?").content)

    Without a key or a base URL the default model is local: a server running on this machine, else the
    embedded model from the ``[local]`` extra. The log and the first events name the chosen model.

    ``Agent[Deps, Out]``: `Deps` is the type of `RunContext.deps`, `Out` the type of `AgentResult.output`.

    Args:
        model: Model name. ``"anthropic:NAME"``, ``"gemini:NAME"`` and ``"responses:NAME"`` use the protocol
            of the model's maker, ``"bedrock:NAME"`` and ``"vertex:NAME"`` reach Claude through a cloud.
            Without a base URL, ``"local"``, ``"local:NAME"`` or ``PATH.gguf`` selects an embedded model.
            Several names make a `Fallback`.
        api_key: API key, or a `KeyFile`; if None, the protocol's environment variable, such as
            ``OPENAI_API_KEY``.
        base_url: Server URL; if None, ``OPENAI_BASE_URL``, then OpenAI's or the protocol's own URL.
        llm: Custom client, such as an `OpenAIClient`, instead of `model`.
        tools: Functions, `Tool` objects, dicts and toolsets, or a `ToolRegistry`. A dict in the format of the
            model's protocol is a tool that the server runs, such as ``{"type": "web_search"}``.
        system_prompt: Leading system message; empty if none. `react_prompt` builds such a message. May also
            be a sync or async function that returns the text, or a list of texts and functions.
        limits: Limits of a run.
        retry: Retry policy for failed requests.
        temperature: Sampling temperature; None omits it. The default, 0.7, is omitted for models that reject
            it; any other rejected value is an error.
        thinking_level: ``low``, ``medium`` or ``high``; ``none`` switches thinking off; ``off`` sends
            nothing, so a model that thinks by default still does.
        emit_reasoning_events: True emits the model's reasoning as events.
        output_type: Type of the answer: a dataclass, a TypedDict, a pydantic model, `Literal`, an enum, a
            list, a union, a plain type, or a function that takes the answer as its arguments; or a list of
            these.
        output_retries: Number of times the model may correct an invalid answer.
        system_prompt_per: Call system prompt functions once per ``run`` or per ``step``.
        mode: ``react`` works in steps until there is an answer; ``single`` calls tools in one step, in
            parallel, then answers. The default is ``react``; for `AIClient`, ``single``. Neither mode
            adds to the prompt; `react_prompt` and `tool_mode` do.
        after_tools: Text sent to the model after the tool results of each step, as a message marked
            ``synthetic``.
        facts: Function that returns facts for the model, such as date and folder; may be async and may take
            the `RunContext`. The first line is a heading; each further line is a fact, ``name: text``. They
            precede the task, in a message marked ``facts``; later tasks get only the facts that have
            changed. The system prompt stays the same, so servers can cache it.
        tool_mode: Format of tool calls: ``native``, constrained ``json``, ReAct ``text``, or ``auto`` to
            detect it.
        language: Language of the framework's prompts, ``"en"`` or ``"zh"``; if None,
            ``PAL_LANG``, then English.
        prompts: Custom prompts, instead of `language`.
        profile: Settings for a server or model that has no built-in profile; if None, looked up by base URL
            and model name.
        permission_mode: ``auto`` (default) allows every call that no rule denies; ``ask`` asks about tools
            not marked ``read_only``; ``guard`` asks about a call to such a tool only if a value does not
            come from the user; ``plan`` allows only ``read_only`` tools; ``bypass`` never asks.
        permission_rules: Rules that deny, ask about or allow calls, by name and arguments.
        can_use_tool: Function that decides whether each call may run: ``(tool, args, context)`` returns
            ``"allow"``, ``"deny"``, ``"ask"`` or a `Permission`.
        on_ask: Function that asks a person: ``(request)`` returns ``"allow"``, ``"deny"`` or a `Permission`.
            A sync function runs in a thread. Without it, a question suspends the run; see
            `AgentResult.questions`.
        hooks: Functions called before and after tools, and before the run ends.
        budget: Hard limits shared with other runs.
        name: Name of the agent, for the audit log and for other agents.
        description: Purpose of the agent, for agents that call it as a tool or hand over to it.
        starters: Tasks that a page offers before a conversation with this agent begins.
        handoffs: `Agent` or `Handoff` objects that a conversation can be handed over to.
        cwd: Working folder, passed to tools and permission functions in their contexts; None for the current
            directory. It does not restrict access: file tools and the shell take their folder as a separate
            argument.
        audit: Log of every call, such as an `AuditLog`.
        snapshots: Tracks what each step changes in a folder and can undo it, such as
            `WorkspaceSnapshots`.
        subagents: `SubagentManager` with the agents that this agent can delegate tasks to.
        compaction: True shortens a long history with a `Ladder`, False never does; or a custom compactor.
        context_window: Context window in tokens; if None, taken from the server or the profile.
        max_result_chars: Longer tool results are truncated; the model can read the rest with `read_result`.
        results_folder: Folder that keeps the full results permanently; if None, the data folder keeps them
            for a week.
        sessions: Store of runs with a `session_id`: a store, a folder or a `SessionManager`; files in the
            data folder if None.
        first_byte_timeout: Seconds to wait for the start of a response; None for no limit. 60, the default,
            means an hour if the server runs on this machine.
        idle_timeout: Seconds a response may pause; None for no limit.
        tool_timeout: Seconds a tool may take unless it sets its own timeout; None for no limit.
        redact: True removes secrets from everything recorded, shown and sent; or a `Redactor`.
        tool_attempts: Number of attempts to run a tool marked ``idempotent`` before its error goes to the
            model.
        tool_retry_delay: Seconds between these attempts.
        llm_kwargs: Additional fields for every request in the chat-completions protocol, such as ``top_p`` or
            ``timeout`` (seconds for a connection, and for each wait for more bytes). Fields specific to
            your server go into ``extra_body={...}``.

    Raises:
        ConfigError: An argument is invalid; the message names it and the fix.
    """

    default_mode: ClassVar[AgentMode] = "react"

    def __init__(
        self,
        model: str | Sequence[str] | None = DEFAULT_MODEL,
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
        output_type: OutputType[Out] | _SpecialForm | UnionType | None = None,
        output_retries: int = 2,
        system_prompt_per: Literal["run", "step"] = "run",
        mode: AgentMode | None = None,
        after_tools: str = "",
        facts: TextFunction | None = None,
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
        starters: Sequence[str] = (),
        handoffs: Iterable[HandoffTarget | Handoff] = (),
        cwd: str | os.PathLike[str] | None = None,
        audit: Auditor | None = None,
        snapshots: Snapshots | None = None,
        subagents: Subagents | None = None,
        compaction: Compactor | bool = True,
        context_window: int | None = None,
        max_result_chars: int = 30_000,
        results_folder: str | os.PathLike[str] | None = None,
        sessions: SessionPlace | None = None,
        first_byte_timeout: float | None = FIRST_BYTE,
        idle_timeout: float | None = 60.0,
        tool_timeout: float | None = 120.0,
        redact: bool | Redactor = True,
        tool_attempts: int = 1,
        tool_retry_delay: float = 1.0,
        **llm_kwargs: Unpack[RequestFields],
    ) -> None:
        tools, handoffs = read_again(tools), read_again(handoffs)  # as lists: clones iterate over them again
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
        check_starters(starters)
        if sessions is not None:
            from pure_agent_loop.sessions import store_at

            sessions = store_at(sessions)
        self.description, self.starters, self._sessions = description, tuple(starters), sessions
        self._own_tools = all_tools(tools, subagents)
        self.handoffs, self.tools = checked_handoffs(handoffs, name, self._own_tools)
        words = prompts or prompts_for(language)
        self.tools.to_openai_schema(words)  # reject invalid tool schemas now, not in a run
        system_prompt = words.system_prompt if system_prompt == DEFAULT_SYSTEM_PROMPT else system_prompt
        self.system_prompt, lead = parse_system_prompt(system_prompt)
        checked_choice("system_prompt_per", system_prompt_per, ("run", "step"))
        options: dict[str, Any] = {"temperature": temperature, **llm_kwargs}
        if temperature == DEFAULT_TEMPERATURE:
            options["temperature"] = DefaultFloat(temperature)
        start_notices: tuple[str, ...] = ()
        connect: Callable[[str | Sequence[str] | None], tuple[ChatModel, tuple[str, ...]]] | None = None
        if llm is None:
            connect = partial(
                default_client,
                api_key=api_key,
                base_url=base_url,
                thinking_level=thinking_level,
                profile=profile,
            )
            llm, start_notices = connect(model)
        else:
            check_only_client(llm, model, api_key, base_url, profile)
            if thinking_level != "off":
                options["thinking_level"] = thinking_level
        self.llm: ChatModel = llm
        options = with_server_tools_of(self._own_tools, options, llm)
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
            can_use_tool=can_use_tool
            and contextual(checked_in_run("can_use_tool", can_use_tool, "tool", "args", "context")),
            on_ask=on_ask and contextual(checked_in_run("on_ask", on_ask, "request")),
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
            redactor=redactor_for(redact, (llm, self.tools, self.handoffs, subagents, compaction), options),
            tool_retries=ToolRetries(checked_number("tool_attempts", tool_attempts) or 1, tool_retry_delay),
            lead=lead,
            lead_each_step=system_prompt_per == "step",
            facts=None if facts is None else PromptWriter([checked_in_run("facts", facts)]),
            start_notices=start_notices,
        )
        check_price(kit)
        require_value(is_whole(output_retries), "output_retries", output_retries, "a whole number, 0 or more")
        self._builder = KitBuilder(connect, subagents, self.handoffs, form_of(output_type), output_retries)
        self._kit = replace(kit, output=self._builder.output())
        check_output(self._kit)

    @property
    def config(self) -> AgentConfig:
        """Settings of this agent; change them with `clone`."""
        kit = self._kit
        return AgentConfig(
            name=kit.name,
            system_prompt=self.system_prompt if kit.lead is None else self._given["system_prompt"],
            limits=kit.limits,
            prompts=kit.prompts,
            permission_mode=self._given["permission_mode"],
            permission_rules=kit.permissions.rules,
            on_ask=self._given["on_ask"],
            audit=kit.observers.audit,
            snapshots=kit.observers.snapshots,
            sessions=self._sessions,
            has_own_client=self._builder.connect is None,
            arguments={name: value for name, value in self._given.items() if name != "api_key"},
        )

    @overload
    def clone(self, *, output_type: OutputType[T], **changes: Unpack[AgentOptions]) -> Agent[Deps, T]: ...
    @overload
    def clone(self, **changes: Unpack[AgentOptions]) -> Self: ...
    def clone(self, **changes: Any) -> Any:
        """Return a copy of the agent with some arguments changed; the copy keeps the output checks.

        Args:
            changes: Arguments of `Agent`. A new ``llm`` discards the arguments that name a model, and vice
                versa; a new ``output_type`` discards the output checks.

        Raises:
            ConfigError: An argument is invalid.
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
        """Show the first request `run` would send for a task, and its limits. Nothing is sent.

        Args:
            task: Task text.
            messages: History to continue.
            media: Images attached to the task; see `run`.
            deps: Value of `RunContext.deps`.
            output_type: Type of the answer, instead of the agent's.
            settings: Other settings, as for `run`.

        Raises:
            ConfigError: `task` is not a string.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is not a list of messages.
            LLMError: The request could not be sent in this `tool_mode`.
        """
        from pure_agent_loop.explain import explain

        run_input = RunInput(task, messages, self.system_prompt, media=media_parts(media))
        kit = self._builder.kit_for(self._kit, settings, deps, output_type, brings_system(messages))
        return explain(*begin(kit, run_input))

    def conversation(self) -> Conversation[Out, Deps]:
        """Return a conversation with this agent that keeps the history."""
        return Conversation(self.prepare)

    def as_tool(self, name: str = "", description: str = "", input_type: Any = str) -> Tool:
        """Return this agent as a tool for another agent. ``Agent(tools=[agent])`` does the same.

        The tool runs in a separate context and returns the agent's answer. The rules, budget, audit and
        limits of the calling agent also apply. If the calling run has a session, the tool records its work in
        a separate session next to it, and resumes from there if the program is killed.

        Args:
            name: Tool name; the agent's name if empty.
            description: Tool description; the agent's description if empty.
            input_type: Type of the input: text, or a dataclass, TypedDict or pydantic model, passed as JSON.

        Raises:
            ConfigError: The name is missing, or the type cannot be expressed as JSON.
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
        journal: Journal | None = None,
        media: Iterable[MediaItem] | None = None,
        sessions: SessionPlace | None = None,
        deps: Deps | None = None,
        output_type: Any = UNSET,
        **settings: Unpack[RunSettings],
    ) -> Run[Out]:
        """Create a run without starting it; `run` and its three siblings also start it.

        Args:
            task: Task text; None, with `state`, to resume.
            messages: History to continue; see `run`.
            cancel_token: Token that cancels the run from outside.
            state: State to resume: `AgentResult.state`, or its saved `to_dict` form. It is not modified.
            inbox: Queue of messages to the running agent.
            session_id: Id of the session that records the run. An existing session is resumed: after a crash
                no finished work is repeated. `messages` are rejected unless the session is new.
            journal: Your own journal, which records the effects of the run; see docs/journal.md. Without a
                journal or a session, nothing is recorded.
            media: Images attached to the task: paths, bytes, ``data:`` URLs or parts; see `media_parts`.
            sessions: Session store, instead of the agent's.
            deps: Value of `RunContext.deps`. The value is never recorded: pass it again to resume.
            output_type: Type of the answer, instead of the agent's.
            settings: Settings that replace the agent's for this run: `model` (a name, names or a client),
                `limits`, `temperature`, `tools`, `system_prompt`, `facts`, extra request fields as
                `model_settings`, and your `metadata`, available in the record and in `RunContext`.

        Raises:
            ConfigError: `task` is not a string, `state` is not a state, or required `deps` are missing.
            ImageError: One of `media` cannot be sent.
            HistoryError: `messages` is not a list of messages.
            SessionError: The session cannot be opened.
        """
        run_input = RunInput(task, messages, self.system_prompt, state, media_parts(media), self)
        kit = self._builder.kit_for(self._kit, settings, deps, output_type, brings_system(messages))
        check_deps(kit)
        if session_id is None:
            start, kit = begin(kit, run_input, journal)
        elif journal is not None:
            raise ConfigError(
                "session_id and journal were both given. Pass one: a session has its own journal."
            )
        else:
            from pure_agent_loop.sessions import store_at
            from pure_agent_loop.sessions.resume import begin_in_session

            store = store_at(self._sessions if sessions is None else sessions)
            start, kit = begin_in_session(kit, run_input, store, session_id)
        given = {**settings, "deps": deps, "output_type": output_type}
        return Run(start, kit.replace(cancel_token=cancel_token, inbox=inbox or Inbox()), self, given)


def served_agents(agents: Mapping[str, Any], keeper: str, advice: str) -> dict[str, Agent[Any, Any]]:
    """Check agents for a server that stores all their sessions in one place, and return them by name.

    Args:
        keeper: Name of that place, for the error message.
        advice: How to read or set that place, for the error message.

    Raises:
        ConfigError: A value is not an agent, or an agent has its own `sessions`.
    """
    for name, agent in agents.items():
        if not isinstance(agent, Agent):
            raise ConfigError(f"agents[{name!r}] must be an Agent, not {agent!r:.80}.")
        if agent.config.sessions is not None:
            raise ConfigError(
                f"agents[{name!r}] has sessions=..., but {keeper} keeps the sessions of all its agents. "
                f"Pass agent.clone(sessions=None), and {advice}."
            )
    return dict(agents)


_ARGUMENTS = dict.fromkeys(name for name in inspect.signature(Agent).parameters if name != "llm_kwargs")
