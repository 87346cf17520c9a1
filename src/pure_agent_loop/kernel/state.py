"""The only thing that changes during a run.

1.  Only the methods here append to `messages`; what is in it changes only through `replace_messages`.
2.  An answer with calls opens them; they stand in `pending` until each has its one result. Then the
    results are appended in call order. So `messages` never holds a call without its result, except
    between those two moments; `close` ends them early.
3.  Call ids are unique in the whole history; a server's double is renamed on entry.
4.  `stop_reason` is set once; only `go_on` and `resume` take it back. Nothing is appended after it but what
    `close` owes.
5.  Everything here is plain data: ``from_dict(to_dict())`` is equal to the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.doom import DoomLedger
from pure_agent_loop.kernel.questions import Questions
from pure_agent_loop.limits import LimitLedger
from pure_agent_loop.llm.messages import (
    Message,
    assistant_message,
    check_pairs,
    to_wire,
    tool_message,
    user_message,
)
from pure_agent_loop.llm.response import LLMResponse, unique_id
from pure_agent_loop.llm.tokens import Boundary, ContextLedger, track
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.parts import Part
from pure_agent_loop.permissions import Ruling
from pure_agent_loop.prompts import Prompts

MAX_CONTINUATIONS = 3
SUSPENDED = "waiting_permission"


@dataclass(slots=True)
class QueryState(Questions):
    """Where a run stands.

    Args:
        system_prompt: The one leading system message; not part of `messages`.
        messages: The history, valid by construction.
        task: What this run was asked.
        ledger: What the limits have counted.
        doom: The last call and its repetitions.
        usage: Tokens of all requests of this run.
        context: What is known about the length of the history.
        auto_compact_tracking: By rung, how often it ``acted`` and how many tokens it ``saved``.
        has_attempted_reactive_compact: True once this step shortened the history after a refusal.
        pending: Calls of the last answer that still lack a result.
        results: Results that have come for them, by call id.
        answer: Pieces of the final answer: more than one where it was cut off and continued.
        note: A visible sentence behind the answer, when a limit ended the run.
        closing: The hard limit for which the last answer without tools is being asked.
        must_close: A reason found during a step for which the next one has to be that last answer.
        max_output_recovery_count: How often a cut-off answer was continued.
        asked_again: True once an empty answer was asked for again.
        output_raised: True once the output limit cut off a call, or everything; a limit of the caller is
            doubled then.
        awaiting: The step has begun, and its answer is awaited.
        answers: How many answers were asked for, in all runs of this state; names them in `parts`.
        tool_rounds: How many answers with calls were carried out.
        rulings: What was decided about the pending calls, by call id.
        denied: Calls that were refused, with the reason: they are not asked about again.
        always_allowed: Tools that a person allowed for the whole run.
        denied_rounds: How many rounds in a row had no call that was allowed.
        stop_hook_active: True while the agent goes on because a stop hook sent it.
        stop_hook_count: How often one did.
        held: Messages that had come in when the run was suspended.
        session_id: The session the run belongs to, empty for none.
        transition_reason: Why the newest step was entered.
        stop_reason: Why the run ended, or None while it goes on: ``completed``, ``cancelled``, ``error``, a
            limit (``token_limit``, ``max_steps``, ``max_tool_calls``, ``budget``, ``doom_loop``), what cut
            the answer off (``output_limit``, ``content_filter``), ``permission_denied``, or
            ``waiting_permission`` (it is suspended until `answer_permission` was called).
        failure: What ended the run with ``error``. Not part of the plain form.
        parts: The calls' parts that have not ended. Not part of the plain form.
        deadline: When the time is up, on the run's clock. Not part of the plain form.
    """

    system_prompt: str = ""
    messages: list[Message] = field(default_factory=list)
    task: str = ""
    ledger: LimitLedger = field(default_factory=LimitLedger)
    doom: DoomLedger = field(default_factory=DoomLedger)
    usage: TokenUsage = field(default_factory=TokenUsage.zero)
    context: ContextLedger = field(default_factory=ContextLedger)
    auto_compact_tracking: dict[str, dict[str, int]] = field(default_factory=dict)
    has_attempted_reactive_compact: bool = False
    pending: list[ToolCall] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    answer: list[str] = field(default_factory=list)
    note: str = ""
    closing: str = ""
    must_close: str = ""
    max_output_recovery_count: int = 0
    asked_again: bool = False
    output_raised: bool = False
    awaiting: bool = False
    answers: int = 0
    tool_rounds: int = 0
    rulings: dict[str, Ruling] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)
    always_allowed: list[str] = field(default_factory=list)
    denied_rounds: int = 0
    stop_hook_active: bool = False
    stop_hook_count: int = 0
    held: list[Incoming] = field(default_factory=list)
    session_id: str = ""
    transition_reason: str = "start"
    stop_reason: str | None = None
    failure: Exception | None = field(default=None, compare=False)
    parts: dict[str, Part] = field(default_factory=dict, compare=False, repr=False)
    deadline: float | None = field(default=None, compare=False)
    _used_ids: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._used_ids = {call["id"] for message in self.messages for call in message.get("tool_calls", ())}

    @property
    def step(self) -> int:
        """Number of the step the run is in, from 1. The last answer after a limit is one more."""
        return self.ledger.steps + bool(self.closing)

    @property
    def turn_count(self) -> int:
        """Steps begun so far."""
        return self.ledger.steps

    @property
    def content(self) -> str:
        """The answer as a user reads it, with the note behind it."""
        text = "".join(self.answer)
        return f"{text}\n\n{self.note}" if text and self.note else text or self.note

    # -- messages come in ---------------------------------------------------------------------------

    def add_user(self, content: str | list[dict[str, Any]], *, synthetic: bool = False) -> None:
        """Append a message of the user, or a notice of the framework."""
        self.messages.append(user_message(content, synthetic=synthetic))

    def begin_step(self) -> None:
        """Count one more step, unless it is the last answer after a limit."""
        if not self.closing:
            self.ledger.steps += 1
        self.awaiting, self.has_attempted_reactive_compact = True, False
        self.answers += 1

    def begin_closing(self, reason: str, prompts: Prompts) -> None:
        """Ask for the last answer without tools, because of a hard limit."""
        why = prompts.stopped.get(reason, reason)
        self.closing, self.must_close = reason, ""
        self.note = prompts.final_note.format(why=why)
        self.transition_reason = reason
        self.add_user(prompts.final_answer.format(why=why), synthetic=True)

    def add_response(
        self, response: LLMResponse, usage: TokenUsage, *, cost: float = 0.0, tools_offered: bool = True
    ) -> None:
        """Take in a whole answer: count its tokens, append it, open its calls.

        Args:
            response: The answer.
            usage: What it took.
            cost: What it cost.
            tools_offered: False if what looks like a call is none.
        """
        self.awaiting = False
        self.count(usage, cost)
        if self.closing or not tools_offered:
            response = replace(response, tool_calls=[])
        else:
            response = replace(response, tool_calls=[self._with_unique_id(c) for c in response.tool_calls])
        if response.content or response.tool_calls:
            self.messages.append(assistant_message(response))
        self.pending = list(response.tool_calls)
        self.results, self.rulings = {}, {}
        lacks_all = not response.content and not self.pending
        if response.finish_reason == "length" and (lacks_all or any(call.invalid for call in self.pending)):
            self.output_raised = True
        if self.pending:  # what was said before a call is no part of the answer
            self.answer, self.max_output_recovery_count = [], 0
        elif response.content:
            self.answer.append(response.content)

    def count(self, usage: TokenUsage, cost: float = 0.0) -> None:
        """Add what a request took."""
        self.usage += usage
        self.ledger.tokens += usage.total_tokens
        self.ledger.cost += cost

    def spend(self, spent: Mapping[str, Any] | None) -> None:
        """Add what work outside this loop used: a subagent's tokens, money and tool calls."""
        if spent is not None:
            usage = spent.get("usage")
            counted = TokenUsage.from_dict(usage) if usage else TokenUsage.zero()
            self.count(counted, float(spent.get("cost") or 0.0))
            self.ledger.tool_calls += int(spent.get("tool_calls") or 0)

    def replace_messages(self, messages: list[Message], boundary: Boundary) -> None:
        """Put a shorter history in the place of `messages`: the only way to change earlier ones.

        Raises:
            HistoryError: A call and its result are not both in it; nothing has changed then.
        """
        check_pairs(messages)
        self.messages = list(messages)
        self.context.replaced(boundary)
        track(self.auto_compact_tracking, boundary)

    def keep_partial(self, response: LLMResponse, *, cost: float = 0.0) -> None:
        """Keep the text of an answer that was interrupted. Its calls never happened."""
        self.ledger.cost += cost
        if response.usage is not None:
            self.count(response.usage)
        if response.content:
            self.messages.append(assistant_message(replace(response, tool_calls=[])))
            self.answer.append(response.content)

    def add_result(self, call_id: str, text: str) -> None:
        """Take in the result of a pending call; with the last one, all are appended in call order."""
        self.results[call_id] = text
        if len(self.results) == len(self.pending):
            self.messages.extend(tool_message(call.id, self.results[call.id]) for call in self.pending)
            self.ledger.tool_calls += len(self.pending)
            self.pending, self.results, self.rulings = [], {}, {}
            self.tool_rounds += 1
            self.transition_reason = "tool_results"

    # -- the run ends -------------------------------------------------------------------------------

    def finish(self, response: LLMResponse, prompts: Prompts) -> None:
        """Decide what an answer without calls means: the end, or one more try."""
        if self.closing:
            self.stop(self.closing)
        elif response.finish_reason == "content_filter":
            self._stop_with_note("content_filter", prompts)
        elif not response.content:
            self._after_empty(prompts)
        elif response.finish_reason == "length":
            self._after_cut(prompts)
        else:
            self.stop("completed")

    def _after_cut(self, prompts: Prompts) -> None:
        if self.max_output_recovery_count >= MAX_CONTINUATIONS:
            self._stop_with_note("output_limit", prompts)
            return
        self.max_output_recovery_count += 1
        self.transition_reason = "continue_answer"
        self.add_user(prompts.continue_answer, synthetic=True)

    def _after_empty(self, prompts: Prompts) -> None:
        if self.answer:  # it was cut off, and no more came
            self._stop_with_note("output_limit", prompts)
            return
        if self.asked_again:
            raise LLMError("The model gave an empty answer, twice.", kind="incomplete")
        self.asked_again = True
        self.transition_reason = "empty_answer"
        self.add_user(prompts.empty_answer, synthetic=True)

    def _stop_with_note(self, reason: str, prompts: Prompts) -> None:
        self.note = prompts.final_note.format(why=prompts.stopped[reason])
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """End the run; the first reason stays."""
        self.stop_reason = self.stop_reason or reason

    def go_on(self, content: str | list[dict[str, Any]], reason: str, *, synthetic: bool = False) -> None:
        """The run would have ended, but there is more to do. The answer so far stays in the history."""
        self.stop_reason, self.answer = None, []
        self.max_output_recovery_count, self.asked_again = 0, False
        self.transition_reason, self.stop_hook_active = reason, reason == "stop_hook"
        self.stop_hook_count += self.stop_hook_active
        self.tool_rounds = 0  # what is asked now may need tools again
        self.add_user(content, synthetic=synthetic)

    def take_held(self, *, at_end: bool = False) -> list[Incoming]:
        """Take out the held messages that are due; see `Inbox.take`."""
        due = [each for each in self.held if at_end or each.when == "step"]
        self.held = [each for each in self.held if each not in due]
        return due

    def resume(self) -> None:
        """Take up a run that has ended, or was suspended, where it stands."""
        if self.stop_reason in (None, "completed"):
            return
        if self.stop_reason == SUSPENDED:  # it goes on in the middle of a step: what was decided in it holds
            self.stop_reason = None
            return
        self.stop_reason, self.closing, self.must_close, self.note = None, "", "", ""
        self.denied_rounds = 0
        self.awaiting, self.failure = False, None
        if not self.pending:
            self.answer = []

    def close(self, text: str) -> None:
        """Give every call that is still open `text` as its result, so that the history is valid."""
        for call in list(self.pending):
            if call.id not in self.results:
                self.add_result(call.id, text)

    # -- going out ----------------------------------------------------------------------------------

    def history(self, waiting: str = "") -> list[Message]:
        """The messages in wire form, without the system message: what `messages=` takes to go on.

        Args:
            waiting: The result of a call that has none yet.
        """
        return to_wire(self.full_history(waiting))

    def full_history(self, waiting: str = "") -> list[Message]:
        """The same with `meta`, which holds the thinking."""
        open_results = [tool_message(call.id, self.results.get(call.id, waiting)) for call in self.pending]
        return [*self.messages, *open_results]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        data = {name: getattr(self, name) for name in _PLAIN}
        return {
            **data,
            "messages": list(self.messages),
            "answer": list(self.answer),
            "results": dict(self.results),
            "ledger": self.ledger.to_dict(),
            "doom": self.doom.to_dict(),
            "context": self.context.to_dict(),
            "auto_compact_tracking": {rung: dict(sums) for rung, sums in self.auto_compact_tracking.items()},
            "usage": self.usage.to_dict(),
            "pending": [call.to_dict() for call in self.pending],
            "rulings": {call_id: ruling.to_dict() for call_id, ruling in self.rulings.items()},
            "denied": dict(self.denied),
            "always_allowed": list(self.always_allowed),
            "held": [list(each) for each in self.held],
            "turn_count": self.turn_count,
            "pending_tool_summary": [f"{call.name}({', '.join(call.arguments)})" for call in self.pending],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueryState:
        """The reverse of :meth:`to_dict`.

        Raises:
            ConfigError: It is no such form.
        """
        try:
            return cls(
                **{name: data[name] for name in _PLAIN},
                messages=list(data["messages"]),
                answer=list(data["answer"]),
                results=dict(data["results"]),
                ledger=LimitLedger.from_dict(data["ledger"]),
                doom=DoomLedger.from_dict(data["doom"]),
                context=ContextLedger.from_dict(data["context"]),
                auto_compact_tracking={k: dict(v) for k, v in data["auto_compact_tracking"].items()},
                usage=TokenUsage.from_dict(data["usage"]),
                pending=[ToolCall.from_dict(call) for call in data["pending"]],
                rulings={call_id: Ruling.from_dict(each) for call_id, each in data["rulings"].items()},
                denied=dict(data["denied"]),
                always_allowed=list(data["always_allowed"]),
                held=[Incoming(*each) for each in data["held"]],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                "This is no saved state. Pass what QueryState.to_dict() gave, whole and unchanged; "
                f"wrong here: {type(error).__name__}: {error}"
            ) from error

    def _with_unique_id(self, call: ToolCall) -> ToolCall:
        call_id = unique_id(call.id or f"call_{self.step}", self._used_ids)
        return call if call_id == call.id else replace(call, id=call_id)


# Annotations are texts here; what has one of these is in the plain form as it is.
_PLAIN = tuple(each.name for each in fields(QueryState) if each.type in ("str", "int", "bool", "str | None"))
