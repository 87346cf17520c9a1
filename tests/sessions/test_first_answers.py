"""Several who answer one question, and several sessions that have one answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading

import pytest
from tests.sessions.approvals import Desk

from pure_agent_loop import Agent, AlreadyAnsweredError, ConfigError, EventType, Permission, Tool, tool
from pure_agent_loop.errors import SessionLockedError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.store import opening_lock
from pure_agent_loop.testing import ScriptedLLM, call

ANSWERS = ["deny", "allow", "allow", Permission("deny", "Not now.")]
_ANSWER = """
import json, sys
from pure_agent_loop import AlreadyAnsweredError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, SqliteStore
kind, place, call_id, verdict, by = sys.argv[1:]
sessions = SessionManager({"jsonl": JsonlStore, "sqlite": SqliteStore}[kind](place))
print(flush=True)
sys.stdin.readline()
try:
    sessions.answer("s", call_id, verdict, by=by)
    print(json.dumps({"accepted": verdict}))
except AlreadyAnsweredError as error:
    print(json.dumps({"by": error.by, "answer": error.answer, "at": error.at}))
"""


def asked(store, shape="one call"):
    """A session that waits; the first of its questions."""
    desk = Desk("answer", shape)
    desk.agent(store).run("Task: go on.", session_id="s")
    return desk, SessionManager(store).questions("s")[0].call_id


def race(works):
    """What each of several functions gave or raised that began at the same moment."""
    gate, found = threading.Barrier(len(works)), [None] * len(works)

    def one(number):
        gate.wait()
        try:
            found[number] = works[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def check_race(store):
    desk, call_id = asked(store)
    sessions = SessionManager(store)
    people = [f"person {number}" for number in range(len(ANSWERS))]
    found = race(
        [
            lambda said=said, by=by: sessions.answer("s", call_id, said, by=by)
            for said, by in zip(ANSWERS, people, strict=True)
        ]
    )
    winner = found.index(None)
    verdict = ANSWERS[winner] if isinstance(ANSWERS[winner], str) else ANSWERS[winner].behavior
    for error in found[:winner] + found[winner + 1 :]:
        assert isinstance(error, AlreadyAnsweredError), error
        assert (error.call_id, error.by, error.answer) == (call_id, people[winner], verdict)
        assert error.at == sessions.load("s").records[-1].time
    desk.look(store)
    assert bool(desk.started) == (verdict == "allow")


def test_of_answers_at_the_same_moment_one_counts(new_store):
    for _ in range(5):
        check_race(new_store())


def test_so_it_is_in_a_database_of_others(postgres):
    from pure_agent_loop.sessions import PostgresStore

    with PostgresStore(postgres.new_database()) as store:
        check_race(store)


@pytest.mark.parametrize(("kind", "name"), [("jsonl", "s"), ("sqlite", "s.sqlite")])
def test_so_it_is_between_processes(tmp_path, kind, name):
    from pure_agent_loop.sessions import SqliteStore

    store = {"jsonl": JsonlStore, "sqlite": SqliteStore}[kind](tmp_path / name)
    _, call_id = asked(store)
    args = [sys.executable, "-c", _ANSWER, kind, str(tmp_path / name), call_id]
    people = [
        subprocess.Popen([*args, said, by], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for said, by in (("allow", "ann"), ("deny", "bob"), ("allow", "eve"))
    ]
    for person in people:
        person.stdout.readline()
    for person in people:
        person.stdin.write("\n")
        person.stdin.flush()
    found = [json.loads(person.communicate()[0]) for person in people]
    (accepted,) = [each for each in found if "accepted" in each]
    winner = ("ann", "bob", "eve")[found.index(accepted)]
    at = store.read("s").records[-1].time
    late = [each for each in found if each is not accepted]
    assert late == [{"by": winner, "answer": accepted["accepted"], "at": at}] * 2


def test_an_answer_is_taken_once(new_store):
    store = new_store()
    desk, call_id = asked(store)
    sessions = SessionManager(store)
    with pytest.raises(ConfigError, match="by=' ' must be a person's name"):
        sessions.answer("s", call_id, "allow", by=" ")
    sessions.answer("s", call_id, "allow", by="ann")
    before = sessions.load("s").records
    for said, by in (
        ("deny", "ann"),
        ("allow", "ann"),
        ("allow", None),
        (Permission("allow", always=True), "bob"),
    ):
        with pytest.raises(
            AlreadyAnsweredError, match=r"has no pending question: ann already answered 'allow'"
        ):
            sessions.answer("s", call_id, said, by=by)
    assert sessions.load("s").records == before
    desk.look(store)
    with pytest.raises(AlreadyAnsweredError, match="ann already answered"):  # also once the run has gone on
        sessions.answer("s", call_id, "allow", by="ann")


def test_of_results_made_elsewhere_the_first_counts(new_store):
    store = new_store()
    far = Tool(
        None,
        name="far",
        description="Is made elsewhere.",
        parameters={"type": "object", "properties": {}},
        external=True,
    )
    agent = Agent(llm=ScriptedLLM([call("far"), "Done."]), tools=[far], sessions=store)
    agent.run("go", session_id="s")
    sessions = SessionManager(store)
    call_id = sessions.open_calls("s")[0].id
    found = race([lambda text=text: sessions.give_result("s", call_id, text, by=text) for text in "abc"])
    winner = "abc"[found.index(None)]
    late = [error for error in found if error is not None]
    assert [(error.by, error.answer, error.what) for error in late] == [(winner, winner, "result")] * 2
    result = agent.run(None, session_id="s")
    assert [each["content"] for each in result.messages if each["role"] == "tool"] == [winner]


def _fork(store, folder):
    return SessionManager(store).fork("s")


def _fork_of_a_fork(store, folder):
    sessions = SessionManager(store)
    return sessions.fork(sessions.fork("s"), new_id="second")


def _rewind(store, folder):
    return SessionManager(store).fork("s", 1)


def _copy(store, folder):
    shutil.copy(folder / "s.jsonl", folder / "copied.jsonl")
    return "copied"


def _import(store, folder):
    with store.open("imported") as log:
        for record in store.read("s").records:
            log.append(record.type, record.data)
    return "imported"


@pytest.mark.parametrize("way", [_fork, _fork_of_a_fork, _rewind, _copy, _import])
def test_a_copy_asks_again(tmp_path, way):
    store = JsonlStore(tmp_path)
    desk, call_id = asked(store)
    sessions = SessionManager(store)
    sessions.answer("s", call_id, "allow")
    copy = way(store, tmp_path)
    assert [question.call_id for question in sessions.questions(copy)] == [call_id]
    again = desk.agent(store).run(None, session_id=copy)
    assert (again.stop_reason, sum(desk.started.values())) == ("waiting_permission", 0)
    desk.look(store)
    assert sum(desk.started.values()) == 1
    sessions.answer(copy, call_id, "deny")
    desk.agent(store).run(None, session_id=copy)
    assert desk.started[("put", 1)] == 1


def test_copy_repeats_the_question_of_an_allowed_call_while_another_is_pending(tmp_path):
    """One answer is part of the state there: a person at work has allowed one call, and left the other."""
    ran = []

    @tool
    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return "paid"

    store = JsonlStore(tmp_path)

    def agent(**options):
        model = ScriptedLLM([[call("pay", n=1), call("pay", n=2)], "Done."], strict=False)
        return Agent(llm=model, tools=[pay], sessions=store, permission_mode="ask", **options)

    ask = {"on_ask": lambda request: Permission("allow" if request.args["n"] == 1 else "ask")}
    agent(**ask).run("go", session_id="s")
    sessions = SessionManager(store)
    assert [question.args["n"] for question in sessions.questions("s")] == [2]
    copy = sessions.fork("s")
    assert [question.args["n"] for question in sessions.questions(copy)] == [1, 2]
    assert not ran


def test_copy_of_a_started_round_asks_nothing(tmp_path):
    store = JsonlStore(tmp_path)
    desk, call_id = asked(store)
    SessionManager(store).answer("s", call_id, "allow")
    records = []

    def mark(line):
        desk.marks.append(line)
        records[:] = store.read("s").records

    desk.finish(store, mark=mark)
    with store.open("cut") as log:  # as it was while the call was at work
        log.adopt(records)
    copy = SessionManager(store).fork("cut")
    assert SessionManager(store).questions(copy) == []


def test_new_task_denies_open_questions_and_awaits_accepted_answers(new_store):
    store = new_store()
    desk, call_id = asked(store)
    sessions = SessionManager(store)
    sessions.answer("s", call_id, "allow")
    with pytest.raises(ConfigError, match="'s' has a call that was allowed but has not run: put"):
        desk.agent(store).run("Task: something else.", session_id="s")
    desk.look(store)
    assert desk.started[("put", 1)] == 1

    other = new_store()
    desk, call_id = asked(other)
    sessions = SessionManager(other)
    result = desk.agent(other).run("Task: something else.", session_id="s")
    told = [event.content for event in result.events if event.type is EventType.NOTICE]
    assert "The new task denied calls that waited for approval in 's': put." in told
    with pytest.raises(ConfigError, match="has no pending question") as unknown:
        sessions.answer("s", f"not {call_id}", "allow")
    assert not isinstance(unknown.value, AlreadyAnsweredError)
    with pytest.raises(AlreadyAnsweredError, match="a new task already answered 'deny' at") as late:
        sessions.answer("s", call_id, "allow", by="ann")
    run = [record for record in sessions.load("s").records if record.type == "run"][-1]
    assert (late.value.answer, late.value.by, late.value.at) == ("deny", "a new task", run.time)
    assert not desk.started


def test_locked_session_after_an_answer_means_that_another_process_resumes_it(new_store):
    for _ in range(10):
        answer_together(new_store())


def answer_together(store):
    """Three people answer the three questions of a run at once, and each tries to resume it."""
    desk, _ = asked(store, "three calls")
    sessions = SessionManager(store)

    def person(call_id):
        sessions.answer("s", call_id, "allow", by="ann")
        try:
            return desk.look(store).stop_reason
        except SessionLockedError:
            return "locked"

    found = race([lambda each=each: person(each.call_id) for each in sessions.questions("s")])
    assert set(found) <= {"waiting_permission", "locked"}, found
    assert desk.started == {("put", 1): 1, ("again", 2): 1, ("put", 3): 1}
    assert [question.args for question in sessions.questions("s")] == [{"n": 4}]


def test_an_answer_without_a_name_is_of_this_account(tmp_path):
    store = JsonlStore(tmp_path)
    _, call_id = asked(store)
    SessionManager(store).answer("s", call_id, "allow")
    with pytest.raises(AlreadyAnsweredError) as raised:
        SessionManager(store).answer("s", call_id, "allow")
    assert "@" in raised.value.by


def test_threads_that_come_at_once_get_one_lock_to_open_a_session():
    """A dictionary of weak values gave them two, one time in some hundred."""
    rounds, threads = 3_000, 4
    gate, got = threading.Barrier(threads), [[] for _ in range(rounds)]

    def come():
        for number in range(rounds):
            gate.wait()
            got[number].append(opening_lock(f"session {number}"))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert race([come] * threads) == [None] * threads
    finally:
        sys.setswitchinterval(before)
    assert [len(set(map(id, locks))) for locks in got] == [1] * rounds


def test_a_run_is_never_locked_out_by_answers_of_its_process(new_store):
    """Late answers look, the last one is written, and the run begins in between."""
    for _ in range(10):
        begin_among_answers(new_store())


def begin_among_answers(store):
    desk, call_id = asked(store, "three calls")
    sessions = SessionManager(store)
    _, *others = sessions.questions("s")
    for question in others:
        sessions.answer("s", question.call_id, "allow")
    late = [lambda: sessions.answer("s", others[0].call_id, "allow")] * 3
    *_, result = race([lambda: sessions.answer("s", call_id, "allow"), *late, lambda: desk.look(store)])
    assert not isinstance(result, Exception), result
