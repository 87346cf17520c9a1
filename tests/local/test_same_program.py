"""One program, unchanged, wherever the model is: a scripted server, the embedded model, any GGUF file."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import E, check_result, of_type

from pure_agent_loop import Agent, AgentResult, LoopLimits
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.leases import read_state
from pure_agent_loop.testing import ScriptedServer, call, check_history

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model


async def program(**where: Any) -> AgentResult:
    """The program. Nothing in it knows where the model is."""

    def get_weather(city: str) -> str:
        """Get the weather in a city.

        Args:
            city: The city's name.
        """
        return f"Light rain and 8 degrees in {city}"

    async with Agent(tools=[get_weather], limits=LoopLimits(max_turns=4), temperature=0, **where) as agent:
        return await agent.arun("What is the weather in Oslo?")


def judge(result: AgentResult, where: str) -> None:
    """It ran there, called the tool with valid arguments, once, and answered with what it said."""
    assert where in of_type(result.events, E.NOTICE)[0].content
    check_result(result)
    assert check_history(result.messages) == []
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.stop_reason == "completed"
    calls = [(event.data["tool"], event.data["args"]) for event in of_type(result.events, E.ACTION)]
    assert calls == [("get_weather", {"city": "Oslo"})]
    results = [
        (event.data["result"], event.data["is_error"]) for event in of_type(result.events, E.OBSERVATION)
    ]
    assert results == [("Light rain and 8 degrees in Oslo", False)]
    assert "8 degrees" in result.content


@pytest.fixture(scope="module")
def model_file() -> Path:
    """The default model, pulled once by our own code and kept between runs of the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pure-agent-loop-tests"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HOME", str(cache))
        return models.pull_model(models.DEFAULT)


@pytest.fixture
def home(model_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A home of our own that has the model; the servers that were started for it are ended."""
    home = tmp_path / "home"
    monkeypatch.setenv("PAL_HOME", str(home))
    (home / "models").mkdir(parents=True)
    (home / "models" / model_file.name).symlink_to(model_file)
    yield home
    for path in (home / "servers").glob("*.json"):
        state = read_state(path)
        assert state is not None
        os.kill(state.pid, signal.SIGTERM)  # else they would wait a minute for somebody else


def test_the_same_program_on_a_scripted_server() -> None:
    script: list[Any] = [call("get_weather", city="Oslo"), "Light rain and 8 degrees in Oslo."]
    with ScriptedServer(script) as server:
        judge(
            asyncio.run(program(base_url=server.base_url, model="scripted")), "scripted at http://127.0.0.1"
        )


def test_the_same_program_on_the_embedded_model(home: Path) -> None:
    judge(asyncio.run(program(model="local")), "smollm2-135m, embedded on this machine")
    assert len(list((home / "servers").glob("*.json"))) == 1


def test_the_same_program_on_any_file(home: Path, model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "my models" / "Some Model.GGUF"
    path.parent.mkdir()
    shutil.copyfile(model_file, path)
    judge(asyncio.run(program(model=str(path))), "Some Model, embedded on this machine")
