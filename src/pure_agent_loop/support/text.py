"""Make untrusted values safe to store: valid Unicode, plain JSON, bounded length."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import linecache
import math
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, cast

from pure_agent_loop.support.language import message_in, model_text

C = TypeVar("C")
MAX_ERROR_CHARS, MAX_PROGRAM_CHARS = 6_000, 2_000
MAX_GROUPED, MAX_REASONS = 10, 30  # maximum errors of an exception group, and maximum causes of an error
_YES, _NO = ("y", "yes", "是"), ("n", "no", "否")
MAX_DEPTH = 100
_SMALL = 1 << 63
MAX_BITS = 14_000  # Python does not convert longer integers to decimal text (4300 digits)
# Holds `failures.log_failure`, which cannot be imported here because `failures` imports this module.
FAILURE_LOGS: list[Callable[[str, BaseException], None]] = []


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no JSON body or UTF-8 file can carry, with U+FFFD.

    A model can write ``"\\ud800"`` in JSON, and a tool can read such a file name. An instance of a `str`
    subclass, which may override methods, becomes a plain `str`.
    """
    text = text if type(text) is str else str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A pair of a high and a low surrogate is one character; only lone surrogates are replaced.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shorten(text: str, limit: int) -> str:
    """Return the head and the tail of a long text, with the number of omitted characters.

    Args:
        limit: Approximate length of the result in characters.
    """
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return (
        f"{text[:head]}\n{model_text('characters_left_out', count=len(text) - head - tail)}\n{text[-tail:]}"
    )


class PlainForm:
    """Base of dataclasses whose fields are plain values, or other dataclasses with such fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        return dataclasses.asdict(cast("Any", self))


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, in their order."""
    return {name: value for name, value in fields.items() if value is not None}


def to_jsonable(value: Any) -> Any:
    """Return `value` as plain JSON types. Never raises: a value without a JSON form becomes its ``str``.

    NaN and infinities become strings, sets become lists, bytes are decoded, dataclasses and pydantic
    models become objects, and anything nested deeper than 100 levels or inside itself is cut.
    """
    return _plain(value, ())


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """Convert a value; `inside` holds the ids of the enclosing containers."""
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
    except BaseException:  # noqa: BLE001 - user code runs during the walk
        return safe_str(value)


def _container(value: Any, inside: tuple[int, ...]) -> Any:
    if type(value) is dict or isinstance(value, Mapping):  # the cheaper check comes first
        return {k if type(k) is str and k.isascii() else _key(k): _plain(v, inside) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, inside) for v in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), inside) for f in dataclasses.fields(value)}
    if hasattr(type(value), "tolist") and hasattr(type(value), "dtype"):
        return _plain(value.tolist(), inside)  # numpy scalars and similar objects
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(), inside)
    return safe_str(value)


def _key(key: Any) -> str:
    return clean_text(key) if isinstance(key, str) else safe_str(key)


def as_sentence(text: str) -> str:
    """Return the text, with a full stop unless it ends a sentence, so that another sentence can follow."""
    return text if text.endswith((".", "!", "?", "。", "！", "？")) else f"{text}."


def nearest(name: str, words: Iterable[str]) -> str:
    """Return the word that a mistyped name probably means; empty if no word is similar."""
    import difflib  # loaded only for an error

    near = difflib.get_close_matches(name.lower(), sorted(words), n=3, cutoff=0.6)
    near.sort(
        key=lambda word: sorted(word) != sorted(name.lower())
    )  # words with the same letters come first: `modle` means `model`, not `mode`
    return near[0] if near else ""


def unexpected_option(
    owner: str, name: str, known: Iterable[str], other_words: Mapping[str, str] | None = None
) -> str:
    """Return the TypeError message for an unknown keyword argument, with the most similar known argument.

    Args:
        other_words: Names in other libraries, each with the argument that it means here.
    """
    words = {**(other_words or {}), **{argument: argument for argument in known}}
    near = words.get(nearest(name, words))
    hint = f" Did you mean {near}?" if near else ""
    return f"{owner} got an unexpected keyword argument {name!r}.{hint}"


def names_options(**other_words: str) -> Callable[[type[C]], type[C]]:
    """Decorate a class: its TypeError for an unknown keyword argument names the most similar argument."""

    def decorate(cls: type[C]) -> type[C]:
        init: Any = cls.__init__
        known = tuple(inspect.signature(init).parameters)[1:]

        @functools.wraps(init)
        def checked(self: C, *args: Any, **options: Any) -> None:
            if unknown := options.keys() - known:
                raise TypeError(unexpected_option(f"{cls.__name__}()", min(unknown), known, other_words))
            init(self, *args, **options)

        type.__setattr__(cls, "__init__", checked)
        return cls

    return decorate


def safe_str(value: Any) -> str:
    """Return ``str(value)``, even if ``__str__`` fails; for an error, all its texts.

    The texts of an error are its message, notes, grouped errors, cause and, if a program failed, the
    program's output. The message of this package's own errors already has all of these texts.
    """
    if not isinstance(value, BaseException):
        return _str(value)
    try:
        return shorten(_error_words(value, set()), MAX_ERROR_CHARS)
    except Exception:  # noqa: BLE001 - a user's error class may raise anything
        return _str(value)


def error_text(error: BaseException) -> str:
    """Return the message of an error, or its type and origin if the message is empty."""
    return safe_str(error) if _str(error).strip() else f"{type(error).__name__}: {safe_str(error)}"


def _error_words(error: BaseException, seen: set[int]) -> str:
    seen.add(id(error))
    text = _str(error)
    words = [text] if text.strip() else []
    if any(base.__module__.partition(".")[0] == "pure_agent_loop" for base in type(error).__mro__):
        return "\n".join([*(words or [_place(error)]), *map(_str, getattr(error, "__notes__", ()))])
    for name in ("stderr", "output"):  # errors of a failed program hold its output
        detail = getattr(error, name, None)
        detail = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else detail
        if isinstance(detail, str) and detail.strip():
            words.append(shorten(clean_text(detail.strip()), MAX_PROGRAM_CHARS))
            break
    words += [_str(note) for note in getattr(error, "__notes__", None) or ()]
    grouped = getattr(error, "exceptions", None)
    inner = list(grouped)[:MAX_GROUPED] if isinstance(grouped, (list, tuple)) else []
    cause = error.__cause__ or (None if words or error.__suppress_context__ else error.__context__)
    inner += [] if cause is None else [cause]
    for reason in inner:
        if isinstance(reason, BaseException) and id(reason) not in seen and len(seen) < MAX_REASONS:
            own, detail = _str(reason), _error_words(reason, seen)
            # If the error's own text is already shown, only its details are added.
            if own and any(own in word for word in words):
                words += filter(None, [detail.removeprefix(own).strip()])
            else:
                detail = f"{type(reason).__name__}: {detail}"
                words.append(_because(detail, text) if reason is cause else detail)
    return "\n".join(words or [_place(error)])


def _because(reason: str, text: str) -> str:
    """Return a line about a cause, in the language of the message before it."""
    if text and not any("\u4e00" <= sign <= "\u9fff" for sign in text):
        return message_in("en", "because", reason=reason)
    return model_text("because", reason=reason)


def raised_at(error: BaseException) -> TracebackType | None:
    """Return the traceback entry where an error was raised; None if it never was."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _place(error: BaseException) -> str:
    """Return the place where an error without a message was raised."""
    trace = raised_at(error)
    if trace is None:
        return model_text("no_message")
    code = trace.tb_frame.f_code
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
    return f"{model_text('no_message')} ({code.co_name}, {file}:{trace.tb_lineno}: {line[:200]})"


def _str(value: Any) -> str:
    try:
        return clean_text(str(value))
    except BaseException as error:  # noqa: BLE001 - a user's __str__ may raise anything, SystemExit too
        # A failing exception is not logged, because the logger would call its `__str__` again.
        if not isinstance(value, BaseException):
            for log in FAILURE_LOGS:
                log(f"The text form of {type(value).__name__}", error)
        return f"<{type(value).__name__}: its text form failed with {type(error).__name__}>"


def as_text(value: Any) -> str:
    """Convert a tool's return value to the text the model reads.

    Text is unchanged; other values become JSON if they have a JSON form.
    """
    if isinstance(value, str):
        return clean_text(value)
    if type(value) is int and -_SMALL < value < _SMALL:
        return str(value)
    return json.dumps(to_jsonable(value), ensure_ascii=False)


def counted(number: int, word: str) -> str:
    """Return a count with its noun, such as ``1 step`` or ``2 steps``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def yes_or_no(text: str) -> bool | None:
    """Convert a typed yes or no to a bool; None for any other text."""
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def excerpt_around(line: str, at: int, most: int) -> str:
    """Return an excerpt of a long line around a position, with dots in place of omitted text.

    Args:
        at: Position that must be visible; a third of the excerpt precedes it.
        most: Greatest length, without the dots.
    """
    if len(line) <= most:
        return line
    start = max(0, min(at - most // 3, len(line) - most))
    prefix, suffix = "..." if start else "", "..." if start + most < len(line) else ""
    return f"{prefix}{line[start : start + most]}{suffix}"
