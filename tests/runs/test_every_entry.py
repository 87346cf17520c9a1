"""Every option of `Agent` has its effect at every entry, or the entry refuses it by name.

    python -m tests.runs.test_every_entry   # prints the matrix: a row an option, a column an entry

The options come from the signature of `Agent`, the entries from the signatures that take an agent: a new one
fails here until it has a sample, or a column. The samples of all options are played through each entry at
once, against a recording server, and the requests are those of `Agent.run` with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import httpx2
import pytest
from tests import forked
from tests.acp.editor import Editor
from tests.compatibility.test_public_names import public_names
from tests.serving import serving_app

from pure_agent_loop import (
    Agent,
    AgentLoop,
    AIClient,
    Budget,
    ConfigError,
    Handoff,
    Hooks,
    LoopLimits,
    OpenAIClient,
    PermissionRules,
    Price,
    PureAgentLoopError,
    ReactLoop,
    RetryConfig,
    current_call,
    prompts_for,
    tool,
)
from pure_agent_loop.acp import serve as serve_editor
from pure_agent_loop.durable import Engine
from pure_agent_loop.evaluation import Dataset
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.server import create_app
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedServer, answer, call

OPTIONS = list(inspect.signature(Agent).parameters)
KEY = "sk-a-key-of-this-test"
TOKEN = "a-token-of-this-test"
ROOT = Path(__file__).parents[2]


@tool(idempotent=True)
def look() -> str:
    """Look around."""
    return f"{KEY} seen from {current_call().cwd or 'nowhere'}, " + "x" * 3_000


def reply(request):
    """A model that calls what it may call once, then answers; as the outer agent it asks the inner one."""
    body = request.body
    names = [each["function"]["name"] for each in body.get("tools") or ()]
    results = [message for message in body["messages"] if message["role"] == "tool"]
    if results or not names or body.get("tool_choice") == "none":
        return answer("7", reasoning="Hm.")
    if "write_file" in names:  # `pal acp`
        return call("write_file", path="a.txt", content="x")
    if body["model"] != "outer":
        return call("look")
    if "task" in names:
        return call("task", agent="inner", prompt="go")
    return call(names[0]) if names[0].startswith("transfer_") else call(names[0], input="go")


class Watch:
    """An auditor, a compactor and hooks that leave a trace in a file, which other processes write too."""

    def __init__(self, file):
        self._file = file

    def note(self, word):
        with self._file.open("a") as file:
            file.write(f"{word}\n")

    @property
    def seen(self):
        return self._file.read_text() if self._file.exists() else ""

    def begin(self, record):
        self.note("audit")

    def end(self, record, text, status, seconds):
        self.note(status)

    async def compact(self, state):
        self.note("compact")

    def after_tool(self, tool_name, args, result, context):
        return "A hook was here."


# For each option its sample: all arguments that make it visible, and the option itself among them.
SAMPLES = {
    "model": lambda at: {"model": "another"},
    "api_key": lambda at: {"api_key": "another-key"},
    "base_url": lambda at: {"base_url": f"{at.url}/further"},
    "llm": lambda at: {"llm": OpenAIClient("mine", "k", at.url)},
    "tools": lambda at: {"tools": []},
    "system_prompt": lambda at: {"system_prompt": lambda: "Be brief."},
    "limits": lambda at: {"limits": LoopLimits(max_turns=1, prices={"*": Price(1, 1)})},
    "retry": lambda at: {"retry": RetryConfig(max_retries=0)},
    "temperature": lambda at: {"temperature": 0.25},
    "thinking_level": lambda at: {"thinking_level": "high"},
    "emit_reasoning_events": lambda at: {"emit_reasoning_events": True},
    "output_type": lambda at: {"output_type": list[int]},
    "output_retries": lambda at: {"output_retries": 0, "output_type": list[int]},
    "system_prompt_per": lambda at: {"system_prompt_per": "step", "system_prompt": counted()},
    "mode": lambda at: {"mode": "single"},
    "after_tools": lambda at: {"after_tools": "And now?"},
    "facts": lambda at: {"facts": lambda: "[Facts]\nhere"},
    "tool_mode": lambda at: {"tool_mode": "text"},
    "language": lambda at: {"language": "zh"},
    "prompts": lambda at: {"prompts": prompts_for("zh")},
    "profile": lambda at: {"profile": Profile("mine", output_limit_field="n"), "max_tokens": 9},
    "permission_mode": lambda at: {"permission_mode": "plan"},
    "permission_rules": lambda at: {"permission_rules": PermissionRules(deny=["look"])},
    "can_use_tool": lambda at: {"can_use_tool": lambda tool, args, context: "deny"},
    "on_ask": lambda at: {"on_ask": lambda request: "allow", "permission_mode": "ask"},
    "hooks": lambda at: {"hooks": Hooks(after_tool=[at.watch.after_tool])},
    "budget": lambda at: {"budget": Budget(max_tokens=10)},
    "name": lambda at: {"name": "renamed"},
    "description": lambda at: {"description": "Something else."},
    "starters": lambda at: {"starters": ["Begin."]},
    "handoffs": lambda at: {"handoffs": [Agent(api_key="k", base_url=at.url, name="next", description="N.")]},
    "cwd": lambda at: {"cwd": at.folder},
    "audit": lambda at: {"audit": at.watch},
    "snapshots": lambda at: {"snapshots": None},
    "subagents": lambda at: {"subagents": SubagentManager()},
    "compaction": lambda at: {"compaction": at.watch},
    "context_window": lambda at: {"context_window": 400},
    "max_result_chars": lambda at: {"max_result_chars": 200},
    "results_folder": lambda at: {"results_folder": at.folder / "results", "max_result_chars": 200},
    "sessions": lambda at: {"sessions": at.folder / "sessions"},
    "first_byte_timeout": lambda at: {"first_byte_timeout": 45.0},
    "idle_timeout": lambda at: {"idle_timeout": 45.0},
    "tool_timeout": lambda at: {"tool_timeout": 0.05, "tools": [stuck()]},
    "redact": lambda at: {"redact": False},
    "tool_attempts": lambda at: {"tool_attempts": 2, "tool_retry_delay": 0.0, "tools": [failing()]},
    "tool_retry_delay": lambda at: {"tool_retry_delay": 0.0},
    "llm_kwargs": lambda at: {"top_p": 0.25, "seed": 7},
}
# Options without a trace in a run that works, or whose lack would take minutes to see.
UNSEEN = {
    "retry",
    "emit_reasoning_events",
    "name",
    "description",
    "starters",
    "snapshots",
    "sessions",
    "first_byte_timeout",
    "idle_timeout",
    "tool_timeout",
    "tool_retry_delay",
}
# (entry, option): why the entry decides it and says so in its documentation.
DECIDED = {
    ("ReactLoop", "mode"): "a loop runs until the model answers",
    ("tools=[agent]", "redact"): "the redaction of both agents applies",
    ("AgentDefinition", "redact"): "the redaction of both agents applies",
    ("hand-off", "redact"): "the redaction of both agents applies",
    ("hand-off", "limits"): "the limits count the steps of all agents of a run",
    ("hand-off", "facts"): "facts go behind what the outer agent has sent already",
    ("hand-off", "budget"): "the first request is as long as the last one of the outer agent",
}


def counted():
    """A prompt function that writes another text each time."""
    texts = iter(f"Text {number}." for number in range(9))
    return lambda: next(texts)


def failing():
    """The tool `look`, which works at its second attempt."""
    outcomes = iter([ValueError("busy")])

    @tool(name="look", idempotent=True)
    def flaky() -> str:
        """Look around."""
        for error in outcomes:
            raise error
        return "seen"

    return flaky


def stuck():
    """The tool `look`, which never ends."""

    @tool(name="look")
    async def waiting() -> str:
        """Look around."""
        await asyncio.Event().wait()
        return ""

    return waiting


class Place:
    """One option at one entry: its address at the server, its folder and its watch."""

    def __init__(self, url, folder, option, *, without=False):
        self.url, self.folder, self.option, self.without = url, folder, option, without
        folder.mkdir(parents=True, exist_ok=True)
        self.watch = Watch(folder / "seen")

    @property
    def given(self):
        """Arguments of the inner agent, with the sample of the option."""
        sample = SAMPLES[self.option](self)
        if self.without:
            del sample["top_p" if self.option == "llm_kwargs" else self.option]
        base = {
            "api_key": KEY,
            "base_url": self.url,
            "model": "inner",
            "name": "inner",
            "description": "Looks.",
        }
        if "llm" in sample:
            base = {name: base[name] for name in ("name", "description")}
        return {**base, "tools": [look], **sample}

    def agent(self):
        return Agent(**self.given)

    def outer(self, **options):
        """Run an agent that asks the inner one, or hands over to it."""
        Agent("outer", "outer-key", self.url, **options).run("go")


# -- entries: each is given the places of all options, and returns the refusals ------------------------------


def one_by_one(run):
    """An entry that runs the options in turn."""

    def enter(places):
        refused = {}
        for place in places:
            try:
                run(place)
            except ConfigError as error:  # noqa: PERF203 - each option is tried
                refused[place.option] = str(error)
            except PureAgentLoopError:
                pass  # the outcome is the same; what was sent counts
        return refused

    return enter


def serve(places, take):
    """What an entry makes of the agents, the names of these, and its refusals, which name an agent each."""
    agents, refused = {place.option: place.agent() for place in places}, {}
    while True:
        try:
            return take(agents), list(agents), refused
        except ConfigError as error:  # noqa: PERF203 - until none is refused
            option = re.findall(r"agents\['(\w+)'\]", str(error))[0]
            refused[option] = str(error)
            del agents[option]


def as_definition(place):
    manager = SubagentManager([AgentDefinition("inner", "Looks.", "", agent=place.agent())])
    place.outer(subagents=manager)


def as_assistant(place):
    given = place.given
    loop = AgentLoop(
        None, place.folder, session_manager=place.folder / "s", audit=given.pop("audit", None), **given
    )
    asyncio.run(loop.process_direct("go", "one"))


# Options of `pal acp` by option of `Agent`; for any other option it is asked for one of the same name.
FLAGS = {
    "model": ["--model", "another"],
    "tools": ["--tools", "read"],
    "limits": ["--max-turns", "1"],
    "temperature": ["--temperature", "0.25"],
    "thinking_level": ["--thinking", "high"],
    "tool_mode": ["--tool-mode", "text"],
    "permission_mode": ["--permission-mode", "plan"],
    "permission_rules": ["--deny", "write_file"],
    "subagents": ["--subagents"],
}


def in_editor(places):
    """`pal acp` in this process: one connection for each option that it has."""
    from pure_agent_loop.cli.arguments import read_options
    from pure_agent_loop.cli.options import CommandOptions
    from pure_agent_loop.cli.output import CommandOutput
    from pure_agent_loop.cli.parser import parse
    from pure_agent_loop.cli.protocols.acp import _Folders

    refused = {}
    for place in places:
        flag = FLAGS.get(place.option, [f"--{place.option.replace('_', '-')}", f"{place.url}/further"])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                options = read_options(CommandOptions, parse(["acp", *([] if place.without else flag)]))
            except SystemExit:
                refused[place.option] = said.getvalue()
                continue
        variables = {"PAL_MODEL": "inner", "PAL_API_KEY": KEY, "PAL_BASE_URL": place.url}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            with talking(_Folders(options, CommandOutput())) as editor:
                editor.begin()
                opened = editor.error("session/new", {"cwd": str(place.folder), "mcpServers": []})
                if "error" in opened:
                    refused[place.option] = opened["error"]["message"]
                else:
                    editor.prompt(opened["result"]["sessionId"], "go")
    return refused


@contextlib.contextmanager
def talking(host):
    """An editor that talks with a host in this process."""
    pipes = [os.pipe(), os.pipe()]
    (source, stdin), (stdout, sink) = [[os.fdopen(pipe[0], "rb"), os.fdopen(pipe[1], "wb")] for pipe in pipes]
    thread = threading.Thread(target=lambda: asyncio.run(serve_editor(host, source, sink)))
    thread.start()
    try:
        yield Editor(SimpleNamespace(stdin=stdin, stdout=stdout))
    finally:
        stdin.close()
        thread.join()
        for stream in (sink, stdout, source):
            stream.close()


def database(places):
    return f"sqlite:///{places[0].folder.parent / 'work.sqlite'}"


def in_engine(places):
    engine, names, refused = serve(places, lambda agents: Engine(database(places), agents=agents))
    with engine:
        for handle in [engine.submit(name, "go") for name in names]:
            handle.result()
    return refused


def in_worker(places):
    engine, names, refused = serve(places, lambda agents: Engine(database(places), agents=agents))
    engine.close()
    settings = {"FOLDER": places[0].folder.parent, "URL": places[0].url.rpartition("/")[0]}
    env = {**os.environ, **{f"TEST_{name}": str(value) for name, value in settings.items()}}
    command = [
        sys.executable,
        "-m",
        "pure_agent_loop",
        "worker",
        "--agents",
        "tests.runs.test_every_entry:agents_of_worker",
    ]
    command += ["--database", database(places), "--concurrency", "8"]
    env["TEST_OPTIONS"] = ",".join(names)
    pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with forked.Popen(command, env=env, cwd=ROOT, **pipes) as worker, Engine(database(places)) as engine:
        try:
            said = []
            while "queues" not in "".join(said[-1:]):
                said.append(worker.stderr.readline())
                assert said[-1], "".join(said)
            for handle in [engine.submit(name, "go") for name in names]:
                handle.result(60)
        finally:
            worker.terminate()
            worker.communicate()
    return refused


def agents_of_worker():
    """Called in the process of the worker."""
    url, folder = os.environ["TEST_URL"], Path(os.environ["TEST_FOLDER"])
    names = os.environ["TEST_OPTIONS"].split(",")
    return {name: Place(f"{url}/{name}", folder / name, name).agent() for name in names}


def over_http(work):
    """An entry of the HTTP server: `work` is given a client, its address, and the names of the agents."""

    def enter(places):
        many, folder = len(OPTIONS), places[0].folder.parent / "server"
        settings = {"token": TOKEN, "folder": folder, "max_running": many, "max_running_each": many}
        app, names, refused = serve(places, lambda agents: create_app(agents, **settings))

        async def play_all():
            async with (
                serving_app(app) as url,
                httpx2.AsyncClient(
                    headers={"Authorization": f"Bearer {TOKEN}"}, base_url=url, timeout=60
                ) as client,
            ):
                await work(client, f"{url}/mcp", names)

        asyncio.run(play_all())
        return refused

    return enter


async def as_runs(client, _, names):
    runs = [(await client.post("/api/runs", json={"text": "go", "agent": name})).json() for name in names]
    for run in runs:
        events = await client.get(f"/api/runs/{run['id']}/events")
        assert "run_end" in events.text


async def as_completions(client, _, names):
    messages = [{"role": "user", "content": "go"}]
    for name in names:
        response = await client.post("/v1/chat/completions", json={"model": name, "messages": messages})
        assert response.json()


async def as_mcp_tools(client, url, names):
    from mcp.client.streamable_http import streamable_http_client

    from mcp import Client

    async with Client(streamable_http_client(url, http_client=client)) as mcp:
        for name in names:
            assert (await mcp.call_tool(name, {"task": "go"})).content


ENTRIES = {
    "run": one_by_one(lambda place: place.agent().run("go")),
    "conversation": one_by_one(lambda place: place.agent().conversation().send_sync("go")),
    "session": one_by_one(lambda place: place.agent().run("go", session_id=place.option)),
    "clone": one_by_one(lambda place: place.agent().clone().run("go")),
    "tools=[agent]": one_by_one(lambda place: place.outer(tools=[place.agent()])),
    "hand-off": one_by_one(lambda place: place.outer(handoffs=[Handoff(place.agent(), filter="task")])),
    "AgentDefinition": one_by_one(as_definition),
    "ReactLoop": one_by_one(lambda place: asyncio.run(ReactLoop(place.agent()).run("go"))),
    "AIClient": one_by_one(lambda place: AIClient(**{"mode": "react", **place.given}).run("go")),
    "Dataset.run": one_by_one(lambda place: Dataset(["go"]).run(place.agent())),
    "Engine": in_engine,
    "worker": in_worker,
    "HTTP": over_http(as_runs),
    "HTTP, /v1": over_http(as_completions),
    "MCP": over_http(as_mcp_tools),
}
ASSISTANTS = {"AgentLoop": one_by_one(as_assistant), "ACP": in_editor}


# -- the matrix ---------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """What one entry leaves, by option; its refusals; whether sessions are in the store of their agent."""

    found: dict[str, str]
    refused: dict[str, str]
    keeps_sessions: bool


def play(enter, folder, options, *, without=False):
    """For each option what the inner agent asks of the server, and what its observers see; or the refusal."""
    with ScriptedServer(handler=reply, check=False) as server:
        url = server.base_url
        places = [Place(f"{url}/{option}", folder / option, option, without=without) for option in options]
        refused = enter(places)
        sent = defaultdict(list)
        for each in server.requests:
            if each.method == "POST" and each.body["model"] != "outer":
                option, _, path = each.path.partition("/v1/")[2].partition("/")
                sent[option].append((path, each.headers.get("authorization"), each.body))
    assert not (refused.keys() & sent.keys()), "refused after requests"
    found = {place.option: refused.get(place.option) or trace(sent[place.option], place) for place in places}
    return Column(found, refused, keeps_sessions=(folder / "sessions" / "sessions").is_dir())


def trace(sent, place):
    """The text of what one option leaves, without addresses and folders, which differ between places."""
    text = repr((sent, place.watch.seen, (place.folder / "results").is_dir()))
    return text.replace(place.url, "").replace(str(place.folder), "")


@cache
def column(entry, *, without=False):
    """What an entry does with the sample of each option, or with the sample without the option."""
    refused = column(entry).refused if without else ()
    options = [each for each in OPTIONS if not (without and (each in UNSEEN or each in refused))]
    with tempfile.TemporaryDirectory() as folder:
        return play({**ENTRIES, **ASSISTANTS}[entry], Path(folder), options, without=without)


def cells(entry):
    """The column of an entry: how it takes each option."""
    found, refused, _ = column(entry)
    if entry in ASSISTANTS:  # their prompt and tools are their own, so what counts is what the option changes
        wanted, expected = "used", column(entry, without=True).found
        right = {option for option in OPTIONS if found[option] != expected.get(option)}
    else:
        wanted, expected = "same", column("run").found
        right = {option for option in OPTIONS if found[option] == expected[option]}
    decided = {option for name, option in DECIDED if name == entry}
    words = {option: "decided" if option in decided else "WRONG" for option in OPTIONS}
    words |= dict.fromkeys(right, wanted) | dict.fromkeys(refused, "refused")
    return words


def matrix():
    """The matrix as lines of text."""
    columns = {entry: cells(entry) for entry in (*ENTRIES, *ASSISTANTS)}
    wide = max(map(len, OPTIONS))
    yield " ".join([" " * wide, *(entry.ljust(8) for entry in columns)])
    for option in OPTIONS:
        words = [column[option].ljust(max(8, len(entry))) for entry, column in columns.items()]
        yield " ".join([option.ljust(wide), *words]).rstrip()


# Public names that take an agent, with the entry that stands for each.
TAKE_AGENTS = {
    "Agent.handoffs": "hand-off",
    "Handoff.agent": "hand-off",
    "Agent.add_handoff.agent": "hand-off",
    "ReactLoop.llm": "ReactLoop",
    "ReactLoop.client": "ReactLoop",
    "SessionManager.resume.agent": "session",
    "SessionManager.aresume.agent": "session",
    "AgentDefinition.agent": "AgentDefinition",
    "AIClient.add_handoff.agent": "hand-off",
    "AIClient.handoffs": "hand-off",
    "Dataset.run.agent": "Dataset.run",
    "Dataset.arun.agent": "Dataset.run",
    "submit.agent": "Engine",
    "Engine.agents": "Engine",
    "Worker.agents": "worker",
    "RayEngine.agents": "Engine",  # of the engines that need other programs, tests/engines
    "TableEngine.agents": "Engine",  # what these are made of
    "SessionWorker.agents": "Engine",
    "restate_app.agents": "Engine",
    "create_app.agents": "HTTP",
    "AgentServer.agents": "MCP",
    "AgentServer.tools": "MCP",  # its tools are called one by one, and its model never
    "assert_replays.agent": "session",
    "Run.first": "hand-off",
    **dict.fromkeys(("Contains.check.agent", "Equals.check.agent", "MaxCost.check.agent"), "Dataset.run"),
    "Trial.agent": "Dataset.run",
}
AGENTS = re.compile(r"\b(Agent|HandoffTarget)\b(?!\.)")


def takers():
    """Parameters of public functions and classes that take an agent which they run."""
    for module, name in public_names():
        value = getattr(importlib.import_module(module), name, None)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
        functions = {name: value, **{f"{name}.{each}": method for each, method in members if each[0] != "_"}}
        for function, target in functions.items():
            with contextlib.suppress(TypeError, ValueError):
                for parameter in inspect.signature(target).parameters.values():
                    if AGENTS.search(str(parameter.annotation)):
                        yield f"{function}.{parameter.name}"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))


def test_each_option_has_a_sample():
    assert list(SAMPLES) == OPTIONS
    assert set(OPTIONS) >= UNSEEN


def test_each_taker_of_agents_has_an_entry():
    assert {*takers()} == {*TAKE_AGENTS}
    assert {*TAKE_AGENTS.values()} <= {*ENTRIES}


def test_each_sample_can_be_seen():
    found, expected = column("run").found, column("run", without=True).found
    assert {option for option in expected if found[option] == expected[option]} == set()


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry != "run"])
def test_entry_sends_the_requests_of_run(entry):
    expected, (found, refused, _) = column("run").found, column(entry)
    wrong = [option for option, cell in cells(entry).items() if cell == "WRONG"]
    assert {option: found[option] for option in wrong} == {option: expected[option] for option in wrong}
    assert all(f"{option}=" in text or f"agents[{option!r}]" in text for option, text in refused.items())


@pytest.mark.parametrize("entry", ASSISTANTS)
def test_assistant_uses_or_refuses_each_option(entry):
    refused = column(entry).refused
    assert [option for option, cell in cells(entry).items() if cell == "WRONG"] == []
    flags = {option: option.replace("_", "-") for option in refused}
    assert all(f"{option}=" in text or f"--{flags[option]}" in text for option, text in refused.items())


@pytest.mark.parametrize("entry", ["session", "Engine", "worker", "HTTP", "MCP"])
def test_sessions_are_kept_where_the_agent_says(entry):
    assert "sessions" in column(entry).refused or column(entry).keeps_sessions


if __name__ == "__main__":
    logging.disable()  # of tools that fail once
    with tempfile.TemporaryDirectory() as home_folder:
        os.environ["PAL_HOME"] = home_folder
        print(*matrix(), sep="\n")
