"""Handlers of a session in Restate: run a task, answer a question, cancel, read the status.

A session is a virtual object, so Restate executes its runs one at a time, in the order in which it accepted
them. For each open question there is an awakeable, and a separate object that accepts the first answer.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any

from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.durable.attempt import failed_with, outcome_of
from pure_agent_loop.durable.task_options import unpack_options
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.permissions import as_answer
from pure_agent_loop.restate.entries import Entries
from pure_agent_loop.runs.options import RUN_OPTIONS
from pure_agent_loop.runs.settings import DepsOfRun, naming
from pure_agent_loop.sessions.questions import answer_question, give_result
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import unexpected_option
from pure_agent_loop.tool_context import run_moves

NAME = "PalSession"
# `OPTIONS` are the options of a run that have a JSON form. The session is not among them, because it is the
# object's key, nor are `deps`, which come from the service.
_NOT_PLAIN = {"deps", "facts", "output_type", "cancel_token", "inbox", "journal", "state", "session_id"}
OPTIONS = frozenset(RUN_OPTIONS) - _NOT_PLAIN
_BODY = ("agent", "task", *sorted(OPTIONS))
_KEEP_ANSWERS = timedelta(days=1)
_RETRY = {"initial_interval": 0.1, "exponentiation_factor": 2.0, "max_interval": 5.0, "max_attempts": 1000}
_KINDS: dict[str, Any] = {
    "run": "exclusive",
    "answer": "shared",
    "give_result": "shared",
    "cancel": "shared",
    "status": "shared",
    "forget": "exclusive",
}
_ANSWERS = {"verdict": {"verdict", "message", "by"}, "result": {"result", "is_error", "by"}}
OnEvent = Callable[[str, AnyEvent], Any]


def restate_app(
    agents: Agent | Mapping[str, Agent],
    *,
    name: str = NAME,
    deps: Callable[..., Any] | None = None,
    on_event: OnEvent | None = None,
    inactivity_timeout: float = 60.0,
    abort_timeout: float = 600.0,
    retry: Mapping[str, float] | None = None,
    identity_keys: list[str] | None = None,
) -> Any:
    """Create an ASGI application that serves agents in Restate.

        app = restate_app({"helper": agent})  # hypercorn my_agents:app --bind 127.0.0.1:9080

    Args:
        agents: One agent, served as ``default``, or a dict of name -> agent.
        name: Name of the service in Restate; a second service, ``<name>Question``, holds the questions.
        deps: Factory for the `RunContext` dependencies, called once per attempt of a run.
        on_event: Function to call with the session id and each event as it occurs, in the handler's process;
            may be async. After a crash, a step is repeated, and its events occur again.
        inactivity_timeout: Seconds without an entry after which Restate suspends a run. A run that is working
            writes two entries within this time, so only a run that is waiting for a person is suspended.
        abort_timeout: Seconds after which Restate aborts an attempt that should be suspended but is still
            running, because its process is frozen or a function blocks its event loop.
        retry: How to retry an attempt whose process ended: `initial_interval` and `max_interval` in seconds,
            `exponentiation_factor` and `max_attempts`. After the last attempt, Restate pauses the run.
        identity_keys: Public keys of the Restate servers that may call this app; None for any caller.

    Raises:
        ConfigError: An argument is invalid, or an agent has a limit per day, which needs a store of all runs.
        MissingExtraError: The extra ``[restate]`` is not installed.
    """
    if importlib.util.find_spec("restate") is None:
        raise MissingExtraError(notice("library.feature_restate"), "restate")
    import restate
    from restate.retry_policy import InvocationRetryPolicy

    if unknown := (retry or {}).keys() - _RETRY.keys():
        raise ConfigError(f"retry has no option {min(unknown)!r}. It takes: {', '.join(_RETRY)}.")
    values = {**_RETRY, **(retry or {})}
    policy = InvocationRetryPolicy(
        initial_interval=timedelta(seconds=values["initial_interval"]),
        max_interval=timedelta(seconds=values["max_interval"]),
        exponentiation_factor=values["exponentiation_factor"],
        max_attempts=int(values["max_attempts"]),
        on_max_attempts="pause",
    )
    timeouts: dict[str, Any] = {
        "inactivity_timeout": timedelta(seconds=inactivity_timeout),
        "abort_timeout": timedelta(seconds=abort_timeout),
    }
    by_name = dict(agents) if isinstance(agents, Mapping) else {"default": agents}
    if not by_name or min(inactivity_timeout, abort_timeout) <= 0:
        raise ConfigError("restate_app needs at least one agent, and timeouts above 0 seconds.")
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        raise ConfigError("restate_app needs a long-running process: a Lambda function ends at each entry.")
    sessions = SessionHandlers(name, by_name, deps, on_event, inactivity_timeout / 2)
    session = restate.VirtualObject(name, invocation_retry_policy=policy, **timeouts)
    for handler, kind in _KINDS.items():
        session.handler(handler, kind=kind)(getattr(sessions, handler))
    question = restate.VirtualObject(f"{name}Question", ingress_private=True)
    questions = QuestionHandlers(question.name)
    question.handler("answer")(questions.answer)
    question.handler("forget")(questions.forget)
    return _over_http2(restate.app([session, question], identity_keys=identity_keys))


def _over_http2(app: Any) -> Any:
    """Return an application that rejects HTTP/1, and otherwise calls the given one.

    Over HTTP/1, Restate ends an attempt at each entry, which would cut off the running calls.
    """

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["http_version"] == "2" or scope["path"].endswith("/health"):
            await app(scope, receive, send)
            return
        await send(
            {"type": "http.response.start", "status": 505, "headers": [(b"content-type", b"text/plain")]}
        )
        text = "Agents on Restate need HTTP/2: serve them with hypercorn, and register without use_http_11."
        await send({"type": "http.response.body", "body": text.encode()})

    return checked


class SessionHandlers:
    """A service's session handlers.

    Args:
        name: Name of the service.
        agents: Agents by name.
        beat: Seconds between two entries during a long effect.
    """

    def __init__(
        self,
        name: str,
        agents: Mapping[str, Agent],
        deps: Callable[..., Any] | None,
        on_event: OnEvent | None,
        beat: float,
    ) -> None:
        for agent in served_agents(agents, "Restate", "read them from Restate").values():
            _check_limits(agent.config.limits)
        self._name, self._agents, self._deps = name, agents, deps
        self._on_event, self._beat = on_event, beat

    async def run(self, context: Any, body: Any) -> dict[str, Any]:
        """Run a task to its end, across attempts and answers; return the outcome as JSON.

        A cancelled run also returns an outcome, because its session continues with the next run.
        """
        from restate import TerminalError

        session_id, run_id = context.key(), context.request().id
        about = {"run": run_id, "task": body.get("task") if isinstance(body, Mapping) else None}
        entries: Entries | None = None
        problem, outcome, answered = "", dict[str, Any](), dict[str, Any]()
        try:
            problem = await context.run_typed("check", partial(self._check, body))
            if not problem:
                entries = Entries(context, session_id, await context.get("session"), self._beat)
                context.set("status", {**about, "status": "running"})
                begin = partial(self._begin, entries, session_id, body)
                while waits := _waits(outcome := await entries.record(begin)):
                    await self._answers(context, entries, waits, about, answered)
        except TerminalError as error:  # the run was cancelled, perhaps before it began
            outcome = {**failed_with(PureAgentLoopError(error.message)), "stop_reason": "cancelled"}
        if problem:  # `problem` is recorded, so a retry with changed code raises the same error
            raise TerminalError(problem, status_code=400)
        outcome = {"run": run_id, **outcome}
        kept = None if entries is None else entries.kept()
        if kept is not None:
            context.set("session", kept)
        status = {"status": outcome["stop_reason"], "outcome": outcome, "answered": answered}
        context.set("status", {**about, **status})
        return outcome

    async def _check(self, body: Any) -> str:
        """Return what is wrong with a request body; empty if it is valid."""
        try:
            _read_run(body, self._agents)
        except (AttributeError, ConfigError, TypeError, ValueError) as error:
            # If the problem were raised here, Restate would retry.
            return f"{error}"
        return ""

    async def _begin(self, entries: Entries, session_id: str, body: Any) -> dict[str, Any]:
        """Execute the run from its records; a failure becomes an outcome, because Restate retries errors."""
        try:
            name, task, options = _read_run(body, self._agents)
            if self._deps is not None:
                options["deps"] = DepsOfRun(self._deps)
            if not entries.is_new:
                options = {key: value for key, value in options.items() if key not in ("messages", "media")}
            place: dict[str, Any] = {"session_id": session_id, "sessions": entries}
            agent = self._agents[name]
            with naming(agent, name):
                run = agent.prepare(task if entries.is_new else None, **place, **options)
            run_moves()
            async with aclosing(run.stream()) as events:
                async for event in events:
                    await self._tell(session_id, event)
            return outcome_of(run.result())
        except Exception as error:  # noqa: BLE001 - see above
            if not isinstance(error, PureAgentLoopError):
                log_failure("The run", error)
            return failed_with(PureAgentLoopError(f"{type(error).__name__}: {error}"))

    async def _tell(self, session_id: str, event: AnyEvent) -> None:
        if self._on_event is None:
            return
        try:
            told = self._on_event(session_id, event)
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - a viewer must not end the run
            log_failure("on_event", error)

    async def _answers(
        self,
        context: Any,
        entries: Entries,
        waits: list[dict[str, Any]],
        about: Mapping[str, Any],
        answered: dict[str, Any],
    ) -> None:
        """Wait for the answers to all open questions and calls, and add them to the records."""
        opened = [(each, *context.awakeable()) for each in waits]
        shown = [{**each, "awakeable": token} for each, token, _ in opened]
        context.set("status", {**about, "status": "waiting", "waits": shown, "answered": answered})
        for each, _, future in opened:
            given = await future
            answered[each["call_id"]] = given
            if "verdict" in given:
                answer = (given["verdict"], given.get("message", ""), given["by"])
                answer_question(entries, context.key(), each["call_id"], *answer)
            else:
                result, flags = given.get("result"), {"is_error": bool(given.get("is_error"))}
                give_result(entries, context.key(), each["call_id"], result, by=given["by"], **flags)
        context.set("status", {**about, "status": "running", "answered": answered})

    async def answer(self, context: Any, body: Any) -> dict[str, Any]:
        """Answer a question: `call_id`, `verdict` (``allow`` or ``deny``), `message`, and the author `by`.

        Returns: `accepted`, and the `first` answer, which is the one used.
        """
        return await self._give(context, body, "verdict")

    async def give_result(self, context: Any, body: Any) -> dict[str, Any]:
        """Give the result of a call that runs elsewhere: `call_id`, `result`, `is_error`, author `by`."""
        return await self._give(context, body, "result")

    async def _give(self, context: Any, body: Any, what: str) -> dict[str, Any]:
        from restate import TerminalError

        try:
            call_id, given = _read_answer(body, what)
        except (ConfigError, TypeError) as error:
            raise TerminalError(f"{error}", status_code=400) from error
        status = await context.get("status") or {}
        waits = {each["call_id"]: each for each in status.get("waits") or () if each["needs"] == what}
        if call_id not in waits:
            if (first := (status.get("answered") or {}).get(call_id)) is not None:
                return {"accepted": False, "first": first}
            open_ids = ", ".join(waits) or "none"
            text = f"call_id={call_id!r:.80} is not waiting for a {what}; open: {open_ids}."
            raise TerminalError(text, status_code=404)
        key = f"{status['run']}/{waits[call_id]['step']}/{call_id}"
        sent = {"awakeable": waits[call_id]["awakeable"], "given": given}
        call = context.generic_call(f"{self._name}Question", "answer", json.dumps(sent).encode(), key)
        reply: dict[str, Any] = read_json(await call)
        return reply

    async def cancel(self, context: Any) -> dict[str, Any]:
        """Cancel the session's run; return its id, or None if no run is in progress."""
        status = await context.get("status") or {}
        run_id = status.get("run") if status.get("status") in ("running", "waiting") else None
        if run_id is not None:
            context.cancel_invocation(run_id)
        return {"cancelled": run_id}

    async def status(self, context: Any) -> dict[str, Any]:
        """Return the status of the session's newest run, with its open questions and its outcome."""
        status: dict[str, Any] = await context.get("status") or {"status": "new"}
        return status

    async def forget(self, context: Any) -> None:
        """Delete the session's history and status; Restate keeps its run logs for their retention time."""
        context.clear_all()


class QuestionHandlers:
    """Handlers of an open question. Each question is an object that accepts one answer.

    Args:
        name: Name of the questions' service.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    async def answer(self, context: Any, body: Any) -> dict[str, Any]:
        """Accept the first answer and wake the run; return the first answer to everyone."""
        first = await context.get("first")
        if first is not None:
            return {"accepted": False, "first": first}
        context.set("first", body["given"])
        context.resolve_awakeable(body["awakeable"], body["given"])
        context.generic_send(self._name, "forget", b"", context.key(), send_delay=_KEEP_ANSWERS)
        return {"accepted": True, "first": body["given"]}

    async def forget(self, context: Any) -> None:
        """Delete an answer, a day after it was given."""
        context.clear_all()


def _read_run(body: Any, agents: Mapping[str, Agent]) -> tuple[str, str, dict[str, Any]]:
    """Return the agent's name, the task and the options of a request."""
    fields = dict(body) if isinstance(body, Mapping) else {}
    if unknown := fields.keys() - set(_BODY):
        raise ConfigError(unexpected_option("run", min(unknown), _BODY))
    name, task = fields.pop("agent", next(iter(agents))), fields.pop("task", None)
    if name not in agents:
        raise ConfigError(f"agent={name!r:.80} is not one of: {', '.join(agents)}.")
    require(isinstance(task, str), "task", task, "text")
    options = unpack_options(json.dumps(fields))
    if (limits := options.get("limits")) is not None:
        _check_limits(limits)
    return name, task, options


def _read_answer(body: Any, what: str) -> tuple[Any, dict[str, Any]]:
    """Return the call id and the content of an answer or a result."""
    given = dict(body) if isinstance(body, Mapping) else {}
    call_id, by = given.pop("call_id", None), given.get("by")
    if unknown := given.keys() - _ANSWERS[what]:
        raise ConfigError(unexpected_option(what, min(unknown), ("call_id", *_ANSWERS[what])))
    if what not in given or not isinstance(by, str) or not by.strip():
        raise ConfigError(f"An answer needs call_id, {what} and by, the name of its author.")
    if what == "verdict":
        as_answer(given["verdict"])
    return call_id, given


def _check_limits(limits: LoopLimits) -> None:
    for name in limits.day_limits:
        raise ConfigError(f"{name} needs a store of all runs, which Restate does not provide. Leave it out.")


def _waits(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the questions of a suspended run, and its calls that run elsewhere."""
    asked = [{**each, "needs": "verdict"} for each in outcome.get("questions") or ()]
    calls = [
        {
            "call_id": each["id"],
            "tool": each["name"],
            "args": each["arguments"],
            "step": outcome["steps"],
            "needs": "result",
        }
        for each in outcome.get("open_calls") or ()
    ]
    return [*asked, *calls]
