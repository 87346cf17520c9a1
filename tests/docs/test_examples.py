"""Every example and every Python block of the documentation is executed, against a real scripted server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.testing import ScriptedServer, assert_replays
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
    "bank_support.py": "Oslo (risk: low)",
    "translators.py": "asks to_spanish",
    "text_to_sql.py": "(completed after 2 steps)",
    "map_reduce.py": "3. You said: A joke about the rain.",
    "review.py": "The tool says: 'Oslo' is published",
}
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
            **({"PURE_AGENT_LOOP_HOME": str(folder / "home")} if "session" in str(code_or_path) else {}),
        }
        arguments = [str(code_or_path)] if isinstance(code_or_path, Path) else ["-c", code_or_path]
        done = subprocess.run(
            [sys.executable, *arguments],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        server.assert_clean()
    for session in (folder / "home" / "sessions").glob("*.jsonl"):  # what was recorded can be replayed
        assert_replays(session)
    return done


def test_every_example_is_expected():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_runs(name, tmp_path):
    done = run_python(ROOT / "examples" / name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
    assert done.stderr == ""


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
