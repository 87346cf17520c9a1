"""The chat-completions wire: bytes of a stream to JSON payloads, payloads to deltas. Pure: no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jiter import from_json

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta

DONE = b"[DONE]"
QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota", "billing", "insufficient balance")


class SSEDecoder:
    """Server-sent events from bytes that may be cut anywhere; lines may end in LF, CRLF or CR.

    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only ``data`` fields matter
    here; comments, ids and event names are dropped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in bytes; yield the payload of each event they complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if data.endswith(b"\r"):
            self._after_cr = True
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line:
                self._add_line(line)
            elif self._data:
                yield self._take()

    def flush(self) -> Iterator[bytes]:
        """Yield a last event that was not closed by an empty line."""
        if self._rest:
            self._add_line(self._rest)
            self._rest = b""
        if self._data:
            yield self._take()

    def _add_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])

    def _take(self) -> bytes:
        payload = b"\n".join(self._data)
        self._data.clear()
        return payload


def parse_json(payload: bytes) -> Mapping[str, Any]:
    """Parse one payload.

    Raises:
        LLMError: It is not a JSON object (``incomplete``: a retry may bring a whole one).
    """
    try:
        value = from_json(payload)
    except ValueError:
        value = _parse_slowly(payload)
    if not isinstance(value, dict):
        raise LLMError(
            f"The server sent something that is no JSON object: {_preview(payload)}", kind="incomplete"
        )
    return value


def _parse_slowly(payload: bytes) -> Any:
    """What the fast parser refuses: lone surrogates, raw control characters."""
    try:
        return json.loads(payload.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise LLMError(
            f"The server sent broken JSON: {_preview(payload)}", error, kind="incomplete"
        ) from error


def _preview(payload: bytes) -> str:
    return payload[:120].decode("utf-8", "replace")


def parse_chunk(data: Mapping[str, Any]) -> Delta:
    """Read a chunk of a stream, or a whole completion, which has the same shape.

    Raises:
        LLMError: It carries an error object.
    """
    error = data.get("error")
    if error:
        raise error_from_body(error)
    usage = TokenUsage.from_openai(data.get("usage"))
    choices = data.get("choices")
    if not choices:
        return Delta(usage=usage)
    choice = choices[0]
    message = choice.get("delta") or choice.get("message") or {}
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    return Delta(
        _text(message.get("content")),
        _text(message.get("reasoning_content") or message.get("reasoning")),
        _call_parts(calls) if calls else (_legacy_part(legacy) if legacy else ()),
        choice.get("finish_reason"),
        usage,
    )


def _text(content: Any) -> str:
    """Content is text, nothing, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return ""


def _call_parts(calls: Any) -> tuple[ToolCallDelta, ...]:
    if isinstance(calls, dict):
        calls = [calls]
    return tuple(_call_part(call) for call in calls if isinstance(call, dict))


def _call_part(call: Mapping[str, Any]) -> ToolCallDelta:
    function = call.get("function") or call
    index = call.get("index")
    return ToolCallDelta(
        index if isinstance(index, int) else None,
        _str_or_none(call.get("id")),
        _str_or_none(function.get("name")),
        function.get("arguments"),
    )


def _legacy_part(call: Mapping[str, Any]) -> tuple[ToolCallDelta, ...]:
    return (ToolCallDelta(0, None, _str_or_none(call.get("name")), call.get("arguments")),)


def _str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def error_from_body(error: Any) -> LLMError:
    """An error object that came where an answer was expected (status 200, or inside a stream)."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    message = str(fields.get("message") or error)
    code = fields.get("code") or fields.get("status") or fields.get("type")
    status = int(str(code)) if str(code).isdigit() else None
    kind = classify(status, message, str(code or ""))
    return LLMError(f"The server reported an error: {message}", kind=kind, status=status)


def classify(status: int | None, message: str, code: str = "") -> ErrorKind:
    """What kind of trouble an HTTP status and a message mean."""
    words = f"{code} {message}".lower()
    if any(word in words for word in QUOTA_WORDS):
        return "quota"
    if status is None:
        return _classify_words(words)
    if status == 429:
        return "rate_limit"
    if status in (408, 409) or status >= 500:
        return "overloaded"
    kinds: dict[int, ErrorKind] = {401: "auth", 403: "auth", 404: "not_found", 402: "quota"}
    return kinds.get(status, "bad_request")


def _classify_words(words: str) -> ErrorKind:
    if "rate" in words and "limit" in words:
        return "rate_limit"
    if any(word in words for word in ("overload", "server_error", "internal", "unavailable", "timeout")):
        return "overloaded"
    return "unknown"
