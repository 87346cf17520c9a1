"""All stores are stores, and their logs logs. Only type checkers read this file; it is never run."""

from __future__ import annotations

from pathlib import Path

from pure_agent_loop import Agent, Journal, MemoryJournal
from pure_agent_loop.sessions import (
    JsonlStore,
    KeyJournal,
    PostgresStore,
    Record,
    SessionLog,
    SessionStore,
    SqliteStore,
    default_store,
)
from pure_agent_loop.testing import check_store, journal_contract


def stores() -> list[SessionStore]:
    return [JsonlStore("a"), SqliteStore(Path("b")), PostgresStore("postgresql:///c"), default_store()]


def logs(
    file: JsonlStore, database: SqliteStore, server: PostgresStore, any_store: SessionStore
) -> list[SessionLog]:
    with any_store.open("s") as log:
        record: Record = log.append("user", {"text": "hi"}, parent=None, durable=True)
        print(record.to_line(), log.records[0].id, log.problems[0], database.read("s", tail=True).records)
    return [
        file.open("s"),
        database.open("s", create=False),
        server.open("s", takeover=True, tail=True),
        any_store.open("s"),
    ]


def rules() -> None:
    check_store(lambda folder: JsonlStore(folder))
    check_store(SqliteStore, rules=["one writer"])


def journals(agent: Agent, records: dict[str, str]) -> list[Journal]:
    agent.run("hi", journal=KeyJournal(records)).content.strip()
    return [KeyJournal(records), MemoryJournal()]


def make_journal(folder: Path) -> Journal:
    return MemoryJournal()


def contracts() -> None:
    kills: dict[str, int] = journal_contract(make_journal, rules=["changed code"], every=2)
    print(kills, journal_contract("my_tests:make_store", survives=False))
