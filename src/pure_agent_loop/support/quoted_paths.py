"""Paths on one line: a name that is not UTF-8 or holds control characters is quoted as git quotes it."""

from __future__ import annotations

import os
import re

_ODD = re.compile('^"|/"|[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SPECIAL = re.compile('["\\\\]|[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_QUOTED = re.compile(r'(?:^|(?<=/))"((?:[^"\\]|\\[abfnrtv"\\]|\\[0-3][0-7]{2})*)"(?=/|$)')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = dict(zip(b'\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True))
_BYTES = {letter: byte for byte, letter in _LETTERS.items()} | {f"{byte:03o}": byte for byte in range(256)}


def quoted_path(path: str) -> str:
    """Return a path as a listing shows it; `unquoted_path` reads it back."""
    return path if _ODD.search(path) is None else f'"{_SPECIAL.sub(_escaped, path)}"'


def unquoted_path(path: str) -> str:
    """Return the original of a quoted path; the quotes may enclose the whole path or single names."""
    return _QUOTED.sub(lambda match: _plain(match[1]), path) if '"' in path else path


def _escaped(match: re.Match[str]) -> str:
    data = match[0].encode(
        "utf-8", "surrogateescape" if "\udc80" <= match[0] <= "\udcff" else "surrogatepass"
    )
    return "".join(f"\\{_LETTERS.get(byte) or format(byte, '03o')}" for byte in data)


def _plain(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([_BYTES[match[1].decode()]]), data))
