"""What ``pal run`` gives the model to work with, and what watches it: audit log and snapshots."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.errors import AuditError, ConfigError, PureAgentLoopError
from pure_agent_loop.permissions import Permission, PermissionPolicy, PermissionRequest, PermissionRules
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.support.language import in_language
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolRegistry
from pure_agent_loop.toolbox import Fetch, Shell, TodoList, calculator, starter_tools, workspace_tools
from pure_agent_loop.toolbox.sandbox.bubblewrap import check_workspace

if TYPE_CHECKING:
    from pure_agent_loop.assistant import SkillsLoader
    from pure_agent_loop.assistant.trust import Guidance
    from pure_agent_loop.mcp import MCPServers
    from pure_agent_loop.subagents import SubagentManager
    from pure_agent_loop.toolbox import Workspace

NOTES_TITLE = {"en": "Notes of the project and its people:", "zh": "项目及其成员的说明："}


@dataclass(frozen=True, slots=True)
class Toolset:
    """What a run works with besides its model.

    Args:
        tools: For the model.
        shell: What runs its commands; None if it has no shell.
        audit: Writes down each call.
        snapshots: Knows what each step changed.
        subagents: Others that the model can give tasks to.
        extras: Names of tools that nobody named; empty if the tools were chosen.
        own: Those of the user's files.
        mcp: Servers of others.
    """

    tools: list[Tool] = field(default_factory=list)
    shell: Shell | None = None
    audit: AuditLog | None = None
    snapshots: WorkspaceSnapshots | None = None
    subagents: SubagentManager | None = None
    extras: frozenset[str] = frozenset()
    own: list[Tool] = field(default_factory=list)
    mcp: MCPServers | None = None

    def for_model(self, *, is_tiny: bool) -> Toolset:
        """The same without what would be too much for a model.

        Args:
            is_tiny: The model can only use a few tools: those with worked examples.
        """
        if not is_tiny or not self.extras:  # tools that were named are all meant
            return self
        return replace(self, tools=[tool for tool in self.tools if tool.examples or tool in self.own])


def make_toolset(
    options: argparse.Namespace,
    workspace: Path,
    output: Output,
    *,
    trusted: Guidance | None = None,
    files: Workspace | None = None,
    make_shell: Callable[..., Shell] = Shell,
) -> Toolset:
    """The tools that the options ask for.

    Args:
        output: Where to say what cannot be had.
        trusted: The folder's own texts, if they may be used.
        files: What the tools for files stand on, if not on the folder itself.
        make_shell: What runs commands; it takes what `Shell` takes.

    Raises:
        ConfigError: There is no tool of a name that was given, or an option cannot be used here.
    """
    own = _own_functions(options.functions)
    if options.no_tools or options.tools == "none":
        if options.subagents or options.subagents_from:
            raise ConfigError("--subagents are given tasks by a tool. Leave out --no-tools and --tools none.")
        return Toolset(own, audit=_audit(options, None, output) if own else None, own=own)
    check_folder(options, workspace)
    subagents = _subagents(options, workspace, trusted)
    if options.tools == "read":
        read = [*starter_tools(files or workspace), *own]
        return Toolset(read, audit=_audit(options, None, output), subagents=subagents, own=own)
    names = None if options.tools == "all" else _names(options.tools)
    wants_shell = names is None or "shell" in names  # to look for a sandbox takes time
    shell = make_shell(workspace, **_shell_options(options)) if wants_shell else None
    commands = [shell.tool()] if shell else []
    tools = [*workspace_tools(files or workspace, shell=False), calculator, *commands, Fetch().tool()]
    extras = [*TodoList().tools(), *_skills(workspace, output, trusted)]
    tools += extras
    if names is not None:
        tools, extras = _chosen(names, tools), []
    tools += own
    changing = not all(tool.read_only for tool in tools)
    snapshots = _snapshots(workspace, output) if changing and not options.no_snapshots else None
    left_out = frozenset(tool.name for tool in extras)
    return Toolset(tools, shell, _audit(options, shell, output), snapshots, subagents, left_out, own)


def _own_functions(files: Sequence[str]) -> list[Tool]:
    if not files:
        return []
    from pure_agent_loop.cli.load import functions_of

    return functions_of(files)


def _names(given: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))


def _chosen(names: list[str], tools: Iterable[Tool]) -> list[Tool]:
    known = {tool.name: tool for tool in tools}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(
            f"--tools={','.join(names)} names no tool{': ' + ', '.join(unknown) if unknown else ''}. "
            f"Use all, read, none, or some of: {', '.join(dict.fromkeys([*known, 'shell']))}."
        )
    return [known[name] for name in names]


def check_folder(options: argparse.Namespace, workspace: Path) -> None:
    """The tools that the options ask for may have this folder.

    Raises:
        ConfigError: It is a home, or another folder that is no project's.
    """
    if not (options.any_folder or options.no_tools or options.tools == "none"):
        check_workspace(workspace)


def _subagents(
    options: argparse.Namespace, workspace: Path, trusted: Guidance | None
) -> SubagentManager | None:
    """Those of the user, those of the folder as they were trusted, and those that the user named."""
    if not options.subagents and not options.subagents_from:
        return None
    from pure_agent_loop.assistant.trust import SUBAGENTS_FOLDER
    from pure_agent_loop.subagents import EXPLORE, VERIFY, SubagentManager, load_definitions

    named = [*map(Path, options.subagents_from)]
    for folder in named:
        if not folder.expanduser().is_dir():
            raise ConfigError(f"--subagents-from={folder} is not a folder.")
    # A later one of the same name takes the place of an earlier one.
    found = {each.name: each for each in (EXPLORE, VERIFY)}
    read = load_definitions(data_folder() / "agents")
    if trusted is not None:
        read += load_definitions(workspace / SUBAGENTS_FOLDER, trusted=trusted.holds)
    found |= {
        each.name: each for each in (*read, *(each for folder in named for each in load_definitions(folder)))
    }
    tools_for = partial(workspace_tools, **_shell_options(options))
    return SubagentManager(found.values(), workspace=workspace, tools_for=tools_for)


def _shell_options(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "sandbox": options.sandbox,
        "network": options.network,
        "unsandboxed": options.unsandboxed_shell,
        "any_folder": options.any_folder,
    }


def _skills(workspace: Path, output: Output, trusted: Guidance | None) -> list[Tool]:
    """The skills of the user. Those of a project are strangers' words until somebody trusts them."""
    loader = skills_loader(workspace, trusted)
    for problem in loader.problems:
        output.say(f"skill not used: {problem}")
    return loader.tools(listed=True)


def skills_loader(workspace: Path, trusted: Guidance | None) -> SkillsLoader:
    """The skills of the user, and those of the folder as they were trusted."""
    from pure_agent_loop.assistant import SkillsLoader

    if trusted is None:
        return SkillsLoader()
    return SkillsLoader(workspace=workspace, trust_project=trusted.holds)


def _audit(options: argparse.Namespace, shell: Shell | None, output: Output) -> AuditLog | None:
    if options.no_audit:
        return None
    notes = {"permission_mode": options.permission_mode, **({"sandbox": shell.sandbox.name} if shell else {})}
    log = AuditLog(notes=notes)
    try:
        log.check()
    except AuditError as error:  # as with snapshots: what nobody asked for holds no work up
        output.say(f"the calls of this run are not in the audit log: {error.path}: {error.reason}.")
        return None
    return log


def _snapshots(workspace: Path, output: Output) -> WorkspaceSnapshots | None:
    try:
        return WorkspaceSnapshots(workspace)
    except PureAgentLoopError as error:  # the work can be done all the same; it cannot be undone
        output.say(f"changes of this run cannot be undone: {safe_str(error)}")
        return None


def system_prompt(given: str | None, trusted: Guidance | None, *, is_tiny: bool) -> str | None:
    """The system prompt with what ``AGENTS.md`` says; None for the usual one.

    Args:
        given: The one of the command line; then it is all.
        trusted: The folder's own texts, as they were trusted; without them only the user's own are used.
        is_tiny: The model has no room for more.
    """
    if given is not None or is_tiny:
        return given
    from pure_agent_loop.assistant.notes import user_notes

    notes = [*user_notes(data_folder() / "AGENTS.md"), *(trusted.notes if trusted else ())]
    if not notes:
        return None
    texts = [f"{note.name}:\n{note.text.strip()}" for note in notes]
    return "\n\n".join([prompts_for().system_prompt, in_language(NOTES_TITLE), *texts])


def rules_of(options: argparse.Namespace) -> PermissionRules:
    """The rules that the options say. They are checked before tools that a tiny model lacks are left out."""
    return PermissionRules(deny=options.deny, ask=options.ask, allow=options.allow, shared=True)


def suggest(
    options: argparse.Namespace, request: PermissionRequest, tools: ToolRegistry, questions: Questions | None
) -> Permission:
    """What the options say about a call that a session has kept; a tool's own question no rule answers."""
    if request.args == {"question": request.reason}:
        return Permission("ask", request.reason)
    policy, tool = PermissionPolicy(options.permission_mode, rules_of(options)), tools.get(request.tool)
    about: Mapping[str, Any] = {}
    if tool is None:  # one of a server: what it may do is not known here, so the question stands
        about = {"own": Permission("ask", request.reason), "judges": True}
    if tool is not None and tool.judge is not None:
        context = policy.judge_context(request.tool, request.args, attended=questions is not None)
        own = tool.judge(request.args, context)
        if inspect.iscoroutine(own):  # it would have to look closer, as it did before it asked
            own.close()
            own = Permission("ask", request.reason)
        about = {"own": own, "judges": True}
    if tool is not None and tool.destructive:
        about = {**about, "asks": request.reason}
    read_only = tool is not None and tool.read_only
    return policy.suggest(request.tool, request.args, read_only=read_only, **about)


def check_given_rules(
    typed: PermissionRules, options: argparse.Namespace, found: Toolset, output: Output
) -> None:
    """Refuse a typed rule that can match no call. One of a file is for other runs too, so it is only said."""
    given = rules_of(options)
    if not any((*typed.each(), *given.each())):
        return
    from pure_agent_loop.kernel.tools.rules import check_rules  # it knows what a run is made of

    tools = ToolRegistry([*found.tools, *([found.mcp] if found.mcp else [])])
    check_rules(typed, tools, found.subagents, hint="")
    try:
        if options.tools == "all" and not options.no_tools:
            check_rules(given, tools, found.subagents, hint="")
    except ConfigError as error:
        output.say(f"pal.toml: {error}")


def workspace_of(name: str) -> Path:
    """The folder of the option ``--workspace``.

    Raises:
        ConfigError: There is no such folder.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"--workspace={name} is not a folder.")
    return folder.resolve()
