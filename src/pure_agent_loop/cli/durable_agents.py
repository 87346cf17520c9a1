"""The agents of a worker: from a module of the user, or one that looks into the working folder."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import DEFAULT_MAX_STEPS
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.output import Output
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.toolbox import starter_tools

DEFAULT_NAME = "default"


def load_agents(where: str | None, output: Output) -> dict[str, Agent]:
    """The agents by name.

    Args:
        where: ``module:attribute``; None for one with the model of ``pal run`` that reads the working folder.
        output: Told which model is used.

    Raises:
        ConfigError: There are none.
        PureAgentLoopError: There is no model to use.
    """
    if where is None:
        return {DEFAULT_NAME: _default(output)}
    found = _loaded(where)
    if isinstance(found, Agent):
        return {DEFAULT_NAME: found}
    if isinstance(found, Mapping) and found and all(isinstance(each, Agent) for each in found.values()):
        return dict(found)
    raise ConfigError(
        f"--agents={where} is {type(found).__name__}. It must be an Agent, a dict of agents by name, or a "
        "function that makes one of them."
    )


def _default(output: Output) -> Agent:
    choice = choose(None, None, "off", os.environ, output)
    return Agent(
        llm=choice.client,
        tools=starter_tools(Path.cwd()),
        limits=LoopLimits(max_turns=DEFAULT_MAX_STEPS),
        audit=AuditLog(),
    )


def _loaded(where: str) -> Any:
    module, _, name = where.partition(":")
    if not module or not name:
        raise ConfigError(f"--agents={where} must be MODULE:NAME, such as my_agents:agents.")
    if module.endswith(".py") or set(module) & set("/\\"):
        raise ConfigError(
            f"--agents={where} names a file. Name a module, as in an import: my_agents:agents is 'agents' "
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
        raise ConfigError(f"--agents={where} cannot be loaded. {words}") from error
