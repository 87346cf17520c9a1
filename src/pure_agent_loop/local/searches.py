"""What is to be looked for in which files, read off the build of a question. Pure: no model, no I/O."""

from __future__ import annotations

import re

from pure_agent_loop.local.edits import value_of
from pure_agent_loop.local.file_kinds import file_pattern
from pure_agent_loop.local.masks import TEXT, Masked
from pure_agent_loop.local.roles import Values

_PLACES = [
    re.compile(
        r"\b(?:in|inside|within|under|below|through|throughout|of)\s+(?:the\s+)?(?:folder\s+|directory\s+|file\s+)?"
        r"(?P<path>[A-Za-z0-9_~.\-/\\]*[A-Za-z0-9_/]|[\ue800-\uefff])(?P<kind>\s+(?:folder|directory|file)\b)?"
        r"(?=[\s.,?!]*$|,)"
    ),
    re.compile(
        r"在?\s*(?P<path>[A-Za-z0-9_~.\-/]*[A-Za-z0-9_/]|[\ue800-\uefff])\s*(?P<kind>文件夹|目录|文件)?(?:里面|里|中|下|内)的?"
    ),
]
_NO_FOLDER = frozenset(("it", "this", "that", "here", "them", "files", "file", "the", "there", "text"))
# What tells that files are searched, and not the web.
_IN_FILES = re.compile(
    r"\bfiles?\b|\b(?:here|grep|code)\b|\b(?:this|the|current)\s+"
    r"(?:folder|directory|project|workspace|repository)\b|文件|代码|这里|目录|项目",
    re.IGNORECASE,
)
_WITH = (
    r"(?:that\s+|which\s+)?(?:contain(?:s|ing)?|mention(?:s|ing)?|include|including|import|importing|"
    rf"(?:ha(?:s|ve)|with|us(?:e|es|ing))(?=\s+(?:the\s+(?:word|text|string|phrase)\b|{TEXT})))"
)
_SEARCHES = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?:search|look|scan)\s+(?:(?:in|through)\s+)?(?P<where>\S+)\s+for\s+(?P<text>.+)",
        r"\b(?:search|look|scan|grep)\s+for\s+(?P<text>.+)",
        r"\bgrep\s+(?P<text>.+)",
        rf"\b(?:which|what|find|list|show)\b.*?\b(?:files?|documents?|lines?|places?)\b(?:\s+\S+){{0,4}}?\s+{_WITH}\s+(?P<text>.+)",
        (
            r"\bwhere\s+(?:is|are|do(?:es)?)\s+(?P<text>.+?)\s+"
            r"(?:defined|used|mentioned|called|declared|imported|occur|appear)\b"
        ),
        (
            r"\bfind\s+(?:all\s+|every\s+)?(?:the\s+)?(?:uses?|occurrences?|mentions?|references?)\s+(?:of|to)\s+"
            r"(?P<text>.+)"
        ),
        rf"\bfind\s+(?P<text>(?:the\s+)?(?:word|text|string|phrase|line)\s+.+|(?:every\s+|all\s+)?{TEXT}.*)",
        r"(?:查找|找出|搜索|哪些|哪个|列出).*?文件?.*?(?:包含|含有|提到|写有)了?\s*(?P<text>.+?)\s*[?？。]?$",
        r"(?:查找|找出|搜索|列出|找).*?(?:包含|含有|提到|写有)\s*(?P<text>.+?)\s*的(?:所有)?文件",
        r"(?:搜索|查找|寻找|搜)(?:一下)?\s*(?P<text>.+)",
    )
]
# What is surely written in code: what is said to be defined, and names that no other text has.
_IS_CODE = re.compile(r"\b(?:defined|declared|imported|called)\b|\w_\w|[a-z][A-Z]|\w\(\)")
_OF_FILES = re.compile(r"的(?:所有)?文件.*$")


def search_asked(masked: Masked, text: str) -> Values | None:
    """The text that is looked for, and where."""
    for found in filter(None, (pattern.search(text) for pattern in _SEARCHES)):
        path, said = place_in(found["text"])
        path = path or found.groupdict().get("where") or place_in(text)[0]
        value = value_of(masked, _OF_FILES.sub("", said))
        if value and (path or _IS_CODE.search(found[0]) or _IN_FILES.search(text)):
            return {"pattern": value, **({"path": masked.plain(path)} if path else {})}
    return None


def place_in(text: str) -> tuple[str | None, str]:
    """A folder or file in which something is to be looked for, and the rest of the text."""
    for pattern in _PLACES:
        for found in pattern.finditer(text):
            path = found["path"]
            is_name = path[:1].isupper() and not re.search(r"[./\\]", path) and not found["kind"]
            if path.lower() not in _NO_FOLDER and not is_name:
                return path, f"{text[: found.start()]} {text[found.end() :]}".strip()
    return None, text


def find_asked(masked: Masked, text: str) -> Values | None:
    """The pattern of the paths that are looked for, and the folder."""
    path, rest = place_in(text)
    pattern = file_pattern(masked.plain(rest))
    if pattern is None:
        return None
    return {"pattern": pattern, **({"path": masked.plain(path)} if path else {})}
