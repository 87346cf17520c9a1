"""Continue the run of a conversation in a worker: the stored settings, and the agent created from them.

A worker with the same data folder on the same machine recreates the agent from the stored settings. Settings
that cannot be stored are rejected before the run is moved, and a run whose recreated agent differs is ended.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.assistant import Guidance
from pure_agent_loop.budget import Price
from pure_agent_loop.cli.arguments import options_of
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.options import (
    AnswerOptions,
    CommandOptions,
    LimitOptions,
    ModelOptions,
    PromptOptions,
    ToolsetOptions,
)
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.toolset import RunToolset, make_toolset
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import BaseLLMClient, origin_of
from pure_agent_loop.runs import Configured, Run
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import default_language, notice

STORED = "pal_conversation"  # name of the settings in the metadata of the durable run
_TABLES = (ToolsetOptions, LimitOptions, PromptOptions, ModelOptions, AnswerOptions)
# Options that name code or files, which a worker would have to load separately.
_NOT_STORED = ("functions", "schema", "subagents_from")


def agent_name() -> str:
    """Return the name of the agent that continues this data folder's conversations on this machine."""
    place = f"{socket.gethostname()}\0{data_folder().absolute()}".encode("utf-8", "surrogateescape")
    return f"conversation-{hashlib.sha256(place).hexdigest()[:12]}"


def settings_of(
    options: CommandOptions,
    client: BaseLLMClient,
    toolset: RunToolset,
    workspace: Path,
    trusted: Guidance | None,
) -> dict[str, Any]:
    """Return the current settings in plain form; see `refusal`."""
    values = {row.name: getattr(options, row.name) for row in options_of(*_TABLES)}
    values["price"] = values["price"] and asdict(values["price"])
    return deepcopy(
        {
            "options": values,
            "configured": options.configured._asdict(),
            "workspace": str(workspace),
            "made": _made(client, toolset, trusted),
        }
    )


def refusal(stored: Mapping[str, Any], toolset: RunToolset, *, shares_costs: bool) -> str:
    """Return the names of the settings that a worker cannot use, joined by commas; empty if there are none.

    Args:
        shares_costs: True if the worker counts costs in the same database as the conversation.
    """
    options = stored["options"]
    names = [*_NOT_STORED, *(() if shares_costs else ("max_cost_per_day", "max_cost_per_person_per_day"))]
    found = [row.flags[0] for row in options_of(*_TABLES) if row.name in names and options[row.name]]
    return ", ".join([*found, *(["MCP"] if toolset.mcp is not None else [])])


class ConversationAgent(Agent):
    """A worker's agent that continues runs from conversations, each with the settings stored in the run."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__(agent_name(), api_key="unused", base_url="http://127.0.0.1:9/v1")  # never called
        self._output = output

    def prepare(self, task: str | None, messages: Any = None, **options: Any) -> Run[Any]:
        """Create a run of the conversation's agent.

        Raises:
            ConfigError: The settings are missing, or this worker would create a different agent from them.
        """
        metadata = dict(options.pop("metadata", None) or {})
        if STORED not in metadata:
            raise ConfigError(notice("cli.detached_settings"))
        agent = _agent_of(metadata.pop(STORED), self._output)
        return agent.prepare(task, messages, metadata=metadata or None, **options)


def _agent_of(stored: Mapping[str, Any], output: CommandOutput) -> Agent:
    values = dict(stored["options"])
    values["price"] = values["price"] and Price.from_dict(values["price"])
    options = CommandOptions(**values, configured=Configured(**stored["configured"]))
    workspace = Path(stored["workspace"])
    trusted = may_guide(workspace, None, output, trust_folder=options.trust_folder)
    toolset = make_toolset(options, workspace, output, trusted=trusted)
    choice = choose(options, options.thinking, output, announced=False)
    toolset = toolset.for_model(is_tiny=choice.is_tiny)
    made, wanted = _made(choice.client, toolset, trusted), stored["made"]
    different = [f"{name} {now!r}, not {wanted[name]!r}" for name, now in made.items() if now != wanted[name]]
    if different:
        raise ConfigError(notice("cli.detached_differs", differences="; ".join(different)))
    return make_agent(options, choice, None, toolset, workspace, trusted=trusted)


def _made(client: BaseLLMClient, toolset: RunToolset, trusted: Guidance | None) -> dict[str, Any]:
    """Return the features of an agent that depend on the process that creates it, not on the settings."""
    return {
        "model": origin_of(client),
        "tools": [tool.name for tool in toolset.tools],
        "sandbox": toolset.shell.sandbox.name if toolset.shell else "",
        "trusted_files": trusted.digest if trusted else "",
        "undo": toolset.snapshots is not None,
        "audit": toolset.audit is not None,
        "language": default_language(),
    }
