"""The kit is installed alone in an empty environment, and works there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_wheel_works_in_an_empty_environment(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("llm_client_conformance-*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "llm_client_conformance"
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    assert names == {name for name in files if "__pycache__" not in name}

    folder = tmp_path / "empty"
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", wheel]
    subprocess.run(install, check=True)
    command = python.with_name("llm-client-conformance")
    listed = subprocess.run([command, "list"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert len(listed.stdout.splitlines()) > 350
    program = [python, "-c", "print('{}')"]
    done = subprocess.run(
        [command, "check", "--scene", "crlf", "--", *program], capture_output=True, text=True
    )
    assert (done.returncode, "no request came" in done.stdout) == (1, True)
