"""The command line, as far as it is about durable runs. Imports nothing heavy."""

from __future__ import annotations

import argparse
from typing import Any

from pure_agent_loop.support.numbers import positive, seconds
from pure_agent_loop.task_states import TASK_STATES

DEFAULT_LISTED = 20
MOST_SECONDS = 86_400

_EPILOG = """\
Durable runs go on after the death of a process. They need the extra [durable].
Exit codes: 0 done, 1 failed or no such run, 2 wrong usage; of 'submit --wait' those of 'pal run'.

examples:
  pal worker --agents my_agents:agents    # 'agents' in ./my_agents.py; in a terminal of its own
  pal submit --agent helper --wait "Which files are in the docs folder?"
  pal tasks --status waiting_permission
  pal answer RUN_ID CALL_ID allow
  pal logs -f RUN_ID
"""


def add_durable(commands: Any) -> None:
    """Add the commands about durable runs.

    Args:
        commands: The sub-parsers of the whole command line.
    """
    worker = _command(commands, "worker", "work on durable runs until SIGTERM or Ctrl-C")
    worker.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="an agent, a dict of agents by name, or a function that makes one of them; "
        "without it there is the agent 'default', with the model of 'pal run' and tools that only read",
    )
    worker.add_argument(
        "--concurrency",
        type=positive,
        default=4,
        metavar="N",
        help="runs of each model at once (default: 4)",
    )
    worker.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="MODEL=N/S",
        help="at most N runs of a model begin in S seconds, all workers together; may be repeated",
    )
    worker.add_argument(
        "--lease",
        type=seconds(MOST_SECONDS),
        default=10.0,
        metavar="S",
        help="seconds of silence after which a worker is taken for dead (PostgreSQL; default: 10)",
    )
    worker.add_argument(
        "--grace",
        type=seconds(MOST_SECONDS),
        default=20.0,
        metavar="S",
        help="seconds that tools at work get to end at SIGTERM (default: 20)",
    )
    submit = _command(commands, "submit", "submit a durable run")
    submit.add_argument("task", nargs="*", help="what to do; text piped in is its context")
    submit.add_argument("--agent", default="default", metavar="NAME", help="who does it (default: default)")
    submit.add_argument(
        "--id", dest="run_id", metavar="ID", help="of the run; submitting the same id again does nothing"
    )
    submit.add_argument(
        "--session", metavar="ID", help="go on in this session; without it the run has one of its own"
    )
    submit.add_argument("--priority", type=positive, metavar="N", help="from 1 on; lower goes first")
    submit.add_argument("--wait", action="store_true", help="wait for the answer and print it")
    tasks = _command(commands, "tasks", "the durable runs, the newest first")
    tasks.add_argument("--status", choices=TASK_STATES, metavar="STATUS", help=", ".join(TASK_STATES))
    tasks.add_argument("--agent", metavar="NAME", help="only those of this agent")
    tasks.add_argument(
        "-n", "--limit", type=positive, default=DEFAULT_LISTED, metavar="N", help="how many (default: 20)"
    )
    tasks.add_argument("--json", action="store_true", help="print one JSON object")
    _run(_command(commands, "cancel", "cancel a durable run"))
    answer = _run(_command(commands, "answer", "answer a question of a durable run"))
    answer.add_argument("call_id", metavar="CALL_ID", help="the call it is about; 'pal tasks' shows it")
    answer.add_argument("verdict", choices=("allow", "deny"), help="may the call be made?")
    answer.add_argument("--message", default="", metavar="TEXT", help="why; told to the model when denied")
    logs = _run(_command(commands, "logs", "what happened in a durable run"))
    logs.add_argument("-f", "--follow", action="store_true", help="go on until it has ended")
    logs.add_argument("--json", action="store_true", help="one JSON object a line for each event")


def _command(commands: Any, name: str, meaning: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=meaning,
        description=meaning[0].upper() + meaning[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///PATH or postgresql://...; else PAL_DATABASE, else a file in the data folder",
    )
    return parser


def _run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("run_id", metavar="RUN_ID", help="the run")
    return parser
