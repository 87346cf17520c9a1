"""The same program with the same result, however the model has to be brought to act."""

from __future__ import annotations

import asyncio
import json

import pytest

from pure_agent_loop import (
    Agent,
    ConfigError,
    EventType,
    LLMError,
    LoopLimits,
    RetryConfig,
)
from pure_agent_loop.llm.tool_modes.client import TOOL_MODES, ToolModeClient
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, call, check_history, deltas, status
from tests.helpers import add, of_type, tool_texts

NO_WAIT = RetryConfig(base_delay=0, jitter=0)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]
ADD = {"a": 1, "b": 2}
NATIVE = call("add", **ADD)
AS_JSON = json.dumps({"tool": "add", "arguments": ADD})
AS_REACT = f"Thought: I add.\nAction: add\nAction Input: {json.dumps(ADD)}"
AS_TAG = f"<tool_call>{json.dumps({'name': 'add', 'arguments': ADD})}</tool_call>"
FINAL = json.dumps({"tool": "final_answer", "arguments": {"answer": "It is 3."}})


def refusal(message, code=400):
    return status(code, message)


def run(server_or_script, mode, *, task="1 + 2?", **options):
    """An agent over real HTTP; returns its result and what the server was asked."""
    with ScriptedServer(server_or_script) as server:
        agent = Agent("m", "k", server.base_url, tools=[add], tool_mode=mode, retry=NO_WAIT, **options)
        result = agent.run(task)
        server.assert_clean()
    assert check_history(result.messages) == []
    return result, server.requests


def notices(result):
    return [event.content for event in of_type(result.events, EventType.NOTICE)][
        1:
    ]  # the first names the model


def ask(client, messages=None, tools=TOOLS, **options):
    """Everything a client streams."""

    async def collect():
        asked = messages or [{"role": "user", "content": "1 + 2?"}]
        return [delta async for delta in client.chat_stream(asked, tools, **options)]

    return asyncio.run(collect())


def shown(parts):
    return "".join(part.text for part in parts)


def calls_in(parts):
    return [(each.name, each.arguments) for part in parts for each in part.tool_calls]


# -- the same program ------------------------------------------------------------------------------

SCRIPTS = {
    "native": [NATIVE, "It is 3."],
    "json": [AS_JSON, FINAL],
    "text": [AS_REACT, "Thought: I know.\nFinal Answer: It is 3."],
    "auto": [AS_TAG, FINAL],
}


@pytest.mark.parametrize("mode", TOOL_MODES)
def test_the_same_program_has_the_same_result_in_every_mode(mode):
    result, requests = run(SCRIPTS[mode], mode)
    assert (result.content, result.stop_reason) == ("It is 3.", "completed")
    assert tool_texts(result.messages) == ["3"]
    [asked] = [m["tool_calls"] for m in result.messages if m.get("tool_calls")]
    assert json.loads(asked[0]["function"]["arguments"]) == ADD
    assert [bool(request.tools) for request in requests] == [mode in ("native", "auto"), mode == "native"]


@pytest.mark.parametrize("mode", TOOL_MODES)
def test_a_plain_chat_is_passed_on_unchanged(mode):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    with ScriptedLLM(["Final Answer: { and <"]) as llm:
        parts = ask(ToolModeClient(llm, mode, ENGLISH), messages, None, tool_choice="none", temperature=1)
    assert shown(parts) == "Final Answer: { and <"
    assert llm.requests[0].messages == messages
    assert llm.requests[0].options == {"tool_choice": "none", "temperature": 1}


@pytest.mark.parametrize("mode", ["json", "text"])
def test_when_tools_are_withheld_the_history_is_still_text(mode):
    final = {"json": FINAL, "text": "Final Answer: It is 3."}[mode]
    result, requests = run([SCRIPTS[mode][0], final], mode, limits=LoopLimits(max_tool_calls=1))
    assert (result.stop_reason, "It is 3." in result.content) == ("max_tool_calls", True)
    assert '"tool"' not in result.content
    last = requests[-1]
    assert all(m["role"] != "tool" and "tool_calls" not in m for m in last.messages)
    assert any("Observation: 3" in m["content"] for m in last.messages)
    schema = last.options.get("response_format")
    if mode == "json":  # nothing but an answer is allowed
        assert schema["json_schema"]["schema"]["properties"]["tool"]["enum"] == ["final_answer"]


@pytest.mark.parametrize(
    ("mode", "wrong"), [("json", '{"tool": "rm", "arguments": {}}'), ("text", "Action: rm")]
)
def test_unknown_tool_is_reported_to_the_model(mode, wrong):
    result, requests = run([wrong, *SCRIPTS[mode]], mode)
    assert result.content == "It is 3."
    assert "there is no such tool" in requests[1].messages[-1]["content"]


@pytest.mark.parametrize("mode", ["json", "text"])
def test_the_prompt_is_the_same_bytes_each_step_and_speaks_the_language(mode):
    _, requests = run(SCRIPTS[mode], mode, language="zh")
    system = [request.messages[0]["content"] for request in requests]
    assert system[0] == system[1]
    assert CHINESE.react[:8] in system[0]
    assert "- add: Add two numbers." in system[0]
    assert requests[1].messages[: len(requests[0].messages)] == requests[0].messages


def test_there_are_four_modes():
    with pytest.raises(ConfigError, match="auto, native, json, text"):
        Agent(llm=ScriptedLLM([]), tool_mode="magic")


# -- options ---------------------------------------------------------------------------------------


def test_options_of_the_user_win():
    own = {"type": "json_object"}
    with ScriptedLLM([FINAL, "Final Answer: x"]) as llm:
        ask(ToolModeClient(llm, "json", ENGLISH), response_format=own, temperature=0, tool_choice="auto")
        ask(ToolModeClient(llm, "text", ENGLISH), stop=["END"], temperature=0, parallel_tool_calls=False)
    assert [r.options for r in llm.requests] == [
        {"response_format": own, "temperature": 0},
        {"stop": ["END"], "temperature": 0},
    ]


def test_modes_ask_for_their_kinds():
    with ScriptedLLM([FINAL, "Final Answer: x"]) as llm:
        ask(ToolModeClient(llm, "json", ENGLISH))
        ask(ToolModeClient(llm, "text", ENGLISH))
    formats = llm.requests[0].options["response_format"]
    assert formats["json_schema"]["schema"]["anyOf"][0]["properties"]["tool"]["enum"] == ["add"]
    assert "\nObservation:" in llm.requests[1].options["stop"]
    assert [r.tools for r in llm.requests] == [None, None]


def test_a_server_that_refuses_stop_is_asked_without_it_from_then_on():
    script = [refusal("Unsupported parameter: 'stop' is not supported with this model."), *SCRIPTS["text"]]
    result, requests = run(script, "text")
    assert result.content == "It is 3."
    assert ["stop" in request.options for request in requests] == [True, False, False]


# -- json: what servers understand -----------------------------------------------------------------


def kind_of(request):
    return request.options.get("response_format", {}).get("type")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("response_format type 'json_schema' is not supported", 400),
        ("Failed to parse grammar", 400),
        ("failed to initialize samplers: grammar error", 500),
    ],
)
def test_a_refused_format_is_replaced_visibly_and_for_good(message, code):
    refusals = [refusal(message, code), refusal("'response_format.type' must be 'text'")]
    result, requests = run([*refusals, *SCRIPTS["json"]], "json")
    assert result.content == "It is 3."
    assert [kind_of(request) for request in requests] == ["json_schema", "json_object", None, None]
    [notice] = notices(result)
    assert "no response_format" in notice


def test_another_bad_request_changes_nothing():
    with ScriptedLLM([LLMError("max_tokens is too large", kind="bad_request", status=400), FINAL]) as llm:
        client = ToolModeClient(llm, "json", ENGLISH)
        with pytest.raises(LLMError, match="max_tokens"):
            ask(client)
        ask(client)
    assert [kind_of(request) for request in llm.requests] == ["json_schema", "json_schema"]


def test_a_format_is_not_given_up_if_that_does_not_help():
    bad = LLMError("schema of the database is broken", kind="bad_request", status=400)
    with ScriptedLLM([bad, bad, bad, FINAL]) as llm:
        client = ToolModeClient(llm, "json", ENGLISH)
        with pytest.raises(LLMError, match="database"):
            ask(client)
        ask(client)
    assert [kind_of(request) for request in llm.requests] == [
        "json_schema",
        "json_object",
        None,
        "json_schema",
    ]


def test_a_tool_with_the_name_of_the_answer_is_refused():
    tools = [{"type": "function", "function": {"name": "final_answer"}}]
    with pytest.raises(LLMError, match="Rename"):
        ask(ToolModeClient(ScriptedLLM([]), "json", ENGLISH), tools=tools)


# -- auto ------------------------------------------------------------------------------------------


class Probed(ScriptedLLM):
    """A scripted model whose server can be asked about its template."""

    def __init__(self, script, found):
        super().__init__(script)
        self.found, self.probes = found, 0

    async def template_supports_tools(self):
        self.probes += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize("found", [True, None, RuntimeError("no /props")])
def test_a_probe_that_does_not_say_no_changes_nothing(found):
    with Probed([NATIVE, NATIVE], found) as llm:
        client = ToolModeClient(llm, "auto", ENGLISH)
        parts = ask(client) + ask(client)
    assert (llm.probes, [bool(r.tools) for r in llm.requests]) == (1, [True, True])
    assert not any(part.notice for part in parts)


def test_a_template_without_tools_switches_before_the_first_request():
    with Probed([AS_JSON, FINAL], False) as llm:
        result = Agent(llm=llm, tools=[add], tool_mode="auto").run("1 + 2?")
    assert result.content == "It is 3."
    assert [r.tools for r in llm.requests] == [None, None]
    [notice] = of_type(result.events, EventType.NOTICE)
    assert "template" in notice.content


@pytest.mark.parametrize("mode", ["native", "json", "text"])
def test_a_mode_that_was_forced_is_not_probed(mode):
    with Probed([SCRIPTS[mode][1]], False) as llm:
        ask(ToolModeClient(llm, mode, ENGLISH))
    assert llm.probes == 0


def test_calls_written_as_text_switch_for_good():
    result, requests = run([f"I add.\n{AS_TAG}", AS_JSON.replace("1", "5"), FINAL], "auto")
    assert result.content == "It is 3."
    assert [bool(request.tools) for request in requests] == [True, False, False]
    assert tool_texts(result.messages) == ["3", "7"]
    assert result.messages[1]["content"] == "I add.\n"
    [notice] = notices(result)
    assert "writes tool calls as text" in notice


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("registry.ollama.ai/library/tiny:latest does not support tools", 400),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400),
        ("tools param requires --jinja flag", 500),
        ("No endpoints found that support tool use.", 404),
        ("Unrecognized request argument supplied: tools", 400),
        ("tools: Extra inputs are not permitted", 422),
        ("Function calling is not enabled for this model", 400),
    ],
)
def test_a_server_that_refuses_tools_switches_for_good(message, code):
    result, requests = run([refusal(message, code), AS_JSON, FINAL], "auto")
    assert result.content == "It is 3."
    assert [bool(request.tools) for request in requests] == [True, False, False]
    [notice] = notices(result)
    assert message in notice


@pytest.mark.parametrize("mode", ["auto", "native"])
@pytest.mark.parametrize(
    "message",
    ["Invalid 'tools[0].function.name': string does not match pattern.", "the model has no tools to spare"],
)
def test_other_errors_do_not_switch(mode, message):
    result, requests = run([refusal(message)], mode)
    assert (result.stop_reason, len(requests)) == ("error", 1)


def test_an_error_after_something_was_shown_does_not_switch():
    error = LLMError("this model does not support tools", kind="bad_request", status=400)
    with ScriptedLLM([deltas("Well, ", error)]) as llm, pytest.raises(LLMError):
        ask(ToolModeClient(llm, "auto", ENGLISH))


# -- native ----------------------------------------------------------------------------------------


def test_native_calls_leave_the_text_alone():
    with ScriptedLLM([answer(f"I add. {AS_TAG}", NATIVE), deltas(NATIVE, f"x\n{AS_TAG}")]) as llm:
        client = ToolModeClient(llm, "auto", ENGLISH)
        first, second = ask(client), ask(client)
    assert shown(first) == f"I add. {AS_TAG}"
    assert shown(second) == f"x\n{AS_TAG}"
    for parts in (first, second):
        assert [name for name, _ in calls_in(parts) if name] == ["add"]
        assert not any(part.notice for part in parts)


@pytest.mark.parametrize("mode", TOOL_MODES)
def test_calls_inside_thinking_are_none(mode):
    with ScriptedLLM([f"<think>{AS_TAG}\n{AS_REACT}\n{AS_JSON}</think>It is 3."]) as llm:
        parts = ask(ToolModeClient(llm, mode, ENGLISH))
    assert (shown(parts), calls_in(parts)) == ("It is 3.", [])
    assert AS_TAG in "".join(part.reasoning for part in parts)


def test_an_ordinary_answer_streams_in_native_mode():
    text = "Use `a < b`:\n\n```python\nx = {1: [2]}\n```\n\n- [x] {y}\n[1]: <http://x>"
    with ScriptedLLM([deltas(*text)]) as llm:
        parts = ask(ToolModeClient(llm, "native", ENGLISH))
    assert shown(parts) == text
    assert parts[-1].text == ""


@pytest.mark.parametrize("mode", TOOL_MODES)
def test_an_answer_without_an_end_is_not_made_complete(mode):
    written = {**dict.fromkeys(TOOL_MODES, AS_TAG), "json": AS_JSON, "text": AS_REACT}[mode]
    with (
        ScriptedLLM([deltas(written, finish_reason=None)]) as llm,
        pytest.raises(LLMError, match="ended early"),
    ):
        asyncio.run(ToolModeClient(llm, mode, ENGLISH).chat([{"role": "user", "content": "?"}], TOOLS))


@pytest.mark.parametrize("mode", ["json", "text"])
def test_a_call_that_was_cut_off_is_not_run(mode):
    cut = {"json": AS_JSON[:-6], "text": AS_REACT[:-4]}[mode]
    result, _ = run([answer(cut, finish_reason="length"), *SCRIPTS[mode]], mode)
    assert result.content == "It is 3."
    assert "cut off" in tool_texts(result.messages)[0]


def test_the_client_is_closed_with_the_agent():
    llm = ScriptedLLM([])
    asyncio.run(ToolModeClient(llm, "auto", ENGLISH).aclose())
    assert llm.closed


@pytest.mark.parametrize(
    ("mode", "own"), [("text", {"stop": ["END"]}), ("json", {"response_format": {"type": "text"}})]
)
def test_rejected_explicit_option_is_not_left_out(mode, own):
    error = LLMError(f"{next(iter(own))} is not supported", kind="bad_request")
    with ScriptedLLM([error]) as llm, pytest.raises(LLMError) as caught:
        ask(ToolModeClient(llm, mode, ENGLISH), **own)
    assert caught.value is error
    assert len(llm.requests) == 1
