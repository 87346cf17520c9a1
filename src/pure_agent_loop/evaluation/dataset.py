"""Datasets: cases and evaluators, run against an agent."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, LLMError, RunInterrupted
from pure_agent_loop.evaluation.cases import Case, Evaluator, Trial, case_from, cases_of, read_plain
from pure_agent_loop.evaluation.evaluators import name_of, read_evaluators
from pure_agent_loop.evaluation.identity import Identity, no_identity
from pure_agent_loop.evaluation.outcomes import CaseOutcome, OutcomeFile, Trials
from pure_agent_loop.evaluation.report import RESERVED, EvaluationReport
from pure_agent_loop.evaluation.runner import FailureStreak, in_parallel
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.result import AgentResult
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import SqliteStore, new_session_id, store_at
from pure_agent_loop.sessions.store import SessionPlace, SessionStore
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.abilities import check_shape, checked_function
from pure_agent_loop.support.checks import is_whole, require, require_value
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.text import safe_str, to_jsonable
from pure_agent_loop.support.threads import Raised, run_in_thread


class Dataset:
    """Cases, and evaluators for the answers.

        dataset = Dataset([Case("2 + 3?", expected="5")], [Contains(), MaxSteps(2)])
        print(dataset.run(agent))

    Args:
        cases: The cases; a string is a case without an expected answer.
        evaluators: Called with the `Trial` of every case. Each returns True or False, a number (higher is
            better; a number never fails a trial), or a dict of these by name. Texts in the dict
            become notes.
        name: Name to show in the report.

    Raises:
        ConfigError: The cases are empty, two have the same name, or one is not a case.
    """

    def __init__(
        self, cases: Iterable[Case | str], evaluators: Iterable[Evaluator] = (), *, name: str = "dataset"
    ) -> None:
        self.name = name
        for what, value in (("cases", cases), ("evaluators", evaluators)):
            is_list = not isinstance(value, (str, bytes, Mapping)) and isinstance(value, Iterable)
            require(is_list, what, value, "a list")
        listed: list[Any] = [Case(case) if isinstance(case, str) else case for case in cases]
        self.evaluators = list(evaluators)
        for case in listed:
            if not isinstance(case, Case):
                raise ConfigError(f"cases must be a list of Case; one is {case!r:.80}.")
        self.cases: list[Case] = listed
        names = Counter(case.name for case in self.cases)
        duplicate = next((name for name, count in names.items() if count > 1), None)
        if duplicate is not None or not names:
            raise ConfigError(
                "cases must not be empty."
                if not names
                else f"Two cases have the name {duplicate!r}. Set name=... for one of them."
            )
        for evaluator in (*self.evaluators, *(extra for case in self.cases for extra in case.evaluators)):
            require(callable(evaluator), "An evaluator", evaluator, "a function")
            check_shape("An evaluator", evaluator, ("trial",))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], evaluators: Iterable[Evaluator] = ()) -> Dataset:
        """Read a dataset from YAML (extra ``[eval]``), JSON, or JSON lines with one case per line.

        Args:
            path: The file.
            evaluators: Evaluators in addition to those in the file.

        Raises:
            ConfigError: The file cannot be read, or has an unknown entry.
            MissingExtraError: The file is YAML, and the extra is not installed.
        """
        where = os.fspath(path)
        plain = read_plain(Path(path))
        cases = [
            case_from(entry, f"{where}: case {number}", read_evaluators)
            for number, entry in enumerate(plain["cases"], 1)
        ]
        return cls(cases, [*read_evaluators(plain["evaluators"], where), *evaluators], name=plain["name"])

    @classmethod
    def from_session(
        cls,
        session_id: str,
        evaluators: Iterable[Evaluator] = (),
        sessions: SessionPlace | None = None,
    ) -> Dataset:
        """Make a case from each run in a recorded session, with the recorded answer as the expected one.

        Args:
            session_id: The session.
            evaluators: Evaluators for the new answers.
            sessions: Store of the session; see `SessionManager`.

        Raises:
            ConfigError: The session has no run with an answer.
            SessionError: The session is missing or cannot be read.
        """
        records = SessionManager(sessions).store.read(session_id).records
        return cls(cases_of(records, session_id), evaluators, name=session_id)

    def run(
        self,
        agent: Agent | Callable[[], Agent],
        *,
        repeats: int = 1,
        concurrency: int = 1,
        seed: int | None = None,
        on: Literal["ray"] | None = None,
        on_outcome: Callable[[CaseOutcome], None] | None = None,
        out: str | os.PathLike[str] | None = None,
        sessions: SessionPlace | None = None,
    ) -> EvaluationReport:
        """Run an agent on every case and evaluate the results.

        The method works in sync code, as `Agent.run` does.

        Args:
            agent: The agent; with `on`, a function that makes it in each process.
            repeats: Number of trials per case.
            concurrency: Number of concurrent runs; with `on`, of processes.
            seed: Sent with every request of the first repetition, `seed` + 1 with the next, and so on; None
                to send no seed. Servers may ignore the seed.
            on: ``ray`` to run the trials in the Ray cluster that the program is connected to, or else in a
                local one (extra ``[ray]``); None for this process. Evaluators are called in this process. If
                the process of a trial ends, the trial fails and is not repeated.
            on_outcome: Function called with each outcome as soon as it is read from `out` or evaluated.
            out: File to which each outcome is appended as its trial ends, as a JSON line. Repeating the
                call resumes the evaluation: a finished trial of the same agent, case, evaluators, repetition
                and seed is read from the file and not repeated. Trials that ended with an error are repeated.
                All other outcomes stay in the file but are not used; a warning in the log counts those of the
                same model.
            sessions: Store or folder that records a session for each trial; `CaseOutcome.session` has its id.
                If None, the agent's `sessions`, or else the SQLite file ``OUT.sessions.db`` next to `out`;
                without `out`, or with `on`, no sessions are recorded.

        Raises:
            ConfigError: A number is invalid, an evaluator cannot evaluate a case, or `out` cannot be written,
                is in use, or has other content.
            LLMError: Further runs would fail too: access denied, model not found, no credit, or no connection
                three times in a row.
            RunInterrupted: Ctrl-C was pressed; its ``result`` is the report so far.
        """
        checked_function("on_outcome", on_outcome, "outcome")
        files: list[OutcomeFile] = []
        run = self._run(agent, repeats, concurrency, seed, on, on_outcome, out, sessions, files)
        try:
            return run_sync(run)
        except KeyboardInterrupt:
            outcomes = files[0].outcomes() if files else []
            raise RunInterrupted(EvaluationReport(self.name, outcomes, {"unfinished": True})) from None

    async def arun(
        self,
        agent: Agent | Callable[[], Agent],
        *,
        repeats: int = 1,
        concurrency: int = 1,
        seed: int | None = None,
        on: Literal["ray"] | None = None,
        on_outcome: Callable[[CaseOutcome], None] | None = None,
        out: str | os.PathLike[str] | None = None,
        sessions: SessionPlace | None = None,
    ) -> EvaluationReport:
        """Run the evaluation from async code; see `run`."""
        checked_function("on_outcome", on_outcome, "outcome")
        return await self._run(agent, repeats, concurrency, seed, on, on_outcome, out, sessions, [])

    async def _run(
        self,
        make_agent: Any,
        repeats: int,
        concurrency: int,
        seed: int | None,
        on: str | None,
        on_outcome: Callable[[CaseOutcome], None] | None,
        out: str | os.PathLike[str] | None,
        sessions: SessionPlace | None,
        files: list[OutcomeFile],
    ) -> EvaluationReport:
        """Run the evaluation; add the outcome file to `files`, so that `run` can read it if interrupted."""
        made = self._made(make_agent, on)
        self._check(made, repeats, concurrency, seed)
        identity = no_identity if out is None else Identity(made, self.evaluators, self.cases, seed).of
        trials = Trials([case.name for case in self.cases], repeats, identity)
        store = _session_store(sessions, made.config.sessions, None if on else out)
        details = {"model": model_of(made.llm), "agent": made.config.name, "repeats": repeats, "seed": seed}
        if isinstance(store, SqliteStore):
            details["sessions"] = f"sqlite:///{store.path}"  # in the form of the option --database
        patience = FailureStreak()

        async def work(place: int) -> None:
            number, repeat = trials.split(place)
            settings = self._settings(number, repeat, seed, store)
            trial = await attempt(self.cases[number], made, settings)
            outcome = await self._judged(trial, repeat + 1, settings.get("session_id", ""))
            file.add(place, outcome)
            if on_outcome is not None:
                on_outcome(outcome)
            failure = trial.result.state.failure
            patience.note(failure if isinstance(failure, LLMError) else None)

        attempt: Any = _tried
        async with contextlib.AsyncExitStack() as stack:
            file = stack.enter_context(contextlib.closing(OutcomeFile(out, self.name, details, trials)))
            files.append(file)
            if on_outcome is not None and out is not None:
                for outcome in file.outcomes():
                    on_outcome(outcome)
            if on is not None:
                from pure_agent_loop.evaluation.on_ray import ray_trials

                attempt = (await stack.enter_async_context(ray_trials(make_agent, _tried, concurrency))).run
            await in_parallel(file.places(finished=False), work, concurrency)
        return EvaluationReport(self.name, file.outcomes(), details)

    def _made(self, agent: Any, on: str | None) -> Any:
        """Return the agent; if the trials run in other processes, call the function that makes it."""
        if on not in (None, "ray"):
            raise ConfigError(f'on={on!r:.40} is unknown; it must be "ray" or None.')
        if on is None:
            return agent
        if isinstance(agent, Agent) or not callable(agent):
            raise ConfigError(
                'agent must be a function if on="ray": each process calls it to create the agent.'
            )
        return agent()

    def _settings(
        self, number: int, repeat: int, seed: int | None, store: SessionStore | None
    ) -> dict[str, Any]:
        """Return the arguments of `Agent.prepare` for a trial: its seed, and a new session."""
        settings: dict[str, Any] = {} if seed is None else {"model_settings": {"seed": seed + repeat}}
        if store is not None:
            named = {"dataset": self.name, "case": self.cases[number].name, "repeat": repeat + 1}
            settings |= {"sessions": store, "session_id": new_session_id(), "metadata": named}
        return settings

    def _check(self, agent: Any, repeats: int, concurrency: int, seed: int | None) -> None:
        require(isinstance(agent, Agent), "agent", agent, "an Agent")
        numbers: dict[str, Any] = {"repeats": repeats, "concurrency": concurrency}
        for name, value in numbers.items():
            require_value(is_whole(value, 1), name, value, "a whole number, 1 or more")
        is_seed = seed is None or (not isinstance(seed, bool) and isinstance(seed, int))
        require_value(is_seed, "seed", seed, "a whole number, or None")
        for case in self.cases:
            for evaluator in (*self.evaluators, *case.evaluators):
                check = getattr(evaluator, "check", None)
                if callable(check):
                    check(case, agent)

    async def _judged(self, trial: Trial, repeat: int, session: str) -> CaseOutcome:
        scores, notes, errors = dict[str, Any](), dict[str, str](), list[str]()
        for evaluator in (*self.evaluators, *trial.case.evaluators):
            evaluated = await _asked(evaluator, trial)
            if isinstance(evaluated, Exception):
                errors.append(
                    f"{name_of(evaluator)} failed: {type(evaluated).__name__}: {safe_str(evaluated)}"
                )
                continue
            for name, value in evaluated.items():
                target: dict[str, Any] = notes if isinstance(value, str) else scores
                target[_free(name, target)] = value
        result = trial.result
        ended = STOP_REASONS[result.stop_reason].kind == "done"
        return CaseOutcome(
            trial.case.name,
            repeat,
            ended and not errors and not any(score is False for score in scores.values()),
            scores,
            notes,
            to_jsonable(trial.output),
            result.stop_reason,
            "; ".join([*([result.error] if result.error else []), *errors]),
            trial.tools,
            trial.seconds,
            result.steps,
            result.usage.total_tokens,
            result.cost,
            [{"tool": name, "args": to_jsonable(arguments)} for name, arguments in trial.calls],
            result.messages,
            session,
            result.state.system_prompt,
            result.state.offered,
            _details(result),
        )


def _details(result: AgentResult[Any]) -> list[dict[str, Any] | None]:
    """Return the token details of each assistant message; empty if there are none."""
    details = result.state.token_details
    if not any(details):
        return []
    # The details belong to the newest messages, because the history of the case has none, and a compaction
    # removes the oldest messages.
    count = sum(message["role"] == "assistant" for message in result.messages)
    return [*[None] * (count - len(details)), *details[max(0, len(details) - count) :]]


def _session_store(
    sessions: SessionPlace | None, of_agent: SessionStore | None, out: str | os.PathLike[str] | None
) -> SessionStore | None:
    """Return `sessions` as a store or, with `out`, the agent's store or one next to `out`; else None."""
    if sessions is not None or out is None:
        return None if sessions is None else store_at(sessions)
    return of_agent or SqliteStore(f"{os.fspath(out)}.sessions.db")


async def _tried(case: Case, agent: Agent, settings: dict[str, Any]) -> Trial:
    start = time.perf_counter()
    history = copy.deepcopy(list(case.messages)) or None
    result = await agent.prepare(case.input, history, **settings).wait()
    return Trial(case, result, agent, time.perf_counter() - start)


async def _asked(evaluator: Evaluator, trial: Trial) -> Mapping[str, Any] | Exception:
    """Return an evaluator's result by name, or its error: raising it would lose the other results."""
    call = getattr(evaluator, "__call__", evaluator)  # noqa: B004 - checks for an async `__call__`
    try:
        if inspect.iscoroutinefunction(evaluator) or inspect.iscoroutinefunction(call):
            result = await evaluator(trial)
        else:
            # Call the evaluator in a thread, because it may block.
            result = await run_in_thread(partial(evaluator, trial))
            if isinstance(result, Raised):
                return (
                    result.error if isinstance(result.error, Exception) else RuntimeError(str(result.error))
                )
            result = await result if inspect.isawaitable(result) else result
        plain = result if isinstance(result, Mapping) else {name_of(evaluator): result}
        for name, value in plain.items():
            _check_score(name, value)
    except Exception as error:  # noqa: BLE001 - any failure of a user function
        return error
    return plain


def _check_score(name: Any, value: Any) -> None:
    fits = isinstance(value, (bool, str)) or (isinstance(value, (int, float)) and math.isfinite(value))
    if not isinstance(name, str) or not fits:
        raise TypeError(
            f"it returned {name!r}: {value!r:.80}; return a bool, number or string, or a dict of these"
        )


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number, unique = 1, name
    while unique in taken or unique in RESERVED:
        number += 1
        unique = f"{name}_{number}"
    return unique
