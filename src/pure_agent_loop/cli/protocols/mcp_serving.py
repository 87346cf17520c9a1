"""Serve the tools of this folder, and agents, as an MCP server: ``pal mcp`` without an action."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cli.arguments import add_options
from pure_agent_loop.cli.chat.custom import CustomCommands
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.options import PermissionOptions, ServingOptions, agent_arguments
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.toolset import check_given_rules, make_toolset, rules_of, skills_loader, workspace_of
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support.language import user_text
from pure_agent_loop.tool import Tool

if TYPE_CHECKING:
    from pure_agent_loop.assistant import SkillsLoader


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select the tools and agents to serve."""
    group = parser.add_argument_group("as a server")
    add_options(group, ServingOptions, only=("agents", "deps", "tools", "functions", "workspace"))
    add_options(group, PermissionOptions)


def serve_here(options: ServingOptions, output: CommandOutput) -> int:
    """Serve until the input ends and return the exit code.

    Raises:
        PureAgentLoopError: The server cannot start.
    """
    if importlib.util.find_spec("mcp_types") is None:
        raise MissingExtraError("MCP", "mcp")
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cli.commands.worker import load_agents, load_deps
    from pure_agent_loop.cli.which_session import folder_of
    from pure_agent_loop.mcp import AgentServer, Caller, OneCall, Published, serve_stdio
    from pure_agent_loop.session import SessionManager
    from pure_agent_loop.sessions import new_session_id

    workspace = workspace_of(options.workspace)
    typed = rules_of(options)
    configure(options, output, workspace, None)
    options.subagents = False  # an MCP client has its own subagents
    trusted = may_guide(workspace, None, output, trust_folder=options.trust_folder)
    toolset = make_toolset(options, workspace, output, trusted=trusted)
    check_given_rules(typed, options, toolset, output)
    tools = Agent(
        llm=OneCall("", {}),
        tools=toolset.tools,
        audit=toolset.audit,
        snapshots=toolset.snapshots,
        name="pal mcp",
        cwd=workspace,
        **agent_arguments(options),
        permission_rules=rules_of(options),
    )
    if options.deps and not options.agents:
        raise ConfigError(user_text("cli.mcp_deps"))
    agents = load_agents(options.agents, output, own_name=True) if options.agents else {}
    deps = load_deps(options.deps)
    store, started = SessionManager().store, set[str]()

    def owns(session: str) -> bool:
        return session in started or folder_of(store, session) == str(workspace)

    def new_session() -> str:
        started.add(session := new_session_id())
        return session

    caller = Caller(owns, new_session)
    published = Published(_prompts(workspace, skills_loader(workspace, trusted)))
    agent_server = AgentServer(tools, agents, store, lambda _: caller, published, deps)
    counts = {"tools": len(agent_server.tools), "agents": len(agent_server.agents)}
    output.info(user_text("cli.mcp_serving", folder=Path(workspace), **counts))
    asyncio.run(serve_stdio(agent_server))
    return DONE


def _prompts(workspace: Path, skills: SkillsLoader) -> list[Tool]:
    """Return custom commands and skills as prompts: those of the user, and of the folder if trusted."""

    async def deny(_: str) -> bool:
        return False

    commands = CustomCommands(workspace, deny)
    prompts = {
        name: _prompt(name, command.about, command.with_arguments)
        for name, command in commands.all().items()
        if commands.is_trusted(command)
    }
    for skill in skills.skills:
        text = partial(_skill_text, skills, skill.name)
        prompts.setdefault(skill.name, _prompt(skill.name, skill.description, text))
    return [*prompts.values()]


def _prompt(name: str, about: str, text: Callable[[str], str]) -> Tool:
    def prompt(arguments: str = "") -> str:
        return text(arguments)

    field = {"type": "string", "description": "What the prompt is about."}
    parameters = {"type": "object", "properties": {"arguments": field}}
    return Tool(prompt, name=name, description=about, parameters=parameters)


def _skill_text(skills: SkillsLoader, name: str, words: str) -> str:
    return "\n\n".join(filter(None, [skills.load(name), words]))
