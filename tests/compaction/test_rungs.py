"""The rungs themselves: what each leaves, and that no history becomes invalid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compaction.sessions import asking, histories, long_session, prose, round_of

from pure_agent_loop import HistoryError, QueryState
from pure_agent_loop.compaction.ladder import divide
from pure_agent_loop.compaction.record import collect
from pure_agent_loop.compaction.rungs import drop_repeated, prune, trim
from pure_agent_loop.compaction.shape import estimate, joined, newest_question, units_of
from pure_agent_loop.llm.messages import check_pairs, to_wire, user_message
from pure_agent_loop.llm.tokens import Boundary
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import check_history


def keep_nothing(text):
    return None


def keep_all(text):
    return "0123456789abcdef"


def results(messages):
    return [message["content"] for message in messages if message["role"] == "tool"]


def question(messages):
    index = newest_question(messages)
    return None if index is None else messages[index]


RUNGS = {
    "prune": lambda messages, room: prune(messages, room, keep_all, ENGLISH),
    "prune, nothing kept": lambda messages, room: prune(messages, room, keep_nothing, CHINESE),
    "repeated": lambda messages, room: drop_repeated(messages, ENGLISH),
    "trim": lambda messages, room: trim(messages, room, ENGLISH),
}


@pytest.mark.parametrize("name", RUNGS)
@given(history=histories(), room=st.integers(0, 2_000))
def test_any_history_stays_valid_and_the_newest_question_is_untouched(name, history, room):
    before = json.dumps(history)
    after = RUNGS[name](history, room)
    assert json.dumps(history) == before, "the given history was changed"
    assert check_history(to_wire(after)) == []
    check_pairs(after)
    assert question(after) == question(history)


@given(history=histories(), room=st.integers(0, 3_000))
def test_dividing_loses_and_doubles_nothing(history, room):
    units = units_of(history)
    assert joined(units) == history
    stays, old, tail = divide(units, room)
    assert sorted(map(id, joined(stays) + joined(old) + joined(tail))) == sorted(map(id, history))
    assert all(not unit.fixed for unit in old)
    assert tail[-1] is units[-1]


def test_pruning_leaves_the_newest_results_and_a_record_of_the_others():
    history = long_session(rounds=10, words=100)
    size = estimate([message for message in history if message["role"] == "tool"]) // 10
    after = prune(history, 3 * size + size // 2, keep_all, ENGLISH)
    assert results(after)[-3:] == results(history)[-3:]
    assert after[1] == history[1], "the call itself stays"
    first = results(after)[0]
    assert 'read_file({"path": "src/module_0.py"})' in first
    assert f"{len(results(history)[0])} characters in 1 lines" in first
    assert "It began: part 0 word0x0" in first
    assert 'read_result(id="0123456789abcdef", offset=0)' in first
    assert prune(after, 0, keep_all, ENGLISH)[2] == after[2], "a record is not recorded again"


def test_short_results_are_not_worth_a_record():
    history = [user_message("x"), *round_of(1, "short"), *round_of(2, "short too")]
    assert prune(history, 0, keep_all, ENGLISH) == history


def test_the_last_round_stays_whole_however_long():
    history = [user_message("x"), *round_of(1, prose(1, 5_000))]
    assert prune(history, 0, keep_all, ENGLISH) == history


def test_only_the_newest_of_equal_results_stays():
    text = prose(1, 100)
    same = [*round_of(1, text, path="a"), *round_of(2, text, path="b"), *round_of(3, text, path="a")]
    changed = [*round_of(4, text + "!", path="a"), *round_of(5, "ok", path="c"), *round_of(6, "ok", path="c")]
    after = drop_repeated([user_message("x"), *same, *changed], ENGLISH)
    assert "call_3" in results(after)[0]
    assert results(after)[1:] == results(same)[1:] + results(changed)


def test_trimming_takes_the_oldest_rounds_and_says_so():
    history = [user_message("The goal."), *long_session(rounds=20, words=50)]
    after = trim(history, estimate(history) // 2, ENGLISH)
    assert after[:2] == history[:2]
    assert after[2]["meta"] == {"synthetic": True}
    gone = len(history) - (len(after) - 1)
    assert after[2]["content"].startswith(ENGLISH.trimmed.format(count=gone))
    assert "src/module_0.py" in after[2]["content"]
    assert after[3:] == history[len(history) - len(after[3:]) :]
    assert estimate(after) <= estimate(history) // 2


def test_a_last_round_that_is_too_long_itself_is_shortened_with_valid_arguments():
    written = asking(["a"], "write", path="x.py", text=prose(0, 5_000), parts=[prose(1, 300)] * 3)
    history = [user_message("x"), written, {"role": "tool", "tool_call_id": "a", "content": prose(1, 9_000)}]
    after = trim(history, 3_000, ENGLISH)
    assert estimate(after) <= 3_000
    arguments = json.loads(after[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "x.py"
    assert "[...]" in arguments["text"]


@pytest.mark.parametrize(
    ("written", "kept"), [(json.dumps([prose(1, 5_000)]), "[...]"), ("[" + prose(1, 5_000), "{}")]
)
def test_arguments_that_are_no_object_are_shortened_too(written, kept):
    asked = asking(["a"], "write", path="x.py")
    asked["tool_calls"][0]["function"]["arguments"] = written
    history = [user_message("x"), asked, {"role": "tool", "tool_call_id": "a", "content": "Not an object."}]
    arguments = trim(history, 3_000, ENGLISH)[1]["tool_calls"][0]["function"]["arguments"]
    assert kept in arguments
    assert type(json.loads(arguments)) is (list if kept == "[...]" else dict)


def test_a_record_names_files_tools_and_beginnings_and_passes_them_on():
    history = [
        *round_of(1, "first\nsecond", "shell", command="cat src/a.py && curl https://x.org/d?q=1 > out.txt"),
        *round_of(2, prose(2, 200), "write_file", path="/etc/app/conf.toml", text="not.this " * 200),
    ]
    pruned = prune([*history, user_message("x")], 0, keep_all, ENGLISH)
    for messages in (history, pruned):
        record = collect(messages, ENGLISH)
        assert list(record.files) == [
            *("src/a.py", "https://x.org/d?q=1", "out.txt"),
            "/etc/app/conf.toml",
        ]
        assert list(record.tools) == ["shell", "write_file"]
        assert record.calls[0].endswith("-> first")
        assert "-> part 2 word2x0" in record.calls[1]
    text = f"{ENGLISH.summary_head}\n\nA summary.\n\n{record.write(2_000, ENGLISH)}"
    again = collect([user_message(text, synthetic=True)], ENGLISH)
    assert (list(again.files), again.calls) == (list(record.files), record.calls)
    assert collect([user_message(text)], ENGLISH).files == {}, "a person may not fake one"


def test_a_record_keeps_to_its_size_and_to_both_ends():
    history = [message for number in range(200) for message in round_of(number, prose(number, 20))]
    text = collect(history, ENGLISH).write(1_500, ENGLISH)
    assert "part 199" in text
    assert "part 0" in text
    assert "part 100 " not in text


def test_a_state_refuses_a_history_with_an_open_call():
    state = QueryState(messages=long_session(rounds=2))
    before = list(state.messages)
    boundary = Boundary(
        rung="x", step=0, tokens_before=2, tokens_after=1, messages_before=5, messages_after=4
    )
    for wrong in (before[:-1], before[:1] + before[2:], [*before[:2], before[3], before[2], before[4]]):
        with pytest.raises(HistoryError):
            state.replace_messages(wrong, boundary)
        assert state.messages == before
    state.replace_messages(before[:3], boundary)
    assert state.auto_compact_tracking == {"x": {"acted": 1, "saved": 1}}
    assert QueryState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
