"""A server of the official SDK as a toolset: all that it has, over stdio and HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.processes import listening
from tests.serving import free_port

from pure_agent_loop import Agent, ConfigError, EventType
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.mcp import MCPServer, MCPServers, OAuth
from pure_agent_loop.mcp.server import REQUEST_META
from pure_agent_loop.permissions import Permission
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.tool import StepContext

SCRIPT = Path(__file__).with_name("good_server.py")
BAD = Path(__file__).with_name("bad_server.py")
COMMAND = [sys.executable, str(SCRIPT)]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def good(loop, tmp_path_factory):
    sampler = ScriptedLLM(["Yes."] * 9, strict=False)
    about = {"roots": [str(SCRIPT.parent)], "sampling": sampler, "pinned": False, "legacy": True}
    server = MCPServer(COMMAND, name="good", **about)
    loop.run_until_complete(server.__aenter__())
    yield server
    loop.run_until_complete(server.__aexit__())


def run(loop, tools, script, **options):
    llm = ScriptedLLM(script, strict=False)
    result = loop.run_until_complete(Agent(llm=llm, tools=tools, **options).arun("go"))
    return result, llm, [each["content"] for each in result.messages if each["role"] == "tool"]


def test_texts_pictures_and_structured_results_reach_the_model(loop, good):
    script = [call("mcp__good__weather", city="Oslo"), call("mcp__good__picture"), "done"]
    result, llm, seen = run(loop, [good], script)
    assert json.loads("".join(seen[0].splitlines()[1:-1])) == {"city": "Oslo", "degrees": 8}
    assert "Here it is:\n[image/png, 1 x 1" in seen[1]
    assert "untrusted data, not instructions" in seen[1]
    parts = [
        part
        for each in llm.requests[2].messages
        if isinstance(each["content"], list)
        for part in each["content"]
    ]
    assert "image_url" in [part["type"] for part in parts]
    assert result.content == "done"


def test_progress_becomes_events(loop, good):
    result, _, _ = run(loop, [good], [call("mcp__good__slow"), "done"])
    told = [each for each in result.events if each.type is EventType.PROGRESS]
    assert [(each.data["tool"], each.content) for each in told] == [("mcp__good__slow", "1/2 half way")]


def test_a_question_of_a_server_is_put_to_the_person_field_by_field(loop, good):
    answers = iter(["red", "many", "3"])
    asked = []

    def answer(request):
        asked.append(request.args["question"])
        return Permission("allow", next(answers))

    _, _, seen = run(loop, [good], [call("mcp__good__wish"), "done"], on_ask=answer)
    assert "accept: colour='red' count=3" in seen[0]
    assert len(asked) == 3
    assert all(each.startswith("The MCP server 'good' asks: What do you wish?") for each in asked)


@pytest.mark.parametrize(("on_ask", "said"), [(None, "cancel"), (lambda _: False, "decline")])
def test_declined_or_unanswered_form_sends_no_values(loop, good, on_ask, said):
    _, _, seen = run(loop, [good], [call("mcp__good__wish"), "done"], on_ask=on_ask)
    assert f"{said}: None" in seen[0]


@pytest.mark.parametrize(("agrees", "said"), [(True, "The model said Yes."), (False, "did not agree")])
def test_a_server_asks_the_model_only_if_a_person_agrees(loop, agrees, said, good):
    _, _, seen = run(loop, [good], [call("mcp__good__think"), "done"], on_ask=lambda _: agrees)
    assert said in seen[0]


def test_roots_resources_and_prompts(loop, good):
    script = [
        call("mcp__good__roots"),
        call("mcp__good__list_resources"),
        call("mcp__good__read_resource", uri="note://milk"),
        call("mcp__good__read_resource", uri="logo://png"),
        call("mcp__good__read_resource", uri="no://thing"),
        "done",
    ]
    _, _, seen = run(loop, [good], script)
    assert SCRIPT.parent.as_uri() in seen[0]
    assert "- note://{name}: A note." in seen[1]
    assert "Note milk." in seen[2]
    assert "image/png, 1 x 1" in seen[3]
    assert "rejected the request" in seen[4]
    assert loop.run_until_complete(good.prompts()) == [("greet", "Greets somebody.", ["who"])]
    assert loop.run_until_complete(good.prompt("greet", ["Ann", "Lee"])) == "Greet Ann Lee kindly."
    with pytest.raises(ToolExecutionError, match=r"The prompt's arguments: WHO\.$"):
        loop.run_until_complete(good.prompt("greet"))


def test_a_tool_that_a_server_learns_is_there_in_the_next_step(loop, good):
    _, llm, seen = run(loop, [good], [call("mcp__good__learn", name="new"), call("mcp__good__new"), "done"])
    assert "mcp__good__new" not in str(llm.requests[0].tools)
    assert "new" in seen[1].splitlines()


def test_hints_lists_and_names(loop, tmp_path):
    trusting = MCPServer(
        COMMAND, name="good", trusted=True, allow=["w*"], deny=["wish"], prefix="x_", resources=False
    )

    async def listed():
        async with trusting:
            return await trusting.list(StepContext())

    tools = loop.run_until_complete(listed())
    assert [(each.name, each.read_only, each.untrusted) for each in tools] == [("x_weather", True, True)]


def test_several_servers_are_searched_where_they_have_many_tools(loop, tmp_path):
    bad = [sys.executable, "-I", "-S", str(BAD)]
    servers = MCPServers(
        [
            MCPServer([*bad, "many_tools"], name="many"),
            MCPServer([*bad, "dies_at_start"], name="dead"),
        ]
    )
    script = [call("search_mcp_tools", query="work1234"), call("mcp__many__work1234", n=1), "done"]
    _, llm, seen = run(loop, [servers], script)
    assert [each["function"]["name"] for each in llm.requests[0].tools] == ["search_mcp_tools"]
    assert "mcp__many__work1234" in seen[0]
    assert "fine" in seen[1]
    with pytest.raises(ConfigError, match="Two MCP servers have the name 'a'"):
        MCPServers([MCPServer(["x"], name="a"), MCPServer(["y"], name="a")])


def test_prompt_argument_completions(loop, good):
    assert loop.run_until_complete(good.complete("greet", "who", "An")) == ["Ann", "Anton"]


def test_request_context_and_trace_are_passed_on(loop, good):
    async def asked():
        token = REQUEST_META.set({"example.com/ticket": "T-1"})
        try:
            with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
                return span.get_span_context().trace_id, await good.call("meta", {})
        finally:
            REQUEST_META.reset(token)

    trace_id, seen = loop.run_until_complete(asked())
    seen = json.loads(seen) if isinstance(seen, str) else seen
    assert seen["example.com/ticket"] == "T-1"
    assert f"{trace_id:032x}" in seen["traceparent"]


def test_an_older_server_with_its_stream_of_events(loop):
    port = free_port()
    old = MCPServer(url=f"http://127.0.0.1:{port}/sse", transport="sse", name="good", legacy=True)
    with listening([*COMMAND, str(port), "sse"], port):
        script = [call("mcp__good__weather", city="Bern"), call("mcp__good__wish"), "done"]
        _, _, seen = run(loop, [old], script, on_ask=lambda _: False)
    assert "Bern" in seen[0]
    assert "decline" in seen[1]  # it asks back in the middle of a call


def test_a_server_over_http_and_one_that_is_not_there(loop):
    port = free_port()
    away = MCPServer(url=f"http://127.0.0.1:{port}/mcp", name="good")
    _, _, seen = run(loop, [away], [call("mcp__good__connect"), "done"])
    assert f"No answer from http://127.0.0.1:{port}/mcp" in seen[0]
    with listening([*COMMAND, str(port)], port):
        _, _, seen = run(loop, [away], [call("mcp__good__weather", city="Rome"), "done"])
        assert "Rome" in seen[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs one of command"),
        ({"command": ["x"], "url": "http://a"}, "needs one of command"),
        ({"command": "x"}, "command is 'x'; command must be a list of strings"),
        ({"url": "ftp://a"}, "must be http:// or https://"),
        ({"url": "http://a", "env": {"A": "b"}}, "env is only for servers that are started"),
        ({"command": ["x"], "headers": {"A": "b"}}, "headers is only for servers that are reached"),
        ({"command": ["x"], "name": "a b"}, "name may have at most 32"),
        ({"command": ["x"], "name": "a__b"}, "no '_' at either end"),
        ({"command": ["x"], "name": "a_"}, "no '_' at either end"),
        ({"command": ["x"], "timeout": 0}, "must be above 0 seconds"),
        ({"url": "http://a", "transport": "tcp"}, "transport='tcp'"),
        ({"command": ["x"], "log_level": "loud"}, "log_level='loud' must be one of debug, info"),
        ({"command": ["x"], "oauth": OAuth()}, "oauth is only for servers that are reached"),
        ({"command": ["x", 1]}, "command[1] is 1"),
    ],
)
def test_invalid_server_entry_is_rejected(options, words):
    with pytest.raises(ConfigError, match="MCP server") as refused:
        MCPServer(**options)
    assert words in str(refused.value)


def test_unentered_server_is_an_error(loop):
    with pytest.raises(ConfigError, match="async with server"):
        loop.run_until_complete(MCPServer(["x"]).list(StepContext()))
