"""Ready-made tools that change nothing: files of one folder, pages of the public web, arithmetic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.calculator import calculator
from pure_agent_loop.toolbox.files import FileTools
from pure_agent_loop.toolbox.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from pure_agent_loop.toolbox.fetch import Fetch, FetchError

__all__ = [
    "Fetch",
    "FetchError",
    "FileTools",
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


def __getattr__(name: str) -> Any:
    if name in ("Fetch", "FetchError"):  # TLS takes time to load, and most programs do not fetch
        from pure_agent_loop.toolbox import fetch

        return getattr(fetch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
