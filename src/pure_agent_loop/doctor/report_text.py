"""Show findings as text, wrapped to the terminal's width: a conclusion, aligned columns and a profile."""

from __future__ import annotations

from collections.abc import Callable

from pure_agent_loop.doctor.survey import Survey
from pure_agent_loop.doctor.values import PROTOCOL_NAMES, Finding, ServerReport, Verdict, paste
from pure_agent_loop.support.language import in_user_language, message_in, user_language, user_text
from pure_agent_loop.support.language import table as english
from pure_agent_loop.support.terminal import aligned, one_line, safe_text, width_of, wrap_text

NARROWEST = 50
_GAP = "  "
_ORDER: tuple[Verdict, ...] = ("failed", "no", "partly", "unknown", "yes")
Paint = Callable[[Verdict, str], str]


def unpainted(verdict: Verdict, text: str) -> str:  # noqa: ARG001 - a `Paint`
    """Return the text unchanged."""
    return text


def as_text(report: ServerReport, width: int, *, head: str = "", paint: Paint = unpainted) -> str:
    """Return the full report in the user's language: conclusion, table, tool mode and profile.

    Args:
        report: The report that `examine` returned.
        width: Terminal width in columns.
        head: Lines that follow the conclusion.
        paint: Function that colours text according to a verdict.
    """
    parts = [conclusion(report, width, paint), *([head] if head else []), details(report, width, paint)]
    return "\n".join(parts)


def details(report: ServerReport, width: int, paint: Paint = unpainted) -> str:
    """Return a report without its conclusion."""
    parts = [table(report.findings, width, paint)]
    if report.answered:
        if report.target.is_embedded:
            parts.append(folded(user_text("doctor.embedded"), width))
        else:
            mode, reason = report.tool_mode or user_text("doctor.none"), in_user_language(report.reason)
            parts.append(folded(user_text("doctor.tool_mode", mode=mode, reason=reason), width))
    needs_no_profile = report.target.is_embedded or report.target.protocol
    if report.answered and not (needs_no_profile or report.stopped):
        parts.append(_profile(report, width))
    return "\n".join(parts)


def conclusion(report: ServerReport, width: int, paint: Paint = unpainted) -> str:
    """Return the conclusion of a report, wrapped and coloured."""
    verdict: Verdict = "unknown" if report.stopped else "yes" if report.can_drive else "failed"
    return paint(verdict, folded(in_user_language(report.conclusion), width).rstrip()) + "\n"


def table(findings: tuple[Finding, ...], width: int, paint: Paint = unpainted) -> str:
    """Return one finding per line, failures first, with its details wrapped in their column."""
    width = max(width, NARROWEST)
    rows = sorted(findings, key=lambda finding: _ORDER.index(finding.verdict))
    names = aligned(shown_name(finding.name) for finding in rows)
    verdicts = aligned(shown_name(finding.verdict) for finding in rows)
    return "".join(
        _row(name, paint(finding.verdict, verdict), width_of(verdict), finding.detail, width)
        for name, verdict, finding in zip(names, verdicts, rows, strict=True)
    )


def shown_name(name: str) -> str:
    """Return the name of a probe, a verdict or a fact in the user's language."""
    return message_in(user_language(), f"doctor.{name}") if name in english("doctor", "en") else name


def _row(name: str, verdict: str, verdict_width: int, detail: str, width: int) -> str:
    indent = " " * (width_of(name) + verdict_width + 2 * len(_GAP))
    first, *more = wrap_text(one_line(in_user_language(detail), 400), width - len(indent), fold=True).split(
        "\n"
    )
    lines = [f"{name}{_GAP}{verdict}{_GAP}{first}", *(indent + line for line in more)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def folded(text: str, width: int) -> str:
    """Return a paragraph, wrapped and safe for a terminal."""
    return wrap_text(safe_text(text), width, fold=True) + "\n"


def _profile(report: ServerReport, width: int) -> str:
    code = paste(report)
    if code:
        return folded(user_text("doctor.needs_profile"), width) + "\n" + safe_text(code)
    known = report.before
    if known.url or known.model:
        return folded(user_text("doctor.built_in_fits", name=known.name), width)
    return folded(user_text("doctor.plain_server"), width)


def survey_text(found: Survey, width: int, *, head: str = "", paint: Paint = unpainted) -> str:
    """Return the conclusion, all reports, the server's protocols and the advice; see `as_text`."""
    if not found.protocols:
        return as_text(found.reports[0], width, head=head, paint=paint)
    parts = [conclusion(found.best, width, paint), *([head] if head else [])]
    for report in found.reports:
        name = shown_name(PROTOCOL_NAMES[report.target.protocol])
        parts.append(safe_text(f"{name}, model={report.target.full_model!r}\n"))
        if len(found.reports) > 1:
            parts.append(conclusion(report, width, paint))
        parts.append(details(report, width, paint))
    parts.append(f"{user_text('doctor.protocols')}\n\n{table(found.protocols, width, paint)}")
    if advice := found.advice():
        parts.append(folded(in_user_language(advice), width))
    return "\n".join(parts)
