"""Serving a quirk, and judging what a client made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import ServerFault
from pure_agent_loop.testing.quirks.model import EVENT_STREAM, Outcome, OutcomeCall, Quirk
from pure_agent_loop.testing.server import ScriptedServer

JSON = "application/json"
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class AsItIs(ServerFault):
    """An item for the script of a `ScriptedServer`: the body of a quirk, byte for byte.

    It comes chunked, so the server's ``rechunk`` cuts it; other labels than an event stream or JSON
    come in one piece.

    Args:
        quirk: The quirk.
    """

    quirk: Quirk
    ends_with_done: ClassVar[bool] = False

    async def play(self, out: Exchange) -> bool:
        """Send it, and end."""
        if self.quirk.content_type not in (EVENT_STREAM, JSON):
            await out.respond(200, self.quirk.body, self.quirk.content_type)
            return False
        out.streamed = self.quirk.content_type == EVENT_STREAM  # the label follows it
        await out.write(self.quirk.body)
        await out.end()
        return False


def serve(quirk: Quirk, *, rechunk: int | Sequence[int] | None = None, check: bool = True) -> ScriptedServer:
    """A server on loopback that answers every request with the body of a quirk.

    Args:
        quirk: The quirk.
        rechunk: Cut the body into pieces of so many bytes where a stream is asked for.
        check: Refuse requests that a strict server would refuse.

    Returns:
        The server, to be used in a ``with`` block; clients need its ``base_url``.

    Example:
        with serve(quirk) as server:
            client = OpenAIClient("m", api_key="k", base_url=server.base_url)
    """
    return ScriptedServer(handler=lambda _: AsItIs(quirk), rechunk=rechunk, check=check)


def check(
    quirk: Quirk, result: LLMResponse | Outcome | BaseException, *, ignore: Collection[str] = ()
) -> list[str]:
    """What is wrong with what a client made of a quirk.

    Args:
        quirk: The quirk.
        result: The answer, or the error that was raised. An error is told by its attribute ``kind``;
            clients with other errors can be judged by an `LLMError` of the kind that fits.
        ignore: Fields of `Expected` that the client does not have, for instance ``("reasoning",)``.

    Returns:
        The differences, in words; empty if the client is right.
    """
    expected = quirk.expected
    if isinstance(result, BaseException):
        return _check_error(expected.error, result)
    outcome = _as_outcome(result) if isinstance(result, LLMResponse) else result
    if expected.error is not None:
        return [f"an error of kind {expected.error!r} was due, but an answer came: {_short(outcome)}"]
    return [words for field, words in _differences(quirk, outcome) if field not in ignore]


def _check_error(kind: str | None, error: BaseException) -> list[str]:
    if kind is None:
        return [f"an answer was due, but {type(error).__name__} was raised: {_short(str(error))}"]
    found = getattr(error, "kind", None)
    if found == kind:
        return []
    raised = f"{type(error).__name__}: {_short(str(error))}"
    return [f"an error of kind {kind!r} was due, but it was {found!r} ({raised})"]


def _as_outcome(response: LLMResponse) -> Outcome:
    calls = tuple(
        OutcomeCall(call.id, call.name, call.arguments if call.invalid is None else None)
        for call in response.tool_calls
    )
    return Outcome(
        response.content, response.reasoning_content, calls, response.finish_reason, response.usage
    )


def _differences(quirk: Quirk, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The fields that differ, each with what to say about it."""
    expected = quirk.expected
    for field in ("text", "reasoning"):
        wanted, found = getattr(expected, field), getattr(outcome, field) or ""
        if found.strip() != wanted.strip():
            yield field, f"{field}: {_short(wanted)} was due, but it is {_short(found)}"
    if outcome.finish_reason != expected.finish_reason:
        yield (
            "finish_reason",
            f"finish_reason: {expected.finish_reason!r} was due, but it is {outcome.finish_reason!r}",
        )
    if not _same_usage(expected.usage, outcome.usage):
        yield "usage", f"usage: {expected.usage} was due, but it is {outcome.usage}"
    for words in _check_calls(expected.calls, outcome.calls):
        yield "calls", words


def _same_usage(wanted: TokenUsage | None, found: TokenUsage | None) -> bool:
    if wanted is None:
        return found is None or found.estimated
    if found is None or found.estimated:
        return False
    return (wanted.prompt_tokens, wanted.completion_tokens) == (found.prompt_tokens, found.completion_tokens)


def _check_calls(
    wanted: Sequence[tuple[str, Mapping[str, Any] | None]], found: Sequence[OutcomeCall]
) -> Iterator[str]:
    if len(wanted) != len(found):
        yield f"calls: {len(wanted)} due, but there are {len(found)}: {_short(found)}"
        return
    for number, ((name, arguments), call) in enumerate(zip(wanted, found, strict=True), 1):
        if call.name != name:
            yield f"call {number}: the name {name!r} was due, but it is {_short(call.name)}"
        if call.arguments != arguments:
            due, found_words = _args_words(arguments), _args_words(call.arguments)
            yield f"call {number}: {due} were due, but they are {found_words}"
    ids = [call.id for call in found]
    if not all(ids):
        yield f"calls: an id is missing: {ids}"
    if len(set(ids)) < len(ids):
        yield f"calls: an id is used twice: {ids}"


def _args_words(arguments: Mapping[str, Any] | None) -> str:
    return "unusable arguments" if arguments is None else f"the arguments {_short(dict(arguments))}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
