"""The tools of ``pal run``, with the audit log and the snapshots."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.options import PermissionOptions, ToolsetOptions
from pure_agent_loop.cli.output import CommandOutput, error_text
from pure_agent_loop.errors import AuditError, ConfigError, PureAgentLoopError
from pure_agent_loop.permissions import Permission, PermissionPolicy, PermissionRequest, PermissionRules
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import model_text, notice, user_text
from pure_agent_loop.support.terminal import safe_text
from pure_agent_loop.tool import Tool, ToolRegistry
from pure_agent_loop.toolbox import (
    Fetch,
    Shell,
    TodoList,
    calculator,
    check_workspace,
    starter_tools,
    workspace_tools,
)

if TYPE_CHECKING:
    from pure_agent_loop.assistant import Guidance, SkillsLoader
    from pure_agent_loop.limits import LoopLimits
    from pure_agent_loop.mcp import MCPServers
    from pure_agent_loop.subagents import SubagentManager
    from pure_agent_loop.toolbox import Workspace


@dataclass(frozen=True, slots=True)
class RunToolset:
    """Everything a run uses except its model.

    Args:
        shell: The shell; None if the run has no shell.
        extras: Names of tools that a tiny model does not get; empty if ``--tools`` is given.
    """

    tools: list[Tool] = field(default_factory=list)
    shell: Shell | None = None
    audit: AuditLog | None = None
    snapshots: WorkspaceSnapshots | None = None
    subagents: SubagentManager | None = None
    extras: frozenset[str] = frozenset()
    own: list[Tool] = field(default_factory=list)
    skills: SkillsLoader | None = None
    mcp: MCPServers | None = None

    def for_model(self, *, is_tiny: bool) -> RunToolset:
        """Return the toolset for a model; a tiny model gets only tools with examples and the user's tools."""
        if not is_tiny or not self.extras:  # keep all tools if the user named them
            return self
        return replace(self, tools=[tool for tool in self.tools if tool.examples or tool in self.own])


def make_toolset(
    options: ToolsetOptions,
    workspace: Path,
    output: CommandOutput,
    *,
    trusted: Guidance | None = None,
    files: Workspace | None = None,
    make_shell: Callable[..., Shell] = Shell,
) -> RunToolset:
    """Make the tools that the options select.

    Args:
        trusted: Texts in the folder, if they are trusted.
        files: The workspace of the file tools; the folder if None.
        make_shell: Function that creates the shell, with the arguments of `Shell`.

    Raises:
        ConfigError: A tool name is unknown, or an option cannot be used here.
    """
    own: list[Tool] = []
    if options.functions:
        from pure_agent_loop.cli.load import functions_of

        own = functions_of(options.functions)
    if options.no_tools or options.tools == "none":
        if options.subagents or options.subagents_from:
            raise ConfigError(notice("cli.subagents_tools"))
        return RunToolset(own, audit=_audit(options, None, output) if own else None, own=own)
    check_folder(options, workspace)
    subagents = _subagents(options, workspace, trusted, output)
    if options.tools == "read":
        read = [*starter_tools(files or workspace), *own]
        return RunToolset(read, audit=_audit(options, None, output), subagents=subagents, own=own)
    names = [*dict.fromkeys(filter(None, map(str.strip, options.tools.split(","))))]
    has_all = options.tools == "all"
    wants_shell = has_all or "shell" in names  # finding a sandbox takes some time
    shell = make_shell(workspace, **_shell_options(options)) if wants_shell else None
    commands = [shell.tool()] if shell else []
    tools = [*workspace_tools(files or workspace, shell=False), calculator, *commands, Fetch().tool()]
    skills = _skills(workspace, output, trusted)
    extras = [*TodoList().tools(), *skills.tools()]
    tools += extras
    if not has_all:
        tools, extras = _chosen(names, tools), []
    tools += own
    changing = not all(tool.read_only for tool in tools)
    snapshots = _snapshots(workspace, output) if changing and not options.no_snapshots else None
    left_out = frozenset(tool.name for tool in extras)
    listed = skills if any(tool.name == "load_skill" for tool in tools) else None
    return RunToolset(
        tools, shell, _audit(options, shell, output), snapshots, subagents, left_out, own, listed
    )


def _chosen(names: list[str], tools: Iterable[Tool]) -> list[Tool]:
    known = {tool.name: tool for tool in tools}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        which = user_text("cli.which", names=", ".join(unknown)) if unknown else ""
        usable = ", ".join(dict.fromkeys([*known, "shell"]))
        raise ConfigError(user_text("cli.no_such_tool", names=",".join(names), unknown=which, known=usable))
    return [known[name] for name in names]


def check_folder(options: ToolsetOptions, workspace: Path) -> None:
    """Reject a folder that tools should not have access to.

    Raises:
        ConfigError: The folder is a home directory or another folder that is not a project.
    """
    if not (options.any_folder or options.no_tools or options.tools == "none"):
        check_workspace(workspace)


def _subagents(
    options: ToolsetOptions, workspace: Path, trusted: Guidance | None, output: CommandOutput
) -> SubagentManager | None:
    """Return the subagents from the user, from the folder if trusted, and from ``--subagents-from``."""
    if not options.subagents and not options.subagents_from:
        return None
    from pure_agent_loop.assistant import SUBAGENTS_FOLDER
    from pure_agent_loop.subagents import EXPLORE, VERIFY, SubagentManager, load_definitions

    named = [*map(Path, options.subagents_from)]
    for folder in named:
        if not folder.expanduser().is_dir():
            raise ConfigError(user_text("cli.not_a_folder", option="--subagents-from", folder=folder))
    # A later definition replaces an earlier one with the same name.
    definitions = {definition.name: definition for definition in (EXPLORE, VERIFY)}
    problems: list[str] = []  # errors in definition files, which are reported but not raised
    read = load_definitions(data_folder() / "agents", problems=problems)
    if trusted is not None:
        read += load_definitions(workspace / SUBAGENTS_FOLDER, trusted=trusted.holds, problems=problems)
    for problem in problems:
        output.info(user_text("cli.left_out", problem=safe_text(problem)))
    loaded = (*read, *(definition for folder in named for definition in load_definitions(folder)))
    definitions |= {definition.name: definition for definition in loaded}
    tools_for = partial(workspace_tools, **_shell_options(options))
    return SubagentManager(definitions.values(), workspace=workspace, tools_for=tools_for)


def _shell_options(options: PermissionOptions) -> dict[str, Any]:
    return {
        "sandbox": options.sandbox,
        "network": options.network,
        "unsandboxed": options.unsandboxed_shell,
        "any_folder": options.any_folder,
    }


def _skills(workspace: Path, output: CommandOutput, trusted: Guidance | None) -> SkillsLoader:
    loader = skills_loader(workspace, trusted)
    for problem in loader.problems:
        output.info(user_text("cli.skill_not_used", problem=problem))
    return loader


def skills_loader(workspace: Path, trusted: Guidance | None) -> SkillsLoader:
    """Return the loader for skills from the user, and from the folder if trusted."""
    from pure_agent_loop.assistant import SkillsLoader

    if trusted is None:
        return SkillsLoader()
    return SkillsLoader(workspace=workspace, trust_project=trusted.holds)


def _audit(options: PermissionOptions, shell: Shell | None, output: CommandOutput) -> AuditLog | None:
    if options.no_audit:
        return None
    notes = {"permission_mode": options.permission_mode, **({"sandbox": shell.sandbox.name} if shell else {})}
    log = AuditLog(notes=notes)
    try:
        log.check()
    except AuditError as error:  # the audit log is on by default, so its failure must not stop the run
        output.info(user_text("cli.not_audited", file=error.path, reason=error.reason))
        return None
    return log


def _snapshots(workspace: Path, output: CommandOutput) -> WorkspaceSnapshots | None:
    try:
        return WorkspaceSnapshots(workspace)
    except PureAgentLoopError as error:  # without snapshots the run works, but undo does not
        output.info(user_text("cli.no_undo", error=error_text(error)))
        return None


def assistant_settings(
    workspace: Path,
    toolset: RunToolset,
    mode: str,
    limits: LoopLimits,
    *,
    trusted: Guidance | None,
    is_attended: bool,
    remembered: str = "",
) -> dict[str, Any]:
    """Return the system prompt and the facts of the assistant, as arguments of an agent.

    Args:
        mode: The permission mode.
        trusted: Texts in the folder, if they are trusted; otherwise only the user's texts are used.
        is_attended: True if a person can answer questions.
        remembered: The person's notes about the folder.
    """
    from pure_agent_loop.assistant import ContextBuilder, PersonaConfig, Situation

    persona = PersonaConfig("pal", model_text("pal_description"))
    builder = ContextBuilder(workspace, None, toolset.skills, persona, trust_folder=trusted or False)
    situation = Situation(
        workspace,
        toolset.shell,
        "" if all(tool.read_only for tool in toolset.tools) and toolset.mcp is None else mode,
        is_attended,
        limits,
        remembered,
    )
    return {"system_prompt": builder.build_system_prompt(), "facts": situation.text}


def rules_of(options: PermissionOptions) -> PermissionRules:
    """Return the rules that the options set."""
    return PermissionRules(deny=options.deny, ask=options.ask, allow=options.allow, shared=True)


def settled(options: PermissionOptions, request: PermissionRequest, toolset: RunToolset) -> Permission:
    """Return what the current options decide about a call; ``ask`` if the user must be asked."""
    permission = suggest(options, request, ToolRegistry(toolset.tools), attended=True)
    is_plain = permission.updated_args is None and not permission.read_only
    return permission if is_plain else Permission("ask", request.reason)


def suggest(
    options: PermissionOptions, request: PermissionRequest, tools: ToolRegistry, *, attended: bool
) -> Permission:
    """Return what the options decide about a recorded call.

    Rules never answer a question that a tool asks.

    Args:
        attended: True if the user can be asked.
    """
    if request.question is not None:
        return Permission("ask", request.reason)
    policy, tool = PermissionPolicy(options.permission_mode, rules_of(options)), tools.get(request.tool)
    details: Mapping[str, Any] = {}
    if tool is None and request.tool not in options.allow:
        # An MCP server's tool has no definition here, so ask about the call unless a rule names the tool.
        details = {"own": Permission("ask", request.reason), "judges": True}
    if tool is not None and tool.judge is not None:
        context = policy.judge_context(request.tool, request.args, attended=attended)
        own = tool.judge(request.args, context)
        if inspect.iscoroutine(own):  # an async decision function needs the run, so ask
            own.close()
            own = Permission("ask", request.reason)
        details = {"own": own, "judges": True}
    flag = tool is not None and tool.destructive
    if flag(dict(request.args)) if callable(flag) else flag:
        details = {**details, "asks": request.reason}
    if options.permission_mode == "guard":  # only the run knows where the values come from
        details = {**details, "guard": Permission("ask", request.reason)}
    read_only = tool is None or tool.read_only  # plan mode does not deny unknown tools
    return policy.suggest(request.tool, request.args, read_only=read_only, **details)


def check_given_rules(
    typed: PermissionRules, options: ToolsetOptions, toolset: RunToolset, output: CommandOutput
) -> None:
    """Reject typed rules that cannot match any call.

    Rules in files only cause a notice, because other runs use them too.
    """
    configured = rules_of(options)
    if not any((*typed.each(), *configured.each())):
        return
    from pure_agent_loop.kernel.rule_checks import check_rules

    tools = ToolRegistry([*toolset.tools, *([toolset.mcp] if toolset.mcp else [])])
    check_rules(typed, tools, toolset.subagents, hint="")
    try:
        if options.tools == "all" and not options.no_tools:
            check_rules(configured, tools, toolset.subagents, hint="")
    except ConfigError as error:
        output.info(notice("cli.pal_toml", error=error))


def workspace_of(name: str) -> Path:
    """Return the folder of the option ``--workspace``.

    Raises:
        ConfigError: The folder does not exist.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(user_text("cli.not_a_folder", option="--workspace", folder=name))
    return folder.resolve()
