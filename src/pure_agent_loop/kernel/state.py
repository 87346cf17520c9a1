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

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.answer import ONCE_MORE, Answer
from pure_agent_loop.kernel.doom import DoomLedger
from pure_agent_loop.kernel.permission_ledger import PermissionLedger, Ruling
from pure_agent_loop.kernel.tools.ledger import ToolLedger, check_waits
from pure_agent_loop.limits import LimitLedger
from pure_agent_loop.llm.messages import (
    Message,
    assistant_message,
    check_pairs,
    media_message,
    to_wire,
    tool_message,
    user_message,
)
from pure_agent_loop.llm.response import LLMResponse, unique_id
from pure_agent_loop.llm.tokens import Boundary, ContextLedger, track
from pure_agent_loop.llm.values import TokenUsage, ToolCall
from pure_agent_loop.permissions import Permission, PermissionRequest, Verdict, as_answer
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.stop_reasons import COMPLETED, HANDED_OFF, WAITING
from pure_agent_loop.support.typed import dataclass, mistyped


@dataclass(slots=True)
class QueryState:
    """Where a run stands."""

    system_prompt: str = ""
    """The one leading system message; not part of `messages`."""
    messages: list[Message] = field(default_factory=list)
    """The history, valid by construction."""
    task: str = ""
    """What this run was asked."""
    ledger: LimitLedger = field(default_factory=LimitLedger)
    """What the limits have counted."""
    doom: DoomLedger = field(default_factory=DoomLedger)
    """The last call and its repetitions."""
    usage: TokenUsage = field(default_factory=TokenUsage.zero)
    """Tokens of all requests of this run."""
    context: ContextLedger = field(default_factory=ContextLedger)
    """What is known about the length of the history."""
    auto_compact_tracking: dict[str, dict[str, int]] = field(default_factory=dict)
    """By rung, how often it ``acted`` and how many tokens it ``saved``."""
    has_attempted_reactive_compact: bool = False
    """True once this step shortened the history after a refusal."""
    pending: list[ToolCall] = field(default_factory=list)
    """Calls of the last answer that still lack a result."""
    results: dict[str, str] = field(default_factory=dict)
    """Results that have come for them, by call id."""
    media: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Images and files that belong to these."""
    permissions: PermissionLedger = field(default_factory=PermissionLedger)
    """What was decided about calls."""
    tools: ToolLedger = field(default_factory=ToolLedger)
    """Results made elsewhere, tools that were found, corrections."""
    answer: Answer = field(default_factory=Answer)
    """The final answer as far as it has come."""
    closing: str = ""
    """The hard limit for which the last answer without tools is being asked."""
    must_close: str = ""
    """A reason found during a step for which the next one has to be that last answer."""
    awaiting: bool = False
    """The step has begun, and its answer is awaited."""
    answers: int = 0
    """How many answers were asked for, in all runs of this state; names them in `parts`."""
    tool_rounds: int = 0
    """How many answers with calls were carried out."""
    stop_hook_active: bool = False
    """True while the agent goes on because a stop hook sent it."""
    stop_hook_count: int = 0
    """How often one did."""
    held: list[Incoming] = field(default_factory=list)
    """Messages that had come in when the run was suspended."""
    handed_to: list[str] = field(default_factory=list)
    """The agents the conversation was handed over to, in order; the last one is in charge."""
    session_id: str = ""
    """The session the run belongs to, empty for none."""
    corrections: int = 0
    """How often the model was told that its answer is not what was wanted."""
    output: dict[str, Any] | None = None
    """The typed output in plain form, under ``value``; None while there is none."""
    transition_reason: str = "start"
    """Why the newest step was entered."""
    stop_reason: str | None = None
    """Why the run ended, a key of `STOP_REASONS`; None while it goes on."""
    failure: Exception | None = field(default=None, compare=False)
    """What ended the run with ``error``. Not part of the plain form."""
    live_output: Any = field(default=None, compare=False, repr=False)
    """The output itself. Not part of the plain form."""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)
    """The calls' parts that have not ended. Not part of the plain form."""
    deadline: float | None = field(default=None, compare=False)
    """When the time is up, on the run's clock. Not part of the plain form."""
    window: int | None = field(default=0, compare=False, repr=False)
    """Tokens of the model's window, None if nobody knows, 0 before it was asked for in this step."""
    step: int = field(default=0, init=False, compare=False, repr=False)
    """Number of the step the run is in, from 1. The last answer after a limit is one more."""
    _used_ids: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.step = self.ledger.steps + bool(self.closing)
        self._used_ids = {call["id"] for message in self.messages for call in message.get("tool_calls", ())}

    def __repr__(self) -> str:
        how = self.stop_reason or "running"
        return f"<QueryState {how}: step {self.step}, {len(self.messages)} messages>"

    @property
    def turn_count(self) -> int:
        """Steps begun so far."""
        return self.ledger.steps

    @property
    def content(self) -> str:
        """The answer as a user reads it, with the note behind it."""
        return self.answer.content

    @property
    def max_output_recovery_count(self) -> int:
        """How often a cut-off answer was continued."""
        return self.answer.continued

    @property
    def questions(self) -> list[PermissionRequest]:
        """The pending calls that wait for an answer of a person."""
        return self.permissions.questions(self.pending, self.step)

    @property
    def open_calls(self) -> list[ToolCall]:
        """The pending calls whose results are made elsewhere and have not come."""
        return self.tools.open_calls(self.pending, self.permissions.rulings)

    # -- messages come in ---------------------------------------------------------------------------

    def add_user(self, text: str, media: Sequence[dict[str, Any]] = (), *, synthetic: bool = False) -> None:
        """Append a message of the user, or a notice of the framework."""
        self.messages.append(user_message(text, media, synthetic=synthetic))

    def begin_step(self) -> None:
        """Count one more step, unless it is the last answer after a limit."""
        if not self.closing:
            self.ledger.steps = self.step = self.ledger.steps + 1
        self.awaiting, self.has_attempted_reactive_compact, self.window = True, False, 0
        self.answers += 1

    def begin_closing(self, reason: str, prompts: Prompts) -> None:
        """Ask for the last answer without tools, because of a hard limit."""
        why = prompts.stopped.get(reason, reason)
        self.closing, self.must_close, self.step = reason, "", self.ledger.steps + 1
        self.answer.note = prompts.final_note.format(why=why)
        self.transition_reason = reason
        self.add_user(prompts.final_answer.format(why=why), synthetic=True)

    def end_unanswered(self, reason: str, prompts: Prompts) -> None:
        """End because of a hard limit that leaves no room for a last answer."""
        self.answer.note = prompts.final_note.format(why=prompts.stopped.get(reason, reason))
        self.must_close, self.awaiting = "", False
        self.stop(reason)

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
        self.window = self.window or 0  # a client may have learnt it along with the answer
        self.count(usage, cost)
        calls = []
        for call in response.tool_calls if tools_offered and not self.closing else ():
            call_id = unique_id(call.id or f"call_{self.step}", self._used_ids)
            calls.append(call if call_id == call.id else replace(call, id=call_id))
        if calls != response.tool_calls:
            response = replace(response, tool_calls=calls)
        if response.content or response.tool_calls:
            self.messages.append(assistant_message(response))
        self.pending = calls
        self.results, self.media, self.permissions.rulings = {}, {}, {}
        self.answer.take(response)

    def count(self, usage: TokenUsage, cost: float = 0.0) -> None:
        """Add what a request took."""
        self.usage += usage
        self.ledger.tokens += usage.total_tokens
        self.ledger.cost += cost

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
            self.answer.pieces.append(response.content)

    def add_result(self, call_id: str, text: str, parts: list[dict[str, Any]] | None = None) -> None:
        """Take in the result of a pending call; with the last one, all are appended, their media behind."""
        self.results[call_id] = text
        if parts:
            self.media[call_id] = parts
        if len(self.results) == len(self.pending):
            for call in self.pending:
                self.messages.append(tool_message(call.id, self.results[call.id]))
                self.ledger.tool_calls += not self.permissions.is_too_many(call.id)
            if self.media:
                given = [(call.name, self.media.get(call.id, ())) for call in self.pending]
                self.messages += media_message(given)
            self.drop_calls()
            self.tool_rounds += 1
            self.transition_reason = "tool_results"

    def drop_calls(self) -> None:
        """Nothing is pending any more."""
        self.pending, self.results, self.media = [], {}, {}
        self.permissions.rulings, self.tools.outside = {}, {}

    def answer_permission(self, call_id: str, verdict: Verdict) -> None:
        """Answer one of the `questions`. Once all are answered the run can go on.

        Args:
            call_id: Which one.
            verdict: ``allow``, ``deny``, or a `Permission` that says more.

        Raises:
            ConfigError: Nothing is asked about that call, or the verdict is neither.
        """
        asked = {question.call_id: question for question in self.questions}
        check_waits("question", call_id, asked)
        call = next(each for each in self.pending if each.id == call_id)
        self.rule(call, as_answer(verdict), asked[call_id].args)

    def give_result(self, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Bring the result of one of the `open_calls`, text or JSON; a `ConfigError` if none awaits it."""
        self.tools.give(call_id, result, is_error=is_error)

    def rule(self, call: ToolCall, permission: Permission, args: dict[str, Any]) -> Ruling:
        """Write down what was decided about a pending call."""
        if permission.behavior == "deny" and permission.interrupt:
            self.must_close = "permission_denied"
        return self.permissions.rule(call, permission, args)

    # -- the run ends -------------------------------------------------------------------------------

    def finish(self, response: LLMResponse, prompts: Prompts) -> None:
        """Decide what an answer without calls means: the end, or one more try."""
        meaning = self.closing or self.answer.judge(response)
        if meaning in ONCE_MORE:
            self.transition_reason = meaning
            self.add_user(getattr(prompts, meaning), synthetic=True)
            return
        if not self.closing and meaning != COMPLETED:
            self.answer.note = prompts.final_note.format(why=prompts.stopped[meaning])
        self.stop(meaning)

    def hand_to(self, agent: str) -> None:
        """End the run, because another agent goes on; the first one counts."""
        if agent and self.stop_reason is None:
            self.handed_to.append(agent)
            self.stop(HANDED_OFF)

    def stop(self, reason: str) -> None:
        """End the run; the first reason stays."""
        self.stop_reason = self.stop_reason or reason

    def go_on(
        self, text: str, reason: str, media: Sequence[dict[str, Any]] = (), *, synthetic: bool = False
    ) -> None:
        """The run would have ended, but there is more to do. The answer so far stays in the history."""
        self.stop_reason = None
        self.answer.begin_anew()
        self.transition_reason, self.stop_hook_active = reason, reason == "stop_hook"
        self.stop_hook_count += self.stop_hook_active
        self.corrections *= reason == "correction"
        self.output = self.live_output = None
        self.tool_rounds = 0  # what is asked now may need tools again
        self.add_user(text, media, synthetic=synthetic)

    def take_held(self, *, at_end: bool = False) -> list[Incoming]:
        """Take out the held messages that are due; see `Inbox.take`."""
        due = [each for each in self.held if at_end or each.when == "step"]
        self.held = [each for each in self.held if each not in due]
        return due

    def resume(self) -> None:
        """Take up a run that has ended, or was suspended, where it stands."""
        if self.stop_reason in (None, COMPLETED, HANDED_OFF):
            return
        if self.stop_reason in WAITING:  # it goes on in the middle of a step: what was decided in it holds
            self.stop_reason = None
            return
        self.stop_reason, self.closing, self.must_close, self.step = None, "", "", self.ledger.steps
        self.answer.note, self.permissions.denied_rounds = "", 0
        self.awaiting, self.failure, self.corrections = False, None, 0
        if not self.pending:
            self.answer.pieces = []

    def close(self, text: str) -> None:
        """Give every call that is still open `text` as its result, so that the history is valid."""
        for call in list(self.pending):
            if call.id not in self.results:
                self.add_result(call.id, self.tools.text_of(call.id, text))

    # -- going out ----------------------------------------------------------------------------------

    def history(self, waiting: str = "") -> list[Message]:
        """The messages in wire form, without the system message: what `messages=` takes to go on.

        Args:
            waiting: The result of a call that has none yet.
        """
        return to_wire(self.full_history(waiting) if self.pending else self.messages)

    def full_history(self, waiting: str = "") -> list[Message]:
        """The same with `meta`, which holds the thinking."""
        known = {call.id: self.tools.text_of(call.id, waiting) for call in self.pending} | self.results
        return [*self.messages, *(tool_message(call.id, known[call.id]) for call in self.pending)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "messages": list(self.messages),
            "output": self.output,
            **self.answer.to_dict(),
            "results": dict(self.results),
            **({"media": dict(self.media)} if self.media else {}),
            **{name: getattr(self, name).to_dict() for name in _LEDGERS},
            "auto_compact_tracking": {rung: dict(sums) for rung, sums in self.auto_compact_tracking.items()},
            "pending": [call.to_dict() for call in self.pending],
            **self.permissions.to_dict(),
            "held": [list(each) for each in self.held],
            "handed_to": list(self.handed_to),
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
            state = cls(
                **{name: data[name] for name in _PLAIN if name in data or name not in _LATER},
                **{
                    n: kind.from_dict(data[n]) for n, kind in _LEDGERS.items() if n in data or n not in _LATER
                },
                messages=list(data["messages"]),
                output=data.get("output"),
                answer=Answer.from_dict(data),
                results=dict(data["results"]),
                media=dict(data.get("media", {})),
                auto_compact_tracking={k: dict(v) for k, v in data["auto_compact_tracking"].items()},
                pending=[ToolCall.from_dict(call) for call in data["pending"]],
                permissions=PermissionLedger.from_dict(data),
                held=[Incoming(*each) for each in data["held"]],
                handed_to=list(data.get("handed_to", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_state(f"{type(error).__name__}: {error}") from error
        if wrong := mistyped(state, cls):
            raise _no_state(wrong)
        return state


def _no_state(wrong: str) -> ConfigError:
    return ConfigError(
        "This is no saved state. Pass what QueryState.to_dict() gave, whole and unchanged; "
        f"wrong here: {wrong}"
    )


_LATER = ("corrections", "tools")  # states of before have none
_LEDGERS: dict[str, Any] = {"ledger": LimitLedger, "doom": DoomLedger, "context": ContextLedger}
_LEDGERS |= {"usage": TokenUsage, "tools": ToolLedger}
# Annotations are texts here; what has one of these is in the plain form as it is.
_PLAIN = tuple(
    each.name
    for each in fields(QueryState)
    if each.init and each.type in ("str", "int", "bool", "str | None")
)
