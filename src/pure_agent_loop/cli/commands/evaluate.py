"""The command ``eval``: the leaderboard's questions, or a file with cases of one's own."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import add_model_choice, describe, number_from
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.command import DESCRIPTION, EPILOG, add_arguments, run
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.text import safe_str

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation.dataset import Dataset
    from pure_agent_loop.evaluation.report import Outcome, Report

OWN = """
With FILE, cases of your own are asked instead: a Python file that has a Dataset in it, and an Agent if
you like; or YAML, JSON or JSON lines. The agent is that of the file, or --agent, or one without tools
on the model chosen. --out takes the report, --limit the first cases, and --seed is sent with the requests.
Exit codes with FILE: 0 enough passed and, with --compare, nothing got worse; 1 not so.
"""
_OF_FILES = ("agent", "repeats", "compare", "at_least")
_OF_QUESTIONS = ("sets", "max_tokens")


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, DESCRIPTION, EPILOG + OWN)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="cases of your own")
    add_model_choice(parser.add_argument_group("model"))
    add_arguments(parser.add_argument_group("questions"))
    own = parser.add_argument_group("with FILE")
    own.add_argument("--agent", metavar="MODULE:NAME", help="the agent that is asked")
    own.add_argument("--repeats", type=positive, metavar="N", help="ask each case so often (default: 1)")
    own.add_argument("--compare", type=Path, metavar="REPORT", help="a report that --out wrote before")
    own.add_argument(
        "--at-least",
        type=number_from(0, 1),
        metavar="SHARE",
        help="how many must pass, from 0 to 1 (default: 1; with --compare: 0)",
    )


def evaluate(options: argparse.Namespace, output: Output) -> int:
    """Measure a model or an agent and return the exit code."""
    _refuse(options, _OF_FILES if options.file is None else _OF_QUESTIONS)
    configure(options, output, Path.cwd(), Questions.at_terminal(output))
    if options.file is not None:
        return _evaluate_file(options, output)

    def client_for(args: argparse.Namespace) -> ChatModel:
        choice = choose(args.model, args.base_url, args.thinking, os.environ, output, args.configured)
        return ToolModeClient(choice.client, args.tool_mode, prompts_for())

    return run(options, client_for)


def _refuse(options: argparse.Namespace, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(options, name) is not None:
            when = "only with FILE" if options.file is None else "only without FILE"
            raise ConfigError(f"--{name.replace('_', '-')} is understood {when}.")


def _evaluate_file(options: argparse.Namespace, output: Output) -> int:
    from pure_agent_loop.evaluation.progress import Progress
    from pure_agent_loop.evaluation.report import Report
    from pure_agent_loop.support.portal import run_sync

    former = None if options.compare is None else Report.load(options.compare)
    dataset, agent = _loaded(options.file)
    agent = _agent_for(options, agent, output)
    dataset.cases = dataset.cases[: options.limit]
    outcomes: list[Outcome] = []
    repeats = options.repeats or 1
    total = len(dataset.cases) * repeats
    progress = Progress(output.progress, total, [], live=output.err_is_terminal)

    def note(outcome: Outcome) -> None:
        outcomes.append(outcome)
        progress.add(outcome)

    try:
        report = dataset.run(
            agent, repeats=repeats, concurrency=options.concurrency, seed=options.seed, on_outcome=note
        )
    except BaseException:
        progress.end()
        if outcomes:  # what is known is not lost
            _write(Report(dataset.name, outcomes, {"unfinished": True}), options, output)
        raise
    finally:
        run_sync(agent.aclose())
    progress.end()
    _write(report, options, output)
    return _exit_code(report, former, options, output)


def _exit_code(report: Report, former: Report | None, options: argparse.Namespace, output: Output) -> int:
    wanted = options.at_least if options.at_least is not None else float(former is None)
    compared = None if former is None else report.compare(former)
    if compared is not None:
        output.result(f"{compared}\n")
    is_worse = compared is not None and bool(compared.worse)
    return FAILED if is_worse or report.passed < wanted else DONE


def _write(report: Report, options: argparse.Namespace, output: Output) -> None:
    if options.out is not None:
        try:
            report.save(options.out)
        except OSError as error:
            output.fail(f"the report cannot be written to {options.out}: {error.strerror or error}")
    output.result(f"{report.table('markdown') if options.table == 'markdown' else report}".rstrip() + "\n")


def _loaded(path: Path) -> tuple[Dataset, Agent | None]:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation.dataset import Dataset

    if path.suffix.lower() != ".py":
        return Dataset.from_file(path), None
    sys.path.insert(0, str(path.resolve().parent))  # as `python FILE` does
    try:
        names: dict[str, Any] = runpy.run_path(str(path), run_name="pal_eval")
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path} cannot be run. {type(error).__name__}: {safe_str(error)}") from error
    return _one_of(names, Dataset, "dataset", path, needed=True), _one_of(names, Agent, "agent", path)


def _one_of(names: dict[str, Any], kind: type, name: str, path: Path, *, needed: bool = False) -> Any:
    """The object of that kind in a file; of several, the one of that name."""
    found = {id(each): each for each in names.values() if isinstance(each, kind)}
    if isinstance(names.get(name), kind) or (not found and not needed):
        return names.get(name)
    if len(found) != 1:
        raise ConfigError(f"{path} has {len(found)} objects of the kind {kind.__name__}: name one {name!r}.")
    return next(iter(found.values()))


def _agent_for(options: argparse.Namespace, agent: Agent | None, output: Output) -> Agent:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cli.load import load_object

    if options.agent is not None:
        agent = load_object("--agent", options.agent)
        if not isinstance(agent, Agent):
            raise ConfigError(f"--agent={options.agent} must be an Agent, or a function that makes one.")
    chosen = {
        "model": options.model,
        "base-url": options.base_url,
        "temperature": options.temperature,
        "thinking": None if options.thinking == "off" else options.thinking,
        "tool-mode": None if options.tool_mode == "auto" else options.tool_mode,
    }
    if agent is not None:
        given = next((name for name, value in chosen.items() if value is not None), None)
        if given is not None:
            raise ConfigError(f"--{given} was given, but the agent has its own. Leave one of them out.")
        return agent
    choice = choose(options.model, options.base_url, options.thinking, os.environ, output, options.configured)
    return Agent(
        llm=choice.client,
        system_prompt="",
        tool_mode=options.tool_mode,
        temperature=options.temperature or 0.0,
    )
