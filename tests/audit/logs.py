"""Audit logs for tests: made by the real writer, read as bytes."""

from __future__ import annotations

import json
from pathlib import Path

from pure_agent_loop.audit import AuditLog
from pure_agent_loop.kernel.observers import CallRecord

KEY = "a key of sixteen or more"
NASTY = 'a"b\\c\r\n\u2028\u2029\x85\x00\x1b[2J\x7fé\U0001f600'


def make_log(path, **options) -> AuditLog:
    return AuditLog(path, **{"key": "", "redact": lambda value: value, "durable": False, **options})


def call(log: AuditLog, tool: str = "act", text: str = "done", status: str = "ok", **more) -> None:
    """One call, before and after."""
    given = {
        "args": {"x": 1},
        "behavior": "deny" if status == "denied" else "allow",
        "session_id": "s",
        **more,
    }
    record = CallRecord(tool, **given)
    log.begin(record)
    log.end(record, text, status, 0.25)


def fill(path, calls: int = 10, **options) -> AuditLog:
    log = make_log(path, **options)
    for number in range(calls):
        call(
            log, f"tool{number % 3}", f"result {number}{NASTY}", args={"x": number, "text": NASTY}, task=NASTY
        )
    return log


def files(log: AuditLog) -> list[Path]:
    return sorted(log.path.glob("audit-*.jsonl"))


def lines(log: AuditLog) -> list[dict]:
    """Every line, parsed as any reader of JSON lines would."""
    return [json.loads(line) for path in files(log) for line in path.read_text("utf-8").splitlines()]
