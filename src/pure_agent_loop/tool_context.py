"""What a tool may know about the call it is in: a context variable, so that no signature has to carry it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.typed import dataclass

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
    Deps_co = TypeVar("Deps_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    Deps, Deps_co = TypeVar("Deps"), TypeVar("Deps_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call a tool is in."""

    tool: str
    """The tool's name."""
    call_id: str
    """Its id in the history."""
    step: int
    """The step it belongs to."""
    session_id: str = ""
    """The session; empty for none."""
    agent: str = ""
    """The agent's name; empty for none."""
    task: str = ""
    """What the run was asked."""
    permission_mode: str = "auto"
    """``auto``, ``ask``, ``plan`` or ``bypass``."""
    cancel_token: CancelToken | None = None
    """Says whether the run was cancelled; None if it cannot be. A function that is not async should look
    at it now and then, because a thread cannot be stopped from outside."""
    background: Any = None
    """What goes on beside the run, for the tools that begin it; see `kit.Background`."""
    read_only: bool = False
    """Nobody has allowed this call to change anything; see `Permission`."""
    cwd: str = ""
    """The folder the work is in: that of ``Agent(cwd=)``, else the one the program is in."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The state of each task that the run has given to a subagent, by the task's id."""
    on_piece: Callable[[str], Awaitable[None]] | None = None
    """Told of each piece of a result that comes in pieces; None if nobody is."""


_CURRENT: ContextVar[ToolContext | None] = ContextVar("pure_agent_loop_call", default=None)


def current_call() -> ToolContext | None:
    """The call this code runs in, also in the thread of a tool that is not async; None outside of a run."""
    return _CURRENT.get()


def enter_call(context: ToolContext) -> None:
    """Make a call the current one, for the rest of this task."""
    _CURRENT.set(context)


class Remaining(NamedTuple):
    """What is left of a run's hard limits; None where there is no limit."""

    steps: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None


class LiveRun(Protocol):
    """A run that goes on, as a `RunContext` sees it."""

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

    @property
    def metadata(self) -> Mapping[str, Any]: ...  # noqa: D102 - as `RunContext` says

    def progress(self, text: str, **details: str) -> None: ...  # noqa: D102 - as `RunContext` says

    async def told(self) -> None: ...  # noqa: D102 - as `RunContext` says

    async def ask(self, question: str) -> str: ...  # noqa: D102 - as `RunContext` says


@dataclass(frozen=True)
class RunContext(Generic[Deps_co]):
    """The run that a function of yours is called in, and what you gave it with ``deps=``.

    A tool, a prompt function, a hook, a permission function, an output function or an output check gets it
    if its first parameter is annotated so; the model never sees that parameter.

        @tool
        def balance(ctx: RunContext[Bank], account: str) -> float:
            "The balance of an account."
            return ctx.deps.balance_of(account)

    In a test of your own, ``RunContext(deps)`` is enough: it belongs to no run then.

    Args:
        deps: What was given to the run.
        run: The run; None for none.
    """

    deps: Deps_co
    run: LiveRun | None = None

    @property
    def session_id(self) -> str:
        """The session; empty for none."""
        return "" if self.run is None else self.run.session_id

    @property
    def step(self) -> int:
        """The step the run is in, from 1; 0 before the first."""
        return 0 if self.run is None else self.run.step

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the run so far."""
        return TokenUsage.zero() if self.run is None else self.run.usage

    @property
    def remaining(self) -> Remaining:
        """What is left of the limits."""
        return Remaining() if self.run is None else self.run.remaining

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history so far, valid, without the system message."""
        return [] if self.run is None else self.run.messages

    @property
    def cancel_token(self) -> CancelToken | None:
        """Says whether the run was cancelled; None if it cannot be."""
        return None if self.run is None else self.run.cancel_token

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the run was given as ``metadata=``."""
        return {} if self.run is None else self.run.metadata

    def progress(self, text: str, **details: str) -> None:
        """Tell how far the work is, as a PROGRESS event; from any thread.

        Args:
            details: What else the event holds: of a log, its ``level`` and its ``logger``.
        """
        if self.run is not None:
            self.run.progress(text, **details)

    async def ask(self, question: str) -> str:
        """Ask a person, through the agent's ``on_ask``.

        Returns:
            The message of the answer; without one ``"yes"`` or ``"no"``.

        Raises:
            ToolExecutionError: Nobody can be asked. A tool that lets it pass has failed, and the model is
                told why.
        """
        if self.run is None:
            raise ConfigError("ctx.ask needs a run; this context belongs to none.")
        return await self.run.ask(question)


_RUN: ContextVar[RunContext[Any] | None] = ContextVar("pure_agent_loop_run", default=None)


def current_run() -> RunContext[Any]:
    """The run this code is in.

    Raises:
        ConfigError: There is none.
    """
    context = _RUN.get()
    if context is None:
        raise ConfigError("This function takes a RunContext, which there is only inside of a run.")
    return context


async def all_told() -> None:
    """Wait until what functions of the run said of their progress is told."""
    context = _RUN.get()
    if context is not None and context.run is not None:
        await context.run.told()


class in_run:  # noqa: N801 - it stands behind `with`
    """Make a run the current one, for this task and what it begins."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: RunContext[Any]) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _RUN.set(self._context)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # what was left behind is closed from elsewhere
            _RUN.reset(self._token)
