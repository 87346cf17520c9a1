"""What `pal serve` logs, and what it answers to probes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading

import httpx2
import pytest
from tests import forked
from tests.durable.test_in_production import LINE, asked

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.server import create_app
from pure_agent_loop.testing import ScriptedLLM

AGENTS = """
from pure_agent_loop import Agent
agents = {"a": Agent(model="m", base_url="http://127.0.0.1:9/v1", api_key="x")}
"""
TOKEN = "brought-by-the-operator-0123456789"
PATIENCE = 60.0


@pytest.fixture
def served(tmp_path):
    """A function that starts `pal serve` with options; it gives the process, its URL and its first lines."""
    (tmp_path / "served.py").write_text(AGENTS)
    about = {"PAL_SERVER_TOKEN": TOKEN, "PAL_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    started = []

    def start(*words):
        command = [
            sys.executable,
            "-m",
            "pure_agent_loop",
            "serve",
            "--agents",
            "served:agents",
            "--port",
            "0",
        ]
        pipes = {"stderr": -1, "text": True, "cwd": tmp_path}
        process = forked.Popen([*command, *words], env={**os.environ, **about}, **pipes)
        started.append(process)
        patience, lines = threading.Timer(PATIENCE, process.kill), []
        patience.start()
        while not (lines and "full access" in lines[-1]):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        patience.cancel()
        return process, re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))[0], lines

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def rest_of(process):
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1].splitlines(keepends=True)
    assert process.returncode == 0, said
    return said


def test_lines_of_text_have_time_and_level_and_a_request_is_json(served, tmp_path):
    process, url, lines = served("--access-log", "--database", f"sqlite:///{tmp_path}/d.sqlite")
    while " worker " not in "".join(lines):  # its child
        lines.append(process.stderr.readline())
    assert asked(f"{url}/live") == (200, "ok\n")
    assert asked(f"{url}/ready") == (200, "ready\n")
    assert asked(f"{url}/metrics")[0] == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    metrics = httpx2.get(f"{url}/metrics", headers=headers, timeout=PATIENCE).text
    assert "pal_workers 1\n" in metrics
    assert "pal_database_up 1\n" in metrics
    lines += rest_of(process)
    requests = [json.loads(line) for line in lines if line.startswith("{")]
    assert [each["path"] for each in requests] == ["/live", "/ready", "/metrics", "/metrics"]
    assert [line for line in lines if not line.startswith("{") and not LINE.fullmatch(line)] == []
    assert "server started: version " in "".join(lines)
    assert TOKEN not in "".join(lines)


def test_every_line_of_json_is_an_object(served, tmp_path):
    process, url, lines = served("--access-log", "--log-format", "json")
    assert asked(f"{url}/ready") == (200, "ready\n")
    found = [json.loads(line) for line in lines + rest_of(process)]
    assert [each["event"] for each in found if "event" in each] == [
        "serve_started",
        "serve_at",
        "serve_link",
        "serve_stopping",
        "command_stopped",
    ]
    assert (found[0]["database"], found[0]["agents"]) == (str(tmp_path), "a")
    (request,) = [each for each in found if each["message"] == "request"]
    assert (request["path"], request["status"], request["level"]) == ("/ready", 200, "info")


def test_the_models_that_a_person_may_choose_are_options(served):
    _, url, _ = served("--allow-model", "grand", "--allow-model", "small")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    (agent,) = httpx2.get(f"{url}/api/agents", headers=headers, timeout=PATIENCE).json()["agents"]
    assert agent["models"] == ["m", "grand", "small"]


def test_models_for_an_agent_with_its_own_client_are_refused_when_the_app_is_made(tmp_path):
    agents = {"fixed": Agent(llm=ScriptedLLM([])), "free": Agent("m", base_url="http://127.0.0.1:9/v1")}
    with pytest.raises(ConfigError, match=r"chosen for fixed, which was made with llm="):
        create_app(agents, folder=tmp_path, models=["grand"])
    create_app(agents["free"], folder=tmp_path, models=["grand"])


def test_a_server_whose_database_is_gone_is_not_ready(served, tmp_path):
    path = tmp_path / "d.sqlite"
    process, url, lines = served("--database", f"sqlite:///{path}")
    path.rename(tmp_path / "elsewhere.sqlite")
    assert asked(f"{url}/ready") == (503, "the database does not answer\n")
    assert asked(f"{url}/live")[0] == 200
    process.kill()
    said = "".join(lines) + process.communicate(timeout=PATIENCE)[1]
    assert "Traceback" not in said
    assert "Not ready: " in said
