"""Result of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, cast

from pure_agent_loop.errors import LLMError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent, EventType, ObservationEvent
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.media import made_media
from pure_agent_loop.output.wanted import OutputSpec
from pure_agent_loop.permissions import PermissionRequest
from pure_agent_loop.prompts import ENGLISH, Prompts
from pure_agent_loop.stop_reasons import COMPLETED, STOP_REASONS, StopReason
from pure_agent_loop.support.text import as_text, counted, error_text, safe_str, shorten

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    Out = TypeVar("Out", default=str)
    Out_co = TypeVar("Out_co", default=str, covariant=True)
else:
    from typing import TypeVar

    Out, Out_co = TypeVar("Out"), TypeVar("Out_co", covariant=True)

MAX_LINES, MAX_CHARS = 200, 20_000  # maximum rows and characters shown in a notebook


@dataclass(frozen=True)
class AgentResult(Generic[Out_co]):
    """Result of a run.

    Args:
        content: Final answer, with a visible note if a limit ended the run.
        steps: Number of steps.
        total_tokens: Token usage of all requests.
        events: All events, in order.
        stop_reason: Reason the run ended; ``completed`` if the model answered.
        messages: Complete, valid history; pass it as ``messages=`` to continue. It begins with a
            system message only if the run's initial history did.
        state: Final state.
        previous: Result of the agent that handed over to this one, with ``handed_off``; else None.
        output: Answer as the agent's ``output_type``, or its text if the agent has no output type. None
            unless `stop_reason` is ``completed``, because an incomplete answer has no valid value.
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
        output: OutputSpec | None = None,
    ) -> Self:
        """Build the result from a stopped state.

        Args:
            state: Final state.
            events: Events of the run.
            prompts: Prompts of the run.
            output: Output specification of the answer.
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
        """Name of the agent that the run was handed over to; empty for the initial agent."""
        return self.state.handed_to[-1] if self.state.handed_to else ""

    @property
    def media(self) -> list[dict[str, Any]]:
        """Images and sounds of the final answer, as parts such as ``{"type": "image_url", ...}``."""
        last = self.messages[-1] if self.messages else {}
        return made_media(last) if last.get("role") == "assistant" else []

    @property
    def usage(self) -> TokenUsage:
        """Alias for `total_tokens`."""
        return self.total_tokens

    @property
    def cost(self) -> float | None:
        """Cost of all requests, in US dollars unless you set prices; None if a part of it is unknown.

        ``result.state.ledger.cost`` is the known part.
        """
        return self.state.cost

    @property
    def questions(self) -> list[PermissionRequest]:
        """Questions to answer before the run can resume; `stop_reason` is ``waiting_permission``.

        Answer with ``result.state.answer_permission(call_id, "allow")``, then resume with
        ``agent.run(None, state=result.state)``.
        """
        return self.state.questions

    @property
    def open_calls(self) -> list[ToolCall]:
        """Pending external calls; `stop_reason` is ``waiting_tool``.

        Supply each result with ``result.state.give_result(call.id, ...)``, then resume with
        ``agent.run(None, state=result.state)``.
        """
        return self.state.open_calls

    @property
    def error(self) -> str:
        """Error text if `stop_reason` is ``error`` or ``invalid_output``, else empty."""
        failure = self.state.failure
        if failure is None or isinstance(failure, PureAgentLoopError):
            return "" if failure is None else error_text(failure)
        return f"{type(failure).__name__}: {safe_str(failure)}"

    def raise_for_error(self) -> Self:
        """Return the result, or raise the error behind ``error`` or ``invalid_output``.

        Raises:
            PureAgentLoopError: Usually an `LLMError`, with the original error chained.
        """
        failure = self.state.failure
        if self.stop_reason not in ("error", "invalid_output") or failure is None:
            return self
        if isinstance(failure, PureAgentLoopError):
            raise failure.with_traceback(None)  # drop the loop's frames, which would not help the caller
        raise LLMError(f"The run failed: {self.error}", failure) from failure

    def unwrap(self) -> Out_co:
        """Return the output, or raise if the run has none.

        Raises:
            PureAgentLoopError: The output is missing; with ``error``, the exception of `raise_for_error`.
        """
        self.raise_for_error()
        if self.stop_reason != COMPLETED or (self.output is None and self.state.output is None):
            why = STOP_REASONS[self.stop_reason].meaning
            raise PureAgentLoopError(f"The run ended with {self.stop_reason!r} and has no output. {why}")
        return cast("Out_co", self.output)

    def __str__(self) -> str:
        """Return the answer; the error's text if the run ended with an error and has no answer."""
        return self.content or self.error

    def _repr_html_(self) -> str:
        """Return the answer and the calls as HTML for notebooks."""
        return as_html(self.content, self._about(), self.events)

    def _repr_markdown_(self) -> str:
        """Return the answer as Markdown, with the calls as a folded table."""
        from pure_agent_loop.support.prose import escaped, prose_to_markdown

        answer = prose_to_markdown(shorten(self.content, MAX_CHARS))
        parts = [answer, calls_as_html(self.events), f"<p><small>{escaped(self._about())}</small></p>"]
        return "\n\n".join(part for part in parts if part)

    def _about(self) -> str:
        error = f": {shorten(self.error, 500)}" if self.error else ""
        counts = f"{counted(self.steps, 'step')}, {counted(self.usage.total_tokens, 'token')}"
        return f"{self.stop_reason}{error}, {counts}"


def _output_of(state: QueryState, output: OutputSpec | None) -> Any:
    if state.stop_reason != COMPLETED:
        return None
    if output is None:
        return state.content
    if state.output is None:  # the run ended before an output type was set
        return None
    return output.load(state.output["value"]) if state.live_output is None else state.live_output


def as_html(content: str, details: str, events: Sequence[AnyEvent]) -> str:
    """Return escaped and bounded HTML of a run for notebooks, without scripts."""
    # Imported here, because its table of entities loads slowly.
    from pure_agent_loop.support.prose import escaped, prose_to_html

    answer = prose_to_html(shorten(content, MAX_CHARS))
    return f"<div>{answer}{calls_as_html(events)}<small>{escaped(details)}</small></div>"


def calls_as_html(events: Sequence[AnyEvent]) -> str:
    """Return the calls, notices and errors of a run as a folded table; empty if there are none."""
    from pure_agent_loop.support.prose import folded_table

    rows: list[list[str]] = []
    calls: dict[str, list[str]] = {}  # rows that lack a result, by call id
    for event in events:
        if event.type is EventType.ACTION:
            calls[event.call_id] = [str(event.step), event.tool, shorten(as_text(event.args), 500), "", ""]
            rows.append(calls[event.call_id])
        elif event.type is EventType.OBSERVATION:
            row = calls.pop(event.call_id, None)
            if row is None:  # the call was denied, or its ACTION is not in the list
                rows.append(row := [str(event.step), event.tool, "", "", ""])
            row[3:] = [shorten(event.result, 500), _outcome(event)]
        elif event.type in (EventType.NOTICE, EventType.ERROR):
            rows.append([str(event.step), "", "", shorten(event.content, 500), event.type.value])
    header = ["step", "tool", "arguments", "result", "outcome"]
    noun = "call" if all(tool for _, tool, *_ in rows) else "event"
    return folded_table(noun, header, rows[-MAX_LINES:])


def _outcome(event: ObservationEvent) -> str:
    code = (event.command or {}).get("exit_code")
    return f"exit code {code}" if code else "failed" if event.is_error else "done"
