"""What an audit log writes, and what it does when it cannot."""

from __future__ import annotations

import hashlib
import os
import stat
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import KEY, NASTY, call, files, fill, lines, make_log

from processes import python
from pure_agent_loop import ConfigError
from pure_agent_loop.audit import AuditError, AuditLog, default_redaction, history, verify
from pure_agent_loop.kernel.observers import CallRecord

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits and modes of files")


def test_call_is_logged_as_two_lines_with_actor_tool_and_outcome(tmp_path):
    log = make_log(tmp_path / "log", user="ada", notes={"mode": "auto"})
    call(
        log, "write", "wrote", args={"path": "a"}, reason="a rule", call_id="c1", step=3, agent="w", task="do"
    )
    begun, ended = lines(log)
    common = {"user": "ada", "pid": os.getpid(), "agent": "w", "session": "s", "step": 3, "call": "c1"}
    for line in (begun, ended):
        assert line.items() >= {**common, "tool": "write"}.items()
    about = {
        "verdict": "allow",
        "reason": "a rule",
        "task": "do",
        "args": {"path": "a"},
        "notes": {"mode": "auto"},
    }
    assert begun.items() >= {"n": 1, "kind": "call", **about}.items()
    digest = hashlib.sha256(b"wrote").hexdigest()
    assert ended.items() >= {"n": 2, "of": 1, "status": "ok", "seconds": 0.25, "result": "wrote"}.items()
    assert (ended["result_sha256"], ended["result_length"]) == (digest, 5)


@posix_only
def test_only_this_user_may_read_it(tmp_path):
    log = fill(tmp_path / "new" / "log", 1)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.path.iterdir()} == {0o600}


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=40) | st.just(NASTY) | st.just('"}\n{"n":1'), min_size=1, max_size=4))
def test_no_text_can_forge_a_line(tmp_path_factory, texts):
    log = make_log(tmp_path_factory.mktemp("log"), keep_results=True)
    for text in texts:
        fields = {"args": {text: text}, "reason": text, "task": text, "agent": text, "call_id": text}
        call(log, text, text, session_id=text, **fields)
    data = files(log)[0].read_bytes()
    assert set(data) <= {10, *range(32, 127)}
    assert len(lines(log)) == 2 * len(texts)
    assert verify(log).ok
    found = history(log)
    assert [entry.result for entry in found] == [
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts
    ]


def test_long_things_are_cut_and_can_still_be_recognised(tmp_path):
    log = make_log(tmp_path / "log")
    long = "x" * 50_000
    call(log, long, long, args={"text": long, "many": "y"}, task=long, reason=long)
    call(log, args={str(number): "z" * 100 for number in range(1_000)})
    entry, wide = history(log)
    digest = hashlib.sha256(long.encode()).hexdigest()
    assert entry.args["text"].items() >= {"sha256": digest, "length": 50_000}.items()
    assert entry.args["many"] == "y"
    assert (entry.result_sha256, entry.result_length) == (digest, 50_000)
    assert len(entry.result) < 2_100
    assert wide.args["length"] > 100_000
    assert max(map(len, files(log)[0].read_bytes().splitlines())) < 20_000


def test_results_need_not_be_kept(tmp_path):
    log = make_log(tmp_path / "log", keep_results=False)
    call(log, text="private")
    assert b"private" not in files(log)[0].read_bytes()
    assert history(log)[0].result_length == 7


def test_secrets_are_taken_out_before_anything_is_cut(tmp_path):
    secret = "canary-0123456789"
    log = make_log(
        tmp_path / "log", redact=lambda v: eval(repr(v).replace(secret, "***")), notes={"n": secret}
    )
    text = "x" * 1_325 + secret + "y" * 5_000  # the cut would go through it
    call(log, text=text, args={"a": text, secret: [secret]}, task=secret, reason=secret)
    data = files(log)[0].read_bytes()
    assert b"canary" not in data
    assert b"***" in data


def test_value_with_a_failed_redaction_is_left_out(tmp_path):
    def broken(value):
        raise RuntimeError("canary")

    log = make_log(tmp_path / "log", redact=broken)
    call(log, text="canary", args={"a": "canary"}, task="canary")
    assert b"canary" not in files(log)[0].read_bytes()
    assert b"RuntimeError" in files(log)[0].read_bytes()


def test_the_default_takes_out_the_values_of_secret_variables(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "canary-0123456789")
    redact = default_redaction()
    assert redact({"a": ["x canary-0123456789 y"]}) == {"a": ["x [secret:SOME_API_KEY removed] y"]}


def test_notes_may_depend_on_the_call_and_may_fail(tmp_path):
    call(make_log(tmp_path, notes=lambda record: {"tool": record.tool}), "a")
    call(make_log(tmp_path, notes=lambda record: 1 / 0), "b")
    first, second = history(tmp_path)
    assert first.notes == {"tool": "a"}
    assert "ZeroDivisionError" in second.notes["notes"]


def test_a_new_file_carries_the_chain_on(tmp_path):
    log = fill(tmp_path / "log", 20, file_bytes=2_000)
    assert len(files(log)) > 5
    assert verify(log).lines == 40
    assert [line["n"] for line in lines(log)] == list(range(1, 41))
    firsts = [path.read_bytes().splitlines()[0] for path in files(log)[1:]]
    lasts = [path.read_bytes().splitlines()[-1] for path in files(log)]
    for last, first in zip(lasts, firsts, strict=False):
        assert last[-66:-2] in first


def test_log_is_continued_only_with_the_same_key(tmp_path):
    fill(tmp_path / "keyed", 1, key=KEY)
    fill(tmp_path / "open", 1)
    for folder, key in (("keyed", ""), ("keyed", KEY + "!"), ("open", KEY)):
        before = sorted((p.name, p.read_bytes()) for p in (tmp_path / folder).iterdir())
        with pytest.raises(AuditError, match="PAL_AUDIT_KEY"):
            fill(tmp_path / folder, 1, key=key)
        assert sorted((p.name, p.read_bytes()) for p in (tmp_path / folder).iterdir()) == before


def test_the_key_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_AUDIT_KEY", KEY)
    log = AuditLog(tmp_path)
    call(log)
    assert verify(tmp_path).keyed
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"key": "short"}, {"file_bytes": 0}, {"result_chars": True}])
def test_impossible_setting_is_reported_at_once(tmp_path, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AuditLog(tmp_path, **wrong)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match="file") as caught:
        call(make_log(tmp_path / "file" / "log"))
    assert caught.value.fix in str(caught.value)


FULL = """
import resource, sys
from logs import call, make_log
from pure_agent_loop.audit import AuditError
from pure_agent_loop.kernel.observers import CallRecord
log = make_log(sys.argv[1], durable=True)
for _ in range(3):
    call(log)
size = (log.path / "audit-000001.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
for _ in range(3):
    try:
        log.begin(CallRecord("act", {}, "allow"))
    except AuditError as error:
        print(error)
"""


@posix_only
def test_full_disk_is_reported_and_the_log_stays_valid(tmp_path):
    done = python(FULL, str(tmp_path / "log"))
    assert done.stdout.count("log: File too large. Free space") == 3, done.stderr
    found = verify(tmp_path / "log", key="")
    assert (found.ok, found.lines, found.notes) == (True, 6, ())
    fill(tmp_path / "log", 1)
    assert verify(tmp_path / "log", key="").ok


def test_another_process_may_write_between_a_call_and_its_result(tmp_path):
    log = fill(tmp_path / "log", 1)
    record = CallRecord("act", {}, "allow")
    log.begin(record)
    code = "import sys; from logs import fill; fill(sys.argv[1], 2)"
    assert python(code, str(log.path)).returncode == 0
    log.end(record, "late", "ok", 1.0)
    assert verify(log).lines == 8
    assert [entry.result for entry in history(log, tool="act")] == ["late"]
