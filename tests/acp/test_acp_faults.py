"""Editors that fail, fall silent or are gone, large things, and servers of tools that an editor names."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys

import pytest
from tests.acp.editor import PATIENCE
from tests.acp.test_acp_sessions import picture
from tests.processes import running


def fails(_):
    return {"error": {"code": -32603, "message": "no window"}}


def begin(editor, session, text):
    return editor.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


def test_an_editor_that_cannot_write_is_a_failed_call(editor, session, tmp_path):
    editor.replies["fs/write_text_file"] = fails
    assert editor.prompt(session, "write it") == "end_turn"
    assert editor.call("write_file")["status"] == "failed"
    assert "no window" in editor.text
    assert not (tmp_path / "src/a.txt").exists()


def test_error_of_any_form_is_a_failure(editor, session, tmp_path):
    editor.replies["fs/write_text_file"] = lambda _: {"error": "the disk is full"}
    assert editor.prompt(session, "edit it") == "end_turn"
    assert editor.call("edit_file")["status"] == "failed"
    assert "the disk is full" in editor.text


@pytest.mark.parametrize("text", ["write it", "/compact"])
def test_a_cancel_that_comes_with_its_prompt_holds(editor, session, tmp_path, text):
    number = begin_and_cancel(editor, session, text, "session/cancel", {"sessionId": session})
    assert editor.answer(number)["result"] == {"stopReason": "cancelled"}
    assert editor.text == ""
    number = begin_and_cancel(editor, session, "write it", "$/cancel_request", None)
    assert editor.answer(number)["error"]["code"] == -32800
    assert not (tmp_path / "src").exists()
    assert editor.prompt(session, "hello") == "end_turn"


def test_a_session_that_is_opened_twice_at_once_is_open_once(editor, session, tmp_path):
    assert editor.prompt(session, "hello") == "end_turn"
    editor("session/close", sessionId=session)
    given = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    numbers = [editor.send(method, given) for method in ("session/load", "session/resume")]
    answers = [editor.answer(number) for number in numbers]
    assert [each["error"]["code"] for each in answers if "error" in each] == [-32602]
    assert editor.prompt(session, "hello") == "end_turn"


def begin_and_cancel(editor, session, text, method, params):
    """A prompt and its cancel in one piece."""
    number = editor.number()
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    asked = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": prompt}
    left = {"jsonrpc": "2.0", "method": method, "params": params or {"requestId": number}}
    editor.line(b"\n".join(json.dumps(each).encode() for each in (asked, left)))
    return number


def test_missing_file_does_not_delay_a_cancel(editor, session):
    asked = []
    editor.replies["fs/read_text_file"] = asked.append
    number = begin(editor, session, "read it")
    editor.until(lambda: asked)
    editor.tell("session/cancel", sessionId=session)
    assert editor.answer(number)["result"] == {"stopReason": "cancelled"}
    assert editor.prompt(session, "hello") == "end_turn"


def test_files_go_through_the_editor_one_after_the_other(editor, session, tmp_path):
    """Nothing of the model may exchange a file between our check and the editor's access."""
    asked = []
    read = editor.fs_read_text_file

    def one_at_a_time(params):
        asked.append((editor.asked, params))  # it is answered later

    editor.replies["fs/read_text_file"] = one_at_a_time
    number = begin(editor, session, "both of them")
    for _ in range(2):
        editor.until(lambda: asked)
        editor("session/list", cwd=str(tmp_path))  # there and back again: the other one would be here
        ((answered, params),) = asked
        asked.clear()
        editor.line({"jsonrpc": "2.0", "id": answered, **read(params)})
    assert editor.answer(number)["result"] == {"stopReason": "end_turn"}


def test_a_terminal_that_cannot_be_had_is_a_failed_call(editor, session):
    editor.replies["terminal/create"] = fails
    assert editor.prompt(session, "command it") == "end_turn"
    assert "the editor's terminal: no window" in editor.text


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (fails, "end_turn"),
        (lambda _: {"error": "no window", "result": {}}, "end_turn"),
        (lambda _: {"result": 7}, "cancelled"),
        (lambda _: {"result": None}, "cancelled"),
        (lambda _: {"result": {"outcome": {"outcome": "selected", "optionId": ["allow_once"]}}}, "cancelled"),
        (lambda _: {"result": {"outcome": {"outcome": "selected"}}}, "cancelled"),
    ],
)
def test_invalid_answer_allows_nothing(editors, tmp_path, answer, ends):
    editor = editors()
    editor.replies["session/request_permission"] = answer
    session = editor.open(tmp_path)
    assert editor.prompt(session, "write it") == ends
    assert editor.call("write_file")["status"] == "failed"
    assert not (tmp_path / "src").exists()
    assert editor.prompt(session, "hello") == "end_turn"


def test_a_cancel_takes_an_open_question_along(editors, tmp_path):
    editor = editors(choose=lambda _: None)
    session = editor.open(tmp_path)
    number = begin(editor, session, "write it")
    asked = editor.until(lambda: editor.asked)
    editor.tell("session/cancel", sessionId=session)
    assert editor.answer(number)["result"] == {"stopReason": "cancelled"}
    late = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    editor.line({"jsonrpc": "2.0", "id": asked, "result": late})  # nobody waits for it any more
    assert editor.prompt(session, "hello") == "end_turn"
    assert editor.call("write_file")["status"] == "failed"
    assert not (tmp_path / "src").exists()


def test_an_id_is_free_again_once_it_was_answered(editor, session):
    first = begin(editor, session, "slow")
    editor.until(lambda: "Let me see" in editor.text)
    editor.line({"jsonrpc": "2.0", "id": first, "method": "session/list", "params": {}})
    assert editor.answer(first)["error"]["code"] == -32600  # and the prompt goes on
    editor.tell("session/cancel", sessionId=session)
    assert editor.answer(first)["result"] == {"stopReason": "cancelled"}
    editor.line({"jsonrpc": "2.0", "id": first, "method": "session/list", "params": {}})
    assert "sessions" in editor.answer(first)["result"]
    editor.errors.clear()
    editor.line(b'[{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}]')
    assert editor.until(lambda: editor.errors)[0]["code"] == -32600  # a batch


def test_a_large_file_is_put_in_as_far_as_it_helps(editor, session, server):
    text = "line of text\n" * 400_000
    blob = "AAAA" * 1_700_000
    big = {"uri": "file:///elsewhere/big.txt", "text": text}
    raw = {"uri": "file:///elsewhere/big.bin", "mimeType": "application/x-thing", "blob": blob}
    given = [{"type": "resource", "resource": each} for each in (big, raw)]
    assert editor.prompt(session, "hello", *given) == "end_turn"
    said = str(server.requests[-1].messages[-1]["content"])
    assert len(said) < 110_000
    assert f"({len(text) - 100_000} characters more; read the file to see them)" in said
    assert "application/x-thing" in said


def test_unsupported_picture_is_reported(editors, tmp_path, server):
    editor = editors(more={"PAL_MODEL": "blind"})
    session = editor.open(tmp_path)
    image = {"type": "image", "mimeType": "image/png", "data": picture()}
    text = {"type": "text", "text": "hello"}
    answer = editor.error("session/prompt", {"sessionId": session, "prompt": [text, image]})
    assert "no image input" in answer["error"]["message"]
    assert editor.prompt(session, "hello") == "end_turn"
    said = " ".join(str(each) for each in editor.of("agent_thought_chunk"))
    assert "this model takes no image input" in said


SERVER = """
from mcp.server import MCPServer
app = MCPServer("places")
@app.tool()
def find(what: str) -> str:
    "Find it."
    import os
    return f"{what} is {os.environ['WHERE']}"
app.run()
"""


def test_a_server_of_tools_that_the_editor_names(editor, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    env = [{"name": "WHERE", "value": "under the mat"}]
    named = {"name": "places", "command": sys.executable, "args": [str(tmp_path / "server.py")], "env": env}
    session = editor("session/new", cwd=str(tmp_path), mcpServers=[named])["sessionId"]
    editor.updates.clear()
    assert editor.prompt(session, "find it") == "end_turn"
    assert "the key is under the mat" in editor.text


def test_a_server_that_an_editor_names_goes_before_one_of_the_settings(editors, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"my-places": {"command": "no-such-program"}}}))
    (tmp_path / "server.py").write_text(SERVER)
    env = [{"name": "WHERE", "value": "here"}]
    named = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": env}
    editor = editors(more={"PAL_HOME": str(home)})
    folder = tmp_path / "project"
    folder.mkdir()
    asked = {"cwd": str(folder), "mcpServers": [{**named, "name": "a b"}, {**named, "name": "a-b"}]}
    assert "have the name 'a-b'" in editor.error("session/new", asked)["error"]["message"]
    session = editor("session/new", cwd=str(folder), mcpServers=[{**named, "name": "my places"}])["sessionId"]
    assert editor.prompt(session, "hello") == "end_turn"
    assert "MCP server 'my-places' of your settings skipped: the editor defines it too" in str(editor.updates)


def test_closed_editor_output_ends_the_connection(editors, tmp_path):
    argv = [*editors.command, "--permission-mode", "auto"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(argv, env=editors.env, **pipes) as agent:
        agent.stdout.close()
        agent.stdin.write(
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n'
        )
        agent.stdin.flush()
        end = os.pidfd_open(agent.pid)
        assert select.select([end], [], [], PATIENCE)[0]
        os.close(end)


def at_once(editor, *messages):
    """Requests and what is told, in one piece; the numbers of the requests."""
    numbers, lines = [], []
    for method, params in messages:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if method != "session/cancel":
            numbers.append(editor.number())
            message["id"] = numbers[-1]
        lines.append(json.dumps(message).encode())
    editor.line(b"\n".join(lines))
    return numbers


def test_message_after_a_cancel_waits_for_its_end(editor, session, tmp_path):
    def prompt(text):
        return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}

    cancel = ("session/cancel", {"sessionId": session})
    first = begin(editor, session, "slow")
    editor.until(lambda: "Let me see" in editor.text)
    second, mode = at_once(
        editor,
        cancel,
        ("session/prompt", prompt("hello")),
        ("session/set_mode", {"sessionId": session, "modeId": "plan"}),
    )
    assert editor.answer(first)["result"] == {"stopReason": "cancelled"}
    assert editor.answer(second)["result"] == {"stopReason": "end_turn"}
    assert "result" in editor.answer(mode)
    third = begin(editor, session, "slow")
    (fourth,) = at_once(editor, cancel, ("session/prompt", prompt("slow")), cancel)
    assert editor.answer(third)["result"] == {"stopReason": "cancelled"}
    assert editor.answer(fourth)["result"] == {"stopReason": "cancelled"}
    fifth = begin(editor, session, "slow")
    given = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    closed, loaded = at_once(editor, ("session/close", {"sessionId": session}), ("session/load", given))
    assert editor.answer(fifth)["result"] == {"stopReason": "cancelled"}
    assert "result" in editor.answer(closed)
    assert "result" in editor.answer(loaded)
    assert editor.prompt(session, "hello") == "end_turn"
