"""The tool that looks at pictures judges them by their content."""

from __future__ import annotations

import json

import pytest
from tests.assistant.images import jpeg, png

from pure_agent_loop import Agent, Image, OpenAIClient, Profile
from pure_agent_loop.media import ImageError
from pure_agent_loop.testing import ScriptedServer, call
from pure_agent_loop.toolbox import PictureTools, Workspace


def test_the_tool(tmp_path):
    (tmp_path / "a.txt").write_bytes(jpeg(20, 10))
    (tool,) = PictureTools(Workspace(tmp_path)).tools()
    assert tool.read_only
    words = f"'a.txt': JPEG, 20 x 10 pixels, {len(jpeg(20, 10))} bytes."
    assert tool("a.txt") == [words, Image(data=jpeg(20, 10))]
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(ImageError, match=r"b\.png is not a PNG"):
        tool("b.png")


@pytest.mark.parametrize("takes", [("image",), ()])
def test_a_model_sees_the_picture_where_its_server_takes_pictures(tmp_path, takes):
    (tmp_path / "a.jpg").write_bytes(jpeg(20, 10))
    with ScriptedServer([call("read_image", path="a.jpg"), "Seen."]) as server:
        llm = OpenAIClient("m", "k", server.base_url, profile=Profile("some", takes=takes))
        Agent(llm=llm, tools=PictureTools(Workspace(tmp_path)).tools()).run("What is in a.jpg?")
        sent = server.requests[-1].body["messages"]
    assert "JPEG, 20 x 10 pixels" in next(m["content"] for m in sent if m["role"] == "tool")
    assert ('"image_url"' in json.dumps(sent)) == bool(takes)


def test_large_picture_is_shrunk_and_both_sizes_are_given(tmp_path):
    (tmp_path / "wide.png").write_bytes(png(9_000, 2))
    with ScriptedServer([call("read_image", path="wide.png"), "Seen."]) as server:
        llm = OpenAIClient("m", "k", server.base_url, profile=Profile("some", takes=("image",)))
        Agent(llm=llm, tools=PictureTools(Workspace(tmp_path)).tools()).run("What is in it?")
        said = next(m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool")
    assert said.startswith("'wide.png': PNG, 9000 x 2 pixels, ")
    assert "[image/png, 8000 x 1, " in said
    assert "it was 9000 x 2" in said
