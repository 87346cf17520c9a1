"""AG-UI and the UI message stream of the AI SDK, on the wire."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop.testing import answer, call, deltas

LOOK = {
    "name": "look",
    "description": "Look at a page.",
    "parameters": {"type": "object", "properties": {"page": {"type": "string"}}},
}


def model(request):
    done = sum(each["role"] == "tool" for each in request.body["messages"])
    return [call("add", a=1, b=2), call("look", page="one"), deltas("It is ", "three.")][min(done, 2)]


def stream(client, path, body):
    """The events of an answer."""
    with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200, response.read()
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"], response.headers


def test_agui(serve):
    server = serve(model, people={"ada": ["use"]})
    body = {
        "threadId": "t1",
        "runId": "r1",
        "state": {"page": 1},
        "messages": [{"id": "m1", "role": "user", "content": "hello"}],
        "tools": [LOOK],
        "context": [{"description": "The user's name", "value": "Ada"}],
        "forwardedProps": {},
    }
    with server.client() as client:
        events, _ = stream(client, "/agui", body)
        assert [each["type"] for each in events] == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            *["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"],
            *["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"],
            "RUN_FINISHED",
        ]
        assert (events[0]["threadId"], events[-1]["runId"]) == ("t1", "r1")
        assert events[5]["content"] == "3"
        body["messages"] += brought(events)
        again, _ = stream(client, "/agui", body)
        assert "".join(each.get("delta", "") for each in again) == "It is three."
        assert server.effects() == ["add 1 2"]
    with server.client("ada-token-0123456789") as client:  # who sees no tools sees no results
        events, _ = stream(client, "/agui", {**body, "messages": body["messages"][:1]})
        assert (events[3]["delta"], events[5]["content"]) == ("{}", "")


def brought(events):
    """The messages that a page makes of events, and the result of its own tool."""
    calls = [
        {
            "id": each["toolCallId"],
            "type": "function",
            "function": {"name": each["toolCallName"], "arguments": events[number + 1]["delta"]},
        }
        for number, each in enumerate(events)
        if each["type"] == "TOOL_CALL_START"
    ]
    (own,) = [each for each in events if each["type"] == "TOOL_CALL_RESULT"]
    return [
        {"id": "m2", "role": "assistant", "toolCalls": calls[:1]},
        {"id": "m3", "role": "tool", "toolCallId": own["toolCallId"], "content": own["content"]},
        {"id": "m4", "role": "assistant", "toolCalls": calls[1:]},
        {"id": "m5", "role": "tool", "toolCallId": calls[1]["id"], "content": "a page"},
    ]


def test_ui_message_stream(serve):
    server = serve(model)
    asked = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    body = {"id": "c1", "trigger": "submit-message", "messages": [asked], "tools": [LOOK]}
    with server.client() as client:
        events, headers = stream(client, "/api/ui-stream", body)
        assert headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert [each["type"] for each in events] == [
            "start",
            *[
                "start-step",
                "tool-input-start",
                "tool-input-available",
                "tool-output-available",
                "finish-step",
            ],
            *["start-step", "tool-input-start", "tool-input-available", "finish-step"],
            "finish",
        ]
        assert events[4]["output"] == "3"
        assert events[-1]["finishReason"] == "tool-calls"
        own, theirs = events[3], events[8]
        said = {
            "id": events[0]["messageId"],
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "dynamic-tool", "state": "output-available", "output": "3", **about(own)},
                {"type": "step-start"},
                {**about(theirs), "type": "tool-look", "state": "output-available", "output": "a page"},
            ],
        }
        again, _ = stream(client, "/api/ui-stream", {**body, "messages": [asked, said]})
        assert "".join(each.get("delta", "") for each in again) == "It is three."
        assert again[0]["messageId"] == said["id"]
        assert server.effects() == ["add 1 2"]


USER = {"id": "m1", "role": "user"}
AGUI = {"threadId": "t", "runId": "r", "messages": [{**USER, "content": "hi"}]}
UI = {"messages": [{**USER, "parts": [{"type": "text", "text": "hi"}]}]}
RESPONSES = {"model": "helper", "input": "hi", "stream": True}
ITEM = "response.output_item"


@pytest.mark.parametrize(
    ("path", "body", "parts"),
    [
        ("/agui", AGUI, ["REASONING_START", "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]),
        ("/api/ui-stream", UI, ["reasoning-start", "reasoning-end", "text-start", "text-end"]),
        ("/v1/responses", RESPONSES, [f"{ITEM}.added", f"{ITEM}.done"] * 2),
    ],
)
def test_one_part_is_open_at_a_time(serve, path, body, parts):
    server = serve(lambda _: answer("Here.", reasoning="Hm."))
    with server.client() as client:
        events, _ = stream(client, path, body)
    assert [event["type"] for event in events if event["type"] in parts] == parts


def about(event):
    return {name: event[name] for name in ("toolCallId", "toolName", "input")}
