"""The files of `tests/typing`: what is wrong there is flagged by mypy and by pyright, and nothing else is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests" / "typing").glob("*.py"))
IGNORE = re.compile(r"  # type: ignore.*")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The same files without the comments that keep the checkers silent."""
    folder = tmp_path_factory.mktemp("bare")
    for path in FILES:
        (folder / path.name).write_text(IGNORE.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def marked() -> set[tuple[str, int]]:
    """The lines that say they are wrong."""
    return {
        (path.name, number)
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if IGNORE.search(line)
    }


def output_of(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # 0: nothing was found; more: it did not work
    return done.stdout


def test_mypy_flags_exactly_the_wrong_uses(bare):
    said = output_of(sys.executable, "-m", "mypy", "--no-error-summary", *map(str, sorted(bare.glob("*.py"))))
    flagged = {
        (Path(path).name, int(line)) for path, line in re.findall(r"^(.+?\.py):(\d+): error", said, re.M)
    }
    assert flagged == marked()


def test_pyright_flags_exactly_the_wrong_uses(bare):
    said = output_of(
        sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(bare)
    )
    flagged = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in json.loads(said)["generalDiagnostics"]
        if each["severity"] == "error"
    }
    assert flagged == marked()


def test_there_are_enough_wrong_uses():
    assert len([name for name, _ in marked() if name == "wrong_uses.py"]) >= 60
