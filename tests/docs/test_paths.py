"""The three reading lists of docs/architecture.md hold what a reader has to open, in order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pure_agent_loop

ROOT = Path(pure_agent_loop.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PATHS = ("a tool call", "a request", "a question to `pal`")
MAX_FILES = 12


def files_on(path: str) -> list[str]:
    """Return the files of a list, in reading order."""
    section = PAGE.read_text(encoding="utf-8").partition(f"### Path of {path}\n")[2]
    return re.findall(r"^\| `([\w/]+\.py)` \|", re.split(r"^#", section, flags=re.M)[0], flags=re.M)


def public_definitions(file: str) -> set[str]:
    """Return the public functions and classes of a module."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    body = ast.parse((ROOT / file).read_bytes()).body
    return {node.name for node in body if isinstance(node, definitions) and not node.name.startswith("_")}


def words_of(file: str) -> set[str]:
    return set(re.findall(r"\w+", (ROOT / file).read_text(encoding="utf-8")))


def strangers_in(files: list[str]) -> list[str]:
    """Return the files that no file above them leads to."""
    above: set[str] = words_of(files[0])
    strangers = []
    for file in files[1:]:
        if not public_definitions(file) & above:
            strangers.append(file)
        above |= words_of(file)
    return strangers


@pytest.mark.parametrize("path", PATHS)
def test_path_fits_on_a_page_and_each_file_is_named_above(path):
    files = files_on(path)
    assert 5 < len(files) <= MAX_FILES
    assert len(set(files)) == len(files)
    assert strangers_in(files) == []


@pytest.mark.parametrize("path", PATHS)
def test_functions_in_the_table_exist(path):
    section = PAGE.read_text(encoding="utf-8").partition(f"### Path of {path}\n")[2]
    table = re.split(r"^#", section, flags=re.M)[0]
    for file, about in re.findall(r"^\| `([\w/]+\.py)` \| (.*) \|$", table, flags=re.M):
        first = re.match(r"`(\w+(?:\.\w+)?)`", about)
        if first is not None:
            assert set(first[1].split(".")) <= words_of(file), (file, first[1])


def test_file_that_nothing_leads_to_is_found():
    assert strangers_in(["kernel/loop.py", "kernel/calls.py", "llm/prices.py"]) == ["llm/prices.py"]
