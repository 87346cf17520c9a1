"""One run with other settings than its agent's, and blocks of code in which an agent has others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.kit import Kit, Subagents
from pure_agent_loop.kernel.tools.rules import check_rules
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel, close_client
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.llm.tool_modes.typed_answer import FINAL_RESULT
from pure_agent_loop.output.wanted import Output
from pure_agent_loop.runs.checks import all_tools, check_client, check_price, check_types
from pure_agent_loop.runs.fields import check_fields
from pure_agent_loop.schema.context import contextual
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool import ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.output.typed import Check
    from pure_agent_loop.runs.options import RunSettings, SystemPrompt

OUTPUT_RETRIES = 2
UNSET: Any = type("Unset", (), {"__repr__": lambda _: "..."})()  # where None has a meaning
_OF_MODEL = frozenset({"llm", "model", "tools", "model_settings", "temperature"})
_OVERRIDES: ContextVar[Mapping[int, Mapping[str, Any]]] = ContextVar("pure_agent_loop_overrides")


class Lead:
    """A system prompt that functions write.

    Args:
        parts: Texts and functions, in order; what is empty is left out.

    Raises:
        ConfigError: One is neither.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        for part in parts:
            if not isinstance(part, str) and not callable(part):
                raise ConfigError(
                    "system_prompt must be text, a function that returns it, or a list of these; "
                    f"{part!r:.80} is neither."
                )
        self._parts = parts

    async def __call__(self) -> str:
        """Write it."""
        from pure_agent_loop.output.typed import called

        texts = [each if isinstance(each, str) else await called(each) for each in self._parts]
        for part, text in zip(self._parts, texts, strict=True):
            if text is not None and not isinstance(text, str):
                name = getattr(part, "__name__", part)
                raise ConfigError(f"The prompt function {name!r} must return text; it returned {text!r:.80}.")
        return "\n\n".join(text for text in texts if text)


def lead_of(system_prompt: SystemPrompt) -> tuple[str, Lead | None]:
    """The text of a system prompt, or what writes it.

    Raises:
        ConfigError: It is neither text nor functions.
    """
    if isinstance(system_prompt, str):
        return system_prompt, None
    given: Any = system_prompt
    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    lead = Lead(parts)
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(filter(None, parts)), None
    return "", lead


def hooks_in_run(hooks: Hooks) -> Hooks:
    """The hooks, with those that take the run they are called in given it."""
    return replace(
        hooks,
        before_tool=[*map(contextual, hooks.before_tool)],
        after_tool=[*map(contextual, hooks.after_tool)],
        on_stop=[*map(contextual, hooks.on_stop)],
    )


@dataclass(eq=False)
class Makings:
    """What an agent makes the kit of a run from.

    Args:
        connect: A client for a model's name, and more; None where the agent was given a client.
        subagents: Brings further tools.
        form: What answers must be; None for text.
        retries: How often an answer is corrected.
        checks: Functions that look at each output.
        clients: Those that were made for runs with another model.
    """

    connect: Callable[[str], tuple[ChatModel, object]] | None = None
    subagents: Subagents | None = None
    form: Any = None
    retries: int = OUTPUT_RETRIES
    checks: list[Check] = field(default_factory=list)
    clients: dict[str, ToolModeClient] = field(default_factory=dict)

    def kit_for(
        self,
        kit: Kit,
        settings: RunSettings,
        deps: Any = None,
        output_type: Any = UNSET,
        has_system: bool = False,
    ) -> Kit:
        """The kit of one run.

        Args:
            kit: What runs have unless they say otherwise.
            settings: What it has otherwise. An `override` around it goes before these.
            output_type: What its answer must be.
            has_system: Its history brings a system message of its own.

        Raises:
            ConfigError: Something cannot work.
            TypeError: There is no such setting.
        """
        if settings:
            _check_names(settings)
        over = _OVERRIDES.get({}).get(id(self), {})
        given: dict[str, Any] = {**settings, "deps": deps, **over}
        if settings or over:
            kit = self._with_model(kit, given)
            check_types(limits=(given.get("limits"), LoopLimits), metadata=(given.get("metadata"), Mapping))
            check_fields("run", {"metadata": given.get("metadata")})
        prompt = given.get("system_prompt")
        lead = kit.lead if prompt is None else Lead([prompt] if _is_one(prompt) else prompt)
        kit = kit.changed(
            limits=given.get("limits") or kit.limits,
            output=self.output(output_type),
            output_of_run=output_type is not UNSET,
            deps=given["deps"],
            metadata=given.get("metadata") or {},
            lead=None if has_system else lead,
            lead_each_step=kit.lead_each_step and prompt is None,
            redactor=kit.redactor and kit.redactor.as_of_now(),
        )
        if settings:
            check_price(kit)
        check_output(kit)
        return kit

    def overridden(self, kit: Kit) -> Kit:
        """The kit of the agent, as an `override` around it has it, for the run of another one."""
        over = _OVERRIDES.get({}).get(id(self))
        return replace(self._with_model(kit, over), deps=over.get("deps")) if over else kit

    async def aclose(self) -> None:
        """Close what was made for other models."""
        for client in self.clients.values():
            await close_client(client)

    def _with_model(self, kit: Kit, given: Mapping[str, Any]) -> Kit:
        if not given.keys() & _OF_MODEL:
            return kit
        client, tools = self._client(kit, given), kit.tools
        if given.get("tools") is not None:
            tools = all_tools(given["tools"], self.subagents)
            tools.to_openai_schema(kit.prompts)
            if not kit.permissions.rules.shared:
                check_rules(kit.permissions.rules, tools, self.subagents)
            client = client.with_examples(tools.examples_of)
        options = _with_fields(kit.options, given)
        return kit.changed(client=client, tools=tools, options=options)

    def _client(self, kit: Kit, given: Mapping[str, Any]) -> ToolModeClient:
        own = cast("ToolModeClient", kit.client)
        chosen: Any = given.get("model") if given.get("llm") is None else given["llm"]
        if chosen is None:
            return own
        if not isinstance(chosen, str):
            check_client(chosen)
            return own.around(chosen)
        if self.connect is None:
            raise ConfigError(
                f"model={chosen!r} was given to a run of an agent with a client of its own (llm=...), and "
                "only that knows how to reach another model. Pass model=<a client> for this run."
            )
        if chosen not in self.clients:
            self.clients[chosen] = own.around(self.connect(chosen)[0])
        return self.clients[chosen]

    def output(self, output_type: Any = UNSET) -> Output | None:
        """What the answers of runs must be.

        Raises:
            ConfigError: Another type was given, and there are checks.
        """
        form = self.form if output_type is UNSET else form_of(output_type)
        if output_type is not UNSET and self.checks:
            raise ConfigError(
                "output_type was given to a run of an agent that has output checks, which are about its own "
                "output_type. Use agent.clone(output_type=...) and give that its own checks."
            )
        if not form and not self.checks:
            return None
        from pure_agent_loop.output.typed import TypedOutput

        return TypedOutput(form, self.retries, self.checks)


def _check_names(settings: Mapping[str, Any]) -> None:
    from pure_agent_loop.runs.options import RunSettings

    if strange := settings.keys() - RunSettings.__annotations__.keys():
        raise TypeError(f"A run got an unexpected keyword argument {min(strange)!r}.")


class HasKit(Protocol):
    """An agent, as far as this is concerned."""

    _kit: Kit
    _makings: Makings


def kit_of(agent: HasKit) -> Kit:
    """What an agent works with in the run of another one."""
    return agent._makings.overridden(agent._kit)


def form_of(output_type: Any) -> Any:
    """What an answer must be; None for text. Loads pydantic only where it is more.

    Raises:
        ConfigError: It has no JSON form.
    """
    if output_type is None or output_type is str:
        return None
    from pure_agent_loop.output.form import OutputForm

    return OutputForm(output_type)


def check_output(kit: Kit) -> None:
    """Refuse what cannot stand beside a typed answer.

    Raises:
        ConfigError: So it is.
    """
    if kit.output is None or kit.output.response_format is None:
        return
    if kit.options.get("response_format") is not None:
        raise ConfigError("output_type and response_format were both given. Leave response_format out.")
    if FINAL_RESULT in kit.tools:
        raise ConfigError(f"A tool cannot be called {FINAL_RESULT!r} beside an output_type. Rename it.")


def _is_one(prompt: object) -> bool:
    return not isinstance(prompt, (list, tuple))


def _with_fields(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(given.get("model_settings") or {})
    if "temperature" in given:
        fields["temperature"] = given["temperature"]
    check_fields("model_settings", fields)
    return {name: value for name, value in {**options, **fields}.items() if value is not None}


@contextmanager
def overriding(makings: Makings, **changes: Any) -> Iterator[None]:
    """Let the runs that begin inside have other settings; seen by this task or thread, and what it begins.

    Raises:
        ConfigError: Something cannot work.
    """
    changes = {name: value for name, value in changes.items() if value is not UNSET}
    if changes.get("llm") is not None:
        check_client(changes["llm"])
    if changes.get("tools") is not None and not isinstance(changes["tools"], ToolRegistry):
        changes["tools"] = ToolRegistry(changes["tools"])  # a list that can be read only once
    all_before = _OVERRIDES.get({})
    before = all_before.get(id(makings), {})
    token = _OVERRIDES.set({**all_before, id(makings): {**before, **changes}})
    try:
        yield
    finally:
        _OVERRIDES.reset(token)
