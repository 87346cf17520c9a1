"""The tables of the documentation name all there is, and nothing that is not there."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest

from pure_agent_loop import AgentOptions, EventType, Profile
from pure_agent_loop.cli.arguments import CommandOption, options_of
from pure_agent_loop.cli.options import SETTINGS, CommandOptions
from pure_agent_loop.cli.settings.files import ConfigFile, read
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


def cells_of(option: CommandOption) -> list[str]:
    """The row of an option: its flags and value, its help, its setting and its variables."""
    value = f"{{{','.join(option.choices)}}}" if option.choices else option.argument.get("metavar", "")
    value = f"[{value}]" if option.argument.get("nargs") == "?" else value
    flags = [*option.flags[:-1], f"{option.flags[-1]} {value}".rstrip()]
    names = (flags, [option.key] if option.key else [], option.variables)
    first, *others = (", ".join(f"`{name}`" for name in column) for column in names)
    return [cell.replace("|", "\\|") for cell in (first, option.help, *others)]


def test_every_option_of_run_is_in_the_table_as_it_is_and_no_other():
    table = (
        page("cli.md").partition("| option | meaning | in `pal.toml` | variables |")[2].partition("\n\n")[0]
    )
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[2:]]
    written = {first.strip(): [cell.strip() for cell in others] for first, *others in cells}
    options = [option for option in options_of(CommandOptions) if option.help != argparse.SUPPRESS]
    rows = {first: others for first, *others in map(cells_of, options)}
    assert set(written) == set(rows)
    for first, (meaning, *others) in written.items():
        help_line, *expected = rows[first]
        assert (first, others) == (first, expected)
        assert meaning.startswith(help_line), first  # more may follow


def test_the_example_of_a_file_has_every_setting_and_is_valid():
    text = page("configuration.md").partition("## Settings")[2].partition("### Servers")[0]
    example = re.search(r"```toml\n(.*?)```", text, re.S)[1]
    listed = set(re.findall(r"\w+", example))
    assert [name for name in SETTINGS if name.rpartition(".")[2] not in listed] == []
    values = read(ConfigFile("pal.toml", example.encode(), is_project=False)).values
    assert {name.partition(".")[0] for name in values} > {"model", "rules", "limits"}


def test_each_argument_of_agent_that_an_option_sets_exists():
    arguments = [option.agent for option in options_of(CommandOptions) if option.agent]
    assert set(arguments) <= set(AgentOptions.__annotations__)
    assert len(set(arguments)) == len(arguments)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_installs_a_strangers_package(path: Path):
    """The name on the index is somebody else's: it is installed from a clone."""
    installs = r"(?:pip3? install|uv add|uv tool install|pipx install|uvx|uv pip install)"
    wrong = rf"{installs}[^\n]*['\" ]pure[-_]agent[-_]loop\b(?! *@)"
    assert re.findall(wrong, TEXTS[path], re.I) == []
