"""The command line: ``pal`` and ``pure-agent-loop``.

Nothing heavy is imported here: ``pal --help`` needs neither a model client nor a terminal library.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from pure_agent_loop.cli.exits import FAILED, INTERRUPTED, code_for_error
from pure_agent_loop.cli.output import Output, ResultLostError
from pure_agent_loop.cli.parser import parse, run_command
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.text import safe_str

DEBUG_VARIABLE = "PAL_DEBUG"
TRACING_VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")  # what OpenTelemetry's launcher sets
SECRET_VARIABLES = ("PAL_API_KEY", "OPENAI_API_KEY")
# Nearly all that is made while modules load stays: looking for garbage so often takes a tenth of the start.
NEW_OBJECTS = 20_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. No traceback reaches the user, unless ``PAL_DEBUG`` is set.

    Args:
        argv: The words after the program's name; ``sys.argv`` if None.
    """
    if argv is None:  # the process is ours
        gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    except KeyboardInterrupt:  # a command takes a moment to load
        Output().say("stopped")
        return INTERRUPTED
    output = Output(colour=getattr(options, "theme", "") != "plain")
    try:
        for name in SECRET_VARIABLES:
            output.hide(os.environ.get(name))
        if any(map(os.environ.get, TRACING_VARIABLES)):
            _trace()
        return run_command(options, output)
    except KeyboardInterrupt:
        output.say("stopped")
        return INTERRUPTED
    except ResultLostError as error:
        if str(error):
            output.fail(f"the result could not be written: {error}")
        return FAILED
    except Exception as error:  # noqa: BLE001 - the border to the user
        return _report(error, output)


def _trace() -> None:
    """Who asks for traces gets them, if the extra is there and a provider is configured."""
    from pure_agent_loop.errors import MissingExtraError
    from pure_agent_loop.otel import instrument

    with suppress(MissingExtraError):  # it is said to all programs, and not to us
        instrument()


def _report(error: Exception, output: Output) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        output.fail(traceback.format_exc())
    elif isinstance(error, PureAgentLoopError):
        output.fail(safe_str(error))
    else:
        output.fail(
            f"this should not have happened: {type(error).__name__}: {safe_str(error)}\n"
            f"(set {DEBUG_VARIABLE}=1 to see where)"
        )
    return code_for_error(error)
