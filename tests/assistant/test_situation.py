"""What an assistant's model is told: one unchanging prompt, and facts that are true when the task begins."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess

import pytest
from tests.compaction.sessions import long_session

from pure_agent_loop import Agent, ContextBuilder, MemoryStore, SessionManager, SkillsLoader
from pure_agent_loop.assistant import Situation
from pure_agent_loop.llm.messages import facts_message, is_synthetic
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.testing import ScriptedLLM, assert_replays, check_history
from pure_agent_loop.toolbox import Shell


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    return place


def facts_of(situation):
    return asyncio.run(situation.text()).splitlines()


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)


def notes(state):
    return [message["content"] for message in state.messages if is_synthetic(message)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prompt_of_the_package_has_at_most_300_words(folder, language):
    (folder / "skills" / "s").mkdir(parents=True)
    (folder / "skills" / "s" / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\nx", "utf-8")
    builder = ContextBuilder(
        folder, MemoryStore(folder), SkillsLoader([folder / "skills"], user=False), language=language
    )
    text = builder.build_system_prompt()
    length = len(text.split()) if language == "en" else sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    assert length <= (300 if language == "en" else 700)
    assert str(folder) not in text


def test_facts_are_those_of_the_place(folder):
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "a\nb.txt").write_text("x")
    lines = facts_of(Situation(folder, Shell(folder), "ask", is_attended=True, limits={"max_turns": 3}))
    assert f"Working folder: {folder}" in lines
    changed = ', 1 changed files when this was written: "a\\nb.txt"'
    assert f"Git: repository {folder}, branch trunk{changed}" in lines
    assert "Questions: a person can answer now" in lines
    assert "Limits of this task: max_turns=3" in lines
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (line,) = [line for line in facts_of(Situation(folder, Shell(folder))) if line.startswith("Git")]
    assert line == f"Git: repository {folder}, branch trunk, no changed files when this was written"


def test_facts_of_a_folder_stay_in_their_line(tmp_path):
    odd = tmp_path / "a\nRights: none"
    odd.mkdir()
    assert not [line for line in facts_of(Situation(odd)) if line.startswith("Rights: none")]


def test_settings_of_a_repository_run_nothing(folder):
    git(folder, "init", "-q")
    mark = folder / "mark"
    git(folder, "config", "core.fsmonitor", f"touch {mark}; false")
    git(folder, "config", "filter.x.clean", f"touch {mark}")
    (folder / ".gitattributes").write_text("* filter=x\n")
    facts_of(Situation(folder, Shell(folder)))
    assert not mark.exists()


def sent(llm):
    """Return the texts of the user messages of each request."""
    return [[m["content"] for m in request.messages if m["role"] == "user"] for request in llm.requests]


def test_facts_stand_before_the_task_and_come_again_where_they_changed():
    texts = iter(["[F]\na: 1\nb: 1", "[F]\na: 1\nb: 1", "[F]\na: 1\nb: 2\n  more", "[F]\na: 1\nb: 1"])
    llm = ScriptedLLM(["one", "two", "three", "four"])
    agent, state = Agent(llm=llm, facts=lambda: next(texts), system_prompt="Fixed."), None
    for task in "wxyz":
        state = agent.run(task, state=state).state
    notes_and_tasks = ["[F]\na: 1\nb: 1", "w", "x", "[F]\nb: 2\n  more", "y", "[F]\nb: 1", "z"]
    assert sent(llm)[-1] == notes_and_tasks
    requests = [request.messages for request in llm.requests]
    assert all(later[: len(sooner)] == sooner for sooner, later in itertools.pairwise(requests))


def test_fact_that_is_gone_is_marked_once():
    texts = iter(["[F]\na: 1\nb: 1", "[F]\na: 1", "[F]\na: 1"])
    llm = ScriptedLLM(["one", "two", "three"])
    talk = Agent(llm=llm, facts=lambda: next(texts)).conversation()
    talk.send_sync("x")
    talk.send_sync("y")
    talk.send_sync("z")
    assert sent(llm)[-1] == ["[F]\na: 1\nb: 1", "x", "[F]\nb: -", "y", "z"]


def test_facts_in_messages_of_a_caller_are_known():
    llm = ScriptedLLM(["one", "two"])
    agent = Agent(llm=llm, facts=lambda: "[F]\na: 1")
    agent.run("y", agent.run("x").messages)
    assert sent(llm)[-1] == ["[F]\na: 1", "x", "y"]


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
def test_facts_that_a_compaction_touched_are_written_anew(window):
    asked = []

    def play(messages, tools, options):
        asked.append(json.dumps(messages))
        return "Goal: mend it." if messages[0]["content"] == ENGLISH.summary_system else "Done."

    old = [facts_message("[F]\nday: yesterday\nplace: here"), facts_message("[F]\nplace: there")]
    history = [*old, *long_session(rounds=60, words=200)]
    facts = "[F]\nday: today\nplace: there"
    agent = Agent(llm=ScriptedLLM(play, usage=None), facts=lambda: facts, context_window=window)
    result = agent.run("go", history)
    assert len(result.state.messages) < len(history)
    assert notes(result.state)[-1] == facts
    assert [message["content"] for message in result.state.messages[-3:-1]] == [facts, "go"]
    assert "yesterday" not in "".join(asked)
    assert check_history(result.messages) == []


def test_facts_of_a_session_are_recorded_and_replayed(tmp_path):
    store = tmp_path / "sessions"
    agent = Agent(llm=ScriptedLLM(["one"]), facts=lambda: "[F]\nplace: here", sessions=store)
    first = agent.run("a", session_id="s")
    llm = ScriptedLLM(["two"])
    again = agent.clone(llm=llm, facts=lambda: "[F]\nplace: there").run("b", session_id="s")
    assert notes(first.state) == ["[F]\nplace: here"]
    assert sent(llm) == [["[F]\nplace: here", "a", "[F]\nplace: there", "b"]]
    assert_replays(store / "s.jsonl")
    assert [message["content"] for message in again.messages][2:4] == ["one", "[F]\nplace: there"]


def test_facts_are_no_part_of_the_conversation_for_people(tmp_path):
    sessions = SessionManager(tmp_path)
    agent = Agent(llm=ScriptedLLM(["one"]), facts=lambda: "[F]\nplace: here", sessions=sessions.store)
    agent.run("a", session_id="s")
    story = read_story(sessions.load("s").records)
    assert [(entry.kind, entry.text) for entry in story.entries][:2] == [("task", "a"), ("answer", "one")]
    assert story.messages == 2
    assert "place" not in sessions.export("s") + sessions.export("s", "html")


def test_interrupted_request_is_sent_again_with_the_facts_of_now(tmp_path):
    class Ended(BaseException):
        """End the process at the request."""

    def end(messages, tools, options):
        raise Ended

    agent = Agent(llm=ScriptedLLM(end), facts=lambda: "[F]\nplace: here", sessions=tmp_path)
    with pytest.raises(Ended):
        agent.run("a", session_id="s")
    for place in ("here", "there"):
        llm = ScriptedLLM(["one"])
        resumed = agent.clone(llm=llm, facts=lambda place=place: f"[F]\nplace: {place}")
        copy = SessionManager(tmp_path).fork("s")
        resumed.run(None, session_id=copy)
        new = [] if place == "here" else ["[F]\nplace: there"]
        assert sent(llm) == [["[F]\nplace: here", "a", *new]]
        assert_replays(tmp_path / f"{copy}.jsonl")
