"""`AnthropicClient` against a strict server: streams, errors, pauses, refusals, and whole runs."""

import json
from typing import TypedDict

import pytest

from llm_client_conformance import (
    EndEarly,
    ErrorChunk,
    Reset,
    ScriptedServer,
    answer,
    call,
    deltas,
    raw_call,
    status,
)
from llm_client_conformance.protocols import MessagesServer as StrictServer
from llm_client_conformance.protocols import message_blocks
from pure_agent_loop import Agent, AnthropicClient, EventType, File, Image, OpenAIClient, tool
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.anthropic.stream import MessagesReader
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.sessions import JsonlStore
from tests.llm.protocols.loops import in_a_loop
from tests.llm.protocols.typed import assert_typed


class Number(TypedDict):
    """A number."""

    n: int


class MessagesServer(StrictServer):
    """The strict server; at its end, the SDK's types check every request that came."""

    def __exit__(self, *details):
        super().__exit__(*details)
        if details[0] is None:
            for request in self.requests:
                assert_typed(request.body, is_beta="anthropic-beta" in request.headers)


USER = [{"role": "user", "content": "q"}]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def client_of(server, model="claude-opus-4-6", level=None, **settings):
    return AnthropicClient(model, "k", server.base_url, level, **settings)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streams(request):
    return request.param


async def respond(server, streams, **settings):
    client = client_of(server, **settings)
    try:
        if streams:
            return await assembled(client.chat_stream(USER))
        return await client.chat(USER)
    finally:
        await client.aclose()


@in_a_loop
async def test_text_and_thinking_and_calls(streams):
    item = answer("It is ", call("add", a=1, b=2), call("add", a=3, b=4), reasoning="Let me see.")
    with MessagesServer([item], rechunk=(1, 7, 3)) as server:
        response = await respond(server, streams)
    assert (response.content, response.reasoning_content) == ("It is ", "Let me see.")
    assert [(c.name, c.arguments) for c in response.tool_calls] == [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 3, "b": 4}),
    ]
    assert response.finish_reason == "tool_calls"
    assert response.usage == TokenUsage(10, 5, 15)
    blocks = response.extra["content_blocks"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert server.issued.texts[blocks[0]["signature"]][0] == "Let me see."


@in_a_loop
async def test_plain_answers_keep_no_blocks(streams):
    with MessagesServer([answer("It is 3.", call("add", a=1, b=2))]) as server:
        assert (await respond(server, streams)).extra is None


@in_a_loop
async def test_unknown_blocks_and_citations_are_kept(streams):
    citation = {"type": "web_search_result_location", "url": "https://example.org", "cited_text": "x"}
    blocks = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "a_block_of_the_future", "data": "y"},
        {"type": "text", "text": "Found it.", "citations": [citation]},
    ]
    with MessagesServer([message_blocks(*blocks)]) as server:
        response = await respond(server, streams)
    assert response.content == "Found it."
    assert response.tool_calls == []
    assert response.extra["content_blocks"] == blocks


CITATIONS = [
    {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "title": "t",
        "cited_text": "x",
        "encrypted_index": "e",
    },
    {
        "type": "page_location",
        "cited_text": "y",
        "document_index": 0,
        "document_title": None,
        "start_page_number": 1,
        "end_page_number": 2,
    },
]


def test_citations_and_results_of_server_tools_go_back_as_they_came(streams):
    found = {
        "type": "web_search_result",
        "url": "https://example.org",
        "title": "t",
        "encrypted_content": "c",
        "page_age": None,
    }
    blocks = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [found]},
        {"type": "text", "text": "Found it, ", "citations": CITATIONS[:1]},
        {"type": "text", "text": "and this.", "citations": CITATIONS},
    ]
    search = {"type": "web_search_20250305", "name": "web_search"}
    with MessagesServer([message_blocks(*blocks), "a"]) as server:
        agent = Agent(llm=client_of(server), stream=streams, extra_body={"tools": [search]})
        result = agent.run("one")
        assert result.content == "Found it, and this."
        agent.run("two", messages=json.loads(json.dumps(result.messages)))
        assert server.requests[1].messages[1]["content"] == blocks


def test_images_and_files_of_tools_follow_the_results(streams):
    @tool
    def draw() -> list:
        """Draw."""
        return ["drawn", Image(url="https://example.org/a.png")]

    @tool
    def print_it() -> File:
        """Print."""
        return File(b"%PDF-1.4", media_type="application/pdf", name="a.pdf")

    with MessagesServer([(call("draw"), call("print_it")), "done"]) as server:
        Agent(llm=client_of(server), tools=[draw, print_it], stream=streams).run("q")
        content = server.requests[1].messages[2]["content"]
    kinds = ["tool_result", "tool_result", "text", "image", "text", "document"]
    assert [block["type"] for block in content] == kinds
    assert content[5]["source"]["media_type"] == "application/pdf"


@in_a_loop
async def test_cached_tokens_are_part_of_the_prompt(streams):
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
        "cache_read_input_tokens": 100,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    with MessagesServer([message_blocks({"type": "text", "text": "x"}, usage=usage)]) as server:
        response = await respond(server, streams)
    assert response.usage == TokenUsage(125, 9, 134, 4, 100, cache_write_tokens=20, cache_write_1h_tokens=15)


@in_a_loop
async def test_a_paused_response_is_continued_as_it_is(streams):
    first = [
        {"type": "text", "text": "Searching. "},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
    ]
    items = [
        message_blocks(*first, stop_reason="pause_turn"),
        message_blocks({"type": "text", "text": "Done."}),
    ]
    with MessagesServer(items) as server:
        response = await respond(server, streams)
        sent = server.requests[1].messages
    assert response.content == "Searching. Done."
    assert (response.finish_reason, response.usage) == ("stop", TokenUsage(20, 10, 30))
    assert sent[-1] == {"role": "assistant", "content": first}
    assert [block["type"] for block in response.extra["content_blocks"]] == [
        "text",
        "server_tool_use",
        "text",
    ]


@in_a_loop
async def test_endless_pauses_end(streams):
    paused = message_blocks({"type": "text", "text": "."}, stop_reason="pause_turn")
    with (
        MessagesServer(handler=lambda _: paused) as server,
        pytest.raises(LLMError, match="paused its response 10 times") as raised,
    ):
        await respond(server, streams)
    assert raised.value.kind == "incomplete"


@in_a_loop
async def test_a_refusal_has_its_category():
    refused = message_blocks(
        stop_reason="refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": None}
    )
    with MessagesServer([refused]) as server:
        client = client_of(server)
        seen = [delta async for delta in client.chat_stream(USER)]
        await client.aclose()
    assert seen[-1].finish_reason == "refused"
    assert seen[-1].notice == "The model refused to answer (category: cyber)."


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "output_limit"),
        ("model_context_window_exceeded", "output_limit"),
        ("refusal", "content_filter"),
        ("a_reason_of_the_future", "a_reason_of_the_future"),
    ],
)
@in_a_loop
async def test_stop_reasons(reason, expected, streams):
    with MessagesServer([message_blocks({"type": "text", "text": "x"}, stop_reason=reason)]) as server:
        assert (await respond(server, streams)).finish_reason == expected


@in_a_loop
async def test_the_callers_own_limit_may_be_continued():
    with MessagesServer([message_blocks({"type": "text", "text": "x"}, stop_reason="max_tokens")]) as server:
        client = client_of(server)
        response = await assembled(client.chat_stream(USER, max_tokens=7))
        await client.aclose()
    assert response.finish_reason == "length"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(529, "Overloaded", kind="overloaded_error"), "overloaded"),
        (status(429, "slow down", kind="rate_limit_error", headers={"retry-after": "7"}), "rate_limit"),
        (status(400, "prompt is too long: 210000 tokens", kind="invalid_request_error"), "context_overflow"),
        (status(401, "invalid x-api-key", kind="authentication_error"), "auth"),
        (status(404, "model: x", kind="not_found_error"), "not_found"),
        (ErrorChunk("Overloaded", None, "overloaded_error"), "overloaded"),
        (deltas("It is ", ErrorChunk("Overloaded", None, "overloaded_error")), "overloaded"),
        (deltas("It is ", ErrorChunk("slow", None, "rate_limit_error")), "rate_limit"),
        (deltas("It is ", EndEarly()), "incomplete"),
        (deltas("It is ", Reset()), "connection"),
    ],
)
@in_a_loop
async def test_errors_have_their_kind(fault, kind):
    with MessagesServer([fault]) as server:
        with pytest.raises(LLMError) as raised:
            await respond(server, True)
        assert raised.value.kind == kind
        if kind == "rate_limit" and raised.value.status == 429 and raised.value.retry_after:
            assert raised.value.retry_after == 7


@in_a_loop
async def test_unreadable_events_end_the_response():
    class Garbage(ErrorChunk):
        async def play(self, out):
            await out.event(b'{"type": "content_block_start", "content_block": {"type": 7}}')
            return False

    with MessagesServer([deltas("x", Garbage())]) as server, pytest.raises(LLMError, match="unreadable"):
        await respond(server, True)


@in_a_loop
async def test_dropped_thinking_is_a_notice(streams):
    reason = "prefix_binding_mismatch"
    changes = [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": reason},
        {"type": "thinking_dropped", "path": "messages.1.content.2", "reason": reason},
        {"type": "thinking_mismatch_allowed", "path": "messages.3.content.0", "reason": reason},
    ]
    item = message_blocks({"type": "text", "text": "x"}, input_transformations=changes)
    with MessagesServer([item]) as server:
        client = client_of(server)
        seen = [delta async for delta in client.chat_stream(USER, stream=streams)]
        await client.aclose()
    notices = [delta.notice for delta in seen if delta.notice]
    assert notices[0] == "The server dropped the thinking of 1 earlier responses (prefix_binding_mismatch)."


@in_a_loop
async def test_tokens_are_counted_by_the_server():
    with MessagesServer(handler=lambda _: "never") as server:
        client = client_of(server)
        assert await client.count_tokens(USER) > 0
        assert server.other_requests[0].path == "/v1/messages/count_tokens"
        assert "max_tokens" not in server.other_requests[0].body
        await client.aclose()


@in_a_loop
async def test_limits_are_asked_of_the_server_once():
    with MessagesServer(handler=lambda _: "x") as server:
        client = client_of(server, "claude-haiku-4-5")
        assert client.context_window is None
        assert await client.find_context_window() == 200_000
        assert await client.find_context_window() == client.context_window == 200_000
        assert [request.path for request in server.other_requests] == ["/v1/models/claude-haiku-4-5"]
        await client.aclose()


@in_a_loop
async def test_listed_model_properties_apply():
    """A model that no table knows yet: the server lists no effort, no thinking and no typed answers."""
    capabilities = {
        "effort": {"supported": False},
        "thinking": {"supported": False, "types": {"disabled": {"supported": True}}},
        "structured_outputs": {"supported": False},
    }
    with Listing({"type": "model", "capabilities": capabilities, "max_tokens": 77}) as server:
        client = client_of(server, "claude-newest-9")
        assert client.profile.output_mode == "native"
        await client.find_context_window()
        assert client.profile.output_mode == "tool"
        body = client.request_body(USER, None, {}, stream=False)
        assert (body["max_tokens"], "thinking" in body) == (77, False)
        with pytest.raises(ConfigError, match="effort 'low' is not supported"):
            client.request_body(USER, None, {"reasoning_effort": "low"}, stream=False)
        await client.aclose()


class Listing(MessagesServer):
    """A server that lists this about each model."""

    def __init__(self, info):
        super().__init__([])
        self.info = info

    def _other(self, request, path):
        return self.info


def test_thinking_with_a_lone_surrogate_does_not_go_back(streams):
    """It has no bytes: replaced, it would no longer be what was signed."""
    items = [
        answer(call("add", a=1, b=2), reasoning="a\ud800b"),
        answer(call("add", a=1, b=3), reasoning="good"),
        "done",
    ]
    with MessagesServer(items) as server:
        result = Agent(llm=client_of(server, level="low"), tools=[add], stream=streams).run("q")
        bodies = [request.body for request in server.requests]
    assert result.content == "done"
    assert [thoughts_in(body) for body in bodies] == [[], [], ["good"]]


@pytest.mark.parametrize("model", ["claude-sonnet-4-20250514", "claude-opus-4-6"])
def test_a_typed_answer_is_constrained_or_a_call(model):
    def reply(request):
        if "output_config" in request.body:
            return '{"n": 3}'
        return call(request.body["tools"][-1]["name"], n=3)

    with MessagesServer(handler=reply) as server:
        result = Agent(llm=client_of(server, model), tools=[add], output_type=Number).run("How many?")
        assert result.output == {"n": 3}
        assert ("output_config" in server.requests[0].body) == (model == "claude-opus-4-6")


# -- what an attack found -----------------------------------------------------------------------------------

TAGS = [
    "Close it with </think> on its own line.",
    "<think> is the tag that models use.",
    "a <think>b</think> c",
]


@pytest.mark.parametrize("text", TAGS)
def test_tags_in_a_text_stay(text, streams):
    with MessagesServer([answer(text, call("add", a=1, b=2), reasoning="hm"), answer(text)]) as server:
        result = Agent(llm=client_of(server, level="low"), tools=[add], stream=streams).run("q")
        assert server.requests[1].messages[1]["content"][0]["type"] == "thinking"
    assert result.output == text


def test_calls_of_a_refused_response_have_no_effect(streams):
    calls = []

    def pay(amount: int) -> str:
        """Pay."""
        calls.append(amount)
        return "paid"

    blocks = [
        {"type": "text", "text": "Well,"},
        {"type": "tool_use", "id": "c", "name": "pay", "input": {"amount": 1}},
    ]
    with MessagesServer([message_blocks(*blocks, stop_reason="refusal")]) as server:
        result = Agent(llm=client_of(server), tools=[pay], stream=streams).run("q")
    assert calls == []
    assert "Well," not in json.dumps(result.messages)


BROKEN = {
    "a block that is null": {"content": [None]},
    "a block without a type": {"content": [{"text": "x"}]},
    "a text that is a number": {"content": [{"type": "text", "text": 5}]},
    "counts that are lists": {"content": [], "usage": []},
    "a call id that is a number": {"content": [{"type": "tool_use", "id": 5, "name": "add", "input": {}}]},
}


@pytest.mark.parametrize("name", BROKEN)
@in_a_loop
async def test_a_broken_message_is_incomplete(name):
    body = {"type": "message", "stop_reason": "end_turn", **BROKEN[name]}
    with MessagesServer([status(200, text=json.dumps(body))]) as server:
        client = client_of(server)
        if name == "counts that are lists":
            assert (await client.chat(USER)).content is None
        else:
            with pytest.raises(LLMError) as raised:
                await client.chat(USER)
            assert raised.value.kind == "incomplete"
        await client.aclose()


@in_a_loop
async def test_arguments_without_their_call_are_an_error():
    class Lost(ErrorChunk):
        async def play(self, out):
            delta = {"type": "input_json_delta", "partial_json": "{}"}
            await out.event(json.dumps({"type": "content_block_delta", "index": 9, "delta": delta}).encode())
            return True

    with MessagesServer([deltas("x", Lost())]) as server, pytest.raises(LLMError, match="unreadable"):
        await respond(server, True)


def test_a_record_with_an_odd_block_is_sent_plain():
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text"}]
    with MessagesServer(["a"]) as server:
        client = client_of(server)
        past = {
            "role": "assistant",
            "content": "ok",
            "content_blocks": blocks,
            "meta": {"origin": client.origin},
        }
        history = [{"role": "user", "content": "q"}, past]
        assert Agent(llm=client).run("r", messages=history).output == "a"


@pytest.mark.parametrize("free", [dict[str, int], dict[str, dict[str, str]]])
def test_answers_with_free_keys_are_not_constrained(free):
    def reply(request):
        assert "output_config" not in request.body
        return '{"a": 1}' if free == dict[str, int] else '{"a": {"b": "c"}}'

    with MessagesServer(handler=reply) as server:
        result = Agent(llm=client_of(server), output_type=free).run("q")
    assert result.output in ({"a": 1}, {"a": {"b": "c"}}), result.error


@pytest.mark.parametrize("event", [{"error": None}, {"type": "error"}, {"type": "error", "error": None}])
def test_an_error_event_without_an_error_ends_nothing(event):
    reader = MessagesReader()
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi."}},
        event,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert "".join(delta.text for delta in reader.feed(body)) == "Hi."
    assert reader.is_done


@in_a_loop
async def test_long_responses_are_read_in_linear_time():
    pieces = [{"type": "text_delta", "text": "x" * 20}] * 40_000
    reader = MessagesReader()
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": 0},
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert sum(len(delta.text) for delta in reader.feed(body)) == 800_000
    assert len(reader.blocks[0]["text"]) == 800_000


# -- keys --------------------------------------------------------------------------------------------------


def test_the_environments_key_goes_to_anthropic_only(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    assert AnthropicClient("claude-opus-4-6", prepared=False).has_key
    with pytest.raises(ConfigError, match=r"https://other\.example"):
        AnthropicClient("claude-opus-4-6", base_url="https://other.example").prepare()
    for host in ("https://anthropic.com.other.example", "https://notanthropic.com"):
        assert not AnthropicClient("claude-opus-4-6", base_url=host, prepared=False).has_key
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
    assert AnthropicClient("claude-opus-4-6", prepared=False).has_key


@in_a_loop
async def test_the_key_and_the_version_are_headers():
    with MessagesServer(["a", "b"], api_key="k") as server:
        for model in ("claude-opus-4-6", "claude-fable-5-2"):
            client = client_of(server, model)
            await client.chat(USER, betas=["some-beta"], extra_headers={"anthropic-beta": "other"})
            await client.aclose()
        headers = [request.headers for request in server.requests]
    assert [h["anthropic-version"] for h in headers] == ["2023-06-01", "2026-10-21"]
    assert {h["anthropic-beta"] for h in headers} == {"other,some-beta"}
    assert not any("authorization" in h for h in headers)


@in_a_loop
async def test_another_transport_sends_the_same(monkeypatch):
    monkeypatch.setenv("PAL_HTTP", "httpx")
    with MessagesServer(["a"], api_key="k") as server:
        assert (await respond(server, True)).content == "a"


@in_a_loop
async def test_own_headers_and_queries_are_sent():
    with MessagesServer(["a"], api_key="k") as server:
        client = client_of(server, default_headers={"x-own": "1"})
        response = await client.chat(USER, extra_query={"beta": "true"})
        await client.aclose()
        assert response.content == "a"
        assert (server.requests[0].path, server.requests[0].headers["x-own"]) == (
            "/v1/messages?beta=true",
            "1",
        )


# -- runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5-5", "claude-fable-5-2"]
)
def test_a_run_keeps_its_thinking(model, streams):
    items = [
        answer(call("add", a=1, b=2), reasoning="first"),
        answer(raw_call("add", "{broken"), reasoning="second"),
        answer(call("add", a=3, b=3), reasoning="third"),
        answer("It is 6.", reasoning="fourth"),
    ]
    with MessagesServer(items) as server:
        agent = Agent(llm=client_of(server, model, "low"), tools=[add], stream=streams)
        result = agent.run("Add.")
        bodies = [request.body for request in server.requests]
    assert result.output == "It is 6."
    thoughts = [
        block["thinking"]
        for message in bodies[-1]["messages"]
        for block in message["content"]
        if block["type"] == "thinking"
    ]
    assert thoughts == ["first", "second", "third"]


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def errors_in(body):
    """Which results of a request are marked as failures."""
    blocks = [block for m in body["messages"] for block in m["content"] if block["type"] == "tool_result"]
    return [block.get("is_error", False) for block in blocks]


FAILS = (call("fail", why="x"), call("gone"), call("add", a=1, b=2))


def test_failed_calls_are_marked_as_errors_in_every_turn():
    with MessagesServer([answer(*FAILS, reasoning="hm"), "a", "b", "c"]) as server:
        agent = Agent(llm=client_of(server), tools=[add, fail])
        conversation = agent.conversation()
        conversation.send_sync("one")
        result = conversation.send_sync("two")
        agent.run("three", messages=result.messages)
        bodies = [request.body for request in server.requests]
    assert [errors_in(sent) for sent in bodies] == [[], *[[True, True, False]] * 3]


def test_a_chat_server_gets_no_mark_of_a_failure_and_claude_gets_it_later():
    with ScriptedServer([FAILS, "a"], strict=True) as chat, MessagesServer(["b"]) as server:
        history = Agent(llm=OpenAIClient("m", "k", chat.base_url), tools=[add, fail]).conversation()
        result = history.send_sync("one")
        assert "meta" not in json.dumps([request.body for request in chat.requests])
        assert "meta" not in json.dumps(result.messages)
        claude = Agent(llm=client_of(server), tools=[add, fail]).conversation()
        claude.messages = result.state.full_history()
        claude.send_sync("two")
        assert errors_in(server.requests[0].body) == [True, True, False]


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is red"


def thoughts_in(body):
    return [b["thinking"] for m in body["messages"] for b in m["content"] if b["type"] == "thinking"]


def changes_in(body):
    """Each change of the tools: the number of the message, the kind, and the name of the tool."""
    return [
        (number, block["type"], (block["tool"].get("definition") or block["tool"])["name"])
        for number, message in enumerate(body["messages"])
        for block in message["content"]
        if message["role"] == "system"
    ]


def test_tools_change_in_a_conversation_and_its_thinking_stays(streams):
    """The tools at the start stay what they were; what changes is an entry at its place, for ever."""

    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    items = [
        answer(call("add", a=1, b=2), reasoning="first"),
        answer("3", reasoning="second"),
        answer(call("look", at="it"), reasoning="third"),
        answer("red", reasoning="fourth"),
        answer("again", reasoning="fifth"),
        answer("new", reasoning="sixth"),
    ]
    old = globals()["add"]
    with MessagesServer(items) as server:
        client = client_of(server, "claude-fable-5-2", "low")
        history = []
        for tools in ([old], [old, look], [look], [look, add]):
            result = Agent(llm=client, tools=tools, stream=streams).run("go", messages=history)
            history = json.loads(json.dumps(result.messages))
            assert not [e for e in result.events if e.type is EventType.NOTICE]
        bodies = [request.body for request in server.requests]
        betas = [request.headers.get("anthropic-beta") for request in server.requests]
    assert [len(thoughts_in(body)) for body in bodies] == [0, 1, 2, 3, 4, 5]
    assert all(body["tools"][0]["name"] == "add" and len(body["tools"]) == 1 for body in bodies)
    added = [(5, "tool_addition", "look")]
    gone = [*added, (10, "tool_removal", "add")]
    last = [*gone, (13, "tool_addition", "add")]
    assert [changes_in(body) for body in bodies] == [[], [], added, added, gone, last]
    assert betas == [None, None, *["inline-tools-2026-09-15"] * 4]


SUMMARY = {"type": "compaction", "content": "They added 1 and 2."}
BY_TOKENS = {"edits": [{"type": "compact_20260112"}]}


def test_server_summary_replaces_the_summarised_messages(streams):
    items = [
        answer(call("add", a=1, b=2), reasoning="first"),
        answer("3", reasoning="second"),
        message_blocks(SUMMARY, stop_reason="compaction"),
        answer("4", reasoning="third"),
        answer("5", reasoning="fourth"),
    ]
    with MessagesServer(items) as server:
        client = client_of(server, "claude-fable-5-2")
        agent = Agent(llm=client, tools=[add], stream=streams)
        asking = Agent(llm=client, tools=[add], extra_body={"compaction": {"type": "summarize"}})
        first = agent.run("one")
        summed_up = asking.run("Sum up.", messages=first.messages)
        assert summed_up.content == SUMMARY["content"]
        second = agent.run("two", messages=summed_up.messages)
        last = agent.run("three", messages=second.messages)
        bodies = [request.body for request in server.requests]
        betas = [request.headers.get("anthropic-beta") for request in server.requests]
    assert not [e for e in last.events if e.type is EventType.NOTICE]
    assert bodies[2]["compaction"] == {"type": "summarize"}
    block = bodies[3]["messages"][0]["content"][0]
    assert (block["type"], block["content"]) == ("compaction", SUMMARY["content"])
    assert [m["role"] for m in bodies[3]["messages"]] == ["assistant", "user"]
    assert [m["role"] for m in bodies[4]["messages"]] == ["assistant", "user", "assistant", "user"]
    assert thoughts_in(bodies[4]) == ["third"]
    assert betas == [None, None, *["compact-2026-09-04"] * 3]


def test_another_model_reads_a_summary_as_text():
    with (
        MessagesServer([message_blocks(SUMMARY, stop_reason="compaction")]) as server,
        MessagesServer(["b"]) as other,
    ):
        client = client_of(server, "claude-fable-5-2")
        first = Agent(llm=client, extra_body={"compaction": {"type": "summarize"}}).run("one")
        Agent(llm=client_of(other)).run("two", messages=first.messages)
        texts = [m["content"][0]["text"] for m in other.requests[0].messages]
    assert texts == ["one", SUMMARY["content"], "two"]


@pytest.mark.parametrize("pauses", [True, False])
def test_a_summary_at_a_number_of_tokens_goes_back_where_it_came(pauses, streams):
    """The server itself leaves out what came before it."""
    block = {**SUMMARY, "encrypted_content": "e"}
    content = [block] if pauses else [block, {"type": "text", "text": "3"}]
    text = SUMMARY["content"] if pauses else "3"
    first = message_blocks(*content, stop_reason="compaction" if pauses else "end_turn")
    with MessagesServer([first, "4", "5"]) as server:
        client = client_of(server, "claude-fable-5-2")
        agent = Agent(llm=client, stream=streams, extra_body={"context_management": BY_TOKENS})
        result = agent.run("one")
        assert result.content == text
        agent.run("two", messages=result.messages)
        Agent(llm=client).run("three", messages=result.messages)  # nobody asks for summaries any more
        bodies = [request.body for request in server.requests]
        betas = [request.headers.get("anthropic-beta") for request in server.requests]
    assert bodies[1]["messages"][1]["content"] == content
    assert bodies[2]["messages"][1]["content"] == [{"type": "text", "text": text}]
    assert betas == ["compact-2026-01-12", "compact-2026-01-12", None]


def test_tools_come_in_the_middle_of_a_round(streams, tmp_path):
    """Also in another process: what a session records is enough."""

    class Growing:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            pass

        async def list(self, context):
            return [tool(add)] if context.step < 2 else [tool(add), tool(look)]

        async def call(self, name, args):
            raise AssertionError(name)

    items = [
        answer(call("add", a=1, b=2), reasoning="first"),
        answer(call("look", at="it"), reasoning="second"),
        answer("red", reasoning="third"),
        answer("again", reasoning="fourth"),
    ]
    with MessagesServer(items) as server:
        for task in ("one", "two"):
            client = client_of(server, "claude-fable-5-2", "low")
            agent = Agent(llm=client, tools=[Growing()], sessions=JsonlStore(tmp_path), stream=streams)
            result = agent.run(task, session_id="s")
            assert not [e for e in result.events if e.type is EventType.NOTICE]
        bodies = [request.body for request in server.requests]
    assert [len(thoughts_in(body)) for body in bodies] == [0, 1, 2, 3]
    added = [(3, "tool_addition", "look")]
    gone = [(8, "tool_removal", "look")]  # in its first step, the second run has one tool again
    assert [changes_in(body) for body in bodies] == [[], added, added, [*added, *gone]]


def test_changed_tools_drop_invalidated_thinking():
    """Another system prompt makes all thinking invalid: the tools of now are those at the start then."""
    items = [answer("a", reasoning="first"), answer("b", reasoning="second"), answer("c", reasoning="third")]
    with MessagesServer(items) as server:
        client = client_of(server, "claude-fable-5-2")
        first = Agent(llm=client, tools=[add], system_prompt="x").run("one")
        other = Agent(llm=client, tools=[add, look], system_prompt="y")
        second = other.run("two", messages=first.messages)
        third = other.run("three", messages=second.messages)
        assert [m for m in third.messages if "tools_at_start" in m] == [
            m for m in second.messages if "tools_at_start" in m
        ]
        bodies = [request.body for request in server.requests]
    assert [len(body["tools"]) for body in bodies] == [1, 2, 2]
    assert [thoughts_in(body) for body in bodies] == [[], [], ["second"]]
    assert [changes_in(body) for body in bodies] == [[], [], []]


def test_a_conversation_whose_tools_change_loses_its_thinking_with_a_notice():
    items = [answer("a", reasoning="first"), answer("b", reasoning="second"), answer("c", reasoning="third")]
    with MessagesServer(items) as server:
        client = client_of(server, "claude-fable-5-2")
        first = Agent(llm=client).run("one")
        second_agent = Agent(llm=client, tools=[add])
        result = second_agent.run("two", messages=first.messages)
        notices = [e.data["message"] for e in result.events if e.type is EventType.NOTICE]
        third = second_agent.run("three", messages=result.messages)
        again = [e.data["message"] for e in third.events if e.type is EventType.NOTICE]
        bodies = [request.body for request in server.requests]
    assert any("thinking of 1 earlier responses is left out" in notice for notice in notices)
    assert not any("thinking" in notice for notice in again)
    assert "first" not in json.dumps(bodies[1])
    assert "second" in json.dumps(bodies[2])
