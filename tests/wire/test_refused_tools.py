"""A server refuses a request for one tool: one of a toolset is left out, one of the caller is named."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop import Agent, EventType, RetryConfig, Tool
from pure_agent_loop.testing import ScriptedServer, answer, call, status
from pure_agent_loop.toolsets import combined

pytestmark = pytest.mark.usefixtures("transport")

ANY = {"type": "object", "properties": {}}


def made(*names):
    return [
        Tool(lambda **_: "done", name=name, description=f"Does {name}.", parameters=ANY) for name in names
    ]


class Others:
    """A toolset of somebody else."""

    def __init__(self, *names):
        self.tools = made(*names)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass

    async def list(self, context):
        return self.tools

    async def call(self, name, args):
        return "done"


def refusing(words, *bad):
    """Refuse requests that hold a tool of these names; `words` gets the name and the place."""

    def handle(request):
        names = [each["function"]["name"] for each in request.body.get("tools") or ()]
        for place, name in enumerate(names):
            if name in bad:
                return status(400, words.format(name=name, place=place))
        is_first = request.body["messages"][-1]["role"] == "user" and names
        return [call(names[0])] if is_first else answer("end")

    return handle


SAID = {
    "OpenAI": "Invalid schema for function '{name}': 'foo' is not valid under any of the given schemas.",
    "its place": "Invalid 'tools[{place}].function.name': string does not match pattern.",
    "Anthropic": "tools.{place}.custom.input_schema.properties: Property keys should match pattern '^[a-z]$'",
    "Gemini": "* GenerateContentRequest.tools[0].function_declarations[{place}].name: Invalid function name.",
    "a list of problems": "[{{'loc': ['body', 'tools', {place}, 'function'], 'msg': 'value is not valid'}}]",
    "in words": "Failed to compile the grammar of tool {name}: too many branches",
}


def run(server, tools, **options):
    agent = Agent("m", "k", server.base_url, tools=tools, retry=RetryConfig(max_retries=0), **options)
    return agent, agent.run("go")


def offered(request):
    return [each["function"]["name"] for each in request.body.get("tools") or ()]


@pytest.mark.parametrize("way", SAID)
def test_a_tool_of_a_toolset_is_left_out_and_stays_out(way):
    with ScriptedServer(handler=refusing(SAID[way], "odd", "odd_too")) as server:
        agent, result = run(server, [*made("own"), Others("odd", "fine", "odd_too")])
        assert (result.stop_reason, result.content) == ("completed", "end")
        notices = [event.content for event in result.events if event.type is EventType.NOTICE][1:]
        assert [text.partition(": ")[0] + ":" for text in notices] == [
            "Tool odd is left out from now on:",
            "Tool odd_too is left out from now on:",
        ]
        before = len(server.requests)
        agent.run("again", messages=[])
        assert [offered(request) for request in server.requests[before:]] == [["own", "fine"]] * 2


@pytest.mark.parametrize("way", SAID)
def test_a_tool_of_the_caller_is_named_and_not_left_out(way):
    with ScriptedServer(handler=refusing(SAID[way], "odd")) as server:
        _, result = run(server, [*made("own", "odd"), Others("fine")])
        assert result.stop_reason == "error"
        assert "rejected the tool 'odd', set by this program" in result.error
        assert len(server.requests) == 1


def test_tools_with_the_names_of_others_inside_theirs_are_kept_apart():
    with ScriptedServer(handler=refusing("Invalid schema for function '{name}': bad", "search")) as server:
        _, result = run(server, [Others("search_all", "search", "re-search")])
        assert result.stop_reason == "completed"
        assert offered(server.requests[-1]) == ["search_all", "re-search"]


@pytest.mark.parametrize(
    "words",
    ["Invalid 'messages[0].tool_calls[0].function.name': 'odd'", "The 'odd' and 'fine' tools clash", "No."],
)
def test_refusal_without_a_tool_name_ends_the_run(words):
    with ScriptedServer(handler=refusing(words, "odd")) as server:
        _, result = run(server, [Others("odd", "fine")])
        assert (result.stop_reason, len(server.requests)) == ("error", 1)


def test_more_tools_than_lessons():
    names = [f"odd{n}" for n in range(12)]
    with ScriptedServer(handler=refusing(SAID["OpenAI"], *names)) as server:
        _, result = run(server, [combined(*Others(*names, "fine").tools)])
        assert result.stop_reason == "completed"
        assert offered(server.requests[-1]) == ["fine"]


def test_descriptions_are_cut_where_the_server_says_how_long_they_may_be():
    def handle(request):
        for place, each in enumerate(request.body["tools"]):
            if (length := len(each["function"]["description"])) > 300:
                words = (
                    f"Invalid 'tools[{place}].function.description': string too long. Expected a string with "
                )
                return status(
                    400, f"{words}maximum length 300, but got a string with length {length} instead."
                )
        return answer("end")

    long = Tool(lambda: "x", name="long", description="Very useful. " * 50, parameters=ANY)
    with ScriptedServer(handler=handle) as server:
        agent, result = run(server, [long])
        assert result.stop_reason == "completed"
        assert "cut at 300 characters" in json.dumps([event.data for event in result.events])
        assert agent.run("again", messages=[]).stop_reason == "completed"
        assert len(server.requests) == 3
        assert len(server.requests[-1].body["tools"][0]["function"]["description"]) == 300
