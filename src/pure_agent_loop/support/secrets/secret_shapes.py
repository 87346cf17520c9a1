"""Find unknown secrets by shape: keys of known services, private keys, URLs, headers and assigned values.

Long texts must be cheap to search. A text is scanned for a few words and for runs of sixteen key characters
(all mapped to one byte, so that a byte search finds them). Patterns are tried only where these occur. Time is
linear: a pattern reads at most a few thousand characters, and no part is scanned twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.secrets.secret_keys import KEYS

_DIGIT, _LETTER = lazy_pattern("[0-9]"), lazy_pattern("[A-Za-z]")
_SEEN = 600  # number of characters at the start of a run in which a key may begin
_FURTHER = 4000  # maximum length of a key
_BEFORE = 14  # maximum characters of a key before its run, such as `bot` and a number
_RUN = bytes(
    97 if (chr(code).isalnum() and code < 128) or chr(code) in "_-./+~%" else 32 for code in range(256)
)
_SHORTEST = b"a" * 16
_REST = lazy_pattern(r"[A-Za-z0-9_./+~%=:-]*")
_QUOTE = r"(?:\\{0,3}[\"'`]|&quot;|&#(?:34|39|x27);|%22|\\u0022)"
_OPERATOR = rf"{_QUOTE}?\s{{0,5}}(?:=>|:=|<-|=(?!=)|:(?!:)|：|%3[AaDd])\s{{0,5}}"

# An assignment operator, also after a type; an XML element; or a name and its value as two fields.
_TYPED = r"\s?:\s?\w{1,20}\s?=(?!=)\s?"
_TWO_FIELDS = rf"{_QUOTE}?[\s,]{{1,40}}{_QUOTE}?(?:value|content){_OPERATOR}"
_FIELDS = rf"{_TYPED}|{_OPERATOR}(?:\*\*\s)?|{_QUOTE}?>(?=[^<>\n]{{4,400}}</)|{_TWO_FIELDS}"
_CONTINUED = r"(?:[bru@]{1,2}(?=[\"'])|(?:\\|[>|]-?)?\n[ \t]{0,20})?"
_ASSIGNED = lazy_pattern(
    r"(?:(?P<password>pass(?:word|wd|phrase|code)|pwd|密码|口令|(?<![a-z])(?:pass|psk|pw)(?![a-z]))"
    r"|(?<!:)secret|token(?!i[sz])|credential|密钥|令牌|凭证|key|(?<=-)signature"
    r"|(?:(?<=[?&])sig|(?<=_)auth|(?<=_)(?-i:PAT))(?![a-z]))"
    r"(?![\w-]{0,30}(?:name|type|class)[\"']?\s*[:=])[\w-]{0,30}(?![\w-])"
    rf"(?:(?P<operator>{_FIELDS}){_CONTINUED}|(?P<blank>[ ]{{1,3}}))"
    rf"(?:(?P<quote>{_QUOTE})(?P<inside>[^\s\"'`]{{400}}|[^\s\"'`]{{4,399}}?(?=(?P=quote)))"
    r"|(?P<bare>[^\s\"'`;<>]{4,400}))",
    re.I,
)
_NAMES = (
    *(b"pass", b"pwd", b"psk", b"pw", b"secret", b"token", b"key", b"credential", b"signature"),
    *(b"sig", b"auth", b"pat"),
)
_CHINESE_NAMES = ("密码", "口令", "密钥", "令牌", "凭证")
# `authorization` and `private key` need no entry, because they contain the names `auth` and `key`.
_WORDS = (*_NAMES, b"://", b"curl ", b"cookie", b"bearer")
_KEY_OWNER = lazy_pattern(
    r"(?:access|account|api|app|auth|client|deploy|encryption|hmac|jwt|license|master|private|secret|service"
    r"|session|shared|signing|ssh|storage|subscription|webhook)[_. -]?\Z",
    re.I,
)
_NO_SECRET = lazy_pattern(r"(?:page|next|cursor|continuation|sync|public)[_-]?\Z", re.I)
# A value after a space: `--token X`, `ENV TOKEN X`, and lines of .netrc.
_OPTION = lazy_pattern(r"(?:(?<![\w-])--?|\bENV )[\w-]{0,30}\Z")
_NETRC = lazy_pattern(r"(?:machine|login|default)\s[^\n]{1,200}\Z|^\s*\Z")
# Command options such as -e NAME= and --set name=.
_SETTING = lazy_pattern(r"(?<![\w-])-{1,2}[\w-]{1,30}[ =][\w.-]{0,60}\Z")
_PAIR = lazy_pattern(r"[ \t]{1,3}[\w.-]{1,40}=(?!=)")
_NEXT_FIELD = lazy_pattern(r"&[\w.-]{1,40}=|[,)\]}]*\Z|[,)\]}(\[{]")
_WHOLE_LINE = lazy_pattern(r"(?:export |ENV |ARG |SET |set )[A-Za-z_]\w{0,60}\Z|[A-Z_]{3,60}\Z")
# Placeholders of a password in code and settings: ${NAME}, {name}, $NAME, <name>, %s, ***, pass; or a port.
_STAND_IN = (
    r"(?:\$?\{{1,2}[\w.]{0,60}\}{1,2}|\$[A-Z_]{1,60}|<[^>@\s]{0,60}>|%[sv]|%\(\w{1,60}\)s|\*{1,60}"
    r"|(?i:pass(?:word|wd|phrase)?))"
)
_NOT_ONE = lazy_pattern(rf"{_STAND_IN}\Z|\$[({{]|\{{|<|%[(s]|https?:|[/~.]+[\w/]|[A-Za-z]:\\|=|-|0x")
_IDENTIFIER = lazy_pattern(r"[A-Za-z_]\w*(?:\.\w+)*")  # an identifier may be code and not a value
_TYPE = lazy_pattern(r"[\w.]*(?:[A-Z][a-z]{2,20}){2}")  # `Ed25519PrivateKey`
_THREE_DIGITS = lazy_pattern(r"(?:[^0-9]*[0-9]){3}")
_THREE_KINDS = lazy_pattern("(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])")
_SIGN = lazy_pattern(r"[!@#$%^&*?+~|]")
_MIN_KEY = 16
_CALL = ("(", "[")  # characters that follow the name of a function or a list: such a name is not a value

_USERINFO = lazy_pattern(
    rf"://[^/\s:@\"']{{0,100}}:(?!{_STAND_IN}@|[0-9]{{1,5}}[?#])([^/\s@\"'\[]{{1,200}})@"
)
_CURL = lazy_pattern(
    r"[^\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"'$<{]{1,100}:([^\s\"'$<{]{4,200})"
)
_AUTHORISED = lazy_pattern(
    rf"\w{{1,10}}{_OPERATOR}{_QUOTE}?(?:[A-Za-z0-9-]{{2,20}} {{1,3}})?"
    r"((?:[\w-]{1,40}=\\?\"[^\"\n]{0,2000}\"[, ]{0,3}){2,40}|[A-Za-z0-9._~+/=:-]{8,4000})"
)
_COOKIE = lazy_pattern(
    rf"{_OPERATOR}{_QUOTE}?([\w.-]{{1,100}}=[^\s\"'\\;,]{{8,4000}}(?:; ?[^\s\"'\\;]{{1,4000}}){{0,60}})"
)
_BEARER = lazy_pattern(r" {1,3}([A-Za-z0-9._~+/=-]{16,4000})")
# An authorization contains a digit or a symbol, or mixed case after a scheme; otherwise it is a name in code.
_IS_CREDENTIAL = lazy_pattern(r"[0-9+/=~]|(?<=[A-Za-z] )[A-Za-z]*[a-z][A-Z]{2}")
_IS_COOKIE = lazy_pattern(r"=(?:(?=[^;=]{0,400}[0-9])(?=[^;=]{0,400}[a-z])[^;]{8}|[0-9A-F]{16})")
# Per header: the word to search for, the pattern of the rest, and a test of the value.
_HEADERS = (
    (b"authori", _AUTHORISED, _IS_CREDENTIAL),
    (b"cookie", _COOKIE, _IS_COOKIE),
    (b"bearer", _BEARER, _DIGIT),
)

_BEGIN = lazy_pattern(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_HEAD_REST = lazy_pattern(r"PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = lazy_pattern(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BREAK = lazy_pattern(r"(?:\\{1,8}[rn]|[\r\n])+|\Z")
_BODY = lazy_pattern(
    r"(?<![A-Za-z0-9+/=])(?=[A-Za-z+/]{0,400}[0-9])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])"
)
_LAST = lazy_pattern(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{1,76}={0,2}[^A-Za-z0-9+/=]{0,12}\Z")
_FIELD = lazy_pattern(r"[^\n]{0,120}?[A-Z][A-Za-z-]{2,20}: |[^\n]{0,120}[:|>#+\s-]\Z|[\d\s]{1,9}\Z")
_WORD = lazy_pattern("[A-Za-z0-9]")
_MAX_LINES = 400

# Also finds short keys; requires a digit, because most other names with this prefix have none.
_SHORT_KEY = lazy_pattern(r"(?<![\w-])sk[-_](?=\S{0,80}[0-9])\S{8}")

_Spans = Iterator[tuple[int, int]]


def holds_key(text: str) -> bool:
    """Return True if a typed text contains something in the form of a key."""
    return _SHORT_KEY.search(text) is not None or remove_shapes(text, "") != text


def remove_shapes(text: str, mark: str) -> str:
    """Replace whatever has the shape of a secret in a text."""
    data = text.encode("ascii", "replace")  # exactly one byte per character, so that offsets agree
    lowered = data.lower()
    runs = data.translate(_RUN) + b" "  # the blank ends the last run
    has_words = any(map(lowered.__contains__, _WORDS)) or any(map(text.__contains__, _CHINESE_NAMES))
    if not has_words and _SHORTEST not in runs:  # most texts need no search
        return text
    spans = [
        *_keys(text, runs),
        *_values(text, lowered),
        *_addresses(text, data),
        *_headers(text, lowered),
        *_private_keys(text, data),
    ]
    return _cut(text, sorted(spans), mark) if spans else text


def _found(data: Any, word: Any) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + len(word))


def _keys(text: str, runs: bytes) -> _Spans:
    """Yield keys of known services, in order. A run is searched together with the key characters after it."""
    searched, at = 0, runs.find(_SHORTEST)
    while at >= 0:
        end = runs.find(b" ", at)
        if end > searched and _DIGIT.search(text, at, min(end, at + _SEEN)):
            rest = _REST.match(text, at, at + _SEEN + _FURTHER)
            assert rest is not None  # the pattern also matches an empty text
            start, stop = max(0, at - _BEFORE, searched), rest.end()
            is_all = stop < at + _SEEN + _FURTHER
            searched = stop if is_all else stop - _SEEN
            while key := KEYS.search(text, start, stop + 1):
                start = max(key.start() + 1, key.end() - _BEFORE)
                done = key.end() if is_all or key.end() < stop else runs.find(b" ", key.end())
                searched = max(searched, done)
                yield key.start(), done
        at = runs.find(_SHORTEST, end)


def _values(text: str, lowered: bytes) -> _Spans:
    """Yield the values assigned to names such as ``password``, unless they are code or placeholders."""
    places: tuple[tuple[Any, Any], ...] = (
        *((lowered, word) for word in filter(lowered.__contains__, _NAMES)),
        *((text, word) for word in filter(text.__contains__, _CHINESE_NAMES)),
    )
    for data, word in places:
        done = 0
        for at in _found(data, word):
            if at < done:
                continue
            before = text[max(0, at - 30) : at]
            if _NO_SECRET.search(before) or (word == b"key" and not _KEY_OWNER.search(before)):
                continue
            match = _ASSIGNED.match(text, at)
            span = _assigned(match) if match else None
            if span:
                rest = _REST.match(text, span[1])  # redact the rest of the value too
                done = rest.end() if rest else span[1]
                yield span[0], done


def _assigned(match: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of a value; None for code, a placeholder and a value that is too short or too plain."""
    at, operator, is_password = match.start(), match["operator"], match["password"] is not None
    line = match.string[max(0, at - 200) : at].rpartition("\n")[2]
    is_option = _OPTION.search(line) is not None
    if operator is None and not (is_option or (is_password and _NETRC.search(line))):
        return None
    if match["inside"]:
        value = match["inside"]
        is_value = _is_mixed(value, is_password) and "{" not in value
        return match.span("inside") if is_value and not _NOT_ONE.match(value) else None
    value, start = match["bare"], match.start("bare")
    name = match.string[at : match.start("operator")] if operator == "=" else " "
    if not _WHOLE_LINE.match(line + name):
        value = value[: next((boundary.start() for boundary in _NEXT_FIELD.finditer(value)), None)]
    end = start + len(value)
    after = match.string[end : end + 1]
    if (
        after in _CALL
        or _NOT_ONE.match(value)
        or not _is_mixed(value, is_password)
        or not _DIGIT.search(value)
    ):
        return None
    if _IDENTIFIER.fullmatch(value):
        is_last = after in ("", "\n", "\r", ";", "&", '"', "'", "\\", "<") or is_option
        is_field = (is_last or _SETTING.search(line) or _PAIR.match(match.string, end)) and _is_tight(
            operator
        )
        is_one_word = "_" not in value and "." not in value
        is_random = (is_one_word or _THREE_KINDS.match(value)) and _THREE_DIGITS.match(value)
        is_short = is_password and is_field and "." not in value and "pass" not in value.lower()
        is_long = len(value) >= _MIN_KEY and is_random and not _TYPE.fullmatch(value)
        return (start, end) if is_short or is_long else None
    is_key = _THREE_DIGITS.match(value) or _THREE_KINDS.match(value)
    return (start, end) if is_password or is_key else None


def _is_tight(operator: str | None) -> bool:
    return operator in ("=", ":", ">", None) or operator.strip() in (":", "：", "%3D", "%3d")


def _is_mixed(value: str, is_password: bool) -> bool:
    """Return True for a long enough value with a letter and a digit (or, in a password, a symbol)."""
    is_long = len(value) >= (4 if is_password else _MIN_KEY)
    has_other = _DIGIT.search(value) or (is_password and _SIGN.search(value))
    return bool(is_long and _LETTER.search(value) and has_other)


def _addresses(text: str, data: bytes) -> _Spans:
    for at in _found(data, b"://") if b"@" in data else ():
        match = _USERINFO.match(text, at)
        if match:
            yield match.span(1)
    for at in _found(data, b"curl "):
        match = _CURL.match(text, at)
        if match:
            yield match.span(1)


def _headers(text: str, lowered: bytes) -> _Spans:
    for word, pattern, is_secret in _HEADERS:
        done = 0
        for at in _found(lowered, word):  # this also finds headers in escaped text
            match = pattern.match(text, at + len(word)) if at >= done else None
            if match:
                done = match.end()
                if is_secret.search(text, *match.span(1)) and text[done : done + 1] not in _CALL:
                    yield match.span(1)


def _private_keys(text: str, data: bytes) -> _Spans:
    done = 0
    for at in _found(data, b"PRIVATE KEY"):
        begin, head = _BEGIN.search(text, max(0, at - 50), at), _HEAD_REST.match(text, at)
        if begin is None or head is None or at < done:
            continue
        following = data.find(b"PRIVATE KEY", head.end())
        # Stop at the next marker, which may be the end of this key, so that each part is scanned once.
        done = _end_of_key(text, head.end(), following + 25 if following >= 0 else len(text))
        if done > head.end():
            yield begin.start(), done


def _end_of_key(text: str, start: int, limit: int) -> int:
    """Return where a key's lines end; each line may have a prefix, such as that of `grep -n`."""
    end, at, has_body, is_last = start, start, False, False
    for _ in range(_MAX_LINES):
        stop = _BREAK.search(text, at, min(at + 20_000, limit))
        assert stop is not None  # the pattern also matches the end of the text
        line = text[at : stop.start()]
        closing = _END.search(line)
        bodies = [match.end() for match in _BODY.finditer(line)]
        if closing and (has_body or bodies or is_last or _LAST.search(line[: closing.start()].rstrip())):
            return at + closing.end()
        if bodies and not is_last:
            has_body, end = True, at + bodies[-1]
            if _LETTER.search(line, bodies[-1]):
                return end  # the key ends here, because other text follows
        elif has_body and _LAST.search(line) and not is_last and _WORD.search(line):
            is_last = True
        elif (has_body or not _FIELD.match(line)) and _WORD.search(line):
            return end
        if stop.end() >= limit:
            return end
        at = stop.end()
    return end


def _cut(text: str, spans: list[tuple[int, int]], mark: str) -> str:
    out, position = [], 0
    for start, end in spans:
        if start >= position:
            out += [text[position:start], mark]
        position = max(position, end)
    return "".join([*out, text[position:]])
