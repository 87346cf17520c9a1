"""Advice names the source of this installation, and packages of the same name are told apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.support import install

OURS = "[console_scripts]\npal = pure_agent_loop.cli:main\n"


def make_distribution(folder: Path, version: str, files: dict[str, str] | None = None) -> Path:
    """Write the metadata of an installed package of our name into a folder."""
    metadata = folder / f"pure_agent_loop-{version}.dist-info"
    metadata.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: pure-agent-loop\nVersion: {version}\n"
    for name, content in {"METADATA": text, **(files or {})}.items():
        (metadata / name).write_text(content)
    return folder


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command for a recorded source."""

    def command_for(recorded: dict | None, installer: str = "pip") -> str:
        files = {"entry_points.txt": OURS, "INSTALLER": installer}
        if recorded is not None:
            files["direct_url.json"] = json.dumps(recorded)
        monkeypatch.syspath_prepend(str(make_distribution(tmp_path, "9.9", files)))
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
        install._own_distribution.cache_clear()
        return install.install_command("cli")

    yield command_for
    install._own_distribution.cache_clear()


def test_an_editable_clone_is_named(command, tmp_path):
    url = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    assert command(url) == f"python -m pip install -e '{tmp_path}[cli]'"


def test_a_wheel_with_blanks_in_its_path_is_named(command, tmp_path):
    wheel = tmp_path / "my files" / "p-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    assert command({"url": wheel.as_uri(), "archive_info": {}}) == f"python -m pip install '{wheel}[cli]'"


def test_a_source_that_is_gone_is_not_named(command, tmp_path):
    url = (tmp_path / "gone.whl").as_uri()
    assert command({"url": url, "archive_info": {}}) == "python -m pip install 'CLONE_OR_WHEEL[cli]'"


@pytest.mark.parametrize(
    ("recorded", "source"),
    [
        ({"url": "https://example.com/p.whl", "archive_info": {}}, "https://example.com/p.whl"),
        (
            {"url": "https://example.com/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "git+https://example.com/p.git@abc",
        ),
        (
            {
                "url": "https://example.com/p.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v0.2"},
            },
            "git+https://example.com/p.git@v0.2",
        ),
    ],
)
def test_address_follows_the_name(command, recorded, source):
    assert command(recorded) == f"python -m pip install 'pure-agent-loop[cli] @ {source}'"


def test_an_unrecorded_source_is_a_blank_and_never_the_bare_name(command):
    assert command(None) == "python -m pip install 'CLONE_OR_WHEEL[cli]'"


def test_an_environment_of_uv_has_no_pip(command, tmp_path):
    told = command({"url": tmp_path.as_uri(), "dir_info": {}}, installer="uv\n")
    assert told == f"uv pip install --python python '{tmp_path}[cli]'"


def run_pal(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    command = [sys.executable, "-m", "pure_agent_loop", *words]
    return subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)


def test_version_alone_without_a_namesake():
    assert run_pal("--version").stderr == ""


@pytest.mark.parametrize("words", [("--version",), ("doctor", "--base-url", "http://127.0.0.1:9/v1")])
def test_a_namesake_on_the_path_is_named(tmp_path, words):
    folder = make_distribution(tmp_path / "theirs", "0.1.4")
    done = run_pal(*words, PYTHONPATH=str(folder), PAL_API_KEY="k")
    assert "another project's package named pure-agent-loop (0.1.4, without pal)" in done.stderr
    assert str(folder) in done.stderr


def test_a_namesake_in_the_active_environment_is_named(tmp_path):
    folder = make_distribution(tmp_path / "venv/lib/python3.12/site-packages", "0.1.4")
    done = run_pal("--version", VIRTUAL_ENV=str(tmp_path / "venv"))
    assert (done.returncode, done.stdout.split()[0]) == (0, "pure-agent-loop")
    assert str(folder) in done.stderr
