"""Tokens that change while the server runs: the old one is refused, the new one accepted, streams end."""

from __future__ import annotations

import json

import pytest
from tests.server.conftest import OWNER, ServerProcess, events_of
from tests.server.test_coming_back import begin
from websockets.exceptions import ConnectionClosed

from pure_agent_loop.server.people import hash_of
from pure_agent_loop.testing import ScriptedServer, call

ADA, EVE = "ada-token-0123456789", "eve-token-0123456789"


def table(**tokens):
    return {name: {"token_sha256": hash_of(token), "roles": ["use"]} for name, token in tokens.items()}


@pytest.fixture
def server(tmp_path):
    """A server whose users are in a file, and whose owner's token is in its folder."""
    (tmp_path / "server").mkdir()
    (tmp_path / "server/token").write_text(OWNER)
    (tmp_path / "users.json").write_text(json.dumps(table(ada=ADA, eve=EVE)))
    with ScriptedServer([call("hold", name="gate"), "held"], strict=False) as model:
        about = {"token": None, "users": str(tmp_path / "users.json")}
        server = ServerProcess(tmp_path, model.base_url, **about).start()
        yield server
        if server.process is not None:
            server.kill()
    errors = (tmp_path / "stderr").read_text()
    assert "Traceback" not in errors, errors


def status(server, token):
    with server.client(token) as client:
        return client.get("/api/me").status_code


def test_token_of_a_user_changes_while_a_run_and_streams_are_open(server):
    with server.client(ADA) as client, server.client(EVE) as eve:
        run = begin(client, "hold the gate")
        cookie = client.post("/api/login", json={"token": ADA}).headers["set-cookie"].partition(";")[0]
        with server.client("", Cookie=cookie) as signed_in:
            assert signed_in.get("/api/me").status_code == 200
        headers = {"Last-Event-ID": "0"}
        with (
            client.stream("GET", f"/api/runs/{run['id']}/events", headers=headers) as stream,
            server.socket(ADA) as socket,
            server.socket(EVE) as other,
        ):
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            assert json.loads(socket.recv())["control"] == "hello"
            assert json.loads(other.recv())["control"] == "hello"
            (server.folder / "users.json").write_text(json.dumps(table(ada="new-token-0123456789", eve=EVE)))
            assert not [line for line in lines if "run_end" in line]  # the stream ends before its run
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=60)
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "signed out")
            other.send(json.dumps({"type": "ping", "id": 1}))
            assert json.loads(other.recv())["control"] == "reply"
        assert client.get("/api/me").status_code == 401
        with server.client("", Cookie=cookie) as signed_in:
            assert signed_in.get("/api/me").status_code == 401
        assert eve.get("/api/me").status_code == 200
    (server.folder / "gate").touch()
    with server.client("new-token-0123456789") as client:  # the run has not ended
        assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"


def test_token_of_the_owner_changes(server):
    assert status(server, OWNER) == 200
    (server.folder / "server/token").write_text("another-owner-token")
    assert (status(server, OWNER), status(server, "another-owner-token")) == (401, 200)
    assert status(server, ADA) == 200


@pytest.mark.parametrize(
    "text", ["{", json.dumps({"ada": {"roles": ["king"]}}), json.dumps(table(owner=ADA))]
)
def test_invalid_file_changes_nothing(server, text):
    (server.folder / "users.json").write_text(text)
    assert (status(server, ADA), status(server, OWNER)) == (200, 200)
    assert (server.folder / "stderr").read_text().count("The users are unchanged") == 1
