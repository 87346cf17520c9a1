"""Objects of a user's own modules, named on the command line as MODULE:NAME."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import safe_str


def load_object(option: str, where: str) -> Any:
    """What MODULE:NAME names; what a function of that name makes.

    Raises:
        ConfigError: It cannot be loaded.
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ConfigError(f"{option}={where} must be MODULE:NAME, such as my_agents:agents.")
    if module.endswith(".py") or set(module) & set("/\\"):
        raise ConfigError(
            f"{option}={where} names a file. Name a module, as in an import: my_agents:agents is 'agents' "
            "of ./my_agents.py."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        _refuse_twice(f"{option}={where}", module.partition(".")[0], here)
        sys.path.append(here)  # last: what the folder holds hides nothing that this program loads
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found() if callable(found) and not isinstance(found, Agent) else found
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(f"{option}={where} cannot be loaded. {words}") from error


def _refuse_twice(given: str, name: str, here: str) -> None:
    """A stranger's folder must not stand in for what is installed, nor the other way round."""
    try:
        installed = find_spec(name)
    except ValueError:  # a program's own main module
        installed = None
    ours = PathFinder.find_spec(name, [here])
    if ours and installed and ours.origin != installed.origin:
        raise ConfigError(
            f"{given}: {name} is in this folder, and also installed ({installed.origin}). Rename the one in "
            "the folder, or start this in another folder."
        )
