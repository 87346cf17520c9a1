"""Parse the front matter of a ``SKILL.md``, an agent file or a command: YAML without objects.

Every scalar is text, except ``true`` and ``false``. PyYAML builds only nodes, never objects. Tags that are
not YAML's own, too many values and too deep nesting raise an error that names the line. An alias counts as
all values that it refers to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import lazy_pattern, module_of_extra

Scalar: TypeAlias = "str | bool"
Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"

MAX_CHARS = 100_000  # maximum characters of front matter
_MAX_DEPTH = 30
_MAX_VALUES = 10_000  # an alias counts as all values that it refers to
_MAX_FIELDS = 200  # maximum number of fields that are parsed separately
_FENCE = lazy_pattern(r"---[ \t]*")
_END = lazy_pattern(r"(---|\.\.\.)[ \t]*")
_COMMENT = lazy_pattern(r"(?<!\S)#.*$", re.M)
# A field whose value is plain text (even text like `[a] [b]`), which may continue on indented lines.
_PLAIN_FIELD = lazy_pattern(
    r"^([A-Za-z_][\w.-]*[ \t]*:[ \t]+)(?![\"'|>&*!%@`{#]|\[(?!.*\](?:[ \t]+#.*)?$))(\S.*(?:\n[ \t]+\S.*)*)$",
    re.M,
)
_FIELD = lazy_pattern(r"^(?![\s#}\]]|- )((?:[^\n:]|:(?!\s))*):(?=\s)", re.M)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": "", "~": ""}
# Characters that YAML rejects or reads as line breaks are replaced during parsing.
_EXCHANGED = (*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFFFE, 0xFFFF)
_STAND_INS = {code: 0x10F000 + number for number, code in enumerate(_EXCHANGED)}
_RESTORED = {stand_in: code for code, stand_in in _STAND_INS.items()}


class FrontMatterError(PureAgentLoopError, ValueError):
    """Front matter that cannot be parsed. The message names the line."""


class FrontMatter(NamedTuple):
    """Front matter of a document, and the rest of it.

    Args:
        fields: Values by name.
        body: Text after the front matter.
        left_out: Reasons why fields are missing.
    """

    fields: dict[str, Value]
    body: str
    left_out: list[str]


def split_front_matter(text: str, needed: Collection[str] | None = None) -> FrontMatter:
    """Return the front-matter fields of a document, and its body.

    Args:
        text: The document; its first line must be ``---``.
        needed: Names of fields that must be readable; other fields are left out if unreadable. None if all
            fields must be readable.

    Raises:
        FrontMatterError: The front matter is missing or cannot be parsed.
        MissingExtraError: The extra ``[skills]`` is not installed.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise FrontMatterError("line 1: the file must begin with a line '---', then name and description.")
    end = next((number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line)), None)
    if end is None:
        raise FrontMatterError("the front matter is not closed: a second line '---' is missing.")
    head = "\n".join(line.expandtabs(1).rstrip(" ") for line in lines[1:end])  # PyYAML rejects most tabs
    fields, left_out = _fields(head, needed)
    return FrontMatter(fields, "\n".join(lines[end + 1 :]).strip("\n"), left_out)


def _fields(head: str, needed: Collection[str] | None) -> tuple[dict[str, Value], list[str]]:
    if len(head) > MAX_CHARS:
        raise FrontMatterError(f"the front matter is over {MAX_CHARS:,} characters long; shorten it.")
    head = head.translate(_STAND_INS) + "\n"
    starts = [0, *(field.start() for field in _FIELD.finditer(head) if field.start()), len(head)]
    try:
        return _read(head), []
    except FrontMatterError:
        if needed is None or len(starts) > _MAX_FIELDS:
            raise
    fields: dict[str, Value] = {}
    left_out: list[str] = []
    for start, end in itertools.pairwise(starts):  # parse each field separately
        field = _FIELD.match(head, start)
        name = field[1].strip("\"' \t") if field else ""
        try:
            fields |= _read(head[start:end], head.count("\n", 0, start), fields)
        except FrontMatterError as error:
            if name in needed:
                raise
            left_out.append(str(error))
    return fields, left_out


def _read(head: str, above: int = 0, others: Collection[str] = ()) -> dict[str, Value]:
    """Return the fields of a text.

    Args:
        above: Number of lines above the text.
        others: Names of fields above the text.
    """
    try:
        root = _compose(head, above)
    except FrontMatterError:  # many files lack quotes that YAML requires, as in `Use when: ...`
        root = _compose(_PLAIN_FIELD.sub(_quoted, head), above)
    fields = {} if root is None else _Values(above).value(root)
    if not isinstance(fields, dict):
        raise _error(root, above, "expected 'key: value'")
    if twice := fields.keys() & others:
        raise _error(root, above, f"{min(twice)!r} occurs twice")
    return fields


def _compose(head: str, above: int) -> Any:
    """Return the root node of a text, or None; tags and depth are checked before nodes are built."""
    yaml = module_of_extra("yaml", notice("library.feature_skills"), "skills")
    depth = 0
    try:
        for event in yaml.parse(head, Loader=yaml.SafeLoader):
            if getattr(event, "tag", None) not in yaml.SafeLoader.yaml_constructors:
                raise _error(event, above, "this tag is not supported; quote the text")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise _error(event, above, f"over {_MAX_DEPTH} levels")
        return yaml.compose(head, Loader=yaml.SafeLoader)
    except FrontMatterError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # an escape may have an invalid code
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + above + 2
        what = getattr(error, "problem", None) or str(error)
        raise FrontMatterError(f"line {line}: {' '.join(what.split())}.") from error


def _quoted(field: re.Match[str]) -> str:
    text = _COMMENT.sub("", field[2]).strip()
    return field[0] if text.lower() in _WORDS else "{}'{}'".format(field[1], text.replace("'", "''"))


class _Values:
    """Converts nodes to values.

    Args:
        above: Number of lines above the text.
    """

    def __init__(self, above: int) -> None:
        self._above, self._left, self._depth = above, _MAX_VALUES, 0

    def value(self, node: Any) -> Value:
        """Return the value of a node."""
        self._left -= 1
        if self._left < 0 or self._depth > _MAX_DEPTH:
            raise _error(node, self._above, f"over {_MAX_VALUES:,} values or {_MAX_DEPTH} levels")
        self._depth += 1
        try:
            if node.id == "sequence":
                return [_one_line(item) or self.value(item) for item in node.value]
            if node.id == "mapping":
                return dict(self._entries(node))
        finally:
            self._depth -= 1
        text = str(node.value).translate(_RESTORED)
        return text if node.style else _WORDS.get(text.lower(), text)

    def _entries(self, mapping: Any) -> Iterator[tuple[str, Value]]:
        names: set[str] = set()
        for key, value in mapping.value:
            if key.id != "scalar":
                raise _error(key, self._above, "a key must be text")
            name = str(key.value).translate(_RESTORED)
            if name in names:
                raise _error(key, self._above, f"{name!r} occurs twice")
            names.add(name)
            yield name, self.value(value)


def _one_line(item: Any) -> str:
    """Return the text of an item ``key: value`` on one line; empty for other items."""
    source = item.start_mark.buffer[item.start_mark.pointer : item.end_mark.pointer].strip()
    is_text = item.id == "mapping" and "\n" not in source and not source.startswith("{")
    return str(source.translate(_RESTORED)) if is_text else ""


def _error(node: Any, above: int, what: str) -> FrontMatterError:
    return FrontMatterError(f"line {node.start_mark.line + above + 2}: {what}.")
