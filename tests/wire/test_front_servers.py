"""Both ways that requests travel, through servers that others write: nginx with TLS, and a forward proxy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pure_agent_loop.testing import Gate, ScriptedServer, deltas
from tests.processes import listening
from tests.serving import free_port
from tests.toolbox.web import certificate

from .talk import HI, ask, client_of, get_answer, get_error, run

REQUESTS = 3  # of one connection; then nginx ends it
NGINX = """
daemon off; master_process on; worker_processes 1; pid {folder}/pid; error_log {folder}/errors; {user}
events {{}}
http {{
    log_format connections '$connection'; access_log {folder}/connections connections;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_requests {requests};
    server {{
        listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};
        client_max_body_size 50m; proxy_http_version 1.1; proxy_buffering off;
        location / {{ proxy_pass {to}; }}
    }}
}}
"""
PROXY = (
    'Port {port}\nListen 127.0.0.1\nLogFile "{folder}/log"\nLogLevel Connect\nTimeout 600\nMaxClients 10\n'
)


class Front(NamedTuple):
    """An address with TLS in front of a server."""

    url: str
    folder: Path

    def connections(self) -> list[str]:
        """The connection of each request, in order, once nginx has ended."""
        return (self.folder / "connections").read_text().split()


def program(name: str) -> str:
    """Where it is; `scripts/install-test-tools.sh` installs it."""
    unpacked = Path(__file__).parents[2] / ".servers/usr"
    places = ["/usr/sbin", "/usr/local/sbin", unpacked / "sbin", unpacked / "bin"]
    found = shutil.which(name, path=os.pathsep.join(map(str, [os.environ["PATH"], *places])))
    assert found, f"{name} is missing: run scripts/install-test-tools.sh"
    return found


@contextmanager
def fronted(to: ScriptedServer, folder: Path) -> Iterator[Front]:
    """nginx in front of a server; the certificate in its folder is trusted by nobody."""
    _, cert = certificate(folder, "localhost")
    port, key = free_port(), folder / "localhost.key"
    user = "user root;" if folder.owner() == "root" else ""
    about = {"folder": folder, "port": port, "cert": cert, "key": key, "user": user, "requests": REQUESTS}
    (folder / "conf").write_text(NGINX.format(to=to.base_url.removesuffix("/v1"), **about))
    command = [program("nginx"), "-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "errors")]
    with listening(command, port):
        yield Front(f"https://localhost:{port}/v1", folder)


def test_many_requests_over_connections_that_the_server_ends(transport, tmp_path: Path, monkeypatch):
    with ScriptedServer(handler=lambda _: "a") as server, fronted(server, tmp_path) as front:
        assert get_error(client_of(front.url)).kind == "connection"
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        client = client_of(front.url)

        async def work() -> list[str | None]:
            return [(await ask(client)).content for _ in range(2 * REQUESTS + 1)]

        assert run(client, work) == ["a"] * (2 * REQUESTS + 1)
    used = front.connections()
    assert [used.count(each) for each in dict.fromkeys(used)] == [REQUESTS, REQUESTS, 1]


def test_a_long_request_and_an_answer_in_pieces(transport, tmp_path: Path, monkeypatch):
    gate = Gate()
    with ScriptedServer([deltas("first", gate, "last")]) as server, fronted(server, tmp_path) as front:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        client = client_of(front.url)
        long = [{"role": "user", "content": "x" * 5_000_000}]

        async def work() -> list[str]:
            seen = []
            async for delta in client.chat_stream(long):
                if delta.text:
                    seen.append(delta.text)
                    gate.open()  # the rest only comes because the first piece has come
            return seen

        assert run(client, work) == ["first", "last"]
        assert server.requests[0].messages == long


def test_a_server_that_is_reloaded_between_two_requests(transport, tmp_path: Path, monkeypatch):
    with ScriptedServer(handler=lambda _: "a") as server, fronted(server, tmp_path) as front:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        client = client_of(front.url)

        async def work() -> list[str | None]:
            first = (await ask(client)).content
            subprocess.run(
                [program("nginx"), "-p", tmp_path, "-c", tmp_path / "conf", "-s", "reload"],
                check=True,
                capture_output=True,
            )
            return [first, *[(await ask(client)).content for _ in range(REQUESTS)]]

        assert run(client, work) == ["a"] * (REQUESTS + 1)


def test_requests_to_this_machine_bypass_the_proxy(transport, tmp_path: Path, monkeypatch):
    port, folder = free_port(), tmp_path / "proxy"
    folder.mkdir()
    (folder / "conf").write_text(PROXY.format(port=port, folder=folder))
    with ScriptedServer(handler=lambda _: "a") as server, fronted(server, tmp_path) as front:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        with listening([program("tinyproxy"), "-d", "-c", str(folder / "conf")], port):
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            assert get_answer(client_of(front.url), messages=HI).content == "a"
        assert get_answer(client_of(front.url), messages=HI).content == "a"  # nothing goes through it
        assert "CONNECT localhost" not in (folder / "log").read_text()
