"""Former names of environment variables are still read, with one notice that says the new name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Pal

from pure_agent_loop.support.variables import FORMER_NAMES

VALUES = {"PAL_HOME": "/kept", "PAL_LANG": "zh", "PAL_HTTP": "httpx", "PAL_AUDIT_KEY": "former key of mine"}
OTHERS = {"PAL_HOME": "/other", "PAL_LANG": "en", "PAL_HTTP": "nc", "PAL_AUDIT_KEY": "another key of mine"}
# Every variable is used as a program uses it, twice.
CODE = """\
import json
from pure_agent_loop import ConfigError
from pure_agent_loop.audit.chain import Sealer
from pure_agent_loop.llm.http.choice import transport_for
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import default_language
settings = {"api_key": "k", "base_url": "http://127.0.0.1:9/v1"}
for _ in range(2):
    try:
        http = type(transport_for(settings)).__name__
    except ConfigError as error:
        http = str(error)
    used = str(data_folder()), default_language(), http, Sealer().key_id
print(json.dumps(used))
"""


def used(variables: dict[str, str]) -> tuple[list[str], list[str]]:
    """What a program with these variables uses, and the lines of its standard error."""
    foreign = (*FORMER_NAMES, *FORMER_NAMES.values())
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**env, **variables}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout), done.stderr.splitlines()


@pytest.fixture
def pal(tmp_path: Path) -> Pal:
    return Pal(tmp_path)


def test_a_library_reads_former_names_and_warns_once_about_each():
    formers = {FORMER_NAMES[name]: value for name, value in VALUES.items()}
    (current, silence), (former, warnings) = used(VALUES), used(formers)
    assert former == current
    assert silence == []
    assert sorted(line.partition(". ")[0] for line in warnings) == sorted(
        f"{former} is now {name}" for name, former in FORMER_NAMES.items()
    )
    assert VALUES["PAL_AUDIT_KEY"] not in "".join(warnings)


def test_where_both_are_set_the_new_name_wins_without_a_warning():
    others = {FORMER_NAMES[name]: value for name, value in OTHERS.items()}
    assert used({**VALUES, **others}) == used(VALUES)
    assert used(OTHERS)[0] != used(VALUES)[0]


def test_the_command_says_all_former_names_in_one_line(pal, tmp_path):
    del pal.env["PAL_HOME"]
    former, new = str(tmp_path / "former"), str(tmp_path / "new")
    done = pal("config", "path", PURE_AGENT_LOOP_HOME=former, PURE_AGENT_LOOP_LANG="en")
    assert done.stdout == f"{former}/pal.toml\n"
    (line,) = done.stderr.splitlines()
    assert "PURE_AGENT_LOOP_HOME is now PAL_HOME, PURE_AGENT_LOOP_LANG is now PAL_LANG. " in line
    done = pal("config", "path", PURE_AGENT_LOOP_HOME=former, PAL_HOME=new)
    assert (done.stdout, done.stderr) == (f"{new}/pal.toml\n", "")


@pytest.mark.parametrize(
    ("line", "variables", "language", "origin"),
    [
        ("PURE_AGENT_LOOP_LANG=zh", {}, "zh", "PURE_AGENT_LOOP_LANG"),
        ("PURE_AGENT_LOOP_LANG=zh", {"PAL_LANG": "en"}, "en", "PAL_LANG"),
        ("PAL_LANG=zh", {"PURE_AGENT_LOOP_LANG": "en"}, "en", "PURE_AGENT_LOOP_LANG"),
        ("PAL_LANG=zh", {}, "zh", "PAL_LANG"),
    ],
)
def test_a_setting_of_an_env_file_may_have_its_former_name(pal, line, variables, language, origin):
    (pal.workspace / "vars").write_text(line)
    done = pal("config", "show", "--json", "--env-file", "vars", **variables)
    assert json.loads(done.stdout)["settings"]["language"] == {"value": language, "origin": origin}
    renamed = f"PURE_AGENT_LOOP_LANG {'现名' if language == 'zh' else 'is now'} PAL_LANG"
    assert done.stderr.count(renamed) == (origin != "PAL_LANG")


def test_the_documents_name_both():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8").partition("## Variables")[2]
    for name, former in FORMER_NAMES.items():
        assert f"`{name}`" in text
        assert f"`{former}`" in text
