"""The comparison: its commands exist, and no figure stands at two places with different values."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
LIBRARIES = ("here", "pydantic-ai", "openai-agents", "LangGraph", "smolagents")


def table(text: str, heading: str) -> dict[str, list[str]]:
    """Rows of the first table under a heading, by their first cell; the head under ""."""
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = re.search(r"(?:^\|.*\n)+", section, re.M)
    assert lines, heading
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[0].splitlines()]
    return {row[0]: row[1:] for row in rows if set(row[1]) - set("-:")}


def figures(cells: list[str]) -> list[list[str]]:
    return [NUMBER.findall(cell) for cell in cells]


def test_each_command_of_the_page_exists():
    commands = re.findall(r"`python -m ([\w.]+)([^`]*)`", PAGE)
    assert len(commands) >= 4
    for module, words in commands:
        spec = find_spec(module)
        assert spec is not None, module
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        for word in re.findall(r"(?<= )(?:--)?[a-z]+", words):
            assert f'"{word}"' in source, (module, word)
    for path in re.findall(r"`(benchmarks/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).is_file()


@pytest.mark.parametrize(
    ("name", "heading"), [("README.md", "Comparison"), ("README.zh.md", "与其他框架相比")]
)
def test_the_table_of_a_readme_is_that_of_the_page(name: str, heading: str):
    written = table((ROOT / name).read_text(encoding="utf-8"), heading)
    wanted = table(PAGE, "In short")
    if name == "README.md":
        assert written == wanted
    assert [figures(cells) for cells in written.values()] == [figures(cells) for cells in wanted.values()]
    bold = [[cell.startswith("**") for cell in cells] for cells in written.values()]
    assert bold == [[cell.startswith("**") for cell in cells] for cells in wanted.values()]


@pytest.mark.parametrize(
    ("short", "heading", "long", "part"),
    [
        (
            "CPU time per step, relative to a hand-written loop",
            "Costs",
            "one step in a run of 50, CPU µs",
            r"\((.*)\)",
        ),
        (
            "CPU time to a process's first answer, ms",
            "Costs",
            "until the first answer of a process, CPU ms",
            r"[\d,]+",
        ),
        ("packages installed", "Packages", "packages", r"\d+"),
        (
            "broken servers and models handled, of 13",
            "Servers that break, models that err",
            "right, of 13, by default",
            r"\d+",
        ),
    ],
)
def test_a_figure_in_short_is_the_one_that_was_measured(short: str, heading: str, long: str, part: str):
    summary, measured = table(PAGE, "In short"), table(PAGE, heading)
    for library in LIBRARIES:
        cell = summary[short][summary[""].index(library)]
        value = measured[long][measured[""].index(library)]
        found = re.search(part, value)
        assert found, value
        expected = found[1] if found.re.groups else found[0]
        assert NUMBER.findall(cell)[:1] == [expected], (short, library)


def test_costs_of_others_stand_on_one_page():
    text = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert "comparison.md" in text
    assert not re.search(r"\|.*(?:pydantic-ai|openai-agents|langgraph|smolagents|strands|agno)", text, re.I)
