"""Rubbish, prints and sudden ends: errors where somebody waits for an answer, and never a death."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


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
    ("session/new", {"cwd": "FOLDER", "mcpServers": {}}, -32602),
    ("session/new", {"cwd": "FOLDER", "mcpServers": [{"name": "x", "type": "y"}]}, -32602),
    ("session/new", {"cwd": "FOLDER", "mcpServers": [], "additionalDirectories": ["/x"]}, -32602),
    ("session/load", {"cwd": "FOLDER", "mcpServers": [], "sessionId": "none"}, -32002),
    ("session/load", {"cwd": "FOLDER", "mcpServers": [], "sessionId": "../x"}, -32602),
    ("session/list", {"cursor": "x"}, -32602),
    ("session/prompt", {"sessionId": None, "prompt": []}, -32602),
    ("session/prompt", {"sessionId": "SESSION"}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": "hello"}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": [1]}, -32602),
    ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "resource"}]}, -32602),
    ("session/set_mode", {"sessionId": "SESSION"}, -32602),
    ("session/close", {"sessionId": "other"}, -32002),
]


def test_what_is_wrong_is_said(editor, tmp_path):
    session = editor.open(tmp_path)
    places = {"FOLDER": str(tmp_path), "SESSION": session}
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


def children_of(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in found.read_text().split()] if found.exists() else []


def test_when_the_editor_is_gone_everything_ends(editors, tmp_path):
    editor = editors("--permission-mode", "auto")
    session = editor.open(tmp_path)
    editor.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "sleep"}]})
    editor.until(lambda: editor.of("tool_call_update"))
    while not (running := children_of(editor.process.pid)):
        assert editor.process.poll() is None
    assert editor.close() == 0  # its standard input ends, as when the editor is killed
    assert [each for each in running if Path(f"/proc/{each}").exists()] == []


def test_the_lines_are_json_in_ascii(editor, tmp_path):
    session = editor.open(tmp_path)
    editor.updates.clear()
    editor.prompt(session, "héllo ✓ \u2028")
    assert editor.text == "You said: héllo ✓ \u2028"
    assert json.dumps(editor.updates).isascii()
