"""Tools that look for files: ``glob`` by name and ``grep`` by content."""

from __future__ import annotations

from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.files.find import find
from pure_agent_loop.toolbox.files.grep import MAX_CONTEXT, MAX_LINES, SECONDS, GrepOptions, grep
from pure_agent_loop.toolbox.files.matching import LinePattern
from pure_agent_loop.toolbox.files.workspace import Workspace
from pure_agent_loop.toolbox.words import TOOLS


class SearchTools:
    """The tools of one workspace that look for files.

    Args:
        workspace: The folder they are restricted to.
        seconds: How long each may take before it is stopped.
        use_ripgrep: Match with ripgrep if it is installed, else and otherwise with Python.
    """

    def __init__(self, workspace: Workspace, *, seconds: float = SECONDS, use_ripgrep: bool = True) -> None:
        self._workspace = workspace
        self._seconds = seconds
        self._use_ripgrep = use_ripgrep

    def tools(self) -> list[Tool]:
        """The tools, for ``Agent(tools=...)``; marked as ``read_only``."""
        return [
            Tool(
                each,
                read_only=True,
                untrusted=True,
                words=TOOLS[each.__name__],
                root=self._workspace.named,
            )
            for each in (self.glob, self.grep)
        ]

    def glob(self, pattern: str, path: str = ".", hidden: bool = False) -> str:
        """Find files by name. Gives their paths, sorted.

        Args:
            pattern: For example "**/*.py" (any folder), "src/*.{js,ts}" or "README*".
            path: The folder the pattern starts from, relative to the workspace.
            hidden: Also look at names that begin with a dot, node_modules and __pycache__.
        """
        return find(self._workspace, pattern, path, hidden, self._seconds)

    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str = "",
        ignore_case: bool = False,
        context: int = 0,
        files_only: bool = False,
        hidden: bool = False,
        limit: int = 100,
    ) -> str:
        """Find lines in files by a regular expression. Gives "file:line:text" for each.

        Args:
            pattern: A regular expression for a part of one line, for example "def \\w+_test".
            path: The folder or file to search, relative to the workspace.
            glob: Only search files of this name, for example "*.py".
            ignore_case: Take upper and lower case as the same.
            context: Number of lines to show before and after each.
            files_only: Only give the names of the files.
            hidden: Also search names that begin with a dot, node_modules and __pycache__.
            limit: The greatest number of matches, or files, to show.
        """
        wanted = LinePattern(pattern, ignore_case, 0 if files_only else min(max(context, 0), MAX_CONTEXT))
        options = GrepOptions(
            pattern=wanted,
            path=path,
            glob=glob,
            hidden=hidden,
            files_only=files_only,
            limit=min(max(limit, 1), MAX_LINES),
            seconds=self._seconds,
            use_ripgrep=self._use_ripgrep,
        )
        return grep(self._workspace, options)
