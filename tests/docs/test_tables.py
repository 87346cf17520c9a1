"""The tables of the documentation name all there is, and nothing that is not there."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest

from pure_agent_loop import EventType, Profile
from pure_agent_loop.cli.parser import parser_of
from pure_agent_loop.cli.settings.files import OPTIONS
from pure_agent_loop.llm.profiles import PLAIN
from pure_agent_loop.stop_reasons import STOP_REASONS

ROOT = Path(__file__).parents[2]
TEXTS = {path: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))}


def page(name: str) -> str:
    return TEXTS[ROOT / "docs" / name]


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading, by each name in their first cell."""
    section = re.split(r"^## ", text.partition(heading)[2], maxsplit=1, flags=re.M)[0]
    found: dict[str, list[str]] = {}
    for line in section.partition("---")[2].splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        for name in re.findall(r"`([\w.]+)`", cells[1] if len(cells) > 2 else ""):
            found[name] = [cell.strip() for cell in cells[2:-1]]
    return found


def test_every_field_of_a_profile_is_in_the_table_with_its_default():
    table = rows(page("providers.md"), "## The fields of a profile")
    assert set(table) == {field.name for field in dataclasses.fields(Profile)}
    for name, (default, *_) in table.items():
        value = getattr(PLAIN, name)
        if name != "name":
            assert default == ("none" if value == () else f"`{repr(value).replace(chr(39), chr(34))}`"), name


def test_every_stop_reason_is_in_the_table():
    assert set(rows(page("limits.md"), "## Every stop reason")) == set(STOP_REASONS)


def test_every_event_is_in_the_table():
    assert set(rows(page("events.md"), "## What they carry")) == {kind.value for kind in EventType}


def test_every_option_of_run_is_in_the_table_and_no_other():
    table = page("cli.md").partition("| option | meaning |")[2].partition("\n\n")[0]
    listed = re.findall(r"--[a-z][\w-]+", " ".join(line.split(" | ")[0] for line in table.splitlines()))
    known = {
        name: action for name, action in parser_of("run")._option_string_actions.items() if name[:2] == "--"
    }
    hidden = {name for name, action in known.items() if action.help == argparse.SUPPRESS}
    assert set(listed) - set(known) == set()
    assert set(known) - hidden - set(re.findall(r"--[a-z][\w-]+", table)) == {"--help", "--help-all"}


def test_every_setting_is_in_the_example_of_a_file():
    example = page("configuration.md").partition("## Settings")[2].partition("### Servers")[0]
    assert [name for name in OPTIONS if not re.search(rf"\b{name.rpartition('.')[2]}\b", example)] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_installs_a_strangers_package(path: Path):
    """The name on the index is somebody else's: it is installed from a clone."""
    installs = r"(?:pip3? install|uv add|uv tool install|pipx install|uvx|uv pip install)"
    wrong = rf"{installs}[^\n]*['\" ]pure[-_]agent[-_]loop\b(?! *@)"
    assert re.findall(wrong, TEXTS[path], re.I) == []
