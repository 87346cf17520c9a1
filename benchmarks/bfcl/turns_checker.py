"""Compare the calls of a server's journal with the leaderboard's calls; started as a program.

    python -I -S turns_checker.py PATHS

Reads one JSON object a line, ``{"entry", "answers", "journal"}``, and writes one result each: ``right``,
the verdict of the leaderboard's own checker, and ``same_state``, whether the final state of all instances is
that of the leaderboard's own execution of the right calls.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

EVAL = "bfcl_eval.eval_checker.multi_turn_eval"


def check(task: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the result of a task."""
    checker = importlib.import_module(f"{EVAL}.multi_turn_checker")
    entry, answers, journal = task["entry"], task["answers"], task["journal"]
    turns: list[list[list[str]]] = [[] for _ in answers]
    for made in journal:
        arguments = ", ".join(f"{name}={value!r}" for name, value in made["arguments"].items())
        turns[made["turn"]].append([f"{made['name']}({arguments})"])
    verdict = checker.multi_turn_checker(turns, answers, entry, entry["id"], f"checked{number}")
    if verdict["valid"]:
        verdict = checker.multi_turn_irrelevance_checker(turns, answers)
    error = "" if verdict["valid"] else f"{verdict['error_type']}: {verdict['error_message']}"
    return {"right": verdict["valid"], "same_state": same_state(task, number), "error": error}


def same_state(task: dict[str, Any], number: int) -> bool:
    """Return whether the journal leads to the state of the leaderboard's own execution."""
    utils = importlib.import_module(f"{EVAL}.multi_turn_utils")
    checker = importlib.import_module(f"{EVAL}.multi_turn_checker")
    server = importlib.import_module("benchmarks.bfcl.turns_server")
    entry = task["entry"]
    _, direct = utils.execute_multi_turn_func_call(
        [text for turn in task["answers"] for text in turn],
        entry["initial_config"],
        entry["involved_classes"],
        f"direct{number}",
        entry["id"],
        long_context="long_context" in entry["id"],
    )
    instances = server.Instances(entry)
    for made in task["journal"]:
        instances.call(made["name"], made["arguments"])
    return bool(checker.state_checker(instances.by_class, direct)["valid"])


def main() -> None:
    """Answer tasks until standard input ends."""
    out, sys.stdout = sys.stdout, sys.stderr  # output that the package prints is not a result
    sys.path[:0] = [*sys.argv[1].split(os.pathsep), str(Path(__file__).parents[2])]
    for number, line in enumerate(sys.stdin):
        out.write(json.dumps(check(json.loads(line), number)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
