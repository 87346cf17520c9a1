"""Examine one protocol of a server: run the probes in order, and turn their errors into findings."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.doctor.calls import NATIVE
from pure_agent_loop.doctor.listing import NotJSONError, get_listing, get_props, only_model
from pure_agent_loop.doctor.probes import FIRST, MODES, PLAIN_ANSWER, REST, Probe
from pure_agent_loop.doctor.session import ProbeSession, StoppedError, client_of, within
from pure_agent_loop.doctor.values import Finding, Found, ServerReport, Target, choose_mode
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str, shorten

TIMEOUT = 60.0
REACHABLE = "reachable"
# After these errors, all other probes would fail too. After the first four, the model cannot be taken from
# the server's model list either.
_HOPELESS = ("connection", "timeout", "auth", "quota", "not_found", "rate_limit")


class Watch:
    """Receiver for the progress of `examine`; this base class ignores the progress."""

    def begin(self, name: str) -> None:
        """Called before a probe.

        Args:
            name: The name of the probe and of its finding.
        """

    def end(self, finding: Finding) -> None:
        """Called after a probe.

        Args:
            finding: The finding of the probe.
        """


async def examine(
    target: Target,
    timeout: float = TIMEOUT,
    watch: Watch | None = None,
    token: CancelToken | None = None,
) -> ServerReport:
    """Examine a server. Server errors become findings, never exceptions.

    Args:
        target: The server; if no model is set, the server must list exactly one, which is examined.
        timeout: Seconds for each request.
        watch: Receives the progress.
        token: Cancels the check; the report then has the findings so far.

    Raises:
        ConfigError: No model is set and the server does not list exactly one, or the URL is invalid.
    """
    return await _Examination(target, timeout, watch or Watch(), token).run()


class _Examination:
    def __init__(self, target: Target, timeout: float, watch: Watch, token: CancelToken | None) -> None:
        self._target, self._timeout, self._watch, self._token = target, timeout, watch, token
        self._findings: list[Finding] = []
        self._errors: dict[str, LLMError] = {}  # by probe
        self._listing: Any = None
        self._props: Any = None

    async def run(self) -> ServerReport:
        try:
            late = notice("library.no_response", timeout=self._timeout)
            await self._answer(REACHABLE, lambda: within(self._reach(), self._timeout, self._token, late))
        except StoppedError:
            return ServerReport(self._target, tuple(self._findings), stopped=True)
        if not self._target.model:
            if self._last_kind() in _HOPELESS[:4]:
                reason, lost = notice("doctor.unreachable"), self._is_lost()
                return ServerReport(self._target, tuple(self._findings), reason=reason, unreachable=lost)
            self._target = replace(self._target, model=only_model(self._target, self._listing))
        session = ProbeSession(self._target, client_of(self._target), self._timeout, self._token)
        session.listing, session.props = self._listing, self._props
        return await self._with_model(session)

    def _last_kind(self) -> str:
        return next((error.kind for error in reversed(self._errors.values())), "")

    def _is_lost(self) -> bool:
        return self._last_kind() in ("connection", "timeout")

    async def _with_model(self, session: ProbeSession) -> ServerReport:
        stopped = False
        try:
            await self._ask_all(session)
        except StoppedError:
            stopped = True
        finally:
            await session.client.aclose()
        answered = session.has_answered
        report = ServerReport(
            self._target,
            tuple(self._findings),
            session.before,
            session.client.profile,
            reason=notice("doctor.no_answer"),
            answered=answered,
            stopped=stopped,
            unreachable=not answered and self._is_lost(),
        )
        if not answered:
            return report
        rejection = self._errors.get(NATIVE)
        mode, reason = choose_mode(
            session.acts,
            report.finding,
            dropped=session.tools_dropped,
            rejected=rejection is not None and rejection.status is not None,
        )
        return replace(report, tool_mode=mode, reason=reason)

    async def _ask_all(self, session: ProbeSession) -> None:
        for probe in FIRST:
            await self._ask(session, probe)
            if probe.name == PLAIN_ANSWER and session.plain is None and self._last_kind() in _HOPELESS:
                return
        if not session.has_answered:
            return
        for probe in REST:
            await self._ask(session, probe)
        works = session.acts.get("native", False) and not session.tools_dropped
        for mode, probe in MODES.items():
            if not works:
                await self._ask(session, probe)
                works = session.acts.get(mode, False)

    async def _ask(self, session: ProbeSession, probe: Probe) -> None:
        if probe.suits(session.target):
            await self._answer(probe.name, lambda: probe.run(session), has_answered=session.has_answered)

    async def _answer(
        self, name: str, look: Callable[[], Awaitable[Found]], *, has_answered: bool = False
    ) -> None:
        """Run one probe, and always add a finding; a slow answer does not count as a failure."""
        self._watch.begin(name)
        begun = time.monotonic()
        try:
            verdict, detail = await look()
        except StoppedError:
            raise
        except LLMError as error:
            self._errors[name] = error
            verdict, detail = self._judge(error, has_answered)
        except ConfigError as error:  # raised if the client has recorded that the model rejects the field
            verdict, detail = "no", notice("doctor.client_refuses", error=error)
        except Exception as error:  # noqa: BLE001 - a malformed response must not stop the other probes
            verdict, detail = "failed", f"{type(error).__name__}: {shorten(safe_str(error), 120)}"
        finding = Finding(name, verdict, detail, round(time.monotonic() - begun, 2))
        self._findings.append(finding)
        self._watch.end(finding)

    def _judge(self, error: LLMError, has_answered: bool) -> Found:
        """Return the finding for an error, without the URL and the model, which the report shows anyway."""
        words = re.sub(
            r"^\S+ rejected the request for model .*? with (?=status)",
            "refused with ",
            self._target.cleaned(error.message),
        )
        detail = shorten(words, 240)
        if error.kind == "timeout" and has_answered:
            return "unknown", notice("doctor.too_slow", detail=detail)
        return "no" if error.kind == "bad_request" else "failed", detail

    async def _reach(self) -> Found:
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
