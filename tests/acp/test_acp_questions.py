"""What a person at an editor is asked, and what each answer does."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest


@pytest.fixture(scope="module")
def editor(editors):
    return editors()


@pytest.fixture
def session(editor, tmp_path):
    editor.updates.clear()
    editor.questions.clear()
    return editor.open(tmp_path)


def ids(question):
    return [(each["optionId"], each["kind"]) for each in question["options"]]


def test_a_question_shows_the_change_and_once_is_once(editor, session, tmp_path):
    editor.choose = lambda _: "allow_once"
    assert editor.prompt(session, "write it") == "end_turn"
    (question,) = editor.questions
    assert ids(question) == [
        ("allow_once", "allow_once"),
        ("reject_once", "reject_once"),
        ("allow_session", "allow_always"),
        ("allow_folder", "allow_always"),
        ("reject_session", "reject_always"),
    ]
    call = question["toolCall"]
    diff = call["content"][0]
    assert (diff["type"], diff["path"], diff["newText"]) == ("diff", str(tmp_path / "src/a.txt"), "new\n")
    announced = [each["toolCallId"] for each in editor.of("tool_call")]
    assert call["toolCallId"] in announced
    assert (tmp_path / "src/a.txt").read_text() == "new\n"
    editor.prompt(session, "write it")
    assert len(editor.questions) == 2


def test_denied_call_has_no_effect(editor, session, tmp_path):
    editor.choose = lambda _: "reject_once"
    assert editor.prompt(session, "write it") == "end_turn"
    assert editor.call("write_file")["status"] == "failed"
    assert not (tmp_path / "src").exists()


def test_an_answer_can_hold_for_the_session(editor, session, tmp_path):
    editor.choose = lambda _: "allow_session"
    editor.prompt(session, "write it")
    editor.prompt(session, "write it")
    assert len(editor.questions) == 1
    assert not (tmp_path / "pal.toml").exists()
    other = editor.open(tmp_path)
    editor.choose = lambda _: "reject_session"
    editor.prompt(other, "write it")
    editor.choose = lambda _: "allow_once"
    editor.prompt(other, "write it")
    assert len(editor.questions) == 2
    assert editor.call("write_file")["status"] == "failed"


def test_an_answer_can_hold_for_the_folder(editor, session, tmp_path):
    editor.choose = lambda _: "allow_folder"
    editor.prompt(session, "write it")
    assert "write_file(path=src/*)" in (tmp_path / "pal.toml").read_text()
    editor.prompt(editor.open(tmp_path), "write it")
    assert len(editor.questions) == 1


def test_cancelled_question_ends_the_prompt(editor, session, tmp_path):
    editor.choose = lambda _: ""
    assert editor.prompt(session, "write it") == "cancelled"
    editor.choose = lambda _: "no such option"
    assert editor.prompt(session, "write it") == "cancelled"
    assert not (tmp_path / "src").exists()


def test_the_texts_of_a_folder_are_left_out_unless_somebody_trusts_them(editor, tmp_path, server):
    editor.questions.clear()
    (tmp_path / "AGENTS.md").write_text("Speak like a pirate.")
    editor.choose = lambda _: "no"
    editor.prompt(editor.open(tmp_path), "hello")
    assert "pirate" not in str(server.requests[-1].messages)
    assert "AGENTS.md" in editor.questions[0]["toolCall"]["content"][0]["content"]["text"]
    editor.choose = lambda _: "yes"
    session = editor.open(tmp_path)
    editor.prompt(session, "hello")
    assert "pirate" in str(server.requests[-1].messages)
    editor.prompt(session, "hello")
    editor.prompt(editor.open(tmp_path), "hello")  # it was trusted before
    assert "pirate" in str(server.requests[-1].messages)
    assert len(editor.questions) == 2


def test_session_without_a_model_names_the_next_step(editors, tmp_path):
    lonely = editors(more={"PAL_BASE_URL": "", "PAL_MODEL": "nowhere", "PATH": os.defpath})
    told = lonely.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert told["error"]["code"] == -32000
    assert "OPENAI_API_KEY" in told["error"]["message"]
    assert lonely.error("authenticate", {"methodId": "at-hand"})["error"]["code"] == -32000


def test_without_a_sandbox_the_person_decides_about_a_command(editors, tmp_path):
    editor = editors("--sandbox", "none", choose=lambda _: "allow_once")
    editor.prompt(editor.open(tmp_path), "command")
    assert len(editor.questions) == 1
    assert (tmp_path / "made.txt").exists()


WONDER = """
from pure_agent_loop import RunContext
async def wonder(ctx: RunContext) -> str:
    'Ask for a colour.'
    return 'it is ' + await ctx.ask('Which colour?')
"""


def test_a_question_of_a_tool_is_a_form(editors, tmp_path):
    (tmp_path / "own.py").write_text(WONDER)
    filled = [
        {"action": "accept", "content": {"answer": "blue"}},
        {"action": "decline"},
        {"action": "cancel"},
    ]
    asked = []

    def fill(params):
        asked.append(params["message"])
        return filled[len(asked) - 1]

    options = ("--permission-mode", "auto", "--functions", str(tmp_path / "own.py"))
    editor = editors(*options, forms=fill)
    session = editor.open(tmp_path)
    assert [editor.prompt(session, "wonder") for _ in filled] == ["end_turn", "end_turn", "cancelled"]
    assert asked == ["Which colour?"] * 3
    assert "it is blue" in editor.text
    assert "it is no" in editor.text
    plain = editors(*options)
    assert plain.prompt(plain.open(tmp_path), "wonder") == "end_turn"
    assert "it is yes" in plain.text
    assert plain.questions[0]["toolCall"]["rawInput"] == {"question": "Which colour?"}


HELPER = """---
name: helper
description: Helps.
---
You help.
"""


def test_subagent_work_is_shown_under_its_call(editors, tmp_path):
    (folder := tmp_path / "project").mkdir()
    (tmp_path / "helper.md").write_text(HELPER)
    editor = editors("--subagents-from", str(tmp_path), files={})
    session = editor.open(folder)
    assert editor.prompt(session, "delegate it") == "end_turn"
    (question,) = editor.questions
    asked = question["toolCall"]["toolCallId"]
    (whole,) = [each["toolCallId"] for each in editor.of("tool_call") if each["toolCallId"] != asked]
    shown = [each for each in editor.of("tool_call_update") if each["toolCallId"] == whole]
    texts = [each["content"]["text"] for each in shown[-1]["content"]]
    assert "helper: completed, 2 calls, " in texts[0]
    assert "list_dir . ✓" in texts[0]
    assert "Result: " in texts[1]
    assert any("list_dir . …" in str(each) for each in shown)
    own = [each for each in editor.of("tool_call_update") if each["toolCallId"] == asked][-1]
    assert own["status"] == "completed"
    (diff,) = own["content"]
    assert (diff["type"], diff["newText"]) == ("diff", "new\n")
    assert (folder / "src/a.txt").read_text() == "new\n"
    editor.updates.clear()
    editor.choose = lambda _: "reject_once"
    (folder / "src/a.txt").unlink()
    editor.prompt(session, "delegate it")
    assert editor.call("write_file")["status"] == "failed"


STARTED = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('started')"


def test_foreign_settings_apply_after_consent(editor, tmp_path, server):
    """Notes, skills and servers of tools."""
    editor.questions.clear()
    (folder := tmp_path / "project").mkdir()
    (folder / ".git").mkdir()
    (folder / "AGENTS.md").write_text("Speak like a pirate.")
    (inner := folder / "inner").mkdir()
    (inner / "CLAUDE.md").write_text("Sing it.")
    (skill := inner / ".agents/skills/greet").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets like a king.\n---\nBow.\n")
    starts = {"command": sys.executable, "args": ["-c", STARTED, str(tmp_path / "seen")]}
    (inner / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": starts}}))
    editor.choose = lambda _: "no"
    editor.prompt(editor.open(inner), "hello")
    asked = [each["toolCall"]["content"][0]["content"]["text"] for each in editor.questions]
    for name in ("AGENTS.md", "inner/CLAUDE.md", "greet/SKILL.md", ".mcp.json"):
        assert any(name in each for each in asked), (name, asked)
    for said in ("pirate", "Sing it", "like a king"):
        assert said not in str(server.requests[-1].body)
    assert not (tmp_path / "seen").exists()
    editor.choose = lambda _: "yes"
    editor.prompt(editor.open(inner), "hello")
    for said in ("pirate", "Sing it", "like a king"):
        assert said in str(server.requests[-1].body)
    assert (tmp_path / "seen").read_text() == "started"


def test_in_chinese_a_person_reads_no_english_sentence(editors, tmp_path):
    (tmp_path / "notes.txt").write_text("saved\n")
    editor = editors(more={"PAL_LANG": "zh"})
    session = editor.open(tmp_path)
    editor.prompt(session, "write it")
    unknown, known = (
        {"sessionId": name, "cwd": str(tmp_path), "mcpServers": []} for name in ("none", session)
    )
    offered = editor.of("available_commands_update")[0]["availableCommands"]
    shown = [
        editor.about["authMethods"][0]["description"],
        *(option["name"] for option in editor.questions[0]["options"]),
        *(command["description"] for command in offered),
        editor.error("session/prompt", {"sessionId": "none", "prompt": []})["error"]["message"],
        editor.error("session/load", unknown)["error"]["message"],
        editor.error("session/load", known)["error"]["message"],
        *(update["content"]["text"] for update in editor.of("agent_thought_chunk")),
    ]
    assert "允许" in shown
    assert f"会话 {session} 已打开。" in shown
    assert [text for text in shown if text.isascii() or re.search("[A-Za-z]{2,}( [a-z]{2,}){2}", text)] == []


TITLED = """
from pure_agent_loop import tool


@tool(asks="Refund {amount} for {order}?", running="Refunding {order}…")
def refund(order: str, amount: float) -> str:
    "Give money back."
    return f"{amount} back"
"""


def test_a_tool_has_its_own_words_for_a_question_and_for_its_call(editors, tmp_path):
    (tmp_path / "own.py").write_text(TITLED)
    editor = editors("--functions", str(tmp_path / "own.py"))
    assert editor.prompt(editor.open(tmp_path), "refund it") == "end_turn"
    (question,) = editor.questions
    assert question["toolCall"]["title"] == "Refund 89.9 for A-1?"
    assert editor.call("refund")["title"] == "Refunding A-1…"


def test_in_the_mode_guard_a_question_names_the_origins_and_adds_no_rule(editor, session, tmp_path):
    editor("session/set_mode", sessionId=session, modeId="guard")
    editor.choose = lambda _: "allow_once"
    assert editor.prompt(session, "write it") == "end_turn"
    (question,) = editor.questions
    assert ids(question) == [("allow_once", "allow_once"), ("reject_once", "reject_once")]
    shown = json.dumps(question["toolCall"]["content"])
    assert "path src/a.txt: in nothing that was read; the model chose it" in shown
    assert (tmp_path / "src/a.txt").read_text() == "new\n"
