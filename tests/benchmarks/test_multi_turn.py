"""`benchmarks.bfcl.multi_turn` and `benchmarks.tau2`: right calls over MCP, with and without kills."""

from __future__ import annotations

import json
import re

import pytest
from benchmarks.bfcl.multi_turn import Questions, read_call, task_of
from benchmarks.scripted_tasks import next_answer, random_kills, same_calls
from tests.benchmark_runs import run_benchmark

from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedServer, call


@pytest.mark.parametrize("kills", [0, 2])
def test_right_calls_lead_to_right_state_with_and_without_kills(kills, tmp_path):
    words = ("--oracle", "--sets", "base,miss_func", "--limit", "1", "--kills", str(kills))
    done = run_benchmark("bfcl.multi_turn", *words, "--out", str(tmp_path / "results.jsonl"))
    assert re.search(r"^all +2 +2 +100.0", done.stdout, re.MULTILINE), done.stdout + done.stderr
    found = re.search(r"2 tasks, (\d+) calls, (\d+) kills", done.stdout)
    assert int(found[1]) == 20
    assert bool(int(found[2])) == bool(kills)  # a kill after a result can come too late
    again = run_benchmark("bfcl.multi_turn", *words, "--out", str(tmp_path / "results.jsonl"))
    assert again.stdout == done.stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_model_that_calls_nothing_is_wrong():
    with ScriptedServer(["I cannot."] * 4) as server:
        words = ("--model", "m", "--base-url", server.base_url)
        done = run_benchmark("bfcl.multi_turn", *words, "--sets", "base", "--limit", "1")
    assert re.search(
        r"^multi_turn_base +1 +0 +0.0 .*empty_turn_model_response 1$", done.stdout, re.MULTILINE
    ), done.stdout + done.stderr
    tools = [tool["function"]["name"] for tool in server.requests[0].tools]
    assert "mkdir" in tools
    assert "list_calls" not in tools


def test_database_of_tau2_is_that_of_calls_alone_in_spite_of_kills():
    done = run_benchmark("tau2", "--domains", "airline", "--limit", "1", "--kills", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^airline +1 +2 +[01] +[01] +1 +1 ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("kills", [0, 2])
def test_recorded_conversation_is_replayed_turn_by_turn(kills, tmp_path):
    """In the formats of tau-bench and tau2-bench; a greeting, a second user and unknown tools are theirs."""
    asked = {"name": "get_user_details", "arguments": {"user_id": "mia_li_3668"}}
    wrong = {"name": "get_reservation_details", "arguments": {"reservation_id": "none"}}
    first = [{"role": "user", "content": "I am mia_li_3668."}, {"role": "assistant", "content": "Yes?"}]
    second = [
        {"role": "user", "content": "What do you know of me?"},
        {"role": "assistant", "tool_calls": [{"id": "1", **asked}, {"id": "2", **wrong}]},
        {"role": "tool", "content": "…"},
        {"role": "assistant", "content": "Little."},
        {"role": "user", "content": "Good bye. ###STOP###"},
    ]
    thought = {"id": "0", "function": {"name": "think", "arguments": '{"thought": "…"}'}}
    thinking = {"role": "assistant", "content": None, "tool_calls": [thought]}
    function = {"id": "1", "function": {"name": asked["name"], "arguments": json.dumps(asked["arguments"])}}
    former = [*first, second[0], thinking, {"role": "assistant", "tool_calls": [function]}]
    greeting = {"role": "assistant", "content": "Hello!"}
    files = {
        "new.json": {"simulations": [{"task_id": "7", "messages": [greeting, *first, *second]}]},
        "old.json": [{"task_id": 7, "traj": [*former, *second[2:]]}],
    }
    for (name, content), calls in zip(files.items(), (2, 1), strict=True):
        (tmp_path / name).write_text(json.dumps(content))
        words = ("--domains", "airline", "--recorded", str(tmp_path / name), "--kills", str(kills))
        done = run_benchmark("tau2", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(rf"^airline +1 +{calls} +[012] +[012] +1 +1 ", done.stdout, re.MULTILINE), (
            done.stdout
        )
        assert ("server does not offer: 1" in done.stderr) == (name == "old.json")


def test_call_without_a_name_gets_the_names_of_the_parameters():
    assert read_call("sort('a.txt', n=[1, -2])", {"sort": ["file", "n"]}) == (
        "sort",
        {"file": "a.txt", "n": [1, -2]},
    )


def test_script_reads_log_after_an_unknown_outcome(package):
    task = task_of(Questions(package).entries("base")[0], (package,))
    (first, one), (second, two) = task.turns[0].calls[:2]

    def result(name, text):
        asked = {"role": "assistant", "tool_calls": [{"id": name, "function": {"name": name}}]}
        return [asked, {"role": "tool", "tool_call_id": name, "content": text}]

    messages = [{"role": "user", "content": task.turns[0].text}]
    assert next_answer(task, messages) == call(first, **one)
    messages += result(first, f"Error: {ENGLISH.tool_interrupted}")
    assert next_answer(task, messages) == call(task.log)
    assert next_answer(task, [*messages, *result(task.log, "")]) == call(first, **one)
    assert next_answer(task, [*messages, *result(task.log, f"called {first}")]) == call(second, **two)


def test_calls_made_twice_or_lost_are_found(package):
    task = task_of(Questions(package).entries("base")[0], (package,))
    made = [(name, json.loads(json.dumps(arguments))) for name, arguments in task.calls]
    assert same_calls(task, made)
    assert not same_calls(task, made[:-1])
    assert not same_calls(task, [made[0], *made])


def test_kills_are_random_by_task_and_seed(package):
    task, other = (task_of(entry, ()) for entry in Questions(package).entries("base")[:2])
    assert random_kills(task, 3, 1) == random_kills(task, 3, 1)
    assert len({random_kills(task, 3, 1), random_kills(task, 3, 2), random_kills(other, 3, 1)}) == 3
    assert re.fullmatch(r"(\d+:(before|after|later),?){3}", random_kills(task, 3, 1))
