"""Answers that the SDK cannot read: what is odd in them is taken out, over every transport."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pure_agent_loop import Agent, EventType
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.testing import ScriptedLLM, call

LINES = """
answers = eval(open(sys.argv[1]).read())
for line in sys.stdin:
    if body := answer(line, answers):
        print(body, flush=True)
"""
GOOD = '{"name": "good", "inputSchema": {"type": "object"}}'
FINE = '{"content": [{"type": "text", "text": "it works"}]}'
START = {"capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "s", "version": "1"}}


def answer(line, answers):
    """The text of an answer to a message; the texts of results are as given, whatever they hold."""
    message = json.loads(line)
    method, number = message["method"], json.dumps(message.get("id"))
    if "id" not in message:
        return ""
    if method == "initialize":
        result = json.dumps({**START, "protocolVersion": message["params"]["protocolVersion"]})
    elif method not in answers:
        return f'{{"jsonrpc": "2.0", "id": {number}, "error": {{"code": -32601, "message": "no"}}}}'
    else:
        result = answers[method]
    return f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}'


# Holds what it needs: an import of this file would take longer than the tests.
SERVER = f"import json, sys\nSTART = {START}\n{inspect.getsource(answer)}{LINES}"


@contextmanager
def over_stdio(answers, tmp_path):
    script, file = tmp_path / "server.py", tmp_path / "answers"
    script.write_text(SERVER)
    file.write_text(repr(answers))
    yield MCPServer([sys.executable, "-I", "-S", str(script), str(file)], name="s")


@contextmanager
def over_http(answers, form):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_POST(self):
            body = answer(self.rfile.read(int(self.headers["content-length"])), answers).encode()
            if form == "sse":
                body = b"event: message\r\ndata: " + body + b"\r\n\r\n"
            self.send_response(200 if body else 202)
            self.send_header("content-type", "text/event-stream" if form == "sse" else "application/json")
            if form == "gzip":
                self.send_header("content-encoding", "gzip")
                body = gzip.compress(body)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.send_error(405)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield MCPServer(url=f"http://127.0.0.1:{server.server_port}/mcp", name="s")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=["stdio", "json", "sse", "gzip"])
def serving(request, tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    if request.param == "stdio":
        return lambda answers: over_stdio(answers, tmp_path)
    return lambda answers: over_http(answers, request.param)


def run(serving, tools="", result=FINE):
    answers = {"tools/list": tools or f'{{"tools": [{GOOD}]}}', "tools/call": result}
    llm = ScriptedLLM([call("mcp__s__good"), "done"])
    with serving(answers) as server:
        result = asyncio.run(Agent(llm=llm, tools=[server], permission_mode="bypass").arun("go"))
    (seen,) = [message["content"] for message in result.messages if message["role"] == "tool"]
    names = [tool["function"]["name"].removeprefix("mcp__s__") for tool in llm.requests[0].tools]
    notices = [event.content for event in result.events if event.type is EventType.NOTICE]
    return [name for name in names if name in ("good", "odd")], seen, notices


def nested(levels, inner="1"):
    return '{"type": "object", "properties": {"a": ' * levels + inner + "}}" * levels


DEEP = "its schema is nested too deeply"
TOOLS = {  # an entry, whether it can be used without what is odd, and what a person is told
    "150 levels": (f'{{"name": "odd", "inputSchema": {nested(150)}}}', False, DEEP),
    "300 levels": (f'{{"name": "odd", "inputSchema": {nested(300)}}}', False, DEEP),
    "20,000 levels": (f'{{"name": "odd", "inputSchema": {nested(20_000)}}}', False, DEEP),
    "a list of lists": ("[" * 5_000 + "]" * 5_000, False, "#1 is left out"),
    "deep result schema": (
        f'{{"name": "odd", "inputSchema": {{"type": "object"}}, "outputSchema": {nested(400)}}}',
        True,
        "",
    ),
    "deep hints": (
        f'{{"name": "odd", "inputSchema": {{"type": "object"}}, "annotations": {"[" * 900}{"]" * 900}}}',
        True,
        "a field of odd is left out: annotations",
    ),
    "brackets in texts": (
        f'{{"name": "odd", "description": "{"[" * 900}\\"{"{" * 900}\\ud800", "inputSchema": {{}}}}',
        True,
        "",
    ),
    "half a letter": (
        '{"name": "odd", "description": "\\udfff", "inputSchema": {"title": "\\ud83d"}}',
        True,
        "",
    ),
    "a number without end": (
        f'{{"name": "odd", "inputSchema": {{"properties": {{"a": {{"const": 1{"0" * 5_000}}}}}}}}}',
        True,
        "",
    ),
    "no object": ('{"name": "odd", "inputSchema": {"type": "object", "$ref": "#/x"}}', True, ""),
    "ten million letters": (
        f'{{"name": "odd", "description": "{"x" * 10_000_000}", "inputSchema": {{}}}}',
        True,
        "",
    ),
}


@pytest.mark.parametrize("case", TOOLS)
def test_an_entry_that_cannot_be_read_costs_the_others_nothing(case, serving):
    entry, is_usable, reason = TOOLS[case]
    names, seen, notices = run(serving, f'{{"tools": [{entry}, {GOOD}]}}')
    assert names == (["odd", "good"] if is_usable else ["good"])
    assert "it works" in seen
    assert [reason in text for text in notices] == ([True] if reason else [])


def test_fields_of_a_page_that_are_wrong_cost_nothing(serving):
    page = f'{{"tools": [{GOOD}], "nextCursor": 5, "ttlMs": "x", "_meta": {nested(300)}}}'
    names, seen, notices = run(serving, page)
    assert (names, "it works" in seen) == (["good"], True)
    assert [text for text in notices if "nextCursor" not in text and "ttlMs" not in text] == []


TEXT = '{"type": "text", "text": "one"}'
RESULTS = {
    "no content": ('{"structuredContent": {"n": 1}}', ['{"n": 1}']),
    "null": ('{"content": null, "structuredContent": {"n": 1}, "isError": null}', ['{"n": 1}']),
    "no structure": (f'{{"content": [{TEXT}], "structuredContent": null}}', ["one"]),
    "nothing": ("{}", ["(the tool gave no result)"]),
    "null for all": ("null", ["(the tool gave no result)"]),
    "no object": ('"one"', ['{"value": "one"}']),
    "of another version": ('{"toolResult": {"n": 1}}', ['{"toolResult": {"n": 1}}']),
    "text": ('{"content": "one"}', ["one"]),
    "one block": (f'{{"content": {TEXT}}}', ["one"]),
    "texts": ('{"content": ["one", "two"]}', ["one\ntwo"]),
    "a list": ('{"structuredContent": [1, 2]}', ["[1, 2]"]),
    "a number": ('{"content": [], "structuredContent": 5}', ["5"]),
    "no kind of error": (f'{{"content": [{TEXT}], "isError": []}}', ["one", "isError is left out"]),
    "error as text": (f'{{"content": [{TEXT}], "isError": "true"}}', ["failed", "Error: one"]),
    "error with data": ('{"isError": true, "structuredContent": {"why": "no"}}', ['Error: {"why": "no"}']),
    "error with nothing": ('{"isError": true}', ["Error: (the tool gave no result)"]),
    "unknown": (
        '{"content": [{"type": "hologram", "data": "xyz"}], "structuredContent": {"n": 1}}',
        ['{"n": 1}', "#1 is left out", '{"type": "hologram", "data": "xyz"}'],
    ),
    "error of an unknown kind": (
        '{"content": [{"type": "hologram", "data": "xyz"}], "isError": true}',
        ["failed", '{"type": "hologram", "data": "xyz"}'],
    ),
    "empty resource": (
        '{"content": [{"type": "resource", "resource": {"uri": "x://1"}}]}',
        ["resource.TextResourceContents.text: Field required", '"x://1"'],
    ),
    "resource without an address": (
        '{"content": [{"type": "resource", "resource": {"text": "words"}}]}',
        ["uri: Field required", '"words"'],
    ),
    "image of no kind": ('{"content": [{"type": "image", "data": "aGk="}]}', ["mimeType: Field required"]),
    "deep": (f'{{"structuredContent": {nested(900)}}}', ['{"a": "..."}']),
    "deep block": (f'{{"content": [{TEXT[:-1]}, "_meta": {nested(900)}}}]}}', ["one"]),
    "bytes": ('{"content": [{"type": "text", "text": "a\x07b"}]}', ["a", "b"]),
}


@pytest.mark.parametrize("case", RESULTS)
def test_result_of_a_call_reaches_the_model(case, serving):
    result, texts = RESULTS[case]
    _, seen, _ = run(serving, result=result)
    assert [text for text in texts if text not in seen] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["m"]},
        {"properties": {"n": {"type": "integer"}}},
        {"properties": {"n": {"type": "nothing"}}},
        {"properties": {"n": {"$ref": "http://127.0.0.1:9/x"}}},
        {"properties": {"n": {"pattern": "^(a+)+$"}}},
    ],
)
@pytest.mark.parametrize("result", ['{"structuredContent": {"n": "aaaaaaaaaaaaaaaaaaaa!"}}', FINE])
def test_a_schema_of_results_keeps_no_result_back(schema, result, serving):
    tool = {"name": "good", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", **schema}}
    _, seen, _ = run(serving, f'{{"tools": [{json.dumps(tool)}]}}', result)
    assert ("it works" if result == FINE else '{"n": "aaaaaaaaaaaaaaaaaaaa!"}') in seen
