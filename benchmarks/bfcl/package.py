"""Fetch the leaderboard's package: pinned, checked by hash, in its own folder, without dependencies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
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

PACKAGE = "bfcl-eval"
VERSION = "2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
NAME = f"{PACKAGE} {VERSION}"
_PROOF = Path("bfcl_eval", "eval_checker", "ast_eval", "ast_checker.py")
_ERROR_CHARS = 800


def quiet(message: str) -> None:
    """Ignore progress."""


def ensure_package(root: Path | None = None, progress: Callable[[str], None] = quiet) -> Path:
    """Return the folder of the package ``bfcl_eval``; fetch it at first use (2 MB).

    The package is never imported into this process, and its dependencies are not installed.

    Args:
        root: Folder of packages; a per-user folder if None.
        progress: Called when a download starts.

    Raises:
        ConfigError: Neither pip nor uv is installed, or the download failed.
    """
    root = private_folder(root or data_folder() / "evaluation")
    target = root / f"{PACKAGE}-{VERSION}"
    with file_lock(root / "lock"):
        if not (target / _PROOF).is_file():
            progress(f"fetching {NAME} (2 MB) from the package index ...")
            _install(target)
    return target


def _install(target: Path) -> None:
    """Install to a temporary sibling folder first: the target folder is always complete."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".install-") as folder:
        requirements, fresh = Path(folder, "requirements.txt"), Path(folder, "package")
        requirements.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n", encoding="ascii")
        command = [*_installer(), "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        command += ["--target", str(fresh), "--requirement", str(requirements)]
        env = child_environment(*NETWORK)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
        if done.returncode or not (fresh / _PROOF).is_file():
            raise ConfigError(f"Could not fetch {NAME}: {done.stderr.strip()[-_ERROR_CHARS:]}")
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)


def _installer() -> list[str]:
    """Return the install command: pip of this environment, or uv, whose environments lack pip."""
    if module_folder("pip"):
        return module_argv("pip", "install", "--disable-pip-version-check", "--no-compile")
    uv = find_program("uv")
    if uv:
        return [uv, "pip", "install", "--python", PYTHON]
    raise ConfigError(f"Fetching {NAME} needs pip or uv. Install one of them.")
