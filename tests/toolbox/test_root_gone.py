"""A working folder that is renamed or deleted while somebody works in it."""

from __future__ import annotations

import shutil

import pytest

from pure_agent_loop import Agent
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools


@pytest.mark.parametrize("how", ["renamed", "deleted"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "src/a.txt"}),
        ("list_dir", {"path": "."}),
        ("list_dir", {}),
        ("grep", {"pattern": "a"}),
        ("glob", {"pattern": "*"}),
        ("write_file", {"path": "a.txt", "content": "x"}),
        ("edit_file", {"path": "a.txt", "old_text": "a", "new_text": "b"}),
    ],
)
@pytest.mark.parametrize(("language", "words"), [("en", "is gone"), ("zh", "已不存在")])
def test_removed_workspace_is_reported(tmp_path, how, name, args, language, words):
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    llm = ScriptedLLM([call(name, **args), "done"], tools_may_fail=True)
    agent = Agent(llm=llm, tools=workspace_tools(root), language=language)
    if how == "renamed":
        root.rename(tmp_path / "other")
    else:
        shutil.rmtree(root)
    agent.run("go")
    result = llm.requests[1].messages[-1]["content"]
    assert str(root) in result
    assert words in result
    assert not root.exists()
