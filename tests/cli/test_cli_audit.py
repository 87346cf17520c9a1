"""``pal audit``, end to end: real processes, a real log in a temporary folder."""

from __future__ import annotations

import json
import re
import time

import pytest
from tests.cli.screens import Screen

from pure_agent_loop.audit import AuditLog
from pure_agent_loop.kernel.observers import CallRecord
from pure_agent_loop.testing import ScriptedServer, call

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202e\u2028forged"


@pytest.fixture
def log(pal):
    log = AuditLog(f"{pal.env['PAL_HOME']}/audit", key="", user="ada")
    for tool, status, session in (
        ("read", "ok", "trip"),
        ("write", "error", "trip"),
        (HOSTILE, "denied", ""),
    ):
        record = CallRecord(tool, {"path": HOSTILE}, "allow", session_id=session, task=HOSTILE, call_id="c1")
        log.begin(record)
        log.end(record, f"{status} {HOSTILE}", status, 0.5)
    return log


def test_missing_log_is_reported(pal):
    assert "audit" in pal("audit", "path").stdout
    listed = pal("audit", "list")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert "no audit log yet in" in listed.stderr
    checked = pal("audit", "verify")
    assert checked.returncode == 1
    assert "no audit log yet in" in checked.stderr
    assert pal("audit", "list", "--file", "nowhere").returncode == 2


def test_the_calls_are_listed_and_chosen(pal, log):
    done = pal("audit", "list", TZ="UTC")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.rpartition("  ")[0] for line in lines if not line.startswith(" ")] == ["trip", "no session"]
    assert lines[0].endswith(" +0000")
    calls = [line.split() for line in lines if line.startswith(" ")]
    assert [(each[0], each[1], each[-1][-6:]) for each in calls] == [
        ("✓", "1", "forged"),
        ("✗", "3", "error"),
        ("⊘", "5", "denied"),
    ]
    assert not set("\x1b\r\x07\u202e\u2028") & set(done.stdout)

    def chosen(*words):
        return [
            entry["number"] for entry in json.loads(pal("audit", "list", "--json", *words).stdout)["calls"]
        ]

    assert chosen() == [1, 3, 5]
    assert chosen("--session", "trip") == [1, 3]
    assert chosen("--tool", "write") == [3]
    assert chosen("--status", "denied") == [5]
    assert chosen("--since", "2h") == [1, 3, 5]
    assert chosen("--until", "2h") == []
    assert chosen("--until", "2001-01-31", "--since", "2000-01-31T10:00") == []
    assert chosen("--limit", "1") == [5]
    assert chosen("--text", "ERROR") == [3]
    assert "no matching calls" in pal("audit", "list", "--tool", "x").stderr


def test_calls_are_grouped_by_session_and_show_long_times(pal):
    log = AuditLog(f"{pal.env['PAL_HOME']}/audit", key="", now=lambda: 1e9)
    for session, seconds, status in (("a", 0.9, "ok"), ("b", 1.0, "stopped"), ("a", 72.25, "ok")):
        record = CallRecord("act", {}, "allow", session_id=session)
        log.begin(record)
        log.end(record, "", status, seconds)
    assert pal("audit", "list", TZ="UTC").stdout.splitlines() == [
        "b  2001-09-09 +0000",
        "  ✗      3  01:46:40  act {}  stopped, 1.0 s",
        "a  2001-09-09 +0000",
        "  ✓      1  01:46:40  act {}",
        "  ✓      5  01:46:40  act {}  72.2 s",
    ]


@pytest.mark.parametrize("columns", [120, 80, 40])
@pytest.mark.parametrize(("language", "words"), [("en", "exit code"), ("zh", "退出码")])
def test_a_command_that_failed_shows_its_exit_code(pal, columns, language, words):
    script = [call("shell", command="true && exit 7"), call("shell", command="true"), "Done."]
    with ScriptedServer(script) as server:
        pal.use(server)
        assert pal("run", "--permission-mode", "bypass", "--session", "trip", "go").returncode == 0
    pal.env["PAL_LANG"] = language
    with Screen(pal, "audit", columns=columns) as screen:
        assert screen.end() == 0
    rows = re.split("\n  (?=[✗✓])", screen.all.rstrip())
    title, failed, done = (" ".join(row.split()) for row in rows)
    assert title.startswith("trip ")
    assert re.match("✗ 1 [0-9:]+ shell true &&", failed)
    assert failed.endswith(f"{words} 7")
    assert done.endswith("shell true")
    assert "\x1b[31m✗" in screen.coloured
    assert "exit       7" in pal("audit", "show", "1").stdout
    entries = json.loads(pal("audit", "list", "--json").stdout)["calls"]
    assert [entry["exit_code"] for entry in entries] == [7, 0]
    assert pal("audit", "verify").returncode == 0


@pytest.mark.parametrize(
    "wrong", [["--since", "soon"], ["--limit", "0"], ["--status", "x"], ["--since", "9999999d"]]
)
def test_wrong_words(pal, wrong):
    assert pal("audit", "list", *wrong).returncode == 2


def test_one_call_is_shown(pal, log):
    done = pal("audit", "show", "4")
    assert done.returncode == 0, done.stderr
    for words in ("write", "error", "ada", "trip", "0.500 s", "call       3 (c1)"):
        assert words in done.stdout
    assert not set("\x1b\r\x07\u202e\u2028") & set(done.stdout)
    assert json.loads(pal("audit", "show", "3", "--json").stdout)["call"]["tool"] == "write"
    assert pal("audit", "show", "99").returncode == 2


def test_a_log_is_checked(pal, log):
    done = pal("audit", "verify")
    assert done.returncode == 0
    assert done.stdout.startswith("Intact: 6 lines. Not signed: anyone with write access could alter")
    assert pal("audit", "verify", PAL_LANG="zh").stdout.startswith("完好：6 行。未签名")
    noted = done.stdout.split()[-1]
    assert pal("audit", "verify", "--contains", noted).returncode == 0
    assert pal("audit", "verify", "--contains", "0" * 63 + "1").returncode == 1
    path = log.path / "audit-000001.jsonl"
    assert pal("audit", "verify", "--file", str(path)).returncode == 0
    path.write_bytes(path.read_bytes().replace(b'"write"', b'"wrote"', 1))
    done = pal("audit", "verify")
    assert (done.returncode, done.stdout) == (1, "")
    assert "audit-000001.jsonl, line 3: its hash does not match" in done.stderr
    found = json.loads(pal("audit", "verify", "--json").stdout)
    assert (found["ok"], found["first_problem"]["line"], found["lines"]) == (False, 3, 2)


def test_a_key_is_taken_from_the_environment(pal, log):
    done = pal("audit", "verify", PAL_AUDIT_KEY="k" * 32)
    assert done.returncode == 1
    assert "without a key" in done.stderr
    assert pal("audit", "verify", PAL_AUDIT_KEY="short").returncode == 2


def test_local_dates_are_read_in_the_local_zone(pal, tmp_path):
    moment = time.mktime((2026, 1, 31, 12, 0, 0, 0, 0, -1))
    log = AuditLog(f"{pal.env['PAL_HOME']}/audit", key="", now=lambda: moment)
    log.begin(CallRecord("act", {}, "allow"))
    for words, count in (
        (["--since", "2026-01-31", "--until", "2026-02-01"], 1),
        (["--since", "2026-01-31T13:00"], 0),
    ):
        assert len(json.loads(pal("audit", "list", "--json", *words).stdout)["calls"]) == count


def test_a_home_that_cannot_be_written_holds_no_run_up(pal, tmp_path):
    home = tmp_path / "file"
    home.write_text("no folder")
    with ScriptedServer([call("write_file", path="a.txt", content="hi"), "done"]) as server:
        pal.use(server)
        words = ("--permission-mode", "auto", "--sandbox", "none", "write it")
        done = pal("run", *words, PAL_HOME=str(home))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (pal.workspace / "a.txt").read_text() == "hi"
    lines = done.stderr.splitlines()
    assert sum("cannot be undone" in line for line in lines) == 1
    assert sum("not in the audit log" in line for line in lines) == 1
