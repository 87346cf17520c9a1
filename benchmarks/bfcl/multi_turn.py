"""Multi-turn tasks of the Berkeley Function Calling Leaderboard: ``python -m benchmarks.bfcl.multi_turn``.

    python -m benchmarks.bfcl.multi_turn --oracle [--kills 2]    # a scripted model makes the right calls
    python -m benchmarks.bfcl.multi_turn --model qwen2.5:7b --base-url http://127.0.0.1:11434/v1

An agent does the turns of a task in one session. The leaderboard's simulated classes are the tools, behind
an MCP server, whose state outlives the agent. ``--kills N`` kills the agent with SIGKILL at N random calls of
each task (before the call, after it, or some milliseconds later) and resumes it in a new process. The
leaderboard's checker judges. With ``--oracle``, each right call must also have been made once, in order, and
the final state must be that of the leaderboard's own execution.

Sets: base, miss_func, miss_param, long_context. The same command resumes a stopped run.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bfcl.conversion import to_tool
from benchmarks.bfcl.package import NAME, Package, ensure_package
from benchmarks.bfcl.results import REQUEST_FAILED, QuestionResult, ResultsFile
from benchmarks.bfcl.table import as_markdown, as_text, summarise
from benchmarks.bfcl.turns_server import LOG_TOOL, read_journal
from benchmarks.model_choice import add_model_options, chosen_model, reported
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
)
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment, script_argv
from pure_agent_loop.support.numbers import positive

SETS = ("base", "miss_func", "miss_param", "long_context")
MPMATH = Package(  # one of the classes imports it
    "mpmath",
    "1.3.0",
    "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c",
    "mpmath/__init__.py",
)
# The leaderboard's message in a turn that adds tools.
MORE_TOOLS = "I have updated some more functions you can choose from. What about now?"
MAX_STEPS = 20  # the leaderboard's limit
ROOT = Path(__file__).parents[2]
LOG = {
    "name": LOG_TOOL,
    "description": "List the calls made so far.",
    "inputSchema": {"type": "object", "properties": {}},
}
ENTRY, JOURNAL = "entry.json", "journal"


class Questions:
    """The leaderboard's multi-turn tasks."""

    def __init__(self, package: Path) -> None:
        self._data = package / "bfcl_eval" / "data"
        config = (package / "bfcl_eval/constants/executable_backend_config.py").read_text()
        self._docs: dict[str, str] = ast.literal_eval(config.partition("= ")[2].partition("}")[0] + "}")

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks of a set, each with its right calls and its tools."""
        file = f"BFCL_v4_multi_turn_{name}.json"
        answers = {line["id"]: line["ground_truth"] for line in self._read("possible_answer", file)}
        return [
            {**line, "answers": answers[line["id"]], "functions": self._functions(line)}
            for line in self._read(file)
        ]

    def _read(self, *names: str) -> list[dict[str, Any]]:
        lines = self._data.joinpath(*names).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line]

    def _functions(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        names = [self._docs[class_name] for class_name in entry["involved_classes"]]
        return [function for name in names for function in self._read("multi_turn_func_doc", name)]


def task_of(entry: dict[str, Any], paths: Sequence[Path]) -> ScriptedTask:
    """Return a task for an agent.

    Args:
        entry: The leaderboard's task.
        paths: Folders of packages.
    """
    parameters = {one["name"]: list(one["parameters"]["properties"]) for one in entry["functions"]}
    missed = {int(turn): names for turn, names in entry.get("missed_function", {}).items()}
    turns = [
        Turn(
            messages[0]["content"] if messages else MORE_TOOLS,
            [read_call(text, parameters) for text in texts],
            [name for turn, names in missed.items() if turn > number for name in names],
        )
        for number, (messages, texts) in enumerate(zip(entry["question"], entry["answers"], strict=True))
    ]
    return ScriptedTask(
        entry["id"],
        turns,
        "benchmarks.bfcl.turns_server",
        (*paths, ROOT),
        LOG_TOOL,
        "(?m)^called ",
        lambda folder, turn: (str(folder / ENTRY), str(folder / JOURNAL), str(turn)),
        max_steps=MAX_STEPS,
    )


def read_call(text: str, parameters: dict[str, list[str]]) -> Call:
    """Read a call in Python syntax.

    Args:
        text: The call; its arguments are literals.
        parameters: Names of the parameters of each function.
    """
    node: Any = ast.parse(text, mode="eval").body
    names = parameters[node.func.id]
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
    return node.func.id, arguments | {word.arg: ast.literal_eval(word.value) for word in node.keywords}


def prepare(folder: Path, entry: dict[str, Any]) -> None:
    """Write the task for its server."""
    tools = [to_tool({key: doc[key] for key in doc if key != "response"}) for doc in entry["functions"]]
    listed = [
        {**tool["function"], "inputSchema": tool["function"]["parameters"], "parameters": None}
        for tool in tools
    ]
    (folder / ENTRY).write_text(json.dumps({**entry, "tools": [*listed, LOG]}))


def check(entries: Sequence[dict[str, Any]], journals: Sequence[Any], paths: Sequence[Path]) -> list[Any]:
    """Return the checker's results."""
    tasks = [
        json.dumps({"entry": entry, "answers": entry["answers"], "journal": journal})
        for entry, journal in zip(entries, journals, strict=True)
    ]
    done = subprocess.run(
        script_argv(Path(__file__).with_name("turns_checker.py"), ":".join(map(str, paths))),
        input="\n".join(tasks),
        capture_output=True,
        text=True,
        cwd=NEUTRAL_DIR,
        env=child_environment(),
        check=False,
    )
    if done.returncode:
        raise PureAgentLoopError(f"The checker failed: {done.stderr[-800:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def go(
    task: ScriptedTask, model: ChatModel | None, options: argparse.Namespace, folder: Path, kills: str = ""
) -> list[dict[str, Any]]:
    """Do a task in this process."""
    settings: dict[str, Any] = {"system_prompt": "", "temperature": 0, "tool_mode": options.tool_mode}
    if model is None:  # the script reads the whole history
        return run_task(task, scripted_model(task), folder, kills, compaction=False, **settings)
    return run_task(task, model, folder, kills, **settings)


def go_until_killed(
    arguments: Sequence[str], entry: dict[str, Any], paths: Sequence[Path], folder: Path, kills: str
) -> None:
    """Do a task in a process of its own, with the model of a command line."""
    made = parser()
    options = made.parse_args(arguments)
    model = None if options.oracle else chosen_model(made, arguments, options, CommandOutput())
    go(task_of(entry, paths), model, options, folder, kills)


def ask(
    entry: dict[str, Any], model: ChatModel | None, options: argparse.Namespace, run: Run
) -> QuestionResult:
    """Do a task, and check it."""
    task, begun = task_of(entry, run.paths), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder, messages, killed, failed = Path(name), [], KilledTask(0, 0), ""
        prepare(folder, entry)
        if options.kills:
            places = random_kills(task, options.kills, options.seed)
            words = (run.arguments, entry, run.paths, folder, places)
            killed = run_killed(task, folder, places, go_until_killed, *words)
        else:
            try:
                messages = go(task, model, options, folder)
            except PureAgentLoopError as error:
                failed = str(error)
        journal = read_journal(folder / JOURNAL)
    seconds, failed = time.monotonic() - begun, failed or killed.error
    verdict = check([entry], [journal], run.paths)[0]
    made = [(one["name"], one["arguments"]) for one in journal]
    kind, _, wrong = verdict["error"].partition(": ")
    if model is None and not same_calls(task, made):
        kind, wrong = "calls", f"These calls were made: {made}"
    elif model is None and not verdict["same_state"]:
        kind, wrong = "state", "The final state differs."
    return QuestionResult(
        id=task.id,
        set=task.id.rpartition("_")[0],
        run=run.label,
        messages=messages,
        calls=[{"name": name, "arguments": arguments} for name, arguments in made],
        right=not kind and not failed,
        error_type=f"{REQUEST_FAILED}run" if failed else kind,
        error=failed or wrong,
        seconds=seconds,
        kills=killed.kills,
        unknown=killed.unknown,
        same_state=verdict["same_state"],
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command.

    Args:
        arguments: The command line.
        paths: Folders of packages.
        label: Model and settings.
    """

    arguments: Sequence[str]
    paths: Sequence[Path]
    label: str


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "python -m benchmarks.bfcl.multi_turn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_model_options(made)
    group = made.add_argument_group("tasks")
    group.add_argument("--oracle", action="store_true", help="a script makes the right calls")
    group.add_argument("--sets", metavar="A,B", default=",".join(SETS), help="sets of tasks (default: all)")
    group.add_argument("--limit", type=positive, metavar="N", help="the first tasks of each set")
    group.add_argument("--kills", type=int, default=0, metavar="N", help="kills per task (default: 0)")
    group.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the kills (default: 1)")
    group.add_argument("--concurrency", type=positive, default=1, metavar="N", help="concurrent tasks")
    group.add_argument("--out", type=Path, metavar="FILE", help="results file (default: a temporary one)")
    group.add_argument("--table", choices=("text", "markdown"), default="text", help="table format")
    return made


def run(options: argparse.Namespace, arguments: Sequence[str], model: ChatModel | None) -> int:
    """Do the tasks and print the table; return the exit code.

    Raises:
        ConfigError: A set is unknown, or a package cannot be fetched.
    """
    names = options.sets.split(",")
    if others := set(names) - set(SETS):
        raise ConfigError(f"--sets: unknown set {min(others)!r}. Sets: {', '.join(SETS)}.")
    package = ensure_package()
    paths = (package, ensure_package(package=MPMATH))
    questions = Questions(package)
    entries = [entry for name in names for entry in questions.entries(name)[: options.limit]]
    label = f"{getattr(model, 'model', 'oracle')}, kills={options.kills}, seed={options.seed}, {NAME}"
    asked = Run(arguments, paths, label)
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultsFile(options.out or Path(folder, "results.jsonl"), label) as results,
    ):
        records = {id_: record for id_, record in results.records.items() if record.answered}

        def work(entry: dict[str, Any]) -> None:
            records[entry["id"]] = record = ask(entry, model, options, asked)
            results.add(record)
            if not record.right:
                print(f"{record.id}: {record.error_type}: {record.error:.300}", file=sys.stderr, flush=True)

        in_threads(work, [entry for entry in entries if entry["id"] not in records], options.concurrency)
    wanted = {f"multi_turn_{name}": sum(name in entry["id"] for entry in entries) for name in names}
    chosen = [records[entry["id"]] for entry in entries]
    rows = summarise(chosen, wanted)
    print(as_markdown(rows) if options.table == "markdown" else as_text(rows), end="")
    kills, unknown = sum(one.kills for one in chosen), sum(one.unknown for one in chosen)
    calls = sum(len(one.calls) for one in chosen)
    print(
        f"{len(chosen)} tasks, {calls} calls, {kills} kills, {unknown} calls with an unknown outcome; ",
        end="",
    )
    print(f"final state as executed directly in {sum(one.same_state is True for one in chosen)}")
    return 0 if all(record.answered for record in chosen) else 75


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    made = parser()
    options = made.parse_args(words)
    return reported(
        lambda output: run(
            options, words, None if options.oracle else chosen_model(made, words, options, output)
        )
    )


if __name__ == "__main__":
    sys.exit(main())
