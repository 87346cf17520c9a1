"""The chat-completions wire: JSON of an answer to deltas, and what its errors mean. Pure: no I/O.

What cannot be read raises `LLMError` and is never skipped: a part of an answer must not get lost.
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
from pure_agent_loop.llm.sse import BOM
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta, get
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import safe_str, shorten

CLOSED = "closed_without_reason"  # a finish reason of ours: a proper end, but the server did not say why
MESSAGE_CHARS = 500
_OBJECT_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*\{')
_QUOTA = lazy_pattern(
    r"insufficient[ _](quota|balance|credit|fund)|exceeded your current quota|billing[ _]hard[ _]limit"
    r"|credit balance is too low|quota[ _]exhausted"
)
# How servers say that a request is longer than the model's window; a limit of tokens a minute is none of it.
_OVERFLOW = lazy_pattern(
    r"context[ _]length[ _]exceeded|exceed_context_size|model_max_prompt_tokens_exceeded|context window"
    r"|(?:maximum|available|model'?s?|than the) context (?:length|size)|maximum prompt length"
    r"|prompt is too long|input is too long|input length.{0,40}exceed|too large for model with \d+"
    r"|(?:input )?token count.{0,60}exceeds?|exceeded model token limit|prompt token count.{0,40}exceeds"
    r"|tokens to keep from the initial prompt|reduce the length of the (?:messages|prompt)"
    r"|too many (?:input )?tokens|prompt (?:is )?too long|request too large for model"
    r"|exceeds the limit of \d+ tokens"
)
_TRY_LATER = lazy_pattern(r"(try again|retry) in \d")  # said with a throttle, never with an empty account
_RATE = lazy_pattern(r"rate[ _-]?limit|too many requests|tokens per minute|requests per minute|throttl")
_BUSY = lazy_pattern(r"overload|server_error|internal|unavailable|time[ d-]*out|busy|capacity|try again")


def parse_json(payload: bytes) -> Mapping[str, Any]:
    """Parse one payload.

    Raises:
        LLMError: It is not a JSON object (``incomplete``: a retry may bring a whole one).
    """
    value = _parse(payload)
    if type(value) is dict:
        return value
    if isinstance(value, list) and len(value) == 1:  # as Google wraps its errors
        value = value[0]
    if not isinstance(value, dict):
        raise _unreadable("something that is no JSON object", payload)
    return value


def _parse(payload: bytes) -> Any:
    at = payload.find(b'"arguments"')
    may_double = at >= 0 and _OBJECT_ARGUMENTS.search(payload, at)
    if not may_double:  # of a key given twice, the fast parser keeps the last
        try:
            return from_json(payload)
        except ValueError:  # the fast parser refuses lone surrogates and raw control characters too
            pass
    text = payload.removeprefix(BOM).decode("utf-8", "replace")
    try:
        return json.loads(text, strict=False, object_pairs_hook=keep_doubles)
    except (ValueError, RecursionError) as error:
        raise _unreadable("broken JSON", payload) from error


def _unreadable(what: str, got: Any) -> LLMError:
    text = got.decode("utf-8", "replace") if isinstance(got, bytes) else safe_str(got)
    return LLMError(f"The server sent {what}: {shorten(text, 120)}", kind="incomplete")


def parse_chunk(data: Any) -> Delta:
    """Read a chunk of a stream.

    Args:
        data: A dict or an SDK object.

    Raises:
        LLMError: It carries an error object, or has a shape that cannot be read.
    """
    return _parse_answer(data, ("delta", "message"))


def parse_completion(data: Any) -> Delta:
    """Read a whole (not streamed) chat completion.

    It ends where it ends, so it needs no finish reason; but one that is null says that it is not complete.

    Raises:
        LLMError: It holds no choice, an error object instead of one, or a shape that cannot be read.
    """
    delta = _parse_answer(data, ("message", "delta"))
    calls = tuple(
        replace(part, index=number) for number, part in enumerate(delta.tool_calls)
    )  # each is whole
    delta = delta._replace(tool_calls=calls)
    choice = first_choice(data)
    if choice is None:
        raise LLMError("The server answered without any choice.", kind="incomplete")
    named = "finish_reason" in choice if isinstance(choice, Mapping) else hasattr(choice, "finish_reason")
    if delta.finish_reason is None and (not named or get(choice, "finish_reason") is not None):
        return delta._replace(finish_reason=CLOSED)
    return delta


def _parse_answer(data: Any, places: tuple[str, str]) -> Delta:
    error = _error_in(data)
    if error is not None:
        raise error_from_body(error)
    choice = first_choice(data)
    found = get(data, "usage")
    usage = None if found is None else TokenUsage.from_openai(found)
    if choice is None:
        return Delta(usage=usage)
    of = _getter(choice)
    message = _getter(_object(of(places[0]) or of(places[1])))
    text, thinking = _content(message("content"))
    reasoning, _ = _content(message("reasoning_content") or message("reasoning"))
    calls = _call_parts(message("tool_calls")) or _legacy_part(message("function_call"))
    return Delta(
        text or _content(message("refusal"))[0],
        thinking + reasoning,
        calls,
        _finish_reason(of("finish_reason")),
        usage or TokenUsage.from_openai(of("usage")),  # Moonshot puts it there
    )


def _getter(value: Any) -> Callable[[str], Any]:
    """Gives the fields of a value, as `get` does."""
    return value.get if type(value) is dict else partial(get, value)


def _error_in(data: Any) -> Any:
    error = get(data, "error")
    if error and _is_json(error):
        return error
    bare = isinstance(data, Mapping) and not data.get("choices")
    # An error object that is not wrapped, as older vLLM and web frameworks send it.
    return data if bare and any(isinstance(data.get(key), str) for key in ("message", "detail")) else None


def first_choice(data: Any) -> Any:
    """The choice with the lowest index of a chunk or a completion, None if there is none."""
    choices = get(data, "choices")
    if type(choices) is list and len(choices) == 1 and type(choices[0]) is dict:  # nearly always
        return choices[0]
    if isinstance(choices, Mapping):
        choices = [choices]
    if isinstance(choices, (list, tuple)):
        found = [_object(choice) for choice in choices if choice is not None]
        return min(found, key=lambda choice: choice_index(choice) or 0, default=None)
    if choices and _is_json(choices):
        raise _unreadable("choices that are no list", choices)
    return None


def choice_index(choice: Any) -> int | None:
    """Which of several answers a choice belongs to, None where it does not say."""
    return _index(get(choice, "index"))


def _is_json(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, str, int, float, Mapping))


def _object(value: Any) -> Any:
    """An object, or an empty one for nothing."""
    if type(value) is dict:
        return value
    if not value and not isinstance(value, Mapping):
        return {}
    if _is_json(value) and not isinstance(value, Mapping):
        raise _unreadable("an answer of unknown shape", value)
    return value


def _content(content: Any) -> tuple[str, str]:
    """Content is text, nothing, or parts; returns (text, thinking)."""
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
    thinking = get(part, "thinking")  # text, or again parts, as Mistral sends it
    if thinking:
        return "", _content(thinking)[0]
    text = get(part, "text")
    return (text, "") if isinstance(text, str) else ("", "")


def _finish_reason(value: Any) -> str | None:
    """A reason, but not the empty text or the word null that some servers send with every chunk."""
    return value if isinstance(value, str) and value not in ("", "null") else None


def _call_parts(calls: Any) -> tuple[ToolCallDelta, ...]:
    if not calls:
        return ()
    if isinstance(calls, Mapping):
        calls = [calls]
    if isinstance(calls, (list, tuple)):
        return tuple(_call_part(call) for call in map(_object, calls) if call)
    if calls and _is_json(calls):
        raise _unreadable("tool calls that are no list", calls)
    return ()


def _call_part(call: Any) -> ToolCallDelta:
    of = _getter(call)
    function = of("function")
    if isinstance(function, str):
        function = {"name": function, "arguments": of("arguments")}
    about = _getter(_object(function or call))
    return ToolCallDelta(_index(of("index")), _word(of("id")), _word(about("name")), about("arguments"))


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
    """A name or an id; some servers number their calls."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value if isinstance(value, str) else None


def error_from_body(error: Any) -> LLMError:
    """An error object that came where an answer was expected (status 200, or inside a stream)."""
    message, codes = read_error(error)
    status = next((int(code) for code in codes if re.fullmatch("[1-5][0-9][0-9]", code)), None)
    kind = classify(status, message, " ".join(codes))
    return LLMError(f"The server reported an error: {message}", kind=kind, status=status, said=message)


def read_error(error: Any) -> tuple[str, list[str]]:
    """The message and the codes of an error, in whatever form servers give it."""
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
    """What kind of trouble an HTTP status and a message mean."""
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
