"""Tools: functions a model may call, and the registry that holds them by name.

A tool never raises through here for an error of its own: whatever happens becomes a `ToolOutcome`,
because the model has to read it.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, overload

from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.permissions import Judge
from pure_agent_loop.prompts import Prompts, ToolWords, current_prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.build import ToolArgumentError, ToolSchema, build_schema, check_signature
from pure_agent_loop.schema.examples import Example, checked_examples
from pure_agent_loop.schema.given import GivenSchema
from pure_agent_loop.schema.tidy import with_texts
from pure_agent_loop.support.text import as_text, safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread

NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DICT_KEYS = {"name", "description", "parameters", "function"}


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of one call.

    Args:
        text: What the model reads.
        is_error: True if the call failed.
        is_interrupt: True if the tool was stopped by Ctrl-C: the run should end.
        spent: What models behind the tool used, for the account of the run and its `Budget`: ``usage`` (the
            plain form of a `TokenUsage`), ``cost``, ``tool_calls``; ``in_budget``: True if that budget has
            counted it already. A tool that says something here, or about `is_error`, returns a `ToolOutcome`.
        is_background: True if the work goes on beside the run, and a message will tell what came of it.
    """

    text: str
    is_error: bool = False
    is_interrupt: bool = False
    spent: dict[str, Any] | None = None
    is_background: bool = False


def failed(prompts: Prompts, tool: str, kind: str, error: str, *, interrupt: bool = False) -> ToolOutcome:
    """The outcome of a call that failed, in the words the model reads.

    Args:
        prompts: The words.
        tool: Name of the tool.
        kind: Name of the error's type.
        error: What happened.
        interrupt: True if it was Ctrl-C.
    """
    text = prompts.tool_error.format(tool=tool, type=kind, error=error, hint=prompts.tool_hint)
    return ToolOutcome(text, is_error=True, is_interrupt=interrupt)


class Tool:
    """A function a model may call. Make one with `tool`; calling it calls the function.

    Args:
        function: Sync (then it runs in a worker thread) or async.
        name: As the model sees it; the function's name if None.
        description: What it does, for the model; from the docstring if None.
        parameters: A JSON Schema for the arguments; from the annotations if None.
        idempotent: Calling it twice does no harm, so it may be repeated automatically.
        timeout: Seconds it may take; None for the run's default, ``float("inf")`` for no limit.
        read_only: It changes nothing, so it may be used in the permission modes ``plan`` and ``ask``
            without a question.
        polls: It asks for something that changes by itself, so equal calls in a row are no loop.
        examples: Worked examples for models that tools are put to as JSON or text: what a user asks and the
            arguments for it, such as ``("What is in the music folder?", {"path": "music"})``.
        judge: Its own opinion about a call: ``(args, context)`` to a `Permission`, or None for none; it may
            be async. Its refusal holds; its question is asked in every mode but ``bypass``; what it allows is
            not asked. It must change nothing.
        words: What the model is told instead in some languages: `ToolWords` by ``"en"`` or ``"zh"``.
        untrusted: Its results are words of others, such as files: the model gets them in a frame that marks
            them as data.

    Raises:
        ConfigError: The name cannot be used, or a parameter has no annotation.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        read_only: bool = False,
        polls: bool = False,
        judge: Judge | None = None,
        examples: Sequence[Example] = (),
        words: Mapping[str, ToolWords] | None = None,
        untrusted: bool = False,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"A tool must be a function, a Tool or a dict; it is {function!r:.80}.")
        self.function = function
        self.name = name if name is not None else _name_of(function)
        if not _is_name(self.name):
            raise ConfigError(
                f"Tool name {self.name!r} cannot be used: servers accept 1 to 64 letters, digits, _ and -. "
                "Give another one with @tool(name='...')."
            )
        if timeout is not None and not _is_positive(timeout):
            raise ConfigError(f"Tool {self.name!r}: timeout={timeout!r} must be a positive number.")
        if parameters is not None and not _is_mapping(parameters):
            raise ConfigError(
                f"Tool {self.name!r}: parameters must be a JSON Schema (a dict); it is {parameters!r:.80}."
            )
        self.idempotent = idempotent
        self.timeout = timeout
        self.read_only = read_only
        self.polls = polls
        self.untrusted = untrusted
        self.judge = judge
        self.examples = checked_examples(self.name, examples)
        self._words = words or {}
        self._description = description
        self._given = None if parameters is None else GivenSchema(dict(parameters))
        self._signature = check_signature(function) if parameters is None else None
        self.is_async = inspect.iscoroutinefunction(_unwrapped(function))

    @cached_property
    def schema(self) -> ToolSchema | GivenSchema:
        """How arguments are described and checked; built when first needed, since that loads pydantic."""
        return self._given or build_schema(self._signature or self.function)

    @property
    def description(self) -> str:
        """What the model is told about it."""
        return self._description if self._description is not None else self.schema.description

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.schema.parameters

    def to_openai_schema(self, prompts: Prompts | None = None) -> dict[str, Any]:
        """The tool as an entry of a request's ``tools``.

        Args:
            prompts: Whose language it is described in; what the tool itself says if None.
        """
        words = None if prompts is None else prompts.tools.get(self.name, self._words.get(prompts.language))
        description = self.description if words is None else words.description
        parameters = (
            self.parameters if words is None else with_texts(self.parameters, words.parameters, self.name)
        )
        return {
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": parameters},
        }

    def examples_for(self, prompts: Prompts) -> Sequence[Example]:
        """Its worked examples, in the language of a run."""
        words = prompts.tools.get(self.name, self._words.get(prompts.language))
        return self.examples if words is None or words.examples is None else words.examples

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
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
        fail = partial(failed, prompts, self.name)
        try:
            kwargs = self.schema.validate(args)
        except ToolArgumentError as error:
            return fail("InvalidArguments", prompts.tool_arguments.format(problem=error))
        except Exception as error:  # noqa: BLE001 - a validator written by the user may raise anything
            return fail(type(error).__name__, safe_str(error))
        try:
            result = await self._call(kwargs)
            return result if isinstance(result, ToolOutcome) else ToolOutcome(as_text(result))
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return fail("CancelledError", say("cancelled_itself"))
        except KeyboardInterrupt:
            return fail("KeyboardInterrupt", say("interrupted"), interrupt=True)
        except ToolExecutionError as error:  # the message around it names the tool
            return fail(type(error).__name__, safe_str(error.message))
        except BaseException as error:  # noqa: BLE001 - not even SystemExit may end the host program
            return fail(type(error).__name__, safe_str(error))

    async def _call(self, kwargs: dict[str, Any]) -> Any:
        if self.is_async:
            return await self.function(**kwargs)
        result = await run_in_thread(partial(self.function, **kwargs))
        if isinstance(result, Raised):
            raise _foreign(result.error)
        return await result if inspect.isawaitable(result) else result


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME_PATTERN.fullmatch(value) is not None


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _foreign(error: BaseException) -> BaseException:
    """An error from a thread, safe to raise here: CancelledError from there is no cancellation of ours."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError(say("raised_cancelled"))
    return error


def _is_being_cancelled() -> bool:
    """True unless it is certain that nobody cancelled the running task (not knowable before 3.11)."""
    if sys.version_info >= (3, 11):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    else:  # noqa: RET505 - so that a type checker skips the branch of the other version
        return True


def _unwrapped(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function) or inspect.isclass(function):
        return function
    return getattr(function, "__call__", function)  # noqa: B004 - the method itself, to see if it is async


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    read_only: bool = False,
    polls: bool = False,
    judge: Judge | None = None,
    examples: Sequence[Example] = (),
    words: Mapping[str, ToolWords] | None = None,
    untrusted: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool; use it bare (``@tool``) or with arguments (``@tool(name="x")``).

    Args:
        function: Sync or async, every parameter annotated. Its docstring tells the model what it does.
        options: ``name``, ``description``, ``idempotent``, ``timeout``, ``read_only``, ``polls``,
            ``judge``, ``examples``, ``words``, ``untrusted``; see `Tool`.

    Raises:
        ConfigError: The name cannot be used, or a parameter has no annotation.
    """
    if isinstance(function, Tool):
        return function
    if function is not None:
        return Tool(function)
    return partial(Tool, **options)


ToolLike = Tool | Callable[..., Any] | Mapping[str, Any]


def as_tool(value: ToolLike) -> Tool:
    """Turn a function, or a dict ``{name, description, parameters, function}``, into a `Tool`.

    Raises:
        ConfigError: It is neither, or a key of the dict is missing or unknown.
    """
    if isinstance(value, Tool):
        return value
    if not isinstance(value, Mapping):
        return Tool(value)
    keys = set(value)
    if not {"name", "function"} <= keys or not keys <= DICT_KEYS:
        raise ConfigError(
            f"A tool given as a dict needs the keys name and function, and may have description and "
            f"parameters; it has {sorted(map(str, keys))}."
        )
    return Tool(
        value["function"],
        name=value["name"],
        description=value.get("description"),
        parameters=value.get("parameters"),
    )


class ToolRegistry:
    """Tools by name.

    Args:
        tools: Functions, Tools or dicts to begin with.

    Raises:
        ConfigError: Two of them have one name, or one cannot be used.
    """

    def __init__(self, tools: Iterable[ToolLike] = ()) -> None:
        self._tools: dict[str, Tool] = {}
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
        if added.name in self._tools:
            raise ConfigError(
                f"Two tools have the name {added.name!r}. Rename one with @tool(name='...'), so that the "
                "model can tell them apart."
            )
        self._tools[added.name] = added
        self._schemas = None
        return added

    def register_many(self, values: Iterable[ToolLike]) -> None:
        """Add several tools; see `register`."""
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
            raise ConfigError(f"tools must be a list of functions, Tools or dicts; it is {values!r:.80}.")
        for value in values:
            self.register(value)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def examples_of(self, name: str, prompts: Prompts) -> Sequence[Example]:
        """The worked examples of the tool of that name; none if it has none, or is not here."""
        found = self.get(name)
        return () if found is None else found.examples_for(prompts)

    def to_openai_schema(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """All tools as a request's ``tools``; see `Tool.to_openai_schema`."""
        if self._schemas is None or self._schemas[0] is not prompts:
            self._schemas = prompts, [each.to_openai_schema(prompts) for each in self._tools.values()]
        return self._schemas[1]

    to_openai_schemas = to_openai_schema

    async def execute(self, name: str, args: dict[str, Any]) -> str:
        """Call a tool by name. Never raises for the tool's own error or an unknown name.

        Returns:
            What the model would read.
        """
        return (await self.invoke(name, args, current_prompts())).text

    async def invoke(self, name: str, args: dict[str, Any], prompts: Prompts) -> ToolOutcome:
        """Call a tool by name; see `Tool.invoke`."""
        found = self.get(name)
        if found is None:
            names = ", ".join(self._tools) or "-"
            return failed(prompts, name, "UnknownTool", prompts.tool_unknown.format(tools=names))
        return await found.invoke(args, prompts)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
