"""Scheduled runs with real workers: deliveries of each kind, heartbeats, the command line, and death."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest
from tests.durable.fleet import Fleet

from pure_agent_loop.durable import Schedule, heartbeat, to_command, to_file, to_session
from pure_agent_loop.sessions.cost import expenses_of, totals_by

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
COPY = (
    "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + ' '.join(sorted(os.environ)) + chr(10))"
)
SECOND_TIME = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
if not path.exists():
    path.touch()
    sys.exit('not yet')
print('now')
"""
OPEN = ("due", "running", "answered", "delivering")
HANG = "import sys, time; open(sys.argv[1], 'a').write('begun\\n'); time.sleep(600)"
DIE = """
import os, signal, sys
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.schedules.firings import Firings
from pure_agent_loop.durable.schedules.posting import post_to_file
url, owner, run_id, writes = sys.argv[1:]
firings = Firings(Client(Database(url)), owner)
parcel = firings.claim(run_id)
if writes == "yes":
    assert post_to_file(parcel, lambda detail: firings.record_progress(run_id, detail)).state == "delivered"
os.kill(os.getpid(), signal.SIGKILL)
"""
TAKE_IN_AND_DIE = """
import os, signal, sys
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.schedules.firings import Firings
Firings(Client(Database(sys.argv[1])), "host-1-gone").collect()
os.kill(os.getpid(), signal.SIGKILL)
"""


def now(fleet, until, name, deliver=None, prompt="put 1", **options):
    """Run a schedule once, and wait for what comes of it."""
    schedules = fleet.engine.schedules
    made = Schedule(name, "worker", prompt, every=86_400, deliver=deliver, **options)
    schedules.add(made, replace=True)
    schedules.run_now(name)
    return ended(fleet, until, name)


def ended(fleet, until, name):
    def look():
        last = fleet.engine.schedules.get(name).last
        return last if last is not None and last.state not in OPEN else None

    return until(look)


def test_to_a_file(working, until):
    path = working.folder / "answers.md"
    for _ in range(2):
        firing = now(working, until, "file", to_file(path))
        assert (firing.state, firing.answer, firing.detail) == ("delivered", "Did 1.", str(path))
    assert path.read_text() == "Did 1.\nDid 1.\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    now(working, until, "file", to_file(path, append=False))
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("Did 1.\n", 0o644)
    assert [each.name for each in working.folder.glob(".answers*")] == []


def test_costs_are_summed_by_schedule(working, until):
    for _ in range(2):
        now(working, until, "costly")
    totals = totals_by("schedule", expenses_of(working.engine.sessions))
    assert totals["costly"].requests >= 2
    assert totals["costly"].tokens > 0


def test_to_a_command(working, until, monkeypatch):
    path = working.folder / "copied"
    firing = now(working, until, "copy", to_command([sys.executable, "-c", COPY, str(path)]))
    assert (firing.state, firing.detail, firing.tries) == ("delivered", "exit code 0", 1)
    answer, names = path.read_text().rsplit("Did 1.", 1)[0], path.read_text().split()
    assert answer == ""
    assert "HOME" in names
    assert not [each for each in names if each.startswith("PAL_")]


def test_a_command_that_fails_is_tried_again(working, until):
    argv = [sys.executable, "-c", SECOND_TIME, str(working.folder / "flag")]
    firing = now(working, until, "again", to_command(argv))
    assert (firing.state, firing.detail, firing.tries) == ("delivered", "exit code 0\nnow", 2)
    firing = now(working, until, "never", to_command(["false"], retries=0))
    assert (firing.state, firing.detail, firing.tries) == ("undelivered", "exit code 1", 1)
    firing = now(working, until, "missing", to_command(["no-such-program"], retries=0))
    assert firing.state == "undelivered"


def test_a_command_that_takes_too_long_is_not_repeated(working, until):
    marks = working.folder / "slow"
    argv = [sys.executable, "-c", HANG, str(marks)]
    firing = now(working, until, "slow", to_command(argv, timeout=2))
    assert (firing.state, firing.tries) == ("unknown", 1)
    assert "2 s" in firing.detail
    assert marks.read_text() == "begun\n"


def test_to_a_session_once(working, until):
    first = working.engine.submit("worker", "put 30", session_id="chat").result(60)
    firing = now(working, until, "note", to_session("chat"), prompt="put 31, put 32")
    assert firing.state == "delivered"
    for task in ("put 33", "put 34"):
        info = working.engine.submit("worker", task, session_id=first.session_id).result(60)
        assert info.status == "completed"
    notices = [each for each in working.server.requests[-1].messages if firing.run_id in str(each["content"])]
    assert len(notices) == 1
    assert "Did 2." in notices[0]["content"]
    assert working.engine.database.rows("SELECT run FROM @notices") == []


def test_a_heartbeat(working, until):
    file, path = working.folder / "HEARTBEAT.md", working.folder / "beats"
    schedules = working.engine.schedules
    schedules.add(heartbeat("beat", "worker", file, deliver=to_file(path)))
    seen = []
    for text in (None, " \n", "beat", "put 40"):
        if text is not None:
            file.write_text(text)
        schedules.run_now("beat")
        seen.append(ended(working, until, "beat").state)
    assert seen == ["empty", "empty", "quiet", "delivered"]
    assert path.read_text() == "Did 1.\n"


def test_the_command_line(working, until):
    path = working.folder / "typed.md"
    done = working.pal(
        *("schedule", "add", "typed", "--every", "1", "--agent", "worker"),
        *("--prompt", "put 50", "--to-file", str(path), "--overlap", "queue"),
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "typed: next at 2" in done.stderr
    until(lambda: path.exists() and path.read_text().startswith("Did 1.\n"))
    assert "paused" in working.pal("schedule", "pause", "typed").stderr
    until(lambda: "delivered" in working.pal("schedule", "show", "typed").stdout)  # recorded after the file
    shown = working.pal("schedule", "show", "typed").stdout
    rows = [line for line in shown.splitlines() if "schedule.typed.2" in line]
    assert rows
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+]00:00  [a-z]+ +schedule", row) for row in rows), (
        rows
    )
    (found,) = [each for each in working.pal_json("schedule", "list")["schedules"] if each["name"] == "typed"]
    assert (found["enabled"], found["next"], found["every"]) == (False, None, 1.0)
    listed = working.pal("schedule", "list").stdout
    assert re.search(r"; last [a-z]+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+]00:00\n", listed), listed
    assert working.pal_json("schedule", "run", "typed")["run_id"].startswith("schedule.typed.now-")
    assert working.pal("schedule", "resume", "typed").returncode == 0
    assert working.pal("schedule", "remove", "typed").returncode == 0
    assert working.pal("schedule", "show", "typed").returncode == 1
    bad = working.pal("schedule", "add", "other", "--agent", "worker", "--cron", "x", "--prompt", "a")
    assert (bad.returncode, "1 fields, but needs 5" in bad.stderr) == (2, True)
    for words in (["--every", "soon", "--prompt", "a"], ["--every", "5m"]):
        assert working.pal("schedule", "add", "other", *words).returncode == 2
    assert json.loads(working.pal("schedule", "list", "--json").stdout)["schema_version"] == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_workers_run_each_time_once(kind, tmp_path, until, request):
    url = request.getfixturevalue("postgres").url if kind == "postgres" else ""
    with Fleet(tmp_path, url) as fleet:
        starting = [fleet.begin(), fleet.begin()]
        for each in starting:
            fleet.ready(each)
        schedules, path = fleet.engine.schedules, tmp_path / "copied"
        copy = to_command([sys.executable, "-c", COPY, str(path)])
        schedules.add(Schedule("often", "worker", "put 1", every=1, deliver=copy, overlap="queue"))

        def delivered():
            return [each for each in schedules.runs("often", 100) if each.state == "delivered"]

        until(lambda: len(delivered()) >= 1)
        fleet.end(starting[0], signal.SIGKILL)
        until(lambda: len(delivered()) >= 3)
        schedules.pause("often")
        until(lambda: all(each.state not in OPEN for each in schedules.runs("often", 100)))
        listed = schedules.runs("often", 100)
        assert len({each.due for each in listed}) == len(listed)
        found = [each for each in listed if each.state != "skipped"]  # a worker may look too late
        assert {each.state for each in found} <= {"delivered", "unknown"}
        sure = sum(each.state == "delivered" for each in found)
        assert sure <= path.read_text().count("Did 1.") <= len(found)  # the kill may have hit a delivery
        assert fleet.marks().count("end 1") <= len(found) + 1
        schedules.remove("often")


def test_death_while_it_is_delivered(fleet, until):
    fleet.start()
    schedules = fleet.engine.schedules
    paths = {name: fleet.folder / name for name in ("sure", "unsure", "written", "unwritten")}
    hang = [sys.executable, "-c", HANG]
    plans = {
        "sure": to_command([*hang, str(paths["sure"])], idempotent=True),
        "unsure": to_command([*hang, str(paths["unsure"])]),
        "written": to_file(paths["written"]),
        "unwritten": to_file(paths["unwritten"]),
    }
    for name in ("written", "unwritten"):
        paths[name].mkdir()  # so that it is tried, and not delivered yet
    for name, deliver in plans.items():
        schedules.add(Schedule(name, "worker", "put 1", every=86_400, deliver=deliver))
        schedules.run_now(name)
    until(lambda: paths["sure"].exists() and paths["unsure"].exists())
    until(lambda: all(schedules.get(name).last.tries for name in ("written", "unwritten")))
    fleet.end(fleet.workers[0], signal.SIGKILL)
    for name, writes in (("written", "yes"), ("unwritten", "no")):
        paths[name].rmdir()
        run_id = schedules.get(name).last.run_id
        owner = f"{socket.gethostname()[:40]}-1-{name}"
        command = [sys.executable, "-c", DIE, fleet.database, owner, run_id, writes]
        assert subprocess.run(command, env=fleet.environment, check=False).returncode == -signal.SIGKILL
        assert schedules.get(name).last.state == "delivering"
    fleet.start()
    assert ended(fleet, until, "unsure").state == "unknown"
    assert ended(fleet, until, "written").state == ended(fleet, until, "unwritten").state == "delivered"
    assert paths["written"].read_text() == paths["unwritten"].read_text() == "Did 1.\n"
    until(lambda: paths["sure"].read_text() == "begun\nbegun\n")
    assert paths["unsure"].read_text() == "begun\n"
    fleet.end(fleet.workers[1], signal.SIGKILL)


@pytest.mark.parametrize("dies_again", [False, True])
def test_death_between_the_end_of_a_run_and_its_delivery(dies_again, fleet, until):
    fleet.start()
    schedules, path = fleet.engine.schedules, fleet.folder / "answers.md"
    schedules.add(Schedule("gap", "worker", "put 1", every=86_400, deliver=to_file(path)))
    run_id = schedules.run_now("gap")
    until(lambda: "end 1" in fleet.marks())
    fleet.end(fleet.workers[0], signal.SIGKILL)  # at the last request, the end, or the taking in
    if dies_again:
        fleet.start()
        assert fleet.engine.handle(run_id).result(60).status == "completed"
        fleet.end(fleet.workers[1], signal.SIGKILL)
        command = [sys.executable, "-c", TAKE_IN_AND_DIE, fleet.database]
        assert subprocess.run(command, env=fleet.environment, check=False).returncode == -signal.SIGKILL
        assert schedules.get("gap").last.state in ("answered", "delivering", "delivered")
    fleet.start()
    assert ended(fleet, until, "gap").state == "delivered"
    assert path.read_text() == "Did 1.\n"
    assert fleet.marks() == ["start 1", "end 1"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_files_come_with_each_run_as_they_are_then(kind, tmp_path, until, request):
    picture, paper = tmp_path / "p.png", tmp_path / "a.pdf"
    picture.write_bytes(PNG)
    paper.write_bytes(b"%PDF-1.4 first")
    url = request.getfixturevalue("postgres").url if kind == "postgres" else ""
    with Fleet(tmp_path, url) as fleet:
        fleet.start()
        for words in ("first", "second"):
            paper.write_bytes(f"%PDF-1.4 {words}".encode())
            assert now(fleet, until, "media", media=[picture, str(paper)]).state == "done"
            text, image, file = fleet.server.requests[-1].messages[1]["content"]
            assert (text["type"], image["type"]) == ("text", "image_url")
            data = file["file"]["file_data"].partition("base64,")[2]
            assert base64.b64decode(data) == paper.read_bytes()
        picture.unlink()
        failed = now(fleet, until, "media", media=[picture, str(paper)])
        assert (failed.state, str(picture) in failed.detail) == ("failed", True)
        added = ("--agent", "worker", "--every", "1h", "--attach", str(paper))
        fleet.pal_json("schedule", "add", "--database", fleet.database, "m", "--prompt", "put 1", *added)
        assert fleet.engine.schedules.get("m").schedule.media == (str(paper),)
        fleet.engine.schedules.remove("m")
        fleet.engine.schedules.remove("media")
