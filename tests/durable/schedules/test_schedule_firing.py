"""Who fires what, with a clock of the test, on both kinds of database. No worker does the runs here."""

from __future__ import annotations

import itertools
import os
import threading

import psycopg
import pytest

from pure_agent_loop import ConfigError
from pure_agent_loop.durable import DurableError, Engine, Schedule, Schedules, to_session
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.schedules.firings import Firings

COUNT = itertools.count()
START = 1_767_225_600.0  # 2026-01-01, midnight


class Desk:
    """A database, a clock that the test sets, and two workers as far as they look for schedules."""

    def __init__(self, url):
        self.time = START
        self.clients = [Client(Database(url)), Client(Database(url))]
        self.clients[0].queue.register_agents({"worker": "model scripted"})
        self.schedules = Schedules(self.clients[0], self.now)
        self.first, self.second = (
            Firings(each, f"host-{n}-aa", self.now) for n, each in enumerate(self.clients)
        )

    def now(self):
        return self.time

    def add(self, **options):
        self.schedules.add(
            Schedule(**{"name": "a", "agent": "worker", "prompt": "put 1", "every": 300, **options})
        )

    def states(self, name="a"):
        return [(each.due - START, each.state) for each in reversed(self.schedules.runs(name))]


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    if request.param == "postgres":
        name, url = f"desk{next(COUNT)}", request.getfixturevalue("postgres").url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = url.replace("/postgres?", f"/{name}?")
    desk = Desk(url)
    yield desk
    for each in desk.clients:
        each.close()


@pytest.mark.parametrize(
    ("missed", "away", "skipped", "count", "expected"),
    [
        ("skip", 1_300, 1_200, "4", []),
        ("once", 1_300, 900, "3", [1_200]),
        ("all", 1_300, 300, "1", [600, 900, 1_200]),
        ("skip", 1_210, 900, "3", [1_200]),  # the newest is on time
        ("once", 1_210, 900, "3", [1_200]),
        ("skip", 310, None, "", [300]),
        ("once", 400, None, "", [300]),
        ("all", 1_000, None, "", [300, 600, 900]),
        ("skip", 10_002 * 300, 3_000_300, "more than 10000", [3_000_600]),
    ],
)
def test_each_time_without_workers_runs_or_is_recorded(desk, caplog, missed, away, skipped, count, expected):
    desk.add(missed=missed, max_missed=3, overlap="queue", timezone="Europe/Oslo")
    desk.time = START + away
    desk.first.fire()
    record = [] if skipped is None else [(skipped, "skipped")]
    assert desk.states() == [*record, *((at, "due") for at in expected)]
    reason = f"due times left out since 2026-01-01T01:05:00+01:00: {count}"
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        f"Schedule a: {firing.run_id} is skipped: {firing.detail}."
        for firing in desk.schedules.runs("a")
        if firing.detail == f"{reason} (no worker fired them in time; missed={missed!r})"
    ] * len(record)
    assert len(caplog.records) == len(record)
    next_at = desk.schedules.get("a").next
    assert START + away < next_at <= START + away + 300
    desk.second.submit()
    assert desk.states()[len(record) :][:1] == [(at, "running") for at in expected[:1]]
    desk.time = next_at
    desk.first.fire()
    assert desk.states()[-1] == (next_at - START, "due")


def test_a_run_that_a_dead_worker_submitted_counts_with_its_own_prompt(desk, tmp_path):
    file = tmp_path / "prompt.md"
    file.write_text("put 2")
    desk.add(prompt="", prompt_file=str(file))
    desk.time += 300
    (run_id,) = desk.first.fire()
    desk.clients[0].submit("worker", "put 1", run_id=run_id)  # from the file as it was
    desk.second.submit()
    assert desk.states() == [(300, "running")]
    assert desk.clients[1].handle(run_id).info().task == "put 1"


def test_firings_that_end_without_a_run_make_way_for_the_next_in_the_same_look(desk, tmp_path):
    desk.add(prompt="", prompt_file=str(tmp_path / "absent.md"), missed="all", overlap="queue")
    desk.time += 900
    desk.first.look()
    assert desk.states() == [(300, "empty"), (600, "empty"), (900, "empty")]


@pytest.mark.parametrize("missed", ["skip", "once"])
def test_delayed_worker_records_skipped_firings(desk, caplog, missed):
    desk.add(every=2, overlap="queue", missed=missed)
    desk.time += 10
    desk.first.fire()
    assert desk.states() == [(8, "skipped"), (10, "due")]
    (warning,) = caplog.records
    assert "left out since 2026-01-01T00:00:02+00:00: 4 (" in warning.getMessage()
    assert warning.levelname == "WARNING"


def test_a_misspelt_agent_is_named_when_it_is_added_and_when_it_does_not_start(tmp_path, caplog):
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    client = Client(Database(url))
    schedules = Schedules(client, lambda: START)
    schedules.add(Schedule("early", "wroker", "put 1", every=300))
    (record,) = caplog.records
    assert "Schedule early: agent 'wroker' cannot be checked until a worker runs" in record.getMessage()
    client.queue.register_agents({"worker": "model scripted"})
    with pytest.raises(ConfigError, match=r"Unknown agent 'wroker'\. Known agents: worker"):
        schedules.add(Schedule("late", "wroker", "put 1", every=300))
    Firings(client, "host-aa", lambda: START + 300).look()
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert error.getMessage() == (
        "Schedule early: schedule.early.20260101T000500Z did not start: "
        "Unknown agent 'wroker'. Known agents: worker."
    )
    assert schedules.runs("early")[0].state == "failed"
    client.close()


def test_one_of_those_that_look_at_the_same_moment_fires(desk):
    desk.add(overlap="queue")
    fired, barrier = [], threading.Barrier(2)

    def look(firings):
        for _ in range(15):
            barrier.wait(60)
            fired.extend(firings.fire())
            if barrier.wait(60) == 0:
                desk.time += 300
            barrier.wait(60)

    threads = [threading.Thread(target=look, args=(each,)) for each in (desk.first, desk.second)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(fired) == len(set(fired)) == 14
    assert [due for due, _ in desk.states()] == [300.0 * n for n in range(1, 15)]


def test_firing_of_a_dead_worker_is_submitted_by_another(desk):
    desk.add(
        deliver=to_session("chat"),
        prompt='put 1 {"at": "{due}"}',
        cron="0 2 * * *",
        every=None,
        timezone="Europe/Oslo",
    )
    desk.time = START + 3_600
    (run_id,) = desk.first.fire()  # it dies here
    assert run_id == "schedule.a.20260101T010000Z"
    desk.second.look()
    desk.first.submit()
    info = desk.clients[1].queue.info(run_id)
    assert (info.status, info.task) == ("pending", 'put 1 {"at": "2026-01-01T02:00:00+01:00"}')
    assert desk.states() == [(3_600, "running")]
    desk.clients[0].queue.cancel(run_id)
    desk.second.look()
    assert desk.states() == [(3_600, "failed")]
    assert "cancelled" in desk.schedules.get("a").last.detail


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_run_that_has_not_ended(desk, overlap):
    desk.add(overlap=overlap, session="same")
    for _ in range(2):
        desk.time += 300
        desk.first.look()
    second = "skipped" if overlap == "skip" else "due"
    assert desk.states() == [(300, "running"), (600, second)]
    run_id = desk.schedules.runs("a")[-1].run_id
    assert desk.clients[0].queue.info(run_id).session_id == "schedule.a"
    desk.clients[0].queue.cancel(run_id)
    desk.second.look()
    assert desk.states() == [(300, "failed"), (600, "skipped" if overlap == "skip" else "running")]
    desk.time += 300
    desk.second.look()
    assert desk.states()[-1] == (900, "running" if overlap == "skip" else "due")


def test_a_pause_misses_nothing(desk):
    desk.add(missed="all", enabled=False)
    desk.time += 400
    desk.first.look()
    assert desk.schedules.get("a").next is None
    assert desk.schedules.resume("a").next == START + 600
    assert desk.schedules.pause("a").schedule.enabled is False
    desk.time += 600
    run_id = desk.schedules.run_now("a")
    assert desk.schedules.resume("a").next == START + 1_200
    desk.first.look()
    assert desk.states() == [(1_000, "running")]
    assert desk.clients[0].queue.info(run_id).task == "put 1"


def test_changed_schedule_does_not_fire_its_old_form(desk):
    desk.add()
    desk.time += 300
    with pytest.raises(ConfigError, match="replace"):
        desk.add()
    desk.schedules.add(Schedule("a", "worker", "put 2", every=60), replace=True)
    assert desk.first.fire() == []
    desk.schedules.remove("a")
    desk.time += 300
    assert desk.second.fire() == []
    for each in (desk.schedules.get, desk.schedules.remove, desk.schedules.pause, desk.schedules.run_now):
        with pytest.raises(DurableError, match="Schedule 'a' does not exist"):
            each("a")
    with pytest.raises(ConfigError, match="Known agents: worker"):
        desk.add(agent="nobody")


def test_old_ones_are_forgotten(desk):
    desk.add(every=1, overlap="skip")
    for _ in range(120):
        desk.time += 1
        desk.first.fire()
    found = desk.schedules.runs("a", 1_000)
    assert len(found) == 101  # the newest hundred, and the one that has not ended
    assert (found[0].due, found[-1].state) == (START + 120, "due")


def test_one_that_cannot_be_read_here_does_not_keep_the_others(desk, caplog):
    desk.add(name="a")
    desk.add(name="b")
    spec = '{"name": "a", "agent": "worker", "prompt": "x", "cron": "0 9 * * *", "timezone": "No/Where"}'
    desk.clients[0].database.change("UPDATE @schedules SET spec = ? WHERE name = 'a'", spec)
    desk.time += 300
    assert desk.first.fire() == ["schedule.b.20260101T000500Z"]
    assert "No/Where" in caplog.text


@pytest.mark.parametrize("state", ["due", "running", "answered", "delivering"])
def test_firing_of_a_machine_with_an_unknown_zone_is_left_to_it(desk, state):
    desk.add(name="a", deliver=to_session("chat"))
    desk.add(name="b", deliver=to_session("chat"))
    desk.time += 300
    ours, other = desk.first.fire()
    change = desk.clients[0].database.change
    change("UPDATE @firings SET spec = replace(spec, 'UTC', 'No/Where') WHERE run = ?", ours)
    change("UPDATE @firings SET state = ?, owner = 'gone'", state)
    if state == "running":
        for run_id in (ours, other):
            desk.clients[0].submit("worker", "x", run_id=run_id)
            desk.clients[0].queue.cancel(run_id)
    desk.first.look()
    assert desk.states("a") == [(300, state)]
    assert desk.states("b") == [(300, {"due": "running", "running": "failed"}.get(state, state))]
    assert desk.first.waiting() == ([other] if state == "answered" else [])
    assert [each.run_id for each in desk.first.deliveries_of("gone")] == (
        [other] if state == "delivering" else []
    )


def test_unstorable_schedule_does_not_stop_the_others(desk, tmp_path):
    desk.add(name="odd", prompt="", prompt_file=tmp_path / "\udcff", deliver=to_session("chat"))
    desk.add(name="other")
    desk.time += 300
    odd, _ = desk.first.fire()
    desk.first.submit()
    assert desk.states("odd") == [(300, "empty")]
    assert desk.states("other") == [(300, "running")]

    desk.clients[0].database.change("UPDATE @firings SET state = 'answered' WHERE run = ?", odd)
    assert desk.first.claim(odd) is not None
    desk.first.end(odd, "undelivered", "it wrote \0 and \ud800")  # a command may write anything
    assert desk.schedules.runs("odd")[0].detail == "it wrote \ufffd and \ufffd"
    with pytest.raises(DurableError, match="does not exist"):
        desk.schedules.get("\0\ud800")
    with pytest.raises(DurableError, match="does not exist"):
        desk.clients[0].queue.info("\0\ud800")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_prompt_file_that_would_be_waited_for_is_refused(desk, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    desk.add(prompt="", prompt_file=tmp_path / "pipe")
    desk.add(name="b", media=[tmp_path / "pipe"])
    desk.time += 300
    desk.first.fire()
    desk.first.submit()
    assert "prompt_file=" in desk.schedules.runs("a")[0].detail
    assert f"media={tmp_path / 'pipe'} is not a file" in desk.schedules.runs("b")[0].detail


def test_an_engine_has_the_schedules_of_its_database(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path / 'd.sqlite'}")
    made = Schedule("early", "worker", "put 1", every=60)  # before there is a worker
    assert engine.schedules.add(made).schedule == made
    assert [each.schedule.name for each in engine.schedules.list()] == ["early"]
    engine.close()
