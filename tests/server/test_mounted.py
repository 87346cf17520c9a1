"""The application below a path: mounted in another one, and behind a proxy that takes the path off."""

from __future__ import annotations

import html
import json
import re
import urllib.parse

import pytest
from tests.server.conftest import OWNER, events_of
from tests.server.test_coming_back import begin
from websockets.sync.client import connect

from pure_agent_loop import ConfigError
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.testing import call


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
