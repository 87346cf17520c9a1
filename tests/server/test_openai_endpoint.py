"""The clients of OpenAI, on agents."""

from __future__ import annotations

import json
import re
import signal

import openai
import pytest
from tests.server.conftest import OWNER

from pure_agent_loop.testing import Gate, call, deltas

HELLO = [{"role": "user", "content": "hello"}]
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a page.",
        "parameters": {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
    },
}


def client_of(server, token=OWNER):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=token, max_retries=0, timeout=60)


def test_an_agent_is_a_model(serve):
    server = serve([deltas("Hel", "lo."), deltas("Hel", "lo.")])
    with client_of(server) as client:
        assert [each.id for each in client.models.list()] == ["helper", "other"]
        assert client.models.retrieve("other").id == "other"
        answer = client.chat.completions.create(model="helper", messages=HELLO)
        assert answer.choices[0].message.content == "Hello."
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
        options = {"include_usage": True}
        stream = client.chat.completions.create(
            model="helper", messages=HELLO, stream=True, stream_options=options
        )
        chunks = list(stream)
        assert [each.choices[0].delta.content for each in chunks[:-1]] == ["", "Hel", "lo.", None]
        assert chunks[-1].usage.total_tokens > 0
        assert not chunks[-1].choices


def test_its_tools_run_there_and_those_of_the_caller_come_back(serve):
    seen = []

    def model(request):
        seen.append(request.body)
        roles = [each["role"] for each in request.body["messages"]]
        if roles.count("tool") == 0:
            return call("add", a=1, b=2)
        if roles.count("tool") == 1:
            return call("look", page="one")
        return deltas("It is ", "three.")

    server = serve(model)
    messages = [{"role": "system", "content": "Be brief."}, *HELLO]
    with client_of(server) as client:
        first = client.chat.completions.create(model="helper", messages=messages, tools=[LOOK])
        assert first.choices[0].finish_reason == "tool_calls"
        (wanted,) = first.choices[0].message.tool_calls
        assert (wanted.function.name, json.loads(wanted.function.arguments)) == ("look", {"page": "one"})
        assert server.effects() == ["add 1 2"]
        messages.append(first.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": wanted.id, "content": "a page"})
        stream = client.chat.completions.create(model="helper", messages=messages, tools=[LOOK], stream=True)
        text = "".join(each.choices[0].delta.content or "" for each in stream)
        assert text == "It is three."
        assert server.effects() == ["add 1 2"]
        results = [each["content"] for each in seen[-1]["messages"] if each["role"] == "tool"]
        assert results == ["3", "a page"]
        assert seen[-1]["messages"][0]["content"] == "SECRET-PROMPT\n\nBe brief."


def test_responses(serve):
    def model(request):
        roles = [each["role"] for each in request.body["messages"]]
        if roles.count("tool") == 0:
            return call("add", a=1, b=2)
        if roles.count("tool") == 1:
            return call("look", page="one")
        return deltas("It is ", "three.")

    server = serve(model)
    look = {"type": "function", **LOOK["function"]}
    with client_of(server) as client:
        first = client.responses.create(model="helper", instructions="Be brief.", input="hello", tools=[look])
        assert (first.status, first.model_extra["store"]) == ("completed", False)
        (wanted,) = first.output
        assert (wanted.name, json.loads(wanted.arguments)) == ("look", {"page": "one"})
        items = [{"role": "user", "content": "hello"}, wanted.model_dump(exclude_none=True)]
        items.append({"type": "function_call_output", "call_id": wanted.call_id, "output": "a page"})
        with client.responses.stream(model="helper", input=items, tools=[look]) as stream:
            kinds = [each.type for each in stream]
            answer = stream.get_final_response()
        assert answer.output_text == "It is three."
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0
        assert kinds == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert server.effects() == ["add 1 2"]
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="helper", input="x", previous_response_id=answer.id)
        assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize(
    "field",
    [{"n": 2}, {"logprobs": True}, {"functions": [{}]}, {"audio": {}}, {"tool_choice": "required"},
     {"tools": [{"type": "custom"}]}, {"store": True}, {"web_search_options": {}}],
    ids=lambda field: next(iter(field)),
)  # fmt: skip
def test_unsupported_request_is_rejected(idle, field):
    with client_of(idle) as client, pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="helper", messages=HELLO, **field)
    assert refused.value.param == next(iter(field))
    assert refused.value.type == "invalid_request_error"


def test_openapi_document_lists_accepted_fields(idle):
    with idle.client() as client:
        document = client.get("/api/openapi.json").json()
        for path, operations in document["paths"].items():
            for operation in operations.values():
                assert "requestBody" not in operation or path[:4] == "/v1/" or "422" in operation["responses"]
        schemas = document["components"]["schemas"]
        name = schemas["Message"]["properties"]["session"]["anyOf"][0]
        for session in ("a" * 200, "a b/é", "a" * 201, "a\x85", "a\nb", "a\u2028"):
            answered = client.get("/api/runs", params={"session": session}).status_code
            is_fit = len(session) <= name["maxLength"] and re.search(name["pattern"], session)
            assert answered == (200 if is_fit else 400)
        assert schemas["ChatBody"]["properties"]["n"] == {"enum": [None, 1]}
        assert schemas["Fork"]["properties"]["step"]["anyOf"][0] == {
            "type": "integer",
            "minimum": 1,
            "maximum": 10_000_000,
        }
        body = {"model": "nobody", "messages": HELLO, "max_tokens": 3.0, "n": 1}
        assert client.post("/v1/chat/completions", json=body).status_code == 404
        marked = json.dumps(body).encode("utf-8-sig")  # Windows programs begin JSON with a mark
        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/chat/completions", content=marked, headers=headers).status_code == 404
        wrong = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
        refused = client.post("/v1/chat/completions", json={**body, "messages": [wrong]}).json()["error"]
        assert refused["message"].startswith("messages.0.content.0.image_url.url: send images as data:")
        assert refused["param"] == "messages"
        item = {"model": "helper", "input": [{"type": "function_call", "call_id": "a", "name": "b"}]}
        refused = client.post("/v1/responses", json=item).json()["error"]
        assert refused["message"] == "input.0.arguments: Field required"
        # What no schema says is told where the protocol has an end of a run.
        twice = {"threadId": "t", "runId": "r", "tools": [{"name": "a"}, {"name": "a"}]}
        found = client.post("/agui", json={**twice, "messages": [{"id": "1", **HELLO[0]}]})
        assert found.status_code == 200
        assert '"RUN_ERROR","message":"tools: \'a\' already exists.' in found.text
        said = {"messages": [{"role": "assistant", "parts": [{"type": "text", "text": "x"}]}]}
        assert (
            '{"type":"error","errorText":"messages: the last' in client.post("/api/ui-stream", json=said).text
        )


@pytest.fixture(scope="module")
def idle(serve):
    """A server whose model is never asked."""
    return serve([])


def test_unauthorized_request_gets_an_error_in_openai_format(idle):
    with client_of(idle, "wrong") as client, pytest.raises(openai.AuthenticationError) as refused:
        client.models.list()
    assert refused.value.body["type"] == "invalid_request_error"
    with client_of(idle) as client, pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nobody", messages=HELLO)
    assert refused.value.code == "model_not_found"


def test_fields_reach_the_model_and_unknown_ones_are_named(serve):
    seen = []

    def model(request):
        seen.append(request.body)
        return deltas("Yes.")

    server = serve(model)
    with client_of(server) as client:
        answer = client.chat.completions.with_raw_response.create(
            model="helper",
            messages=HELLO,
            temperature=0.1,
            top_p=0.5,
            seed=7,
            stop=["END"],
            max_tokens=50,
            tools=[LOOK],
            tool_choice={"type": "function", "function": {"name": "look"}},
            extra_body={"x_unknown": 1},
        )
    assert answer.headers["x-ignored-fields"] == "x_unknown"
    wanted = {"temperature": 0.1, "top_p": 0.5, "seed": 7, "stop": ["END"], "max_tokens": 50}
    assert {name: seen[0][name] for name in wanted} == wanted
    assert seen[0]["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert "x_unknown" not in seen[0]


def test_disconnected_client_stops_the_run(serve):
    gate, left = Gate(), []

    def model(request):
        left.append(request.left)
        return deltas("It ", gate, "goes on.")

    server = serve(model)
    with client_of(server) as client:
        stream = client.chat.completions.create(model="helper", messages=HELLO, stream=True)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        stream.close()
        left[0].wait(30)
    gate.open()


def test_call_that_needs_a_person_is_not_allowed(serve):
    server = serve([call("danger", what="it"), deltas("I may not.")])
    with client_of(server) as client:
        answer = client.chat.completions.create(model="helper", messages=HELLO)
    assert answer.choices[0].message.content == "I may not."
    assert server.effects() == []


def test_runs_of_requests_are_in_usage_and_metrics_and_waited_for(serve):
    gate = Gate()
    server = serve(["Hello.", deltas("One ", gate, "two.")], limits={"grace": 30})
    with client_of(server) as client, server.client() as rest:
        first = client.chat.completions.create(model="other", messages=HELLO)
        used = [{"name": "other", "runs": 1, "tokens": first.usage.total_tokens, "cost": 0.0}]
        assert rest.get("/api/usage").json()["agents"] == used
        assert rest.get("/api/runs").json()["runs"] == []
        stream = client.chat.completions.create(model="helper", messages=HELLO, stream=True)
        texts = [next(stream).choices[0].delta.content for _ in range(2)]
        numbers = rest.get("/metrics").text
        assert 'pal_runs_ended_total{agent="other",reason="completed"} 1' in numbers
        assert 'pal_runs{state="running"} 1' in numbers
        server.process.send_signal(signal.SIGTERM)
        while rest.get("/readyz").status_code == 200:
            pass
        gate.open()
        texts += [each.choices[0].delta.content for each in stream]
        assert texts == ["", "One ", "two.", None]
    assert server.kill(0) == 0
    server.start()
    with server.client() as rest:
        assert [each["name"] for each in rest.get("/api/usage").json()["agents"]] == ["helper", "other"]
