"""Events: one factory each, frozen, and always JSON."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
import pickle
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import check_events

from pure_agent_loop import ConfigError, Event, EventType
from pure_agent_loop.events import ActionEvent, LoopEndEvent

FACTORIES = [
    (Event.loop_start("t"), "loop_start", 0, {"task": "t"}, ""),
    (Event.thought(1, "x"), "thought", 1, {"content": "x"}, "x"),
    (Event.reasoning(1, "x"), "reasoning", 1, {"content": "x"}, "x"),
    (Event.action(1, "t", {"a": 1}), "action", 1, {"tool": "t", "args": {"a": 1}, "call_id": ""}, ""),
    (
        Event.observation(1, "t", "r", 0.5, "c", True),
        "observation",
        1,
        {"tool": "t", "result": "r", "duration": 0.5, "call_id": "c", "is_error": True},
        "r",
    ),
    (Event.soft_limit(2, "timeout", "p"), "soft_limit", 2, {"reason": "timeout", "prompt": "p"}, "p"),
    (Event.error(2, "e"), "error", 2, {"error": "e", "fatal": False, "kind": "unknown"}, "e"),
    (
        Event.loop_end(3, "completed", "c"),
        "loop_end",
        3,
        {"stop_reason": "completed", "content": "c", "messages": []},
        "c",
    ),
    (Event.text_delta(1, "x"), "text_delta", 1, {"content": "x"}, "x"),
    (Event.reasoning_delta(1, "x"), "reasoning_delta", 1, {"content": "x"}, "x"),
    (
        Event.tool_call_delta(1, 0, "t", "{"),
        "tool_call_delta",
        1,
        {"index": 0, "tool": "t", "arguments": "{"},
        "",
    ),
    (
        Event.retry(1, 2, 3.0, "e", True),
        "retry",
        1,
        {"attempt": 2, "delay": 3.0, "error": "e", "discard": True},
        "e",
    ),
    (Event.notice(0, "m", more=1), "notice", 0, {"message": "m", "more": 1}, "m"),
    (Event.part(1, {"id": "p"}), "part", 1, {"part": {"id": "p"}}, ""),
    (
        Event.permission(1, "t", {"a": 1}, "ask", "why", "c"),
        "permission",
        1,
        {"tool": "t", "args": {"a": 1}, "behavior": "ask", "reason": "why", "call_id": "c"},
        "",
    ),
    (Event.file_change(1, {"path": "a"}), "file_change", 1, {"path": "a"}, ""),
    (Event.task(1, {"id": "t"}), "task", 1, {"task": {"id": "t"}}, ""),
    (
        Event.progress(1, "t", "half", "c"),
        "progress",
        1,
        {"tool": "t", "text": "half", "call_id": "c"},
        "half",
    ),
    (Event.partial_output(1, {"a": 1}), "partial_output", 1, {"output": {"a": 1}}, ""),
    (Event.step_end(1, {"total_tokens": 3}), "step_end", 1, {"usage": {"total_tokens": 3}}, ""),
    (
        Event.compaction(1, "trim", (9, 4), (3, 2)),
        "compaction",
        1,
        {
            "rung": "trim",
            "tokens_before": 9,
            "tokens_after": 4,
            "messages_before": 3,
            "messages_after": 2,
        },
        "",
    ),
]


@pytest.mark.parametrize(("event", "kind", "step", "data", "content"), FACTORIES, ids=lambda v: str(v)[:20])
def test_each_factory(event, kind, step, data, content):
    assert (event.type, str(event.type), event.step, event.data) == (kind, kind, step, data)
    assert event.content == content
    plain = {"version": 1, "type": kind, "step": step, "timestamp": event.timestamp, "data": data}
    assert event.to_dict() == plain
    again = Event.from_dict(plain, 7)
    assert (type(again), again, again.number) == (type(event), event, 7)
    assert {name: getattr(event, name) for name in vars(type(event)) if name in data} == {
        name: value for name, value in data.items() if name != "more"
    }


def test_each_type_has_one_factory():
    made = [event.type for event, *_ in FACTORIES]
    assert sorted(made) == sorted(EventType)
    for kind in EventType:
        assert callable(getattr(Event, kind.value))


def test_events_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Event.thought(1, "x").step = 2


def test_an_event_has_the_attributes_of_its_type_alone():
    match Event.action(1, "add", {"a": 1}):
        case ActionEvent(tool=name, args={"a": a}):
            assert (name, a) == ("add", 1)
        case _:
            pytest.fail("no action")
    with pytest.raises(AttributeError):
        Event.thought(1, "x").tool  # noqa: B018 - it raises
    with pytest.raises(AttributeError):
        Event.thought(1, "x").thought  # noqa: B018 - a factory is of the class


def test_events_can_be_copied():
    event = Event.from_dict(Event.action(1, "add", {"a": 1}).to_dict(), 3)
    for again in (
        copy.deepcopy(event),
        pickle.loads(pickle.dumps(event)),
        dataclasses.replace(event, step=1),
    ):
        assert (again, again.number, again.tool, type(again)) == (event, 3, "add", ActionEvent)


def test_a_missing_key_reads_as_nothing():
    assert LoopEndEvent(EventType.LOOP_END, 1, {}).messages == []


def test_undeclared_key_is_hidden():
    assert Event.notice(0, "secret", model="m", synthetic=True).public()["data"] == {"synthetic": True}
    assert Event.step_end(1, {"total_tokens": 3, "note": "secret"}).public()["data"] == {
        "usage": {"total_tokens": 3}
    }


def test_tools_are_seen_where_the_program_says_so():
    events = [
        Event.action(1, "open", {"a": "given"}),
        Event.progress(1, "open", "on the way"),
        Event.observation(1, "open", "done", 0.5),
        Event.part(1, {"type": "tool", "tool": "open", "input": {"a": "given"}, "output": "done"}),
    ]
    words = ("given", "on the way", "done")
    shown = json.dumps([event.public(tools=["open"]) for event in events])
    assert [shown.count(word) for word in words] == [2, 1, 2]
    hidden = json.dumps([event.public(tools=["shut"]) for event in events])
    assert [hidden.count(word) for word in words] == [0, 0, 0]
    failed = Event.observation(1, "open", "/etc/secret: no such file", 0.5, is_error=True)
    assert "secret" not in json.dumps(failed.public(tools=True))
    with pytest.raises(ConfigError, match="list of tool names"):
        failed.public(tools="open")


def test_notebooks_get_escaped_text():
    assert "<p>&lt;b&gt;\\x1b</p>" in Event.thought(1, "<b>\x1b")._repr_html_()


class Colour(enum.Enum):
    RED = frozenset({1, 2})


@dataclasses.dataclass
class Point:
    x: object


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Dumping:
    def model_dump(self):
        return {"me": self}


class Failing:
    def model_dump(self):
        raise OSError("no")


class Evil:
    def __getattr__(self, name):
        raise LookupError(name)


class Digging:
    def model_dump(self):
        return [Digging()]


def inside_itself():
    value = [1]
    value += [value, {"again": value}, (value, value)]
    return value


ODD = {
    "bytes": b"\xff",
    "bytearray": bytearray(b"x"),
    "set": {1},
    "frozenset": frozenset({"a"}),
    "enum": Colour.RED,
    "dataclass": Point(Point({1: None})),
    "no text": Unprintable(),
    "a key without text": {Unprintable(): 1},
    "a model": Dumping(),
    "a failing model": Failing(),
    "a class": Point,
    "nan": float("nan"),
    "infinity": -float("inf"),
    "surrogate": "\ud800",
    "a huge integer": 10**5000,
    "a negative huge integer": -(10**5000),
    "a proxy": MappingProxyType({"a": (1, 2)}),
    "a generator": (x for x in ()),
    "itself": inside_itself(),
    "no attributes": Evil(),
    "without end": Digging(),
    "complex": 1j,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_become_json(name):
    event = Event.action(1, "t", {"value": ODD[name]})
    json.dumps(event.to_dict(), allow_nan=False).encode()
    odd = (
        Event.part(1, {"type": ODD[name]}),
        Event.task(1, {"state": ODD[name]}),
        Event.action(1, ODD[name], {}),
    )
    json.dumps([each.public(tools={"t"}) for each in odd], allow_nan=False)


def test_odd_values_have_a_json_form():
    args = {"set": {1}, "nan": float("nan"), "bytes": b"\xc3\xa4", "point": Point((1, "x")), "big": 16**4000}
    assert Event.action(1, "t", args).to_dict()["data"]["args"] == {
        "set": [1],
        "nan": "nan",
        "bytes": "ä",
        "point": {"x": [1, "x"]},
        "big": "0x1" + "0" * 4000,
    }
    assert Event.action(1, "t", {"v": inside_itself()}).to_dict()["data"]["args"]["v"] == [
        1,
        "...",
        {"again": "..."},
        ["...", "..."],
    ]


def test_deep_values_are_cut():
    value = []
    for _ in range(5000):
        value = [value]
    assert "..." in json.dumps(Event.notice(0, "m", value=value).to_dict())


def test_a_value_that_appears_twice_is_not_cut():
    shared = {"a": [1]}
    data = Event.action(1, "t", {"x": shared, "y": [shared, shared]}).to_dict()["data"]
    assert data["args"] == {"x": {"a": [1]}, "y": [{"a": [1]}] * 2}


numbers = st.booleans() | st.integers() | st.floats() | st.complex_numbers()
scalars = st.none() | numbers | st.binary(max_size=4)
any_text = st.text(st.characters() | st.sampled_from("\ud800\udfff"), max_size=4)
keys = any_text | st.integers() | st.none() | st.just(Colour.RED) | st.tuples(st.integers())
odd = st.sampled_from(sorted(ODD)).map(lambda name: ODD[name])  # by name: not all of them can be printed
junk = st.recursive(
    scalars | any_text | odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(inner)
        | st.builds(Point, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(junk)
def test_to_dict_is_always_json(value):
    event = Event.notice(0, "m", value=value)
    text = json.dumps(event.to_dict(), allow_nan=False)
    text.encode()
    assert json.loads(text)["data"].keys() == {"message", "value"}


def test_the_grammar_checker_itself_refuses():
    """The checker is used everywhere, so it is seen to fail here."""
    start, end = Event.loop_start("t"), Event.loop_end(1, "completed")
    step = [Event.thought(1, "x"), Event.step_end(1)]
    check_events([start, *step, end])
    wrong = [
        [start, *step],
        [*step, end],
        [start, start, end],
        [start, Event.thought(1, "x"), end],
        [start, Event.action(1, "t", {}, "a"), Event.step_end(1), end],
        [start, Event.thought(2, "x"), Event.step_end(2), end],
        [start, Event.text_delta(1, "y"), *step, end],
        [start, *step, Event.loop_end(1, "completed", "", [{"role": "tool", "content": "x"}])],
        [start, Event.action(1, "t", {}, "a"), Event.observation(1, "t", "", 0, "b"), Event.step_end(1), end],
        [start, Event.error(1, "e"), *step, end],
    ]
    for events in wrong:
        with pytest.raises(AssertionError):
            check_events(events)
