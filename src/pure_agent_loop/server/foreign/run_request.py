"""A request for a run, independent of its protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.messages import Message, text_of
from pure_agent_loop.runs.options import RunSettings
from pure_agent_loop.server.foreign.history import OpenModel, ToolName
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolRegistry


@dataclass(frozen=True)
class RunRequest:
    """A request for a run.

    Args:
        messages: The history without system messages. The last message must be from the user or a tool.
        system: The caller's instructions, appended to the agent's system prompt.
        tools: The caller's tools.
        metadata: `RunContext.metadata`.
    """

    agent: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Tool] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.messages or self.messages[-1]["role"] not in ("user", "tool"):
            raise HttpProblem(
                400, "messages: the last one must have the role user or tool.", param="messages"
            )

    @property
    def new_results(self) -> dict[str, str]:
        """The tool results at the end of the history, by call id."""
        results: dict[str, str] = {}
        for entry in reversed(self.messages):
            if entry["role"] != "tool":
                break
            results.setdefault(entry["tool_call_id"], text_of(entry["content"]))
        return results

    def digest(self, count: int) -> str:
        """Hash the first `count` messages."""
        return hashlib.sha256(json.dumps(list(self.messages[:count])).encode()).hexdigest()

    def settings(self, agent: Agent) -> RunSettings:
        """Return the run's settings that differ from the agent's.

        Raises:
            HttpProblem: A tool has the same name as one of the agent's tools.
        """
        settings: RunSettings = {"metadata": dict(self.metadata)}
        if self.fields:
            settings["model_settings"] = dict(self.fields)  # type: ignore[typeddict-item]  # validated by the run
        if self.tools:
            settings["tools"] = _merge_tools(agent, self.tools)
        if self.system:
            own: Any = agent.config.system_prompt
            parts = list(own) if isinstance(own, (list, tuple)) else [own]
            settings["system_prompt"] = [*(part for part in parts if part), self.system]
        return settings


class FunctionAbout(OpenModel):
    """A function from the caller."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None


def outside_tool(spec: FunctionAbout) -> Tool:
    """Create an external tool: the model calls it, and the caller executes it.

    Raises:
        HttpProblem: The tool is invalid.
    """
    schema = {"type": "object", "properties": {}} if spec.parameters is None else spec.parameters
    try:
        description = spec.description or ""
        return Tool(None, name=spec.name, description=description, parameters=schema, external=True)
    except ConfigError as error:
        raise HttpProblem(400, safe_str(error), param="tools") from error


def _merge_tools(agent: Agent, tools: Iterable[Tool]) -> ToolRegistry:
    registry = ToolRegistry(agent.tools)
    for tool in tools:
        if tool.name in registry:
            raise HttpProblem(400, f"tools: {tool.name!r} already exists. Rename it.", param="tools")
        registry.register(tool)
    return registry
