"""The body of an answer: bytes to deltas, whether it is a stream of events or one document. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.sse import BOM, SSEDecoder
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage, ToolCallDelta, get
from pure_agent_loop.llm.wire import (
    CLOSED,
    choice_index,
    first_choice,
    parse_chunk,
    parse_completion,
    parse_json,
)

DONE = b"[DONE]"
_WHITE = b" \t\r\n"


class BodyReader:
    """Deltas from the body of an answer: a stream of events, or one JSON document, whichever it is.

    Servers are not always asked for what they send, nor do they always label it rightly; so the first
    bytes decide.

    Args:
        content_type: As the server labelled it.
    """

    def __init__(self, content_type: str = "") -> None:
        self.is_done = False  # nothing that follows belongs to the answer
        self._labelled_html = "html" in content_type.lower()
        self._kind = ""  # "events" or "document", once it is known
        self._document: list[bytes] = []
        self._decoder = SSEDecoder()
        self._has_finished = self._has_written = False
        self._choice: int | None = None  # the answer that is read, where a server sends several

    def feed(self, data: bytes) -> Iterable[Delta]:
        """Take in bytes; the deltas they complete. Those between which nothing is shown are one.

        Raises:
            LLMError: They cannot be read, or say that the request failed.
        """
        if not self._kind:
            data = data.lstrip(_WHITE + BOM)  # may come in pieces, and means nothing
            self._kind = self._look_at(data)
        if self._kind == "document":
            self._document.append(data)
        elif self._kind and not self.is_done:
            return self._read(self._decoder.feed(data))
        return ()

    def close(self) -> Iterable[Delta]:
        """What was held back, once the body has ended. Raises what `feed` raises."""
        if self._kind == "document":
            data = parse_json(b"".join(self._document))
            return (parse_completion(data)._replace(raw=data),)
        return () if self.is_done else self._read(self._decoder.flush())

    def _look_at(self, data: bytes) -> str:
        first = data[:1]
        if first == b"<" or (self._labelled_html and first and first not in b"{[:deir"):
            raise LLMError(
                "The server answered with a web page instead of an API answer. "
                "Check base_url; it usually ends in /v1.",
                kind="bad_request",
            )
        if first in (b"{", b"["):
            return "document"
        return "events" if first else ""

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        """The deltas of events, where neighbours that show nothing are one."""
        held: Delta | None = None
        try:
            for delta in filter(None, map(self._event, payloads)):
                if held is None:
                    held = delta
                elif (both := _both(held, delta)) is not None:
                    held = both
                else:
                    yield held
                    held = delta
        except LLMError:  # what came before something that cannot be read has come
            if held is not None:
                yield held
            raise
        if held is not None:
            yield held

    def _event(self, payload: bytes) -> Delta | None:
        text = payload if payload[:1] == b"{" else payload.strip()
        if self.is_done or not text:
            return None
        if text != DONE:
            return self._delta(parse_json(text))
        self.is_done = True
        # It is a finish signal too, for servers that send no finish reason with their answer.
        return Delta(finish_reason=CLOSED) if self._has_written and not self._has_finished else None

    def _delta(self, data: Mapping[str, Any]) -> Delta:
        delta = None if self._choice else _usual(data)
        if delta is None:
            return self._unusual(data)
        if self._choice is None and (delta.text or choice_index(first_choice(data)) is not None):
            self._choice = 0
        if delta.text or delta.tool_calls:
            self._has_written = True
        if delta.finish_reason is not None:
            self._has_finished = True
        return delta

    def _unusual(self, data: Mapping[str, Any]) -> Delta:
        delta = parse_chunk(data)
        choice = first_choice(data)
        index = choice_index(choice)
        if index is not None:
            self._choice = index if self._choice is None else self._choice
            if index != self._choice:
                return Delta(usage=delta.usage)
        if self._has_written and _is_summary(choice):
            delta = delta._replace(text="", reasoning="", tool_calls=())
        self._has_finished = self._has_finished or delta.finish_reason is not None
        self._has_written = self._has_written or bool(delta.text or delta.tool_calls)
        return delta


def _usual(data: Mapping[str, Any]) -> Delta | None:
    """A chunk of the form that nearly all have, read quickly; None for another, also for one that is wrong.

    It says the same as `parse_chunk`.
    """
    choices, found = data.get("choices"), data.get("usage")
    usage = TokenUsage.from_openai(found) if type(found) is dict else None
    if type(choices) is not list or data.get("error") or (found is not None and usage is None):
        return None
    if not choices:
        return Delta(usage=usage) if usage and "message" not in data and "detail" not in data else None
    choice = choices[0] if len(choices) == 1 else None
    return _usual_choice(choice, usage) if type(choice) is dict else None


def _usual_choice(choice: dict[str, Any], usage: TokenUsage | None) -> Delta | None:
    delta = reason = None
    for name, value in choice.items():
        if name == "delta":
            delta = value
        elif name == "finish_reason":
            reason = value
        elif value and name != "logprobs":  # an index that is not 0, or something unknown
            return None
    is_word = type(reason) is str and reason not in ("", "null")
    if type(delta) is not dict or not (is_word or reason is None):
        return None
    return _usual_delta(delta, reason, usage)


def _usual_delta(delta: dict[str, Any], reason: str | None, usage: TokenUsage | None) -> Delta | None:
    text = calls = None
    for name, value in delta.items():
        if name == "content":
            text = value
        elif name == "tool_calls":
            calls = value
        elif value and name != "role":
            return None
    parts = _usual_parts(calls) if calls else ()
    if parts is None or not (text is None or type(text) is str):
        return None
    return Delta(text or "", "", parts, reason, usage) if text or parts or reason or usage else NOTHING


def _usual_parts(calls: Any) -> tuple[ToolCallDelta, ...] | None:
    if type(calls) is not list:
        return None
    parts: list[ToolCallDelta] = []
    for call in calls:
        about = call.get("function") if type(call) is dict else None
        if type(about) is not dict or not about:
            return None
        index, call_id, name = call.get("index"), call.get("id"), about.get("name")
        is_usual = (call_id is None or type(call_id) is str) and (name is None or type(name) is str)
        if type(index) is not int or not is_usual:
            return None
        parts.append(ToolCallDelta(index, call_id, name, about.get("arguments")))
    return tuple(parts)


def _both(first: Delta, second: Delta) -> Delta | None:
    """Two deltas as one that means the same; None if they must stay apart."""
    if first == NOTHING:
        return second
    if first.text or first.reasoning or second.text or second.reasoning:
        return None
    for each in second.tool_calls:
        if first.tool_calls and each.index is None:  # whose neighbours say what it belongs to
            return None
    if (first.finish_reason and second.finish_reason) or (first.usage and second.usage):
        return None
    return Delta(
        "",
        "",
        first.tool_calls + second.tool_calls,
        first.finish_reason or second.finish_reason,
        first.usage or second.usage,
    )


def _is_summary(choice: Any) -> bool:
    """True for a chunk that repeats the whole answer, as some servers send at the end of their stream."""
    return choice is not None and not get(choice, "delta") and bool(get(choice, "message"))
