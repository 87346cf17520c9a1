"""What can be done with sessions of a server, and what viewers get who are slow, late or elsewhere."""

from __future__ import annotations

import itertools
import json
import socket
from urllib.parse import quote, unquote

import pytest
from jsonschema import Draft202012Validator
from tests.server.conftest import OWNER, events_of, sse
from tests.server.test_coming_back import begin, read_session, take_until
from websockets.exceptions import ConnectionClosed

from pure_agent_loop import Agent
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, call, deltas

PIECE, PIECES = "x" * 100_000, 120
APP = "https://app.example"


def answer(request):
    """Calls what the task names, once; then says that it is done."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return "Done."
    name, _, what = str(last["content"]).partition(" ")
    if name == "flood":
        return deltas(*[PIECE] * PIECES)
    kinds = {"put": {"text": what}, "elsewhere": {"what": what}, "hold": {"name": what}}
    return call(name, **kinds[name]) if name in kinds else "Hello."


@pytest.fixture(scope="module")
def server(serve):
    return serve(
        answer, people={"ada": ["use"]}, limits={"viewer_seconds": 10, "origins": [APP], "rate": 500}
    )


def finished(client, text, **about):
    run = begin(client, text, **about)
    events = events_of(client, run["id"])
    assert events[-1]["data"]["state"] == "completed"
    return run


def test_a_session_is_exported_and_deleted(server):
    with server.client() as client, server.client("ada-token-0123456789") as ada:
        session = finished(client, "hello <b>")["session"]
        text = client.get(f"/api/sessions/{session}/export")
        assert "> hello &lt;b>" in text.text
        named = "filename*=UTF-8''hello%20%20b.md"
        assert text.headers["content-disposition"] == f'attachment; filename="{session}.md"; {named}'
        page = client.get(f"/api/sessions/{session}/export", params={"form": "html"})
        assert page.headers["content-type"].startswith("text/html")
        assert "<b>" not in page.text.partition("<body")[2].replace("<b>hello", "")
        own = finished(ada, "hello")["session"]
        assert ada.get(f"/api/sessions/{own}/export").status_code == 403
        held = begin(client, "hold delete")
        take_until(client, held["id"], [], "action", "hold")
        assert client.delete(f"/api/sessions/{held['session']}").status_code == 409
        (server.folder / "delete").touch()
        events_of(client, held["id"])
        for each in (session, held["session"]):
            assert client.delete(f"/api/sessions/{each}").status_code == 204
            for path in ("", "/events", "/questions"):
                found = client.get(f"/api/sessions/{each}{path}")
                assert found.status_code == 404 or found.json() == {"questions": []}
            assert client.get("/api/runs", params={"session": each}).json()["runs"] == []


def test_files_are_changed_back_and_forth(server):
    file = server.folder / "work" / "file"
    with server.client() as client:
        session = finished(client, "put one")["session"]
        finished(client, "put two", session=session)
        url = f"/api/sessions/{session}/undo"
        tried = client.post(url, json={"dry_run": True}).json()
        assert (tried["restored"], tried["dry_run"], file.read_text()) == (["file"], True, "two")
        assert client.post(url, json={}).json()["restored"] == ["file"]
        assert file.read_text() == "one"
        assert client.post(url, json={"redo": True}).status_code == 200
        assert file.read_text() == "two"
        file.write_text("a person")
        assert client.post(url, json={}).json()["conflicts"][0]["path"] == "file"
        assert file.read_text() == "a person"
        other = finished(client, "hello")["session"]
        assert client.post(f"/api/sessions/{other}/undo", json={}).status_code == 409


def test_files_at_a_step_are_compared_and_restored(server):
    file = server.folder / "work" / "file"
    with server.client() as client:
        session = finished(client, "put one")["session"]
        finished(client, "put two", session=session)
        steps = {entry["step"] for entry in client.get(f"/api/sessions/{session}").json()["entries"]}
        first = sorted(step for step in steps if step)[0]
        url = f"/api/sessions/{session}/time"
        then = client.get(url, params={"step": first}).json()
        (change,) = then["changes"]
        assert (then["known"], change["path"], change["added"], change["removed"]) == (True, "file", 1, 1)
        assert "-one" in change["diff"]
        assert "+two" in change["diff"]
        assert file.read_text() == "two"
        assert client.get(url, params={"step": max(steps)}).json()["changes"] == []
        assert client.get(url, params={"step": 99}).status_code == 409
        forked = client.post(f"/api/sessions/{session}/fork", json={"step": first, "files": True}).json()
        assert (forked["files"]["restored"], file.read_text()) == (["file"], "one")
        assert forked["session"] != session
        other = finished(client, "hello")["session"]
        assert client.get(f"/api/sessions/{other}/time", params={"step": 1}).json()["known"] is False


@pytest.mark.parametrize(
    ("path", "model", "wrong", "right"),
    [
        ("fork", "Fork", {"files": True}, {"files": True, "step": 1}),
        ("fork", "Fork", {"files": True, "step": None}, {"files": False}),
        ("answers", "VerdictBody", {"verdict": "deny", "always": True}, {"verdict": "deny", "always": False}),
        (
            "answers",
            "VerdictBody",
            {"verdict": "deny", "similar": True},
            {"verdict": "allow", "similar": True},
        ),
    ],
)
def test_rules_between_fields_are_in_the_document(server, path, model, wrong, right):
    more = {"call_id": "call_1"} if path == "answers" else {}
    with server.client() as client:
        session = finished(client, "hello")["session"]
        refused = client.post(f"/api/sessions/{session}/{path}", json={**wrong, **more})
        assert refused.status_code == 422
        schema = client.get("/api/openapi.json").json()["components"]["schemas"][model]
    validator = Draft202012Validator(schema)
    assert not validator.is_valid({**wrong, **more})
    assert validator.is_valid({**right, **more})


def test_document_names_the_required_parameters(server):
    with server.client() as client:
        session = finished(client, "hello")["session"]
        assert client.get(f"/api/sessions/{session}/time").json()["param"] == "step"
        paths = client.get("/api/openapi.json").json()["paths"]
    parameters = [each for path in paths.values() for each in path.get("get", {}).get("parameters", [])]
    assert {each["name"] for each in parameters if each["in"] == "query" and each["required"]} == {"step"}


def test_a_result_comes_from_elsewhere(server):
    with server.client() as client:
        run = begin(client, "elsewhere far")
        seen = take_until(client, run["id"], [], "run_state", "waiting_tool")
        (call_id,) = seen[-1]["data"]["calls"]
        url = f"/api/sessions/{run['session']}/results"
        wrong = client.post(url, json={"call_id": "nothing", "result": "x"})
        assert wrong.status_code == 409
        done = client.post(url, json={"call_id": call_id, "result": "it was done there"})
        assert done.json() == {"run": run["id"]}
        events = events_of(client, run["id"])
        assert events[-1]["data"]["state"] == "completed"
        entries = read_session(client, run["session"])["entries"]
        assert "it was done there" in [each["text"] for each in entries if each["kind"] == "result"]


def test_a_page_of_a_named_origin_may_ask_first(server):
    with server.client("") as client:
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        allowed = client.options("/api/runs", headers={"Origin": APP, **wanted})
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, APP)
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        refused = client.options("/api/runs", headers={"Origin": "https://evil.example", **wanted})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    with server.client(Origin=APP) as client:
        me = client.get("/api/me")
        assert me.headers["access-control-allow-origin"] == APP
        assert "access-control-allow-credentials" not in me.headers


def slow_socket(server, request):
    """A client whose kernel takes almost nothing in until it reads."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", server.port))
    slow.sendall(f"{request}Host: localhost\r\nAuthorization: Bearer {OWNER}\r\n\r\n".encode())
    return slow


def test_a_socket_that_is_not_read_is_closed_with_a_reason(server):
    with server.client() as client, server.socket(queue=1) as lazy:
        lazy.recv()
        run = begin(client, "flood")
        lazy.send(json.dumps({"type": "watch", "session": run["session"], "after": 0}))
        events_of(client, run["id"])
        while 'reason="too slow"} 1' not in client.get("/metrics").text:
            pass
        with pytest.raises(ConnectionClosed) as closed:
            list(map(lazy.recv, itertools.repeat(60)))
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1013, "too slow")


def test_a_socket_that_does_not_even_take_the_reason_is_cut_off(serve):
    limits = {"viewer_seconds": 0.2, "rate": 500}
    server = serve(answer, people={"ada": ["use"]}, limits=limits)
    with server.client() as client, server.socket(queue=1) as lazy:
        lazy.recv()
        run = begin(client, "flood")
        lazy.send(json.dumps({"type": "watch", "session": run["session"], "after": 0}))
        while 'reason="unreachable"} 1' not in client.get("/metrics").text:
            pass
        with pytest.raises(ConnectionClosed):
            list(map(lazy.recv, itertools.repeat(60)))


def test_slow_client_is_dropped_with_a_reason_and_a_late_one_reads_again(server):
    with server.client() as client:
        run = begin(client, "flood")
        slow = slow_socket(server, f"GET /api/runs/{run['id']}/events HTTP/1.1\r\n")
        with server.socket() as quick:
            quick.send(json.dumps({"type": "watch", "session": run["session"], "after": 0}))
            count = 0
            while json.loads(quick.recv(60)).get("type") != "run_end":
                count += 1
        assert count > PIECES  # nobody held this one up
        while 'reason="too slow"} 2' not in client.get("/metrics").text:
            pass
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)  # it reads at last
        tail = b""
        while chunk := slow.recv(1 << 20):
            tail = (tail + chunk)[-200:]
            if tail.endswith(b"0\r\n\r\n"):
                break
        slow.close()
        assert b'event: end\ndata: {"reason": "too slow"}' in tail
    server.kill()
    server.start()
    with server.client() as client:
        url = f"/api/sessions/{run['session']}/events"
        with client.stream("GET", url, params={"after": 1}) as response:
            found = sse(response, 2)
        assert found[0]["control"] == "reset"
        assert 1 < found[0]["first"] == found[1]["number"] <= found[0]["last"]
        about = read_session(client, run["session"])
        assert about["last_event"] == found[0]["last"]
        assert len(about["entries"][1]["text"]) == len(PIECE) * PIECES
        assert events_of(client, run["id"], about["last_event"]) == []


NAMES = ["cron:daily-report", "用户1", "a/b c", "a/../b", "客" * 200, "100% & more?#", "..%2f.."]


@pytest.mark.parametrize("name", NAMES)
def test_a_session_of_any_name_is_reached(server, name):
    sessions = SessionManager(JsonlStore(server.folder / "sessions"))
    Agent(llm=ScriptedLLM(["Hello."]), sessions=sessions.store).run("hi", session_id=name)
    url = f"/api/sessions/{quote(name, safe='')}"
    with server.client() as client:
        assert name in [each["id"] for each in client.get("/api/sessions").json()["sessions"]]
        assert client.get(url).json()["id"] == name
        assert client.get(f"{url}/questions").json() == {"questions": []}
        run = begin(client, "hello", session=name)
        assert (run["session"], run["id"].rpartition(":")[0]) == (name, name)
        path = f"/api/runs/{quote(run['id'], safe='')}"
        with client.stream("GET", f"{path}/events") as response:
            assert "completed" in response.read().decode()
        assert client.get(path).json()["state"] == "completed"
        export = client.get(f"{url}/export", params={"form": "markdown"})
        assert unquote(export.headers["content-disposition"].partition("UTF-8''")[2]) == "hi.md"
        fork = client.post(f"{url}/fork", json={}).json()["session"]
        assert client.get(f"/api/sessions/{fork}").status_code == 200
        assert client.delete(url).status_code == 204
        assert client.get(url).status_code == 404


def test_no_name_holds_a_nul(server):
    with server.client() as client:
        assert client.get("/api/sessions/a%00b").status_code == 404
