"""Files of outcomes: an evaluation that was ended resumes, and nothing that had finished is asked twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from datetime import date

import pytest

from pure_agent_loop import Agent, ConfigError, RetryConfig, tool
from pure_agent_loop.cli import main
from pure_agent_loop.evaluation import Case, Contains, Dataset, Equals, EvaluationReport
from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, status

NAMES = ["a", "b", "名字 🙂", "d\ne", "f"]


def echo(messages, tools, options):
    return f"{messages[-1]['content']}!"


class Asked:
    """An agent whose model counts the questions."""

    def __init__(self, **options):
        self.questions = Counter()
        self.agent = Agent(llm=ScriptedLLM(self.reply), **options)

    def reply(self, messages, tools, options):
        self.questions[messages[-1]["content"]] += 1
        return echo(messages, tools, options)


def asked(dataset, out, repeats=1, seed=None, **options):
    """Evaluate with `out`; return the number of questions and the report."""
    one = Asked(**options)
    report = dataset.run(one.agent, repeats=repeats, seed=seed, out=out)
    assert len(report.outcomes) == len(dataset.cases) * repeats
    return one.questions.total(), report


@pytest.fixture
def out(tmp_path):
    return tmp_path / "outcomes.jsonl"


# -- killed processes ----------------------------------------------------------------------------------

PROGRAM = """
import sys
from pure_agent_loop import Agent
from pure_agent_loop.evaluation import Case, Dataset
agent = Agent("m", api_key="k", base_url=sys.argv[1])
dataset = Dataset([Case(f"question {number}") for number in range(8)])
dataset.run(agent, repeats=2, concurrency=2, out="outcomes.jsonl")
"""
CASES = json.dumps([{"input": f"question {number}"} for number in range(8)])


def killed_and_resumed(tmp_path, words):
    """Run a command, kill it at the tenth question, and run it again; return how often each was asked."""
    questions, reached, gone = Counter(), threading.Event(), threading.Event()

    def answer(request):
        questions[request.messages[-1]["content"]] += 1
        if questions.total() == 10:
            reached.set()
            gone.wait(60)
        return "fine"

    with ScriptedServer(handler=answer) as server:
        argv = [sys.executable, *(word.replace("URL", server.base_url) for word in words)]
        env = {**os.environ, "OPENAI_API_KEY": "k"}
        with subprocess.Popen(argv, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as process:
            assert reached.wait(60)
            process.kill()
        gone.set()
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return questions


def test_killed_program_repeats_unfinished_trials_only(tmp_path):
    questions = killed_and_resumed(tmp_path, ["-c", PROGRAM, "URL"])
    report = EvaluationReport.load(tmp_path / "outcomes.jsonl")
    assert len(report.outcomes) == 16
    assert len(questions) == 8
    assert 16 <= questions.total() <= 18  # two were open


@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_killed_command_repeats_unfinished_trials_only(tmp_path, name):
    (tmp_path / "cases.json").write_text(CASES)
    words = ["cases.json", "--repeats", "2", "--out", name, "--model", "m", "--base-url", "URL"]
    questions = killed_and_resumed(tmp_path, ["-m", "pure_agent_loop", "eval", *words])
    assert 16 <= questions.total() <= 17  # one was open
    assert len(EvaluationReport.load(tmp_path / name).outcomes) == 16
    files = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert files == {"cases.json", name, f"{name}.sessions.db"}


def test_line_cut_at_any_byte_is_asked_again(out):
    dataset = Dataset([Case(name) for name in NAMES])
    asked(dataset, out)
    content = out.read_bytes()
    last = content[:-1].rfind(b"\n") + 1
    for cut in (last, last + 1, last + 20, (last + len(content)) // 2, len(content) - 1):
        out.write_bytes(content[:cut])
        assert asked(dataset, out)[0] == 1
        assert len(EvaluationReport.load(out).outcomes) == len(NAMES)


# -- what is read ---------------------------------------------------------------------------------------


def test_finished_outcomes_are_read_in_the_order_of_the_cases(out):
    dataset = Dataset([Case(name, f"{name}!") for name in NAMES], [Equals()])
    count, first = asked(dataset, out, repeats=2)
    assert count == 10
    seen = []
    again = dataset.run(Agent(llm=ScriptedLLM([])), repeats=2, out=out, on_outcome=seen.append)
    assert again.outcomes == first.outcomes == seen
    assert EvaluationReport.load(out) == first
    assert asked(dataset, out, repeats=3)[0] == 5


def test_added_case_and_repetition_are_asked_alone(out):
    asked(Dataset(["a", "b"]), out)
    assert asked(Dataset(["b", "c", "a"]), out)[0] == 1
    assert asked(Dataset(["b"]), out, repeats=4)[0] == 3


def lookup(word: str) -> str:
    """Look up a word."""
    return word


def longer_than(number):
    return lambda trial: len(trial.text) > number


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"system_prompt": "Be brief."}, "agent"),
        ({"system_prompt": lambda: "Be brief."}, "agent"),
        ({"tools": [lookup]}, "agent"),
        ({"temperature": 0.1}, "agent"),
        ({"top_p": 0.5}, "agent"),
        ({"seed": 3}, "seed"),
        ({"cases": [Case("a", expected="b")]}, "case"),
        ({"cases": [Case("a", expected=date(2026, 1, 2))]}, "case"),
        ({"cases": [Case("b", name="a")]}, "case"),
        ({"cases": [Case("a", evaluators=[longer_than(2)])]}, "case"),
        ({"evaluators": [longer_than(3)]}, "case"),
        ({"evaluators": [Contains("a", ignore_case=False)]}, "case"),
    ],
    ids=[
        *("prompt", "prompt function", "tools", "temperature", "top_p", "seed"),
        *(
            "expected",
            "expected date",
            "input",
            "evaluator of a case",
            "evaluator",
            "setting of an evaluator",
        ),
    ],
)
def test_changed_evaluation_is_asked_anew_and_the_difference_is_named(out, caplog, change, part):
    def evaluated(cases=None, evaluators=None, **options):
        dataset = Dataset(cases or [Case("a", expected="a")], evaluators or [longer_than(0)])
        return asked(dataset, out, **options)[0]

    assert [evaluated(), evaluated()] == [1, 0]
    assert not caplog.records
    assert [evaluated(**change), evaluated(**change)] == [1, 0]
    assert re.search(f"outcomes with another {part}.*: 1", caplog.text)
    assert evaluated() == 0


def test_dates_as_expected_outputs_differ(out):
    for day in (1, 2):
        assert asked(Dataset([Case("a", expected=date(2026, 1, day))]), out)[0] == 1


def test_changed_code_of_a_tool_is_another_agent(out):
    def tool_that(code):
        names = {}
        exec(f"def look(word: str) -> str:\n    'Look.'\n    return {code}", names)
        return tool(names["look"])

    dataset = Dataset(["a"])
    counts = [asked(dataset, out, tools=[tool_that(code)])[0] for code in ("word", "word", "word * 2")]
    assert counts == [1, 0, 1]


def test_outcomes_with_an_error_are_asked_again(out):
    replies = {"a": "x", "b": status(500)}
    with ScriptedServer(handler=lambda request: replies[request.messages[-1]["content"]]) as server:
        agent = Agent("m", api_key="k", base_url=server.base_url, retry=RetryConfig(max_retries=0))
        first = Dataset(["a", "b"]).run(agent, out=out)
        assert [outcome.stop_reason for outcome in first.outcomes] == ["completed", "error"]
        replies["b"] = "y"
        before = len(server.requests)
        second = Dataset(["a", "b"]).run(agent, out=out)
        assert [outcome.output for outcome in second.outcomes] == ["x", "y"]
        assert len(server.requests) == before + 1
    assert [outcome.output for outcome in EvaluationReport.load(out).outcomes] == ["x", "y"]


class Unreachable:
    """An evaluator that fails once; its state is not part of its identity."""

    def __init__(self):
        self._is_broken = True

    def __call__(self, trial):
        self._is_broken, is_broken = False, self._is_broken
        if is_broken:
            raise OSError("no connection")
        return True


def test_outcome_of_a_broken_evaluator_is_asked_again(out):
    dataset = Dataset(["a"], [Unreachable()])
    assert not asked(dataset, out)[1].outcomes[0].passed
    counts = [asked(dataset, out) for _ in range(2)]
    assert [(count, report.passed) for count, report in counts] == [(1, 1.0), (0, 1.0)]


# -- files that cannot be used --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"hello", b"hello\n", b"{}\n", b'{"identity": [1]}\n', b'{"input": "a"}\n{"input": "b"}', b"\0" * 9],
)
def test_file_with_other_content_is_refused_and_unchanged(out, content):
    out.write_bytes(content)
    with pytest.raises(ConfigError, match="line 1 is not an evaluation outcome"):
        asked(Dataset(["a"]), out)
    assert out.read_bytes() == content


def test_folder_pipe_and_missing_folder_are_refused_before_a_question(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for wrong in (tmp_path, tmp_path / "none" / "o.jsonl", tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"cannot be written|not an evaluation outcome"):
            Dataset(["a"]).run(Agent(llm=ScriptedLLM([])), out=wrong)
    (tmp_path / "cases.json").write_text('["a"]')
    assert main(["eval", str(tmp_path / "cases.json"), "--model", "m", "--out", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_file_in_use_is_refused(out):
    with ScriptedServer(handler=lambda request: "x") as server:
        agent = Agent("m", api_key="k", base_url=server.base_url)

        def second(outcome):
            with pytest.raises(ConfigError, match="in use by another evaluation"):
                Dataset(["a"]).run(agent, out=out)

        report = Dataset(["a", "b"]).run(agent, out=out, on_outcome=second)
    assert len(report.outcomes) == 2
    assert len(out.read_text().splitlines()) == 2


def test_link_is_followed(tmp_path, out):
    link = tmp_path / "link.jsonl"
    link.symlink_to(out)
    asked(Dataset(["a"]), link)
    assert asked(Dataset(["a"]), out)[0] == 0


def test_report_reads_its_outcomes_and_holds_none(out):
    """The memory of many trials is measured by `python -m benchmarks.trials`."""
    for place in (None, out):
        report = Dataset(["a"]).run(Agent(llm=ScriptedLLM(echo)), repeats=2, out=place)
        first, again = report.outcomes[0], report.outcomes[0]
        assert first == again
        assert first is not again
        assert first.messages[-1]["content"] == "a!"


# -- sessions of trials ----------------------------------------------------------------------------------


def test_failed_trial_names_its_session_which_the_commands_read(tmp_path, out, capsys):
    dataset = Dataset([Case("a", "x"), Case("b", "b!")], [Equals()])
    report = dataset.run(Agent(llm=ScriptedLLM(echo)), repeats=2, out=out)
    (failed, _) = report.failures
    assert f"session {failed.session}" in str(report)
    url = f"sqlite:///{tmp_path}/outcomes.jsonl.sessions.db"
    assert f"pal replay ID --database {url}" in str(report)
    assert len({outcome.session for outcome in report.outcomes}) == 4
    for words in (
        ["replay", failed.session],
        ["sessions", "show", failed.session],
        ["cost", "--by", "session"],
    ):
        assert main([*words, "--database", url]) == 0
    assert main(["doctor", "--session", failed.session, "--database", url]) == 0
    printed = capsys.readouterr().out
    assert "identical" in printed
    assert "# a" in printed
    assert failed.session in printed
    (run,) = [
        r
        for r in SqliteStore(out.with_name("outcomes.jsonl.sessions.db")).read(failed.session).records
        if r.type == "run"
    ]
    assert run.data["metadata"] == {"dataset": "dataset", "case": "a", "repeat": 1}


def test_sessions_alone_are_recorded_in_a_folder(tmp_path):
    report = Dataset(["a"]).run(Agent(llm=ScriptedLLM(echo)), sessions=tmp_path)
    assert [info.id for info in JsonlStore(tmp_path).list()] == [report.outcomes[0].session]
    assert Dataset(["a"]).run(Agent(llm=ScriptedLLM(echo))).outcomes[0].session == ""


def test_report_to_a_device_writes_no_outcome_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.json").write_text('["a"]')
    with ScriptedServer(handler=lambda request: "x") as server:
        words = ["eval", "cases.json", "--model", "m", "--base-url", server.base_url]
        assert main([*words, "--out", "/dev/stdout"]) == 0
    assert '"outcomes"' in capfd.readouterr().out
    assert not os.path.lexists("/dev/stdout.outcomes.jsonl")
