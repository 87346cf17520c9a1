"""What a command did, in words for the model, and whether it failed only because it could change nothing."""

from __future__ import annotations

import re

from pure_agent_loop.prompts import default_language
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.process import Finished

_SIGNALS = {134: "aborted", 135: "bus error", 136: "arithmetic error", 137: "killed", 139: "memory fault"}
_SIGNALS |= {143: "terminated", 152: "computing time used up", 153: "a file grew too large"}
NOT_FOUND = 127
_MOST_REASON = 200
_NO_NETWORK = (
    "Network is unreachable|Connection refused|Temporary failure in name resolution|Could not resolve host"
    "|Name or service not known|ENETUNREACH|ECONNREFUSED|EAI_AGAIN"
)

_TEXTS = {
    "en": {
        "nothing": "(no output)",
        "late": "[ended after {seconds:g} seconds: the command did not finish. Give a larger timeout, or a "
        "command that does less and needs no input]",
        "code": "[exit code {code}{meaning}]",
        "killed": "[background processes left by the command were ended: {number}]",
        "cut": "[the middle of the output was left out; write it to a file and read parts of it]",
        "still": "[nobody has approved this command, so it ran with all files read-only and without network. "
        "If it failed because of that, call shell again with changes=true: then a person is asked]",
        "plan": "[plan mode: all files were read-only, and there was no network]",
        "missing": "[{why}. A person can show it: start with that folder in PATH, or readable=[...]]",
        "restored": "[changed meanwhile, protected, and put back as before: {names}]",
    },
    "zh": {
        "nothing": "（无输出）",
        "late": "[{seconds:g} 秒后被终止：命令没有结束。请给出更大的 timeout，"
        "或换一个做得更少、不需要输入的命令]",
        "code": "[退出码 {code}{meaning}]",
        "killed": "[命令遗留的后台进程已被终止：{number}]",
        "cut": "[输出的中间部分已省略；请写入文件后分段读取]",
        "still": "[没有人批准这条命令，因此它在所有文件只读、没有网络的情况下运行。"
        "如果它因此失败，请用 changes=true 再次调用 shell：那时会询问人]",
        "plan": "[计划模式：所有文件只读，没有网络]",
        "missing": "[{why}。人可以让它可见：启动时把该文件夹放进 PATH，或使用 readable=[...]]",
        "restored": "[受保护的文件期间被改动，已恢复原样：{names}]",
    },
}


def refused(finished: Finished, refusal: str, *, several: bool, network: bool) -> str:
    """What a command that could change nothing failed at, in its own words; "" if it did not fail at that.

    It did if its status says that it failed and its output holds what the kernel calls a refused write. The
    status of a line of several commands is that of the last one; there, output that ends so is enough.

    Args:
        finished: How it ended.
        refusal: What the kernel calls it; see `Sandbox`.
        several: The line holds several commands.
        network: Once approved it could use the network, so that a refused connection counts too.
    """
    if finished.timed_out or (finished.exit_code == 0 and not several):
        return ""
    words = f"(?:{refusal}{'|' + _NO_NETWORK if network else ''})"
    pattern = words if finished.exit_code else rf"{words}\W*$"
    found = re.search(rf"^.*{pattern}.*$", finished.output, re.I | re.M)
    return found[0].strip()[-_MOST_REASON:] if found else ""


def told(finished: Finished, seconds: float, why_missing: list[str], *, still: str = "") -> str:
    """What the model reads.

    Args:
        finished: How the command ended.
        seconds: How long it was allowed to take.
        why_missing: Why programs were not found.
        still: It could change nothing: ``still`` because nobody approved more, ``plan`` because of the mode.

    Raises:
        WorkspaceError: It could not be started.
    """
    if finished.problem:
        raise WorkspaceError(f"The sandbox could not be started: {finished.problem[:500]}")
    texts, code = _TEXTS[default_language()], finished.exit_code
    meaning = f": {_SIGNALS[code]}" if code in _SIGNALS else ""
    output = finished.output.removesuffix("\n") if finished.output else texts["nothing"]
    lines = [
        output,
        texts["late" if finished.timed_out else "code"].format(seconds=seconds, code=code, meaning=meaning),
    ]
    if finished.killed > 0 and not finished.timed_out:
        lines.append(texts["killed"].format(number=finished.killed))
    if finished.truncated:
        lines.append(texts["cut"])
    lines += [texts["missing"].format(why=each) for each in why_missing]
    if finished.restored:
        lines.append(texts["restored"].format(names=", ".join(finished.restored)))
    if still and code != 0:
        lines.append(texts[still])
    return "\n".join(lines)
