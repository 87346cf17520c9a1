"""What a part of a question orders to be done with files: the deed, and the values it names. Pure: no I/O.

Whatever is said about files in another build is left to the votes and to the words of the tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pure_agent_loop.local.edits import edit_asked, write_asked
from pure_agent_loop.local.masks import FILE, QUOTED, URL, Masked
from pure_agent_loop.local.roles import Deed, Values
from pure_agent_loop.local.searches import find_asked, place_in, search_asked

_END = " \t\r\n.,;:!?。，；：！？"
_ANY_FILE = re.compile(FILE)
_COMMAND = r"(?:the\s+|this\s+)?(?:shell\s+)?command\s*:?\s+"
_RUN = re.compile(
    rf"\b(?:run|execute)\s+(?:{_COMMAND})?(?P<quoted>{QUOTED})"
    rf"|\b(?:run|execute)\s+{_COMMAND}(?!to\b|that\b|which\b|for\b|in\b)(?P<bare>[a-z./~][^\ue000-\uf8ff]*)"
    rf"|(?:运行|执行)(?:一下)?\s*(?:(?:命令|指令)\s*[:：]?\s*)?(?P<quoted_>{QUOTED})"
    r"|(?:运行|执行)(?:一下)?\s*(?:命令|指令)\s*[:：]?\s*(?P<bare_>[ -~]+)",
    re.IGNORECASE | re.DOTALL,
)
_GETS = re.compile(
    r"\b(?:fetch|get|open|download|read|load|show|visit|go to|look at|check|what|summari[sz]e|browse|tell)\b"
    r"|打开|获取|抓取|访问|读取|下载|看看|看一下|网页|总结",
    re.IGNORECASE,
)
_READS = re.compile(
    r"\b(?:read|open|show|print|display|view|cat|look at|check|see|what)\b|读|打开|查看|看看|看一下|显示",
    re.IGNORECASE,
)
_LISTS = re.compile(
    r"\b(?:list|show|see|look at|what|which)\b.*\b(?:files?|folders?|director(?:y|ies)|contents?|everything)"
    r"\b|列出|有哪些文件|有什么文件",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Order:
    """Something to be done.

    Args:
        deed: What.
        values: With which values; a path that is only hinted at ("in it") is left out.
    """

    deed: Deed
    values: Values


def order_in(masked: Masked, text: str) -> Order | None:
    """What a part of a masked question orders, or None if its build does not say."""
    for deed, read in _READERS.items():
        values = read(masked, text)
        if values is not None:
            return Order(deed, values)
    return None


def _run(masked: Masked, text: str) -> Values | None:
    found = _RUN.search(text)
    if found is None:
        return None
    quoted = found["quoted"] or found["quoted_"]
    return {"command": masked.plain(quoted or (found["bare"] or found["bare_"]).strip(_END))}


def _fetch(masked: Masked, text: str) -> Values | None:
    found = re.search(URL, text)
    return {"url": masked.kept[found[0]]} if found and _GETS.search(text) else None


def _read(masked: Masked, text: str) -> Values | None:
    found = _ANY_FILE.search(text)
    return {"path": masked.plain(found[0])} if found and _READS.search(text) else None


def _list(masked: Masked, text: str) -> Values | None:
    if not _LISTS.search(text) or _ANY_FILE.search(text):
        return None
    path, _ = place_in(text)
    return {"path": masked.plain(path) if path else "."}


_READERS: Mapping[Deed, Callable[[Masked, str], Values | None]] = {
    "run": _run,
    "fetch": _fetch,
    "edit": edit_asked,
    "write": write_asked,
    "search": search_asked,
    "find": find_asked,
    "read": _read,
    "list": _list,
}
