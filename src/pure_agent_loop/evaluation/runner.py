"""Asks a model the questions, several at a time, and has each answer checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.evaluation.bfcl import Question
from pure_agent_loop.evaluation.checker import Checker, Verdict
from pure_agent_loop.evaluation.results import REQUEST_FAILED, Record
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.retry import RetryConfig, RetryHandler
from pure_agent_loop.support.clock import Clock, SystemClock
from pure_agent_loop.support.text import to_jsonable

T = TypeVar("T")

# The next question would fail in the same way.
HOPELESS: frozenset[ErrorKind] = frozenset({"auth", "not_found", "quota"})
LOST_AFTER = 3


@dataclass(frozen=True, slots=True)
class Setup:
    """How questions are asked.

    Args:
        client: The model.
        checker: Decides about the answers.
        run: Which model is asked, and how; written into each record.
        options: Options of each request.
        concurrency: How many questions are open at a time.
        retry: How failed requests are repeated.
        clock: Where time comes from.
    """

    client: ChatModel
    checker: Checker
    run: str
    options: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0})
    concurrency: int = 1
    retry: RetryConfig = field(default_factory=lambda: RetryConfig(max_retries=2))
    clock: Clock = field(default_factory=SystemClock)


async def evaluate(setup: Setup, questions: Sequence[Question], on_record: Callable[[Record], None]) -> None:
    """Ask all questions.

    Args:
        on_record: Called with each result as soon as it is known.

    Raises:
        LLMError: The next question would fail too: no access, no such model, no money, or the server
            could not be reached three times in a row.
    """
    patience = Patience()

    async def work(question: Question) -> None:
        record, error = await _ask(setup, question)
        on_record(record)
        patience.note(error)

    await in_parallel(questions, work, setup.concurrency)


class Patience:
    """Ends an evaluation in which the next request would fail as the last one did."""

    def __init__(self) -> None:
        self._lost = 0

    def note(self, error: LLMError | None) -> None:
        """Count a request that failed, or did not.

        Raises:
            LLMError: There is no use in going on.
        """
        self._lost = self._lost + 1 if error is not None and error.kind == "connection" else 0
        if error is not None and (error.kind in HOPELESS or self._lost >= LOST_AFTER):
            raise error


async def _ask(setup: Setup, question: Question) -> tuple[Record, LLMError | None]:
    clock, started = setup.clock, 0.0

    async def request() -> LLMResponse:
        nonlocal started
        started = clock.monotonic()  # waiting before a repetition is not the model's time
        return await setup.client.chat(question.messages, question.tools or None, **setup.options)

    try:
        response = await RetryHandler(setup.retry, clock).execute(request)
    except LLMError as error:
        seconds = clock.monotonic() - started
        return _failed(setup.run, question, error, seconds), error
    seconds = clock.monotonic() - started
    verdict = setup.checker.check(question, response.tool_calls)
    return _answered(setup.run, question, response, verdict, seconds), None


def _failed(run: str, question: Question, error: LLMError, seconds: float) -> Record:
    return Record(
        id=question.id,
        set=question.set.name,
        run=run,
        messages=question.messages,
        error_type=f"{REQUEST_FAILED}{error.kind}",
        error=str(error),
        seconds=seconds,
    )


def _answered(
    run: str, question: Question, response: LLMResponse, verdict: Verdict, seconds: float
) -> Record:
    return Record(
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
    """How many requests stand behind an answer, where a client says so: ``raw["requests"]``."""
    count = response.raw.get("requests") if isinstance(response.raw, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


async def in_parallel(items: Iterable[T], work: Callable[[T], Awaitable[None]], width: int) -> None:
    """Work on all items, `width` at a time, in their order. The first failure ends it."""
    left = iter(items)

    async def worker() -> None:
        for item in left:  # all workers take from the same iterator
            await work(item)

    tasks = [asyncio.ensure_future(worker()) for _ in range(width)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
