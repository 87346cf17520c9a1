"""MCP servers of the agent of `pal serve`: used, shared, shown, put into messages; in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect
from tests.server.conftest import OWNER, Server

from pure_agent_loop.server.people import hash_of
from pure_agent_loop.testing import ScriptedServer, call

ANN = "ann-token-0123456789"
GOOD = Path(__file__).parents[1] / "mcp" / "good_server.py"


class PalServe:
    """`pal serve` in a folder, with the user's own servers."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.model = ScriptedServer(handler=self.answer, strict=False).__enter__()
        home = folder / "home"
        home.mkdir()
        good = shutil.copy(GOOD, folder)
        servers = {
            "good": {"command": sys.executable, "args": [good]},
            "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit('no luck')"]},
        }
        (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        (folder / "work").mkdir()
        brought = {
            "mcpServers": {"stranger": {"command": sys.executable, "args": ["-c", "open('harm', 'w')"]}}
        }
        (folder / "work" / ".mcp.json").write_text(json.dumps(brought))
        users = folder / "users.json"
        users.write_text(json.dumps({"ann": {"token_sha256": hash_of(ANN), "roles": ["use"]}}))
        about = {"PAL_HOME": str(home), "HOME": str(folder), "PAL_SERVER_TOKEN": OWNER}
        args = ["-m", "pure_agent_loop", "serve", "--port", "0", "--base-url", self.model.base_url, "-m", "m"]
        self.process = Server(
            [sys.executable, *args, "--users", str(users), *words],
            cwd=folder / "work",
            env={**os.environ, **about, "OPENAI_API_KEY": "k"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if "serving http" in line:
                self.url = line.split("serving ")[1].split("/#")[0]
            if "this link gives full access" in line:
                break

    def answer(self, request):
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return f"It says: {last['content']}"
        return call("mcp__good__weather", city="Graz") if "weather" in str(last["content"]) else "fine"

    def client(self, token: str = OWNER) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def started(self) -> int:
        """How many processes of the good server there are."""
        found = 0
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += str(self.folder / GOOD.name).encode() in each.read_bytes()
        return found

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=60)
        self.model.__exit__(None, None, None)
        return "".join(self.said) + rest


@pytest.fixture(scope="module")
def pal_serve(tmp_path_factory):
    server = PalServe(tmp_path_factory.mktemp("serve"))
    yield server
    said = server.stop()
    assert server.process.returncode == 0, said
    assert "Traceback" not in said, said
    assert "ignored, not trusted" in said
    assert not (server.folder / "work" / "harm").exists()
    assert server.started() == 0


def states(client):
    (agent,) = client.get("/api/agents").json()["agents"]
    return {each["name"]: each["state"] for each in agent["servers"]}


def finished(client, **message):
    """A run when it has ended or waits."""
    run = client.post("/api/runs", json=message).json()
    with client.stream("GET", f"/api/runs/{run['id']}/events", timeout=60) as stream:
        for line in stream.iter_lines():
            if line.startswith("data:") and json.loads(line[5:]).get("type") in ("run_end", "run_state"):
                break
    return client.get(f"/api/runs/{run['id']}").json()


def test_the_servers_of_pal_run_are_used_shared_and_asked_about(pal_serve):
    with pal_serve.client() as client:
        assert states(client) == {"good": "idle", "dead": "idle"}  # nothing starts before it is needed
        first = finished(client, text="the weather")
        assert first["state"] == "waiting_permission"  # nobody has said that this server's words are true
        (question,) = client.get(f"/api/sessions/{first['session']}/questions").json()["questions"]
        assert question["tool"] == "mcp__good__weather"
        assert states(client) == {"good": "ready", "dead": "failed"}
        finished(client, text="the weather")
        assert pal_serve.started() == 1


def test_check_starts_a_server_and_lists_its_tools_or_the_error(pal_serve):
    with pal_serve.client() as client:
        good, dead = (
            client.post(f"/api/agents/default/servers/{name}/look").json() for name in ("good", "dead")
        )
        assert (good["state"], good["error"]) == ("ready", "")
        assert good["resources"][0].keys() == {"name", "about"}
        assert good["prompts"]
        assert dead["state"] == "failed"
        assert "no luck" in dead["error"]
        words = [["An"], ["B"], ["x"], ["Ann", "B"]]
        asked = [{"prompt": "greet", "words": each} for each in words] + [{"prompt": "none", "words": [""]}]
        ends = [client.post("/api/agents/default/servers/good/complete", json=each).json() for each in asked]
        assert [each["values"] for each in ends] == [["Ann", "Anton"], ["Bea"], [], [], []]
        missing = [f"/api/agents/{each}/look" for each in ("default/servers/none", "none/servers/good")]
        assert [client.post(each).status_code for each in missing] == [404, 404]


def test_a_message_brings_resources_and_prompts(pal_serve):
    with pal_serve.client() as client:
        look = client.post("/api/agents/default/servers/good/look").json()
        assert "note://{name}" in [each["name"] for each in look["resources"]]
        uri, prompt = "note://x", look["prompts"][0]["name"]
        run = finished(client, text=f"read @good:{uri} and mail@good:x")
        seen = pal_serve.model.requests[-1].body["messages"][-1]["content"]
        assert seen.startswith(f"read @good:{uri} and mail@good:x\n\n")
        assert f"good:{uri}" in seen.partition("\n\n")[2]
        assert run["state"] == "completed"
        finished(client, text=f"/good:{prompt} @good:note://x")  # what a server writes brings nothing along
        said = pal_serve.model.requests[-1].body["messages"][-1]["content"]
        assert said == "Greet @good:note://x kindly."
        refused = client.post("/api/runs", json={"text": "/good:nothing"})
        assert refused.status_code == 422
        assert "good" in refused.json()["detail"]
        finished(client, text="/none:nothing @none:x")
        assert pal_serve.model.requests[-1].body["messages"][-1]["content"] == "/none:nothing @none:x"


def test_person_without_operate_reaches_no_server_by_text(pal_serve):
    with pal_serve.client(ANN) as client:
        assert states(client) == {}
        assert client.post("/api/agents/default/servers/good/look").status_code == 403
        for text in ("@good:note://x", "/good:greet Ann"):
            finished(client, text=text)
            assert pal_serve.model.requests[-1].body["messages"][-1]["content"] == text


@pytest.mark.parametrize(
    "about", [{}, {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark", "has_touch": True}]
)
def test_servers_are_shown_tested_and_suggested(pal_serve, visit, about):
    there = visit(pal_serve, **about)
    page, is_small = there.page, bool(about)
    name = "phone" if is_small else "desktop"
    if is_small:
        page.click("header .menu")
    page.get_by_role("button", name="MCP servers").click()
    panel = page.get_by_role("region", name="MCP servers")
    for server in ("good", "dead"):
        panel.get_by_role("button", name=f"Test: {server}").click()
    panel.get_by_text("prompts").wait_for()
    panel.locator(".badge.failed").wait_for()
    assert there.texts(".servers .badge") == ["ready", "failed"]
    assert "no luck" in panel.inner_text()
    there.shot(f"servers-{name}")
    page.get_by_role("button", name="Close").click()

    message = page.locator("#message")
    message.press_sequentially("read @go")
    options = page.locator("#suggestions [role=option]")
    assert options.all_inner_texts() == ["@good: ready"]
    message.press("Tab")
    page.get_by_text("@good:note://{name}").wait_for()
    there.shot(f"mentions-{name}")
    message.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(message).to_have_attribute("aria-activedescendant", options.last.get_attribute("id") or "none")
    message.press("Escape")
    assert options.count() == 0
    message.press_sequentially("logo")
    message.press("Enter")
    assert message.input_value() == "read @good:logo://png "
    message.fill("")
    message.press_sequentially("/gr")
    assert options.count() == 0  # no server is called so
    message.fill("")
    message.press_sequentially("/good")
    options.get_by_text("WHO Greets somebody.").wait_for()
    there.shot(f"prompts-{name}")
    options.first.click()
    options.get_by_text("Bea").wait_for()  # what the argument may be
    message.press_sequentially("An")
    expect(options).to_have_text(["Ann", "Anton"], use_inner_text=True)
    there.shot(f"endings-{name}")
    message.press("ArrowDown")
    message.press("Tab")
    assert message.input_value() == "/good:greet Anton "
    message.press("Enter")
    there.wait(".answer")
    assert pal_serve.model.requests[-1].body["messages"][-1]["content"] == "Greet Anton kindly."
    assert there.texts(".bubble") == ["/good:greet Anton"]
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


def test_the_agent_as_it_comes_offers_tasks_in_the_language_of_the_page(pal_serve):
    with pal_serve.client() as client:

        def starters(language):
            answer = client.get("/api/agents", headers={"Accept-Language": language}).json()
            return answer["agents"][0]["starters"]

        assert len(starters("en")) == 3
        assert starters("en")[0] == "What is in this folder? Give me an overview."
        assert starters("zh-CN")[0] == "这个文件夹里有什么？请概述。"
