"""What looks like a secret that nobody named: keys of known services, and values behind a telling word.

To search a long text must cost little. So it is looked through for a few words, and once for runs of sixteen
letters of which keys are made (a search for sixteen equal bytes). Only there are patterns tried. Linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import log2
from typing import Any

from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.secrets.secret_keys import KEYS

_ENTROPY_BITS = 3.0
_MIN_DISTINCT = 8
_SEEN = 600  # of a run: no key begins later in one
_NEAR = 100  # how far before a value its name stands
_LONGEST = 30  # of a name
_Spans = Iterator[tuple[int, int]]

_RUN = bytes(
    97 if (chr(code).isalnum() and code < 128) or chr(code) in "_-./+~%" else 32 for code in range(256)
)
_SHORTEST = b"a" * 16
_REST = lazy_pattern(r"[A-Za-z0-9_./+~%=:-]{0,4000}")
_DIGIT, _LETTER, _SIGN = lazy_pattern("[0-9]"), lazy_pattern("[A-Za-z]"), lazy_pattern(r"[!@#$%^&*?+~|]")

_QUOTE = r"(?:\\{0,3}[\"'`]|&quot;|&#(?:34|39|x27);|%22|\\u0022)?"
_OPERATOR = rf"{_QUOTE}\s{{0,5}}(?:=>|:=|=(?!=)|:(?!:)|：|%3[AaDd])\s{{0,5}}"
# An element of XML, a name and a value as two fields, a column; a sentence or `ENV NAME value`.
_FIELDS = (
    rf"{_OPERATOR}|{_QUOTE}>(?=[^<>\n]{{4,400}}</)|{_QUOTE}[\s,]{{1,40}}{_QUOTE}(?:value|content){_OPERATOR}"
)
_WIDE = rf"(?:{_FIELDS}|\s{{0,5}}(?:\||\t)\s{{0,5}})"
_NAMES = lazy_pattern(
    r"password|passwd|passphrase|secret|token|credential|(?<=-)signature|cookie|bearer"
    r"|(?:\b|_)(?:sig|dsn|auth|pass|pw|pat|psk)\b|[a-z]{2,20}[_. -]key|(?-i:[a-z]Key)"
    r"|(?:api|auth|access|account|license|master|private|secret)key|密码|密钥|口令|令牌|凭证",
    re.I,
)
_STEM = re.compile(rb"key|token|secret|pass|credential|sig|cookie|bearer|dsn|auth|pw|pat|psk|\?\?")
_ASSIGNED = lazy_pattern(rf"[\w-]{{0,30}}{_WIDE}{_QUOTE}([^\s\"'<>,;&(){{}}\[\]`]{{16,400}})")
_GIVEN = lazy_pattern(rf"[\w-]{{0,30}}[ ]{{1,3}}{_QUOTE}([^\s\"'<>,;&(){{}}\[\]`]{{16,400}})")
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
_TOKENIZER = lazy_pattern(r"i[sz]", re.I)  # what follows "token" in tokenizer, tokenise, ...

# What stands for a password in code and settings: ${NAME}, {name}, $NAME, <name>, %s, ***, pass; or a port.
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

_CALLED, _DOTTED = lazy_pattern(r"[A-Za-z_][\w.:]*"), lazy_pattern(r"[A-Za-z_]\w*(?:\.\w+)*")
_TYPE = lazy_pattern(r"[\w.]*(?:[A-Z][a-z]{2,20}){2}")  # `Ed25519PrivateKey`
_PLAIN = lazy_pattern(r"[A-Z_]+|[a-z_]+|[A-Z]?[a-z]+")
_PARTS = lazy_pattern(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")
_VOWEL, _NO_WORD = lazy_pattern("[aeiouy]", re.I), lazy_pattern("[^aeiouy]{5}", re.I)


# What the search for each shape begins with; that of keys begins with a run of letters and digits.
_PASSWORD_WORDS, _CHINESE_WORDS = (b"pass", b"pwd", b"psk", b"secret"), ("密码", "口令")
_WORDS = (*_PASSWORD_WORDS, b"://", b"curl ", b"authori", b"cookie", b"private key")


def remove_shapes(text: str, mark: str) -> str:
    """The text without what looks like a key.

    Args:
        text: Any text.
        mark: Stands in its place.
    """
    data = text.encode("ascii", "replace")  # one byte for each character
    lowered = data.lower()
    is_plain = _SHORTEST not in data.translate(_RUN) and not any(map(text.__contains__, _CHINESE_WORDS))
    if is_plain and not any(map(lowered.__contains__, _WORDS)):  # as most results are
        return text
    spans = [
        *_keys(text, data, lowered),
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


def _keys(text: str, data: bytes, lowered: bytes) -> _Spans:
    runs = data.translate(_RUN)
    at, searched, names = runs.find(_SHORTEST), 0, _Names(text)
    while at >= 0:
        end = runs.find(b" ", at)
        end = len(text) if end < 0 else end
        if _DIGIT.search(text, at, min(end, at + _SEEN)):
            near = lowered[max(0, at - _NEAR) : end]
            span = None
            if end + _SEEN > searched:  # else it was searched along with a run before it
                span, searched = _key(text, at, end)
            span = span or (_value(text, names.near(at, end), at, end) if _STEM.search(near) else None)
            if span:
                yield span
                end = max(end, span[1])
        at = runs.find(_SHORTEST, end)


def _key(text: str, at: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """Where a key stands, and up to where there is none."""
    rest = _REST.match(text, end)
    assert rest is not None  # it may be empty
    stop = min(rest.end() + 1, at + _SEEN + 4000)
    key = KEYS.search(text, max(0, at - 12), stop)
    if key and key.end() > at and not (key[0].startswith("sk-") and _has_words(key[0])):
        return key.span(), 0
    return None, 0 if key else stop


class _Names:
    """Telling names near a place; the places come in order, and no part of the text is looked at for each."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self._found: list[re.Match[str]] = []

    def near(self, at: int, end: int) -> list[re.Match[str]]:
        """Those within a hundred characters before `at`, or up to `end`."""
        start = max(at - _NEAR, self._end - _LONGEST, 0)
        kept = [each for each in self._found if at - _NEAR <= each.start() < start]
        self._found = [*kept, *_NAMES.finditer(self._text, start, end)]
        self._end = max(self._end, end)
        return self._found


def _value(text: str, names: list[re.Match[str]], at: int, end: int) -> tuple[int, int] | None:
    for name in names:
        span = _named(text, name, at)
        if span is not None:
            return span[0], max(span[1], end)
    return None


def _named(text: str, name: re.Match[str], at: int) -> tuple[int, int] | None:
    """Where the value of that name is, if one stands there, and looks like a secret."""
    word, pattern = name[0].lower(), _ASSIGNED
    if word == "bearer":
        pattern = _BEARER
    elif not _ASSIGNED.match(text, name.end()):
        is_option = _OPTION.search(text, max(0, name.start() - 40), name.start())
        pattern = _GIVEN if is_option else _SAID
    value = pattern.match(text, name.end()) or _behind(text, name.end(), at)
    if value is None or value.end(1) <= at:
        return None
    if word == "token" and _TOKENIZER.match(text, name.end()):
        return None
    if _NO_SECRET.search(text, max(0, name.start() - 20), name.start()):
        return None
    if pattern is _SAID and _has_words(value[1]):
        return None
    is_secret = looks_random(value[1]) and ("passw" in word or not _is_name(value[1])) and not _is_code(value)
    return value.span(1) if is_secret else None


def _behind(text: str, end: int, at: int) -> re.Match[str] | None:
    """Letters and digits that stand behind a name with nothing but signs between them."""
    is_quoted = text[at - 1] in "\"'`"
    if not (_TO_QUOTED if is_quoted else _TO_BARE).fullmatch(text, end, at):
        return None
    value = _LETTERS.match(text, at)
    after = text[value.end() : value.end() + 1] if value else ""
    ends_well = after in ('"', "'", "`") if is_quoted else not _GOES_ON.match(after)
    return value if value and ends_well and not _has_words(value[1]) else None


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
    for at in _found(lowered, b"authori"):  # also in one that is escaped
        match = _AUTHORISED.match(text, at + 7) if at >= done else None
        if match:
            done = match.end()
            value = match[1]
            if not (_PLAIN.fullmatch(value) or (value.isalpha() and _has_words(value)) or _is_code(match)):
                yield match.span(1)
    for at in _found(lowered, b"cookie"):
        match = _COOKIE.match(text, at + 6) if at >= done else None
        if match:
            done = match.end()
            if any(_is_mixed(part.partition("=")[2]) for part in match[1].split(";")):
                yield match.span(1)


# A password may be short and have any sign in it, so that what stands around it must tell more.
_PASSWORD = lazy_pattern(
    rf"(?:(?:word|wd|phrase|code)[\w-]{{0,30}}|(?<![A-Za-z]pass)(?<![A-Za-z]psk)(?![A-Za-z])|(?<=pwd)[\w-]{{0,30}}|(?<=密码|口令))"
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


_SECRET = lazy_pattern(
    rf"[\w-]{{0,30}}({_OPERATOR})()(?P<quote>\\{{0,3}}[\"'])(?P<inside>[^\s\"'`]{{12,200}}?)(?P=quote)(?P<bare>)"
)


def _password(text: str, at: int, match: re.Match[str]) -> tuple[int, int] | None:
    value, start = match["inside"], match.start("inside")
    if value:
        sure = _LETTER.search(value) and (_DIGIT.search(value) or _SIGN.search(value))
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
        value = value[: next((found.start() for found in _NEXT_FIELD.finditer(value)), None)]
    end = start + len(value)
    is_option = operator is None or (_OPTION.search(line) or _SETTING.search(line)) is not None
    return (start, end) if _is_password(text, value, end, operator, is_option) else None


def _is_password(text: str, value: str, end: int, operator: str | None, is_option: bool) -> bool:
    after = text[end : end + 1]
    if len(value) < 4 or _NOT_ONE.match(value) or not _LETTER.search(value) or after in ("(", "["):
        return False
    if not _DOTTED.fullmatch(value):
        has_sign = _DIGIT.search(value) and _SIGN.search(value)
        return bool(has_sign) or (_is_mixed(value) and not value.startswith("0x"))
    if "." in value or "pass" in value.lower():
        return False
    is_last = after in ("", "\n", "\r", ";", "&", '"', "'", "\\", "<") or is_option or _PAIR.match(text, end)
    is_tight = operator in ("=", ":", ">", None) or (operator or "").strip() in (":", "：", "%3D", "%3d")
    return bool(is_last and is_tight and (_DIGIT.search(value) or _is_camel(value))) or (
        len(value) >= 16 and looks_random(value) and not _has_words(value)
    )


def _is_camel(value: str) -> bool:
    """True for large and small letters that are no words."""
    return len(value) >= 8 and value[1:].upper() != value[1:] != value[1:].lower() and not _has_words(value)


def _is_mixed(value: str) -> bool:
    has_both = _DIGIT.search(value) is not None and _LETTER.search(value) is not None
    return len(value) >= 8 and has_both and not _has_words(value)


_BEGIN = lazy_pattern(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_HEAD_REST = lazy_pattern(r"PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = lazy_pattern(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BREAK = lazy_pattern(r"(?:\\+[rn]|[\r\n])+|\Z")
_BODY = lazy_pattern(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")
_LAST = lazy_pattern(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{1,76}={0,2}[^A-Za-z0-9+/=]{0,12}\Z")
_FIELD = lazy_pattern(r"[^\n]{0,120}?[A-Z][A-Za-z-]{2,20}: |[^\n]{0,120}[:|>#+\s-]\Z|[\d\s]{1,9}\Z")
_WORD = lazy_pattern("[A-Za-z0-9]")
_MOST_LINES = 400


def _private_keys(text: str, data: bytes) -> _Spans:
    done = 0
    for at in _found(data, b"PRIVATE KEY"):
        begin, head = _BEGIN.search(text, max(0, at - 50), at), _HEAD_REST.match(text, at)
        if begin is None or head is None or at < done:
            continue
        next_one = data.find(b"PRIVATE KEY", head.end())
        # No further than to the next such words, which may be the end of this one: so each part is seen once.
        done = _end_of_key(text, head.end(), next_one + 25 if next_one >= 0 else len(text))
        if done > head.end():
            yield begin.start(), done


def _end_of_key(text: str, start: int, limit: int) -> int:
    """The end of a key's lines, each of which may stand behind something, as from `grep -n`."""
    end, at, has_body, is_last = start, start, False, False
    for _ in range(_MOST_LINES):
        stop = _BREAK.search(text, at, min(at + 20_000, limit))
        line = text[at : stop.start() if stop else at + 20_000]
        closing = _END.search(line)
        bodies = [found.end() for found in _BODY.finditer(line) if _is_body(found[0])]
        if closing and (has_body or bodies or is_last or _LAST.search(line[: closing.start()].rstrip())):
            return at + closing.end()
        if bodies and not is_last:
            has_body, end = True, at + bodies[-1]
            if _LETTER.search(line, bodies[-1]):
                return end  # the text goes on with something else
        elif has_body and _LAST.search(line) and not is_last and _WORD.search(line):
            is_last = True
        elif (has_body or not _FIELD.match(line)) and _WORD.search(line):
            return end
        if stop is None or stop.end() >= limit:
            return end
        at = stop.end()
    return end


def _is_body(line: str) -> bool:
    return _DIGIT.search(line) is not None if len(line) > 40 else _is_mixed(line)


def _is_code(match: re.Match[str]) -> bool:
    """True for what is called, indexed or looked up there: no quotes, and names in place of a value."""
    text, value = match.string, match[1]
    if text[match.start(1) - 1] in "\"'":
        return False
    if text[match.end(1) : match.end(1) + 1] in ("(", "["):
        return _CALLED.fullmatch(value) is not None
    is_lookup = re.fullmatch(r"[a-z_]\w*(?:\.\w+)+", value) is not None and _has_words(value)
    return is_lookup or _TYPE.fullmatch(value) is not None


def _is_name(value: str) -> bool:
    """True for words put together, such as ``my-service-account-v2``."""
    return sum(map(value.count, "._:-")) >= 2 and _has_words(value)


def _has_words(value: str) -> bool:
    """Whether most of it could be words. Of random letters and digits one in a hundred could."""
    words = sum(
        len(part)
        for part in _PARTS.findall(value)
        if len(part) > 2 and _VOWEL.search(part) and not _NO_WORD.search(part)
    )
    return words >= 0.6 * sum(map(str.isalnum, value))


def _cut(text: str, spans: list[tuple[int, int]], mark: str) -> str:
    out, position = [], 0
    for start, end in spans:
        if start >= position:
            out += [text[position:start], mark]
        position = max(position, end)
    return "".join([*out, text[position:]])


def looks_random(value: str) -> bool:
    """True for letters and digits mixed as in a key; not for words, numbers, names and addresses."""
    if not _DIGIT.search(value) or not _LETTER.search(value):
        return False
    if value.startswith(("$", "%", "http://", "https://", "/", "./")) or len(set(value)) < _MIN_DISTINCT:
        return False
    sample = value[:100]
    shares = [sample.count(each) / len(sample) for each in set(sample)]
    return -sum(share * log2(share) for share in shares) > _ENTROPY_BITS
