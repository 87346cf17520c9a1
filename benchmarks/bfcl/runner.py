"""Runner: asks a model the questions concurrently, and checks each answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bfcl.checker import Checker, CheckResult
from benchmarks.bfcl.questions import LeaderboardQuestion
from benchmarks.bfcl.results import REQUEST_FAILED, QuestionResult
from pure_agent_loop.errors import LLMError
from pure_agent_loop.evaluation.runner import FailureStreak, in_parallel
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.retry import RetryConfig, RetryHandler
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.text import to_jsonable


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of a run.

    Args:
        client: The model.
        checker: Checks the answers.
        run: Model and settings; written into each record.
        options: Options of each request.
        concurrency: Number of concurrent questions.
        retry: Retry settings of failed requests.
        clock: Source of time.
    """

    client: ChatModel
    checker: Checker
    run: str
    options: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0})
    concurrency: int = 1
    retry: RetryConfig = field(default_factory=lambda: RetryConfig(max_retries=2))
    clock: Clock = field(default_factory=SystemClock)


async def evaluate(
    setup: Setup, questions: Sequence[LeaderboardQuestion], on_record: Callable[[QuestionResult], None]
) -> None:
    """Ask all questions.

    Args:
        on_record: Called with each result as soon as it is known.

    Raises:
        LLMError: The next question would fail too: no access, no such model, no money, or the server
            could not be reached three times in a row.
    """
    patience = FailureStreak()

    async def work(question: LeaderboardQuestion) -> None:
        record, error = await _ask(setup, question)
        on_record(record)
        patience.note(error)

    await in_parallel(questions, work, setup.concurrency)


async def _ask(setup: Setup, question: LeaderboardQuestion) -> tuple[QuestionResult, LLMError | None]:
    clock, started = setup.clock, 0.0

    async def request() -> LLMResponse:
        nonlocal started
        started = clock.monotonic()  # the delay before a retry is not the model's time
        return await setup.client.chat(question.messages, question.tools or None, **setup.options)

    try:
        response = await RetryHandler(setup.retry, clock).execute(request)
    except LLMError as error:
        seconds = clock.monotonic() - started
        return _failed(setup.run, question, error, seconds), error
    seconds = clock.monotonic() - started
    verdict = setup.checker.check(question, response.tool_calls)
    return _answered(setup.run, question, response, verdict, seconds), None


def _failed(run: str, question: LeaderboardQuestion, error: LLMError, seconds: float) -> QuestionResult:
    return QuestionResult(
        id=question.id,
        set=question.set.name,
        run=run,
        messages=question.messages,
        error_type=f"{REQUEST_FAILED}{error.kind}",
        error=str(error),
        seconds=seconds,
    )


def _answered(
    run: str, question: LeaderboardQuestion, response: LLMResponse, verdict: CheckResult, seconds: float
) -> QuestionResult:
    return QuestionResult(
        id=question.id,
        set=question.set.name,
        run=run,
        messages=question.messages,
        calls=[_call(call) for call in response.tool_calls],
        text=response.content,
        right=verdict.right,
        error_type=verdict.kind,
        error=verdict.detail,
        seconds=seconds,
        finish_reason=response.finish_reason,
        requests=requests_of(response),
        usage=None if response.usage is None else response.usage.to_dict(),
    )


def _call(call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = {"name": call.name, "arguments": to_jsonable(call.arguments)}
    return data if call.invalid is None else {**data, "invalid": call.invalid}


def requests_of(response: LLMResponse) -> int | None:
    """Return the number of requests for an answer, if the client reports it: ``raw["requests"]``."""
    count = response.raw.get("requests") if isinstance(response.raw, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None
