"""Ctrl-B in a conversation: the run goes on in a worker, the prompt is free, and the answer comes back."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from tests.cli.conversations import idle, leave
from tests.cli.screens import CTRL_B, ENTER

from pure_agent_loop.durable import ENDED, Engine
from pure_agent_loop.testing import answer, call

PATIENCE = 120


class Work:
    """A model server for a task of three commands, and for what a person asks meanwhile."""

    def __init__(self):
        self.begun, self.go, self.bodies = threading.Event(), threading.Event(), []

    def __call__(self, request):
        self.bodies.append(request.body)
        messages = request.body["messages"]
        people = [each["content"] for each in messages if each["role"] == "user"]
        last = [each for each in people if not each.startswith(("[Notice", "[Context"))][-1]
        if last != "work":
            return f"Meanwhile: {last}"
        done = sum(each["role"] == "tool" for each in messages)
        if done == 3:
            return "All three are done."
        if done == 0:
            self.begun.set()
            self.go.wait(PATIENCE)
        return answer("", call("shell", command=f"echo {done + 1} >> effects", changes=True))


@pytest.fixture
def work():
    work = Work()
    yield work
    work.go.set()


def tasks(pal):
    return json.loads(pal("tasks", "--json").stdout)["tasks"]


@pytest.fixture
def worker(pal):
    """Starts a worker as a person does, and waits for the end of a run and the delivery of its answer."""
    started, database = [], f"sqlite:///{pal.env['PAL_HOME']}/durable.sqlite"
    open_firings = "SELECT run FROM @firings WHERE state IN ('running', 'answered', 'delivering')"

    def is_over(process):
        assert process.poll() is None, process.stderr.read()
        (info,) = tasks(pal)
        with closing(Engine(database)) as engine:
            is_delivered = info["status"] not in ENDED or not engine.database.rows(open_firings)
        return info if info["status"] not in ("pending", "running") and is_delivered else None

    def start(*words):
        started.append(pal.start(*(words or ["worker"])))
        ends = time.monotonic() + PATIENCE
        while (info := is_over(started[-1])) is None:
            assert time.monotonic() < ends, tasks(pal)
        return info

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


def lines(pal):
    path = pal.workspace / "effects"
    return path.read_text().split() if path.exists() else []


def let_go(screen, work):
    """Press Ctrl-B while the first request is answered."""
    screen.until(lambda _: work.begun.is_set())
    screen.type(CTRL_B)
    screen.until("Moving to the background")
    work.go.set()


def test_worker_continues_the_run_and_its_answer_is_a_notice(chat, pal, work, worker):
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    let_go(screen, work)
    screen.until("continues in the background as")
    screen.until("No worker is running: start pal worker")
    idle(screen)
    assert lines(pal) in (["1"], ["1", "2"])  # it leaves before one of the next requests
    screen.type("are you free?" + ENTER)
    screen.until("Meanwhile: are you free")
    info = worker()
    assert (info["status"], info["content"]) == ("completed", "All three are done.")
    assert lines(pal) == ["1", "2", "3"]
    screen.type("and now?" + ENTER)
    screen.until("All three are done")
    screen.until("Meanwhile: and now")
    leave(screen)
    body = json.dumps(work.bodies[-1])
    assert body.count("continues in the background, in a copy") == 1
    assert body.count("All three are done.") == 1


def test_open_question_leaves_at_once_and_the_worker_asks_for_each_call(chat, pal, work, worker):
    """The permission mode of the conversation is in force in the worker."""
    work.go.set()
    screen = chat({"handler": work}, "chat", "work")
    screen.until("echo 1 >> effects")
    screen.until("❯ y")
    screen.type(CTRL_B)
    screen.until("continues in the background as")
    idle(screen)
    for number in (1, 2, 3):
        info = worker()
        assert (info["status"], len(lines(pal))) == ("waiting_permission", number - 1)
        (question,) = info["questions"]
        assert question["args"]["command"] == f"echo {number} >> effects"
        assert pal("answer", info["run_id"], question["call_id"], "allow").returncode == 0
    assert worker()["status"] == "completed"
    assert lines(pal) == ["1", "2", "3"]
    leave(screen)


def test_run_that_waits_is_named_at_the_next_message(chat, pal, work, worker):
    work.go.set()
    screen = chat({"handler": work}, "chat", "work")
    screen.until("❯ y")
    screen.type(CTRL_B)
    screen.until("continues in the background as")
    worker()
    screen.type("and now?" + ENTER)
    screen.until("is waiting_permission")
    screen.until("Meanwhile: and now")
    leave(screen)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--no-session"], "this conversation is not recorded"),
        (["--functions", "own.py"], "cannot use these settings of this conversation: --functions"),
        (
            ["--max-cost-per-day", "5", "--price", "1,1"],
            "cannot use these settings of this conversation: --max-cost-per-day",
        ),
        (["--mcp-config", "own.json"], "cannot use these settings of this conversation: MCP"),
    ],
)
def test_run_stays_and_the_setting_is_named(chat, pal, work, words, reason):
    (pal.workspace / "own.py").write_text("def own() -> str:\n    'Own.'\n    return 'own'\n")
    server = {"command": "python", "args": ["-c", "import time; time.sleep(600)"]}
    (pal.workspace / "own.json").write_text(json.dumps({"mcpServers": {"own": server}}))
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", *words, "work")
    screen.until(lambda _: work.begun.is_set())
    screen.type(CTRL_B)
    screen.until("The run stays here")
    work.go.set()
    screen.until("All three are done")
    assert reason in " ".join(screen.all.split())
    assert lines(pal) == ["1", "2", "3"]
    leave(screen)
    assert tasks(pal) == []


def test_database_that_rejects_the_run_leaves_it_here(chat, pal, work):
    assert tasks(pal) == []  # creates the tables
    with closing(sqlite3.connect(f"{pal.env['PAL_HOME']}/durable.sqlite")) as database:
        full = "CREATE TRIGGER full BEFORE INSERT ON pal_runs BEGIN SELECT RAISE(ABORT, 'it is full'); END"
        database.execute(full)
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    let_go(screen, work)
    screen.until("The run stays here")
    screen.until("All three are done")
    assert "it is full" in screen.all
    assert lines(pal) == ["1", "2", "3"]
    leave(screen)


@pytest.mark.parametrize("environ", [{"PAL_MODEL": "another"}, {"PAL_LANG": "zh"}])
def test_worker_with_another_model_or_language_does_not_run_it(chat, pal, work, worker, environ):
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "--language", "en", "work")
    let_go(screen, work)
    screen.until("continues in the background as")
    before = lines(pal)
    pal.env.update(environ)
    info = worker()
    assert info["status"] == "failed"
    assert lines(pal) == before
    screen.type("and now?" + ENTER)
    screen.until("is failed")
    leave(screen)


def test_conversation_killed_before_its_run_leaves_resumes(chat, pal, work):
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    screen.until(lambda _: work.begun.is_set())
    screen.type(CTRL_B)
    screen.until("Moving to the background")
    screen.kill()
    work.go.set()
    screen = chat({"handler": work}, "-c", "--permission-mode", "auto")
    screen.until("Resuming the interrupted run")
    screen.until("All three are done")
    assert (tasks(pal), lines(pal)) == ([], ["1", "2", "3"])
    leave(screen)


def test_conversation_killed_after_its_run_has_left_does_not_resume(chat, pal, work, worker):
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    let_go(screen, work)
    screen.until("continues in the background as")
    screen.kill()
    server = screen.server
    screen = chat({"handler": work}, "-c", "--permission-mode", "auto")
    screen.until("> Ask")
    assert "Resuming" not in screen.all
    again = pal("run", "-c")
    assert "cannot be resumed here" in " ".join(again.stderr.split())
    pal.use(server)  # the worker has the model of the conversation
    assert worker()["status"] == "completed"
    assert lines(pal) == ["1", "2", "3"]
    screen.type("and now?" + ENTER)
    screen.until("All three are done")
    screen.until("Meanwhile: and now")
    leave(screen)


def test_run_leaves_a_conversation_in_a_database(chat, pal, work, worker):
    pal.env["PAL_DATABASE"] = f"sqlite:///{pal.env['PAL_HOME']}/durable.sqlite"
    test_worker_continues_the_run_and_its_answer_is_a_notice(chat, pal, work, worker)


def test_server_on_the_database_executes_the_run(chat, pal, work, worker):
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    let_go(screen, work)
    screen.until("continues in the background as")
    url = f"sqlite:///{pal.env['PAL_HOME']}/durable.sqlite"
    assert worker("serve", "--port", "0", "--database", url)["status"] == "completed"
    assert lines(pal) == ["1", "2", "3"]
    leave(screen)


def test_deleted_run_does_not_come_back(chat, pal, work):
    """The conversation takes new tasks, and does not resume the run."""
    screen = chat({"handler": work}, "chat", "--permission-mode", "auto", "work")
    let_go(screen, work)
    screen.until("continues in the background as")
    (info,) = tasks(pal)
    assert pal("cancel", info["run_id"]).returncode == 0
    url = f"sqlite:///{pal.env['PAL_HOME']}/durable.sqlite"
    assert pal("sessions", "delete", "--yes", info["session_id"], "--database", url).returncode == 0
    screen.type("and now?" + ENTER)
    screen.until("Meanwhile: and now")
    leave(screen)
    assert "cannot be resumed" not in screen.all
