"""An engine in the process of its user; and what is said where the extra is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pure_agent_loop import Agent, ConfigError, MissingExtraError
from pure_agent_loop.durable import Engine, Rate
from pure_agent_loop.testing import ScriptedLLM

EMBEDDED = """
from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, submit
from pure_agent_loop.testing import ScriptedLLM, call

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
"""


def test_one_line_submits_to_an_engine_in_this_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EMBEDDED],
        env={**os.environ, "PAL_DATABASE": f"sqlite:///{tmp_path / 'd.sqlite'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "completed 5.\nHello.\n5.\n"), done.stderr
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
        Engine("postgresql://me@127.0.0.1/name").agents_known()


def test_what_cannot_work_is_refused_at_once(tmp_path):
    agent = Agent(llm=ScriptedLLM([]))
    url = f"sqlite:///{tmp_path / 'd.sqlite'}"
    for wrong in ("d.sqlite", "sqlite://", "postgresql://host", "mysql://me:secret@host/name"):
        with pytest.raises(ConfigError, match="is no address") as caught:
            Engine(wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="concurrency=0"):
        Engine(url, concurrency=0)
    with pytest.raises(ConfigError, match="cannot name an agent"):
        Engine(url, agents={"a b": agent})
    with pytest.raises(ConfigError, match="Both must be above 0"):
        Rate(0, 1)
    with pytest.raises(ConfigError, match="models that no agent uses: gpt"):
        Engine(url, agents={"a": agent}, rates={"gpt": Rate(1, 1)}).start()
