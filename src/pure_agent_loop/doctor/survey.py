"""Recognise a server's protocols, examine each of them, and choose the one to use."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.doctor.examination import TIMEOUT, Watch, examine
from pure_agent_loop.doctor.session import FEW_TOKENS, ProbeSession, StoppedError, client_of, user
from pure_agent_loop.doctor.values import (
    MAKERS,
    PROTOCOL_NAMES,
    Finding,
    Found,
    ServerReport,
    Target,
    Verdict,
)
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.runs.choose import client_type
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import shorten

_WITHOUT_STATUS: dict[str, Verdict] = {"connection": "failed", "timeout": "unknown"}  # else "no"
_NO_ENDPOINT = (404, 405, 501)
_NO_ACCESS = (401, 402, 403, 429)


@dataclass(frozen=True, slots=True)
class Survey:
    """The protocols of a server.

    Args:
        reports: A report for each examined protocol; chat completions, if examined, first.
        protocols: For each protocol, whether the server supports it; empty if only one was examined.
    """

    reports: tuple[ServerReport, ...]
    protocols: tuple[Finding, ...] = ()

    @property
    def best(self) -> ServerReport:
        """The report of the protocol to use.

        That is a usable protocol with the most positive findings; if several are equal, the protocol of the
        server's own maker, else the first.
        """
        return max(self.reports, key=self._rank)

    @property
    def stopped(self) -> bool:
        """True if the check was cancelled."""
        return any(report.stopped for report in self.reports)

    def advice(self) -> str:
        """Return a sentence with the model name to use and the reason; empty if no protocol can be used."""
        best = self.best
        if not best.can_drive:
            return ""
        use = notice("doctor.use", model=repr(best.target.full_model), url=repr(best.target.address))
        others = [report for report in self.reports if report is not best and report.can_drive]
        if not others:
            return notice("doctor.no_other", use=use)
        rest = ", ".join(
            f"{PROTOCOL_NAMES[report.target.protocol]} {self._abilities(report)}" for report in others
        )
        return notice(
            "doctor.ranked",
            use=use,
            name=PROTOCOL_NAMES[best.target.protocol],
            abilities=self._abilities(best),
            all=len(self._shared()),
            rest=rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the key."""
        best = self.best
        return {
            "protocols": {finding.name: finding.verdict for finding in self.protocols},
            "reports": [report.to_dict() for report in self.reports],
            "recommended": {
                "model": best.target.full_model if best.can_drive else None,
                "base_url": best.target.address if best.can_drive else None,
                "reason": self.advice(),
            },
        }

    def _rank(self, report: ServerReport) -> tuple[bool, bool, int, bool]:
        protocol = report.target.protocol
        is_own = bool(protocol) and client_type(protocol).is_own(report.target.base_url)
        return report.can_drive, report.answered, self._abilities(report), is_own

    def _abilities(self, report: ServerReport) -> int:
        shared = self._shared()
        return sum(finding.verdict == "yes" for finding in report.findings if finding.name in shared)

    def _shared(self) -> set[str]:
        """Return the names of the findings that the reports of all usable protocols contain."""
        usable = [report for report in self.reports if report.can_drive] or list(self.reports)
        names = [{finding.name for finding in report.findings} for report in usable]
        return set.intersection(*names)


async def survey(
    target: Target,
    timeout: float = TIMEOUT,
    watch: Watch | None = None,
    token: CancelToken | None = None,
) -> Survey:
    """Examine a server in each protocol that it supports, or only in the protocol that the target sets.

    The arguments are those of `examine`. Chat completions are examined first. For each other protocol, one
    request of a few tokens shows whether the server supports it. The key goes to the target's server only.

    Raises:
        ConfigError: No model is set and the server does not list exactly one, or the URL is invalid.
    """
    watch = watch or Watch()
    first = await _first(target, timeout, watch, token)
    if target.protocol or target.is_embedded or first.stopped or first.unreachable or not first.target.model:
        return Survey((first,))
    reports, found = [first] if first.answered else [], [_as_finding(first)]
    for protocol in MAKERS:
        other = replace(first.target, base_url=_url_for(protocol, target.base_url), protocol=protocol)
        other = replace(other, shown=_url_for(protocol, target.address))
        watch.begin(PROTOCOL_NAMES[protocol])
        try:
            verdict, detail = await _recognise(other, timeout, token)
        except StoppedError:
            return Survey((*reports, replace(first, stopped=True)), tuple(found))
        finding = Finding(PROTOCOL_NAMES[protocol], verdict, detail)
        watch.end(finding)
        found.append(finding)
        if verdict == "yes":
            reports.append(await examine(other, timeout, watch, token))
    return Survey(tuple(reports) or (first,), tuple(found))


async def _first(target: Target, timeout: float, watch: Watch, token: CancelToken | None) -> ServerReport:
    """Examine chat completions, or the target's protocol; a URL without a path is tried with ``/v1`` too."""
    report = await examine(target, timeout, watch, token)
    parts = urllib.parse.urlsplit(target.base_url)
    is_settled = report.answered or report.stopped or report.unreachable
    if is_settled or target.protocol or parts.path.strip("/"):
        return report
    base, shown = f"{target.base_url.rstrip('/')}/v1", f"{target.address.rstrip('/')}/v1"
    other = await examine(replace(target, base_url=base, shown=shown), timeout, watch, token)
    return other if other.answered or other.stopped else report


def _as_finding(report: ServerReport) -> Finding:
    name = PROTOCOL_NAMES[""]
    if report.answered:
        return Finding(name, "yes", notice("doctor.protocol_answered"))
    failed = [finding for finding in report.findings if finding.verdict in ("no", "failed")]
    return Finding(name, failed[-1].verdict, failed[-1].detail) if failed else Finding(name, "no")


def _url_for(protocol: str, url: str) -> str:
    """Return the base URL for a protocol; Gemini's URL has no version, because Gemini's client adds one."""
    return re.sub(r"(/v1|/openai)?/*$", "", url) if protocol == "gemini" else url


async def _recognise(target: Target, timeout: float, token: CancelToken | None) -> Found:
    """Ask the protocol's endpoint for a few tokens, and read the shape of the response."""
    try:
        client = client_of(target)
    except ConfigError as error:
        return "unknown", notice("doctor.not_asked", error=error)
    session = ProbeSession(target, client, timeout, token)
    try:
        await session.ask(user("Hi"), max_tokens=FEW_TOKENS)
    except LLMError as error:
        return _judge(target, error)
    finally:
        await client.aclose()
    return "yes", notice("doctor.protocol_answered")


def _judge(target: Target, error: LLMError) -> Found:
    """Return the verdict on a protocol after an error, which may still show that the server supports it."""
    words = shorten(target.cleaned(error.said), 160)
    if error.status is None:
        return _WITHOUT_STATUS.get(error.kind, "no"), words
    words = notice("doctor.refused_status", status=error.status, words=words)
    names_model = re.search(rf"(?<![\w-]){re.escape(target.model)}(?![\w-])", error.said)
    has_endpoint = error.status not in _NO_ENDPOINT or names_model
    if not (has_endpoint and _has_shape(target.protocol, _document_of(error.original_error))):
        return "no", words
    if error.status in _NO_ACCESS and target.protocol == "responses":  # same errors in chat completions
        return "unknown", words
    return "yes", words


def _document_of(error: BaseException | None) -> Any:
    """Return the JSON of a response with an error status; None if there is none."""
    document = getattr(error, "document", None)
    if isinstance(document, list) and document:
        document = document[0]
    return document


def _has_shape(protocol: str, document: Any) -> bool:
    """Return True if a response is an error in a protocol's format.

    Sources: https://docs.anthropic.com/en/api/errors, https://google.aip.dev/193, and the ``Error`` types of
    the ``openai`` package.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("error"), Mapping):
        return False
    if protocol == "anthropic" or document.get("type") == "error":
        return protocol == "anthropic" and document.get("type") == "error"
    return (protocol == "gemini") == isinstance(document["error"].get("status"), str)
