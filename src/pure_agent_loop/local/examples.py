"""Example questions for the tools at hand: written for the built-in tools, made up for any other.

They were written before and apart from the questions of ``benchmarks/local_tools.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.local.turns import as_mapping


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model can know of a tool.

    Args:
        name: Its name.
        description: Its first sentence.
        parameters: The JSON schema of its arguments.
        details: The whole of its description.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    details: str = ""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of its arguments by name."""
        return as_mapping(self.parameters.get("properties"))

    @property
    def to_fill(self) -> list[str]:
        """The arguments a small model is asked for: the required ones, else the first one."""
        required = self.parameters.get("required")
        names = [n for n in required if n in self.properties] if isinstance(required, list) else []
        return names or list(self.properties)[:1]


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what to do about it.

    Args:
        text: The question.
        tool: The tool's name, or None if it is to be answered in words.
        arguments: The tool's arguments; empty where they were not written.
    """

    text: str
    tool: str | None
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_tools(schemas: Sequence[Mapping[str, Any]]) -> list[ToolSpec]:
    """Read tool schemas in the shape of the chat-completions protocol; what has no name is left out."""
    functions = [as_mapping(as_mapping(schema).get("function")) for schema in schemas]
    return [_read_tool(f, str(f.get("description") or "")) for f in functions if f.get("name")]


def _read_tool(function: Mapping[str, Any], described: str) -> ToolSpec:
    parameters = as_mapping(function.get("parameters"))
    return ToolSpec(str(function["name"]), first_sentence(described), parameters, described)


def first_sentence(text: str, limit: int = 100) -> str:
    """The first sentence of a description, without its full stop."""
    line = text.strip().split("\n", 1)[0]
    return line.split(". ", 1)[0].rstrip(".")[:limit]


def _calls(tool: str, argument: str, *pairs: tuple[str, str]) -> tuple[Example, ...]:
    return tuple(Example(text, tool, {argument: value}) for text, value in pairs)


# The first two of each are shown to the model when it chooses, the next two set the zero of its scores,
# and all of them are compared with the question.
TALK = tuple(
    Example(text, None)
    for text in (
        "Hi there!",
        "What is the capital of Spain?",
        "Who invented the telephone?",
        "Tell me a story.",
        "Why is the sea salty?",
        "How do you say cat in French?",
        "Thanks a lot!",
        "Write a letter to my aunt.",
        "Which river is the longest?",
        "Give me a good idea.",
        "What do you think about music?",
        "How are things?",
        "Describe the moon.",
        "Can you help me?",
    )
)
BUILT_IN: Mapping[str, tuple[Example, ...]] = {
    "list_dir": _calls(
        "list_dir",
        "path",
        ("Which files are there in the photos folder?", "photos"),
        ("Show everything in this folder.", "."),
        ("What is inside music?", "music"),
        ("How many files are here?", "."),
        ("List lib/core.", "lib/core"),
        ("What does the home directory contain?", "home"),
    ),
    "read_file": _calls(
        "read_file",
        "path",
        ("Open letter.txt.", "letter.txt"),
        ("What does report.md say?", "report.md"),
        ("Explain app/server.py to me.", "app/server.py"),
        ("Read the title of index.html", "index.html"),
        ("What is in the file names.csv?", "names.csv"),
        ("Which colour is set in style.css?", "style.css"),
    ),
    "calculator": _calls(
        "calculator",
        "expression",
        ("What is 6 * 7?", "6 * 7"),
        ("Add 12 and 30.", "12 + 30"),
        ("How much is 90 divided by 4?", "90 / 4"),
        ("Tom has 20 coins and spends 8. How many remain?", "20 - 8"),
        ("What is the square of 5?", "5 ** 2"),
        ("(4 + 2) / 3", "(4 + 2) / 3"),
        ("A pen costs 3 dollars. What do 6 pens cost?", "6 * 3"),
        ("Subtract 5 from 50.", "50 - 5"),
        ("What is the product of 4 and 9?", "4 * 9"),
        ("What is 2 plus 3 plus 4?", "2 + 3 + 4"),
    ),
}
# Compared by characters only, never shown: the default model reads no Chinese.
CHINESE: Mapping[str | None, tuple[str, ...]] = {
    "list_dir": (
        "photos 文件夹里有哪些文件？",
        "列出当前目录的内容。",
        "这里有什么文件？",
        "music 目录里有什么？",
    ),
    "read_file": (
        "读取 letter.txt 文件。",
        "report.md 里写了什么？",
        "打开 index.html 看看内容。",
        "names.csv 的第一行是什么？",
    ),
    "calculator": (
        "6 乘以 7 等于多少？",
        "计算 12 + 30。",
        "90 除以 4 是多少？",
        "小明有 20 元，花了 8 元，还剩多少？",
    ),
    None: ("你好！", "西班牙的首都是哪里？", "谁发明了电话？", "给我讲一个故事。", "谢谢你。", "你是谁？"),
}


def has_written_examples(tool: ToolSpec) -> bool:
    """True if examples were written for this tool, and it takes their arguments."""
    written = BUILT_IN.get(tool.name, ())
    return bool(written) and set(written[0].arguments) <= set(tool.properties)


def examples_for(tool: ToolSpec) -> tuple[Example, ...]:
    """Examples of a tool: the written ones, if it takes their arguments; else made of its description."""
    if has_written_examples(tool):
        return BUILT_IN[tool.name]
    words = tool.name.replace("_", " ").replace("-", " ")
    what = tool.description or words
    asked = " ".join(tool.to_fill).replace("_", " ")
    texts = (f"{what}.", f"Please {words} {asked}.", f"{words}?", f"I need this: {what.lower()}.")
    return tuple(Example(text, tool.name) for text in texts)


def chinese_for(tool: str | None) -> tuple[Example, ...]:
    """Chinese examples, for comparing only."""
    return tuple(Example(text, tool) for text in CHINESE.get(tool, ()))
