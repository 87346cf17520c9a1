"""``pal mcp`` without an action: the tools of this folder, and agents, as an MCP server on stdio."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.custom import CustomCommands
from pure_agent_loop.cli.commands.run import add_permissions
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.toolset import check_given_rules, make_toolset, rules_of, skills_loader, workspace_of
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.tool import Tool

if TYPE_CHECKING:
    from pure_agent_loop.assistant import SkillsLoader


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is served."""
    group = parser.add_argument_group("as a server")
    group.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="an agent, a dict of agents by name, or a function that makes one of them",
    )
    group.add_argument(
        "--tools", default="all", metavar="LIST", help="all (the default), read, none, or names, as 'pal run'"
    )
    group.add_argument(
        "--functions", action="append", default=[], metavar="FILE.py", help="its functions are tools too"
    )
    group.add_argument("--workspace", metavar="DIR", default=".", help="the tools see only this folder")
    add_permissions(group)
    parser.set_defaults(no_tools=False, subagents=False, subagents_from=[], profile=None, env_file=None)


def serve_here(options: argparse.Namespace, output: Output) -> int:
    """Serve until the input ends; return the exit code.

    Raises:
        PureAgentLoopError: It cannot begin.
    """
    if importlib.util.find_spec("mcp_types") is None:
        raise MissingExtraError("MCP", "mcp")
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cli.commands.worker import load_agents
    from pure_agent_loop.cli.which_session import folder_of
    from pure_agent_loop.mcp import Published
    from pure_agent_loop.mcp.serving.offer import Caller, Offer, serve_stdio
    from pure_agent_loop.mcp.serving.one_call import OneCall
    from pure_agent_loop.session import SessionManager
    from pure_agent_loop.sessions import new_session_id

    workspace = workspace_of(options.workspace)
    typed = rules_of(options)
    configure(options, output, workspace, None)
    trusted = may_guide(workspace, None, output, given=options.trust_folder)
    toolset = make_toolset(options, workspace, output, trusted=trusted)
    check_given_rules(typed, options, toolset, output)
    tools = Agent(
        llm=OneCall("", {}),
        tools=toolset.tools,
        audit=toolset.audit,
        snapshots=toolset.snapshots,
        name="pal mcp",
        cwd=workspace,
        permission_mode=options.permission_mode,
        permission_rules=rules_of(options),
    )
    agents = load_agents(options.agents, output) if options.agents else {}
    store, begun = SessionManager().store, set[str]()

    def owns(session: str) -> bool:
        return session in begun or folder_of(store, session) == str(workspace)

    def new_session() -> str:
        begun.add(session := new_session_id())
        return session

    caller = Caller(owns, new_session)
    skills = skills_loader(workspace, trusted)
    offer = Offer(tools, agents, store, lambda _: caller, Published(_prompts(workspace, skills)))
    output.say(f"serving {len(offer.tools)} tools and {len(offer.agents)} agents for {Path(workspace)}")
    asyncio.run(serve_stdio(offer))
    return DONE


def _prompts(workspace: Path, skills: SkillsLoader) -> list[Tool]:
    """The commands that people wrote, and skills, as prompts: of the user, and of the folder once trusted."""

    async def nobody(_: str) -> bool:
        return False

    commands = CustomCommands(workspace, nobody)
    found = {
        name: _prompt(name, each.about, each.with_arguments)
        for name, each in commands.all().items()
        if commands.is_trusted(each)
    }
    for skill in skills.skills:
        text = partial(_skill_text, skills, skill.name)
        found.setdefault(skill.name, _prompt(skill.name, skill.description, text))
    return [*found.values()]


def _prompt(name: str, about: str, text: Callable[[str], str]) -> Tool:
    def prompt(arguments: str = "") -> str:
        return text(arguments)

    field = {"type": "string", "description": "What it is about."}
    parameters = {"type": "object", "properties": {"arguments": field}}
    return Tool(prompt, name=name, description=about, parameters=parameters)


def _skill_text(skills: SkillsLoader, name: str, words: str) -> str:
    return "\n\n".join(filter(None, [skills.load(name), words]))
