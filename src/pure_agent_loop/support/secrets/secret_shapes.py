"""Find unknown secrets by shape: keys of known services, and values after a telltale name.

Long texts must be cheap to search. A text is scanned for a few words, and once for runs of sixteen
key characters (a search for sixteen equal bytes). Patterns are tried only at these places. Linear time:
a pattern reads at most some thousand characters, and no part is scanned twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import log2
from typing import Any

from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.secrets.secret_keys import KEYS

# -- heuristics: whether a value looks random, or like words, a name or code -----------------------------

_ENTROPY_BITS = 3.0
_MIN_DISTINCT = 8

DIGIT, LETTER, SIGN = lazy_pattern("[0-9]"), lazy_pattern("[A-Za-z]"), lazy_pattern(r"[!@#$%^&*?+~|]")
_CALLED = lazy_pattern(r"[A-Za-z_][\w.:]*")
_TYPE = lazy_pattern(r"[\w.]*(?:[A-Z][a-z]{2,20}){2}")  # `Ed25519PrivateKey`
_PARTS = lazy_pattern(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{3,}")
_PRONOUNCEABLE = lazy_pattern(r"(?:[^aeiouy]{0,4}[aeiouy])+[^aeiouy]{0,4}", re.I)
_SEEN = 600  # limit inside a run: no key begins later
_FURTHER = 4000  # greatest length of a key
_BEFORE = 14  # greatest distance of a key's start before a run: `bot` and a number
_NEAR = 100  # greatest distance of a name before its value
_LONGEST = 30  # greatest length of a name
_RUN = bytes(
    97 if (chr(code).isalnum() and code < 128) or chr(code) in "_-./+~%" else 32 for code in range(256)
)
_SHORTEST = b"a" * 16
_REST = lazy_pattern(r"[A-Za-z0-9_./+~%=:-]*")
_MORE = r"[\w-]{0,30}(?![\w-])"  # the rest of a name
_QUOTE = r"(?:\\{0,3}[\"'`]|&quot;|&#(?:34|39|x27);|%22|\\u0022)?"
_OPERATOR = rf"{_QUOTE}\s{{0,5}}(?:=>|:=|=(?!=)|:(?!:)|：|%3[AaDd])\s{{0,5}}"
# XML element, name and value as two fields, column; sentence or `ENV NAME value`.
_FIELDS = (
    rf"{_OPERATOR}|{_QUOTE}>(?=[^<>\n]{{4,400}}</)|{_QUOTE}[\s,]{{1,40}}{_QUOTE}(?:value|content){_OPERATOR}"
)
_WIDE = rf"(?:{_FIELDS}|\s{{0,5}}(?:\||\t)\s{{0,5}})"
_NAMES = lazy_pattern(
    r"password|passwd|passphrase|secret|token(?!i[sz])|credential|(?<=-)signature|cookie|bearer"
    r"|(?:\b|_)(?:sig|dsn|auth|pass|pw|pat|psk)\b|[a-z]{2,20}[_. -]key|(?-i:[a-z]Key)"
    r"|(?:api|auth|access|account|license|master|private|secret)key|密码|密钥|口令|令牌|凭证",
    re.I,
)
_STEM = lazy_pattern(rb"key|token|secret|pass|credential|sig|cookie|bearer|dsn|auth|pw|pat|psk|\?\?")
_ASSIGNED = lazy_pattern(rf"{_MORE}{_WIDE}{_QUOTE}([^\s\"'<>,;&(){{}}\[\]`]{{16,400}})")
_GIVEN = lazy_pattern(rf"{_MORE}[ ]{{1,3}}{_QUOTE}([^\s\"'<>,;&(){{}}\[\]`]{{16,400}})")
_SAID = lazy_pattern(r"(?: is| was|s?:)?[ ]{1,3}([A-Za-z0-9+=_-]{20,400})(?![\w/.(\[])")
# Or letters and digits behind further words of its name, and then nothing but signs, `: Type =`, elements of
# XML or a key. Within quotes these may be brackets and the end of a line too.
_LETTERS = lazy_pattern(r"([A-Za-z0-9+/=]{20,400})")
_GLUE = r"[\w-]{0,30}(?:[ -](?:key|token|id|value))?(?:\s?:\s?\w{1,20}(?=\s?=)|(?:</?\w{1,20}>){1,3})?"
_TO_QUOTED = lazy_pattern(
    rf"{_GLUE}(?:(?!==|!=)[^\w\"'`]){{1,20}}(?:[\"']\w{{1,20}}[\"'][\s:=>]{{1,5}})?(?:[bru]{{1,2}}|@)?[\"'`]"
)
_TO_BARE = lazy_pattern(rf"{_GLUE}(?: is| was)?(?:(?!==|!=)[^\w\"'`\n(\[{{<.]){{1,6}}")
_GOES_ON = lazy_pattern(r"[\w/.(\[-]")
_OPTION = lazy_pattern(r"(?<![\w-])--?[\w-]{0,30}\Z")
_BEARER = lazy_pattern(r" {1,3}([A-Za-z0-9._~+/=-]{16,4000})")
_AUTHORISED = lazy_pattern(
    rf"\w{{1,10}}{_OPERATOR}{_QUOTE}(?:[A-Za-z0-9-]{{2,20}} {{1,3}})?"
    r"((?:[\w-]{1,40}=\\?\"[^\"\n]{0,2000}\"[, ]{0,3}){2,40}|[A-Za-z0-9._~+/=:-]{8,4000})"
)
_COOKIE = lazy_pattern(
    rf"{_OPERATOR}{_QUOTE}([\w.-]{{1,100}}=[^\s\"'\\;,]{{8,4000}}(?:; ?[^\s\"'\\;]{{1,4000}}){{0,60}})"
)
_NO_SECRET = lazy_pattern(r"(?:page|next|cursor|continuation|sync|public)[_-]?$", re.I)
# Placeholders of a password in code and settings: ${NAME}, {name}, $NAME, <name>, %s, ***, pass; or a port.
_STAND_IN = (
    r"(?:\$?\{{1,2}[\w.]{0,60}\}{1,2}|\$[A-Z_]{1,60}|<[^>@\s]{0,60}>|%[sv]|%\(\w{1,60}\)s|\*{1,60}"
    r"|(?i:pass(?:word|wd|phrase)?))"
)
_USERINFO = lazy_pattern(
    rf"://[^/\s:@\"']{{0,100}}:(?!{_STAND_IN}@|[0-9]{{1,5}}[?#])([^/\s@\"'\[]{{1,200}})@"
)
_CURL = lazy_pattern(
    r"[^\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"'$<{]{1,100}:([^\s\"'$<{]{4,200})"
)
_DOTTED = lazy_pattern(r"[A-Za-z_]\w*(?:\.\w+)*")
_PLAIN = lazy_pattern(r"[A-Z_]+|[a-z_]+|[A-Z]?[a-z]+")
# Start of the search per shape; for keys it is a run of letters and digits.
_PASSWORD_WORDS, _CHINESE_WORDS = (b"pass", b"pwd", b"psk", b"secret"), ("密码", "口令")
_WORDS = (*_PASSWORD_WORDS, b"://", b"curl ", b"authori", b"cookie", b"private key")
# A password may be short and hold any character, so its context must be stricter.
_PASSWORD = lazy_pattern(
    rf"(?:(?:word|wd|phrase|code){_MORE}|(?<![A-Za-z]pass)(?<![A-Za-z]psk)(?![A-Za-z])|(?<=pwd){_MORE}|(?<=密码|口令))"
    rf"(?:({_FIELDS}|(?: is| was):?[ ])(?:[bru@]{{1,2}}(?=[\"'])|(?:\\|[>|]-?)?\n[ \t]{{0,20}})?"
    rf"|({_QUOTE}[ ]{{1,3}}))"
    r"(?:(?P<quote>\\{0,3}[\"'`]|&quot;|&#(?:34|39|x27);)(?P<inside>[^\s\"'`]{4,200}?)(?P=quote)"
    r"|(?P<bare>[^\s\"'`;<>]{4,200}))",
    re.I,
)
_NEXT_FIELD = lazy_pattern(r"&[\w.-]{1,40}=|[,)\]}]*\Z|[,)\]}(\[{]")
_NOT_ONE = lazy_pattern(rf"{_STAND_IN}\Z|\$[({{]|\{{|<|%[(s]|https?:|[/~.]+[\w/]|[A-Za-z]:\\|=|-")
_FILE_NAME = lazy_pattern(r"(?:export |ENV |ARG |SET |set )?[A-Za-z_]\w{0,60}\Z|[A-Z_]{3,60}\Z")
_SETTING = lazy_pattern(r"(?<![\w-])-{1,2}[\w-]{1,30}[ =][\w.-]{0,60}\Z")  # -e NAME=, --set name=
_PAIR = lazy_pattern(r"[ \t]{1,3}[\w.-]{1,40}=(?!=)")
_NETRC = lazy_pattern(r"(?:machine|login|default)\s[^\n]{1,200}\Z|^\s*\Z")
_SECRET = lazy_pattern(
    rf"{_MORE}({_OPERATOR})()(?P<quote>\\{{0,3}}[\"'])(?P<inside>[^\s\"'`]{{12,200}}?)(?P=quote)(?P<bare>)"
)
_BEGIN = lazy_pattern(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_HEAD_REST = lazy_pattern(r"PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = lazy_pattern(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BREAK = lazy_pattern(r"(?:\\{1,8}[rn]|[\r\n])+|\Z")
_BODY = lazy_pattern(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")
_LAST = lazy_pattern(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{1,76}={0,2}[^A-Za-z0-9+/=]{0,12}\Z")
_FIELD = lazy_pattern(r"[^\n]{0,120}?[A-Z][A-Za-z-]{2,20}: |[^\n]{0,120}[:|>#+\s-]\Z|[\d\s]{1,9}\Z")
_WORD = lazy_pattern("[A-Za-z0-9]")
_MAX_LINES = 400


def looks_random(value: str) -> bool:
    """Return True for letters and digits mixed as in a key; not for words, numbers, names and addresses."""
    if not DIGIT.search(value) or not LETTER.search(value):
        return False
    if value.startswith(("$", "%", "http://", "https://", "/", "./")) or len(set(value)) < _MIN_DISTINCT:
        return False
    sample = value[:100]
    shares = [sample.count(character) / len(sample) for character in set(sample)]
    return -sum(share * log2(share) for share in shares) > _ENTROPY_BITS


def is_camel(value: str) -> bool:
    """Return True for mixed-case letters that are not words."""
    return len(value) >= 8 and value[1:].upper() != value[1:] != value[1:].lower() and not has_words(value)


def is_mixed(value: str) -> bool:
    """Return True for eight or more letters and digits that are not words."""
    has_both = DIGIT.search(value) is not None and LETTER.search(value) is not None
    return len(value) >= 8 and has_both and not has_words(value)


def is_code(match: re.Match[str]) -> bool:
    """Return True for a call, an index or an attribute: unquoted names instead of a value."""
    text, value = match.string, match[1]
    if text[match.start(1) - 1] in "\"'":
        return False
    if text[match.end(1) : match.end(1) + 1] in ("(", "["):
        return _CALLED.fullmatch(value) is not None
    is_lookup = re.fullmatch(r"[a-z_]\w*(?:\.\w+)+", value) is not None and has_words(value)
    return is_lookup or _TYPE.fullmatch(value) is not None


def is_name(value: str) -> bool:
    """Return True for joined words, such as ``my-service-account-v2``."""
    return sum(map(value.count, "._:-")) >= 2 and has_words(value)


def has_words(value: str) -> bool:
    """True if most of a value could be words. One in a hundred random values passes."""
    words = sum(map(len, filter(_PRONOUNCEABLE.fullmatch, _PARTS.findall(value))))
    return words >= 0.6 * sum(map(str.isalnum, value))


_Spans = Iterator[tuple[int, int]]
_Name = tuple[re.Match[str], tuple[int, int] | None]  # the match, and the span of its value


def remove_shapes(text: str, mark: str) -> str:
    """Replace the shapes of secrets in a text."""
    data = text.encode("ascii", "replace")  # one byte for each character
    lowered = data.lower()
    runs = data.translate(_RUN) + b" "  # so that each run has an end
    is_plain = _SHORTEST not in runs and not any(map(text.__contains__, _CHINESE_WORDS))
    if is_plain and not any(map(lowered.__contains__, _WORDS)):  # as most results are
        return text
    places = list(_runs(text, runs))
    keys = list(_keys(text, runs, places))
    spans = [
        *keys,
        *_values(text, runs, lowered, places, keys),
        *_addresses(text, data),
        *_passwords(text, lowered),
        *_headers(text, lowered),
    ]
    spans += _private_keys(text, data)
    return _cut(text, sorted(spans), mark) if spans else text


def _found(data: Any, word: Any) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + len(word))


def _runs(text: str, runs: bytes) -> _Spans:
    """Yield runs of sixteen or more key characters, with a digit among the first ones."""
    at = runs.find(_SHORTEST)
    while at >= 0:
        end = runs.find(b" ", at)
        if DIGIT.search(text, at, min(end, at + _SEEN)):
            yield at, end
        at = runs.find(_SHORTEST, end)


def _keys(text: str, runs: bytes, places: list[tuple[int, int]]) -> _Spans:
    """Yield keys of known services, in order. The continuation of a run is searched with it."""
    searched = 0
    for at, end in places:
        if end <= searched:
            continue
        rest = _REST.match(text, at, at + _SEEN + _FURTHER)
        assert rest is not None  # a match may be empty
        start, stop = max(0, at - _BEFORE, searched), rest.end()
        is_all = stop < at + _SEEN + _FURTHER
        searched = stop if is_all else stop - _SEEN
        while key := KEYS.search(text, start, stop + 1):
            start = max(key.start() + 1, key.end() - _BEFORE)
            done = key.end() if is_all or key.end() < stop else runs.find(b" ", key.end())
            searched = max(searched, done)
            if not (key[0].startswith("sk-") and has_words(key[0])):
                yield key.start(), done


def _values(
    text: str, runs: bytes, lowered: bytes, places: list[tuple[int, int]], keys: list[tuple[int, int]]
) -> _Spans:
    """Yield random-looking values after a telltale name, up to the end of a run; keys are skipped."""
    names, left, done = _Names(text), keys[::-1], 0
    for at, end in places:
        start = max(at, done)
        while left and left[-1][0] < end:
            start = max(start, left.pop()[1])
        if end - start >= len(_SHORTEST) and _STEM.search(lowered[max(0, start - _NEAR) : end]):
            for value in _near(text, names.near(start, end), start):
                done = runs.find(b" ", max(done, end, value[1]))
                yield value[0], done


class _Names:
    """Telltale names near a position, with their values; positions ascend, and each name is read once."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self._found: dict[tuple[int, int], _Name] = {}

    def near(self, at: int, end: int) -> Iterable[_Name]:
        """Return names within a hundred characters before `at`, or up to `end`."""
        start, known = max(at - _NEAR, self._end - _LONGEST, 0), self._found
        self._found = {span: value for span, value in known.items() if at - _NEAR <= span[0] < start}
        for name in _NAMES.finditer(self._text, start, end):
            self._found[name.span()] = known.get(name.span()) or (name, _assigned(name))
        self._end = max(self._end, end)
        return self._found.values()


def _assigned(name: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of a name's value: None without a value, at 0 if it does not look secret."""
    text, end = name.string, name.end()
    if _NO_SECRET.search(text, max(0, name.start() - 20), name.start()):
        return 0, 0
    is_bearer = name[0].lower() == "bearer"
    value = (_BEARER if is_bearer else _ASSIGNED).match(text, end)
    if not value and not is_bearer:
        is_option = _OPTION.search(text, max(0, name.start() - 40), name.start())
        value = (_GIVEN if is_option else _SAID).match(text, end)
        if value and not is_option and has_words(value[1]):
            return 0, 0
    return value and (value.span(1) if _is_secret(name, value) else (0, 0))


def _near(text: str, names: Iterable[_Name], at: int) -> _Spans:
    """Yield values that cross a position, or begin there after punctuation only."""
    is_quoted = text[at - 1 : at] in ('"', "'", "`")
    letters = _letters(text, at, is_quoted)
    pattern = _TO_QUOTED if is_quoted else _TO_BARE
    for name, span in names:
        if span and span[1] > at:
            yield span
        is_behind = letters and span is None and pattern.fullmatch(text, name.end(), at)
        if letters and is_behind and _is_secret(name, letters):
            yield letters.span(1)


def _letters(text: str, at: int, is_quoted: bool) -> re.Match[str] | None:
    value = _LETTERS.match(text, at)
    after = text[value.end() : value.end() + 1] if value else ""
    ends_well = after in ('"', "'", "`") if is_quoted else not _GOES_ON.match(after)
    return value if value and ends_well and not has_words(value[1]) else None


def _is_secret(name: re.Match[str], value: re.Match[str]) -> bool:
    is_named = "passw" not in name[0].lower() and is_name(value[1])
    return looks_random(value[1]) and not is_named and not is_code(value)


def _addresses(text: str, data: bytes) -> _Spans:
    if b"@" in data:
        for at in _found(data, b"://"):
            match = _USERINFO.match(text, at)
            if match:
                yield match.span(1)
    for at in _found(data, b"curl "):
        match = _CURL.match(text, at)
        if match:
            yield match.span(1)


def _headers(text: str, lowered: bytes) -> _Spans:
    done = 0
    for at in _found(lowered, b"authori"):  # also in an escaped one
        match = _AUTHORISED.match(text, at + 7) if at >= done else None
        if match:
            done = match.end()
            value = match[1]
            if not (_PLAIN.fullmatch(value) or (value.isalpha() and has_words(value)) or is_code(match)):
                yield match.span(1)
    for at in _found(lowered, b"cookie"):
        match = _COOKIE.match(text, at + 6) if at >= done else None
        if match:
            done = match.end()
            if any(is_mixed(part.partition("=")[2]) for part in match[1].split(";")):
                yield match.span(1)


def _passwords(text: str, lowered: bytes) -> _Spans:
    places: tuple[tuple[Any, Any], ...] = (
        *((lowered, word) for word in _PASSWORD_WORDS),
        *((text, word) for word in _CHINESE_WORDS),
    )
    for data, word in places:
        done = 0
        for at in _found(data, word) if word in data else ():
            if at < done:
                continue
            match = (_SECRET if word == b"secret" else _PASSWORD).match(text, at + len(word))
            if match:
                done = match.end()
                span = _password(text, at, match)
                if span is not None:
                    yield span


def _password(text: str, at: int, match: re.Match[str]) -> tuple[int, int] | None:
    value, start = match["inside"], match.start("inside")
    if value:
        sure = LETTER.search(value) and (DIGIT.search(value) or SIGN.search(value))
        return (
            (start, start + len(value)) if sure and not _NOT_ONE.match(value) and "{" not in value else None
        )
    start = match.start("bare")
    line = text[max(0, at - 200) : at].rpartition("\n")[2]
    operator = match[1]
    if operator is None and not (_OPTION.search(line) or _NETRC.search(line)):
        return None
    value = match["bare"]
    is_file = operator == "=" and _FILE_NAME.match(line + text[at : match.start(1)])
    if not is_file:
        value = value[: next((boundary.start() for boundary in _NEXT_FIELD.finditer(value)), None)]
    end = start + len(value)
    is_option = operator is None or (_OPTION.search(line) or _SETTING.search(line)) is not None
    return (start, end) if _is_password(text, value, end, operator, is_option) else None


def _is_password(text: str, value: str, end: int, operator: str | None, is_option: bool) -> bool:
    after = text[end : end + 1]
    if len(value) < 4 or _NOT_ONE.match(value) or not LETTER.search(value) or after in ("(", "["):
        return False
    if not _DOTTED.fullmatch(value):
        has_sign = DIGIT.search(value) and SIGN.search(value)
        return bool(has_sign) or (is_mixed(value) and not value.startswith("0x"))
    if "." in value or "pass" in value.lower():
        return False
    is_last = after in ("", "\n", "\r", ";", "&", '"', "'", "\\", "<") or is_option or _PAIR.match(text, end)
    is_tight = operator in ("=", ":", ">", None) or (operator or "").strip() in (":", "：", "%3D", "%3d")
    return bool(is_last and is_tight and (DIGIT.search(value) or is_camel(value))) or (
        len(value) >= 16 and looks_random(value) and not has_words(value)
    )


def _private_keys(text: str, data: bytes) -> _Spans:
    done = 0
    for at in _found(data, b"PRIVATE KEY"):
        begin, head = _BEGIN.search(text, max(0, at - 50), at), _HEAD_REST.match(text, at)
        if begin is None or head is None or at < done:
            continue
        next_one = data.find(b"PRIVATE KEY", head.end())
        # Stop at the next marker, which may end this one: each part is scanned once.
        done = _end_of_key(text, head.end(), next_one + 25 if next_one >= 0 else len(text))
        if done > head.end():
            yield begin.start(), done


def _end_of_key(text: str, start: int, limit: int) -> int:
    """Return the end of a key's lines, each of which may have a prefix, as from `grep -n`."""
    end, at, has_body, is_last = start, start, False, False
    for _ in range(_MAX_LINES):
        stop = _BREAK.search(text, at, min(at + 20_000, limit))
        assert stop is not None  # the end matches
        line = text[at : stop.start()]
        closing = _END.search(line)
        bodies = [match.end() for match in _BODY.finditer(line) if _is_body(match[0])]
        if closing and (has_body or bodies or is_last or _LAST.search(line[: closing.start()].rstrip())):
            return at + closing.end()
        if bodies and not is_last:
            has_body, end = True, at + bodies[-1]
            if LETTER.search(line, bodies[-1]):
                return end  # other text follows
        elif has_body and _LAST.search(line) and not is_last and _WORD.search(line):
            is_last = True
        elif (has_body or not _FIELD.match(line)) and _WORD.search(line):
            return end
        if stop.end() >= limit:
            return end
        at = stop.end()
    return end


def _is_body(line: str) -> bool:
    return DIGIT.search(line) is not None if len(line) > 40 else is_mixed(line)


def _cut(text: str, spans: list[tuple[int, int]], mark: str) -> str:
    out, position = [], 0
    for start, end in spans:
        if start >= position:
            out += [text[position:start], mark]
        position = max(position, end)
    return "".join([*out, text[position:]])
