"""The leaderboard's checker, running in a process of its own."""

from __future__ import annotations

import shutil

import pytest
from benchmarks.bfcl.checker import Checker, CheckResult
from eval_answers import right_calls

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.values import ToolCall


def named(questions, name, id_):
    return next(question for question in questions(name) if question.id == id_)


def calls(*pairs):
    return [ToolCall(f"call_{i}", name, arguments) for i, (name, arguments) in enumerate(pairs)]


# Here the lists of right values name an argument that the function does not have, or allow a required one
# to be left out; the checker is right to refuse the answer made from them.
CONTRADICTIONS = {
    "simple_python": [],
    "multiple": [],
    "parallel": [],
    "parallel_multiple": ["parallel_multiple_12", "parallel_multiple_26"],
    "live_simple": ["live_simple_106-63-0", "live_simple_112-68-0"],
    "live_multiple": ["live_multiple_507-149-4", "live_multiple_862-181-3", "live_multiple_964-207-0"],
    "live_parallel": [],
    "live_parallel_multiple": [],
}


@pytest.mark.parametrize(("name", "contradictions"), CONTRADICTIONS.items())
def test_the_leaderboards_own_answers_are_right(name, contradictions, questions, checker):
    wrong = [q.id for q in questions(name) if not checker.check(q, right_calls(q)).right]
    assert wrong == contradictions


@pytest.mark.parametrize("name", ["simple_python", "multiple", "parallel", "parallel_multiple"])
def test_the_answers_to_another_question_are_wrong(name, questions, checker):
    asked = questions(name)[:40]
    shifted = [*asked[1:], asked[0]]
    assert not any(
        checker.check(q, right_calls(other)).right for q, other in zip(asked, shifted, strict=True)
    )


AREA = "calculate_triangle_area"


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ([(AREA, {"base": 10, "height": 5})], ""),
        ([(AREA, {"base": 10, "height": 5, "unit": "units"})], ""),
        ([(AREA, {"base": 10})], "simple_function_checker:missing_required"),
        ([(AREA, {"base": 10, "height": 6})], "value_error:others"),
        ([(AREA, {"base": "10", "height": 5})], "type_error:simple"),
        ([(AREA, {"base": 10, "height": 5, "colour": "red"})], "simple_function_checker:unexpected_param"),
        ([("triangle", {"base": 10, "height": 5})], "simple_function_checker:wrong_func_name"),
        ([(AREA, {"base": 10, "height": 5})] * 2, "simple_function_checker:wrong_count"),
        ([], "no_call"),
    ],
)
def test_mistake_is_reported_in_the_checkers_words(made, kind, questions, checker):
    verdict = checker.check(named(questions, "simple_python", "simple_python_0"), calls(*made))
    assert (verdict.right, verdict.kind) == (kind == "", kind)
    assert bool(verdict.detail) == (kind != "")


def test_a_name_with_dots_is_expected_as_it_was_offered(questions, checker):
    question = named(questions, "simple_python", "simple_python_1")
    assert question.tools[0]["function"]["name"] == "math_factorial"
    assert checker.check(question, calls(("math_factorial", {"number": 5}))).right
    assert not checker.check(question, calls(("math.factorial", {"number": 5}))).right


def test_parallel_calls_may_come_in_any_order(questions, checker):
    question = questions("parallel")[0]
    made = right_calls(question)
    assert len(made) > 1
    assert checker.check(question, made[::-1]).right
    assert checker.check(question, made[:-1]).kind == "parallel_function_checker_no_order:wrong_count"


def test_unusable_arguments_are_wrong_where_a_call_is_wanted(questions, checker):
    broken = [ToolCall("call_0", AREA, {}, "the arguments are not valid JSON")]
    verdict = checker.check(questions("simple_python")[0], broken)
    assert verdict == CheckResult(False, "invalid_arguments", "the arguments are not valid JSON")


@pytest.mark.parametrize("name", ["irrelevance", "live_irrelevance"])
def test_no_call_is_right_where_none_is_wanted(name, questions, checker):
    question = questions(name)[0]
    assert checker.check(question, []).right
    assert checker.check(question, calls(("anything", {}))).kind == "called"
    assert checker.check(question, [ToolCall("call_0", "anything", {}, "broken")]).kind == "called"


def test_any_call_is_right_where_any_is_wanted(questions, checker):
    question = questions("live_relevance")[0]
    assert checker.check(question, calls(("anything", {}))).right
    assert checker.check(question, []).kind == "no_call"


@pytest.mark.parametrize(
    ("name", "index", "arguments"),
    [
        ("simple_java", 6, {"refreshMetadata": "true", "append": "true", "keepState": "true"}),
        (
            "simple_javascript",
            3,
            {"action": "'submit'", "formId": "'loginForm'", "coordinates": "[60, 30]"},
        ),
    ],
)
def test_other_languages_take_source_text(name, index, arguments, questions, checker):
    question = questions(name)[index]
    tool = question.tools[0]["function"]["name"]
    assert checker.check(question, calls((tool, arguments))).right
    changed = {**arguments, next(iter(arguments)): "nonsense"}
    assert not checker.check(question, calls((tool, changed))).right


FAILING_CHECKER = """
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING

def ast_checker(functions, calls, answers, language, name, model):
    print("this is no answer")
    assert MODEL_CONFIG_MAPPING[model].underscore_to_dot
    return {"valid": True} if "height" in calls[0]["calculate_triangle_area"] else calls[0]["nothing"]
"""


def test_failing_checker_counts_as_wrong_and_the_run_continues(tmp_path, package, questions):
    constants, checkers = tmp_path / "bfcl_eval/constants", tmp_path / "bfcl_eval/eval_checker/ast_eval"
    constants.mkdir(parents=True)
    checkers.mkdir(parents=True)
    shutil.copy(package / "bfcl_eval/constants/enums.py", constants)
    (checkers / "ast_checker.py").write_text(FAILING_CHECKER)
    question = questions("simple_python")[0]
    with Checker(tmp_path) as checker:
        verdict = checker.check(question, calls((AREA, {"base": 10})))
        assert verdict == CheckResult(False, "checker_crashed:KeyError", "KeyError: 'nothing'")
        assert checker.check(question, calls((AREA, {"height": 5}))).right


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


ODD = ["\ud800", "\u2028\n\r", "x" * 100_000, 10**400, 10**5000, [[[]]], deep(5000), {"a": {"b": None}}]


@pytest.mark.parametrize("value", [*ODD, None, float("nan"), {1, 2}], ids=range(len(ODD) + 3))
def test_any_value_gets_a_verdict(value, questions, checker):
    question = questions("simple_python")[0]
    assert not checker.check(question, calls((AREA, {"base": value, "height": 5}))).right


def test_missing_package_is_an_error_instead_of_a_verdict(tmp_path, questions):
    with Checker(tmp_path) as broken, pytest.raises(PureAgentLoopError, match="checker's process"):
        broken.check(questions("simple_python")[0], calls((AREA, {})))
