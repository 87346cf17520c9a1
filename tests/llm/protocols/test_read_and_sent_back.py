"""Answers of unusual shape in every protocol, what goes back of them, and media of a wrong type."""

import base64
import json

import pytest

from llm_client_conformance import answer, call, status
from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer, message_blocks
from llm_client_conformance.scripted.server import ScriptedServer
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    ConfigError,
    GeminiClient,
    LoopLimits,
    OpenAIClient,
    ResponsesClient,
    RetryConfig,
)
from pure_agent_loop.llm.gemini.request import GeminiWriter
from pure_agent_loop.media import media_parts

ONCE = RetryConfig(max_retries=0)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(40)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(40)).decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(40)).decode()
PROTOCOLS = {
    "chat": (lambda url: OpenAIClient("gpt-5", "k", url), ScriptedServer),
    "messages": (lambda url: AnthropicClient("claude-opus-4-6", "k", url), MessagesServer),
    "responses": (lambda url: ResponsesClient("gpt-5", "k", url), ResponsesServer),
    "gemini": (lambda url: GeminiClient("gemini-3-flash", "k", url), GeminiServer),
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def look(path: str = "/") -> str:
    """Look at a path."""
    return "found"


def data_url(kind, data=PNG):
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


# -- a picture is the answer ---------------------------------------------------------------------------------

DRAWN = {
    "gemini": {
        "candidates": [
            {
                "content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]},
                "finishReason": "STOP",
            }
        ]
    },
    "chat": {
        "choices": [
            {"message": {"content": None, "images": [data_url("image/png")]}, "finish_reason": "stop"}
        ]
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}],
    },
}


@pytest.mark.parametrize("protocol", DRAWN)
def test_picture_without_words_is_the_answer_and_goes_back(protocol):
    make, server_of = PROTOCOLS[protocol]
    with server_of([status(200, text=json.dumps(DRAWN[protocol]))] * 2, check=False) as server:
        agent = Agent(llm=make(server.base_url), retry=ONCE)
        first = agent.run("Draw a dot.")
        assert (first.stop_reason, first.content, len(server.requests)) == ("completed", "", 1)
        agent.run("Make it red.", messages=first.messages)
        sent = server.requests[1].body
    assert first.media == [data_url("image/png")]
    history = sent.get("contents") or sent.get("input") or sent["messages"]
    assert [PNG in json.dumps(item) for item in history].count(True) == 1


def test_picture_of_another_server_is_not_sent():
    with ScriptedServer([status(200, text=json.dumps(DRAWN["chat"]))]) as server:
        first = Agent(llm=PROTOCOLS["chat"][0](server.base_url), retry=ONCE).run("Draw a dot.")
    with MessagesServer(["Red."]) as server:
        result = Agent(llm=PROTOCOLS["messages"][0](server.base_url)).run("And?", messages=first.messages)
        assert (result.content, PNG in server.requests[0].raw.decode()) == ("Red.", False)
    assert result.media == []


# -- what a server holds -------------------------------------------------------------------------------------

CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "x"}}
OURS = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "look",
    "input": {"path": "a"},
    "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
}
BOX = {"container": {"id": "container_1", "expires_at": "2027-01-01T00:00:00Z"}}
CODE_TOOL = {"type": "code_execution_20250825", "name": "code_execution"}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, "container_1"),
        ({"container": {"skills": []}}, {"id": "container_1", "skills": []}),
        ({"container": "mine"}, "mine"),
    ],
)
def test_container_of_a_paused_answer_and_its_calls_goes_back(streams, own, sent):
    script = [
        message_blocks(CODE, stop_reason="pause_turn", **BOX),
        message_blocks(OURS, stop_reason="tool_use"),
        "done",
    ]
    with MessagesServer(script) as server:
        client = AnthropicClient("claude-opus-4-6", "k", server.base_url)
        agent = Agent(llm=client, tools=[look, CODE_TOOL], stream=streams, retry=ONCE, extra_body=own)
        assert agent.run("q").content == "done"
        assert [request.body.get("container") for request in server.requests[1:]] == [sent, sent]


def test_handles_go_back_to_their_own_server_only():
    script = [message_blocks(OURS, stop_reason="tool_use", **BOX, workspace={"id": "w1"}), "done"]
    with MessagesServer(script, check=False) as server:
        client = AnthropicClient("claude-opus-4-6", "k", server.base_url)
        result = Agent(llm=client, tools=[look, CODE_TOOL], retry=ONCE).run("q")
        assert (result.content, server.requests[1].body["workspace"]) == ("done", "w1")
    with MessagesServer(["other"]) as server:
        client = AnthropicClient("claude-opus-4-6", "k", server.base_url)
        Agent(llm=client, tools=[look], retry=ONCE).run("q", messages=result.messages)
        assert server.requests[0].body.keys().isdisjoint({"container", "workspace"})


# -- tools of the server beside functions --------------------------------------------------------------------

FUNCTION = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("model", "tools", "options", "config"),
    [
        ("gemini-3-flash", [FUNCTION, {"googleSearch": {}}], {}, {"includeServerSideToolInvocations": True}),
        (
            "gemini-3-flash",
            [FUNCTION, {"codeExecution": {}}],
            {"tool_choice": "auto"},
            {"includeServerSideToolInvocations": True},
        ),
        (
            "gemini-3-flash",
            [FUNCTION, {"urlContext": {}}],
            {"toolConfig": {"includeServerSideToolInvocations": False}},
            {"includeServerSideToolInvocations": False},
        ),
        ("gemini-3-flash", [FUNCTION], {}, None),
        ("gemini-3-flash", [{"googleSearch": {}}, {"codeExecution": {}}], {}, None),
        ("gemini-2.5-flash", [FUNCTION, {"googleSearch": {}}], {}, None),
    ],
)
def test_tools_of_both_kinds_get_the_switch_of_gemini_3(model, tools, options, config):
    body = GeminiWriter(model).write([{"role": "user", "content": "q"}], tools, options)
    assert body.get("toolConfig") == config


def test_run_with_functions_and_search_is_accepted():
    with GeminiServer([answer(call("look", path="a")), "done"]) as server:
        client = GeminiClient("gemini-3-flash", "k", server.base_url)
        assert Agent(llm=client, tools=[look, {"googleSearch": {}}], retry=ONCE).run("q").content == "done"


# -- the bytes decide ----------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize(
    ("part", "right", "wrong"),
    [
        (data_url("image/jpeg"), "image/png", "image/jpeg"),
        (data_url("image/png", JPEG), "image/jpeg", "image/png"),
        (data_url("IMAGE/JPG;name=a", JPEG), "image/jpeg", "JPG"),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"},
            },
            "image/png",
            "pdf",
        ),
    ],
)
def test_picture_is_sent_with_the_type_of_its_bytes(protocol, part, right, wrong):
    make, server_of = PROTOCOLS[protocol]
    history = [{"role": "user", "content": [part]}, {"role": "assistant", "content": "ok"}]
    with server_of(["done"]) as server:
        assert Agent(llm=make(server.base_url), retry=ONCE).run("x", messages=history).content == "done"
        sent = server.requests[0].raw.decode()
    assert (right in sent, wrong in sent) == (True, False)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (data_url("image/png", PDF), "file"),
        ({"type": "input_audio", "input_audio": {"data": WAV, "format": "mp3"}}, "input_audio"),
        (
            {"type": "file", "file": {"file_data": f"data:application/octet-stream;base64,{PNG}"}},
            "image_url",
        ),
    ],
)
def test_medium_gets_the_kind_of_its_bytes(part, expected):
    (made,) = media_parts([part])
    assert made["type"] == expected
    assert made.get("input_audio", {"format": "wav"})["format"] == "wav"


# -- addresses -----------------------------------------------------------------------------------------------

DONE = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-3-flash:streamGenerateContent",
}


@pytest.mark.parametrize(
    ("protocol", "pasted"),
    [
        ("chat", "/v1/chat/completions"),
        ("chat", "/v1/chat/completions/"),
        ("chat", "/v1/models"),
        ("messages", "/v1/messages"),
        ("messages", "/v1/messages/?beta=true"),
        ("messages", "/v1/messages/count_tokens"),
        ("responses", "/v1/responses/"),
        ("responses", "/v1/chat/completions"),
        ("gemini", "/v1beta/models"),
        ("gemini", "/v1beta/models/gemini-3-flash"),
        ("gemini", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("gemini", "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse&key=secret"),
    ],
)
def test_endpoint_pasted_as_address_is_understood(protocol, pasted):
    make, server_of = PROTOCOLS[protocol]
    with server_of(["done"]) as server:
        root = server.base_url.removesuffix("/v1")
        assert Agent(llm=make(root + pasted), retry=ONCE).run("x").content == "done"
        assert [request.path.partition("?")[0] for request in server.requests] == [DONE[protocol]]


def test_parameters_of_a_pasted_endpoint_are_refused():
    with pytest.raises(ConfigError, match="api-version"):
        OpenAIClient("m", "k", "https://x.test/openai/deployments/d/chat/completions?api-version=1")


@pytest.mark.parametrize("url", ["https://x.test/models", "https://x.test/v1", "https://x.test/v1?a=1"])
def test_address_of_a_server_is_left_as_it_is(url):
    assert OpenAIClient("m", "k", url, prepared=False).base_url == url


# -- marks of the caller -------------------------------------------------------------------------------------


def test_cache_mark_of_the_caller_stays_and_no_other_is_added():
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "long", **mark}]},
        {"role": "assistant", "content": "ok"},
    ]
    with MessagesServer(["done"]) as server:
        client = AnthropicClient("claude-opus-4-6", "k", server.base_url)
        Agent(llm=client, tools=[look], system_prompt="s").run("x", messages=history)
        body = server.requests[0].body
    assert body["messages"][0]["content"][0] == {"type": "text", "text": "long", **mark}
    assert json.dumps(body).count("cache_control") == 1


# -- calls that are not finished -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (
            "chat",
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]
                        },
                        "finish_reason": "length",
                    }
                ]
            },
        ),
        (
            "gemini",
            {
                "candidates": [
                    {
                        "content": {"parts": [{"functionCall": {"name": "look", "args": {}}}]},
                        "finishReason": "MAX_TOKENS",
                    }
                ]
            },
        ),
        (
            "messages",
            {
                "type": "message",
                "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}],
                "stop_reason": "max_tokens",
            },
        ),
        (
            "responses",
            {
                "status": "incomplete",
                "output": [
                    {
                        "type": "function_call",
                        "call_id": "c",
                        "name": "look",
                        "arguments": '{"path": "/a"}',
                        "status": "in_progress",
                    }
                ],
            },
        ),
    ],
)
def test_call_that_the_limit_may_have_cut_never_runs(protocol, body):
    ran = []

    def look(path: str = "/") -> str:
        """Look at a path."""
        ran.append(path)
        return "found"

    make, server_of = PROTOCOLS[protocol]
    with server_of([status(200, text=json.dumps(body))] * 2, strict=False) as server:
        limits = LoopLimits(max_steps=2)
        Agent(llm=make(server.base_url), tools=[look], stream=False, retry=ONCE, limits=limits).run("x")
    assert ran == []
