"""The command against the real embedded model: llama.cpp's own answers, through its HTTP address."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from pure_agent_loop import AnthropicClient, ResponsesClient
from pure_agent_loop.cli import main
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.local.client import ONE_REQUEST_A_CONNECTION
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.joining import StartSettings, join_server

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


@pytest.fixture
def file(monkeypatch, tmp_path):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pure-agent-loop-tests"
    monkeypatch.setenv("PAL_HOME", str(cache))
    pulled = models.pull_model(models.DEFAULT)
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
    return pulled


@pytest.mark.parametrize("kind", [AnthropicClient, ResponsesClient])
def test_its_server_streams_other_protocols(file, kind):
    async def answer(url, key):
        client = kind(file.stem, key, url, default_headers=ONE_REQUEST_A_CONNECTION)
        try:
            stream = client.chat_stream([{"role": "user", "content": "Say hello."}], max_tokens=16)
            return await assembled(stream)
        finally:
            await client.aclose()

    lease = join_server(file, settings=StartSettings(idle=0.2))
    try:
        response = asyncio.run(answer(f"{lease.state.url}/v1", lease.state.key))
    finally:
        lease.release()
    assert response.content
    assert response.usage.completion_tokens > 0


def test_the_embedded_model_is_examined(file, capsys):
    lease = join_server(file, settings=StartSettings(idle=0.2))  # the command joins it
    try:
        code = main(["doctor", "--model", str(file), "--json"])
    finally:
        lease.release()
    done = capsys.readouterr()
    result = json.loads(done.out)
    found = {each["name"]: each["verdict"] for each in result["findings"]}
    sure = [
        "reachable",
        "plain answer",
        "streaming",
        "usage",
        "usage in streams",
        "max_tokens",
        "JSON schema",
    ]
    assert {found[name] for name in sure} == {"yes"}
    assert found["context size"] == "yes"
    assert found["tools reach the model"] == "no"
    assert "failed" not in found.values()
    assert (code, result["key"], result["can_drive"]) == (0, False, True)
    assert result["tool_mode"] != "native"
    assert lease.state.key not in done.out + done.err
