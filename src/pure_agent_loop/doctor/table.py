"""A report as text: aligned columns, folded to the width of the terminal."""

from __future__ import annotations

import textwrap

from pure_agent_loop.doctor.advice import paste
from pure_agent_loop.doctor.values import Finding, Report
from pure_agent_loop.support.terminal import one_line

NARROWEST = 50
_GAP = "  "
EMBEDDED = (
    "This is the server under the embedded model. Agents use it through a client of its own, which chooses "
    "tools and checks answers by other means; the table does not say what that client can do."
)


def as_text(report: Report, width: int) -> str:
    """The whole report: the table, the tool mode, the profile.

    Args:
        report: What was found out.
        width: Columns of the terminal.
    """
    width = max(width, NARROWEST)
    parts = [table(report.findings, width)]
    if report.stopped:
        parts.append("Stopped before the end; questions that are missing were not asked.\n")
    if report.answered:
        if report.target.is_embedded:
            parts.append(_folded(EMBEDDED, width))
        else:
            parts.append(_folded(f"tool_mode: {report.tool_mode or 'none'}. {report.reason}", width))
    if report.answered and not (report.target.is_embedded or report.stopped):
        parts.append(_profile(report, width))
    return "\n".join(parts)


def table(findings: tuple[Finding, ...], width: int) -> str:
    """One finding a line, its detail folded under itself.

    Args:
        width: Columns of the terminal.
    """
    names = max((len(each.name) for each in findings), default=0)
    verdicts = max((len(each.verdict) for each in findings), default=0)
    return "".join(
        _row(f"{each.name:<{names}}{_GAP}{each.verdict:<{verdicts}}{_GAP}", one_line(each.detail, 400), width)
        for each in findings
    )


def _row(head: str, detail: str, width: int) -> str:
    indent = " " * len(head)
    lines = textwrap.wrap(
        detail, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    return "\n".join(line.rstrip() for line in lines or [head]) + "\n"


def _folded(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False) + "\n"


def _profile(report: Report, width: int) -> str:
    code = paste(report)
    if code:
        return _folded("This server needs a profile. Paste one of these:", width) + "\n" + code
    known = report.before
    if known.url or known.model:
        return _folded(f"No profile is needed: the built-in one ({known.name}) fits.", width)
    return "No profile is needed: it is a plain server.\n"
