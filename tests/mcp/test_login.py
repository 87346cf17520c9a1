"""OAuth: a login in the browser, kept in a private file, renewed, refused, forgotten."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer as SdkServer
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

from pure_agent_loop import Agent
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.mcp.connection import ServerError
from pure_agent_loop.mcp.login import NO_BROWSER, forget, log_in
from pure_agent_loop.testing import ScriptedLLM, call


class Place:
    """A server that wants a login, and the one that gives it, on one port."""

    def __init__(self):
        self.wants, self.says_yes = "first", True
        self.url = ""
        self.grants = []

    def app(self):
        server = SdkServer("locked")
        server.add_tool(lambda: "opened", name="open", description="Opens.")
        inner = server.streamable_http_app()
        inner.router.routes += [
            Route("/.well-known/oauth-protected-resource{path:path}", self.resource),
            Route("/.well-known/oauth-authorization-server", self.about),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]

        async def app(scope, receive, send):
            if scope["type"] == "http" and scope["path"] == "/mcp":
                given = dict(scope["headers"]).get(b"authorization", b"").decode()
                if given != f"Bearer {self.wants}":
                    where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource"'
                    await PlainTextResponse("", 401, {"WWW-Authenticate": where})(scope, receive, send)
                    return
            await inner(scope, receive, send)

        return app

    async def resource(self, _):
        return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    async def about(self, _):
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }
        )

    async def register(self, request):
        return JSONResponse({**await request.json(), "client_id": "us"}, 201)

    async def authorize(self, request):
        asked = request.query_params
        found = "code=c" if self.says_yes else "error=access_denied&error_description=You+said+no"
        return RedirectResponse(f"{asked['redirect_uri']}?{found}&state={asked['state']}")

    async def token(self, request):
        grant = parse_qs((await request.body()).decode())["grant_type"][0]
        self.grants.append(grant)
        return JSONResponse(
            {
                "access_token": self.wants,
                "token_type": "Bearer",
                "expires_in": 3600,
                "refresh_token": "again",
            }
        )


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A place that is open while a function works."""
    monkeypatch.setenv("PURE_AGENT_LOOP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(NO_BROWSER, "1")
    place = Place()

    def during(work):
        async def run():
            server = uvicorn.Server(uvicorn.Config(place.app(), port=0, log_level="error"))
            task = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0)
            place.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                return await work(MCPServer(url=f"{place.url}/mcp", name="locked"))
            finally:
                server.should_exit = True
                await task

        return asyncio.run(run())

    place.during = during
    return place


def browse(line):
    """What a person does with the address."""
    address = line.partition("log in here: ")[2]
    assert urlsplit(address).path == "/authorize"

    def open_it():
        with urllib.request.urlopen(address) as answer:
            assert b"close this page" in answer.read()

    threading.Thread(target=open_it).start()


async def used(server, tool="mcp__locked__open"):
    agent = Agent(llm=ScriptedLLM([call(tool), "done"]), tools=[server])
    result = await agent.arun("go")
    return next(each["content"] for each in result.messages if each["role"] == "tool")


def test_a_login_is_kept_used_renewed_and_forgotten(place, tmp_path):
    async def work(server):
        seen = [await used(server, "mcp__locked__connect")]
        await log_in(server.settings, browse)
        seen.append(await used(server))
        place.wants = "second"  # the first one has run out
        await log_in(server.settings, browse)
        seen.append(await used(server))
        (file,) = (tmp_path / "home" / "mcp" / "logins").iterdir()
        mode = stat.S_IMODE(file.stat().st_mode)
        forget(server.settings)
        return seen, mode, file

    seen, mode, file = place.during(work)
    assert "pal mcp login locked" in seen[0]
    assert "opened" in seen[1]
    assert "opened" in seen[2]
    assert mode == 0o600
    assert not Path(file).exists()
    assert place.grants == ["authorization_code"] * 2


def test_a_login_that_was_refused_or_has_run_out_is_a_sentence(place, tmp_path):
    async def work(server):
        place.says_yes = False
        with pytest.raises(ServerError) as refused:
            await log_in(server.settings, browse)
        place.says_yes = True
        await log_in(server.settings, browse)
        (file,) = (tmp_path / "home" / "mcp" / "logins").iterdir()
        kept = {**json.loads(file.read_text()), "until": 1}
        file.write_text(json.dumps(kept))  # it has run out
        place.wants = "third"
        renewed = await used(server)
        place.wants = "nobody has it"
        return str(refused.value), renewed, await used(server, "mcp__locked__connect")

    refused, renewed, lost = place.during(work)
    assert "You said no" in refused
    assert "opened" in renewed  # without a person
    assert place.grants[-1] == "refresh_token"
    assert "pal mcp login locked" in lost
