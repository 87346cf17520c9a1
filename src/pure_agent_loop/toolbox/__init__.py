"""Ready-made tools. All of them stay inside one folder and change nothing."""

from __future__ import annotations

import os

from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.calculator import calculator
from pure_agent_loop.toolbox.files import FileTools
from pure_agent_loop.toolbox.shell_policy import ShellPolicy, Verdict
from pure_agent_loop.toolbox.workspace import Workspace, WorkspaceError

__all__ = [
    "FileTools",
    "ShellPolicy",
    "Verdict",
    "Workspace",
    "WorkspaceError",
    "calculator",
    "starter_tools",
]


def starter_tools(root: str | os.PathLike[str] = ".") -> list[Tool]:
    """``list_dir`` and ``read_file``, restricted to a folder, and ``calculator``, for ``Agent(tools=...)``.

    Args:
        root: The folder whose files the tools may show.

    Raises:
        ConfigError: It is no folder.
    """
    return [*FileTools(Workspace(root)).tools(), calculator]
