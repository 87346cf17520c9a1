"""What the conversation says to a person, in English and Chinese."""

from __future__ import annotations

from collections.abc import Callable

from pure_agent_loop.support.language import LANGUAGES, Pairs, default_language, in_language

SCREEN: Pairs = {
    "thought": ("thought for {seconds}, {count} words", "思考了 {seconds}，{count} 字"),
    "thinking": ("thinking, {count} words", "思考中，{count} 字"),
    "working": ("working", "工作中"),
    "writing_call": ("writing a call: {tool}", "正在写调用：{tool}"),
    "writing_table": ("table, {count} lines", "表格，{count} 行"),
    "waiting": ("waits for your answer", "等待你的回答"),
    "running": ("running", "运行中"),
    "done": ("done", "完成"),
    "failed": ("failed", "失败"),
    "refused": ("not allowed", "未获准许"),
    "stopped": ("stopped", "已停止"),
    "lines": ("{count} lines", "{count} 行"),
    "no_output": ("no output", "无输出"),
    "right_to_left": ("has right-to-left text", "含从右到左的文字"),
    "more_running": ("and {count} more", "另有 {count} 项"),
    "more_diff": ("{count} more lines; unfold shows them", "还有 {count} 行；展开可看全部"),
    "more_lines": ("{count} more lines; unfold shows them", "还有 {count} 行；展开可看全部"),
    "arguments": ("arguments", "参数"),
    "result": ("result", "结果"),
    "reasoning": ("reasoning", "思考"),
    "prompt": ("task", "任务"),
    "nothing_folded": ("there is nothing folded", "没有折叠的内容"),
    "you": ("you", "你"),
    "created": ("created", "新建"),
    "modified": ("modified", "修改"),
    "deleted": ("deleted", "删除"),
    "added": ("added", "增"),
    "removed": ("removed", "删"),
    "not_text": ("not text", "非文本"),
    "calls": ("{count} calls", "{count} 次调用"),
    "tokens": ("{count} tokens", "{count} 令牌"),
    "todo_pending": ("open", "待办"),
    "todo_in_progress": ("now", "进行中"),
    "todo_done": ("done", "完成"),
    "error": ("error", "错误"),
    "retry": ("try {number} in {seconds}: {error}", "{seconds} 后第 {number} 次尝试：{error}"),
    "again": ("the answer starts again", "回答重新开始"),
    "soft_limit": ("{reason}: the model was asked to check its course", "{reason}：已请模型检查方向"),
    "compaction": (
        "the history was shortened from about {before} to {after} tokens",
        "历史已从约 {before} 缩短到 {after} 令牌",
    ),
    "ended": ("ended: {reason}", "已结束：{reason}"),
    "code": ("code {language}", "代码 {language}"),
    "code_end": ("end of code", "代码结束"),
    "image": ("image", "图片"),
    "step": ("step {number}", "第 {number} 步"),
    "context": ("context {used}", "上下文 {used}"),
    "model": ("model {name}", "模型 {name}"),
    "mode": ("mode {name}", "模式 {name}"),
}

Words = Callable[..., str]


def words_in(language: str | None) -> Words:
    """What says the sentences of `SCREEN` by their names.

    Args:
        language: ``"en"`` or ``"zh"``; None for the default.

    Raises:
        ConfigError: The language is not known.
    """
    index = in_language(
        {name: number for number, name in enumerate(LANGUAGES)}, language or default_language()
    )

    def word(name: str, /, **values: object) -> str:
        text = SCREEN[name][index]
        return text.format(**values) if values else text

    return word
