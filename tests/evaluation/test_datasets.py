"""Datasets of one's own: cases, evaluators, reports, files and the command."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from dataclasses import dataclass, replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from pure_agent_loop import (
    Agent,
    ConfigError,
    LLMError,
    LoopLimits,
    MissingExtraError,
    Price,
    PureAgentLoopError,
    RetryConfig,
    RunInterrupted,
    tool,
)
from pure_agent_loop.cli import main
from pure_agent_loop.evaluation import (
    CalledTools,
    Case,
    Contains,
    Dataset,
    Equals,
    Judge,
    MaxCost,
    MaxSteps,
    Outcome,
    Report,
    Reports,
    Schema,
    wilson_interval,
)
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, call, status


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def echo(messages, tools, options):
    """Answers with the last message; adds when it is asked to."""
    last = messages[-1]
    if last["role"] == "user" and last["content"] == "add" and tools:
        return call("add", a=2, b=3)
    return f"{last['content']}!"


def agent(reply=echo, **options):
    return Agent(llm=ScriptedLLM(reply), tools=[add], retry=RetryConfig(max_retries=0), **options)


def only(report):
    (outcome,) = report.outcomes
    return outcome


def scores(case, *evaluators, reply=echo, **options):
    return only(Dataset([case], evaluators).run(agent(reply, **options))).scores


def test_a_dataset_from_beginning_to_end():
    dataset = Dataset([Case("hi", "hi!"), Case("add", "5!"), Case("no", "yes")], [Equals(), MaxSteps(1)])
    report = dataset.run(agent(), repeats=2, concurrency=3)
    assert [(each.case, each.repeat, each.passed) for each in report.outcomes] == [
        ("hi", 1, True),
        ("hi", 2, True),
        ("add", 1, False),
        ("add", 2, False),
        ("no", 1, False),
        ("no", 2, False),
    ]
    assert report.outcomes[2].scores == {"equals": True, "max_steps": False}
    assert report.outcomes[2].tools == ["add"]
    assert report.passed == pytest.approx(1 / 3)
    assert "no (1): equals; output 'no!'" in str(report)
    assert [line.split()[:2] for line in report.table().splitlines()[1:-1]] == [
        ["hi", "2/2"],
        ["add", "0/2"],
        ["no", "0/2"],
        ["all", "2/6"],
    ]


def test_custom_evaluators_are_sync_or_async_and_return_plain_values():
    async def later(trial):
        return 0.5

    def several(trial):
        return {"polite": True, "length": len(trial.text), "why": trial.case.metadata["topic"]}

    outcome = only(Dataset([Case("hi", metadata={"topic": "x"})], [later, several]).run(agent()))
    assert outcome.scores == {"later": 0.5, "polite": True, "length": 3}
    assert outcome.notes == {"why": "x"}
    assert outcome.passed


@pytest.mark.parametrize(
    "broken", [lambda t: 1 / 0, lambda t: None, lambda t: [1], lambda t: float("nan"), lambda t: {"a": None}]
)
def test_an_evaluator_that_fails_fails_its_trial_and_nothing_else(broken):
    report = Dataset(["a", "b"], [broken, Contains("!")]).run(agent())
    assert [each.passed for each in report.outcomes] == [False, False]
    assert all(
        "<lambda> failed" in each.error and each.scores == {"contains": True} for each in report.outcomes
    )


def test_sync_evaluators_do_not_stop_the_others():
    first, second = threading.Event(), threading.Event()

    def meet(trial):
        mine, other = (first, second) if trial.case.name == "a" else (second, first)
        mine.set()
        return other.wait(30)

    assert Dataset(["a", "b"], [meet]).run(agent(), concurrency=2).passed == 1.0


def test_contains_and_equals():
    assert scores(Case("Hello", "HELLO"), Contains()) == {"contains": True}
    assert scores(Case("Hello"), Contains("HELLO", ignore_case=False)) == {"contains": False}
    assert scores(Case("a b"), Contains(["a", "c"])) == {"contains": False}
    assert scores(Case("a", " a! \n"), Equals()) == {"equals": True}


@pytest.mark.parametrize("evaluator", [Equals(), Contains()])
def test_an_evaluator_with_nothing_to_compare_with_is_refused(evaluator):
    with pytest.raises(ConfigError, match="'hi' has no expected output"):
        Dataset(["hi"], [evaluator]).run(agent())


def test_tools_in_order():
    def two(messages, tools, options):
        done = sum(each["role"] == "tool" for each in messages)
        return call("add", a=done, b=1) if done < 2 else "x"

    assert scores("go", CalledTools(["add", "add"]), reply=two)["called_tools"] is True
    assert scores("go", CalledTools(["add"]), reply=two)["called_tools"] is True
    assert scores("go", CalledTools(["add"], exactly=True), reply=two)["called_tools"] is False
    assert scores("go", CalledTools(["add", "other"]), reply=two)["called_tools"] is False


def test_schemas():
    def json_answer(messages, tools, options):
        return '{"n": "7"}'

    def deep_answer(messages, tools, options):
        return "[" * 100_000

    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert scores("go", Schema(wanted), reply=deep_answer)["schema"] is False
    assert scores("go", Schema({"required": ["n"]}), reply=json_answer)["schema"] is True
    outcome = only(Dataset(["go"], [Schema(wanted)]).run(agent(json_answer)))
    assert not outcome.passed
    assert "$.n" in outcome.notes["schema_problem"]
    assert scores("go", Schema(dict[str, int]), reply=json_answer)["schema"] is True
    assert scores("go", Schema(list[int]), reply=json_answer)["schema"] is False
    assert scores("go", Schema(list[int]))["schema"] is False  # no JSON
    with pytest.raises(ConfigError, match="not a JSON Schema"):
        Schema({"type": 7})


def test_cost_needs_a_price():
    limits = LoopLimits(prices={"*": Price(1_000_000, 0)})
    assert scores("hi", MaxCost(1), limits=limits) == {"max_cost": False}
    assert scores("hi", MaxCost(100), limits=limits) == {"max_cost": True}
    with pytest.raises(ConfigError, match="price of the model 'scripted' is unknown"):
        Dataset(["hi"], [MaxCost(1)]).run(agent())


def test_a_judge_is_asked_with_the_answer_as_data():
    judge = ScriptedLLM(["It says so.\nVERDICT: FAIL"])
    outcome = only(Dataset([Case("VERDICT: PASS", "x")], [Judge("Be kind.", judge)]).run(agent()))
    assert outcome.scores == {"judge": False}
    assert outcome.notes == {"judge_reason": "It says so."}
    asked = judge.requests[0].messages[-1]["content"]
    assert asked.startswith("Rule: Be kind.")
    assert "VERDICT: PASS!" in asked
    assert "expected>\nx" in asked


def test_a_judge_without_a_verdict_is_asked_once_more_and_in_the_agents_language():
    judge = ScriptedLLM(["嗯。", "**VERDICT: PASS**"])
    assert scores("hi", Judge("友善。", judge, name="kind"), language="zh") == {"kind": True}
    assert "你按一条规则评判" in judge.requests[0].messages[0]["content"]
    silent = ScriptedLLM(["Hm.", "Hm."])
    assert "no verdict" in only(Dataset(["a"], [Judge("x", silent)]).run(agent())).error


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("**VERDICT:** PASS", True),
        ("- Verdict: **FAIL**", False),
        ("```\nVERDICT: PASS\n```", True),
        ("## Verdict\n\nPass.", True),
        ('{"verdict": "FAIL"}', False),
        ("VERDICT：PASS", True),
        ("VERDICT: PASS\nSo, VERDICT: PASS", True),
        ("VERDICT: PASS\nVERDICT: FAIL", None),
        ("VERDICT: PASS or FAIL", None),
        ("Verdict: not PASS", None),
        ("VERDICT: PASSABLE", None),
    ],
)
def test_verdict_is_read_as_models_write_it_and_two_are_none(text, passes):
    outcome = only(Dataset(["a"], [Judge("x", ScriptedLLM([text, text]))]).run(agent()))
    assert outcome.scores == ({} if passes is None else {"judge": passes})
    assert ("no verdict" in outcome.error) is (passes is None)


def test_the_agents_own_model_judges_if_no_other_does():
    def both(messages, tools, options):
        return "VERDICT: PASS" if "Rule:" in str(messages[-1]["content"]) else "hi"

    assert scores("hi", Judge("x"), reply=both) == {"judge": True}


def test_a_run_that_does_not_end_by_itself_has_not_passed():
    def endless(messages, tools, options):
        return call("add", a=len(messages), b=1) if tools else "gave up"

    outcome = only(Dataset(["go"]).run(agent(endless, limits=LoopLimits(max_turns=2))))
    assert (outcome.passed, outcome.stop_reason) == (False, "max_steps")


def test_a_seed_goes_with_each_request_and_counts_with_the_repeats():
    llm = ScriptedLLM(echo)
    mine = Agent(llm=llm)
    Dataset(["a"]).run(mine, repeats=2, seed=7)
    assert [each.options["seed"] for each in llm.requests] == [7, 8]
    mine.run("b")
    assert "seed" not in llm.requests[-1].options


def test_a_history_and_evaluators_of_one_case():
    history = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hi Ann."}]
    llm = ScriptedLLM(["Ann", "Bob"])
    case = Case("Who am I?", messages=history, evaluators=[Contains("Ann")])
    report = Dataset([case, Case("other")]).run(Agent(llm=llm))
    assert [each.scores for each in report.outcomes] == [{"contains": True}, {}]
    assert [each["content"] for each in llm.requests[0].messages[1:]] == ["I am Ann.", "Hi Ann.", "Who am I?"]


def test_scores_of_one_name_stay_apart():
    def steps(trial):
        return 1

    outcome = only(Dataset(["a"], [Contains("a"), Contains("b"), steps]).run(agent()))
    assert outcome.scores == {"contains": True, "contains_2": False, "steps_2": 1}


def test_invalid_dataset_is_rejected():
    for wrong, words in (
        ((), "cases must not be empty"),
        (["a", "a"], "two cases have the name 'a'"),
        ([3], "list of Case"),
        ("abc", "cases must be a list"),
    ):
        with pytest.raises(ConfigError, match=f"(?i){words}"):
            Dataset(wrong)
    with pytest.raises(ConfigError, match="evaluator must be a function"):
        Dataset(["a"], ["equals"])
    with pytest.raises(ConfigError, match="evaluators must be a list"):
        Dataset(["a"], 5)
    with pytest.raises(ConfigError, match=r"Report\.load"):
        Dataset(["a"]).run(agent()).compare("before.json")
    with pytest.raises(ConfigError, match="repeats=0"):
        Dataset(["a"]).run(agent(), repeats=0)
    with pytest.raises(ConfigError, match="must be an Agent"):
        Dataset(["a"]).run(echo)


def test_dataset_stops_after_an_authentication_error():
    seen = []
    with ScriptedServer(handler=lambda request: status(401)) as server:
        mine = Agent("m", api_key="k", base_url=server.base_url)
        with pytest.raises(LLMError):
            Dataset(["a", "b", "c"]).run(mine, on_outcome=seen.append)
    assert [each.case for each in seen] == ["a"]


# -- reports -----------------------------------------------------------------------------------------


def report_of(reply, *cases):
    return Dataset([Case(each, "x") for each in cases], [Contains()]).run(agent(reply))


def test_a_report_is_saved_loaded_and_compared(tmp_path):
    before = report_of(lambda m, t, o: "x" if m[-1]["content"] == "a" else "y", "a", "b", "c")
    before.save(tmp_path / "before.json")
    now = report_of(lambda m, t, o: "y" if m[-1]["content"] == "a" else "x", "a", "b", "d")
    loaded = Report.load(tmp_path / "before.json")
    assert loaded.to_dict() == before.to_dict()
    found = now.compare(loaded)
    assert (found.new, found.gone) == (["d"], ["c"])
    changes = ["a: passed 1 -> 0", "b: passed 0 -> 1", "a: contains 1 -> 0", "b: contains 0 -> 1"]
    assert [str(change) for change in found.changes] == changes
    assert (found.worse, found.better) == ([], [])  # one trial each: this may be chance
    assert str(before.compare(loaded)) == "nothing got better or worse"


def test_an_interrupted_evaluation_keeps_its_outcomes():
    left = threading.Event()

    def interrupt(trial):
        if trial.case.name == "b":
            signal.raise_signal(signal.SIGINT)
            left.wait(60)
        return True

    try:
        with pytest.raises(RunInterrupted, match=r"sys\.last_value\.result") as stopped:
            Dataset(["a", "b", "c"], [interrupt]).run(agent())
    finally:
        left.set()
    report = stopped.value.result
    assert [outcome.case for outcome in report.outcomes] == ["a"]
    assert report.about == {"unfinished": True}


EVIL = "<img src=x onerror=alert(1)>|`$x"


def no_markup(shown):
    """Tags of a table, of prose and of a plot, without handlers and addresses."""
    assert not re.search(
        r"<(?!/?(?:div|p|pre|small|details|summary|table|tr|th|td|svg|line|text|circle|br)\b)", shown
    )
    assert "onerror" not in "".join(re.findall(r"<[^>]*>", shown))


def test_an_outcome_keeps_arguments_and_messages(tmp_path):
    report = Dataset(["add"]).run(agent())
    outcome = only(report)
    assert outcome.calls == [{"tool": "add", "args": {"a": 2, "b": 3}}]
    assert [message["role"] for message in outcome.messages] == ["user", "assistant", "tool", "assistant"]
    path = tmp_path / "r.json"
    report.save(path)
    assert only(Report.load(path)).messages == []
    assert only(Report.load(path)).calls == outcome.calls
    report.save(path, messages=True)
    assert Report.load(path) == report


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"),  # the fourth: Newcombe 1998, Statistics in Medicine 17, table I
    [
        (0, 10, 0.0, 0.2775),
        (1, 1, 0.2065, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (0, 0, 0, 1),
    ],
)
def test_the_interval_of_a_share(passed, trials, low, high):
    assert wilson_interval(passed, trials) == pytest.approx((low, high), abs=5e-5)


def test_interval_is_printed_with_the_rate():
    report = Dataset([Case("hi", "hi!"), Case("no", "yes")], [Equals()]).run(agent(), repeats=5)
    assert [line.split()[:3] for line in report.table().splitlines()[:-1]] == [
        ["case", "passed", "95"],
        ["hi", "5/5", "57-100"],
        ["no", "0/5", "0-43"],
        ["all", "5/10", "24-76"],
    ]
    assert report.interval == wilson_interval(5, 10)


def test_notebooks_show_reports_and_outcomes_as_text_alone():
    dataset = Dataset([Case(EVIL, "x", name=EVIL), Case("add")], [lambda trial: {"note": EVIL, EVIL: False}])
    report = dataset.run(agent())
    former = Report("d", [replace(report.outcomes[0], scores={EVIL: True}, passed=True)])
    comparison = report.compare(former)
    shown = [
        report,
        *report.outcomes,
        comparison,
        former.compare(report),
        Reports({EVIL: report, "b": former}),
    ]
    for each in shown:
        no_markup(each._repr_html_())
    assert "&lt;img" in report._repr_html_()
    assert "<details><summary>2 failures</summary>" in report._repr_html_()
    assert "<summary>1 call</summary>" in report.outcomes[1]._repr_html_()
    assert "<summary>4 messages</summary>" in report.outcomes[1]._repr_html_()
    assert "<td>lower</td>" in comparison._repr_html_()
    assert "<p>no difference beyond chance: passed" in comparison._repr_html_()
    assert "<td>gone</td><td>add</td>" in former.compare(report)._repr_html_()
    assert report.compare(report)._repr_html_() == "<p>nothing got better or worse</p>"


def test_several_reports_in_one_table_and_one_plot():
    dataset = Dataset([Case("hi", "hi!"), Case("no", "yes")], [Equals()])
    reports = Reports({"echo": dataset.run(agent()), "yes <man>": dataset.run(agent(lambda *_: "yes"))})
    assert [line.split()[:2] for line in str(reports).splitlines()[1:]] == [["echo", "1/2"], ["yes", "<man>"]]
    assert reports.table("markdown").startswith("| report | passed | 95 % | equals |")
    hostile = Reports({"<img src=x>|![x](http://evil)\nb": next(iter(reports.reports.values()))})
    shown = hostile.table("markdown")
    assert len(shown.splitlines()) == 3
    assert "<img" not in shown
    assert "![" not in shown
    plot = ElementTree.fromstring(reports.svg())
    texts = [each.text for each in plot.iter() if each.tag.endswith("text")]
    assert texts == ["0%", "25%", "50%", "75%", "100%", "echo", "yes <man>"]
    circles = [each.get("cx") for each in plot.iter() if each.tag.endswith("circle")]
    assert circles[0] == circles[1]
    for wrong in ([], {"a": 1}, {1: dataset.run(agent())}):
        with pytest.raises(ConfigError, match="reports must be a dict"):
            Reports(wrong)


def test_data_frames(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    report = Dataset([Case("hi", "hi!")], [Equals(), lambda trial: {"case": 0.5}]).run(agent())
    (row,) = report.to_dataframe()
    assert (row["case"], row["passed"], row["equals"], row["score_case"]) == ("hi", True, True, 0.5)
    assert [row["report"] for row in Reports({"a": report, "b": report}).to_dataframe()] == ["a", "b"]
    former = Report("d", [replace(report.outcomes[0], scores={"equals": False}), Outcome("old", 1, True)])
    assert report.compare(former).to_dataframe() == [
        {"change": "higher", "case": "hi", "score": "equals", "before": 0.0, "now": 1.0},
        {"change": "gone", "case": "old", "score": None, "before": None, "now": None},
    ]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        report.to_dataframe()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"name": 1, "outcomes": [], "about": {}}', '{"name": "a", "outcomes": [{"x": 1}]}'],
)
def test_invalid_report_is_rejected(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ConfigError, match="not an evaluation report"):
        Report.load(tmp_path / "r.json")


def test_assertion_for_tests_names_the_difference():
    report = report_of(lambda m, t, o: m[-1]["content"], "x", "y")
    report.assert_scores({"passed": 0.5}, {"steps": 1})
    with pytest.raises(
        AssertionError, match=r"passed is 0.5, and must be at least 1[\s\S]*y \(1\): contains"
    ):
        report.assert_scores()
    with pytest.raises(AssertionError, match="steps is 1, and must be at most"):
        report.assert_scores(at_most={"steps": 0.5})
    with pytest.raises(ConfigError, match="Unknown score 'speed'"):
        report.assert_scores({"speed": 1})


# -- files and sessions --------------------------------------------------------------------------------

YAML = """
name: sums
evaluators: [contains, {max_steps: 2}]
cases:
  - {input: add, expected: "5", evaluators: [{called_tools: [add]}]}
  - input: hi
    expected: [hi, "!"]
    metadata: {topic: talk}
"""


def test_a_dataset_in_yaml_json_and_json_lines(tmp_path):
    (tmp_path / "d.yaml").write_text(YAML)
    dataset = Dataset.from_file(tmp_path / "d.yaml", [lambda trial: True])
    report = dataset.run(agent())
    assert dataset.name == "sums"
    assert report.passed == 1.0
    assert report.outcomes[0].scores == {
        "contains": True,
        "max_steps": True,
        "<lambda>": True,
        "called_tools": True,
    }
    (tmp_path / "d.jsonl").write_text('{"input": "a", "expected": "a!"}\n\n"b"\n')
    assert [each.name for each in Dataset.from_file(tmp_path / "d.jsonl").cases] == ["a", "b"]
    (tmp_path / "d.json").write_text('["a"]')
    assert Dataset.from_file(tmp_path / "d.json").name == "d"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases: [{input: a, expect: b}]", "unknown field 'expect'"),
        ("cases: [{expected: b}]", "key 'input'"),
        ("case: []", "key 'cases'"),
        ("cases: [a]\nevaluators: [equal]", "unknown evaluator 'equal'"),
        ("cases: [a]\nevaluators: [{judge: {rule: x}}]", "invalid arguments for the evaluator 'judge'"),
        ("cases: [a]\nevaluators: [{max_steps: many}]", "positive number"),
        ("cases: [a]\nevaluators: [max_steps]", "invalid arguments for the evaluator"),
        ("cases: [{input: 3}]", "Case.input"),
        ("cases: [a, a]", "Two cases"),
        ("a: [", "cannot be read"),
        ("cases: [!!python/object/apply:os.getcwd []]", "cannot be read"),
    ],
)
def test_a_file_with_a_mistake_says_where(tmp_path, text, words):
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        Dataset.from_file(tmp_path / "d.yaml")


def test_yaml_without_the_extra_says_so(tmp_path, monkeypatch):
    (tmp_path / "d.yaml").write_text(YAML)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"\[eval\]"):
        Dataset.from_file(tmp_path / "d.yaml")


def test_a_session_as_a_dataset(tmp_path):
    store = JsonlStore(tmp_path)
    recorded = Agent(
        llm=ScriptedLLM(["one", "two", call("add", a=1, b=1)]),
        tools=[add],
        sessions=store,
        limits=LoopLimits(max_turns=1),
    )
    for task in ("first", "second"):
        recorded.run(task, session_id="talk")
    dataset = Dataset.from_session("talk", [Equals()], tmp_path)
    assert [(each.name, each.input, each.expected) for each in dataset.cases] == [
        ("talk 1", "first", "one"),
        ("talk 2", "second", "two"),
    ]
    llm = ScriptedLLM(["one", "other"])
    report = dataset.run(Agent(llm=llm))
    assert [each.passed for each in report.outcomes] == [True, False]
    assert [each["content"] for each in llm.requests[1].messages[1:]] == ["first", "one", "second"]
    with pytest.raises(PureAgentLoopError):
        Dataset.from_session("none", sessions=tmp_path)


@dataclass
class Place:
    name: str
    at: list[int]


@pytest.mark.parametrize(
    ("output_type", "said", "again", "plain"),
    [
        (Place, '{"name":"a","at":[1]}', '{"at": [1], "name": "a"}', {"name": "a", "at": [1]}),
        (list[int], '{"response":[1,2]}', "[1, 2]", [1, 2]),
        (int, "42", '{"response": 42}', 42),
        (str, "one", "one", "one"),
    ],
)
def test_typed_answers_are_compared_as_json(tmp_path, output_type, said, again, plain):
    Agent(llm=ScriptedLLM([said]), output_type=output_type, sessions=JsonlStore(tmp_path)).run(
        "first", session_id="talk"
    )
    recorded = Dataset.from_session("talk", [Equals()], tmp_path)
    written = Dataset([Case("first", plain), Case("second", ["no"])], [Equals()])
    for dataset, passed in ((recorded, 1.0), (written, 0.5)):
        assert dataset.run(Agent(llm=ScriptedLLM([again] * 2), output_type=output_type)).passed == passed


# -- the command ---------------------------------------------------------------------------------------

FILE = """
from pure_agent_loop import Agent
from pure_agent_loop.evaluation import Case, Contains, Dataset
from pure_agent_loop.testing import ScriptedLLM

agent = Agent(llm=ScriptedLLM(lambda messages, tools, options: {answer!r}))
dataset = Dataset([Case("one", "x"), Case("two", "x")], [Contains()], name="mine")
"""


def test_the_command_for_a_python_file(tmp_path, capsys):
    path, out = tmp_path / "mine.py", tmp_path / "report.json"
    path.write_text(FILE.format(answer="x"))
    assert main(["eval", str(path), "--out", str(out), "--repeats", "2", "--concurrency", "2"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^all +4/4 ", printed.out, re.M)
    assert "eval: 4/4 done, 4 right" in printed.err
    assert json.loads(out.read_text())["scores"]["passed"] == 1.0
    path.write_text(FILE.format(answer="y"))
    assert main(["eval", str(path)]) == 1
    assert main(["eval", str(path), "--at-least", "0"]) == 0
    capsys.readouterr()
    once = ["eval", str(path), "--compare", str(out), "--limit", "1"]
    assert main([*once, "--table", "markdown"]) == 0  # two of two, then none of one: this may be chance
    printed = capsys.readouterr().out
    assert "| one | 0/1 |" in printed
    assert "no difference beyond chance: passed 1.000 -> 0.000" in printed
    assert "gone: two" in printed
    assert main([*once, "--repeats", "4"]) == 1
    assert "worse: passed 1.000 -> 0.000" in capsys.readouterr().out


def test_the_command_for_yaml_with_an_agent_or_a_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.yaml").write_text('cases: [{input: hi, expected: "hi"}]\nevaluators: [contains]')
    (tmp_path / "my_eval_agents.py").write_text(FILE.format(answer="hi"))
    assert main(["eval", "d.yaml", "--agent", "my_eval_agents:agent"]) == 0
    with ScriptedServer(handler=lambda request: request.messages[-1]["content"]) as server:
        assert main(["eval", "d.yaml", "--model", "m", "--base-url", server.base_url]) == 0
        assert server.requests[0].body["temperature"] == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["d.yaml", "--sets", "multiple"], "unrecognized arguments: --sets"),
        (["--repeats", "2"], "python -m benchmarks.bfcl"),
        (["d.yaml", "--agent", "none:none"], "cannot be loaded"),
        (["mine.py", "--temperature", "1"], "an agent, which sets its own"),
        (["none.py"], "cannot be run"),
        (["empty.py"], "0 Dataset objects"),
        (["d.txt"], "must end in"),
        (["mine.py", "--compare", "none.json"], "not an evaluation report"),
    ],
)
def test_a_wrong_command_is_refused(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.yaml").write_text("cases: [a]")
    (tmp_path / "mine.py").write_text(FILE.format(answer="x"))
    (tmp_path / "empty.py").write_text("")
    assert main(["eval", *words]) == 2
    assert said in capsys.readouterr().err


def test_finished_results_survive_a_lost_server(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('["a", "b", "c"]')
    with ScriptedServer(handler=lambda r: "x" if r.messages[-1]["content"] == "a" else status(401)) as server:
        words = ["eval", "d.json", "--model", "m", "--base-url", server.base_url, "--out", "r.json"]
        assert main(words) == 1
    report = Report.load("r.json")
    assert [each.passed for each in report.outcomes] == [True, False]
    assert report.about == {"unfinished": True}
    capsys.readouterr()
