"""Questions about the tools of MCP servers, and rules that one types."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.conversations import idle, leave
from tests.cli.screens import ENTER

from pure_agent_loop.testing import answer, call

SERVER = Path(__file__).parents[1] / "mcp" / "good_server.py"


def weather(city):
    return answer("", call("mcp__good__weather", city=city))


@pytest.fixture
def words(pal):
    """The options of a conversation with a server that the user added."""
    server = {"command": sys.executable, "args": [str(SERVER)]}
    (pal.workspace / "own.json").write_text(json.dumps({"mcpServers": {"good": server}}))
    return ("chat", "--mcp-config", "own.json")


def test_one_answer_allows_a_tool_of_a_server_until_the_rule_is_removed(chat, words):
    script = [weather("Oslo"), weather("Rome"), "Both.", weather("Bonn"), "Again.", weather("Lima"), "Last."]
    screen = chat(script, *words, "Compare them", rows=60)
    screen.until("Yes, and all calls to mcp__good__weather this session")
    screen.type("x" + ENTER)
    screen.until("Answer with y, s, t, a or n")
    screen.type("\x7ft" + ENTER)
    screen.until("Both.")
    idle(screen)
    screen.type("And there?" + ENTER)
    screen.until("Again.")
    idle(screen)
    assert screen.all.count("Allowed for this session: mcp__good__weather.") == 1
    screen.type("/permissions remove mcp__good__weather" + ENTER)
    screen.until("rule removed: mcp__good__weather")
    screen.type("And here?" + ENTER)
    screen.until("Yes, and all calls to mcp__good__weather this session")
    screen.type("n" + ENTER)
    screen.until("Last.")
    leave(screen)


def test_a_rule_is_typed_and_removed(chat, source):
    edit = answer("", call("edit_file", path="src/a.py", old_text="one", new_text="two"))
    back = answer("", call("edit_file", path="src/a.py", old_text="two", new_text="one"))
    screen = chat([edit, "Edited.", back, "Undone it is."], rows=60)
    for rule in ("shell((", "a b"):
        screen.type(f"/permissions allow {rule}{ENTER}")
        screen.until("is not a permission rule")
        screen.type("\x15")
    screen.type("/permissions allow edit_file(path=src/*)" + ENTER)
    screen.until(r"rule for this session: allow edit_file\(path=src/\*\)\. To remove it:")
    screen.type("Edit it" + ENTER)
    screen.until("Edited.")
    idle(screen)
    screen.type("/permissions" + ENTER)
    screen.until(r"allow edit_file\(path=src/\*\)")
    screen.type("/permissions deny edit_file" + ENTER)
    screen.until("rule for this session: deny edit_file")
    screen.type("Back" + ENTER)
    screen.until("Undone it is")
    assert "⊘ Edit src/a.py" in screen.all
    assert source.read_text().startswith("two")
    leave(screen)
