"""The options of `make test` and `make lowest`: failed tests run alone once more, and files run in part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reruns import MOST
from tests.sampling import CASES

ROOT = Path(__file__).parents[1]
FLAKY = """
from pathlib import Path
def test_flaky():
    mark = Path(__file__).with_name("mark")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first
"""
BROKEN = "def test_broken():\n    assert False\n"
FINE = "def test_fine():\n    pass\n"


def run_pytest(folder, text, *options, **variables):
    """Run a file of tests in a folder with our plugins; returns the exit status and the output."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.reruns", "tests.sampling"]\n')
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_one.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", **variables},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_failure_that_passes_alone_is_named_and_forgiven(tmp_path):
    status, output = run_pytest(tmp_path, FLAKY + FINE, "--rerun-failed", "-n", "1")
    assert (status, "flaky: test_one.py::test_flaky" in output) == (0, True), output
    assert "1 failed, 1 passed" in output


def test_failure_that_fails_alone_is_a_failure(tmp_path):
    status, output = run_pytest(tmp_path, FLAKY + BROKEN, "--rerun-failed")
    assert (status, "flaky: test_one.py::test_flaky" in output) == (1, True), output
    assert "flaky: test_one.py::test_broken" not in output


def test_failure_without_the_option_is_not_repeated(tmp_path):
    status, output = run_pytest(tmp_path, FLAKY)
    assert (status, "flaky" in output.replace("test_flaky", "")) == (1, False), output


def test_many_failures_are_not_repeated(tmp_path):
    texts = [
        FLAKY.replace("test_flaky", f"test_{n}").replace('"mark"', f'"mark{n}"') for n in range(MOST + 1)
    ]
    status, output = run_pytest(tmp_path, "".join(texts), "--rerun-failed")
    assert (status, "flaky: " in output) == (1, False), output


def test_broken_file_is_not_forgiven(tmp_path):
    status, output = run_pytest(tmp_path, "import nothing_of_this_name\n", "--rerun-failed")
    assert status == pytest.ExitCode.INTERRUPTED, output


def test_sample_takes_as_many_cases_and_others_with_another_seed(tmp_path):
    text = 'import pytest\n@pytest.mark.parametrize("n", range(100))\ndef test_it(n):\n    pass\n'
    chosen = []
    for seed in ("1", "2"):
        status, output = run_pytest(
            tmp_path, text, "--sample", "test_o", "--collect-only", "-q", PAL_SEED=seed
        )
        assert status == 0, output
        chosen.append({line for line in output.splitlines() if "::" in line})
    assert [len(cases) for cases in chosen] == [CASES, CASES]
    assert chosen[0] != chosen[1]


def test_sample_of_other_files_changes_nothing(tmp_path):
    status, output = run_pytest(tmp_path, FINE + BROKEN, "--sample", "other/")
    assert (status, "1 failed, 1 passed" in output) == (1, True), output
