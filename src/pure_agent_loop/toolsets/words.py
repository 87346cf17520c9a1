"""Messages of the tool search for the model, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "tools_found": (
            "You can call these tools from now on:\n{tools}",
            "从现在起可以调用这些工具：\n{tools}",
        ),
        "no_tool_found": (
            "None of the {count} tools matches {query!r}. Describe the tool's task in other words.",
            "{count} 个工具中没有与 {query!r} 相符的。请换一种说法说明工具要做什么。",
        ),
    }
)

SEARCH = {
    "en": ToolWords(
        "Search for further tools. What it finds can be called in the next step.",
        {"query": "What the tool should do, in a few words."},
    ),
    "zh": ToolWords(
        "搜索更多工具。找到的工具下一步即可调用。",
        {"query": "用几个词说明工具要做什么。"},
    ),
}
