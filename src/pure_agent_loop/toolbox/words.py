"""Messages of the tools for the model, and their Chinese descriptions.

English descriptions are the docstrings of the tools. ``files.words``, ``web.words`` and ``shell.reasons``
hold the messages of those tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.support.language import Sentences
from pure_agent_loop.toolbox.files.words import message as files
from pure_agent_loop.toolbox.shell.reasons import message as shell
from pure_agent_loop.toolbox.web.words import message as web

message = Sentences(
    {
        **files.pairs,
        **web.pairs,
        **shell.pairs,
        # -- asking, tasks ---------------------------------------------------------------------------
        "no_reply": ("(the user gave no answer)", "（用户没有回答）"),
        "nobody": (
            "Nobody can be asked here. Decide yourself, and say in your answer what you assumed.",
            "这里没有人可以询问。请自行决定，并在回答中说明你的假设。",
        ),
        "too_many_tasks": (
            "The list has {count} tasks; the maximum is {limit}. Merge some.",
            "列表有 {count} 项任务；最多 {limit} 项。请合并一些。",
        ),
        "task_length": (
            "Task {number} must have 1 to {limit} characters.",
            "第 {number} 项任务必须有 1 到 {limit} 个字符。",
        ),
        "empty_list": ("(the list is empty)", "（列表是空的）"),
        "tasks_done": ("({done} of {count} done)", "（{count} 项中已完成 {done} 项）"),
        # -- the calculator --------------------------------------------------------------------------
        "expression_too_long": (
            "The expression is longer than {limit} characters. Calculate it in parts.",
            "表达式超过 {limit} 个字符。请分部分计算。",
        ),
        "by_zero": ("Division by zero.", "除数为零。"),
        "result_too_large": (
            "The result is too large, or the expression too deep.",
            "结果太大，或表达式嵌套过深。",
        ),
        "no_expression": (
            (
                "{expression!r} is not an arithmetic expression. Write only numbers, operators and "
                "functions, for example '(3 + 4) * 2'."
            ),
            "{expression!r} 不是算术表达式。请只写数字、运算符和函数，例如 '(3 + 4) * 2'。",
        ),
        "not_calculable": (
            "{source} cannot be calculated. Use numbers, operators and functions only.",
            "{source} 无法计算。请只使用数字、运算符和函数。",
        ),
        "unknown_number": (
            "{source} is not a supported number.",
            "{source} 不是支持的数字。",
        ),
        "unknown_name": ("Unknown name {name!r}. Known: {known}.", "未知名称 {name!r}。已知：{known}。"),
        "signs_only": ("Only the signs + and - are allowed before a number.", "数字前只能有 + 或 - 号。"),
        "unknown_operator": (
            "Unknown operator. Known: + - * / // % ** and parentheses.",
            "未知运算符。已知：+ - * / // % ** 和括号。",
        ),
        "no_function_call": (
            "{source} is not a function call. Write a * sign for a product.",
            "{source} 不是函数调用。乘积请写 * 号。",
        ),
        "unknown_function": (
            "Unknown function {name!r}. Known: {known}.",
            "未知函数 {name!r}。已知：{known}。",
        ),
        "wrong_count": (
            (
                "{name} does not take {count} numbers like these. Inside a function a comma "
                "separates numbers; write 1234, not 1,234."
            ),
            "{name} 不接受这样的 {count} 个数字。函数内逗号用来分隔数字；请写 1234，不要写 1,234。",
        ),
        "no_real_value": ("{source} has no real value.", "{source} 没有实数值。"),
        "not_real": ("The result is not a real number.", "结果不是实数。"),
        # -- the shell -------------------------------------------------------------------------------
        "command_no_text": ("The argument 'command' must be a string.", "参数 'command' 必须是文本。"),
        "no_sandbox": (
            (
                "This machine has no sandbox, and there is no user to ask, so commands are not run. The "
                "operator can allow it with unsandboxed=True (--unsandboxed-shell). Use other tools."
            ),
            (
                "这台机器上没有沙箱，也没有人可以询问，因此不运行命令。操作者可用 unsandboxed=True"
                "（--unsandboxed-shell）允许。请使用其他工具。"
            ),
        ),
        "nul": ("The command contains a NUL character. Remove it.", "命令含有 NUL 字符。请去掉。"),
        "seconds_range": (
            "timeout must be more than 0 and at most {limit:.0f} seconds.",
            "timeout 必须大于 0 且不超过 {limit:.0f} 秒。",
        ),
        "not_started": ("The command could not be started: {error}.", "命令无法启动（{kind}）。"),
        "no_bash": (
            "bash was not found on this machine, so commands cannot run. Use other tools.",
            "这台机器上没有 bash，无法运行命令。请使用其他工具。",
        ),
        "sandbox_failed": ("The sandbox could not be started: {error}", "沙箱无法启动。"),
        "no_output": ("(no output)", "（没有输出）"),
        "timed_out": (
            (
                "[ended after {seconds:g} seconds: the command did not finish. Give a larger timeout, or a "
                "command that does less and needs no input]"
            ),
            "【{seconds:g} 秒后被结束：命令没有完成。请给更大的 timeout，或用做得更少且不需要输入的命令】",
        ),
        "left_processes": (
            "[background processes left by the command were ended: {count}]",
            "【命令留下的后台进程已被结束：{count} 个】",
        ),
        "bytes_left_out": ("\n[... {count:,} bytes left out ...]\n", "\n【…… 省略了 {count:,} 字节 ……】\n"),
        "unprotected_link": (
            (
                "{path!r} is a symbolic link and cannot be protected from commands, so no command is run. "
                "A person must replace the link with its target."
            ),
            "{path!r} 是符号链接，无法防止命令改动它，因此不运行命令。须由人把它换成它所指向的内容。",
        ),
        "output_cut": (
            "[the middle of the output was left out; write it to a file and read parts of it]",
            "【输出的中间部分已省略；请把输出写入文件并分段阅读】",
        ),
        "not_shown": (
            "[{why}. A person can show it: start with that folder in PATH, or readable=[...]]",
            "【{why}。人可以让它可见：启动时把该文件夹放进 PATH，或使用 readable=[...]】",
        ),
        "git_not_shown": (
            "[This folder belongs to the repository {path}, a home or similar folder, which is never shown]",
            "【此文件夹属于仓库 {path}，它是主目录一类的文件夹，从不可见】",
        ),
        "git_not_linked": (
            "[{path} points to {other}, which does not point back and stays hidden: git worktree repair]",
            "【{path} 指向 {other}，但后者没有指回它，因此不可见：可用 git worktree repair 修复】",
        ),
        "git_only_read": (
            "[{path} is read-only here, because its hooks and configuration cannot be protected]",
            "【{path} 在这里只能读取，因为无法保护其中的钩子和配置】",
        ),
        "restored": (
            "[protected files changed during the command and were restored: {names}]",
            "【受保护的文件期间被改动，已恢复原样：{names}】",
        ),
        "ran_read_only": (
            (
                "[no person approved this command, so it ran with all files read-only and without network. "
                "If it failed because of that, call shell again with changes=true: then a person is asked]"
            ),
            (
                "【没有人批准这条命令，因此它在所有文件只读、没有网络的情况下运行。如果它因此失败，"
                "请用 changes=true 再次调用 shell：那时会询问人】"
            ),
        ),
        "use_tmpdir": (
            (
                "[files below /tmp cannot be written here without a person: write to this command's own "
                "$TMPDIR, or call shell again with changes=true]"
            ),
            (
                "【没有人的许可，这里不能写 /tmp 下的文件：请写到这条命令专用的 $TMPDIR，"
                "或用 changes=true 再次调用 shell】"
            ),
        ),
        "ran_in_plan": (
            "[plan mode: all files were read-only, and there was no network]",
            "【计划模式：所有文件只读，没有网络】",
        ),
        "exit_code": ("[exit code {code}]", "【退出码 {code}】"),
        "exit_signal": ("[exit code {code}: {meaning}]", "【退出码 {code}：{meaning}】"),
        "aborted": ("aborted", "已中止"),
        "bus error": ("bus error", "总线错误"),
        "arithmetic error": ("arithmetic error", "算术错误"),
        "killed": ("killed", "被杀死"),
        "memory fault": ("memory fault", "内存错误"),
        "terminated": ("terminated", "被终止"),
        "computing time used up": ("CPU time limit reached", "计算时间已用完"),
        "a file grew too large": ("file size limit reached", "文件过大"),
    }
)


def _chinese(
    description: str, *examples: tuple[str, Mapping[str, Any]], **parameters: str
) -> Mapping[str, ToolWords]:
    return {"zh": ToolWords(description, parameters, examples or None)}


_FILE = '文件，相对于工作区，例如 "docs/guide.md"。'
_HIDDEN = "也查找以点开头的名称、node_modules 和 __pycache__。"
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
        "命令结束时，留在后台的进程会被结束。",
        command='命令行，例如 "git status && ls docs"。',
        timeout="多少秒后结束它；省略则用默认值。",
        changes="必须改动文件或使用网络时为 true。那时可能会询问人。",
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
}
