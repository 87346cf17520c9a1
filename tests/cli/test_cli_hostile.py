"""The commands that work in a folder run nothing that a stranger has put there, and load nothing of it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from tests.hostile import BROUGHT, hostile_folder, marks, repository

from pure_agent_loop.testing import ScriptedServer, call

LOOKS = [
    [
        call("shell", command="git status; rg -n text .; node --version; python3 -c 'print(1)'"),
        call("grep", pattern="text"),
        call("list_files"),
        call("read_file", path="seen.txt"),
    ],
    "Looked.",
]


@pytest.fixture
def hostile(pal, tmp_path):
    """The command, with a hostile repository as its folder, and what a hostile ``.env`` brings."""
    folder = hostile_folder(tmp_path)
    repository(folder, tmp_path / "marks")
    for path in (tmp_path / "marks").iterdir():
        path.unlink()
    driver = tmp_path / "driver.py"
    ours = "import sys\nfrom pure_agent_loop.cli import main\nsys.exit(main())\n"
    driver.write_text(BROUGHT.format(str(folder)) + ours)
    pal.command, pal.workspace = (sys.executable, str(driver)), folder
    return pal


def test_a_run(hostile):
    with ScriptedServer(LOOKS) as server:
        hostile.use(server)
        done = hostile("run", "Look.")
    assert "Looked." in done.stdout, done.stderr
    assert marks(hostile.workspace) == []


def test_a_conversation(hostile, screen_class):
    with ScriptedServer(LOOKS) as server:
        hostile.use(server)
        with screen_class(hostile) as screen:
            screen.until("/ commands")
            screen.type("Look.\r")
            screen.until("Looked.")
            screen.type("\x16")  # Ctrl-V
            screen.until("no image")
    assert marks(hostile.workspace) == []


@pytest.mark.parametrize("command", ["serve --port 0", "worker --database sqlite:///../runs.sqlite"])
@pytest.mark.parametrize("agents", ["", "of_mine"])
def test_commands_that_serve_agents(hostile, command, agents, tmp_path):
    (tmp_path / "of_mine.py").write_text(
        "from pure_agent_loop import Agent\nagents = {'mine': Agent('m', api_key='k')}\n"
    )
    words = [*command.split(), *(["--agents", f"{agents}:agents"] if agents else [])]
    hostile.env |= {"PAL_BASE_URL": "http://127.0.0.1:9/v1", "PAL_MODEL": "m"}
    process = hostile.start(*words, text=True)
    said = ""
    while "SIGTERM" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert ("mine" if agents else "default") in said
    assert marks(hostile.workspace) == []


def test_a_module_that_is_also_installed_is_refused(pal):
    (pal.workspace / "openai.py").write_text("agents = {}\n")
    done = pal("worker", "--agents", "openai:agents")
    assert "is in this folder, and also installed" in done.stderr


def test_dash_m_puts_the_folder_nowhere(pal):
    (pal.workspace / "openai.py").write_text("raise SystemExit('taken')\n")
    with ScriptedServer(["Hello."]) as server:
        pal.use(server)
        done = subprocess.run(
            [*pal.command, "run", "Hi."],
            cwd=pal.workspace,
            env=pal.env,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "Hello." in done.stdout, done.stderr


BOOM = """\
from pure_agent_loop import tool

@tool
def boom(text: str) -> str:
    "Fail."
    raise ValueError(text)
"""


@pytest.mark.parametrize("command", ["run", "chat"])
def test_the_log_of_a_failed_function_controls_no_terminal(pal, screen_class, command):
    (pal.workspace / "own.py").write_text(BOOM)
    codes = "\x1b]0;owned\x07\x1b[35mx\x1b[2J"
    with ScriptedServer([call("boom", text=codes), "It failed."]) as server:
        pal.use(server)
        words = (command, "--functions", "own.py", "--permission-mode", "bypass", "Go.")
        with screen_class(pal, *words) as screen:
            screen.until("It failed.")
            assert "boom" in screen.all
            assert not any(code in screen.coloured for code in ("\x1b]0;owned", "\x1b[35m"))
            assert "Traceback" not in screen.all
