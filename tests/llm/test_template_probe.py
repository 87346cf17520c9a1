"""llama.cpp drops tools in silence where a chat template has no place for them: it is asked beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from pure_agent_loop import Agent, EventType, OpenAIClient
from pure_agent_loop.llm.addresses import is_private
from tests.serving import serving

ACTIONS = [
    {"tool": "add", "arguments": {"a": 2, "b": 3}},
    {"tool": "final_answer", "arguments": {"answer": "It is 5."}},
]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@contextmanager
def llama(props: Any) -> Iterator[tuple[str, list[Any]]]:
    """A server with the page /props of llama.cpp, whose model writes the actions above."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def _send(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            seen.append(self.path)
            self._send(404 if props is None else 200, props)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            action = ACTIONS[sum(isinstance(each, dict) for each in seen)]
            seen.append(request)
            message: dict[str, Any] = {"role": "assistant", "content": json.dumps(action)}
            self._send(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
            """Say nothing."""

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}/v1", seen


def test_a_template_without_tools_gets_them_as_json_from_the_first_request():
    with llama({"chat_template_caps": {"supports_tools": False}}) as (url, seen):
        events = list(Agent(llm=OpenAIClient("m", base_url=url), tools=[add]).run_stream("2 + 3?"))
    assert events[-1].data["content"] == "It is 5."
    notices = [event.content for event in events if event.type is EventType.NOTICE]
    assert len(notices) == 1
    assert "template" in notices[0]
    assert seen[0] == "/props"
    assert "/props" not in seen[1:]
    assert all("tools" not in request for request in seen[1:])


@pytest.mark.parametrize("props", [None, {}, {"chat_template_caps": {"supports_tools": True}}, [1]])
def test_any_other_answer_changes_nothing(props):
    with llama(props) as (url, seen):
        Agent(llm=OpenAIClient("m", base_url=url), tools=[add]).run("2 + 3?")
    assert seen[0] == "/props"
    assert "tools" in seen[1]


def test_only_private_addresses_are_asked():
    assert is_private("http://192.168.1.7:8080/v1")
    assert is_private("http://localhost:8080/v1")
    assert not is_private("https://api.openai.com/v1")
    assert not is_private("http://8.8.8.8/v1")


def test_the_window_of_llama_cpp_comes_with_the_same_request():
    props = {"chat_template_caps": {"supports_tools": True}, "default_generation_settings": {"n_ctx": 8192}}
    with llama(props) as (url, seen):
        client = OpenAIClient("m", base_url=url)
        assert client.context_window is None
        events = list(Agent(llm=client, tools=[add]).run_stream("2 + 3?"))
    ends = [event.data["context"] for event in events if event.type is EventType.STEP_END]
    assert ends[0]["window"] == 8192
    assert seen.count("/props") == 1


def test_a_long_request_without_tools_asks_for_the_window_before_it_is_sent():
    with llama({"default_generation_settings": {"n_ctx": 2048}}) as (url, seen):
        Agent(llm=OpenAIClient("m", base_url=url)).run("a b c d " * 1_000)
    assert seen[0] == "/props"
