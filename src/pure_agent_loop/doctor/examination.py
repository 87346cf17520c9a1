"""The order of the questions, and what becomes of one that fails."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.doctor import answers, calls, formats
from pure_agent_loop.doctor.advice import choose_mode
from pure_agent_loop.doctor.listing import get_json, get_props, models_in
from pure_agent_loop.doctor.session import Session, StoppedError
from pure_agent_loop.doctor.values import Finding, Report, Target, Verdict
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.support.text import safe_str, shorten

TIMEOUT = 60.0
REACHABLE = "reachable"
LISTED = 10
Probe = Callable[[Session], Awaitable[answers.Found]]
# After these no other question would be answered either.
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
# Asked only if the mode before them does not work.
_MODES: tuple[tuple[str, Probe], ...] = (
    ("tool_mode json", calls.json_actions),
    ("tool_mode text", calls.text_actions),
)


class Watch:
    """Is told how it goes; this one tells nobody."""

    def begin(self, name: str) -> None:
        """A question is asked now.

        Args:
            name: The name of its finding.
        """

    def end(self, finding: Finding) -> None:
        """It was answered.

        Args:
            finding: The answer.
        """


async def examine(
    target: Target,
    timeout: float = TIMEOUT,
    watch: Watch | None = None,
    token: CancelToken | None = None,
) -> Report:
    """Ask a server what it can do. What it does wrong is a finding, never an exception.

    Args:
        target: The server; without a model, the only one it lists is taken.
        timeout: Seconds for each request.
        watch: Told about each question.
        token: Cancelling it ends the examination; the report holds what was found out by then.

    Raises:
        ConfigError: No model is named and the server does not list exactly one, or the address is none.
    """
    return await _Examination(target, timeout, watch or Watch(), token).run()


class _Examination:
    def __init__(self, target: Target, timeout: float, watch: Watch, token: CancelToken | None) -> None:
        self._target, self._timeout, self._watch, self._token = target, timeout, watch, token
        self._findings: list[Finding] = []
        self._errors: list[LLMError] = []
        self._listing: Any = None
        self._props: Any = None

    async def run(self) -> Report:
        try:
            await self._ask(REACHABLE, self._reach)
        except StoppedError:
            return Report(self._target, tuple(self._findings), stopped=True)
        if not self._target.model:
            if self._errors and self._errors[-1].kind in _HOPELESS[:4]:
                return Report(self._target, tuple(self._findings), reason="It cannot be reached.")
            self._target = replace(self._target, model=_only_model(self._target, self._listing))
        return await self._with_model(self._session())

    def _session(self) -> Session:
        target = self._target
        client = OpenAIClient(
            target.model, target.api_key, target.base_url, default_headers=dict(target.headers)
        )
        client.keeps_choices = False  # what it refuses is what is to be found out
        session = Session(target, client, self._timeout, self._token)
        session.listing, session.props = self._listing, self._props
        return session

    async def _with_model(self, session: Session) -> Report:
        stopped = False
        try:
            await self._ask_all(session)
        except StoppedError:
            stopped = True
        finally:
            await session.client.aclose()
        answered = session.plain is not None or session.streamed is not None
        mode, reason = choose_mode(session.acts, self._finding, dropped=session.tools_dropped)
        return Report(
            self._target,
            tuple(self._findings),
            session.before,
            session.client.profile,
            mode if answered else "",
            reason if answered else "No answer came.",
            answered,
            stopped,
        )

    async def _ask_all(self, session: Session) -> None:
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

    def _is_hopeless(self, session: Session) -> bool:
        return session.plain is None and bool(self._errors) and self._errors[-1].kind in _HOPELESS

    async def _probe(self, session: Session, name: str, probe: Probe) -> None:
        await self._ask(name, lambda: probe(session))

    async def _ask(self, name: str, look: Callable[[], Awaitable[answers.Found]]) -> None:
        """Make one finding, whatever happens."""
        self._watch.begin(name)
        begun = time.monotonic()
        verdict: Verdict = "failed"
        try:
            verdict, detail = await look()
        except StoppedError:
            raise
        except LLMError as error:
            self._errors.append(error)
            verdict = "no" if error.kind == "bad_request" else "failed"
            detail = self._words(error)
        except Exception as error:  # noqa: BLE001 - an answer of a strange form must not end the others
            detail = f"{type(error).__name__}: {shorten(safe_str(error), 120)}"
        finding = Finding(name, verdict, detail, round(time.monotonic() - begun, 2))
        self._findings.append(finding)
        self._watch.end(finding)

    def _words(self, error: LLMError) -> str:
        """An error without the address and the model, which everybody knows here."""
        words = re.sub(
            r"^\S+ refused the request for model .*? with (?=status)",
            "refused with ",
            self._target.cleaned(error.message),
        )
        return shorten(words, 240)

    def _finding(self, name: str) -> Finding | None:
        return next((each for each in self._findings if each.name == name), None)

    async def _reach(self) -> answers.Found:
        with Interrupt() as block:
            block.after(self._timeout)
            block.on(self._token)
            try:
                self._listing = await get_json(self._target, "/models", self._timeout)
            except LLMError as error:
                if error.kind not in ("not_found", "bad_request") or "web page" in error.message:
                    raise
                # Not every server has a list.
            self._props = await get_props(self._target, min(self._timeout, 5.0))
            return "yes", "it answers" if self._listing is not None else "it answers, but lists no models"
        if self._token is not None and self._token.is_cancelled:
            raise StoppedError
        raise LLMError(f"No answer within {self._timeout:g} s.", kind="timeout")


def _only_model(target: Target, listing: Any) -> str:
    """The only model of a server that has one.

    Raises:
        ConfigError: It has none, or several.
    """
    names = models_in(listing)
    if len(names) == 1:
        return names[0]
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    known = f" It has: {', '.join(names[:LISTED])}{more}." if names else ""
    raise ConfigError(f"Which model of {target.address}? Name it: --model NAME.{known}")
