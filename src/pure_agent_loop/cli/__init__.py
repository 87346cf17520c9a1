"""The command line: ``pal`` and ``pure-agent-loop``.

Nothing heavy is imported here: ``pal --help`` needs neither a model client nor a terminal library.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from pure_agent_loop.cli.arguments import parse
from pure_agent_loop.cli.durable_arguments import DURABLE_COMMANDS
from pure_agent_loop.cli.exits import FAILED, INTERRUPTED, code_for_error
from pure_agent_loop.cli.output import Output, ResultLostError
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.text import safe_str

DEBUG_VARIABLE = "PAL_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. No traceback reaches the user, unless ``PAL_DEBUG`` is set.

    Args:
        argv: The words after the program's name; ``sys.argv`` if None.
    """
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    output = Output(colour=not getattr(options, "no_color", False))
    try:
        return _dispatch(options, output)
    except KeyboardInterrupt:
        output.say("stopped")
        return INTERRUPTED
    except ResultLostError as error:
        if str(error):
            output.fail(f"the result could not be written: {error}")
        return FAILED
    except Exception as error:  # noqa: BLE001 - the border to the user
        return _report(error, output)


def _dispatch(options: argparse.Namespace, output: Output) -> int:
    if options.command == "model":
        from pure_agent_loop.cli.models import model

        return model(options, output)
    if options.command == "eval":
        from pure_agent_loop.cli.evaluate import evaluate

        return evaluate(options, output)
    if options.command == "doctor":
        from pure_agent_loop.cli.doctor import doctor

        return doctor(options, output)
    if options.command == "sessions":
        from pure_agent_loop.cli.sessions import sessions

        return sessions(options, output)
    if options.command == "replay":
        from pure_agent_loop.cli.replay import replay

        return replay(options, output)
    if options.command == "audit":
        from pure_agent_loop.cli.audit import audit

        return audit(options, output)
    if options.command == "undo":
        from pure_agent_loop.cli.undo import undo

        return undo(options, output)
    if options.command in DURABLE_COMMANDS:
        from pure_agent_loop.cli.durable import durable

        return durable(options, output)
    if options.command == "agents":
        from pure_agent_loop.cli.agents import agents

        return agents(options, output)
    from pure_agent_loop.cli.run import run

    return run(options, output)


def _report(error: Exception, output: Output) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        output.fail(traceback.format_exc())
    elif isinstance(error, PureAgentLoopError):
        output.fail(safe_str(error))
    else:
        output.fail(
            f"this should not have happened: {type(error).__name__}: {safe_str(error)}\n"
            f"(set {DEBUG_VARIABLE}=1 to see where)"
        )
    return code_for_error(error)
