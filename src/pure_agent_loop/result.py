"""What a run gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, cast

from pure_agent_loop.errors import LLMError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.output.wanted import Output
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.prompts import ENGLISH, Prompts
from pure_agent_loop.stop_reasons import COMPLETED, STOP_REASONS, StopReason
from pure_agent_loop.support.text import as_text, counted, safe_str, shorten
from pure_agent_loop.support.typed import dataclass

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    Out = TypeVar("Out", default=str)
    Out_co = TypeVar("Out_co", default=str, covariant=True)
else:
    from typing import TypeVar

    Out, Out_co = TypeVar("Out"), TypeVar("Out_co", covariant=True)


@dataclass(frozen=True)
class AgentResult(Generic[Out_co]):
    """The outcome of a run.

    Args:
        content: The final answer; with a visible note where a limit ended the run.
        steps: Steps taken.
        total_tokens: Token usage of all requests together.
        events: Everything that happened, in order.
        stop_reason: Why it ended; ``completed`` when the model gave its answer.
        messages: The whole history, valid, without the system message; hand it to ``messages=`` to go on.
        state: The state behind it all.
        previous: What the agent gave that handed over to this one, with ``handed_off``; None if none did.
        output: The answer as the ``output_type`` of the agent; its text without one. None unless the
            `stop_reason` is ``completed``: half an answer is none.
    """

    content: str
    steps: int
    total_tokens: TokenUsage
    events: list[AnyEvent] = field(repr=False)
    stop_reason: StopReason
    messages: list[dict[str, Any]] = field(repr=False)
    state: QueryState = field(default_factory=QueryState, repr=False, compare=False)
    previous: AgentResult[Any] | None = field(default=None, repr=False, compare=False)
    output: Out_co | None = None

    @classmethod
    def from_state(
        cls,
        state: QueryState,
        events: list[AnyEvent],
        prompts: Prompts = ENGLISH,
        output: Output | None = None,
    ) -> Self:
        """Sum up a state that has stopped.

        Args:
            state: Where it stands.
            events: What happened.
            prompts: The words of the run.
            output: What its answer had to be.
        """
        return cls(
            content=state.content,
            steps=state.turn_count,
            total_tokens=state.usage,
            events=events,
            stop_reason=cast("StopReason", str(state.stop_reason)),
            messages=state.history(prompts.tool_waiting),
            state=state,
            output=_output_of(state, output),
        )

    @property
    def agent(self) -> str:
        """The name of the agent that the run was handed over to; empty for the one that was asked."""
        return self.state.handed_to[-1] if self.state.handed_to else ""

    @property
    def usage(self) -> TokenUsage:
        """The same as `total_tokens`."""
        return self.total_tokens

    @property
    def cost(self) -> float:
        """Money spent, as far as there were prices."""
        return self.state.ledger.cost

    @property
    def questions(self) -> list[PermissionRequest]:
        """What a person has to answer before the run goes on; `stop_reason` is ``waiting_permission``.

        Answer with ``result.state.answer_permission(call_id, "allow")``, then go on with
        ``agent.run(None, state=result.state)``.
        """
        return self.state.questions

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls whose results are made elsewhere; `stop_reason` is ``waiting_tool``.

        Bring each with ``result.state.give_result(call.id, ...)``, then go on with
        ``agent.run(None, state=result.state)``.
        """
        return self.state.open_calls

    @property
    def error(self) -> str:
        """What went wrong when `stop_reason` is ``error`` or ``invalid_output``, else empty."""
        failure = self.state.failure
        if failure is None or isinstance(failure, PureAgentLoopError):
            return "" if failure is None else safe_str(failure) or type(failure).__name__
        return f"{type(failure).__name__}: {safe_str(failure)}"

    def raise_for_error(self) -> Self:
        """Return the result itself, or raise what ended the run with ``error`` or ``invalid_output``.

        Raises:
            PureAgentLoopError: Usually an `LLMError`, with the original error chained.
        """
        failure = self.state.failure
        if self.stop_reason not in ("error", "invalid_output") or failure is None:
            return self
        if isinstance(failure, PureAgentLoopError):
            raise failure
        raise LLMError(f"The run failed: {self.error}", failure) from failure

    def unwrap(self) -> Out_co:
        """Return the output itself, for code that has no use for a run without one.

        Raises:
            PureAgentLoopError: There is none, and why; with ``error`` what `raise_for_error` raises.
        """
        self.raise_for_error()
        if self.stop_reason != COMPLETED or (self.output is None and self.state.output is None):
            why = STOP_REASONS[self.stop_reason].meaning
            raise PureAgentLoopError(f"The run ended with {self.stop_reason!r} and has no output. {why}")
        return cast("Out_co", self.output)

    def __str__(self) -> str:
        return self.content

    def _repr_html_(self) -> str:
        """The answer and how it came about, for notebooks."""
        counts = f"{counted(self.steps, 'step')}, {counted(self.usage.total_tokens, 'token')}"
        return as_html(self.content, f"{self.stop_reason}, {counts}", self.events)


def _output_of(state: QueryState, output: Output | None) -> Any:
    if state.stop_reason != COMPLETED:
        return None
    if output is None:
        return state.content
    if state.output is None:  # it had stopped before anybody asked for an output
        return None
    return output.load(state.output["value"]) if state.live_output is None else state.live_output


def as_html(content: str, about: str, events: Sequence[AnyEvent]) -> str:
    """What a notebook shows of a run: escaped and bounded, without a script.

    Args:
        content: The answer.
        about: How it stands.
        events: What has happened.
    """
    import html  # with a table of all names

    shown = [event for event in events if event.type in _SHOWN][-MOST_LINES:]
    items = "".join(f"<li><pre>{html.escape(_line(event))}</pre></li>" for event in shown)
    head = f"<pre>{html.escape(shorten(content, 20_000))}</pre><small>{html.escape(about)}</small>"
    summary = f"<summary>{counted(len(shown), 'event')}</summary>"
    return f"<div>{head}<details>{summary}<ul>{items}</ul></details></div>"


MOST_LINES = 200
_SHOWN = frozenset((EventType.ACTION, EventType.OBSERVATION, EventType.NOTICE, EventType.ERROR))


def _line(event: AnyEvent) -> str:
    words = as_text(event.args) if event.type is EventType.ACTION else event.content
    return f"{event.type.value} {event.data.get('tool', '')}: {shorten(words, 500)}"
