"""Messages of the command line. English."""

MESSAGES = {
    "uses": "Model: {model} at {place} ({why}).",
    "embedded": "Model: {model}, embedded ({why}). This is a tiny demonstration model.",
    "using": "using {model} at {place} ({why})",
    "using_embedded": "using {model}, embedded ({why})",
    "unencrypted": "warning: the key and all data are sent unencrypted (http)",
    "tiny": "this tiny demonstration model is often wrong; for a better one: pal model pull qwen2.5-0.5b",
    "may": "The agent can read {folder} and asks before it changes anything; {shell}.",
    "no_shell": "no shell",
    "ask": "Call {tool}?",
    "ask_shell": "Run {command}?",
    "ask_edit_file": "Edit {path}?",
    "ask_write_file": "Write {path}?",
    "wants": "{tool} asks:",
    "next": 'Next: pal "Which files are here?"  Settings: pal init  Help: pal --help',
    "command_stopped": "stopped",
    "result_lost": "the result could not be written: {error}",
    "internal_error": "internal error: {kind}: {error}\n(set {variable}=1 for the traceback)",
    "no_model": (
        "No model found. Do one of these, then: pal\n"
        "  1. set a key:       export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)\n"
        "  2. start a server:  ollama serve               (or LM Studio, llama.cpp, vLLM on this machine)\n"
        "  3. use a tiny one:  {tiny}"
    ),
    "tiny_download": "pal --download             ({model})",
    "tiny_install": "{install}  ({model})",
    "first_start": "No model is configured. Which one should pal use?",
    "first_server": "Use {name} on this machine: {models}",
    "first_no_server": "Use Ollama on this machine; it is not running, so first: ollama serve",
    "first_key": "Enter a key: {makers}, or another server",
    "first_demo": "Try {model}",
    "first_which": "Number from 1 to {most}, or Enter to leave: ",
    "first_models": "Which model?",
    "first_whose": "Whose key?",
    "first_more": "and {count} more, which can be typed by name",
    "first_accepted": "the server accepted the key",
    "first_model_number": "Number or name, or Enter for 1: ",
    "first_other": "or the URL of an OpenAI-compatible server, such as https://models.example/v1",
    "first_maker": "Number from 1 to {most} or URL, or Enter to leave: ",
    "first_model": "Model{proposed}: ",
    "first_secret": "Key (not shown; sent only to {place}): ",
    "first_is_key": "This looks like a key. It was not used: type keys only where a key is asked for.",
    "first_key_kept": "key kept in {place}, which only you can read",
    "first_kept": "choice kept in {place}; 'pal config' shows it",
    "origin_default": "default",
    "demo_here": "the demo model (tiny, often wrong)",
    "no_database": "There is no database {path}. Check --database or PAL_DATABASE.",
    "not_a_key": "This is not a key: it contains spaces, quotes or other characters that no key has.",
    "set_already": "the file already sets these ({name}); change it by hand",
    "bar": "{bar} {percent} %  {done} of {total} MB",
    "demo_model": "the demo model ({size} MB, tiny, often wrong)",
    "download": "No model found. Download {model}? [y/N] ",
    "no_such_server": "No server for the model {model!r}: none is configured and none is running here.",
    "no_task": 'No task given. To give one: pal {command} "your question" (or pipe it in).',
    "type_task": "type the task, then press Ctrl-D",
    "reading_input": "reading the context from standard input to its end (for no context, add: </dev/null)",
    "media_answer": "The answer has pictures or sounds ({count}), not shown here. In Python: result.media.",
    "footer": "{reason}, {steps}, {tokens}{seconds} s",
    "one_step": "{count:,} step",
    "more_steps": "{count:,} steps",
    "used_tokens": "{count} tokens, ",
    "used_cost": "cost {cost}, ",
    "resume_last": "to resume: pal -c",
    "open_elsewhere": "Session {session} is open in another conversation too, which shows what you add here. "
    "For a copy of your own: pal sessions fork {session}",
    "export_format": "--format is missing. Use one of {formats}, or name a file with an ending: -o a.html.",
    "resume_session": "session {session}; to resume: pal run {option}",
    "not_recorded": "this run is not recorded: {error}",
    "left_unrecorded": "this conversation is not recorded.",
    "left_refused": "a worker cannot use these settings of this conversation: {settings}.",
    "left_status": "The background run {run} is {status}. {error} See: pal tasks show {run}{database}",
    "detached_settings": "This agent continues only runs that Ctrl-B moved to the background.",
    "detached_differs": (
        "This worker would run the conversation with different settings: {differences}. Start 'pal worker' "
        "the way you started 'pal', then resume this run's session: pal run --resume SESSION --database URL."
    ),
    "no_session_to_resume": 'No session to resume. To start one: pal "your task"',
    "no_session_of_folder": 'No session to resume in {folder}. To start one: pal "your task"',
    "pick_by_id": "--resume needs a session ID here. Sessions in this folder: {newest}.",
    "no_items": "none",
    "none_picked": "No session was selected.",
    "no_such_session": "There is no session {session!r}. The newest: {newest}.",
    "no_sessions_at_all": "There is no session {session!r}. No sessions are recorded here.",
    "left_out": "left out: {problem}",
    "skill_not_used": "skill not used: {problem}",
    "not_audited": "this run's calls are not in the audit log: {file}: {reason}.",
    "no_undo": "the changes made by this run cannot be undone: {error}",
    "not_a_folder": "{option}={folder} is not a folder.",
    "no_such_tool": "--tools={names}: unknown tool{unknown}. Use all, read, none, or some of: {known}.",
    "which": ": {names}",
    "command_not_trusted": (
        "/{name}: this folder's command is not trusted. To review it, start pal and type /{name}."
    ),
    "yes_no": "[y]es, [n]o: ",
    "attach_nothing": "--attach needs a task: say what to do with the files.",
    "attach_unreadable": "--attach={name} cannot be read: {error}.",
    "attach_kind": "--attach={name} is neither text of at most {limit} bytes nor one of: {endings}.",
    "input_too_long": "Standard input is longer than {limit} bytes. Send less, or name a file instead.",
    "input_not_text": (
        "Standard input is not text. Send an image or a PDF with --attach FILE; for text in another "
        "encoding, convert it to UTF-8 first, for instance with iconv."
    ),
    "no_terminal": "{call} needs a person's permission{reason}, and there is no terminal to ask on.{how}",
    "reason": " ({reason})",
    "how_leave_out": " To permit it, leave out --ask {rule}.",
    "how_allow": " To permit it: --allow {rule}",
    "folder_gone": (
        "The current folder no longer exists: it was deleted, moved or renamed. Change to another one with "
        "cd."
    ),
    "other_folder_gone": (
        "The folder {folder} no longer exists: it was deleted, moved or renamed. Create it again, or start "
        "pal in another folder."
    ),
    "folder_unreadable": (
        "The current folder is not readable by this user. Change its permissions, or use another folder."
    ),
    "other_folder_unreadable": (
        "The folder {folder} is not readable by this user. Change its permissions, or use another folder."
    ),
    "allow_known": "Allow? [y]es, once; [a]lso know this recipient from now on; [n]o: ",
    "allow_once": "Allow? [y]es, once; [n]o: ",
    "allow": "Allow? [y]es, [n]o, [a]lways this tool: ",
    "show_or": "[s]how what was left out, or: {question}",
    "yes_no_answer": "[y]es, [n]o, or your answer: ",
    "trust_texts": ("this folder contains instructions for the model; their author may not be you: {names}"),
    "trust_texts_question": "Should the model follow them? [y]es, [n]o: ",
    "trust_settings": "this folder contains settings; their author may not be you: {names}",
    "trust_settings_question": "Use them here? [y]es, [n]o: ",
    "trust_sets": "  sets {line}",
    "trust_servers": "this folder contains MCP servers; their author may not be you: {names}",
    "trust_servers_question": "Start them with your permissions, outside the sandbox? [y]es, [n]o: ",
    "not_trusted": "ignored, not trusted: {names} (--trust-folder trusts it)",
    "trust_not_saved": "the answer was not saved: {file}: {error}",
    "mcp_none": "no MCP servers; to add one: pal mcp add NAME -- COMMAND",
    "mcp_serving": "serving {tools} tools and {agents} agents for {folder}",
    "mcp_added": "added {name} to {file}; to test it: pal mcp test {name}",
    "mcp_replaced": "replaced {name} in {file}; to test it: pal mcp test {name}",
    "mcp_warning": "warning: {note}",
    "mcp_not_on_path": "program {program!r} is not on the PATH; use its full path if it is in a folder",
    "mcp_other_folder": "the server does not start in this folder and will not find {path!r}; see --cwd",
    "mcp_removed": "removed {name}",
    "mcp_logged_in": "logged in to {name}; the login is stored in: {place}",
    "mcp_logged_out": "deleted the login for {name}",
    "mcp_no_login": "no login stored for {name}",
    "mcp_login_not_needed": "The MCP server {name!r} is a program and needs no login.",
    "mcp_unknown": "Unknown MCP server {name}.{hint} See: pal mcp list",
    "mcp_not_there": "{file} has no server {name}.{hint} See: pal mcp list",
    "mcp_disabled": "The MCP server {name!r} is disabled in {file}.",
    "did_you_mean": " Did you mean {words}?",
    "either": "{first} or {second}",
    "mcp_one_url": "pal mcp add takes one URL, or -- and a command.",
    "mcp_sse_url": "--sse needs a server with a URL.",
    "mcp_no_folder": "--cwd {folder} is not a folder.",
    "mcp_pair": "{text} must be NAME{sign}VALUE.",
    "mcp_deps": "--deps needs --agents.",
    "mcp_state_ready": "ready",
    "mcp_state_failed": "failed",
    "mcp_state_disabled": "disabled",
    "mcp_tools": ", {count} tools",
    "mcp_row": "{name}  {state}{tools}  {place}  ({file})",
    "mcp_waiting": "the servers",
    "mcp_changed": "CHANGED {tool}: {text}",
    "mcp_approved": "approved the changed tools",
    "mcp_to_approve": "tools changed since you approved them; to approve: pal mcp test {name} --agree",
    "mcp_ready": "ready after {seconds} s, answers in {milliseconds} ms; log: {file}",
    "mcp_skipped": "MCP server skipped: {error}",
    "mcp_defined_twice": "{file}: {name!r} skipped: {other} defines it too",
    "mcp_config_and_no_tools": "--mcp-config adds tools and cannot be combined with --no-tools or --tools.",
    "acp_waiting": (
        "waiting for an editor; editors start this command themselves, see docs/acp.md (Ctrl-C stops)"
    ),
    "acp_closed": "pal acp talks to an editor over standard input and output, and one of them is closed.",
    "acp_twice": "MCP server {name!r} of your settings skipped: the editor defines it too.",
    "acp_needs_mcp": "mcpServers need the extra [mcp]. Install it, or remove the servers from the editor.",
    "acp_unknown_type": "mcpServers: {name} has an unknown type.",
    "acp_no_session": "There is no session {session!r} in {folder}.",
    "above_zero": "{text!r} is not a number above 0",
    "price": "{text!r} is not two to four numbers such as 0.15,0.60",
    "number_range": "{text!r} is not a number from {low} to {high}",
    "at_least_one": "{name}={value!r} must be 1 or more.",
    "unknown_theme": "theme: unknown theme {theme!r}; use one of {themes}",
    "rule_by_hand": "{path}: cannot add a rule automatically; add it by hand to [rules] allow.",
    "not_changed": "{path} was not changed: {error}",
    "cannot_be_written": "{path} cannot be written: {error}.",
    "more_agents": "{number} more: pal agents list --json shows all",
    "no_agents": "no subagent tasks",
    "not_stopped": "{id} did not stop in time; its state is {state}. Try again.",
    "already_ended": "{id} had already ended: {state}",
    "agent_ended": "{id} ended: {state}",
    "see_agents": "{error} See: pal agents list",
    "audit_intact": "Intact: {lines}. {sealed}\nlast hash: {last_hash}\n",
    "since_time": "{text!r} is not a time; write 2h, 7d, 2026-01-31 or 2026-01-31T18:00",
    "audit_no_file": "--file={path} does not exist.",
    "audit_no_call": "NUMBER={number}: no such call. See: pal audit list",
    "audit_damaged": "{first_problem}\n({lines} lines before it are intact)",
    "namesake": (
        "another project's package named pure-agent-loop ({version}, without pal) is in {folder}. Python "
        "imports it instead of this one if that folder comes first. Uninstall it there."
    ),
    "doctor_examining": "examining {name} at {base_url} ({why})",
    "doctor_embedded": "examining {name}, embedded ({why})",
    "doctor_request": (
        "request {number}: {prompt} tokens; cache: {read} read, {written} written, {missed} missed"
    ),
    "durable_session": 'session {session_id}; to resume: pal run {to_resume} "..."',
    "durable_none": "no matching runs in {shown}",
    "durable_none_yet": "No durable runs yet.",
    "durable_more": "more runs: pal tasks -n {number}{at_database}",
    "durable_continues": "the run continues; {hint}",
    "eval_no_file": (
        "pal eval needs a FILE with your own cases. For public questions, run python -m benchmarks.bfcl in a "
        "clone of the source."
    ),
    "eval_several": "{path} has {count} {kind} objects: name one of them {name!r}.",
    "eval_not_run": "{path} cannot be run. {kind}: {error}",
    "eval_agent": "--agent={agent} must be an Agent, or a function that makes one.",
    "eval_conflict": "--{conflict} cannot be combined with an agent, which sets its own. Remove one.",
    "eval_pair": "{now} compared with {before}:",
    "eval_no_former": "--compare={path} must contain one report for the model {model!r}. Name another file.",
    "eval_out": "--out={out} cannot be written: {error}",
    "init_exists": "{path} already exists. To overwrite it: --force.",
    "init_found": "found {model} at {url}: added as server {name!r}",
    "init_is_set": "{name} is set",
    "init_next": 'to check the settings: pal doctor; to start: pal "your task"',
    "model_default": "* default model; download: pal model pull NAME; select: pal model use NAME",
    "model_used": "{name} is now the default if nothing else is configured",
    "model_not_here": "not downloaded yet: pal model pull {name}",
    "replay_damaged": "the session is damaged: {problems}",
    "replay_one": "Name one session: pal replay SESSION, or pal replay --file PATH.jsonl",
    "cannot_read": "Cannot read {file}: {error}",
    "stream_json": (
        "--input-format stream-json reads its tasks from standard input, not from the command line; it needs "
        "--output-format stream-json and cannot be combined with --explain."
    ),
    "stream_no_task": 'No task given. Write lines such as {{"type": "user", "content": "..."}}.',
    "interval": "{text!r} is not a time; write 30s, 10m, 2h or 1d",
    "to_command": "--to-command={to_command!r:.200} cannot be parsed: {error}.",
    "serve_mcp": "--mcp-config cannot be combined with --agents: it adds tools to the default agent.",
    "serve_limits": (
        "{option} cannot be combined with --agents: it limits the default agent. Set Agent(limits=...) there."
    ),
    "serve_link": "this link gives full access; stop with SIGTERM or Ctrl-C",
    "serve_at": "serving {address}",
    "serve_stopping": (
        "stopping; runs get {grace:g} s to finish (Ctrl-C again stops now; unfinished runs resume at the "
        "next start)"
    ),
    "port": "{text!r} is not a port from 0 to 65535",
    "resume_with_task": 'to resume: pal run {to_resume} "your task"',
    "repair_copied": "{kept} copied to session {session_id}; the old one is unchanged",
    "sessions_more": "{number} more: pal sessions list -n {count}",
    "sessions_of_subagents": "{number} more from subagents: pal sessions list --all",
    "sessions_none": "no sessions found; to start one: {begin}",
    "nothing_deleted": "nothing was deleted",
    "deleted": "deleted {session_id}",
    "delete_question": "Delete {sessions}? [y]es, [n]o: ",
    "wrote": "wrote {path}",
    "export_omitted": "damaged, omitted: {problem}",
    "needs_yes": "--yes is needed: there is no terminal to ask for confirmation.",
    "repair_database": (
        "--database: sessions in a database cannot be repaired; the database keeps them consistent."
    ),
    "repair_intact": "no damage in {id}: {kept}",
    "no_questions": "no session is waiting for an answer",
    "answer_more": "recorded; {left} in {id}, see: pal sessions waiting",
    "answer_recorded": "recorded; to resume: pal run {to_resume}",
    "starter_look": "What is in this folder? Give me an overview.",
    "starter_explain": "Which file here should I read first, and why?",
    "starter_find": "Find open tasks and TODO notes in these files.",
    "shared": (
        "{session} is shared as it is now, without later messages, until {until} UTC; to end it: "
        "pal share --end {id}"
    ),
    "share_serve": "to show it: pal serve{folder}",
    "link_ended": "the link has ended",
    "no_link": "no link {name!r}; 'pal share --list' lists them",
    "no_links": "no links; to share a session: pal share SESSION",
    "link_until": "until {until} UTC ({days} d)",
    "undo_none_in": "nothing to undo in {root}",
    "undo_session": "Session {session!r} changed nothing in {root}. {hint}",
    "undo_none": "nothing to undo",
    "worker_stopped": "stopped; unfinished runs were returned to the queue",
    "agents_kind": (
        "--agents={where} is {kind}. It must be an Agent, a dict of agents by name, or a function that makes "
        "one of them."
    ),
    "rate": "--rate={text} is invalid. Write MODEL=RUNS/SECONDS, such as --rate gpt-4o-mini=60/60.",
    "worker_stopping": "stopping; running tools get {grace:g} s to finish (Ctrl-C again stops now)",
    "load_form": "{option}={where} must be MODULE:NAME, such as my_agents:agents.",
    "load_file": (
        "{option}={where} names a file. Name a module, as in an import: my_agents:agents is 'agents' of "
        "./my_agents.py."
    ),
    "load_twice": (
        "{target}: {name} is in this folder, and also installed ({origin}). Rename the one in the folder, or "
        "run this command in another folder."
    ),
    "functions_file": "--functions={name} must be a Python file.",
    "functions_none": "--functions={name} defines no function.",
    "schema_object": "--schema={schema_option:.80} is not a JSON object.",
    "load_failed": "{option}={where} cannot be loaded. {reason}",
    "functions_failed": "--functions={name} cannot be loaded. {reason}",
    "schema_unreadable": "--schema={schema_option:.80} is neither a JSON Schema nor the path of one: {error}",
    "setting_must_be": "must be {description}",
    "file_too_long": "{shown} is longer than {max_bytes} bytes.",
    "unknown_setting": "{shown}: unknown setting {key!r}.{hint}{note}",
    "not_a_file": "{path} is not a file. Move or delete it.",
    "cannot_be_read": "{path} cannot be read: {error}.",
    "cannot_be_read_why": "{path} cannot be read: {error}",
    "not_toml": "{shown} is not valid TOML: {error}.",
    "unknown_profile": "--profile: unknown profile {profile!r}.{did_you_mean} {available}",
    "project_url": (
        "{origins}: base_url = {values!r} is not one of your [servers] ({servers}). A project cannot set a "
        "URL.{hint}"
    ),
    "env_file": "--env-file={name} cannot be read: {error}",
    "env_file_line": "--env-file={name}: line {number} must be NAME=value.",
    "input_line": (
        'Line {number} of standard input is not like {{"type": "user", "content": "your question"}} or '
        '{{"type": "answer", "call_id": "...", "verdict": "allow" or "deny", "message": "why"}}.{hint}'
    ),
    "input_line_long": "Line {number} of standard input is longer than {max_input_bytes} bytes.",
    "subagents_tools": "--subagents needs a tool and cannot be combined with --no-tools or --tools none.",
    "no_session_option": "Answers need a recorded session. Leave out --no-session.",
    "explain_session": (
        "--explain shows the first request of a new run and cannot be combined with --session."
    ),
    "explain_run_option": "{option} cannot be combined with --explain-run, which shows a recorded run.",
    "explain_run_step": "--explain-run: no step {step!r:.40}. Write 1 to {most}, or nothing for all.",
    "explain_run_head": "step {step} (run {run})",
    "explain_run_end": "{lines} lines of the loop produced {values} values.",
    "database_session": "--database needs a session: add --session ID, --resume ID or --continue.",
    "kept_sessions": "{count} deleted: not used for {keep_sessions} days",
    "error": "error: ",
    "api_key": (
        "--api-key is not accepted: every user of this machine can read command lines; set the environment "
        "variable PAL_API_KEY"
    ),
    "audit_no_session": "no session",
    "one_line": "{count:,} line",
    "more_lines": "{count:,} lines",
    "audit_none": "no matching calls",
    "audit_no_log": "no audit log yet in {log}; the first run with an audit log creates it",
    "audit_sealed": "Signed with a key.",
    "audit_unsealed": (
        "Not signed: anyone with write access could alter the log undetected. Set a key to prevent this."
    ),
    "extra": "{feature} needs the extra [{extra}]. Install it: {install}",
    "the_model": "the model",
    "unknown": "unknown",
    "present": "present",
    "not_needed": "not needed",
    "approval_void": "the approval of {tool} had no effect: {why}; the worker's code has changed since",
    "void_tool": "the agent no longer has this tool",
    "void_arguments": "the tool no longer accepts these arguments",
    "durable_follow": "to follow it: pal logs -f {run}",
    "durable_run": "run {run}",
    "durable_asks": "asks: {call}; to answer: pal answer {answer}",
    "keys_set": "API keys in the environment when this file was written: {keys}. pal uses them by itself.",
    "schedule_none": "no schedules in {database}",
    "schedule_removed": "{name} removed",
    "schedule_queued": "queued for a worker; to follow it: pal logs -f {run}",
    "schedule_next": "next at {due}",
    "schedule_state": "{name}: {state}",
    "paused": "paused",
    "begin": 'pal "your task"',
    "begin_in": 'pal run --session NAME{database} "your task"',
    "one_message": "{count:,} message",
    "more_messages": "{count:,} messages",
    "one_record": "{count:,} record",
    "more_records": "{count:,} records",
    "one_session": "{count:,} session",
    "more_sessions": "{count:,} sessions",
    "one_question": "{count:,} more question",
    "more_questions": "{count:,} more questions",
    "one_variable": "{count:,} variable",
    "more_variables": "{count:,} variables",
    "one_call": "{count:,} call",
    "more_calls": "{count:,} calls",
    "one_token": "{count:,} token",
    "more_tokens": "{count:,} tokens",
    "damaged": "damaged",
    "damaged_why": "damaged: {problem}",
    "row_last": "{first} (last: {last})",
    "versions": "{number} versions",
    "row_notes": "({notes}) {text}",
    "said": "said: {text}",
    "ago_now": "just now",
    "ago_minutes": "{count} min ago",
    "ago_hours": "{count} h ago",
    "ago_days": "{count} d ago",
    "session_marks": "-> call   <- result   .. thinking   -- notice to the model   > you",
    "not_finished": "not finished",
    "session_about": "Session {session}: {about}",
    "session_unfinished": "unfinished: the run is active or was interrupted",
    "session_compacted": "(earlier history was compacted for the model)",
    "result_failed": "failed: {text}",
    "answer_how": "to answer: pal sessions answer {answer}",
    "undo_known": "Sessions with changes there: {sessions}.",
    "undo_no_session": "No session has changed anything there.",
    "restored": "restored {path}",
    "removed": "removed {path}",
    "left": "skipped {path}: {reason}",
    "would_undo": "step {steps} would be undone{part}",
    "undone": "step {steps} undone{part}",
    "in_part": ", but not completely; see --force",
    "worker_started": (
        "worker {worker} started: version {version}, database {database}, agents {agents}, "
        "queues {queues}; stop with SIGTERM or Ctrl-C"
    ),
    "worker_health": "health checks at {url}",
    "serve_started": "server started: version {version}, data in {database}, agents {agents}",
    "leave_again": "stopping; Ctrl-C again exits immediately",
    "from_server": "the server {name}",
    "kind_switch": "true or false",
    "kind_rules": "a list of rules",
    "kind_rule": "a rule",
    "kind_text": "text in quotes",
    "use_one_of": "use one of: {choices}{hint}",
    "setting_invalid": "{where}: {name} = {value!r:.80}: {error}.",
    "setting_table": "{shown}: {key} must be a table: [{key}.NAME].",
    "setting_servers": "{shown}: {key} are only allowed in your user settings (pal init), not in a project.",
    "setting_mcp": (
        "{shown}: {key} is only allowed in your user settings; a project lists its servers in .mcp.json."
    ),
    "setting_text": "{shown}: {key} must be text in quotes.",
    "setting_url": '{shown}: {key} needs base_url = "http://.../v1".',
    "setting_project": (
        "{shown}: {key} = {value!r} is not allowed in a project. Set it in your user settings or on the "
        "command line."
    ),
    "setting_key": " Keys do not belong in files: set api_key_env to the name of a variable.",
    "none_defined": "none defined",
    "available": "Available: {names}.",
    "no_profiles": "Your pal.toml defines none.",
    "env_ignored": "{name}: ignored {count} unknown to pal",
    "still_waiting": "still waiting for {what} ({seconds:.0f} s)",
    "not_utf8": " The line is not UTF-8; convert it first.",
    "not_shown": "(not shown)",
    "which_session": "Which session? Number, 2? to preview, words to search, or Enter for none: ",
    "all_options": "All options: {command}",
    "usage": (
        'usage: {command} [OPTIONS] ...; all options: {command} {help}; to run a task: pal run "your task"'
    ),
    "put_dashes": " Put -- before the server's command.",
    "unknown_command": "unknown command {command!r}.{suggestion} To run it as a task: pal run {command}",
    "schedule_every": "every {interval}",
    "schedule_last": "; last {state} {at}",
    "schedule_file": "file {path}",
    "none": "none",
    "stop": ".",
    "usage_prefix": "usage: ",
    "examples": "examples:",
    "unknown_variable": "{name} is set, but pal does not read it.{hint}",
    "renamed": "{names}. Rename the variable; the former name still works.",
    "renamed_name": "{former} is now {name}",
    "acp_auth_name": "Configured model",
    "acp_auth": "An API key, a server or an embedded model. Run pal init to set one up.",
    "acp_open": "The session {session} is already open.",
    "acp_not_open": "The session {session!r:.80} is not open.",
    "acp_busy": "Another prompt is running in this session. Cancel it first.",
    "acp_silent": "the editor did not answer within {seconds:g} s",
    "acp_gone": "the editor disconnected",
    "cwd": "cwd: {error}",
    "pal_toml": "pal.toml: {error}",
    "session_id": "{session_id!r:.100} is not a valid session id. {why}.",
    "init_head": (
        "pal settings for all your projects. Precedence: command line, profile (-P), environment, "
        "pal.toml of\n"
        "a project, this file. 'pal config show --origin' shows the effective values.\n"
        "Keys do not belong here: api_key_env names the variable that holds one."
    ),
    "init_project_head": (
        "pal settings for this project. They override your own once you trust them: pal asks, and asks "
        "again\n"
        "after changes. A project cannot set servers or keys, nor loosen the sandbox."
    ),
    "session_locked": (
        "Session {session_id!r} is open for writing in {holder}. Close it there, or start another session."
    ),
    "session_write": "Cannot write to {path}: {reason}",
    "audit_error": "Audit log {path}: {reason}. {fix}",
    "cost_none": (
        "No requests are recorded. 'pal run' and 'pal chat' record theirs; --database names another store."
    ),
    "cost_total": "total",
    "cost_used": "{requests} requests, {tokens} tokens",
    "cost_unknown": "unknown",
    "cost_partly": "{known} + unknown",
    "cost_unpriced": (
        "The cost of {count} requests is unknown: neither the server nor the prices in use give it. "
        "--price IN,OUT or prices= gives a price for later runs; `pal cost prices` lists known ones."
    ),
    "no_price_known": "No known price matches {pattern!r}. Patterns use * and ?, such as 'gpt-5*'.",
    "prices_from": (
        "per million tokens in {currency}: input, output, cache read, cache write; {source}, {date} "
        "({licence})"
    ),
    "prices_updated": (
        "{models} prices as of {date} are in use from now on: {added} added, {removed} removed, {changed} "
        "changed. Running processes keep theirs. Delete {file} to use the shipped prices again."
    ),
    "already_answered": (
        "Call {call_id!r:.80} has no pending question: {by} already answered {answer!r:.80}. That answer "
        "stays valid; nothing was changed."
    ),
    "then_hint": ".{hint}",
}
