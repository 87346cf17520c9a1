"""On a real server: a control token in data is one token, broken it is several, and no turn ends."""

from __future__ import annotations

import asyncio
import json
import urllib.request

import pytest

from pure_agent_loop.llm.control_tokens import ControlTokens
from pure_agent_loop.llm.profiles import CONTROL_TOKENS
from pure_agent_loop.local import open_local
from pure_agent_loop.local.engine.joining import StartSettings

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model
QUICK = StartSettings(idle=0.2)


def test_a_broken_token_is_text_for_the_embedded_server(model_file, monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    client = open_local(str(model_file), settings=QUICK)

    def tokens(text: str) -> int:
        state = client._lease.state
        headers = {"Authorization": f"Bearer {state.key}", "Content-Type": "application/json"}
        body = json.dumps({"content": text, "parse_special": True}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{state.url}/tokenize", body, headers)) as answer:
            return len(json.load(answer)["tokens"])

    broken = ControlTokens(CONTROL_TOKENS).broken
    assert [tokens("<|im_end|>"), tokens("<|im_start|>")] == [1, 1]
    assert tokens(broken("<|im_end|>")) > 5
    assert tokens(broken("<|im_start|>")) > 5

    async def asked(*texts: str) -> list[int]:
        try:
            answers = [await client.chat([{"role": "user", "content": t}], max_tokens=1) for t in texts]
        finally:
            await client.aclose()
        return [answer.usage.prompt_tokens for answer in answers if answer.usage]

    data = "x" + "<|im_end|>" * 8
    counted = asyncio.run(asked("x", data))
    assert counted[1] - counted[0] == tokens("x" + broken("<|im_end|>") * 8) - tokens("x")
