"""Which files a question means by their kind or name, as a pattern of paths. Pure: no model, no I/O."""

from __future__ import annotations

import re

_KINDS = {
    "python": "py",
    "markdown": "md",
    "text": "txt",
    "javascript": "js",
    "typescript": "ts",
    "java": "java",
    "rust": "rs",
    "ruby": "rb",
    "go": "go",
    "shell": "sh",
    "config": "ini",
    "文本": "txt",
    **{
        kind: kind
        for kind in ("json", "yaml", "toml", "html", "css", "csv", "xml", "sql", "pdf", "c", "log", "ini")
    },
}
_LOOKS = re.compile(
    r"\b(?:find|list|show|which|what|are there|search|get|locate|where|give)\b|有哪些|有什么|找|列出|所有|查",
    re.IGNORECASE,
)
_GLOB = re.compile(
    r"(?<![\w)*])((?:[\w.*-]+/)*[\w.-]*\*[\w*.-]*\.[A-Za-z]\w*|\w+_\*|(?:[\w.*-]+/)+\*\*?)(?![\w*])"
)
_OF_KIND = re.compile(
    rf"(?<![\w.])({'|'.join(sorted(_KINDS, key=len, reverse=True))})[\s-]*(?:source\s+|code\s+)?"
    r"(?:files?|documents?|scripts?|源?文件|脚本|文档)",
    re.IGNORECASE,
)
_ENDING = re.compile(
    r"(?<![\w/])\.([A-Za-z]\w{0,7})[\s-]*(?:files?\b|文件)"
    r"|\bfiles?\b.*\b(?:end(?:ing)? (?:in|with)|with (?:the )?(?:ending|extension|suffix))\s+\.?(\w{1,8})\b"
    r"|以\s*\.?(\w{1,8})\s*结尾的?文件|扩展名(?:是|为)\s*\.?(\w{1,8})",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\b(?:find|locate|where is)\s+(?:the\s+|a\s+)?(?:file\s+)?(?:called\s+|named\s+)?"
    r"([\w-]+(?:\.[\w-]+)+)(?![\w/])"
    r"|(?:查找|找到|找)\s*(?:文件)?\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)",
    re.IGNORECASE,
)


def file_pattern(question: str) -> str | None:
    """The pattern for the paths of the files a question looks for, or None if it looks for none by name."""
    if not _LOOKS.search(question):
        return None
    written = _GLOB.search(question)
    if written:
        return _anywhere(written[1])
    kind = _OF_KIND.search(question)
    if kind:
        return _anywhere(f"*.{_KINDS[kind[1].lower()]}")
    ending, called = _ENDING.search(question), _CALLED.search(question)
    if ending:
        return _anywhere("*." + next(part for part in ending.groups() if part))
    return _anywhere(called[1] or called[2]) if called else None


def _anywhere(pattern: str) -> str:
    """The pattern, in whatever folder unless it says in which."""
    return pattern if "/" in pattern else f"**/{pattern}"
