"""A running run leaves its process: an engine continues it, and nothing is done twice, lost or stranded."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.durable.detached_kills import agent_with

from pure_agent_loop import Agent, ConfigError, Inbox, LoopLimits, SessionManager, tool
from pure_agent_loop.durable import DurableError, Engine, SessionCopy, to_file, to_session
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.subagents import AgentDefinition, SubagentManager, TaskStore
from pure_agent_loop.testing import ScriptedLLM, call

PATIENCE = 60.0
ROOT = Path(__file__).parents[2]


def by_count(messages, tools, options):
    """Three calls, one after the other, then the answer with the messages of people."""
    done = sum(1 for each in messages if each.get("tool_calls"))
    people = [each["content"] for each in messages if each["role"] == "user"]
    return call("do", n=done + 1) if done < 3 else f"Did {done}: {people}"


class Desk:
    """An engine with a worker, and an agent whose calls a test can hold."""

    def __init__(self, url, name, **agent):
        self.done, self.name, self.url = [], name, url
        self.begun, self.gate = threading.Event(), threading.Event()
        self.llm = ScriptedLLM(by_count)

        @tool
        async def do(n: int) -> str:
            """Do one thing."""
            self.begun.set()
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
            self.done.append(n)
            return f"did {n}"

        self.agent = Agent(llm=self.llm, tools=[do], **agent)
        self.engine = Engine(url, agents={name: self.agent})

    def __enter__(self):
        self.engine.start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.engine.close()

    def prepare(self, task="work", agent=None, **options):
        agent = agent or self.agent
        return agent.prepare(task, session_id=self.name, sessions=self.engine.sessions, **options)

    async def detached(self, run, then=lambda: None, **options):
        """Detach a run while its first tool runs; the result of the run, and the handle."""
        ending = asyncio.create_task(run.wait())
        await asyncio.to_thread(self.begun.wait, PATIENCE)
        leaving = asyncio.create_task(run.detach(self.engine, self.name, **options))
        while run._leave.hand_over is None and not leaving.done():
            await asyncio.sleep(0.01)
        then()
        try:
            return await ending, await leaving
        finally:
            self.gate.set()


@pytest.fixture
def desk(url, name):
    with Desk(url, name) as desk:
        yield desk


def test_run_leaves_when_its_tool_has_ended(desk, name):
    result, handle = asyncio.run(desk.detached(desk.prepare(), desk.gate.set))
    assert (result.stop_reason, result.steps, result.error) == ("backgrounded", 2, "")
    info = handle.result(PATIENCE)
    assert (info.status, info.content, info.session_id) == ("completed", "Did 3: ['work']", name)
    assert desk.done == [1, 2, 3]
    assert len(desk.llm.requests) == 4  # none was sent twice
    assert [each.data["task"] for each in desk.engine.sessions.read(name).records if each.type == "run"] == [
        "work",
        None,
        None,
    ]


def test_next_run_in_the_session_has_the_answer_in_its_history(desk, name):
    _, handle = asyncio.run(desk.detached(desk.prepare(), desk.gate.set))
    handle.result(PATIENCE)
    again = Agent(llm=(llm := ScriptedLLM(["ok"]))).run(
        "and?", session_id=name, sessions=desk.engine.sessions
    )
    assert again.content == "ok"
    assert [each["content"] for each in llm.requests[0].messages][-2:] == ["Did 3: ['work']", "and?"]


def test_tool_that_takes_too_long_is_unknown_to_the_engine(desk):
    result, handle = asyncio.run(desk.detached(desk.prepare(), grace=0.05))
    assert (result.stop_reason, desk.done) == ("backgrounded", [])
    assert handle.result(PATIENCE).status == "completed"
    assert desk.done == [2, 3]  # the first call is not repeated: it may have had its effect
    texts = [each["content"] for each in desk.llm.requests[-1].messages if each["role"] == "tool"]
    assert "Whether it took effect is unknown" in texts[0]


def test_messages_of_people_leave_with_the_run(desk):
    run = desk.prepare()

    def speak():
        run.steer("first")
        run.follow_up("second")
        desk.gate.set()

    _, handle = asyncio.run(desk.detached(run, speak))
    assert handle.result(PATIENCE).content == "Did 3: ['work', 'first', 'second']"


def test_answer_is_delivered_to_a_session_once(desk, name, until):
    other = f"{name[-50:]}-b"
    _, handle = asyncio.run(desk.detached(desk.prepare(), desk.gate.set, deliver=to_session(other)))
    handle.result(PATIENCE)
    count = "SELECT run, session FROM @notices WHERE session = ?"
    until(lambda: desk.engine.database.rows(count, other) == [(handle.run_id, other)])
    llm = ScriptedLLM(["read", "again"])
    for task in ("news?", "more?"):
        inbox = Inbox()
        run = Agent(llm=llm).prepare(task, session_id=other, sessions=desk.engine.sessions, inbox=inbox)
        desk.engine.bring_notices(other, inbox)
        run.wait_sync()
    said = [each["content"] for each in llm.requests[-1].messages if "Did 3: ['work']" in each["content"]]
    assert len(said) == 1
    assert handle.run_id in said[0]


def test_answer_is_delivered_to_a_file(desk, tmp_path, until):
    path = tmp_path / "answer.txt"
    _, handle = asyncio.run(desk.detached(desk.prepare(), desk.gate.set, deliver=to_file(path)))
    until(lambda: path.exists() and path.read_text() == "Did 3: ['work']\n")
    assert handle.status() == "completed"


async def leave_during_an_answer(desk, agent, answer):
    """Begin a run, and detach it while its model is answering; both tasks."""
    answering, goes = asyncio.Event(), asyncio.Event()

    async def slowly(messages, tools, options):
        answering.set()
        await goes.wait()
        return answer

    run = desk.prepare(agent=agent.clone(llm=ScriptedLLM(slowly)))
    ending = asyncio.create_task(run.wait())
    await answering.wait()
    leaving = asyncio.create_task(run.detach(desk.engine, desk.name))
    while run._leave.hand_over is None:
        await asyncio.sleep(0.01)
    goes.set()
    return ending, leaving


@pytest.mark.parametrize("asks", [True, False])
def test_open_question_leaves_with_the_run(url, name, asks):
    """Also one that a person is being asked just now."""
    with Desk(url, name, permission_mode="ask") as desk:
        desk.gate.set()

        async def on_ask(_):
            desk.begun.set()
            await asyncio.Event().wait()

        agent = desk.agent.clone(on_ask=on_ask) if asks else desk.agent

        async def suspend():
            """Ask to leave before the run is suspended: while the model is answering."""
            ending, leaving = await leave_during_an_answer(desk, agent, call("do", n=1))
            return await ending, await leaving

        run = desk.prepare(agent=agent) if asks else None
        leaves = desk.detached(run, grace=0.05) if asks else suspend()
        result, handle = asyncio.run(leaves)
        assert (result.stop_reason, result.state.questions) == ("backgrounded", [])
        for n in (1, 2, 3):
            (question,) = handle.result(PATIENCE).questions
            assert (question.args, desk.done) == ({"n": n}, [*range(1, n)])
            handle.answer(question.call_id, "allow")
        assert (handle.result(PATIENCE).status, desk.done) == ("completed", [1, 2, 3])


def test_settings_of_the_run_are_kept(desk):
    run = desk.prepare(limits=LoopLimits(max_turns=2), metadata={"tenant": "a"})
    _, handle = asyncio.run(desk.detached(run, desk.gate.set))
    info = handle.result(PATIENCE)
    assert (info.stop_reason, desk.done) == ("max_steps", [1, 2])


@pytest.mark.parametrize("field", ["tools", "deps", "output_type"])
def test_setting_without_a_json_form_is_rejected_by_name(desk, field):
    value = {"tools": list(desk.agent.tools), "deps": object(), "output_type": int}[field]
    run = desk.prepare(**{field: value})
    with pytest.raises(ConfigError, match=f"{field}.* cannot be stored"):
        asyncio.run(desk.detached(run, desk.gate.set))


def test_run_that_cannot_leave_is_rejected_with_the_reason(desk, name, tmp_path):
    elsewhere = [
        desk.agent.prepare("work"),
        desk.agent.prepare("work", session_id="a", sessions=SqliteStore(tmp_path / "other.sqlite")),
    ]
    for run in elsewhere:
        with pytest.raises(ConfigError, match=r"sessions=engine\.sessions"):
            asyncio.run(run.detach(desk.engine, name))
    run = desk.prepare()
    with pytest.raises(ConfigError, match="nobody"):
        asyncio.run(run.detach(desk.engine, "nobody"))
    with pytest.raises(ConfigError, match="grace=-1"):
        asyncio.run(run.detach(desk.engine, name, grace=-1))
    with pytest.raises(ConfigError, match="deliver='x'"):
        asyncio.run(run.detach(desk.engine, name, "x"))
    with pytest.raises(ConfigError, match="it is not running"):
        asyncio.run(run.detach(desk.engine, name))
    desk.gate.set()
    assert run.wait_sync().stop_reason == "completed"  # it was not disturbed
    with pytest.raises(ConfigError, match="has ended"):
        asyncio.run(run.detach(desk.engine, name))
    assert Counter(desk.done) == Counter([1, 2, 3])


def test_run_that_ends_before_the_hand_over_does_not_leave(desk, name):
    async def both():
        ending, leaving = await leave_during_an_answer(desk, desk.agent, "done")
        with pytest.raises(ConfigError, match="has ended"):
            await leaving
        return await ending

    assert asyncio.run(both()).content == "done"
    assert desk.engine.tasks(session_id=name) == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_run_that_the_database_does_not_take_can_be_resumed(desk, name, url):
    database = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    run = desk.prepare()

    def refuse():
        full = "CREATE TRIGGER full BEFORE INSERT ON pal_runs BEGIN SELECT RAISE(ABORT, 'full'); END"
        database.execute(full)
        desk.gate.set()

    with pytest.raises(DurableError, match="full"):
        asyncio.run(desk.detached(run, refuse))
    assert (run.result().stop_reason, "full" in run.result().error) == ("error", True)
    database.execute("DROP TRIGGER full")
    database.close()
    assert desk.engine.tasks(session_id=name) == []
    again = desk.agent.run(None, session_id=name, sessions=desk.engine.sessions)
    assert (again.content, desk.done) == ("Did 3: ['work']", [1, 2, 3])


@pytest.mark.parametrize("kind", ["ends", "cut", "copy"])
def test_run_killed_anywhere_while_it_leaves_is_done_once(kind, tmp_path, until):
    """Its first call ends before it leaves, or is cut off; or a copy of its session leaves."""
    store = JsonlStore(tmp_path / "sessions")
    effects, url = tmp_path / "effects", f"sqlite:///{tmp_path / 'd.sqlite'}"
    agent = agent_with(effects)
    with Engine(url, agents={"worker": agent}) as engine:
        command = [sys.executable, "-m", "tests.durable.detached_kills", str(tmp_path), kind]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
        assert ended.returncode == 0, ended.stderr
        last, code, killed = map(int, ended.stdout.split())
        assert (code, killed) == (0, -signal.SIGKILL), ended.stderr
        left = 0
        for number in range(1, last + 1):
            case = f"{kind}-{number}"
            infos = [info for info in engine.tasks() if info.task == case]
            sessions = store if kind == "copy" else engine.sessions
            is_left = kind == "copy" and SessionCopy(engine).left(store, case)
            assert bool(is_left) == (kind == "copy" and bool(infos))
            answer = tmp_path / f"{case}.answer"
            if infos:
                left += 1
                (info,) = infos
                done = engine.handle(info.run_id).result(PATIENCE)
                until(lambda answer=answer: answer.exists() and answer.read_text().endswith("\n"))
                assert (done.status, answer.read_text()) == ("completed", f"{done.content}\n")
                content = done.content
            else:
                result = agent.run(None, session_id=case, sessions=sessions)
                assert (result.stop_reason, answer.exists()) == ("completed", False)
                content = result.content
            calls = Counter(line for line in effects.read_text().splitlines() if line.split()[0] == case)
            assert calls == Counter(f"{case} {n}" for n in (1, 2, 3)), case
            told = content.split(" | ")
            assert told[1:] == ["did 2", "did 3", case]  # the task is there once
            assert told[0] == "did 1" or "Whether it took effect is unknown" in told[0]
        assert (left, last > 15) == (2, True)  # one was not killed, and one was killed after its hand-over


def test_background_tasks_end_before_the_run_leaves(desk, name, tmp_path):
    """Their results leave with the run, and are read once."""

    async def help_out(messages, tools, options):
        while run.state.stop_reason is None:  # the run leaves while the helper is at work
            await asyncio.sleep(0.01)
        return "found it"

    def next_answer(messages, tools, options):
        steps = [call("task", agent="helper", prompt="look", background=True), call("do", n=1), "end"]
        return steps[sum(1 for each in messages if each.get("tool_calls"))]

    helper = AgentDefinition("helper", "Helps.", "You help.", llm=ScriptedLLM(help_out))
    llm = ScriptedLLM(next_answer)
    subagents = SubagentManager([helper], store=TaskStore(tmp_path / "tasks"))
    agent = desk.agent.clone(llm=llm, subagents=subagents)
    desk.engine.stop()
    desk.engine.agents[name] = agent

    run = desk.prepare(agent=agent)
    result, handle = asyncio.run(desk.detached(run, desk.gate.set))
    assert (result.stop_reason, len(helper.llm.requests)) == ("backgrounded", 1)
    desk.engine.start()
    assert handle.result(PATIENCE).content == "end"
    told = [each["content"] for each in llm.requests[-1].messages if "found it" in str(each["content"])]
    assert (len(told), len(helper.llm.requests)) == (1, 1)


def test_run_leaves_after_a_handoff(desk, name):
    """The engine's agent is the first one, and finds the one in charge."""
    second = desk.agent.clone(name="second")
    llm = ScriptedLLM([call("transfer_to_second")])
    first = Agent(name="first", llm=llm, handoffs=[second])
    desk.engine.stop()
    desk.engine.agents[name] = first
    result, handle = asyncio.run(desk.detached(desk.prepare(agent=first), desk.gate.set))
    assert result.stop_reason == "backgrounded"
    desk.engine.start()
    assert handle.result(PATIENCE).status == "completed"
    assert (len(llm.requests), desk.done) == (1, [2, 3])  # the first call was the handoff


@pytest.mark.parametrize("is_jsonl", [True, False])
def test_copy_leaves_and_the_session_takes_new_tasks(desk, name, tmp_path, is_jsonl):
    store = JsonlStore(tmp_path) if is_jsonl else desk.engine.sessions
    run = desk.agent.prepare("work", session_id=name, sessions=store)

    async def leave():
        ending = asyncio.create_task(run.wait())
        await asyncio.to_thread(desk.begun.wait, PATIENCE)
        leaving = asyncio.create_task(run.detach(SessionCopy(desk.engine), name, to_session(name)))
        while run._leave.hand_over is None:
            await asyncio.sleep(0.01)
        desk.gate.set()
        return await ending, await leaving

    result, handle = asyncio.run(leave())
    info = handle.result(PATIENCE)
    assert (result.stop_reason, info.content, desk.done) == ("backgrounded", "Did 3: ['work']", [1, 2, 3])
    assert info.session_id != name
    assert SessionCopy(desk.engine).left(store, name) == handle.run_id
    manager = SessionManager(store)
    assert manager.load(name).stop_reason == "backgrounded"
    assert name not in [each.id for each in manager.resumable()]
    with pytest.raises(ConfigError, match=f"continues as the durable run {handle.run_id}"):
        desk.agent.run(None, session_id=name, sessions=store)
    again = Agent(llm=(llm := ScriptedLLM(["ok"]))).run("and?", session_id=name, sessions=store)
    assert (again.content, SessionCopy(desk.engine).left(store, name)) == ("ok", "")
    assert [each["content"] for each in llm.requests[0].messages if each["role"] != "system"][-2:] == [
        "did 1",
        "and?",
    ]


def test_copy_registers_an_agent_that_no_worker_has(url, name, tmp_path):
    with Desk(url, name) as desk:
        client, other = Engine(url), f"{name[-50:]}-b"
        target = SessionCopy(client, "scripted", metadata={"tenant": "a"})
        run = desk.agent.prepare("work", session_id=name, sessions=JsonlStore(tmp_path))
        desk.engine.stop()

        async def leave():
            ending = asyncio.create_task(run.wait())
            await asyncio.to_thread(desk.begun.wait, PATIENCE)
            leaving = asyncio.create_task(run.detach(target, other))
            while run._leave.hand_over is None:
                await asyncio.sleep(0.01)
            desk.gate.set()
            return await ending, await leaving

        _, handle = asyncio.run(leave())
        assert (handle.status(), client.workers()) == ("pending", [])
        desk.engine.agents[other] = desk.agent
        desk.engine.start()
        assert handle.result(PATIENCE).content == "Did 3: ['work']"
        assert len(client.workers()) == 1
        client.close()
