"""The Responses protocol: requests, streams, errors and whole runs against a strict server."""

import itertools
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_client_conformance import EndEarly, ErrorChunk, Reset, answer, call, deltas, raw_call, status
from llm_client_conformance.protocols import Detach, ResponsesServer, check_responses_request, response_items
from pure_agent_loop import Agent, CancelToken, EventType, ResponsesClient, RetryConfig, Tool
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultFloat
from pure_agent_loop.llm.response import Assembler, assembled
from pure_agent_loop.llm.responses.request import ResponsesWriter
from pure_agent_loop.llm.responses.stream import ResponsesReader
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.secrets.redaction import Redactor
from tests.llm.protocols.histories import histories
from tests.llm.protocols.loops import in_a_loop
from tests.llm.protocols.typed import HAS_TYPES, assert_typed

ORIGIN = "https://api.openai.com/v1 m"
USER = [{"role": "user", "content": "q"}]
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "secret",
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def body(messages, tools=None, options=None, **settings):
    written = ResponsesWriter("m", origin=ORIGIN, **settings).write(
        messages, tools, options or {}, stream=False
    )
    assert check_responses_request(written) == []
    assert_typed(written)
    return written


def message_item(text, **fields):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **fields,
    }


def kept(*items, content, origin=ORIGIN, **fields):
    extra = {"response_items": list(items), "meta": {"origin": origin}}
    return {"role": "assistant", "content": content, **extra, **fields}


# -- requests ------------------------------------------------------------------------------------------------


def test_the_server_stores_nothing_and_encrypts_its_reasoning():
    written = body([{"role": "system", "content": "s"}, *USER])
    assert (written["store"], written["include"]) == (False, ["reasoning.encrypted_content"])
    assert (written["instructions"], written["input"]) == ("s", [{"role": "user", "content": "q"}])
    assert body(USER, None, {"store": True})["store"] is True


def test_parts_of_a_question():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}
    audio = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    parts = body([{"role": "user", "content": [{"type": "text", "text": "x"}, image, file, audio]}])["input"][
        0
    ]
    assert [part["type"] for part in parts["content"]] == [
        "input_text",
        "input_image",
        "input_file",
        "input_text",
    ]


def test_options_have_their_counterparts():
    options = {
        "max_tokens": 9,
        "reasoning_effort": "low",
        "verbosity": "low",
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "temperature": DefaultFloat(0.7),
    }
    written = body(USER, [ADD], options)
    assert (written["max_output_tokens"], written["reasoning"]) == (9, {"effort": "low"})
    assert written["tool_choice"] == {"type": "function", "name": "add"}
    assert (written["text"], written["parallel_tool_calls"]) == ({"verbosity": "low"}, False)
    assert "temperature" not in written


def test_a_typed_answer_is_asked_for():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = AnswerFormat({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    written = body(USER, None, {"response_format": form})["text"]["format"]
    assert written == {"type": "json_schema", "strict": False, "name": "x", "schema": schema}


@pytest.mark.parametrize("name", ["seed", "stop", "frequency_penalty"])
def test_options_without_a_counterpart_are_refused(name):
    with pytest.raises((ConfigError, LLMError), match=f"{name} has no counterpart"):
        body(USER, None, {name: 1})


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("place", ["option", "extra_body"])
def test_no_history_is_sent_with_a_server_history(name, place):
    options = {name: "x"} if place == "option" else {"extra_body": {name: "x"}}
    with pytest.raises(ConfigError, match=f"{name}='x': the history is sent already"):
        body(USER, None, options)


@pytest.mark.parametrize(
    "settings", [{"poll_seconds": 0}, {"poll_seconds": "2"}, {"custom_tools": ["query"]}]
)
def test_wrong_settings_are_refused_with_their_name(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        ResponsesClient("gpt-5", "k", **settings)


def test_reasoning_goes_back_to_its_own_model():
    history = [*USER, kept(REASONING, message_item("ok", phase="final_answer"), content="ok"), *USER]
    items = body(history)["input"]
    assert [item.get("type", "easy") for item in items] == ["easy", "reasoning", "message", "easy"]
    assert items[2]["phase"] == "final_answer"


@pytest.mark.parametrize(
    "change",
    [{"origin": "https://api.openai.com/v1 other"}, {"content": "another text"}],
)
def test_reasoning_of_others_and_of_changed_messages_is_left_out(change):
    settings = {"content": "ok", **change}
    history = [*USER, kept(REASONING, message_item("ok"), **settings), *USER]
    assert "reasoning" not in [item.get("type") for item in body(history)["input"]]


@pytest.mark.parametrize(
    ("phases", "expected"),
    [(["commentary"], "commentary"), (["commentary", "final_answer"], None), ([], None)],
)
def test_a_changed_text_keeps_its_phase(phases, expected):
    items = [message_item("ok", phase=phase) for phase in phases]
    written = body([*USER, kept(*items, content="[redacted]"), *USER])["input"][1]
    assert (written["content"], written.get("phase")) == ("[redacted]", expected)


def test_unstored_reasoning_is_dropped():
    plain = {name: value for name, value in REASONING.items() if name != "encrypted_content"}
    history = [*USER, kept(plain, message_item("ok"), content="ok")]
    assert body(history)["input"][1:] == [{"role": "assistant", "content": "ok"}]
    stored = body(history, None, {"store": True})["input"]
    assert [item.get("type") for item in stored] == [None, "reasoning", "message"]


def reasoned(draw, content):
    return kept(REASONING, message_item(content), content=content)


@given(histories(reasoned), st.booleans())
def test_any_history_is_accepted(history, has_tools):
    body(history, [ADD] if has_tools else None)


# -- responses -----------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streams(request):
    return request.param


async def respond(server, streams, **options):
    client = ResponsesClient("gpt-5", "k", server.base_url)
    try:
        if streams:
            return await assembled(client.chat_stream(USER, **options))
        return await client.chat(USER, **options)
    finally:
        await client.aclose()


@in_a_loop
async def test_text_and_reasoning_and_calls(streams):
    item = answer("It is ", call("add", a=1, b=2), call("add", a=3, b=4), reasoning="Let me see.")
    with ResponsesServer([item], rechunk=(1, 7, 3)) as server:
        response = await respond(server, streams)
    assert (response.content, response.reasoning_content) == ("It is ", "Let me see.")
    assert [c.arguments for c in response.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert (response.finish_reason, response.usage) == ("tool_calls", TokenUsage(10, 5, 15, 0, 0, False, 0))
    kinds = [item["type"] for item in response.extra["response_items"]]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]


@in_a_loop
async def test_plain_answers_keep_no_items(streams):
    with ResponsesServer([answer("It is 3.", call("add", a=1, b=2))]) as server:
        assert (await respond(server, streams)).extra is None


@in_a_loop
async def test_items_without_deltas_are_complete(streams):
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    made = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "add", "arguments": '{"a": 1}'}
    items = [REASONING, search, message_item("Found."), {**made, "status": "completed"}]
    with ResponsesServer([response_items(*items)]) as server:
        response = await respond(server, streams)
    assert (response.content, response.reasoning_content) == ("Found.", "hm")
    assert response.tool_calls[0].arguments == {"a": 1}
    assert response.extra["response_items"] == items


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", "length"),
        ("max_messages", "length"),
        ("steered", "length"),
        ("content_filter", "content_filter"),
        ("of the future", "length"),
    ],
)
@in_a_loop
async def test_incomplete_responses(reason, expected, streams):
    item = response_items(message_item("x"), status="incomplete", incomplete_details={"reason": reason})
    with ResponsesServer([item]) as server:
        assert (await respond(server, streams)).finish_reason == expected


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(429, "slow down", error_code="rate_limit_exceeded"), "rate_limit"),
        (status(404, "no such model"), "not_found"),
        (ErrorChunk("The server had an error", "server_error"), "overloaded"),
        (deltas("It ", ErrorChunk("Rate limit reached", "rate_limit_exceeded")), "rate_limit"),
        (response_items(status="failed", error={"code": "server_error", "message": "x"}), "overloaded"),
        (deltas("It is ", EndEarly()), "incomplete"),
        (deltas("It is ", Reset()), "connection"),
    ],
)
@in_a_loop
async def test_errors_have_their_kind(fault, kind):
    with ResponsesServer([fault]) as server:
        with pytest.raises(LLMError) as raised:
            await respond(server, True)
        assert raised.value.kind == kind


@in_a_loop
async def test_a_model_that_cannot_encrypt_is_asked_without():
    refusal = status(400, "Encrypted content is not supported with this model.", kind="invalid_request_error")
    with ResponsesServer([refusal, "a", "b"]) as server:
        client = ResponsesClient("gpt-x", "k", server.base_url)
        seen = [delta async for delta in client.chat_stream(USER)]
        await client.chat(USER)
        await client.aclose()
        assert ["include" in request.body for request in server.requests] == [True, False, False]
    assert "cannot encrypt" in seen[0].notice


@pytest.mark.parametrize("streams", [True, False])
def test_a_run_keeps_its_reasoning(streams):
    items = [
        answer(call("add", a=1, b=2), reasoning="first"),
        answer(raw_call("add", "{broken"), reasoning="second"),
        answer("Now.", call("add", a=3, b=3), reasoning="third"),
        answer("It is 6.", reasoning="fourth"),
    ]
    with ResponsesServer(items) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url, "low")
        result = Agent(llm=client, tools=[add], stream=streams).run("Add.")
        bodies = [request.body for request in server.requests]
    assert result.output == "It is 6."
    for written in bodies:
        assert_typed(written)
    thoughts = [i["summary"][0]["text"] for i in bodies[-1]["input"] if i.get("type") == "reasoning"]
    assert thoughts == ["first", "second", "third"]


def test_the_environments_key_goes_to_openai_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert ResponsesClient("gpt-5", prepared=False).has_key
    assert not ResponsesClient("gpt-5", base_url="https://openai.com.example", prepared=False).has_key
    assert json.dumps(ResponsesClient("gpt-5", prepared=False).origin).find("secret") < 0


# -- what an attack found ------------------------------------------------------------------------------------

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "add",
    "arguments": '{"a": 1, "b": 2}',
}


def read(*events, reader=None):
    reader = reader or ResponsesReader()
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assembler = Assembler(splits_thinking=False)
    for delta in reader.feed(body):
        assembler.feed(delta)
    return assembler.finish()


def added(item):
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def done(item):
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def completed(*items, **fields):
    response = {"status": "completed", "output": list(items), **fields}
    return {"type": "response.completed", "response": response}


def test_an_item_that_is_done_twice_is_one():
    response = read(added({**CALL, "arguments": ""}), done(CALL), done(CALL), completed(CALL))
    assert len(response.tool_calls) == 1


@pytest.mark.parametrize("piece", ['{"a": 1', '{"a": 9, "b": 9}'])
def test_the_final_form_of_a_call_is_right(piece):
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece}
    response = read(added({**CALL, "arguments": ""}), delta, done(CALL), completed(CALL))
    assert response.tool_calls[0].arguments == {"a": 1, "b": 2}


def test_events_that_only_name_their_item_are_read():
    """llama.cpp's server sends no output index, and names a call by its call id."""
    call = {name: value for name, value in CALL.items() if name != "id"}
    message = message_item("Hi there.")
    events = [
        added({**message, "content": []}),
        {"type": "response.output_text.delta", "item_id": message["id"], "delta": "Hi there."},
        done(message),
        added({**call, "arguments": ""}),
        {"type": "response.function_call_arguments.delta", "item_id": "c1", "delta": CALL["arguments"]},
        done(call),
    ]
    bare = [{name: value for name, value in event.items() if name != "output_index"} for event in events]
    response = read(*bare, completed(message, call))
    assert response.content == "Hi there."
    assert [each.arguments for each in response.tool_calls] == [{"a": 1, "b": 2}]


def test_items_of_the_final_event_are_read():
    assert read(completed(message_item("only here"))).content == "only here"


@pytest.mark.parametrize(
    "event",
    [
        completed("x"),
        completed({"type": "message", "content": "text"}),
        completed({"type": "function_call", "call_id": ["c1"], "name": "add"}),
        {"type": "response.output_text.delta", "output_index": 7, "delta": 7},
    ],
)
def test_unreadable_events_are_incomplete(event):
    with pytest.raises(LLMError, match="unreadable"):
        read(event)


def at(index, event):
    return {**event, "output_index": index}


OTHER = {**CALL, "id": "fc_2", "call_id": "c2"}


@pytest.mark.parametrize(
    "events",
    [
        [done(CALL), at(1, done(CALL)), completed(CALL)],
        [done(CALL), at(1, done(CALL)), completed(CALL, CALL)],
        [completed(CALL, CALL)],
        [added(CALL), at(1, added(CALL)), at(1, done(CALL)), completed(CALL)],
        [done({**CALL, "id": None}), at(1, done({**CALL, "id": "fc_9"})), completed(None, CALL)],
    ],
)
def test_a_call_that_comes_at_several_indexes_runs_once(events):
    assert [call.id for call in read(*events).tool_calls] == ["c1"]


@pytest.mark.parametrize("second", [OTHER, {**OTHER, "id": "fc_1"}])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_calls_with_ids_of_their_own_all_run(second, is_streamed):
    pieces = [
        {
            "type": "response.function_call_arguments.delta",
            "output_index": n,
            "item_id": item["id"],
            "delta": "{}",
        }
        for n, item in enumerate([CALL, second])
    ]
    items = [{**item, "arguments": "{}"} for item in (CALL, second)]
    begun = [at(n, added({**item, "arguments": ""})) for n, item in enumerate(items)]
    ended = [at(n, done(item)) for n, item in enumerate(items)]
    events = [*begun, *pieces, *ended] if is_streamed else []
    response = read(*events, completed(*items))
    assert [(call.id, call.arguments) for call in response.tool_calls] == [("c1", {}), ("c2", {})]


def test_a_text_that_comes_at_several_indexes_comes_once():
    item = message_item("Hi.")
    delta = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 1, "delta": "Hi."}
    response = read(done(item), delta, at(1, done(item)), completed(None, item))
    assert response.content == "Hi."


def test_texts_that_differ_under_one_id_all_come():
    texts = [message_item("One. "), message_item("Two.")]
    streamed = [at(n, done(item)) for n, item in enumerate(texts)]
    assert read(*streamed, completed(*texts)).content == read(completed(*texts)).content == "One. Two."


@pytest.mark.parametrize("status", ["in_progress", "incomplete"])
def test_a_call_that_the_server_calls_unfinished_does_not_run(status):
    (rejected,) = read(completed({**CALL, "status": status})).tool_calls
    assert "cut off" in rejected.invalid


def test_the_last_status_of_a_call_counts():
    (call,) = read(
        done({**CALL, "status": "in_progress"}), completed({**CALL, "status": "completed"})
    ).tool_calls
    assert call.invalid is None


@pytest.mark.parametrize("event", [{"error": None}, {"type": "error"}, {"type": "error", "error": None}])
def test_an_error_event_without_an_error_ends_nothing(event):
    assert read(done(message_item("Hi.")), event, completed(message_item("Hi."))).content == "Hi."


def test_odd_counts_are_left_out():
    usage = {"input_tokens": "1", "output_tokens": 2, "input_tokens_details": []}
    assert read(completed(message_item("a"), usage=usage)).usage == TokenUsage(0, 2, 2)


@in_a_loop
async def test_reasoning_that_cannot_be_verified_is_left_out_once():
    refusal = status(400, "The encrypted content gAAA could not be verified.", kind="invalid_request_error")
    with ResponsesServer([refusal, "a", "b"]) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url)
        past = kept(REASONING, message_item("ok"), content="ok", origin=client.origin)
        server.issued.reasoning["secret"] = REASONING
        seen = [delta async for delta in client.chat_stream([*USER, past, *USER])]
        await client.chat(USER)
        await client.aclose()
        kinds = [[item.get("type") for item in request.body["input"]] for request in server.requests]
    assert "reasoning" in kinds[0]
    assert "reasoning" not in kinds[1]
    assert "left out" in seen[0].notice
    assert "include" in server.requests[2].body


def test_tools_can_be_asked_for_in_text():
    items = ['Action: add\nAction Input: {"a": 1, "b": 2}', "Final Answer: It is 3."]
    with ResponsesServer(items) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url)
        result = Agent(llm=client, tools=[add], tool_mode="text").run("1 + 2?")
    assert result.output == "It is 3."


# -- responses that the server stores ------------------------------------------------------------------------


def run_and_read(agent, server, task, **options):
    """Run a task; return its result and the new bodies, each of them typed."""
    before = len(server.requests)
    result = agent.run(task, **options)
    bodies = [request.body for request in server.requests[before:]]
    for written in bodies:
        assert_typed(written)
    return result, bodies


def continuing(server, model="gpt-5", **settings):
    return ResponsesClient(model, "k", server.base_url, continues=True, **settings)


def test_stored_response_is_accepted_by_its_server():
    def look() -> str:
        """Look around."""
        return "seen"

    with ResponsesServer([raw_call("look", ""), "Seen."]) as server:
        assert Agent(llm=continuing(server), tools=[look]).run("go").content == "Seen."
        assert "previous_response_id" in server.requests[1].body


def test_request_holds_only_messages_missing_on_the_server():
    script = [answer("So: ", call("add", a=1, b=2), reasoning="hm"), "It is 3.", "It is 3 again."]
    with ResponsesServer(script) as server:
        agent = Agent(llm=continuing(server), tools=[add], system_prompt="Be exact.")
        result, bodies = run_and_read(agent, server, "1 + 2?")
        _, later = run_and_read(agent, server, "Again?", messages=result.messages)
        stored = list(server.issued.stored.values())[-1]
    assert [body.get("previous_response_id") for body in bodies + later] == [None, "resp_1", "resp_2"]
    assert all(body["store"] and body["instructions"] == "Be exact." for body in bodies + later)
    kinds = [[item.get("type", item.get("role")) for item in body["input"]] for body in bodies + later]
    assert kinds == [["user"], ["function_call_output"], ["user"]]
    kinds = [item.get("type", item.get("role")) for item in stored]
    calls = ["reasoning", "message", "function_call", "function_call_output", "message"]
    assert kinds == ["user", *calls, "user", "message"]


@pytest.mark.parametrize("streams", [True, False])
def test_a_deleted_response_costs_nothing_but_a_request(streams):
    with ResponsesServer(["one", "two", "three"]) as server:
        agent = Agent(llm=continuing(server), stream=streams)
        first, _ = run_and_read(agent, server, "1?")
        server.forget()
        second, bodies = run_and_read(agent, server, "2?", messages=first.messages)
        assert [len(body["input"]) for body in bodies] == [1, 3]
        _, bodies = run_and_read(agent, server, "3?", messages=second.messages)
        assert [body["previous_response_id"] for body in bodies] == ["resp_3"]
    assert any("deleted" in event.data.get("message", "") for event in second.events)


@pytest.mark.parametrize("change", ["earlier", "newest", "unknown"])
def test_a_changed_history_is_sent_in_full(change):
    with ResponsesServer(["one", "two", "three"]) as server:
        agent = Agent(llm=continuing(server))
        messages = agent.run("1?").messages
        messages = agent.run("2?", messages=messages).messages
        if change == "earlier":
            messages[0]["content"] = "another"
        elif change == "newest":
            messages[-1]["content"] = "another"
        else:
            messages[-1]["response_id"], messages[1]["response_id"] = "resp_0", "resp_0"
        _, bodies = run_and_read(agent, server, "3?", messages=messages)
    expected = {"earlier": (None, 5), "newest": ("resp_1", 3), "unknown": (None, 5)}[change]
    last = bodies[-1]
    assert (last.get("previous_response_id"), len(last["input"])) == expected


def test_other_model_in_between_is_reported_to_the_first():
    with ResponsesServer(["one", "two", "three", "four"]) as server:
        first, other = Agent(llm=continuing(server)), Agent(llm=continuing(server, "gpt-5-mini"))
        messages = first.run("1?").messages
        messages, bodies = run_and_read(other, server, "2?", messages=messages)
        assert "previous_response_id" not in bodies[0]
        _, bodies = run_and_read(first, server, "3?", messages=messages.messages)
        assert bodies[0]["previous_response_id"] == "resp_1"
        assert [item.get("content") for item in bodies[0]["input"]] == ["2?", "two", "3?"]
        plain = Agent(llm=ResponsesClient("gpt-5", "k", server.base_url))
        _, bodies = run_and_read(plain, server, "4?", messages=messages.messages)
        assert (bodies[0]["store"], len(bodies[0]["input"])) == (False, 5)


def test_a_resumed_session_continues_the_response(tmp_path):
    with ResponsesServer([answer("a", call("add", a=1, b=2), reasoning="x"), "3", "6"]) as server:
        for task in ("1 + 2?", "And 3?"):
            agent = Agent(llm=continuing(server), tools=[add], sessions=tmp_path)
            _, bodies = run_and_read(agent, server, task, session_id="s")
    assert (bodies[0]["previous_response_id"], len(bodies[0]["input"])) == ("resp_2", 1)


def test_secrets_that_were_redacted_are_not_fetched_from_the_server():
    with ResponsesServer(["The key is sk-very-secret-value.", "two"]) as server:
        agent = Agent(llm=continuing(server), redact=Redactor(["sk-very-secret-value"]))
        first = agent.run("1?")
        _, bodies = run_and_read(agent, server, "2?", messages=first.messages)
    assert "previous_response_id" not in bodies[0]


@pytest.mark.parametrize(("settings", "options"), [({"continues": True}, {}), ({}, {"background": True})])
def test_feature_with_storage_requires_it(settings, options):
    client = ResponsesClient("gpt-5", "k", "http://127.0.0.1:1", **settings)
    with pytest.raises(ConfigError, match="needs a stored response"):
        client.request_body(USER, None, {"store": False, **options}, stream=True)


def test_the_same_model_over_chat_completions_gets_no_items():
    with ResponsesServer([answer("one", reasoning="hm")]) as server:
        client = continuing(server)
        messages = Agent(llm=client).run("1?").messages
    assert {"response_items", "response_id"} <= messages[-1].keys()
    from pure_agent_loop import OpenAIClient
    from pure_agent_loop.llm.messages import to_wire

    assert to_wire(messages, OpenAIClient("gpt-5", "k", client.base_url))[-1].keys() == {"role", "content"}


def test_items_of_older_records_are_sent():
    past = kept(REASONING, message_item("ok"), content="ok")
    client = ResponsesClient("m", "k")
    assert client.origin == f"{ORIGIN} (responses)"
    items = client.request_body([*USER, past, *USER], None, {}, stream=False)["input"]
    assert [item.get("type", "easy") for item in items] == ["easy", "reasoning", "message", "easy"]


# -- responses in the background -----------------------------------------------------------------------------


def in_background(server, **settings):
    return ResponsesClient("gpt-5", "k", server.base_url, poll_seconds=0.001, **settings)


@pytest.mark.parametrize("library", ["", "httpx"])
@in_a_loop
async def test_a_background_response_is_polled(streams, library):
    item = answer("It is ", call("add", a=1, b=2), reasoning="hm")
    with ResponsesServer([item]) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        server.polls = iter(["queued", 503, "in_progress"])
        client = in_background(server)
        options = {"background": True, "background_options": {"completion_window": "2h"}}
        ask = client.chat_stream(USER, **options) if streams else client.chat(USER, **options)
        response = await (assembled(ask) if streams else ask)
        await client.aclose()
        body = server.requests[0].body
        assert_typed(body)
    assert (body["store"], "stream" in body) == (True, False)
    assert (response.content, response.tool_calls[0].arguments) == ("It is ", {"a": 1, "b": 2})
    polled = [(request.method, request.path) for request in server.other_requests]
    path = "/v1/responses/resp_1?include%5B%5D=reasoning.encrypted_content"
    assert polled == [("GET", path)] * 4
    assert response.extra["response_items"][0]["encrypted_content"]
    assert server.cancelled == []


@in_a_loop
async def test_a_broken_background_stream_is_not_asked_for_again():
    with ResponsesServer([deltas("It ", Detach("is 3."))]) as server:
        server.polls = iter(["in_progress"])
        client = in_background(server)
        seen = [delta.text async for delta in client.chat_stream(USER, background=True)]
        await client.aclose()
    assert "".join(seen) == "It is 3."
    assert len(server.requests) == 1


@pytest.mark.parametrize("library", ["", "httpx"])
@pytest.mark.parametrize("polls", [[404], [500] * 10, ["failed"]])
@in_a_loop
async def test_a_background_response_that_is_lost_is_an_error(polls, library):
    with ResponsesServer(["one"]) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        server.polls = iter(polls)
        client = in_background(server)
        with pytest.raises(LLMError) as raised:
            await client.chat(USER, background=True)
        await client.aclose()
    assert raised.value.kind == {404: "not_found", 500: "overloaded", "failed": "unknown"}[polls[0]]
    assert server.cancelled == ([] if polls == ["failed"] else ["resp_1"])


def test_a_cancelled_run_cancels_its_background_response():
    token = CancelToken()

    def polls():
        yield "queued"
        token.cancel()
        yield from itertools.repeat("in_progress")

    with ResponsesServer(["one"]) as server:
        server.polls = polls()
        agent = Agent(llm=in_background(server), stream=False, extra_body={"background": True})
        result = agent.run("1?", cancel_token=token)
        assert result.stop_reason == "cancelled"
        assert server.cancelled == ["resp_1"]


def test_a_background_response_is_bounded_by_the_runs_limits():
    with ResponsesServer(["one"]) as server:
        server.polls = itertools.repeat("in_progress")
        options = {"background_options": {"completion_window": "8h"}, "background": True}
        agent = Agent(
            llm=in_background(server),
            first_byte_timeout=1,  # the request itself may take long on a busy machine
            retry=RetryConfig(max_retries=0),
            extra_body=options,
        )
        result = agent.run("1?")
        assert (result.stop_reason, server.cancelled) == ("error", ["resp_1"])


@in_a_loop
async def test_headers_that_polls_lack_are_refused():
    client = ResponsesClient("gpt-5", "k", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="default_headers"):
        await client.chat(USER, background=True, extra_headers={"x-a": "b"})


# -- custom tools --------------------------------------------------------------------------------------------

GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "SELECT .*"}


def query(sql: str) -> str:
    """Run a query."""
    return f"ran {sql}"


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("continues", [True, False])
@pytest.mark.parametrize("reasoning", ["hm", None])
def test_a_custom_tool_is_called_with_text(streams, continues, reasoning):
    sql = "SELECT \"a\\b\", '😀'\nFROM t"
    script = [answer(call("query", sql=sql), call("add", a=1, b=2), reasoning=reasoning), "Done."]
    with ResponsesServer(script) as server:
        client = continuing(server, custom_tools={"query": GRAMMAR}) if continues else None
        client = client or ResponsesClient("gpt-5", "k", server.base_url, custom_tools={"query": GRAMMAR})
        agent = Agent(llm=client, tools=[query, add], stream=streams)
        result, bodies = run_and_read(agent, server, "Ask the table.")
    custom = {"type": "custom", "name": "query", "description": "Run a query.", "format": GRAMMAR}
    assert bodies[0]["tools"][0] == custom
    assert result.messages[1]["tool_calls"][0]["function"]["arguments"] == json.dumps(
        {"sql": sql}, ensure_ascii=False
    )
    made = [item for item in bodies[1]["input"] if item.get("type") == "custom_tool_call"]
    assert [item["input"] for item in made] == ([] if continues else [sql])
    outputs = [item for item in bodies[1]["input"] if item.get("type", "").endswith("_output")]
    assert [(o["type"], o["output"]) for o in outputs] == [
        ("custom_tool_call_output", f"ran {sql}"),
        ("function_call_output", "3"),
    ]
    assert ("previous_response_id" in bodies[1]) == continues
    assert not [event for event in result.events if event.type is EventType.NOTICE]


def test_a_custom_tool_is_a_function_elsewhere():
    with ResponsesServer([answer(call("query", sql="SELECT 1")), "Done."]) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url, custom_tools={"query": None})
        messages = Agent(llm=client, tools=[query]).run("Ask.").messages
    with ResponsesServer(["Done."]) as server:
        other = Agent(llm=ResponsesClient("gpt-5", "k", server.base_url), tools=[query])
        _, bodies = run_and_read(other, server, "Again.", messages=messages)
    assert bodies[0]["tools"][0]["type"] == "function"
    kinds = [item.get("type") for item in bodies[0]["input"]]
    assert kinds == [None, "function_call", "function_call_output", None, None]


def test_a_custom_tool_may_be_forced():
    choice = {"type": "function", "function": {"name": "query"}}
    tool = {"type": "function", "function": {"name": "query", "parameters": Tool(query).parameters}}
    written = body(USER, [tool], {"tool_choice": choice}, custom={"query": None})
    assert written["tool_choice"] == {"type": "custom", "name": "query"}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [choice]}}
    written = body(USER, [tool], {"tool_choice": allowed}, custom={"query": None})
    tools = [{"type": "custom", "name": "query"}]
    assert written["tool_choice"] == {"type": "allowed_tools", "mode": "required", "tools": tools}


@pytest.mark.parametrize("deltas", [["SELECT ", "1"], ["SELECT 2"], []])
def test_the_final_form_of_a_custom_call_is_right(deltas):
    item = {"type": "custom_tool_call", "id": "c", "call_id": "c1", "name": "query", "input": "SELECT 1"}
    kind = "response.custom_tool_call_input.delta"
    pieces = [{"type": kind, "output_index": 0, "delta": delta} for delta in deltas]
    tool = {"type": "function", "function": {"name": "query", "parameters": Tool(query).parameters}}
    reader = ResponsesReader(tools=[tool])
    response = read(added({**item, "input": ""}), *pieces, done(item), completed(item), reader=reader)
    assert response.tool_calls[0].arguments == {"sql": "SELECT 1"}


@pytest.mark.parametrize(
    "form", ["text", {"type": "grammar"}, {"type": "grammar", "syntax": "ebnf", "definition": "a"}]
)
def test_formats_that_do_not_exist_are_refused(form):
    with pytest.raises(ConfigError, match=r"custom_tools\['query'\]"):
        ResponsesClient("gpt-5", "k", custom_tools={"query": form})


def test_a_custom_tool_has_one_string():
    tool = {"type": "function", "function": {"name": "add", "parameters": Tool(add).parameters}}
    with pytest.raises(ConfigError, match="has a, b"):
        body(USER, [tool], custom={"add": None})


def test_a_custom_tool_that_does_not_exist_is_noticed():
    with ResponsesServer(["one"]) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url, custom_tools={"qeury": None})
        result = Agent(llm=client, tools=[query]).run("1?")
    assert any("qeury" in event.data.get("message", "") for event in result.events)


# -- everything that the SDK's types name --------------------------------------------------------------------


def events_of_types():
    """Return the names of all events, by the SDK's types."""
    if not HAS_TYPES:
        return []
    from openai.types.responses import ResponseStreamEvent

    union = get_args(ResponseStreamEvent)[0]
    return sorted(get_args(event.model_fields["type"].annotation)[0] for event in get_args(union))


def sample(kind):
    """Return an event with the fields that the types name."""
    from openai.types.responses import ResponseStreamEvent

    union = get_args(get_args(ResponseStreamEvent)[0])
    model = next(m for m in union if get_args(m.model_fields["type"].annotation)[0] == kind)
    given = {"output_index": 0, "item_id": "i", "content_index": 0, "summary_index": 0, "sequence_number": 1}
    texts = {name: "x" for name, field in model.model_fields.items() if field.annotation is str}
    known = {name: value for name, value in given.items() if name in model.model_fields}
    return {**texts, **known, "type": kind}


@pytest.mark.parametrize("kind", events_of_types())
def test_every_event_is_read_or_passed_over(kind):
    item = message_item("It is 3.")
    event = sample(kind)
    if "item" in kind:
        event["item"] = CALL
    if kind in ("response.created", "response.queued", "response.in_progress"):
        event["response"] = {"id": "resp_1", "status": "in_progress"}
    if kind in ("response.completed", "response.incomplete", "response.failed"):
        status = kind.removeprefix("response.")
        event["response"] = {"id": "resp_1", "status": status, "output": [item], "error": None}
    opened = CALL if "arguments" in kind else {**CALL, "type": "custom_tool_call", "input": ""}
    opened = opened if "input" in kind or "arguments" in kind else {**item, "content": []}
    events = [added(opened), event] if "output_item" not in kind else [event]
    if kind in ("error", "response.failed"):
        with pytest.raises(LLMError):
            read(*events)
        return
    ends = () if kind in ("response.completed", "response.incomplete") else (completed(item),)
    response = read(*events, *ends)
    assert response.content or response.tool_calls or response.reasoning_content


def codes_of_types():
    if not HAS_TYPES:
        return []
    from openai.types.responses import ResponseError

    return get_args(ResponseError.model_fields["code"].annotation)


@pytest.mark.parametrize("code", codes_of_types())
def test_every_code_of_a_failed_response_has_a_kind(code):
    failed = {"status": "failed", "output": [], "error": {"code": code, "message": "It failed."}}
    with pytest.raises(LLMError) as raised:
        read({"type": "response.failed", "response": failed})
    assert raised.value.kind in ("bad_request", "overloaded", "rate_limit")
    assert raised.value.is_transient == (code in TRANSIENT)


TRANSIENT = ("server_error", "rate_limit_exceeded", "vector_store_timeout", "failed_to_download_image")


# -- tools that change ---------------------------------------------------------------------------------------


class Changing:
    """A toolset whose tools are set from outside."""

    def __init__(self, *tools):
        self.tools = [Tool(tool) for tool in tools]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    async def list(self, context):
        return self.tools

    async def call(self, name, args):
        raise LookupError(name)


@pytest.mark.parametrize("continues", [True, False])
def test_tools_that_come_and_go_leave_the_prefix_alone(continues):
    script = [answer("one", call("add", a=1, b=2), reasoning="hm"), "two", "three", "four", "five"]
    tools = Changing(add)
    with ResponsesServer(script) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url, continues=continues, appends_tools=True)
        agent = Agent(llm=client, tools=[tools])
        first, one = run_and_read(agent, server, "1?")
        tools.tools = [Tool(add), Tool(query)]
        second, two = run_and_read(agent, server, "2?", messages=first.messages)
        tools.tools = [Tool(query)]
        third, three = run_and_read(agent, server, "3?", messages=json.loads(json.dumps(second.messages)))
        tools.tools = []
        _, four = run_and_read(agent, server, "4?", messages=third.messages)
        stored = list(server.issued.stored.values())[-1] if continues else four[-1]["input"]
    bodies = [*one, *two, *three, *four]
    assert all(body["tools"] == bodies[0]["tools"] for body in bodies)
    choices = [body.get("tool_choice") for body in bodies]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "query"}]}
    assert choices == [None, None, None, allowed, "none"]
    kinds = [item.get("type", item.get("role")) for item in stored]
    place = kinds.index("additional_tools")
    assert (kinds.count("additional_tools"), kinds[place - 1]) == (1, "user")
    assert [tool["name"] for tool in stored[place]["tools"]] == ["query"]
    if not continues:
        prefixes = [body["input"] for body in bodies]
        for before, after in itertools.pairwise(prefixes):
            assert after[: len(before)] == before


def test_a_changed_definition_begins_anew():
    written = []
    for text in ("Add.", "Add two numbers."):
        tool = {"type": "function", "function": {**ADD["function"], "description": text}}
        past = {"is_first": True, "tools": written[0]["tools"]} if written else None
        message = kept(message_item("ok"), content="ok", **({"response_tools": past} if past else {}))
        written.append(body([*USER, message, *USER], [tool], appends_tools=True))
    assert [body["tools"][0]["description"] for body in written] == ["Add.", "Add two numbers."]
    assert not any(item.get("type") == "additional_tools" for item in written[1]["input"])


def test_a_changed_definition_ends_a_stored_conversation():
    script = ["one", "two", "three", "four"]
    tools = Changing(add)
    with ResponsesServer(script) as server:
        agent = Agent(llm=continuing(server, appends_tools=True), tools=[tools])
        messages = agent.run("1?").messages
        tools.tools = [Tool(add), Tool(query)]
        messages = agent.run("2?", messages=messages).messages
        tools.tools = [Tool(add), Tool(query, description="Ask the table.")]
        messages, three = run_and_read(agent, server, "3?", messages=messages)
        _, four = run_and_read(agent, server, "4?", messages=messages.messages)
    sent = [item.get("type", item.get("role")) for item in three[0]["input"]]
    assert ("previous_response_id" in three[0], sent.count("user")) == (False, 3)
    assert "additional_tools" not in sent
    assert four[0]["previous_response_id"] == "resp_3"


def test_tools_of_the_server_come_later_too():
    search, shell = {"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}
    past = {"is_first": True, "tools": body(USER, [ADD, search])["tools"]}
    message = kept(message_item("ok"), content="ok", response_tools=past)
    written = body([*USER, message, *USER], [ADD, search, shell], appends_tools=True)
    assert written["tools"] == past["tools"]
    assert written["input"][-1]["tools"] == [shell]
