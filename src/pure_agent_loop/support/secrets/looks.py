"""How random a value looks, and how much like words, a name or code."""

from __future__ import annotations

import re
from math import log2

from pure_agent_loop.support.lazy import lazy_pattern

_ENTROPY_BITS = 3.0
_MIN_DISTINCT = 8

DIGIT, LETTER, SIGN = lazy_pattern("[0-9]"), lazy_pattern("[A-Za-z]"), lazy_pattern(r"[!@#$%^&*?+~|]")
_CALLED = lazy_pattern(r"[A-Za-z_][\w.:]*")
_TYPE = lazy_pattern(r"[\w.]*(?:[A-Z][a-z]{2,20}){2}")  # `Ed25519PrivateKey`
_PARTS = lazy_pattern(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{3,}")
_WORD = lazy_pattern(r"(?:[^aeiouy]{0,4}[aeiouy])+[^aeiouy]{0,4}", re.I)


def looks_random(value: str) -> bool:
    """True for letters and digits mixed as in a key; not for words, numbers, names and addresses."""
    if not DIGIT.search(value) or not LETTER.search(value):
        return False
    if value.startswith(("$", "%", "http://", "https://", "/", "./")) or len(set(value)) < _MIN_DISTINCT:
        return False
    sample = value[:100]
    shares = [sample.count(each) / len(sample) for each in set(sample)]
    return -sum(share * log2(share) for share in shares) > _ENTROPY_BITS


def is_camel(value: str) -> bool:
    """True for large and small letters that are no words."""
    return len(value) >= 8 and value[1:].upper() != value[1:] != value[1:].lower() and not has_words(value)


def is_mixed(value: str) -> bool:
    """True for eight and more letters and digits that are no words."""
    has_both = DIGIT.search(value) is not None and LETTER.search(value) is not None
    return len(value) >= 8 and has_both and not has_words(value)


def is_code(match: re.Match[str]) -> bool:
    """True for what is called, indexed or looked up there: no quotes, and names in place of a value."""
    text, value = match.string, match[1]
    if text[match.start(1) - 1] in "\"'":
        return False
    if text[match.end(1) : match.end(1) + 1] in ("(", "["):
        return _CALLED.fullmatch(value) is not None
    is_lookup = re.fullmatch(r"[a-z_]\w*(?:\.\w+)+", value) is not None and has_words(value)
    return is_lookup or _TYPE.fullmatch(value) is not None


def is_name(value: str) -> bool:
    """True for words put together, such as ``my-service-account-v2``."""
    return sum(map(value.count, "._:-")) >= 2 and has_words(value)


def has_words(value: str) -> bool:
    """Whether most of it could be words. Of random letters and digits one in a hundred could."""
    words = sum(map(len, filter(_WORD.fullmatch, _PARTS.findall(value))))
    return words >= 0.6 * sum(map(str.isalnum, value))
