"""A parent and its subagents on one scripted model: who asks is told by the system prompt."""

from __future__ import annotations

from typing import Any

from tests.helpers import NO_WAIT

from pure_agent_loop import Agent
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM

HELPER = AgentDefinition("helper", "Does what it is told.", "You are helper.")
OTHER = AgentDefinition("other", "Does other things.", "You are other.")


def family(**scripts: Any) -> ScriptedLLM:
    """A model with a script for each agent: ``parent``, and subagents by name. A script may be a callable."""
    left = {name: list(script) for name, script in scripts.items()}

    def reply(messages, tools, options):
        system = messages[0]["content"] if messages[0]["role"] == "system" else ""
        name = next((name for name in left if f"You are {name}." in system), "parent")
        assert left[name], f"nothing is left in the script of {name}: {messages[-1]}"
        return left[name].pop(0)

    return ScriptedLLM(reply)


def parent(llm: Any, *definitions: AgentDefinition, tools: Any = (), **more: Any) -> Agent:
    """An agent with a manager of these subagents; options of the manager begin with an underscore."""
    options = {name[1:]: more.pop(name) for name in list(more) if name.startswith("_")}
    manager = SubagentManager(definitions or (HELPER, OTHER), **options)
    return Agent(llm=llm, tools=tools, subagents=manager, retry=NO_WAIT, **more)


def notices(messages: Any) -> list[str]:
    """What the agent was told about its tasks."""
    users = [str(each["content"]) for each in messages if each["role"] == "user"]
    return [text for text in users if text.startswith("[task ")]
