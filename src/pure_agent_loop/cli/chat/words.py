"""What the conversation says to a person, in English and Chinese."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pure_agent_loop.cli.words import language_of
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


_KEYS: Pairs = {
    "Enter": ("sends; while it works: said after this step", "发送；工作中：此步之后告知"),
    "Alt+Enter": ("new line; while it works: said when it is done", "换行；工作中：完成后告知"),
    "Ctrl-J": ("new line", "换行"),
    "Esc, Ctrl-C": ("stops and keeps the text; Ctrl-C twice leaves", "停止并保留文字；两次 Ctrl-C 退出"),
    "Ctrl-D": ("leaves", "退出"),
    "Ctrl-O": ("unfolds the last folded thing", "展开最近折叠的内容"),
    "Ctrl-B": ("moves a running task to the background", "把运行中的任务移到后台"),
    "Shift+Tab": ("asks, only reads, or does all that no rule forbids", "询问、只读、或做规则未禁止的一切"),
    "Ctrl-R": ("finds what you typed before", "查找以前的输入"),
    "Ctrl-V": ("sends the image of the clipboard", "发送剪贴板中的图片"),
    "Ctrl-X Ctrl-E": ("opens the editor", "打开编辑器"),
    "Tab": ("completes", "补全"),
    "@file": ("names a file; an image or a PDF is sent", "指定文件；图片和 PDF 会发送"),
    "!command": ("runs it in the sandbox", "在沙箱中运行"),
    "#note": ("keeps a note for this folder", "为此文件夹记下备注"),
}
COMMANDS: Pairs = {
    "help": ("keys and commands", "按键和命令"),
    "model": ("NAME: use another model", "名称：换用模型"),
    "mcp": ("servers of tools", "工具服务器"),
    "mode": ("MODE: what it may do", "模式：允许做什么"),
    "permissions": ("the rules; remove RULE takes one back", "规则；remove 规则 收回一条"),
    "tools": ("what the model works with", "模型可用的工具"),
    "sessions": (
        "those of this folder; ID or number goes on there, 2? looks into it",
        "此文件夹的会话；编号即继续，2? 为预览",
    ),
    "new": ("begin a new session", "开始新会话"),
    "fork": ("STEP: a new session that begins as this one", "步骤：以此会话为开端的新会话"),
    "rewind": ("STEP: back to after it, files and words", "步骤：回到其后，文件与对话"),
    "copy": ("the last answer to the clipboard", "把最后的回答放入剪贴板"),
    "editor": ("write the next task in your editor", "在编辑器中写下一个任务"),
    "undo": ("show what would be taken back; yes does it", "显示将撤销的内容；yes 执行"),
    "redo": ("take the last undo back", "撤回上次撤销"),
    "diff": ("STEP: what a step changed", "步骤：该步改动了什么"),
    "compact": (
        "shorten the history before the next request; WORDS say what to keep",
        "下次请求前缩短历史；文字说明要保留什么",
    ),
    "context": ("what fills the model's window", "窗口的占用情况"),
    "cost": ("what was used", "用量"),
    "memory": ("WORDS: the notes of this folder", "词：此文件夹的备注"),
    "skills": ("the skills there are", "可用的技能"),
    "agents": ("the subagents there are", "可用的子代理"),
    "tasks": ("what was given to subagents", "交给子代理的任务"),
    "export": ("FILE.md or FILE.html: write this session", "文件.md 或 .html：写出此会话"),
    "theme": ("NAME: other colours", "名称：换配色"),
    "doctor": ("find out what the server can do", "检查服务器的能力"),
    "unfold": ("NUMBER: something folded, the last is 1", "编号：展开折叠内容，最近为 1"),
    "keys": ("vi or emacs", "vi 或 emacs"),
    "exit": ("leave", "退出"),
}
# What people type who know other programs: what does it here.
HABITS: Pairs = {
    "add": (
        "Name files in your task, as @src/a.py; Tab completes them.",
        "在任务中指定文件，如 @src/a.py；Tab 补全。",
    ),
    "ask": ("/mode plan lets it only read; Shift+Tab too.", "/mode plan 只允许读取；Shift+Tab 也可。"),
    "web": ("Name the address in your task.", "在任务中写出网址。"),
    "run": ("!command runs it, and the model is told.", "!命令 即运行，并告知模型。"),
    "drop": (
        "Only what a task names is looked at; /compact and /new make room.",
        "只看任务所指定的；/compact 与 /new 腾出空间。",
    ),
    "init": ("Ask for an AGENTS.md; pal init writes settings.", "请它写 AGENTS.md；pal init 写设置。"),
}
SAME: Mapping[str, str] = {
    "quit": "exit",
    "resume": "sessions",
    "clear": "new",
    "reset": "new",
    "tokens": "context",
    "checkpoint": "rewind",
    "edit": "editor",
    "usage": "cost",
    "rules": "permissions",
    "read-only": "add",
    "read": "add",
    "ls": "add",
    "architect": "ask",
    "plan": "ask",
    "code": "ask",
    "test": "run",
    "git": "run",
    "lint": "run",
    "commit": "run",
    "bash": "run",
    "shell": "run",
}
CHAT: Pairs = {
    "welcome": (
        "Type a task. / lists commands, @ names a file, ! runs a command, # keeps a note, ? is help.",
        "请输入任务。/ 列出命令，@ 指定文件，! 运行命令，# 记下备注，? 为帮助。",
    ),
    "goes_on": ("The last run was cut off; it goes on.", "上次运行中断，现在继续。"),
    "leave_again": ("Ctrl-C again leaves; Ctrl-D too", "再按一次 Ctrl-C 或 Ctrl-D 退出"),
    "stopping": ("stopping; Ctrl-C again leaves", "正在停止；再按 Ctrl-C 退出"),
    "queued": ("{count} queued", "{count} 条待处理"),
    "way_on": ("to go on: pal -c", "继续：pal -c"),
    "image_chip": ("[file {number}: {name}]", "[文件 {number}：{name}]"),
    "no_image": (
        "There is no image in the clipboard that this terminal can get.",
        "剪贴板中没有此终端可取的图片。",
    ),
    "search": ("search: ", "查找："),
    "no_mcp": (
        "There are no MCP servers. To add one: pal mcp add NAME -- COMMAND",
        "没有 MCP 服务器。添加：pal mcp add 名称 -- 命令",
    ),
    "copied": (
        "given to the terminal for its clipboard: {count} characters",
        "已交给终端放入剪贴板：{count} 字",
    ),
    "rewound": (
        "a new session, as this one was after step {step}: {id}",
        "新会话，内容同第 {step} 步之后：{id}",
    ),
    "steps": ("/rewind STEP goes back to after one of these:", "/rewind 步骤 回到其中一步之后："),
    "chip": ("[paste {number}: {lines} lines]", "[粘贴 {number}：{lines} 行]"),
    "choose": (
        "y yes, once · n no · n WHY no, and why · e edit · d show all{kind}",
        "y 允许一次 · n 拒绝 · n 原因 拒绝并说明 · e 修改 · d 全部显示{kind}",
    ),
    "choose_kind": (
        "\ns this session, a always: {kind}",
        "\ns 本次会话，a 始终：{kind}",
    ),
    "choose_yes_no": ("y yes · n no · d show all", "y 是 · n 否 · d 全部显示"),
    "choose_open": ("your answer · n no", "您的回答 · n 否"),
    "edit_call": ("Change the call, then Enter.", "修改调用，然后按 Enter。"),
    "no_call": ("That is no call: {why}", "这不是有效的调用：{why}"),
    "no_answer": ("That is no answer; the call still waits.", "这不是回答；调用仍在等待。"),
    "allowed": ("allowed in this session: {rules}", "本次会话允许：{rules}"),
    "kept": ("written to {place}", "已写入 {place}"),
    "not_trusted": (
        "Nobody has trusted {place}, so a rule there would not hold.",
        "{place} 未获信任，写在其中的规则不会生效。",
    ),
    "not_now": ("That waits until the step is over, or Esc stops it.", "请等此步骤结束，或按 Esc 停止。"),
    "no_command": (
        "There is no command /{name}.{hint} /help lists them; with a blank before it, it goes to the model.",
        "没有命令 /{name}。{hint}/help 列出全部；前面加一个空格则发给模型。",
    ),
    "did_you_mean": (" Did you mean /{name}?", "是否指 /{name}？"),
    "only_talking": (
        "/{name} is for a conversation: start pal and type it. With a blank before it, it goes to the model.",
        "/{name} 用于对话：请启动 pal 后输入。前面加一个空格则发给模型。",
    ),
    "trust_command": (
        "This project brings the command /{name}, which somebody else may have written:\n{text}\nUse it?",
        "此项目带有命令 /{name}，可能出自他人之手：\n{text}\n是否使用？",
    ),
    "no_file": ("{path}: {why}", "{path}：{why}"),
    "noted": ("noted for this folder", "已为此文件夹记下"),
    "known": ("that is noted already", "已有此备注"),
    "no_shell": ("There is no shell among the tools.", "工具中没有 shell。"),
    "ran": ("A person ran this command:", "用户运行了此命令："),
    "no_background": ("Nothing runs that can go to the background.", "没有可移到后台的任务。"),
    "moved": ("moved to the background", "已移到后台"),
    "mode": ("mode: {mode}; there are: {all}", "模式：{mode}；可用：{all}"),
    "model": ("model: {model}. {reason}", "模型：{model}。{reason}"),
    "undo_first": ("/undo yes does it", "/undo yes 将执行"),
    "redone": ("{steps} changed again", "已重新更改 {steps}"),
    "undone": ("{steps} changed back", "已还原 {steps}"),
    "would_undo": ("would be changed back: {steps}", "将还原：{steps}"),
    "nothing_undone": ("There is nothing to take back.", "没有可撤销的内容。"),
    "left": ("left {path}: {reason}", "未动 {path}：{reason}"),
    "compact_next": ("The history is shortened before the next request.", "下次请求前将缩短历史。"),
    "compact_words": (
        "The user asks to keep this above all: {words}",
        "用户要求首先保留：{words}",
    ),
    "no_session": ("Nothing is kept of this conversation.", "此对话不保存。"),
    "session": ("session {id}", "会话 {id}"),
    "forked": ("a new session, as this one was: {id}", "新会话，内容同前：{id}"),
    "exported": ("written: {path}", "已写入：{path}"),
    "exists": ("{path} is there already.", "{path} 已存在。"),
    "nothing": ("There is nothing.", "没有内容。"),
    "cost": (
        "{tokens} tokens in {steps} steps{cost}",
        "{steps} 步，{tokens} 令牌{cost}",
    ),
    "keys": ("keys: {keys}", "按键：{keys}"),
    "theme": ("theme: {theme}; there are: {all}", "主题：{theme}；可用：{all}"),
    "needs": ("/{name} {what}", "/{name} {what}"),
    "rule_gone": ("taken back: {rule}", "已收回：{rule}"),
}


def chat_word(name: str, /, **values: object) -> str:
    """What the conversation says to the person; see `CHAT`.

    Args:
        name: Of the sentence.
        values: For the names in braces.
    """
    return in_words(CHAT[name]).format(**values)


def in_words(pair: tuple[str, str]) -> str:
    """The one of two sentences that is in the person's language."""
    return pair[LANGUAGES.index(language_of())]


def keys_help() -> str:
    """What the keys do, as Markdown."""
    index = LANGUAGES.index(language_of())
    return "\n".join(f"- `{key}` {about[index]}" for key, about in _KEYS.items())
