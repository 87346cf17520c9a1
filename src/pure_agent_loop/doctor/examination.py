"""The order of the probes, and the handling of failed ones."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.doctor import answers, calls, formats
from pure_agent_loop.doctor.listing import NotJSONError, get_props, models_in
from pure_agent_loop.doctor.session import ProbeSession, StoppedError, client_of, get_listing
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict, choose_mode, paste
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.support.language import in_user_language, message_in, notice, user_language, user_text
from pure_agent_loop.support.language import table as english
from pure_agent_loop.support.terminal import aligned, one_line, safe_text, width_of, wrap_text
from pure_agent_loop.support.text import safe_str, shorten

TIMEOUT = 60.0
REACHABLE = "reachable"
LISTED = 10
Probe = Callable[[ProbeSession], Awaitable[answers.Found]]
# After these errors all other probes would fail too.
_HOPELESS = ("connection", "timeout", "auth", "quota", "not_found", "rate_limit")
_FIRST: tuple[tuple[str, Probe], ...] = (
    ("model listed", answers.models),
    ("context size", answers.context),
    ("chat template", answers.template),
    ("plain answer", answers.plain_answer),
    ("streaming", answers.streaming),
)
_REST: tuple[tuple[str, Probe], ...] = (
    ("temperature", answers.temperature),
    ("usage", answers.usage),
    ("usage in streams", answers.stream_usage),
    ("system message", answers.system_message),
    ("developer role", answers.developer_role),
    ("max_tokens", answers.max_tokens),
    ("max_completion_tokens", answers.max_completion_tokens),
    (calls.NATIVE, calls.tool_call),
    ("tools reach the model", calls.tools_reach),
    ("forced call", calls.forced_call),
    ("parallel calls", calls.parallel_calls),
    ("history of two calls", calls.two_results),
    ("user after a result", calls.user_after_tool),
    ("image", formats.image),
    ("JSON schema", formats.json_schema),
    ("JSON object", formats.json_object),
    ("thinking shown", formats.thinking_shown),
    ("thinking switch", formats.thinking_switch),
    ("thinking returned", calls.thinking_returned),
    ("thinking sent back", calls.thinking_back),
    ("prompt cache", answers.prompt_cache),
    ("token count", answers.token_count),
)
# Probes of one kind of client; the others suit every protocol.
_CHAT_ONLY = frozenset({
    "chat template", "developer role", "max_completion_tokens", "JSON object", "thinking shown",
    "thinking switch",
})  # fmt: skip
_OTHERS_ONLY = frozenset({"token count"})
# Tried only if the previous mode does not work.
_MODES: tuple[tuple[str, Probe], ...] = (
    ("tool_mode json", calls.json_actions),
    ("tool_mode text", calls.text_actions),
)
NARROWEST = 50
_GAP = "  "
_ORDER: tuple[Verdict, ...] = ("failed", "no", "partly", "unknown", "yes")


class Watch:
    """Receive progress; this base class ignores it."""

    def begin(self, name: str) -> None:
        """Called before a probe.

        Args:
            name: The name of its finding.
        """

    def end(self, finding: Finding) -> None:
        """Called after a probe.

        Args:
            finding: The answer.
        """


async def examine(
    target: Target,
    timeout: float = TIMEOUT,
    watch: Watch | None = None,
    token: CancelToken | None = None,
) -> Report:
    """Examine a server. Its errors become findings, never exceptions.

    Args:
        target: The server; without a model, the only one it lists.
        timeout: Seconds for each request.
        watch: Receives the progress.
        token: Cancels the examination; the report has the findings so far.

    Raises:
        ConfigError: No model is set and the server does not list exactly one, or the URL is invalid.
    """
    return await _Examination(target, timeout, watch or Watch(), token).run()


class _Examination:
    def __init__(self, target: Target, timeout: float, watch: Watch, token: CancelToken | None) -> None:
        self._target, self._timeout, self._watch, self._token = target, timeout, watch, token
        self._findings: list[Finding] = []
        self._errors: list[LLMError] = []
        self._statuses: dict[str, int | None] = {}  # HTTP error status per failed probe
        self._listing: Any = None
        self._props: Any = None

    async def run(self) -> Report:
        try:
            await self._ask(REACHABLE, self._reach)
        except StoppedError:
            return Report(self._target, tuple(self._findings), stopped=True)
        if not self._target.model:
            if self._errors and self._errors[-1].kind in _HOPELESS[:4]:
                reason = notice("doctor.unreachable")
                lost = self._is_lost()
                return Report(self._target, tuple(self._findings), reason=reason, unreachable=lost)
            self._target = replace(self._target, model=_only_model(self._target, self._listing))
        return await self._with_model(self._session())

    def _session(self) -> ProbeSession:
        session = ProbeSession(self._target, client_of(self._target), self._timeout, self._token)
        session.listing, session.props = self._listing, self._props
        return session

    async def _with_model(self, session: ProbeSession) -> Report:
        stopped = False
        try:
            await self._ask_all(session)
        except StoppedError:
            stopped = True
        finally:
            await session.client.aclose()
        answered = session.has_answered
        mode, reason = choose_mode(
            session.acts,
            self._finding,
            dropped=session.tools_dropped,
            rejected=self._statuses.get(calls.NATIVE) is not None,
        )
        return Report(
            self._target,
            tuple(self._findings),
            session.before,
            session.client.profile,
            mode if answered else "",
            reason if answered else notice("doctor.no_answer"),
            answered,
            stopped,
            not answered and self._is_lost(),
        )

    def _is_lost(self) -> bool:
        return bool(self._errors) and self._errors[-1].kind in ("connection", "timeout")

    async def _ask_all(self, session: ProbeSession) -> None:
        for name, probe in _FIRST:
            await self._probe(session, name, probe)
            if name == "plain answer" and self._is_hopeless(session):
                return
        if not session.has_answered:
            return
        for name, probe in _REST:
            await self._probe(session, name, probe)
        works = session.acts.get("native", False) and not session.tools_dropped
        for name, probe in _MODES:
            if works:
                return
            await self._probe(session, name, probe)
            works = session.acts.get(name.rpartition(" ")[2], False)

    def _is_hopeless(self, session: ProbeSession) -> bool:
        return session.plain is None and bool(self._errors) and self._errors[-1].kind in _HOPELESS

    async def _probe(self, session: ProbeSession, name: str, probe: Probe) -> None:
        if name in (_CHAT_ONLY if self._target.protocol else _OTHERS_ONLY):
            return
        await self._ask(name, lambda: probe(session), has_answered=session.has_answered)

    async def _ask(
        self, name: str, look: Callable[[], Awaitable[answers.Found]], *, has_answered: bool = False
    ) -> None:
        """Run one probe; return a finding in any case. A slow answer is not a failure."""
        self._watch.begin(name)
        begun = time.monotonic()
        verdict: Verdict = "failed"
        try:
            verdict, detail = await look()
        except StoppedError:
            raise
        except LLMError as error:
            self._errors.append(error)
            self._statuses[name] = error.status
            detail = self._words(error)
            if error.kind == "bad_request":
                verdict = "no"
            elif error.kind == "timeout" and has_answered:
                verdict, detail = "unknown", notice("doctor.too_slow", detail=detail)
        except ConfigError as error:  # the client knows that the model rejects it
            verdict, detail = "no", notice("doctor.client_refuses", error=error)
        except Exception as error:  # noqa: BLE001 - a malformed response must not stop the other probes
            detail = f"{type(error).__name__}: {shorten(safe_str(error), 120)}"
        finding = Finding(name, verdict, detail, round(time.monotonic() - begun, 2))
        self._findings.append(finding)
        self._watch.end(finding)

    def _words(self, error: LLMError) -> str:
        """Return an error message without the URL and the model, which are shown already."""
        words = re.sub(
            r"^\S+ rejected the request for model .*? with (?=status)",
            "refused with ",
            self._target.cleaned(error.message),
        )
        return shorten(words, 240)

    def _finding(self, name: str) -> Finding | None:
        return next((finding for finding in self._findings if finding.name == name), None)

    async def _reach(self) -> answers.Found:
        with Interrupt() as block:
            block.after(self._timeout)
            block.on(self._token)
            try:
                self._listing = await get_listing(self._target, self._timeout)
            except LLMError as error:
                if error.kind not in ("not_found", "bad_request") or isinstance(error, NotJSONError):
                    raise
                # Some servers have no model list.
            if not self._target.protocol:
                self._props = await get_props(self._target, min(self._timeout, 5.0))
            if self._listing is None:
                return "yes", notice("doctor.answers_no_list")
            return "yes", notice("doctor.answers")
        if self._token is not None and self._token.is_cancelled:
            raise StoppedError
        raise LLMError(notice("library.no_response", timeout=self._timeout), kind="timeout")


def _only_model(target: Target, listing: Any) -> str:
    """Return the only model of a server.

    Raises:
        ConfigError: The server has no model, or several.
    """
    names = models_in(listing)
    if len(names) == 1:
        return names[0]
    rest = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    known = f" It lists: {', '.join(names[:LISTED])}{rest}." if names else ""
    raise ConfigError(notice("library.model_missing", address=target.address, known=known))


# -- A report as text: aligned columns, folded to the width of the terminal ------------------------------

Paint = Callable[[Verdict, str], str]


def unpainted(verdict: Verdict, text: str) -> str:  # noqa: ARG001 - a `Paint`
    """Return the text as it is."""
    return text


def as_text(report: Report, width: int, *, head: str = "", paint: Paint = unpainted) -> str:
    """Return the full report in the user's language: conclusion, table, tool mode and profile.

    Args:
        report: The result of an examination.
        width: Columns of the terminal.
        head: Lines that follow the conclusion.
        paint: Colours a text by a verdict.
    """
    parts = [conclusion(report, width, paint), *([head] if head else []), details(report, width, paint)]
    return "\n".join(parts)


def details(report: Report, width: int, paint: Paint = unpainted) -> str:
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


def conclusion(report: Report, width: int, paint: Paint = unpainted) -> str:
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


def _profile(report: Report, width: int) -> str:
    code = paste(report)
    if code:
        return folded(user_text("doctor.needs_profile"), width) + "\n" + safe_text(code)
    known = report.before
    if known.url or known.model:
        return folded(user_text("doctor.built_in_fits", name=known.name), width)
    return folded(user_text("doctor.plain_server"), width)
