"""The tool ``read_image``, which changes nothing."""

from __future__ import annotations

from pure_agent_loop.media import MAX_FILE_BYTES, Image, image_info
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import shown
from pure_agent_loop.toolbox.files.workspace import Workspace


class PictureTools:
    """The picture tools of one workspace.

    Args:
        workspace: The folder the tools are restricted to.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Tool]:
        """Return the tools, for ``Agent(tools=...)``; they are ``read_only``."""
        root = self._workspace.named
        return [Tool(self.read_image, read_only=True, words=TOOLS["read_image"], root=root)]

    def read_image(self, path: str) -> list[str | Image]:
        """Look at a picture, and get its format, size and dimensions. PNG, JPEG, GIF and WebP.

        Args:
            path: The file, relative to the workspace, for example "docs/logo.png".
        """
        with self._workspace.open_for_reading(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        image = image_info(data, name=path)
        details = {"kind": image.kind.upper(), "width": image.width, "height": image.height}
        return [model_text("picture", path=shown(path), size=len(data), **details), Image(data=data)]
