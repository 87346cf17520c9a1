"""What objects print, and what notebooks show: something useful, nothing secret, nothing that runs."""

from __future__ import annotations

import importlib.util
import re

from tests.helpers import NO_WAIT

from pure_agent_loop import Agent, LLMError, PermissionRequest, RunInterrupted, ToolRegistry, tool
from pure_agent_loop.durable import TaskInfo
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
    for shown in (result._repr_html_(), run._repr_html_(), result._repr_markdown_()):
        tags = set(re.findall(r"<[^>]*>", shown))
        plain = {"div", "p", "small", "details", "summary", "table", "tr", "th", "td"}
        assert tags <= {f"<{slash}{name}>" for name in plain for slash in ("", "/")}
        assert "![" not in shown
        assert "1 call" in shown
        assert "&lt;script&gt;" in shown
        assert "completed" in shown
    assert "2 steps" in result._repr_html_()


def test_notebook_output_is_bounded():
    from pure_agent_loop import Event

    events = [Event.observation(1, "echo", "x" * 10_000, 0.1) for _ in range(MAX_LINES * 2)]
    assert len(as_html("y" * 100_000, "", events)) < 200_000


def test_an_answer_is_shown_as_prose_and_its_calls_as_a_folded_table():
    with ScriptedLLM([call("echo", text="a\n\nb"), "## Done\n\n- one\n- **two**"]) as llm:
        result = Agent(llm=llm, tools=[echo], retry=NO_WAIT).run("Go.")
    page, document = result._repr_html_(), result._repr_markdown_()
    assert "<h4>Done</h4>\n<ul>\n<li>one</li>\n<li><strong>two</strong></li>\n</ul>" in page
    assert document.startswith("##### Done\n\n- one\n- **two**\n\n<details><summary>1 call</summary><table>")
    row = "<td>echo</td><td>{&quot;text&quot;: &quot;a\\n\\nb&quot;}</td><td>a<br><br>b</td><td>done</td>"
    assert row in page
    assert row in document


def test_a_failure_is_shown_with_its_error():
    said = "No <b>room</b>. ![x](http://evil/t.png)\n\n[x](javascript:x)"
    with ScriptedLLM([LLMError(said, kind="auth")]) as llm:
        result = Agent(llm=llm, retry=NO_WAIT).run("Go.")
    if importlib.util.find_spec("markdown_it") is not None:  # the oldest dependencies have none
        from tests.sessions.test_export import browsed

        assert browsed(result._repr_markdown_()).tags.isdisjoint({"img", "a", "b"})
    for shown in (result._repr_html_(), result._repr_markdown_()):
        assert "error: No &lt;b&gt;room&lt;/b&gt;." in shown


def test_an_interrupt_says_where_the_result_is():
    with ScriptedLLM(["Done."]) as llm:
        result = Agent(llm=llm).run("Go.")
    error = RunInterrupted(result)
    assert "sys.last_value.result" in str(error)
    assert error.result is result


def test_notebooks_show_durable_runs_as_text_alone():
    evil = "<img src=x onerror=alert(1)>"
    question = PermissionRequest("c1", "shell", {"command": evil}, evil)
    info = TaskInfo(
        "r1",
        evil,
        evil,
        "waiting_permission",
        content="**Half**",
        error=evil,
        questions=[question],
        created=1.7e9,
    )
    shown = info._repr_html_()
    assert set(re.findall("<[^/>]*>", shown)) == {
        "<div>",
        "<p>",
        "<strong>",
        "<table>",
        "<tr>",
        "<th>",
        "<td>",
    }
    assert "<strong>Half</strong>" in shown
    assert "<td>asks about</td><td>shell {&quot;command&quot;: &quot;&lt;img" in shown
    assert "2023-11-14 22:13 UTC" in shown
