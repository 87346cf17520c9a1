"""The tool that looks at pictures judges them by their content."""

from __future__ import annotations

import pytest
from tests.assistant.images import jpeg

from pure_agent_loop.media import ImageError
from pure_agent_loop.toolbox import PictureTools, Workspace


def test_the_tool(tmp_path):
    (tmp_path / "a.txt").write_bytes(jpeg(20, 10))
    (tool,) = PictureTools(Workspace(tmp_path)).tools()
    assert tool.read_only
    assert tool("a.txt") == f"'a.txt': JPEG, 20 x 10 pixels, {len(jpeg(20, 10))} bytes."
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(ImageError, match=r"b\.png is no PNG"):
        tool("b.png")
