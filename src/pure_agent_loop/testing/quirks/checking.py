"""Serve a quirk, and check a client's result."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from pure_agent_loop.errors import ErrorKind
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.testing.completions import Writing
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import ServerFault
from pure_agent_loop.testing.protocols.gemini import GeminiServer
from pure_agent_loop.testing.protocols.messages import MessagesServer
from pure_agent_loop.testing.protocols.responses import ResponsesServer
from pure_agent_loop.testing.server import ScriptedServer

# -- types: a quirk, its expected result, and a client's outcome -----------------------------------------

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
_SHOWN = 120
_SERVERS: dict[str, type[ScriptedServer]] = {
    "chat": ScriptedServer,
    "messages": MessagesServer,
    "responses": ResponsesServer,
    "gemini": GeminiServer,
}
HEAD: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WHOLE: dict[str, Any] = {**HEAD, "object": "chat.completion"}
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
TOKENS = TokenUsage(11, 7, 18)
ROLE: dict[str, Any] = {"role": "assistant", "content": ""}
FIVE = '{"a": 2, "b": 3}'
NINE = '{"a": 4, "b": 5}'
ADD_FIVE = ("add", {"a": 2, "b": 3})
ADD_NINE = ("add", {"a": 4, "b": 5})
STOP: dict[str, Any] = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
CALLS: dict[str, Any] = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected result of a body.

    Args:
        text: The answer; white space around it does not count.
        reasoning: The reasoning, compared in the same way.
        calls: The calls in order, as (name, arguments). None instead of arguments means that they are
            unusable: the call must be marked as such, and the tool must not run.
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``content_filter``, whichever word the server
            used.
        usage: The tokens that the server reported; None if it reported none, and a client may estimate them.
        error: Kind of the error that the client must raise; None for no error. The other fields are then
            ignored.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | None], ...] = ()
    finish_reason: str = "stop"
    usage: TokenUsage | None = None
    error: ErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Quirk:
    """Answer as a real server sends it.

    Args:
        name: Short and unique.
        why: Servers that send it, or the failure it causes.
        body: All bytes of the HTTP body.
        expected: The expected result.
        content_type: As the server labels it.
        status: The HTTP status.
        protocol: ``chat`` completions, ``messages``, ``responses`` or ``gemini``.
    """

    name: str
    why: str
    body: bytes
    expected: Expected
    content_type: str = EVENT_STREAM
    status: int = 200
    protocol: str = "chat"


class OutcomeCall(NamedTuple):
    """One call of an `Outcome`.

    Args:
        id: As the client will send it back with the result.
        name: The tool.
        arguments: The parsed arguments; None if the client marked them as unusable.
    """

    id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a client, for clients with other types than `LLMResponse`.

    Args:
        text: The answer.
        reasoning: The thinking.
        calls: The calls, in order.
        finish_reason: One of the values listed at `Expected`.
        usage: The tokens; None if they are not known.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[OutcomeCall, ...] = ()
    finish_reason: str | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class RawBody(ServerFault):
    """Script item for a `ScriptedServer`: the body of a quirk, byte for byte.

    The body is sent in chunks of the server's ``rechunk``; a content type other than an event stream or JSON
    is sent in one piece.

    Args:
        quirk: The quirk.
    """

    quirk: Quirk
    ends_with_done: ClassVar[bool] = False

    async def play(self, out: Exchange) -> bool:
        """Send the body and end the answer."""
        if self.quirk.status != 200 or self.quirk.content_type not in (EVENT_STREAM, JSON):
            out.writing = Writing(0, "")  # which leaves the body of an error as it is
            await out.respond(self.quirk.status, self.quirk.body, self.quirk.content_type)
            return False
        out.streamed = self.quirk.content_type == EVENT_STREAM  # the content type follows it
        await out.write(self.quirk.body)
        await out.end()
        return False


def serve(quirk: Quirk, *, rechunk: int | Sequence[int] | None = None, check: bool = True) -> ScriptedServer:
    """Return a loopback server of the quirk's protocol that answers every request with its body.

    Args:
        quirk: The quirk.
        rechunk: Size in bytes of the body's pieces, if the request asks for a stream.
        check: Reject requests that a strict server would reject.

    Returns:
        The server, to be used in a ``with`` block; clients need its ``base_url``.

    Example:
        with serve(quirk) as server:
            client = OpenAIClient("m", api_key="k", base_url=server.base_url)
    """
    server = _SERVERS[quirk.protocol]
    return server(handler=lambda _: RawBody(quirk), rechunk=rechunk, check=check)


def check(
    quirk: Quirk, result: LLMResponse | Outcome | BaseException, *, ignore: Collection[str] = ()
) -> list[str]:
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
    outcome = _as_outcome(result) if isinstance(result, LLMResponse) else result
    if expected.error is not None:
        return [f"expected an error of kind {expected.error!r}, got an answer: {_short(outcome)}"]
    return [difference for field, difference in _differences(quirk, outcome) if field not in ignore]


def _check_error(kind: str | None, error: BaseException) -> list[str]:
    if kind is None:
        return [f"expected an answer, got {type(error).__name__}: {_short(str(error))}"]
    actual = getattr(error, "kind", None)
    if actual == kind:
        return []
    raised = f"{type(error).__name__}: {_short(str(error))}"
    return [f"expected an error of kind {kind!r}, got {actual!r} ({raised})"]


def _as_outcome(response: LLMResponse) -> Outcome:
    calls = tuple(
        OutcomeCall(call.id, call.name, call.arguments if call.invalid is None else None)
        for call in response.tool_calls
    )
    return Outcome(
        response.content, response.reasoning_content, calls, response.finish_reason, response.usage
    )


def _differences(quirk: Quirk, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the fields that differ, each with its message."""
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


# -- helpers that write the bodies of quirks -------------------------------------------------------------


def event(payload: Any) -> bytes:
    """Return one server-sent event; bytes are unchanged."""
    return b"data: " + (payload if isinstance(payload, bytes) else json.dumps(payload).encode()) + b"\n\n"


def stream(*payloads: Any, done: bool = True) -> bytes:
    """Return a stream of events, with a final ``[DONE]`` if `done`."""
    return b"".join(map(event, payloads)) + (DONE if done else b"")


def called(*payloads: Any) -> bytes:
    """Return a stream with the finish reason of calls."""
    return stream(*payloads, CALLS)


def stopped(*payloads: Any) -> bytes:
    """Return a stream with the finish reason of a text answer."""
    return stream(*payloads, STOP)


def choose(finish: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk whose only choice has these fields."""
    return {**HEAD, "choices": [{"index": 0, "finish_reason": finish, **fields}]}


def say(text: Any, finish: Any = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk with text and other delta fields."""
    return choose(finish, delta={"content": text, **delta})


def think(text: str, field: str = "reasoning_content") -> dict[str, Any]:
    """Return a chunk with reasoning."""
    return choose(delta={field: text})


def part(arguments: Any = None, name: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a fragment of a call; None fields are omitted, the index too unless passed."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    kind = {"type": "function"} if name else {}
    return {**fields, **kind, "function": function}


def calling(*parts: dict[str, Any], finish: Any = None) -> dict[str, Any]:
    """Return a chunk with fragments of calls."""
    return choose(finish, delta={"tool_calls": list(parts)})


def whole(message: dict[str, Any], finish: Any = "stop", **more: Any) -> bytes:
    """Return a whole answer, not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({**WHOLE, "choices": [choice], **more}).encode()


def text(answer: str, reasoning: str = "", usage: TokenUsage | None = None) -> Expected:
    """Return an `Expected` with text."""
    return Expected(answer, reasoning, usage=usage)


def calls(*made: Any, said: str = "", reasoning: str = "", usage: TokenUsage | None = None) -> Expected:
    """Return an `Expected` with calls."""
    return Expected(said, reasoning, made, "tool_calls", usage)
