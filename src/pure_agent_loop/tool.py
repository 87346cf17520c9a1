"""Tools: functions a model may call, toolsets that change from step to step, and the registry of both.

A call does not raise the tool's error: every result or error becomes a `ToolOutcome`, which the model reads.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, overload

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import Judge
from pure_agent_loop.prompts import Prompts, ToolWords, current_prompts
from pure_agent_loop.schema.build import ToolArgumentError
from pure_agent_loop.schema.calling import (
    call_in_worker,
    call_user,
    contextual,
    outcome_of_call,
    unwrapped,
)
from pure_agent_loop.schema.described import Described, Example, check_name
from pure_agent_loop.schema.outcome import ToolOutcome, failed
from pure_agent_loop.schema.signature import wanted_deps
from pure_agent_loop.support.abilities import as_protocol, checked_function
from pure_agent_loop.support.checks import is_whole, require, require_value
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import safe_str

__all__ = ["StepContext", "Tool", "ToolLike", "ToolOutcome", "ToolRegistry", "Toolset", "as_tool", "tool"]

if TYPE_CHECKING:  # these type variables have defaults, so that a bare `Tool` means any tool
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", default=Any, covariant=True)
else:
    from typing import ParamSpec, TypeVar

    P, R_co = ParamSpec("P"), TypeVar("R_co", covariant=True)

DICT_KEYS = {"name", "description", "parameters", "function"}
Check = Callable[[dict[str, Any]], "str | Awaitable[str | None] | None"]
Destructive = bool | Callable[[dict[str, Any]], bool | str]
_FLAGS = ("idempotent", "read_only", "destructive", "polls", "exclusive", "external", "untrusted", "trusted")
_TITLES = ("asks", "running")
_CHANGEABLE = {
    *_FLAGS,
    *_TITLES,
    "prose",
    "recipient",
    "name",
    "description",
    "timeout",
    "retries",
    "judge",
    "check",
    "function",
}


class Tool(Described, Generic[P, R_co]):
    """Function a model may call. Make one with `tool`; calling it calls the function.

    Args:
        function: Async function, or a sync one, which runs in a worker thread. None, with `name` and
            `parameters`, for a tool that its `Toolset` calls or that is `external`.
        name: Name shown to the model; the function's name if None.
        description: Description for the model; from the docstring if None.
        parameters: JSON Schema of the arguments; from the annotations if None.
        idempotent: Repeated calls are harmless, so a failed call may be retried automatically.
        timeout: Seconds a call may take; None for the run's default, ``float("inf")`` for no limit.
        read_only: The tool changes nothing, so the permission modes ``plan`` and ``ask`` allow it without a
            question.
        destructive: The effect cannot be undone, so a person is asked in every mode but ``bypass`` unless a
            rule allows the call; or a function of the arguments that decides this, and may return the reason
            as text.
        polls: The tool polls a changing value, so repeated identical calls do not count as a loop.
        exclusive: No other call of the step runs at the same time.
        retries: Number of consecutive `Retry` errors before further calls are rejected.
        external: A browser or another service supplies the result: a run with such a call ends with
            ``waiting_tool`` and resumes when it has the result. The function is only described, not called.
        check: Function of the arguments that returns why a call would fail, such as "The file is missing.",
            or None. It may be async; the text of an error that it raises is also a reason. No person is asked
            about such a call. The check is repeated when the call is made. It must not have side effects.
        examples: Worked examples for the JSON and text tool modes: a user's request and its arguments, such
            as ``("What is in the music folder?", {"path": "music"})``.
        judge: Function that rules on a call: ``(args, context)`` returns a `Permission`, or None to leave the
            decision to the rules; it may be async. Its denial is final, its question is asked in every mode
            but ``bypass``, and a call it allows runs without asking. It must not have side effects.
        words: Descriptions per language: `ToolWords` by ``"en"`` or ``"zh"``.
        untrusted: Results contain third-party text, such as files: the model gets them in a frame that marks
            them as data.
        trusted: Results contain only what the owner wrote or knows, such as an address book: the permission
            mode ``guard`` treats them as the user's words.
        prose: Names of arguments that hold free text, besides those of `pure_agent_loop.guard.PROSE`.
        recipient: Names of arguments for which the mode ``guard`` accepts only the user's words, no
            identifiers from results.
        root: Base folder of the argument ``path``. Permission rules then match the resolved path, however the
            path is written.
        asks: Question for a person about a call, as a template over the arguments: ``"Refund {amount} for
            {order}?"``. If it is empty, or names an argument that is missing and has no default, each view
            builds a question from the tool's name and the arguments.
        running: Text to show while a call runs, as a template like `asks`: ``"Refunding {order}…"``.

    Raises:
        ConfigError: The name is invalid, a parameter has no annotation, a number is out of range, or a
            template names something that is not an argument.
    """

    def __init__(
        self,
        function: Callable[P, R_co] | None,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        read_only: bool = False,
        destructive: Destructive = False,
        polls: bool = False,
        exclusive: bool = False,
        retries: int = 2,
        external: bool = False,
        judge: Judge | None = None,
        check: Check | None = None,
        examples: Sequence[Example] = (),
        words: Mapping[str, ToolWords] | None = None,
        untrusted: bool = False,
        trusted: bool = False,
        prose: Sequence[str] = (),
        recipient: Sequence[str] = (),
        root: str = "",
        asks: str = "",
        running: str = "",
    ) -> None:
        super().__init__(function, name, description, parameters, examples, words)
        self._function = function
        self._caller: Callable[..., Awaitable[Any]] | None = None
        self.timeout = timeout
        self.retries = retries
        self.idempotent = idempotent
        self.read_only = read_only
        self.destructive = destructive
        self.polls = polls
        self.exclusive = exclusive
        self.external = external
        self.untrusted = untrusted
        self.trusted = trusted
        self.prose: Sequence[str] = list(prose) if isinstance(prose, tuple) else prose
        self.recipient: Sequence[str] = list(recipient) if isinstance(recipient, tuple) else recipient
        self.root = root
        self.asks = asks
        self.running = running
        self.judge = judge
        self.check = check
        self._check_options()

    def _check_options(self) -> None:
        check_name(self.name)
        timeout: object = self.timeout
        retries, owner = self.retries, f"Tool {self.name!r}: "
        is_time = timeout is None or (isinstance(timeout, (int, float)) and timeout > 0)
        require_value(is_time, f"{owner}timeout", timeout, "a positive number")
        require_value(is_whole(retries), f"{owner}retries", retries, "a whole number, 0 or more")
        checked_function(f"Tool {self.name!r}: judge", self.judge, "args", "context")
        checked_function(f"Tool {self.name!r}: check", self.check, "args")
        for option, names in (("prose", self.prose), ("recipient", self.recipient)):
            is_list = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
            require(is_list, owner + option, names, "a list of names of arguments")
        require(
            not (self.trusted and self.untrusted), f"{owner}trusted", True, "left out for an untrusted tool"
        )
        if not isinstance(self.destructive, bool):
            checked_function(f"Tool {self.name!r}: destructive", self.destructive, "args")
        for name in _TITLES:
            if (template := getattr(self, name)) != "":
                from pure_agent_loop.schema.titles import check_title

                check_title(f"Tool {self.name!r}: {name}", template, self.argument_names)

    @property
    def function(self) -> Callable[P, R_co]:
        """The function; for a tool without one, a function that raises `LookupError`."""
        return self._function or cast("Callable[P, R_co]", partial(_nowhere, self.name))

    @property
    def is_bound(self) -> bool:
        """True if the tool has a function, so it can be called without its toolset."""
        return self._function is not None

    @property
    def is_async(self) -> bool:
        """True if the function is async; a sync function runs in a thread."""
        return self._function is None or inspect.iscoroutinefunction(unwrapped(self._function))

    @cached_property
    def wanted_deps(self) -> str:
        """Type of the deps that the function requires in its `RunContext`; empty if none."""
        return "" if self._function is None else wanted_deps(self._function)

    def changed(self, **changes: Any) -> Tool[P, R_co]:
        """Return a copy with some options of `Tool` changed, such as ``name``, ``function`` or ``judge``.

        Raises:
            ConfigError: An option does not exist or cannot be changed.
        """
        if unknown := changes.keys() - _CHANGEABLE:
            raise ConfigError(f"Tool.changed() cannot change {', '.join(sorted(unknown))}.")
        _ = self.schema  # build the schema once, so that all copies share it
        copied = copy.copy(self)
        if "description" in changes:
            changes["_description"], copied._words = changes.pop("description"), {}
        if "function" in changes:
            changes["_function"], copied._caller = changes.pop("function"), None
            vars(copied).pop("wanted_deps", None)
        vars(copied).update(changes)
        copied._check_options()
        return copied

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the underlying function directly."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    async def execute(self, args: dict[str, Any]) -> str:
        """Call the tool with checked arguments.

        Returns:
            The text for the model: the result, or an error message.
        """
        return (await self.invoke(args, current_prompts())).text

    async def invoke(self, args: dict[str, Any], prompts: Prompts) -> ToolOutcome:
        """Check the arguments and call the tool. Raise only if the call is really cancelled."""
        kwargs = self._checked(args, prompts)
        if isinstance(kwargs, tuple):
            return failed(prompts, self.name, *kwargs, is_made=False)
        if self.check is not None and (objection := await self.objection(args)) is not None:
            return failed(prompts, self.name, *objection, is_made=False)
        if self._caller is None:  # cached: reading the signature costs more than the call
            function = contextual(self.function)
            self._caller = function if self.is_async else partial(call_in_worker, function)
        return await outcome_of_call(partial(self._caller, **kwargs), self.name, prompts)

    def call_title(self, template: str, args: Mapping[str, Any]) -> str:
        """Return a call's title from a template such as `asks`, safe to show; empty if there is none."""
        if not template:
            return ""
        from pure_agent_loop.schema.titles import title_of

        return title_of(template, args, self.parameters.get("properties", {}))

    def refusal(self, args: dict[str, Any], prompts: Prompts) -> tuple[str, str] | None:
        """Return the kind and text of `invoke`'s error for these arguments; None if they are valid."""
        checked = self._checked(args, prompts)
        return checked if isinstance(checked, tuple) else None

    async def objection(
        self, args: dict[str, Any], earlier: Sequence[tuple[Tool, dict[str, Any]]] = ()
    ) -> tuple[str, str] | None:
        """Return the error kind and message for a call that would fail; None if no problem is found.

        Args:
            args: Arguments without a `refusal`.
            earlier: Preceding calls of the same response, which may change what is checked.
        """
        if self.check is None:
            return None
        try:
            reason = await call_user(self.check, copy.deepcopy(args))
            is_text = reason is None or isinstance(reason, str)
            require(is_text, f"Tool {self.name!r}: result of check", reason, "a text or None")
        except Exception as error:  # noqa: BLE001 - a check of the user may raise anything
            log_failure(f"The check of the tool {self.name!r}", error)
            return type(error).__name__, safe_str(getattr(error, "message", error))
        return ("CheckFailed", reason) if reason and not earlier else None

    def _checked(self, args: dict[str, Any], prompts: Prompts) -> dict[str, Any] | tuple[str, str]:
        try:
            return self.schema.validate(args)
        except ToolArgumentError as error:
            return "InvalidArguments", prompts.tool_arguments.format(problem=error)
        except Exception as error:  # noqa: BLE001 - a validator written by the user may raise anything
            log_failure(f"A validator of the tool {self.name!r}", error)
            return type(error).__name__, safe_str(error)


async def _nowhere(name: str, **_: Any) -> Any:
    raise LookupError(model_text("made_elsewhere", tool=name))


@overload
def tool(function: Callable[P, R_co], /) -> Tool[P, R_co]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    read_only: bool = False,
    destructive: Destructive = False,
    polls: bool = False,
    exclusive: bool = False,
    retries: int = 2,
    external: bool = False,
    judge: Judge | None = None,
    check: Check | None = None,
    examples: Sequence[Example] = (),
    words: Mapping[str, ToolWords] | None = None,
    untrusted: bool = False,
    trusted: bool = False,
    prose: Sequence[str] = (),
    recipient: Sequence[str] = (),
    root: str = "",
    asks: str = "",
    running: str = "",
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool; use it as ``@tool`` or with arguments (``@tool(name="x")``).

    Args:
        function: Sync or async, every parameter annotated. Its docstring describes the tool to the model.
        options: Keyword arguments of `Tool`, except ``parameters``.

    Raises:
        ConfigError: The name is invalid, a parameter has no annotation, or a number is out of range.
    """
    if isinstance(function, Tool) and not options:
        return function
    return partial(Tool, **options) if function is None else Tool(function, **options)


class Toolset(Protocol):
    """Group of tools that may change from step to step, such as those of an MCP server.

    A run enters the toolset when its tools are first needed and exits it when the run ends, for any reason.
    Concurrent runs on one event loop enter it once and share it. `pure_agent_loop.toolsets` has
    implementations.
    """

    async def __aenter__(self) -> Any:
        """Acquire the resources that `list` and `call` need."""
        ...

    async def __aexit__(self, *error: object) -> Any:
        """Release the resources."""
        ...

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the tools of the next step. Those without a function are called through `call`."""
        ...

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool with arguments that match its schema."""
        ...


def _log(text: str) -> None:
    """Log a notice: outside a run there is no event listener."""
    logging.getLogger("pure_agent_loop").warning("%s", text)


async def _is_entered(_: Toolset) -> None:
    """Do nothing: outside a run the caller of `list` has already entered the toolset."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """Details of the step for which a toolset lists its tools.

    Args:
        step: Step number, from 1.
        task: Task of the run.
        session_id: Session id; empty if none.
        messages: History so far.
        found: Tools found by searches in this run, newest last.
        enter: Enters another toolset for this run; a wrapper awaits it before listing the wrapped toolset.
        tell: Emits a NOTICE about the list, such as why a tool is left out.
    """

    step: int = 1
    task: str = ""
    session_id: str = ""
    messages: Sequence[Mapping[str, Any]] = ()
    found: Sequence[str] = ()
    enter: Callable[[Toolset], Awaitable[None]] = field(default=_is_entered, repr=False)
    tell: Callable[[str], None] = field(default=_log, repr=False)


class _Agent(Protocol):
    def as_tool(self) -> Tool: ...


ToolLike = Tool | Callable[..., Any] | Mapping[str, Any] | _Agent


def as_toolset(value: object) -> Toolset | None:
    """Return the object if it is a toolset, else None."""
    if isinstance(value, (Tool, Mapping, type)) or not hasattr(type(value), "__aenter__"):
        return None
    return as_protocol(value, Toolset)


def is_server_tool(value: object) -> bool:
    """Return True for a dict that declares a server tool in the protocol of a model server."""
    if not isinstance(value, Mapping) or callable(value.get("function")):
        return False
    if isinstance(kind := value.get("type"), str):
        return kind != "function"
    # Gemini's server tools lack `type`.
    return len(value) == 1 and isinstance(next(iter(value.values())), Mapping)


def as_tool(value: ToolLike) -> Tool:
    """Turn a function, or a dict ``{name, description, parameters, function}``, into a `Tool`.

    Raises:
        ConfigError: The value is neither, or a key of the dict is missing or unknown.
    """
    if isinstance(value, Tool):
        return value
    if callable(maker := getattr(value, "as_tool", None)):  # an agent
        return as_tool(maker())
    if not isinstance(value, Mapping):
        return Tool(cast("Callable[..., Any]", value))
    keys, external = set(value), value.get("external") is True
    expected = {"name", "parameters" if external else "function"}
    if not expected <= keys or not keys <= DICT_KEYS | {"external"}:
        raise ConfigError(
            f"A tool dict needs the keys name and function (optional: description, "
            f"parameters), or name, parameters and external=True. It has {sorted(map(str, keys))}."
        )
    details: dict[str, Any] = {key: value.get(key) for key in ("name", "description", "parameters")}
    return Tool(value.get("function"), external=external, **details)


class ToolRegistry:
    """Registry of tools by name, of toolsets, and of tools that the model's server runs.

    Args:
        tools: Initial functions, Tools, dicts or toolsets.

    Raises:
        ConfigError: Two tools have the same name, or one is invalid.
    """

    changes = False  # True if the list of tools may differ from step to step

    def __init__(self, tools: Iterable[ToolLike | Toolset] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.toolsets: list[Toolset] = []
        self.server_tools: list[Mapping[str, Any]] = []
        self.listed: dict[str, Tool] = {}  # tools that toolsets listed in earlier runs, for `examples_of`
        self._schemas: tuple[Prompts | None, list[dict[str, Any]]] | None = None
        self.register_many(tools)

    def register(self, value: ToolLike) -> Tool:
        """Add a tool.

        Returns:
            The tool.

        Raises:
            ConfigError: The name is taken, or the tool is invalid.
        """
        added = as_tool(value)
        if not added.is_bound and not added.external:
            raise ConfigError(f"Tool {added.name!r} has no function. Pass function=... or external=True.")
        if added.name in self._tools:
            raise ConfigError(
                f"Two tools have the name {added.name!r}. Rename one with @tool(name='...'), so that the "
                "model can tell them apart."
            )
        self._tools[added.name] = added
        self._schemas = None
        return added

    def register_many(self, values: Iterable[ToolLike | Toolset]) -> None:
        """Add several tools and toolsets, or those of another registry; see `register`."""
        require(
            hasattr(values, "__iter__") and not isinstance(values, (str, bytes, Mapping)),
            "tools",
            values,
            "a list of functions, Tools or dicts",
        )
        for value in values.entries() if isinstance(values, ToolRegistry) else values:
            toolset = as_toolset(value)
            if toolset is not None:
                self.toolsets.append(toolset)
            elif is_server_tool(value):
                self.server_tools.append(dict(cast("Mapping[str, Any]", value)))
            else:
                self.register(cast("ToolLike", value))

    def entries(self) -> list[Any]:
        """Return all tools, toolsets and server tools, in the form that `register_many` accepts."""
        return [*self, *self.toolsets, *self.server_tools]

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, or None."""
        return self._tools.get(name)

    def examples_of(self, name: str, prompts: Prompts) -> Sequence[Example]:
        """Return the worked examples of a tool; empty if it has none or is not registered."""
        tool = self.get(name) or self.listed.get(name)
        return () if tool is None else tool.examples_for(prompts)

    def to_openai_schema(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """Return all tools in the form of a request's ``tools``; see `Tool.to_openai_schema`."""
        if self._schemas is None or self._schemas[0] is not prompts:
            self._schemas = prompts, [self._entry(tool, prompts) for tool in self._tools.values()]
        return self._schemas[1]

    def _entry(self, tool: Tool, prompts: Prompts | None) -> dict[str, Any]:
        return tool.to_openai_schema(prompts)

    to_openai_schemas = get_definitions = to_openai_schema

    async def execute(self, name: str, args: dict[str, Any]) -> str:
        """Call a tool and return the text for the model. A failed or unknown tool does not raise."""
        return (await self.invoke(name, args, current_prompts())).text

    async def invoke(self, name: str, args: dict[str, Any], prompts: Prompts) -> ToolOutcome:
        """Call a tool by name; see `Tool.invoke`."""
        tool = self.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "-"
            words = prompts.tool_unknown.format(tools=names)
            return failed(prompts, name, "UnknownTool", words, is_made=False)
        return await tool.invoke(args, prompts)

    def __repr__(self) -> str:
        return f"ToolRegistry({list(self._tools)})"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
