"""Cases and evaluators, and an agent that is put to them."""

from __future__ import annotations

import copy
import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.evaluation.cases import Case, Evaluator, Trial, case_from, cases_of, read_plain
from pure_agent_loop.evaluation.evaluators import name_of, read_evaluators
from pure_agent_loop.evaluation.report import RESERVED, Outcome, Report
from pure_agent_loop.evaluation.runner import Patience, in_parallel
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.session import SessionManager
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.text import safe_str, to_jsonable
from pure_agent_loop.support.threads import Raised, run_in_thread

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore


class Dataset:
    """Cases, and what must be true of the answers.

        dataset = Dataset([Case("2 + 3?", expected="5")], [Contains(), MaxSteps(2)])
        print(dataset.run(agent))

    Args:
        cases: What to ask; a text stands for a case that expects nothing.
        evaluators: Called with the `Trial` of every case. Each gives True or False, a number (more is
            better; it is measured and fails nothing), or a dict of these by name, in which texts are notes.
        name: For the report.

    Raises:
        ConfigError: There are no cases, two have one name, or something is none.
    """

    def __init__(
        self, cases: Iterable[Case | str], evaluators: Iterable[Evaluator] = (), *, name: str = "dataset"
    ) -> None:
        self.name = name
        for what, value in (("cases", cases), ("evaluators", evaluators)):
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                raise ConfigError(f"{what} must be a list; it is {value!r:.80}.")
        given: list[Any] = [Case(each) if isinstance(each, str) else each for each in cases]
        self.evaluators = list(evaluators)
        for each in given:
            if not isinstance(each, Case):
                raise ConfigError(f"cases must be a list of Case; one is {each!r:.80}.")
        self.cases: list[Case] = given
        names = [each.name for each in self.cases]
        double = next((each for each in names if names.count(each) > 1), None)
        if double is not None or not names:
            raise ConfigError(
                "There are no cases." if not names else f"Two cases have the name {double!r}: give name=..."
            )
        for each in (*self.evaluators, *(one for case in self.cases for one in case.evaluators)):
            if not callable(each):
                raise ConfigError(f"An evaluator must be a function; it is {each!r:.80}.")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], evaluators: Iterable[Evaluator] = ()) -> Dataset:
        """Read a dataset from YAML (extra ``[eval]``), JSON, or JSON lines with a case each.

        Args:
            path: The file.
            evaluators: More of them, beside those that it names.

        Raises:
            ConfigError: It cannot be read, or something in it is not known.
            MissingExtraError: It is YAML, and the extra is not installed.
        """
        where = os.fspath(path)
        plain = read_plain(Path(path))
        cases = [
            case_from(each, f"{where}: case {number}", read_evaluators)
            for number, each in enumerate(plain["cases"], 1)
        ]
        return cls(cases, [*read_evaluators(plain["evaluators"], where), *evaluators], name=plain["name"])

    @classmethod
    def from_session(
        cls,
        session_id: str,
        evaluators: Iterable[Evaluator] = (),
        sessions: str | os.PathLike[str] | SessionStore | None = None,
    ) -> Dataset:
        """Make a case of each run of a recorded session: its task, its history, and its answer as expected.

        Args:
            session_id: Which one.
            evaluators: What must be true of the new answers.
            sessions: Where it is kept; see `SessionManager`.

        Raises:
            ConfigError: No run in it came to an answer.
            SessionError: It is not there, or cannot be read.
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
        on_outcome: Callable[[Outcome], None] | None = None,
    ) -> Report:
        """Put an agent to every case and judge what it did. Works in sync code, as `Agent.run` does.

        Args:
            agent: Who is asked.
            repeats: How often each case is asked.
            concurrency: How many runs go on at a time.
            seed: Sent with every request of the first repetition, `seed` + 1 with the next, and so on; None
                for none. What a server makes of it is its affair.
            on_outcome: Told of each trial as soon as it is judged.

        Raises:
            ConfigError: A number cannot be used, or an evaluator cannot judge a case.
            LLMError: The next run would fail too: no access, no such model, no money, or no server three
                times in a row.
        """
        return run_sync(
            self.arun(agent, repeats=repeats, concurrency=concurrency, seed=seed, on_outcome=on_outcome)
        )

    async def arun(
        self,
        agent: Agent,
        *,
        repeats: int = 1,
        concurrency: int = 1,
        seed: int | None = None,
        on_outcome: Callable[[Outcome], None] | None = None,
    ) -> Report:
        """The same from async code; see `run`."""
        self._check(agent, repeats, concurrency, seed)
        done: dict[tuple[int, int], Outcome] = {}
        patience = Patience()

        async def work(place: tuple[int, int]) -> None:
            number, repeat = place
            asked = agent if seed is None else _seeded(agent, seed + repeat)
            trial = await _tried(self.cases[number], asked)
            done[place] = outcome = await self._judged(trial, repeat + 1)
            if on_outcome is not None:
                on_outcome(outcome)
            failure = trial.result.state.failure
            patience.note(failure if isinstance(failure, LLMError) else None)

        places = [(number, repeat) for number in range(len(self.cases)) for repeat in range(repeats)]
        await in_parallel(places, work, concurrency)
        about = {"model": model_of(agent.llm), "agent": agent._kit.name, "repeats": repeats, "seed": seed}
        return Report(self.name, [done[place] for place in places], about)

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
            for each in (*self.evaluators, *case.evaluators):
                check = getattr(each, "check", None)
                if callable(check):
                    check(case, agent)

    async def _judged(self, trial: Trial, repeat: int) -> Outcome:
        scores, notes, errors = dict[str, Any](), dict[str, str](), list[str]()
        for each in (*self.evaluators, *trial.case.evaluators):
            found = await _asked(each, trial)
            if isinstance(found, Exception):
                errors.append(f"{name_of(each)} failed: {type(found).__name__}: {safe_str(found)}")
                continue
            for name, value in found.items():
                target: dict[str, Any] = notes if isinstance(value, str) else scores
                target[_free(name, target)] = value
        result = trial.result
        ended = STOP_REASONS[result.stop_reason].kind == "done"
        return Outcome(
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
        )


async def _tried(case: Case, agent: Agent) -> Trial:
    began = time.perf_counter()
    history = copy.deepcopy(list(case.messages)) or None
    result = await agent.prepare(case.input, history).wait()
    return Trial(case, result, agent, time.perf_counter() - began)


async def _asked(evaluator: Evaluator, trial: Trial) -> Mapping[str, Any] | Exception:
    """What it says; or its failure, for hours of work must not be lost for one function."""
    call = getattr(evaluator, "__call__", evaluator)  # noqa: B004 - to see whether it is async
    try:
        if inspect.iscoroutinefunction(evaluator) or inspect.iscoroutinefunction(call):
            found = await evaluator(trial)
        else:
            found = await run_in_thread(partial(evaluator, trial))  # it may block
            if isinstance(found, Raised):
                return found.error if isinstance(found.error, Exception) else RuntimeError(str(found.error))
            found = await found if inspect.isawaitable(found) else found
        plain = found if isinstance(found, Mapping) else {name_of(evaluator): found}
        for name, value in plain.items():
            _check_score(name, value)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    return plain


def _check_score(name: Any, value: Any) -> None:
    fits = isinstance(value, (bool, str)) or (isinstance(value, (int, float)) and math.isfinite(value))
    if not isinstance(name, str) or not fits:
        raise TypeError(f"it gave {name!r}: {value!r:.80}; a bool, a number or a dict of them is wanted")


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number, found = 1, name
    while found in taken or found in RESERVED:
        number += 1
        found = f"{name}_{number}"
    return found


def _seeded(agent: Agent, seed: int) -> Agent:
    """The same agent with another seed in each of its requests."""
    other = copy.copy(agent)
    other._kit = replace(agent._kit, options={**agent._kit.options, "seed": seed})
    return other
