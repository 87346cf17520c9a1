"""A key in a file: the next request of each client has the new key, without a restart."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from pure_agent_loop import Agent, ConfigError, KeyFile
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.testing import ScriptedServer


@pytest.mark.parametrize(
    ("model", "header"),
    [
        ("m", "authorization"),
        ("anthropic:m", "x-api-key"),
        ("gemini:m", "x-goog-api-key"),
        ("responses:m", "authorization"),
    ],
)
def test_next_request_has_the_new_key(model, header, tmp_path, caplog):
    path = tmp_path / "key"
    path.write_text("sk-first-key-0123456789\n")
    caplog.set_level(logging.ERROR, "pure_agent_loop")
    with ScriptedServer(handler=lambda _: "fine", strict=False) as server:
        agent = Agent(model, KeyFile(path), server.base_url)
        sent = []
        for text in (None, "sk-second-key-0123456789", None, "", None):
            if text is not None:
                path.write_text(text)
            seen = len(server.requests), len(server.other_requests)
            agent.run("x")  # the server has no other protocol than chat completions, and refuses
            requests = server.requests[seen[0] :] + server.other_requests[seen[1] :]
            sent.append({request.headers[header].removeprefix("Bearer ") for request in requests})
    assert sent == [{"sk-first-key-0123456789"}, *[{"sk-second-key-0123456789"}] * 4]
    assert caplog.text.count("must contain one key on one line. The former key is used.") == 1
    assert "sk-" not in f"{caplog.text}{agent!r}"


def test_requests_that_begin_together_after_a_change_share_one_transport():
    class Open:
        def __init__(self):
            self.is_open = True

        async def close(self):
            await asyncio.sleep(0)
            self.is_open = False

    class Client:
        key = "first"

        def __init__(self):
            self.made = []

        def build(self):
            self.made.append(Open())
            return self.made[-1]

        def current_key(self):
            return self.key

    async def requests():
        client = Client()
        connections = Connections(client.build, client.current_key)
        await connections.transport()
        client.key = "second"
        first, second = await asyncio.gather(connections.transport(), connections.transport())
        assert first is second
        assert [each.is_open for each in client.made] == [False, True]
        await connections.aclose()

    asyncio.run(requests())


def test_new_key_is_redacted_too(tmp_path):
    path = tmp_path / "key"
    path.write_text("first-key-0123456789")
    with ScriptedServer(["x", "It is second-key-0123456789."]) as server:
        agent = Agent("m", KeyFile(path), server.base_url)
        agent.run("x")
        path.write_text("second-key-0123456789")
        assert "second-key" not in str(agent.run("x").events)


def test_file_must_have_a_key(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: FileNotFoundError"):
        KeyFile(tmp_path / "missing")
    for text in ("", "\n", "one\ntwo"):
        (tmp_path / "key").write_text(text)
        with pytest.raises(ConfigError, match="must contain one key"):
            KeyFile(tmp_path / "key")
    (tmp_path / "key").write_text("secret-key")
    assert repr(KeyFile(os.fspath(tmp_path / "key"))) == f"KeyFile({str(tmp_path / 'key')!r})"
