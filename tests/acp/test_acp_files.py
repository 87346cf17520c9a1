"""The editor's files: what is not saved is read and written through it, and our guards stay."""

from __future__ import annotations

import os


def test_unsaved_buffer_is_read(editor, session):
    editor.prompt(session, "read it")
    assert "unsaved" in editor.text


def test_unsaved_buffer_is_edited_through_the_editor(editor, session, tmp_path):
    editor.prompt(session, "edit it")
    path = str(tmp_path / "notes.txt")
    assert editor.files[path] == "edited\n"
    assert editor.call("edit_file")["content"] == [
        {"type": "diff", "path": path, "oldText": "unsaved\n", "newText": "edited\n"}
    ]


def test_text_typed_since_the_read_is_kept(editor, session, tmp_path):
    path = str(tmp_path / "notes.txt")
    editor.prompt(session, "replace it")
    assert "you have not read it" in editor.text
    editor.prompt(session, "read it")
    editor.files[path] = "unsaved\nmine\n"
    for task in ("replace", "edit"):
        editor.updates.clear()
        editor.prompt(session, f"{task} it")
        assert "+mine" in editor.text
    assert editor.files[path] == "unsaved\nmine\n"
    editor.prompt(session, "read it")
    editor.prompt(session, "replace it")
    assert editor.files[path] == "all\n"


def test_text_typed_during_the_diff_is_kept(editors, tmp_path):
    path = str(tmp_path / "notes.txt")
    (tmp_path / "notes.txt").write_text("saved\n")
    asking = editors(files={path: "unsaved\n"})
    session = asking.open(tmp_path)

    def types_and_says_yes(_):
        asking.files[path] = "unsaved\nmine\n"
        return "allow_once"

    asking.choose = types_and_says_yes
    asking.prompt(session, "edit it")
    assert "since the user was asked" in asking.text
    assert asking.files[path] == "unsaved\nmine\n"


def test_a_file_that_is_not_open_is_read_from_the_disk(editor, session):
    editor.files.clear()
    editor.prompt(session, "read it")
    assert "Result: " in editor.text
    assert "saved" in editor.text
    assert "unsaved" not in editor.text


def test_protected_file_is_not_sent_to_the_editor(editor, session, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").symlink_to("/")
    before = dict(editor.files)
    for task in ("escape", "protected", "write"):
        assert editor.prompt(session, f"{task} it") == "end_turn"
        assert editor.of("tool_call_update")[-1]["status"] == "failed", task
    assert editor.files == before
    assert list((tmp_path / ".git").iterdir()) == []


def test_a_file_with_another_name_is_written_here(editor, session, tmp_path):
    """The editor would write the other name too."""
    (tmp_path / "src").mkdir()
    (tmp_path / "other.txt").write_text("kept\n")
    os.link(tmp_path / "other.txt", tmp_path / "src/a.txt")
    editor.prompt(session, "write it")
    assert (tmp_path / "other.txt").read_text() == "kept\n"
    assert (tmp_path / "src/a.txt").read_text() == "new\n"
    assert str(tmp_path / "src/a.txt") not in editor.files


def test_a_command_runs_in_a_terminal_of_the_editor_and_in_our_sandbox(editor, session, tmp_path):
    editor.choose = lambda _: "allow_once"
    assert editor.prompt(session, "command it") == "end_turn"
    terminal = editor.terminals[-1]
    assert "made here" in terminal.seen
    assert (tmp_path / "made.txt").read_text() == "made here\n"
    assert editor.call("echo made here")["content"] == [{"type": "terminal", "terminalId": "t1"}]
    assert editor.released == ["t1"]
    assert "made here" in editor.text


def test_a_command_can_be_ended_in_its_terminal_or_with_the_prompt(editor, session):
    def begun():
        return [each for each in editor.terminals[before:] if each.poll() is None]

    for end in ("there", "here"):
        before = len(editor.terminals)
        task = [{"type": "text", "text": "sleep"}]
        number = editor.send("session/prompt", {"sessionId": session, "prompt": task})
        (terminal,) = editor.until(begun)
        if end == "there":
            terminal.kill()
        else:
            editor.tell("session/cancel", sessionId=session)
        reason = editor.answer(number)["result"]["stopReason"]
        assert reason == ("end_turn" if end == "there" else "cancelled")
        assert terminal.wait(20) != 0
