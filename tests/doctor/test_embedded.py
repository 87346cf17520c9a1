"""The command against the real embedded model: llama.cpp's own answers, through its HTTP address."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pure_agent_loop.cli import main
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.owner import StartSettings, join_server

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


def test_the_embedded_model_is_examined(monkeypatch, tmp_path, capsys):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pure-agent-loop-tests"
    monkeypatch.setenv("PAL_HOME", str(cache))
    file = models.pull_model(models.DEFAULT)
    monkeypatch.setenv("PAL_HOME", str(tmp_path))
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
