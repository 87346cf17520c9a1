"""The command line: ``pal`` and ``pure-agent-loop``.

Heavy modules are not imported here: ``pal --help`` needs no model client, terminal library or message table.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pure_agent_loop.cli.exits import FAILED, INTERRUPTED, USAGE, code_for_error, folder_trouble
from pure_agent_loop.cli.output import CommandOutput, ResultLostError, former_names_notice
from pure_agent_loop.cli.parser import misspelt_variables, parse, run_command
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.text import safe_str

DEBUG_VARIABLE = "PAL_DEBUG"
TRACING_VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")  # set by OpenTelemetry's launcher
SECRET_VARIABLES = ("PAL_API_KEY", "OPENAI_API_KEY")
# Objects created by imports are never garbage; looking for garbage at the default rate would take a tenth of
# the startup time.
NEW_OBJECTS = 20_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Tracebacks are shown only with ``PAL_DEBUG``.

    Args:
        argv: The arguments after the program name; those of ``sys.argv`` if None.
    """
    if argv is None:  # called as a program, not from other code
        gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    options = _parsed(sys.argv[1:] if argv is None else argv)
    if isinstance(options, int):
        return options
    output = CommandOutput(colour=getattr(options, "theme", "") != "plain")
    output.as_log(options)
    try:
        for name in SECRET_VARIABLES:
            output.hide(os.environ.get(name))
        for text in filter(None, (former_names_notice(), *misspelt_variables())):
            output.info(text)
        if any(map(os.environ.get, TRACING_VARIABLES)):
            _trace()
        with _log_shown(output):
            return run_command(options, output)
    except KeyboardInterrupt:
        return _stopped(output)
    except ResultLostError as error:
        if str(error):
            from pure_agent_loop.support.language import user_text

            output.fail(user_text("cli.result_lost", error=error))
        return FAILED
    except Exception as error:  # noqa: BLE001 - the outermost handler
        return _report(error, output)


def _parsed(words: Sequence[str]) -> argparse.Namespace | int:
    """Return the options, or an exit code."""
    try:
        return parse(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    except KeyboardInterrupt:  # loading a command takes some time
        return _stopped(CommandOutput())
    except OSError as error:  # loading a command may read the current folder, which may be missing
        return _report(error, CommandOutput())


@contextmanager
def _log_shown(output: CommandOutput) -> Iterator[None]:
    """Show log records that nothing else handles, cleaned because they may contain untrusted text."""
    before, logging.lastResort = logging.lastResort, _LastResort(output)
    try:
        yield
    finally:
        logging.lastResort = before


class _LastResort(logging.Handler):
    """Handler that writes to the output, with tracebacks only with ``PAL_DEBUG``."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_event", False):  # already shown as an event of the run
            return
        has_traceback = record.exc_info and os.environ.get(DEBUG_VARIABLE)
        self._output.info(self.format(record) if has_traceback else record.getMessage())


def _trace() -> None:
    """Turn on OpenTelemetry if its launcher requests that and the extra is installed."""
    from pure_agent_loop.errors import MissingExtraError
    from pure_agent_loop.otel import instrument

    # The variables are set for all programs, so a missing extra is not an error.
    with suppress(MissingExtraError):
        instrument()


def _stopped(output: CommandOutput) -> int:
    from pure_agent_loop.support.language import notice

    output.info(notice("cli.command_stopped"))
    return INTERRUPTED


def _report(error: Exception, output: CommandOutput) -> int:
    from pure_agent_loop.support.language import notice

    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        output.fail(traceback.format_exc())
    elif trouble := folder_trouble(error):
        output.fail(trouble)
        return USAGE
    elif isinstance(error, PureAgentLoopError):
        output.fail(error)
    else:
        kind, text = type(error).__name__, safe_str(error)
        output.fail(notice("cli.internal_error", kind=kind, error=text, variable=DEBUG_VARIABLE))
    return code_for_error(error)
