"""The command ``eval``: evaluate an agent or a model with cases from a file."""

from __future__ import annotations

import argparse
import errno
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import add_options, describe, options_of, read_options
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import ModelOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import number, positive
from pure_agent_loop.support.text import safe_str

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation import CaseOutcome, Dataset, EvaluationReport, Reports
    from pure_agent_loop.sessions import SqliteStore

DESCRIPTION = "Evaluate an agent or a model with your own cases."
EPILOG = """\
FILE is a Python file with a Dataset and optionally an Agent, or YAML, JSON or JSON lines. The agent comes
from the file or from --agent, and --model replaces its model; the default is the chosen model without tools.
With --out, the same command resumes an interrupted evaluation. Exit codes: 0 if enough cases passed and
no score is worse beyond chance than in --compare, or than with the first of several models; else 1.
"""


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, DESCRIPTION, EPILOG)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="file with your own cases")
    model = parser.add_argument_group("model")
    model.add_argument(
        "-m",
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="NAME",
        help="model name, or path of a .gguf file; repeatable to compare models",
    )
    add_options(model, ModelOptions, only={row.name for row in options_of(ModelOptions)} - {"model"})
    own = parser.add_argument_group("cases")
    own.add_argument("--limit", type=positive, metavar="N", help="take the first N cases (default: all)")
    own.add_argument("--seed", type=int, metavar="S", help="seed sent with the requests")
    own.add_argument(
        "--out", type=Path, metavar="REPORT", help="write the report to this file, .json or .jsonl"
    )
    own.add_argument(
        "--concurrency", type=positive, default=1, metavar="N", help="concurrent runs (default: 1)"
    )
    own.add_argument(
        "--table", choices=("text", "markdown"), default="text", help="table format (default: text)"
    )
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
        help="share that must pass, 0 to 1 (default: 1; 0 with --compare or several models)",
    )


def evaluate(options: argparse.Namespace, output: CommandOutput) -> int:
    """Evaluate a model or an agent and return the exit code."""
    from pure_agent_loop.evaluation import EvaluationReport, Reports
    from pure_agent_loop.support.portal import run_sync

    if options.file is None:
        raise ConfigError(notice("cli.eval_no_file"))
    former = None if options.compare is None else Reports.load(options.compare)
    lines, store = _places(options.out)
    dataset, own = _loaded(options.file)
    dataset.cases = dataset.cases[: options.limit]
    reports: dict[str, EvaluationReport] = {}
    for name in dict.fromkeys(options.models) or (None,):
        agent, key = _agent_for(name, own, options, output), name or dataset.name

        def keep(outcomes: Sequence[CaseOutcome], key: str = key) -> None:
            unfinished = EvaluationReport(dataset.name, outcomes, {"unfinished": True})
            _write({**reports, key: unfinished}, options, output)

        try:
            reports[key] = _run(dataset, agent, lines, store, keep, options, output)
        finally:
            run_sync(agent.aclose())
    if _write(reports, options, output) and lines not in (None, options.out):
        lines.unlink(missing_ok=True)
    return _exit_code(reports, former, options, output)


def _run(
    dataset: Dataset,
    agent: Agent,
    lines: Path | None,
    store: SqliteStore | None,
    keep: Callable[[Sequence[CaseOutcome]], None],
    options: argparse.Namespace,
    output: CommandOutput,
) -> EvaluationReport:
    """Evaluate an agent; if the evaluation ends early, call `keep` with the outcomes so far."""
    from pure_agent_loop.evaluation import EvaluationReport, Progress

    repeats = options.repeats or 1
    progress = Progress(output.progress, len(dataset.cases) * repeats, [], live=output.can_clear)
    noted: list[CaseOutcome] = []

    def note(outcome: CaseOutcome) -> None:
        if lines is not None:  # earlier outcomes are already in the file
            noted.clear()
        noted.append(replace(outcome, messages=[], offered=[], token_details=[]))
        progress.add(outcome)

    try:
        report = dataset.run(
            agent,
            repeats=repeats,
            concurrency=options.concurrency,
            seed=options.seed,
            on_outcome=note,
            out=lines,
            sessions=store,
        )
    except BaseException:
        progress.end()
        if noted:
            keep(noted if lines is None else EvaluationReport.load(lines).outcomes)
        raise
    progress.end()
    return report


def _exit_code(
    reports: Mapping[str, EvaluationReport],
    former: Reports | None,
    options: argparse.Namespace,
    output: CommandOutput,
) -> int:
    from pure_agent_loop.evaluation import Reports

    is_single = former is None and len(reports) == 1
    required = options.at_least if options.at_least is not None else float(is_single)
    first, worse = next(iter(reports)), list[str]()
    for (name, other), compared in Reports(reports).compare().items():
        output.result(f"{user_text('cli.eval_pair', now=name, before=other)}\n{compared}\n")
        worse += compared.worse if other == first else []
    earlier = [] if former is None else [*former.reports.values()]
    for name, report in reports.items() if earlier else ():
        compared = report.compare(_former_of(report, earlier, options.compare))
        heading = f"{user_text('cli.eval_pair', now=name, before=options.compare)}\n"
        output.result(f"{heading if len(reports) > 1 else ''}{compared}\n")
        worse += compared.worse
    return FAILED if worse or any(report.passed < required for report in reports.values()) else DONE


def _former_of(report: EvaluationReport, former: Sequence[EvaluationReport], path: Path) -> EvaluationReport:
    """Return the earlier report of the same model, or the only one.

    Raises:
        ConfigError: There are several reports, and not exactly one is of this model.
    """
    model = report.about.get("model")
    same = [each for each in former if each.about.get("model") == model] or former
    if len(same) != 1:
        raise ConfigError(notice("cli.eval_no_former", path=path, model=model))
    return same[0]


def _places(out: Path | None) -> tuple[Path | None, SqliteStore | None]:
    """Return the file for outcomes and the session store, both next to the report.

    Raises:
        ConfigError: The report cannot be written.
    """
    from pure_agent_loop.sessions import SqliteStore

    if out is None or (out.exists() and not out.is_file() and not out.is_dir()):
        return None, None  # no progress files next to a device or a pipe
    if out.is_dir():
        raise ConfigError(notice("cli.eval_out", out=out, error=os.strerror(errno.EISDIR)))
    lines = out if out.suffix == ".jsonl" else out.with_name(f"{out.name}.outcomes.jsonl")
    return lines, SqliteStore(out.with_name(f"{out.name}.sessions.db"))


def _write(
    reports: Mapping[str, EvaluationReport], options: argparse.Namespace, output: CommandOutput
) -> bool:
    """Print the report or the reports, and write them to the file; return False if that failed."""
    from pure_agent_loop.evaluation import Reports

    is_written = True
    report = Reports(reports) if len(reports) > 1 else next(iter(reports.values()))
    if options.out is not None and options.out.suffix != ".jsonl":
        try:
            report.save(options.out)
        except OSError as error:
            output.fail(notice("cli.eval_out", out=options.out, error=error.strerror or error))
            is_written = False
    output.result(f"{report.table('markdown') if options.table == 'markdown' else report}".rstrip() + "\n")
    return is_written


def _loaded(path: Path) -> tuple[Dataset, Agent | None]:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.evaluation import Dataset

    if path.suffix.lower() != ".py":
        return Dataset.from_file(path), None
    # So that the file can import its neighbors, as with `python FILE`.
    sys.path.insert(0, str(path.resolve().parent))
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


def _agent_for(
    name: str | None, agent: Agent | None, arguments: argparse.Namespace, output: CommandOutput
) -> Agent:
    """Return the agent to evaluate, with the model `name` unless it is None."""
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cli.load import load_object

    options = read_options(ModelOptions, arguments)
    if name is not None:
        options = replace(options, model=name, typed_options=options.typed_options | {"model"})
    questions = TerminalQuestions.at_terminal(output)
    configure(options, output, Path.cwd(), questions)
    if arguments.agent is not None:
        agent = load_object("--agent", arguments.agent)
        if not isinstance(agent, Agent):
            raise ConfigError(notice("cli.eval_agent", agent=arguments.agent))
    chosen = {
        "model": options.model if name is None else None,
        "base-url": options.base_url,
        "fallback": options.fallback or None,
        "temperature": options.temperature,
        "thinking": None if options.thinking == "off" else options.thinking,
        "tool-mode": None if options.tool_mode == "auto" else options.tool_mode,
    }
    if agent is not None:
        conflict = next((option for option, value in chosen.items() if value is not None), None)
        if conflict is not None:
            raise ConfigError(notice("cli.eval_conflict", conflict=conflict))
        return agent if name is None else agent.clone(model=name)
    choice = choose(options, options.thinking, output, questions=questions)
    return Agent(
        llm=choice.client,
        system_prompt="",
        tool_mode=options.tool_mode,
        temperature=options.temperature or 0.0,
    )
