"""Ready-made tools: for the files of one folder, commands in a sandbox, pages of the public web, arithmetic.

Those for files and commands stay inside the folder, whatever the model writes. Each is usable by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.lazy import names_loaded_later
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.ask import ask_user_tool
from pure_agent_loop.toolbox.calculator import calculator
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.changes import ChangeTools
from pure_agent_loop.toolbox.files.pictures import PictureTools
from pure_agent_loop.toolbox.files.protected import PROTECTED
from pure_agent_loop.toolbox.files.reading import FileTools
from pure_agent_loop.toolbox.files.search import SearchTools
from pure_agent_loop.toolbox.files.workspace import HardLinks, Workspace
from pure_agent_loop.toolbox.todo import TodoItem, TodoList

if TYPE_CHECKING:
    from pure_agent_loop.toolbox.sandbox.launch import Limits
    from pure_agent_loop.toolbox.shell.policy import ShellPolicy, Verdict
    from pure_agent_loop.toolbox.shell.tool import Shell
    from pure_agent_loop.toolbox.web.fetch import Fetch, FetchError

__all__ = [
    "PROTECTED",
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
    "starter_tools",
    "workspace_tools",
]

# Not every program fetches or runs commands, and what these need takes time to load.
_LATER = {
    "Fetch": "web.fetch",
    "FetchError": "web.fetch",
    "Limits": "sandbox.launch",
    "Shell": "shell.tool",
    "ShellPolicy": "shell.policy",
    "Verdict": "shell.policy",
}


__getattr__, __dir__ = names_loaded_later(__name__, _LATER)


def starter_tools(root: str | os.PathLike[str] | Workspace = ".") -> list[Tool]:
    """``list_dir`` and ``read_file``, restricted to a folder, and ``calculator``, for ``Agent(tools=...)``.

    Args:
        root: The folder whose files the tools may show, or a `Workspace`.

    Raises:
        ConfigError: It is no folder.
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
    """Tools to work on the files of a folder, for ``Agent(tools=...)``.

    ``read_file``, ``list_dir``, ``glob`` and ``grep``, which change nothing and are marked as ``read_only``;
    ``write_file`` and ``edit_file``; and ``shell``, which judges its commands itself.

    Args:
        root: The folder they are restricted to; or a `Workspace`, which says the rest itself.
        protected: Names that cannot be written; `PROTECTED` and our own data folder if None.
        hard_links: Whether a file with several names is read: ``refuse`` or ``allow``.
        shell: Whether the model may run commands.
        shell_options: What `Shell` takes: ``sandbox``, ``network``, ``policy``, ``unsandboxed`` and others.

    Raises:
        ConfigError: The root is no folder, or an option has no meaning.
    """
    if shell_options and not shell:
        raise ConfigError(f"{', '.join(shell_options)} is for the shell, and shell=False.")
    if not isinstance(root, Workspace):
        workspace = Workspace(root, protected=protected, hard_links=hard_links)
    elif protected is not None or hard_links != "refuse":
        raise ConfigError(
            "protected and hard_links are those of the Workspace that was given. Leave them out."
        )
    else:
        workspace, root = root, root.root
    # The kinds of tools of one workspace; each has tools().
    kinds = (FileTools(workspace), ChangeTools(workspace), SearchTools(workspace))
    tools = [each for kind in kinds for each in kind.tools()]
    return [*tools, __getattr__("Shell")(root, **shell_options).tool()] if shell else tools
