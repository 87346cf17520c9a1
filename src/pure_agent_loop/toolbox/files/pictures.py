"""The tool that looks at a picture: ``read_image``."""

from __future__ import annotations

from pure_agent_loop.media import MAX_BYTES, inspect_image
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import shown
from pure_agent_loop.toolbox.files.workspace import Workspace


class PictureTools:
    """The tools of one workspace for pictures.

    Args:
        workspace: The folder they are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Tool]:
        """The tools, for ``Agent(tools=...)``; marked as ``read_only``."""
        return [Tool(self.read_image, read_only=True)]

    def read_image(self, path: str) -> str:
        """Say what a picture is: its format, size and dimensions. PNG, JPEG, GIF and WebP.

        Args:
            path: The file, relative to the workspace, for example "docs/logo.png".
        """
        with self._workspace.open_for_reading(path) as file:
            data = file.read(MAX_BYTES + 1)
        image = inspect_image(data, name=path)
        size = f"{image.width} x {image.height} pixels, {len(data):,} bytes"
        return f"{shown(path)}: {image.kind.upper()}, {size}."
