"""The command ``worker``: work on durable runs until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import add_any_folder
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.durable import describe_durable
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.exits import DONE, INTERRUPTED
from pure_agent_loop.cli.load import load_object
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.parser import parser_of
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.toolset import Toolset
from pure_agent_loop.durable import Engine, Rate
from pure_agent_loop.durable.worker import Worker
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.numbers import positive, seconds
from pure_agent_loop.toolbox import starter_tools
from pure_agent_loop.toolbox.sandbox.bubblewrap import check_workspace

MOST_SECONDS = 86_400
_DEFAULT_AGENT = "default"


def add_worker(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe_durable(parser)
    parser.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="an agent, a dict of agents by name, or a function that makes one of them; "
        "without it there is the agent 'default', with the model of 'pal run' and tools that only read",
    )
    add_any_folder(parser)
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=4,
        metavar="N",
        help="runs of each model at once (default: 4)",
    )
    parser.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="MODEL=N/S",
        help="at most N runs of a model begin in S seconds, all workers together; may be repeated",
    )
    parser.add_argument(
        "--lease",
        type=seconds(MOST_SECONDS),
        default=10.0,
        metavar="S",
        help="seconds of silence after which a worker is taken for dead (PostgreSQL; default: 10)",
    )
    parser.add_argument(
        "--grace",
        type=seconds(MOST_SECONDS),
        default=20.0,
        metavar="S",
        help="seconds that tools at work get to end at SIGTERM (default: 20)",
    )


def worker(options: argparse.Namespace, output: Output) -> int:
    """Work until a signal ends it; return the exit code."""
    agents = load_agents(options.agents, output, any_folder=options.any_folder)
    engine = Engine(
        options.database,
        agents=agents,
        concurrency=options.concurrency,
        rates=dict(map(_rate, options.rate)),
        lease=options.lease,
        grace=options.grace,
    )

    def ready(begun: Worker) -> None:
        output.say(f"worker {begun.executor}")
        output.say(f"database {engine.database.shown}")
        output.say(f"agents {', '.join(_described(agents))}")
        output.say(f"queues {', '.join(sorted(set(begun.queues.values())))}; SIGTERM or Ctrl-C ends it")

    with closing(engine), _log_shown(output):
        engine.run_worker(ready, _Stopping(options.grace, output).on_signal)
    output.say("stopped; what had not ended was handed back")
    return DONE


def _described(agents: Mapping[str, Agent]) -> list[str]:
    return [f"{name} ({getattr(agent.llm, 'model', '') or 'own client'})" for name, agent in agents.items()]


def _rate(text: str) -> tuple[str, Rate]:
    model, _, value = text.rpartition("=")
    limit, _, period = value.partition("/")
    try:
        return model, Rate(int(limit), float(period))
    except ValueError as error:
        raise ConfigError(
            f"--rate={text} is none. Write the model, how many, and in how many seconds: "
            "--rate gpt-4o-mini=60/60"
        ) from error


def load_agents(where: str | None, output: Output, *, any_folder: bool = False) -> dict[str, Agent]:
    """The agents by name; if none are named, one with the model of ``pal run`` that reads this folder.

    Args:
        where: MODULE:NAME; None for none.
        output: Told which model is used.
        any_folder: Read also a home, or another folder that is no project's.

    Raises:
        PureAgentLoopError: They cannot be loaded, or there is no model.
    """
    if where is None:
        return {_DEFAULT_AGENT: _default_agent(output, any_folder)}
    found = load_object("--agents", where)
    if isinstance(found, Agent):
        return {_DEFAULT_AGENT: found}
    if isinstance(found, Mapping) and found and all(isinstance(each, Agent) for each in found.values()):
        return dict(found)
    raise ConfigError(
        f"--agents={where} is {type(found).__name__}. It must be an Agent, a dict of agents by name, or a "
        "function that makes one of them."
    )


def _default_agent(output: Output, any_folder: bool) -> Agent:
    """With what ``pal.toml`` says of the model, the limits and the rules; the tools only read."""
    options = parser_of("run").parse_args([])
    options.given = frozenset()
    if not any_folder:
        check_workspace(Path.cwd())
    configure(options, output, Path.cwd(), None)
    choice = choose(options.model, options.base_url, options.thinking, os.environ, output, options.configured)
    toolset = Toolset(starter_tools(Path.cwd()), audit=AuditLog())
    return make_agent(options, choice, None, toolset, Path.cwd(), trusted=None)


class _Stopping:
    """What signals do to a worker: the first one is said, and Ctrl-C after it leaves at once."""

    def __init__(self, grace: float, output: Output) -> None:
        self._grace, self._output = grace, output
        self._was_asked = False

    def on_signal(self, number: int) -> None:
        if self._was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # as a kill, after which another worker goes on
        if not self._was_asked:
            self._output.say(
                f"stopping; tools at work get {self._grace:g} s to end (Ctrl-C again leaves at once)"
            )
        self._was_asked = True


@contextmanager
def _log_shown(output: Output) -> Iterator[None]:
    """While this lasts, what the worker logs is said."""
    log, handler = logging.getLogger("pure_agent_loop"), _LogOutput(output)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


class _LogOutput(logging.Handler):
    """Says what is logged. What is the same as before, as while a run waits, is not said again."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output, self._last = output, ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last:
            self._last = text
            self._output.say(text)
