"""Settings of one run that replace its agent's, and `override` blocks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pure_agent_loop.compaction import Ladder
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.checks import check_price
from pure_agent_loop.kernel.kit import Compactor, Kit, NoCompaction, Subagents
from pure_agent_loop.kernel.rule_checks import check_rules
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel, close_client, takes_server_tools
from pure_agent_loop.llm.profiles import DEFAULT_MODEL, REQUEST_FIELDS, TRANSPORT_FIELDS, Profile
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.typed_answers import FINAL_RESULT
from pure_agent_loop.output.wanted import OutputSpec
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.schema.calling import call_user, checked_in_run, contextual
from pure_agent_loop.support.abilities import check_method
from pure_agent_loop.support.checks import is_whole, require
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.secrets.redaction import redactor_for
from pure_agent_loop.support.text import nearest, unexpected_option
from pure_agent_loop.tool import Tool, ToolLike, ToolRegistry, Toolset

if TYPE_CHECKING:
    from pure_agent_loop.kernel.observers import Auditor, Snapshots
    from pure_agent_loop.output.form import Check
    from pure_agent_loop.permissions import AskFunction, PermissionMode, PermissionRules
    from pure_agent_loop.prompts import Prompts
    from pure_agent_loop.runs.options import RunSettings, SystemPrompt
    from pure_agent_loop.sessions.store import SessionStore


# -- checks of an agent's arguments, so that an error is raised where the mistake is ---------------------

T = TypeVar("T")
# Names from other libraries, and their equivalents here.
_OTHER_WORDS = {
    "instructions": "system_prompt",
    "instruction": "system_prompt",
    "system": "system_prompt",
    "system_message": "system_prompt",
    "prompt": "system_prompt",
    "client": "llm",
    "provider": "llm",
    "functions": "tools",
    "function_call": "tool_choice",
    "max_iterations": "limits=LoopLimits(max_turns=...)",
    "session_id": "session_id= of run(), arun(), run_stream() and arun_stream()",
    "messages": "messages= of run(), arun(), run_stream() and arun_stream()",
    "output_type": "output_type= of Agent, or of run() and its siblings",
    **{field_.name: f"limits=LoopLimits({field_.name}=...)" for field_ in fields(LoopLimits)},
    **{field_.name: f"retry=RetryConfig({field_.name}=...)" for field_ in fields(RetryConfig)},
}
_NOT_HERE = {
    "n": "A run requests one answer only.",
}
OUTPUT_RETRIES = 2
# Default of arguments for which None is a valid value; callers may also pass it explicitly.
UNSET: Any = ...
_OF_MODEL = frozenset({"llm", "model", "tools", "model_settings", "temperature"})
_OVERRIDES: ContextVar[Mapping[int, Mapping[str, Any]]] = ContextVar("pure_agent_loop_overrides")
_HOOKS = {
    "before_tool": ("tool", "args", "context"),
    "after_tool": ("tool", "args", "result", "context"),
    "on_stop": ("answer", "context"),
}


def check_starters(starters: object) -> None:
    """Check the tasks that a page offers before a conversation begins.

    Raises:
        ConfigError: They are not a list of non-blank strings.
    """
    tasks = starters if isinstance(starters, (list, tuple)) else [None]
    if not all(isinstance(task, str) and task.strip() for task in tasks):
        raise ConfigError(notice("library.server_starters", starters=starters))


def checked_compactor(value: Any) -> Compactor:
    """Return the compactor for the argument ``compaction``.

    Raises:
        ConfigError: The value is neither a bool nor a compactor.
    """
    if isinstance(value, bool):
        return Ladder() if value else NoCompaction()
    is_compactor = callable(getattr(value, "compact", None))
    require(is_compactor, "compaction", value, "True, False or a compactor")
    check_method("compaction", value, "compact", "state")
    if callable(getattr(value, "force", None)):
        check_method("compaction", value, "force", "state")
    compactor: Compactor = value
    return compactor


def checked_number(name: str, value: Any) -> Any:
    """Return a positive whole number, or None.

    Raises:
        ConfigError: The value is neither None nor a positive whole number.
    """
    require(value is None or is_whole(value, 1), name, value, "a positive whole number")
    return value


def check_only_client(
    llm: object,
    model: str | Sequence[str] | None,
    api_key: str | None,
    base_url: str | None,
    profile: Profile | None,
) -> None:
    """Reject a client that is invalid or combined with arguments that create another one.

    Raises:
        ConfigError: The client is invalid or not the only one.
    """
    if (model is not None and model is not DEFAULT_MODEL) or api_key or base_url or profile:
        raise ConfigError(
            "llm and model (or api_key, base_url, profile) were both given. "
            "Pass llm=... to use your own client, or model=... to create one."
        )
    check_client(llm)


def default_client(
    model: str | Sequence[str] | None,
    api_key: str | None,
    base_url: str | None,
    thinking_level: str,
    profile: Profile | None,
) -> tuple[ChatModel, tuple[str, ...]]:
    """Return the client for a model name (a `Fallback` for several), and notices that name the models.

    Raises:
        ConfigError: A name is invalid, or a setting of one server was given for several models.
    """
    from pure_agent_loop.runs.choose import client_for

    if not isinstance(model, (list, tuple)):
        return client_for(cast("str | None", model), api_key, base_url, thinking_level, profile)
    if api_key or base_url or profile:
        raise ConfigError(
            "api_key, base_url and profile belong to one server, but model names several models. "
            "Pass llm=Fallback([...]) with a client for each, or set the keys in the environment."
        )
    from pure_agent_loop.llm.fallback import Fallback

    found = [client_for(name, thinking_level=thinking_level) for name in model]
    return Fallback([client for client, _ in found]), tuple(text for _, texts in found for text in texts)


def all_tools(
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None, subagents: Subagents | None
) -> ToolRegistry:
    """Return the given tools and the tools of `subagents`, unless their names are taken.

    Raises:
        ConfigError: A value is not a tool, or `subagents` is not a `SubagentManager`.
    """
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools or ())
    if subagents is None:
        return registry
    is_manager = callable(getattr(subagents, "for_sessions", None))
    require(is_manager, "subagents", subagents, "a SubagentManager")
    registry = ToolRegistry(registry)  # a copy, because other agents may use the caller's registry
    registry.register_many(tool for tool in subagents.tools() if tool.name not in registry)
    return registry


class HasTool(Protocol):
    """Interface of a handoff, with the tool that the model calls to hand over."""

    def tool(self) -> Tool:
        """Return the tool."""


def with_handoff_tools(tools: ToolRegistry, handoffs: Mapping[str, HasTool]) -> ToolRegistry:
    """Return the tools, with those that hand a conversation over."""
    return (
        ToolRegistry([*tools.entries(), *(each.tool() for each in handoffs.values())]) if handoffs else tools
    )


def with_server_tools_of(tools: ToolRegistry, options: Mapping[str, Any], client: object) -> dict[str, Any]:
    """Return the request options, with the tools that the model's server runs.

    Raises:
        ConfigError: The client cannot send them, or they cannot be written as JSON.
    """
    options = {name: value for name, value in options.items() if name != "server_tools"}
    if not tools.server_tools:
        return options
    if not takes_server_tools(client):
        kind = type(client.inner if isinstance(client, ToolModeClient) else client).__name__
        raise ConfigError(
            f"tools has {tools.server_tools[0]!r:.80}, a tool that a model's server runs. The client "
            f"{kind} cannot send it: leave it out, or use a client such as AnthropicClient."
        )
    _check_json("tools", tools.server_tools)
    return {**options, "server_tools": list(tools.server_tools)}


def read_again(values: T) -> T | list[Any]:
    """Return a one-shot iterable as a list, and any other value unchanged."""
    return list(values) if isinstance(values, Iterator) else values


def check_types(**arguments: tuple[object, type]) -> None:
    """Reject arguments of the wrong type.

    Args:
        arguments: Value and required type of each argument, by name; None is always valid.

    Raises:
        ConfigError: A value has the wrong type; the message names the argument.
    """
    for name, (value, kind) in arguments.items():
        what = "text" if kind is str else f"a {kind.__name__}"
        require(value is None or isinstance(value, kind), name, value, what)


def checked_folder(name: str, value: object) -> str:
    """Return the absolute path of an existing folder; empty for None.

    Raises:
        ConfigError: The value is not an existing folder.
    """
    if value is None:
        return ""
    path = Path(value).expanduser() if isinstance(value, (str, os.PathLike)) else None
    if path is None or not path.is_dir():
        raise ConfigError(f"{name}={value!r:.80} must be an existing folder.")
    return str(path.resolve())


def check_client(llm: object) -> None:
    """Reject an invalid model client.

    Raises:
        ConfigError: The value has no `chat` method, or is an agent, whose `chat` has a different signature.
    """
    if callable(getattr(llm, "prepare", None)) and hasattr(llm, "llm"):
        raise ConfigError(
            f"llm must be a model client; {type(llm).__name__} is an agent with its own loop. "
            "Call its run(), or pass its client: agent.llm."
        )
    if not callable(getattr(llm, "chat", None)):
        raise ConfigError(
            f"llm must have an async method chat(messages, tools=None, **kwargs), like BaseLLMClient; "
            f"{type(llm).__name__} has none."
        )
    for name in ("chat", "chat_stream"):
        if callable(getattr(llm, name, None)):
            check_method("llm", llm, name, "messages", "tools")


# -- checks of additional request fields passed as keyword arguments -------------------------------------


def check_fields(owner: str, values: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Reject an unknown keyword argument, or a value that cannot be sent.

    Args:
        owner: Name of the callee, for the message.
        values: Keyword arguments that are not parameters of the callee.
        known: Parameters of the callee, for suggestions.

    Raises:
        ConfigError: The message names the field and the correction.
    """
    for name, value in values.items():
        if name not in REQUEST_FIELDS:
            raise ConfigError(
                f"{owner} has no option {name!r}. {_meant(name, known)}"
                f"Put server-specific fields into extra_body={{{name!r}: ...}}."
            )
        if name not in TRANSPORT_FIELDS:
            _check_json(name, value)
        if value is not None:
            _check_ours(name, value)


def _check_ours(name: str, value: Any) -> None:
    """Check a field that is not sent to the server, so the server cannot reject a wrong value."""
    expected = ""
    if name in ("extra_body", "extra_headers", "extra_query") and not isinstance(value, Mapping):
        expected = "a dict of fields"
    elif name == "stream" and not isinstance(value, bool):
        expected = "True or False"
    elif name == "timeout" and not (value > 0 if type(value) in (int, float) else hasattr(value, "connect")):
        expected = "a positive number of seconds, or a Timeout of the client's HTTP library"
    require(not expected, name, value, expected)


def _meant(name: str, known: Iterable[str]) -> str:
    if name in _NOT_HERE:
        return f"{_NOT_HERE[name]} "
    if name in _OTHER_WORDS:
        return f"Write {_OTHER_WORDS[name]}. "
    names = {option: option for option in (*known, *REQUEST_FIELDS)}
    near = nearest(name, {**_OTHER_WORDS, **names})
    return f"Did you mean {names.get(near) or _OTHER_WORDS[near]}? " if near else ""


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}={value!r:.80} is not JSON-serializable: {error}.") from error


# -- factories of `RunContext.deps`, called once per run -------------------------------------------------


class DepsOfRun:
    """Deps that a factory creates once per run, shared with agents that the run is handed over to.

    Args:
        factory: Function that creates the deps; it may be async, and may take the `RunContext`.
    """

    def __init__(self, factory: Callable[..., Any]) -> None:
        self._factory = factory
        self._made: list[Any] = []

    async def made(self) -> Any:
        """Return the deps.

        Raises:
            Exception: The exception of the factory.
        """
        if not self._made:
            self._made.append(await call_user(contextual(self._factory)))
        return self._made[0]


class PromptWriter:
    """System prompt with parts written by functions.

    Args:
        parts: Texts and functions, in order; empty texts are omitted.

    Raises:
        ConfigError: A part is neither a string nor a function.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        for part in parts:
            if not isinstance(part, str) and not callable(part):
                raise ConfigError(
                    "system_prompt must be text, a function that returns it, or a list of these; "
                    f"it contains {part!r:.80}."
                )
            if callable(part):
                checked_in_run("system_prompt", part)
        self.parts = parts

    async def __call__(self) -> str:
        """Return the text of the prompt."""
        texts = [
            source if isinstance(source, str) else await call_user(contextual(source))
            for source in self.parts
        ]
        for part, text in zip(self.parts, texts, strict=True):
            if text is not None and not isinstance(text, str):
                name = getattr(part, "__name__", part)
                raise ConfigError(f"The prompt function {name!r} must return text; it returned {text!r:.80}.")
        return "\n\n".join(text for text in texts if text)


def parse_system_prompt(system_prompt: SystemPrompt) -> tuple[str, PromptWriter | None]:
    """Return the text of a system prompt, or the `PromptWriter` that writes it.

    Raises:
        ConfigError: The system prompt is neither a string nor functions.
    """
    if isinstance(system_prompt, str):
        return system_prompt, None
    prompt: Any = system_prompt
    parts = list(prompt) if isinstance(prompt, (list, tuple)) else [prompt]
    lead = PromptWriter(parts)
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(filter(None, parts)), None
    return "", lead


def hooks_in_run(hooks: Hooks) -> Hooks:
    """Return the hooks, wrapped so that those that take the `RunContext` receive it.

    Raises:
        ConfigError: A hook has the wrong signature.
    """
    for name, parameters in _HOOKS.items():
        for hook in getattr(hooks, name):
            checked_in_run(f"Hooks.{name}", hook, *parameters)
    return replace(
        hooks,
        before_tool=[*map(contextual, hooks.before_tool)],
        after_tool=[*map(contextual, hooks.after_tool)],
        on_stop=[*map(contextual, hooks.on_stop)],
    )


@dataclass(frozen=True)
class AgentConfig:
    """Settings of an agent, as `Agent.config` returns them; they cannot be changed.

    The agent's model, tools and handoffs are attributes of the agent itself.
    """

    name: str
    """Name of the agent; empty if none."""
    system_prompt: SystemPrompt
    """Leading system message: text, or a list of texts and the functions that write it."""
    limits: LoopLimits
    """Limits of a run."""
    prompts: Prompts
    """Texts from the framework to the model."""
    permission_mode: PermissionMode
    """Permission mode."""
    permission_rules: PermissionRules
    """Permission rules."""
    on_ask: AskFunction | None
    """Function that asks a person; None if a question suspends the run."""
    audit: Auditor | None
    """Audit log of the agent's calls; None if there is none."""
    snapshots: Snapshots | None
    """Snapshots of the agent's workspace; None if the agent has none."""
    has_own_client: bool = False
    """True if the agent was made with ``llm=``, so that no other model can be named for a run."""
    sessions: SessionStore | None = None
    """Store of its runs with a `session_id`; None for the data folder."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the agent was made with, without its key."""


@dataclass(eq=False, repr=False)
class KitBuilder:
    """Parts of an agent from which a run's kit is built.

    Args:
        connect: Function that returns the client and notices for a model name; None if the agent was given a
            client.
        form: Form of answers; None for text.
        clients: Clients created for runs with another model, by name.
    """

    connect: Callable[[str | Sequence[str]], tuple[ChatModel, object]] | None = None
    subagents: Subagents | None = None
    handoffs: Mapping[str, HasTool] = field(default_factory=dict)
    form: Any = None
    retries: int = OUTPUT_RETRIES
    checks: list[Check] = field(default_factory=list)
    clients: dict[str | tuple[str, ...], ToolModeClient] = field(default_factory=dict)
    deps: Callable[..., Any] | None = None

    def kit_for(
        self,
        kit: Kit,
        settings: RunSettings,
        deps: Any = None,
        output_type: Any = UNSET,
        has_system: bool = False,
    ) -> Kit:
        """Return the kit of one run.

        Args:
            settings: Settings of the run. An enclosing `override` takes precedence.
            has_system: True if the history has its own system message.

        Raises:
            ConfigError: A setting is invalid.
            TypeError: A setting is unknown.
        """
        if settings:
            _check_names(settings)
        overrides = _OVERRIDES.get({}).get(id(self), {})
        options: dict[str, Any] = {**settings, "deps": deps, **overrides}
        if options["deps"] is None and self.deps is not None:
            options["deps"] = DepsOfRun(self.deps)
        if settings or overrides:
            kit = self.with_model(kit, options)
            check_types(
                limits=(options.get("limits"), LoopLimits), metadata=(options.get("metadata"), Mapping)
            )
            check_fields("run", {"metadata": options.get("metadata")})
        prompt, facts = options.get("system_prompt"), options.get("facts")
        lead = (
            kit.lead
            if prompt is None
            else PromptWriter(prompt if isinstance(prompt, (list, tuple)) else [prompt])
        )
        kit = kit.replace(
            name=kit.name or options.get("name", ""),
            limits=options.get("limits") or kit.limits,
            output=self.output(output_type),
            output_of_run=output_type is not UNSET,
            deps=options["deps"],
            metadata=options.get("metadata") or {},
            lead=None if has_system else lead,
            lead_each_step=kit.lead_each_step and prompt is None,
            facts=kit.facts if facts is None else PromptWriter([checked_in_run("facts", facts)]),
            redactor=kit.redactor and kit.redactor.for_run(),
        )
        if settings:
            check_price(kit)
        check_output(kit)
        return kit

    def overridden(self, kit: Kit) -> Kit:
        """Return the agent's kit with any enclosing `override`, for another agent's run."""
        overrides = _OVERRIDES.get({}).get(id(self))
        return replace(self.with_model(kit, overrides), deps=overrides.get("deps")) if overrides else kit

    async def aclose(self) -> None:
        """Close the clients created for other models."""
        for client in self.clients.values():
            await close_client(client)

    def with_model(self, kit: Kit, settings: Mapping[str, Any]) -> Kit:
        """Return the kit with the client, tools and request fields of these settings."""
        if not settings.keys() & _OF_MODEL:
            return kit
        client, tools = self._client(kit, settings), kit.tools
        if settings.get("tools") is not None:
            tools = with_handoff_tools(all_tools(settings["tools"], self.subagents), self.handoffs)
            tools.to_openai_schema(kit.prompts)
            if not kit.permissions.rules.shared:
                check_rules(kit.permissions.rules, tools, self.subagents)
            client = client.with_examples(tools.examples_of)
        options = with_server_tools_of(tools, _with_fields(kit.options, settings), client)
        redactor = redactor_for(kit.redactor or False, (client, tools), options)
        return kit.replace(client=client, tools=tools, options=options, redactor=redactor)

    def _client(self, kit: Kit, settings: Mapping[str, Any]) -> ToolModeClient:
        own = cast("ToolModeClient", kit.client)
        chosen: Any = settings.get("model") if settings.get("llm") is None else settings["llm"]
        if chosen is None:
            return own
        if not isinstance(chosen, (str, list, tuple)):
            check_client(chosen)
            return own.around(chosen)
        if self.connect is None:
            raise ConfigError(
                f"model={chosen!r} was passed to a run, but the agent has its own client (llm=...). "
                "Pass model=<a client> for this run."
            )
        names = chosen if isinstance(chosen, str) else tuple(chosen)
        if names not in self.clients:
            self.clients[names] = own.around(self.connect(chosen)[0])
        return self.clients[names]

    def output(self, output_type: Any = UNSET) -> OutputSpec | None:
        """Return a run's output specification.

        Raises:
            ConfigError: A type was passed for the run, but the agent has checks for its own type.
        """
        form = self.form if output_type is UNSET else form_of(output_type)
        if output_type is not UNSET and self.checks:
            raise ConfigError(
                "output_type was passed to a run, but the agent has output checks for its own "
                "output_type. Use agent.clone(output_type=...) and add checks to the clone."
            )
        if not form and not self.checks:
            return None
        from pure_agent_loop.output.form import TypedOutput

        return TypedOutput(form, self.retries, self.checks)


def _check_names(settings: Mapping[str, Any]) -> None:
    from pure_agent_loop.runs.options import RunSettings

    if unknown := settings.keys() - RunSettings.__annotations__.keys():
        raise TypeError(unexpected_option("A run", min(unknown), RunSettings.__annotations__))


class HasKit(Protocol):
    """Interface of an agent with a kit."""

    _kit: Kit
    _builder: KitBuilder
    system_prompt: str

    @property
    def config(self) -> AgentConfig:
        """Settings of the agent."""


Viewed = TypeVar("Viewed", bound=HasKit)


def kit_of(agent: HasKit) -> Kit:
    """Return the kit of an agent, with any enclosing `override`, for a run that the agent does not start."""
    return agent._builder.overridden(agent._kit)


def view_of(agent: Viewed, settings: RunSettings, **changes: Any) -> Viewed:
    """Return a copy of an agent with other settings, which shares its client, checks and overrides.

    Args:
        settings: The tools and request fields that replace the agent's; None keeps them.
        changes: Fields of its kit.

    Raises:
        ConfigError: A setting is invalid.
    """
    view, kit = copy(agent), agent._builder.with_model(agent._kit, settings)
    prompts = changes.get("prompts", kit.prompts)
    if prompts is not kit.prompts:
        kit = replace(kit, client=cast("ToolModeClient", kit.client).with_words(prompts))
        if view.system_prompt == kit.prompts.system_prompt:
            view.system_prompt = prompts.system_prompt
    view._kit = replace(kit, **changes)
    return view


def set_deps(agent: HasKit, factory: Callable[..., Any]) -> None:
    """Set the function that makes the deps of runs started without deps."""
    agent._builder.deps = factory


def naming(agent: HasKit, name: str) -> AbstractContextManager[None]:
    """Name the runs that are prepared within the block, unless the agent has its own name."""
    return overriding(agent._builder, name=name)


def form_of(output_type: Any) -> Any:
    """Return the form of an answer; None for text. Any other type causes pydantic to be loaded.

    Raises:
        ConfigError: The type cannot be expressed as JSON.
    """
    if output_type is None or output_type is str:
        return None
    from pure_agent_loop.output.form import OutputForm

    return OutputForm(output_type)


def check_output(kit: Kit) -> None:
    """Reject options that conflict with `output_type`.

    Raises:
        ConfigError: An option conflicts.
    """
    if kit.output is None or kit.output.response_format is None:
        return
    if kit.options.get("response_format") is not None:
        raise ConfigError("output_type and response_format were both given. Remove response_format.")
    if FINAL_RESULT in kit.tools:
        raise ConfigError(f"Tool name {FINAL_RESULT!r} is reserved if output_type is set. Rename the tool.")


def _with_fields(options: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(settings.get("model_settings") or {})
    if "temperature" in settings:
        fields["temperature"] = settings["temperature"]
    check_fields("model_settings", fields)
    return {name: value for name, value in {**options, **fields}.items() if value is not None}


@contextmanager
def overriding(builder: KitBuilder, **changes: Any) -> Iterator[None]:
    """Override settings of the runs started inside, in this task or thread and its children.

    Raises:
        ConfigError: A setting is invalid.
    """
    changes = {name: value for name, value in changes.items() if value is not UNSET}
    if changes.get("llm") is not None:
        check_client(changes["llm"])
    if changes.get("tools") is not None and not isinstance(changes["tools"], ToolRegistry):
        changes["tools"] = ToolRegistry(changes["tools"])  # the value may be a one-shot iterable
    all_before = _OVERRIDES.get({})
    previous = all_before.get(id(builder), {})
    token = _OVERRIDES.set({**all_before, id(builder): {**previous, **changes}})
    try:
        yield
        checking = getattr(changes.get("llm"), "assert_tools_worked", None)
        if callable(checking):  # a test client
            checking()
    finally:
        _OVERRIDES.reset(token)
