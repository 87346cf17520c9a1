"""The command ``eval``: evaluate with leaderboard questions, or with cases from a file."""

from __future__ import annotations

import argparse
import runpy
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import add_options, describe, read_options
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import ModelOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation import add_arguments, run
from pure_agent_loop.evaluation.command import DESCRIPTION, EPILOG
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tool_modes.client import ToolModeClient
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import number, positive
from pure_agent_loop.support.text import safe_str

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation import CaseOutcome, Dataset, EvaluationReport

OWN = """
FILE holds your own cases: a Python file with a Dataset and optionally an Agent, or YAML, JSON or JSON
lines. The agent comes from the file or from --agent; the default is the chosen model without tools.
--out writes the report, --limit takes the first cases, and --seed is sent with the requests.
Exit codes with FILE: 0 enough cases passed and, with --compare, none got worse; else 1.
"""
_OF_FILES = ("agent", "repeats", "compare", "at_least")
_OF_QUESTIONS = ("sets", "max_tokens", "yes")


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, DESCRIPTION, EPILOG + OWN)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="file with your own cases")
    add_options(parser.add_argument_group("model"), ModelOptions)
    add_arguments(parser.add_argument_group("questions"))
    own = parser.add_argument_group("with FILE")
    own.add_argument("--agent", metavar="MODULE:NAME", help="agent to evaluate")
    own.add_argument("--repeats", type=positive, metavar="N", help="runs per case (default: 1)")
    own.add_argument("--compare", type=Path, metavar="REPORT", help="earlier report written by --out")
    own.add_argument(
        "--at-least",
        type=number(
            lambda share: 0 <= share <= 1,
            lambda text: user_text("cli.number_range", text=text, low=0, high=1),
        ),
        metavar="SHARE",
        help="share that must pass, 0 to 1 (default: 1; 0 with --compare)",
    )


def evaluate(options: argparse.Namespace, output: CommandOutput) -> int:
    """Evaluate a model or an agent and return the exit code."""
    _refuse(options, _OF_FILES if options.file is None else _OF_QUESTIONS)
    model = read_options(ModelOptions, options)
    configure(model, output, Path.cwd(), TerminalQuestions.at_terminal(output))
    if options.file is not None:
        return _evaluate_file(options, model, output)
    is_chosen = options.yes or options.sets is not None or options.limit is not None
    questions = TerminalQuestions.at_terminal(output)
    if not is_chosen and questions is None:
        raise ConfigError(notice("cli.eval_unchosen"))

    def confirm(plan: str) -> bool:
        lines = textwrap.fill(plan, shutil.get_terminal_size().columns - 1)
        return questions is not None and questions.confirm(f"{lines}\n{user_text('cli.eval_start')}")

    def client_for(_: argparse.Namespace) -> ChatModel:
        choice = choose(model, model.thinking, output, questions=questions)
        return ToolModeClient(choice.client, model.tool_mode, prompts_for())

    vars(options).update(vars(model))
    return run(options, client_for, confirm=None if is_chosen else confirm)


def _refuse(options: argparse.Namespace, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(options, name) is not None:
            when = notice("cli.only_with_file" if options.file is None else "cli.only_without_file")
            raise ConfigError(notice("cli.eval_option", option=name.replace("_", "-"), when=when))


def _evaluate_file(options: argparse.Namespace, model: ModelOptions, output: CommandOutput) -> int:
    from pure_agent_loop.evaluation import EvaluationReport, Progress
    from pure_agent_loop.support.portal import run_sync

    former = None if options.compare is None else EvaluationReport.load(options.compare)
    dataset, agent = _loaded(options.file)
    agent = _agent_for(options.agent, agent, model, output)
    dataset.cases = dataset.cases[: options.limit]
    outcomes: list[CaseOutcome] = []
    repeats = options.repeats or 1
    total = len(dataset.cases) * repeats
    progress = Progress(output.progress, total, [], live=output.can_clear)

    def note(outcome: CaseOutcome) -> None:
        outcomes.append(outcome)
        progress.add(outcome)

    try:
        report = dataset.run(
            agent, repeats=repeats, concurrency=options.concurrency, seed=options.seed, on_outcome=note
        )
    except BaseException:
        progress.end()
        if outcomes:  # keep the outcomes collected so far
            _write(EvaluationReport(dataset.name, outcomes, {"unfinished": True}), options, output)
        raise
    finally:
        run_sync(agent.aclose())
    progress.end()
    _write(report, options, output)
    return _exit_code(report, former, options, output)


def _exit_code(
    report: EvaluationReport,
    former: EvaluationReport | None,
    options: argparse.Namespace,
    output: CommandOutput,
) -> int:
    required = options.at_least if options.at_least is not None else float(former is None)
    compared = None if former is None else report.compare(former)
    if compared is not None:
        output.result(f"{compared}\n")
    is_worse = compared is not None and bool(compared.worse)
    return FAILED if is_worse or report.passed < required else DONE


def _write(report: EvaluationReport, options: argparse.Namespace, output: CommandOutput) -> None:
    if options.out is not None:
        try:
            report.save(options.out)
        except OSError as error:
            output.fail(notice("cli.eval_out", out=options.out, error=error.strerror or error))
    output.result(f"{report.table('markdown') if options.table == 'markdown' else report}".rstrip() + "\n")


def _loaded(path: Path) -> tuple[Dataset, Agent | None]:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation import Dataset

    if path.suffix.lower() != ".py":
        return Dataset.from_file(path), None
    sys.path.insert(0, str(path.resolve().parent))  # like `python FILE`
    try:
        names: dict[str, Any] = runpy.run_path(str(path), run_name="pal_eval")
    except (Exception, SystemExit) as error:
        raise ConfigError(
            notice("cli.eval_not_run", path=path, kind=type(error).__name__, error=safe_str(error))
        ) from error
    return _one_of(names, Dataset, "dataset", path, needed=True), _one_of(names, Agent, "agent", path)


def _one_of(names: dict[str, Any], kind: type, name: str, path: Path, *, needed: bool = False) -> Any:
    """Return the only object of a type in a file, or the object called `name`."""
    objects = {id(value): value for value in names.values() if isinstance(value, kind)}
    if isinstance(names.get(name), kind) or (not objects and not needed):
        return names.get(name)
    if len(objects) != 1:
        raise ConfigError(
            notice("cli.eval_several", path=path, count=len(objects), kind=kind.__name__, name=name)
        )
    return next(iter(objects.values()))


def _agent_for(name: str | None, agent: Agent | None, options: ModelOptions, output: CommandOutput) -> Agent:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cli.load import load_object

    if name is not None:
        agent = load_object("--agent", name)
        if not isinstance(agent, Agent):
            raise ConfigError(notice("cli.eval_agent", agent=name))
    chosen = {
        "model": options.model,
        "base-url": options.base_url,
        "fallback": options.fallback or None,
        "temperature": options.temperature,
        "thinking": None if options.thinking == "off" else options.thinking,
        "tool-mode": None if options.tool_mode == "auto" else options.tool_mode,
    }
    if agent is not None:
        conflict = next((name for name, value in chosen.items() if value is not None), None)
        if conflict is not None:
            raise ConfigError(notice("cli.eval_conflict", conflict=conflict))
        return agent
    choice = choose(options, options.thinking, output, questions=TerminalQuestions.at_terminal(output))
    return Agent(
        llm=choice.client,
        system_prompt="",
        tool_mode=options.tool_mode,
        temperature=options.temperature or 0.0,
    )
