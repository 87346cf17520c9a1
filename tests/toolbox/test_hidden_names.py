"""Hidden files, which editors and tools may obey: a person decides about a write, and their answer counts."""

from __future__ import annotations

import pytest
from tests.helpers import check_result

from pure_agent_loop import Agent, PermissionRules
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools


def write(folder, path, answer, **options):
    asked = []
    llm = ScriptedLLM([call("write_file", path=path, content="x"), "done"])
    agent = Agent(
        llm=llm, tools=workspace_tools(folder), on_ask=lambda q: asked.append(q.reason) or answer, **options
    )
    check_result(agent.run("go"))
    return asked, (folder / path).exists()


@pytest.mark.parametrize("path", [".tool-of-tomorrow.toml", "a/.Hidden/b", "x.code-workspace", "mise.toml"])
@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_write_to_a_name_that_tools_obey_is_asked_about(tmp_path, path, answer):
    asked, written = write(tmp_path, path, answer)
    assert len(asked) == 1
    assert "without asking" in asked[0]
    assert written is (answer == "allow")


@pytest.mark.parametrize("path", [".gitignore", ".github/workflows/a.yml", "a/.dockerignore", "src/a.py"])
def test_write_to_a_name_that_nothing_obeys_is_not_asked_about(tmp_path, path):
    assert write(tmp_path, path, "deny") == ([], True)


@pytest.mark.parametrize("options", [{"permission_mode": "bypass"}, {"allow": ["write_file(path=.tool/*)"]}])
def test_mode_or_rule_of_the_user_decides_beforehand(tmp_path, options):
    rules = {"permission_rules": PermissionRules(**options)} if "allow" in options else options
    assert write(tmp_path, ".tool/a", "deny", **rules) == ([], True)
