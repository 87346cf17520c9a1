"""Whole sessions of an editor with the real command: what it shows, how it ends, how it is gone on with."""

from __future__ import annotations

import base64
import os
import struct
import zlib

import pytest


@pytest.fixture(scope="module")
def editor(editors):
    return editors("--allow", "write_file(path=src/*)", "--thinking", "low")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes.txt").write_text("saved\n")
    return tmp_path


@pytest.fixture
def session(editor, folder):
    editor.updates.clear()
    editor.questions.clear()
    return editor.open(folder)


def picture():
    rows = zlib.compress(b"\0\xff\0\0")
    size = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", size), (b"IDAT", rows), (b"IEND", b"")]
    data = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def test_capabilities_are_announced(editor):
    about = editor.about
    assert about["protocolVersion"] == 1
    assert about["agentCapabilities"]["loadSession"]
    assert about["agentCapabilities"]["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": True,
    }
    assert editor("authenticate", methodId=about["authMethods"][0]["id"]) == {}
    assert editor.error("authenticate", {"methodId": "x"})["error"]["code"] == -32602


def test_unworkable_call_is_shown_as_not_asked(editors, folder):
    first = editors()
    session = first.open(folder)
    assert first.prompt(session, "edit it") == "end_turn"
    assert first.call("edit_file")["title"] == "edit_file notes.txt (not asked)"
    assert first.questions == []
    assert first.close() == 0
    second = editors()
    second("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert second.call("edit_file")["title"] == "edit_file notes.txt (not asked)"


def test_a_task_with_a_tool(editor, session, folder):
    assert editor.prompt(session, "look around") == "end_turn"
    assert editor.text.startswith("Looking. Result: ")
    found = editor.call("list_dir")
    assert (found["kind"], found["status"]) == ("read", "completed")
    assert found["locations"] == [{"path": str(folder)}]
    assert "notes.txt" in found["content"][0]["content"]["text"]
    usage = editor.of("usage_update")
    assert not usage or usage[-1]["used"] > 0
    names = {each["name"] for each in editor.of("available_commands_update")[0]["availableCommands"]}
    assert {"compact", "continue", "undo"} <= names


def test_a_change_is_shown_as_it_was_made(editor, session, folder):
    assert editor.prompt(session, "write it") == "end_turn"
    assert editor.questions == []  # the rule allows it
    path = str(folder / "src/a.txt")
    assert editor.call("write_file")["content"] == [
        {"type": "diff", "path": path, "oldText": None, "newText": "new\n"}
    ]
    assert (folder / "src/a.txt").read_text() == "new\n"


def test_a_list_of_tasks_is_a_plan(editor, session):
    editor.prompt(session, "plan it")
    entries = [(each["content"], each["status"]) for each in editor.of("plan")[0]["entries"]]
    assert entries == [("one", "completed"), ("two", "pending")]
    assert editor.of("tool_call") == []


def test_thinking_is_separate(editor, session):
    editor.prompt(session, "hello")  # which model it is was told
    assert "scripted at http://" in editor.of("agent_thought_chunk")[0]["content"]["text"]
    editor.updates.clear()
    editor.prompt(session, "think")
    assert "".join(each["content"]["text"] for each in editor.of("agent_thought_chunk")) == "Hm, well."
    assert editor.text == "Here."


def test_prompt_attachments_are_passed_on(editor, session, folder, server):
    uri = (folder / "notes.txt").as_uri()
    blocks = [
        "read this",
        {"type": "resource", "resource": {"uri": f"{uri}#L1", "text": "open text"}},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "a page"},
        {"type": "image", "mimeType": "image/png", "data": picture()},
    ]
    assert editor.prompt(session, *blocks) == "end_turn"
    content = next(
        each["content"] for each in reversed(server.requests[-1].messages) if each["role"] == "user"
    )
    assert content[0]["text"].splitlines()[2:5] == ['<file path="notes.txt#L1">', "open text", "</file>"]
    assert "a page: https://example.org/x" in content[0]["text"]
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
    bad = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    for wrong in (bad, {"type": "audio", "mimeType": "a/b", "data": ""}, {"type": "x"}, {"type": "text"}):
        told = editor.error("session/prompt", {"sessionId": session, "prompt": [wrong]})
        assert told["error"]["code"] == -32602, told


def test_cancelled_prompt_keeps_its_partial_answer(editor, session, server):
    number = editor.send(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "slow"}]}
    )
    editor.until(lambda: "Let me see" in editor.text)
    second = editor.error("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]})
    assert second["error"]["code"] == -32600
    editor.tell("session/cancel", sessionId=session)
    assert editor.answer(number)["result"] == {"stopReason": "cancelled"}
    assert editor.prompt(session, "go on then") == "end_turn"
    assert any("Let me see" in str(each["content"]) for each in server.requests[-1].messages)


def test_a_request_can_be_cancelled_by_its_id(editor, session):
    number = editor.send(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "slow"}]}
    )
    editor.until(lambda: "Let me see" in editor.text)
    editor.tell("$/cancel_request", requestId=number)
    assert editor.answer(number)["error"]["code"] == -32800
    assert editor.prompt(session, "hello") == "end_turn"


def test_a_failure_of_the_model_is_an_error_and_not_the_end(editor, session):
    told = editor.error(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "fail"}]}
    )
    assert told["error"]["code"] == -32603
    assert told["error"]["message"] == "The model server rejected the request (400).\nno such luck"
    assert editor.prompt(session, "hello") == "end_turn"


def test_modes_hold_from_the_next_task(editor, session, folder):
    editor("session/set_mode", sessionId=session, modeId="plan")
    editor.prompt(session, "write it")
    assert editor.call("write_file")["status"] == "failed"
    assert not (folder / "src").exists()
    assert editor.error("session/set_mode", {"sessionId": session, "modeId": "x"})["error"]["code"] == -32602


def current(answer):
    return {each["id"]: each["currentValue"] for each in answer["configOptions"]}


def test_options_are_modes_and_thinking_levels(editors, folder, server):
    editor = editors("--thinking", "low", more={"PAL_MODEL": "gpt-5"})
    made = editor("session/new", cwd=str(folder), mcpServers=[])
    session = made["sessionId"]
    assert current(made) == {"mode": "ask", "thought_level": "low"}
    assert [each["category"] for each in made["configOptions"]] == ["mode", "thought_level"]

    def choose(option, value):
        return editor("session/set_config_option", sessionId=session, configId=option, value=value)

    assert current(choose("thought_level", "high")) == {"mode": "ask", "thought_level": "high"}
    editor.prompt(session, "hello")
    assert server.requests[-1].options["reasoning_effort"] == "high"
    assert current(choose("thought_level", "medium"))["thought_level"] == "medium"
    editor.prompt(session, "hello")
    assert server.requests[-1].options["reasoning_effort"] == "medium"
    assert current(choose("mode", "plan"))["mode"] == "plan"
    editor.prompt(session, "write it")
    assert editor.questions == []
    for option, value in (("mode", "x"), ("x", "ask"), ("mode", None)):
        wrong = {"sessionId": session, "configId": option, "value": value}
        assert editor.error("session/set_config_option", wrong)["error"]["code"] == -32602
    editor("session/close", sessionId=session)
    assert current(editor("session/resume", sessionId=session, cwd=str(folder)))["mode"] == "ask"


def test_commands_behind_a_slash(editor, session):
    for command in ("/tools", "/context"):
        assert editor.prompt(session, command) == "end_turn"
    assert "`list_dir`" in editor.text
    assert editor.prompt(session, "/mode plan") == "end_turn"
    assert [each["currentModeId"] for each in editor.of("current_mode_update")] == ["plan"]
    assert [current(each)["mode"] for each in editor.of("config_option_update")] == ["plan"]
    editor.updates.clear()
    assert editor.prompt(session, "/nothing of ours") == "end_turn"
    assert editor.text == "You said: /nothing of ours"


def test_a_session_is_listed_and_taken_away(editor, session, folder):
    editor.prompt(session, "look at this")
    found = editor("session/list", cwd=str(folder))["sessions"]
    assert [(each["sessionId"], each["title"]) for each in found] == [(session, "look at this")]
    editor("session/delete", sessionId=session)
    assert editor("session/list", cwd=str(folder))["sessions"] == []
    assert editor.error("session/delete", {"sessionId": session})["error"]["code"] == -32002


def test_session_resumes_in_another_editor_after_kill_9(editors, folder):
    first = editors()
    session = first.open(folder)
    first.choose = lambda _: None  # the question stays open
    first.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "write it"}]})
    first.until(lambda: first.questions)
    first.process.kill()
    first.process.wait()
    second = editors()
    told = second.error("session/load", {"sessionId": session, "cwd": os.sep, "mcpServers": []})
    assert told["error"]["code"] == -32002  # it is of another folder
    second("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert [each["content"]["text"] for each in second.of("user_message_chunk")] == ["write it"]
    assert second.call("write_file")["status"] == "pending"
    assert not (folder / "src").exists()
    assert second.prompt(session, "/continue") == "end_turn"
    assert len(second.questions) == 1
    assert second.call("write_file")["status"] == "completed"
    assert (folder / "src/a.txt").read_text() == "new\n"
    second("session/close", sessionId=session)
    second.updates.clear()
    second("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
    assert second.call("write_file")["status"] == "completed"
    assert second.text.startswith("Result: ")
    second.updates.clear()
    second("session/close", sessionId=session)
    second("session/resume", sessionId=session, cwd=str(folder))
    assert second.of("user_message_chunk") == []
    assert second.prompt(session, "hello") == "end_turn"
