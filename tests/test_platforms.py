"""A Python without what Windows lacks imports every module and does a run.

One machine cannot tell how Windows itself behaves: its paths, locks, consoles and processes are not there.
`make check` also checks the types for Windows and macOS.
"""

from __future__ import annotations

import subprocess
import sys

WINDOWS = """
import asyncio, importlib, os, pkgutil, signal, subprocess, sys, tempfile, types

# What the package needs of others is loaded first: those are the business of their authors.
for name in ("openai", "pydantic", "starlette.applications", "uvicorn", "websockets", "mcp", "dbos", "rich",
             "prompt_toolkit", "aiohttp", "psycopg", "tree_sitter", "yaml", "jsonschema"):
    importlib.import_module(name)
for name in "fcntl grp pty pwd resource syslog termios tty".split():
    sys.modules[name] = None
LACKS = {
    os: "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH chown fchmod fchown fork getpgid "
        "getpgrp getuid geteuid getgid killpg memfd_create mkfifo openpty pidfd_open posix_spawn setsid "
        "statvfs sysconf uname",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH "
        "pidfd_send_signal",
}
for module, names in LACKS.items():
    for name in names.split():
        vars(module).pop(name, None)
msvcrt = sys.modules["msvcrt"] = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, lambda *_: None
sys.platform = "win32"

import pure_agent_loop
for module in pkgutil.walk_packages(pure_agent_loop.__path__, "pure_agent_loop."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

from pure_agent_loop import Agent, tool
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, call

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

with tempfile.TemporaryDirectory() as folder:
    store = JsonlStore(folder)
    agent = Agent(llm=ScriptedLLM([call("add", a=2, b=3), "5"]), tools=[add], sessions=store)
    print(agent.run("2 + 3?", session_id="s").content, len(store.read("s").records) > 3)
"""


def test_python_without_posix_modules_imports_every_module_and_does_a_run():
    done = subprocess.run([sys.executable, "-c", WINDOWS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "5 True\n"), done.stderr
