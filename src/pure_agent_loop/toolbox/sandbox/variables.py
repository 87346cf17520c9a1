"""Environment of a command: a short list of harmless variables, and none of this process's secrets."""

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
    "GIT_EDITOR": "true",  # exits at once, so git keeps its default message
    "GIT_SEQUENCE_EDITOR": "true",
    # A repository written by a file tool must not make git start programs.
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
_GIT_IDENTITY = re.compile(r"(GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|EMAIL)")


def clean_environment(
    home: str, *, path: str = "", extra: Mapping[str, str] | None = None, temporary: str = ""
) -> dict[str, str]:
    """Return the variables of a command. Only language, time zone and the author for git are inherited.

    Args:
        home: Value of ``HOME``.
        path: Value of ``PATH``; the system's folders if empty.
        extra: The caller's variables, which override all other variables.
        temporary: Value of ``TMPDIR``; the home if empty.

    Raises:
        ConfigError: A name or value of `extra` is invalid.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if (_TAKEN_OVER.fullmatch(name) and _HARMLESS.fullmatch(value)) or _GIT_IDENTITY.fullmatch(name)
    }
    checked = check_variables(extra or {})
    return {
        "LANG": "C.UTF-8",
        **inherited,
        **_FIXED,
        "HOME": home,
        "TMPDIR": temporary or home,
        "PATH": path or ":".join(SAFE_PATH),
        **checked,
    }


def still_variables(temporary: str) -> dict[str, str]:
    """Return variables for a read-only command: caches in a private folder, and English errors."""
    caches = {name: f"{temporary}/{folder}" for name, folder in _CACHES.items()}
    pytest = f"-o cache_dir={temporary}/pytest-cache"
    return {**caches, "PYTEST_ADDOPTS": pytest, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def check_variables(extra: Mapping[str, str]) -> dict[str, str]:
    """Check variables and return them as a dict.

    Raises:
        ConfigError: A name or value is not a string, or has characters that no environment allows.
    """
    for name, value in dict[Any, Any](extra).items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"env={{{name!r}: ...}} is invalid: names and values must be plain text.")
    return dict(extra)
