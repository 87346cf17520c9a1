"""What objects print, and what notebooks show: something useful, nothing secret, nothing that runs."""

from __future__ import annotations

import re

from tests.helpers import NO_WAIT

from pure_agent_loop import Agent, ToolRegistry, tool
from pure_agent_loop.result import MAX_LINES, as_html
from pure_agent_loop.testing import ScriptedLLM, call

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def test_objects_print_something_useful():
    agent = Agent("gpt-4o-mini", "sk-secret", "http://10.0.0.5/v1", tools=[echo], name="clerk")
    assert repr(agent) == "<Agent 'clerk', model='gpt-4o-mini', tools=['echo']>"
    assert repr(ToolRegistry([echo])) == "ToolRegistry(['echo'])"
    with ScriptedLLM([call("echo", text="a"), "Done."]) as llm:
        conversation = Agent(llm=llm, tools=[echo]).conversation()
        state = conversation.send_sync("Go.").state
    assert repr(conversation) == "<Conversation: 4 messages>"
    assert repr(state) == "<QueryState completed: step 2, 4 messages>"


def test_notebooks_show_results_and_runs_as_text_alone():
    with ScriptedLLM([call("echo", text=EVIL), EVIL]) as llm:
        run = Agent(llm=llm, tools=[echo], retry=NO_WAIT).prepare(EVIL)
        assert "not started" in run._repr_html_()
        result = run.wait_sync()
    for shown in (result._repr_html_(), run._repr_html_()):
        tags = set(re.findall(r"<[^>]*>", shown))
        plain = {"div", "pre", "small", "details", "summary", "ul", "li"}
        assert tags <= {f"<{slash}{name}>" for name in plain for slash in ("", "/")}
        assert "&lt;script&gt;" in shown
        assert "completed" in shown
    assert "2 steps" in result._repr_html_()


def test_what_a_notebook_shows_is_bounded():
    from pure_agent_loop import Event

    events = [Event.observation(1, "echo", "x" * 10_000, 0.1) for _ in range(MAX_LINES * 2)]
    assert len(as_html("y" * 100_000, "", events)) < 200_000
