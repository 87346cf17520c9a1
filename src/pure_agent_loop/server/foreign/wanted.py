"""What a request wants, in whatever protocol it came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.messages import Message, text_of
from pure_agent_loop.runs.options import RunSettings
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolRegistry


@dataclass(frozen=True)
class Wanted:
    """A request.

    Args:
        agent: The name of an agent.
        messages: The history, without system messages; its last one is of the user, or of a tool.
        system: What the caller says to the model, behind what the agent's own system prompt says.
        tools: The caller's tools.
        fields: Fields of the requests to the model.
        metadata: For `RunContext.metadata`.
    """

    agent: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Tool] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.messages or self.messages[-1]["role"] not in ("user", "tool"):
            raise Problem(400, "The last message must be one of the user, or of a tool.", param="messages")

    @property
    def answered(self) -> dict[str, str]:
        """The results at the end of the history, by the ids of their calls."""
        found: dict[str, str] = {}
        for message in reversed(self.messages):
            if message["role"] != "tool":
                break
            found.setdefault(message["tool_call_id"], text_of(message["content"]))
        return found

    def digest(self, count: int) -> str:
        """The same for two requests whose first messages are the same.

        Args:
            count: How many of them.
        """
        return hashlib.sha256(json.dumps(list(self.messages[:count])).encode()).hexdigest()

    def settings(self, agent: Agent) -> RunSettings:
        """What its run has otherwise than its agent.

        Raises:
            Problem: Its tools and those of the agent do not go together.
        """
        made: RunSettings = {"metadata": dict(self.metadata)}
        if self.fields:
            made["model_settings"] = dict(self.fields)  # type: ignore[typeddict-item]  # checked when the run begins
        if self.tools:
            made["tools"] = _together(agent, self.tools)
        if self.system:
            own: Any = agent.system_prompt or agent._given["system_prompt"]  # the two are one package
            parts = list(own) if isinstance(own, (list, tuple)) else [own]
            made["system_prompt"] = [*(each for each in parts if each), self.system]
        return made


class _ToolAbout(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> dict[str, Any] | None: ...


def outside_tool(given: _ToolAbout) -> Tool:
    """A tool of the caller: the model calls it, and the caller does the work.

    Raises:
        Problem: It is none.
    """
    schema = {"type": "object", "properties": {}} if given.parameters is None else given.parameters
    try:
        about = given.description or ""
        return Tool(None, name=given.name, description=about, parameters=schema, external=True)
    except ConfigError as error:
        raise Problem(400, safe_str(error), param="tools") from error


def _together(agent: Agent, tools: Iterable[Tool]) -> ToolRegistry:
    found = ToolRegistry(agent.tools)
    for each in tools:
        if each.name in found:
            raise Problem(400, f"tools: there is a tool {each.name!r} already; rename it.", param="tools")
        found.register(each)
    return found
