"""Titles of calls in the words of the tool: `Tool(asks=, running=)`, and where people read them."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, ConfigError, EventType, SessionManager, Tool, tool
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.cli.questions import question_text
from pure_agent_loop.renderer import Renderer
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, call


@tool(asks="Refund {amount} for {order}?", running="Refunding {order}…")
def refund(order: str, amount: float = 5, why: str | None = None) -> str:
    """Give money back."""
    return f"{amount} back"


def refunding(**changes):
    """The first tool with other options."""
    return refund.changed(**changes)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("Refund {amount} for {ordr}?", "{ordr} is no argument of the tool. It has order, amount, why"),
        ("Refund {order.id}?", "{order.id} is no argument"),
        ("Refund {order!r}?", "{order!r} is no argument"),
        ("Refund {amount:.2f}?", "{amount:.2f} is no argument"),
        ("Refund {}?", "{} is no argument"),
        ("Refund {order?", "is no template"),
        (7, "must be a text"),
    ],
)
@pytest.mark.parametrize("name", ["asks", "running"])
def test_a_template_is_checked_when_the_tool_is_made(name, template, said):
    with pytest.raises(ConfigError) as caught:
        refunding(**{name: template})
    assert said in str(caught.value)
    assert f"'refund': {name}" in str(caught.value)


def test_a_tool_with_a_given_schema_is_checked_too():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert Tool(None, name="weather", parameters=schema, asks="Weather of {city}?").asks
    with pytest.raises(ConfigError, match=r"\{town\} is no argument"):
        Tool(None, name="weather", parameters=schema, asks="Weather of {town}?")


@pytest.mark.parametrize(
    ("args", "title"),
    [
        ({"order": "A-1", "amount": 89.9}, "Refund 89.9 for A-1?"),
        ({"order": "A-1"}, "Refund 5 for A-1?"),  # the default
        ({"order": None, "amount": 1}, ""),
        ({"amount": 1}, ""),
        ({"order": "{amount}", "amount": 1}, "Refund 1 for {amount}?"),
        ({"order": ["a", 1], "amount": True}, 'Refund true for ["a", 1]?'),
        ({"order": "a\n\x1b[31mb\u202e\u200b", "amount": 1}, "Refund 1 for a b\\u202e?"),
        ({"order": "x" * 500, "amount": 1}, f"Refund 1 for {'x' * 56} ...?"),
    ],
)
def test_a_title_is_one_safe_line_for_any_value(args, title):
    assert refund.call_title(refund.asks, args) == title


def run(folder, on_ask, amount=89.9):
    script = [call("refund", order="A-1", amount=amount), "Done."]
    agent = Agent(
        llm=ScriptedLLM(script), tools=[refund], permission_mode="ask", on_ask=on_ask, sessions=folder
    )
    return list(agent.run_stream("Go.", session_id="s"))


def test_a_question_and_its_call_are_titled_on_every_view(tmp_path):
    # Of extras, which the oldest dependencies are tested without.
    pytest.importorskip("rich")
    pytest.importorskip("mcp_types")
    from pure_agent_loop.mcp.serving.questions import _question

    requests, screen, renderer = [], TranscriptView(70, color=False, animation=False), Renderer()

    def answer(request):
        requests.append(request)
        return "allow"

    events = run(tmp_path, answer)
    (request,) = requests
    assert request.title == "Refund 89.9 for A-1?"
    assert question_text(request).splitlines()[0] == "Refund 89.9 for A-1?"
    assert _question(request).startswith("Refund 89.9 for A-1?\n")
    titles = {event.type: event.data["title"] for event in events if event.data.get("title")}
    assert titles == {EventType.PERMISSION: request.title, EventType.ACTION: "Refunding A-1…"}
    action = next(event for event in events if event.type is EventType.ACTION)
    assert "title" not in action.public()["data"]
    shown = ""
    for event in events:
        shown += screen.feed(event)
        if event.type is EventType.ACTION:
            assert "Refunding A-1…" in str(screen.live())
    assert "✓ Refunding A-1  89.9 back\n" in shown
    told = "".join(map(renderer.render, events))
    assert '-> Refunding A-1…  refund(order="A-1", amount=89.9)' in told

    records = JsonlStore(tmp_path).read("s").records  # what another process, or tomorrow, shows
    again = TranscriptView(70, color=False, animation=False)
    assert "✓ Refunding A-1  89.9 back\n" in "".join(map(again.recorded, read_story(records).entries))
    assert replay_session(records).difference is None


def test_a_question_in_another_process_has_the_title(tmp_path):
    assert run(tmp_path, lambda _: "ask")[-1].stop_reason == "waiting_permission"
    (question,) = SessionManager(tmp_path).questions("s")
    assert question.title == "Refund 89.9 for A-1?"
    assert replay_session(JsonlStore(tmp_path).read("s").records).difference is None


def test_secret_is_redacted_in_a_title(tmp_path):
    script = [call("refund", order="sk-very-secret-0123456789", amount=1), "Done."]
    requests = []
    agent = Agent(
        llm=ScriptedLLM(script),
        tools=[refund],
        permission_mode="ask",
        on_ask=lambda request: requests.append(request) or "allow",
        sessions=tmp_path,
        redact=Redactor(["sk-very-secret-0123456789"]),
    )
    events = list(agent.run_stream("Go.", session_id="s"))
    titles = [event.data["title"] for event in events if event.data.get("title")]
    assert len(titles) == 2
    assert not any("very-secret" in title for title in [*titles, requests[0].title])
    assert "very-secret" not in next(tmp_path.rglob("s*.jsonl")).read_text()
