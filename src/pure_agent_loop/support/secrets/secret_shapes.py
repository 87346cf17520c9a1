"""What looks like a secret that nobody named: keys of known services, and values behind a telling word.

To search a long text must cost little. So it is looked through for a few words, and once for runs of sixteen
letters of which keys are made (a search for sixteen equal bytes). Only there are patterns tried. Linear time:
a pattern looks at some thousand characters at most, and what was looked at for one word or run is not again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.secrets.looks import (
    DIGIT,
    LETTER,
    SIGN,
    has_words,
    is_camel,
    is_code,
    is_mixed,
    is_name,
    looks_random,
)
from pure_agent_loop.support.secrets.secret_keys import KEYS

_SEEN = 600  # of a run: no key begins later in one
_FURTHER = 4000  # how far a key goes on
_BEFORE = 14  # how far before a run a key begins: `bot` and a number
_NEAR = 100  # how far before a value its name stands
_LONGEST = 30  # of a name
_Spans = Iterator[tuple[int, int]]
_Name = tuple[re.Match[str], tuple[int, int] | None]  # and where its value is

_RUN = bytes(
    97 if (chr(code).isalnum() and code < 128) or chr(code) in "_-./+~%" else 32 for code in range(256)
)
_SHORTEST = b"a" * 16
_REST = lazy_pattern(r"[A-Za-z0-9_./+~%=:-]*")

_MORE = r"[\w-]{0,30}(?![\w-])"  # of a name
_QUOTE = r"(?:\\{0,3}[\"'`]|&quot;|&#(?:34|39|x27);|%22|\\u0022)?"
_OPERATOR = rf"{_QUOTE}\s{{0,5}}(?:=>|:=|=(?!=)|:(?!:)|：|%3[AaDd])\s{{0,5}}"
# An element of XML, a name and a value as two fields, a column; a sentence or `ENV NAME value`.
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

_DOTTED = lazy_pattern(r"[A-Za-z_]\w*(?:\.\w+)*")
_PLAIN = lazy_pattern(r"[A-Z_]+|[a-z_]+|[A-Z]?[a-z]+")


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
    runs = data.translate(_RUN) + b" "  # so that each has an end
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
    """Sixteen and more letters of which keys are made, with a digit among the first ones."""
    at = runs.find(_SHORTEST)
    while at >= 0:
        end = runs.find(b" ", at)
        if DIGIT.search(text, at, min(end, at + _SEEN)):
            yield at, end
        at = runs.find(_SHORTEST, end)


def _keys(text: str, runs: bytes, places: list[tuple[int, int]]) -> _Spans:
    """Keys of known services, in order. What goes on behind a run is searched along with it."""
    searched = 0
    for at, end in places:
        if end <= searched:
            continue
        rest = _REST.match(text, at, at + _SEEN + _FURTHER)
        assert rest is not None  # it may be empty
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
    """What looks random behind a telling name, to the end of a run; no key is looked at again."""
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
    """Telling names near a place, with their values; places come in order, and each name is read once."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self._found: dict[tuple[int, int], _Name] = {}

    def near(self, at: int, end: int) -> Iterable[_Name]:
        """Those within a hundred characters before `at`, or up to `end`."""
        start, known = max(at - _NEAR, self._end - _LONGEST, 0), self._found
        self._found = {span: each for span, each in known.items() if at - _NEAR <= span[0] < start}
        for name in _NAMES.finditer(self._text, start, end):
            self._found[name.span()] = known.get(name.span()) or (name, _assigned(name))
        self._end = max(self._end, end)
        return self._found.values()


def _assigned(name: re.Match[str]) -> tuple[int, int] | None:
    """Where the value of that name is: none if there is none, at 0 if it does not look like a secret."""
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
    """Values that go beyond a place, or begin there with nothing but signs behind their name."""
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
    for at in _found(lowered, b"authori"):  # also in one that is escaped
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


# A password may be short and have any sign in it, so that what stands around it must tell more.
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
    rf"{_MORE}({_OPERATOR})()(?P<quote>\\{{0,3}}[\"'])(?P<inside>[^\s\"'`]{{12,200}}?)(?P=quote)(?P<bare>)"
)


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
        value = value[: next((found.start() for found in _NEXT_FIELD.finditer(value)), None)]
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


_BEGIN = lazy_pattern(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_HEAD_REST = lazy_pattern(r"PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = lazy_pattern(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BREAK = lazy_pattern(r"(?:\\{1,8}[rn]|[\r\n])+|\Z")
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
        assert stop is not None  # the end matches
        line = text[at : stop.start()]
        closing = _END.search(line)
        bodies = [found.end() for found in _BODY.finditer(line) if _is_body(found[0])]
        if closing and (has_body or bodies or is_last or _LAST.search(line[: closing.start()].rstrip())):
            return at + closing.end()
        if bodies and not is_last:
            has_body, end = True, at + bodies[-1]
            if LETTER.search(line, bodies[-1]):
                return end  # the text goes on with something else
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
