"""What may be loaded before a person or a program sees the first sign of life: names and counts, no times.

Whoever adds to these sets makes everybody wait; load what is needed later where it is needed. The times are
measured by `benchmarks/startup.py`.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pure_agent_loop
from tests.cli.conftest import Pal
from tests.cli.terminal import Terminal

PACKAGE = "pure_agent_loop"
READS = "\x1b[?2004h"  # the line editor has begun to read
LINE = re.compile(r"import time: +\d+ \| +\d+ \| +([\w.]+)")
# Clients and their transports, validation, other people's tools.
HEAVY = {
    "openai",
    "pydantic",
    "pydantic_core",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "aiohttp",
    "anyio",
}
HEAVY |= {"xllamacpp", "mcp", "dbos", "sqlite3", "pygments", "markdown_it"}
# Of ours what only a run needs, and rooms for other commands.
LATER = "agent ai_client conversation explain result session compaction durable evaluation testing subagents "
LATER += "doctor output toolsets kernel.loop kernel.kit kernel.state kernel.request kernel.model_call "
LATER += "kernel.calls kernel.gate runs.run sessions.resume sessions.replay "
LATER += "audit.entries audit.verifying limits sessions.export sessions.story support.secrets.secret_shapes "
LATER += "toolbox.shell.disasters toolbox.shell.line toolbox.shell.rules toolbox.shell.words "
LATER += "assistant.agent_loop assistant.memory llm.lessons llm.property_names llm.failures llm.tokens "
LATER += "llm.tool_modes.client"
# Of the standard library what reads pages, archives and letters.
FETCHING = {"http.client", "urllib.request", "zipfile", "email"}
# Of ours what an agent may need, and most do not.
SELDOM = (
    "explain compaction.rungs compaction.summary compaction.memory toolsets.search runs.choose runs.options "
)
SELDOM += "runs.options agent_options runs.together kernel.observers output.form "
SELDOM += "llm.tool_modes.choose llm.tool_modes.fill llm.message_types"
HELP = {"", "_version", "errors", "cli", "cli.exits", "cli.parser", "cli.output", "cli.translated_help"}
HELP |= {
    "stop_reasons",
    "support",
    "support.language",
    "support.terminal",
    "support.text",
    "support.variables",
}
# Before the prompt. Two of ours are for sessions in a list, and for calling a person back.
MAX_OURS, MAX_MODULES = 202, 611


def loaded(shown: str) -> set[str]:
    """The modules in what ``-X importtime`` wrote."""
    return set(LINE.findall(shown))


def ours(names: set[str]) -> set[str]:
    """Those of this package, by their names in it."""
    return {name.removeprefix(PACKAGE).lstrip(".") for name in names if name.split(".")[0] == PACKAGE}


def below(names: set[str], rooms: set[str]) -> set[str]:
    """The names that are one of `rooms`, or stand in one."""
    return {name for name in names if any(name == room or name.startswith(f"{room}.") for room in rooms)}


def imported(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True
    )
    return loaded(done.stderr)


@pytest.fixture
def pal(tmp_path: Path) -> Pal:
    return Pal(tmp_path)


def test_the_package_alone_loads_nothing():
    names = imported("-c", f"import {PACKAGE}")
    assert ours(names) == {"", "_version"}
    assert below(names, {*HEAVY, "asyncio", "dataclasses", "inspect", "json", "logging"}) == set()


def test_an_agent_loads_no_client_library():
    names = imported("-c", f"from {PACKAGE} import Agent, tool")
    assert below(names, HEAVY) == set()
    assert below(ours(names), {"cli", "toolbox", "durable", "testing", "evaluation", "assistant"}) == set()
    assert below(ours(names), set(SELDOM.split())) == set()
    assert "difflib" not in names


def test_help_loads_the_command_line_alone():
    names = imported("-m", PACKAGE, "--help")
    assert ours(names) - {"__main__"} <= HELP
    assert below(names, {*HEAVY, "asyncio", "rich", "prompt_toolkit"}) == set()


def test_before_its_prompt_a_conversation_loads_no_model_client_and_no_loop(pal):
    pal.env.update(PAL_BASE_URL="http://127.0.0.1:9/v1", PAL_MODEL="scripted")
    pal.command = (sys.executable, "-X", "importtime", "-m", PACKAGE)
    terminal = Terminal(pal)
    try:
        terminal.until(READS)
        names = loaded(terminal.shown.partition(READS)[0])
    finally:
        terminal.close()
    assert "cli.chat.app" in ours(names)
    assert below(names, HEAVY | FETCHING) == set()
    assert below(ours(names), set(LATER.split())) == set()
    assert len(ours(names)) <= MAX_OURS
    assert len(names) <= MAX_MODULES


def test_every_public_name_has_its_place():
    places = pure_agent_loop._PLACE_OF
    assert sorted([*places, "__version__"]) == sorted(pure_agent_loop.__all__)
    tree = ast.parse(Path(pure_agent_loop.__file__).read_text(encoding="utf-8"))
    for_checkers = {
        alias.name: node.module.removeprefix(f"{PACKAGE}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}.")
        for alias in node.names
    }
    assert {name: place for name, place in for_checkers.items() if place != "_version"} == places


def test_the_function_tool_keeps_its_name_when_its_module_is_loaded():
    code = (
        "import pure_agent_loop.tool\n"
        "import pure_agent_loop as package\n"
        "from pure_agent_loop import tool\n"
        "print(callable(tool), package.tool is tool, 'tool' in dir(package), package.limits.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True", f"{PACKAGE}.limits"]


def test_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pure_agent_loop.nothing


def test_completion_shows_the_names_that_are_loaded_later():
    source = """
import importlib, json, pkgutil, sys
found = {}
for each in pkgutil.iter_modules(sys.modules["pure_agent_loop"].__path__, "pure_agent_loop."):
    if each.ispkg:
        module = importlib.import_module(each.name)
        found[each.name] = sorted({*getattr(module, "__all__", ())} - {*dir(module)})
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import pure_agent_loop\n{source}"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert "pure_agent_loop.evaluation" in found
    assert not {name: missing for name, missing in found.items() if missing}
