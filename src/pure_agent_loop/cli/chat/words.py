"""Messages of the conversation, in English and Chinese."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pure_agent_loop.support.language import LANGUAGES, Pairs, default_language, in_language, user_language

SCREEN: Pairs = {
    "thought": ("thought for {seconds}, {count} words", "思考了 {seconds}，{count} 字"),
    "thinking": ("thinking, {count} words", "思考中，{count} 字"),
    "working": ("working", "工作中"),
    "writing_call": ("writing a call: {tool}", "正在写调用：{tool}"),
    "writing_table": ("table, {count} lines", "表格，{count} 行"),
    "waiting": ("waiting for your answer", "等待你的回答"),
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
    "nothing_folded": ("nothing is folded", "没有折叠的内容"),
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
    "soft_limit": ("{reason}: the model was asked to check its progress", "{reason}：已请模型检查方向"),
    "compaction": (
        "the history was compacted from about {before} to {after} tokens",
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
    """Return a function that formats a message of `SCREEN` by its name.

    Args:
        language: ``"en"`` or ``"zh"``; None for the default.

    Raises:
        ConfigError: The language is unknown.
    """
    index = in_language(
        {name: number for number, name in enumerate(LANGUAGES)}, language or default_language()
    )

    def word(name: str, /, **values: object) -> str:
        text = SCREEN[name][index]
        return text.format(**values) if values else text

    return word


_KEYS: Pairs = {
    "Enter": ("sends; during a run: after this step", "发送；工作中：此步之后告知"),
    "Alt+Enter": ("new line; during a run: sends when it is done", "换行；工作中：完成后告知"),
    "Ctrl-J": ("new line", "换行"),
    "Esc, Ctrl-C": ("stops the run, keeps its text; Ctrl-C twice exits", "停止并保留文字；两次 Ctrl-C 退出"),
    "Ctrl-D": ("exits", "退出"),
    "Ctrl-O": ("unfolds the last folded block", "展开最近折叠的内容"),
    "Ctrl-B": ("moves a running task to the background", "把运行中的任务移到后台"),
    "Shift+Tab": (
        "switches mode: ask, read only, or allow unless denied",
        "询问、只读、或做规则未禁止的一切",
    ),
    "Ctrl-R": ("searches your input history", "查找以前的输入"),
    "Ctrl-V": ("attaches the image in the clipboard", "发送剪贴板中的图片"),
    "Ctrl-X Ctrl-E": ("opens the editor", "打开编辑器"),
    "Tab": ("completes", "补全"),
    "@file": ("names a file; attaches an image or a PDF", "指定文件；图片和 PDF 会发送"),
    "!command": ("runs a command in the sandbox", "在沙箱中运行"),
    "#note": ("saves a note for this folder", "为此文件夹记下备注"),
}
COMMANDS: Pairs = {
    "help": ("keys and commands", "按键和命令"),
    "model": ("NAME: use another model", "名称：换用模型"),
    "mcp": ("MCP servers and their tools", "工具服务器"),
    "mode": ("MODE: change the permission mode", "模式：允许做什么"),
    "permissions": ("show the rules; remove RULE removes one", "规则；remove 规则 收回一条"),
    "tools": ("list the model's tools", "模型可用的工具"),
    "sessions": (
        "list this folder's; ID or number resumes one, 2? previews",
        "此文件夹的会话；编号即继续，2? 为预览",
    ),
    "new": ("start a new session", "开始新会话"),
    "fork": ("STEP: fork this session into a new one", "步骤：以此会话为开端的新会话"),
    "rewind": ("STEP: return to the end of it, files and history", "步骤：回到其后，文件与对话"),
    "copy": ("copy the last answer to the clipboard", "把最后的回答放入剪贴板"),
    "editor": ("write the next task in your editor", "在编辑器中写下一个任务"),
    "undo": ("preview the undo; /undo yes does it", "显示将撤销的内容；yes 执行"),
    "redo": ("redo the last undo", "撤回上次撤销"),
    "diff": ("STEP: show what a step changed", "步骤：该步改动了什么"),
    "compact": (
        "compact the history at the next request; WORDS: keep these",
        "下次请求前缩短历史；文字说明要保留什么",
    ),
    "context": ("show what fills the context window", "窗口的占用情况"),
    "cost": ("show tokens and cost", "用量"),
    "memory": ("WORDS: show the notes of this folder", "词：此文件夹的备注"),
    "skills": ("list skills", "可用的技能"),
    "agents": ("list subagents", "可用的子代理"),
    "tasks": ("list subagent tasks", "交给子代理的任务"),
    "export": ("FILE.md or FILE.html: export this session", "文件.md 或 .html：写出此会话"),
    "theme": ("NAME: change the colours", "名称：换配色"),
    "doctor": ("check what the model server supports", "检查服务器的能力"),
    "unfold": ("NUMBER: unfold a block; the last is 1", "编号：展开折叠内容，最近为 1"),
    "keys": ("vi or emacs: set the key bindings", "vi 或 emacs"),
    "exit": ("exit", "退出"),
}
# Hints for commands of other programs.
HABITS: Pairs = {
    "add": (
        "Name files in your task, as @src/a.py; Tab completes them.",
        "在任务中指定文件，如 @src/a.py；Tab 补全。",
    ),
    "ask": ("/mode plan makes it read-only; Shift+Tab too.", "/mode plan 只允许读取；Shift+Tab 也可。"),
    "web": ("Put the URL in your task.", "在任务中写出网址。"),
    "run": ("!command runs it and shows the model the output.", "!命令 即运行，并告知模型。"),
    "drop": (
        "Only files that a task names are read; /compact and /new free space.",
        "只看任务所指定的；/compact 与 /new 腾出空间。",
    ),
    "init": (
        "Ask the agent for an AGENTS.md; pal init writes settings.",
        "请它写 AGENTS.md；pal init 写设置。",
    ),
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
        "Type a task. / lists commands, @ names a file, ! runs a command, # saves a note, ? shows help.",
        "请输入任务。/ 列出命令，@ 指定文件，! 运行命令，# 记下备注，? 为帮助。",
    ),
    "label_run": ("run> ", "运行> "),
    "label_note": ("note> ", "备注> "),
    "label_text": ("text> ", "文本> "),
    "resuming": ("Resuming the interrupted run.", "上次运行中断，现在继续。"),
    "leave_again": ("press Ctrl-C again or Ctrl-D to exit", "再按一次 Ctrl-C 或 Ctrl-D 退出"),
    "stopping": ("stopping; Ctrl-C again exits", "正在停止；再按 Ctrl-C 退出"),
    "queued": ("{count} queued", "{count} 条待处理"),
    "way_on": ("to resume: pal -c", "继续：pal -c"),
    "image_chip": ("[file {number}: {name}]", "[文件 {number}：{name}]"),
    "no_image": (
        "The clipboard holds no image that this terminal can read.",
        "剪贴板中没有此终端可取的图片。",
    ),
    "no_editor": (
        "No editor can open in this terminal. Write the task in a file and name it: @task.md",
        "此终端无法打开编辑器。请把任务写入文件并指定它：@task.md",
    ),
    "search": ("search: ", "查找："),
    "no_mcp": (
        "No MCP servers are configured. To add one: pal mcp add NAME -- COMMAND",
        "没有 MCP 服务器。添加：pal mcp add 名称 -- 命令",
    ),
    "copied": (
        "copied to the terminal's clipboard: {count} characters",
        "已交给终端放入剪贴板：{count} 字",
    ),
    "rewound": (
        "new session, forked after step {step}: {id}",
        "新会话，内容同第 {step} 步之后：{id}",
    ),
    "steps": ("/rewind STEP returns to the end of one of these steps:", "/rewind 步骤 回到其中一步之后："),
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
    "no_call": ("Invalid call: {why}", "这不是有效的调用：{why}"),
    "no_answer": ("Not a valid answer; the call is still pending.", "这不是回答；调用仍在等待。"),
    "allowed": ("allowed in this session: {rules}", "本次会话允许：{rules}"),
    "kept": ("written to {place}", "已写入 {place}"),
    "not_trusted": (
        "{place} is not trusted, so a rule in it would have no effect.",
        "{place} 未获信任，写在其中的规则不会生效。",
    ),
    "not_now": ("Wait until the step has finished, or stop it with Esc.", "请等此步骤结束，或按 Esc 停止。"),
    "no_command": (
        "Unknown command /{name}.{hint} /help lists all. Put a space before it to send it to the model.",
        "没有命令 /{name}。{hint}/help 列出全部；前面加一个空格则发给模型。",
    ),
    "did_you_mean": (" Did you mean /{name}?", "是否指 /{name}？"),
    "only_talking": (
        "/{name} works only in a conversation: start pal. Put a space before it to send it to the model.",
        "/{name} 用于对话：请启动 pal 后输入。前面加一个空格则发给模型。",
    ),
    "trust_command": (
        "This project defines the command /{name}; its author may be somebody else:\n{text}\nUse it?",
        "此项目带有命令 /{name}，可能出自他人之手：\n{text}\n是否使用？",
    ),
    "no_file": ("{path}: {why}", "{path}：{why}"),
    "noted": ("note saved for this folder", "已为此文件夹记下"),
    "known": ("this note already exists", "已有此备注"),
    "no_shell": ("The shell tool is not available.", "工具中没有 shell。"),
    "ran": ("The user ran this command:", "用户运行了此命令："),
    "no_background": ("No running task can move to the background.", "没有可移到后台的任务。"),
    "moved": ("moved to the background", "已移到后台"),
    "mode": ("mode: {mode}; available: {all}", "模式：{mode}；可用：{all}"),
    "model": ("model: {model}. {reason}", "模型：{model}。{reason}"),
    "undo_first": ("/undo yes does it", "/undo yes 将执行"),
    "redone": ("{steps} redone", "已重新更改 {steps}"),
    "undone": ("{steps} undone", "已还原 {steps}"),
    "would_undo": ("would be undone: {steps}", "将还原：{steps}"),
    "nothing_undone": ("There is nothing to undo.", "没有可撤销的内容。"),
    "left": ("left {path}: {reason}", "未动 {path}：{reason}"),
    "compact_next": ("The history will be compacted before the next request.", "下次请求前将缩短历史。"),
    "compact_words": (
        "The user asks to keep this above all: {words}",
        "用户要求首先保留：{words}",
    ),
    "no_session": ("This conversation is not recorded.", "此对话不保存。"),
    "session": ("session {id}", "会话 {id}"),
    "forked": ("new session, forked from this one: {id}", "新会话，内容同前：{id}"),
    "exported": ("written: {path}", "已写入：{path}"),
    "exists": ("{path} already exists.", "{path} 已存在。"),
    "nothing": ("(nothing to show)", "没有内容。"),
    "cost": (
        "{tokens} tokens in {steps} steps{cost}",
        "{steps} 步，{tokens} 令牌{cost}",
    ),
    "keys": ("keys: {keys}", "按键：{keys}"),
    "theme": ("theme: {theme}; available: {all}", "主题：{theme}；可用：{all}"),
    "needs": ("/{name} {what}", "/{name} {what}"),
    "rule_gone": ("rule removed: {rule}", "已收回：{rule}"),
}


def chat_word(name: str, /, **values: object) -> str:
    """Return a message of `CHAT` in the user's language, with its placeholders filled in."""
    return in_words(CHAT[name]).format(**values)


def in_words(pair: tuple[str, str]) -> str:
    """Return the sentence of a pair that is in the user's language."""
    return pair[LANGUAGES.index(user_language())]


def keys_help() -> str:
    """Return the help on keys, as Markdown."""
    index = LANGUAGES.index(user_language())
    return "\n".join(f"- `{key}` {help_pair[index]}" for key, help_pair in _KEYS.items())
