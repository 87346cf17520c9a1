"""Learn from refusals: one 400 response leads to one change in later requests. Pure: no I/O.

A change is made only if the refusal names something that the request has, and the change removes or replaces
it. So the same error never causes a second change, and an unrelated error is reported unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any, NoReturn

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import (
    DATA_KEYWORDS,
    LEAST_ROOM,
    LIMIT_FIELDS,
    NAMED_SCHEMAS,
    TOKEN_LIMITS,
    fits_id,
)
from pure_agent_loop.llm.extra import not_of_protocol
from pure_agent_loop.llm.failures import read_error
from pure_agent_loop.llm.messages import Message, is_media, mark_of, newest_question
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.property_names import PLAIN_NAME, fits, names_in
from pure_agent_loop.llm.values import JsonFields
from pure_agent_loop.media import MEDIA_KINDS

if TYPE_CHECKING:
    _Rule = Callable[[Profile, JsonFields, str], "Lesson | None"]
    _Row = tuple[re.Pattern[str], Callable[[JsonFields, str], object], dict[str, Any], str]

_KINDS = ("bad_request", "overloaded", "unknown")  # overloaded: llama.cpp reports template errors as 500
_REFUSED = re.compile(
    r"not support|unsupported|n't support|unrecogni[sz]ed|unknown|unexpected|extra (?:inputs|fields)"
    r"|not permitted|not allowed|not accepted|not enabled|not available|cannot find field|does not exist"
    r"|only the default|deprecated|cannot both|(?:invalid|illegal) (?:parameter|argument|field|request arg)",
    re.I,
)
# Fields that every request needs, or that `tool_mode` handles.
_NEEDED = frozenset({
    "model", "messages", "tools", "stream", "response_format", "stop", "input", "contents", "system",
    "instructions", "systemInstruction", "anthropic_version", "format", "responseJsonSchema",
})  # fmt: skip
# JSON Schema keywords that no tool schema can do without.
_DESCRIBING = frozenset({"type", "properties", "items", "required", "enum", "description"})
_SCHEMA_WORDS = re.compile(r"schema|parameters|properties|tools?\b|function|payload|keyword", re.I)
_MODEL_GONE = re.compile(
    r"not ?found|n[o']t exist|no longer|invalid model|not a valid model|deprecat|decommission|retired"
    r"|shut ?down|sunset|discontinued|removed|unknown model|not available|unavailable",
    re.I,
)
_WANTS_REASONING = re.compile(
    r"(?:missing|must|require\w*|provide|include|pass\w* back)\b.{0,80}\b(reasoning_content|reasoning)\b"
    r"|\b(reasoning_content|reasoning)\b.{0,80}(?:missing|required|must be|passed back)",
    re.I | re.S,
)
_REASONING_REFUSED = re.compile(
    r"\b(?:reasoning_content|reasoning)\b.{0,120}(?:unsupported|not support|not permitted|not allowed"
    r"|extra inputs|remove|unexpected|unknown)"
    r"|(?:remove|unsupported|unexpected|unknown)\b.{0,60}\breasoning_content\b",
    re.I | re.S,
)
_SYSTEM_REFUSED = re.compile(
    r"(?:system|developer) (?:role|message|prompt|instruction)s?.{0,30}\b(?:not|unsupported)\b"
    r"|(?:unexpected|unknown|unsupported|invalid)\b.{0,40}\b(?:system|developer)\b"
    r"|role.{0,30}\b(?:system|developer)\b.{0,40}\bnot\b|not support.{0,20}\b(?:system|developer)\b"
    r"|['\"`](?:system|developer)['\"`] is not|input should be ['\"`]system",
    re.I | re.S,
)
_TURNS = re.compile(
    r"roles? must alternate|alternat\w+.{0,40}\b(?:roles?|user)\b|consecutive .{0,20}user", re.I
)
_USER_AFTER_TOOL = re.compile(r"unexpected role ['\"`]?user['\"`]? after role ['\"`]?tool", re.I)
_SINGLE_CALLS = re.compile(
    r"only supports? (?:a )?single tool[- ]?calls?|multiple tool[_ -]?calls?.{0,30}\bnot\b"
    r"|one tool[_ -]?call at a time",
    re.I,
)
_CALL_ID = (
    r"(?:call_?id|tool_?use_?id|\btool[_ ]?(?:calls?|use)\b.{0,200}?\bids?\b"
    r"|function_?(?:call|response)\W{0,3}id\b)"
)
_ID_LENGTH = re.compile(rf"{_CALL_ID}.{{0,200}}?length (?:of )?(\d{{1,3}})\b", re.I | re.S)
_ID_FORM = re.compile(
    rf"{_CALL_ID}.{{0,200}}?(?:max\w*|at most|longer than|exceed\w*|too long|pattern|character|letter)",
    re.I | re.S,
)
_ID_CHARACTERS = 40  # maximum id length that every server with such a limit accepts
_CONTENT_NEEDED = re.compile(
    r"\bcontent\b.{0,80}(?:\bnull\b|\bnone\b|required|valid string|must be a string|expected a string)"
    r"|(?:\bnull\b|\bnone\b|missing field|invalid type).{0,60}\bcontent\b",
    re.I | re.S,
)
_MEDIA_WORDS = {
    "image": r"image|vision|multi-?modal|mmproj",
    "file": r"\bfiles?\b|pdf|document",
    "audio": r"audio|sound",
}
_TEXT_ONLY = re.compile(
    r"(?:expected|must be|should be|only) [`'\"]?(?:text|a? ?string)\b|not a multi-?modal|only supported by",
    re.I,
)
_ANY_MEDIA_WORDS = re.compile("|".join([*_MEDIA_WORDS.values(), *MEDIA_KINDS.values()]), re.I)
_TOO_MUCH_MEDIA = re.compile(
    r"too (?:many|much|large|big)|many-image|exceed|maxim|at most|up to|(?:larger|more) than|limit|pixels"
    r"|bytes|\bMB\b",
    re.I,
)
# Words for signed or encrypted data. Only the server that made such data can read it, and it may no longer
# accept the data.
_SIGNED = re.compile(
    r"signature|encrypted|thought|redacted_thinking|(?:thinking|reasoning)['\"`]* (?:blocks?|items?)|\brs_\w"
    r"|\bitem\b.{0,80}(?:not found|without its)",
    re.I | re.S,
)
_OUTPUT_LIMIT = re.compile(
    r"max(?:imum)?[ _]?(?:completion|output|new)?[ _]?tokens|(?:output|completion) tokens|completion\)", re.I
)
_NUMBER = re.compile(r"(?<![\w.-])(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w-]|\.\d)")
_BELOW = re.compile(r"(?:(?:less|lower|smaller) than|below|[^<]<)[ '\"`]*\Z", re.I)
_WINDOW = re.compile(r"context|window|prompt|input", re.I)
# Matches the size of a context window, as opposed to the prompt in "limit: 190000 + 64000 > 200000".
_NAMED_WINDOW = re.compile(
    r"\b(?:maximum|context|window|limit)\b\D{0,40}?(\d{1,3}(?:,\d{3})+|\d+)(?![\w,]|\s*\+)", re.I
)
_LEAST_ANSWER = 16  # tokens; the smallest output limit that OpenAI accepts
_NAMES_PROPERTIES = re.compile(
    r"propert(?:y|ies)\b.{0,40}\b(?:key|name)|(?:key|name)s?\b.{0,40}\bpropert|parameter names?", re.I | re.S
)
_NAME_RULE = re.compile(
    r"match|pattern|invalid|must|only|alphanumeric|character|too long|length|not allowed", re.I
)
# This pattern matches in linear time.
_NAMED_PATTERN = re.compile(r"\^?(\[(?:[^\[\]\\]|\\.)+\]\{\d*,\d+\})\$?")
_STREAM_NEEDED = re.compile(
    r"only supports? stream|enable the stream|stream\w* (?:mode )?is required"
    r"|must be set to false for non-stream"
    r"|(?:must|please) (?:use|be|set) stream",
    re.I,
)
_NO_STREAM = re.compile(
    r"stream\w* (?:mode )?(?:is )?not (?:supported|allowed|available|enabled)"
    r"|not support (?:the )?['\"`]?stream"
    r"|verified to stream|unsupported\b.{0,20}['\"`]stream['\"`]",
    re.I,
)
_DESCRIPTION_LIMIT = re.compile(
    r"description.{0,200}?(?:max\w*|at most|longer than|exceed\w*|limit\w*)\D{0,60}?(\d{2,6})", re.I | re.S
)
_TOOL_INDEX = re.compile(
    r"\btools['\"]?[\[.,/: ]{1,3}(\d+)(?:[\]./]{1,2}function_?declarations[\[./]{1,2}(\d+))?", re.I
)
_IN_MESSAGES = re.compile(r"\bmessages?\b|\brole\b|tool_calls", re.I)
_EXCLUDING = re.compile(r"cannot both|mutually exclusive", re.I)
# Words before a list of alternatives; the server has not rejected the fields in such a list.
_INSTEAD = re.compile(
    r"\b(?:expected|must be|should be|use|choose) (?:exactly )?one of\b"
    r"|\b(?:supported|allowed|valid|available|accepted) (?:parameters|fields|arguments|values|options)\b",
    re.I,
)
# Words for a value out of range. The caller has to correct it, unless the server allows only the default.
_RANGE = re.compile(
    r"too (?:large|small|long|high|low|many)|\b(?:above|below|between|range|exceeds?|at most|at least"
    r"|less than|greater than|higher than|lower than)\b",
    re.I,
)
_BEFORE = (
    r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected|unpermitted|illegal|invalid|extra|deprecated)"
    r"(?: (?:request|body|top[- ]level|keyword|query|input|json))*"
    r" (?:parameters?|arguments?|fields?|property|properties|names?|keys?|options?|inputs?|members?)"
    r"(?: supplied| provided| found| in body)?"
    r"|not support(?:ed|s)?(?: (?:the|a|this|any))?(?: (?:parameters?|arguments?|fields?|options?|setting))?"
    r"|(?:parameters?|arguments?|fields?|options?) (?:is |are )?not supported[^:.]{0,40}:"
    r"|extra_forbidden.{0,40}"
)
_AFTER = (
    r"(?: (?:parameter|argument|field|property|option|setting))?"
    r"(?:(?: is| are| was|,|:)? (?:not (?:currently |yet )?(?:supported|permitted|allowed|available|enabled)"
    r"|unsupported|unrecogni[sz]ed|unknown|unexpected|deprecated)(?! to\b)"
    r"|.{0,60}extra inputs|.{0,60}extra fields not permitted|(?: \w+){0,3} (?:does not|doesn't) exist"
    r"|.{0,20} not support .{0,60}only the default|.{0,30}\bcannot both\b)"
)
# Rows: error pattern, whether the request can have caused it, settings to change, and the change in words.
_MESSAGES: tuple[_Row, ...] = (
    (
        _TURNS,
        lambda *_: True,
        {"alternates": True},
        "consecutive messages of one role are joined",
    ),
    (
        _USER_AFTER_TOOL,
        lambda *_: True,
        {"user_after_tool": False},
        "an assistant message is put between a result and the next user message",
    ),
    (
        _SINGLE_CALLS,
        lambda body, _: any(len(message.get("tool_calls") or ()) > 1 for message in body["messages"]),
        {"parallel_calls": False},
        "each call is sent in a separate message",
    ),
    (
        _CONTENT_NEEDED,
        lambda body, _: any(message.get("content") is None for message in body["messages"]),
        {"null_content": False},
        "no message is sent without content",
    ),
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A change to the profile.

    Args:
        what: Description of the change for people.
    """

    profile: Profile
    what: str


def learn(
    profile: Profile,
    body: JsonFields,
    error: LLMError,
    chosen: Mapping[str, str] | None = None,
    *,
    is_chat: bool = True,
    marks: Collection[str] = (),
) -> Lesson | None:
    """Return the profile change that a refusal requires; None if the refusal names nothing to change.

    Args:
        body: The request. Its messages and tools are in the chat-completions shape, in any protocol.
        chosen: Fields that the caller set, which are never omitted, each mapped to advice for the error
            message.
        is_chat: Whether the request uses chat completions; if so, the rules for chat messages also apply.
        marks: Fields that the client itself adds to message parts.

    Raises:
        LLMError: The refusal names one of `chosen`.
    """
    chosen = chosen or {}
    if error.kind not in _KINDS:
        return None
    for rule in _CHAT_RULES if is_chat else _RULES:
        lesson = rule(profile, body, error.said)
        if lesson is not None and lesson.profile != profile:
            return lesson
    fields = list(body) if is_chat else [*marks, *settings_of(body)]
    lesson = _refused_field(profile, fields, error.said, chosen)
    if lesson is None and is_chat:
        lesson = _refused_in_messages(profile, body, error.said)
    if lesson is None:
        _refuse_choices(profile, fields, error, chosen)
    return lesson


def settings_of(fields: JsonFields, above: str = "") -> Iterator[str]:
    """Yield the paths of the optional fields, such as ``thinking`` and ``thinking.display``."""
    for name, value in fields.items():
        if name not in _NEEDED:
            yield f"{above}{name}"
            if isinstance(value, Mapping):
                yield from settings_of(value, f"{above}{name}.")


def is_gone(error: LLMError, model: str) -> bool:
    """Return True if an error means that the model does not exist, or no longer exists.

    Status 410 is enough; so is a 404 that names the model, or an error whose field is ``model``. For other
    errors, the text must say so, because a model may also be named for lacking a capability.
    """
    if error.status not in (400, 404):
        return error.status == 410
    body = getattr(error.original_error, "body", None)
    fields = body if isinstance(body, Mapping) else {}
    if fields.get("param"):
        return str(fields["param"]) == "model"
    words = " ".join([*read_error(body)[1], error.said]).replace("_", " ")
    is_named = re.search(rf"(?<![\w.-]){re.escape(model)}(?![\w-])", error.said) is not None
    is_about_it = is_named or re.search(r"model|deployment", words, re.I) is not None
    return (error.status == 404 and is_named) or (is_about_it and _MODEL_GONE.search(words) is not None)


def _refuse_choices(
    profile: Profile, fields: Iterable[str], error: LLMError, chosen: Mapping[str, str]
) -> None:
    named = _refused_names(profile, error.said, [n for n in fields if n in chosen and n not in _NEEDED])
    if named:
        reject(named, " ".join(dict.fromkeys(chosen[name] for name in named)), error)


def reject(named: Iterable[str], advice: str, error: LLMError) -> NoReturn:
    """Raise the error for caller settings that a server rejected."""
    raise LLMError(
        f"The server rejected {' and '.join(named)}, set by this program. {advice} "
        f"The server's error: {error.said}",
        error,
        kind="bad_request",
        status=error.status,
        said=error.said,
    ) from error


def smaller_limit(body: JsonFields, error: LLMError, own: str) -> tuple[int, int]:
    """Return the largest output limit that a refusal allows and the window that it names; 0 if unknown.

    If the refusal names a window, the limit is the room that this request's prompt leaves in it. Otherwise,
    it is the model's limit.

    Args:
        own: Name of the caller's setting, if the caller set the limit; else empty.

    Raises:
        LLMError: The caller set the limit too high.
    """
    sent = limit_of(body)
    said = error.said
    is_limit = _OUTPUT_LIMIT.search(said) is not None and "budget" not in said
    if sent is None or not is_limit or error.kind not in (*_KINDS, "context_overflow"):
        return 0, 0
    numbers = _numbers(said)
    limit = window = 0
    if _WINDOW.search(said):
        others = [number for number in numbers if number != sent]
        limit, window = _room_in_named_window(said, others, sent)
    if sent in numbers and _WINDOW.search(said) and not limit:
        # Exclude sums of prompt and limit, which are not windows.
        parts = [number for number in others if number - sent not in others]
        for pairs in (permutations(parts, 2), [(sent, number) for number in parts]):
            rooms = [(size - prompt, size) for size, prompt in pairs if prompt < size < prompt + sent]
            fitting = [room for room in rooms if LEAST_ROOM <= room[0] < sent]
            limit, window = (limit, window) if limit else max(fitting, default=(0, 0))
    if not limit and (sent in numbers or error.kind != "context_overflow"):
        limit = max((number for number in numbers if _LEAST_ANSWER <= number < sent), default=0)
    if own and error.kind == "context_overflow":
        return 0, 0
    if own and limit:
        reject([own], f"Set it to at most {limit}, or leave it out.", error)
    return limit, window


def _room_in_named_window(said: str, numbers: Sequence[int], sent: int) -> tuple[int, int]:
    """Return the room that a prompt leaves in a named window, and the window; 0 if the error names none.

    Args:
        numbers: Numbers of the error without `sent`: the window, the prompt or its parts, or the sum of
            prompt and output limit.
        sent: Output limit of the request.
    """
    named = [int(match[1].replace(",", "")) for match in _NAMED_WINDOW.finditer(said)]
    rooms = [
        (size - prompt, size)
        for size in named
        for prompt in [number - sent if number > max(size, sent) else number for number in numbers]
        if 0 < prompt < size and LEAST_ROOM <= size - prompt < sent
    ]
    return min(rooms, default=(0, 0))


def limit_of(body: JsonFields) -> int | None:
    """Return the output limit of a request in any protocol; None if it has none."""
    fields = {**(body.get("generationConfig") or {}), **body}
    return next((fields[name] for name in LIMIT_FIELDS if isinstance(fields.get(name), int)), None)


def _numbers(words: str) -> list[int]:
    """Return the numbers in an error; an exclusive bound, as in "less than 4096", is lowered by 1."""
    return [
        int(match[0].replace(",", ""))
        - bool(_BELOW.search(words[: match.start()]) or words[match.end() :].startswith(" (exclusive)"))
        for match in _NUMBER.finditer(words)
    ]


def is_about_signed(error: LLMError) -> bool:
    """Return True for a refusal that may be about signed or encrypted data in earlier responses."""
    is_field = _REFUSED.search(error.said) is not None  # True if the error rejects a field and not its value
    return error.kind in (*_KINDS, "not_found") and not is_field and _SIGNED.search(error.said) is not None


def _token_limit(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    for sent, wanted in (TOKEN_LIMITS, TOKEN_LIMITS[::-1]):
        if sent in body and _refuses(words, sent):
            if profile.output_limit_field == wanted or not (_names(words, wanted) or sent == TOKEN_LIMITS[1]):
                return None  # the server has refused both spellings
            return Lesson(
                replace(profile, output_limit_field=wanted), f"the output limit is sent as {wanted}"
            )
    return None


def _reasoning(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    sent = profile.reasoning_echo
    if sent and any(sent in message for message in body["messages"]) and _REASONING_REFUSED.search(words):
        return Lesson(replace(profile, reasoning_echo=""), "the model's reasoning is no longer sent back")
    wanted = _WANTS_REASONING.search(words)
    if wanted is None or _REASONING_REFUSED.search(words):
        return None
    if not any(message.get("role") == "assistant" for message in body["messages"]):
        return None
    if not sent:
        name = wanted[1] or wanted[2]
        what = f"the reasoning of tool calls is sent back as {name}"
        return Lesson(replace(profile, reasoning_echo=name), what)
    return Lesson(replace(profile, echo_scope="history"), f"all earlier reasoning is sent back as {sent}")


def _first_role(body: JsonFields) -> object:
    return body["messages"][0]["role"] if body["messages"] else ""


def _from_table(rows: Sequence[_Row], profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    for pattern, applies, changes, what in rows:
        if pattern.search(words) and applies(body, words):
            return Lesson(replace(profile, **changes), what)
    return None


def _ids(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    form, exact = _ID_FORM.search(words), _ID_LENGTH.search(words)
    if not ids or not (form or exact):
        return None
    if exact and "maximum length" not in words.lower():
        what = f"call ids are sent as {exact[1]} letters and digits"
        return Lesson(replace(profile, call_id_length=int(exact[1])), what)
    longest = max(map(len, ids))
    most = max((number for number in _numbers(words) if 8 <= number < longest), default=_ID_CHARACTERS)
    if all(fits_id(call_id, most) for call_id in ids):
        return None
    what = f"call ids are sent as at most {most} letters, digits, _ and -"
    return Lesson(replace(profile, call_id_limit=most), what)


def _property_names(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    names = names_in([body.get("tools"), body.get("response_format")])
    odd = [name for name in names if not fits(name, PLAIN_NAME)]
    if not _NAME_RULE.search(words) or not (
        _NAMES_PROPERTIES.search(words) or any(len(name) > 1 and name in words for name in odd)
    ):
        return None
    named = _NAMED_PATTERN.search(words)
    for pattern in [*([named[1]] if named else []), PLAIN_NAME]:
        if pattern != profile.property_names and not all(fits(name, pattern) for name in odd):
            what = "properties of tools whose names the server rejects are sent under other names"
            return Lesson(replace(profile, property_names=pattern), what)
    return None


def _media(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    """Learn which media from tools a server refuses; for the user's media, see `media_to_omit`."""
    contents = [m["content"] for m in body["messages"] if isinstance(m.get("content"), list)]
    sent = {part.get("type") for content in contents for part in content}
    takes = MEDIA_KINDS if profile.takes is None else profile.takes
    refused = [
        kind
        for kind, form in MEDIA_KINDS.items()
        if form in sent and kind in takes and re.search(rf"{_MEDIA_WORDS[kind]}|{form}", words, re.I)
    ]
    if not refused or not (_REFUSED.search(words) or _TEXT_ONLY.search(words)):
        return None
    accepted = tuple(kind for kind in takes if kind not in refused)
    what = f"{' and '.join(refused)} content from tools is described in words"
    return Lesson(replace(profile, takes=accepted), what)


def media_to_omit(messages: Sequence[Message], error: LLMError) -> list[frozenset[int]]:
    """Return the images and files to omit from a refused request, if they may be the cause.

    Media are a possible cause if the error mentions them, or if a bad request has no other known cause;
    without this rule, a session with a rejected picture in its history could not continue. Media of the
    newest question are never omitted. If there are too many media, or some are too large, the newest stay if
    possible.

    Args:
        messages: The history, without the media that are already omitted.
        error: The refusal.

    Returns:
        Sets of media to omit, as marks (see `mark_of`), in the order to try them.
    """
    is_size = error.status == 413 or _TOO_MUCH_MEDIA.search(error.said) is not None
    if error.kind not in (*_KINDS, "not_found") and error.status != 413:
        return []
    if not (error.kind == "bad_request" or error.status == 413 or _ANY_MEDIA_WORDS.search(error.said)):
        return []
    own = frozenset(_media_in([newest_question(messages) or {}]))
    every = _media_in(messages)
    if not every or (own and not is_size):
        return []
    newest = frozenset(next(filter(None, map(_media_in, ([m] for m in reversed(messages)))), ()))
    tries = [{*every} - newest, {*every[:-1]} - {every[-1]}, newest, every] if is_size else [every]
    omitted = (frozenset(marks) - own for marks in tries)
    return list(dict.fromkeys(filter(None, omitted)))


def _media_in(messages: Iterable[Message]) -> list[int]:
    parts = [part for m in messages if isinstance(m.get("content"), list) for part in m["content"]]
    return [mark_of(part) for part in parts if part["type"] in MEDIA_KINDS.values()]


def is_about_own_media(messages: Iterable[Message], error: LLMError) -> bool:
    """Return True if an error mentions images or files, and the user has sent some."""
    own = any(isinstance(message.get("content"), list) and not is_media(message) for message in messages)
    return own and _ANY_MEDIA_WORDS.search(error.said) is not None


def _schema(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    if not body.get("tools") or not _REFUSED.search(words) or not _SCHEMA_WORDS.search(words):
        return None
    schemas = [_function(tool).get("parameters") for tool in body["tools"]]
    used = dict.fromkeys(word for schema in schemas for word in _keywords(schema))
    refused = [word for word in used if word not in _DESCRIBING and _names(words, word)]
    if not refused:
        return None
    without = (*profile.schema_without, *(word for word in refused if word not in profile.schema_without))
    what = f"tool schemas are sent without {', '.join(refused)}"
    return Lesson(replace(profile, schema_without=without), what)


def _keywords(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield key
            is_named = key in NAMED_SCHEMAS and isinstance(value, Mapping)
            for inner in value.values() if is_named else () if key in DATA_KEYWORDS else [value]:
                yield from _keywords(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _keywords(inner)


def _description(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    limit = _DESCRIPTION_LIMIT.search(words)
    lengths = [len(_function(tool).get("description") or "") for tool in body.get("tools") or ()]
    if limit is None or not any(length > int(limit[1]) for length in lengths):
        return None
    what = f"tool descriptions are cut at {limit[1]} characters"
    return Lesson(replace(profile, description_limit=int(limit[1])), what)


def _function(tool: object) -> JsonFields:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return function if isinstance(function, Mapping) else {}


def refused_tool(tools: Sequence[JsonFields], error: LLMError) -> int | None:
    """Return the index of the only tool that a rejection names; None if it names none or several.

    Args:
        error: The rejection, with the tool's index or name in its text.
    """
    if error.kind not in ("bad_request", "unknown"):
        return None
    place = _TOOL_INDEX.search(error.said)
    if place is not None:
        index = int(place[2] or place[1])
        return index if index < len(tools) else None
    if re.search(r"\b(?:messages|tool_calls)\b", error.said):
        return None
    names = [re.escape(str(_function(tool).get("name") or "")) for tool in tools]
    before = r"(?:['\"`]|(?:function|tool)s?(?: name)?[:= ]{1,2})"
    matches = [n for n, name in enumerate(names) if re.search(rf"{before}{name}(?![\w-])", error.said, re.I)]
    return matches[0] if len(matches) == 1 else None


def _refused_field(
    profile: Profile, fields: Iterable[str], words: str, chosen: Collection[str]
) -> Lesson | None:
    kept = _NEEDED.union(profile.refuses, chosen)
    named = _refused_names(profile, words, [name for name in fields if name not in kept])
    if not named:
        return None
    return Lesson(
        replace(profile, refuses=(*profile.refuses, *named)),
        f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} left out",
    )


def _refused_in_messages(profile: Profile, body: JsonFields, words: str) -> Lesson | None:
    """Learn to omit a non-standard message field that came from a response or from the caller's history."""
    sent = not_of_protocol(body["messages"])
    named = [name for name in sent if _is_refused_in(words, name)]
    if named and profile.message_refuses:
        named = sent  # a server that has refused two such fields probably refuses all
    if not named:
        return None
    return Lesson(
        replace(profile, message_refuses=(*profile.message_refuses, *named)),
        f"{' and '.join(named)} in messages {'is' if len(named) == 1 else 'are'} left out",
    )


def _is_refused_in(words: str, name: str) -> bool:
    complaint = _INSTEAD.split(words, maxsplit=1)[0]
    if not _IN_MESSAGES.search(complaint):
        return _refuses(words, name)
    as_field = rf"(?:['\"`.]|\b(?:field|property|parameter|key|argument)s?:? ){re.escape(name)}(?!\w)"
    return _REFUSED.search(complaint) is not None and re.search(as_field, complaint, re.I) is not None


def _refused_names(profile: Profile, words: str, candidates: Collection[str]) -> list[str]:
    # Fields that exclude each other all count as refused.
    excluding = _EXCLUDING.search(words)
    named = [
        path
        for path in candidates
        if _refuses(words, path)
        or ("." in path and _refuses(words, path.rpartition(".")[2]))
        or (excluding and _names(words, path))
    ]
    return named + [
        name
        for name in profile.thinking  # a rejected value is treated like a rejected field
        if name in candidates and name not in named and _wrong_value(words, name)
    ]


def _refuses(words: str, name: str) -> bool:
    """Return True if an error refuses the field itself."""
    complaint = _INSTEAD.split(words, maxsplit=1)[0]
    if _RANGE.search(complaint) and "only the default" not in complaint.lower():
        return False
    quote = r"['\"`\[\](){}:, ]*"
    return any(
        re.search(rf"(?:{_BEFORE}){quote}(?<![\w$]){spelling}(?!\w)", complaint, re.I | re.S)
        or re.search(
            rf"(?<![\w$]){spelling}(?![\w.]){quote.replace(' ', '')}{_AFTER}", complaint, re.I | re.S
        )
        for spelling in map(re.escape, _spellings(name))
    )


def _wrong_value(words: str, name: str) -> bool:
    return _names(_INSTEAD.split(words, maxsplit=1)[0], name) and bool(
        re.search(r"one of|invalid|not support", words, re.I)
    )


def _names(words: str, name: str) -> bool:
    """Return True if an error names a field, in snake case or in camel case."""
    return any(re.search(rf"(?<![\w$]){re.escape(word)}(?!\w)", words) for word in _spellings(name))


def _spellings(name: str) -> set[str]:
    return {name, re.sub(r"_(\w)", lambda match: match[1].upper(), name)}


# Rows as in `_MESSAGES`.
_STREAMING: tuple[_Row, ...] = (
    (
        _STREAM_NEEDED,
        lambda body, _: not body.get("stream"),
        {"streaming": True},
        "every request is streamed",
    ),
    (
        _NO_STREAM,
        lambda body, words: body.get("stream") and not _names(words, "stream_options"),
        {"streaming": False},
        "no request is streamed",
    ),
)
_SYSTEM: tuple[_Row, ...] = (
    (
        _SYSTEM_REFUSED,
        lambda body, _: _first_role(body) == "developer",
        {"system_role": "system"},
        "the system message has the role system",
    ),
    (
        _SYSTEM_REFUSED,
        lambda body, _: _first_role(body) == "system",
        {"system_role": "user"},
        "the system message is put before the question",
    ),
)
_RULES: tuple[_Rule, ...] = (
    _media,
    _ids,
    _property_names,
    _description,
    _schema,
)
_CHAT_RULES: tuple[_Rule, ...] = (
    _media,
    _reasoning,
    _token_limit,
    *(partial(_from_table, rows) for rows in (_STREAMING, _SYSTEM, _MESSAGES)),
    *_RULES[1:],
)
