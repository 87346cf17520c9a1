"""Sessions in a real PostgreSQL: its own rules, and what happens when processes or the database die."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import psycopg
import pytest
from tests.helpers import check_result
from tests.sessions.cuts import Whole, check_cut

import pure_agent_loop
from pure_agent_loop import Agent, ConfigError, tool
from pure_agent_loop.errors import SessionLockedError, SessionReadError, SessionWriteError
from pure_agent_loop.sessions import JsonlStore, PostgresStore
from pure_agent_loop.sessions.stores.postgres import PostgresLog
from pure_agent_loop.testing import STORE_RULES, ScriptedLLM, call, check_store
from pure_agent_loop.testing.killed_work import UNKNOWN

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("PAL_POSTGRES_KILLS", "25"))
FROZEN = 10


@pytest.fixture
def url(postgres):
    return postgres.new_database()


@pytest.fixture
def store(url):
    with PostgresStore(url) as made:
        yield made


def texts(store, session_id="s"):
    loaded = store.read(session_id)
    assert loaded.problems == []
    return [record.data["text"] for record in loaded.records]


@pytest.mark.parametrize("rule", STORE_RULES)
def test_it_keeps_the_rule(postgres, rule):
    def make(folder):
        return PostgresStore(postgres.url, schema=f"t{zlib.crc32(str(folder).encode())}", connections=2)

    check_store(make, rules=[rule])


def test_cut_off_behind_some_records_a_run_ends_the_same(url):
    schemas = iter(range(10**6))

    def new_store():
        return PostgresStore(url, schema=f"s{next(schemas)}", connections=2)

    full = Whole(new_store())
    for count in range(1, len(full.records), 15):
        check_cut(full.records[:count], full, new_store)


def writers(*words):
    source = str(Path(pure_agent_loop.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.sessions.stores.postgres_writers", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_anywhere_nothing_acknowledged_is_lost_or_twice(url, tmp_path):
    seen = writers("kill", url, tmp_path, KILLS)
    assert seen["wrong"] == []
    assert seen["recorded"] >= seen["appended"] > KILLS


def test_one_that_was_frozen_writes_nothing_any_more(url, tmp_path):
    seen = writers("freeze", url, tmp_path, FROZEN)
    assert seen == {"wrong": [], "refused": FROZEN, "ended": [0] * FROZEN}


def test_of_two_that_open_at_once_exactly_one_wins(url):
    with PostgresStore(url) as one, PostgresStore(url) as two:
        for number in range(20):
            start, won, lost = threading.Barrier(2), [], []

            def race(store, start=start, won=won, lost=lost, name=f"s{number}"):
                start.wait()
                try:
                    won.append(store.open(name))
                except SessionLockedError as error:
                    lost.append(error)

            threads = [threading.Thread(target=race, args=(each,)) for each in (one, two)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert (len(won), len(lost)) == (1, 1)
            won[0].append("user", {})


def test_takeover_takes_a_session_from_a_live_holder(url):
    with PostgresStore(url, owner="first") as old, PostgresStore(url, owner="second") as new:
        log = old.open("s")
        log.append("user", {"text": "old"})
        with pytest.raises(SessionLockedError, match=r"\(owner first\)"):
            new.open("s")
        with new.open("s", takeover=True) as taken:
            for _ in range(2):
                with pytest.raises(SessionLockedError, match=r"\(owner second\)") as caught:
                    log.append("user", {"text": "late"}, durable=True)
            assert caught.value.pid == os.getpid()
            log.close()  # which does not free what is another's
            assert new.holder("s").is_alive
            taken.append("user", {"text": "new"})
        assert texts(new) == ["old", "new"]


def test_a_store_that_was_closed_lets_go_of_everything(url, store):
    old = PostgresStore(url)
    log = old.open("s")
    old.close()
    with pytest.raises(ConfigError, match="is closed"):
        log.append("user", {})
    store.open("s").close()


def test_restart_between_records_loses_none_and_keeps_the_session_lock(postgres, store, url):
    with store.open("s") as log:
        for number in range(6):
            log.append("user", {"text": number}, durable=number % 3 == 0)
            if number % 2:
                postgres.restart(immediate=True)  # what was not durable was in the server's memory
                with PostgresStore(url) as other, pytest.raises(SessionLockedError):
                    other.open("s")
        log.append("user", {"text": 6}, durable=True)
    assert texts(store) == list(range(7))


def test_a_record_that_was_refused_is_not_there_even_if_it_came_through(postgres, url):
    with PostgresStore(url, patience=0.1) as store, store.open("s") as log:
        log.append("user", {"text": "a"}, durable=True)
        postgres.stop(immediate=True)
        try:
            with pytest.raises(SessionWriteError, match="schema pure_agent_loop"):
                log.append("user", {"text": "b"})
            with pytest.raises(SessionReadError):
                store.read("s")
        finally:
            postgres.start()
        with psycopg.connect(url) as late:  # as if only the answer had been lost
            late.execute(
                "INSERT INTO pure_agent_loop.records SELECT session, number + 1, time, 'b' "
                "FROM pure_agent_loop.records"
            )
        log.append("user", {"text": "c"})
        assert texts(store) == ["a", "c"]


class Deaf(PostgresLog):
    """Each answer of the database is lost once, with the connection."""

    heard = ()

    def _insert_or_verify(self, execute, row):
        super()._insert_or_verify(execute, row)
        if row["before"] not in self.heard:
            self.heard = (*self.heard, row["before"])
            execute("SELECT 1").connection.close()
            raise psycopg.OperationalError("the answer was lost")


def test_a_record_whose_answer_was_lost_is_written_once(store):
    with store.open("s") as log:
        log.__class__ = Deaf
        for number in range(4):
            log.append("user", {"text": number}, durable=number % 2 == 0)
    assert texts(store) == [0, 1, 2, 3]


def test_an_outage_ends_no_run_and_stops_no_other_run(postgres, store, tmp_path):
    """The database comes back only when the other run of the same event loop has ended."""
    away = asyncio.Event()

    @tool
    def unplug() -> str:
        """Stop the database."""
        postgres.stop(immediate=True)
        loop.call_soon_threadsafe(away.set)
        return "It is off."

    async def first():
        llm = ScriptedLLM([call("unplug"), "Done."])
        return await Agent(llm=llm, tools=[unplug], sessions=store).arun("go", session_id="s")

    async def second():
        await away.wait()
        for _ in range(5000):  # meanwhile the first one gets as far as it can
            await asyncio.sleep(0)
        agent = Agent(llm=ScriptedLLM(["Fine."]), sessions=JsonlStore(tmp_path))
        try:
            return await agent.arun("go", session_id="s")
        finally:
            await asyncio.to_thread(postgres.start)

    async def both():
        nonlocal loop
        loop = asyncio.get_running_loop()
        return await asyncio.gather(first(), second())

    loop = None
    one, two = asyncio.run(both())
    assert (check_result(one).content, check_result(two).content) == ("Done.", "Fine.")
    types = [record.type for record in store.read("s").records]
    assert types == [
        "run", "messages", "state", "answer", "intent", "outcome", "parts", "messages", "state", "answer",
        "parts", "messages", "state",
    ]  # fmt: skip


DIES = """
import os, signal, sys
from pure_agent_loop import Agent, tool
from pure_agent_loop.sessions import PostgresStore
from pure_agent_loop.testing import ScriptedLLM, call

@tool
def work(n: int) -> str:
    "Work."
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{n} is done"

llm = ScriptedLLM([call("work", n=1), call("work", n=2)])
Agent(llm=llm, tools=[work], sessions=PostgresStore(sys.argv[1])).run("go", session_id="s")
"""


def test_run_is_resumed_by_another_process(url, store):
    done = subprocess.run([sys.executable, "-c", DIES, url], check=False)
    assert done.returncode == -9
    while store.holder("s").is_alive:
        pass
    ran = []

    @tool
    def work(n: int) -> str:
        """Work."""
        ran.append(n)
        return f"{n} is done"

    result = Agent(llm=ScriptedLLM(["Done."]), tools=[work], sessions=store).run(None, session_id="s")
    assert check_result(result, first_step=2).content == "Done."
    assert ran == []  # the first was finished, and of the second nobody knows
    told = [each["content"] for each in result.messages if each["role"] == "tool"]
    assert told == ["1 is done", told[1]]
    assert UNKNOWN in told[1]


FORKS = """
import os, sys
from pure_agent_loop.errors import ConfigError, SessionLockedError
from pure_agent_loop.sessions import PostgresStore
store = PostgresStore(sys.argv[1])
log = store.open("s")
told, tell = os.pipe()
if os.fork() == 0:
    try:
        log.append("user", {})
    except ConfigError:
        os.write(tell, b"refused ")
    try:
        store.open("s")
    except SessionLockedError:
        os.write(tell, b"locked ")
    store.open("t").append("user", {"text": "child"})
    log.close()
    os.write(tell, b".")
    sys.exit()
output = b""
while not output.endswith(b"."):
    output += os.read(told, 100)
os.wait()
print(output.decode())
log.append("user", {"text": "parent"})
"""


def test_forked_child_has_its_own_connections(url, store):
    quiet = "ignore:This process:DeprecationWarning"  # newer versions of Python warn of forks beside threads
    done = subprocess.run(
        [sys.executable, "-W", quiet, "-c", FORKS, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("refused locked .\n", "")
    assert (texts(store, "s"), texts(store, "t")) == (["parent"], ["child"])


def test_a_damaged_row_is_reported_and_the_rest_kept(url, store):
    with store.open("s") as log:
        for text in "abc":
            log.append("user", {"text": text})
    with psycopg.connect(url) as other:
        other.execute("UPDATE pure_agent_loop.records SET line = replace(line, '\"b\"', '\"x\"')")
    loaded = store.read("s")
    assert [record.data["text"] for record in loaded.records] == ["a", "c"]
    assert "checksum" in loaded.problems[0]


def test_a_later_version_of_the_tables_is_refused(url, store):
    store.list()
    with psycopg.connect(url) as other:
        other.execute("UPDATE pure_agent_loop.version SET number = 2")
    with PostgresStore(url) as later, pytest.raises(SessionReadError, match="Update the package"):
        later.list()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"schema": "Not; safe"}, "schema"),
        ({"lease": 0}, "lease"),
        ({"patience": -1}, "patience"),
        ({"connections": 1}, "connections"),
        ({"url": "nonsense"}, "url"),
    ],
)
def test_impossible_value_is_rejected(options, word):
    with pytest.raises(ConfigError, match=word):
        PostgresStore(**{"url": "postgresql://localhost/x", **options})


def test_unreachable_address_is_reported_at_once_without_the_password(tmp_path):
    store = PostgresStore(f"postgresql://me:secret@/x?host={tmp_path}", patience=1e9)
    with pytest.raises(SessionWriteError) as caught:
        store.open("s")
    assert "secret" not in str(caught.value)
