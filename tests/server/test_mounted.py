"""The application below a path: mounted in another one, and behind a proxy that takes the path off."""

from __future__ import annotations

import html
import json
import re
import signal
import urllib.parse
from contextlib import closing

import pytest
from tests.server.conftest import OWNER, events_of, sse, transcript
from tests.server.test_coming_back import begin, recorded, take_until
from websockets.sync.client import connect

from pure_agent_loop import ConfigError
from pure_agent_loop.durable import Engine
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.testing import call, deltas


@pytest.fixture(scope="module")
def server(serve):
    return serve([call("add", a=1, b=2), "It is 3.", "Hello."], mount="/agents/here")


@pytest.fixture
def client(server):
    with server.client() as client:
        client.base_url = f"{server.url}/agents/here"
        yield client


def test_its_page_and_all_that_the_page_names(server, client):
    with server.client(token="") as nobody:
        page = nobody.get("/agents/here/")
        assert page.status_code == 200
        links = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        for link in links:
            at = urllib.parse.urljoin("/agents/here/", html.unescape(link))
            assert nobody.get(at).status_code == 200, at
        assert len(links) > 4
        assert nobody.get("/agents/here/healthz").text == "ok\n"
        assert nobody.get("/agents/here/api/agents").status_code == 401
        moved = nobody.get("/agents/here")
        assert moved.headers["location"].endswith("/agents/here/")


def test_its_interface(client):
    run = begin(client, "What is 1 + 2?")
    assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"
    again = client.post("/api/runs", json={"text": "Hello"})
    where = again.headers["location"]
    assert where == f"/agents/here/api/runs/{again.json()['id']}"
    origin = str(client.base_url).partition("/agents")[0]
    assert client.get(f"{origin}{where}").json()["id"] == again.json()["id"]
    about = client.get("/api/openapi.json").json()
    assert about["servers"] == [{"url": "/agents/here"}]
    wrong = client.post("/v1/chat/completions", json={"model": "none", "messages": []})
    assert "error" in wrong.json()  # in the form of OpenAI's clients
    assert client.get("/api/nothing").json()["detail"]


def test_its_socket(server, client):
    session = client.get("/api/sessions").json()["sessions"][0]["id"]
    headers = {"Authorization": f"Bearer {OWNER}"}
    with connect(f"ws://127.0.0.1:{server.port}/agents/here/ws", additional_headers=headers) as socket:
        assert json.loads(socket.recv(30))["control"] == "hello"
        socket.send(json.dumps({"type": "watch", "session": session, "id": 1, "after": 0}))
        assert json.loads(socket.recv(30))["control"] == "reply"


def test_the_page_works_there_in_a_browser(server, browser):
    context = browser.new_context()
    page = context.new_page()
    failed: list[str] = []
    page.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
    page.goto(f"{server.url}/agents/here/#token={OWNER}")
    page.get_by_text("What is 1 + 2?").first.wait_for()
    assert failed == []
    context.close()


@pytest.mark.parametrize("taken_off", [True, False], ids=["the proxy takes it off", "the proxy leaves it"])
def test_behind_a_prefix(serve, taken_off):
    behind = serve(["Hello."], limits={"prefix": "/agents"})
    seen = "" if taken_off else "/agents"  # what the proxy sends on
    with behind.client() as client:
        assert client.get(f"{seen}/").status_code == 200
        assert client.get(f"{seen}/assets/main.js").status_code == 200
        run = client.post(f"{seen}/api/runs", json={"text": "hi"})
        assert run.headers["location"] == f"/agents/api/runs/{run.json()['id']}"
        assert client.get(f"{seen}/api/openapi.json").json()["servers"] == [{"url": "/agents"}]
        assert client.get(f"{seen}/api/sessions/a%2Fb").status_code == 404
    headers = {"Authorization": f"Bearer {OWNER}"}
    with connect(f"ws://127.0.0.1:{behind.port}{seen}/ws", additional_headers=headers) as socket:
        assert json.loads(socket.recv(30))["control"] == "hello"


def test_a_prefix_is_a_path():
    with pytest.raises(ConfigError, match="prefix='agents/' is not a path"):
        Settings(prefix="agents/")
    with pytest.raises(ConfigError, match=r"must be tasks \(non-blank strings\)"):
        Settings(starters=["Report", " "])


def answer(request):
    """Calls what the task names, once; then says that it is done."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return deltas("Done ", "with it.")
    name, _, what = str(last["content"]).partition(" ")
    kinds = {"danger": {"what": what}, "hold": {"name": what}}
    return call(name, **kinds[name]) if name in kinds else deltas("Hello ", "there.")


@pytest.fixture(params=["", "sqlite", "postgres"], ids=["here", "sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres").new_database()
    return f"sqlite:///{tmp_path}/runs.sqlite" if request.param else None


@pytest.mark.parametrize(
    ("mount", "is_entered"),
    [("", False), ("/agents", False), ("/agents", True)],
    ids=["by itself", "mounted", "mounted, its lifespan entered"],
)
def test_run_streams_pauses_for_an_answer_and_resumes(serve, mount, is_entered, database):
    server = serve(answer, mount=mount, is_entered=is_entered, database=database)
    with server.client() as client:
        client.base_url = f"{server.url}{mount}"
        run = begin(client, "danger thing")
        seen = take_until(client, run["id"], [], "run_state", "waiting_permission")
        (question,) = client.get("/api/questions").json()["questions"]
        said = {"call_id": question["call_id"], "verdict": "allow"}
        assert client.post(f"/api/sessions/{run['session']}/answers", json=said).json() == {"run": run["id"]}
        seen += events_of(client, run["id"], seen[-1]["number"])
        assert seen[-1]["data"]["state"] == "completed"
        assert transcript(seen) == recorded(client, run["session"])
        assert client.get("/ready").text == "ready\n"
    assert server.effects() == ["danger thing"]
    server.kill(signal.SIGTERM)


def test_a_mounted_one_lets_its_runs_end_before_the_server_stops(serve, database):
    server = serve(answer, mount="/agents", database=database)
    with server.client() as client, server.client() as viewer:
        client.base_url = viewer.base_url = f"{server.url}/agents"
        run = begin(client, "hold it")
        take_until(client, run["id"], [], "action", "hold")
        with viewer.stream("GET", f"/api/sessions/{run['session']}/events") as stream:
            server.process.send_signal(signal.SIGTERM)
            while client.get("/ready").status_code != 503:
                pass
            (server.folder / "it").touch()
            seen = sse(stream)  # until the server ends it
        assert [each["data"]["state"] for each in seen if each.get("type") == "run_end"] == ["completed"]
    server.ended()
    server.start()
    with server.client() as client:
        client.base_url = f"{server.url}/agents"
        assert client.get(f"/api/runs/{run['id']}").json()["state"] == "completed"
    assert server.effects() == ["hold it"]


def test_a_mounted_one_hands_back_a_run_that_has_no_time_left(serve, tmp_path):
    url = f"sqlite:///{tmp_path}/runs.sqlite"
    server = serve(answer, mount="/agents", database=url, limits={"grace": 0.2})
    with server.client() as client:
        client.base_url = f"{server.url}/agents"
        run = begin(client, "hold it")
        take_until(client, run["id"], [], "action", "hold")
    server.process.send_signal(signal.SIGTERM)
    server.ended()
    with closing(Engine(url)) as engine:
        (task,) = engine.tasks()
        assert task.status == "pending"  # a killed one would leave it running
        assert engine.database.rows("SELECT executor FROM @workers") == []
