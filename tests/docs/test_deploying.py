"""The deployment that the documentation shows: the commands of `deploy/compose.yaml`, run as processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from pure_agent_loop.testing import ScriptedServer, call
from tests.serving import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
TOKEN = "a-token-for-this-deployment-only"


def ask(url, body=None, status=200):
    """Return what an address answers as soon as it does; the process may still be starting."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    until = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as response:
                assert response.status == status
                return response.read().decode()
        except urllib.error.HTTPError as error:
            reason = f"{error.code}: {error.read().decode()}"
        except OSError as error:
            reason = str(error)
        if time.monotonic() > until:
            raise AssertionError(f"{url}: {reason}")
        time.sleep(0.1)


class Process:
    """One service of the file as a process of this machine."""

    def __init__(self, name, folder, variables, port):
        self.port = port
        service = SERVICES[name]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PAL_", "OPENAI_"))}
        for key, value in service["environment"].items():
            env[key] = re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], value)
        env["PAL_DATABASE"] = variables["DATABASE"]
        env["PAL_HOME"] = str(folder / f"{name}-{port}")
        env["OPENAI_BASE_URL"] = variables["MODEL"]
        words = shlex.split(re.sub(r"--health \d+", f"--health {port}", service["command"]))
        words = [word if word != "0.0.0.0" else "127.0.0.1" for word in words]
        words += ["--port", str(port)] if name == "server" else []
        assert words[0] == "pal"
        command = [str(Path(sys.executable).parent / "pal"), *words[1:]]
        self.log = (folder / f"{name}-{port}.log").open("w")
        self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=self.log, stderr=self.log)
        self.url = f"http://127.0.0.1:{port}"

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        self.log.close()
        return code


def test_the_commands_of_the_deployment_run_an_approved_call_once(postgres, tmp_path):
    shutil.copy(DEPLOY / "my_agents.py", tmp_path)

    def model(request):
        if request.messages[-1]["role"] == "tool":
            return f"Done: {request.messages[-1]['content']}"
        return call("refund", order=7)

    with ScriptedServer(handler=model) as provider:
        variables = {
            "DATABASE": postgres.new_database(),
            "MODEL": provider.base_url,
            "OPENAI_API_KEY": "k",
            "POSTGRES_PASSWORD": "unused",
            "PAL_SERVER_TOKEN": TOKEN,
        }
        processes = []
        try:
            workers = SERVICES["worker"]["deploy"]["replicas"]
            for name in ["worker"] * workers + ["server"]:
                processes.append(Process(name, tmp_path, variables, free_port()))
                ask(f"{processes[-1].url}/ready")
            server = processes[-1].url
            run = json.loads(ask(f"{server}/api/runs", {"text": "Refund order 7.", "agent": "helper"}, 201))
            until = time.monotonic() + 120
            while not (waiting := json.loads(ask(f"{server}/api/questions"))["questions"]):
                assert time.monotonic() < until
                time.sleep(0.1)
            answers = f"{server}/api/sessions/{run['session']}/answers"
            ask(answers, {"call_id": waiting[0]["call_id"], "verdict": "allow"})
            while (
                json.loads(ask(f"{server}/api/runs/{run['id'].replace(':', '%3A')}"))["state"] != "completed"
            ):
                assert time.monotonic() < until
                time.sleep(0.1)
            assert "pal_" in ask(f"{processes[0].url}/metrics")
        finally:
            codes = [process.end() for process in processes]
    assert codes == [0] * len(processes)
    lines = [line for path in tmp_path.glob("*.log") for line in path.read_text().splitlines()]
    assert all(json.loads(line)["level"] for line in lines if line.startswith("{"))
    assert len(provider.requests) == 2


@pytest.mark.parametrize("unit", ["pal-worker.service", "pal-serve.service"])
def test_units_run_commands_that_exist(unit):
    (command,) = re.findall(r"^ExecStart=\S+/pal (.*)$", (DEPLOY / unit).read_text(encoding="utf-8"), re.M)
    from pure_agent_loop.cli.parser import parse

    assert parse(shlex.split(command)).agents == "my_agents:agents"
