"""Check of a client's result: the differences from the expected result of a quirk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from llm_client_conformance.quirks.quirk import Outcome, OutcomeCall, Quirk
from llm_client_conformance.values import TokenUsage

_SHOWN = 120


def check(quirk: Quirk, result: Outcome | BaseException, *, ignore: Collection[str] = ()) -> list[str]:
    """Return the differences between a client's result and the expected one.

    Args:
        quirk: The quirk.
        result: The answer, or the error that was raised. An error is identified by its attribute ``kind``;
            for a client with other errors, pass an `LLMError` of the matching kind.
        ignore: Fields of `Expected` that the client does not have, for instance ``("reasoning",)``.

    Returns:
        One sentence for each difference; empty if there is none.
    """
    expected = quirk.expected
    if isinstance(result, BaseException):
        return _check_error(expected.error, result)
    if expected.error is not None:
        return [f"expected an error of kind {expected.error!r}, got an answer: {_short(result)}"]
    return [difference for field, difference in _differences(quirk, result) if field not in ignore]


def _check_error(kind: str | None, error: BaseException) -> list[str]:
    if kind is None:
        return [f"expected an answer, got {type(error).__name__}: {_short(str(error))}"]
    actual = getattr(error, "kind", None)
    if actual == kind:
        return []
    raised = f"{type(error).__name__}: {_short(str(error))}"
    return [f"expected an error of kind {kind!r}, got {actual!r} ({raised})"]


def _differences(quirk: Quirk, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ, each with a message."""
    expected = quirk.expected
    for field in ("text", "reasoning"):
        wanted, actual = getattr(expected, field), getattr(outcome, field) or ""
        if actual.strip() != wanted.strip():
            yield field, f"{field}: expected {_short(wanted)}, got {_short(actual)}"
    if outcome.finish_reason != expected.finish_reason:
        yield (
            "finish_reason",
            f"finish_reason: expected {expected.finish_reason!r}, got {outcome.finish_reason!r}",
        )
    if not _same_usage(expected.usage, outcome.usage):
        yield "usage", f"usage: expected {expected.usage}, got {outcome.usage}"
    for difference in _check_calls(expected.calls, outcome.calls):
        yield "calls", difference


def _same_usage(expected: TokenUsage | None, actual: TokenUsage | None) -> bool:
    if expected is None:
        return actual is None or actual.estimated
    if actual is None or actual.estimated:
        return False
    return (expected.prompt_tokens, expected.completion_tokens) == (
        actual.prompt_tokens,
        actual.completion_tokens,
    )


def _check_calls(
    expected: Sequence[tuple[str, Mapping[str, Any] | None]], actual: Sequence[OutcomeCall]
) -> Iterator[str]:
    if len(expected) != len(actual):
        yield f"calls: expected {len(expected)}, got {len(actual)}: {_short(actual)}"
        return
    for number, ((name, arguments), call) in enumerate(zip(expected, actual, strict=True), 1):
        if call.name != name:
            yield f"call {number}: expected the name {name!r}, got {_short(call.name)}"
        if call.arguments != arguments:
            expected_arguments, arguments_text = _args_words(arguments), _args_words(call.arguments)
            yield f"call {number}: expected {expected_arguments}, got {arguments_text}"
    ids = [call.id for call in actual]
    if not all(ids):
        yield f"calls: an id is missing: {ids}"
    if len(set(ids)) < len(ids):
        yield f"calls: an id is used twice: {ids}"


def _args_words(arguments: Mapping[str, Any] | None) -> str:
    return "unusable arguments" if arguments is None else f"the arguments {_short(dict(arguments))}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
