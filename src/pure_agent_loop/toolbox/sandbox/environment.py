"""The environment of a command: a short list of harmless variables, nothing of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError

SAFE_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "false",
    # A repository that a file tool made must not name programs for git to start.
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "safe.bareRepository",
    "GIT_CONFIG_VALUE_1": "explicit",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
_CACHES = {
    "PYTHONPYCACHEPREFIX": "pycache",
    "MYPY_CACHE_DIR": "mypy",
    "RUFF_CACHE_DIR": "ruff",
    "COVERAGE_FILE": "coverage",
    "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
    "CARGO_TARGET_DIR": "target",
    "npm_config_cache": "npm",
}
_TAKEN_OVER = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|TZ")
_HARMLESS = re.compile(r"[\w.@:/+-]{1,64}")


def clean_environment(
    home: str, *, path: str = "", extra: Mapping[str, str] | None = None, temporary: str = ""
) -> dict[str, str]:
    """The variables a command gets. Of ours only the language and the time zone are taken over.

    Args:
        home: The value of ``HOME``.
        path: The value of ``PATH``; the system's folders if "".
        extra: Variables of the caller's choice; they win.
        temporary: The value of ``TMPDIR``; the home if "".

    Raises:
        ConfigError: A name or value of `extra` cannot be used.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if _TAKEN_OVER.fullmatch(name) and _HARMLESS.fullmatch(value)
    }
    checked = check_variables(extra or {})
    return {
        "LANG": "C.UTF-8",
        **ours,
        **_FIXED,
        "HOME": home,
        "TMPDIR": temporary or home,
        "PATH": path or ":".join(SAFE_PATH),
        **checked,
    }


def still_variables(temporary: str) -> dict[str, str]:
    """Variables for a command that can change nothing: its caches lie elsewhere, and errors are in English.

    Args:
        temporary: Its own folder for temporary files.
    """
    caches = {name: f"{temporary}/{folder}" for name, folder in _CACHES.items()}
    pytest = f"-o cache_dir={temporary}/pytest-cache"
    return {**caches, "PYTEST_ADDOPTS": pytest, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def check_variables(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables as a dict.

    Raises:
        ConfigError: One is no pair of texts, or holds what no environment can.
    """
    for name, value in dict[Any, Any](extra).items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"env={{{name!r}: ...}} cannot be used: names and values must be plain text.")
    return dict(extra)
