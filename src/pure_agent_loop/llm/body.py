"""Response bodies: decodes bytes to deltas, for event streams and JSON documents. Pure: no I/O."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.extra import CALL_FIELDS, FUNCTION_FIELDS
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage, ToolCallDelta, get
from pure_agent_loop.llm.wire import (
    BOM,
    CLOSED,
    OtherChoices,
    SSEDecoder,
    all_choices,
    announces_calls,
    choice_index,
    first_choice,
    parse_chunk,
    parse_completion,
    parse_json,
)

DONE = b"[DONE]"
_WHITE = b" \t\r\n"


class BodyReader:
    """Reads deltas from a response body: a stream of events, or one JSON document.

    Servers may ignore ``stream`` or send a wrong content type, so the first bytes decide.
    """

    def __init__(self, content_type: str = "") -> None:
        self.is_done = False  # the response is complete; ignore the rest
        self._labelled_html = "html" in content_type.lower()
        self._kind = ""  # "events" or "document", once detected
        self._document: list[bytes] = []
        self._decoder = SSEDecoder()
        self._has_finished = self._has_written = False
        self._choice: int | None = None  # index of the choice that is read, if a server sends several
        self._others: OtherChoices | None = None
        self._has_text = self._has_calls = False
        self._reason = ""

    def feed(self, data: bytes) -> Iterable[Delta]:
        """Add bytes; return the deltas they complete. Neighbours without visible text are merged.

        Raises:
            LLMError: The bytes cannot be read, or report a failed request.
        """
        if not self._kind:
            data = data.lstrip(_WHITE + BOM)  # leading white space may come in pieces
            self._kind = self._detect_kind(data)
        if self._kind == "document":
            self._document.append(data)
        elif self._kind and not self.is_done:
            return self._read(self._decoder.feed(data))
        return ()

    def close(self) -> Iterable[Delta]:
        """Return the buffered deltas at the end of the body. Raises what `feed` raises."""
        if self._kind == "document":
            data = parse_json(b"".join(self._document))
            return (parse_completion(data)._replace(raw=data),)
        return () if self.is_done else itertools.chain(self._read(self._decoder.flush()), self._last())

    def _detect_kind(self, data: bytes) -> str:
        first = data[:1]
        if first == b"<" or (self._labelled_html and first and first not in b"{[:deir"):
            raise LLMError(
                "The server returned a web page instead of an API response. "
                "Check base_url; it usually ends in /v1.",
                kind="bad_request",
            )
        if first in (b"{", b"["):
            return "document"
        return "events" if first else ""

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        """Yield the deltas of events; merge neighbours without visible text."""
        held: Delta | None = None
        try:
            for delta in filter(None, map(self._event, payloads)):
                if held is None:
                    held = delta
                elif (both := _merged(held, delta)) is not None:
                    held = both
                else:
                    yield held
                    held = delta
        except LLMError:  # deliver the deltas before the unreadable event
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
        missing = NOTHING if self._others is None else self._missing(self._others)
        # [DONE] also ends responses without a finish reason.
        if (self._has_written or missing != NOTHING) and not self._has_finished:
            return missing._replace(finish_reason=CLOSED)
        return missing if missing != NOTHING else None

    def _missing(self, others: OtherChoices) -> Delta:
        """Return the parts of this response that came in other choices."""
        is_announced = announces_calls(self._reason)
        return others.missing(has_text=self._has_text, has_calls=self._has_calls, is_announced=is_announced)

    def _last(self) -> Iterator[Delta]:
        if self._others is not None and not self.is_done:
            yield self._missing(self._others)

    def _delta(self, data: Mapping[str, Any]) -> Delta:
        delta = None if self._choice else _usual(data)
        if delta is None:
            return self._unusual(data)
        if self._choice is None and (delta.text or choice_index(first_choice(data)) is not None):
            self._choice = 0
        if delta.text:
            self._has_written = self._has_text = True
        if delta.tool_calls:
            self._has_written = self._has_calls = True
        if delta.finish_reason is not None:
            self._has_finished, self._reason = True, delta.finish_reason
        return delta

    def _unusual(self, data: Mapping[str, Any]) -> Delta:
        delta = parse_chunk(data)
        choice, *others = all_choices(data) or [None]
        index = choice_index(choice)
        if index is not None:
            self._choice = index if self._choice is None else self._choice
            if index != self._choice:
                self._set_aside([choice, *others])
                return Delta(usage=delta.usage)
        self._set_aside(others)
        if self._has_written and _is_summary(choice):
            delta = delta._replace(text="", reasoning="", tool_calls=())
        self._has_finished = self._has_finished or delta.finish_reason is not None
        self._reason = delta.finish_reason or self._reason
        self._has_text = self._has_text or bool(delta.text)
        self._has_calls = self._has_calls or bool(delta.tool_calls)
        self._has_written = self._has_text or self._has_calls
        return delta

    def _set_aside(self, choices: list[Any]) -> None:
        for number, choice in enumerate(choices, 1):
            self._others = self._others or OtherChoices()
            self._others.add(choice, number)


def _usual(data: Mapping[str, Any]) -> Delta | None:
    """Read a chunk of the common form quickly, with the result of `parse_chunk`; None for any other chunk."""
    choices, raw_usage = data.get("choices"), data.get("usage")
    usage = TokenUsage.from_openai(raw_usage) if type(raw_usage) is dict else None
    if type(choices) is not list or data.get("error") or (raw_usage is not None and usage is None):
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
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or not function:
            return None
        for name in call:
            if name not in CALL_FIELDS:
                return None
        for name in function:
            if name not in FUNCTION_FIELDS:
                return None
        index, call_id, name = call.get("index"), call.get("id"), function.get("name")
        is_usual = (call_id is None or type(call_id) is str) and (name is None or type(name) is str)
        if type(index) is not int or not is_usual:
            return None
        parts.append(ToolCallDelta(index, call_id, name, function.get("arguments")))
    return tuple(parts)


def _merged(first: Delta, second: Delta) -> Delta | None:
    """Merge two deltas into one; None if they must stay apart."""
    if first == NOTHING:
        return second
    if first.text or first.reasoning or second.text or second.reasoning:
        return None
    for part in second.tool_calls:
        if first.tool_calls and part.index is None:  # its position decides which call it belongs to
            return None
    if (first.finish_reason and second.finish_reason) or (first.usage and second.usage):
        return None
    if first.extra and second.extra:
        return None
    return Delta(
        "",
        "",
        first.tool_calls + second.tool_calls,
        first.finish_reason or second.finish_reason,
        first.usage or second.usage,
        extra=first.extra or second.extra,
    )


def _is_summary(choice: Any) -> bool:
    """Return True for a chunk that repeats the whole response, as some servers send at the end."""
    return choice is not None and not get(choice, "delta") and bool(get(choice, "message"))
