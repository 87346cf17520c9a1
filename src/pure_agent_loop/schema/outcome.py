"""Convert a tool's return value to an outcome: text, and message parts for media.

Tables and arrays are recognized by their attributes (pandas, polars, numpy and similar packages are never
imported) and truncated: the model gets an excerpt and the total size.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypedDict

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.media import File, Image, part_words
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_text, clean_text, safe_str
from pure_agent_loop.support.threads import in_thread, run_in_thread
from pure_agent_loop.tool_context import current_call

MAX_ROWS, MAX_COLUMNS, CELL_CHARS = 50, 20, 80
MAX_VALUES = 1_000  # per array
MAX_MEDIA, MAX_MEDIA_BYTES = 20, 20_000_000  # per result
MAX_PIECE_CHARS = 1_000_000  # maximum characters from an iterator, which may be endless
_PLAIN = frozenset({int, float, bool, type(None)})


class CommandEnd(TypedDict):
    """How a command ended, as shown to people; the model reads it in the text of the result.

    Args:
        exit_code: Exit code; 124 for a command that timed out, as with ``timeout`` of the GNU coreutils.
        seconds: Duration of the command, which may have started before the call.
        lines: Number of lines that the command printed.
        tail: The last of these lines, shortened.
        read_only: True if the command ran in a way that could not change anything.
    """

    exit_code: int
    seconds: float
    lines: int
    tail: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of one call.

    Args:
        is_error: True if the call failed.
        is_interrupt: True if Ctrl-C stopped the tool; the run should then end, too.
        spent: Model usage within the tool, for the run's totals and its `Budget`: ``usage`` (the plain form
            of a `TokenUsage`), ``cost``, ``tool_calls``; ``in_budget``: True if the budget has already
            counted this usage. A tool sets this field or `is_error` by returning a `ToolOutcome`.
        is_background: True if the work continues in the background and a message will report its result.
        hands_to: The agent that takes over; the run ends with ``handed_off``.
        is_retry: True if the tool asked the model to correct its call; see `Retry`.
        found: Names of tools that the model may call from the next step on.
        parts: Images and files of the result, as message parts.
        command: How the tool's command ended; None if the tool did not run a command.
        refused: Error kind of a call that was not made because the tool is missing or rejects the arguments.
        value: The tool's return value, unless it is a string. It is never recorded.
        error: The error that the tool's function raised, unless it is an error of this package such as
            `Retry`; it is most likely a bug. It is never recorded.
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
    command: CommandEnd | None = None
    refused: str = ""
    value: Any = field(default=None, repr=False, compare=False)
    error: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def has_failed(self) -> bool:
        """True if the call or its command failed."""
        return self.is_error or (self.command is not None and self.command["exit_code"] != 0)


def failed(
    prompts: Prompts,
    tool: str,
    kind: str,
    error: str,
    *,
    interrupt: bool = False,
    is_made: bool = True,
    hint: bool = True,
) -> ToolOutcome:
    """Return the outcome of a failed call, with an error text for the model.

    Args:
        interrupt: True after Ctrl-C.
        is_made: False if the tool was not called.
        hint: False if the model must not try another way: the effect is unknown, or a person denied the call.
    """
    text = prompts.tool_error.format(
        tool=tool, type=kind, error=error, hint=prompts.tool_hint if hint else ""
    ).rstrip("\n")
    return ToolOutcome(text, is_error=True, is_interrupt=interrupt, refused="" if is_made else kind)


async def outcome_of(result: Any) -> ToolOutcome:
    """Convert a call's return value to an outcome. Foreign code and file reads run in a thread."""
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
    if not any(_is_medium(item) or _can(item, "shape") for item in items):  # fast path: no media, no tables
        return ToolOutcome(_content(result).text, value=result)
    content = await in_thread(partial(_content, result))
    return ToolOutcome(content.text, parts=content.parts or None, value=result)


class _Content(NamedTuple):
    """What the model gets for a value."""

    text: str
    parts: list[dict[str, Any]]


async def _gathered(value: Any) -> Any:
    """Join the pieces of an iterator, sync or async, into one value; report each piece as it comes."""
    call, pieces, chars = current_call(), list[Any](), 0
    tell = None if call is None else call.on_piece
    async with aclosing(_pieces(value)) as coming:
        async for piece in coming:
            pieces.append(piece)
            text = piece if isinstance(piece, str) else repr(piece) if _is_medium(piece) else _text(piece)
            chars += len(text)
            if tell is not None:
                await tell(clean_text(text))
            if chars > MAX_PIECE_CHARS:
                pieces.append(model_text("pieces_cut", count=MAX_PIECE_CHARS))
                break
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces


async def _pieces(value: Any) -> AsyncGenerator[Any, None]:
    """Yield the pieces; close the iterator, even if reading stops early."""
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
            piece = await in_thread(partial(next, value, end))
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
            texts.append(model_text("media_not_sent", why=safe_str(error)))
            continue
        if len(parts) >= MAX_MEDIA or size + length > MAX_MEDIA_BYTES * 4 // 3:
            why = model_text("media_too_many", count=MAX_MEDIA, size=MAX_MEDIA_BYTES)
            texts.append(f"{words} {model_text('media_not_sent', why=why)}")
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
    """Return True for a value that is too long for a result, such as a table or a long array."""
    return _can(value, "shape") and (
        _can(value, "head") or (_can(value, "ravel") and getattr(value, "size", 0) > MAX_VALUES)
    )


def _can(value: Any, name: str) -> bool:
    """Check a value's type for an attribute, because the value's own `__getattr__` may accept any name."""
    return hasattr(type(value), name)


def _table(frame: Any) -> str:
    rows, columns = frame.shape
    names = [_cell(name) for name in list(frame.columns)[:MAX_COLUMNS]]
    head = frame.head(MAX_ROWS)
    if _can(frame, "itertuples"):  # pandas data frames have row names
        lines = [list(row) for row in head.itertuples(index=True, name=None)]
        names = ["", *names]
    else:
        lines = [list(row) for row in (head.rows() if _can(head, "rows") else head.iter_rows())]
    table = [names, ["---"] * len(names), *([_cell(cell) for cell in row[: len(names)]] for row in lines)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in table)
    if rows <= MAX_ROWS and columns <= MAX_COLUMNS:
        return text
    shown = {"rows": min(rows, MAX_ROWS), "columns": min(columns, MAX_COLUMNS)}
    return f"{text}\n{model_text('table_cut', all_rows=rows, all_columns=columns, **shown)}"


def _cell(value: Any) -> str:
    text = " ".join(safe_str(value).split()).replace("|", "\\|")
    return text if len(text) <= CELL_CHARS else f"{text[:CELL_CHARS]}..."


def _array(array: Any) -> str:
    size = int(getattr(array, "size", 0))
    if size <= MAX_VALUES:
        return as_text(array.tolist())
    details = {"size": size, "shape": tuple(array.shape), "dtype": safe_str(array.dtype)}
    first = as_text(array.ravel()[:MAX_VALUES].tolist())
    return f"{first}\n{model_text('array_cut', count=MAX_VALUES, **details)}"


def without_secrets(
    parts: list[dict[str, Any]] | None, redactor: Redactor
) -> tuple[list[dict[str, Any]] | None, bool]:
    """Return the parts without known secrets, and whether any was dropped; an image cannot be redacted."""
    left = [part for part in parts or () if redactor.redact_value(part) is part]
    return left or None, len(left) != len(parts or ())
