"""Context of a running tool call: a context variable, so that signatures need not carry it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
    Deps_co = TypeVar("Deps_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    Deps, Deps_co = TypeVar("Deps"), TypeVar("Deps_co", covariant=True)

AtEnd = Callable[[], Awaitable[str]]
_CURRENT: ContextVar[ToolContext | None] = ContextVar("pure_agent_loop_call", default=None)
_RUN: ContextVar[RunContext[Any] | None] = ContextVar("pure_agent_loop_run", default=None)
_FORGETS: ContextVar[bool] = ContextVar("pure_agent_loop_forgets", default=False)
_MOVES: ContextVar[bool] = ContextVar("pure_agent_loop_moves", default=False)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of a tool call."""

    tool: str
    """Name of the tool."""
    call_id: str
    """Id of the call in the history."""
    step: int
    """Step of the call."""
    session_id: str = ""
    """Session id; empty if none."""
    agent: str = ""
    """Name of the agent; empty if none."""
    task: str = ""
    """Task of the run."""
    permission_mode: str = "auto"
    """``auto``, ``guard``, ``ask``, ``plan`` or ``bypass``."""
    cancel_token: CancelToken | None = None
    """Cancel token of the run; None if the run has none. A sync function should check it regularly, because
    a thread cannot be stopped from outside."""
    background: Any = None
    """Background work of the run, for the tools that start it; see `kit.Background`."""
    read_only: bool = False
    """True if this call must not change anything; see `Permission`."""
    cwd: str = ""
    """Working folder: that of ``Agent(cwd=)``, else the current directory."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """State of each task delegated to a subagent, by task id."""
    on_piece: Callable[[str], Awaitable[None]] | None = None
    """Callback for each chunk of a streamed result; None if not set."""
    tool_timeout: float | None = None
    """``Agent(tool_timeout=)``: seconds for a tool that sets no timeout; None for no limit."""
    at_end: Callable[[AtEnd], object] | None = None
    """Registers an async function that the run awaits at its end; a text that it returns becomes a notice.
    None if the run ends with this call, or may continue in another process."""


def current_call() -> ToolContext | None:
    """Return the current call, also in the thread of a sync tool; None outside a run."""
    return _CURRENT.get()


def enter_call(context: ToolContext) -> None:
    """Set the current call for the rest of this task."""
    _CURRENT.set(context)


class Remaining(NamedTuple):
    """Remainder of a run's hard limits; None where there is no limit."""

    steps: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None


class LiveRun(Protocol):
    """Run in progress, as seen by `RunContext`."""

    @property
    def session_id(self) -> str: ...  # noqa: D102 - `RunContext` says what each is

    @property
    def step(self) -> int: ...  # noqa: D102 - as `RunContext` says

    @property
    def usage(self) -> TokenUsage: ...  # noqa: D102 - as `RunContext` says

    @property
    def remaining(self) -> Remaining: ...  # noqa: D102 - as `RunContext` says

    @property
    def messages(self) -> list[dict[str, Any]]: ...  # noqa: D102 - as `RunContext` says

    @property
    def cancel_token(self) -> CancelToken | None: ...  # noqa: D102 - as `RunContext` says

    def has_tool(self, name: str) -> bool:
        """Return True if the tool is offered to the model."""

    @property
    def metadata(self) -> Mapping[str, Any]: ...  # noqa: D102 - as `RunContext` says

    def progress(self, text: str, **details: str) -> None: ...  # noqa: D102 - as `RunContext` says

    async def flush_progress(self) -> None: ...  # noqa: D102 - as `RunContext` says

    async def ask(self, question: str) -> str: ...  # noqa: D102 - as `RunContext` says


@dataclass(frozen=True)
class RunContext(Generic[Deps_co]):
    """Run during which a user function is called, and the value passed as ``deps=``.

    A tool, prompt function, hook, permission function, output function or output check gets it if its first
    parameter is annotated with `RunContext`; the model never sees that parameter.

        @tool
        def balance(ctx: RunContext[Bank], account: str) -> float:
            "The balance of an account."
            return ctx.deps.balance_of(account)

    In tests, ``RunContext(deps)`` works without a run.

    Args:
        deps: Value passed to the run.
        run: Current run; None outside a run.
    """

    deps: Deps_co
    run: LiveRun | None = None

    @property
    def session_id(self) -> str:
        """Session id; empty if none."""
        return "" if self.run is None else self.run.session_id

    @property
    def step(self) -> int:
        """Current step, from 1; 0 before the first."""
        return 0 if self.run is None else self.run.step

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the run so far."""
        return TokenUsage.zero() if self.run is None else self.run.usage

    @property
    def remaining(self) -> Remaining:
        """Remainder of the limits."""
        return Remaining() if self.run is None else self.run.remaining

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Valid history so far, without the system message."""
        return [] if self.run is None else self.run.messages

    @property
    def cancel_token(self) -> CancelToken | None:
        """Cancel token of the run; None if the run has none."""
        return None if self.run is None else self.run.cancel_token

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Value passed to the run as ``metadata=``."""
        return {} if self.run is None else self.run.metadata

    def progress(self, text: str, **details: str) -> None:
        """Emit a PROGRESS event, from any thread.

        Args:
            text: Text of the event.
            details: Further fields of the event: ``level`` and ``logger`` of a log message.
        """
        if self.run is not None:
            self.run.progress(text, **details)

    async def ask(self, question: str) -> str:
        """Ask a person, through the agent's ``on_ask``.

        Returns:
            The message of the answer, or ``"yes"`` or ``"no"`` if the answer has no message.

        Raises:
            ToolExecutionError: A person cannot be asked. If the tool does not catch the error, the call fails
                and the model reads the reason.
        """
        if self.run is None:
            raise ConfigError("ctx.ask: this context does not belong to a run.")
        return await self.run.ask(question)


def current_run() -> RunContext[Any]:
    """Return the current run.

    Raises:
        ConfigError: The code is not in a run.
    """
    context = _RUN.get()
    if context is None:
        raise ConfigError("RunContext is only available during a run.")
    return context


def run_forgets() -> None:
    """Declare, for the rest of this asyncio task, that the model's memory outlives the current run."""
    _FORGETS.set(True)


def memory_owner() -> str | LiveRun | None:
    """Return the scope of the model's memory: the session id, else the run; None for the whole process."""
    context = _RUN.get()
    if context is None or context.run is None or _FORGETS.get():
        return None
    return context.run.session_id or context.run


def run_moves() -> None:
    """Declare, for this asyncio task, that a run may end after one call or continue in another process."""
    _MOVES.set(True)


def has_end() -> bool:
    """Return True if the current run's work in this process ends with the run; see `run_moves`."""
    return not _MOVES.get()


async def flush_progress() -> None:
    """Wait until all reported progress has been emitted."""
    context = _RUN.get()
    if context is not None and context.run is not None:
        await context.run.flush_progress()


class in_run:  # noqa: N801 - used with `with`
    """Context manager that sets the current run, for this task and its child tasks."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: RunContext[Any]) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _RUN.set(self._context)

    def __exit__(self, *_: object) -> None:
        # An abandoned run is closed in a different context, in which the token is invalid.
        with suppress(ValueError):
            _RUN.reset(self._token)
