"""Twenty secrets go in at twenty places; none comes out: results, events, sessions, logs, requests."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from pathlib import Path

import pytest
from tests.toolbox.web import WebServer, moved, page

from pure_agent_loop import Agent, LLMError, OpenAIClient, RetryConfig, tool
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.toolbox import Fetch, FileTools, Workspace

_PLACES = (
    "env_key env_token env_secret env_password env_url api_key organisation given header_key header_auth",
    "header_cookie echoed url_password url_query url_fetched url_redirect dotenv pem json git",
)
CANARIES = {
    name: f"C4nary{number:02}x{name.replace('_', '')[:6]}Q7zR5t9Lw{number}Kp3"
    for number, name in enumerate(" ".join(_PLACES).split())
}
C = CANARIES
PEM = f"-----BEGIN PRIVATE KEY-----\n{C['pem']}\nMIIB\n-----END PRIVATE KEY-----"


def forms(value: str) -> list[str]:
    return [value, base64.b64encode(value.encode()).decode().rstrip("=")[:-1]]


def check_clean(what: str, text: str) -> None:
    found = [name for name, value in CANARIES.items() if any(form in text for form in forms(value))]
    assert found == [], what


def chunk(**delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def stream(*chunks: bytes, end: str) -> bytes:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}
    return page(
        b"".join(chunks) + b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n",
        "text/event-stream",
    )


def calls(*wanted: tuple[str, dict[str, str]]) -> bytes:
    made = [
        {
            "index": n,
            "id": f"c{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for n, (name, args) in enumerate(wanted)
    ]
    return stream(chunk(tool_calls=made), end="tool_calls")


@tool
def environment() -> str:
    """Show the environment."""
    import os

    return json.dumps({name: value for name, value in os.environ.items() if "CANARY" in name})


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError(f"cannot reach {C['env_url']} with {C['given']} and {C['api_key']}")


@pytest.fixture
def files(tmp_path: Path) -> FileTools:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".env").write_text(f"DB_PASSWORD={C['dotenv']}\n")
    (folder / "key.pem").write_text(PEM)
    (folder / "config.json").write_text(json.dumps({"service": {"api_key": C["json"]}}))
    (folder / ".git-credentials").write_text(f"https://me:{C['git']}@git.example\n")
    return FileTools(Workspace(folder))


@pytest.fixture(autouse=True)
def secret_environment(monkeypatch):
    monkeypatch.setenv("CANARY_API_KEY", C["env_key"])
    monkeypatch.setenv("CANARY_TOKEN", C["env_token"])
    monkeypatch.setenv("CANARY_SECRET", C["env_secret"])
    monkeypatch.setenv("CANARY_PASSWORD", C["env_password"])
    monkeypatch.setenv("CANARY_DATABASE", f"postgres://app:{C['env_url']}@db.example/x")


def refusal(text: str, status: str) -> bytes:
    return page(json.dumps({"error": {"message": text}}), "application/json", status)


def echo(request: bytes) -> str:
    """What a careless server repeats: the head of the request, and what it knows about the account."""
    head = request.split(b"\r\n\r\n")[0].decode()
    return f"{head}\n" + " ".join(
        C[name] for name in ("echoed", "url_password", "url_query", "organisation", "given")
    )


def check_result(result):
    texts = [m["content"] for m in result.messages if m["role"] == "tool"]
    assert len(texts) == 7
    assert all("removed]" in text for text in texts), texts
    assert "removed]" in result.content
    check_clean("the result", repr(result) + json.dumps(result.messages) + json.dumps(result.state.to_dict()))


def check_events(events, result):
    for event in events:
        check_clean(f"an event {event.type}", json.dumps(event.to_dict()) + repr(event))
    for each in ("text_delta", "reasoning_delta"):
        check_clean(each, "".join(event.content for event in result.events if event.type.value == each))
    kinds = {event.type.value for event in events}
    assert {"retry", "error", "text_delta", "observation", "part"} <= kinds


def check_files(folder):
    written = [path for path in folder.rglob("*") if path.is_file() and "work" not in path.parts]
    assert written
    for path in written:
        check_clean(path.name, path.read_bytes().decode("utf-8", "replace"))


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_twenty_canaries(kind, tmp_path, files, caplog):
    caplog.set_level(logging.DEBUG)
    turn = iter(range(99))

    def respond(request: bytes) -> bytes:
        if b"GET /props" in request:
            return refusal("none", "404 X")
        number = next(turn)
        text = echo(request)
        if number == 0:  # a failure that is tried again
            return page(
                json.dumps({"error": {"message": text}}), "application/json", "503 X", Retry_After="0"
            )
        if number == 1:
            wanted = [(name, {"path": p}) for name, p in [("read_file", each) for each in _FILES]]
            return calls(("environment", {}), ("fail", {}), *wanted, ("fetch", {"url": start}))
        if number == 2:
            pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
            return stream(*(chunk(content=each, reasoning_content=each) for each in pieces), end="stop")
        return refusal(text, "401 X")

    with WebServer(respond) as server, WebServer(lambda data: web_page(data)) as web:
        start = web.url("/start")

        def web_page(data: bytes) -> bytes:
            if b"/start" in data:
                return moved(f"/mid?api_key={C['url_fetched']}")
            if b"/mid" in data:
                return moved(f"/end?access_token={C['url_redirect']}")
            return page(f"you came from /mid?api_key={C['url_fetched']}", "text/plain")

        client = OpenAIClient(
            "m",
            C["api_key"],
            f"http://{server.address}/v1",
            organization=C["organisation"],
            default_headers={
                "X-Api-Key": C["header_key"],
                "X-Auth": f"Token {C['header_auth']}",
                "Cookie-Token": C["header_cookie"],
            },
            default_query={"sig": C["url_query"]},
        )
        client.secrets.update(echoed=C["echoed"], url=C["url_password"], given=C["given"])
        store = JsonlStore(tmp_path / "s") if kind == "jsonl" else SqliteStore(tmp_path / "s.db")
        agent = Agent(
            llm=client,
            tools=[environment, fail, files.read_file, Fetch(allow_addresses=[web.address]).tool()],
            sessions=store,
            retry=RetryConfig(base_delay=0, jitter=0),
            emit_reasoning_events=True,
        )
        result = agent.run("Look around.", session_id="one")
        assert result.stop_reason == "completed", result.events
        failed = list(agent.run_stream("And again.", session_id="one"))
        for request in server.requests:
            check_clean("a body that was sent", request.split(b"\r\n\r\n", 1)[1].decode())
        assert len([each for each in server.requests if each.startswith(b"POST")]) == 4
    check_result(result)
    check_events([*result.events, *failed], result)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("pure_agent_loop")]
    check_clean("our log", "\n".join(ours))
    check_files(tmp_path)


_FILES = (".env", "key.pem", "config.json", ".git-credentials")


@pytest.mark.parametrize("status", ["401 X", "400 X", "200 OK"])
@pytest.mark.anyio
async def test_an_error_shows_no_secret(status):
    def respond(request: bytes) -> bytes:
        return page(json.dumps({"error": {"message": echo(request)}}), "application/json", status)

    with WebServer(respond) as server:
        url = f"http://me:{C['url_password']}@{server.address}/v1"
        headers = {"X-Api-Key": C["header_key"], "X-Token": C["header_cookie"]}
        client = OpenAIClient("m", C["api_key"], url, organization=C["organisation"], default_headers=headers)
        with pytest.raises(LLMError) as raised:
            await client.chat([{"role": "user", "content": "hi"}])
        await client.aclose()
    shown = "".join(traceback.format_exception(raised.value)) + raised.value.said + repr(raised.value)
    assert "removed]" in shown
    for name in ("api_key", "header_key", "header_cookie", "organisation", "url_password"):
        assert C[name] not in shown, name


def test_it_can_be_turned_off():
    from pure_agent_loop.testing import ScriptedLLM, call

    for redact, there in ((True, False), (False, True)):
        llm = ScriptedLLM([call("environment"), "done"])
        result = Agent(llm=llm, tools=[environment], redact=redact).run("x")
        assert (C["env_key"] in json.dumps(result.messages)) is there


def test_a_task_with_a_secret_is_shown_without_it(tmp_path):
    from pure_agent_loop.testing import ScriptedLLM

    agent = Agent(llm=ScriptedLLM(["done"]), sessions=JsonlStore(tmp_path))
    result = agent.run(f"Use {C['env_key']}.", session_id="one")
    assert C["env_key"] not in json.dumps([event.to_dict() for event in result.events])
    check_clean("the session", "".join(path.read_text() for path in tmp_path.rglob("*.jsonl")))
