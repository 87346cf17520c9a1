"""Claude through Amazon Bedrock, Vertex AI and Foundry, against strict servers on this machine."""

import asyncio
import base64
import gc
import json
import subprocess
import sys
import threading
import weakref
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from llm_client_conformance import EndEarly, ErrorChunk, Reset, ServerFault, answer, call, deltas, status
from llm_client_conformance.protocols import (
    BedrockServer,
    MessagesServer,
    VertexServer,
    amazon_message,
    message_blocks,
)
from pure_agent_loop import Agent, AnthropicClient, BedrockClient, ConfigError, LLMError, VertexClient
from pure_agent_loop.llm.anthropic.families import family_for
from pure_agent_loop.llm.http.httpx import library
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.runs import plan_model
from tests.llm.protocols.loops import in_a_loop
from tests.llm.protocols.test_transports_of_protocols import Redirecting

pytest.importorskip("botocore")
pytest.importorskip("google.auth.transport.requests")

USER = [{"role": "user", "content": "q"}]
ACCESS, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "session-token-of-a-role"
KEYS = {ACCESS: SECRET, "": "bedrock-api-key-1"}
MODELS = {
    "bedrock": "us.anthropic.claude-opus-4-6-v1:0",
    "vertex": "claude-opus-4-6@20260101",
}


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch, tmp_path):
    """Keep what this machine knows of clouds out of the tests."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")


@pytest.fixture(params=["bedrock", "vertex"])
def cloud(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streams(request):
    return request.param


def aws_credentials():
    from botocore.credentials import Credentials

    return Credentials(ACCESS, SECRET, SESSION)


def server_of(cloud, script=None, **options):
    if cloud == "bedrock":
        return BedrockServer(script, keys=KEYS, **options)
    return VertexServer(script, api_key="google-token-1", **options)


def client_of(server, model=None, level=None, **settings):
    if isinstance(server, BedrockServer):
        kind, own = BedrockClient, {} if "api_key" in settings else {"credentials": aws_credentials()}
        own, usual = {"region": "us-east-1", **own}, MODELS["bedrock"]
    else:
        kind, own = VertexClient, {"api_key": "google-token-1", "region": "us-east5"}
        usual = MODELS["vertex"]
    return kind(model or usual, base_url=server.base_url, thinking_level=level, **{**own, **settings})


async def respond(client, streams=True, **options):
    try:
        if streams:
            return await assembled(client.chat_stream(USER, **options))
        return await client.chat(USER, **options)
    finally:
        await client.aclose()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# -- runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["", "httpx"])
def test_a_run_with_tools_and_thinking(cloud, streams, library, monkeypatch):
    monkeypatch.setenv("PAL_HTTP", library)
    items = [
        answer(call("add", a=17, b=4), reasoning="I should add."),
        answer("It is 21.", reasoning="Done."),
    ]
    with server_of(cloud, items, rechunk=(1, 7, 30)) as server:
        agent = Agent(llm=client_of(server, level="low"), tools=[add], stream=streams)
        result = agent.run("What is 17 + 4?")
        bodies = [request.body for request in server.requests]
        paths = {request.path.rpartition("/")[2].rpartition(":")[2] for request in server.requests}
    assert result.output == "It is 21."
    assert server.connections == 1
    version = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}[cloud]
    assert [body["anthropic_version"] for body in bodies] == [version] * 2
    assert bodies[1]["messages"][1]["content"][0]["thinking"] == "I should add."
    expected = {
        ("bedrock", True): {"invoke-with-response-stream"},
        ("bedrock", False): {"invoke"},
        ("vertex", True): {"streamRawPredict"},
        ("vertex", False): {"rawPredict"},
    }
    assert paths == expected[cloud, streams]


def test_a_model_is_named_with_its_cloud(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with BedrockServer(["hello"], keys=KEYS, region="eu-west-1") as server:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.base_url)
        assert Agent("bedrock:anthropic.claude-opus-4-6-v1:0").run("hi").output == "hello"
        assert "/model/anthropic.claude-opus-4-6-v1:0/" in server.requests[0].path
    monkeypatch.setenv("CLOUD_ML_REGION", "us-east5")
    with VertexServer(["hello"], api_key="token") as server:
        assert Agent(f"vertex:{MODELS['vertex']}", "token", server.base_url).run("hi").output == "hello"
        place = "/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/"
        assert server.requests[0].path == f"{place}{MODELS['vertex']}:streamRawPredict"


def test_the_command_needs_no_key():
    plan = plan_model("bedrock:anthropic.claude-opus-4-6-v1", None, {"AWS_REGION": "us-west-2"})
    assert (plan.base_url, plan.api_key) == ("https://bedrock-runtime.us-west-2.amazonaws.com", "")
    plan = plan_model("vertex:claude-opus-4-6", None, {"CLOUD_ML_REGION": "eu"})
    assert (plan.base_url, plan.api_key) == ("https://aiplatform.eu.rep.googleapis.com/v1", "")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("anthropic.claude-opus-4-6-v1:0", "Claude 4.6"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "Claude Sonnet 4.5 and Haiku 4.5"),
        ("global.anthropic.claude-sonnet-4-20250514-v1:0", "Claude 3.7 and Sonnet 4"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "Claude 3"),
        ("eu.anthropic.claude-opus-4-1-20250805-v1:0", "Claude Opus 4 and 4.1"),
        ("claude-opus-4-6@20260101", "Claude 4.6"),
        ("claude-sonnet-4@20250514", "Claude 3.7 and Sonnet 4"),
        ("claude-haiku-5-5@20261001", "Claude Haiku 5.5"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-20251001-v1:0",
         "Claude Sonnet 4.5 and Haiku 4.5"),
    ],
)  # fmt: skip
def test_families_by_the_names_of_clouds(name, family):
    assert family_for(name).name == family


@in_a_loop
async def test_an_arn_is_signed_as_it_is_sent():
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2"
    with pytest.raises(ConfigError, match="family="):
        BedrockClient(arn, "k", region="us-east-1")
    with BedrockServer(["a", "b"], keys=KEYS, check=False) as server:
        for library in ("", "httpx"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PAL_HTTP", library)
                client = client_of(server, arn, family=family_for("claude-opus-4-6"))
                assert (await respond(client)).content in ("a", "b")
        assert "%2Fa1b2/invoke" in server.requests[0].path


@in_a_loop
async def test_sdk_requests_and_large_requests_are_signed(cloud):
    """The SDK sends requests through proxies too."""
    with server_of(cloud, ["a", "b"]) as server:
        client = client_of(server)
        assert (await client.chat(USER, timeout=library.Timeout(30))).content == "a"
        assert (await client.chat([{"role": "user", "content": "x" * 1_500_000}])).content == "b"
        await client.aclose()
        sent = [request.headers for request in server.requests]
    assert "unused" not in str(sent)
    assert "OpenAI" in sent[0]["user-agent"]


# -- requests ------------------------------------------------------------------------------------------------


@in_a_loop
async def test_a_signature_covers_session_and_body(streams):
    with server_of("bedrock", ["a"]) as server:
        await respond(client_of(server), streams)
        headers = server.requests[0].headers
        assert headers["x-amz-security-token"] == SESSION
        assert "x-amz-security-token" in headers["authorization"]
        forged = server.requests[0]
        assert server._key_of(forged) == "signed"
        object.__setattr__(forged, "raw", forged.raw.replace(b'"q"', b'"x"'))
        assert server._key_of(forged) == ""


@in_a_loop
async def test_a_wrong_secret_is_an_auth_error_with_a_hint():
    from botocore.credentials import Credentials

    with server_of("bedrock", []) as server:
        client = client_of(server, credentials=Credentials(ACCESS, "another secret"))
        with pytest.raises(LLMError, match="bedrock:InvokeModel") as raised:
            await respond(client)
    assert raised.value.kind == "auth"


@in_a_loop
async def test_a_key_of_bedrock_is_a_bearer_token():
    with server_of("bedrock", ["a"]) as server:
        assert (await respond(client_of(server, api_key=KEYS[""]))).content == "a"
        assert server.requests[0].headers["authorization"] == f"Bearer {KEYS['']}"


@in_a_loop
async def test_credentials_that_are_passed_go_before_a_key_of_the_environment(monkeypatch):
    with server_of("bedrock", ["a", "b", "c"]) as server:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.base_url)
        late = BedrockClient(MODELS["bedrock"], region="us-east-1", prepared=False)
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEYS[""])
        await respond(late)
        for credentials in (None, aws_credentials()):
            await respond(BedrockClient(MODELS["bedrock"], region="us-east-1", credentials=credentials))
        schemes = [request.headers["authorization"].split(" ")[0] for request in server.requests]
    assert schemes == ["Bearer", "Bearer", "AWS4-HMAC-SHA256"]


@in_a_loop
async def test_betas_have_their_place(cloud):
    with server_of(cloud, ["a"]) as server:
        await respond(client_of(server), betas=["some-beta"])
        request = server.requests[0]
    in_body, in_header = request.body.get("anthropic_beta"), request.headers.get("anthropic-beta")
    assert (in_body, in_header) == ((["some-beta"], None) if cloud == "bedrock" else (None, "some-beta"))


@in_a_loop
async def test_cache_marks_of_blocks_are_sent(cloud):
    with server_of(cloud, ["a"]) as server:
        await respond(client_of(server))
    assert server.requests[0].messages[-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


@in_a_loop
async def test_a_paused_response_is_continued(cloud, streams):
    text = [{"type": "text", "text": "Well, "}]
    items = [
        message_blocks(*text, stop_reason="pause_turn"),
        message_blocks({"type": "text", "text": "yes."}),
    ]
    with server_of(cloud, items) as server:
        response = await respond(client_of(server), streams)
    assert (response.content, response.usage) == ("Well, yes.", TokenUsage(20, 10, 30))


LACKING = {
    "cache_control": ("bedrock", {"cache_control": {"type": "ephemeral"}}),
    "mcp_servers": ("bedrock", {"mcp_servers": [{"name": "x"}]}),
    "diagnostics": ("bedrock", {"extra_body": {"diagnostics": {"x": 1}}}),
    "container": ("vertex", {"container": "c"}),
    "extra_body": ("vertex", {"extra_body": {"model": "claude-haiku-4-5"}}),
    "stream": ("vertex", {"extra_body": {"stream": False}}),
    "extra_query": ("bedrock", {"extra_query": {"a": "b"}}),
    "extra_headers": ("vertex", {"extra_headers": {"Authorization": "Bearer x"}}),
    "anthropic-beta": ("bedrock", {"extra_headers": {"anthropic-beta": "x"}}),
}


@pytest.mark.parametrize("field", LACKING)
@in_a_loop
async def test_missing_cloud_feature_is_rejected_before_a_request(field):
    cloud, options = LACKING[field]
    with server_of(cloud, []) as server:
        with pytest.raises(ConfigError, match=field):
            await respond(client_of(server), **options)
        assert server.connections == 0


@pytest.mark.parametrize(
    ("cloud", "kind"),
    [
        ("bedrock", "web_search_20250305"),
        ("bedrock", "code_execution_20250825"),
        ("vertex", "web_fetch_20250910"),
    ],
)
@in_a_loop
async def test_server_tools_that_a_cloud_lacks_are_refused(cloud, kind):
    with server_of(cloud, []) as server:
        client = client_of(server)
        with pytest.raises(ConfigError, match=f"tools: .*{kind}"):
            await client.chat(USER, [{"type": kind, "name": "x"}])
        await client.aclose()


@in_a_loop
async def test_stored_files_are_refused(cloud):
    part = {"type": "file", "file": {"file_id": "file_1"}}
    history = [{"role": "user", "content": [{"type": "text", "text": "read"}, part]}]
    with server_of(cloud, []) as server:
        client = client_of(server)
        with pytest.raises(ConfigError, match="file_id"):
            await client.chat(history)
        asked = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        history = [
            *USER,
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "c", "content": [part]},
        ]
        with pytest.raises(ConfigError, match="file_id"):
            await client.chat(history)
        with pytest.raises(ConfigError, match="count_tokens"):
            await client.count_tokens(USER)
        assert await client.find_context_window() is None
        await client.aclose()


# -- failures ----------------------------------------------------------------------------------------------


class Raw(ServerFault):
    """Bytes of a stream, past the framing of the server."""

    def __init__(self, data):
        self.data = data

    async def play(self, out):
        await out.begin()
        await out._chunk(self.data)
        await out.end()
        return False


def chunk(event):
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    return amazon_message({":message-type": "event", ":event-type": "chunk"}, payload)


START = chunk({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x"}})
flipped = bytearray(START)
flipped[60] ^= 1
DAMAGED = {
    "a payload with a flipped bit": bytes(flipped),
    "a prelude with a flipped bit": bytes([START[0], START[1] ^ 1]) + START[2:],
    "text": b"this is no event stream at all, but it is long enough",
    "a payload that is not JSON": amazon_message({":message-type": "event", ":event-type": "chunk"}, b"x"),
    "bytes that are not base64": amazon_message(
        {":message-type": "event", ":event-type": "chunk"}, b'{"bytes": "*"}'
    ),
    "a stream that is cut inside a message": START[:-9],
    "a stream that is cut between messages": START,
    "nothing": b"",
}


@pytest.mark.parametrize("name", ["modelErrorException", "ModelErrorException", "modelTimeoutException"])
@in_a_loop
async def test_exception_of_the_model_in_a_stream_may_pass(name):
    headers = {":message-type": "exception", ":exception-type": name}
    data = START + amazon_message(headers, b'{"message": "The model failed."}')
    with server_of("bedrock", [Raw(data)]) as server, pytest.raises(LLMError) as raised:
        await respond(client_of(server))
    assert (raised.value.kind, raised.value.is_transient) == ("overloaded", True)


@pytest.mark.parametrize("damage", DAMAGED)
@in_a_loop
async def test_a_damaged_stream_is_incomplete(damage):
    with server_of("bedrock", [Raw(DAMAGED[damage])]) as server, pytest.raises(LLMError) as raised:
        await respond(client_of(server))
    assert raised.value.kind == "incomplete"


def test_messages_of_another_kind_are_ignored():
    from pure_agent_loop.llm.anthropic.clouds import AmazonEvents

    other = amazon_message({":message-type": "event", ":event-type": "initial-response"}, b"{}")
    events = AmazonEvents()
    data = other + START + other
    seen = [payload for byte in data for payload in events.feed(bytes([byte]))]
    assert [json.loads(payload)["type"] for payload in seen] == ["content_block_start"]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(429, "Too many tokens, please wait before trying again."), "rate_limit"),
        (status(403, "The security token included in the request is expired"), "auth"),
        (status(403, "You don't have access to the model with the specified model ID."), "auth"),
        (status(404, "Could not resolve the foundation model"), "not_found"),
        (status(400, "prompt is too long: 210000 tokens"), "context_overflow"),
        (status(503, "The service is unavailable"), "overloaded"),
        (status(424, "The model returned an error (ModelErrorException)"), "overloaded"),
        (deltas("It is ", ErrorChunk("Too many requests", None, "rate_limit_error")), "rate_limit"),
        (deltas("It is ", ErrorChunk("Boom", None, "api_error")), "overloaded"),
        (deltas("It is ", ErrorChunk("bad field", None, "invalid_request_error")), "bad_request"),
        (deltas("It is ", EndEarly()), "incomplete"),
        (deltas("It is ", Reset()), "connection"),
    ],
)
@in_a_loop
async def test_errors_have_their_kind(fault, kind, cloud):
    with server_of(cloud, [fault]) as server, pytest.raises(LLMError) as raised:
        await respond(client_of(server))
    assert raised.value.kind == kind
    assert (raised.value.status == 429) == (kind == "rate_limit")
    hints = {"bedrock": ("InvokeModel", "us-east-1"), "vertex": ("aiplatform.endpoints", "my-project")}
    if kind in ("auth", "not_found"):
        assert any(hint in str(raised.value) for hint in hints[cloud])
        assert "Check the API key" not in str(raised.value)


@in_a_loop
async def test_a_token_that_a_server_repeats_is_redacted():
    fault = status(400, f"bad: {SESSION} {SECRET}")
    with server_of("bedrock", [fault]) as server, pytest.raises(LLMError, match="bad: ") as raised:
        await respond(client_of(server))
    assert SESSION not in str(raised.value)
    assert SECRET not in str(raised.value)


# -- credentials -------------------------------------------------------------------------------------------


@in_a_loop
async def test_missing_credentials_are_told_before_a_request(cloud, monkeypatch):
    kind = {"bedrock": BedrockClient, "vertex": VertexClient}[cloud]
    ways = {"bedrock": "AWS_ACCESS_KEY_ID", "vertex": "gcloud auth application-default login"}
    with server_of(cloud, []) as server:
        monkeypatch.setenv(kind.url_variable, server.base_url)
        client = kind(MODELS[cloud], region="us-east-1")
        with pytest.raises(ConfigError, match=ways[cloud]):
            await respond(client)
        assert server.connections == 0


def test_missing_settings_name_the_variable(cloud, monkeypatch):
    kind = {"bedrock": BedrockClient, "vertex": VertexClient}[cloud]
    with pytest.raises(ConfigError, match={"bedrock": "AWS_REGION", "vertex": "CLOUD_ML_REGION"}[cloud]):
        kind(MODELS[cloud], "k")
    with pytest.raises(ConfigError, match="region="):
        kind(MODELS[cloud], "k", region="us.evil.example/")
    with pytest.raises(ConfigError, match="family="):
        kind("llama-4", "k", region="us-east-1")
    with pytest.raises(ConfigError, match="credentials"):
        kind(MODELS[cloud], "k", region="us-east-1", credentials=object())
    with pytest.raises(ConfigError, match="default_headers"):
        kind(MODELS[cloud], "k", region="us-east-1", default_headers={"authorization": "x"})
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(ConfigError, match="ANTHROPIC_VERTEX_PROJECT_ID"):
        VertexClient(MODELS["vertex"], "k", region="us-east5")


def test_unknown_profile_is_reported(monkeypatch):
    with pytest.raises(ConfigError, match="nobody"):
        BedrockClient(MODELS["bedrock"], profile="nobody")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match="AWS_PROFILE"):
        BedrockClient(MODELS["bedrock"])


BROKEN = {
    "half a key": ("AKID", ConfigError, "AWS_SECRET_ACCESS_KEY"),
    "a program that fails": ("", LLMError, "cannot be fetched"),
}


@pytest.mark.parametrize("case", BROKEN)
@in_a_loop
async def test_broken_credentials_are_told(case, monkeypatch, tmp_path):
    access, kind, words = BROKEN[case]
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} -c exit(3)\n")
    if access:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
    with server_of("bedrock", []) as server:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.base_url)
        with pytest.raises(kind, match=words) as raised:
            await respond(BedrockClient(MODELS["bedrock"], region="us-east-1"))
        assert server.connections == 0
    assert getattr(raised.value, "kind", "auth") == "auth"


@in_a_loop
async def test_unused_client_is_released(cloud):
    with server_of(cloud, ["a"]) as server:
        client = client_of(server)
        await client.chat(USER)
        left = weakref.ref(client)
        del client
        gc.collect()
        assert left() is None


@pytest.mark.parametrize(
    "url",
    [
        "https://gateway.example",
        "https://ec2-1-2-3-4.compute-1.amazonaws.com",
        "https://bedrock-runtime.us-east-1.amazonaws.com.evil.example",
        "http://bedrock-runtime.us-east-1.amazonaws.com",
        "https://evilaiplatform.googleapis.com.example",
        "https://storage.googleapis.com",
        "http://us-east5-aiplatform.googleapis.com",
    ],
)
def test_credentials_of_the_environment_go_to_the_cloud_only(url, cloud, monkeypatch):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "secret-key")
    kind = {"bedrock": BedrockClient, "vertex": VertexClient}[cloud]
    with pytest.raises(ConfigError, match="No credentials"):
        kind(MODELS[cloud], base_url=url, region="us-east-1").prepare()
    monkeypatch.setenv(kind.url_variable, url)
    assert kind(MODELS[cloud], region="us-east-1").base_url == url
    assert kind(MODELS[cloud], base_url=url, region="us-east-1").has_key  # the variable names it


@pytest.mark.parametrize("library", ["", "httpx"])
@in_a_loop
async def test_no_redirect_takes_a_key_elsewhere(cloud, library):
    kind = {"bedrock": BedrockClient, "vertex": VertexClient}[cloud]
    with Redirecting() as servers, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HTTP", library)
        url = f"http://127.0.0.1:{servers.moved.server_port}"
        settings = {"credentials": aws_credentials()} if cloud == "bedrock" else {"api_key": "SECRETKEY"}
        with pytest.raises(LLMError, match="redirects to another server"):
            await respond(kind(MODELS[cloud], base_url=url, region="us-east-1", **settings))
    assert servers.seen == []


@in_a_loop
async def test_credentials_of_aws_are_renewed_between_requests(tmp_path, monkeypatch):
    """A program of the user's gives credentials that expire soon, new ones each time."""
    program = tmp_path / "credentials.py"
    program.write_text(
        "import datetime, json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'AKID{n}', 'SecretAccessKey': f'secret-{n}',"
        " 'SessionToken': f'session-token-{n}', 'Expiration': end.isoformat()}))\n"
    )
    (tmp_path / "config").write_text(
        f"[profile mine]\nregion = eu-central-1\ncredential_process = {sys.executable} {program}\n"
    )
    keys = {f"AKID{n}": f"secret-{n}" for n in range(1, 9)}
    with BedrockServer(["a", "b"], keys=keys, region="eu-central-1") as server:
        client = BedrockClient(MODELS["bedrock"], base_url=server.base_url, profile="mine")
        assert client.region == "eu-central-1"
        for _ in range(2):
            await client.chat(USER)
        await client.aclose()
        used = [request.headers["x-amz-security-token"] for request in server.requests]
    assert used[0] != used[1]


@pytest.fixture
def google(tmp_path, monkeypatch):
    """A service account whose tokens a server on this machine gives."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    google = SimpleNamespace(issued=[], refused=set(), hooks=[])
    issued = google.issued

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            for hook in google.hooks:
                hook()
            issued.append(f"google-token-{len(issued) + 1}")
            seconds = 60 if len(issued) == 1 else 3600  # the first is as good as expired
            ok = issued[-1] not in google.refused
            token = {"access_token": issued[-1], "expires_in": seconds, "token_type": "Bearer"}
            data = json.dumps(token if ok else {"error": "invalid_grant"}).encode()
            self.send_response(200 if ok else 400)
            self.send_header("content-length", str(len(data)))
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "me@my-project.iam.gserviceaccount.com",
        "token_uri": f"http://127.0.0.1:{server.server_port}/token",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    yield google
    server.shutdown()
    server.server_close()


@in_a_loop
async def test_tokens_of_google_are_renewed_between_requests(google, monkeypatch):
    with VertexServer(["a", "b", "c"]) as server:
        monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", server.base_url)
        client = VertexClient(MODELS["vertex"], region="us-east5")
        for _ in range(3):
            await client.chat(USER)
        await client.aclose()
        used = [request.headers["authorization"] for request in server.requests]
    assert used == ["Bearer google-token-1", "Bearer google-token-2", "Bearer google-token-2"]


@in_a_loop
async def test_the_event_loop_runs_on_while_a_token_is_fetched(google, monkeypatch):
    asked, answered, seen = threading.Event(), threading.Event(), []
    google.hooks += [asked.set, lambda: seen.append(answered.wait(10))]
    with VertexServer(handler=lambda _: "a") as server:
        monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", server.base_url)
        client = VertexClient(MODELS["vertex"], region="us-east5")
        tasks = [asyncio.ensure_future(client.chat(USER)) for _ in range(5)]
        assert await asyncio.to_thread(asked.wait, 10)
        answered.set()
        await asyncio.gather(*tasks)
        await client.aclose()
    assert all(seen)
    assert google.issued == ["google-token-1", "google-token-2"]  # one thread renews for all


@in_a_loop
async def test_a_token_that_is_refused_is_an_auth_error(google, monkeypatch):
    google.refused.add("google-token-1")
    with VertexServer([]) as server:
        monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", server.base_url)
        with pytest.raises(LLMError, match="cannot be renewed") as raised:
            await respond(VertexClient(MODELS["vertex"], region="us-east5"))
    assert raised.value.kind == "auth"


@pytest.mark.parametrize(
    ("kind", "package"), [("BedrockClient", "botocore"), ("VertexClient", "google.auth")]
)
def test_a_missing_library_names_the_extra(kind, package):
    program = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        f"from pure_agent_loop import {kind}, MissingExtraError\n"
        f"settings = {{'project': 'p'}} if {kind!r} == 'VertexClient' else {{}}\n"
        "try:\n"
        f"    {kind}('claude-opus-4-6', 'k', region='us-east5', **settings)\n"
        "except MissingExtraError as error:\n"
        "    print(error.extra, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("anthropic Claude through")


# -- Microsoft Foundry -------------------------------------------------------------------------------------


@in_a_loop
async def test_foundry_is_the_protocol_itself(streams):
    with MessagesServer([answer("Hello.", reasoning="hm")], api_key="foundry-key") as server:
        url = f"{server.base_url.removesuffix('/v1')}/anthropic"
        response = await respond(AnthropicClient("claude-opus-4-6", "foundry-key", url), streams)
        request = server.requests[0]
    assert response.content == "Hello."
    assert (request.path, request.headers["anthropic-version"]) == ("/anthropic/v1/messages", "2023-06-01")
    assert "authorization" not in request.headers
