"""Objects of a user's own modules, named on the command line as MODULE:NAME."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import safe_str


def load_object(option: str, where: str) -> Any:
    """What MODULE:NAME names; what a function of that name makes.

    Args:
        option: For messages.
        where: The name.

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
    if str(Path.cwd()) not in sys.path:  # as `python -m` does
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found() if callable(found) and not isinstance(found, Agent) else found
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(f"{option}={where} cannot be loaded. {words}") from error
