"""What a browser may see: a canary in everything that a program brings, and none of them comes out."""

from __future__ import annotations

import json

from tests.helpers import NO_WAIT, of_type

from pure_agent_loop import (
    Agent,
    BeforeTool,
    Event,
    EventType,
    Hooks,
    LoopLimits,
    OpenAIClient,
    Permission,
    Profile,
    tool,
)
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedServer, answer, call, status

CANARY = "canary"


@tool
def lookup(key: str) -> dict[str, str]:
    """Look up canary-description."""
    return {"row": "canary-result", "key": key}


@tool
def broken(key: str) -> str:
    """Break."""
    raise OSError(f"no route to canary-host:5432, /srv/canary/{key}")


@tool
def refused(key: str) -> str:
    """Never run."""
    return key


def events_of(tmp_path, script, **settings):
    with ScriptedServer(script) as server:
        client = OpenAIClient(
            "canary-model",
            "canary-key-0123456789",
            server.base_url,
            default_query={"canary-query": "canary-value"},
            profile=Profile("canary-profile"),
        )
        agent = Agent(
            llm=client,
            tools=[lookup, broken, refused],
            system_prompt="canary-system",
            name="canary-name",
            results_folder=tmp_path / "canary-results",
            sessions=JsonlStore(tmp_path / "canary-sessions"),
            retry=NO_WAIT,
            emit_reasoning_events=True,
            **settings,
        )
        history = [
            {"role": "user", "content": "canary-history"},
            {"role": "assistant", "content": "canary-answer"},
        ]
        stream = list(agent.run_stream("Say hello.", history, session_id="canary-session", media=None))
        port = ":" + server.base_url.rsplit(":", 1)[1].split("/")[0]  # digits alone occur in times
    return stream, [json.dumps(event.public()) for event in stream], port


def test_no_canary_reaches_the_public_view(tmp_path):
    hooks = Hooks(
        before_tool=[lambda name, args, context: BeforeTool(context="canary-hook")],
        on_stop=[lambda content, context: None],
    )
    script = [
        status(500, "canary-refusal at http://canary-host"),
        call("lookup", key="canary-argument"),
        [call("broken", key="canary-argument"), call("refused", key="canary-argument")],
        call("no_such_tool", key="canary-argument"),
        answer("Hello.", reasoning="canary-system says so"),
    ]
    events, seen, port = events_of(
        tmp_path,
        script,
        hooks=hooks,
        can_use_tool=lambda name, args, context: (
            Permission("deny", "canary-reason") if name == "refused" else "allow"
        ),
        limits=LoopLimits(max_turns=9),
    )
    assert of_type(events, EventType.LOOP_END)[0].stop_reason == "completed"
    kinds = {event.type for event in events}
    assert {
        EventType.RETRY,
        EventType.PERMISSION,
        EventType.NOTICE,
        EventType.PART,
        EventType.REASONING,
    } <= kinds
    everything = json.dumps([event.to_dict() for event in events])
    for secret in ("history", "result", "host", "argument", "reason", "hook", "refusal"):
        assert f"canary-{secret}" in everything
    assert [text for text in seen if CANARY in text or port in text or str(tmp_path) in text] == []
    assert "Hello." in "".join(seen)
    assert [json.loads(text)["number"] for text in seen] == list(range(1, len(seen) + 1))


def test_a_run_that_fails_says_no_address(tmp_path):
    _, seen, port = events_of(tmp_path, lambda *_: status(500, "canary"))
    assert [text for text in seen if CANARY in text or port in text] == []
    assert '"stop_reason": "error"' in seen[-1]


def test_a_key_of_an_unknown_name_is_hidden_in_every_type():
    for kind in EventType:
        plain = {"type": kind.value, "step": 1, "timestamp": 0.0, "data": {"canary": "canary"}}
        event = Event.from_dict(plain)
        assert CANARY not in json.dumps(event.public(tools=True, reasoning=True))


def test_a_task_of_a_subagent_shows_no_prompt():
    record = {
        "id": "helper-1",
        "state": "running",
        "calls": 2,
        "prompt": "canary",
        "result": "canary",
        "place": "/canary",
    }
    assert Event.task(1, record).public()["data"] == {
        "task": {"id": "helper-1", "state": "running", "calls": 2}
    }
