"""An engine in the process of its user; and what is said where the extra is missing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading

import psycopg
import pytest

from pure_agent_loop import Agent, ConfigError, Event, MissingExtraError
from pure_agent_loop.durable import DurableError, Engine, Rate
from pure_agent_loop.durable.database import Database, EventClock, EventWriter
from pure_agent_loop.testing import ScriptedLLM

EMBEDDED = """
from dataclasses import dataclass
from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, submit
from pure_agent_loop.testing import ScriptedLLM, call

@dataclass
class Named:
    name: str

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b

agent = Agent(llm=ScriptedLLM([call("add", a=2, b=3), "5."]), tools=[add])
info = submit(agent, "What is 2 + 3?", run_id="sum").result(60)
print(info.status, info.content)
other = Agent(llm=ScriptedLLM(["Hello."]))
print(submit(other, "Greet.", name="greeter").result(60).content)
print(submit(agent, "What is 2 + 3?", run_id="sum").result(60).content)
typed = Agent(llm=ScriptedLLM(["nothing", '{"response": {"name": "Ada"}}']), output_type=[Named, list[int]])
info = submit(typed, "Who?", name="typed").result(60)
print(info.status, info.output)
"""


NO_ROOM = """
import resource
from pathlib import Path
from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine
from pure_agent_loop.testing import ScriptedLLM, call

def limit(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

@tool
def fill() -> str:
    "Fill the disk, but for a little."
    limit(max(each.stat().st_size for each in Path().iterdir()) + 400_000)
    return "x" * 2_000_000

def step(messages, tools, options):
    if messages[-1]["role"] == "user":
        return call("fill")
    limit(resource.RLIM_INFINITY)
    return f"The tool: {'Unknown' in messages[-1]['content']}"

with Engine("sqlite:///d.sqlite", agents={"a": Agent(llm=ScriptedLLM(step), tools=[fill])}) as engine:
    info = engine.submit("a", "Go.").result(60)
print(info.status, info.content, info.error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of that kind")
def test_full_disk_for_a_record_does_not_end_the_run(tmp_path):
    command = [sys.executable, "-c", NO_ROOM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "completed The tool: True \n", done.stderr


def test_one_line_submits_to_an_engine_in_this_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EMBEDDED],
        env={**os.environ, "PAL_DATABASE": f"sqlite:///{tmp_path / 'd.sqlite'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = "completed 5.\nHello.\n5.\ncompleted {'name': 'Ada'}\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert done.stderr == ""


def test_importing_it_loads_no_engine():
    code = "import sys, pure_agent_loop.durable; print({'dbos', 'psycopg', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(MissingExtraError, match=r"\[durable\]"):
        Engine(f"sqlite:///{tmp_path / 'd.sqlite'}").tasks()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"\[durable\]"):
        Engine("postgresql://me@127.0.0.1/name").schedules.list()


def test_impossible_setting_is_rejected_at_once(tmp_path):
    agent = Agent(llm=ScriptedLLM([]))
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    texts = (
        "d.sqlite",
        "sqlite://",
        "sqlite:///\udcff",
        "postgresql://host",
        "postgresql://me:secret@[::1/name",
    )
    for wrong in (*texts, "mysql://me:secret@host/name"):
        with pytest.raises(ConfigError, match="is not a valid URL") as caught:
            Engine(wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="concurrency=0"):
        Engine(url, concurrency=0)
    with pytest.raises(ConfigError, match="is not a valid agent name"):
        Engine(url, agents={"a b": agent})
    with pytest.raises(ConfigError, match="both must be above 0"):
        Rate(0, 1)
    with pytest.raises(ConfigError, match="no agent uses these models: gpt"):
        Engine(url, agents={"a": agent}, rates={"gpt": Rate(1, 1)}).start()


@pytest.mark.parametrize("name", ["with blank", "100%25", "a#b", "ß", "~nobody-of-that-name"])
def test_the_file_is_the_one_that_was_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agents = {"greeter": Agent(llm=ScriptedLLM(["Hello."]))}
    with Engine(f"sqlite:///{name}/d.sqlite", agents=agents) as engine:
        assert engine.submit("greeter", "Greet.").result(60).content == "Hello."
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(
    sys.version_info < (3, 12) or sqlite3.sqlite_version_info >= (3, 42), reason="this SQLite is new enough"
)
def test_a_sqlite_that_is_too_old_is_named(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/d.sqlite", agents={"greeter": Agent(llm=ScriptedLLM([]))})
    with pytest.raises(DurableError, match=r"SQLite 3\.\d+.* 3\.42"), engine:
        pass


def test_a_server_that_never_answered_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asked = []

        def hang_up():
            with contextlib.suppress(OSError):  # it is closed
                while True:
                    asked.append(listening.accept()[0].close())

        listener = threading.Thread(target=hang_up)
        listener.start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        engine = Engine(f"postgresql://me@{host}/name?sslmode=disable&gssencmode=disable")
        with pytest.raises(DurableError, match="is unavailable"):
            engine.schedules.list()
        listening.shutdown(socket.SHUT_RDWR)
        listener.join()
    assert len(asked) == 1


def test_an_engine_that_works_is_not_started_again(tmp_path):
    agents = {"greeter": Agent(llm=ScriptedLLM(["Hello."]))}
    engine = Engine(f"sqlite:///{tmp_path / 'd.sqlite'}", agents=agents)
    engine.start()
    with pytest.raises(ConfigError, match="is already running"):
        engine.start()
    engine.close()
    with Engine(f"sqlite:///{tmp_path / 'e.sqlite'}", agents=agents) as other:  # the first one has stopped
        assert other.submit("greeter", "Greet.").result(60).content == "Hello."


def test_a_closed_engine_has_no_connection_left(postgres, until):
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE closed_engine")

        def others():
            return connection.execute(
                "SELECT application_name, query FROM pg_stat_activity WHERE datname = 'closed_engine'"
            ).fetchall()

        url = postgres.url.replace("/postgres?", "/closed_engine?")
        with Engine(url, agents={"greeter": Agent(llm=ScriptedLLM(["Hello."]))}) as engine:
            assert engine.submit("greeter", "Greet.").result(60).content == "Hello."
            assert others()
        until(lambda: not others())


def test_engine_works_again_in_the_same_event_loop(tmp_path):
    engine = Engine(f"sqlite:///{tmp_path}/d.sqlite", agents={"greeter": Agent(llm=ScriptedLLM(["Hi."] * 2))})

    async def work():
        ready = asyncio.Event()
        working = asyncio.create_task(engine.work(lambda _: ready.set()))
        await ready.wait()
        info = await asyncio.to_thread(engine.submit("greeter", "Greet.").result, 60)
        engine.stop()
        await working
        return info.status, info.error

    async def main():
        return [await work(), await work()]

    with contextlib.closing(engine):
        assert asyncio.run(asyncio.wait_for(main(), 120)) == [("completed", "")] * 2


def test_engine_without_database_rights_does_not_block_others(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE no_rights")
        connection.execute("CREATE ROLE weak LOGIN")
    url = postgres.url.replace("/postgres?", "/no_rights?")
    with Engine(url.replace("//postgres@", "//weak@")) as weak:
        with pytest.raises(DurableError, match="permission denied") as caught:
            weak.schedules.list()
        with Engine(f"{url}&options=-c%20lock_timeout%3D5000") as engine:
            assert engine.schedules.list() == []
    assert caught.value.__cause__ is not None  # which holds what was there when it was raised


def test_events_of_all_runs_share_a_commit_and_one_that_comes_meanwhile_is_written_too(tmp_path):
    written, begun, go_on = [], asyncio.Event(), asyncio.Event()

    async def in_thread(work, rows, whole):
        written.append([(row[0], json.loads(row[5])["data"]["message"]) for row in rows])
        if len(written) == 1:
            begun.set()
            await go_on.wait()
        assert whole == []

    async def main():
        database = Database(f"sqlite:///{tmp_path / 'd.sqlite'}")
        clock = EventClock(database, in_thread)
        writers = [EventWriter(clock, run, "attempt") for run in ("a", "b")]
        for writer in writers:
            writer.add(Event.notice(1, "first", synthetic=True))
        await begun.wait()
        writers[0].add(Event.notice(1, "second", synthetic=True))
        go_on.set()
        while len(written) < 2:
            await asyncio.sleep(0)
        await writers[0].close()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert written == [[("a", "first"), ("b", "first")], [("a", "second")]]
