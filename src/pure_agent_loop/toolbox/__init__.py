"""Built-in tools: workspace files, sandboxed commands, public web pages, arithmetic.

File and command tools are confined to one folder. Each tool works without the others.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.lazy import lazy_exports
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.ask import ask_user_tool
from pure_agent_loop.toolbox.calculator import calculator
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.changes import ChangeTools
from pure_agent_loop.toolbox.files.grep import SearchTools
from pure_agent_loop.toolbox.files.pictures import PictureTools
from pure_agent_loop.toolbox.files.protected import PROTECTED
from pure_agent_loop.toolbox.files.reading import FileTools
from pure_agent_loop.toolbox.files.workspace import HardLinks, Workspace
from pure_agent_loop.toolbox.todo import TODO_TOOL, TodoItem, TodoList

if TYPE_CHECKING:
    from pure_agent_loop.toolbox.sandbox.launch import Limits
    from pure_agent_loop.toolbox.sandbox.roots import check_workspace
    from pure_agent_loop.toolbox.shell.background import BackgroundCommand, BackgroundCommands
    from pure_agent_loop.toolbox.shell.policy import ShellPolicy, Verdict
    from pure_agent_loop.toolbox.shell.tool import Shell
    from pure_agent_loop.toolbox.web.fetch import Fetch, FetchError

__all__ = [
    "PROTECTED",
    "TODO_TOOL",
    "BackgroundCommand",
    "BackgroundCommands",
    "ChangeTools",
    "Fetch",
    "FetchError",
    "FileTools",
    "Limits",
    "PictureTools",
    "SearchTools",
    "Shell",
    "ShellPolicy",
    "TodoItem",
    "TodoList",
    "Verdict",
    "Workspace",
    "WorkspaceError",
    "ask_user_tool",
    "calculator",
    "check_workspace",
    "starter_tools",
    "workspace_tools",
]

# These imports are slow and not every program needs them.
_LATER = {
    "check_workspace": "sandbox.roots",
    "Fetch": "web.fetch",
    "FetchError": "web.fetch",
    "Limits": "sandbox.launch",
    "BackgroundCommand": "shell.background",
    "BackgroundCommands": "shell.background",
    "Shell": "shell.tool",
    "ShellPolicy": "shell.policy",
    "Verdict": "shell.policy",
}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)


def starter_tools(root: str | os.PathLike[str] | Workspace = ".") -> list[Tool]:
    """Return ``calculator``, and ``list_dir`` and ``read_file`` for one folder, for ``Agent(tools=...)``.

    Args:
        root: The folder whose files the tools may read, or a `Workspace`.

    Raises:
        ConfigError: The root is not a folder.
    """
    workspace = root if isinstance(root, Workspace) else Workspace(root)
    return [*FileTools(workspace).tools(), calculator]


def workspace_tools(
    root: str | os.PathLike[str] | Workspace = ".",
    *,
    protected: Iterable[str] | None = None,
    hard_links: HardLinks = "refuse",
    shell: bool = True,
    **shell_options: Any,
) -> list[Tool]:
    """Return the tools that work on the files of a folder, for ``Agent(tools=...)``.

    ``read_file``, ``list_dir``, ``glob`` and ``grep`` only read and are marked ``read_only``; ``write_file``
    and ``edit_file`` change files; ``shell`` applies its own policy to each command.

    Args:
        root: The folder the tools are restricted to, or a configured `Workspace`.
        protected: Names that cannot be written; None for `PROTECTED` and the data folder of this package.
        hard_links: ``refuse`` or ``allow`` reading files that have several names (hard links).
        shell: Add the ``shell`` tool.
        shell_options: Options of `Shell`: ``sandbox``, ``network``, ``policy``, ``unsandboxed`` and others.

    Raises:
        ConfigError: The root is not a folder, or an option is invalid.
    """
    _require_known(shell_options)
    if shell_options and not shell:
        raise ConfigError(f"{', '.join(shell_options)}: only allowed with shell=True.")
    if not isinstance(root, Workspace):
        workspace = Workspace(root, protected=protected, hard_links=hard_links)
    elif protected is not None or hard_links != "refuse":
        raise ConfigError("protected, hard_links: already set by the Workspace. Leave them out.")
    else:
        workspace, root = root, root.root
    # Each group of tools has a method `tools`.
    groups = (FileTools(workspace), ChangeTools(workspace), SearchTools(workspace))
    tools = [tool for group in groups for tool in group.tools()]
    return [*tools, __getattr__("Shell")(root, **shell_options).tool()] if shell else tools


def _require_known(options: Iterable[str]) -> None:
    for name in options:
        known = list(inspect.signature(__getattr__("Shell")).parameters)[1:]
        if name == "language":
            raise ConfigError(
                "workspace_tools: unknown option 'language'; tools use the language of their agent. "
                "Set it with Agent(language='zh'), or PAL_LANG=zh for the whole program."
            )
        if name not in known:
            raise ConfigError(
                f"workspace_tools: unknown option {name!r}. Use protected, hard_links, shell, or options of "
                f"Shell: {', '.join(known)}."
            )
