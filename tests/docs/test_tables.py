"""The tables of the documentation name all there is, and nothing that is not there."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
from scripts import reference

from pure_agent_loop import (
    AgentOptions,
    AnthropicClient,
    BedrockClient,
    EventType,
    GeminiClient,
    Profile,
    VertexClient,
)
from pure_agent_loop.cli.arguments import CommandOption, options_of
from pure_agent_loop.cli.options import SETTINGS, CommandOptions
from pure_agent_loop.cli.parser import COMMANDS, make_parser
from pure_agent_loop.cli.settings.files import ConfigFile, read
from pure_agent_loop.llm.profiles import PLAIN
from pure_agent_loop.server.api.openapi import document
from pure_agent_loop.server.app import OPERATIONS, _routes
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.variables import FORMER_NAMES, KNOWN

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
    assert set(rows(page("events.md"), "## Data of each type")) == {kind.value for kind in EventType}


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


def test_every_error_has_its_cause_and_remedy_in_the_table():
    table = page("reference/errors.md").partition("| Error | When | What to do |")[2].partition("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[2:]]
    assert len(rows) > 20
    assert [row for row in rows if len(row) != 3 or not all(map(str.strip, row))] == []


def test_every_variable_is_in_the_tables():
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page("cli.md").partition("## Variables")[2]))
    of_makers = {
        variable
        for client in (AnthropicClient, BedrockClient, VertexClient, GeminiClient)
        for attribute in dir(client)
        if attribute.endswith(("_variable", "_variables"))
        for variable in _names(getattr(client, attribute))
    }
    of_options = {name for option in options_of(CommandOptions) for name in option.variables}
    missing = {*KNOWN, *FORMER_NAMES.values(), *of_options, *of_makers} - named
    assert missing == set()


def _names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if value else ()


def test_every_command_and_option_is_in_the_reference():
    text = "\n".join(reference.written(page("reference/commands.md").splitlines()))
    sections = dict(re.findall(r"^#+ `(pal[^`]*)`.*\n((?:(?!#+ `).*\n?)*)", text, re.M))

    def check(parser: argparse.ArgumentParser, name: str) -> None:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command, inner in action.choices.items():
                    check(inner, f"{name} {command}")
            elif action.help != argparse.SUPPRESS and name != "pal" and action.option_strings[:1] != ["-h"]:
                choices = f"{{{','.join(action.choices)}}}" if action.choices else ""
                word = (action.option_strings or [choices or str(action.metavar or action.dest)])[-1]
                written = re.escape(word.replace("|", "\\|"))
                assert re.search(rf"`{written}(?![\w-])", sections[name]), (name, word)

    check(make_parser(), "pal")
    assert len(sections) > len(COMMANDS)


def test_every_operation_route_and_problem_type_is_in_the_reference():
    introduction = page("reference/http.md")
    text = "\n".join(reference.written(introduction.splitlines()))
    operations = {f"{each.method} {each.path}" for each in OPERATIONS}
    assert set(re.findall(r"^### `(\w+ /[^`]*)`", text, re.M)) == operations
    paths = {path for each in _routes() if (path := each.path) not in {each.path for each in OPERATIONS}}
    written = re.findall(r"`(?:GET |POST )?(/[\w./-]*)`", introduction)
    assert {re.sub(r"\{.*\}", "...", path) for path in paths} - set(written) == set()
    types = {
        kind
        for path in (ROOT / "src/pure_agent_loop/server").rglob("*.py")
        for kind in re.findall(r'"(urn:pure-agent-loop:[\w-]+)"', path.read_text(encoding="utf-8"))
    }
    assert {kind for kind in types if f"`{kind}`" not in text} == set()
    schemas = document(OPERATIONS)["components"]["schemas"]
    for name, schema in schemas.items():
        section = text.partition(f"### {name} {{")[2].partition("\n### ")[0]
        assert set(re.findall(r"^\| `([^`]+)`", section, re.M)) == set(schema["properties"]), name


# The name on the index is somebody else's: ours is installed from a clone, a wheel or a URL.
_BARE = r"pure[-_.]agent[-_.]loop\b"
_NAME = rf"(?<![\w/.-]){_BARE}(?![\w/-])"
_SOURCE_FOLLOWS = r"(?!(?:\[[^\]]*\])? *@)"
_INSTALLS = r"\b(?:pip3?|pipx|uvx|uv|poetry|pdm|hatch|conda|mamba|pixi|rye)\b(?! uninstall)[^\n#]*?"
BARE_NAME = re.compile(
    rf"{_INSTALLS}{_NAME}{_SOURCE_FOLLOWS}"  # a command
    rf"|{_NAME}\[[^\]\n]*\](?! *@)"  # with an extra
    rf"|^[ #\"'-]*{_NAME} *[=<>~!]=? *\d"  # a line of requirements
    rf"|(?:dependencies|deps)\W*=\W*\[[^]]*{_NAME}"
    rf"|^ *- *[\"']?{_NAME}[\"']?$"  # in a list of packages
    rf"|\"(?:uvx?|pipx)\"[^}}\]]*?\"{_NAME}[\"\[]"  # a command of a settings file, over several lines
    rf"|pypi\.org/\w+/{_BARE}",
    re.I | re.M,
)


@pytest.mark.parametrize(
    "line",
    [
        "pip install pure-agent-loop",
        "python -m pip install -U 'pure-agent-loop[cli]'",
        "pip install \\\n  pure_agent_loop",
        "uv add pure-agent-loop",
        "uv run --with pure-agent-loop app.py",
        "uvx --from pure-agent-loop pal",
        "pipx install pure-agent-loop",
        "Install the extra pure-agent-loop[images].",
        '# dependencies = [\n#   "pure-agent-loop",',
        "pure-agent-loop==0.2.0",
        '"args": ["--from", "uvx", "pure-agent-loop"]',
        '"command": "uvx",\n"args": ["pure-agent-loop", "mcp"]',
        "dependencies:\n  - pure-agent-loop\n",
        "deps = ['pure-agent-loop']",
        "https://pypi.org/project/pure-agent-loop/",
    ],
)
def test_a_bare_name_is_found(line: str):
    assert BARE_NAME.search(_one_line(line))


@pytest.mark.parametrize(
    "line",
    [
        "pip install '.[cli]'  # a clone of pure-agent-loop",
        "pip install '/tmp/pure-agent-loop[server]'",
        "pip install 'pure-agent-loop[cli] @ git+https://example.com/a/pure-agent-loop@v1'",
        "pip uninstall pure-agent-loop",
        "pip install pure_agent_loop-0.2.0-py3-none-any.whl",
        "pure-agent-loop 0.2.0",
        "pure-agent-loop --version",
    ],
)
def test_an_install_from_a_source_is_none(line: str):
    assert not BARE_NAME.search(_one_line(line))


def _one_line(text: str) -> str:
    return re.sub(r"\\\n\s*", " ", text)


SHIPPED = [
    path
    for folder in ("src", "docs", "examples", "benchmarks", "scripts", "requirements", "deploy", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
    and not {"vendor", "__pycache__"} & {*path.parts}
    and path.suffix not in {".png", ".gif"}
]


def test_nothing_installs_a_strangers_package():
    found = {
        path.relative_to(ROOT).as_posix(): match[0]
        for path in (*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "mkdocs.yml", *SHIPPED)
        if (match := BARE_NAME.search(_one_line(path.read_bytes().decode("utf-8", "replace"))))
    }
    assert found == {}
