"""Profiles against strict servers of the vendors they are for: nothing that is sent is refused or ignored."""

import asyncio
import dataclasses

import pytest

from llm_client_conformance import ConfigError, ScriptedServer, ScriptError, answer, call
from llm_client_conformance.protocols import DIALECTS, ChatServer, check_chat_request
from pure_agent_loop import Agent, OpenAIClient
from pure_agent_loop.llm.profiles import PLAIN, profile_for
from pure_agent_loop.llm.values import TokenUsage

MODELS = {
    "deepseek": "deepseek-v4",
    "kimi": "kimi-k2.6",
    "qwen": "qwen3.8-max",
    "glm": "glm-5.2",
    "mistral": "magistral-medium",
    "openrouter": "anthropic/claude-opus-5",
    "gemini": "gemini-3-pro",
}
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def find(name: str) -> str:
    """Find something."""
    if name == "bad":
        raise ValueError("there is no such thing")
    return f"found {name}"


def look() -> str:
    """Look around."""
    return "seen"


@dataclasses.dataclass
class Place:
    name: str
    distance: int


def client_of(server: ChatServer, level: str | None = None) -> OpenAIClient:
    dialect = next(name for name, rules in DIALECTS.items() if rules is server.dialect)
    settings = {} if level is None else {"thinking_level": level}
    return OpenAIClient(MODELS[dialect], "k", server.base_url, **settings)


QUESTIONS = [
    [answer("Let me look.", call("find", name="a"), call("find", name="bad"), reasoning="hm"), "One."],
    ["Two."],
    [
        answer(call("find", name="b"), reasoning="let me see"),
        answer(call("look"), call("find", name="c")),
        answer("Three.", reasoning="so it is"),
    ],
    [answer(call("look"), reasoning="once more"), "Four."],
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("level", [None, "none", "high"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_agent_with_tools_is_refused_by_no_vendor(dialect, level, stream):
    with ChatServer([item for question in QUESTIONS for item in question], dialect) as server:
        assert profile_for(server.base_url, MODELS[dialect]) is not PLAIN
        agent = Agent(llm=client_of(server, level), tools=[find, look], stream=stream, max_tokens=1000)
        talk = agent.conversation()
        for number in range(len(QUESTIONS)):
            result = talk.send_sync(f"question {number}")
            assert result.stop_reason == "completed", result.error
    assert server.violations == server.ignored == []
    sent = str(server.requests[-1].body["messages"])
    assert all(found in sent for found in ("found a", "found b", "found c", "there is no such thing"))
    if server.dialect.reasoning_back or server.dialect.signs_reasoning:
        assert all(thought in sent for thought in ("hm", "let me see", "so it is"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_history_of_another_model_is_refused_by_no_vendor(dialect):
    image = [{"type": "image_url", "image_url": {"url": PNG}}]
    with ScriptedServer([answer(call("find", name="a"), reasoning="theirs"), "One."]) as first:
        agent = Agent(llm=OpenAIClient("m", "k", first.base_url), tools=[find])
        messages = agent.run("go", media=image).messages
    with ChatServer([answer(call("look"), reasoning="hm"), "Two."], dialect) as server:
        result = Agent(llm=client_of(server), tools=[find, look]).run("on", messages=messages)
    assert (result.content, server.violations) == ("Two.", [])
    assert (PNG in server.requests[-1].raw.decode()) == ("image_url" in server.dialect.takes_parts)


def test_an_image_in_a_question_is_not_left_out_silently():
    image = [{"type": "image_url", "image_url": {"url": PNG}}]
    server = ChatServer(["Yes."], strict=False)
    with pytest.raises(ScriptError), server:
        result = Agent(llm=client_of(server)).run("What is this?", media=image)
    assert (result.stop_reason, "image_url" in result.error) == ("error", True)


@pytest.mark.parametrize("tools", [[], [look]], ids=["alone", "with-tools"])
@pytest.mark.parametrize("level", [None, "high"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_typed_answers_are_refused_by_no_vendor(dialect, level, tools):
    def reply(request):
        offered = [tool["function"]["name"] for tool in request.tools or ()]
        ours = next((name for name in offered if name != "look"), None)
        fields = {"name": "Rome", "distance": 3}
        return call(ours, **fields) if ours else '{"name": "Rome", "distance": 3}'

    with ChatServer(handler=reply, dialect=dialect) as server:
        agent = Agent(llm=client_of(server, level), tools=tools, output_type=Place)
        result = agent.run("Where?")
    assert (result.output, server.violations) == (Place("Rome", 3), [])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_cached_tokens_and_thinking_are_read_in_the_vendors_form(dialect, stream):
    counted = TokenUsage(100, 5, 105, cached_tokens=60)
    with ChatServer([answer("Yes.", reasoning="hm", usage=counted)], dialect) as server:
        result = Agent(llm=client_of(server), stream=stream).run("?")
    assert (result.content, result.usage.cached_tokens) == ("Yes.", 60)
    assert result.state.messages[-1]["meta"]["reasoning"] == "hm"


CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ROUND = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "seen"},
]
PLAIN_ROUND = [ROUND[0], {n: v for n, v in ROUND[1].items() if n != "reasoning_content"}, ROUND[2]]
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}
LOOK = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
STRICT = [{"type": "function", "function": {**LOOK[0]["function"], "strict": True}}]
FILE = {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:,x", "filename": "x"}}]}
KEPT = {"type": "enabled", "clear_thinking": False}
NAMED = {"type": "function", "function": {"name": "look"}}
REFUSED = [
    ("deepseek", {"messages": PLAIN_ROUND}, "reasoning_content is missing"),
    ("deepseek", {"messages": [*PLAIN_ROUND, *ROUND[:1]]}, "reasoning_content is missing"),
    ("deepseek", {"messages": [*ROUND, {"role": "assistant", "content": "One."}]}, "messages[3]: reasoning"),
    ("deepseek", {"tool_choice": "required", "tools": LOOK}, "tool_choice: 'required'"),
    ("deepseek", {"tool_choice": NAMED, "tools": LOOK}, "tool_choice: 'function'"),
    ("deepseek", {"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
    ("deepseek", {"messages": [IMAGE]}, "unknown variant image_url"),
    ("deepseek", {"enable_thinking": True}, "enable_thinking: unknown field"),
    ("deepseek", {"messages": [{"role": "user", "content": "go", "note": "x"}]}, "unknown key 'note'"),
    ("deepseek", {"messages": [{"role": "assistant", "content": None}]}, "content of a assistant message"),
    ("deepseek", {"messages": ROUND[:2]}, "has no result"),
    ("deepseek", {"messages": [*ROUND, ROUND[2]]}, "but no call is open"),
    ("kimi", {"messages": PLAIN_ROUND}, "reasoning_content is missing"),
    ("kimi", {"temperature": 0.7}, "temperature: only 1"),
    ("kimi", {"tool_choice": "required", "tools": LOOK}, "tool_choice: 'required'"),
    ("kimi", {"tools": STRICT}, "strict is not supported"),
    ("qwen", {"tool_choice": "required", "tools": LOOK, "enable_thinking": True}, "tool_choice: 'required'"),
    ("qwen", {"messages": [FILE]}, "unknown variant file"),
    ("glm", {"tool_choice": NAMED, "tools": LOOK}, "tool_choice: 'function'"),
    ("glm", {"messages": PLAIN_ROUND, "thinking": KEPT}, "reasoning_content is missing"),
    ("glm", {"reasoning_effort": "medium"}, "reasoning_effort: use one of low, high, max"),
    ("mistral", {"messages": [*PLAIN_ROUND, ROUND[0]]}, "unexpected role 'user' after role 'tool'"),
    ("mistral", {"messages": ROUND}, "unknown key 'reasoning_content'"),
    ("mistral", {"stream_options": {"include_usage": True}}, "stream_options: unknown field"),
    (
        "mistral",
        {"messages": [ROUND[0], {**PLAIN_ROUND[1], "tool_calls": [{**CALL, "id": "c1"}]},
                      {**ROUND[2], "tool_call_id": "c1"}]},
        "the call id 'c1' does not match",
    ),
    ("gemini", {"messages": PLAIN_ROUND}, "missing a thought_signature"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "fields", "words"), REFUSED)
def test_each_refusal_names_its_rule(dialect, fields, words):
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], **fields}
    problems = check_chat_request(body, dialect)
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("deepseek", {"messages": PLAIN_ROUND, "thinking": {"type": "disabled"}}),
        ("deepseek", {"tool_choice": "required", "tools": LOOK, "thinking": {"type": "disabled"}}),
        ("deepseek", {"messages": [*ROUND, {"role": "assistant", "content": "", "reasoning_content": ""}]}),
        ("qwen", {"tool_choice": "required", "tools": LOOK}),
        ("glm", {"messages": PLAIN_ROUND}),
        ("kimi", {"temperature": 0.6, "thinking": {"type": "disabled"}}),
        ("mistral", {"messages": PLAIN_ROUND, "reasoning_effort": "none"}),
    ],
)
def test_option_accepted_by_a_vendor_is_sent(dialect, fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], **fields}
    assert check_chat_request(body, dialect) == []


def test_a_signature_that_was_not_sent_is_refused():
    with ChatServer([answer(call("look")), "Seen."], "gemini") as server:
        Agent(llm=client_of(server), tools=[look]).run("go")
    body = server.requests[-1].body
    assert check_chat_request(body, "gemini", signed=server.signed) == []
    assert "is not valid" in check_chat_request(body, "gemini", signed={})[0]


def test_reasoning_details_that_were_changed_are_refused():
    with ChatServer([answer(call("look"), reasoning="hm"), "Seen."], "openrouter") as server:
        Agent(llm=client_of(server), tools=[look]).run("go")
    body = server.requests[-1].body
    assert check_chat_request(body, "openrouter", signed=server.signed) == []
    detail = next(m for m in body["messages"] if "reasoning_details" in m)["reasoning_details"][0]
    detail["text"] = "hm, hm"
    assert "must not be modified" in check_chat_request(body, "openrouter", signed=server.signed)[0]


def test_fields_without_effect_are_recorded():
    options = {"max_completion_tokens": 9}
    with ChatServer(["Yes.", "Yes."]) as server:
        asyncio.run(client_of(server).chat([ROUND[0]], **options))
        assert server.ignored == []  # renamed by the profile
        asyncio.run(OpenAIClient("m", "k", server.base_url, profile=PLAIN).chat([ROUND[0]], **options))
    assert server.ignored == ["max_completion_tokens"]


def test_an_unknown_dialect_is_refused():
    with pytest.raises(ConfigError, match="deepseek, kimi, qwen, glm, mistral, openrouter, gemini"):
        ChatServer(["Yes."], "deepsick")
