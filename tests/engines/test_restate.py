"""Agents on a real Restate server: what a kill, a freeze, an answer and changed code leave of a run.

``PAL_KILLS=1000`` sets the number of kills of the campaign; ``make engines`` runs all this.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.engines.restate_engine import ROOT, WITHOUT_ASK, RestateServer, request, server_program
from tests.seeds import repeat_with, seed_of_commit
from tests.serving import free_port

from pure_agent_loop import Agent, ConfigError, LoopLimits, MissingExtraError, Price
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.testing.killed_work import UNKNOWN, told

pytest.importorskip("restate", reason="the extra [restate] is not installed; make engines installs it")
pytestmark = pytest.mark.skipif(
    server_program() is None, reason="no Restate server; make engines installs it"
)

KILLS = int(os.environ.get("PAL_KILLS", "40"))
MANY = 1000
CANCELLED = 6  # rounds of three runs
# A kill takes nothing back from the system: there is no need to wait for a disk.
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def server():
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder, RestateServer(Path(folder)) as started:
        yield started


class Handler:
    """A process that serves the agents, always on the same port; it may be killed and started again."""

    def __init__(self, server, folder):
        self.server, self.folder, self.port, self.process = server, folder, free_port(), None
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self, version="1", **options):
        words = [str(self.port), str(self.folder), version, json.dumps(options)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.restate_agents", *words], env=environment, cwd=ROOT
        )
        self.server.wait_until(lambda: request(f"{self.uri}/health"))

    def begin(self, **options):
        self.start(**options)
        self.server.register(self.uri, force=True)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def marks(self):
        path = self.folder / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, mark):
        self.server.wait_until(lambda: mark in self.marks())


@pytest.fixture
def handler(server, tmp_path):
    made = Handler(server, tmp_path)
    yield made
    made.kill()


def waiting(server, session):
    """Wait until a run waits, and return what it waits for."""
    server.wait_until(lambda: server.status(session)["status"] == "waiting")
    return server.status(session)["waits"]


def test_session_keeps_its_history_and_a_failing_tool_is_called_once(server, handler):
    handler.begin()
    assert (
        server.call("s", "run", {"agent": "work", "task": "Task: go."})["content"] == "Done after 5 rounds."
    )
    done = server.call("s", "run", {"agent": "fails", "task": "Task: fail."})
    assert (done["stop_reason"], done["content"]) == ("completed", "Done.")
    assert handler.marks().count("refuse 1") == 1  # Restate repeats a step that raises
    tasks = [each["content"] for each in server.history("s") if each["role"] == "user"]
    assert tasks == ["Task: go.", "Task: fail."]
    assert server.status("s")["outcome"] == done
    server.call("s", "forget")
    assert server.status("s") == {"status": "new"}


@pytest.mark.parametrize(
    ("handler_name", "body", "status", "words"),
    [
        ("run", {"agent": "nobody", "task": "t"}, 400, "nobody"),
        ("run", {"agent": "ask"}, 400, "task must be text"),
        ("run", {"agent": "ask", "task": "t", "session_id": "other"}, 400, "session_id"),
        ("run", {"agent": "ask", "task": "t", "limits": {"max_cost_per_day": 1.0}}, 400, "max_cost_per_day"),
        ("run", {"agent": "ask", "task": "t", "limits": 5}, 400, "limits"),
        ("run", {"agent": "ask", "task": "t", "limits": {"prices": 5}}, 400, "prices"),
        ("run", {"agent": "ask", "task": "t", "limits": {"prices": {"m": 5}}}, 400, "m"),
        ("run", {"agent": "ask", "task": "t", "limits": {"no_limit": 5}}, 400, "no_limit"),
        ("answer", {"call_id": "c", "verdict": "perhaps", "by": "Ann"}, 400, "perhaps"),
        ("answer", {"call_id": "c", "verdict": "allow"}, 400, "by"),
        ("answer", {"call_id": "c", "verdict": "allow", "by": "Ann"}, 404, "not waiting"),
    ],
)
def test_request_that_cannot_be_in_force_is_refused(server, handler, handler_name, body, status, words):
    handler.begin()
    got, text = server.call("s", handler_name, body)
    assert got == status
    assert words in text


def test_agent_without_a_name_has_that_of_the_service_and_no_limits_are_its_own(server, handler):
    handler.begin()
    done = server.call("named", "run", {"agent": "named", "task": "Task: go.", "limits": None})
    assert (done["content"], handler.marks()) == ("Done.", ["named"])


def test_answer_given_while_the_handler_is_dead_is_used_and_the_first_counts(server, handler):
    handler.begin(inactivity_timeout=0.2)
    run = server.send("asked", agent="ask", task="Task: pay.")
    (question,) = waiting(server, "asked")
    server.wait_until(lambda: server.invocation(run)["status"] == "suspended")  # it costs no process
    handler.kill()
    answers = {}

    def answer(verdict, by):
        body = {"call_id": question["call_id"], "verdict": verdict, "by": by}
        answers[by] = server.call("asked", "answer", body)

    people = [threading.Thread(target=answer, args=each) for each in (("allow", "Ann"), ("deny", "Bob"))]
    for person in people:
        person.start()
    handler.start(inactivity_timeout=0.2)
    for person in people:
        person.join()
    (first,) = [by for by, reply in answers.items() if reply["accepted"]]
    assert all(reply["first"]["by"] == first for reply in answers.values())
    (other,) = waiting(server, "asked")
    late = server.call("asked", "answer", {"call_id": question["call_id"], "verdict": "deny", "by": "Eve"})
    assert not late["accepted"]
    assert late["first"]["by"] == first
    server.call("asked", "answer", {"call_id": other["call_id"], "verdict": "deny", "by": "Ann"})
    assert server.outcome(run)["stop_reason"] == "completed"
    paid = ["pay 1 version 1"] if first == "Ann" else []
    assert handler.marks() == paid


def test_result_from_outside_arrives_across_a_kill(server, handler):
    handler.begin()
    run = server.send("far", agent="outside", task="Task: ask far away.")
    (call,) = waiting(server, "far")
    handler.kill()
    handler.start()
    server.call("far", "give_result", {"call_id": call["call_id"], "result": "from afar", "by": "a plant"})
    assert server.outcome(run)["stop_reason"] == "completed"
    results = [each["content"] for each in server.history("far") if each["role"] == "tool"]
    assert results == ["from afar", "paid 1 by version 1"]
    assert handler.marks() == ["pay 1 version 1"]


def test_run_whose_agent_is_gone_ends_with_an_error(server, handler):
    handler.begin()
    run = server.send("gone", agent="ask", task="Task: pay.")
    (question,) = waiting(server, "gone")
    handler.kill()
    handler.start(version=WITHOUT_ASK)
    server.call("gone", "answer", {"call_id": question["call_id"], "verdict": "allow", "by": "Ann"})
    outcome = server.outcome(run)
    assert outcome["stop_reason"] == "error"
    assert "agent='ask' is not one of" in outcome["error"]
    assert server.call("gone", "run", {"agent": "work", "task": "Task: go."})["stop_reason"] == "completed"


def test_cancelled_run_ends_at_once_and_its_session_continues(server, handler):
    handler.begin()
    run = server.send("c", agent="slow", task="Task: be slow.")
    handler.wait_for("start slow 1")
    assert server.call("c", "cancel")["cancelled"] == run
    assert server.outcome(run)["stop_reason"] == "cancelled"
    handler.kill()  # its tool would wait for ever
    handler.start()
    run = server.send("c", agent="ask", task="Task: pay.")
    waiting(server, "c")
    server.call("c", "cancel")
    assert server.outcome(run)["stop_reason"] == "cancelled"
    (handler.folder / "go 1").touch()
    assert server.call("c", "run", {"agent": "slow", "task": "Task: again."})["stop_reason"] == "completed"
    tasks = [each["content"] for each in server.history("c") if each["role"] == "user"]
    assert tasks == ["Task: be slow.", "Task: pay.", "Task: again."]


def test_cancellation_and_a_kill_at_once_leave_no_run_and_no_session_stuck(server, handler):
    """The server replays the cancellation to the next attempt, which has to come to the same end."""
    handler.begin()
    chance = random.Random(seed_of_commit())
    for number in range(CANCELLED):
        names = [f"{agent}-{number}" for agent in ("work", "ask", "slow")]
        runs = [server.send(name, agent=name.partition("-")[0], task="Task: go.") for name in names]
        time.sleep(chance.uniform(0, 0.15))  # a moment of chance, not a wait for something
        asked = [threading.Thread(target=server.cancel, args=(run,)) for run in runs]
        for thread in asked:
            thread.start()
        handler.kill()
        handler.start()
        for thread in asked:
            thread.join()
        reasons = [server.outcome(run)["stop_reason"] for run in runs]
        assert reasons[1:] == ["cancelled", "cancelled"], repeat_with(__file__, seed_of_commit())
        assert reasons[0] in ("cancelled", "completed")
        for name in names:
            done = server.call(name, "run", {"agent": "work", "task": "Task: again."})
            assert done["stop_reason"] == "completed"


def test_second_attempt_in_the_same_process_does_not_call_again(server, handler):
    """The server is killed during a call; the handler's process and the call's thread live on."""
    handler.begin()
    run = server.send("twice", agent="slow", task="Task: be slow.")
    handler.wait_for("start slow 1")
    server.kill()
    server.start()
    assert server.outcome(run)["stop_reason"] == "completed"
    texts = told(server.history("twice"))
    assert UNKNOWN in texts["slow", 1]
    assert handler.marks().count("start slow 1") == 1


def test_frozen_process_that_wakes_after_the_abort_does_not_call_again(server, handler):
    """The abort timeout cuts the first attempt; the second one begins in the same process."""
    options = {"inactivity_timeout": 0.3, "abort_timeout": 0.3}
    handler.begin(**options)
    run = server.send("frozen", agent="slow", task="Task: be slow.")
    handler.wait_for("start slow 1")
    os.kill(handler.process.pid, signal.SIGSTOP)
    server.wait_until(lambda: (server.invocation(run)["retry_count"] or 0) > 1)
    os.kill(handler.process.pid, signal.SIGCONT)
    assert server.outcome(run)["stop_reason"] == "completed"
    assert UNKNOWN in told(server.history("frozen"))["slow", 1]
    assert handler.marks().count("start slow 1") == 1


def test_call_longer_than_the_timeouts_is_made_once(server, handler):
    options = {"inactivity_timeout": 0.5, "abort_timeout": 0.5}
    handler.begin(**options)
    run = server.send("long", agent="slow", task="Task: be slow.")
    handler.wait_for("start slow 1")
    length = f"SELECT journal_size FROM sys_invocation WHERE id = '{run}'"
    before = server.query(length)[0]["journal_size"]
    server.wait_until(lambda: server.query(length)[0]["journal_size"] > before + 10)  # over 2 seconds
    (handler.folder / "go 1").touch()
    assert server.outcome(run)["stop_reason"] == "completed"
    assert told(server.history("long"))["slow", 1] == "slow 1 is done"
    assert handler.marks().count("start slow 1") == 1


def test_thousand_calls_in_one_run_across_kills_and_changed_code(server, handler):
    handler.begin()
    run = server.send("many", agent="many", task="Task: pay all.")
    for number, share in enumerate((0.2, 0.5, 0.8), 2):
        server.wait_until(lambda share=share: len(handler.marks()) > MANY * share)
        handler.kill()
        handler.start(version=str(number))  # other code, at the same place
    assert server.outcome(run, timeout=300)["stop_reason"] == "completed"
    paid = Counter(line.split()[1] for line in handler.marks())
    texts = told(server.history("many"))
    assert len(texts) == MANY
    assert max(paid.values()) == 1
    for (_, number), text in texts.items():
        assert UNKNOWN in text or (text.startswith(f"paid {number} by") and paid[str(number)] == 1)
    assert sum(UNKNOWN in text for text in texts.values()) <= 3 * 10  # calls that were running at a kill
    assert {line.split()[-1] for line in handler.marks()} == {"1", "2", "3", "4"}


def test_runs_of_one_session_take_turns_in_the_order_of_acceptance(server, handler):
    handler.begin()
    runs = [server.send("turns", agent="work", task=f"Task: {number}.") for number in range(5)]
    assert {server.outcome(run)["stop_reason"] for run in runs} == {"completed"}
    tasks = [each["content"] for each in server.history("turns") if each["role"] == "user"]
    assert tasks == [f"Task: {number}." for number in range(5)]


def test_http_1_is_refused(server, handler):
    """Over it, Restate would end an attempt at each entry, and cut the calls that run."""
    handler.begin()
    status, text = request(f"{handler.uri}/discover")
    assert (status, "HTTP/2" in text) == (505, True)


@pytest.mark.timeout(3600)
def test_killed_handlers_and_servers_double_and_lose_nothing():
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    seed, began = seed_of_commit(), time.monotonic()
    with tempfile.TemporaryDirectory(dir=place) as folder:
        words = [folder, str(KILLS), str(seed)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.engines.kill_handlers", *words],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    print(seen, f"in {time.monotonic() - began:.0f} s")
    assert seen["wrong"] == [], repeat_with("tests/engines/test_restate.py", seed)
    assert seen["kills"] + seen["server kills"] == KILLS


def test_agent_with_a_limit_per_day_is_refused():
    from pure_agent_loop.restate import restate_app

    limits = LoopLimits(max_cost_per_day=1.0, prices={"scripted": Price(1, 1)})
    agent = Agent(llm=ScriptedLLM(["x"]), limits=limits)
    with pytest.raises(ConfigError, match="max_cost_per_day"):
        restate_app(agent)
    with pytest.raises(ConfigError, match="at least one agent"):
        restate_app({})
    with pytest.raises(ConfigError, match="timeouts above 0"):
        restate_app(Agent(llm=ScriptedLLM(["x"])), abort_timeout=0)
    with pytest.raises(ConfigError, match="retry has no option 'delay'"):
        restate_app(Agent(llm=ScriptedLLM(["x"])), retry={"delay": 1})


def test_lambda_is_refused(monkeypatch):
    from pure_agent_loop.restate import restate_app

    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "agents")
    with pytest.raises(ConfigError, match="Lambda"):
        restate_app(Agent(llm=ScriptedLLM(["x"])))


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch):
    from pure_agent_loop.restate import restate_app

    monkeypatch.setitem(sys.modules, "restate", None)
    with pytest.raises(MissingExtraError, match=r"needs the extra \[restate\]"):
        restate_app(Agent(llm=ScriptedLLM(["x"])))
