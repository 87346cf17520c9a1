"""What is to be changed or written where, read off the build of a question. Pure: no model, no I/O.

"Replace X with Y in F" says by itself what goes where, so no model is asked. Only builds that leave no doubt
count: what is written over a file is lost.
"""

from __future__ import annotations

import re

from pure_agent_loop.local.masks import FILE, TEXT, Masked
from pure_agent_loop.local.roles import Values

_PLAIN_NAME = r"(?:[A-Z][a-z]+file|[A-Z]{4,})\b(?!\s+files?\b)"
_THE_FILE = (
    r"(?:the\s+|my\s+|a\s+|this\s+)?(?:new\s+|text\s+|config\s+)*(?:files?\s+|document\s+)?"
    r"(?:called\s+|named\s+)?"
)
_IN_FILE = re.compile(
    rf"(?:,\s*)?\b(?i:in|inside|within|of|at|from|throughout)\s+{_THE_FILE}(?P<path>{FILE}|{_PLAIN_NAME})"
    r"(?:\s+file\b)?\s*,?"
    rf"|在?\s*(?:文件\s*)?(?P<cjk>{FILE})\s*(?:这个)?(?:文件)?(?:里面|里边|里|中|内)的?"
)
_IN_IT = re.compile(
    r"\b(?:in|inside|within|from|of|to|into)\s+(?:it|there|(?:the|this|that)(?:\s+same)?\s+(?:file|document))\b,?"
    r"|在?(?:它|其|这个文件|那个文件|该文件|文件)(?:里面|里|中|内)的?",
    re.IGNORECASE,
)
_ANY_FILE = re.compile(FILE)
_AT_ONCE = re.compile(r"\s*(?:file\b|文件)?\s*(?:[:,：，]|and\b|so that\b|by\b)")
_CHANGE = "change|turn|update|modify|correct|fix|convert|rename|alter|replace|switch|bump"
_SET = f"{_CHANGE}|edit|set|move"
_KIND = (
    "word|text|string|phrase|line|sentence|name|value|title|typo|spelling|letter|number|entry|item|character|"
    "variable|function|method|class|constant|symbol|option|setting"
)
_SURELY_TEXT = rf".*{TEXT}.*|(?:the|all|every)\s+(?:word|text|line|phrase)s?\s+.+"
_CJK_CHANGE = "(?:替换|更换|更改|修改|改写|改|换|变)"
_CJK_REMOVE = "(?:删除|删掉|去掉|移除)"
_EDITS = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\b(?:replace|swap|exchange|substitute)\s+(?P<old>.+?)\s+(?:with|by)\s+(?P<new>.+)",
        r"\bsubstitute\s+(?P<new>.+?)\s+for\s+(?P<old>.+)",
        r"\b(?:replace|swap|exchange|switch)\s+(?P<old>.+?)\s+for\s+(?P<new>.+)",
        rf"\b(?:{_SET})\s+(?:[^,;:]*?\s+)?from\s+(?P<old>.+?)\s+(?:in)?to\s+(?P<new>.+)",
        rf"\b(?:{_CHANGE})\s+(?P<old>.+?)\s+(?:in)?to\s+(?P<new>.+)",
        rf"\b(?:remove|delete|erase|strip)\s+(?P<old>{_SURELY_TEXT})",
        rf"(?:把|将)\s*(?P<old>.+?)\s*(?:全部|全都|都|统一)?{_CJK_CHANGE}(?:成|为|到)\s*(?P<new>.+)",
        r"用\s*(?P<new>.+?)\s*(?:替换|取代|代替)掉?\s*(?P<old>.+)",
        rf"从\s*(?P<old>.+?)\s*{_CJK_CHANGE}(?:成|为|到)\s*(?P<new>.+)",
        rf"{_CJK_CHANGE}\s*(?P<old>.+?)\s*[为成]\s*(?P<new>.+)",
        rf"{_CJK_REMOVE}\s*(?P<old>.*{TEXT}.*)",
        rf"(?:把|将)\s*(?P<old>.*{TEXT}).*?{_CJK_REMOVE}",
    )
]
_EVERYWHERE = re.compile(
    r"\b(?:all|every|everywhere|each|any|throughout)\b|全部|所有|全都|每[个处]|都", re.IGNORECASE
)
_LEADS = re.compile(
    r"^(?:(?:all|every|each|any)\s+)?(?:of\s+)?(?:the\s+)?(?:occurrences?|instances?|uses?|mentions?)\s+of\s+"
    r"|^(?:all|every|each|any)\s+(?:the\s+)?|^(?:所有的?|全部的?|每个)"
    r"|^(?:单词|文字|文本|词语|词|字符串|内容)(?=\s|\S{2})",
    re.IGNORECASE,
)
_KINDS = re.compile(rf"^(?:the\s+|a\s+)?(?:{_KIND})s?\s*:?\s+", re.IGNORECASE)
_TRAILS = re.compile(
    r"\s+(?:please|everywhere|instead|there|for me)\s*$"
    r"|\s+and\s+(?:then\s+)?(?:save|show|tell|print|write)\b.*$"
    r"|(?:吧|谢谢)$",
    re.IGNORECASE | re.DOTALL,
)
_END = " \t\r\n.,;:!?。，；：！？"

_MAKES = re.compile(
    r"\b(?:create|make|write|save|generate|put|store|start)\b|创建|新建|建立|写|保存|存", re.IGNORECASE
)
_TOLD = r"(?:text|contents?|line|words?|sentence|message)\s*:?\s+"
_CONTENT_AFTER = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        (
            r"^\s*(?:file\b)?\s*,?\s*(?:and\s+)?(?:with|containing|(?:that|which)\s+(?:contains|says|reads|has)|"
            r"saying|reading|holding|whose\s+(?:content|text)\s+is)\s+(?:only\s+|just\s+)?"
            rf"(?P<told>(?:the\s+|this\s+)?(?:following\s+)?{_TOLD})?(?P<content>.+)$"
        ),
        r"^\s*(?P<told>[:：])\s*(?P<content>.+)$",
        (
            r"^\s*(?:的?文件)?\s*[,，、]?\s*(?:里面|其中|并)?"
            r"(?P<told>(?:的?内容|文字|文本|写入|写上|写下|写着|包含)(?:是|为|写)?)\s*[:：]?\s*(?P<content>.+)$"
        ),
        r"^\s*(?:文件)?(?:里面|里|中|内)\s*(?P<told>写入|写下|写上|写)\s*(?P<content>.+)$",
    )
]
_CONTENT_BEFORE = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        (
            rf"\b(?:write|save|put|store)\s+(?:down\s+)?(?P<told>(?:the\s+)?{_TOLD})?(?P<content>.+?)\s+"
            rf"(?:to|into|in|as|inside)\s+{_THE_FILE}$"
        ),
        (
            rf"\b(?:create|make)\b.*?\b(?:with|containing)\s+(?P<told>the\s+{_TOLD})?(?P<content>.+?)"
            r"\s+(?:and\s+(?:call|name|save)\s+it(?:\s+as)?|called|named|in|as|at)\s*(?:the\s+file\s+)?$"
        ),
        r"(?P<told>把|将)\s*(?P<content>.+?)\s*(?:写入|写到|写进|保存到|保存为|保存在|存到|存入|存为)\s*(?:文件)?\s*$",
    )
]
_EMPTY = re.compile(r"\b(?:create|make)\b.*\bempty\b|(?:创建|新建|建立).*空", re.IGNORECASE)
# "a poem" is not the text of a poem.
_TO_BE_MADE_UP = re.compile(r"^(?:an?|some|my|your|the|it|this|that)\b", re.IGNORECASE)


def value_of(masked: Masked, text: str) -> str:
    """A value as it is meant: what is quoted, else the words without what only leads to them."""
    text = _TRAILS.sub("", text.strip())
    if masked.is_quoted(text):
        return masked.value(text)
    bare = text.rstrip(_END) if text.startswith(".") else text.strip(_END)
    return masked.value(_KINDS.sub("", _LEADS.sub("", bare))).strip()


def edit_asked(masked: Masked, text: str) -> Values | None:
    """The old text, the new one, the file if it is named, and whether all places are meant."""
    path, rest = _without_place(text)
    for found in filter(None, (pattern.search(rest) for pattern in _EDITS)):
        groups = found.groupdict()
        values: Values = {
            "old": value_of(masked, groups["old"]),
            "new": value_of(masked, groups.get("new") or ""),
        }
        if path is not None:
            values["path"] = masked.plain(path)
        if _EVERYWHERE.search(rest):
            values["all"] = True
        return values if values["old"] else None
    return None


def _without_place(text: str) -> tuple[str | None, str]:
    """The file in which something is to be done, and the rest of the text."""
    found = list(_IN_FILE.finditer(text))
    if found:
        place = found[-1]
        return place["path"] or place["cjk"], f"{text[: place.start()]} {text[place.end() :]}".strip()
    hinted = _IN_IT.search(text)
    if hinted:
        return None, f"{text[: hinted.start()]} {text[hinted.end() :]}".strip()
    first = _ANY_FILE.search(text)
    if first and re.match(r"\s+from\b", text[first.end() :], re.IGNORECASE):
        return first[0], text[: first.start()] + text[first.end() :]
    if first and _AT_ONCE.match(text[first.end() :]):
        return first[0], text[first.end() :]
    return None, text


def write_asked(masked: Masked, text: str) -> Values | None:
    """The file and its whole text."""
    for file in re.finditer(rf"{FILE}|(?<=file )(?:called |named )?{_PLAIN_NAME}", text):
        before, after = text[: file.start()], text[file.end() :]
        if not _MAKES.search(before) and not re.match(r"\s*(?:文件)?(?:里面|里|中|内)", after):
            continue
        path = masked.plain(re.sub(r"^(?:called |named )", "", file[0]))
        content = _content(masked, before, after)
        if content is None and _EMPTY.search(text):
            content = ""
        if content is not None:
            return {"path": path, "content": content}
    return None


def _content(masked: Masked, before: str, after: str) -> str | None:
    """What is to stand in a file, if the words around its name say it."""
    tries = [*(p.search(after) for p in _CONTENT_AFTER), *(p.search(before) for p in _CONTENT_BEFORE)]
    for found in filter(None, tries):
        content = found["content"].strip()
        if masked.is_quoted(content) or found["told"] or not _TO_BE_MADE_UP.search(content):
            return masked.value(content)
    return None
