"""The built wheel in an empty environment: what it brings, and what it says when nothing is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLOSURE = """
import json, re
from importlib.metadata import distributions, requires
from importlib.metadata import distribution

def name(text):
    return re.sub(r"[-_.]+", "-", text).lower()

installed = {name(each.metadata["Name"]) for each in distributions()}
found, waiting = set(), ["openai"]
while waiting:
    current = name(waiting.pop())
    if current in found or current not in installed:
        continue
    found.add(current)
    for line in requires(current) or ():
        if "extra ==" not in line:
            waiting.append(re.match(r"[\\w.-]+", line).group())
print(json.dumps({"installed": sorted(installed), "closure": sorted(found)}))
"""
QUIET = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env={**QUIET, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment in which nothing but the wheel was installed."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = run(python, "-m", "pip", "install", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
    return python


def test_the_wheel_holds_the_types_and_nothing_but_the_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "pure_agent_loop/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"pure_agent_loop"}


def test_the_core_brings_openai_and_what_openai_brings(core):
    done = run(core, "-c", CLOSURE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours = set(found["installed"]) - {"pip", "setuptools"}
    assert ours == {*found["closure"], "pure-agent-loop"}


def test_without_key_server_and_extra_an_agent_says_what_to_do(core):
    code = "from pure_agent_loop import Agent\nprint(Agent().run('hi').error)"
    done = run(core, "-c", code, OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert (done.returncode, done.stderr) == (0, "")
    for way in ("OPENAI_API_KEY", "local server", "pip install '.[local]'"):
        assert way in done.stdout


def test_without_key_server_and_extra_the_command_says_what_to_do(core):
    done = run(core.parent / "pal", "run", "hi", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr
    assert "pip install '.[local]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_and_both_commands_are_the_same(core):
    version = run(core, "-m", "pure_agent_loop", "--version").stdout
    assert version.startswith("pure-agent-loop ")
    for name in ("pal", "pure-agent-loop"):
        assert run(core.parent / name, "--version").stdout == version
