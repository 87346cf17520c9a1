"""Several models behind one client: what happens after a failure, and within a limit per minute."""

import asyncio
import contextlib
import json
import os
import sys
import threading
from dataclasses import replace

import pytest
from benchmarks.fallback_kill import kill_runs

import llm_client_conformance as kit
from llm_client_conformance.protocols import MessagesServer
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    Fallback,
    Limiter,
    LLMResponse,
    LoopLimits,
    OpenAIClient,
    Price,
    RetryConfig,
)
from pure_agent_loop.durable import SharedLimits
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import StreamingClient
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage
from pure_agent_loop.runs.run import Run
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import FakeClock, Gate, ScriptedLLM, ScriptedServer, answer, call, deltas
from pure_agent_loop.testing.faults import EndEarly, Reset, Silence, status
from tests.llm.protocols.loops import in_a_loop
from tests.processes import running

USER = [{"role": "user", "content": "q"}]
MARKS: list[str] = []


def mark(name: str) -> str:
    """Leave a mark."""
    MARKS.append(name)
    return "marked"


def client_of(server, model):
    return OpenAIClient(model, "k", server.base_url)


def pair(first, second, **settings):
    return Fallback([client_of(first, "first"), client_of(second, "second")], **settings)


FAILURES = {
    "outage": status(503, "down"),
    "overload": status(529, "busy"),
    "quota": status(429, "You exceeded your current quota", error_code="insufficient_quota"),
    "key": status(401, "invalid key"),
    "gone": status(404, "The model does not exist"),
    "feature": status(400, "images are not supported by this model"),
    "reset": Reset(),
    "cut": deltas(EndEarly()),
}


@pytest.mark.parametrize("name", FAILURES)
@in_a_loop
async def test_the_next_model_answers_after_a_failure(name):
    with ScriptedServer([FAILURES[name]]) as first, ScriptedServer(["from the second"]) as second:
        models = pair(first, second)
        seen = [delta async for delta in models.chat_stream(USER)]
        await models.aclose()
    assert "".join(delta.text for delta in seen) == "from the second"
    notices = [delta.notice for delta in seen if delta.notice]
    assert notices[-1].startswith("first failed (")
    assert notices[-1].endswith("second answers instead.")


@in_a_loop
async def test_text_of_a_cut_response_stays_and_is_continued():
    with (
        ScriptedServer([deltas("One, two, ", Reset())]) as first,
        ScriptedServer(["three."]) as second,
    ):
        models = pair(first, second)
        response = await assembled(models.chat_stream(USER))
        await models.aclose()
        sent = second.requests[0].messages
    assert response.content == "One, two, three."
    assert sent[1] == {"role": "assistant", "content": "One, two, "}
    assert sent[2]["role"] == "user"


def test_calls_of_a_cut_response_are_made_by_the_next_model_only():
    del MARKS[:]
    cut = deltas(call("mark", name="first"), Reset())
    script = [call("mark", name="second"), "done"]
    with ScriptedServer([cut]) as first, ScriptedServer(script) as second:
        result = Agent(llm=pair(first, second), tools=[mark]).run("go")
    assert (result.output, MARKS) == ("done", ["second"])


@in_a_loop
async def test_a_model_that_failed_is_passed_over_for_a_while():
    clock = FakeClock()
    with ScriptedServer([status(503, "down"), "first"]) as first, ScriptedServer(["a", "b"]) as second:
        models = pair(first, second, cooldown=30, clock=clock)
        texts = [(await models.chat(USER)).content, (await models.chat(USER)).content]
        clock.advance(31)
        texts.append((await models.chat(USER)).content)
        await models.aclose()
    assert texts == ["a", "b", "first"]


@in_a_loop
async def test_a_server_may_say_for_how_long():
    clock = FakeClock()
    with (
        ScriptedServer([status(429, "slow", headers={"retry-after": "5"}), "first"]) as first,
        ScriptedServer(["a"]) as second,
    ):
        models = pair(first, second, clock=clock)
        assert (await models.chat(USER)).content == "a"
        clock.advance(6)
        assert (await models.chat(USER)).content == "first"
        await models.aclose()


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [(503, 401, "overloaded"), (401, 503, "overloaded"), (401, 404, "not_found")],
)
@in_a_loop
async def test_if_all_fail_the_error_that_may_pass_is_raised_else_the_last(first, second, kind):
    with ScriptedServer([status(first, "no")]) as one, ScriptedServer([status(second, "no")]) as other:
        models = pair(one, other)
        with pytest.raises(LLMError) as raised:
            await models.chat(USER)
        await models.aclose()
    assert raised.value.kind == kind


@pytest.mark.parametrize(
    ("waits", "expected"),
    [(("40", "5"), 5), (("5", "40"), 5), (("40", None), None), ((None, "5"), 5), (("5", None), 5)],
)
@in_a_loop
async def test_least_wait_counts_when_all_models_fail(waits, expected):
    first, second = (status(429, "slow", headers={"retry-after": w} if w else None) for w in waits)
    with ScriptedServer([first]) as one, ScriptedServer([second]) as other:
        models = pair(one, other, clock=FakeClock())
        with pytest.raises(LLMError) as raised:
            await models.chat(USER)
        await models.aclose()
    assert raised.value.retry_after == expected


@in_a_loop
async def test_a_request_that_is_too_long_is_not_passed_on():
    too_long = status(400, "maximum context length is 10 tokens")
    with ScriptedServer([too_long]) as first, ScriptedServer(handler=lambda _: "never") as second:
        models = pair(first, second)
        with pytest.raises(LLMError) as raised:
            await models.chat(USER)
        await models.aclose()
        assert second.requests == []
    assert raised.value.kind == "context_overflow"


@in_a_loop
async def test_a_silent_model_has_failed():
    with ScriptedServer([Silence()]) as first, ScriptedServer(["a"]) as second:
        models = pair(first, second, silence=0.2)
        assert (await models.chat(USER)).content == "a"
        await models.aclose()


@pytest.mark.parametrize(
    ("said", "limit", "wrap"),
    [
        ([Silence()], "first_byte_timeout", lambda models: models),
        ([deltas("so ", Silence())], "idle_timeout", lambda models: models),
        ([deltas("so ", Silence())], "idle_timeout", lambda models: Limiter(models, requests=9)),
        ([deltas("so ", Silence())], "idle_timeout", lambda models: Fallback([models], silence=None)),
    ],
)
def test_a_timeout_of_the_run_lets_the_next_model_answer(said, limit, wrap):
    with ScriptedServer(said) as first, ScriptedServer(["far"]) as second:
        agent = Agent(llm=wrap(pair(first, second)), retry=RetryConfig(max_retries=0), **{limit: 0.3})
        result = agent.run("go")
    assert result.content == ("far" if limit == "first_byte_timeout" else "so far")
    notices = [event.content for event in result.events if event.type == "notice"]
    assert "first failed (first sent nothing for 0.3 s.)" in notices[0]


@in_a_loop
async def test_silence_in_a_group_within_a_group_is_for_the_inner_one():
    with ScriptedServer([Silence()]) as a, ScriptedServer(["b"]) as b:
        models = Fallback([pair(a, b), ScriptedLLM(["c"], strict=False)], silence=0.3)
        assert (await models.chat(USER)).content == "b"
        await models.aclose()


def test_thinking_goes_back_to_the_model_that_thought():
    items = [
        kit.answer(kit.call("mark", name="x"), reasoning="mine"),
        kit.status(529, "busy"),
        kit.answer("b", reasoning="y"),
    ]
    with MessagesServer(items) as claude, ScriptedServer(["a"]) as second:
        clock = FakeClock()
        claude_client = AnthropicClient("claude-opus-4-6", "k", claude.base_url)
        models = Fallback([claude_client, client_of(second, "m")], clock=clock)
        agent = Agent(llm=models, tools=[mark], retry=RetryConfig(max_retries=0))
        first = agent.run("go")
        clock.advance(31)
        agent.run("again", messages=json.loads(json.dumps(first.messages)))
        other, own = second.requests[0].raw.decode(), claude.requests[-1].raw.decode()
    assert first.output == "a"
    assert "mine" not in other
    assert '"thinking":"mine"' in own


@pytest.mark.parametrize("models", [[], "gpt-5", [object()]])
def test_clients_are_needed(models):
    with pytest.raises(ConfigError, match="list of clients"):
        Fallback(models)


def test_a_response_names_the_models_that_wrote_it():
    cut = deltas("One, two, ", Reset())
    with ScriptedServer([cut]) as first, ScriptedServer(["three."]) as second:
        models = pair(first, second)
        result = Agent(llm=models, retry=RetryConfig(max_retries=0)).run("count")
    assert result.content == "One, two, three."
    end = next(event for event in result.events if event.type == "step_end")
    assert end.data["served"] == [["first", 0], ["second", 10]]
    seam = [event for event in result.events if event.type == "notice" and "continues" in event.content]
    assert [(event.data["model"], event.data["start"]) for event in seam] == [("second", 10)]
    assert "\n" not in seam[0].content  # the reason of a transport may have several lines
    shown = [event.content for event in result.events if event.type == "text_delta"]
    assert "".join(shown) == "One, two, three."


def test_the_bill_holds_both_parts_at_the_price_of_their_models():
    prices = {"first": Price(1_000_000, 1_000_000), "second": Price(1, 1)}
    tokens = TokenUsage(7, 3, 10)
    cut = deltas("One, ", Delta(usage=tokens), Reset())
    with (
        ScriptedServer([cut]) as first,
        ScriptedServer([answer("two.", usage=TokenUsage(1_000_000, 0, 1_000_000))]) as second,
    ):
        limits = LoopLimits(prices=prices, max_cost=100)
        result = Agent(llm=pair(first, second), limits=limits).run("count")
    assert result.content == "One, two."
    assert result.cost == pytest.approx(10 + 1)
    assert dict(result.usage.by_model)["first"] == replace(tokens, cost=10)
    assert result.usage.total_tokens == 1_000_010


def test_tokens_of_a_part_are_estimated_if_its_server_sent_none():
    with ScriptedServer([deltas("One, ", Reset())]) as first, ScriptedServer(["two."]) as second:
        result = Agent(llm=pair(first, second)).run("count")
    lost = dict(result.usage.by_model)["first"]
    assert lost.estimated
    assert lost.prompt_tokens > lost.completion_tokens > 0


def test_a_model_that_refused_the_connection_costs_nothing():
    with ScriptedServer([status(503, "down")]) as first, ScriptedServer(["ok"]) as second:
        result = Agent(llm=pair(first, second)).run("go")
    assert [name for name, _ in result.usage.by_model] == ["second"]


def test_a_cost_limit_needs_the_price_of_each_model():
    with ScriptedServer(handler=lambda _: "x") as server, pytest.raises(ConfigError, match="'second'"):
        Agent(llm=pair(server, server), limits=LoopLimits(max_cost=1, prices={"first": Price(1, 1)}))


def test_no_further_model_is_asked_once_the_limit_of_tokens_is_reached():
    cut = deltas("One, ", Delta(usage=TokenUsage(90, 10, 100)), Reset())
    with ScriptedServer([cut]) as first, ScriptedServer(handler=lambda _: "never") as second:
        result = Agent(llm=pair(first, second), limits=LoopLimits(max_tokens=100)).run("count")
        assert second.requests == []
    assert (result.stop_reason, result.usage.total_tokens) == ("token_limit", 100)


# -- refusals for reasons of content ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "Half of an ans"])
def test_a_refusal_is_answered_by_the_next_model_and_its_text_is_discarded(text):
    refusal = kit.answer(text, finish_reason="refusal")
    with MessagesServer([refusal]) as claude, ScriptedServer(["The answer."]) as second:
        models = Fallback([AnthropicClient("claude-opus-4-6", "k", claude.base_url), client_of(second, "m")])
        result = Agent(llm=models).run("go")
        assert [m["role"] for m in second.requests[0].messages if m["role"] != "system"] == ["user"]
    assert (result.content, result.stop_reason) == ("The answer.", "completed")
    taken_back = [event for event in result.events if event.type == "retry" and event.data["discard"]]
    assert len(taken_back) == bool(text)
    end = next(event for event in result.events if event.type == "step_end")
    assert end.data["served"] == [["m", 0]]


def test_a_refusal_need_not_be_handed_on():
    with (
        MessagesServer([kit.answer(finish_reason="refusal")]) as claude,
        ScriptedServer(handler=lambda _: "never") as second,
    ):
        clients = [AnthropicClient("claude-opus-4-6", "k", claude.base_url), client_of(second, "m")]
        result = Agent(llm=Fallback(clients, on_refusal=False)).run("go")
        assert second.requests == []
    assert result.stop_reason == "content_filter"


def test_a_refusal_of_the_last_model_is_the_response():
    items = [answer(finish_reason="content_filter")]
    with ScriptedServer(items) as first, ScriptedServer(items) as second:
        result = Agent(llm=pair(first, second)).run("go")
    assert result.stop_reason == "content_filter"


# -- what models have apart ------------------------------------------------------------------------------


def test_reasoning_of_a_cut_part_is_not_joined_with_the_text_of_the_next():
    cut = deltas("<think>half a thou", Reset())
    with ScriptedServer([cut]) as first, ScriptedServer(["The answer."]) as second:
        result = Agent(llm=pair(first, second)).run("go")
        roles = [m["role"] for m in second.requests[0].messages if m["role"] != "system"]
    assert result.content == "The answer."
    assert roles == ["user"]


def test_fields_of_a_cut_part_are_not_joined_with_those_of_the_next():
    class Signing(ScriptedLLM):
        takes_meta = True

    lost = LLMError("cut off", kind="connection")
    cut = deltas(Delta("Text, ", extra={"signature": "mine"}), call("mark", name="cut"), lost)
    whole = deltas(Delta("rest.", extra={"signature": "yours"}), call("mark", name="whole"))
    first, second = Signing([cut]), Signing([whole, "done"])
    first.model, second.model = "first", "second"
    result = Agent(llm=Fallback([first, second]), tools=[mark]).run("go")
    sent = next(m for m in second.requests[-1].messages if m.get("tool_calls"))
    assert result.content == "done"
    assert (sent["content"], sent["signature"]) == ("Text, rest.", "yours")
    assert [call["function"]["arguments"] for call in sent["tool_calls"]] == ['{"name": "whole"}']
    assert sent["meta"]["origin"].endswith(" second")


def test_a_model_without_native_calls_gets_them_in_its_own_mode():
    no_tools = status(400, "this model does not support tools")
    action = '{"tool": "mark", "arguments": {"name": "json"}}'
    final = '{"tool": "final_answer", "arguments": {"answer": "done"}}'

    def second_model(request):
        if request.body.get("tools"):
            return no_tools
        return final if MARKS else action

    del MARKS[:]
    with (
        ScriptedServer([status(503, "down"), "native"]) as first,
        ScriptedServer(handler=second_model) as second,
    ):
        clock = FakeClock()
        agent = Agent(llm=pair(first, second, clock=clock), tools=[mark])
        result = agent.run("go")
        clock.advance(31)
        later = agent.run("again")
        assert first.requests[-1].body["tools"]
    assert MARKS == ["json"]
    assert result.stop_reason == "completed"
    assert later.content == "native"


def test_several_keys_cool_down_one_by_one():
    clock, keys = FakeClock(), []

    def by_key(request):
        keys.append(request.headers["authorization"][-2:])
        return status(429, "slow down") if keys == ["k1"] else "ok"

    with ScriptedServer(handler=by_key) as server:
        clients = [OpenAIClient("m", key, server.base_url) for key in ("k1", "k2", "k3")]
        agent = Agent(llm=Fallback(clients, clock=clock))
        for _ in range(2):
            assert agent.run("go").content == "ok"
        clock.advance(31)
        assert agent.run("go").content == "ok"
    assert keys == ["k1", "k2", "k2", "k1"]


def test_a_refused_request_does_not_cool_a_model_down():
    with ScriptedServer([status(400, "no images"), "first"]) as first, ScriptedServer(["second"]) as second:
        agent = Agent(llm=pair(first, second, clock=FakeClock()))
        assert [agent.run("go").content, agent.run("go").content] == ["second", "first"]


def test_the_retries_of_a_run_begin_again_with_the_model_that_is_ready_first():
    down = status(503, "down")
    asked = []

    def server_of(name, items):
        steps = iter(items)

        def serve(_):
            asked.append(name)
            return next(steps)

        return ScriptedServer(handler=serve)

    slow = status(503, "down", headers={"retry-after": "40"})
    with server_of("first", [slow, down]) as first, server_of("second", [down, "ok"]) as second:
        clock = FakeClock()
        agent = Agent(llm=pair(first, second, clock=clock), retry=RetryConfig(base_delay=0, jitter=0))
        prepared = agent.prepare("go")
        run = Run(prepared.state, replace(prepared._kit, clock=FakeClock()))
        assert run.wait_sync().content == "ok"
    assert asked == ["first", "second", "second"]


@in_a_loop
async def test_keep_alives_are_not_pieces_of_a_response():
    class Alive(StreamingClient):
        async def chat_stream(self, messages, tools=None, **options):
            yield Delta("a")
            while True:
                await asyncio.sleep(0.01)
                yield NOTHING

    models = Fallback([Alive(), ScriptedLLM(["b"])], silence=0.2)
    assert (await models.chat(USER)).content == "ab"


def test_a_group_in_a_group_continues_where_it_stands():
    with (
        ScriptedServer([deltas("[1, ", Reset())]) as a,
        ScriptedServer([deltas("2, ", Reset())]) as b,
        ScriptedServer(["3]"]) as c,
    ):
        result = Agent(llm=Fallback([client_of(a, "outer"), pair(b, c)])).run("go")
    assert result.content == "[1, 2, 3]"
    end = next(event for event in result.events if event.type == "step_end")
    assert end.data["served"] == [["outer", 0], ["first", 4], ["second", 7]]
    assert [name for name, _ in result.usage.by_model] == ["outer", "first", "second"]


def test_a_replayed_session_has_the_same_bill(tmp_path):
    prices = {"first": Price(1_000_000, 1_000_000), "second": Price(1, 1)}
    cut = deltas("One, ", Delta(usage=TokenUsage(7, 3, 10)), Reset())
    with ScriptedServer([cut]) as first, ScriptedServer(["two."]) as second:
        store = JsonlStore(tmp_path)
        agent = Agent(llm=pair(first, second), limits=LoopLimits(prices=prices), sessions=store)
        result = agent.run("count", session_id="s")
        records = store.read("s").records
        recorded = next(record.data["value"] for record in records if record.type == "answer")
        assert recorded["served"] == [["first", 0], ["second", 5]]
        response = LLMResponse.from_dict(recorded)
        assert response.to_dict() == {name: recorded[name] for name in response.to_dict()}
        assert replay_session(records).difference is None
    assert TokenUsage.from_dict(json.loads(json.dumps(result.usage.to_dict()))) == result.usage


KILLS = int(os.environ.get("PAL_FALLBACK_KILLS", "3"))


@pytest.mark.skipif(os.name != "posix", reason="runs are killed with SIGKILL")
def test_a_run_killed_in_the_middle_of_a_fallback_makes_no_call_twice_and_doubles_no_text(tmp_path):
    found = kill_runs(tmp_path, KILLS, seed=1)
    assert found["wrong"] == []
    assert found["kills"] == KILLS


# -- Limiter ---------------------------------------------------------------------------------------------


@in_a_loop
async def test_requests_above_the_limit_wait():
    clock = FakeClock()
    with ScriptedServer(["a", "b", "c"]) as server:
        limited = Limiter(client_of(server, "m"), requests=2, clock=clock)
        await limited.chat(USER)
        clock.advance(10)
        await limited.chat(USER)
        seen = [delta async for delta in limited.chat_stream(USER)]
        assert clock.elapsed == 60
        notices = [delta.notice for delta in seen if delta.notice]
        assert notices[0] == "Waiting 50 s: m is at its per-minute limit."
        assert len(notices) == 4
        await limited.aclose()


async def waits_of(script, *, tokens, second=None):
    """Seconds that a second request waits for a limit of tokens."""
    clock = FakeClock()
    with ScriptedServer([*script, "b"]) as server:
        limited = Limiter(client_of(server, "m"), tokens=tokens, clock=clock)
        with contextlib.suppress(LLMError):
            await limited.chat(USER)
        assert (await limited.chat(USER, **(second or {}))).content == "b"
        await limited.aclose()
    return clock.elapsed


@in_a_loop
async def test_tokens_count_as_the_server_says_or_as_estimated():
    used = TokenUsage(900, 200, 1100)
    assert await waits_of([answer("a", usage=used)], tokens=1000) == 60
    assert await waits_of([answer("word " * 200, usage=None)], tokens=100) == 60
    assert await waits_of([deltas("word " * 200, Reset())], tokens=100) == 60
    assert await waits_of([status(503, "down")], tokens=100) == 0
    assert await waits_of([answer("a", usage=TokenUsage(5, 5, 10))], tokens=100) == 0
    later = {"second": {"max_tokens": 95}}
    assert await waits_of([answer("a", usage=TokenUsage(5, 5, 10))], tokens=100, **later) == 60


@in_a_loop
async def test_a_request_larger_than_the_limit_goes_alone():
    with ScriptedServer(["a"]) as server:
        limited = Limiter(client_of(server, "m"), tokens=10, clock=FakeClock())
        assert (await limited.chat([{"role": "user", "content": "word " * 99}])).content == "a"
        await limited.aclose()


@in_a_loop
async def test_requests_go_in_the_order_of_their_arrival_small_ones_too():
    clock, asked = FakeClock(), []

    def serve(request):
        asked.append(request.messages[-1]["content"])
        return answer("x", usage=TokenUsage(300, 300, 600))

    with ScriptedServer(handler=serve) as server:
        limited = Limiter(client_of(server, "m"), tokens=1000, clock=clock)

        async def ask(name, **options):
            await limited.chat([{"role": "user", "content": name}], **options)

        await ask("first")
        await asyncio.gather(ask("large", max_tokens=500), ask("small"), ask("smaller"))
        await limited.aclose()
    assert asked[:2] == ["first", "large"]


@in_a_loop
async def test_a_request_that_gives_up_waiting_leaves_its_place():
    clock, used = FakeClock(), TokenUsage(50, 10, 60)
    with ScriptedServer([answer("a", usage=used), "b"]) as server:
        limited = Limiter(client_of(server, "m"), tokens=100, clock=clock)
        await limited.chat(USER)
        async with contextlib.aclosing(limited.chat_stream(USER, max_tokens=50)) as waiting:
            assert (await anext(waiting)).notice.startswith("Waiting")
        assert (await limited.chat(USER)).content == "b"
        await limited.aclose()
    assert clock.elapsed == 0


def test_a_run_that_waits_for_the_limit_is_not_silent():
    class Waiting(StreamingClient):
        async def chat_stream(self, messages, tools=None, **options):
            yield Delta(notice="Waiting.")
            await asyncio.sleep(0.3)  # more than an answer may pause, less than it may take to begin
            yield Delta("done", finish_reason="stop")

    agent = Agent(llm=Waiting(), first_byte_timeout=60, idle_timeout=0.1, retry=RetryConfig(max_retries=0))
    assert agent.run("go").content == "done"


def test_a_limited_group_stays_limited():
    clock = FakeClock()
    with ScriptedServer(["a", "b"]) as first, ScriptedServer(handler=lambda _: "never") as second:
        agent = Agent(llm=Limiter(pair(first, second), requests=1, clock=clock))
        assert [agent.run("go").content, agent.run("go").content] == ["a", "b"]
    assert clock.elapsed == 60


# -- limits that processes share -------------------------------------------------------------------------

ASK_UNTIL_WAITING = """
import asyncio, sys
from pure_agent_loop import Limiter, OpenAIClient
from pure_agent_loop.durable import SharedLimits
from pure_agent_loop.errors import LLMError

async def ask(limited):
    async for delta in limited.chat_stream([{"role": "user", "content": "q"}]):
        if delta.notice.startswith("Waiting"):
            return True
    return False

async def main(url, server, limit):
    client = OpenAIClient("m", "k", server)
    limited = Limiter(client, requests=int(limit), store=SharedLimits(url))
    while not any(await asyncio.gather(*(ask(limited) for _ in range(3)))):
        pass
    await limited.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'd.sqlite'}"
    pytest.importorskip("psycopg")  # of an extra, which the oldest dependencies are tested without
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def store(database):
    with contextlib.closing(SharedLimits(database)) as shared:
        yield shared


def test_a_key_that_is_set_after_the_client_is_made_counts_from_the_first_request(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    late, given = (Limiter(OpenAIClient("m", key, "https://x.example/v1"), requests=1) for key in (None, "k"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert late._key == given._key


def asking(database, server, limit):
    return running([sys.executable, "-c", ASK_UNTIL_WAITING, database, server.base_url, str(limit)])


def pass_time(limited, seconds):
    """Let the recorded minute be older by some seconds."""

    def change(ledger, _):
        ledger["spent"] = {str(int(second) - seconds): entry for second, entry in ledger["spent"].items()}
        ledger["waiting"] = {ticket: [seen - seconds, n] for ticket, (seen, n) in ledger["waiting"].items()}

    limited._store.change(limited._key, change)


def test_processes_together_stay_within_the_limit(database, store):
    with ScriptedServer(handler=lambda _: "x") as server:
        limited = Limiter(client_of(server, "m"), requests=7, store=store)
        for minute in (1, 2):
            with asking(database, server, 7) as first, asking(database, server, 7) as second:
                assert [process.wait(60) for process in (first, second)] == [0, 0]
            assert len(server.requests) == 7 * minute
            pass_time(limited, 61)


def test_a_killed_process_blocks_others_for_a_minute_at_most(database, store):
    gate = Gate("in the middle of a response")
    script = [deltas("half", gate), "whole"]
    with ScriptedServer(script) as server:
        with asking(database, server, 1) as process:
            gate.reached.wait()
            process.kill()
            process.wait(60)
        gate.open()
        limited = Limiter(client_of(server, "m"), requests=1, store=store)

        async def first_piece():
            async with contextlib.aclosing(limited.chat_stream(USER)) as deltas_of_it:
                return await anext(deltas_of_it)

        assert asyncio.run(first_piece()).notice.startswith("Waiting")
        pass_time(limited, 61)
        assert asyncio.run(limited.chat(USER)).content == "whole"


def test_no_change_of_several_connections_is_lost(database):
    def count(ledger, _):
        ledger["n"] = ledger.get("n", 0) + 1
        return ledger["n"]

    def change():
        with contextlib.closing(SharedLimits(database)) as own:
            own.change("key", count)
            ready.wait()
            for _ in range(25):
                own.change("key", count)

    ready = threading.Barrier(4)
    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with contextlib.closing(SharedLimits(database)) as last:
        assert last.change("key", count) == 4 * 26 + 1


class ClockWithoutWaits(FakeClock):
    """A clock on which nothing may wait."""

    async def sleep(self, seconds):
        raise AssertionError(f"a wait of {seconds} seconds")


def test_accounts_are_limited_apart(store):
    with ScriptedServer(["a", "b"]) as server:
        for key in ("sk-account-0001", "sk-account-0002"):
            client = OpenAIClient("m", key, server.base_url)
            limited = Limiter(client, requests=1, store=store, clock=ClockWithoutWaits())
            assert asyncio.run(limited.chat(USER)).content in "ab"
        with pytest.raises(AssertionError, match="a wait of"):
            asyncio.run(limited.chat(USER))


def test_without_its_database_a_request_fails_and_the_next_model_answers(tmp_path):
    pytest.importorskip("psycopg")
    away = SharedLimits(f"postgresql://nobody@/none?host={tmp_path}")
    with ScriptedServer(handler=lambda _: "never") as first, ScriptedServer(["b"]) as second:
        limited = Limiter(client_of(first, "first"), requests=1, store=away)
        with pytest.raises(LLMError, match="shared limits of first are unavailable") as raised:
            asyncio.run(limited.chat(USER))
        assert raised.value.kind == "connection"
        assert Agent(llm=Fallback([limited, client_of(second, "second")])).run("go").content == "b"
        assert first.requests == []


@pytest.mark.parametrize("limits", [{}, {"requests": 0}, {"tokens": 1.5}])
def test_a_limit_is_a_positive_number(limits):
    with ScriptedServer(handler=lambda _: "x") as server, pytest.raises(ConfigError):
        Limiter(client_of(server, "m"), **limits)


def test_agent_given_several_names_falls_back_to_the_next_server(monkeypatch):
    """For the whole agent, for a run, and in a copy: each name with its own server and key."""
    with ScriptedServer([status(503, "down")] * 3) as first, MessagesServer(["two"] * 3) as second:
        monkeypatch.setenv("OPENAI_BASE_URL", first.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", second.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k2")
        names = ["one", "anthropic:claude-opus-4-6"]
        agent, other = Agent(model=names), Agent(model="unused")
        results = [agent.run("go"), other.run("go", model=names), other.clone(model=names).run("go")]
        assert [result.content for result in results] == ["two"] * 3
    assert [request.headers["x-api-key"] for request in second.requests] == ["k2"] * 3


@pytest.mark.parametrize("setting", [{"api_key": "k"}, {"base_url": "http://127.0.0.1:9/v1"}])
def test_several_names_reject_a_setting_of_one_server(setting):
    with pytest.raises(ConfigError, match=r"Pass llm=Fallback"):
        Agent(model=["one", "two"], **setting)


@pytest.mark.parametrize("names", [[], ["one", ""], [7]])
def test_several_names_with_an_invalid_name_are_rejected(names):
    with pytest.raises(ConfigError, match=r"model"):
        Agent(model=names)
