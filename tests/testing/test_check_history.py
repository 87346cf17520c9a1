from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pure_agent_loop.llm.messages import repair_history, to_wire
from pure_agent_loop.testing import check_history, check_request

USER = {"role": "user", "content": "hi"}


def made(call_id="c1", name="f", arguments="{}", **more):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asks(*calls, **more):
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(call_id="c1", content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


GOOD = {
    "nothing": [],
    "plain": [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": ""}, USER],
    "developer": [{"role": "developer", "content": "s"}, USER],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "pairs": [USER, asks(made("a"), made("b")), result("a"), result("b"), asks(made("c")), result("c")],
    "named": [{"role": "user", "name": "ann", "content": "hi"}],
    "unicode": [USER, asks(made(arguments='{"wort": "中文 \\ud83d\\ude00"}')), result(content="中文 😀")],
}
BAD = {
    "no object": (["hi"], "known role"),
    "unknown role": ([{"role": "function", "content": "x"}], "known role"),
    "role no text": ([{"role": ["user"], "content": "x"}], "known role"),
    "unknown key": ([{**USER, "meta": {}}], "unknown key 'meta'"),
    "reasoning key": (
        [USER, {"role": "assistant", "content": "x", "reasoning_content": "h"}],
        "reasoning_content",
    ),
    "result key elsewhere": ([{**USER, "tool_call_id": "x"}], "unknown key 'tool_call_id'"),
    "second system": (
        [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}],
        "not the first",
    ),
    "late system": ([USER, {"role": "system", "content": "a"}], "system message that is not the first"),
    "no content": ([{"role": "user", "content": None}], "user message is NoneType"),
    "empty answer": ([USER, {"role": "assistant", "content": None}], "assistant message is NoneType"),
    "number content": ([{"role": "user", "content": 3}], "is int, not text"),
    "no parts": ([{"role": "user", "content": []}], "typed parts"),
    "untyped part": ([{"role": "user", "content": [{"text": "x"}]}], "typed parts"),
    "null result": ([USER, asks(made()), result(content=None)], "tool message is NoneType"),
    "no calls": ([USER, asks(content="x")], "at least one call"),
    "null calls": ([{"role": "assistant", "content": "x", "tool_calls": None}], "at least one call"),
    "call no object": ([USER, asks("x")], "not an object with a function"),
    "call without function": ([USER, asks({"id": "x", "type": "function"})], "not an object with a function"),
    "unknown call key": ([USER, asks(made(index=0)), result()], "unknown key 'index' in a call"),
    "wrong type": ([USER, asks(made(type="custom")), result()], "has the type 'custom'"),
    "empty name": ([USER, asks(made(name="")), result()], "has the name ''"),
    "strange name": ([USER, asks(made(name="a b")), result()], "has the name 'a b'"),
    "name with a line end": ([USER, asks(made(name="a\n")), result()], "has the name"),
    "empty id": ([USER, asks(made("")), result("")], "has the id ''"),
    "null id": ([USER, asks(made(None))], "has the id None"),
    "id twice in one": ([USER, asks(made(), made()), result(), result()], "'c1' is used twice"),
    "id twice later": ([USER, asks(made()), result(), asks(made()), result()], "'c1' is used twice"),
    "argument object": ([USER, asks(made(arguments={})), result()], "arguments are dict"),
    "argument list": ([USER, asks(made(arguments="[1]")), result()], "JSON list"),
    "argument junk": ([USER, asks(made(arguments='{"a":')), result()], "arguments are not JSON"),
    "argument nothing": ([USER, asks(made(arguments="")), result()], "arguments are not JSON"),
    "argument NaN": ([USER, asks(made(arguments='{"a": NaN}')), result()], "NaN is not JSON"),
    "argument key twice": ([USER, asks(made(arguments='{"a":1,"a":2}')), result()], "duplicate key"),
    "argument newline": ([USER, asks(made(arguments='{"a":"\n"}')), result()], "arguments are not JSON"),
    "argument surrogate": (
        [USER, asks(made(arguments='{"a":"\\ud800"}')), result()],
        "arguments: a lone surrogate",
    ),
    "call without result": ([USER, asks(made())], "the end: the call 'c1' has no result"),
    "result missing": ([USER, asks(made("a"), made("b")), result("a"), USER], "messages[3]: the call 'b'"),
    "result too late": ([USER, asks(made()), USER, result()], "no result"),
    "result alone": ([USER, result()], "no call is open"),
    "result twice": ([USER, asks(made()), result(), result()], "no call is open"),
    "result of another": ([USER, asks(made("a")), result("b"), result("a")], "not among the open calls"),
    "wrong order": (
        [USER, asks(made("a"), made("b")), result("b"), result("a")],
        "comes before the one for 'a'",
    ),
    "surrogate": ([{"role": "user", "content": "x\ud800"}], "lone surrogate"),
    "surrogate in a part": (
        [{"role": "user", "content": [{"type": "text", "text": "\udfff"}]}],
        "lone surrogate",
    ),
    "nan": ([{"role": "user", "content": [{"type": "x", "y": float("nan")}]}], "nan is not JSON"),
}


@pytest.mark.parametrize("name", GOOD)
def test_valid_histories_pass(name):
    assert check_history(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_each_defect_is_named(name):
    messages, words = BAD[name]
    assert words in "\n".join(check_history(messages))


def test_a_single_defect_gives_a_single_sentence():
    assert check_history([USER, asks(made("a"), made("b")), result("a")]) == [
        "the end: the call 'b' has no result"
    ]


def test_further_keys_can_be_allowed():
    messages = [USER, {"role": "assistant", "content": "x", "reasoning_content": "h"}]
    assert check_history(messages, extra_keys=["reasoning_content"]) == []


def test_deep_nesting_is_accepted():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert check_history([{"role": "user", "content": [{"type": "x", "y": deep}]}]) == []
    assert "not JSON" in check_history([USER, asks(made(arguments='{"a":' + "[" * 200_000)), result()])[0]


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BODY = {"model": "m", "messages": [USER]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "not a JSON object"),
        (None, "not a JSON object"),
        ({**BODY, "model": None}, "'model'"),
        ({**BODY, "model": ""}, "'model'"),
        ({**BODY, "messages": []}, "at least one message"),
        ({"model": "m"}, "at least one message"),
        ({**BODY, "messages": ["x"]}, "known role"),
        ({**BODY, "tools": []}, "leave it out"),
        ({**BODY, "tools": [{"type": "function"}]}, "tools[0]"),
        ({**BODY, "tools": [{**TOOL, "type": "x"}]}, "tools[0]"),
        ({**BODY, "tools": [TOOL, TOOL]}, "'f' is used twice"),
        ({**BODY, "tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools[0]"),
        (
            {**BODY, "tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]},
            "JSON schema",
        ),
        ({**BODY, "temperature": float("inf")}, "inf is not JSON"),
        ({**BODY, "user": "\ud800"}, "lone surrogate"),
    ],
)
def test_defects_of_a_request_are_named(body, words):
    assert words in "\n".join(check_request(body))


def test_a_valid_request_passes():
    assert check_request({**BODY, "tools": [TOOL], "temperature": 0.5}) == []


IDS = st.sampled_from(["a", "b", "", None])
TEXTS = st.sampled_from(["x", "", None, "\ud800", 3])
ARGUMENTS = st.sampled_from(["{}", '{"a": NaN}', "[1]", "{", None, {"a": float("nan")}, '{"a":1,"a":2}'])
CALLS = st.lists(st.builds(made, IDS, st.sampled_from(["f", "g"]), ARGUMENTS), max_size=3)
MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text if isinstance(text, str) else "x"}, TEXTS),
    st.builds(lambda calls, text: {"role": "assistant", "content": text, "tool_calls": calls}, CALLS, TEXTS),
    st.builds(result, IDS, TEXTS.map(str)),
)


@settings(deadline=None, database=None)
@given(st.lists(MESSAGES, max_size=8))
def test_repaired_history_passes_and_is_stable(messages):
    repaired, _ = repair_history(messages, "lost")
    assert [one for one in check_history(to_wire(repaired)) if "content of" not in one] == []
    assert json.loads(json.dumps(repaired)) == repaired
