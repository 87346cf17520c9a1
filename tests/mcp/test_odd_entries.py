"""One odd entry in a list of a server is left out by name; the rest of the list works."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from pure_agent_loop import Agent, EventType
from pure_agent_loop.mcp import MCPServer, MCPServers
from pure_agent_loop.testing import ScriptedLLM, call

SERVER = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    result = answers.get(method, {})
    if method == "initialize":
        abilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
        result = {"capabilities": abilities, "serverInfo": {"name": "s", "version": "1"}}
        result["protocolVersion"] = params["protocolVersion"]
    elif isinstance(result, list):  # pages
        number = int(params.get("cursor") or 0)
        if result[number] == "broken":
            error = {"code": -32603, "message": "out of pages"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
        result = dict(result[number])
        if number + 1 < len(answers[method]):
            result["nextCursor"] = str(number + 1)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
EMPTY = {"type": "object", "properties": {}}
GOOD = {"name": "good", "inputSchema": EMPTY}
FINE = {"content": [{"type": "text", "text": "it works"}]}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


def server(tmp_path, **answers):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    answers = {name.replace("_", "/"): answer for name, answer in {"tools_call": FINE, **answers}.items()}
    return MCPServer([sys.executable, str(script), json.dumps(answers)], name="s")


def run(tools):
    llm = ScriptedLLM([call("mcp__s__good"), "done"])
    result = asyncio.run(Agent(llm=llm, tools=[tools], permission_mode="bypass").arun("go"))
    (seen,) = [message["content"] for message in result.messages if message["role"] == "tool"]
    names = [each["function"]["name"].removeprefix("mcp__s__") for each in llm.requests[0].tools]
    notices = [event.content for event in result.events if event.type is EventType.NOTICE]
    return names, seen, notices


LEFT_OUT = {
    "a number": (7, "#1 is left out: Input should be"),
    "a list": ([GOOD], "#1 is left out: Input should be"),
    "no name": ({"inputSchema": EMPTY, "title": "Nameless"}, "Nameless is left out: name: Field required"),
    "name is null": ({"name": None, "inputSchema": EMPTY}, "#1 is left out: name: "),
    "name is a number": ({"name": 5, "inputSchema": EMPTY}, "#1 is left out: name: "),
    "schema of a list": (
        {"name": "odd", "inputSchema": {"type": "array"}},
        "odd is left out: inputSchema.type",
    ),
    "false": ({"name": "odd", "inputSchema": False}, "odd is left out: inputSchema"),
    "properties is a list": (
        {"name": "odd", "inputSchema": {"type": "object", "properties": ["a"]}},
        "odd is left out: inputSchema.properties",
    ),
    "required is true": (
        {"name": "odd", "inputSchema": {"type": "object", "required": True}},
        "odd is left out: inputSchema.required",
    ),
    "same name": (
        {**GOOD, "name": "good", "description": "x"},
        "good is left out: another one has the same name",
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
@pytest.mark.parametrize("pages", [1, 2])
def test_an_odd_tool_is_left_out_by_name(case, pages, tmp_path):
    odd, said = LEFT_OUT[case]
    entries = [GOOD, odd] if case == "same name" else [odd, GOOD]
    listed = {"tools": entries} if pages == 1 else [{"tools": entries[:1]}, {"tools": entries[1:]}]
    names, seen, notices = run(server(tmp_path, tools_list=listed))
    assert [name for name in names if name in ("good", "odd")] == ["good"]
    assert "it works" in seen
    assert [said in text for text in notices] == [True]


def test_a_page_that_fails_leaves_those_before_it(tmp_path):
    asked = server(tmp_path, tools_list=[{"tools": [GOOD]}, "broken"])
    names, seen, notices = run(asked)
    assert (names[0], "it works" in seen) == ("good", True)
    assert ["the rest of the list is left out: out of pages" in text for text in notices] == [True]


MENDED = {
    "no type": {"inputSchema": {"properties": {"a": {"type": "string"}}}},
    "type with null": {"inputSchema": {"type": ["null", "object"]}},
    "type is null": {"inputSchema": {"type": None, "properties": None, "required": None}},
    "no schema": {},
    "anything": {"inputSchema": True},
}


@pytest.mark.parametrize("case", MENDED)
def test_a_schema_whose_meaning_is_plain_is_completed(case, tmp_path):
    listed = {"tools": [{"name": "odd", **MENDED[case]}, GOOD]}
    names, seen, notices = run(MCPServers([server(tmp_path, tools_list=listed)]))
    assert names[:2] == ["odd", "good"]
    assert ("it works" in seen, notices) == (True, [])


@pytest.mark.parametrize(
    "field", [{"description": 5}, {"annotations": "no"}, {"icons": [1]}, {"outputSchema": 0, "title": []}]
)
def test_of_a_tool_only_the_wrong_optional_fields_are_left_out(field, tmp_path):
    names, _, notices = run(server(tmp_path, tools_list={"tools": [{**GOOD, "name": "odd", **field}, GOOD]}))
    assert names[:2] == ["odd", "good"]
    assert [f"a field of odd is left out: {next(iter(field))}" in text for text in notices] == [True]


def test_unknown_result_block_is_dropped_with_a_note_to_the_model(tmp_path):
    blocks = [{"type": "hologram", "data": 1}, {"type": "text"}, None, {"type": "text", "text": "it works"}]
    _, seen, _ = run(server(tmp_path, tools_list={"tools": [GOOD]}, tools_call={"content": blocks}))
    assert "it works" in seen
    assert [seen.count(f"content: #{number} is left out") for number in (1, 2, 3)] == [1, 1, 1]


def test_null_list_and_invalid_cursor(tmp_path):
    result = {"content": None, "structuredContent": {"n": 1}}
    listed = {"tools": [GOOD], "nextCursor": 5}
    _, seen, notices = run(server(tmp_path, tools_list=listed, tools_call=result))
    assert '"n"' in seen
    assert ["nextCursor is left out" in text for text in notices] == [True]


def test_prompts_resources_templates_and_completions_too(tmp_path, caplog):
    asked = server(
        tmp_path,
        prompts_list={"prompts": [{"name": "p", "arguments": None}, {"title": "q"}, None]},
        prompts_get={
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}, {"role": "god"}]
        },
        resources_list={"resources": [{"uri": "x://1", "name": "one"}, {"uri": 5, "name": "two"}]},
        resources_templates_list={
            "resourceTemplates": [{"name": "three"}, {"uriTemplate": "x://{n}", "name": "n"}]
        },
        resources_read={"contents": [{"uri": "x://1", "text": "read"}, {"uri": "x://1"}]},
        completion_complete={"completion": {"values": ["a", 5, None, "b"]}},
    )

    async def look():
        async with asked:
            return (
                [name for name, _, _ in await asked.prompts()],
                await asked.prompt("p"),
                [uri for uri, _ in await asked.resources()],
                await asked.read("x://1"),
                await asked.complete("p", "a", ""),
            )

    prompts, text, resources, read, values = asyncio.run(look())
    assert (prompts, text, resources, values) == (["p"], "Hi", ["x://1", "x://{n}"], ["a", "b"])
    assert "read" in read
    assert "contents: x://1 is left out" in read
    for name in ("prompts: q", "prompts: #3", "messages: #2", "resources: two", "resourceTemplates: three"):
        assert f"{name} is left out" in caplog.text


def test_unrepairable_arguments_are_reported_unchanged(tmp_path):
    async def look():
        async with server(tmp_path, tools_list={"tools": "none"}) as asked:
            await asked.look()

    with pytest.raises(Exception, match="ListToolsResult: tools: Input should be a valid list"):
        asyncio.run(look())
