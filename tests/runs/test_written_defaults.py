"""A constructor called bare and with its own defaults written out sends the same requests.

The defaults come from the signatures, so a new option is in this test at once. They are written as other
objects of the same value: as a caller writes them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
from typing import Any

import pytest
from tests.assistant.images import png
from tests.compatibility.test_public_names import public_names

import pure_agent_loop
from pure_agent_loop import (
    Agent,
    AgentLoop,
    AIClient,
    AnthropicClient,
    BaseLLMClient,
    BedrockClient,
    Budget,
    ContextBuilder,
    Fallback,
    GeminiClient,
    Handoff,
    Hooks,
    Image,
    Limiter,
    LLMResponse,
    LoopLimits,
    MemoryStore,
    OpenAIClient,
    PermissionRules,
    PersonaConfig,
    Profile,
    ReactLoop,
    ResponsesClient,
    RetryConfig,
    SessionManager,
    SkillsLoader,
    TokenUsage,
    Tool,
    ToolRegistry,
    VertexClient,
    tool,
)
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedServer, answer, call
from pure_agent_loop.testing.faults import status
from pure_agent_loop.toolbox import Fetch, Shell, Workspace, workspace_tools

THINKING = Profile("mine", thinking_off={"think": False}, thinking={"think": "{level}"})
# Parameters whose default is more than a value, and why.
DECIDED = {"model": "a model that was named is never replaced, see test_default_model.py"}


@tool
def look() -> str:
    """Look around."""
    return "seen"


class Recorder(BaseLLMClient):
    """A client on this machine that records its options, timeouts included."""

    takes_timeouts = True
    base_url = "http://127.0.0.1:9/v1"

    def __init__(self):
        self.seen = []

    async def chat(self, messages, tools=None, **options):
        self.seen.append((messages, tools, options))
        return LLMResponse("done", [], TokenUsage(1, 1, 2), None)


def reply(request):
    """A model that refuses each optional field, calls once what it may call, then answers."""
    for field in ("temperature", "max_tokens", "think"):
        if field in request.body:
            return status(400, f"Unsupported parameter: '{field}'", kind="invalid_request_error")
    names = [each["function"]["name"] for each in request.body.get("tools") or ()]
    results = [message for message in request.body["messages"] if message["role"] == "tool"]
    return answer("done") if results or not names else call(names[0], **ARGUMENTS.get(names[0], {}))


ARGUMENTS = {
    "task": {"agent": "inner", "prompt": "go"},
    "list_dir": {"path": "."},
    "fetch": {"url": "http://x.invalid/"},
    "shell": {"command": "true"},
    "memory_write": {"text": "tea"},
    "load_skill": {"name": "brew"},
}


class Place:
    """A folder and a server, with ways to use what a constructor makes."""

    def __init__(self, server, folder):
        self.server, self.folder, self.recorder = server, folder, Recorder()
        self.at = {"api_key": "k", "base_url": server.base_url, "tools": [look]}
        skill = folder / "skills" / "brew"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: brew\ndescription: Makes tea.\n---\nBoil it.\n")

    def agent(self, **options):
        Agent(**{**self.at, **options}).run("go")

    def client(self, client):
        return Agent(llm=client, tools=[look]).explain("go").request

    def loop(self, loop):
        asyncio.run(loop.run("go"))

    def assistant(self, **options):
        loop = AgentLoop(
            OpenAIClient("m", "k", self.server.base_url),
            self.folder,
            session_manager=options.pop("session_manager", self.folder / "sessions"),
            **options,
        )
        asyncio.run(loop.process_direct("go", "one"))

    def builder(self, **options):
        self.assistant(context_builder=ContextBuilder(self.folder, **options))


def own(client):
    return lambda at: ({"model": "m", "api_key": "k", **client}, at.client)


# Each class with its uses: given a place, the arguments that differ from the defaults, and the use of what
# was made with them.
USES: dict[type, list[Any]] = {
    Agent: [
        lambda at: (at.at, lambda it: it.run("go")),
        lambda at: ({**at.at, "language": "zh"}, lambda it: it.run("go")),
        lambda at: ({**at.at, "profile": THINKING}, lambda it: it.run("go")),
        lambda at: ({"llm": at.recorder, "model": None}, lambda it: it.run("go")),
    ],
    AIClient: [lambda at: (at.at, lambda it: it.chat("go"))],
    ReactLoop: [
        lambda at: ({"llm": Agent(**at.at)}, at.loop),
        lambda at: ({"llm": Agent(**at.at, limits=LoopLimits(max_turns=30))}, at.loop),
        lambda at: ({"llm": Agent(**at.at, system_prompt="Mine."), "max_steps": 1}, at.loop),
    ],
    AgentLoop: [
        lambda at: (
            {"provider": OpenAIClient("m", "k", at.server.base_url), "workspace": at.folder},
            lambda it: asyncio.run(it.process_direct("go", "one")),
        )
    ],
    ContextBuilder: [
        lambda at: ({"workspace": at.folder}, lambda it: at.assistant(context_builder=it)),
        lambda at: ({"workspace": at.folder, "language": "zh"}, lambda it: it.build_messages([], "q")[0]),
    ],
    MemoryStore: [lambda at: ({"workspace": at.folder}, lambda it: at.builder(memory=it))],
    SkillsLoader: [lambda at: ({"folders": [at.folder / "skills"]}, lambda it: at.builder(skills=it))],
    PersonaConfig: [
        lambda at: ({}, lambda it: at.builder(persona_config=it)),
        lambda at: ({}, lambda it: at.builder(persona_config=it, language="zh")),
    ],
    SessionManager: [lambda at: ({"root": at.folder / "s"}, lambda it: at.assistant(session_manager=it))],
    OpenAIClient: [
        lambda at: ({"model": "m", "base_url": at.server.base_url}, lambda it: Agent(llm=it).run("go")),
        lambda at: (
            {"model": "m", "base_url": at.server.base_url, "profile": THINKING},
            lambda it: Agent(llm=it).run("go"),
        ),
        own({"base_url": "https://api.deepseek.com"}),
    ],
    AnthropicClient: [own({"model": "claude-opus-5-5"}), own({"model": "claude-haiku-4-5"})],
    GeminiClient: [own({"model": "gemini-2.5-flash"})],
    ResponsesClient: [own({})],
    BedrockClient: [own({"model": "claude-haiku-4-5", "region": "eu-west-1"})],
    VertexClient: [own({"model": "claude-haiku-4-5", "region": "global", "project": "p"})],
    Fallback: [lambda at: ({"models": [at.recorder, at.recorder]}, lambda it: Agent(llm=it).run("go"))],
    Limiter: [
        lambda at: (
            {"client": OpenAIClient("m", "k", at.server.base_url), "requests": 60},
            lambda it: Agent(llm=it).run("go"),
        )
    ],
    LoopLimits: [lambda at: ({}, lambda it: at.agent(limits=it))],
    RetryConfig: [lambda at: ({}, lambda it: at.agent(retry=it))],
    Budget: [lambda at: ({}, lambda it: at.agent(budget=it))],
    Hooks: [lambda at: ({}, lambda it: at.agent(hooks=it))],
    PermissionRules: [lambda at: ({}, lambda it: at.agent(permission_rules=it))],
    Profile: [lambda at: ({"name": "mine"}, lambda it: at.agent(profile=it))],
    Handoff: [
        lambda at: (
            {"agent": Agent(**at.at, name="inner", description="Looks.")},
            lambda it: at.agent(handoffs=[it]),
        )
    ],
    Image: [lambda at: ({"data": png(1, 1)}, lambda it: Agent(**at.at).run("go", media=[it]))],
    Tool: [lambda at: ({"function": lambda: "seen", "name": "look"}, lambda it: at.agent(tools=[it]))],
    ToolRegistry: [lambda at: ({}, lambda it: at.agent(tools=it))],
    Ladder: [lambda at: ({}, lambda it: at.agent(compaction=it, context_window=2_000))],
    Redactor: [lambda at: ({}, lambda it: at.agent(redact=it))],
    SubagentManager: [lambda at: ({}, lambda it: at.agent(tools=[], subagents=it))],
    AgentDefinition: [
        lambda at: (
            {"name": "inner", "description": "Looks.", "prompt": "Look."},
            lambda it: at.agent(tools=[], subagents=SubagentManager([it])),
        )
    ],
    Workspace: [lambda at: ({"root": at.folder}, lambda it: at.agent(tools=workspace_tools(it)))],
    Shell: [lambda at: ({"workspace_root": at.folder}, lambda it: at.agent(tools=[it.tool()]))],
    Fetch: [lambda at: ({}, lambda it: at.agent(tools=[it.tool()]))],
}
# Classes of the package that callers read, that show or check a run, or that a run takes for one call.
NOT_SENT = {
    "AgentConfig",
    "AgentResult",
    "AlreadyAnsweredError",
    "BeforeTool",
    "Delta",
    "Event",
    "EventType",
    "File",
    "GuardedCall",
    "HookContext",
    "JsonLinesRenderer",
    "LLMError",
    "LLMResponse",
    "LimitChecker",
    "LimitExceededError",
    "LimitResult",
    "Origin",
    "Origins",
    "Part",
    "Permission",
    "PermissionContext",
    "PermissionRequest",
    "PlainRenderer",
    "Price",
    "Prompts",
    "QueryState",
    "ReadText",
    "Renderer",
    "RetryHandler",
    "RichRenderer",
    "RunContext",
    "TokenUsage",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolExecutionError",
}


def parameters(made: Any) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter for parameter in found if parameter.default is not parameter.empty]


def written(made: type, given: dict[str, Any]) -> dict[str, Any]:
    """The defaults that are not given, as a caller writes them."""
    factories = {
        field.name: field.default_factory
        for field in (dataclasses.fields(made) if dataclasses.is_dataclass(made) else ())
        if field.default_factory is not dataclasses.MISSING
    }
    return {
        each.name: factories[each.name]() if each.name in factories else as_written(each.default)
        for each in parameters(made)
        if each.name not in given
    }


def as_written(value: Any) -> Any:
    """Another object of the same value, without a type of ours."""
    if isinstance(value, bool):
        return value
    kinds = {float: lambda: float(repr(float(value))), int: lambda: int(str(int(value)))}
    kinds |= {str: lambda: "".join(list(value)), tuple: lambda: (*value,)}
    return next((copied() for kind, copied in kinds.items() if isinstance(value, kind)), value)


def trace(made: type, use: Any, folder: Any, monkeypatch: Any, *, writes: bool) -> str:
    """What is sent, as text without addresses and folders."""
    folder.mkdir()
    monkeypatch.setenv("PAL_HOME", str(folder / "home"))
    with ScriptedServer(handler=reply, check=False) as server:
        place = Place(server, folder)
        given, work = use(place)
        shown = work(made(**given, **(written(made, given) if writes else {})))
        sent = [(each.path, each.headers.get("authorization"), each.body) for each in server.requests]
        text = repr((sent, place.recorder.seen, shown if isinstance(shown, dict) else None))
    text = text.replace(place.at["base_url"], "").replace(str(folder), "")
    return re.sub(r"(?<=inner-)[0-9a-f]{6}|\d\d:\d\d", "", text)  # ids of tasks and the time of day


CASES = [
    pytest.param(made, use, id=f"{made.__name__}-{number}")
    for made, uses in USES.items()
    for number, use in enumerate(uses, 1)
]


@pytest.mark.parametrize(("made", "use"), CASES)
def test_defaults_written_out_send_the_same_requests(made, use, tmp_path, monkeypatch):
    # Of extras, which the oldest dependencies are tested without.
    if made is VertexClient:
        pytest.importorskip("google.auth")
    if made is BedrockClient:
        pytest.importorskip("botocore")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    bare = trace(made, use, tmp_path / "one", monkeypatch, writes=False)
    assert len(bare) > len(repr(([], [], None)))
    assert trace(made, use, tmp_path / "two", monkeypatch, writes=True) == bare


def test_every_class_of_the_package_is_used_or_not_sent():
    classes = {name: getattr(pure_agent_loop, name) for name in pure_agent_loop.__all__}
    made = {name for name, value in classes.items() if inspect.isclass(value) and parameters(value)}
    assert made - {used.__name__ for used in USES} == NOT_SENT


def test_each_public_default_is_a_value_that_a_caller_can_write():
    pytest.importorskip("starlette")  # of an extra, which the oldest dependencies are tested without
    found = set()
    for module, name in public_names():
        value = getattr(__import__(module, fromlist=[name]), name)
        for each in parameters(value) if callable(value) else ():
            plain = (bool, int, float, str)
            if isinstance(each.default, plain) and type(each.default) not in plain:
                found.add(each.name)
    assert found == set(DECIDED)
