"""Help of the command line by the English text. Chinese."""

MESSAGES = {
    "An agent for your terminal, with any chat model.": "终端里的智能体，可用任何对话模型。",
    (
        "pal              talk with the agent in this folder\n"
        'pal "QUESTION"   begin with a question; -p prints only the answer\n'
        "pal init         write a settings file: keys, servers, models"
    ): (
        "pal              在此文件夹中与智能体对话\n"
        'pal "问题"       以一个问题开始；-p 只输出回答\n'
        "pal init         生成设置文件：密钥、服务器、模型"
    ),
    "use": "使用",
    "look": "查看",
    "serve": "服务",
    "set up": "设置",
    "more": "其他",
    "'pal COMMAND --help' shows the options of a command. 'pal run WORD' runs a one-word task.": (
        "“pal 命令 --help”显示该命令的选项。“pal run 词”只用一个词提问。"
    ),
    "positional arguments": "位置参数",
    "options": "选项",
    "show this help message and exit": "显示此帮助并退出",
    "show program's version number and exit": "显示版本号并退出",
    "run a task": "运行任务",
    "chat with the agent at the terminal": "在终端中与智能体对话",
    "write a settings file": "生成设置文件",
    "show effective settings and their origin": "显示生效的设置及其来源",
    "manage embedded models": "管理内置模型",
    "evaluate an agent or a model with your own cases": "用你自己的用例评测智能体或模型",
    "check what a model server supports": "检查模型服务器支持的功能",
    "list, export, fork, repair and delete sessions": "列出、导出、分叉、修复和删除会话",
    "replay a session offline and compare": "离线重放会话并比较",
    "show what recorded runs cost, and the prices in use": "显示已记录运行的费用和当前价格",
    "show and verify the audit log of tool calls": "查看并校验工具调用的审计日志",
    "undo the workspace changes made in a step": "撤销某一步对工作区的改动",
    "serve agents over HTTP": "通过 HTTP 提供智能体服务",
    "run as an ACP agent for an editor (stdin/stdout)": "作为编辑器的 ACP 智能体运行（stdin/stdout）",
    "run durable tasks until SIGTERM or Ctrl-C": "运行持久任务，直到 SIGTERM 或 Ctrl-C",
    "submit a durable run": "提交持久运行",
    "list, show and delete durable runs": "列出、显示和删除持久运行",
    "show a durable run: its state, answer and questions": "显示持久运行：状态、答案和提问",
    "delete durable runs with everything recorded in them": "删除持久运行及其中的全部内容",
    "cancel runs that have not ended": "取消尚未结束的运行",
    "list what would be deleted, and delete nothing": "列出将被删除的内容，但不删除",
    "list durable runs, newest first": "列出持久运行，最新的在前",
    "cancel a durable run": "取消持久运行",
    "answer a question from a durable run": "回答持久运行的提问",
    "show the events of a durable run": "显示持久运行的事件",
    "run agents on a schedule": "定时运行智能体",
    "manage MCP servers, or run as one": "管理 MCP 服务器，或自身作为 MCP 服务器运行",
    "list and stop subagent tasks": "列出和停止子智能体任务",
    "print a shell completion script": "输出 shell 补全脚本",
    "Run a task with a model and tools in the working folder, and print the answer.": (
        "在工作文件夹中用模型和工具运行任务，并输出答案。"
    ),
    (
        "The model: --model and --base-url, else PAL_MODEL, PAL_BASE_URL and PAL_API_KEY, else "
        "OPENAI_MODEL,\n"
        "OPENAI_BASE_URL and OPENAI_API_KEY, else a model server running on this machine (Ollama, LM "
        "Studio,\n"
        "llama.cpp, vLLM), else the embedded model from the [local] extra. Standard error shows the "
        "choice."
    ): (
        "模型的选择依次为：--model 和 --base-url；PAL_MODEL、PAL_BASE_URL 和 PAL_API_KEY；OPENAI_MODEL"
        "、\n"
        "OPENAI_BASE_URL 和 OPENAI_API_KEY；本机运行的模型服务器（Ollama、LM Studio、llama.cpp、vLLM）"
        "；\n"
        "附加依赖 [local] 的内置模型。选中的模型显示在标准错误中。"
    ),
    (
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 limit reached, 4 calls denied, or pending "
        "without a\n"
        "terminal to ask on, 75 temporary failure (retry later), 130 stopped by Ctrl-C."
    ): (
        "退出码：0 完成，1 失败，2 用法错误，3 达到限制，4 调用被拒绝，或待批准但没有可询问的终端，\n"
        "75 暂时性故障（请稍后重试），130 被 Ctrl-C 停止。"
    ),
    "model": "模型",
    "work": "工作",
    "limits": "限制",
    "sessions": "会话",
    "permissions": "权限",
    "output": "输出",
    "show all options and exit": "显示全部选项并退出",
    "the task; piped text is its context, or the task if none is given": (
        "任务；管道输入是其上下文，未给出任务时即为任务"
    ),
    "model name, or path of a .gguf file": "模型名称，或 .gguf 文件的路径",
    "OpenAI-compatible server, or a server name from pal.toml": (
        "兼容 OpenAI 的服务器，或 pal.toml 中的服务器名称"
    ),
    "model, or server from pal.toml, to use if others fail; repeatable": (
        "其他模型失败时接替回答的模型，或 pal.toml 中的服务器；可重复"
    ),
    "use this profile from pal.toml": "使用 pal.toml 中的此配置档",
    "download the demo model (98 MB) if no model is found, without asking": (
        "没有找到模型时直接下载演示模型（98 MB），不再询问"
    ),
    "read keys, URLs and models from a file such as .env": "从 .env 之类的文件读取密钥、URL 和模型",
    "sampling temperature, 0 to 2": "采样温度，0 到 2",
    "reasoning effort (default: off)": "推理强度（默认：off）",
    "how the model is asked to call tools (default: auto)": "要求模型调用工具的方式（默认：auto）",
    "the system prompt": "系统提示词",
    "text added to the system prompt": "加在系统提示词之后的文本",
    "attach a text file, an image or a PDF; repeatable": "附加文本文件、图片或 PDF；可重复",
    "folder that the tools can see (default: current folder)": "工具可见的文件夹（默认：当前文件夹）",
    "all, read (read-only), none, or tool names (default: all)": (
        "all、read（只读）、none 或工具名称（默认：all）"
    ),
    "let the model start subagents (explore, verify, your own)": (
        "允许模型启动子智能体（explore、verify 及你自己的）"
    ),
    "more subagents, from Markdown files in DIR; repeatable": (
        "更多子智能体，来自 DIR 中的 Markdown 文件；可重复"
    ),
    "add MCP servers from a file like mcp.json; repeatable": "从 mcp.json 之类的文件添加 MCP 服务器；可重复",
    "use no MCP servers": "不使用 MCP 服务器",
    "answer without tools (same as --tools none)": "不用工具直接回答（同 --tools none）",
    "add functions from FILE as tools (not sandboxed); repeatable": (
        "把 FILE 中的函数添加为工具（不在沙箱中）；可重复"
    ),
    "require a JSON answer that matches this JSON Schema": "要求答案为符合此 JSON Schema 的 JSON",
    "react: steps; single: one round of tools (default: react)": (
        "react：多步；single：只调用一轮工具（默认：react）"
    ),
    "show a recorded run: each value and the line that made it": "显示已记录的运行：每个值及产生它的代码行",
    "show the first request and the limits without sending": "显示第一个请求和限制，不发送",
    "maximum steps per run (default: 25)": "每次运行的最多步数（默认：25）",
    "maximum tokens for all requests (default: no limit)": "所有请求的最多 token 数（默认：不限）",
    "maximum seconds per run (default: no limit)": "每次运行的最多秒数（默认：不限）",
    "maximum cost per day (UTC) for all recorded runs": "所有已记录运行每天（UTC）的最高费用",
    "maximum cost per day (UTC) for one person's runs": "同一人的运行每天（UTC）的最高费用",
    "limits of the default agent": "默认智能体的限制",
    "maximum cost, in US dollars or the currency of --price": "最高费用，单位为美元，或与 --price 相同的货币",
    "price per million tokens: INPUT,OUTPUT[,CACHED[,WRITTEN]]": (
        "每百万 token 的价格：输入,输出[,缓存读取[,缓存写入]]"
    ),
    "session to record the run in (default: a new one)": "记录此运行的会话（默认：新会话）",
    "continue the last session in this folder": "继续此文件夹的上一个会话",
    "resume a session; without ID, pick one from this folder": "恢复会话；不给 ID 则从此文件夹的会话中选择",
    "do not record this run": "不记录此运行",
    "delete finished sessions unused for DAYS (default: off)": (
        "删除 DAYS 天未使用的已完成会话（默认：不删除）"
    ),
    "durable-run database: sqlite:///PATH or postgresql://... (default: PAL_DATABASE)": (
        "持久运行的数据库：sqlite:///PATH 或 postgresql://...（默认：PAL_DATABASE）"
    ),
    (
        "ask: before changes; guard: before changes with values not from you; auto: allow unless a "
        "rule denies; plan: read-only tools; bypass: never ask (default: ask)"
    ): (
        "ask：改动前询问；guard：改动中的值不来自你时询问；auto：规则未拒绝即允许；plan：只用只读工具；bypass：从不询问（默认：ask）"
    ),
    "sandbox for commands (default: best available)": "命令的沙箱（默认：可用的最佳沙箱）",
    "allow network access for sandboxed commands": "允许沙箱中的命令访问网络",
    "allow home, shared and key-holding directories": "允许主目录、共享目录和含密钥的目录",
    "trust AGENTS.md, skills, pal.toml and .mcp.json here": (
        "信任此处的 AGENTS.md、技能、pal.toml 和 .mcp.json"
    ),
    "without a sandbox, let the rules decide instead of asking": "没有沙箱时由规则决定，不再询问",
    "do not take the snapshots that 'pal undo' needs": "不拍摄 pal undo 所需的快照",
    "do not write tool calls to the audit log": "不把工具调用写入审计日志",
    "allow matching calls, e.g. 'shell(npm test)'; repeatable": (
        "允许匹配的调用，例如 'shell(npm test)'；可重复"
    ),
    "deny matching calls, e.g. 'shell(npm test)'; repeatable": (
        "拒绝匹配的调用，例如 'shell(npm test)'；可重复"
    ),
    "ask before matching calls, e.g. 'shell(npm test)'; repeatable": (
        "匹配的调用先询问，例如 'shell(npm test)'；可重复"
    ),
    "text: the task; stream-json: one JSON object per task": (
        "text：任务文本；stream-json：每个任务一个 JSON 对象"
    ),
    (
        "text: the answer; json: one object; stream-json: one object per event; code: the first code "
        "block, or the whole answer if there is none (default: text)"
    ): (
        "text：答案；json：一个对象；stream-json：每个事件一个对象；code：第一个代码块，没有则为整个答"
        "案（默认：text）"
    ),
    "same as --output-format code": "同 --output-format code",
    "print only the answer, no progress": "只输出答案，不显示进度",
    "same as --print": "同 --print",
    "colours; plain disables them (default: auto)": "配色；plain 关闭颜色（默认：auto）",
    "words instead of symbols, and no animation": "以文字代替符号，没有动态内容",
    "no bell, notification or title when a question waits": "有问题等待时不响铃、不通知、不改标题",
    "same as --theme plain": "同 --theme plain",
    "language of the interface and prompts": "界面和提示词的语言",
    "Chat with an agent in this folder. Without a terminal: one answer, as 'pal run'.": (
        "在此文件夹中与智能体对话。没有终端时只回答一次，同 pal run。"
    ),
    "Write a pal.toml with all settings as comments, and the model servers found here.": (
        "生成 pal.toml：所有设置以注释列出，并写入在本机找到的模型服务器。"
    ),
    "write one for this folder instead of your own": "为此文件夹生成，而不是你自己的",
    "overwrite an existing file": "覆盖已有文件",
    "Show the settings that 'pal run' reads from the environment and from files.": (
        "显示 pal run 从环境变量和文件中读取的设置。"
    ),
    (
        "Precedence: command line, profile (-P), environment, the project's pal.toml, your own "
        "pal.toml, default.\n"
        "Rules add up."
    ): ("优先级：命令行、配置档（-P）、环境变量、项目的 pal.toml、你自己的 pal.toml、默认值。规则会累加。"),
    "show the effective settings": "显示生效的设置",
    "print the paths of the files, your own first": "输出各文件的路径，你自己的在前",
    "show the origin of defaults too": "默认值也显示来源",
    "read variables from a file such as .env": "从 .env 之类的文件读取变量",
    "trust the pal.toml of this folder": "信任此文件夹的 pal.toml",
    "print one JSON object": "输出一个 JSON 对象",
    "List, download and select models that run on this machine (extra [local]).": (
        "列出、下载和选用在本机运行的模型（附加依赖 [local]）。"
    ),
    "list known and downloaded models": "列出已知和已下载的模型",
    "download a model": "下载模型",
    "make a model the default": "设为默认模型",
    "name from 'pal model list', or URL of a .gguf file": "pal model list 中的名称，或 .gguf 文件的 URL",
    "name from 'pal model list', or path of a .gguf file": "pal model list 中的名称，或 .gguf 文件的路径",
    "Evaluate an agent or a model with your own cases.": "用你自己的用例评测智能体或模型。",
    (
        "FILE is a Python file with a Dataset and optionally an Agent, or YAML, JSON or JSON lines. The "
        "agent comes\n"
        "from the file or from --agent, and --model replaces its model; the default is the chosen model "
        "without tools.\n"
        "With --out, the same command resumes an interrupted evaluation. Exit codes: 0 if enough cases "
        "passed and\n"
        "no score is worse beyond chance than in --compare, or than with the first of several models; else 1."
    ): (
        "FILE 是含 Dataset（也可含 Agent）的 Python 文件，或 YAML、JSON、JSON Lines。\n"
        "智能体来自该文件或 --agent，--model 会替换它的模型；默认为选中的模型，不带工具。\n"
        "使用 --out 时，同一命令会恢复中断的评测。\n"
        "退出码：通过的用例足够，且没有超出偶然地差于 --compare 或多个模型中的第一个，则为 0；否则为 1。"
    ),
    "model name, or path of a .gguf file; repeatable to compare models": (
        "模型名称，或 .gguf 文件的路径；可重复，用于比较模型"
    ),
    "cases": "用例",
    "file with your own cases": "你自己的用例文件",
    "take the first N cases (default: all)": "只取前 N 个用例（默认：全部）",
    "seed sent with the requests": "随请求发送的种子",
    "write the report to this file, .json or .jsonl": "把报告写入此文件，.json 或 .jsonl",
    "concurrent runs (default: 1)": "并发运行数（默认：1）",
    "table format (default: text)": "表格格式（默认：text）",
    "agent to evaluate": "要评测的智能体",
    "runs per case (default: 1)": "每个用例的运行次数（默认：1）",
    "earlier report written by --out": "先前由 --out 写出的报告",
    "share that must pass, 0 to 1 (default: 1; 0 with --compare or several models)": (
        "必须通过的比例，0 到 1（默认：1；与 --compare 同用或有多个模型时为 0）"
    ),
    (
        "Use small requests to check what a model server supports, in each protocol that it has: chat "
        "completions, Messages, Responses, Gemini. Print a table for each, the recommended model name and "
        "tool mode, and a profile to paste. Default: the model that 'pal run' would use."
    ): (
        "用小请求检查模型服务器在其支持的每种协议（聊天补全、Messages、Responses、Gemini）下的功能，\n"
        "输出各协议的结果表、推荐的模型名与工具模式，以及可直接使用的配置档。\n"
        "默认检查 pal run 会使用的模型。"
    ),
    (
        "Exit codes: 0 usable by an agent, 1 unreachable, no answer, or no tool calls in any tool mode,"
        "\n"
        "2 wrong usage, 130 stopped by Ctrl-C."
    ): (
        "退出码：0 可供智能体使用，1 无法连接、没有回答或在任何工具模式下都不调用工具，\n"
        "2 用法错误，130 被 Ctrl-C 停止。"
    ),
    "seconds per request (default: 60)": "每个请求的秒数（默认：60）",
    "show what the prompt cache read and missed in a session instead": (
        "改为显示一个会话中提示缓存的读取与未命中情况"
    ),
    "share a session through a read-only link that expires": "用有截止日期的只读链接分享会话",
    "Share a session through a read-only link that expires.": "用有截止日期的只读链接分享会话。",
    (
        "The link shows the session as it is now, without later messages, to everyone who has the link; no "
        "login is\n"
        "needed. 'pal serve' with the same --folder serves it. The link is printed once: only its digest is "
        "stored.\n"
        "Deleting the session ends its links."
    ): (
        "链接向每个持有者显示会话当前的内容，无需登录；之后的消息不在其中。\n"
        "由 --folder 相同的 pal serve 显示。链接只输出一次：只保存其摘要。\n"
        "删除会话会使其链接失效。"
    ),
    "days until the link ends (default: 7)": "链接的有效天数（默认：7）",
    "list active links": "列出有效的链接",
    "end a link, by its id, token or address": "按 ID、令牌或地址结束链接",
    "do not share sessions by links; existing links show nothing": "不用链接分享会话；已有的链接不显示内容",
    "List and manage the sessions that 'pal' records.": "列出和管理 pal 记录的会话。",
    "list sessions, most recently used first": "列出会话，最近使用的在前",
    "show the history of a session, long texts shortened": "显示会话的历史，长文本会缩短",
    "export a session as a document": "把会话导出为文档",
    "start a new session from a point in another": "从另一会话的某一点开始新会话",
    "delete sessions": "删除会话",
    "delete finished sessions unused for a long time": "删除长期未使用的已完成会话",
    "copy the intact records of a session into a new one": "把会话中完好的记录复制到新会话",
    "list suspended sessions and their questions": "列出挂起的会话及其提问",
    "answer a question; 'pal run --resume' continues the run": "回答提问；之后用 pal run --resume 继续运行",
    "entries to list (default: 20)": "列出的条数（默认：20）",
    "include subagent sessions, and each version of an answer": "包括子智能体的会话和回答的每个版本",
    "add times, sizes and messages": "同时列出时间、大小和消息数",
    "only sessions started in this folder": "只列出在此文件夹中开始的会话",
    "only sessions that contain every WORD": "只列出包含所有 WORD 的会话",
    "session (default: the last one in this folder)": "会话（默认：此文件夹的上一个会话）",
    "print only the last answer, unformatted": "只输出最后的答案，不加格式",
    "print one JSON object with all records": "输出含全部记录的一个 JSON 对象",
    "session": "会话",
    "document format (default: from the extension of FILE)": "文档格式（默认：按 FILE 的扩展名）",
    "write to FILE instead of standard output": "写入 FILE，而不是标准输出",
    "last step to copy (default: all)": "复制到第几步为止（默认：全部）",
    "ID of the new session": "新会话的 ID",
    "a session": "会话",
    "do not ask for confirmation": "不询问确认",
    "days since the last use (default: 90)": "距上次使用的天数（默认：90）",
    "id of the call; 'waiting' shows it": "调用的 ID；由 waiting 显示",
    "allow or deny the call": "允许或拒绝此调用",
    "reason for the model when denied": "拒绝时告知模型的原因",
    (
        "Replay the recorded model responses, tool results and times of a session. Nothing is sent and "
        "no tool runs. Stops at the first difference."
    ): ("重放会话中记录的模型响应、工具结果和时间。不发送请求，也不运行工具。遇到第一处差异即停止。"),
    "Exit codes: 0 identical, 1 different (the difference is shown) or unreadable, 2 wrong usage.": (
        "退出码：0 一致，1 不一致（会显示差异）或无法读取，2 用法错误。"
    ),
    "session ID from 'pal sessions list'": "pal sessions list 中的会话 ID",
    "session file to replay instead": "改为重放此会话文件",
    "Show what recorded runs cost, and manage the prices in use.": (
        "显示已记录运行的费用，并管理当前使用的价格。"
    ),
    "what to sum up (default: day)": "按什么汇总（默认：day，即日）",
    "list known prices per million tokens, and their date": "列出每百万 token 的已知价格及其日期",
    "model, or a pattern such as 'gpt-5*'": "模型，或 'gpt-5*' 这样的模式",
    "use prices from a file instead of the current ones": "改用文件中的价格",
    "prices/data.json of genai-prices, or a copy of it": "genai-prices 的 prices/data.json 或其副本",
    "Costs use the prices at the time of each request. Days are UTC days.": (
        "费用按每次请求时的价格计算。日期按 UTC 划分。"
    ),
    "Show the audit log of tool calls and verify that it is unchanged.": (
        "查看工具调用的审计日志，并校验它未被改动。"
    ),
    "Exit codes of 'verify': 0 intact, 1 damaged or missing, 2 wrong usage.": (
        "verify 的退出码：0 完好，1 损坏或缺失，2 用法错误。"
    ),
    "list matching calls, newest last": "列出匹配的调用，最新的在后",
    "show all details of one call": "显示一次调用的全部细节",
    "check that no line was changed, removed or inserted": "检查没有行被改动、删除或插入",
    "print the path of the log": "输出日志的路径",
    "folder or file of another log": "另一份日志的文件夹或文件",
    "only calls in this session": "只列出此会话的调用",
    "only calls to this tool": "只列出此工具的调用",
    "only since T: 2h (ago), or a local time: 2026-01-31T18:00": (
        "只列出 T 之后的：2h（之前），或本地时间 2026-01-31T18:00"
    ),
    "only before T": "只列出 T 之前的",
    "only ok, error, denied, stopped or unfinished calls": (
        "只列出 ok、error、denied、stopped 或 unfinished 的调用"
    ),
    "only calls with WORDS in arguments, task or result": "只列出参数、任务或结果中含 WORDS 的调用",
    "newest calls to list (default: 20)": "列出最新的多少次调用（默认：20）",
    "number from 'pal audit list'": "pal audit list 中的编号",
    "last hash from an earlier check; the log must contain it": "日志必须包含的先前末行哈希",
    (
        "Restore a workspace's files to how they were before the last step that changed "
        "something, or before an earlier step. Files changed since then are left alone."
    ): ("把工作区的文件恢复到最近一次改动之前，或更早的某一步之前。此后又改动过的文件保持不变。"),
    (
        "Exit codes: 0 done or nothing to undo, 1 some files were left unchanged (they are listed),\n"
        "2 wrong usage, 130 stopped by Ctrl-C."
    ): ("退出码：0 完成或没有可撤销的内容，1 部分文件保持不变（会列出），\n2 用法错误，130 被 Ctrl-C 停止。"),
    "session to undo (default: the last that changed files)": "要撤销的会话（默认：最近改动过文件的会话）",
    "undo this step and all later ones": "撤销此步及之后的所有步",
    "list the steps that changed files": "列出改动过文件的各步",
    "redo the last undo": "重做上一次撤销",
    "workspace folder (default: current folder)": "工作区文件夹（默认：当前文件夹）",
    "also restore files changed since then": "此后又改动过的文件也一并恢复",
    "show what would change without changing it": "只显示将有的变化，不实际更改",
    "Serve agents over HTTP until SIGTERM or Ctrl-C.": "通过 HTTP 提供智能体服务，直到 SIGTERM 或 Ctrl-C。",
    (
        "Without --agents, the agent 'default' is served: the model of 'pal run', read-only tools for "
        "this folder, and\n"
        "the MCP servers of 'pal run', whose calls need approval.\n"
        "The link is printed once on standard error, with the token if this command created it. The "
        "token gives full\n"
        "access. A token that you pass is not printed."
    ): (
        "没有 --agents 时提供智能体 default：pal run 的模型、此文件夹的只读工具，以及 pal run 的 MCP 服"
        "务器，\n"
        "其调用需要批准。\n"
        "链接只在标准错误上输出一次；令牌若由此命令创建，则包含在链接中。持有令牌即可完全访问。\n"
        "你自己传入的令牌不会输出。"
    ),
    "model of the default agent": "默认智能体的模型",
    "MCP servers of the default agent": "默认智能体的 MCP 服务器",
    "access": "访问",
    "address to listen on (default: 127.0.0.1)": "监听的地址（默认：127.0.0.1）",
    "port, 0 for any free one (default: 8484)": "端口，0 为任意空闲端口（默认：8484）",
    "owner's token; prefer PAL_SERVER_TOKEN (default: created)": (
        "所有者的令牌；建议用 PAL_SERVER_TOKEN（默认：自动创建）"
    ),
    "agent, dict of agents by name, or function that makes either": (
        "智能体、以名称为键的智能体字典，或返回它们的函数"
    ),
    "function that makes the deps, called once per run": "创建 deps 的函数，每次运行调用一次",
    "run durably on sqlite:///PATH or postgresql://... (default: PAL_DATABASE)": (
        "在 sqlite:///PATH 或 postgresql://... 上持久运行（默认：PAL_DATABASE）"
    ),
    "start no worker for durable runs; 'pal worker' processes execute them": (
        "不为持久运行启动工作进程，由 pal worker 进程执行"
    ),
    "folder for the server's data (default: the data folder)": "服务器数据的文件夹（默认：数据文件夹）",
    "each day, delete sessions and runs not used for N days (default: keep them)": (
        "每天删除 N 天未使用的会话和运行（默认：保留）"
    ),
    "seconds for runs to finish after SIGTERM (default: 30)": "SIGTERM 之后留给运行完成的秒数（默认：30）",
    "JSON file of additional users": "其他用户的 JSON 文件",
    "header with the user name, set by a trusted proxy": "由可信代理设置的用户名请求头",
    "accepted Host header; repeatable": "接受的 Host 请求头；可重复",
    "origin allowed by CORS; repeatable": "CORS 允许的来源；可重复",
    "model that people may choose besides the agent's own; repeatable": (
        "除智能体自带模型外，允许用户选择的模型；可重复"
    ),
    "path prefix behind a proxy, such as /agents": "代理之后的路径前缀，例如 /agents",
    "TLS certificate chain": "TLS 证书链",
    "TLS private key": "TLS 私钥",
    "log each request as a line of JSON": "每个请求记录为一行 JSON",
    "log": "日志",
    "format of the log lines (default: text)": "日志行的格式（默认：text）",
    "lowest level to log (default: info)": "记录的最低级别（默认：info）",
    "serve /live, /ready and /metrics here, without a token (default address: 127.0.0.1)": (
        "在此地址提供 /live、/ready 和 /metrics，无需令牌（地址默认 127.0.0.1）"
    ),
    "Run as an agent for an editor: Agent Client Protocol on standard input and output.": (
        "作为编辑器的智能体运行：在标准输入和输出上使用 Agent Client Protocol。"
    ),
    (
        "Editors start this command; docs/acp.md shows how to configure them. The model is chosen as "
        "for 'pal run'."
    ): ("此命令由编辑器启动；配置方法见 docs/acp.md。模型的选择同 pal run。"),
    "tools": "工具",
    (
        "Durable runs survive when a process dies. They need the extra [durable].\n"
        "Exit codes: 0 done, 1 failed or unknown run, 2 wrong usage; 'submit --wait' exits like 'pal "
        "run'."
    ): (
        "持久运行不会因进程终止而丢失。需要附加依赖 [durable]。\n"
        "退出码：0 完成，1 失败或没有此运行，2 用法错误；submit --wait 的退出码同 pal run。"
    ),
    "sqlite:///PATH or postgresql://... (default: PAL_DATABASE)": (
        "sqlite:///PATH 或 postgresql://...（默认：PAL_DATABASE）"
    ),
    (
        "agent, dict of agents by name, or function that makes either (default: agent 'default', model of "
        "'pal run', read-only tools)"
    ): (
        "智能体、以名称为键的智能体字典，或返回它们的函数（默认：智能体 default，使用 pal run 的模型和"
        "只读工具）"
    ),
    "stop when standard input ends, e.g. when the parent exits": "标准输入结束时停止，例如父进程结束时",
    "concurrent runs per model (default: 4)": "每个模型的并发运行数（默认：4）",
    "start at most N runs with MODEL per S seconds; repeatable": "每 S 秒最多启动 MODEL 的 N 次运行；可重复",
    "seconds until a silent worker counts as dead (default: 10)": (
        "工作进程多少秒没有响应即视为已终止（默认：10）"
    ),
    "seconds for running tools after SIGTERM (default: 20)": "SIGTERM 之后留给运行中工具的秒数（默认：20）",
    "attempts for a run that crashes its process (default: 3)": "会使进程终止的运行的尝试次数（默认：3）",
    "attempts for a run that crashes its process": "会使进程终止的运行的尝试次数",
    "the task; piped text is its context": "任务；管道输入是其上下文",
    "agent that runs the task (default: default)": "运行任务的智能体（默认：default）",
    "run ID; submitting it again does nothing": "运行 ID；重复提交没有作用",
    "session to continue (default: a new one)": "要继续的会话（默认：新会话）",
    "1 or more; lower numbers run first": "1 或更大；数字小的先运行",
    "wait for the answer and print it": "等待答案并输出",
    "one of pending, running, waiting_permission, waiting_tool, completed, failed, cancelled, killed": (
        "其中之一：pending、running、waiting_permission、waiting_tool、completed、failed、cancelled、killed"
    ),
    "only runs of this agent": "只列出此智能体的运行",
    "run ID": "运行 ID",
    "id of the call; 'pal tasks' shows it": "调用的 ID；由 pal tasks 显示",
    "follow until the run has ended": "持续显示，直到运行结束",
    "print one JSON object per event": "每个事件输出一个 JSON 对象",
    "Run agents on a schedule. Needs the extra [durable].": "定时运行智能体。需要附加依赖 [durable]。",
    "Workers (pal worker) start the due runs. Exit codes: 0 done, 1 failed, 2 wrong usage.": (
        "到期的运行由工作进程（pal worker）启动。退出码：0 完成，1 失败，2 用法错误。"
    ),
    "add a schedule": "添加定时计划",
    "list all schedules by name": "按名称列出所有定时计划",
    "show a schedule and its newest runs": "显示定时计划及其最近的运行",
    "remove a schedule; runs already started continue": "移除定时计划；已启动的运行会继续",
    "pause a schedule until 'resume'": "暂停定时计划，直到 resume",
    "resume a paused schedule": "恢复暂停的定时计划",
    "start a run now": "立即启动一次运行",
    "name of the schedule": "定时计划的名称",
    "cron line with five fields: '0 9 * * 1-5'": "五个字段的 cron 表达式：'0 9 * * 1-5'",
    "time in words: 'weekdays at 18:30', 'every 15 minutes'": "用文字写的时间：'工作日 18:30'、'每 15 分钟'",
    "interval: seconds, or 10m, 2h, 1d": "间隔：秒数，或 10m、2h、1d",
    "the task; {due} is replaced by the due time": "任务；{due} 会替换为应运行的时间",
    "file with the task, read for each run": "任务文件，每次运行时读取",
    "attach an image or a PDF to each run; repeatable": "为每次运行附加图片或 PDF；可重复",
    "append the answer to a file": "把答案追加到文件",
    "deliver the answer to a session": "把答案送到会话",
    "pipe the answer to a command (no shell)": "把答案通过管道交给命令（不经 shell）",
    "time zone for --cron, or 'local' (default: UTC)": "--cron 的时区，或 local（默认：UTC）",
    "runs missed while no worker ran (default: skip)": "没有工作进程期间错过的运行（默认：skip）",
    "if the previous run has not ended (default: skip)": "上一次运行尚未结束时（默认：skip）",
    "session to continue; 'same': one for this schedule": "要继续的会话；same：此定时计划专用的会话",
    "timeout for --to-command (default: 60)": "--to-command 的超时秒数（默认：60）",
    "add the schedule paused": "添加后先暂停",
    "replace a schedule of the same name": "替换同名的定时计划",
    "Manage MCP servers, or run as one. Needs the extra [mcp].": (
        "管理 MCP 服务器，或自身作为 MCP 服务器运行。需要附加依赖 [mcp]。"
    ),
    (
        "Without an action, pal itself runs as an MCP server on standard input and output. It serves "
        "the tools of\n"
        "'pal run' for this folder, and agents."
    ): (
        "没有操作参数时，pal 自身作为 MCP 服务器在标准输入和输出上运行，提供 pal run 在此文件夹中的工具"
        "，\n"
        "以及智能体。"
    ),
    "as a server": "作为服务器",
    "list the servers and their state": "列出服务器及其状态",
    "add or replace a server": "添加或替换服务器",
    "remove a server and its stored data": "移除服务器及其保存的数据",
    "start a server and list its tools": "启动服务器并列出其工具",
    "log in to a server in the browser": "在浏览器中登录服务器",
    "delete the login for a server": "删除服务器的登录信息",
    "server name, prefix of its tool names": "服务器名称，也是其工具名称的前缀",
    "URL of the server, or -- and a command": "服务器的 URL，或 -- 加命令",
    "environment variable for the server; repeatable": "服务器的环境变量；可重复",
    "pass on a variable of your environment; repeatable": "传递你环境中的变量；可重复",
    "HTTP header for each request; repeatable": "每个请求的 HTTP 请求头；可重复",
    "OAuth setting, such as client_id=...; repeatable": "OAuth 设置，例如 client_id=...；可重复",
    "working directory (default: a neutral folder)": "工作目录（默认：中立的文件夹）",
    "use the older SSE transport": "使用旧的 SSE 传输",
    "trust the server's read-only marks on tools": "信任服务器对工具的只读标记",
    "approve changed tool descriptions": "批准变更后的工具说明",
    "folder that the tools can see": "工具可见的文件夹",
    "List and stop the subagent tasks on this machine.": "列出和停止本机的子智能体任务。",
    (
        "Tasks in runs without a session are neither recorded nor listed.\n"
        "Exit codes: 0 done, 1 the task did not stop in time, 2 wrong usage or no such task."
    ): (
        "没有会话的运行，其任务不会记录，也不会列出。\n"
        "退出码：0 完成，1 任务未能及时停止，2 用法错误或没有此任务。"
    ),
    "list tasks, newest first": "列出任务，最新的在前",
    "show all details of a task": "显示任务的全部细节",
    "stop a task in any process": "停止任一进程中的任务",
    "only tasks in this session": "只列出此会话的任务",
    "task ID": "任务 ID",
    "shell to print the script for": "要输出脚本的 shell",
}
