"""Rubbish, prints and sudden ends: errors where somebody waits for an answer, and never a death."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acp.editor import PATIENCE


@pytest.fixture(scope="module")
def editor(editors):
    return editors()


WRONG = [
    (b"no json", -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": NaN}', -32700),
    (b"[" * 100_000, -32700),
    (b"\xff\xfe\x00", -32700),
    (b"[]", -32600),
    (b'"text"', -32600),
    (b'{"id": 1, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": null}', -32600),
]


def test_rubbish_is_answered_with_an_error(editor):
    for line, code in WRONG:
        editor.errors.clear()
        editor.line(line)
        assert editor.until(lambda: editor.errors)[0]["code"] == code, line


CASES = [
    ("no/such", {}, -32601),
    ("session/prompt", [], -32602),
    ("initialize", {"protocolVersion": "1"}, -32602),
    ("session/new", {}, -32602),
    ("session/new", {"cwd": 7, "mcpServers": []}, -32602),
    ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
    ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, -32602),
    ("session/new", {"cwd": "/\0", "mcpServers": []}, -32602),
    ("session/new", {"cwd": "HOME", "mcpServers": []}, -32602),
    ("session/new", {"cwd": "FOLDER", "mcpServers": {}}, -32602),
    ("session/new", {"cwd": "FOLDER", "mcpServers": [{"name": "x", "type": "y"}]}, -32602),
    ("session/new", {"cwd": "FOLDER", "mcpServers": [], "additionalDirectories": ["/x"]}, -32602),
    ("session/load", {"cwd": "FOLDER", "mcpServers": [], "sessionId": "none"}, -32002),
    ("session/load", {"cwd": "FOLDER", "mcpServers": [], "sessionId": "a\0b"}, -32602),
    ("session/list", {"cursor": "x"}, -32602),
    ("session/list", {"cursor": "9" * 5_000}, -32602),
    ("session/list", {"cursor": str(2**70)}, -32602),
    ("session/prompt", {"sessionId": None, "prompt": []}, -32602),
    ("session/prompt", {"sessionId": "SESSION"}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": "hello"}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": [1]}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "resource"}]}, -32602),
    ("session/set_mode", {"sessionId": "SESSION"}, -32602),
    ("session/close", {"sessionId": "other"}, -32002),
]


def test_mistake_is_reported(editor, tmp_path):
    session = editor.open(tmp_path)
    places = {"FOLDER": str(tmp_path), "SESSION": session, "HOME": editor.env["HOME"]}
    for method, given, code in CASES:
        params = given
        if isinstance(given, dict):
            params = {
                name: places.get(each, each) if isinstance(each, str) else each
                for name, each in given.items()
            }
        told = editor.error(method, params)["error"]
        assert told["code"] == code, (method, given, told)
        assert told["message"]
    editor.tell("session/cancel", sessionId="other")
    editor.tell("no/such")
    editor.tell("$/cancel_request", requestId=[])
    editor.line({"jsonrpc": "2.0", "id": 999, "result": {}})
    editor.line(b'{"jsonrpc": "2.0", "id": null, "error": {}}')
    assert editor.prompt(session, "hello") == "end_turn"
    editor.check()


def test_home_folder_is_refused_on_open_and_the_error_names_the_option(editor, editors):
    home = editor.env["HOME"]
    told = editor.error("session/new", {"cwd": home, "mcpServers": []})["error"]["message"]
    assert told.startswith("cwd: ")
    assert "--any-folder" in told
    for option in ("--any-folder", "--no-tools"):
        assert editors(option).open(home)


def test_nothing_but_the_protocol_is_on_standard_output(editors, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "import os\n"
        "def shout(text: str) -> str:\n"
        "    'Print it.'\n"
        "    print(text, flush=True)\n"
        "    os.system('echo from a child')\n"
        "    return 'ok'\n"
    )
    editor = editors("--functions", str(own), "--permission-mode", "auto")
    assert editor.prompt(editor.open(tmp_path), "print it") == "end_turn"
    assert editor.call("shout")["status"] == "completed"
    editor.check()
    assert editor.close() == 0
    said = os.read(editor.process.stderr.fileno(), 65_536).decode()
    assert "to standard output" in said
    assert "from a child" in said


EDITOR = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(agent.pid, flush=True)
def ask(number, method, **params):
    line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    agent.stdin.write(json.dumps(line).encode() + b"\\n")
    agent.stdin.flush()
def answer(number):
    while (told := json.loads(agent.stdout.readline())).get("id") != number:
        pass
    return told["result"]
ask(1, "initialize", protocolVersion=1)
answer(1)
ask(2, "session/new", cwd=sys.argv[1], mcpServers=[])
session = answer(2)["sessionId"]
ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "sleep"}])
while b"in_progress" not in agent.stdout.readline():
    pass
ask(4, "session/new", cwd=sys.argv[1], mcpServers=[])
session = answer(4)["sessionId"]
ask(5, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "stubborn"}])
while b"in_progress" not in agent.stdout.readline():
    pass
print("at work", flush=True)
agent.wait()
"""
STUBBORN = """
import asyncio
async def stubborn() -> str:
    'Never stop.'
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""


def below(pid):
    """A process and what it has begun."""
    told = " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(each for child in told.split() for each in below(int(child)))]


def test_kill_9_of_the_editor_leaves_no_process(editors, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(STUBBORN)
    argv = [*editors.command, "--permission-mode", "auto", "--functions", str(own)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": editors.env}
    with subprocess.Popen([sys.executable, "-c", EDITOR, str(tmp_path), *argv], **pipes) as editor:
        try:
            agent = int(editor.stdout.readline())
            assert editor.stdout.readline() == b"at work\n"
            running = below(agent)
            assert len(running) > 1
            ends = [os.pidfd_open(each) for each in running]
        finally:
            editor.kill()
    for each in ends:
        assert select.select([each], [], [], PATIENCE)[0]  # it is gone
        os.close(each)


def test_text_is_passed_on_unchanged(editor, tmp_path):
    session = editor.open(tmp_path)
    editor.updates.clear()
    editor.prompt(session, "héllo ✓ \u2028")
    assert editor.text == "You said: héllo ✓ \u2028"
    editor.prompt(session, "half a pair")
    assert editor.call("list_dir")["rawInput"]["path"] == "\ufffd"
    editor.check()


def test_closed_standard_input_is_a_usage_error(editors):
    argv = ["sh", "-c", '"$@" <&-', "sh", *editors.command]
    done = subprocess.run(argv, env=editors.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "standard input" in done.stderr
