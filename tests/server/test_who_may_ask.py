"""Who may ask, from where, how much: one server, real requests, and what they must not get."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import httpx2
import pytest
from tests.server.conftest import OWNER, events_of
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pure_agent_loop.server.serving import bind_socket
from pure_agent_loop.testing import call, deltas

PEOPLE = {"ada": ["use"], "bob": ["use"], "carl": ["approve"]}


def token_of(name):
    return f"{name}-token-0123456789"


def answer(request):
    """Calls what the task names; then says that it is done."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return deltas("Done ", "with it.")
    task = str(last["content"])
    if task.startswith("danger"):
        return call("danger", what=task.partition(" ")[2])
    if task.startswith("wonder"):
        return call("wonder", about="tea or coffee?")
    return call("add", a=1, b=2) if task.startswith("add") else deltas("Hello ", "there.")


@pytest.fixture(scope="module")
def server(serve):
    return serve(answer, people=PEOPLE, limits={"hosts": ["pal.example"], "rate": 500})


def ask(client, text, **about):
    found = client.post("/api/runs", json={"text": text, **about})
    assert found.status_code == 201, found.text
    return found.json()


def finished(client, text, **about):
    run = ask(client, text, **about)
    return run, events_of(client, run["id"])


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh-CN,zh;q=0.9", "没有此 ID 的会话。"),
        ("fr, en", "No session with this id."),
        ("", "No session with this id."),
    ],
)
def test_error_is_in_the_language_of_the_request(server, language, words):
    with server.client() as client:
        client.headers["Accept-Language"] = language
        assert client.get("/api/sessions/none").json()["detail"] == words
        client.headers["Authorization"] = "Bearer wrong-token-0123456789"
        refused = client.get("/api/sessions").json()["detail"]
        assert refused.isascii() == words.isascii()
    headers = {"Authorization": f"Bearer {OWNER}", "Accept-Language": language}
    for query, expected in (("", words), ("?language=zh", "没有此 ID 的会话。")):
        with connect(f"ws://127.0.0.1:{server.port}/ws{query}", additional_headers=headers) as socket:
            socket.recv()
            socket.send(json.dumps({"type": "stop", "id": 1, "session": "none", "run": "none:1"}))
            detail = json.loads(socket.recv())["detail"]
            assert detail.isascii() == expected.isascii(), detail


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong-token-0123456789"}, 401),
        ({"Authorization": f"Basic {OWNER}"}, 401),
        ({"Cookie": "pal_00000000=b3duZXI.99999999999.00"}, 401),
        ({"Authorization": f"Bearer {OWNER}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {OWNER}", "Host": "127.0.0.1.evil.example"}, 421),
        ({"Authorization": f"Bearer {OWNER}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": f"Bearer {OWNER}", "Origin": "null"}, 403),
        ({"Authorization": f"Bearer {OWNER}", "Content-Type": "text/plain"}, 415),
        ({"Authorization": f"Bearer {OWNER}", "Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_a_web_probe_is_refused_before_any_handler(server, headers, status):
    given = {"Content-Type": "application/json", **headers}
    found = httpx2.post(f"{server.url}/api/runs", content=b'{"text": "add"}', headers=given)
    assert found.status_code == status
    assert found.headers["content-type"] == "application/problem+json"
    assert "script-src 'self'" in found.headers["content-security-policy"]
    if not {"Content-Type", "Host"} & headers.keys():
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers=headers)
        assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    "header",
    ["Host: localhost", "Origin: http://evil.example", "Authorization: Bearer wrong",
     "Content-Type: text/plain", "Transfer-Encoding: chunked", "X-User: ada"],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_duplicate_header_is_rejected(server, header, is_first):
    given = [f"Host: 127.0.0.1:{server.port}", f"Origin: {server.url}", f"Authorization: Bearer {OWNER}",
             "Content-Type: application/json", "Content-Length: 15", "X-User: bob"]  # fmt: skip
    lines = [header, *given] if is_first else [*given, header]
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw:
        raw.sendall("\r\n".join(["POST /api/runs HTTP/1.1", *lines, "", '{"text": "add"}']).encode())
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 5_000,
        b'{"text": ' + b"[" * 100_000 + b"}",
        b'{"text": 1' + b"0" * 5_000 + b"}",
        b'{"text": NaN}',
        b'{"text": "a", "text": "b"}',
        b'{"text": "a", "x": 1e999}',
        b'{"text": "a", "strange": 1}',
        b'{"text": ["a"]}',
        b'{"text": ""}',
        b'{"text": "a", "media": ["/etc/passwd"]}',
        b'{"text": "a", "media": ["https://evil.example/a.png"]}',
        b'"text"',
        b"\xff\xfe",
        b"",
    ],
)
def test_a_body_that_means_nothing_begins_nothing(server, body):
    with server.client(**{"Content-Type": "application/json"}) as client:
        before = client.get("/api/runs", params={"limit": 500}).json()["runs"]
        found = client.post("/api/runs", content=body)
        assert found.status_code in (400, 422), found.text
        assert client.get("/api/runs", params={"limit": 500}).json()["runs"] == before


def memory_of(server):
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("VmHWM")).split()[1]) * 1024


@pytest.mark.parametrize(
    ("framing", "token", "status"),
    [("Content-Length: 209715200", OWNER, 413), ("Transfer-Encoding: chunked", OWNER, 413),
     ("Transfer-Encoding: chunked", "wrong", 401)],
)  # fmt: skip
def test_sender_of_a_huge_body_gets_the_reason_of_the_refusal(server, framing, token, status):
    before = memory_of(server)
    piece = b" " * (1 << 20)
    wire = b"%x\r\n%b\r\n" % (len(piece), piece) if "chunked" in framing else piece
    with socket.create_connection(("127.0.0.1", server.port), 60) as raw:
        head = f"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\n{framing}\r\n\r\n".encode())
        for _ in range(200):
            raw.sendall(wire)
        raw.sendall(b"0\r\n\r\n" if "chunked" in framing else b"")
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in answer.lower()
    assert memory_of(server) - before < 20_000_000


@pytest.mark.parametrize("name", ["../x", "a%2fb", "%00", "x" * 300, "a b", "%2e%2e%2fserver%2ftoken"])
def test_a_strange_id_finds_nothing(server, name):
    with server.client() as client:
        for path in (
            f"/api/sessions/{name}",
            f"/api/runs/{name}",
            f"/api/runs/{name}/events",
            f"/assets/{name}",
        ):
            assert client.get(path).status_code in (404, 405), path


def test_the_cookie_of_the_page(server):
    with httpx2.Client(base_url=server.url) as client:
        assert client.post("/api/login", json={"token": "not-the-token-0123"}).status_code == 401
        assert client.get("/api/me").status_code == 401
        asked = client.get("/api/login")  # no error, which browsers would log
        assert (asked.status_code, asked.json()) == (200, {"person": None})
        found = client.post("/api/login", json={"token": OWNER})
        assert found.json()["roles"] == ["use", "approve", "operate"]
        cookie = found.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert OWNER not in cookie
        assert client.get("/api/me").json()["name"] == "owner"
        assert client.get("/api/login").json()["person"] == client.get("/api/me").json()
        assert client.post("/api/runs", json={"text": "hello"}).status_code == 403  # from no page
        mine = {"Origin": server.url}
        assert client.post("/api/runs", json={"text": "hello"}, headers=mine).status_code == 201
        name, _, value = found.headers["set-cookie"].partition(";")[0].partition("=")
        forged = {"Cookie": f"{name}={value[:-1]}{'0' if value[-1] != '0' else '1'}"}
        assert httpx2.get(f"{server.url}/api/me", headers=forged).status_code == 401
        assert httpx2.get(f"{server.url}/api/login", headers=forged).json() == {"person": None}


def test_cookie_ends_with_its_logout_and_no_other_one_does(serve):
    server = serve()
    values = []
    for _ in range(2):
        with httpx2.Client(base_url=server.url) as client:
            found = client.post("/api/login", json={"token": OWNER})
            values.append({"Cookie": found.headers["set-cookie"].partition(";")[0]})

    def status(cookie):
        return httpx2.get(f"{server.url}/api/me", headers=cookie).status_code

    left = httpx2.post(f"{server.url}/api/logout", headers={**values[0], "Origin": server.url})
    assert (left.status_code, status(values[0]), status(values[1])) == (204, 401, 200)
    server.kill()
    server.start()
    assert (status(values[0]), status(values[1])) == (401, 200)


def test_people_are_isolated_and_see_only_their_own(server):
    with (
        server.client(token_of("ada")) as ada,
        server.client(token_of("bob")) as bob,
        server.client() as owner,
    ):
        run, seen = finished(ada, "add")
        session = run["session"]
        for path in (f"/api/runs/{run['id']}", f"/api/runs/{run['id']}/events", f"/api/sessions/{session}"):
            assert bob.get(path).status_code == 404
            assert ada.get(path, params={"after": 1_000_000}).status_code in (200, 204)
        assert bob.post("/api/runs", json={"text": "x", "session": session}).status_code == 404
        assert bob.post(f"/api/runs/{run['id']}/stop", json={}).status_code == 404
        assert bob.get("/api/sessions").json()["sessions"] == []
        assert [each["id"] for each in ada.get("/api/sessions").json()["sessions"]] == [session]
        assert "SECRET" not in json.dumps(seen)
        shown = {each["type"]: each["data"] for each in seen}
        assert shown["action"] == {"tool": "add", "call_id": shown["action"]["call_id"]}
        assert "result" not in shown["observation"]
        full = {each["type"]: each["data"] for each in events_of(owner, run["id"])}
        assert full["action"]["args"] == {"a": 1, "b": 2}
        assert full["observation"]["result"] == "3"
        assert ada.get("/metrics").status_code == 403
        assert 'pal_runs_ended_total{agent="helper",reason="completed"}' in owner.get("/metrics").text


def test_a_proxy_names_people(server):
    with server.client(**{"X-User": "dora@example.com"}) as dora, server.client() as owner:
        assert dora.get("/api/me").json() == {
            **owner.get("/api/me").json(),
            "name": "dora@example.com",
            "roles": ["use"],
        }
        assert dora.get("/api/me", headers={"X-User": "owner"}).status_code == 401
        ada = {"Authorization": f"Bearer {token_of('ada')}"}  # no proxy: a name from her means nothing
        assert dora.get("/api/me", headers=ada).json()["name"] == "ada"


def test_only_a_person_with_approve_answers_a_question(server):
    with server.client(token_of("ada")) as ada, server.client(token_of("carl")) as carl:
        run = ask(ada, "danger zone")
        seen = wait_for(ada, run["id"], "run_state")
        (question,) = carl.get("/api/questions").json()["questions"]
        assert (question["tool"], question["args"]) == ("danger", {"what": "zone"})
        (own,) = ada.get(f"/api/sessions/{run['session']}/questions").json()["questions"]
        assert own == {**question, "args": {}, "reason": ""}  # as in the events that she sees
        assert [event["data"].get("args") for event in seen if event["type"] == "permission"] == [None]
        path = f"/api/sessions/{run['session']}/answers"
        said = {"call_id": question["call_id"], "verdict": "allow"}
        assert ada.post(path, json=said).status_code == 403
        assert "danger zone" not in server.effects()
        assert carl.post(path, json=said).json() == {"run": run["id"]}
        seen += events_of(ada, run["id"], seen[-1]["number"])
        assert seen[-1]["data"]["state"] == "completed"
        assert server.effects().count("danger zone") == 1
        assert carl.post(path, json=said).status_code == 409


def test_a_tool_asks_its_own_person(server):
    with server.client(token_of("ada")) as ada:
        run = ask(ada, "wonder")
        seen = wait_for(ada, run["id"], "question")
        assert seen[-1]["data"]["question"] == "tea or coffee?"
        path, call_id = f"/api/sessions/{run['session']}/answers", seen[-1]["data"]["call_id"]
        assert (
            ada.post(path, json={"call_id": call_id, "verdict": "allow", "message": "tea"}).status_code == 200
        )
        assert events_of(ada, run["id"])[-1]["data"]["state"] == "completed"
        with server.client() as owner:
            results = [
                each["text"] for each in owner.get(f"/api/sessions/{run['session']}").json()["entries"]
            ]
        assert any("the person says: tea" in each for each in results)


def wait_for(client, run, kind):
    with client.stream("GET", f"/api/runs/{run}/events") as response:
        seen = []
        for line in response.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
                if seen[-1].get("type") == kind:
                    return seen
    raise AssertionError([each.get("type") for each in seen])


def test_the_same_key_begins_nothing_twice(server):
    with server.client(token_of("ada"), **{"Idempotency-Key": "key-1"}) as ada:
        first = ask(ada, "hello")
        again = ada.post("/api/runs", json={"text": "hello"})
        assert again.json()["id"] == first["id"]
        assert again.headers["idempotency-replayed"] == "true"
        assert ada.post("/api/runs", json={"text": "other"}).status_code == 409


def test_socket_messages_act_like_requests(server):
    with server.socket(token_of("bob")) as bob:

        def say(**message):
            bob.send(json.dumps({"id": 7, **message}))
            while "control" not in (found := json.loads(bob.recv(60))):
                pass
            return found

        assert json.loads(bob.recv(60))["control"] == "hello"
        assert say(type="ping") == {"control": "reply", "id": 7, "data": None}
        assert say(type="nonsense")["status"] == 400
        run = say(type="message", text="hello")["data"]
        assert say(type="watch", session=run["session"])["control"] == "reply"
        while json.loads(bob.recv(60)).get("type") != "run_end":
            pass
        forked = say(type="fork", session=run["session"], step=1)["data"]["session"]
        assert forked != run["session"]
        edited = say(type="edit", session=run["session"], step=1, text="hello again")["data"]
        assert edited["session"] not in (run["session"], forked)
        assert say(type="steer", run=run["id"], text="more")["status"] == 409
        assert say(type="undo", session=run["session"])["status"] == 409
        assert say(type="stop", run="nobody:1")["status"] == 404


def test_answers_are_not_held_back_for_more():
    with bind_socket("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # what asyncio goes by
