"""Log-probabilities and token ids: kept in responses, events and sessions where the caller asks for them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pure_agent_loop import Agent, LLMResponse, OpenAIClient, tool
from pure_agent_loop.sessions import JsonlStore
from tests.llm.streams import stream

SECRET = "sk-secret-0123456789"
OPTIONS = [
    {"logprobs": True, "top_logprobs": 2},
    {"extra_body": {"logprobs": True, "return_token_ids": True}},
]


@tool
def look(place: str) -> str:
    """Look."""
    return place


def piece(token: str, number: int) -> dict[str, Any]:
    return {"logprobs": {"content": [{"token": token, "logprob": -number / 8}]}, "token_ids": [number]}


class Handler(BaseHTTPRequestHandler):
    """Calls `look`, then answers; each token with details, asked for or not."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_last = body["messages"][-1]["role"] == "tool"
        task = body["messages"][-1 if not is_last else -3]["content"]
        function = {"name": "look", "arguments": '{"place": "here"}'}
        calls = [{"index": 0, "id": "c1", "type": "function", "function": function}]
        texts = [task[:9], task[9:], ""] if is_last else [""]
        pieces = [{"content": text, **({} if is_last else {"tool_calls": calls})} for text in texts]
        details = [piece(text, number) for number, text in enumerate(texts, 1)]
        reason = "stop" if is_last else "tool_calls"
        head = {"prompt_token_ids": [7, 8]}
        if body.get("stream"):
            choices = [{"index": 0, "delta": p, **d} for p, d in zip(pieces, details, strict=True)]
            choices[-1]["finish_reason"] = reason
            sent = stream({**head, "choices": [choices[0]]}, *({"choices": [c]} for c in choices[1:]))
        else:
            tokens = [token for detail in details for token in detail["logprobs"]["content"]]
            ids = [number for detail in details for number in detail["token_ids"]]
            message = {**pieces[0], "content": "".join(texts)}
            choice = {"message": message, "logprobs": {"content": tokens}, "token_ids": ids}
            sent = json.dumps({**head, "choices": [{"index": 0, "finish_reason": reason, **choice}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def details_of(url: str, folder: Any, task: str = "The task.", **options: Any) -> tuple[list[Any], str]:
    client = OpenAIClient("m", "k", url)
    agent = Agent(llm=client, tools=[look], sessions=JsonlStore(folder), redact=True, **options)
    result = agent.run(task, session_id="s")
    assert result.stop_reason == "completed"
    events = [event for event in result.events if event.type == "step_end"]
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    return [event.data.get("token_details") for event in events], text


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_details_that_the_caller_asks_for_are_kept_for_each_step(url, tmp_path, options, streams):
    found, session = details_of(url, tmp_path, **options, **({} if streams else {"stream": False}))
    tokens = [("The task.", -0.125), ("", -0.25), ("", -0.375)]
    expected = [[("", -0.125)], tokens]
    for details, pairs in zip(found, expected, strict=True):
        assert [(each["token"], each["logprob"]) for each in details["logprobs"]["content"]] == pairs
        assert (details["token_ids"], details["prompt_token_ids"]) == ([*range(1, len(pairs) + 1)], [7, 8])
    assert "-0.375" in session


def test_token_details_without_a_request_are_not_kept(url, tmp_path):
    found, session = details_of(url, tmp_path)
    assert found == [None, None]
    assert "token_details" not in session


def test_details_of_a_secret_are_left_out(url, tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", SECRET)
    found, session = details_of(url, tmp_path, SECRET.replace("-", "%2D"), logprobs=True)
    assert found[0] is not None
    assert found[1] is None
    assert SECRET[9:] not in session


def test_response_with_details_comes_back_from_its_plain_form():
    response = LLMResponse("a", token_details={"token_ids": [1]})
    assert LLMResponse.from_dict(json.loads(json.dumps(response.to_dict()))) == response
    assert response.to_delta().token_details == {"token_ids": [1]}
    assert "token_details" not in LLMResponse("a").to_dict()
