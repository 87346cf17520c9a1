"""What a person at an editor is asked, and what each answer does."""

from __future__ import annotations

import os

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
    diff = call["content"][1]
    assert (diff["type"], diff["path"], diff["newText"]) == ("diff", str(tmp_path / "src/a.txt"), "new\n")
    announced = [each["toolCallId"] for each in editor.of("tool_call")]
    assert call["toolCallId"] in announced
    assert (tmp_path / "src/a.txt").read_text() == "new\n"
    editor.prompt(session, "write it")
    assert len(editor.questions) == 2


def test_no_means_that_nothing_happens(editor, session, tmp_path):
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


def test_a_question_that_is_left_ends_the_prompt(editor, session, tmp_path):
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


def test_without_a_model_a_session_says_what_to_do(editors, tmp_path):
    lonely = editors(more={"PAL_BASE_URL": "", "PAL_MODEL": "nowhere", "PATH": os.defpath})
    told = lonely.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert told["error"]["code"] == -32000
    assert "OPENAI_API_KEY" in told["error"]["message"]
    assert lonely.error("authenticate", {"methodId": "at-hand"})["error"]["code"] == -32000


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
