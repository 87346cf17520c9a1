"""The shapes of well-known keys, and of assignments of something that looks like one. All in linear time."""

from __future__ import annotations

import re
from math import log2

_ENTROPY_BITS = 3.0
_MIN_DISTINCT = 8

# What a key begins with, and what must follow. Each prefix is looked for first, which costs next to nothing.
_PREFIXED = {
    # OpenAI, Anthropic (sk-ant-), OpenRouter and others; without a digit it is a name, as in style sheets.
    "sk-": r"(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{20,}",
    "ghp_": r"[A-Za-z0-9]{30,}",
    "gho_": r"[A-Za-z0-9]{30,}",
    "ghu_": r"[A-Za-z0-9]{30,}",
    "ghs_": r"[A-Za-z0-9]{30,}",
    "ghr_": r"[A-Za-z0-9]{30,}",
    "github_pat_": r"[A-Za-z0-9_]{30,}",
    "glpat-": r"[A-Za-z0-9_.-]{20,}",
    "xoxb-": r"[A-Za-z0-9-]{10,}",
    "xoxa-": r"[A-Za-z0-9-]{10,}",
    "xoxp-": r"[A-Za-z0-9-]{10,}",
    "xoxr-": r"[A-Za-z0-9-]{10,}",
    "xoxs-": r"[A-Za-z0-9-]{10,}",
    "AKIA": r"[A-Z0-9]{16}(?![A-Za-z0-9])",
    "ASIA": r"[A-Z0-9]{16}(?![A-Za-z0-9])",
    "AIza": r"[A-Za-z0-9_-]{35}",
    "hf_": r"[A-Za-z0-9]{30,}",
    "npm_": r"[A-Za-z0-9]{36}",
    "pypi-": r"[A-Za-z0-9_-]{50,}",
    "SG.": r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "rk_live_": r"[A-Za-z0-9]{16,}",
    "sk_live_": r"[A-Za-z0-9]{16,}",
    "eyJ": r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",  # JSON web token
}
# A key does not begin within a word, but behind an escape of JSON, of an address or of a terminal it may.
_BEFORE = [
    r"(?<![A-Za-z0-9_-]{0})",
    r"(?<=\\[nrtbf]{0})",
    r"(?<=\\u[0-9A-Fa-f]{{4}}{0})",
    r"(?<=%[0-9A-Fa-f]{{2}}{0})",
    r"(?<=[0-9\[]m{0})",
]


def _pattern(prefix: str, rest: str) -> re.Pattern[str]:
    plain = re.escape(prefix)
    return re.compile(f"{plain}(?:{'|'.join(_BEFORE).format(plain)}){rest}")


_PATTERNS = [(prefix, _pattern(prefix, rest)) for prefix, rest in _PREFIXED.items()]
_PEM_LETTER = r"[A-Za-z0-9+/=\s\\:,-]"
_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    rf"{_PEM_LETTER}*?(?:-----END [A-Z ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----|(?!{_PEM_LETTER}))"
)
# What stands for a password in code and settings: ${NAME}, {name}, $NAME, <name>, %s, ***, pass; or a port.
_PLACEHOLDER = (
    r"(?:\$?\{{1,2}[\w.]{0,60}\}{1,2}|\$[A-Z_]{1,60}|<[^>@\s]{0,60}>|%[sv]|%\(\w{1,60}\)s"
    r"|\*{1,60}|pass(?:word|wd|phrase)?)@"
    r"|[0-9]{1,5}[?#]"
)
_USERINFO = re.compile(rf"(://[^/\s:@\"']{{0,100}}:)(?!{_PLACEHOLDER})([^/\s@\"'\[]{{1,200}})@")

_GAP = r"[\w-]{0,30}[\"']?\s{0,5}(?:=>|:=|[:=])\s{0,5}[\"']?"
_ASSIGNED = re.compile(_GAP + r"([^\s\"'<>,;&(){}\[\]`]{16,400})")
_AUTHORISED = re.compile(
    r"[\"']?\s{0,5}[:=]\s{0,5}[\"']?(?:[A-Za-z]{2,20} {1,3})?([A-Za-z0-9._~+/=:-]{8,4000})"
)
_BEARER = re.compile(r" {1,3}([A-Za-z0-9._~+/=-]{16,4000})")
_WORDS: dict[str, re.Pattern[str]] = {
    "password": _ASSIGNED,
    "passwd": _ASSIGNED,
    "secret": _ASSIGNED,
    "token": _ASSIGNED,
    "api_key": _ASSIGNED,
    "api-key": _ASSIGNED,
    "apikey": _ASSIGNED,
    "access_key": _ASSIGNED,
    "private_key": _ASSIGNED,
    "credential": _ASSIGNED,
    "authorization": _AUTHORISED,
    "bearer": _BEARER,
}
_PASSWORDS = ("password", "passwd")
_TOKENIZER = re.compile(r"i[sz]", re.I)  # what follows "token" in tokenizer, tokenise, ...
_CALLED, _PATH = re.compile(r"[A-Za-z_][\w.:]*"), re.compile(r"[a-z_]\w*(?:\.\w+)+")
_PLAIN = re.compile(r"[A-Z_]+|[a-z_]+|[A-Z]?[a-z]+")
_PARTS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")
_VOWEL, _NO_WORD = re.compile("[aeiouy]", re.I), re.compile("[^aeiouy]{5}", re.I)
_DIGIT, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
_NO_SECRET = re.compile(r"(?:page|next|cursor|continuation|sync|public)[_-]?$", re.I)


def remove_shapes(text: str, mark: str) -> str:
    """The text without what looks like a key.

    Args:
        text: Any text.
        mark: Stands in its place.
    """
    for prefix, pattern in _PATTERNS:
        if prefix in text:
            text = pattern.sub(mark, text)
    if "PRIVATE KEY" in text:
        text = _PEM.sub(mark, text)
    if "@" in text and "://" in text:
        text = _USERINFO.sub(rf"\g<1>{mark}@", text)
    lowered = text.replace("\u0130", "I").lower()  # the one letter whose small form is longer
    spans = [
        span
        for word, pattern in _WORDS.items()
        if word in lowered
        for span in _assigned(text, lowered, word, pattern)
    ]
    return _cut(text, sorted(spans), mark) if spans else text


def _assigned(text: str, lowered: str, word: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = lowered.find(word)
    while at >= 0:
        end = at + len(word)
        match = pattern.match(text, end)
        if match:  # what was looked at is not looked at again, else this would take quadratic time
            named = not _NO_SECRET.search(text, max(0, at - 20), at)
            is_tokenizer = word == "token" and _TOKENIZER.match(text, end)
            if named and not is_tokenizer and _is_secret(match, word) and not _is_code(match):
                found.append(match.span(1))
            end = match.end()
        at = lowered.find(word, end)
    return found


def _is_secret(match: re.Match[str], word: str) -> bool:
    value = match[1]
    if match.re is _AUTHORISED:
        return not (_PLAIN.fullmatch(value) or (value.isalpha() and _has_words(value)))
    return looks_random(value) and (word in _PASSWORDS or not _is_name(value))


def _is_code(match: re.Match[str]) -> bool:
    """True for what is called, indexed or looked up there: no quotes, and names in place of a value."""
    text, value = match.string, match[1]
    if text[match.start(1) - 1] in "\"'":
        return False
    if text[match.end(1) : match.end(1) + 1] in ("(", "["):
        return _CALLED.fullmatch(value) is not None
    return _PATH.fullmatch(value) is not None and _has_words(value)


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
