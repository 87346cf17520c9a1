"""Ready-made evaluators. Each evaluator is called with a `Trial`; a custom function works too."""

from __future__ import annotations

import importlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.budget import price_for
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.evaluation.cases import Case, Evaluator, Trial
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.base import ChatModel, model_of
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.output.json_text import WRAPPER
from pure_agent_loop.runs.settings import kit_of
from pure_agent_loop.schema.build import JSONValidator
from pure_agent_loop.support.checks import is_number, require
from pure_agent_loop.support.language import model_text, notice, use_messages
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import as_text, to_jsonable

# A verdict with markup around it, as models write it; "PASS or FAIL" and "not PASS" do not match.
_VERDICT = re.compile(
    r"[*_`#>\"' -]*(?<![a-z])verdict[\W_]{1,12}(pass|fail)(?:ed)?(?![a-z])"
    r"(?!\W*(?:\bor\b)?\W*(?:pass|fail))[*_`\"'.]*",
    re.I,
)


@dataclass(frozen=True)
class Equals:
    """The output equals `value`, or the expected output. Spaces around texts are ignored.

    A typed output also equals its JSON form, which is the form in files and sessions.
    """

    value: Any = None

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - signature of all checks
        """Reject a case without an expected output."""
        _expected(self.value, case)

    def __call__(self, trial: Trial) -> bool:
        """Compare the output."""
        output, expected = trial.output, _expected(self.value, trial.case)
        if output == expected or (isinstance(output, str) and output.strip() == as_text(expected).strip()):
            return True
        return bool(to_jsonable(output) == _plain(expected))


@dataclass(frozen=True)
class Contains:
    """The answer contains one or several texts; the expected output by default."""

    text: str | Sequence[str] | None = None
    ignore_case: bool = True

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - signature of all checks
        """Reject a case without a string to search for."""
        self._wanted(case)

    def __call__(self, trial: Trial) -> bool:
        """Search for the texts."""
        return all(self._plain(text) in self._plain(trial.text) for text in self._wanted(trial.case))

    def _wanted(self, case: Case) -> list[str]:
        expected = _expected(self.text, case)
        texts = [as_text(item) for item in (expected if isinstance(expected, (list, tuple)) else [expected])]
        if not texts or not all(texts):
            raise ConfigError(notice("library.case_contains", name=case.name))
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
        """Validate the output."""
        try:
            is_text = isinstance(trial.output, str)
            self.validator()(read_json(trial.output) if is_text else trial.output)
        except ValueError as error:
            return {"schema": False, "schema_problem": " ".join(str(error).split())[:500]}
        return {"schema": True}

    def validator(self) -> Any:
        """Return a function that raises ValueError for an invalid value."""
        if not isinstance(self.schema, Mapping):
            from pydantic import TypeAdapter

            return JSONValidator(TypeAdapter(self.schema)).validate_python
        try:
            jsonschema = importlib.import_module("jsonschema")
        except ImportError as error:
            raise MissingExtraError(notice("library.feature_schema"), "eval") from error
        try:
            kind = jsonschema.validators.validator_for(self.schema)
            kind.check_schema(self.schema)
        except jsonschema.SchemaError as error:
            raise ConfigError(notice("library.not_a_schema", message=error.message)) from error

        def validate(value: Any) -> None:
            problem = next(kind(self.schema).iter_errors(value), None)
            if problem is not None:
                raise ValueError(f"{problem.json_path}: {problem.message}")

        return validate


@dataclass(frozen=True)
class CalledTools:
    """These tools were called in this order; other calls may be in between unless `exactly` is set."""

    tools: Sequence[str]
    exactly: bool = False

    def __post_init__(self) -> None:
        is_list = not isinstance(self.tools, str) and all(isinstance(name, str) for name in self.tools)
        require(is_list, "CalledTools.tools", self.tools, "a list of names")

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """Compare the calls of the run."""
        called = iter(trial.tools)
        in_order = list(self.tools) == trial.tools if self.exactly else all(n in called for n in self.tools)
        return {"called_tools": in_order, "called": ", ".join(trial.tools) or "none"}


@dataclass(frozen=True)
class MaxSteps:
    """The run took at most this number of steps."""

    most: int

    def __post_init__(self) -> None:
        require(is_number(self.most, zero=False), "MaxSteps", self.most, "a positive number")

    def __call__(self, trial: Trial) -> bool:
        """Compare the number of steps."""
        return trial.result.steps <= self.most


@dataclass(frozen=True)
class MaxCost:
    """The run cost at most this amount, in the currency of ``LoopLimits.max_cost``."""

    most: float

    def __post_init__(self) -> None:
        require(is_number(self.most, zero=False), "MaxCost", self.most, "a positive number")

    def check(self, case: Case, agent: Agent) -> None:  # noqa: ARG002 - signature of all checks
        """Reject an agent whose model has no known price."""
        model = model_of(agent.llm)
        if price_for(agent.config.limits.prices, model) is None and price_of(agent.llm) is None:
            raise ConfigError(notice("library.max_cost_prices", model=model))

    def __call__(self, trial: Trial) -> bool:
        """Compare the cost; an unknown cost fails."""
        return trial.result.cost is not None and trial.result.cost <= self.most


@dataclass(frozen=True)
class Judge:
    """A model judges whether the answer follows a rule.

    Args:
        rubric: The rule, in plain language.
        llm: The model that judges; None for the agent's model.
        name: The name of the score.
    """

    rubric: str
    llm: ChatModel | None = None
    name: str = "judge"

    def __post_init__(self) -> None:
        rubric: Any = self.rubric
        require(isinstance(rubric, str) and rubric.strip(), "Judge.rubric", rubric, "a string")

    async def __call__(self, trial: Trial) -> dict[str, Any]:
        """Ask the judge, and retry once if there is no verdict."""
        # The tag has a random mark, so that an answer cannot close it.
        words, mark = trial.agent.config.prompts, secrets.token_hex(4)
        with use_messages(words):
            system, retry = model_text("judge_system"), model_text("judge_again")
            task = model_text(
                "judge_task", rubric=self.rubric, task=trial.case.input, answer=trial.text, mark=mark
            )
            if trial.case.expected is not None:
                task += model_text("judge_expected", expected=as_text(trial.case.expected), mark=mark)
        judge = Agent(
            llm=self.llm or trial.agent.llm,
            system_prompt=system,
            temperature=0.0,
            prompts=words,
            redact=kit_of(trial.agent).redactor or True,
        )
        result = (await judge.arun(task)).raise_for_error()
        verdicts = _verdicts(result.content)
        if len(verdicts) != 1:
            result = (await judge.arun(retry, messages=result.messages)).raise_for_error()
            verdicts = _verdicts(result.content)
        if len(verdicts) != 1:
            raise PureAgentLoopError(notice("library.no_verdict", content=result.content))
        why = _VERDICT.sub("", result.content).strip()
        return {self.name: verdicts == {"PASS"}, f"{self.name}_reason": why}


def _verdicts(text: str) -> set[str]:
    """Return the different verdicts in a judge's answer, which counts only if there is exactly one."""
    return {verdict.upper() for verdict in _VERDICT.findall(text)}


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
    """Return the name of an evaluator's score."""
    name = _NAMES.get(type(evaluator)) or getattr(evaluator, "__name__", None)
    return str(name or type(evaluator).__name__)


def read_evaluators(entries: Any, where: str) -> list[Evaluator]:
    """Read evaluators as written in a file: ``equals``, or ``{"max_steps": 3}``.

    Raises:
        ConfigError: A name is unknown, or its arguments are invalid.
    """
    if not isinstance(entries, list):
        raise ConfigError(notice("library.evaluators_list", where=where, entries=entries))
    return [_read_evaluator(entry, where) for entry in entries]


def _read_evaluator(plain: Any, where: str) -> Evaluator:
    pair = {plain: None} if isinstance(plain, str) else plain
    name, value = (
        next(iter(pair.items())) if isinstance(pair, dict) and len(pair) == 1 else (str(plain), None)
    )
    if name not in BY_NAME:
        raise ConfigError(
            notice("library.unknown_evaluator", where=where, name=name, by_name=", ".join(BY_NAME))
        )
    try:
        if isinstance(value, dict) and name != "schema":
            evaluator: Evaluator = BY_NAME[name](**value)
        else:
            evaluator = BY_NAME[name]() if value is None else BY_NAME[name](value)
    except TypeError as error:
        raise ConfigError(
            notice("library.evaluator_arguments", where=where, name=name, error=error)
        ) from error
    return evaluator


def _expected(value: Any, case: Case) -> Any:
    expected = case.expected if value is None else value
    if expected is None:
        raise ConfigError(notice("library.case_expected", name=case.name))
    return expected


def _plain(expected: Any) -> Any:
    if not isinstance(expected, str):
        return to_jsonable(expected)
    try:
        parsed = loads_strictly(expected)
    except ValueError:
        return expected.strip()
    is_wrapped = isinstance(parsed, dict) and parsed.keys() == {
        WRAPPER
    }  # a session stores a list or a number in a wrapper
    return parsed[WRAPPER] if is_wrapped else parsed
