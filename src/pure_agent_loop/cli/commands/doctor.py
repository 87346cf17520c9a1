"""The command ``doctor``: examine the server that ``run`` would use and show the findings."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pure_agent_loop._version import __version__
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.arguments import add_json, add_options, describe, read_options, seconds
from pure_agent_loop.cli.choose import allow_download, plan_of
from pure_agent_loop.cli.exits import DONE, FAILED, INTERRUPTED
from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.options import EndpointOptions, SessionOptions
from pure_agent_loop.cli.output import PREFIX, CommandOutput
from pure_agent_loop.cli.parser import namesakes_notice
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.slow import CLEAR_LINE, SlowSteps
from pure_agent_loop.doctor import (
    Finding,
    Survey,
    Target,
    Verdict,
    Watch,
    paste,
    shown_name,
    survey,
    survey_text,
)
from pure_agent_loop.llm.openai_client import DEFAULT_URL
from pure_agent_loop.llm.profiles import DEFAULT_MODEL
from pure_agent_loop.runs import (
    LOCAL_KEY,
    Embedded,
    Endpoint,
    protocol_at,
    protocol_of,
    show_url,
    without_protocol,
)
from pure_agent_loop.support.language import in_user_language, notice, user_language, user_text
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import aligned, one_line, safe_text

WIDTH = 100  # columns if there is no terminal
TIMEOUT, MAX_SECONDS = 60.0, 3600  # seconds per request
# Options for fallbacks are left out: to examine a fallback, name it with `--model`.
_ENDPOINT = ("model", "base_url", "profile", "download", "env_file")
_COUNTS = {  # placeholders of a message, and the fields of `TokenUsage` for them
    "prompt": "prompt_tokens",
    "read": "cached_tokens",
    "written": "cache_write_tokens",
    "missed": "cache_missed_tokens",
}
_COLOURS: dict[Verdict, str] = {"failed": "31", "no": "33", "partly": "33", "unknown": "2", "yes": "32"}
_EPILOG = """\
Exit codes: 0 usable by an agent, 1 unreachable, no answer, or no tool calls in any tool mode,
2 wrong usage, 130 stopped by Ctrl-C.

examples:
  pal doctor
  pal doctor --base-url http://127.0.0.1:8080/v1
  pal doctor --model gpt-4o-mini --json | jq .findings
  pal doctor --session trip
"""


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser,
        "Use small requests to check what a model server supports, in each protocol that it has: chat "
        "completions, Messages, Responses, Gemini. Print a table for each, the recommended model name and "
        "tool mode, and a profile to paste. Default: the model that 'pal run' would use.",
        _EPILOG,
    )
    add_options(parser.add_argument_group("model"), EndpointOptions, only=_ENDPOINT)
    parser.add_argument(
        "--timeout",
        type=seconds(MAX_SECONDS),
        default=TIMEOUT,
        metavar="S",
        help=f"seconds per request (default: {TIMEOUT:g})",
    )
    parser.add_argument(
        "--session", metavar="ID", help="show what the prompt cache read and missed in a session instead"
    )
    add_options(parser, SessionOptions, only=("database",))
    add_json(parser)


def doctor(options: argparse.Namespace, output: CommandOutput) -> int:
    """Examine a server and return the exit code."""
    if options.session is not None:
        return _show_cache(options, output)
    output.progress(namesakes_notice())
    endpoint = read_options(EndpointOptions, options)
    configure(endpoint, output, Path.cwd(), TerminalQuestions.at_terminal(output))
    with _target_for(_plan(endpoint), output, download=endpoint.download) as target:
        found = _examine(target, options.timeout, output)
    has_key = not target.is_embedded and target.api_key != LOCAL_KEY
    if options.json:
        output.json(_as_json(found, has_key))
    else:
        output.result(_as_text(found, has_key, output))
    return _end(found, output)


def _plan(endpoint: EndpointOptions) -> Endpoint | Embedded:
    """Choose the server. For a URL of Anthropic or Google, use that provider's key."""
    maker = protocol_at(endpoint.base_url or os.environ.get("PAL_BASE_URL") or "")
    named = endpoint.model or os.environ.get("PAL_MODEL") or ""
    if not maker or protocol_of(named):
        return plan_of(endpoint)
    name = without_protocol(named)
    any_name = f"{maker}:{name or 'any'}"
    plan = plan_of(replace(endpoint, model=any_name))
    return plan._replace(model=name) if isinstance(plan, Endpoint) else plan


def _show_cache(options: argparse.Namespace, output: CommandOutput) -> int:
    """Show the requests of a session: tokens read from the cache, and what changed the prefix."""
    from pure_agent_loop.cli.database import store_for
    from pure_agent_loop.cli.which_session import existing
    from pure_agent_loop.sessions import requests_in

    with store_for(options.database) as store:
        sent = [*requests_in(store.read(existing(options.session, store)).records)]
    if options.json:
        output.json({"requests": [request.to_dict() for request in sent]})
        return DONE
    for request in sent:
        counts = {
            name: "-" if (count := getattr(request.usage, field, None)) is None else count
            for name, field in _COUNTS.items()
        }
        line = user_text("cli.doctor_request", number=request.number, **counts)
        change = request.change
        words = "" if change is None else f"  {one_line(change.words().translated(user_language()), 400)}\n"
        output.result(f"{line}\n{safe_text(words)}")
    return DONE


@contextmanager
def _target_for(
    plan: Endpoint | Embedded, output: CommandOutput, *, download: bool
) -> Generator[Target, None, None]:
    """Yield the server of a plan; an embedded server stops at the end of the block."""
    if isinstance(plan, Embedded):
        yield from _embedded(plan, output, download)
        return
    name = plan.model or (str(DEFAULT_MODEL) if plan.base_url == DEFAULT_URL else "")
    output.info(
        notice(
            "cli.doctor_examining",
            name=name or notice("cli.the_model"),
            base_url=show_url(plan.base_url),
            why=plan.why,
        )
    )
    yield Target(plan.base_url, name, plan.api_key, show_url(plan.base_url))


def _embedded(plan: Embedded, output: CommandOutput, download: bool) -> Generator[Target, None, None]:
    from pure_agent_loop.local import ONE_REQUEST_A_CONNECTION, join_model

    name = plan.name.removeprefix("local:")
    allow_download(plan, TerminalQuestions.at_terminal(output), download=download)
    with SlowSteps(output) as steps:
        lease, path = join_model(None if name == "local" else name, steps)
    try:
        output.info(notice("cli.doctor_embedded", name=path.stem, why=plan.why))
        state = lease.state
        url, headers = f"{state.url}/v1", ONE_REQUEST_A_CONNECTION
        yield Target(url, path.stem, state.key, headers=headers, is_embedded=True)
    finally:
        lease.release()


def _examine(target: Target, timeout: float, output: CommandOutput) -> Survey:
    token = CancelToken()
    progress = _Progress(output)
    with Interrupts(token, output):
        try:
            return run_sync(survey(target, timeout, progress, token))
        finally:
            progress.clear()


class _Progress(Watch):
    """Shows progress: one changing line on a terminal, else one line per probe."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._changing = output.can_clear and output.out_is_terminal

    def begin(self, name: str) -> None:
        start = f"{CLEAR_LINE}{PREFIX}" if self._changing else ""
        self._output.progress(f"{start}{shown_name(name)} ... ")

    def end(self, finding: Finding) -> None:
        verdict = shown_name(finding.verdict)
        self._output.progress(verdict if self._changing else f"{verdict}\n")

    def clear(self) -> None:
        """Clear the changing line, because the table repeats its content."""
        if self._changing:
            self._output.progress(f"{CLEAR_LINE}")


def _as_json(found: Survey, has_key: bool) -> dict[str, Any]:
    report = found.best
    head = {"package": __version__, "python": platform.python_version(), "key": has_key}
    return {**head, **report.to_dict(), "code": paste(report), **found.to_dict()}


def _as_text(found: Survey, has_key: bool, output: CommandOutput) -> str:
    target = found.best.target
    head = {
        "package": f"pure-agent-loop {__version__}, Python {platform.python_version()}",
        "server": target.address,
        "model": target.model or user_text("cli.unknown"),
        "key": user_text(
            "cli.present" if has_key else "cli.not_needed" if target.is_embedded else "cli.none"
        ),
    }
    labels = aligned(map(shown_name, head))
    lines = "".join(f"{label}  {one_line(text)}\n" for label, text in zip(labels, head.values(), strict=True))
    # Two columns fewer, because a notice in a conversation begins with a mark.
    width = shutil.get_terminal_size((WIDTH, 24)).columns - 2
    return survey_text(
        found, width, head=lines, paint=lambda verdict, text: output.paint(_COLOURS[verdict], text)
    )


def _end(found: Survey, output: CommandOutput) -> int:
    report = found.best
    if found.stopped:
        return INTERRUPTED
    if report.can_drive:
        return DONE
    if report.answered:
        output.fail(report.conclusion)
    else:
        failed = next(
            (finding for finding in reversed(report.findings) if finding.verdict in ("failed", "no")), None
        )
        output.fail(one_line(in_user_language(failed.detail if failed else report.reason), 400))
    return FAILED
