"""OAuth: a login in the browser, kept in a private file, renewed, refused, forgotten."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import stat
import threading
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import keyring
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from keyring.backends import fail
from keyrings.alt.file import PlaintextKeyring
from mcp.server.mcpserver import MCPServer as SdkServer
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

from pure_agent_loop import Agent, ConfigError
from pure_agent_loop.mcp import MCPServer, OAuth
from pure_agent_loop.mcp.connection import ServerError
from pure_agent_loop.mcp.login import NO_BROWSER, forget_login, log_in
from pure_agent_loop.testing import ScriptedLLM, call


class Place:
    """A server that wants a login, and the one that gives it, on one port."""

    def __init__(self):
        self.wants, self.says_yes = "first", True
        self.url = ""
        self.issuer = ""  # another one than its own address
        self.grants, self.clients = [], []

    def server(self, **oauth):
        return MCPServer(url=f"{self.url}/mcp", name="locked", oauth=OAuth(**oauth) if oauth else None)

    def app(self):
        server = SdkServer("locked")
        server.add_tool(lambda: "opened", name="open", description="Opens.")
        inner = server.streamable_http_app()
        inner.router.routes += [
            Route("/.well-known/oauth-protected-resource{path:path}", self.resource),
            Route("/.well-known/oauth-authorization-server{path:path}", self.about),
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
        issuer = self.issuer or self.url
        return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [issuer]})

    async def about(self, _):
        return JSONResponse(
            {
                "issuer": self.issuer or self.url,
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
        form = parse_qs((await request.body()).decode())
        self.grants.append(form["grant_type"][0])
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        named = base64.b64decode(basic).decode().split(":")
        sent = [*form.get("client_id", []), *form.get("client_secret", []), *form.get("client_assertion", [])]
        self.clients.append(named if basic else sent)
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
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(NO_BROWSER, "1")
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # nothing of a test comes into anybody's key ring
    place = Place()

    def during(work):
        async def run():
            server = uvicorn.Server(uvicorn.Config(place.app(), port=0, log_level="error"))
            task = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0)
            place.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                return await work(place.server())
            finally:
                server.should_exit = True
                await task

        return asyncio.run(run())

    place.during = during
    yield place
    keyring.set_keyring(before)


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
        forget_login(server.settings)
        return seen, mode, file

    seen, mode, file = place.during(work)
    assert "pal mcp login locked" in seen[0]
    assert "opened" in seen[1]
    assert "opened" in seen[2]
    assert mode == 0o600
    assert not Path(file).exists()
    assert place.grants == ["authorization_code"] * 2


def test_only_the_answer_to_our_question_is_a_login(place):
    held, told = [], []

    def others_first(line):
        asked = parse_qs(urlsplit(line.partition(": ")[2]).query)
        port = urlsplit(asked["redirect_uri"][0]).port
        held.append(socket.create_connection(("127.0.0.1", port)))  # as browsers do, and never use it
        for words in ("code=theirs&state=theirs", "error=no", "code=theirs"):
            with httpx2.Client() as page:
                told.append(page.get(f"http://127.0.0.1:{port}/callback?{words}").status_code)
        browse(line)

    async def work(server):
        await log_in(server.settings, lambda line: threading.Thread(target=others_first, args=[line]).start())
        held[0].close()
        return await used(server)

    assert "opened" in place.during(work)
    assert told == [404] * 3


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


def test_a_login_that_fails_leaves_the_one_before_in_force(place):
    async def work(server):
        await log_in(server.settings, browse)
        place.says_yes = False
        with pytest.raises(ServerError, match="You said no"):
            await log_in(server.settings, browse)
        return await used(server)

    assert "opened" in place.during(work)


def test_whom_somebody_has_registered_logs_in_under_that_name(place):
    async def work(_):
        server = place.server(client_id="app", client_secret="s:3 cret", issuer=place.url)
        await log_in(server.settings, browse)
        return await used(server)

    assert "opened" in place.during(work)
    assert place.clients == [["app", "s%3A3%20cret"]]


def test_a_program_logs_in_by_itself_and_again_when_the_login_has_run_out(place, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    secret = {"client_secret": "secret", "client_auth": "post"}
    signed = {"private_key_file": str(file), "algorithm": "ES256"}

    async def work(_):
        seen = []
        for number, proof in enumerate((secret, signed)):
            place.wants = f"token {number}"  # the one before has run out
            about = {"grant": "client_credentials", "client_id": f"job{number}", "issuer": place.url}
            seen += [await used(place.server(**about, **proof)) for _ in range(2)]
        return seen

    assert ["opened" in each for each in place.during(work)] == [True] * 4
    assert place.grants == ["client_credentials"] * 2  # once for each: the login is kept
    assert place.clients[0] == ["job0", "secret"]
    claims = jwt.decode(place.clients[1][0], key.public_key(), ["ES256"], audience=place.url)
    assert claims["sub"] == "job1"


@pytest.mark.parametrize("grant", ["browser", "client_credentials"])
def test_secret_is_sent_only_to_its_issuer(place, grant):
    async def work(_):
        place.issuer = f"{place.url}/other"
        server = place.server(grant=grant, client_id="app", client_secret="secret", issuer=place.url)
        with pytest.raises(ServerError) as refused:
            await log_in(server.settings, browse)
        return str(refused.value)

    assert "/other" in place.during(work)
    assert place.clients == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"grant": "password"}, "grant='password' must be one of browser, client_credentials"),
        ({"grant": "client_credentials", "client_id": "a"}, "needs client_id, and one of client_secret"),
        ({"client_id": "a", "client_secret": "b"}, "need client_id and issuer"),
        ({"client_id": "a", "client_metadata_url": "https://a/b"}, "cannot be combined"),
        ({"client_metadata_url": "http://a/b"}, "must be https:// with a path"),
        ({"private_key_file": "x"}, "private_key_file cannot be combined with grant='browser'"),
        ({"redirect_port": 70000}, "redirect_port must be 0 to 65535"),
        ({"client_id": 1}, "client_id is 1"),
    ],
)
def test_a_way_to_log_in_that_cannot_be_is_refused(fields, words):
    with pytest.raises(ConfigError, match="oauth") as refused:
        OAuth(**fields)
    assert words in str(refused.value)


def test_a_login_is_kept_in_the_key_ring_where_there_is_one(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyrings.alt.file.PlaintextKeyring")
    ring = PlaintextKeyring()
    ring.file_path = str(tmp_path / "ring" / "passwords.cfg")

    async def work(server):
        where = [await log_in(server.settings, browse)]
        keyring.set_keyring(ring)
        where.append(await log_in(server.settings, browse))
        (file,) = (tmp_path / "home" / "mcp" / "logins").iterdir()
        plain, seen = file.read_text(), await used(server)
        forget_login(server.settings)
        rest = file.exists(), Path(ring.file_path).read_text()
        ring.file_path = str(Path(ring.file_path) / "no folder")  # it takes nothing any more
        where.append(await log_in(server.settings, browse))
        return where, plain, [seen, await used(server)], *rest

    where, plain, seen, is_there, held = place.during(work)
    assert where[0].endswith(".json")
    assert where[1] == "key ring"
    assert where[2] == where[0]
    assert json.loads(plain) == {"key ring": True}
    assert ["opened" in each for each in seen] == [True, True]
    assert not is_there
    assert "=" not in held
