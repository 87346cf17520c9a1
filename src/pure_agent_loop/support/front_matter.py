"""Parse the front matter of a ``SKILL.md``, an agent file or a command: a bounded part of YAML.

Supported: scalars, lists, and one level of nested keys. Every scalar is text, except ``true`` and ``false``.
Anchors, aliases, tags and deeper levels raise an error with the line. PyYAML builds nodes, never objects.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, TypeAlias

from pure_agent_loop.errors import MissingExtraError, PureAgentLoopError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import lazy_pattern

Scalar: TypeAlias = "str | bool"
Value: TypeAlias = "Scalar | list[Scalar] | dict[str, Scalar]"

MAX_CHARS = 100_000  # maximum characters of front matter
_MAX_DEPTH = 3  # levels: the fields, a list in a field, and `key: value` as an item of the list
_FENCE = lazy_pattern(r"---[ \t]*")
_END = lazy_pattern(r"(---|\.\.\.)[ \t]*")
_TRAILING = lazy_pattern(r"[ \t]+$", re.M)
_COMMENT = lazy_pattern(r"(^|[ \t]+)#.*$", re.M)
# A field with a plain text, on one line or continued on indented lines; also a text like `[a] [b]`.
_PLAIN_FIELD = lazy_pattern(
    r"^([A-Za-z_][\w.-]*[ \t]*:[ \t]+)(?![\"'|>&*!%@`{#]|\[(?!.*\](?:[ \t]+#.*)?$))(\S.*(?:\n[ \t]+\S.*)*)$",
    re.M,
)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": "", "~": ""}
# Characters that YAML rejects or reads as line breaks are replaced during parsing.
_EXCHANGED = (*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFFFE, 0xFFFF)
_STAND_INS = {code: 0x10F000 + number for number, code in enumerate(_EXCHANGED)}
_RESTORED = {stand_in: code for code, stand_in in _STAND_INS.items()}


class FrontMatterError(PureAgentLoopError, ValueError):
    """Front matter that cannot be parsed. The message names the line."""


def split_front_matter(text: str) -> tuple[dict[str, Value], str]:
    """Return the front-matter fields of a document, and its body.

    Args:
        text: The document; its first line must be ``---``.

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
    return _fields("\n".join(lines[1:end])), "\n".join(lines[end + 1 :]).strip("\n")


def _fields(head: str) -> dict[str, Value]:
    if len(head) > MAX_CHARS:
        raise FrontMatterError(f"the front matter is over {MAX_CHARS:,} characters long; shorten it.")
    head = _TRAILING.sub("", head).translate(_STAND_INS) + "\n"
    try:
        root = _compose(head)
    except FrontMatterError:  # many files hold texts that YAML requires in quotes, such as `Use when: ...`
        root = _compose(_PLAIN_FIELD.sub(_quoted, head))
    if root is None:
        return {}
    if root.id != "mapping" or root.flow_style or root.start_mark.column:
        raise _error(root, "expected 'key: value'")
    return {key: _value(node) for key, node in _entries(root).items()}


def _compose(head: str) -> Any:
    """Return the root node of a text, or None; anchors, tags and depth are checked before nodes are built."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise MissingExtraError(notice("library.feature_skills"), "skills") from error
    depth = 0
    try:
        for event in yaml.parse(head, Loader=yaml.SafeLoader):
            if getattr(event, "anchor", None) or getattr(event, "tag", None):
                raise _error(event, "anchors, aliases and tags are not supported; quote the text")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise _error(event, "unsupported indentation")
        return yaml.compose(head, Loader=yaml.SafeLoader)
    except FrontMatterError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an invalid code in an escape
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 2
        what = getattr(error, "problem", None) or str(error)
        raise FrontMatterError(f"line {line}: {' '.join(what.split())}.") from error


def _quoted(field: re.Match[str]) -> str:
    text = _COMMENT.sub("", field[2]).strip()
    return field[0] if text.lower() in _WORDS else "{}'{}'".format(field[1], text.replace("'", "''"))


def _entries(mapping: Any) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in mapping.value:
        if key.id != "scalar":
            raise _error(key, "a key must be text")
        name = str(key.value).translate(_RESTORED)
        if name in entries:
            raise _error(key, f"{name!r} occurs twice")
        entries[name] = value
    return entries


def _value(node: Any) -> Value:
    if node.id == "sequence":
        return [_item(item) for item in node.value]
    if node.id == "mapping" and node.flow_style:
        raise _error(node, "{...} is not supported; write one 'key: value' a line")
    if node.id == "mapping":
        return {key: _scalar(value) for key, value in _entries(node).items()}
    return _scalar(node)


def _item(node: Any) -> Scalar:
    """Return an item of a list; ``key: value`` on one line is text."""
    source = node.start_mark.buffer[node.start_mark.pointer : node.end_mark.pointer].strip()
    is_text = node.id == "mapping" and "\n" not in source and not source.startswith("{")
    return str(source.translate(_RESTORED)) if is_text else _scalar(node)


def _scalar(node: Any) -> Scalar:
    if node.id != "scalar":
        raise _error(node, "unsupported indentation")
    text = str(node.value).translate(_RESTORED)
    return text if node.style else _WORDS.get(text.lower(), text)


def _error(node: Any, what: str) -> FrontMatterError:
    return FrontMatterError(f"line {node.start_mark.line + 2}: {what}.")
