"""Secrets that only a request shows: keys of functions, fields of headers, clients that a wrapper hides."""

import json
from http.server import BaseHTTPRequestHandler

import openai
import pytest
from tests.serving import JsonAnswers, serving

from pure_agent_loop import Agent, OpenAIClient, RetryConfig, tool
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.support.secrets.redaction import Redactor, secret_fields
from pure_agent_loop.testing import ScriptedLLM

KEY = "q7Zr5t9Lw4Kp3Xb8"
NAMES = ("authorization", "x-api-key", "cookie", "x-auth")


class Echo(JsonAnswers, BaseHTTPRequestHandler):
    """Answers with the secret headers of each request; refuses those whose text asks for it."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said = " ".join(filter(None, map(self.headers.get, NAMES)))
        choice = {"index": 0, "message": {"content": f"You sent {said}."}, "finish_reason": "stop"}
        data = {"error": {"message": f"no: {said}"}} if b"refuse" in body else {"choices": [choice]}
        self.answer(json.dumps(data).encode(), 400 if "error" in data else 200)


async def changing_key():
    return KEY


class InDict:
    """A user's wrapper, in which no attribute is a client."""

    def __init__(self, client):
        self.held = {"client": [client]}

    async def chat(self, messages, tools=None, **options):
        return await self.held["client"][0].chat(messages, tools, **options)


class InSlots:
    __slots__ = ("behind",)

    def __init__(self, client):
        self.behind = (client,)

    async def chat(self, messages, tools=None, **options):
        return await self.behind[0].chat(messages, tools, **options)


def own_http():
    return openai.DefaultAsyncHttpxClient(headers={"X-Api-Key": KEY})


COOKIE = {"Cookie": f"sid={KEY}; a=b"}
WAYS = {
    "key of a function": lambda url: OpenAIClient("m", changing_key, url),
    "user's http client": lambda url: OpenAIClient("m", "other-key-1", url, http_client=own_http()),
    "field of a cookie": lambda url: OpenAIClient(
        "m", "k", url, default_headers={"Cookie": f"sid={KEY}; a=b"}
    ),
    "in a dict": lambda url: InDict(OpenAIClient("m", KEY, url)),
    "in slots": lambda url: InSlots(OpenAIClient("m", KEY, url)),
    "function in a dict": lambda url: InDict(OpenAIClient("m", changing_key, url)),
}


@pytest.mark.parametrize("task", ["hello", "refuse"])
@pytest.mark.parametrize("way", WAYS)
def test_a_key_that_a_server_repeats_is_removed_however_it_is_sent(way, task, tmp_path):
    with serving(Echo) as port:
        agent = Agent(
            llm=WAYS[way](f"http://127.0.0.1:{port}/v1"),
            sessions=JsonlStore(tmp_path),
            retry=RetryConfig(max_retries=0),
            redact=Redactor([] if "in " not in way else ["another-secret-1"], env={}),
        )
        result = agent.run(task, session_id="s")
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "You sent" in written or result.error is not None
    assert KEY not in f"{result.content} {result.error} {result.error!r} {result.events} {written}"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"sid={KEY}; a=b", {KEY, f"sid={KEY}; a=b"}),
        (f"Bearer {KEY}", {KEY}),
        (f"{KEY} v1", {KEY, f"{KEY} v1"}),
        (f'Digest username="me", response="{KEY}"', {KEY}),
        ("dXNlcjpwYXNzd29yZA==", {"dXNlcjpwYXNzd29yZA=="}),
    ],
)
def test_secret_header_gives_its_whole_value_and_each_field(value, wanted):
    assert wanted <= set(secret_fields({"Cookie": value}).values())


def test_description_of_a_tool_with_a_key_of_another_client_is_redacted():
    seen = []

    class Asking(ScriptedLLM):
        secrets = ("own-secret-1234",)

        async def chat(self, messages, tools=None, **options):
            seen.append(json.dumps(tools))
            return await super().chat(messages, tools, **options)

        chat_stream = None

    @tool(description=f"Look with {KEY}.")
    def look() -> str:
        return "x"

    class Other:
        secrets = (KEY,)

        async def chat(self, messages, tools=None, **options):
            raise AssertionError

    helper = Agent(llm=Other(), name="other")
    Agent(llm=Asking(["ok"]), tools=[look], handoffs=[helper], redact=Redactor([], env={})).run("x")
    assert "Look with" in seen[0]
    assert KEY not in seen[0]
