"""Several models behind one client: what happens after a failure, and within a limit per minute."""

import json

import pytest

from pure_agent_loop import Agent, AnthropicClient, Fallback, Limiter, OpenAIClient, RetryConfig
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.response import assembled
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.testing import FakeClock, ScriptedServer, answer, call, deltas
from pure_agent_loop.testing.faults import EndEarly, Reset, Silence, status
from pure_agent_loop.testing.protocols import MessagesServer
from tests.llm.protocols.loops import in_a_loop

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


@in_a_loop
async def test_if_all_fail_the_last_error_is_raised():
    with ScriptedServer([status(503, "down")]) as first, ScriptedServer([status(401, "bad")]) as second:
        models = pair(first, second)
        with pytest.raises(LLMError) as raised:
            await models.chat(USER)
        await models.aclose()
    assert raised.value.kind == "auth"


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


def test_thinking_goes_back_to_the_model_that_thought():
    items = [
        answer(call("mark", name="x"), reasoning="mine"),
        status(529, "busy"),
        answer("b", reasoning="y"),
    ]
    with MessagesServer(items) as claude, ScriptedServer(["a"]) as second:
        models = Fallback([AnthropicClient("claude-opus-4-6", "k", claude.base_url), client_of(second, "m")])
        agent = Agent(llm=models, tools=[mark], retry=RetryConfig(max_retries=0))
        first = agent.run("go")
        models._members[0].ready_at = 0
        agent.run("again", messages=json.loads(json.dumps(first.messages)))
        other, own = second.requests[0].raw.decode(), claude.requests[-1].raw.decode()
    assert first.output == "a"
    assert "mine" not in other
    assert "served_by" not in other + own
    assert '"thinking":"mine"' in own


@pytest.mark.parametrize("models", [[], "gpt-5", [object()]])
def test_clients_are_needed(models):
    with pytest.raises(ConfigError, match="list of clients"):
        Fallback(models)


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
        assert clock.waits == [50]
        assert seen[0].notice == "Waiting 50 s: the limit per minute of m is reached."
        await limited.aclose()


@in_a_loop
async def test_tokens_above_the_limit_wait():
    clock = FakeClock()
    big = answer("a", usage=TokenUsage(900, 200, 1100))
    with ScriptedServer([big, "b"]) as server:
        limited = Limiter(client_of(server, "m"), tokens=1000, clock=clock)
        await limited.chat(USER)
        assert (await limited.chat(USER)).content == "b"
        assert clock.waits == [60]
        await limited.aclose()


@pytest.mark.parametrize("limits", [{}, {"requests": 0}, {"tokens": 1.5}])
def test_a_limit_is_a_positive_number(limits):
    with ScriptedServer(handler=lambda _: "x") as server, pytest.raises(ConfigError):
        Limiter(client_of(server, "m"), **limits)
