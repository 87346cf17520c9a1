"""`benchmarks.small_tasks`: grades accept a solution only, and two prompts are compared."""

from __future__ import annotations

import re

import pytest
from benchmarks.small_tasks import TASKS
from tests.benchmark_runs import run_benchmark

from pure_agent_loop.testing import ScriptedServer, call

ANSWERS = {
    "find 1": "shop/dates.py",
    "find 2": "It is port 8137.",
    "find 3": "data/b.csv",
    "find 4": "4",
    "find 5": "Ida, who is 62.",
    "run 1": "test_longest fails.",
    "run 2": "671",
    "run 3": "f0797539",
    "run 4": "34",
    "explain 1": "[1, 2]: the default list is shared by the calls.",
    "explain 2": "retries",
    "explain 3": "beta, gamma, alpha",
    "explain 4": "11",
}
EDITS = {  # regular expression and replacement, by file
    "edit 1": {"README.md": ("recieved", "received")},
    "edit 2": dict.fromkeys(("shop/prices.py", "shop/orders.py"), (r"\bgross\b", "with_tax")),
    "edit 3": {"median.py": (r"return .*", "return (ordered[middle] + ordered[-middle - 1]) / 2")},
    "edit 4": dict.fromkeys(("pyproject.toml", "tool/__init__.py"), (r"1\.4", "1.5")),
    "edit 5": {"clean.py": ("import os\n", "")},
    "edit 6": {"people.json": ("", '["Ada", "Bob"]')},
    "edit 7": {"config.ini": ("info", "debug")},
}


def written(task, folder):
    for name, text in task.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_grade_accepts_a_solution_only(task, tmp_path):
    folder = written(task, tmp_path)
    assert not task.grade(folder, "I do not know.")
    for name, (old, new) in EDITS.get(task.name, {}).items():
        path = folder / name
        path.write_text(re.sub(old, new, path.read_text(), count=0 if old else 1) if path.exists() else new)
    assert task.grade(folder, ANSWERS.get(task.name, "Done."))


def answer(request):
    """Correct the spelling with the longer prompt only."""
    system, *others = request.messages
    is_today = len(system["content"].split()) > 50
    if "spelling" in others[0]["content"] and is_today and others[-1]["role"] == "user":
        return call("edit_file", path="README.md", old_text="recieved", new_text="received")
    return "I do not know."


def test_prompts_are_compared_in_pairs_and_resumed(tmp_path):
    with ScriptedServer(handler=answer) as server:
        words = ("--compare", "--model", "m", "--base-url", server.base_url, "--out", str(tmp_path))
        done = run_benchmark("first_request", *words, "--limit", "4")
        asked = len(server.requests)
        again = run_benchmark("first_request", *words, "--limit", "4")
        assert len(server.requests) == asked
    assert "4 pairs" in done.stdout, done.stdout + done.stderr
    assert re.search(r"^one line +0/4", done.stdout, re.MULTILINE)
    assert re.search(r"^today +1/4", done.stdout, re.MULTILINE)
    assert "edit 1: passed 0 -> 1" in done.stdout
    assert again.stdout == done.stdout
