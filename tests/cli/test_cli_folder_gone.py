"""The folder that a command works in is taken away: a sentence, and no traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from tests.cli.conversations import idle, leave

from pure_agent_loop.testing import answer, call

NEEDS = [
    "run hi",
    "-p hi",
    "chat hi",
    "serve --port 0",
    "undo --list",
    "config show",
    "doctor",
    "mcp list",
    "worker",
]
NEEDS += ["sessions list --here", "init --project", "run --functions tools.py hi"]


def in_gone(pal, *command):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "-", *command],
        cwd=pal.workspace,
        env=pal.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", NEEDS)
def test_a_folder_that_is_gone_is_said(pal, words):
    done = in_gone(pal, *pal.command, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "The current folder no longer exists" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--version", "sessions list", "audit list"])
def test_command_without_a_folder_works(pal, words):
    done = in_gone(pal, sys.executable, "-m", "pure_agent_loop", *words.split())
    assert done.returncode == 0, done.stderr


def test_it_goes_away_in_a_conversation(chat, pal):
    def away(_):
        shutil.rmtree(pal.workspace)
        return answer("", call("list_dir", path="."), call("shell", command="ls"))

    screen = chat([away, "Went on.", "Still here."], "chat", "--permission-mode", "auto", "go")
    screen.until(r"Went on\.")
    idle(screen)
    screen.type("more\r")
    screen.until(r"Still here\.|The folder .* is gone")
    idle(screen)
    assert "FileNotFoundError" not in screen.all
    assert "Traceback" not in screen.all
    leave(screen)
