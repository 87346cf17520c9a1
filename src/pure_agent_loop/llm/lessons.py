"""What a provider's refusal teaches: one 400 becomes one change of the `Profile`. Pure: no I/O.

A lesson is drawn only from a refusal that names what it refuses, and only if the request really held that;
so an error that repeats teaches nothing twice, and one of another kind is reported as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import Message, is_media, mark_of, newest_question
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.media import MEDIA_KINDS

_KINDS = ("bad_request", "overloaded", "unknown")  # llama.cpp reports its template's complaints with 500
_REFUSED = re.compile(
    r"not support|unsupported|n't support|unrecogni[sz]ed|unknown|unexpected|extra (?:inputs|fields)"
    r"|not permitted|not allowed|not accepted|not enabled|not available|cannot find field|does not exist"
    r"|only the default|deprecated|cannot both|(?:invalid|illegal) (?:parameter|argument|field|request arg)",
    re.I,
)
# Fields that a request cannot do without, or that `tool_mode` sees to.
_NEEDED = frozenset({"model", "messages", "tools", "stream", "response_format", "stop"})
_SCHEMA_WORDS = (
    "additionalProperties", "$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "const", "default",
    "format", "pattern", "patternProperties", "propertyNames", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "title", "examples", "nullable", "prefixItems", "contains", "not", "if",
    "then", "else",
)  # fmt: skip
_OF_SCHEMAS = re.compile(r"schema|parameters|properties|tools?\b|function|payload|keyword", re.I)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A change of the profile.

    Args:
        profile: The new one.
        what: What is done from now on, for people.
    """

    profile: Profile
    what: str


def learn(
    profile: Profile, body: Mapping[str, Any], error: LLMError, chosen: Collection[str] = ()
) -> Lesson | None:
    """What to do otherwise after a refusal; None if it says nothing about that.

    Args:
        profile: What the refused request was made with.
        chosen: Fields that a caller has set: they are never left out.

    Raises:
        LLMError: It refuses one of `chosen`; the message says which and what to do.
    """
    if error.kind not in _KINDS:
        return None
    for rule in _RULES:
        lesson = rule(profile, body, error.said)
        if lesson is not None and lesson.profile != profile:
            return lesson
    lesson = _refused_field(profile, body, error.said, chosen)
    if lesson is None:
        _refuse_choices(profile, body, error, chosen)
    return lesson


def _refuse_choices(
    profile: Profile, body: Mapping[str, Any], error: LLMError, chosen: Collection[str]
) -> None:
    named = _refused_names(profile, error.said, [n for n in body if n in chosen and n not in _NEEDED])
    if not named:
        return
    ways = [_way_out(name, profile.thinking) for name in named]
    raise LLMError(
        f"The server refuses {' and '.join(named)}, which this program sets. {' '.join(dict.fromkeys(ways))} "
        f"The server said: {error.said}",
        error,
        kind="bad_request",
        status=error.status,
        said=error.said,
    ) from error


def _way_out(name: str, thinking: Collection[str]) -> str:
    if name in thinking:
        return (
            "It stands for thinking_level: use thinking_level='off', a level that this model knows, or "
            "profile=Profile(..., thinking={...}) with the field that this server reads."
        )
    return f"Leave {name} out, or use a model that takes it."


def _token_limit(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    for sent, wanted in (TOKEN_LIMITS, TOKEN_LIMITS[::-1]):
        if sent in body and _refuses(words, sent):
            if profile.output_limit_field == wanted or not (_names(words, wanted) or sent == TOKEN_LIMITS[1]):
                return None  # then it is refused altogether
            return Lesson(
                replace(profile, output_limit_field=wanted), f"the output limit is sent as {wanted}"
            )
    return None


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


def _reasoning(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    sent = profile.reasoning_echo
    if sent and any(sent in message for message in body["messages"]) and _REASONING_REFUSED.search(words):
        return Lesson(replace(profile, reasoning_echo=""), "the model's thinking is no longer sent back")
    wanted = _WANTS_REASONING.search(words)
    if wanted is None or _REASONING_REFUSED.search(words):
        return None
    if not any(message.get("role") == "assistant" for message in body["messages"]):
        return None
    if not sent:
        name = wanted[1] or wanted[2]
        what = f"the thinking behind tool calls is sent back as {name}"
        return Lesson(replace(profile, reasoning_echo=name), what)
    return Lesson(replace(profile, echo_scope="history"), f"all earlier thinking is sent back as {sent}")


_SYSTEM_REFUSED = re.compile(
    r"(?:system|developer) (?:role|message|prompt|instruction)s?.{0,30}\b(?:not|unsupported)\b"
    r"|(?:unexpected|unknown|unsupported|invalid)\b.{0,40}\b(?:system|developer)\b"
    r"|role.{0,30}\b(?:system|developer)\b.{0,40}\bnot\b|not support.{0,20}\b(?:system|developer)\b"
    r"|['\"`](?:system|developer)['\"`] is not|input should be ['\"`]system",
    re.I | re.S,
)


def _system(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    first = body["messages"][0]["role"] if body["messages"] else ""
    if first not in ("system", "developer") or not _SYSTEM_REFUSED.search(words):
        return None
    if first == "developer":
        return Lesson(replace(profile, system_role="system"), "the system message has the role system")
    return Lesson(replace(profile, system_role="user"), "the system message goes in front of the question")


_TURNS = re.compile(
    r"roles? must alternate|alternat\w+.{0,40}\b(?:roles?|user)\b|consecutive .{0,20}user", re.I
)
_USER_AFTER_TOOL = re.compile(r"unexpected role ['\"`]?user['\"`]? after role ['\"`]?tool", re.I)
_SINGLE_CALLS = re.compile(
    r"only supports? (?:a )?single tool[- ]?calls?|multiple tool[_ -]?calls?.{0,30}\bnot\b"
    r"|one tool[_ -]?call at a time",
    re.I,
)
_ID_LENGTH = re.compile(r"\btool[_ ]?calls?\b.{0,200}?\bid\b.{0,200}?length (?:of )?(\d{1,3})\b", re.I | re.S)
_CONTENT_NEEDED = re.compile(
    r"\bcontent\b.{0,80}(?:\bnull\b|\bnone\b|required|valid string|must be a string|expected a string)"
    r"|(?:\bnull\b|\bnone\b|missing field|invalid type).{0,60}\bcontent\b",
    re.I | re.S,
)


def _messages(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    """Rules about the order and the form of messages."""
    if _TURNS.search(words):
        return Lesson(replace(profile, alternates=True), "messages of one side are joined")
    if _USER_AFTER_TOOL.search(words):
        what = "a word of the assistant stands between a result and the next message"
        return Lesson(replace(profile, user_after_tool=False), what)
    calls = [message.get("tool_calls") or () for message in body["messages"]]
    if _SINGLE_CALLS.search(words) and any(len(each) > 1 for each in calls):
        return Lesson(replace(profile, parallel_calls=False), "each call is sent in a message of its own")
    length = _ID_LENGTH.search(words)
    if length is not None and any(calls):
        what = f"call ids are sent as {length[1]} letters and digits"
        return Lesson(replace(profile, call_id_length=int(length[1])), what)
    if _CONTENT_NEEDED.search(words) and any(m.get("content") is None for m in body["messages"]):
        return Lesson(replace(profile, null_content=False), "no message is sent without content")
    return None


_MEDIA_WORDS = {
    "image": r"image|vision|multi-?modal|mmproj",
    "file": r"\bfiles?\b|pdf|document",
    "audio": r"audio|sound",
}
_TEXT_ONLY = re.compile(
    r"(?:expected|must be|should be|only) [`'\"]?(?:text|a? ?string)\b|not a multi-?modal|only supported by",
    re.I,
)


def _media(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    """What came out of tools and is no text; for the user's own see `without_media`."""
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
    left = tuple(kind for kind in takes if kind not in refused)
    what = f"{' and '.join(refused)} out of tools is said in words"
    return Lesson(replace(profile, takes=left), what)


_OF_MEDIA = re.compile("|".join([*_MEDIA_WORDS.values(), *MEDIA_KINDS.values()]), re.I)


def without_media(messages: Sequence[Message], error: LLMError) -> frozenset[int]:
    """What to leave out of a refused request: its images and files, if they may be why it was refused.

    A refusal that speaks of them is about them if the user has sent any, and one that nothing else is
    learned from may be: else a session whose history holds a picture could not go on. What is asked about now
    is never left out: the refusal stands.

    Args:
        messages: The history, without what was left out before.
        error: The refusal; one whose words teach something is not asked about.

    Returns:
        Their marks; see `mark_of`.
    """
    if error.kind not in (*_KINDS, "not_found") or not (
        error.kind == "bad_request" or _OF_MEDIA.search(error.said)
    ):
        return frozenset()
    asked = _media_in([newest_question(messages) or {}])
    return frozenset() if asked else _media_in(messages)


def _media_in(messages: Iterable[Message]) -> frozenset[int]:
    parts = [part for each in messages if isinstance(each.get("content"), list) for part in each["content"]]
    return frozenset(mark_of(part) for part in parts if part["type"] in MEDIA_KINDS.values())


def is_about_own_media(messages: Iterable[Message], error: LLMError) -> bool:
    """Whether a refusal speaks of images or files, and the user has sent some."""
    own = any(isinstance(each.get("content"), list) and not is_media(each) for each in messages)
    return own and _OF_MEDIA.search(error.said) is not None


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


def _streaming(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    if not body.get("stream") and _STREAM_NEEDED.search(words):
        return Lesson(replace(profile, streaming=True), "every request is streamed")
    if body.get("stream") and _NO_STREAM.search(words) and not _names(words, "stream_options"):
        return Lesson(replace(profile, streaming=False), "no request is streamed")
    return None


def _schema(profile: Profile, body: Mapping[str, Any], words: str) -> Lesson | None:
    if not body.get("tools") or not _REFUSED.search(words) or not _OF_SCHEMAS.search(words):
        return None
    used = set(_keywords(body["tools"]))
    found = [word for word in _SCHEMA_WORDS if word in used and _names(words, word)]
    if not found:
        return None
    without = (*profile.schema_without, *(word for word in found if word not in profile.schema_without))
    return Lesson(replace(profile, schema_without=without), f"tools are described without {', '.join(found)}")


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield key
            yield from _keywords(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)


def _refused_field(
    profile: Profile, body: Mapping[str, Any], words: str, chosen: Collection[str]
) -> Lesson | None:
    kept = _NEEDED.union(profile.refuses, chosen)
    named = _refused_names(profile, words, [name for name in body if name not in kept])
    if not named:
        return None
    return Lesson(
        replace(profile, refuses=(*profile.refuses, *named)),
        f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} left out",
    )


def _refused_names(profile: Profile, words: str, candidates: Collection[str]) -> list[str]:
    excluding = _EXCLUDING.search(words)  # then one of those named has to go, and ours goes first
    named = [n for n in candidates if _refuses(words, n) or (excluding and _names(words, n))]
    return named + [
        name
        for name in profile.thinking  # of these a wrong value is as good as a wrong field
        if name in candidates and name not in named and _wrong_value(words, name)
    ]


_EXCLUDING = re.compile(r"cannot both|mutually exclusive", re.I)
# A list of what is allowed instead names fields that are not refused.
_INSTEAD = re.compile(
    r"\b(?:expected|must be|should be|use|choose) (?:exactly )?one of\b"
    r"|\b(?:supported|allowed|valid|available|accepted) (?:parameters|fields|arguments|values|options)\b",
    re.I,
)
# A value out of its range is the caller's to mend, unless the only one allowed is the default.
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


def _refuses(words: str, name: str) -> bool:
    """True if an error says that a field itself is refused."""
    said = _INSTEAD.split(words, maxsplit=1)[0]
    if _RANGE.search(said) and "only the default" not in said.lower():
        return False
    quote = r"['\"`\[\](){}:, ]*"
    return any(
        re.search(rf"(?:{_BEFORE}){quote}(?<![\w$]){each}(?!\w)", said, re.I | re.S)
        or re.search(rf"(?<![\w$]){each}(?![\w.]){quote.replace(' ', '')}{_AFTER}", said, re.I | re.S)
        for each in map(re.escape, _spellings(name))
    )


def _wrong_value(words: str, name: str) -> bool:
    return _names(_INSTEAD.split(words, maxsplit=1)[0], name) and bool(
        re.search(r"one of|invalid|not support", words, re.I)
    )


def _names(words: str, name: str) -> bool:
    """True if an error names a field, in snake case or in camel case."""
    return any(re.search(rf"(?<![\w$]){re.escape(each)}(?!\w)", words) for each in _spellings(name))


def _spellings(name: str) -> set[str]:
    return {name, re.sub(r"_(\w)", lambda match: match[1].upper(), name)}


_RULES: tuple[Callable[[Profile, Mapping[str, Any], str], Lesson | None], ...] = (
    _media,
    _reasoning,
    _token_limit,
    _streaming,
    _system,
    _messages,
    _schema,
)
