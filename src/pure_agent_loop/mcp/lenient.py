"""Read a server's answers entry by entry, since the SDK rejects a whole answer for one invalid entry.

A message that the SDK cannot parse is repaired. An entry that does not fit the protocol loses its
invalid optional fields, or is left out; the reasons are stored in the answer's ``_meta``.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import JsonDecoder
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text

_KEY = "pure-agent-loop/left-out"
MAX_LEVELS = 150  # maximum nesting levels of a message; the SDK's parser allows 200
MAX_DIGITS = 4_000  # maximum digits of a whole number; Python allows 4,300
MAX_OPEN = 10_000  # maximum number of tracked unanswered requests
MAX_SHOWN = 2_000  # maximum characters of the list of left-out entries
_NAMES = ("name", "uri", "uriTemplate", "title")
_MARK = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
_CALL, _LIST = "tools/call", "tools/list"
_ABOUT = (
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "_meta",
)  # all other fields of a result count as data
Path = tuple[Any, ...]
Problems = Sequence[Mapping[str, Any]]
Check = Callable[[Any], Problems]


def left_out(result: Any) -> Sequence[str]:
    """Return the entries left out of an answer, with the reasons, for people."""
    texts = (getattr(result, "meta", None) or {}).get(_KEY)
    return [one_line(str(text), MAX_SHOWN) for text in texts] if isinstance(texts, list) else []


def repaired(data: bytes) -> bytes:
    """Return a message in a form that the SDK can parse; unchanged if it is valid or cannot be repaired.

    Values nested deeper than `MAX_LEVELS` become ``"..."``. Half of a surrogate pair (from texts truncated in
    JavaScript) becomes a question mark. A number with too many digits becomes a string.
    """
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        try:
            message = json.loads(
                _shallow(data).decode("utf-8", "replace"), cls=JsonDecoder, parse_int=_whole, strict=False
            )
        except ValueError:
            return data
        if isinstance(message, dict):
            if "result" in message and not isinstance(message["result"], dict):
                message["result"] = {} if message["result"] is None else {"value": message["result"]}
            return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return data


def _shallow(text: bytes) -> bytes:
    """Replace values nested too deeply; the text may have any depth."""
    pieces, start, depth, is_string = list[bytes](), 0, 0, False
    for mark in _MARK.finditer(text):
        if mark[0] == b'"':
            is_string = not is_string
        elif is_string or len(mark[0]) > 1:
            continue
        elif mark[0] in b"[{":
            depth += 1
            if depth == MAX_LEVELS + 1:
                pieces.append(text[start : mark.start()])
        else:
            if depth == MAX_LEVELS + 1:
                pieces.append(b'"..."')
                start = mark.end()
            depth -= 1
    return b"".join([*pieces, text[start:]])


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


@asynccontextmanager
async def lenient(transport: Any, version: Callable[[], str | None]) -> AsyncIterator[Any]:
    """Open a transport and yield its two streams; received messages are made to fit the protocol.

    Args:
        version: Returns the protocol version; None before it is negotiated.
    """
    methods: dict[str, str] = {}
    async with transport as (read, write):
        yield _Answers(read, methods, version), _Requests(write, methods)


class _Stream:
    """A wrapper of an SDK stream; subclasses process each message."""

    def __init__(self, inner: Any, methods: dict[str, str]) -> None:
        self._inner, self._methods = inner, methods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)


class _Requests(_Stream):
    async def send(self, item: Any) -> None:
        message = item.message
        method, number = getattr(message, "method", ""), getattr(message, "id", None)
        if method and number is not None:
            # Bounded, because some requests are never answered.
            put_bounded(self._methods, str(number), method, MAX_OPEN)
        await self._inner.send(item)


class _Answers(_Stream):
    def __init__(self, inner: Any, methods: dict[str, str], version: Callable[[], str | None]) -> None:
        super().__init__(inner, methods)
        self._version = version

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        item = await self._inner.__anext__()
        message: Any = getattr(item, "message", None)
        result = getattr(message, "result", None)
        if isinstance(result, dict):
            method = self._methods.pop(str(message.id), "")
            version = self._version() if method else None
            if version is not None:
                message.result = mended(method, version, result)
        return item


def mended(method: str, version: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the invalid parts; unchanged if it cannot be repaired."""
    check = _checker(method, version)
    if check is None:
        return result
    whole = _completed(method, result)
    if not check(whole):
        return whole
    whole = _with_content(whole) if method == "tools/call" else whole
    return _Mender(method, check).answer(whole) or result


@lru_cache(maxsize=64)
def _checker(method: str, version: str) -> Check | None:
    from mcp_types import methods
    from pydantic import TypeAdapter

    surface, whole = methods.SERVER_RESULTS.get((method, version)), methods.MONOLITH_RESULTS.get(method)
    if surface is None or whole is None:
        return None
    kinds: tuple[Any, ...] = surface, whole
    adapters: list[TypeAdapter[Any]] = [TypeAdapter(kind) for kind in kinds]

    def check(result: Any) -> Problems:
        return [problem for adapter in adapters for problem in _problems(adapter, result)]

    return check


def _problems(adapter: Any, result: Any) -> Problems:
    from pydantic import ValidationError

    try:
        adapter.validate_python(result, by_name=False)
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    return ()


def _completed(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with ``"type": "object"`` in the tools' schemas: arguments are always objects."""
    tools = result.get("tools")
    if method != "tools/list" or not isinstance(tools, list):
        return result
    return {**result, "tools": [_with_object(tool) if isinstance(tool, dict) else tool for tool in tools]}


def _with_object(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    if schema is None or schema is True:
        schema = {}
    if isinstance(schema, dict):
        # Servers written in Go send null for an empty list.
        schema = {key: value for key, value in schema.items() if value is not None}
        kind = schema.get("type")
        if kind is None or (isinstance(kind, list) and "object" in kind):
            return {**tool, "inputSchema": {**schema, "type": "object"}}
    return tool


def _with_content(result: dict[str, Any]) -> dict[str, Any]:
    """Return a call result with a list of blocks; data in other fields becomes text for the model."""
    if result.get("resultType", "complete") != "complete":
        return result
    repaired, content = dict(result), result.get("content")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    structured = result.get("structuredContent")
    if not blocks and structured is None:
        data = {name: value for name, value in result.items() if name not in _ABOUT}
        blocks = [as_text(data)] if data else []
    elif not blocks and not isinstance(structured, dict):
        blocks = [as_text(repaired.pop("structuredContent"))]
    return {**repaired, "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def _lists(value: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the lists in an answer and in its fields, with their paths."""
    for name, item in value.items():
        if isinstance(item, list):
            yield (*path, name), item
        elif isinstance(item, dict) and not path:
            yield from _lists(item, (name,))


def _put(value: Mapping[str, Any], path: Path, new: Any) -> dict[str, Any]:
    """Return a copy with the value at a path replaced."""
    return {**value, path[0]: _put(value[path[0]], path[1:], new) if path[1:] else new}


def _reduced(value: dict[str, Any], problems: Problems, check: Check) -> dict[str, Any] | None:
    """Return the value without its invalid fields; None if it still does not fit.

    A missing required list becomes empty.
    """
    plain = {name: item for name, item in value.items() if item is not None}  # null counts as missing
    wrong = dict.fromkeys(_field(value, p) for p in problems)
    missing = [name for name in wrong if name and name not in plain]
    for omitted in ((), *((name,) for name in wrong), tuple(wrong)):
        repaired = {name: item for name, item in plain.items() if name not in omitted}
        for empty in ([], *([name] for name in missing)):
            candidate = {**repaired, **{name: [] for name in empty}}
            if not check(candidate):
                return candidate
    return None


def _field(value: Mapping[str, Any], problem: Mapping[str, Any]) -> str:
    """Return the name of the field, present or missing, that a problem is about."""
    inner = problem["loc"]
    default = inner[-1] if problem["type"] == "missing" else ""
    return str(next((part for part in inner if part in value), default))


def _is_lost(name: str, value: Mapping[str, Any], repaired: Mapping[str, Any]) -> bool:
    return name not in repaired and value.get(name) is not None  # null counts as missing


class _Mender:
    """Removes the invalid parts of an answer and records the reasons."""

    def __init__(self, method: str, check: Check) -> None:
        self._method, self._check, self._reasons = method, check, list[str]()

    def answer(self, whole: dict[str, Any]) -> dict[str, Any] | None:
        """Return the repaired answer; None if it does not fit even with empty lists."""
        lists, frame = dict(_lists(whole)), whole
        for path in lists:
            frame = _put(frame, path, [])
        problems = self._check(frame)
        repaired = _reduced(frame, problems, self._check) if problems else frame
        if repaired is None:
            return None
        for name in frame:
            if _is_lost(name, frame, repaired):
                causes = [problem for problem in problems if _field(frame, problem) == name]
                self._note("mcp_left_out", self._method, name, frame[name], causes)
        full = repaired
        for path, entries in lists.items():
            if path[0] in repaired:
                full = _put(full, path, self._fitting(entries, repaired, path))
        return {**full, "_meta": {**full.get("_meta", {}), _KEY: self._reasons}} if self._reasons else full

    def _fitting(self, entries: list[Any], frame: dict[str, Any], path: Path) -> list[Any]:
        """Return the entries of a list that are valid or can be repaired."""

        def alone(entry: Any) -> Problems:
            problems = self._check(_put(frame, path, [entry]))
            return [{**p, "loc": p["loc"][p["loc"].index(0) + 1 :]} for p in problems if 0 in p["loc"]]

        if not self._check(_put(frame, path, entries)):
            return entries
        fitting = list[Any]()
        for number, entry in enumerate(entries, 1):
            problems = alone(entry)
            kept = _reduced(entry, problems, alone) if problems and isinstance(entry, dict) else None
            fitting += [entry] if not problems else [] if kept is None else [kept]
            lost = (
                problems if kept is None else [p for p in problems if _is_lost(_field(entry, p), entry, kept)]
            )
            if lost:
                names = [entry.get(key) for key in _NAMES] if isinstance(entry, dict) else []
                name = next((text for text in names if isinstance(text, str) and text), f"#{number}")
                key = "mcp_left_out" if kept is None else "mcp_field_left_out"
                self._note(key, ".".join(path), name, entry, lost)
        return fitting

    def _note(self, key: str, what: str, name: str, value: Any, problems: Problems) -> None:
        # Skip the problems of union alternatives that describe other kinds of values.
        others = {p["loc"][:1] for p in problems if p["type"] == "literal_error"}
        own = [p for p in problems if p["loc"][:1] not in others]
        first = (own or [p for p in problems if p["type"] == "literal_error"] or problems)[0]
        why = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        # Include the data of a call's result, which a model may still use.
        if not self._method.endswith("/list"):
            why = f"{why}: {as_text(value)}"
        self._reasons.append(model_text(key, what=what, name=one_line(name), why=why))
