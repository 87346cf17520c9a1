"""The Responses protocol: requests, streams, errors and whole runs against a strict server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import Agent, ResponsesClient
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultFloat
from pure_agent_loop.llm.response import Assembler, assembled
from pure_agent_loop.llm.responses.request import ResponsesWriter
from pure_agent_loop.llm.responses.stream import ResponsesReader
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.testing import answer, call, deltas, raw_call
from pure_agent_loop.testing.faults import EndEarly, ErrorChunk, Reset, status
from pure_agent_loop.testing.protocols import ResponsesServer, check_responses_request, response_items
from tests.llm.protocols.loops import in_a_loop
from tests.llm.protocols.typed import assert_typed

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
    assert "include" not in body(USER, None, {"store": True})


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


@pytest.mark.parametrize("name", ["seed", "stop", "frequency_penalty", "previous_response_id"])
def test_options_without_a_counterpart_are_refused(name):
    with pytest.raises((ConfigError, LLMError), match=f"{name} has no counterpart"):
        body(USER, None, {name: 1})


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


def test_reasoning_that_nobody_stores_is_left_out():
    plain = {name: value for name, value in REASONING.items() if name != "encrypted_content"}
    history = [*USER, kept(plain, message_item("ok"), content="ok")]
    assert body(history)["input"][1:] == [{"role": "assistant", "content": "ok"}]
    stored = body(history, None, {"store": True})["input"]
    assert [item.get("type") for item in stored] == [None, "reasoning", "message"]


TEXTS = st.sampled_from(["", " ", "a", "b c"])


@st.composite
def histories(draw):
    history, count = [], 0
    for _ in range(draw(st.integers(1, 6))):
        role, content = draw(st.sampled_from(["user", "assistant", "round", "thought"])), draw(TEXTS)
        if role == "round":
            ids = [f"call.{count + n}" for n in range(draw(st.integers(1, 3)))]
            count += len(ids)
            made = [
                {"id": i, "type": "function", "function": {"name": "add", "arguments": "{}"}} for i in ids
            ]
            history.append({"role": "assistant", "content": content or None, "tool_calls": made})
            history += [{"role": "tool", "tool_call_id": i, "content": draw(TEXTS)} for i in ids]
        elif role == "thought":
            history.append(kept(REASONING, message_item(content), content=content))
        else:
            history.append({"role": role, "content": content})
    return history


@given(histories(), st.booleans())
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
    assert (response.finish_reason, response.usage) == ("tool_calls", TokenUsage(10, 5, 15, 0, 0))
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
    ("reason", "expected"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
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
async def test_a_background_response_is_streamed_or_refused():
    queued = response_items(status="queued")
    with ResponsesServer([queued]) as server, pytest.raises(LLMError, match="background"):
        await respond(server, False, background=True)


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


def read(*events):
    reader = ResponsesReader()
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


def test_items_of_the_final_event_are_read():
    assert read(completed(message_item("only here"))).content == "only here"


@pytest.mark.parametrize(
    "event",
    [
        completed(None),
        completed("x"),
        completed({"type": "message", "content": "text"}),
        completed({"type": "function_call", "name": "add"}),
        {"type": "response.output_text.delta", "output_index": 7, "delta": "lost"},
    ],
)
def test_unreadable_events_are_incomplete(event):
    with pytest.raises(LLMError, match="unreadable"):
        read(event)


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
    assert "cannot verify" in seen[0].notice
    assert "include" in server.requests[2].body


def test_tools_can_be_asked_for_in_text():
    items = ['Action: add\nAction Input: {"a": 1, "b": 2}', "Final Answer: It is 3."]
    with ResponsesServer(items) as server:
        client = ResponsesClient("gpt-5", "k", server.base_url)
        result = Agent(llm=client, tools=[add], tool_mode="text").run("1 + 2?")
    assert result.output == "It is 3."
