"""Ready-made evaluators. Each is called with a `Trial`; a function of one's own is as good."""

from __future__ import annotations

import importlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.budget import price_for
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.evaluation.cases import Case, Evaluator, Trial
from pure_agent_loop.evaluation.words import say
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.base import ChatModel, model_of
from pure_agent_loop.output.reading import WRAPPER
from pure_agent_loop.support.language import speaking
from pure_agent_loop.support.text import as_text, to_jsonable

_VERDICT = re.compile(r"VERDICT:\s*\**(PASS|FAIL)\b")


@dataclass(frozen=True)
class Equals:
    """The output is `value`, or what the case expects. Spaces around texts do not count.

    A typed output is also what it is as JSON, so that files and sessions can say it.
    """

    value: Any = None

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - the shape of all checks
        """Refuse a case with nothing to compare with."""
        _expected(self.value, case)

    def __call__(self, trial: Trial) -> bool:
        """Compare."""
        output, expected = trial.output, _expected(self.value, trial.case)
        if output == expected or (isinstance(output, str) and output.strip() == as_text(expected).strip()):
            return True
        return bool(to_jsonable(output) == _plain(expected))


@dataclass(frozen=True)
class Contains:
    """The answer has a text, or all of several, in it; what the case expects if none is given."""

    text: str | Sequence[str] | None = None
    ignore_case: bool = True

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - the shape of all checks
        """Refuse a case with nothing to look for."""
        self._wanted(case)

    def __call__(self, trial: Trial) -> bool:
        """Look for them."""
        return all(self._plain(each) in self._plain(trial.text) for each in self._wanted(trial.case))

    def _wanted(self, case: Case) -> list[str]:
        found = _expected(self.text, case)
        texts = [as_text(each) for each in (found if isinstance(found, (list, tuple)) else [found])]
        if not texts or not all(texts):
            raise ConfigError(f"Case {case.name!r}: Contains would find an empty text everywhere.")
        return texts

    def _plain(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


@dataclass(frozen=True)
class Schema:
    """The output fits a type, or a JSON Schema (which needs the extra ``[eval]``); texts are read as JSON."""

    schema: Any

    def __post_init__(self) -> None:
        self.validator()

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """Validate."""
        try:
            is_text = isinstance(trial.output, str)
            self.validator()(json.loads(trial.output) if is_text else trial.output)
        except ValueError as error:
            return {"schema": False, "schema_problem": " ".join(str(error).split())[:500]}
        return {"schema": True}

    def validator(self) -> Any:
        """A function that raises ValueError for a value that does not fit."""
        if not isinstance(self.schema, Mapping):
            from pydantic import TypeAdapter

            return TypeAdapter(self.schema).validate_python
        try:
            jsonschema = importlib.import_module("jsonschema")
        except ImportError as error:
            raise MissingExtraError("A JSON Schema (a Python type needs nothing)", "eval") from error
        try:
            kind = jsonschema.validators.validator_for(self.schema)
            kind.check_schema(self.schema)
        except jsonschema.SchemaError as error:
            raise ConfigError(f"schema is no JSON Schema: {error.message}") from error

        def validate(value: Any) -> None:
            wrong = next(kind(self.schema).iter_errors(value), None)
            if wrong is not None:
                raise ValueError(f"{wrong.json_path}: {wrong.message}")

        return validate


@dataclass(frozen=True)
class CalledTools:
    """These tools were called in this order; others may be between them, unless `exactly`."""

    tools: Sequence[str]
    exactly: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.tools, str) or not all(isinstance(each, str) for each in self.tools):
            raise ConfigError(f"CalledTools.tools must be a list of names; it is {self.tools!r:.80}.")

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """Compare with the calls of the run."""
        called = iter(trial.tools)
        in_order = list(self.tools) == trial.tools if self.exactly else all(n in called for n in self.tools)
        return {"called_tools": in_order, "called": ", ".join(trial.tools) or "none"}


@dataclass(frozen=True)
class MaxSteps:
    """The run took at most so many steps."""

    most: int

    def __post_init__(self) -> None:
        _check_positive("MaxSteps", self.most)

    def __call__(self, trial: Trial) -> bool:
        """Compare."""
        return trial.result.steps <= self.most


@dataclass(frozen=True)
class MaxCost:
    """The run cost at most so much, in the currency of the agent's ``LoopLimits.prices``."""

    most: float

    def __post_init__(self) -> None:
        _check_positive("MaxCost", self.most)

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - the shape of all checks
        """Refuse an agent of which nobody knows what it costs."""
        if price_for(agent._kit.limits.prices, model_of(agent.llm)) is None:  # the two are one package
            raise ConfigError(
                f"MaxCost: limits.prices of the agent has no price for the model {model_of(agent.llm)!r}."
            )

    def __call__(self, trial: Trial) -> bool:
        """Compare."""
        return trial.result.cost <= self.most


@dataclass(frozen=True)
class Judge:
    """A model says whether the answer keeps a rule.

    Args:
        rubric: The rule, as one would say it to a person.
        llm: The model that judges; the one of the agent if None.
        name: What the score is called.
    """

    rubric: str
    llm: ChatModel | None = None
    name: str = "judge"

    def __post_init__(self) -> None:
        rubric: object = self.rubric
        if not isinstance(rubric, str) or not rubric.strip():
            raise ConfigError(f"Judge.rubric must be a text; it is {self.rubric!r:.80}.")

    async def __call__(self, trial: Trial) -> dict[str, Any]:
        """Ask, and once more if there was no verdict."""
        words, mark = trial.agent._kit.prompts, secrets.token_hex(4)  # a mark that no answer can close
        with speaking(words):
            system, again = say("judge_system"), say("judge_again")
            task = say("judge_task", rubric=self.rubric, task=trial.case.input, answer=trial.text, mark=mark)
            if trial.case.expected is not None:
                task += say("judge_expected", expected=as_text(trial.case.expected), mark=mark)
        judge = Agent(llm=self.llm or trial.agent.llm, system_prompt=system, temperature=0.0, prompts=words)
        result = (await judge.arun(task)).raise_for_error()
        found = _VERDICT.findall(result.content)
        if not found:
            result = (await judge.arun(again, messages=result.messages)).raise_for_error()
            found = _VERDICT.findall(result.content)
        if not found:
            raise PureAgentLoopError(f"The judge gave no verdict: {result.content!r:.200}")
        why = _VERDICT.sub("", result.content).strip()
        return {self.name: found[-1] == "PASS", f"{self.name}_reason": why}


BY_NAME: dict[str, Any] = {
    "equals": Equals,
    "contains": Contains,
    "schema": Schema,
    "called_tools": CalledTools,
    "max_steps": MaxSteps,
    "max_cost": MaxCost,
    "judge": Judge,
}
_NAMES = {kind: name for name, kind in BY_NAME.items()}


def name_of(evaluator: Evaluator) -> str:
    """What its score is called."""
    found = _NAMES.get(type(evaluator)) or getattr(evaluator, "__name__", None)
    return str(found or type(evaluator).__name__)


def read_evaluators(given: Any, where: str) -> list[Evaluator]:
    """Evaluators as a file names them: ``equals``, or ``{"max_steps": 3}``.

    Raises:
        ConfigError: There is none of that name, or it cannot be made of what is given.
    """
    if not isinstance(given, list):
        raise ConfigError(f"{where}: evaluators must be a list; it is {given!r:.80}.")
    return [_read_evaluator(each, where) for each in given]


def _read_evaluator(plain: Any, where: str) -> Evaluator:
    pair = {plain: None} if isinstance(plain, str) else plain
    name, value = (
        next(iter(pair.items())) if isinstance(pair, dict) and len(pair) == 1 else (str(plain), None)
    )
    if name not in BY_NAME:
        raise ConfigError(f"{where}: there is no evaluator {name!r:.80}. There are: {', '.join(BY_NAME)}.")
    try:
        if isinstance(value, dict) and name != "schema":
            found: Evaluator = BY_NAME[name](**value)
        else:
            found = BY_NAME[name]() if value is None else BY_NAME[name](value)
    except TypeError as error:
        raise ConfigError(f"{where}: the evaluator {name!r} cannot be made: {error}") from error
    return found


def _expected(value: Any, case: Case) -> Any:
    found = case.expected if value is None else value
    if found is None:
        raise ConfigError(f"Case {case.name!r} expects nothing, and an evaluator compares with that.")
    return found


def _plain(expected: Any) -> Any:
    if not isinstance(expected, str):
        return to_jsonable(expected)
    try:
        found = loads_strictly(expected)
    except (ValueError, RecursionError):
        return expected.strip()
    is_wrapped = isinstance(found, dict) and found.keys() == {
        WRAPPER
    }  # as a session keeps a list or a number
    return found[WRAPPER] if is_wrapped else found


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{name} must be a positive number; it is {value!r:.80}.")
