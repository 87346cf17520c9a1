"""What is sent of a run: names, kinds, parents and attributes, and nothing that nobody asked for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from tests.otel.traced_program import agents
from tests.processes import running

from pure_agent_loop import (
    Agent,
    CancelToken,
    Fallback,
    Handoff,
    Hooks,
    LLMError,
    LoopLimits,
    Price,
    TokenUsage,
    otel,
    tool,
)
from pure_agent_loop.durable import Engine
from pure_agent_loop.mcp import MCPServer
from pure_agent_loop.sessions.cost import expenses_of, totals_by
from pure_agent_loop.testing import Gate, ScriptedLLM, answer, call, deltas

TODAY = {
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.agent.name",
    "gen_ai.request.model",
    "gen_ai.request.stream",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.type",
    "server.address",
    "server.port",
}


@tool
def look() -> str:
    """Look around."""
    return "a door"


def parent_of(span, spans):
    return next((each for each in spans if span.parent and each.context.span_id == span.parent.span_id), None)


def tree(spans, root=None):
    """The names of spans, each with those below it."""
    below = [each for each in spans if parent_of(each, spans) is root]
    return {each.name: tree(spans, each) for each in sorted(below, key=lambda each: each.start_time)}


def test_a_run_with_a_tool(spans, model):
    scout, _ = agents(model)
    scout.run("look around")
    sent = spans()
    assert tree(sent) == {"invoke_agent scout": {"chat gpt-test": {}, "execute_tool look": {}}}
    assert len(spans("chat gpt-test")) == 2
    kinds = {each.name.split()[0]: each.kind for each in sent}
    assert kinds == {
        "invoke_agent": SpanKind.INTERNAL,
        "chat": SpanKind.CLIENT,
        "execute_tool": SpanKind.INTERNAL,
    }
    reported = {"gen_ai.usage.cache_read.input_tokens", "pure_agent_loop.usage.cache_missed.input_tokens"}
    assert {name for each in sent for name in each.attributes} - reported == TODAY
    assert all(each.end_time >= each.start_time for each in sent)
    first = spans("chat gpt-test")[0].attributes
    assert first["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert first["server.address"] == "127.0.0.1"
    whole = spans("invoke_agent scout")[0].attributes
    each_chat = [each.attributes["gen_ai.usage.input_tokens"] for each in spans("chat gpt-test")]
    assert whole["gen_ai.usage.input_tokens"] == sum(each_chat)


def test_a_request_names_the_model_that_served_it(spans):
    away, here = ScriptedLLM([LLMError("gone", kind="connection")]), ScriptedLLM([answer("yes")])
    away.model, here.model = "first", "second"
    Agent(llm=Fallback([away, here]), name="several").run("hi")
    (chat,) = spans("chat first")
    assert chat.attributes["gen_ai.response.model"] == "second"
    points = spans.metrics()["gen_ai.client.operation.duration"].data.data_points
    assert "second" in {each.attributes.get("gen_ai.response.model") for each in points}


def test_a_known_cost_is_sent(spans, model):
    scout, _ = agents(model)
    result = scout.run("look around", limits=LoopLimits(prices={"*": Price(1000, 1000)}))
    costs = [each.attributes["pure_agent_loop.usage.cost"] for each in spans("chat gpt-test")]
    whole = spans("invoke_agent scout")[0].attributes["pure_agent_loop.usage.cost"]
    assert (whole, sum(costs)) == (pytest.approx(result.cost), pytest.approx(result.cost))
    assert whole > 0


def test_metrics_have_names_and_units(spans, model):
    agents(model)[0].run("look around")
    found = spans.metrics()
    assert {name: each.unit for name, each in found.items()} == {
        "gen_ai.client.operation.duration": "s",
        "gen_ai.client.operation.time_to_first_chunk": "s",
        "gen_ai.client.inference.usage.input_tokens": "{token}",
        "gen_ai.client.inference.usage.output_tokens": "{token}",
        "gen_ai.client.inference.operation.input_tokens": "{token}",
        "gen_ai.client.inference.operation.output_tokens": "{token}",
        "gen_ai.invoke_agent.duration": "s",
        "gen_ai.invoke_agent.inference_calls": "{inference_call}",
        "gen_ai.invoke_agent.tool_calls": "{tool_call}",
        "gen_ai.execute_tool.duration": "s",
    }
    spent = found["gen_ai.client.inference.usage.input_tokens"].data
    assert spent.is_monotonic
    assert {each.attributes["gen_ai.token.modality"] for each in spent.data_points} == {"unknown"}
    (agent,) = found["gen_ai.invoke_agent.inference_calls"].data.data_points
    assert (agent.attributes["gen_ai.agent.name"], agent.sum) == ("scout", 2)  # the call, the final answer


def test_a_subagent_is_below_the_call_that_began_it(spans, model):
    _, boss = agents(model)
    with trace.get_tracer("the program").start_as_current_span("a request"):
        boss.run("ask the scout")
    inner = {"chat gpt-test": {}, "execute_tool look": {}}
    found = tree(spans())["a request"]["invoke_agent boss"]
    ((name, below),) = found["execute_tool scout"].items()
    assert name.startswith("invoke_agent")
    assert below == inner
    assert len({each.context.trace_id for each in spans()}) == 1


def test_worker_of_another_process_continues_the_trace(spans, model, tmp_path):
    with worker_of(model, tmp_path) as worker, client_of(tmp_path) as client:
        with trace.get_tracer("the program").start_as_current_span("a request"):
            handle = client.submit("boss", "ask the scout", run_id="traced")
        assert handle.result(timeout=60).status == "completed"
        sent = told_by(worker)
    (request,) = spans("a request")
    trace_id, own, parent = sent["invoke_agent boss"]
    assert (trace_id, parent) == (request.context.trace_id, request.context.span_id)
    assert sent["execute_tool scout"][2] == own
    assert {each[0] for each in sent.values()} == {trace_id}


def test_agent_without_a_name_has_the_name_under_which_it_is_registered(spans, model, tmp_path):
    with worker_of(model, tmp_path) as worker, client_of(tmp_path) as client:
        done = client.submit("unnamed", "hello", run_id="named").result(timeout=60)
        assert done.status == "completed"
        assert "invoke_agent unnamed" in told_by(worker)
        assert list(totals_by("agent", expenses_of(client.sessions))) == ["unnamed"]


def test_successor_of_a_killed_worker_continues_the_trace(spans, model, held, tmp_path):
    with worker_of(model, tmp_path) as first, client_of(tmp_path) as client:
        with trace.get_tracer("the program").start_as_current_span("a request"):
            handle = client.submit("scout", "with patience, look around", run_id="taken-over")
        assert held.wait(60)
        first.kill()
        before = told_by(first)
        with worker_of(model, tmp_path) as second:
            assert handle.result(timeout=60).status == "completed"
            after = told_by(second)
    (request,) = spans("a request")
    assert {name.split()[0] for name in before} == {"chat", "execute_tool"}  # its run never ended
    assert {name.split()[0] for name in after} == {"chat", "invoke_agent"}  # the call was recorded
    assert after["invoke_agent scout"][2] == request.context.span_id
    assert {each[0] for each in (*before.values(), *after.values())} == {request.context.trace_id}


def client_of(folder):
    return Engine(f"sqlite:///{folder / 'work.sqlite'}")


@contextmanager
def worker_of(model, folder):
    argv = [sys.executable, "-m", "tests.otel.traced_program", model, "worker", str(folder / "work.sqlite")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running(argv, text=True, **pipes) as worker:
        assert worker.stdout.readline() == "ready\n"
        yield worker


def told_by(worker):
    """The spans of a worker that ends now: name, trace, itself, parent."""
    told = worker.communicate()[0].splitlines()
    return {each.split("|")[0]: list(map(int, each.split("|")[1:])) for each in told if "|" in each}


def test_an_attempt_that_failed_is_an_event(spans, model):
    agents(model)[0].run("in a hurry, look around")
    first, *others = spans("chat gpt-test")
    assert [(each.name, dict(each.attributes)) for each in first.events] == [
        ("retry", {"pure_agent_loop.retry.attempt": 1})
    ]
    assert first.status.status_code == StatusCode.UNSET
    assert not any(each.events for each in others)


PRINTED = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
def line(span):
    about = span.context
    return f"{span.name}|{about.trace_id}|{about.span_id}|{span.parent.span_id if span.parent else 0}\\n"
provider = TracerProvider()
out = open(os.environ["SPANS"], "a")
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=line)))
trace.set_tracer_provider(provider)
"""
FINDS = "def find(what: str) -> str:\n    'Find it.'\n    return what + ' is here'\n"


@pytest.mark.parametrize("exporter", ["console", ""])
def test_a_server_of_tools_is_in_the_same_trace(spans, tmp_path, exporter):
    """The SDK of MCP carries the context in `_meta`; `pal` is traced where a launcher has asked for it."""
    (tmp_path / "sitecustomize.py").write_text(PRINTED)
    (tmp_path / "own.py").write_text(FINDS)
    (project := tmp_path / "project").mkdir()
    argv = [sys.executable, "-m", "pure_agent_loop", "mcp", "--functions", str(tmp_path / "own.py")]
    argv += ["--workspace", str(project), "--permission-mode", "auto"]
    env = {"PYTHONPATH": str(tmp_path), "SPANS": str(tmp_path / "spans"), "OTEL_TRACES_EXPORTER": exporter}
    env["PAL_HOME"] = str(tmp_path)
    script = ScriptedLLM([call("mcp__places__find", what="the key"), "Done."])
    Agent(llm=script, tools=[MCPServer(argv, name="places", env=env)], permission_mode="auto").run("x")
    told = [each.split("|") for each in (tmp_path / "spans").read_text().splitlines()]
    # Only requests have a `_meta`.
    sent = {name: list(map(int, numbers)) for name, *numbers in told if "notifications/" not in name}
    (here,) = spans("execute_tool mcp__places__find")
    assert {each[0] for each in sent.values()} == {here.context.trace_id}
    assert ("execute_tool find" in sent) == bool(exporter)
    if exporter:
        assert sent["execute_tool find"][2] == sent["invoke_agent pal mcp"][1]


CONFIGURED = "from opentelemetry.sdk._configuration import _OTelSDKConfigurator as It; It().configure()"
SENT = {
    "chat m": "OTEL_TRACES_EXPORTER",
    "gen_ai.invoke_agent.duration": "OTEL_METRICS_EXPORTER",
    "gen_ai.client.inference.usage.input_tokens": "OTEL_METRICS_EXPORTER",
}


@pytest.mark.parametrize("variable", ["OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER", ""])
def test_pal_exports_as_the_environment_configures(tmp_path, model, variable):
    """The SDK is configured as its launcher does that; of a signal that nobody asked for nothing is sent."""
    (tmp_path / "sitecustomize.py").write_text(CONFIGURED)
    argv = [
        sys.executable,
        "-m",
        "pure_agent_loop",
        "run",
        "--model",
        "m",
        "--base-url",
        model,
        "look around",
    ]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PAL_HOME": str(tmp_path)}
    env |= {variable: "console"} if variable else {}
    said = subprocess.run(argv, cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout
    assert "It said:" in said
    sent = {name for name in SENT if f'"name": "{name}"' in said}
    assert sent == {name for name, asked in SENT.items() if asked == variable}


def test_conversation_text_is_not_sent(spans, model):
    scout, _ = agents(model)
    scout.run("look around")
    scout.run("break it")
    said = "".join(each.to_json() for each in spans())
    assert "hill" not in said
    assert "secret word" not in said
    assert "look around" not in said


def test_on_request_it_is_sent_without_secrets(spans, model):
    spans.instrument(content=True)
    agents(model)[0].run("look around")
    (call_span,) = spans("execute_tool look")
    assert json.loads(call_span.attributes["gen_ai.tool.call.arguments"]) == {"place": "the hill"}
    assert call_span.attributes["gen_ai.tool.call.result"].startswith("the hill is quiet")
    last = spans("chat gpt-test")[-1].attributes
    roles = [each["role"] for each in json.loads(last["gen_ai.input.messages"])]
    assert roles == ["user", "assistant", "tool"]
    assert json.loads(last["gen_ai.output.messages"])[0]["parts"][0]["content"].startswith("It said")
    assert "sk-proj-abc" not in "".join(each.to_json() for each in spans())


def test_text_removed_by_a_hook_is_not_sent(spans, model):
    spans.instrument(content=True)
    hooks = Hooks(after_tool=[lambda name, args, result, context: "nothing to see"])
    agents(model)[0].clone(hooks=hooks).run("look around")
    assert spans("execute_tool look")
    assert "is quiet" not in "".join(each.to_json() for each in spans())


class Broken(SpanProcessor):
    """Fails where it is asked to."""

    where = ""

    def on_start(self, span, parent_context=None):
        if self.where == "start":
            raise RuntimeError(self.where)

    def on_end(self, span):
        if self.where == "end":
            raise RuntimeError(self.where)


@pytest.mark.parametrize("where", ["start", "end"])
def test_trace_write_failure_does_not_end_the_run(spans, model, caplog, where):
    trace.get_tracer_provider().add_span_processor(broken := Broken())
    broken.where = where
    found = agents(model)[0].run("look around")
    broken.where = ""
    assert found.stop_reason == "completed"
    assert f"Tracing failed, data is lost: RuntimeError: {where}" in caplog.text


def test_half_of_a_letter_loses_no_span(spans, model):
    spans.instrument(content=True)
    agents(model)[0].clone(name="half \ud800").run("look around")
    (whole,) = spans("invoke_agent half \ufffd")
    assert whole.attributes["gen_ai.agent.name"] == "half \ufffd"


def test_failed_span_has_status_and_error_type(spans, model):
    agents(model)[0].run("break it")
    (failed,) = spans("execute_tool breaks")
    assert (failed.status.status_code, failed.attributes["error.type"]) == (StatusCode.ERROR, "tool_error")
    assert not failed.events
    Agent(llm=ScriptedLLM([LLMError("no such model", kind="bad_request")]), name="lost").run("x")
    (chat,) = [each for each in spans() if each.name.startswith("chat") and "error.type" in each.attributes]
    (whole,) = spans("invoke_agent lost")
    assert chat.status.status_code == whole.status.status_code == StatusCode.ERROR
    assert chat.attributes["error.type"] == whole.attributes["error.type"]


def test_a_run_that_is_stopped_or_left_closes_its_spans(spans):
    async def leave():
        token = CancelToken()
        agent = Agent(llm=ScriptedLLM([deltas("so far ", Gate(), "never")]), name="stopped")
        async for event in agent.prepare("x", cancel_token=token).stream():
            assert not trace.get_current_span().get_span_context().is_valid  # the reader is outside
            if event.type == "text_delta":
                token.cancel()

    asyncio.run(leave())
    assert [each.name.split()[0] for each in spans()] == ["chat", "invoke_agent"]
    assert spans("invoke_agent stopped")[0].status.status_code == StatusCode.UNSET


def test_handoff_target_has_its_own_span(spans):
    second = Agent(llm=ScriptedLLM(["Done."]), name="second")
    first = Agent(llm=ScriptedLLM([call("transfer_to_second")]), name="first", handoffs=[Handoff(second)])
    assert first.run("x").content == "Done."
    agents_seen = [each.name for each in spans() if each.name.startswith("invoke_agent")]
    assert agents_seen == ["invoke_agent first", "invoke_agent second"]


def test_a_call_can_tell_others_where_it_is(spans, model):
    seen = []

    def where() -> str:
        """Where."""
        seen.append(otel.traceparent())
        return "here"

    Agent(llm=ScriptedLLM([call("where"), "Done."]), tools=[where]).run("x")
    (span,) = spans("execute_tool where")
    assert seen[0].startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
    assert otel.traceparent() == ""


def test_without_a_provider_nothing_is_watched():
    program = (
        "from pure_agent_loop import Agent, otel\n"
        "from pure_agent_loop.testing import ScriptedLLM\n"
        "otel.instrument()\n"
        "from pure_agent_loop.otel.tracing import _TracedRun\n"
        "_TracedRun.__init__ = None\n"
        "print(Agent(llm=ScriptedLLM(['Done.'])).run('x').content, otel.traceparent() == '')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "Done. True\n", done.stderr


def test_spans_count_cached_tokens_as_read_written_and_missed(spans):
    usages = [TokenUsage(n, 5, n + 5, cached_tokens=n - 400, cache_write_tokens=50) for n in (1_000, 1_100)]
    script = [answer(call("look"), usage=usages[0]), answer("ok", usage=usages[1])]
    Agent(llm=ScriptedLLM(script), tools=[look]).run("x")
    found = [each.attributes for each in spans() if "gen_ai.usage.input_tokens" in each.attributes]
    chats = [each for each in found if each["gen_ai.operation.name"] == "chat"]
    assert [each["pure_agent_loop.usage.cache_missed.input_tokens"] for each in chats] == [0, 300]
    assert [each["gen_ai.usage.cache_creation.input_tokens"] for each in chats] == [50, 50]
