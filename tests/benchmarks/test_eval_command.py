"""The command ``python -m benchmarks.bfcl``, with everything real but the model."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from benchmarks.bfcl.command import add_arguments, plan, run
from benchmarks.bfcl.package import ensure_package
from benchmarks.bfcl.questions import GROUPS
from eval_answers import Oracle
from tests.cli.conftest import Pal
from tests.cli.screens import Screen
from tests.forked import ROOT

from pure_agent_loop import ConfigError, LLMError, OpenAIClient
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.testing import ScriptedServer, call, status, unauthorized

SETS = GROUPS["standard"]


class Command:
    """The command for one results file and one server."""

    def __init__(self, tmp_path, server):
        self.file, self.server = tmp_path / "results.jsonl", server
        self.out = self.err = ""

    def __call__(self, *words, model="m"):
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        args = parser.parse_args([*words, "--out", str(self.file)])
        out, err = io.StringIO(), io.StringIO()
        try:
            return run(
                args, lambda _: OpenAIClient(model, api_key="k", base_url=self.server.base_url), out, err
            )
        finally:
            self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def lines(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def everything(questions):
    return [question for name in SETS for question in questions(name)]


@pytest.fixture
def answers(everything):
    wrong = call("made_up", x=1)
    return Oracle(everything, {"simple_python_1": wrong, "irrelevance_0": wrong, "multiple_2": "Hm."})


@pytest.fixture
def server(answers):
    with ScriptedServer(handler=answers.serve) as server:
        yield server


@pytest.fixture
def command(tmp_path, server):
    return Command(tmp_path, server)


def test_the_standard_sets_from_beginning_to_end(command, server):
    assert command("--limit", "4", "--table", "markdown") == 0
    rows = [line.strip("| ").split(" | ") for line in command.out.splitlines()[2:]]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("simple_python", "4", "3", "wrong_func_name 1"),
        ("multiple", "4", "3", "no_call 1"),
        ("parallel", "4", "4", "-"),
        ("parallel_multiple", "4", "4", "-"),
        ("irrelevance", "4", "3", "called 1"),
        ("all", "20", "17", rows[-1][-1]),
    ]
    assert "eval: 20/20 done, 17 right, " in command.err
    assert [line["id"] for line in command.lines][:5] == [
        *(f"simple_python_{i}" for i in range(4)),
        "multiple_0",
    ]
    assert len(command.lines) == 20
    server.assert_clean()


def test_evaluation_resumes(command, answers):
    command("--sets", "multiple", "--limit", "3")
    whole = command.out
    command.file.write_text("".join(command.file.read_text().splitlines(keepends=True)[:2])[:-9])
    answers.asked.clear()
    assert command("--sets", "multiple", "--limit", "3") == 0
    assert answers.asked == ["multiple_1", "multiple_2"]
    assert "1 unreadable lines" in command.err
    assert "1 results, 2 questions left" in command.err
    counts = [line.split()[:3] for line in (whole, command.out)]
    assert counts[0] == counts[1]
    answers.asked.clear()
    assert command("--sets", "multiple,simple_python", "--limit", "3") == 0
    assert answers.asked == [f"simple_python_{i}" for i in range(3)]


def test_other_questions_in_the_file_are_not_counted(command):
    command("--sets", "multiple", "--limit", "3")
    assert command("--sets", "multiple,parallel", "--limit", "1") == 0
    assert [line.split()[:2] for line in command.out.splitlines()[1:]] == [
        ["multiple", "1"],
        ["parallel", "1"],
        ["all", "2"],
    ]


def test_failed_requests_are_asked_again_next_time(command, answers, everything):
    answers._special["multiple_1"] = status(400)
    assert command("--sets", "multiple", "--limit", "2") == 75
    assert "request:bad_request 1" in command.out
    del answers._special["multiple_1"]
    answers.asked.clear()
    assert command("--sets", "multiple", "--limit", "2") == 0
    assert answers.asked == ["multiple_1"]
    assert command.out.splitlines()[1].split()[:3] == ["multiple", "2", "2"]


def test_results_of_another_model_are_not_mixed_in(command):
    command("--sets", "multiple", "--limit", "1")
    for change in ({"model": "other"}, {"words": ["--max-tokens", "9"]}):
        with pytest.raises(ConfigError, match="another run"):
            command("--sets", "multiple", "--limit", "2", *change.pop("words", []), **change)
    assert len(command.lines) == 1


def test_options_reach_the_model(command, server):
    command("--sets", "irrelevance", "--limit", "1", "--max-tokens", "77")
    assert server.requests[0].options == {"model": "m", "temperature": 0, "max_tokens": 77}


def test_a_seed_takes_others(command, answers):
    command("--sets", "multiple", "--limit", "3", "--seed", "1", "--concurrency", "2")
    assert sorted(answers.asked) != [f"multiple_{i}" for i in range(3)]
    assert len(answers.asked) == 3


def test_no_access_ends_it_with_the_table_so_far(tmp_path, questions):
    script = ["No.", unauthorized()]
    with ScriptedServer(script) as server:
        command = Command(tmp_path, server)
        with pytest.raises(LLMError, match="API key"):
            command("--sets", "irrelevance", "--limit", "5")
    assert "2 of 5" in command.out
    assert len(command.lines) == 2


INTERRUPTED = """
import argparse, signal, sys
from benchmarks.bfcl.command import add_arguments, run
from pure_agent_loop import OpenAIClient
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
parser = argparse.ArgumentParser()
add_arguments(parser)
args = parser.parse_args(["--sets", "irrelevance", "--limit", "5", "--out", sys.argv[2]])
try:
    run(args, lambda _: OpenAIClient("m", api_key="k", base_url=sys.argv[1]))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_keeps_finished_results(tmp_path):
    asked = []

    async def handler(request):
        asked.append(request)
        if len(asked) < 3:
            return "No."
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: the checker's process gets it too
        return await asyncio.Event().wait()

    with ScriptedServer(handler=handler) as server:
        words = [sys.executable, "-c", INTERRUPTED, server.base_url, str(tmp_path / "r.jsonl")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, start_new_session=True, **pipes) as child:
            try:
                out, err = child.communicate(timeout=60)
            finally:
                child.kill()
    assert child.returncode == 130, err
    assert out.splitlines()[1].split()[:5] == ["irrelevance", "2", "of", "5", "2"]
    assert "Traceback" not in err
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2


class Bfcl(Pal):
    """The command in an empty folder, with the clone in the path."""

    command = (sys.executable, "-m", "benchmarks.bfcl")


@pytest.fixture
def pal(tmp_path):
    pal = Bfcl(tmp_path)
    pal.env["PYTHONPATH"] = str(ROOT)
    return pal


def test_all_questions_are_asked_only_after_a_yes(pal, package):
    with ScriptedServer(handler=lambda request: "No.") as server:
        ask_all(pal, server, package)


def ask_all(pal, server, package):
    pal.use(server)
    pal.env["PAL_HOME"] = str(package.parent.parent)  # of the questions, which are fetched once
    with Screen(pal) as screen:
        screen.until(r"Start\? \[y/N\]")
        wanted = r"^1,240 questions \(standard\): about \d{3},000 input tokens, plus answers\.$"
        assert re.search(wanted, screen.text, re.M)
        screen.type("n\n")
        assert screen.end() == 0
    assert not (pal.workspace / "eval.jsonl").exists()
    assert not server.requests
    with Screen(pal, columns=40) as screen:
        screen.until(r"\[y/N\]")
        screen.type("y\n")
        screen.until(r"eval: [1-9]\d/1240 done")
        assert screen.all.count("/1240 done") == 1  # one line, redrawn
    assert server.requests


def test_cost_is_printed_for_a_known_price(questions):
    asked = questions("multiple")
    client = OpenAIClient("gpt-4o-mini", api_key="k", base_url="https://api.openai.com/v1")
    form = r"200 questions \(multiple\): about (\d+),000 input tokens, \$(.*), plus answers."
    found = re.fullmatch(form, plan(asked, client, "multiple"))
    assert float(found[2]) == pytest.approx(float(found[1]) * price_of(client).input / 1000, abs=0.006)


def test_without_a_terminal_all_questions_need_a_word(pal, server):
    pal.use(server)
    done = pal()
    assert done.returncode == 2
    assert "Write --sets standard" in done.stderr
    assert "--yes" in done.stderr
    assert not server.requests


def test_typed_options_win_over_variables(pal, server, package):
    pal.use(server)
    pal.env["PAL_HOME"] = str(package.parent.parent)
    done = pal("--limit", "1", "--sets", "multiple", "--model", "m", "--max-tokens", "77", "--yes")
    assert done.returncode == 0, done.stderr
    options = server.requests[0].options
    assert (options["model"], options["temperature"], options["max_tokens"]) == ("m", 0, 77)


def test_unknown_set_is_refused_before_files_are_created(tmp_path):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["--sets", "simple", "--out", str(tmp_path / "r")])

    def factory(_):
        raise AssertionError("no client is needed")

    with pytest.raises(ConfigError, match="Unknown set 'simple'"):
        run(args, factory)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "words", [["--limit", "0"], ["--limit", "x"], ["--concurrency", "0"], ["--table", "html"]]
)
def test_wrong_options_are_usage_errors(words, capsys):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(words)
    assert stop.value.code == 2
    assert words[0] in capsys.readouterr().err


# -- the package -----------------------------------------------------------------------------------


def test_the_package_is_fetched_alone_and_once(tmp_path):
    told = []
    folder = ensure_package(tmp_path, told.append)
    assert len(told) == 1
    assert {path.name.partition("-")[0] for path in folder.iterdir()} <= {"bfcl_eval", "bin"}
    assert ensure_package(tmp_path, told.append) == folder
    assert len(told) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name, "lock"]


def test_a_package_that_cannot_be_fetched_is_said(tmp_path):
    code = (
        "import pathlib, sys; from benchmarks.bfcl.package import ensure_package;"
        "ensure_package(pathlib.Path(sys.argv[1]))"
    )
    for name, line in (("pip/pip.conf", "[global]\nno-index = true\n"), ("uv/uv.toml", "no-index = true\n")):
        settings = tmp_path / "home" / ".config" / name
        settings.parent.mkdir(parents=True)
        settings.write_text(line)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "to")],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path / "home")},
        check=False,
    )
    assert "ConfigError: Could not fetch bfcl-eval" in done.stderr
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["lock"]
