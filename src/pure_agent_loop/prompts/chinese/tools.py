"""Descriptions of the built-in tools in Chinese; in English they are the docstrings of the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pure_agent_loop.prompts.values import ToolWords

_FILE = '文件，相对于工作区，例如 "docs/guide.md"。'
_HIDDEN = "也查找以点开头的名称、node_modules 和 __pycache__。"


def _chinese(
    description: str, *examples: tuple[str, Mapping[str, Any]], **parameters: str
) -> Mapping[str, ToolWords]:
    return {"zh": ToolWords(description, parameters, examples or None)}


TOOLS: Mapping[str, Mapping[str, ToolWords]] = {
    "list_dir": _chinese(
        "列出文件夹中的文件和文件夹。文件夹以斜杠结尾；文件显示大小。",
        ("music 文件夹里有哪些文件？", {"path": "music"}),
        ("这个文件夹里有什么？", {"path": "."}),
        path='文件夹，相对于工作区。"." 是工作区本身。',
    ),
    "read_file": _chinese(
        "读取文本文件。长文件分页给出；每页末尾说明如何读取下一页。",
        ("todo.txt 里写了什么？", {"path": "todo.txt"}),
        ("给我看 notes/plan.md", {"path": "notes/plan.md"}),
        path=_FILE,
        offset="从第几行开始读，从 1 计。",
        limit="最多读取多少行。",
    ),
    "read_image": _chinese(
        "查看一张图片，并得到它的格式、大小和尺寸。支持 PNG、JPEG、GIF 和 WebP。", path=_FILE
    ),
    "write_file": _chinese(
        "创建文本文件，或替换整个文件。会创建缺少的文件夹。只改一部分请用 edit_file。",
        path=_FILE,
        content="新的全部文本。",
    ),
    "edit_file": _chinese(
        "替换文件中的文本。旧文本必须原样出现，且只出现一次，除非设置 replace_all。",
        path="文件，相对于工作区。",
        old_text="要替换的文本，含缩进，并带上足够的前后行使其唯一。",
        new_text="换成的文本。",
        replace_all="替换所有出现之处。",
    ),
    "glob": _chinese(
        "按名称查找文件，给出排好序的路径。",
        pattern='例如 "**/*.py"（任何文件夹）、"src/*.{js,ts}" 或 "README*"。',
        path="模式起始的文件夹，相对于工作区。",
        hidden=_HIDDEN,
    ),
    "grep": _chinese(
        '用正则表达式查找文件中的行，每处给出 "文件:行号:文本"。',
        pattern='匹配一行中一部分的正则表达式，例如 "def \\w+_test"。',
        path="要搜索的文件夹或文件，相对于工作区。",
        glob='只搜索这种名称的文件，例如 "*.py"。',
        ignore_case="不区分大小写。",
        context="前后各显示多少行。",
        files_only="只给出文件名。",
        hidden=_HIDDEN,
        limit="最多显示多少处或多少个文件。",
    ),
    "shell": _chinese(
        "用 bash 运行命令行，返回其输出和退出码。\n\n"
        "每条命令都从工作区文件夹开始：cd 不会保留到下一次调用。没有输入，也没有终端。"
        "命令结束时，留在后台的进程会被结束。"
        "沙箱只保留写在工作区里的内容：/tmp 和主目录只属于这条命令，之后清空。"
        "沙箱拒绝写入别处、git 的钩子和设置，通常也拒绝网络。",
        command='命令行，例如 "git status && ls docs"。',
        timeout="多少秒后结束它；省略则用默认值。",
        changes="必须改动文件或使用网络时为 true。那时可能会询问人。",
        background='"start" 让它一直运行，用于服务器等。之后用同一命令："read" 返回新的输出，"end" 结束它。',
    ),
    "ask_user": _chinese(
        "只有用户才能决定时询问用户。能自己查明的不要问。",
        question="一个清楚的问题。",
        options="供选择的答案；自由回答时省略。",
    ),
    "calculator": _chinese(
        "计算算术表达式的值。\n\n支持 + - * / // % **、括号、pi、e，"
        "以及 sqrt、abs、round、min、max、log、sin 等函数。",
        ("6 乘以 7 是多少？", {"expression": "6 * 7"}),
        expression='例如 "(3 + 4) * 2" 或 "sqrt(2) / 2"。',
    ),
    "todo_write": _chinese(
        "为多步骤的工作保存任务列表。每次调用替换整个列表并显示它。",
        items="按顺序的全部任务，各有状态："
        "pending（待办）、in_progress（进行中，同时只能一项）或 done（完成）。",
    ),
    "fetch": _chinese(
        "读取网页或网上的文本。长文本分段给出；每段末尾说明如何继续。",
        url="完整的网址，以 https:// 或 http:// 开头。",
        offset="从第几个字符开始，用于阅读长文本的下一段。",
    ),
    "tool_search": _chinese(
        "搜索更多工具。找到的工具下一步即可调用。",
        query="用几个词说明工具要做什么。",
    ),
}
