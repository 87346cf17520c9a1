"""The Gemini API: requests, streams, errors and whole runs against a strict server."""

import base64
import json
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_client_conformance import EndEarly, ErrorChunk, Reset, answer, call, deltas, status
from llm_client_conformance.protocols import GeminiServer, check_gemini_request, model_parts
from llm_client_conformance.protocols.gemini_answers import IssuedSignatures
from pure_agent_loop import Agent, EventType, GeminiClient, RetryConfig
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.gemini.request import GeminiWriter
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultFloat
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.llm.values import TokenUsage
from tests.llm.protocols.histories import histories
from tests.llm.protocols.loops import in_a_loop
from tests.llm.protocols.typed import HAS_GOOGLE, assert_typed

ORIGIN = "https://generativelanguage.googleapis.com m"
USER = [{"role": "user", "content": "q"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": SCHEMA}}
STAND_IN = "skip_thought_signature_validator"
PNG = "data:image/png;base64,AA=="


class Number(TypedDict):
    """A number."""

    n: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def body(messages, tools=None, options=None, model="gemini-3-flash", level=None):
    written = GeminiWriter(model, level, ORIGIN).write(messages, tools, options or {})
    assert check_gemini_request(written, model) == []
    assert_typed(written)
    return written


def made(*names, arguments="{}", **fields):
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def result(number, content="3"):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content}


def kept(*parts, origin=ORIGIN):
    return {"gemini_parts": list(parts), "meta": {"origin": origin}}


# -- requests ------------------------------------------------------------------------------------------------


def test_system_prompt_tools_and_turns():
    history = [{"role": "system", "content": "s"}, *USER, {"role": "user", "content": "r"}]
    written = body(history, [ADD])
    assert written["systemInstruction"] == {"parts": [{"text": "s"}]}
    assert written["contents"] == [{"role": "user", "parts": [{"text": "q"}, {"text": "r"}]}]
    declared = {"name": "add", "description": "Add.", "parametersJsonSchema": SCHEMA}
    assert written["tools"] == [{"functionDeclarations": [declared]}]
    assert written["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}


def test_all_results_of_a_round_are_one_content():
    history = [*USER, made("add", "look"), result(0), result(1, "4"), *USER]
    contents = body(history, [ADD])["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[2]["parts"] == [
        {"functionResponse": {"id": "c0", "name": "add", "response": {"output": "3"}}},
        {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "4"}}},
        {"text": "q"},
    ]


def test_a_failed_result_is_an_error():
    history = [*USER, made("add"), {**result(0, "no such file"), "meta": {"failed": True}}]
    (part,) = body(history, [ADD])["contents"][2]["parts"]
    assert part["functionResponse"]["response"] == {"error": "no such file"}


def test_a_request_begins_and_ends_with_a_user():
    contents = body([{"role": "assistant", "content": "x"}])["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert body([{"role": "user", "content": " "}])["contents"][0]["parts"] == [{"text": "Continue."}]


def test_files_of_a_question_are_inline():
    content = [
        {"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.webp"}},
        {"type": "file", "file": {"file_id": "https://example.org/files/1"}},
    ]
    parts = body([{"role": "user", "content": content}])["contents"][0]["parts"]
    types = [part.get("inlineData", {}).get("mimeType") for part in parts]
    assert types == [None, "image/png", "application/pdf", "audio/wav", None, None]
    assert parts[4] == {"fileData": {"fileUri": "https://example.org/a.webp", "mimeType": "image/webp"}}


@pytest.mark.parametrize(("model", "is_inside"), [("gemini-3-pro", True), ("gemini-2.5-flash", False)])
def test_files_of_results(model, is_inside):
    content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": PNG}}]
    parts = body([*USER, made("look"), result(0, content)], [ADD], model=model)["contents"][2]["parts"]
    image = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    assert parts[0]["functionResponse"]["response"] == {"output": "a"}
    assert parts[0]["functionResponse"].get("parts") == ([image] if is_inside else None)
    assert parts[1:] == ([] if is_inside else [image])


def test_files_that_results_cannot_hold_follow_them():
    content = [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]
    parts = body([*USER, made("look"), result(0, content)], [ADD])["contents"][2]["parts"]
    assert [next(iter(part)) for part in parts] == ["functionResponse", "inlineData"]
    assert "parts" not in parts[0]["functionResponse"]


def allowed_tools(mode):
    tools = [{"type": "function", "function": {"name": "add"}}]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("validated", {"mode": "VALIDATED"}),
        ({"type": "function", "function": {"name": "add"}}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        (allowed_tools("auto"), {"mode": "VALIDATED", "allowedFunctionNames": ["add"]}),
        (allowed_tools("required"), {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_tool_choice_is_translated(choice, expected):
    written = body(USER, [ADD], {"tool_choice": choice})
    assert written["toolConfig"] == {"functionCallingConfig": expected}
    assert "toolConfig" not in body(USER, None, {"tool_choice": choice})


def test_a_tool_config_of_the_protocol_wins_and_needs_tools():
    mine = {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["add"]}}
    assert body(USER, [ADD], {"toolConfig": mine, "tool_choice": "none"})["toolConfig"] == mine
    assert "toolConfig" not in body(USER, None, {"toolConfig": mine})


def test_options_have_their_counterparts():
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    options = {
        "max_tokens": 9,
        "stop": "END",
        "top_p": 0.5,
        "topK": 3,
        "seed": 1,
        "temperature": 0.2,
        "safety_settings": safety,
        "timeout": 3,
    }
    written = body(USER, None, options)
    config = written["generationConfig"]
    assert config.pop("thinkingConfig")
    assert config == {
        "maxOutputTokens": 9,
        "stopSequences": ["END"],
        "topP": 0.5,
        "topK": 3,
        "seed": 1,
        "temperature": 0.2,
    }
    assert written["safetySettings"] == safety


def test_defaults_without_a_counterpart_are_dropped():
    options = {"temperature": DefaultFloat(0.7), "top_a": DefaultFloat(1.0)}
    assert body(USER, None, options)["generationConfig"].keys() == {"thinkingConfig"}


def test_a_cache_holds_system_prompt_and_tools():
    history = [{"role": "system", "content": "s"}, *USER]
    written = body(history, [ADD], {"cached_content": "cachedContents/1", "tool_choice": "required"})
    assert written.keys() == {"contents", "cachedContent", "generationConfig"}


def test_server_tools_pass_through():
    assert body(USER, [ADD, {"googleSearch": {}}])["tools"][1] == {"googleSearch": {}}


def test_a_typed_answer_is_constrained():
    form = AnswerFormat({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}})
    config = body(USER, [ADD], {"response_format": form})["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", SCHEMA)
    assert "responseJsonSchema" not in body(USER, [ADD], {"response_format": form}, "gemini-2.5-pro")


@pytest.mark.parametrize(
    ("model", "level", "options", "words"),
    [
        ("gemini-3-pro", None, {"parallel_tool_calls": False}, "parallel_tool_calls has no counterpart"),
        ("gemini-3-pro", None, {"response_format": {"type": "grammar"}}, "response_format="),
        ("gemini-2.5-pro", None, {"response_format": {"type": "json_object"}}, "response_format: gemini-2.5"),
        ("gemini-3-pro", None, {"tool_choice": {"type": "allowed_tools"}}, "tool_choice="),
        ("gemini-3-pro", "medium", {}, "Use one of: low, high"),
        ("gemini-3.1-pro", "none", {}, "always thinks"),
        ("gemini-3.8-flash", "none", {}, "always thinks"),
        ("gemini-3.8-flash", None, {"reasoning_effort": "minimal"}, "Use one of: low, medium, high"),
        ("gemini-flash-latest", "none", {}, "always thinks"),
        ("gemini-3-pro", "none", {}, "always thinks"),
        ("gemini-2.5-pro", "none", {}, "always thinks"),
        ("gemini-2.0-flash", "low", {}, "cannot think"),
        ("gemini-2.5-flash", None, {"reasoning_effort": "xhigh"}, "xhigh"),
    ],
)
def test_rejected_option_of_a_model_fails_before_a_request(model, level, options, words):
    with pytest.raises(ConfigError, match=words):
        GeminiWriter(model, level).write(USER, [ADD], options)


@pytest.mark.parametrize(
    ("model", "level", "expected"),
    [
        ("gemini-3-pro-preview", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.5-flash", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-flash-lite", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-flash-lite-latest", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-3.8-flash", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-flash-latest", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 1_024}),
        ("gemini-2.5-pro", None, {"includeThoughts": True}),
        ("gemini-2.0-flash", "none", None),
        ("gemini-2.5-flash-image", None, None),
        ("gemma-4-27b", None, None),
    ],
)
def test_thinking_by_model(model, level, expected):
    assert body(USER, model=model, level=level).get("generationConfig", {}).get("thinkingConfig") == expected


def test_an_effort_and_a_config_of_the_protocol_win_over_the_level():
    config = body(USER, None, {"reasoning_effort": "low"}, level="high")["generationConfig"]
    assert config["thinkingConfig"]["thinkingLevel"] == "LOW"
    mine = {"thinkingConfig": {"thinkingLevel": "MEDIUM"}}
    assert body(USER, None, mine, level="high")["generationConfig"] == mine


# -- signatures ----------------------------------------------------------------------------------------------

SIGNED = {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}


def test_signed_parts_go_back_as_they_came_to_their_own_model():
    parts = [{"text": "hm", "thought": True}, SIGNED]
    history = [*USER, made("add", arguments='{"a": 1}', **kept(*parts)), result(0)]
    contents = body(history, [ADD])["contents"]
    assert contents[1]["parts"] == parts
    assert contents[2]["parts"][0]["functionResponse"].keys() == {"name", "response"}  # no id, as the call


@pytest.mark.parametrize(
    ("arguments", "origin"), [('{"a": 1}', "https://aiplatform.googleapis.com m"), ('{"a": 2}', ORIGIN)]
)
def test_calls_of_others_and_changed_calls_get_the_stand_in(arguments, origin):
    history = [*USER, made("add", arguments=arguments, **kept(SIGNED, origin=origin)), result(0)]
    part = body(history, [ADD])["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == STAND_IN
    assert part["functionCall"] == {"id": "c0", "name": "add", "args": json.loads(arguments)}


def test_only_the_first_call_gets_the_stand_in_and_only_from_gemini_3_on():
    history = [*USER, made("add", "look"), result(0), result(1)]
    parts = body(history, [ADD])["contents"][1]["parts"]
    assert ["thoughtSignature" in part for part in parts] == [True, False]
    parts = body(history, [ADD], model="gemini-2.5-pro")["contents"][1]["parts"]
    assert not any("thoughtSignature" in part for part in parts)


def test_the_stand_in_is_base64():
    assert base64.urlsafe_b64decode(STAND_IN)


def signed(draw, content):
    parts = [{"text": content}, {"text": "", "thoughtSignature": "c2ln"}]
    return {"role": "assistant", "content": content, **kept(*parts)}


@given(
    histories(signed),
    st.booleans(),
    st.sampled_from(["gemini-3-pro", "gemini-2.5-flash", "gemini-2.0-flash"]),
)
def test_any_history_is_accepted(history, has_tools, model):
    body(history, [ADD] if has_tools else None, model=model)


# -- the strict server's rules -------------------------------------------------------------------------------

CALL = {"functionCall": {"id": "1", "name": "add", "args": {}}, "thoughtSignature": STAND_IN}
RESULT = {"functionResponse": {"id": "1", "name": "add", "response": {"output": "3"}}}
TEXT = {"text": "q"}


def contents(*turns):
    return {"contents": [{"role": role, "parts": list(parts)} for role, parts in turns]}


ROUND = (("user", [TEXT]), ("model", [CALL]), ("user", [RESULT]))


@pytest.mark.parametrize(
    ("request_body", "words"),
    [
        (
            contents(ROUND[0], ("model", [{"functionCall": CALL["functionCall"]}]), ROUND[2]),
            "missing a thought",
        ),
        (contents(("user", [])), "without parts"),
        (contents(("assistant", [TEXT])), "'assistant' is invalid"),
        (contents(("model", [TEXT])), "must be a user's"),
        (contents(("user", [{"text": "x", **RESULT}])), "exactly one kind"),
        (contents(("user", [TEXT, CALL])), "wrong for the role user"),
        (contents(*ROUND[:2], ("user", [TEXT])), "do not match"),
        (contents(*ROUND[:2], ("user", [RESULT]), ("user", [RESULT])), "do not match"),
        (contents(*ROUND, ("model", [TEXT]), ("model", [CALL]), ("user", [RESULT])), "must come after"),
        (contents(*ROUND[:2]), "have no results"),
        (contents(ROUND[0], ("model", [{**TEXT, "thoughtSignature": "x"}]), ROUND[0]), "is not valid"),
        ({**contents(ROUND[0]), "model": "x"}, "model: unknown name"),
        ({**contents(ROUND[0]), "cachedContent": "x", "tools": []}, "excludes tools"),
        (
            {
                **contents(ROUND[0]),
                "tools": [
                    {"functionDeclarations": [{"name": "x", "parameters": {}, "parametersJsonSchema": {}}]}
                ],
            },
            "parameters and parametersJsonSchema",
        ),
        (
            {**contents(ROUND[0]), "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["x"]}}},
            "only allowed with",
        ),
        ({**contents(ROUND[0]), "generationConfig": {"responseJsonSchema": {}}}, "needs responseMimeType"),
        (
            {
                **contents(ROUND[0]),
                "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}},
            },
            "exclude each other",
        ),
    ],
)
def test_the_server_refuses_with_a_source(request_body, words):
    problems = check_gemini_request(request_body, issued=IssuedSignatures())
    assert any(words in problem for problem in problems), problems
    assert all(problem.endswith(("[G]", "[P]", "[R]")) for problem in problems)


def test_the_server_knows_merged_and_changed_parts():
    issued = IssuedSignatures()
    signed = issued.sign({"text": "ab"})
    assert check_gemini_request(contents(ROUND[0], ("model", [signed]), ROUND[0]), issued=issued) == []
    merged = {**signed, "text": "abc"}
    problems = check_gemini_request(contents(ROUND[0], ("model", [merged]), ROUND[0]), issued=issued)
    assert problems == ["contents[1].parts[0]: a changed or merged part with a signature [P]"]


@pytest.mark.skipif(not HAS_GOOGLE, reason="google-genai is not installed; it needs Python 3.11")
def test_the_referee_refuses_unknown_fields():
    with pytest.raises(ValueError, match="Extra inputs"):
        assert_typed({"contents": [{"role": "user", "parts": [{"text": "x", "signature": "y"}]}]})


# -- responses -----------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streams(request):
    return request.param


async def respond(server, streams, model="gemini-3-flash", **options):
    client = GeminiClient(model, "k", server.base_url)
    try:
        if streams:
            return await assembled(client.chat_stream(USER, **options))
        return await client.chat(USER, **options)
    finally:
        await client.aclose()


@in_a_loop
async def test_text_and_reasoning_and_calls(streams):
    item = answer("It is ", call("add", a=1, b=2), call("add", a=3, b=4), reasoning="Let me see.")
    with GeminiServer([item], rechunk=(1, 7, 3)) as server:
        response = await respond(server, streams)
        path = server.requests[0].path
    assert (response.content, response.reasoning_content) == ("It is ", "Let me see.")
    assert [c.arguments for c in response.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert (response.finish_reason, response.usage) == ("tool_calls", TokenUsage(10, 5, 15))
    parts = response.extra["gemini_parts"]
    assert [part.get("text") for part in parts] == ["Let me see.", "It is ", None, None]
    assert ["thoughtSignature" in part for part in parts] == [False, False, True, False]
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    assert path == f"/v1/models/gemini-3-flash:{method}"


@in_a_loop
async def test_plain_answers_keep_no_parts(streams):
    with GeminiServer([answer("It is 3.", call("add", a=1, b=2))]) as server:
        response = await respond(server, streams, "gemini-2.5-flash")
    assert (response.extra, response.tool_calls[0].name) == (None, "add")


@in_a_loop
async def test_signed_and_empty_parts_are_never_merged(streams):
    parts = [
        {"text": "a"},
        {"text": "b"},
        {"text": "c", "thoughtSignature": "c2ln"},
        {"text": "d"},
        {"text": "", "thoughtSignature": "c2lnMg=="},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"aPartOfTheFuture": 1},
    ]
    with GeminiServer([model_parts(*parts)]) as server:
        response = await respond(server, streams)
    assert response.content == "abcd"
    merged = [{"text": "ab"}, *parts[2:]]
    assert response.extra["gemini_parts"] == merged


@in_a_loop
async def test_calls_without_an_id_get_one(streams):
    part = {"functionCall": {"name": "look"}}
    with GeminiServer([model_parts(part, part)]) as server:
        response = await respond(server, streams)
    assert [c.arguments for c in response.tool_calls] == [{}, {}]
    assert len({c.id for c in response.tool_calls}) == 2


@in_a_loop
async def test_thoughts_are_output_and_cached_tokens_part_of_the_prompt(streams):
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 80,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 122,
    }
    with GeminiServer([model_parts({"text": "x"}, usageMetadata=usage)]) as server:
        response = await respond(server, streams)
    assert response.usage == TokenUsage(105, 17, 122, 7, 80)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
    ],
)
@in_a_loop
async def test_finish_reasons(reason, expected, streams):
    with GeminiServer([model_parts({"text": "x"}, finish_reason=reason)]) as server:
        assert (await respond(server, streams)).finish_reason == expected


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", "incomplete"),
        ("UNEXPECTED_TOOL_CALL", "incomplete"),
        ("OTHER", "incomplete"),
        ("MISSING_THOUGHT_SIGNATURE", "bad_request"),
    ],
)
@in_a_loop
async def test_finish_reasons_of_failures(reason, kind, streams):
    item = model_parts({"text": "x"}, finish_reason=reason, finish_message="call: add(")
    with GeminiServer([item]) as server:
        with pytest.raises(LLMError, match=rf"\({reason}\): call: add\(") as raised:
            await respond(server, streams)
        assert raised.value.kind == kind


@in_a_loop
async def test_a_blocked_prompt_is_a_refusal_with_a_notice(streams):
    feedback = {"blockReason": "PROHIBITED_CONTENT"}
    with GeminiServer([model_parts(candidates=[], promptFeedback=feedback)]) as server:
        client = GeminiClient("gemini-3-flash", "k", server.base_url)
        seen = [delta async for delta in client.chat_stream(USER, stream=streams)]
        await client.aclose()
    assert seen[-1].finish_reason == "content_filter"
    assert seen[-1].notice == "The prompt was blocked (PROHIBITED_CONTENT)."


def test_a_blocked_prompt_ends_a_run():
    feedback = {"blockReason": "SAFETY", "blockReasonMessage": "No."}
    with GeminiServer([model_parts(candidates=[], promptFeedback=feedback)]) as server:
        result = Agent(llm=GeminiClient("gemini-3-flash", "k", server.base_url)).run("x")
    notices = [event.data["message"] for event in result.events if event.type is EventType.NOTICE]
    assert "The prompt was blocked (SAFETY): No." in notices
    assert result.stop_reason == "content_filter"


def test_an_empty_response_is_asked_for_again():
    with GeminiServer([model_parts(), "It is 3."]) as server:
        assert Agent(llm=GeminiClient("gemini-2.5-flash", "k", server.base_url)).run("x").output == "It is 3."


class ErrorList(ErrorChunk):
    """An error as Google sends it on some routes: a list."""

    async def play(self, out):
        await out.event(b'[{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}]')
        await out.end()
        return False


class RefusalList(ErrorChunk):
    """A refusal whose body is a list."""

    async def play(self, out):
        error = {
            "code": 429,
            "message": "Quota exceeded. Please retry in 3s.",
            "status": "RESOURCE_EXHAUSTED",
        }
        await out.respond(429, json.dumps([{"error": error}]).encode())
        return False


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(429, "slow down", kind="rate_limit_error", headers={"retry-after": "7"}), "rate_limit"),
        (status(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
         "context_overflow"),
        (status(403, "denied"), "auth"),
        (status(404, "models/x is not found", kind="not_found_error"), "not_found"),
        (status(503, "The model is overloaded."), "overloaded"),
        (ErrorList(), "overloaded"),
        (RefusalList(), "rate_limit"),
        (deltas("It is ", ErrorList()), "overloaded"),
        (deltas("It is ", EndEarly()), "incomplete"),
        (deltas("It is ", Reset()), "connection"),
    ],
)  # fmt: skip
@in_a_loop
async def test_errors_have_their_kind(fault, kind):
    with GeminiServer([fault]) as server:
        with pytest.raises(LLMError) as raised:
            await respond(server, True)
        assert raised.value.kind == kind


@in_a_loop
async def test_unreadable_events_end_the_response():
    class Garbage(ErrorChunk):
        async def play(self, out):
            await out.event(b'{"candidates": [{"content": {"parts": [3]}}]}')
            return False

    with GeminiServer([deltas("x", Garbage())]) as server, pytest.raises(LLMError, match="unreadable"):
        await respond(server, True)


@in_a_loop
async def test_the_window_is_asked_of_the_server_once():
    with GeminiServer(handler=lambda _: "x") as server:
        client = GeminiClient("gemini-3-pro", "k", server.base_url)
        assert client.context_window is None
        assert await client.find_context_window() == 1_048_576
        assert await client.find_context_window() == client.context_window == 1_048_576
        assert [request.path for request in server.other_requests] == ["/v1/models/gemini-3-pro"]
        await client.aclose()


# -- runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-flash"])
def test_a_run_keeps_its_signatures(model, streams):
    items = [
        answer(call("add", a=1, b=2), call("add", a=2, b=2), reasoning="first"),
        answer("Now.", call("add", a=3, b=3), reasoning="second"),
        answer("It is 6.", reasoning="third"),
        "So it is.",
    ]
    with GeminiServer(items) as server:
        agent = Agent(llm=GeminiClient(model, "k", server.base_url, "low"), tools=[add], stream=streams)
        first = agent.run("Add.")
        assert agent.run("Really?", messages=json.loads(json.dumps(first.messages))).output == "So it is."
        bodies = [request.body for request in server.requests]
        issued = server.issued.parts
    assert first.output == "It is 6."
    for written in bodies:
        assert_typed(written)
    sent = [part for content in bodies[-1]["contents"] for part in content["parts"]]
    assert [part for part in sent if "thoughtSignature" in part] == [*issued.values()][:3]


def test_a_switch_to_gemini_takes_the_calls_of_another_model():
    from llm_client_conformance import ScriptedServer
    from pure_agent_loop import OpenAIClient

    with ScriptedServer([call("add", a=1, b=2), "3"]) as other, GeminiServer(["yes"]) as server:
        first = Agent(llm=OpenAIClient("m", "k", other.base_url), tools=[add]).run("Add.")
        gemini = Agent(llm=GeminiClient("gemini-3-pro", "k", server.base_url), tools=[add])
        assert gemini.run("Sure?", messages=first.messages).output == "yes"
        parts = [part for content in server.requests[0].body["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in parts if "functionCall" in part] == [STAND_IN]


@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-flash"])
def test_a_typed_answer_is_constrained_or_a_call(model):
    def reply(request):
        if "responseJsonSchema" in request.body["generationConfig"]:
            return '{"n": 3}'
        return call(request.body["tools"][0]["functionDeclarations"][-1]["name"], n=3)

    with GeminiServer(handler=reply) as server:
        agent = Agent(llm=GeminiClient(model, "k", server.base_url), tools=[add], output_type=Number)
        assert agent.run("How many?").output == {"n": 3}
        is_constrained = "responseJsonSchema" in server.requests[0].body["generationConfig"]
    assert is_constrained == (model == "gemini-3-pro")


# -- keys ----------------------------------------------------------------------------------------------------


def test_the_environments_key_goes_to_google_only(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "secret")
    assert GeminiClient("gemini-3-pro", prepared=False).secrets == {"api_key": "secret"}
    monkeypatch.setenv("GEMINI_API_KEY", "mine")
    assert GeminiClient("gemini-3-pro", prepared=False).secrets == {"api_key": "mine"}
    for host in ("https://other.example", "https://googleapis.com.example"):
        assert not GeminiClient("gemini-3-pro", base_url=host, prepared=False).has_key
    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        GeminiClient("gemini-3-pro", base_url="https://other.example").prepare()
    monkeypatch.setenv("GEMINI_BASE_URL", "https://gateway.example")
    assert GeminiClient("gemini-3-pro", prepared=False).has_key


@pytest.mark.parametrize(
    ("base_url", "model", "endpoint"),
    [
        (None, "gemini-3-pro", "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro"),
        (
            "https://x.example/v1alpha/",
            "models/gemini-3-pro",
            "https://x.example/v1alpha/models/gemini-3-pro",
        ),
        ("https://x.example", "a b?c", "https://x.example/v1beta/models/a%20b%3Fc"),
    ],
)
def test_the_address_of_a_model(base_url, model, endpoint):
    assert GeminiClient(model, "k", base_url, prepared=False)._settings["endpoint"] == endpoint


# -- everything that the SDK's types name --------------------------------------------------------------------


def members(name):
    if not HAS_GOOGLE:
        return []
    from google.genai import types

    return [member.value for member in getattr(types, name) if not member.value.endswith("UNSPECIFIED")]


ENDS = {
    "stop": {"STOP"},
    "length": {"MAX_TOKENS", "CONTINUATION"},
    "incomplete": {
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
        "OTHER", "IMAGE_OTHER", "NO_IMAGE",
    },
    "bad_request": {"MISSING_THOUGHT_SIGNATURE"},
    "auth": {"PUP_LIMITED_DISABLED"},
}  # fmt: skip


@pytest.mark.parametrize("reason", members("FinishReason"))
@in_a_loop
async def test_every_finish_reason_has_a_meaning(reason):
    expected = next((end for end, reasons in ENDS.items() if reason in reasons), "content_filter")
    with GeminiServer([model_parts({"text": "x"}, finish_reason=reason)]) as server:
        try:
            end = (await respond(server, True)).finish_reason
        except LLMError as error:
            end = error.kind
    assert end == expected


@pytest.mark.parametrize("reason", members("BlockedReason"))
@in_a_loop
async def test_every_reason_for_a_block_is_a_refusal(reason):
    ratings = [{"category": "HARM_CATEGORY_X", "blocked": True}, {"category": "HARM_CATEGORY_Y"}]
    feedback = {"blockReason": reason, "safetyRatings": ratings}
    with GeminiServer([model_parts(candidates=[], promptFeedback=feedback)]) as server:
        client = GeminiClient("gemini-3-flash", "k", server.base_url)
        seen = [delta async for delta in client.chat_stream(USER)]
        await client.aclose()
    assert seen[-1].finish_reason == "content_filter"
    assert seen[-1].notice == f"The prompt was blocked ({reason}): HARM_CATEGORY_X"


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"]
)
@pytest.mark.parametrize("streams", [True, False])
def test_a_malformed_response_is_repeated_with_a_word_to_the_model(reason, streams):
    bad = model_parts({"text": "x"}, finish_reason=reason, finish_message="call: add(")
    worse = model_parts(finish_reason=reason, finish_message="call: add((")
    script = [answer(call("add", a=1, b=2)), bad, worse, "It is 3.", "Bye."]
    retry = RetryConfig(base_delay=0, jitter=0)
    with GeminiServer(script) as server:
        client = GeminiClient("gemini-3-flash", "k", server.base_url)
        agent = Agent(llm=client, tools=[add], retry=retry, stream=streams)
        result = agent.run("1 + 2?")
        agent.run("Bye.", messages=result.messages)
        bodies = [request.body for request in server.requests]
    assert result.output == "It is 3."
    for written in bodies:
        assert_typed(written)
    plain = bodies[1]["contents"]
    for written, why in ((bodies[2], "call: add("), (bodies[3], "call: add((")):
        said = written["contents"]
        assert said[:-1] == plain[:-1]
        assert said[-1]["parts"][:-1] == plain[-1]["parts"]
        assert f"({reason}): {why}\n" in said[-1]["parts"][-1]["text"]
    assert "could not be read" not in json.dumps([bodies[4], result.messages])
    assert result.usage.prompt_tokens > 0
