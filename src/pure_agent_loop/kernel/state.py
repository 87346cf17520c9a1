"""State of a run: the only data that changes during the run.

1.  Only the methods here append to `messages`; earlier messages change only through `replace_messages`.
2.  A response with calls puts them into `pending` until each has its one result. Then the results are
    appended in call order. So only between these two moments does `messages` hold a call without its result.
    `close` adds missing results at the end of a run.
3.  Call ids are unique in the whole history; a duplicate id from a server is replaced when the response is
    added.
4.  `stop_reason` is set once; only `go_on` and `resume` clear it. While it is set, only the results of
    pending calls are appended.
5.  Everything here is plain data: ``from_dict(to_dict())`` is equal to the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.inbox import Incoming
from pure_agent_loop.kernel.doom import DoomLedger
from pure_agent_loop.kernel.origins import keep_origins
from pure_agent_loop.kernel.permission_ledger import PermissionLedger
from pure_agent_loop.kernel.tool_ledger import ToolLedger, check_waits
from pure_agent_loop.limits import LimitLedger
from pure_agent_loop.llm.messages import (
    Message,
    as_messages,
    assistant_message,
    calls_of,
    check_pairs,
    facts_message,
    is_question,
    media_message,
    to_keep,
    tool_message,
    user_message,
)
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse, unique_id
from pure_agent_loop.llm.tokens import Boundary, ContextLedger, track
from pure_agent_loop.llm.values import JsonFields, TokenUsage, ToolCall
from pure_agent_loop.permissions import Permission, PermissionRequest, PlainOrigin, Ruling, Verdict, as_answer
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.stop_reasons import COMPLETED, HANDED_OFF, WAITING
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.typed import mistyped

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage
    from pure_agent_loop.support.secrets.redaction import Redactor
else:
    HistoryMessage = Message  # at run time, any dict is accepted when a saved state is checked

# -- final answer in progress: cut off and continued, empty and requested again, or complete -------------

MAX_CONTINUATIONS = 3
ONCE_MORE = ("continue_answer", "empty_answer")  # prompts that ask the model to continue
_LATER = ("corrections", "tools", "own_prompt")  # fields that are missing from older states
_LEDGERS: dict[str, Any] = {"ledger": LimitLedger, "doom": DoomLedger, "context": ContextLedger}


@dataclass(slots=True)
class AnswerDraft:
    """An answer in progress.

    Args:
        pieces: The text; several pieces if the answer was cut off and continued.
        note: Sentence that names the limit that ended the run; it follows the answer.
        asked_again: True once the model has been asked again after an empty answer.
        output_raised: True once the output limit has cut off a call or the whole answer; later requests have
            twice the caller's limit.
    """

    pieces: list[str] = field(default_factory=list)
    note: str = ""
    continued: int = 0
    asked_again: bool = False
    output_raised: bool = False

    @property
    def content(self) -> str:
        """Text of the answer for the user, followed by the note."""
        text = "".join(self.pieces)
        return f"{text}\n\n{self.note}" if text and self.note else text or self.note

    def take(self, response: LLMResponse) -> None:
        """Add the response of the model."""
        is_cut = response.finish_reason == "length"
        lacks_all = not (response.content or response.tool_calls or response.media)
        if is_cut and (lacks_all or any(call.invalid for call in response.tool_calls)):
            self.output_raised = True
        if response.tool_calls:  # text before a call is not part of the answer
            self.pieces, self.continued = [], 0
        elif response.content:
            self.pieces.append(response.content)

    def judge(self, response: LLMResponse) -> str:
        """Decide how the run continues after a response without calls.

        Returns:
            A stop reason, or one of `ONCE_MORE`.

        Raises:
            LLMError: The response is empty for the second time.
        """
        if response.finish_reason in ("content_filter", OUTPUT_LIMIT):
            return str(response.finish_reason)
        if not response.content and not response.media:
            return self._after_empty()
        if response.finish_reason != "length":
            return COMPLETED
        if self.continued >= MAX_CONTINUATIONS:
            return "output_limit"
        self.continued += 1
        return "continue_answer"

    def _after_empty(self) -> str:
        if self.pieces:  # an answer was cut off, and its continuation is empty
            return "output_limit"
        if self.asked_again:
            raise LLMError("The model returned an empty answer twice.", kind="incomplete")
        self.asked_again = True
        return "empty_answer"

    def restart(self) -> None:
        """Clear the answer: the next response begins a new one."""
        self.pieces, self.continued, self.asked_again = [], 0, False

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form, a part of the state's form."""
        return {
            "answer": list(self.pieces),
            "note": self.note,
            "max_output_recovery_count": self.continued,
            "asked_again": self.asked_again,
            "output_raised": self.output_raised,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AnswerDraft:
        """Restore an answer from what :meth:`to_dict` returned."""
        rest = (data["note"], data["max_output_recovery_count"], data["asked_again"], data["output_raised"])
        return cls(list(data["answer"]), *rest)


@dataclass(slots=True)
class QueryState:
    """State of one run."""

    system_prompt: str = ""
    """The one leading system message; not part of `messages`."""
    own_prompt: str | None = None
    """System message that `messages=` began with: part of the history that is returned."""
    messages: list[HistoryMessage] = field(default_factory=list)
    """The history, valid by construction."""
    task: str = ""
    """Task of this run."""
    ledger: LimitLedger = field(default_factory=LimitLedger)
    """Steps, tokens, calls, seconds and money counted for the limits."""
    doom: DoomLedger = field(default_factory=DoomLedger)
    """Newest calls and their repetitions."""
    usage: TokenUsage = field(default_factory=TokenUsage.zero)
    """Tokens of all requests of this run."""
    context: ContextLedger = field(default_factory=ContextLedger)
    """Length of the history, counted or estimated."""
    auto_compact_tracking: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per rung of compaction: how often it ``acted`` and how many tokens it ``saved``."""
    has_attempted_reactive_compact: bool = False
    """True once this step has shortened the history after a rejected request."""
    pending: list[ToolCall] = field(default_factory=list)
    """Calls of the last response that have no result yet."""
    results: dict[str, str] = field(default_factory=dict)
    """Results of pending calls, by call id."""
    media: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Images and files of these results, by call id."""
    failed: list[str] = field(default_factory=list)
    """Ids of the calls in `results` that failed."""
    permissions: PermissionLedger = field(default_factory=PermissionLedger)
    """Rulings about calls."""
    tools: ToolLedger = field(default_factory=ToolLedger)
    """Results made elsewhere, tools found by a search, retries."""
    answer: AnswerDraft = field(default_factory=AnswerDraft)
    """Final answer so far."""
    closing: str = ""
    """Hard limit that makes this the last response, without tools."""
    must_close: str = ""
    """Reason, found during a step, that makes the next response the last one."""
    awaiting: bool = False
    """The step has begun and its response has not come."""
    answers: int = 0
    """Responses requested in all runs of this state; part of the ids in `parts`."""
    tool_rounds: int = 0
    """Rounds of calls that have run."""
    stop_hook_active: bool = False
    """True while the agent continues because of a stop hook."""
    stop_hook_count: int = 0
    """Number of times a stop hook made the run continue."""
    held: list[Incoming] = field(default_factory=list)
    """Messages that came in before the run was suspended."""
    handed_to: list[str] = field(default_factory=list)
    """Agents the conversation was handed to, in order; the last one is active."""
    session_id: str = ""
    """Session of the run; empty if none."""
    corrections: int = 0
    """Number of times the model had to correct its typed answer."""
    output: dict[str, Any] | None = None
    """Typed output in plain form, under ``value``; None until there is one."""
    transition_reason: str = "start"
    """Reason for the newest step."""
    stop_reason: str | None = None
    """Reason for the end of the run, a key of `STOP_REASONS`; None until then."""
    failure: Exception | None = field(default=None, compare=False)
    """Exception that ended the run with ``error``. Not part of the plain form."""
    live_output: Any = field(default=None, compare=False, repr=False)
    """Typed output as an object. Not part of the plain form."""
    rewritten: dict[str, str] = field(default_factory=dict)
    """Writer of each change to earlier bytes, by part (tools, system, messages); see `kernel.prefix`."""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)
    """Parts of calls that have not ended. Not part of the plain form."""
    deadline: float | None = field(default=None, compare=False)
    """Deadline on the run's clock. Not part of the plain form."""
    window: int | None = field(default=0, compare=False, repr=False)
    """Tokens of the model's window; None if unknown, 0 if not looked up in this step."""
    facts_due: bool = field(default=True, init=False, compare=False, repr=False)
    """True until the model has the current facts, see `Kit.facts`. Not part of the plain form."""
    task_at: int | None = field(default=None, init=False, compare=False, repr=False)
    """Index of the task, which facts go before; None once it was sent. Not part of the plain form."""
    step_usage: TokenUsage | None = field(default=None, compare=False, repr=False)
    """Tokens of the newest response; None if there was none in this process. Not part of the plain form."""
    offered: list[dict[str, Any]] = field(default_factory=list, init=False, compare=False, repr=False)
    """Tools of the newest request that had any, as sent. Not part of the plain form."""
    guard: object = field(default=None, init=False, compare=False, repr=False)
    """What is known in the mode ``guard``; derived from the messages. Not part of the plain form."""
    token_details: list[dict[str, Any] | None] = field(
        default_factory=list, init=False, compare=False, repr=False
    )
    """What the server told about the tokens of each response in `messages`. Not part of the plain form."""
    step: int = field(default=0, init=False, compare=False, repr=False)
    """Number of the current step, from 1. The last response after a limit counts as one."""
    _used_ids: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.step = self.ledger.steps + bool(self.closing)
        self._used_ids = {call["id"] for message in self.messages for call in calls_of(message)}

    def __repr__(self) -> str:
        status = self.stop_reason or "running"
        return f"<QueryState {status}: step {self.step}, {len(self.messages)} messages>"

    @property
    def turn_count(self) -> int:
        """Steps begun so far."""
        return self.ledger.steps

    @property
    def pending_tool_summary(self) -> list[str]:
        """Pending calls with the names of their arguments."""
        return [f"{call.name}({', '.join(call.arguments)})" for call in self.pending]

    @property
    def content(self) -> str:
        """Answer for the user, followed by its note."""
        return self.answer.content

    @property
    def max_output_recovery_count(self) -> int:
        """Number of times a cut-off answer was continued."""
        return self.answer.continued

    @property
    def cost(self) -> float | None:
        """Cost of the run so far; None if part of it is unknown. `ledger.cost` is the known part."""
        return self.usage.cost if self.usage.cost is not None or self.usage.total_tokens else 0.0

    @property
    def questions(self) -> list[PermissionRequest]:
        """Pending calls that a person has to decide."""
        return self.permissions.questions(self.pending, self.step)

    @property
    def open_calls(self) -> list[ToolCall]:
        """Pending calls whose results come from elsewhere and have not arrived."""
        return self.tools.open_calls(self.pending, self.permissions.rulings)

    # -- messages come in ---------------------------------------------------------------------------

    def add_user(self, text: str, media: Sequence[dict[str, Any]] = (), *, synthetic: bool = False) -> None:
        """Append a message from the user, or a notice from the framework."""
        self.messages.append(user_message(text, media, synthetic=synthetic))

    def add_task(self, text: str, media: Sequence[dict[str, Any]] = ()) -> None:
        """Append a task from the user."""
        self.task_at = len(self.messages)
        self.add_user(text, media)

    def add_facts(self, text: str) -> None:
        """Insert facts before a new task; append them if the task was already sent."""
        at, self.task_at = self.task_at, None
        self.messages.insert(len(self.messages) if at is None else at, facts_message(text))
        self.context.sizes = []

    def renew_facts(self, text: str, old: Sequence[HistoryMessage]) -> None:
        """Replace the fact messages in a history that a compaction has changed."""
        before = self.context.estimate(self.messages)
        self.messages = [message for message in self.messages if message not in old]
        if self.task_at is not None:  # the task is the newest message
            self.task_at = len(self.messages) - 1
        self.add_facts(text)
        if self.context.tokens:
            self.context.tokens += self.context.estimate(self.messages) - before
            self.context.messages = len(self.messages)

    def begin_step(self) -> None:
        """Count one more step, unless it is the last response after a limit."""
        if not self.closing:
            self.ledger.steps = self.step = self.ledger.steps + 1
        self.awaiting, self.has_attempted_reactive_compact, self.window = True, False, 0
        self.answers += 1

    def begin_closing(self, reason: str, prompts: Prompts, limit: int | None = None) -> None:
        """Ask for a last response without tools, because of a hard limit."""
        why = prompts.why(reason)
        self.closing, self.must_close, self.step = reason, "", self.ledger.steps + 1
        self.answer.note = prompts.final_note.format(why=prompts.why(reason, limit))
        self.transition_reason = reason
        self.add_user(prompts.final_answer.format(why=why), synthetic=True)

    def end_unanswered(self, reason: str, prompts: Prompts, limit: int | None = None, why: str = "") -> None:
        """End the run at a hard limit that leaves no room for a last response; `why` has details."""
        self.answer.note = prompts.final_note.format(why=why or prompts.why(reason, limit))
        self.must_close, self.awaiting = "", False
        self.stop(reason)

    def add_response(self, response: LLMResponse, usage: TokenUsage, *, tools_offered: bool = True) -> None:
        """Add a whole response: count its tokens, append it, make its calls pending.

        Args:
            response: The response.
            usage: Tokens of the request, with their cost.
            tools_offered: False if no tools were offered; any calls are then dropped.
        """
        self.awaiting, self.rewritten = False, {}
        # Look up the window again: the client may have learned it from the response.
        self.window = self.window or 0
        self.count(usage)
        calls, details = [], response.token_details
        for call in response.tool_calls if tools_offered and not self.closing else ():
            call_id = unique_id(call.id or f"call_{self.step}", self._used_ids)
            calls.append(call if call_id == call.id else replace(call, id=call_id))
        if calls != response.tool_calls:
            # If all calls were dropped, drop the extra fields too, because they belong to the calls.
            extra = response.extra if calls else None
            rest = (response.usage, response.raw, response.reasoning_content, response.finish_reason)
            response = LLMResponse(response.content, calls, *rest, extra, response.origin)
        if response.content or response.tool_calls or response.media:
            self.messages.append(assistant_message(response))
            self.token_details.append(details)
        self.pending = calls
        self.results, self.media, self.failed, self.permissions.rulings = {}, {}, [], {}
        self.answer.take(response)

    def count(self, usage: TokenUsage, known_cost: float | None = None) -> None:
        """Add the tokens and the cost of a request.

        Args:
            usage: Tokens of the request, with their cost.
            known_cost: Known part of the cost; None to use the cost of `usage`.
        """
        self.usage += usage
        self.ledger.tokens += usage.total_tokens
        self.ledger.cost += (usage.cost or 0.0) if known_cost is None else known_cost

    def redact_changed(self, before: list[HistoryMessage], redactor: Redactor | None) -> None:
        """Redact text from a compactor, which may use its own client."""
        if redactor is not None and self.messages is not before:
            kept = set(map(id, before))
            self.messages = [m if id(m) in kept else redactor.redact_value(m) for m in self.messages]

    def replace_messages(self, messages: Sequence[JsonFields], boundary: Boundary | str) -> None:
        """Replace `messages` with a shorter history: the only way to change earlier messages.

        Args:
            messages: The new history: messages of the old one, and new ones.
            boundary: Name of the change, which a COMPACTION event reports with its numbers.

        Raises:
            HistoryError: The history has a call without a result, or a result without a call; nothing is
                changed.
        """
        history = cast("list[HistoryMessage]", list(messages))
        check_pairs(history)
        if isinstance(boundary, str):
            boundary = self.context.change(boundary, self.step, self.messages, history)
        if self.permissions.is_guarded:
            history = keep_origins(self.messages, history)
        self.messages, self.facts_due = history, True
        self.task_at = len(history) - 1 if history and is_question(history[-1]) else None
        self.context.replaced(boundary)
        self.rewritten["messages"] = f"compaction:{boundary['rung']}"
        track(self.auto_compact_tracking, boundary)

    def keep_partial(self, response: LLMResponse) -> None:
        """Keep the text of an interrupted response and count its tokens. Its calls are dropped."""
        if response.usage is not None:
            self.count(response.usage)
        if response.content:
            self.messages.append(assistant_message(replace(response, tool_calls=[])))
            self.token_details.append(None)
            self.answer.pieces.append(response.content)

    def add_result(
        self, call_id: str, text: str, parts: list[dict[str, Any]] | None = None, *, failed: bool = False
    ) -> None:
        """Add the result of a pending call. The last one appends all results, followed by their media."""
        self.results[call_id] = text
        if failed:
            self.failed.append(call_id)
        if parts:
            self.media[call_id] = parts
        if len(self.results) == len(self.pending):
            for call in self.pending:
                has_failed = call.id in self.failed
                self.messages.append(tool_message(call.id, self.results[call.id], failed=has_failed))
                self.ledger.tool_calls += not self.permissions.is_too_many(call.id)
            if self.media:
                media = [(call.name, self.media.get(call.id, ())) for call in self.pending]
                self.messages += media_message(media)
            self.drop_calls()
            self.tool_rounds += 1
            self.transition_reason = "tool_results"

    def drop_calls(self) -> None:
        """Clear the pending calls and everything that belongs to them."""
        self.pending, self.results, self.media, self.failed = [], {}, {}, []
        self.permissions.rulings, self.tools.outside = {}, {}

    def answer_permission(self, call_id: str, verdict: Verdict) -> None:
        """Answer one of the `questions`. Once all questions are answered, the run can resume.

        Args:
            call_id: Id of the call that the question is about.
            verdict: ``allow``, ``deny``, or a `Permission` with more detail.

        Raises:
            ConfigError: No question is pending about that call, or the verdict is not valid.
        """
        questions = {question.call_id: question for question in self.questions}
        check_waits("question", call_id, questions)
        call = next(call for call in self.pending if call.id == call_id)
        answer = as_answer(verdict)
        self.permissions.learn(answer.message, about=questions[call_id].origins)
        self.rule(call, answer, questions[call_id].args)

    def give_result(self, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Set the result of one of the `open_calls`, as text or a JSON value.

        Raises:
            ConfigError: The call is not open.
        """
        self.tools.give(call_id, result, is_error=is_error)

    def rule(
        self,
        call: ToolCall,
        permission: Permission,
        args: dict[str, Any],
        origins: Sequence[PlainOrigin] = (),
        title: str = "",
    ) -> Ruling:
        """Store the ruling on a pending call."""
        if permission.behavior == "deny" and permission.interrupt:
            self.must_close = "permission_denied"
        return self.permissions.rule(call, permission, args, origins, title)

    # -- the run ends -------------------------------------------------------------------------------

    def finish(self, response: LLMResponse, prompts: Prompts) -> None:
        """After a response without calls, end the run or make one more request."""
        meaning = self.closing or self.answer.judge(response)
        if meaning in ONCE_MORE:
            self.transition_reason = meaning
            self.add_user(getattr(prompts, meaning), synthetic=True)
            return
        if not self.closing and meaning != COMPLETED:
            self.answer.note = prompts.final_note.format(why=prompts.stopped[meaning])
        self.stop(meaning)

    def hand_to(self, agent: str) -> None:
        """End the run because another agent takes over; only the first handoff counts."""
        if agent and self.stop_reason is None:
            self.handed_to.append(agent)
            self.stop(HANDED_OFF)

    def stop(self, reason: str) -> None:
        """End the run; only the first reason counts."""
        self.stop_reason = self.stop_reason or reason

    def go_on(
        self, text: str, reason: str, media: Sequence[dict[str, Any]] = (), *, synthetic: bool = False
    ) -> None:
        """Continue a run that would have ended. The answer so far stays in the history."""
        self.stop_reason = None
        self.answer.restart()
        self.transition_reason, self.stop_hook_active = reason, reason == "stop_hook"
        self.stop_hook_count += self.stop_hook_active
        self.corrections *= reason == "correction"
        self.output = self.live_output = None
        self.tool_rounds = 0  # start counting again: the new message may need more rounds of tools
        self.task_at = len(self.messages)
        self.add_user(text, media, synthetic=synthetic)

    def take_held(self, *, at_end: bool = False) -> list[Incoming]:
        """Return and remove the held messages that are due; see `Inbox.take`."""
        due = [message for message in self.held if at_end or message.when == "step"]
        self.held = [message for message in self.held if message not in due]
        return due

    def resume(self) -> None:
        """Undo the end of a run that failed, hit a limit or was suspended, so that it can resume."""
        if self.stop_reason in (None, COMPLETED, HANDED_OFF):
            return
        if self.stop_reason in WAITING:  # the run resumes in mid-step and keeps the step's rulings
            self.stop_reason = None
            return
        self.stop_reason, self.closing, self.must_close, self.step = None, "", "", self.ledger.steps
        self.answer.note, self.permissions.denied_rounds = "", 0
        self.awaiting, self.failure, self.corrections = False, None, 0
        if not self.pending:
            self.answer.pieces = []

    def close(self, text: str) -> None:
        """Give every pending call `text` as its result, so that the history is valid."""
        for call in list(self.pending):
            if call.id not in self.results:
                failed = not self.tools.has_succeeded(call.id)
                self.add_result(call.id, self.tools.text_of(call.id, text), failed=failed)

    # -- going out ----------------------------------------------------------------------------------

    def history(self, waiting: str = "") -> list[Message]:
        """Return the messages as `messages=` takes them; keep a system message only if one was given.

        Args:
            waiting: Text to use as the result of a call that has no result yet.
        """
        simple = not self.pending and self.own_prompt is None
        messages = self.messages if simple else self.full_history(waiting)
        return to_keep(messages, is_guarded=self.permissions.is_guarded)

    def full_history(self, waiting: str = "") -> list[Message]:
        """Return the messages as `history` does, but with `meta`, which holds the reasoning."""
        results = {call.id: self.tools.text_of(call.id, waiting) for call in self.pending} | self.results
        lead: list[HistoryMessage] = (
            [] if self.own_prompt is None else [{"role": "system", "content": self.own_prompt}]
        )
        known = [tool_message(c.id, results[c.id], failed=c.id in self.failed) for c in self.pending]
        return as_messages([*lead, *self.messages, *known])

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "messages": list(self.messages),
            "output": self.output,
            **self.answer.to_dict(),
            "results": dict(self.results),
            **({"media": dict(self.media)} if self.media else {}),
            **({"failed": list(self.failed)} if self.failed else {}),
            **({"rewritten": dict(self.rewritten)} if self.rewritten else {}),
            **{name: getattr(self, name).to_dict() for name in _LEDGERS},
            "auto_compact_tracking": {rung: dict(sums) for rung, sums in self.auto_compact_tracking.items()},
            "pending": [call.to_dict() for call in self.pending],
            **self.permissions.to_dict(),
            "held": [list(message) for message in self.held],
            "handed_to": list(self.handed_to),
            **({"failure": safe_str(self.failure)} if self.failure is not None else {}),
            "turn_count": self.turn_count,
            "pending_tool_summary": self.pending_tool_summary,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueryState:
        """Restore a state from what :meth:`to_dict` returned.

        Raises:
            ConfigError: The data is not a valid state.
        """
        try:
            state = cls(
                **{name: data[name] for name in _PLAIN if name in data or name not in _LATER},
                **{
                    n: kind.from_dict(data[n]) for n, kind in _LEDGERS.items() if n in data or n not in _LATER
                },
                messages=list(data["messages"]),
                output=data.get("output"),
                answer=AnswerDraft.from_dict(data),
                results=dict(data["results"]),
                media=dict(data.get("media", {})),
                failed=list(data.get("failed", ())),
                rewritten=dict(data.get("rewritten", {})),
                auto_compact_tracking={k: dict(v) for k, v in data["auto_compact_tracking"].items()},
                pending=[ToolCall.from_dict(call) for call in data["pending"]],
                permissions=PermissionLedger.from_dict(data),
                held=[Incoming(*message) for message in data["held"]],
                handed_to=list(data.get("handed_to", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_state(f"{type(error).__name__}: {error}") from error
        if wrong := mistyped(state, cls):
            raise _no_state(wrong)
        return state


def _no_state(wrong: str) -> ConfigError:
    return ConfigError(
        f"The data is not a saved state. Pass the unchanged result of QueryState.to_dict(). Problem: {wrong}"
    )


_LEDGERS |= {"usage": TokenUsage, "tools": ToolLedger}
# Fields whose values are already plain; the annotations compared here are strings.
_PLAIN = tuple(
    entry.name
    for entry in fields(QueryState)
    if entry.init and entry.type in ("str", "int", "bool", "str | None")
)
