"""Every example and every Python block of the documentation is executed, against a real scripted server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.testing import ScriptedServer, assert_replays
from tests import forked
from tests.obliging import obliging

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "basic.py": "Light rain and 8 degrees in Oslo",
    "streaming.py": "[-> 5.0]",
    "custom_renderer.py": "Looking for 'Oslo'",
    "custom_client.py": "It is 12:00 UTC.",
    "thinking.py": "(thinking) Let me think about that.",
    "conversation.py": "(4 messages in the history)",
    "handoff.py": "(answered by billing, 2 steps)",
    "evaluation.py": "all          2/2",
    "a2a.py": "TASK_STATE_COMPLETED ",
}
# What they say with the script that each brings for people without a key.
MIGRATED = {
    "from_pydantic_ai.bank_support": "Advice(text='Your card is blocked, Ann.', block_card=True, risk=8)",
    "from_pydantic_ai.flight_booking": "AK123 is yours: Seat(row=1, letter='A')",
    "from_pydantic_ai.sql_gen": "Query(sql=\"SELECT * FROM logs WHERE level = 'error'\"",
    "from_pydantic_ai.stream_whales": "Narwhal        4.5 m  ?",
    "from_pydantic_ai.weather_agent": "Wiltshire sun and 9 °C.",
    "from_openai_agents.agents_as_tools": "to_spanish: Hola, mundo.",
    "from_openai_agents.customer_service": "Passenger(flight='FLT-123', confirmation='X1', seat='12A')",
    "from_openai_agents.deterministic": "Unit 7 raised the sail.",
    "from_openai_agents.input_guardrails": "Sacramento.\nI cannot do your homework.",
    "from_openai_agents.llm_as_a_judge": "pass: A detective counts stars, and one is missing.",
    "from_smolagents.agentic_rag": "it takes about twice as long.",
    "from_smolagents.multiple_tools": "convert_currency: 4500.0",
    "from_smolagents.plan_customization": "Green tea is on three pages.",
    "from_smolagents.text_to_sql": "It was Bob. (3 steps)",
    "from_smolagents.web_search_team": "(90 tokens of both)",
    "from_langgraph.map_reduce": "A train walks in.",
    "from_langgraph.plan_and_execute": "Bergen",
    "from_langgraph.reflection": "- A book lends you another life.",
    "from_langgraph.review": "'Oslo' is published",
    "from_langgraph.supervisor": "math: 0.1",
    "from_langgraph.time_travel": "Forget what I said. Who am I?\nWho am I?",
}
_KEEPS = re.compile(r"session|a2a\.py")  # what of them writes into the data folder
DOCUMENTS = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
BLOCKS = [
    pytest.param(code, id=f"{document.relative_to(ROOT).as_posix()}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(BLOCK.findall(document.read_text(encoding="utf-8")), 1)
]


def run_python(code_or_path: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a file, or code, as a program of its own with a scripted server as its provider."""
    with ScriptedServer(handler=obliging) as server:
        env = {
            **os.environ,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "k",
            "PYTHONWARNINGS": "error",
            "PYTHONPATH": str(ROOT),  # programs of a clone may use its benchmarks
            **({"PAL_HOME": str(folder / "home")} if _KEEPS.search(str(code_or_path)) else {}),
        }
        arguments = [str(code_or_path)] if isinstance(code_or_path, Path) else ["-c", code_or_path]
        done = forked.run([sys.executable, *arguments], env=env, cwd=folder, text=True, timeout=120)
        server.assert_clean()
    for session in (folder / "home" / "sessions").glob("*.jsonl"):  # what was recorded can be replayed
        assert_replays(session)
    return done


def test_every_example_is_expected():
    folder, shared = ROOT / "examples", {"__init__.py", "models.py"}
    assert {path.name for path in folder.glob("*.py")} - shared == set(EXPECTED)
    migrated = {f"{path.parent.name}.{path.stem}" for path in folder.glob("*/*.py")}
    assert {name for name in migrated if not name.endswith("__init__")} == set(MIGRATED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_runs(name, tmp_path):
    done = run_python(ROOT / "examples" / name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
    assert done.stderr == ""


def run_migrated(name, *arguments, **environ):
    keyless = {name: each for name, each in os.environ.items() if not name.startswith(("OPENAI_", "PAL_"))}
    argv, agreement = [sys.executable, "-W", "error", "-m", f"examples.{name}", *arguments], "\n" * 20
    return forked.run(argv, agreement, env={**keyless, **environ}, cwd=ROOT, text=True, timeout=120)


@pytest.mark.parametrize("name", sorted(MIGRATED))
def test_a_migrated_example_runs_without_a_key(name):
    done = run_migrated(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert MIGRATED[name] in done.stdout


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


def test_what_a_block_recorded_is_replayed(tmp_path):
    code = "from pure_agent_loop import Agent\nAgent(model='m').run('hi', session_id='seen')"
    assert run_python(code, tmp_path).returncode == 0
    assert (tmp_path / "home" / "sessions" / "seen.jsonl").stat().st_size > 0


def test_the_documents_have_blocks():
    assert len(BLOCKS) >= 7
