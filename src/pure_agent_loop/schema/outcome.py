"""What came of a call: from what a tool returned to a text, and parts for what is no text.

Tables and arrays are known by what they can do (pandas, polars, numpy and their kin are never imported), and
are bounded: a model reads a piece of them and is told how much there is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.media import File, Image, part_words
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text, clean_text, safe_str
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool_context import current_call

MOST_ROWS, MOST_COLUMNS, CELL_CHARS = 50, 20, 80
MOST_VALUES = 1_000  # of an array
MOST_MEDIA, MOST_MEDIA_BYTES = 20, 20_000_000  # of one result
MOST_PIECE_CHARS = 1_000_000  # of an iterator, which may have no end


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of one call.

    Args:
        text: What the model reads.
        is_error: True if the call failed.
        is_interrupt: True if the tool was stopped by Ctrl-C: the run should end.
        spent: What models behind the tool used, for the account of the run and its `Budget`: ``usage`` (the
            plain form of a `TokenUsage`), ``cost``, ``tool_calls``; ``in_budget``: True if that budget has
            counted it already. A tool that says something here, or about `is_error`, returns a `ToolOutcome`.
        is_background: True if the work goes on beside the run, and a message will tell what came of it.
        hands_to: The agent that goes on from here; the run ends with ``handed_off``.
        is_retry: True if the tool has sent the model back; see `Retry`.
        found: Names of tools that the model may call from the next step on.
        parts: Images and files that belong to the text, as parts of a message.
        value: What the tool returned, if that was no text. It is in no record.
    """

    text: str
    is_error: bool = False
    is_interrupt: bool = False
    spent: dict[str, Any] | None = None
    is_background: bool = False
    hands_to: str = ""
    is_retry: bool = False
    found: list[str] | None = None
    parts: list[dict[str, Any]] | None = None
    value: Any = field(default=None, repr=False, compare=False)


def failed(prompts: Prompts, tool: str, kind: str, error: str, *, interrupt: bool = False) -> ToolOutcome:
    """The outcome of a call that failed, in the words the model reads.

    Args:
        interrupt: True if it was Ctrl-C.
    """
    text = prompts.tool_error.format(tool=tool, type=kind, error=error, hint=prompts.tool_hint)
    return ToolOutcome(text, is_error=True, is_interrupt=interrupt)


_PLAIN = frozenset({int, float, bool, type(None)})


async def outcome_of(result: Any) -> ToolOutcome:
    """What came of a call that returned this. Foreign code may run, and files are read: in a thread."""
    if type(result) is str:
        return ToolOutcome(clean_text(result))
    if type(result) in _PLAIN:
        return ToolOutcome(as_text(result), value=result)
    if isinstance(result, ToolOutcome):
        return result
    if isinstance(result, (Iterator, AsyncIterator)):
        result = await _gathered(result)
    if isinstance(result, (str, bool, int, float)):
        return ToolOutcome(as_text(result), value=None if isinstance(result, str) else result)
    items = result if isinstance(result, (list, tuple)) else (result,)
    if not any(_is_medium(each) or _can(each, "shape") for each in items):  # no files, no long work
        return ToolOutcome(_content(result).text, value=result)
    found = await run_in_thread(partial(_content, result))
    if isinstance(found, Raised):
        raise found.error
    return ToolOutcome(found.text, parts=found.parts or None, value=result)


class _Content(NamedTuple):
    """What a model gets of a value."""

    text: str
    parts: list[dict[str, Any]]


async def _gathered(value: Any) -> Any:
    """The pieces of an iterator, sync or async, as one value; each is told about as it comes."""
    call, pieces, chars = current_call(), list[Any](), 0
    tell = None if call is None else call.on_piece
    async with aclosing(_pieces(value)) as coming:
        async for piece in coming:
            pieces.append(piece)
            text = piece if isinstance(piece, str) else repr(piece) if _is_medium(piece) else _text(piece)
            chars += len(text)
            if tell is not None:
                await tell(clean_text(text))
            if chars > MOST_PIECE_CHARS:
                pieces.append(say("pieces_cut", count=MOST_PIECE_CHARS))
                break
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


async def _pieces(value: Any) -> AsyncGenerator[Any, None]:
    """One by one; what the iterator holds is given back at the end, also at an early one."""
    end = object()
    if isinstance(value, AsyncIterator):
        try:
            async for piece in value:
                yield piece
        finally:
            if _can(value, "aclose"):
                await value.aclose()  # type: ignore[attr-defined] # generators have it
        return
    try:
        while True:
            piece = await run_in_thread(partial(next, value, end))
            if isinstance(piece, Raised):
                raise piece.error
            if piece is end:
                return
            yield piece
    finally:
        if _can(value, "close"):
            await run_in_thread(value.close)


def _is_medium(value: Any) -> bool:
    return isinstance(value, (Image, File))


def _content(value: Any) -> _Content:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not any(map(_is_medium, items)):
        return _Content(_text(value), [])
    texts, parts, size = list[str](), list[dict[str, Any]](), 0
    for number, item in enumerate(items, 1):
        if not _is_medium(item):
            texts.append(_text(item))
            continue
        try:
            part, note = item.fitted(f"{type(item).__name__.lower()} {number}")
            if part["type"] == "text":
                texts.append(clean_text(part["text"]))
                continue
            words = f"{part_words(part, measured=True)} {note}".rstrip()
            length = len(str(part))
        except PureAgentLoopError as error:
            texts.append(say("media_not_sent", why=safe_str(error)))
            continue
        if len(parts) >= MOST_MEDIA or size + length > MOST_MEDIA_BYTES * 4 // 3:
            why = say("media_too_many", count=MOST_MEDIA, size=MOST_MEDIA_BYTES)
            texts.append(f"{words} {say('media_not_sent', why=why)}")
            continue
        size += length
        texts.append(words)
        parts.append(part)
    return _Content("\n".join(texts), parts)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if _can(value, "to_frame") and not _can(value, "iterrows"):
        value = value.to_frame()
    if _can(value, "head") and _can(value, "columns") and _can(value, "shape"):
        return _table(value)
    if _can(value, "tolist") and _can(value, "dtype") and _can(value, "shape"):
        return _array(value)
    if isinstance(value, (list, tuple)) and any(map(_is_big, value)):
        return "\n".join(map(_text, value))
    return as_text(value)


def _is_big(value: Any) -> bool:
    """True for what would fill a result by itself: a table, a long array."""
    return _can(value, "shape") and (
        _can(value, "head") or (_can(value, "ravel") and getattr(value, "size", 0) > MOST_VALUES)
    )


def _can(value: Any, name: str) -> bool:
    """Whether a value's type has an attribute: the value itself may say yes to every question."""
    return hasattr(type(value), name)


def _table(frame: Any) -> str:
    rows, columns = frame.shape
    names = [_cell(name) for name in list(frame.columns)[:MOST_COLUMNS]]
    head = frame.head(MOST_ROWS)
    if _can(frame, "itertuples"):  # pandas, whose rows have names
        lines = [list(row) for row in head.itertuples(index=True, name=None)]
        names = ["", *names]
    else:
        lines = [list(row) for row in (head.rows() if _can(head, "rows") else head.iter_rows())]
    table = [names, ["---"] * len(names), *([_cell(each) for each in row[: len(names)]] for row in lines)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in table)
    if rows <= MOST_ROWS and columns <= MOST_COLUMNS:
        return text
    shown = {"rows": min(rows, MOST_ROWS), "columns": min(columns, MOST_COLUMNS)}
    return f"{text}\n{say('table_cut', all_rows=rows, all_columns=columns, **shown)}"


def _cell(value: Any) -> str:
    text = " ".join(safe_str(value).split()).replace("|", "\\|")
    return text if len(text) <= CELL_CHARS else f"{text[:CELL_CHARS]}..."


def _array(array: Any) -> str:
    size = int(getattr(array, "size", 0))
    if size <= MOST_VALUES:
        return as_text(array.tolist())
    about = {"size": size, "shape": tuple(array.shape), "dtype": safe_str(array.dtype)}
    first = as_text(array.ravel()[:MOST_VALUES].tolist())
    return f"{first}\n{say('array_cut', count=MOST_VALUES, **about)}"


def without_secrets(
    parts: list[dict[str, Any]] | None, redactor: Redactor
) -> tuple[list[dict[str, Any]] | None, bool]:
    """Parts that hold no known secret, and whether one was left out: a picture cannot be cleaned."""
    left = [part for part in parts or () if redactor.redact_value(part) is part]
    return left or None, len(left) != len(parts or ())
