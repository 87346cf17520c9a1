"""What a step costs, in calls that Python makes: exact, whatever else the machine does."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import pstats
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.processes import running

import pure_agent_loop
from llm_client_conformance import Delta, ToolCallDelta
from llm_client_conformance.protocols.gemini_answers import GeminiWriting
from llm_client_conformance.protocols.messages_answers import MessagesWriting
from llm_client_conformance.protocols.responses_answers import ResponsesWriting
from llm_client_conformance.scripted.completions import Writing
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    BaseLLMClient,
    ChatModel,
    GeminiClient,
    LLMResponse,
    LoopLimits,
    OpenAIClient,
    ResponsesClient,
    TokenUsage,
    ToolCall,
    tool,
)
from pure_agent_loop.llm.http.choice import HTTP_VARIABLE
from pure_agent_loop.llm.http.httpx import library
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.support.secrets.redaction import Redactor

STEPS = 50
LOOP_FILES = ("base_events.py", "selector_events.py", "selectors.py")
OURS = str(Path(pure_agent_loop.__file__).parent)
# As measured, without the turns of the event loop. Who needs more says what for; who needs less writes that
# down, too.
# 22 of each are for one stage a question and one value a call in the gate and the round, which reads better.
# 9 of "secrets" are for a call as a session keeps it, of which repetitions are noticed.
# 6 of each, and 8 over HTTP, are for the price of a response, and which model served it. One of each is for
# whether a person has answered the call, which then is not tried once more. 17 of each are for calls that a
# server left unfinished, for keys of other clients in what a compactor wrote, and for counts of usage that
# cannot be right, also for the arguments of calls.
# Six are for facts, for the tools that a response was offered, and for compactions that report themselves.
# Three are for the words of a tool for its call, and for the moment at which the thinking ended.
MAX_CALLS = {"none": 520, "default": 587, "secrets": 665}
# Over HTTP: all calls of a step, as they are aimed at, and as measured those of our functions, which an older
# generation of the library calls more often. Two are for what a cache missed and the usage of a step. 43, and
# 72 of all, are for what each protocol learns from refusals, for bounds of responses, for the secrets of a
# client, which each request tells its run, and for the above. Ten more are for one place that posts, for
# rules of prices as a table, and for what three of `MAX_CALLS` are for.
MAX_OVER_HTTP = {
    "httpx": (3_071, 544) if library.__name__ == "httpx2" else (5_000, 664),
    "aiohttp": (1_250, 452),
}
# Of another protocol, beside chat completions in the same process: all calls of a step. The reader of
# Responses finds the place of items that no event announced.
MAX_RATIO = 1.32
CLIENTS: dict[str, tuple[type[ProtocolClient], str]] = {
    "Messages": (AnthropicClient, "claude-opus-4-6"),
    "Responses": (ResponsesClient, "m"),
    "Gemini": (GeminiClient, "gemini-3-flash"),
}
SERVER = """
import sys
from tests.kernel.test_cost import Answers
from tests.serving import serving
Answers.steps, Answers.thought = int(sys.argv[1]), sys.argv[2]
with serving(Answers) as port:
    print(port, flush=True)
    input()
"""
FREE = LoopLimits(max_steps=None, timeout=None, max_tokens=None, doom_loop_threshold=None)


class Counting(BaseLLMClient):
    """Asks for a tool so many times, then answers."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def chat(self, messages: list[Any], tools: Any = None, **kwargs: Any) -> LLMResponse:
        number, usage = next(self._numbers), TokenUsage(10, 5, 15)
        if number % (STEPS + 1) == 0:
            return LLMResponse("done", [], usage)
        return LLMResponse(None, [ToolCall(f"c{number}", "add", {"a": number, "b": 1})], usage)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Answers(BaseHTTPRequestHandler):
    """The same over HTTP. An answer is written at once, so that the network does not cut it."""

    steps = STEPS
    thought = ""
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path.partition("?")[0]
        writing, result = next(
            (made for end, made in PROTOCOLS.items() if end in path), (None, b'"role":"tool"')
        )
        number = body.count(result)
        frames = chat_frames if writing is None else partial(protocol_frames, writing(1, "m"))
        made = frames(self.thought, number == self.steps, number, len(body) // 4)
        self.wfile.write(HEAD + b"".join(map(as_chunk, [*made, b""])))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(steps: int = STEPS, thought: str = "") -> Iterator[int]:
    """Serve `Answers` in another process, as newer profilers count all threads; gives the port."""
    command, root = [sys.executable, "-c", SERVER, str(steps), thought], Path(__file__).parents[2]
    with running(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout
        yield int(server.stdout.readline())


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SAYS = [{"role": "assistant", "content": ""}, {"content": "done"}]


def asks_for(number: int) -> list[Any]:
    """What an answer that calls the tool consists of."""
    begun = {"index": 0, "id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": json.dumps({"a": number, "b": 1})}}
    return [{"role": "assistant", "content": None}, {"tool_calls": [begun]}, {"tool_calls": [rest]}]


def chat_frames(thought: str, is_last: bool, number: int, read: int) -> list[bytes]:
    deltas, reason = (SAYS, "stop") if is_last else (asks_for(number), "tool_calls")
    deltas = [{"reasoning_content": thought}, *deltas] if thought else deltas
    return [f"data: {event}\n\n".encode() for event in events(deltas, reason, read)]


def events(deltas: list[Any], reason: str, read: int) -> list[str]:
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    about = {"id": "a", "object": "chat.completion.chunk"}
    usage = {"prompt_tokens": read, "completion_tokens": 20, "total_tokens": read + 20}
    details = {"prompt_tokens_details": {"cached_tokens": 0}}
    chunks = [{**about, "choices": [each]} for each in choices]
    return [*map(json.dumps, [*chunks, {**about, "choices": [], "usage": {**usage, **details}}]), "[DONE]"]


def as_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# By a part of the path: the writer of answers, and what the results of a request are counted by.
PROTOCOLS: dict[str, tuple[type[Writing], bytes]] = {
    "/messages": (MessagesWriting, b'"tool_result"'),
    "/responses": (ResponsesWriting, b'"function_call_output"'),
    "/models/": (GeminiWriting, b'"functionResponse"'),
}


def protocol_frames(writing: Writing, thought: str, is_last: bool, number: int, read: int) -> list[bytes]:
    """The same answer in another protocol."""
    usage = TokenUsage(read, 20, read + 20, cached_tokens=0)
    if is_last:
        deltas = [Delta("done"), Delta(finish_reason="stop", usage=usage)]
    else:
        begun = ToolCallDelta(0, f"c{number}", "add")
        rest = ToolCallDelta(0, arguments=json.dumps({"a": number, "b": 1}))
        deltas = [Delta(tool_calls=(begun,)), Delta(tool_calls=(rest,))]
        deltas.append(Delta(finish_reason="tool_calls", usage=usage))
    deltas = [Delta(reasoning=thought), *deltas] if thought else deltas
    return [*(frame for delta in deltas for frame in writing.frames(delta)), *writing.last_frames(done=True)]


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: its callbacks would be counted, of earlier tests too."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def calls_of_a_step(llm: ChatModel, limits: LoopLimits, secrets: list[str]) -> tuple[float, float]:
    """What the profiler counts in a run of many steps: all calls of Python, and those of our functions."""
    known = Redactor(secrets, env={})  # the secrets of who runs this would be looked for, too
    agent, profile = Agent(llm=llm, tools=[add], limits=limits, redact=known), cProfile.Profile()

    async def measured() -> None:
        await agent.arun("x")  # what is made once
        with uncollected():
            profile.enable()
            try:
                result = await agent.arun("x")
            finally:
                profile.disable()
        assert result.steps == STEPS + 1, result.error

    asyncio.run(measured())
    found: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined] # typeshed lacks it
    ours = sum(calls for (file, *_), (_, calls, *_) in found.items() if file.startswith(OURS))
    return sum(map(_outside_turns, found, found.values())) / STEPS, ours / STEPS


def _outside_turns(function: Any, counted: Any) -> int:
    """Calls of a function outside the turns of the event loop, which are more on a busy machine."""
    _, calls, _, _, callers = counted
    in_turns = sum(count for caller, (count, *_) in callers.items() if _is_turn(caller))
    return 0 if _is_turn(function) else calls - in_turns


def _is_turn(function: Any) -> bool:
    file, _, name = function
    return Path(file).name in LOOP_FILES and name in ("_run_once", "_process_events", "select", "time")


def spread(most: float) -> float:
    """One machine counted one call more in each step than all others, for a reason that was not found.

    Other versions of Python call more in asyncio.
    """
    return most * (1.005 if sys.version_info[:2] == (3, 11) else 1.1)


def calls_with(given: str) -> float:
    """Calls of a step without a network; the less of two runs, as the first may load modules."""
    limits = LoopLimits() if given == "default" else FREE
    secrets = ["sk-one-that-is-known-0123456789"] if given == "secrets" else []
    return min(calls_of_a_step(Counting(), limits, secrets)[0] for _ in range(2))


def calls_over_http() -> list[float]:
    """All calls of a step and those of ours; each the least of several runs, as an answer may come early."""
    with answering() as port:
        client = OpenAIClient("m", "k", f"http://127.0.0.1:{port}/v1")
        return list(map(min, *(calls_of_a_step(client, FREE, []) for _ in range(5))))


def calls_by_protocol() -> dict[str, float]:
    with answering() as port:
        url = f"http://127.0.0.1:{port}"
        clients: dict[str, BaseLLMClient] = {"chat": OpenAIClient("m", "k", f"{url}/v1")}
        clients |= {name: kind(model, "k", url) for name, (kind, model) in CLIENTS.items()}
        clients["Responses"] = ResponsesClient("m", "k", f"{url}/v1")
        return {
            name: min(calls_of_a_step(client, FREE, [])[0] for _ in range(3))
            for name, client in clients.items()
        }


def in_another_process(measure: str, *args: str) -> Any:
    """What a function of this module returns in a new process: earlier tests change what is counted."""
    code = "import json, sys; from tests.kernel import test_cost as t; "
    code += f"print(json.dumps(t.{measure}(*sys.argv[1:])))"
    command, root = [sys.executable, "-c", code, *args], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("given", MAX_CALLS)
def test_a_step_costs_no_more_calls_than_it_did(given):
    """What nobody uses costs nothing: an agent with one tool, no session, no typed answer."""
    assert in_another_process("calls_with", given) <= spread(MAX_CALLS[given])


@pytest.mark.parametrize("http", MAX_OVER_HTTP)
def test_a_step_over_http_costs_no_more_calls_than_it_did(http, monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, http)
    for most, found in zip(MAX_OVER_HTTP[http], in_another_process("calls_over_http"), strict=True):
        assert found <= spread(most)


@pytest.mark.parametrize("http", MAX_OVER_HTTP)
def test_a_step_in_another_protocol_costs_about_the_same(http, monkeypatch):
    monkeypatch.setenv(HTTP_VARIABLE, http)
    counted = in_another_process("calls_by_protocol")
    assert {name: calls / counted["chat"] for name, calls in counted.items()} == {
        name: pytest.approx(1, abs=MAX_RATIO - 1) for name in counted
    }
