"""The default model itself, through everything: fetched, served, shared, and driven by an agent."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.errors import LLMError
from pure_agent_loop.local import EmbeddedClient, open_local
from pure_agent_loop.local.engine.joining import StartSettings, join_server
from pure_agent_loop.local.engine.leases import take_lease
from pure_agent_loop.tool import tool
from pure_agent_loop.toolbox import starter_tools

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.local_model

HELLO = [{"role": "user", "content": "Hello, how are you?"}]
COUNT = [{"role": "user", "content": "Count to five."}]
QUICK = StartSettings(idle=0.2)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def wait_for_end(pid):
    """Return once a process that is not our child has ended; the time limit is the test run's own."""
    if hasattr(os, "pidfd_open"):
        import select

        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        select.select([handle], [], [], 60)
        os.close(handle)


def test_a_typed_answer_is_held_to_its_form(model_file):
    @dataclass
    class City:
        name: str
        inhabitants: int

    client = open_local(str(model_file), settings=QUICK)
    agent = Agent(llm=client, output_type=City)
    assert agent.explain("x").output == "prompted"
    result = agent.run("Name a city in France.")
    assert isinstance(result.output, City), result
    assert isinstance(agent.run("What is 2 + 3?", output_type=int).output, int)
    assert isinstance(agent.run("Sunny?", output_type=bool, tools=starter_tools(".")).output, bool)
    asyncio.run(client.aclose())


def test_a_newcomers_questions_are_answered_by_calling_tools(model_file, tmp_path):
    work = tmp_path / "work"
    (work / "docs").mkdir(parents=True)
    (work / "docs" / "guide.md").write_text("The answer is in the manual.")
    (work / "notes.txt").write_text("Buy milk.")

    async def ask():
        client = open_local(str(model_file), settings=QUICK)
        agent = Agent(llm=client, tools=starter_tools(work), limits=LoopLimits(max_turns=4), temperature=0)
        try:
            return [
                await agent.arun(question)
                for question in (
                    "Which files are in the docs folder?",
                    "What does the file notes.txt say?",
                    "What is 17 * 23?",
                )
            ], await client.chat(
                HELLO, [tool(t).to_openai_schema() for t in starter_tools(work)], max_tokens=8
            )
        finally:
            await client.aclose()

    results, hello = asyncio.run(ask())
    calls = [
        [(e.data["tool"], e.data["args"]) for e in r.events if e.type.value == "action"] for r in results
    ]
    assert calls[0] == [("list_dir", {"path": "docs"})]
    assert calls[1] == [("read_file", {"path": "notes.txt"})]
    assert calls[2] == [("calculator", {"expression": "17 * 23"})]
    assert hello.content
    assert not hello.tool_calls
    for result, value in zip(results, ["guide.md", "Buy milk.", "391"], strict=True):
        assert result.stop_reason == "completed"
        assert value in result.content
        assert result.usage.total_tokens > 0


def test_words_are_streamed_and_chinese_does_no_harm(model_file):
    async def ask():
        client = open_local(str(model_file), settings=QUICK)
        try:
            pieces = [d.text async for d in client.chat_stream(COUNT, temperature=0, max_tokens=24)]
            chinese = await client.chat(
                [{"role": "user", "content": "docs 文件夹里有哪些文件？"}],
                [
                    _schema("list_dir", path={"type": "string"}),
                    _schema("send", to={"type": "string"}, n={"type": "integer"}),
                ],
            )
            return pieces, chinese
        finally:
            await client.aclose()

    pieces, chinese = asyncio.run(ask())
    assert len([piece for piece in pieces if piece]) > 1
    assert chinese.finish_reason in ("stop", "output_limit")


def _schema(name, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def test_processes_share_one_server_which_outlives_a_killed_user_and_ends_with_the_last(model_file, home):
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from pure_agent_loop.local.engine.joining import StartSettings, join_server\n"
        "lease = join_server(Path(sys.argv[1]), settings=StartSettings(idle=0.2))\n"
        "print(lease.state.pid, flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(model_file)]
    users = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    pids = {int(user.stdout.readline()) for user in users}
    assert len(pids) == 1
    lease = join_server(model_file, settings=QUICK)
    assert {lease.state.pid} == pids
    for user in users:
        user.send_signal(signal.SIGKILL)
        user.communicate()
    another = take_lease(lease.state)
    assert another
    another.release()
    lease.release()
    wait_for_end(pids.pop())
    assert take_lease(lease.state) is None
    assert not list((home / "servers").glob("*.json"))


def test_a_killed_server_is_replaced(model_file):
    first = join_server(model_file, settings=QUICK)
    os.kill(first.state.pid, signal.SIGKILL)
    wait_for_end(first.state.pid)
    first.release()
    second = join_server(model_file, settings=QUICK)
    assert second.state.pid != first.state.pid
    second.release()
    wait_for_end(second.state.pid)


def test_a_file_the_engine_refuses_is_reported_with_its_log(tmp_path):
    (tmp_path / "odd.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(LLMError, match="failed to load model"):
        join_server(tmp_path / "odd.gguf")


def test_the_client_says_which_model_it_is(model_file):
    client = open_local(str(model_file), settings=QUICK)
    assert isinstance(client, EmbeddedClient)
    assert client.name == "smollm2-135m"
    asyncio.run(client.aclose())
