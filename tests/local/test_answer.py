"""Reading the conversation, and answers that are true to a result."""

import pytest

from pure_agent_loop.llm.messages import user_message
from pure_agent_loop.local.answer import has_failed, is_true_to, plain_answer, worth_a_sentence
from pure_agent_loop.local.turns import Result, flatten, read_turn
from pure_agent_loop.prompts import CHINESE, ENGLISH

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "calculator", "arguments": '{"expression": "6*7"}'},
}
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 6*7?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
]
SUM = Result("calculator", {"expression": "6*7"}, "42")


def test_a_result_belongs_to_its_call():
    turn = read_turn(ASKED)
    assert turn.question == "What is 6*7?"
    assert turn.results == (SUM,)
    assert not turn.answered


def test_a_notice_of_the_loop_is_no_question():
    for prompts in (ENGLISH, CHINESE):
        notice = user_message(prompts.step_limit.format(steps=10), synthetic=True)
        turn = read_turn([*ASKED, notice])
        assert turn.question == "What is 6*7?"
        assert turn.results == (SUM,)


def test_a_new_question_starts_over():
    turn = read_turn([*ASKED, {"role": "assistant", "content": "42"}, {"role": "user", "content": "Thanks"}])
    assert turn.question == "Thanks"
    assert turn.results == ()


def test_an_answer_that_is_to_be_continued_is_seen():
    turn = read_turn(
        [*ASKED, {"role": "assistant", "content": "It is"}, user_message(ENGLISH.continue_answer)]
    )
    assert turn.answered


def test_the_flat_form_has_only_text_and_sides_that_take_turns():
    flat = flatten([*ASKED, {"role": "user", "content": [{"type": "text", "text": "And now?"}]}])
    assert [m["role"] for m in flat] == ["system", "user", "assistant", "user"]
    assert flat[2]["content"] == "calculator(6*7)"
    assert flat[3]["content"] == "Result: 42\n\nAnd now?"


@pytest.mark.parametrize("said", ["6*7 is 42", "The answer is 42.", "42 is the result of 6*7."])
def test_true_sentences_are_let_through(said):
    assert is_true_to(said, "What is 6*7?", [SUM])


@pytest.mark.parametrize(
    "said",
    ["6*7 is 420", "6*7 is 42 and 3 more", "It is 4.2", "42.5 is the answer", "", "It is forty-two", "42"],
)
def test_sentences_with_more_or_less_than_the_result_are_not(said):
    assert not is_true_to(said, "What is 6*7?", [SUM])


def test_every_line_of_a_result_has_to_be_there():
    listing = [Result("list_dir", {"path": "docs"}, "a.md\nb.md")]
    assert is_true_to("docs holds a.md and b.md", "What is in docs?", listing)
    assert not is_true_to("docs holds a.md", "What is in docs?", listing)
    notes = [Result("read_file", {"path": "n"}, "Buy milk\nCall Anna")]
    assert not is_true_to("n says Buy milk, Anna Call", "What does n say?", notes)


@pytest.mark.parametrize("prompts", [ENGLISH, CHINESE])
def test_a_failure_is_told_as_one(prompts):
    text = prompts.tool_error.format(
        tool="read_file", type="OSError", error="no such file", hint="Try again."
    )
    failed = Result("read_file", {"path": "a.txt"}, text)
    assert has_failed(failed)
    assert not worth_a_sentence([failed])
    assert plain_answer("What does a.txt say?", [failed]).startswith("read_file(a.txt) did not work.")
    assert "没有成功" in plain_answer("a.txt 写了什么？", [failed])


def test_plain_answers_hold_the_result():
    assert plain_answer("What is 6*7?", [SUM]) == "6*7 = 42"
    assert plain_answer("?", [Result("get", {"n": 1}, "x\ny")]) == "Result of get(1):\nx\ny"
    assert plain_answer("?", [Result("get", {}, " ")]) == "get() gave back nothing."


def test_of_a_long_result_the_lines_about_the_question_are_quoted():
    lines = [f"filler number {i} with other words" for i in range(100)]
    lines[60] = "requires-python is 3.10"
    result = Result("read_file", {"path": "setup.cfg"}, "\n".join(lines))
    answer = plain_answer("Which requires-python is set in setup.cfg?", [result])
    assert answer.splitlines()[1:] == ["requires-python is 3.10"]


def test_of_a_long_result_without_such_lines_the_beginning_is_shown():
    result = Result("read_file", {"path": "a"}, "\n".join(f"zzz{i}" for i in range(1000)))
    answer = plain_answer("Read a", [result])
    assert answer.startswith("Result of read_file(a) (an excerpt):\nzzz0\n")
    assert len(answer) < 1400
