"""Chat-completions parser: response JSON to deltas, and the classification of errors. Pure: no I/O.

Unreadable data raises `LLMError` and is never skipped: no part of a response may get lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from jiter import from_json

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.arguments import keep_doubles
from pure_agent_loop.llm.extra import MESSAGE_FIELDS, extra_of, extra_of_call
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta, get
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import safe_str, shorten

# -- server-sent events: decodes bytes to event payloads. Pure: no I/O -----------------------------------

BOM = b"\xef\xbb\xbf"


class SSEDecoder:
    """Decodes server-sent events from bytes cut anywhere; lines end in LF, CRLF or CR.

    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only ``data`` fields are kept;
    comments, ids and event names are dropped.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an incomplete event
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the payloads of the events they complete."""
        payloads: list[bytes] = []
        for event in self._events(data):
            payload = event[6:]
            # The usual case. On bytes, `in` costs several times as much as `find`.
            if event[:6] == b"data: " and payload.find(b"\n") < 0:
                self._at_start = False
                payloads.append(payload)
            else:
                payloads += self._payload(event)
        return payloads

    def _events(self, data: bytes) -> list[bytes]:
        """Return the events that are complete, with LF line endings."""
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if data.find(b"\r") >= 0:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not data:
            return []
        if self._rest:
            if (self._rest[-1][-1:] + data).find(b"\n\n") < 0:
                self._rest.append(data)
                return []
            data = b"".join([*self._rest, data])
        *events, rest = data.split(b"\n\n")
        self._rest = [rest] if rest else []
        return events

    def flush(self) -> list[bytes]:
        """Return the last event, if no empty line closed it."""
        rest, self._rest = b"".join(self._rest), []
        return self._payload(rest)

    def _payload(self, event: bytes) -> list[bytes]:
        """Return the payload of an event, if it has one."""
        lines: list[bytes] = []
        for line in filter(None, event.split(b"\n")):
            field, _, value = (line.removeprefix(BOM) if self._at_start else line).partition(b":")
            self._at_start = False
            if field == b"data":
                lines.append(value.removeprefix(b" "))
            elif field == b"error" and value:  # older llama.cpp servers name the field after the event
                lines.append(b'{"error":' + value + b"}")
        return [b"\n".join(lines)] if lines else []


CLOSED = "closed_without_reason"  # internal finish reason: the response is complete, but the server sent none
MESSAGE_CHARS = 500
_OBJECT_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*\{')
_QUOTA = lazy_pattern(
    r"insufficient[ _](quota|balance|credit|fund)|exceeded your current quota|billing[ _]hard[ _]limit"
    r"|credit balance is too low|quota[ _]exhausted"
)
# Errors for a request longer than the model's window, as opposed to a limit of tokens per minute.
_OVERFLOW = lazy_pattern(
    r"context[ _]length[ _]exceeded|exceed_context_size|model_max_prompt_tokens_exceeded|context window"
    r"|(?:maximum|available|model'?s?|than the) context (?:length|size)|maximum prompt length"
    r"|prompt is too long|input is too long|input length.{0,40}exceed|too large for model with \d+"
    r"|(?:input )?token count.{0,60}exceeds?|exceeded model token limit|prompt token count.{0,40}exceeds"
    r"|tokens to keep from the initial prompt|reduce the length of the (?:messages|prompt)"
    r"|too many (?:input )?tokens|prompt (?:is )?too long|request too large for model"
    r"|exceeds the limit of \d+ tokens"
)
_TRY_LATER = lazy_pattern(r"(try again|retry) in \d")  # sent with a rate limit, never with an empty account
_RATE = lazy_pattern(r"rate[ _-]?limit|too many requests|tokens per minute|requests per minute|throttl")
_BUSY = lazy_pattern(r"overload|server_error|internal|unavailable|time[ d-]*out|busy|capacity|try again")


def parse_json(payload: bytes) -> Mapping[str, Any]:
    """Parse one payload.

    Raises:
        LLMError: The payload is not a JSON object (``incomplete``, so the request is retried).
    """
    value = _parse(payload)
    if type(value) is dict:
        return value
    if isinstance(value, list) and len(value) == 1:  # as Google wraps its errors
        value = value[0]
    if not isinstance(value, dict):
        raise _unreadable("JSON that is not an object", payload)
    return value


def _parse(payload: bytes) -> Any:
    at = payload.find(b'"arguments"')
    may_double = at >= 0 and _OBJECT_ARGUMENTS.search(payload, at)
    if not may_double:  # the fast parser keeps only the last of duplicate keys
        try:
            return from_json(payload)
        except ValueError:  # the fast parser refuses lone surrogates and raw control characters too
            pass
    text = payload.removeprefix(BOM).decode("utf-8", "replace")
    try:
        return json.loads(text, strict=False, object_pairs_hook=keep_doubles)
    except (ValueError, RecursionError) as error:
        raise _unreadable("invalid JSON", payload) from error


def _unreadable(what: str, data: Any) -> LLMError:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else safe_str(data)
    return LLMError(f"The server sent {what}: {shorten(text, 120)}", kind="incomplete")


def parse_chunk(data: Any) -> Delta:
    """Read a chunk of a stream.

    Args:
        data: A dict or an SDK object.

    Raises:
        LLMError: The chunk carries an error object, or has an unknown shape.
    """
    return _parse_answer(data, ("delta", "message"))


def parse_completion(data: Any) -> Delta:
    """Read a whole (not streamed) chat completion.

    A missing finish reason is accepted; a finish reason of null means an incomplete response.

    Raises:
        LLMError: The completion holds no choice, an error object, or an unknown shape.
    """
    delta = _parse_answer(data, ("message", "delta"))
    if len(choices := all_choices(data)) > 1:
        others = OtherChoices()
        for number, other in enumerate(choices[1:], 1):
            others.add(other, number)
        missing = others.missing(
            has_text=bool(delta.text.strip()),
            has_calls=bool(delta.tool_calls),
            is_announced=announces_calls(delta.finish_reason),
        )
        delta = delta._replace(
            text=delta.text + missing.text, tool_calls=delta.tool_calls + missing.tool_calls
        )
    calls = tuple(
        replace(part, index=number) for number, part in enumerate(delta.tool_calls)
    )  # each is whole
    delta = delta._replace(tool_calls=calls)
    choice = first_choice(data)
    if choice is None:
        raise LLMError("The server's response has no choices.", kind="incomplete")
    named = "finish_reason" in choice if isinstance(choice, Mapping) else hasattr(choice, "finish_reason")
    if delta.finish_reason is None and (not named or get(choice, "finish_reason") is not None):
        return delta._replace(finish_reason=CLOSED)
    return delta


def _parse_answer(data: Any, places: tuple[str, str]) -> Delta:
    error = _error_in(data)
    if error is not None:
        raise error_from_body(error)
    choice = first_choice(data)
    raw_usage = get(data, "usage")
    usage = None if raw_usage is None else TokenUsage.from_openai(raw_usage)
    if choice is None:
        return Delta(usage=usage)
    of = _getter(choice)
    raw_message = _object(of(places[0]) or of(places[1]))
    message = _getter(raw_message)
    text, thinking = _content(message("content"))
    reasoning, _ = _content(message("reasoning_content") or message("reasoning"))
    calls = _call_parts(message("tool_calls")) or _legacy_part(message("function_call"))
    return Delta(
        text or _content(message("refusal"))[0],
        thinking + reasoning,
        calls,
        _finish_reason(of("finish_reason")),
        usage or TokenUsage.from_openai(of("usage")),  # Moonshot puts it there
        extra=extra_of(raw_message, MESSAGE_FIELDS),
    )


def announces_calls(reason: str | None) -> bool:
    """Return True if a finish reason announces calls."""
    return re.match("(tool|function)_(call|use)", (reason or "").lower()) is not None


def _getter(value: Any) -> Callable[[str], Any]:
    """Return a function that gets fields of a value, as `get` does."""
    return value.get if type(value) is dict else partial(get, value)


def _error_in(data: Any) -> Any:
    error = get(data, "error")
    if error and _is_json(error):
        return error
    bare = isinstance(data, Mapping) and not data.get("choices")
    # An unwrapped error object, as older vLLM and web frameworks send it.
    return data if bare and any(isinstance(data.get(key), str) for key in ("message", "detail")) else None


def first_choice(data: Any) -> Any:
    """Return the choice with the lowest index of a chunk or a completion; None without choices."""
    choices = get(data, "choices")
    if type(choices) is list and len(choices) == 1 and type(choices[0]) is dict:  # the usual case
        return choices[0]
    return next(iter(all_choices(data)), None)


def all_choices(data: Any) -> list[Any]:
    """Return the choices of a chunk or a completion, sorted by index."""
    choices = get(data, "choices")
    if isinstance(choices, Mapping):
        choices = [choices]
    if isinstance(choices, (list, tuple)):
        objects = [_object(choice) for choice in choices if choice is not None]
        return sorted(objects, key=lambda choice: choice_index(choice) or 0)
    if choices and _is_json(choices):
        raise _unreadable("choices that are not a list", choices)
    return []


class OtherChoices:
    """Collects unrequested choices after the first.

    Some servers spread one response over several choices: the text in one, each call in another. Anything
    else is an alternative response and is dropped.
    """

    def __init__(self) -> None:
        self._deltas: dict[int, list[Delta]] = {}

    def add(self, choice: Any, number: int) -> None:
        """Add a choice; `number` identifies it if it has no index."""
        index = choice_index(choice)
        delta = parse_chunk({"choices": [choice]})
        self._deltas.setdefault(number if index is None else index, []).append(delta)

    def missing(self, *, has_text: bool, has_calls: bool, is_announced: bool) -> Delta:
        """Return the text and calls that the first choice lacks.

        Args:
            has_text: The first choice has text.
            has_calls: The first choice has calls.
            is_announced: The finish reason of the first choice announces calls.
        """
        if has_calls:
            return Delta()
        parts: list[ToolCallDelta] = []
        text = ""
        for index, deltas in sorted(self._deltas.items()):
            written = "".join(delta.text for delta in deltas)
            if not written.strip() or (is_announced and not parts):
                calls = [part for delta in deltas for part in delta.tool_calls]
                parts += [replace(part, index=1000 * (index + 1) + (part.index or 0)) for part in calls]
            text = text or written
        return Delta("" if has_text else text, "", tuple(parts))


def choice_index(choice: Any) -> int | None:
    """Return the index of a choice; None if it has none."""
    return _index(get(choice, "index"))


def _is_json(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, str, int, float, Mapping))


def _object(value: Any) -> Any:
    """Return an object; an empty one for a missing value."""
    if type(value) is dict:
        return value
    if not value and not isinstance(value, Mapping):
        return {}
    if _is_json(value) and not isinstance(value, Mapping):
        raise _unreadable("a response of unknown shape", value)
    return value


def _content(content: Any) -> tuple[str, str]:
    """Return (text, reasoning) of a content: a string, None or parts."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    parts = [content] if isinstance(content, Mapping) else content
    if not isinstance(parts, (list, tuple)):
        if parts and _is_json(parts):
            raise _unreadable("content of unknown shape", parts)
        return "", ""
    split = [_content_part(part) for part in parts]
    return "".join(text for text, _ in split), "".join(thinking for _, thinking in split)


def _content_part(part: Any) -> tuple[str, str]:
    if isinstance(part, str):
        return part, ""
    thinking = get(part, "thinking")  # a string, or parts, as Mistral sends it
    if thinking:
        return "", _content(thinking)[0]
    text = get(part, "text")
    return (text, "") if isinstance(text, str) else ("", "")


def _finish_reason(value: Any) -> str | None:
    """Return the finish reason; None for the empty string or "null" that some servers send in each chunk."""
    return value if isinstance(value, str) and value not in ("", "null") else None


def _call_parts(calls: Any) -> tuple[ToolCallDelta, ...]:
    if not calls:
        return ()
    if isinstance(calls, Mapping):
        calls = [calls]
    if isinstance(calls, (list, tuple)):
        return tuple(_call_part(call) for call in map(_object, calls) if call)
    if calls and _is_json(calls):
        raise _unreadable("tool calls that are not a list", calls)
    return ()


def _call_part(call: Any) -> ToolCallDelta:
    field = _getter(call)
    function = field("function")
    if isinstance(function, str):
        function = {"name": function, "arguments": field("arguments")}
    function_field = _getter(_object(function or call))
    name, arguments = _word(function_field("name")), function_field("arguments")
    return ToolCallDelta(_index(field("index")), _word(field("id")), name, arguments, extra_of_call(call))


def _legacy_part(call: Any) -> tuple[ToolCallDelta, ...]:
    if not call or not (_is_json(call) or get(call, "name")):
        return ()
    call = _object(call)
    return (ToolCallDelta(0, None, _word(get(call, "name")), get(call, "arguments")),)


def _index(value: Any) -> int | None:
    if type(value) is int or value is None:
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    """Return a name or an id as text; some servers send numbers."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value if isinstance(value, str) else None


def error_from_body(error: Any) -> LLMError:
    """Convert an error object sent in place of a response (with status 200, or inside a stream)."""
    message, codes = read_error(error)
    status = next((int(code) for code in codes if re.fullmatch("[1-5][0-9][0-9]", code)), None)
    kind = classify(status, message, " ".join(codes))
    return LLMError(f"The server reported an error: {message}", kind=kind, status=status, said=message)


def read_error(error: Any) -> tuple[str, list[str]]:
    """Return the message and the codes of an error, in any form that servers use."""
    while isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    if not isinstance(error, Mapping):
        is_code = isinstance(error, int) and not isinstance(error, bool)
        return shorten(safe_str(error), MESSAGE_CHARS), [safe_str(error)[:100]] if is_code else []
    message = safe_str(error.get("message") or error.get("detail") or error)
    field = error.get("param")
    if isinstance(field, str) and field and field not in message:
        message = f"{message} (field: {field[:100]})"
    codes = [safe_str(error[key])[:100] for key in ("code", "status", "type") if error.get(key)]
    return shorten(message, MESSAGE_CHARS), codes


def classify(status: int | None, message: str, code: str = "") -> ErrorKind:
    """Classify an error by its HTTP status and message."""
    words = f"{code} {message}".lower()
    if (status is None or 400 <= status < 500) and _QUOTA.search(words) and not _TRY_LATER.search(words):
        return "quota"
    if status != 429 and _OVERFLOW.search(words) and not _RATE.search(words):
        return "context_overflow"
    if status is None or status < 400:
        return _classify_words(words)
    if status == 429:
        return "rate_limit"
    if status == 413:
        return "context_overflow"
    if status in (408, 409, 425) or status >= 500:
        return "overloaded"
    kinds: dict[int, ErrorKind] = {401: "auth", 403: "auth", 404: "not_found", 402: "quota"}
    return kinds.get(status, "bad_request")


def _classify_words(words: str) -> ErrorKind:
    if _RATE.search(words):
        return "rate_limit"
    return "overloaded" if _BUSY.search(words) else "unknown"
