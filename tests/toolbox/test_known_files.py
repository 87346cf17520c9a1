"""A file that changed since the model read it, or since a person was asked, is not written."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import tool_texts

from pure_agent_loop import Agent, EventType, Permission
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import ChangeTools, Workspace, workspace_tools

READ = call("read_file", path="s.txt")
WRITE = call("write_file", path="s.txt", content="one\ntwo\n")
EDIT = call("edit_file", path="s.txt", old_text="one", new_text="two")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "s.txt").write_text("one\n")
    return folder


def script(*items):
    """Items of a script; a function among them acts in the moment of the request and gives the item."""
    left = list(items)

    def answer(*_):
        item = left.pop(0)
        return item() if callable(item) else item

    return ScriptedLLM(answer)


def agent(work, *items, tools=None, **options):
    tools = workspace_tools(work, shell=False) if tools is None else tools
    return Agent(llm=script(*items), tools=tools, **options)


def texts(result):
    return tool_texts(result.messages)


def saves(path, text, item):
    """The user saves a file before the model gives an item."""

    def act():
        path.write_text(text)
        return item

    return act


@pytest.mark.parametrize("change", [WRITE, EDIT], ids=["write", "edit"])
@pytest.mark.parametrize("session", [None, "s"])
def test_file_saved_by_user_is_not_overwritten(work, tmp_path, change, session):
    file = work / "s.txt"
    store = JsonlStore(tmp_path / "sessions") if session else None
    first = agent(work, READ, saves(file, "one\nmine\n", change), change, READ, change, "ok", sessions=store)
    result = first.run("go", session_id=session)
    assert file.read_text() in ("one\ntwo\n", "two\nmine\n")  # once it was read
    found = texts(result)
    assert "is not what it was when you last read it" in found[1]
    assert "What changed:\n@@ -2,0 +2,1 @@\n+mine\nRead it again" in found[1]
    assert "last read it" in found[2]  # the same call again is no reading
    assert found[4].startswith(("Replaced", "Edited"))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xef\xbb\xbfone\n", "It had 4 bytes and has 7 now."), (b"\0\1", "It had 4 bytes"), (b"", "-one")],
)
def test_change_without_lines_is_described_by_size(work, content, said):
    file = work / "s.txt"

    def act():
        file.write_bytes(content)
        return WRITE

    assert said in texts(agent(work, READ, act, "ok").run("go"))[1]
    assert file.read_bytes() == content


def test_new_date_and_own_writes_are_not_changes(work):
    def touched():
        os.utime(work / "s.txt", (1, 1))
        return EDIT

    again = call("edit_file", path="./s.txt", old_text="two", new_text="three")
    result = agent(work, READ, touched, again, WRITE, "ok").run("go")
    assert [text.partition(" ")[0] for text in texts(result)[1:]] == ["Edited", "Edited", "Replaced"]


@pytest.mark.parametrize("mode", ["auto", "ask"])
def test_two_changes_in_one_answer_are_both_made(work, mode):
    (work / "s.txt").write_text("one\nten\n")
    more = call("edit_file", path="s.txt", old_text="ten", new_text="six")
    result = agent(
        work, READ, [EDIT, more], "ok", permission_mode=mode, on_ask=lambda _: Permission("allow")
    ).run("go")
    assert (work / "s.txt").read_text() == "two\nsix\n", texts(result)


class TestNeverRead:
    def test_a_whole_file_is_not_replaced(self, work):
        result = agent(work, WRITE, EDIT, "ok").run("go")
        assert "exists already (4 bytes) and you have not read it" in texts(result)[0]
        assert texts(result)[1].startswith("Edited")  # it holds what the model says it does
        assert (work / "s.txt").read_text() == "two\n"

    def test_edit_does_not_count_as_reading_the_file(self, work):
        assert "not read it" in texts(agent(work, EDIT, WRITE, "ok").run("go"))[1]

    def test_file_created_meanwhile_is_not_overwritten(self, work):
        new = call("write_file", path="new.txt", content="ours\n")
        look = call("read_file", path="new.txt")
        result = agent(work, look, saves(work / "new.txt", "mine\n", new), "ok").run("go")
        assert "not read it" in texts(result)[1]
        assert (work / "new.txt").read_text() == "mine\n"

    @pytest.mark.parametrize("content", ["", "one\ntwo\n"])
    def test_empty_or_equal_file_is_replaced_unread(self, work, content):
        (work / "s.txt").write_text(content)
        assert texts(agent(work, WRITE, "ok").run("go"))[0].startswith("Replaced")

    def test_a_model_that_cannot_read_is_not_stuck(self, work):
        file, tools = work / "s.txt", ChangeTools(Workspace(work)).tools()
        other = call("write_file", path="s.txt", content="other\n")
        result = agent(work, WRITE, saves(file, "mine\n", other), other, "ok", tools=tools).run("go")
        first, second, third = texts(result)
        assert first.startswith("Replaced")
        assert "-one\n-two\n+mine" in second
        assert third.startswith("Replaced")


class TestAsked:
    """The question of a person stands for hours, or is answered in another process."""

    @pytest.mark.parametrize("read", [[READ], []], ids=["read", "unread"])
    def test_a_file_that_changed_behind_the_question(self, work, read):
        def on_ask(_):
            (work / "s.txt").write_text("one\nmine\n")
            return Permission("allow")

        result = agent(work, *read, EDIT, "ok", permission_mode="ask", on_ask=on_ask).run("go")
        assert "has changed since the user was asked" in texts(result)[-1]
        (end,) = [event for event in result.events if event.type is EventType.OBSERVATION][-1:]
        assert (end.is_error, end.refused) == (True, "")  # it was made, and failed
        assert (work / "s.txt").read_text() == "one\nmine\n"

    def test_a_file_that_appeared_behind_the_question(self, work):
        def on_ask(_):
            (work / "new.txt").write_text("mine\n")
            return Permission("allow")

        new = call("write_file", path="new.txt", content="ours\n")
        result = agent(work, new, "ok", permission_mode="ask", on_ask=on_ask).run("go")
        assert "It did not exist then." in texts(result)[0]
        assert (work / "new.txt").read_text() == "mine\n"

    def test_person_may_allow_replacing_an_unread_file(self, work):
        options = {"permission_mode": "ask", "on_ask": lambda _: Permission("allow")}
        assert texts(agent(work, WRITE, "ok", **options).run("go"))[0].startswith("Replaced")

    def test_rejected_change_asks_no_question(self, work):
        asked = []
        result = agent(
            work,
            READ,
            saves(work / "s.txt", "mine\n", WRITE),
            "ok",
            permission_mode="ask",
            on_ask=asked.append,
        ).run("go")
        assert asked == []
        assert "last read it" in texts(result)[1]

    @pytest.mark.parametrize("change", [WRITE, EDIT], ids=["write", "edit"])
    @pytest.mark.parametrize("is_changed", [True, False])
    def test_an_answer_in_another_process(self, work, tmp_path, change, is_changed):
        code = """
import sys
from pathlib import Path
from pure_agent_loop import Agent
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, call, raw_call
from pure_agent_loop.toolbox import workspace_tools
work, store, name, args = sys.argv[1:]
script = [call("read_file", path="s.txt"), raw_call(name, args)]
agent = Agent(llm=ScriptedLLM(script), tools=workspace_tools(work, shell=False), permission_mode="ask",
              sessions=JsonlStore(store))
print(agent.run("go", session_id="s").stop_reason)
"""
        words = [str(work), str(tmp_path / "sessions"), change.name, json.dumps(change.arguments)]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
        )
        assert done.stdout == "waiting_permission\n"
        if is_changed:
            (work / "s.txt").write_text("one\nmine\n")
        second = agent(
            work,
            "ok",
            permission_mode="ask",
            on_ask=lambda _: Permission("allow"),
            sessions=JsonlStore(tmp_path / "sessions"),
        )
        found = texts(second.run(None, session_id="s"))[-1]
        assert ("so nothing was written. It had 4 bytes and has 9 now." in found) is is_changed
        assert ((work / "s.txt").read_text() == "one\nmine\n") is is_changed


class TestWhoseKnowledge:
    def test_each_run_has_its_own(self, work):
        tools = workspace_tools(work, shell=False)

        def other():
            result = agent(work, READ, EDIT, "ok", tools=tools).run("go")
            assert texts(result)[1].startswith("Edited")
            return WRITE

        result = agent(work, READ, other, "ok", tools=tools).run("go")
        assert "-one\n+two" in texts(result)[1]
        assert (work / "s.txt").read_text() == "two\n"

    def test_a_subagent_has_its_own(self, work):
        tools = workspace_tools(work, shell=False)
        helper = AgentDefinition("helper", "Helps.", "Help.", tools=tools)
        task = call("task", agent="helper", prompt="edit")
        llm = script(READ, task, READ, EDIT, "done", WRITE, "ok")
        manager = SubagentManager([helper])
        result = Agent(llm=llm, tools=tools, subagents=manager).run("go")
        assert "-one\n+two" in texts(result)[-1]
        assert (work / "s.txt").read_text() == "two\n"

    def test_conversation_without_session_remembers_read_files(self, work):
        tools = workspace_tools(work, shell=False)
        first = agent(work, READ, "ok", tools=tools).run("go")
        second = agent(work, WRITE, "ok", tools=tools).run("go on", messages=first.messages)
        assert texts(second)[-1].startswith("Replaced")

    def test_calls_outside_of_runs_are_those_of_the_process(self, work):
        tools = {tool.name: tool for tool in workspace_tools(work, shell=False)}

        def do(name, **args):
            return asyncio.run(tools[name].execute(args))

        do("read_file", path="s.txt")
        (work / "s.txt").write_text("mine\n")
        assert "-one\n+mine" in do("write_file", path="s.txt", content="x")
        do("read_file", path=str(work / "s.txt"))
        assert do("write_file", path="s.txt", content="x").startswith("Replaced")

    def test_file_read_before_an_undo_is_stale(self, work, tmp_path):
        shots = WorkspaceSnapshots(work, store=tmp_path / "shots")
        store = JsonlStore(tmp_path / "sessions")
        first = agent(work, READ, EDIT, "ok", snapshots=shots, sessions=store)
        first.run("go", session_id="s")
        assert asyncio.run(shots.undo("s")).restored == ("s.txt",)
        result = agent(work, WRITE, "ok", sessions=store).run("more", session_id="s")
        assert "-two\n+one" in texts(result)[-1] or "It had 4 bytes" in texts(result)[-1]
        assert (work / "s.txt").read_text() == "one\n"


def test_a_call_of_the_same_id_in_another_run_has_shown_nothing(work):
    tools = workspace_tools(work, shell=False)
    history = agent(work, READ, "ok", tools=tools).run("go").messages
    agent(work, READ, call("write_file", path="s.txt", content="other\n"), "ok", tools=tools).run("go")
    result = agent(work, WRITE, "ok", tools=tools).run("go on", history)
    assert (work / "s.txt").read_text() == "other\n"
    assert "is not what it was when you last read it" in texts(result)[-1]


def test_a_page_says_that_other_pages_changed(work):
    file = work / "s.txt"
    lines = "".join(f"line {n}\n" for n in range(3_000))
    file.write_text(lines)
    second = call("read_file", path="s.txt", offset=2_001)
    result = agent(work, READ, second, saves(file, f"mine\n{lines}", second), second, "ok").run("go")
    told = ["was changed since you last read it" in text for text in texts(result)]
    assert told == [False, False, True, False]


def test_change_by_own_shell_is_reported(work):
    shell = call("shell", command="printf 'three\\n' >> s.txt")
    tools = workspace_tools(work)
    result = agent(work, READ, shell, EDIT, READ, EDIT, "ok", tools=tools, permission_mode="bypass").run("go")
    assert "+three" in texts(result)[2]
    assert texts(result)[4].startswith("Edited")


def test_contents_are_not_stored_on_disk(work, tmp_path):
    (work / "s.txt").write_text("a secret line\n")
    store = JsonlStore(tmp_path / "sessions")
    agent(work, READ, "ok", sessions=store).run("go", session_id="s")
    files = list((tmp_path / "home" / "known-files").rglob("*.json"))
    assert len(files) == 1
    assert "secret" not in files[0].read_text()
    assert files[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_data_folder_that_cannot_be_written_ends_no_call(work, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PAL_HOME", str(blocked))
    store = JsonlStore(tmp_path / "sessions")
    result = agent(work, READ, EDIT, "ok", sessions=store).run("go", session_id="s")
    assert texts(result)[1].startswith("Edited")


@pytest.mark.parametrize("name", ["a.txt", "deep/a.txt"])
def test_paths_are_the_same_however_they_are_written(work, name):
    path = Path(work, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("one\n")
    read = call("read_file", path=f"./{name}")
    write = call("write_file", path=str(path), content="x")
    assert texts(agent(work, read, write, "ok").run("go"))[1].startswith("Replaced")
    assert "last read" in texts(agent(work, read, saves(path, "mine", write), "ok").run("go"))[1]


def test_protected_path_is_reported_first(work):
    (work / ".git").mkdir()
    (work / ".git/config").write_text("[core]\n")
    write = call("write_file", path=".git/config", content="x")
    assert "is protected" in texts(agent(work, write, "ok").run("go"))[0]
