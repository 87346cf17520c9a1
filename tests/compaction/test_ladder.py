"""The ladder in a run: when it acts, what it tells, and that it never loops, latches or breaks a history."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compaction.sessions import histories, long_session, prose, round_of
from tests.helpers import E, check_result, drive, of_type, run_agent, run_kernel, tool_texts

from pure_agent_loop import (
    Agent,
    ConfigError,
    LLMError,
    LoopLimits,
    OpenAIClient,
    QueryState,
    RetryConfig,
    TokenUsage,
    tool,
)
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.compaction.shape import estimate, newest_question
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.kernel.kit import NoCompaction
from pure_agent_loop.llm.messages import user_message
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, call, check_history

FREE = LoopLimits(max_tokens=None, max_steps=None, doom_loop_threshold=None)


def is_summary_request(messages):
    return messages[0]["content"] == ENGLISH.summary_system


def summarising(*answers, summary="Goal: to mend the parser."):
    """A model that answers in turn, and writes summaries whenever it is asked for one."""
    left = list(answers)

    def play(messages, tools, options):
        if is_summary_request(messages):
            assert tools is None
            if isinstance(summary, Exception):
                raise summary
            return answer(summary, usage=None)
        return left.pop(0)

    return ScriptedLLM(play, usage=None)


def run_with(history, llm, window=4_000, **kit):
    state = QueryState(messages=list(history), task="t")
    settings = {"compactor": Ladder(), "context_window": window, "limits": FREE, **kit}
    return run_kernel(llm, state=state, **settings)


def rungs(result):
    return [event.data["rung"] for event in of_type(result.events, E.COMPACTION)]


def asked(llm):
    return [request for request in llm.requests if not is_summary_request(request.messages)]


def test_a_short_history_is_left_alone():
    with summarising("done") as llm:
        result = run_with(long_session(rounds=2, words=20), llm)
    assert rungs(result) == []
    assert result.state.auto_compact_tracking == {}


def too_small_for(history):
    return int(estimate(history) / 0.8 * 0.95)


def test_old_output_goes_first_and_may_be_enough():
    history = long_session(rounds=12, words=60)
    window = too_small_for(history)
    with summarising("done") as llm:
        result = run_with(history, llm, window=window)
    assert rungs(result) == ["prune"]
    event = of_type(result.events, E.COMPACTION)[0].data
    assert event["tokens_after"] < 0.8 * window < event["tokens_before"]
    assert event["messages_before"] == event["messages_after"] == 25
    saved = event["tokens_before"] - event["tokens_after"]
    assert result.state.auto_compact_tracking == {"prune": {"acted": 1, "saved": saved}}
    worth = {name: event.pop(name) for name in ("cost", "saving")}
    assert all(count > 0 for count in worth.values())
    assert result.state.context.boundary == {**event, "step": 1}


def test_repetitions_are_the_second_rung():
    same = [message for number in range(4) for message in round_of(number, prose(7, 60), path="a")]
    more = [message for number in range(5, 25) for message in round_of(number, prose(number, 10))]
    history = [user_message("x"), *more, *same]
    with summarising("done") as llm:
        result = run_with(history, llm, window=too_small_for(history))
    assert rungs(result) == ["repeated"]
    assert asked(llm)[0].messages[-1] == same[-1]


def test_model_summary_is_followed_by_the_record():
    history = long_session(rounds=60, words=100)
    with summarising("done") as llm:
        result = run_with(history, llm)
    assert rungs(result) == ["prune", "summary"]
    first, summary = asked(llm)[0].messages[:2]
    assert first["content"] == "Fix the bug in the parser."
    assert summary["content"].startswith(ENGLISH.summary_head)
    assert "Goal: to mend the parser." in summary["content"]
    assert "src/module_0.py" in summary["content"]
    assert "Tools called: read_file" in summary["content"]
    assert result.messages[-2] == history[-1], "the newest messages stay as they are"
    assert len(llm.requests) > 2, "the old part is longer than one window"


def test_each_request_for_a_summary_fits_the_window():
    with summarising("done") as llm:
        run_with(long_session(rounds=200, words=200), llm)
    sizes = [QueryState().context.estimate(request.messages) for request in llm.requests]
    assert max(sizes) < 4_000
    assert len(sizes) <= 9


@pytest.mark.parametrize(
    "failure", [LLMError("no", kind="auth"), RuntimeError("boom"), LLMError("busy", kind="overloaded")]
)
def test_a_summary_that_fails_is_followed_by_the_trim(failure):
    with summarising("done", summary=failure) as llm:
        result = run_with(long_session(rounds=60, words=100), llm)
    assert result.content == "done"
    assert rungs(result) == ["prune", "trim"]
    assert any("No summary" in event.content for event in of_type(result.events, E.NOTICE))
    tries = len(llm.requests) - 1
    assert tries == (RetryConfig().max_retries + 1 if getattr(failure, "is_transient", False) else 1)


def test_a_failed_summary_today_does_not_prevent_one_tomorrow():
    said = iter(["", ""] + ["Goal: to mend the parser."] * 100)
    steps = iter([*(call("look", place=number) for number in range(60)), "done"])

    def play(messages, tools, options):
        return next(said if is_summary_request(messages) else steps)

    with ScriptedLLM(play, usage=None) as llm:
        result = run_agent(llm, [look], limits=FREE, context_window=3_000)
    assert {"trim", "summary"} <= set(rungs(result))
    assert rungs(result).index("trim") < rungs(result).index("summary")


def test_an_empty_summary_counts_as_failed():
    with summarising("done", summary="  ") as llm:
        result = run_with(long_session(rounds=60, words=100), llm)
    assert rungs(result) == ["prune", "trim"]


def test_without_summaries_no_request_is_spent():
    with summarising("done") as llm:
        result = run_with(long_session(rounds=60, words=100), llm, compactor=Ladder(summarise=False))
    assert rungs(result) == ["prune", "trim"]
    assert len(llm.requests) == 1


def test_summary_counts_in_the_usage_and_is_recorded():
    keys = []

    class Recording(MemoryJournal):
        async def effect(self, key, run, about=None):
            assert key not in keys
            keys.append(key)
            return await run()

    with summarising("done") as llm:
        result = run_with(long_session(rounds=60, words=100), llm, journal=Recording())
    assert keys[-1] == "1:model"
    assert keys[:-1] == [f"1:compact:{number}" for number in range(1, len(keys))]
    assert result.usage.total_tokens > 4_000


@tool
def look(place: int) -> str:
    """Look somewhere."""
    return prose(place, 150)


def long_run(llm_steps=60, **options):
    script = [call("look", place=number) for number in range(llm_steps)]
    with summarising(*script, "done") as llm:
        result = run_agent(llm, [look], limits=FREE, temperature=None, **options)
    return llm, result


@pytest.mark.parametrize("window", [1_500, 4_000, 16_000])
def test_many_rounds_in_a_small_window_work_to_the_end(window):
    llm, result = long_run(context_window=window)
    assert result.content == "done"
    for request in asked(llm):
        assert check_history(request.messages) == []
        assert "go" in [m["content"] for m in request.messages if m["role"] == "user"]
    ends = of_type(result.events, E.STEP_END)
    assert all(event.data["context"]["window"] == window for event in ends)
    assert max(QueryState().context.estimate(request.messages) for request in llm.requests) < window
    assert len(rungs(result)) <= 4 * len(ends)


def test_earlier_bytes_change_only_when_a_rung_acts():
    llm, result = long_run(context_window=16_000)
    requests, acted = asked(llm), {event.step for event in of_type(result.events, E.COMPACTION)}
    assert acted
    for step, (one, two) in enumerate(pairwise(requests), 2):
        same = json.dumps(two.messages).startswith(json.dumps(one.messages)[:-1])
        assert same == (step not in acted)
    assert len(acted) <= len(requests) / 4, "it does not act at every step"


def test_boundary_survives_the_plain_form_and_the_run_resumes():
    _, result = long_run(context_window=4_000)
    data = json.loads(json.dumps(result.state.to_dict()))
    assert data["auto_compact_tracking"]["prune"]["acted"] >= 1
    assert data["context"]["boundary"]["tokens_after"] < data["context"]["boundary"]["tokens_before"]
    with summarising("more done") as llm:
        agent = Agent(llm=llm, tools=[look], context_window=4_000, limits=FREE)
        again = check_result(agent.run("more", state=data), result.state.step + 1)
    assert again.content == "more done"


@settings(max_examples=40)
@given(
    history=histories(),
    window=st.integers(50, 3_000),
    works=st.booleans(),
    tokens=st.sampled_from([None, 7, 2_000]),
)
def test_any_history_survives_the_ladder(history, window, works, tokens):
    usage = None if tokens is None else TokenUsage(tokens, 1, tokens + 1)

    def play(messages, tools, options):
        if is_summary_request(messages):
            return answer("short" if works else "", usage=usage)
        assert check_history(messages) == []
        return answer("done", usage=usage)

    question = history[newest_question(history)] if newest_question(history) is not None else None
    state = QueryState(messages=list(history))
    result = asyncio.run(drive(state, ScriptedLLM(play), compactor=Ladder(), context_window=window))
    assert result.content == "done"
    seen = [event.data for event in of_type(result.events, E.COMPACTION)]
    assert len(seen) <= 4
    assert [event["rung"] for event in seen] == sorted(
        (event["rung"] for event in seen), key=["prune", "repeated", "summary", "trim"].index
    )
    assert all(event["tokens_after"] < event["tokens_before"] for event in seen)
    assert question is None or question in state.messages


def test_an_unknown_window_has_a_default():
    with summarising("done") as llm:
        result = run_with(long_session(rounds=200, words=250), llm, window=None)
    assert rungs(result) == ["prune"]
    assert of_type(result.events, E.STEP_END)[0].data["context"]["window"] is None


@pytest.mark.parametrize("off", [False, NoCompaction()])
def test_it_can_be_switched_off(off):
    _, result = long_run(llm_steps=20, context_window=1_500, compaction=off)
    assert rungs(result) == []
    assert len(tool_texts(result.messages)) == 20


def test_custom_compactor_is_called():
    class Mine:
        seen = 0

        async def compact(self, state):
            self.seen += 1

    mine = Mine()
    with ScriptedLLM([call("look", place=1), "done"]) as llm:
        run_agent(llm, [look], compaction=mine)
    assert mine.seen == 2


def test_the_output_limit_of_the_caller_is_kept_free():
    with summarising("done") as llm:
        result = run_with(
            long_session(rounds=20, words=60), llm, window=10_000, options={"max_tokens": 6_000}
        )
    assert rungs(result)


@pytest.mark.parametrize(
    "options",
    [{"compaction": "yes"}, {"context_window": 0}, {"context_window": True}, {"max_result_chars": -1}],
)
def test_impossible_setting_is_rejected(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        Agent(llm=ScriptedLLM([]), **options)


@pytest.mark.parametrize("numbers", [{"share": 0}, {"share": 1.5}, {"unknown_window_tokens": 0}])
def test_a_ladder_refuses_numbers_that_cannot_work(numbers):
    with pytest.raises(ConfigError, match="Ladder"):
        Ladder(**numbers)


def test_a_ladder_needs_a_run():
    with pytest.raises(ConfigError, match="with_kit"):
        asyncio.run(Ladder().compact(QueryState()))


# -- accounting -----------------------------------------------------------------------------------


def contexts(result):
    return [event.data["context"] for event in of_type(result.events, E.STEP_END)]


def test_size_is_the_servers_count_plus_an_estimate_of_newer_messages():
    script = [
        answer(call("look", place=1), usage=TokenUsage(1_000, 20, 1_020)),
        answer("done", usage=TokenUsage(1_700, 5, 1_705)),
    ]
    with ScriptedLLM(script) as llm:
        result = run_agent(llm, [look], context_window=8_000)
    first, second = contexts(result)
    assert first["estimated"]
    assert 1_020 + 300 < first["tokens"] < 1_020 + 1_500
    assert second == {"tokens": 1_705, "window": 8_000, "estimated": False}


def test_a_server_that_counts_nothing_is_guessed_for():
    with ScriptedLLM(["done"], usage=None) as llm:
        result = run_agent(llm)
    assert contexts(result)[0]["estimated"]
    assert 5 < contexts(result)[0]["tokens"] < 60


def test_a_count_that_is_far_too_low_is_not_believed():
    with ScriptedLLM(["done"], usage=TokenUsage(15, 1, 16)) as llm:
        result = run_agent(llm, task=prose(1, 2_000))
    assert contexts(result)[0]["tokens"] > 2_000


def test_the_window_comes_from_the_caller_the_server_or_the_profile():
    assert (
        OpenAIClient("gpt-4o-mini", api_key="k", base_url="https://api.openai.com/v1").context_window
        == 128_000
    )
    assert OpenAIClient("gpt-5", api_key="k", base_url="https://api.openai.com/v1").context_window == 400_000
    assert OpenAIClient("gpt-77", api_key="k", base_url="https://api.openai.com/v1").context_window is None
    with ScriptedServer(["hi"]) as server:
        client = OpenAIClient("m", base_url=server.base_url)
        result = Agent(llm=client, context_window=9_999).run("x")
        assert contexts(result)[0]["window"] == 9_999
        assert server.other_requests == [], "a short request needs no probe"
