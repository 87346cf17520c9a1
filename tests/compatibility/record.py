"""Record what `test_recorded.py` reads: ``PYTHONPATH=OLD/src:. python -m tests.compatibility.record DIR``.

Run once with the source of the commit to be compatible with; uses names that this commit had.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from pure_agent_loop.durable import Engine
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from tests.compatibility import agents as made

PAL_TOML = """
model = "small"
temperature = 0.2
thinking = "off"
tool_mode = "json"
append_system = "Be brief."
tools = ["read_file", "grep"]
subagents = false
permission_mode = "plan"
sandbox = "landlock"
network = false
sessions = false
snapshots = false
keep_sessions = 90
theme = "light"
screen_reader = true
language = "zh"
base_url = "work"

[rules]
allow = ["shell(npm test)"]
ask = ["read_file(path=private/*)"]
deny = ["read_file(path=*.env)"]

[limits]
max_turns = 25
max_tokens = 500_000
max_seconds = 600
max_cost = 0.5
price = [0.15, 0.6]

[servers.work]
base_url = "http://127.0.0.1:9/v1"
api_key_env = "WORK_API_KEY"

[profiles.careful]
permission_mode = "ask"
model = "big"

[mcp.files]
command = ["files-server", "--here"]
"""


def record(folder: Path) -> None:
    """Write sessions, an audit log, a database of each kind, and a settings file."""
    sessions = JsonlStore(str(folder / "sessions"))
    for name in ("finished", "typed", "waiting", "external", "compacted", "delegating"):
        result = getattr(made, name)(sessions=sessions).run("Task: begin", session_id=name)
        print(name, result.stop_reason, result.content)
    made.audited(str(folder / "audit")).run("Task: begin")
    made.waiting(sessions=sessions).run("Task: begin", session_id="answered")
    questions = SessionManager(sessions).questions("answered")
    for question, verdict in zip(questions, ["allow", "deny"], strict=True):
        SessionManager(sessions).answer("answered", question.call_id, verdict)
    with_sqlite(folder)
    code = (
        "from tests.compatibility.agents import killed;"
        "from pure_agent_loop.sessions import JsonlStore;"
        f"killed(sessions=JsonlStore({str(folder / 'sessions')!r})).run('Task: begin', session_id='killed')"
    )
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CRASH": "1"}, check=False)
    print("killed", ended.returncode)
    with_engine(folder)
    (folder / "pal.toml").write_text(PAL_TOML)
    for profile in ([], ["-P", "careful"]):
        shown = settings_in_force(folder, *profile)
        (folder / f"settings{''.join(profile)}.json").write_text(shown)
    for lock in folder.rglob("*lock"):
        lock.unlink()


def settings_in_force(folder: Path, *options: str) -> str:
    """What `pal` makes of the settings file."""
    command = [sys.executable, "-m", "pure_agent_loop", "config", "show", "--origin", "--json", *options]
    env = {**os.environ, "PURE_AGENT_LOOP_HOME": str(folder), "WORK_API_KEY": "k"}
    ended = subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True)
    return ended.stdout.replace(str(folder), "FOLDER")


def with_sqlite(folder: Path) -> None:
    """Keep the same in a database, as the statements that make it."""
    path = folder / "sessions.sqlite"
    store = SqliteStore(str(path))
    made.finished(sessions=store).run("Task: begin", session_id="finished")
    made.waiting(sessions=store).run("Task: begin", session_id="waiting")
    as_statements(path)


def with_engine(folder: Path) -> None:
    """Submit runs to an engine: one ends, one waits for a person, one was never begun."""
    path = folder / "engine.sqlite"
    with Engine(
        f"sqlite:///{path}", agents={"finished": made.finished(), "waiting": made.waiting()}
    ) as engine:
        engine.submit("finished", "Task: begin", run_id="finished").result(60)
        print("engine", engine.submit("waiting", "Task: begin", run_id="waiting").result(60).status)
    with Engine(f"sqlite:///{path}") as engine:
        engine.submit("finished", "Task: begin", run_id="pending")
    time.sleep(0.5)
    as_statements(path)


def as_statements(path: Path) -> None:
    """Replace a SQLite file by a text that makes it again."""
    with sqlite3.connect(path) as database:
        text = "\n".join(database.iterdump())
        version = database.execute("PRAGMA user_version").fetchone()[0]
    path.with_suffix(".sql").write_text(f"PRAGMA user_version={version};\n{text}\n")
    for file in path.parent.glob(f"{path.name}*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    record(target)
    print(json.dumps(sorted(str(file.relative_to(target)) for file in target.rglob("*"))))
