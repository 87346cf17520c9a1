"""Making foreign values safe to write down: valid Unicode, plain JSON, bounded length."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.support.language import in_language

_LEFT_OUT = {"en": "[... {count} characters left out ...]", "zh": "【…… 省略了 {count} 个字符 ……】"}
MAX_DEPTH = 100
_SMALL = 1 << 63
MAX_BITS = 14_000  # longer integers have no decimal text in Python (4300 digits)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no JSON body or UTF-8 file can carry, by U+FFFD.

    Any model can write ``"\\ud800"`` in its JSON, and any tool can read such a file name. A text of a class
    of its own, which may add or measure in another way, becomes a plain one.
    """
    text = text if type(text) is str else str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A correctly paired high and low surrogate is one real character; only lone ones are lost.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit: int) -> str:
    """Keep the head and the tail of a long text and say how much was left out.

    Args:
        limit: Greatest length of the result in characters, about.
    """
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n{in_language(_LEFT_OUT).format(count=len(text) - head - tail)}\n{text[-tail:]}"


def to_jsonable(value: Any) -> Any:
    """Return `value` as plain JSON types. Never raises: what has no JSON form becomes its ``str``.

    NaN and infinities become strings, sets become lists, bytes are decoded, dataclasses and pydantic
    models become objects, and anything nested deeper than 100 levels or inside itself is cut.
    """
    return _plain(value, ())


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """`inside` holds the ids of the containers around `value`."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else clean_text(value)
    if value is None or kind is bool or (kind is int and -_SMALL < value < _SMALL):
        return value
    if kind is not dict and kind is not list:
        if isinstance(value, enum.Enum):
            return _plain(value.value, inside)
        if isinstance(value, int):
            return int(value) if value.bit_length() <= MAX_BITS else hex(value)
        if isinstance(value, str):
            return clean_text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
    if len(inside) >= MAX_DEPTH or id(value) in inside:
        return "..."
    try:
        return _container(value, (*inside, id(value)))
    except BaseException:  # noqa: BLE001 - foreign code walks through a foreign object
        return safe_str(value)


def _container(value: Any, inside: tuple[int, ...]) -> Any:
    if type(value) is dict or isinstance(value, Mapping):  # the first is nearly always enough, and cheaper
        return {k if type(k) is str and k.isascii() else _key(k): _plain(v, inside) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, inside) for v in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), inside) for f in dataclasses.fields(value)}
    if hasattr(type(value), "tolist") and hasattr(type(value), "dtype"):
        return _plain(value.tolist(), inside)  # numpy's and their kin
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(), inside)
    return safe_str(value)


def _key(key: Any) -> str:
    return clean_text(key) if isinstance(key, str) else safe_str(key)


def safe_str(value: Any) -> str:
    """``str(value)`` that survives objects whose own ``__str__`` fails."""
    try:
        return clean_text(str(value))
    except BaseException as error:  # noqa: BLE001 - a foreign __str__ may raise anything, SystemExit too
        return f"<{type(value).__name__}: its text form failed with {type(error).__name__}>"


def as_text(value: Any) -> str:
    """Turn whatever a tool returned into the text the model reads.

    Text stays as it is; everything else becomes JSON where it has a JSON form.
    """
    if isinstance(value, str):
        return clean_text(value)
    if type(value) is int and -_SMALL < value < _SMALL:
        return str(value)
    return json.dumps(to_jsonable(value), ensure_ascii=False)


def counted(number: int, word: str) -> str:
    """Such as ``1 step`` or ``2 steps``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
