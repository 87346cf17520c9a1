"""Datasets: cases and evaluators, run against an agent."""

from __future__ import annotations

import copy
import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, LLMError, RunInterrupted
from pure_agent_loop.evaluation.cases import Case, Evaluator, Trial, case_from, cases_of, read_plain
from pure_agent_loop.evaluation.evaluators import name_of, read_evaluators
from pure_agent_loop.evaluation.report import RESERVED, CaseOutcome, EvaluationReport
from pure_agent_loop.evaluation.runner import FailureStreak, in_parallel
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.session import SessionManager
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.abilities import check_shape, checked_function
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.text import safe_str, to_jsonable
from pure_agent_loop.support.threads import Raised, run_in_thread

if TYPE_CHECKING:
    from pure_agent_loop.runs.options import RunSettings
    from pure_agent_loop.sessions.store import SessionPlace


class Dataset:
    """Cases, and evaluators for the answers.

        dataset = Dataset([Case("2 + 3?", expected="5")], [Contains(), MaxSteps(2)])
        print(dataset.run(agent))

    Args:
        cases: The cases; a string is a case without an expected answer.
        evaluators: Called with the `Trial` of every case. Each returns True or False, a number (higher is
            better; it never fails a trial), or a dict of these by name, in which texts count as notes.
        name: Name to show in the report.

    Raises:
        ConfigError: The cases are empty, two have the same name, or one is not a case.
    """

    def __init__(
        self, cases: Iterable[Case | str], evaluators: Iterable[Evaluator] = (), *, name: str = "dataset"
    ) -> None:
        self.name = name
        for what, value in (("cases", cases), ("evaluators", evaluators)):
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                raise ConfigError(f"{what} must be a list; it is {value!r:.80}.")
        listed: list[Any] = [Case(case) if isinstance(case, str) else case for case in cases]
        self.evaluators = list(evaluators)
        for case in listed:
            if not isinstance(case, Case):
                raise ConfigError(f"cases must be a list of Case; one is {case!r:.80}.")
        self.cases: list[Case] = listed
        names = [case.name for case in self.cases]
        duplicate = next((known for known in names if names.count(known) > 1), None)
        if duplicate is not None or not names:
            raise ConfigError(
                "cases must not be empty."
                if not names
                else f"Two cases have the name {duplicate!r}. Set name=... for one of them."
            )
        for evaluator in (*self.evaluators, *(extra for case in self.cases for extra in case.evaluators)):
            if not callable(evaluator):
                raise ConfigError(f"An evaluator must be a function; it is {evaluator!r:.80}.")
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
        agent: Agent,
        *,
        repeats: int = 1,
        concurrency: int = 1,
        seed: int | None = None,
        on_outcome: Callable[[CaseOutcome], None] | None = None,
    ) -> EvaluationReport:
        """Run an agent on every case and evaluate the results.

        The method works in sync code, as `Agent.run` does.

        Args:
            agent: The agent.
            repeats: Number of trials per case.
            concurrency: Number of concurrent runs.
            seed: Sent with every request of the first repetition, `seed` + 1 with the next, and so on; None
                to send no seed. Servers may ignore the seed.
            on_outcome: Function called with each outcome as soon as it is evaluated.

        Raises:
            ConfigError: A number is invalid, or an evaluator cannot evaluate a case.
            LLMError: The next run would fail too: access denied, model not found, no credit, or no connection
                three times in a row.
            RunInterrupted: Ctrl-C was pressed; its ``result`` is the report so far.
        """
        checked_function("on_outcome", on_outcome, "outcome")
        known: list[CaseOutcome] = []

        def note(outcome: CaseOutcome) -> None:
            known.append(outcome)
            if on_outcome is not None:
                on_outcome(outcome)

        try:
            return run_sync(
                self.arun(agent, repeats=repeats, concurrency=concurrency, seed=seed, on_outcome=note)
            )
        except KeyboardInterrupt:
            raise RunInterrupted(EvaluationReport(self.name, [*known], {"unfinished": True})) from None

    async def arun(
        self,
        agent: Agent,
        *,
        repeats: int = 1,
        concurrency: int = 1,
        seed: int | None = None,
        on_outcome: Callable[[CaseOutcome], None] | None = None,
    ) -> EvaluationReport:
        """Run the evaluation from async code; see `run`."""
        self._check(agent, repeats, concurrency, seed)
        checked_function("on_outcome", on_outcome, "outcome")
        done: dict[tuple[int, int], CaseOutcome] = {}
        patience = FailureStreak()

        async def work(place: tuple[int, int]) -> None:
            number, repeat = place
            trial = await _tried(self.cases[number], agent, None if seed is None else seed + repeat)
            done[place] = outcome = await self._judged(trial, repeat + 1)
            if on_outcome is not None:
                on_outcome(outcome)
            failure = trial.result.state.failure
            patience.note(failure if isinstance(failure, LLMError) else None)

        places = [(number, repeat) for number in range(len(self.cases)) for repeat in range(repeats)]
        await in_parallel(places, work, concurrency)
        details = {"model": model_of(agent.llm), "agent": agent.config.name, "repeats": repeats, "seed": seed}
        return EvaluationReport(self.name, [done[place] for place in places], details)

    def _check(self, agent: Agent, repeats: int, concurrency: int, seed: int | None) -> None:
        if not isinstance(agent, Agent):
            raise ConfigError(f"agent must be an Agent; it is {agent!r:.80}.")
        numbers: dict[str, Any] = {"repeats": repeats, "concurrency": concurrency}
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}={value!r} must be a whole number, 1 or more.")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ConfigError(f"seed={seed!r} must be a whole number, or None.")
        for case in self.cases:
            for evaluator in (*self.evaluators, *case.evaluators):
                check = getattr(evaluator, "check", None)
                if callable(check):
                    check(case, agent)

    async def _judged(self, trial: Trial, repeat: int) -> CaseOutcome:
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
        )


async def _tried(case: Case, agent: Agent, seed: int | None) -> Trial:
    start = time.perf_counter()
    history = copy.deepcopy(list(case.messages)) or None
    settings: RunSettings = {} if seed is None else {"model_settings": {"seed": seed}}
    result = await agent.prepare(case.input, history, **settings).wait()
    return Trial(case, result, agent, time.perf_counter() - start)


async def _asked(evaluator: Evaluator, trial: Trial) -> Mapping[str, Any] | Exception:
    """Return an evaluator's result, or a failed one for an error, so that other results are kept."""
    call = getattr(evaluator, "__call__", evaluator)  # noqa: B004 - checks for an async `__call__`
    try:
        if inspect.iscoroutinefunction(evaluator) or inspect.iscoroutinefunction(call):
            result = await evaluator(trial)
        else:
            result = await run_in_thread(partial(evaluator, trial))  # the evaluator may block
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
            f"it returned {name!r}: {value!r:.80}; it must return a bool, a number or a dict of these"
        )


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number, unique = 1, name
    while unique in taken or unique in RESERVED:
        number += 1
        unique = f"{name}_{number}"
    return unique
