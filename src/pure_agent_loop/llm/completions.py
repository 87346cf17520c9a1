"""Convert response bodies of chat completions, streamed or whole, to deltas. Pure: no I/O.

Unreadable data raises `LLMError` and is never skipped: no part of a response may be lost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.bounds import check_size
from pure_agent_loop.llm.extra import CALL_FIELDS, FUNCTION_FIELDS, MESSAGE_FIELDS, extra_of, extra_of_call
from pure_agent_loop.llm.values import (
    CLOSED,
    NOTHING,
    Delta,
    JsonFields,
    JsonObject,
    TokenUsage,
    ToolCallDelta,
    get,
)
from pure_agent_loop.llm.wire import BOM, SSEDecoder, parse_json, unreadable, web_page

# -- bodies ----------------------------------------------------------------------------------------------

DONE = b"[DONE]"
TOKEN_OPTIONS = frozenset({"logprobs", "return_token_ids", "prompt_logprobs"})
_WHITE = b" \t\r\n"


class BodyReader:
    """Reads deltas from a response body: a stream of events, or one JSON document.

    Servers may ignore ``stream`` or send a wrong content type, so the first bytes decide.

    Args:
        keeps_tokens: Whether the request has one of `TOKEN_OPTIONS`.
    """

    def __init__(self, content_type: str = "", *, keeps_tokens: bool = False) -> None:
        self._keeps_tokens = keeps_tokens
        self.is_done = False  # the response is complete; ignore the rest
        self._labelled_html = "html" in content_type.lower()
        self._kind = ""  # "events" or "document", once detected
        self._document = bytearray()
        self._decoder = SSEDecoder()
        self._choice: int | None = None  # index of the one choice to read; a server may send several
        self._others: OtherChoices | None = None
        self._has_text = self._has_calls = False
        self._reason = ""  # the newest finish reason

    def feed(self, data: bytes) -> Iterable[Delta]:
        """Add bytes; return the deltas they complete. Adjacent deltas without visible text are merged.

        Raises:
            LLMError: The bytes cannot be read, or report a failed request.
        """
        if not self._kind:
            data = data.lstrip(_WHITE + BOM)  # leading white space may arrive in pieces
            self._kind = self._detect_kind(data)
        if self._kind == "document":
            check_size(len(self._document) + len(data), "response")
            self._document += data
        elif self._kind and not self.is_done:
            payloads = self._decoder.feed(data)
            if not payloads or payloads[1:]:
                return self._read(payloads)
            return () if (delta := self._event(payloads[0])) is None else (delta,)
        return ()

    def close(self) -> Iterable[Delta]:
        """Return the buffered deltas at the end of the body. Raises the errors of `feed`."""
        if self._kind == "document":
            data = parse_json(bytes(self._document))
            return (self._asked_for(parse_completion(data))._replace(raw=data),)
        return () if self.is_done else itertools.chain(self._read(self._decoder.flush()), self._last())

    def _detect_kind(self, data: bytes) -> str:
        first = data[:1]
        if first == b"<" or (self._labelled_html and first and first not in b"{[:deir"):
            raise web_page()
        if first in (b"{", b"["):
            return "document"
        return "events" if first else ""

    def _read(self, payloads: Iterable[bytes]) -> Iterator[Delta]:
        """Yield the deltas of events; merge adjacent deltas without visible text."""
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
        except LLMError:  # first deliver what preceded the unreadable event
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
        if (self._has_text or self._has_calls or missing != NOTHING) and not self._reason:
            return missing._replace(finish_reason=CLOSED)
        return missing if missing != NOTHING else None

    def _missing(self, others: OtherChoices) -> Delta:
        """Return the parts of this response that the server sent in other choices."""
        is_announced = announces_calls(self._reason)
        return others.missing(has_text=self._has_text, has_calls=self._has_calls, is_announced=is_announced)

    def _last(self) -> Iterator[Delta]:
        if self._others is not None and not self.is_done:
            yield self._missing(self._others)

    def _asked_for(self, delta: Delta) -> Delta:
        return delta if self._keeps_tokens else delta._replace(token_details=None)

    def _delta(self, data: JsonFields) -> Delta:
        delta = None if self._choice or self._keeps_tokens else _usual(data)
        if delta is None:
            delta = self._asked_for(self._unusual(data))
        elif self._choice is None and (delta.text or choice_index(first_choice(data)) is not None):
            self._choice = 0
        if delta.text:
            self._has_text = True
        if delta.tool_calls:
            self._has_calls = True
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
        return delta

    def _unusual(self, data: JsonFields) -> Delta:
        delta = parse_chunk(data)
        choice, *others = all_choices(data) or [None]
        index = choice_index(choice)
        if index is not None:
            self._choice = index if self._choice is None else self._choice
            if index != self._choice:
                self._set_aside([choice, *others])
                return Delta(usage=delta.usage)
        self._set_aside(others)
        # Some servers repeat the whole response at the end.
        is_repetition = choice is not None and not get(choice, "delta") and bool(get(choice, "message"))
        if is_repetition and (self._has_text or self._has_calls):
            return delta._replace(text="", reasoning="", tool_calls=(), token_details=None)
        return delta

    def _set_aside(self, choices: list[Any]) -> None:
        for number, choice in enumerate(choices, 1):
            self._others = self._others or OtherChoices()
            self._others.add(choice, number)


# -- chunks of the common form, read quickly -------------------------------------------------------------


def _usual(data: JsonFields) -> Delta | None:
    """Read a chunk of the common form, faster than `parse_chunk`; None for any other chunk."""
    choices, raw_usage = data.get("choices"), data.get("usage")
    usage = TokenUsage.from_openai(raw_usage) if type(raw_usage) is dict else None
    if type(choices) is not list or "error" in data or (raw_usage is not None and usage is None):
        return None
    if not choices:
        return Delta(usage=usage) if usage and "message" not in data and "detail" not in data else None
    choice = choices[0] if len(choices) == 1 else None
    return _usual_choice(choice, usage) if type(choice) is dict else None


def _usual_choice(choice: JsonObject, usage: TokenUsage | None) -> Delta | None:
    # A choice with an index above 0, or with the answer outside `delta`, needs the slow path.
    if choice.get("index") or "delta" not in choice or "message" in choice or "usage" in choice:
        return None
    delta, reason = choice["delta"], choice.get("finish_reason")
    is_word = type(reason) is str and reason not in ("", "null")
    if type(delta) is not dict or not (is_word or reason is None):
        return None
    return _usual_delta(delta, reason, usage)


def _usual_delta(delta: JsonObject, reason: str | None, usage: TokenUsage | None) -> Delta | None:
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


def _usual_parts(calls: object) -> tuple[ToolCallDelta, ...] | None:
    if type(calls) is not list:
        return None
    parts: list[ToolCallDelta] = []
    for call in calls:
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or not function:
            return None
        if not (call.keys() <= CALL_FIELDS and function.keys() <= FUNCTION_FIELDS):
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
    # The position of a part without an index decides which call it extends.
    if first.tool_calls and None in [part.index for part in second.tool_calls]:
        return None
    if (first.finish_reason and second.finish_reason) or (first.usage and second.usage):
        return None
    if (first.extra and second.extra) or (first.token_details and second.token_details):
        return None
    return Delta(
        "",
        "",
        first.tool_calls + second.tool_calls,
        first.finish_reason or second.finish_reason,
        first.usage or second.usage,
        extra=first.extra or second.extra,
        token_details=first.token_details or second.token_details,
    )


# -- chunks and completions of any form ------------------------------------------------------------------


def parse_chunk(data: object) -> Delta:
    """Read a chunk of a stream.

    Args:
        data: A dict or an SDK object.

    Raises:
        LLMError: The chunk carries an error object, or has an unknown shape.
    """
    return _parse_answer(data, ("delta", "message"))


def parse_completion(data: object) -> Delta:
    """Read a whole (not streamed) chat completion.

    A missing finish reason is accepted, but a finish reason of null means that the response is incomplete.

    Raises:
        LLMError: The completion has no choice, holds an error object, or has an unknown shape.
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
    )  # a whole completion has complete calls, so number them
    delta = delta._replace(tool_calls=calls)
    choice = first_choice(data)
    if choice is None:
        raise LLMError("The server's response has no choices.", kind="incomplete")
    named = "finish_reason" in choice if isinstance(choice, Mapping) else hasattr(choice, "finish_reason")
    if delta.finish_reason is None and (not named or get(choice, "finish_reason") is not None):
        return delta._replace(finish_reason=CLOSED)
    return delta


def _parse_answer(data: object, places: tuple[str, str]) -> Delta:
    error = _error_in(data)
    if error is not None:
        from pure_agent_loop.llm.failures import error_from_body  # loaded only after a failure

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
        usage or TokenUsage.from_openai(of("usage")),  # Moonshot puts the usage into the choice
        extra=extra_of(raw_message, MESSAGE_FIELDS),
        token_details=_token_details(choice, data),
    )


def _token_details(choice: object, data: object) -> JsonObject | None:
    """Return log-probabilities and token ids; vLLM puts those of the prompt next to the choices."""
    places = {"logprobs": choice, "token_ids": choice, "prompt_logprobs": data, "prompt_token_ids": data}
    details = {name: get(place, name) for name, place in places.items()}
    return {name: value for name, value in details.items() if isinstance(value, (dict, list))} or None


def announces_calls(reason: str | None) -> bool:
    """Return True if a finish reason announces calls."""
    return re.match("(tool|function)_(call|use)", (reason or "").lower()) is not None


def _getter(value: object) -> Callable[[str], Any]:
    """Return a function that reads fields of a value as `get` does."""
    return value.get if type(value) is dict else partial(get, value)


def _error_in(data: Any) -> Any:
    error = get(data, "error")
    if error and _is_json(error):
        return error
    bare = isinstance(data, Mapping) and not data.get("choices")
    # An unwrapped error object, as older vLLM and web frameworks send it.
    return data if bare and any(isinstance(data.get(key), str) for key in ("message", "detail")) else None


def first_choice(data: object) -> Any:
    """Return the choice with the lowest index in a chunk or a completion; None if there are no choices."""
    choices = get(data, "choices")
    if type(choices) is list and len(choices) == 1 and type(choices[0]) is dict:  # the usual case
        return choices[0]
    return next(iter(all_choices(data)), None)


def all_choices(data: object) -> list[Any]:
    """Return the choices in a chunk or a completion, sorted by index."""
    choices = get(data, "choices")
    if isinstance(choices, Mapping):
        choices = [choices]
    if isinstance(choices, (list, tuple)):
        objects = [_object(choice) for choice in choices if choice is not None]
        return sorted(objects, key=lambda choice: choice_index(choice) or 0)
    if choices and _is_json(choices):
        raise unreadable("choices that are not a list", choices)
    return []


class OtherChoices:
    """Collects unrequested choices after the first.

    Some servers spread one response over several choices: the text in one, each call in another. Anything
    else is an alternative response and is dropped.
    """

    def __init__(self) -> None:
        self._deltas: dict[int, list[Delta]] = {}

    def add(self, choice: object, number: int) -> None:
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


def choice_index(choice: object) -> int | None:
    """Return the index of a choice; None if it has none."""
    return _index(get(choice, "index"))


def _is_json(value: object) -> bool:
    return isinstance(value, (dict, list, tuple, str, int, float, Mapping))


def _object(value: object) -> Any:
    """Return an object; an empty one for a missing value."""
    if type(value) is dict:
        return value
    if not value and not isinstance(value, Mapping):
        return {}
    if _is_json(value) and not isinstance(value, Mapping):
        raise unreadable("a response of unknown shape", value)
    return value


def _content(content: object) -> tuple[str, str]:
    """Return the (text, reasoning) of a message's content, which may be a string, None or parts."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    parts = [content] if isinstance(content, Mapping) else content
    if not isinstance(parts, (list, tuple)):
        if parts and _is_json(parts):
            raise unreadable("content of unknown shape", parts)
        return "", ""
    split = [_content_part(part) for part in parts]
    return "".join(text for text, _ in split), "".join(thinking for _, thinking in split)


def _content_part(part: object) -> tuple[str, str]:
    if isinstance(part, str):
        return part, ""
    thinking = get(part, "thinking")  # a string, or parts, as Mistral sends it
    if thinking:
        return "", _content(thinking)[0]
    text = get(part, "text")
    return (text, "") if isinstance(text, str) else ("", "")


def _finish_reason(value: object) -> str | None:
    """Return the finish reason; None for the empty string or "null" that some servers send in each chunk."""
    return value if isinstance(value, str) and value not in ("", "null") else None


def _call_parts(calls: object) -> tuple[ToolCallDelta, ...]:
    if not calls:
        return ()
    if isinstance(calls, Mapping):
        calls = [calls]
    if isinstance(calls, (list, tuple)):
        return tuple(_call_part(call) for call in map(_object, calls) if call)
    if calls and _is_json(calls):
        raise unreadable("tool calls that are not a list", calls)
    return ()


def _call_part(call: object) -> ToolCallDelta:
    field = _getter(call)
    function = field("function")
    if isinstance(function, str):
        function = {"name": function, "arguments": field("arguments")}
    function_field = _getter(_object(function or call))
    name, arguments = _word(function_field("name")), function_field("arguments")
    return ToolCallDelta(_index(field("index")), _word(field("id")), name, arguments, extra_of_call(call))


def _legacy_part(call: object) -> tuple[ToolCallDelta, ...]:
    if not call or not (_is_json(call) or get(call, "name")):
        return ()
    call = _object(call)
    return (ToolCallDelta(0, None, _word(get(call, "name")), get(call, "arguments")),)


def _index(value: object) -> int | None:
    if type(value) is int or value is None:
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: object) -> str | None:
    """Return a name or an id as a string; some servers send numbers."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return value if isinstance(value, str) else None
