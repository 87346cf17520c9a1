"""What counts as going round in circles, and what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import doom_traces
from pure_agent_loop.kernel.doom import (
    WINDOW,
    DoomLedger,
    DoomVerdict,
    judge,
    note_answer,
    note_result,
)
from pure_agent_loop.llm.values import ToolCall

DOCUMENT = Path(__file__).parents[2] / "docs" / "doom-loops.md"
PAGE = "A page of search results. " * 10


class Failed(str):
    """A result that is an error."""

    __slots__ = ()


def there_and_back(ledger):
    again = DoomLedger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again == ledger
    return again


def play(answers, threshold=3, polls=()):
    """Play answers of (text or None, calls of (name, argument, result)): a word for each call.

    The word is what was said before the call or with its result; the ledger goes through JSON each time.
    """
    ledger, words = DoomLedger(), []
    for step, (text, calls) in enumerate(answers):
        alone = note_answer(ledger, text or "", threshold)
        made = [
            (ToolCall(f"{step}-{n}", name, {"x": x}), result) for n, (name, x, result) in enumerate(calls)
        ]
        verdicts = [judge(ledger, call, threshold, polls=call.name in polls) for call, _ in made]
        ledger = there_and_back(ledger)
        for (call, result), verdict in zip(made, verdicts, strict=True):
            with_it = note_result(ledger, call, result, isinstance(result, Failed), threshold)
            assert verdict.action == "run" or with_it.action == "run"
            words.append(verdict if verdict.action != "run" else with_it)
        if not calls:
            words.append(alone)
        ledger = there_and_back(ledger)
    return words


def actions(answers, **options):
    return [verdict.action for verdict in play(answers, **options)]


def one_by_one(*calls):
    return [(None, [call]) for call in calls]


A, B, C, D = (("look", x, f"{x} is quiet") for x in "abcd")
EDITS = [("edit", n, "ok") for n in range(20)]
TESTS = ("tests", "", "1 failed")


def worded(tool, result, times):
    return one_by_one(*[(tool, f"wording {n}", result) for n in range(times)])


def changing(name, times):
    return [(name, "", f"result {n}") for n in range(times)]


LOOPS = {
    "one call in a row": (one_by_one(*[A] * 5), "identical_call", "run run refuse stop stop"),
    "in a row, whatever it answers": (
        one_by_one(*changing("next", 4)),
        "identical_call",
        "run run refuse stop",
    ),
    "two in turn": (one_by_one(*[A, B] * 5), "alternating", "run*4 warn warn refuse stop*3"),
    "three in turn": (one_by_one(*[A, B, C] * 5), "alternating", "run*6 warn*3 refuse*1 stop*5"),
    "four in turn": (one_by_one(*[A, B, C, D] * 4), "alternating", "run*8 warn*4 refuse*1 stop*3"),
    "no fixed order": (
        one_by_one(A, B, A, C, B, A, C, B, A, C, B, A),
        "alternating",
        "run*7 warn*3 refuse stop",
    ),
    "two at once": ([(None, [A, B])] * 6, "alternating", "run*4 warn*2 refuse*2 stop*4"),
    "the same page": (worded("search", PAGE, 8), "identical_result", "run*2 warn run*2 warn run*2"),
    "one error": (worded("sql", Failed("syntax error"), 8), "repeated_error", "run*2 warn run*2 warn run*2"),
    "an error with its argument in it": (
        one_by_one(
            *[
                ("open", f"{c}{c}.txt", Failed(f"{c}{c}.txt is locked, try {n}"))
                for n, c in enumerate("abcdefg")
            ]
        ),
        "repeated_error",
        "run*2 warn run*2 warn run",
    ),
    "ever other missing things": (
        one_by_one(*[("open", f"file{n}.txt", Failed(f"no such file: file{n}.txt")) for n in range(10)]),
        "repeated_error",
        "run*2 warn run*2 warn run*4",
    ),
    "an apology": (
        [(f"I apologize, attempt {n}.", [("sql", n, Failed("error " + "x" * n))]) for n in range(8)],
        "repeated_text",
        "run*2 warn run*2 warn run*2",
    ),
    "an answer that begins anew": (
        [("As I was saying, the minutes", [])] * 7,
        "repeated_text",
        "run*5 stop*2",
    ),
}


def spelled(words):
    pairs = (word.partition("*") for word in words.split())
    return [word for word, _, times in pairs for _ in range(int(times or 1))]


@pytest.mark.parametrize(("answers", "pattern", "expected"), LOOPS.values(), ids=LOOPS)
def test_loops(answers, pattern, expected):
    verdicts = play(answers)
    assert [verdict.action for verdict in verdicts] == spelled(expected)
    assert {verdict.pattern for verdict in verdicts} == {"", pattern}


FINE = {
    "edit and test": one_by_one(*[call for n in range(10) for call in (EDITS[n], TESTS)]),
    "edit and failing tests": one_by_one(
        *[call for n in range(10) for call in (EDITS[n], ("tests", "", Failed("1 failed")))]
    ),
    "many edits": one_by_one(*EDITS),
    "one call twice in a row": one_by_one(A, A, B, B, C, A, A),
    "pages with something between": one_by_one(*[call for one in changing("next", 9) for call in (one, A)]),
    "an error that changes": one_by_one(*[("make", n, Failed("error " + "x" * n)) for n in range(9)]),
    "short results of many questions": worded("weather", "rain", 20),
    "a long page twice": worded("search", PAGE, 2),
    "nothing found": worded("search", "no matches", 30),
    "the same words beside new work": [("Now the next file.", [(*one,)]) for one in EDITS],
    "short words": [("Done.", [("sql", n, Failed("error " + "x" * n))]) for n in range(9)],
    "no words": [("", [("sql", n, Failed("error " + "x" * n))]) for n in range(9)],
    "a batch that fails": [(None, [("get", n, Failed("refused")) for n in range(9)]), (None, [A])],
    "one question many times in one answer": [(None, [A, B] * 5)],
    "one question twice in one answer": [
        *one_by_one(A, B, EDITS[0], A, EDITS[1]),
        (None, [A, B, A]),
    ],
}


@pytest.mark.parametrize("answers", FINE.values(), ids=FINE)
def test_repetition_with_good_reason(answers):
    assert set(actions(answers)) == {"run"}


class TestProgress:
    """What makes the same call worth while again."""

    def test_changing_result_is_not_a_loop(self):
        calls = [call for one in changing("status", 9) for call in (("wait", 5, "waited"), one)]
        assert set(actions(one_by_one(*calls))) == {"run"}

    def test_nor_is_one_that_comes_and_goes(self):
        calls = [call for n in range(9) for call in (A, ("status", "", ("up", "down")[n % 2]), EDITS[0])]
        verdicts = play(one_by_one(*calls))
        assert {verdict.action for verdict in verdicts[1::3]} == {"run"}

    def test_words_are_counted_from_the_last_news(self):
        words = "I apologize, once more."
        answers = [(words, [("edit", n, "ok")]) for n in range(7)]
        errors = [(words, [("sql", n, Failed("error " + "x" * n))]) for n in range(3)]
        assert actions([*answers, *errors]) == spelled("run*9 warn")

    def test_news_between_ends_a_warned_circle(self):
        calls = [*[A, B] * 3, EDITS[0], A, B, EDITS[1], A, B]
        assert actions(one_by_one(*calls)) == spelled("run*4 warn*2 run*6")

    def test_a_refusal_is_forgotten_with_news(self):
        calls = [*[A, B] * 3, A, EDITS[0], A, B, A, B, A, B]
        assert actions(one_by_one(*calls)) == spelled("run*4 warn*2 refuse run*3 warn warn refuse stop")

    @pytest.mark.parametrize("result", ["nothing found", Failed("locked"), PAGE])
    def test_a_new_call_in_between_is_news_whatever_it_gives(self, result):
        calls = [call for n in range(15) for call in (A, ("search", n, result))]
        assert set(actions(one_by_one(*calls))) <= {"run", "warn"}

    def test_a_success_ends_a_row_of_errors(self):
        rows = [
            *worded("sql", Failed("locked"), 4),
            *one_by_one(("sql", "x", "1 row")),
            *worded("sql", Failed("locked"), 2),
        ]
        assert actions(rows) == spelled("run*2 warn run*4")


class TestFairness:
    """Nobody is stopped for what they could not know."""

    def test_a_row_inside_one_answer_is_refused_but_stops_no_run(self):
        assert actions([(None, [A] * 5), (None, [A])]) == spelled("run*2 refuse*3 stop")

    @pytest.mark.parametrize(
        ("name", "counts"),
        [
            ("one call in a row", {"refuse": 2}),
            ("two in turn", {"warn": 3, "refuse": 3}),
            ("one error", {"warn": 3}),
            ("the same page", {"warn": 3}),
            ("an apology", {"warn": 3}),
        ],
    )
    def test_count_matches_the_repetitions_in_the_history(self, name, counts):
        first = {verdict.action: verdict.count for verdict in reversed(play(LOOPS[name][0]))}
        assert {action: first[action] for action in counts} == counts

    def test_no_circle_is_refused_unwarned(self):
        for answers, pattern, _ in LOOPS.values():
            said = actions(answers)
            if pattern == "alternating":
                assert "warn" in said[: said.index("refuse")]

    @pytest.mark.parametrize("result", [Failed("connection refused"), PAGE, "ok", "no such file", ""])
    @pytest.mark.parametrize("at_once", [1, 3])
    def test_wide_job_is_warned_twice_and_never_blocked(self, result, at_once):
        calls = [("get", f"host-{n}", result) for n in range(30)]
        answers = [("Now the next ones.", calls[n : n + at_once]) for n in range(0, 30, at_once)]
        said = actions(answers)
        assert set(said) <= {"run", "warn"}
        assert said.count("warn") <= 2 * at_once

    def test_words_without_calls_are_no_warning_that_a_call_could_ignore(self):
        words = "As I was saying, the minutes"
        answers = [*[(words, [])] * 6, (words, [("sql", 1, Failed("locked"))]), (words, [A])]
        assert actions(answers) == spelled("run*5 stop run run")

    def test_asking_twice_for_one_call_gives_one_answer(self):
        ledger = DoomLedger()
        for step in range(4):
            note_answer(ledger, "", 3)
            call = ToolCall(f"id{step}", "look", {})
            first = judge(ledger, call, 3)
            ledger = there_and_back(ledger)
            assert judge(ledger, call, 3) == first
            note_result(ledger, call, "x", False, 3)
        assert (first.action, first.count) == ("stop", 3)

    def test_a_refused_call_has_no_result(self):
        ledger, refusal = DoomLedger(), DoomVerdict("refuse", "identical_call", 1)
        for step, expected in enumerate([DoomVerdict(), refusal]):
            note_answer(ledger, "", 2)
            call = ToolCall(f"id{step}", "look", {})
            assert judge(ledger, call, 2) == expected
            note_result(ledger, call, "the same result", True, 2)
        assert [made.kind for made in ledger.window] == ["error", "refused"]


class TestSettings:
    def test_a_polling_tool_may_do_anything(self):
        assert set(actions(one_by_one(*[A] * 30), polls={"look"})) == {"run"}

    def test_work_around_a_polling_tool_is_not_a_loop(self):
        calls = [("wait", 5, "waited"), A] * 9
        assert set(actions(one_by_one(*calls), polls={"wait"})) == {"run"}
        assert "stop" in actions(one_by_one(*calls))

    def test_none_switches_everything_off_and_keeps_nothing(self):
        for answers, _, _ in LOOPS.values():
            assert set(actions(answers, threshold=None)) == {"run"}

    @pytest.mark.parametrize("threshold", [1, 2, 3, 5, 30])
    def test_so_many_in_a_row_are_refused_then_stopped(self, threshold):
        expected = spelled(f"run*{threshold - 1} refuse stop")
        assert actions(one_by_one(*[A] * (threshold + 1)), threshold=threshold) == expected

    @pytest.mark.parametrize(("threshold", "warned", "refused"), [(2, 4, 6), (3, 4, 6), (4, 6, 8)])
    def test_the_threshold_counts_laps_too(self, threshold, warned, refused):
        said = actions(one_by_one(*[A, B] * 7), threshold=threshold)
        assert (said.index("warn"), said.index("refuse")) == (warned, refused)

    def test_arguments_are_equal_in_any_order_and_broken_ones_by_their_text(self):
        ledger = DoomLedger()
        calls = [
            ToolCall("1", "look", {"x": 1, "y": 2}),
            ToolCall("2", "look", {"y": 2, "x": 1}),
            ToolCall("3", "look", {}, "cut off"),
            ToolCall("4", "look", {}, "not JSON"),
        ]
        counts = []
        for call in calls:
            judge(ledger, call, 9)
            counts.append(ledger.count)
        assert counts == [1, 2, 1, 1]


class TestLedger:
    def test_a_ledger_of_an_older_version_is_read(self):
        assert DoomLedger.from_dict({"last": "look {}", "count": 2}) == DoomLedger("look {}", 2)

    def test_ledger_size_does_not_depend_on_the_texts(self):
        sizes = set()
        for length in (1, 100_000):
            ledger = DoomLedger()
            note_answer(ledger, "word " * length, 3)
            call = ToolCall("i" * length, "n" * length, {"x": ["\ud800" * length]})
            judge(ledger, call, 3)
            note_result(ledger, call, "\ud800" * length, True, 3)
            sizes.add(len(json.dumps({**ledger.to_dict(), "text": ""})))
        assert len(sizes) == 1

    def test_more_calls_than_the_window_holds(self):
        wide = [(None, [("look", n, "x") for n in range(WINDOW + 6)])] * 4
        assert set(actions(wide)) == {"run"}

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["", "I will look once more."]),
                st.lists(
                    st.tuples(
                        st.sampled_from(["look", "edit"]),
                        st.integers(0, 2),
                        st.sampled_from(["ok", "[]", PAGE, Failed("locked"), Failed("no such file: 1")]),
                    ),
                    max_size=4,
                ),
            ),
            max_size=40,
        ),
        st.integers(1, 4),
    )
    def test_whatever_happens_it_round_trips_and_stays_small(self, answers, threshold):
        ledger, row, last = DoomLedger(), 0, None
        for step, (text, calls) in enumerate(answers):
            note_answer(ledger, text, threshold)
            made = [(ToolCall(f"{step}-{n}", name, {"x": x}), r) for n, (name, x, r) in enumerate(calls)]
            for call, _ in made:
                verdict = judge(ledger, call, threshold)
                row, last = (
                    (row + 1 if (call.name, call.arguments) == last else 1),
                    (call.name, call.arguments),
                )
                assert ledger.count == row
                assert row < threshold or verdict.action in ("refuse", "stop")
            for call, result in made:
                note_result(ledger, call, result, isinstance(result, Failed), threshold)
            ledger = there_and_back(ledger)
            assert len(ledger.window) <= WINDOW


class TestTraces:
    """The recorded traces, and what the document says of them."""

    def test_there_are_enough_of_both_kinds_and_each_is_well_formed(self):
        every = doom_traces.traces()
        assert len({trace["name"] for trace in every}) == len(every) >= 70
        for kind in ("loop", "fine"):
            assert sum(trace["kind"] == kind for trace in every) >= 35
            assert sum((trace["kind"], trace["set"]) == (kind, "held-out") for trace in every) >= 12
        for trace in every:
            assert set(trace) - {"polls"} == {"name", "kind", "set", "what", "steps"}
            for call in (call for step in trace["steps"] for call in step["calls"]):
                assert set(call) in ({"name", "arguments", "result"}, {"name", "arguments", "error"})

    def test_published_table_matches_the_command(self):
        assert doom_traces.table(doom_traces.traces(), doom_traces.SETS) in DOCUMENT.read_text(
            encoding="utf-8"
        )
