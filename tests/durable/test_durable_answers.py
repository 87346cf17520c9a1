"""Several who answer one question of a durable run, and those who die right behind their answer."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from tests.durable.fleet import PATIENCE, Fleet

from pure_agent_loop import AlreadyAnsweredError, ConfigError, Permission
from pure_agent_loop.durable import Engine

_DIES = """
import os, sys
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.run_queue import RunQueue

class Dying(RunQueue):
    def _resume(self, info):
        os._exit(9)

url, run, call, what, said = sys.argv[1:]
queue = Dying(Database(url))
queue.answer(run, call, said) if what == "answer" else queue.give_result(run, call, said)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if request.param == "postgres" else ""
    with Fleet(tmp_path, url) as fleet:
        fleet.start()
        yield fleet


def race(works):
    """What each of several functions gave or raised that began at the same moment."""
    gate, found = threading.Barrier(len(works)), [None] * len(works)

    def one(number):
        gate.wait()
        try:
            works[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_of_answers_at_the_same_moment_one_counts(shared, until):
    engines = [Engine(shared.database) for _ in range(3)]
    for number in range(3):
        handle = shared.engine.submit("careful", f"put {number}")
        (question,) = handle.result(PATIENCE).questions
        answers = [("ann", "deny"), ("bob", "allow"), ("eve", Permission("allow", "Do."))]
        works = [
            lambda by=by, said=said, engine=engine, run=handle.run_id, call=question.call_id: engine.handle(
                run
            ).answer(call, said, by=by)
            for (by, said), engine in zip(answers, engines, strict=True)
        ]
        found = race(works)
        winner, said = answers[found.index(None)]
        behavior = said if isinstance(said, str) else said.behavior
        late = [error for error in found if error is not None]
        assert [(type(error), error.by, error.answer) for error in late] == [
            (AlreadyAnsweredError, winner, behavior)
        ] * 2
        assert all(error.at is not None for error in late)
        until(lambda handle=handle: handle.info().has_ended)
        assert shared.marks().count(f"end {number}") == (behavior == "allow")
        with pytest.raises(
            AlreadyAnsweredError, match=f"{winner} already answered"
        ):  # also their own, and at the end
            handle.answer(question.call_id, said, by=winner)
        with pytest.raises(ConfigError, match="has no pending question"):
            handle.answer(question.call_id, "deny", by="late")
        told = shared.pal("answer", handle.run_id, question.call_id, "deny")
        assert told.returncode == 2
        assert winner in told.stderr
    for engine in engines:
        engine.close()


def test_of_results_made_elsewhere_the_first_counts(shared, until):
    handle = shared.engine.submit("worker", "far 9")
    (waiting,) = handle.result(PATIENCE).open_calls
    found = race(
        [lambda text=text: handle.give_result(waiting.id, text, by=text) for text in ("one", "two", "three")]
    )
    winner = ("one", "two", "three")[found.index(None)]
    late = [error for error in found if error is not None]
    assert [(error.by, error.answer, error.what) for error in late] == [(winner, winner, "result")] * 2
    until(lambda: handle.info().has_ended)
    records = shared.engine.sessions.read(handle.run_id).records
    results = [each for record in records if record.type == "messages" for each in record.data["messages"]]
    assert [each["content"] for each in results if each["role"] == "tool"] == [winner]


def test_a_call_that_was_allowed_takes_its_result_from_elsewhere(shared, until):
    handle = shared.engine.submit("careful", "far 9")
    (question,) = handle.result(PATIENCE).questions
    handle.answer(question.call_id, "allow", by="ann")
    (waiting,) = until(lambda: handle.info().status == "waiting_tool" and handle.open_calls)
    assert waiting.id == question.call_id
    handle.give_result(waiting.id, "brought", by="eve")
    info = until(lambda: (found := handle.info()).has_ended and found)
    assert (info.status, info.content) == ("completed", "Did 1.")
    records = shared.engine.sessions.read(handle.run_id).records
    results = [each for record in records if record.type == "messages" for each in record.data["messages"]]
    assert [each["content"] for each in results if each["role"] == "tool"] == ["brought"]
    with pytest.raises(AlreadyAnsweredError, match="ann already answered 'allow'"):
        handle.answer(question.call_id, "deny", by="late")
    with pytest.raises(AlreadyAnsweredError, match="eve already returned 'brought'"):
        handle.give_result(waiting.id, "other", by="late")


@pytest.mark.parametrize(("task", "what"), [("put 5", "answer"), ("far 5", "result")])
def test_run_resumes_though_the_answering_process_died(shared, until, task, what):
    handle = shared.engine.submit("careful" if what == "answer" else "worker", task)
    info = handle.result(PATIENCE)
    call_id = info.questions[0].call_id if what == "answer" else info.open_calls[0].id
    args = [shared.database, handle.run_id, call_id, what, "allow"]
    assert subprocess.run([sys.executable, "-c", _DIES, *args], check=False).returncode == 9
    until(lambda: handle.info().has_ended)
    assert handle.info().content == "Did 1."
    assert shared.marks().count("end 5") == (what == "answer")


_CHANGED = """
from pure_agent_loop import Agent, tool
from tests.durable.durable_agents import agents as those, mark, put


@tool(name="put")
def other(shelf: str) -> str:
    mark("never")
    return shelf


def without():
    careful = those()["careful"]
    return {"careful": Agent(llm=careful.llm, permission_mode="ask")}


def changed():
    careful = those()["careful"]
    return {"careful": Agent(llm=careful.llm, tools=[other], permission_mode="ask")}
"""


@pytest.mark.parametrize(
    ("agents", "why", "in_chinese"),
    [
        ("without", "the agent no longer has this tool", "智能体不再有这个工具"),
        ("changed", "the tool no longer accepts these arguments", "该工具不再接受这些参数"),
    ],
)
def test_an_approval_that_came_to_nothing_is_shown(tmp_path, monkeypatch, agents, why, in_chinese):
    (tmp_path / "changed_agents.py").write_text(_CHANGED)
    with Fleet(tmp_path) as fleet:
        fleet.start()
        handle = fleet.engine.submit("careful", "put 1")
        (question,) = handle.result(PATIENCE).questions
        fleet.end(fleet.workers[0])
        handle.answer(question.call_id, "allow")
        worker = fleet.begin(agents=f"changed_agents:{agents}")
        lines = iter(worker.stderr.readline, "")
        while not handle.info().has_ended:
            handle.result(PATIENCE)
        assert fleet.marks() == []
        logged = next(each for each in lines if "was not made" in each)
        assert "WARNING" in logged
        assert question.call_id in logged
        line = f"the approval of put had no effect: {why}; the worker's code has changed since\n"
        assert f"    {line}" in fleet.pal("tasks").stdout
        assert line in fleet.pal("tasks", "show", handle.run_id).stdout
        (void,) = fleet.pal_json("tasks", "show", handle.run_id)["task"]["details"]["void_approvals"]
        assert (void["tool"], void["call_id"]) == ("put", question.call_id)
        (listed,) = fleet.pal_json("tasks")["tasks"]
        assert listed["details"]["void_approvals"] == [void]
        monkeypatch.setenv("PAL_LANG", "zh")
        assert f"对 put 的批准没有生效：{in_chinese}" in fleet.pal("tasks").stdout


def test_an_approval_that_was_used_is_not_shown(shared):
    handle = shared.engine.submit("careful", "put 77")
    (question,) = handle.result(PATIENCE).questions
    handle.answer(question.call_id, "allow")
    while not (info := handle.info()).has_ended:
        handle.result(PATIENCE)
    assert "start 77" in shared.marks()
    assert "void_approvals" not in info.details
    shown = shared.pal("tasks", "show", handle.run_id).stdout
    assert "had no effect" not in shown
    assert shown.endswith("\nDid 1.\n")
