"""Every example and every Python block of the documentation is executed, against a real scripted server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llm_client_conformance import ScriptedServer
from pure_agent_loop.testing import assert_replays
from tests import forked
from tests.docs.example_scripts import EXAMPLES, SCRIPTS, path_of, run_example, stripped, written_output
from tests.obliging import obliging

ROOT = Path(__file__).parents[2]
MAX_LINES = 80  # of an example, without the output below it
# They bring a script of their own, for people without a key.
MIGRATED = sorted(
    f"{path.parent.name}.{path.stem}" for path in EXAMPLES.glob("from_*/*.py") if path.stem != "__init__"
)
DOCUMENTS = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PLACES = {  # where each block stands first: Chinese guides have the programs of the English ones
    code: f"{document.relative_to(ROOT).as_posix()}-{number}"
    for document in reversed(DOCUMENTS)
    for number, code in enumerate(BLOCK.findall(document.read_text(encoding="utf-8")), 1)
}
BLOCKS = [pytest.param(code, id=place) for code, place in sorted(PLACES.items(), key=lambda item: item[1])]


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code as a program of its own with a scripted server as its provider."""
    with ScriptedServer(handler=obliging) as server:
        env = {
            **os.environ,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "k",
            "PYTHONWARNINGS": "error",
            "PYTHONPATH": str(ROOT),  # programs of a clone may use its benchmarks
            **({"PAL_HOME": str(folder / "home")} if "session" in code else {}),  # they write there
        }
        done = forked.run([sys.executable, "-c", code], env=env, cwd=folder, text=True, timeout=120)
        server.assert_clean()
    for session in (folder / "home" / "sessions").glob("*.jsonl"):  # what was recorded can be replayed
        assert_replays(session)
    return done


def test_every_example_has_a_script():
    flat = {path.stem for path in EXAMPLES.glob("*.py")} - {"__init__", "models"}
    assert flat == {name for name in SCRIPTS if "/" not in name}
    assert len(flat) >= 24
    assert len(MIGRATED) >= 20


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_example_prints_its_documented_output(name, tmp_path):
    path = path_of(name)
    assert run_example(path, tmp_path, SCRIPTS[name]).stdout == written_output(path)
    assert written_output(path)
    code = path.read_text(encoding="utf-8").partition("\n# Output:\n")[0]
    assert "/" in name or code.count("\n") < MAX_LINES


def test_every_example_is_in_the_index_with_one_line():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^]]+\]\(([\w/.]+)\): \S.*$", index, re.M)
    flat = {path_of(name).name for name in SCRIPTS if "/" not in name}
    folders = {f"{path.parent.name}/" for path in EXAMPLES.glob("*/__init__.py")}
    assert sorted(links) == sorted(flat | folders)


def run_migrated(name, *arguments, **environ):
    keyless = {name: each for name, each in os.environ.items() if not name.startswith(("OPENAI_", "PAL_"))}
    argv, agreement = [sys.executable, "-W", "error", "-m", f"examples.{name}", *arguments], "\n" * 20
    return forked.run(argv, agreement, env={**keyless, **environ}, cwd=ROOT, text=True, timeout=120)


@pytest.mark.parametrize("name", MIGRATED)
def test_migrated_example_prints_its_documented_output_without_a_key(name):
    done = run_migrated(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert stripped(done.stdout) == written_output(EXAMPLES / f"{name.replace('.', '/')}.py")


@pytest.mark.parametrize("name", ["from_langgraph.supervisor", "from_smolagents.plan_customization"])
def test_a_migrated_example_runs_on_a_model_that_was_named(name):
    with ScriptedServer(handler=obliging) as server:
        done = run_migrated(name, "--model", "m", "--base-url", server.base_url, OPENAI_API_KEY="k")
        server.assert_clean()
    assert done.returncode == 0, done.stderr
    assert len(server.requests) > 1


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_of_the_documentation_runs(code, tmp_path, request, monkeypatch):
    if "DATABASE_URL" in code:
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("postgres").new_database())
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_first_program_without_a_key_prints_three_ways(name, tmp_path):
    code = BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))[0]
    keyless = {name: each for name, each in os.environ.items() if not name.startswith(("OPENAI_", "PAL_"))}
    env = {**keyless, "HOME": str(tmp_path), "PAL_HOME": str(tmp_path / "home")}
    done = forked.run([sys.executable, "-c", code], env=env, cwd=tmp_path, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(
        r"^  (\d)\. (Set OPENAI_API_KEY|Start a local|Download|Install)", done.stdout, re.M
    ) == [
        ("1", "Set OPENAI_API_KEY"),
        ("2", "Start a local"),
        ("3", "Download"),
    ]


def test_recorded_block_is_replayed(tmp_path):
    code = "from pure_agent_loop import Agent\nAgent(model='m').run('hi', session_id='seen')"
    assert run_python(code, tmp_path).returncode == 0
    assert (tmp_path / "home" / "sessions" / "seen.jsonl").stat().st_size > 0


def test_the_documents_have_blocks():
    assert len(BLOCKS) >= 7
