"""Histories from outside: whatever they hold, what goes to a server is valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers import E, add, check_result, of_type, run_agent, tool_texts

from pure_agent_loop import Agent, HistoryError
from pure_agent_loop.llm.messages import repair_history, to_wire
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM, call, check_history

LOST = ENGLISH.tool_lost
USER = {"role": "user", "content": "hi"}
EXTRA = ("x", "meta", "reasoning_content", "name")


def ask(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def one(call_id="a", name="add", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id="a", content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def repair(*messages):
    return repair_history(messages, LOST)


VALID = [
    [],
    [USER, {"role": "assistant", "content": "hello"}],
    [{"role": "system", "content": "Be brief."}, USER],
    [USER, ask(one("a", arguments='{"a":1,  "b" : 2.50}'), one("b")), result("a"), result("b"), USER],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {}}]}],
    [USER, ask(one(), content="I look."), result(content=[{"type": "text", "text": "x"}])],
]


@pytest.mark.parametrize("history", VALID)
def test_a_valid_history_stays_as_it_is(history):
    before = json.dumps(history)
    fixed, fixes = repair_history(history, LOST)
    assert json.dumps(fixed) == before  # to the byte, so that prompt caches stay warm
    assert fixes == []
    assert json.dumps(history) == before


DEFECTS = {
    "a call without a result": ([ask(one())], "had no result"),
    "one of two results": ([ask(one("a"), one("b")), result("b"), USER], "call 'a' had no result"),
    "a result without a call": ([USER, result("zz")], "without its call became a user message"),
    "a second result": ([ask(one()), result(), result(content="again")], "was moved to its call"),
    "a late result": ([ask(one()), USER, result()], "was moved to its call"),
    "a double id": ([ask(one(), one()), result(), result()], "call id 'a' became 'a_2'"),
    "an id used before": ([ask(one()), result(), ask(one()), result()], "call id 'a' became 'a_2'"),
    "no id": ([ask({"function": {"name": "add", "arguments": "{}"}}), result(None)], "call id '' became"),
    "an empty id": ([ask(one("")), result("")], "call id '' became"),
    "an id that is a number": ([ask(one(7)), result(7)], "call id '' became"),
    "arguments that are not JSON": ([ask(one(arguments="{a:")), result()], "are not valid JSON"),
    "arguments that are a list": ([ask(one(arguments="[1]")), result()], "must be a JSON object"),
    "NaN": ([ask(one(arguments='{"a": NaN}')), result()], "NaN is not allowed"),
    "a key given twice": ([ask(one(arguments='{"a":1,"a":2}')), result()], "occurs twice"),
    "calls that are no list": ([{"role": "assistant", "tool_calls": "add"}], "tool_calls is not a list"),
    "no content": ([{"role": "user"}], "content became text"),
    "content that is a number": ([{"role": "user", "content": 5}], "content became text"),
    "parts without a type": ([{"role": "user", "content": [5]}], "content became text"),
    "a text among parts": ([{"role": "user", "content": ["hi"]}], "translated from another protocol"),
    "a later system message": ([USER, {"role": "system", "content": "Obey."}], "became a user message"),
    "a legacy call": (
        [
            {"role": "assistant", "function_call": {"name": "add", "arguments": "{}"}},
            {"role": "function", "name": "add", "content": "ok"},
        ],
        "function_call became tool_calls",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_repaired_and_told(name):
    history, words = DEFECTS[name]
    fixed, fixes = repair(*history)
    assert check_history(fixed, extra_keys=EXTRA) == []
    assert any(words in fix for fix in fixes), fixes
    assert repair_history(fixed, LOST) == (fixed, [])


@pytest.mark.parametrize("name", DEFECTS)
def test_run_continues_from_each_damage_and_reports_the_repair(name):
    history, words = DEFECTS[name]
    with ScriptedLLM(["fine"]) as llm:
        found = check_result(Agent(llm=llm).run("go on", history))
    assert check_history(llm.requests[0].messages) == []
    notices = of_type(found.events, E.NOTICE)
    assert [event.step for event in notices] == [0]
    assert notices[0].content.startswith("The history was repaired: ")
    assert words in notices[0].content


def test_model_text_and_tool_results_are_kept():
    fixed, _ = repair(
        ask(one("a", arguments='{"a": 1}'), one("b"), one("b"), content="I look."),
        result("b", "first b"),
        result("a", "for a"),
        result("b", "second b"),
    )
    assert tool_texts(fixed) == ["for a", "first b", "second b"]
    assert fixed[0]["content"] == "I look."
    assert json.loads(fixed[0]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}


def test_a_lost_result_says_so():
    fixed, _ = repair(ask(one("a"), one("b")), result("a", "ok"))
    assert tool_texts(fixed) == ["ok", LOST]


def test_lone_surrogates_are_replaced():
    fixed, _ = repair(
        {"role": "user", "content": "a\ud800b"},
        ask(one(arguments='{"x": "\\ud800"}', name="na\udfffme")),
        result(content="\udc00"),
    )
    assert check_history(fixed) == []
    assert fixed[0]["content"] == "a\ufffdb"


@pytest.mark.parametrize(
    "messages",
    [
        "hello",
        b"hello",
        {"role": "user", "content": "x"},
        5,
        "",
        {},
        [5],
        ["hi"],
        [None],
        [{}],
        [{"role": "robot", "content": "x"}],
        [{"role": ["user"], "content": "x"}],
        [USER, ("user", "hi")],
    ],
)
def test_invalid_history_is_rejected_before_a_request(messages):
    llm = ScriptedLLM([])
    with pytest.raises(HistoryError, match="messages") as caught:
        Agent(llm=llm).run("go", messages)
    assert isinstance(caught.value, ValueError)
    assert "role" in str(caught.value)


def test_a_system_message_of_the_history_replaces_the_prompt():
    for content in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
        with ScriptedLLM(["ok"]) as llm:
            found = Agent(llm=llm).run("go", [{"role": "system", "content": content}, USER])
        assert llm.requests[0].messages[0] == {"role": "system", "content": "Be brief."}
        assert [m["role"] for m in llm.requests[0].messages] == ["system", "user", "user"]
        assert [m["role"] for m in found.messages] == ["system", "user", "user", "assistant"]


def test_a_result_leads_to_the_next_run():
    with ScriptedLLM([call("add", a=1, b=2), "3", "still 3"]) as llm:
        agent = Agent(llm=llm, tools=[add])
        first = check_result(agent.run("1 + 2?"))
        second = check_result(agent.run("sure?", first.messages))
    assert second.messages[: len(first.messages)] == first.messages
    assert of_type(second.events, E.NOTICE) == []
    assert second.content == "still 3"


def test_the_callers_list_is_not_changed():
    history = [USER]
    with ScriptedLLM(["ok"]) as llm:
        Agent(llm=llm).run("go", history)
    assert history == [USER]


# -- any soup -------------------------------------------------------------------------------------

any_text = st.text(st.characters() | st.sampled_from("\ud800\udfff"), max_size=5)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["a", "b", "a_2", "call_0", "", "\ud800"]) | junk
texts = st.sampled_from(["{}", '{"a":1}', '{"a": "\\ud800"}', "[]", "{", "", '"{}"', '{"a":1e999}'])
functions = st.fixed_dictionaries({}, optional={"name": st.just("add") | junk, "arguments": texts | junk})
call_objects = st.fixed_dictionaries({}, optional={"id": ids, "function": functions | junk})
calls = st.lists(call_objects | junk, max_size=3)
contents = any_text | st.lists(st.just({"type": "text", "text": "x"})) | junk
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional={
        "content": contents,
        "tool_calls": calls | junk,
        "function_call": functions | junk,
        "tool_call_id": ids,
        "x": junk,
    },
)
EVERY_KEY = ("x", "function_call", "tool_call_id", "tool_calls")


def keys_of_calls(messages):
    """Keys of calls in a history: fields that an origin added go back to it as they are."""
    return {key for m in messages for call in m.get("tool_calls") or () for key in (*call, *call["function"])}


@settings(max_examples=200, deadline=None)
@given(st.lists(messages, max_size=6))
@example([{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}], "tool_calls": True}])
def test_any_soup_becomes_valid_and_stays_so(soup):
    fixed, _ = repair_history(soup, LOST)
    assert check_history(to_wire(fixed), extra_keys={*EVERY_KEY, *keys_of_calls(fixed)}) == []
    assert repair_history(fixed, LOST) == (fixed, [])
    json.dumps(fixed, allow_nan=False).encode()


@settings(max_examples=30, deadline=None)
@given(st.lists(messages, max_size=4))
def test_run_continues_from_any_damaged_history(soup):
    with ScriptedLLM([call("add", a=1, b=2), "done"]) as llm:
        agent = Agent(llm=llm, tools=[add])
        found = agent.run("go", soup)
    for request in llm.requests:
        extra = {*EVERY_KEY, *keys_of_calls(request.messages)}
        assert check_history(request.messages, extra_keys=extra) == []
    assert found.stop_reason == "completed"
    assert run_agent(ScriptedLLM(["hi"])).content == "hi"
