"""The order of the probes, and the handling of failed ones."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.doctor import answers, calls, formats
from pure_agent_loop.doctor.listing import NotJSONError, get_json, get_props, models_in
from pure_agent_loop.doctor.session import ProbeSession, StoppedError
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict, choose_mode, paste
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.runs.choose import protocol_of
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import one_line
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
    ("parallel calls", calls.parallel_calls),
    ("history of two calls", calls.two_results),
    ("user after a result", calls.user_after_tool),
    ("JSON schema", formats.json_schema),
    ("JSON object", formats.json_object),
    ("thinking shown", formats.thinking_shown),
    ("thinking switch", formats.thinking_switch),
)
# Tried only if the previous mode does not work.
_MODES: tuple[tuple[str, Probe], ...] = (
    ("tool_mode json", calls.json_actions),
    ("tool_mode text", calls.text_actions),
)


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
        if protocol := protocol_of(self._target.model):
            raise ConfigError(
                f"Only chat completions are examined, not {protocol}:. Leave out the prefix for these."
            )
        try:
            await self._ask(REACHABLE, self._reach)
        except StoppedError:
            return Report(self._target, tuple(self._findings), stopped=True)
        if not self._target.model:
            if self._errors and self._errors[-1].kind in _HOPELESS[:4]:
                return Report(self._target, tuple(self._findings), reason="The server cannot be reached.")
            self._target = replace(self._target, model=_only_model(self._target, self._listing))
        return await self._with_model(self._session())

    def _session(self) -> ProbeSession:
        target = self._target
        client = OpenAIClient(
            target.model, target.api_key, target.base_url, default_headers=dict(target.headers)
        )
        client.keeps_choices = False  # rejections are findings
        session = ProbeSession(target, client, self._timeout, self._token)
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
        answered = session.plain is not None or session.streamed is not None
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
            reason if answered else "The server did not answer.",
            answered,
            stopped,
        )

    async def _ask_all(self, session: ProbeSession) -> None:
        for name, probe in _FIRST:
            await self._probe(session, name, probe)
            if name == "plain answer" and self._is_hopeless(session):
                return
        if session.plain is None and session.streamed is None:
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
        await self._ask(name, lambda: probe(session))

    async def _ask(self, name: str, look: Callable[[], Awaitable[answers.Found]]) -> None:
        """Run one probe; return a finding in any case."""
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
            verdict = "no" if error.kind == "bad_request" else "failed"
            detail = self._words(error)
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
                self._listing = await get_json(self._target, "/models", self._timeout)
            except LLMError as error:
                if error.kind not in ("not_found", "bad_request") or isinstance(error, NotJSONError):
                    raise
                # Some servers have no model list.
            self._props = await get_props(self._target, min(self._timeout, 5.0))
            return (
                "yes",
                "the server answers"
                if self._listing is not None
                else "the server answers, but lists no models",
            )
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

NARROWEST = 50
_GAP = "  "
EMBEDDED = (
    "This is the server of the embedded model. Agents use it through a special client, which chooses "
    "tools and checks answers in other ways; this table does not describe that client."
)


def as_text(report: Report, width: int) -> str:
    """Return the full report: table, tool mode and profile.

    Args:
        report: The result of an examination.
        width: Columns of the terminal.
    """
    width = max(width, NARROWEST)
    parts = [table(report.findings, width)]
    if report.stopped:
        parts.append("Stopped before the end; missing probes did not run.\n")
    if report.answered:
        if report.target.is_embedded:
            parts.append(_folded(EMBEDDED, width))
        else:
            parts.append(_folded(f"tool_mode: {report.tool_mode or 'none'}. {report.reason}", width))
    if report.answered and not (report.target.is_embedded or report.stopped):
        parts.append(_profile(report, width))
    return "\n".join(parts)


def table(findings: tuple[Finding, ...], width: int) -> str:
    """Return one finding per line, with its details wrapped in their column."""
    names = max((len(finding.name) for finding in findings), default=0)
    verdicts = max((len(finding.verdict) for finding in findings), default=0)
    return "".join(
        _row(
            f"{finding.name:<{names}}{_GAP}{finding.verdict:<{verdicts}}{_GAP}",
            one_line(finding.detail, 400),
            width,
        )
        for finding in findings
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
