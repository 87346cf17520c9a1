"""Tools: functions a model may call, sets of them that change from step to step, and the registry of both.

A tool never raises through here for an error of its own: whatever happens becomes a `ToolOutcome`,
because the model has to read it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, overload

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import Judge
from pure_agent_loop.prompts import Prompts, ToolWords, current_prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.build import ToolArgumentError
from pure_agent_loop.schema.calling import call_in_worker, made, unwrapped
from pure_agent_loop.schema.context import contextual
from pure_agent_loop.schema.described import Described, check_name
from pure_agent_loop.schema.examples import Example
from pure_agent_loop.schema.outcome import ToolOutcome, failed
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.typed import dataclass

__all__ = ["StepContext", "Tool", "ToolLike", "ToolOutcome", "ToolRegistry", "Toolset", "as_tool", "tool"]

if TYPE_CHECKING:  # with defaults, so that `Tool` alone is any tool
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", default=Any, covariant=True)
else:
    from typing import ParamSpec, TypeVar

    P, R_co = ParamSpec("P"), TypeVar("R_co", covariant=True)

DICT_KEYS = {"name", "description", "parameters", "function"}
Destructive = bool | Callable[[dict[str, Any]], bool]
_FLAGS = ("idempotent", "read_only", "destructive", "polls", "exclusive", "external", "untrusted")
_CHANGEABLE = {*_FLAGS, "name", "description", "timeout", "retries", "judge", "function"}


class Tool(Described, Generic[P, R_co]):
    """A function a model may call. Make one with `tool`; calling it calls the function.

    Args:
        function: Sync (then it runs in a worker thread) or async. None, with `name` and `parameters`, for a
            tool that its `Toolset` calls, or one that is `external`.
        name: As the model sees it; the function's name if None.
        description: What it does, for the model; from the docstring if None.
        parameters: A JSON Schema for the arguments; from the annotations if None.
        idempotent: Calling it twice does no harm, so it may be repeated automatically.
        timeout: Seconds it may take; None for the run's default, ``float("inf")`` for no limit.
        read_only: It changes nothing, so it may be used in the permission modes ``plan`` and ``ask``
            without a question.
        destructive: What it does cannot be taken back, so a person is asked in every mode but ``bypass``
            unless a rule allows the call; or a function of the arguments that says so.
        polls: It asks for something that changes by itself, so equal calls in a row are no loop.
        exclusive: No other call of its round runs beside it.
        retries: How often in a row it may send the model back with `Retry` before its calls are refused.
        external: Its result is made elsewhere, by a browser or another service: a run with such a call ends
            with ``waiting_tool``, and goes on when the result was given. The function is only described.
        examples: Worked examples for models that tools are put to as JSON or text: what a user asks and the
            arguments for it, such as ``("What is in the music folder?", {"path": "music"})``.
        judge: Its own opinion about a call: ``(args, context)`` to a `Permission`, or None for none; it may
            be async. Its refusal holds; its question is asked in every mode but ``bypass``; what it allows is
            not asked. It must change nothing.
        words: What the model is told instead in some languages: `ToolWords` by ``"en"`` or ``"zh"``.
        untrusted: Its results are words of others, such as files: the model gets them in a frame that marks
            them as data.
        root: The folder that its argument ``path`` is a path in. Permission rules then look at what the path
            leads to, however it is written.

    Raises:
        ConfigError: The name cannot be used, a parameter has no annotation, or a number is out of range.
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
        examples: Sequence[Example] = (),
        words: Mapping[str, ToolWords] | None = None,
        untrusted: bool = False,
        root: str = "",
    ) -> None:
        super().__init__(function, name, description, parameters, examples, words)
        self._function = function
        self._caller: Callable[..., Awaitable[Any]] | None = None
        self.timeout = timeout
        self.retries = retries
        self._check()
        self.idempotent = idempotent
        self.read_only = read_only
        self.destructive = destructive
        self.polls = polls
        self.exclusive = exclusive
        self.external = external
        self.untrusted = untrusted
        self.root = root
        self.judge = judge

    def _check(self) -> None:
        check_name(self.name)
        timeout: object = self.timeout
        retries: object = self.retries
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
            raise ConfigError(f"Tool {self.name!r}: timeout={timeout!r} must be a positive number.")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigError(f"Tool {self.name!r}: retries={retries!r} must be a whole number, 0 or more.")

    @property
    def function(self) -> Callable[P, R_co]:
        """The function itself; of a tool without one a function that says so."""
        return self._function or cast("Callable[P, R_co]", partial(_nowhere, self.name))

    @property
    def is_bound(self) -> bool:
        """True if it can be called by itself: it has a function."""
        return self._function is not None

    @property
    def is_async(self) -> bool:
        """True if its function is async; else it runs in a thread."""
        return self._function is None or inspect.iscoroutinefunction(unwrapped(self._function))

    def changed(self, **changes: Any) -> Tool[P, R_co]:
        """A copy with another ``name``, ``description``, ``function``, ``judge`` or other option of `Tool`.

        Raises:
            ConfigError: There is no such option, or it cannot be changed.
        """
        if unknown := changes.keys() - _CHANGEABLE:
            raise ConfigError(f"Of a tool {', '.join(sorted(unknown))} cannot be changed.")
        _ = self.schema  # built once, for all copies
        made = copy.copy(self)
        if "description" in changes:
            changes["_description"], made._words = changes.pop("description"), {}
        if "function" in changes:
            changes["_function"], made._caller = changes.pop("function"), None
        vars(made).update(changes)
        made._check()
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    async def execute(self, args: dict[str, Any]) -> str:
        """Call the tool with checked arguments.

        Returns:
            What the model would read: the result as text, or a message about what went wrong.
        """
        return (await self.invoke(args, current_prompts())).text

    async def invoke(self, args: dict[str, Any], prompts: Prompts) -> ToolOutcome:
        """Check the arguments and call the tool. Raises nothing but a real cancellation."""
        kwargs = self._checked(args, prompts)
        if isinstance(kwargs, tuple):
            return failed(prompts, self.name, *kwargs)
        if self._caller is None:  # to look at its signature costs more than the call
            function = contextual(self.function)
            self._caller = function if self.is_async else partial(call_in_worker, function)
        return await made(partial(self._caller, **kwargs), self.name, prompts)

    def refusal(self, args: dict[str, Any], prompts: Prompts) -> tuple[str, str] | None:
        """The kind and the text of what `invoke` would say of arguments that do not fit; None if they do."""
        found = self._checked(args, prompts)
        return found if isinstance(found, tuple) else None

    def _checked(self, args: dict[str, Any], prompts: Prompts) -> dict[str, Any] | tuple[str, str]:
        try:
            return self.schema.validate(args)
        except ToolArgumentError as error:
            return "InvalidArguments", prompts.tool_arguments.format(problem=error)
        except Exception as error:  # noqa: BLE001 - a validator written by the user may raise anything
            return type(error).__name__, safe_str(error)


async def _nowhere(name: str, **_: Any) -> Any:
    raise LookupError(say("made_elsewhere", tool=name))


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
    examples: Sequence[Example] = (),
    words: Mapping[str, ToolWords] | None = None,
    untrusted: bool = False,
    root: str = "",
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool; use it bare (``@tool``) or with arguments (``@tool(name="x")``).

    Args:
        function: Sync or async, every parameter annotated. Its docstring tells the model what it does.
        options: Those of `Tool` by name, without ``parameters``.

    Raises:
        ConfigError: The name cannot be used, a parameter has no annotation, or a number is out of range.
    """
    if isinstance(function, Tool):
        return function
    return partial(Tool, **options) if function is None else Tool(function)


class Toolset(Protocol):
    """Tools that belong together and may change from step to step, such as those of another server.

    A run enters it when its tools are needed first and leaves it at its end, however it ends; runs of one
    event loop that need it at the same time share one entering. `pure_agent_loop.toolsets` has some.
    """

    async def __aenter__(self) -> Any:
        """Make ready what `list` and `call` need."""
        ...

    async def __aexit__(self, *error: object) -> Any:
        """Give it back."""
        ...

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """The tools of the next step. Those without a function are called through `call`."""
        ...

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call one of the tools, with arguments that fit its schema."""
        ...


async def _is_entered(_: Toolset) -> None:
    """Outside of a run whoever lists a toolset has entered it."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a toolset may know about the step for which it lists its tools.

    Args:
        step: Its number, from 1.
        task: What the run was asked.
        session_id: The session; empty for none.
        messages: The history so far.
        found: Tools that a search has found in this run, the newest last.
        enter: Enters another toolset, for this run; what wraps one awaits it before it lists that.
    """

    step: int = 1
    task: str = ""
    session_id: str = ""
    messages: Sequence[Mapping[str, Any]] = ()
    found: Sequence[str] = ()
    enter: Callable[[Toolset], Awaitable[None]] = field(default=_is_entered, repr=False)


class _Agent(Protocol):
    def as_tool(self) -> Tool: ...


ToolLike = Tool | Callable[..., Any] | Mapping[str, Any] | _Agent


def as_toolset(value: object) -> Toolset | None:
    """The same object if it is a toolset, else None."""
    if isinstance(value, (Tool, Mapping, type)) or not hasattr(type(value), "__aenter__"):
        return None
    return able(value, Toolset)


def as_tool(value: ToolLike) -> Tool:
    """Turn a function, or a dict ``{name, description, parameters, function}``, into a `Tool`.

    Raises:
        ConfigError: It is neither, or a key of the dict is missing or unknown.
    """
    if isinstance(value, Tool):
        return value
    if callable(maker := getattr(value, "as_tool", None)):  # an agent
        return as_tool(maker())
    if not isinstance(value, Mapping):
        return Tool(cast("Callable[..., Any]", value))
    keys, external = set(value), value.get("external") is True
    wanted = {"name", "parameters" if external else "function"}
    if not wanted <= keys or not keys <= DICT_KEYS | {"external"}:
        raise ConfigError(
            f"A tool given as a dict needs the keys name and function, and may have description and "
            f"parameters; or name, parameters and external=True. It has {sorted(map(str, keys))}."
        )
    told: dict[str, Any] = {key: value.get(key) for key in ("name", "description", "parameters")}
    return Tool(value.get("function"), external=external, **told)


class ToolRegistry:
    """Tools by name, and toolsets.

    Args:
        tools: Functions, Tools, dicts or toolsets to begin with.

    Raises:
        ConfigError: Two of them have one name, or one cannot be used.
    """

    changes = False  # True of one that may have other tools in each step

    def __init__(self, tools: Iterable[ToolLike | Toolset] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.toolsets: list[Toolset] = []
        self.listed: dict[str, Tool] = {}  # by toolsets in runs so far, for their examples
        self._schemas: tuple[Prompts | None, list[dict[str, Any]]] | None = None
        self.register_many(tools)

    def register(self, value: ToolLike) -> Tool:
        """Add a tool.

        Returns:
            The tool.

        Raises:
            ConfigError: The name is taken, or the tool cannot be used.
        """
        added = as_tool(value)
        if not added.is_bound and not added.external:
            raise ConfigError(f"Tool {added.name!r} has no function. Give it one, or external=True.")
        if added.name in self._tools:
            raise ConfigError(
                f"Two tools have the name {added.name!r}. Rename one with @tool(name='...'), so that the "
                "model can tell them apart."
            )
        self._tools[added.name] = added
        self._schemas = None
        return added

    def register_many(self, values: Iterable[ToolLike | Toolset]) -> None:
        """Add several tools and toolsets, or all of another registry; see `register`."""
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
            raise ConfigError(f"tools must be a list of functions, Tools or dicts; it is {values!r:.80}.")
        if isinstance(values, ToolRegistry):
            self.toolsets += values.toolsets
        for value in values:
            toolset = as_toolset(value)
            if toolset is None:
                self.register(cast("ToolLike", value))
            else:
                self.toolsets.append(toolset)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def examples_of(self, name: str, prompts: Prompts) -> Sequence[Example]:
        """The worked examples of the tool of that name; none if it has none, or is not here."""
        found = self.get(name) or self.listed.get(name)
        return () if found is None else found.examples_for(prompts)

    def to_openai_schema(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """All tools as a request's ``tools``; see `Tool.to_openai_schema`."""
        if self._schemas is None or self._schemas[0] is not prompts:
            self._schemas = prompts, [each.to_openai_schema(prompts) for each in self._tools.values()]
        return self._schemas[1]

    to_openai_schemas = to_openai_schema

    async def execute(self, name: str, args: dict[str, Any]) -> str:
        """What a model would read of a call. Never raises for the tool's own error or an unknown name."""
        return (await self.invoke(name, args, current_prompts())).text

    async def invoke(self, name: str, args: dict[str, Any], prompts: Prompts) -> ToolOutcome:
        """Call a tool by name; see `Tool.invoke`."""
        found = self.get(name)
        if found is None:
            names = ", ".join(self._tools) or "-"
            return failed(prompts, name, "UnknownTool", prompts.tool_unknown.format(tools=names))
        return await found.invoke(args, prompts)

    def __repr__(self) -> str:
        return f"ToolRegistry({list(self._tools)})"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
