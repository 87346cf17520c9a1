"""What an agent is asked in an evaluation, what came of it once, and where cases come from."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.events import EventType
from pure_agent_loop.llm.messages import to_wire
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import Past
from pure_agent_loop.support.text import as_text

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent, AgentResult

MOST_NAME_CHARS = 60
_TYPES: dict[str, type | tuple[type, ...]] = {
    "input": str,
    "name": str,
    "metadata": Mapping,
    "messages": (list, tuple),
    "evaluators": (list, tuple),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to ask.

    Args:
        input: The task.
        expected: What should come out, for evaluators that compare; None for nothing certain.
        name: Unique in its dataset, and the same in the next run; the beginning of `input` if empty.
        metadata: Anything of your own.
        messages: A history to go on from.
        evaluators: Those of this case alone, beside those of the dataset.

    Raises:
        ConfigError: A field is of another type.
    """

    input: str
    expected: Any = None
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[dict[str, Any]] = ()
    evaluators: Sequence[Evaluator] = ()

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"Case.{name} cannot be {getattr(self, name)!r:.80}.")
        if not self.name:
            object.__setattr__(self, "name", " ".join(self.input.split())[:MOST_NAME_CHARS])


@dataclass(frozen=True, slots=True)
class Trial:
    """A case that was run once: what evaluators look at.

    Args:
        case: What was asked.
        result: What the run gave back.
        agent: Who was asked.
        seconds: How long it took.
    """

    case: Case
    result: AgentResult
    agent: Agent
    seconds: float = 0.0

    @property
    def output(self) -> Any:
        """The typed output if the agent has one, else the answer."""
        return getattr(self.result, "output", self.result.content)

    @property
    def text(self) -> str:
        """The same as text."""
        return as_text(self.output)

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The tools that were called, in order, each with its arguments."""
        actions = (event.data for event in self.result.events if event.type is EventType.ACTION)
        return [(each["tool"], each["args"]) for each in actions]

    @property
    def tools(self) -> list[str]:
        """Their names."""
        return [name for name, _ in self.calls]


Evaluator = Callable[[Trial], Any]
_FIELDS = tuple(each.name for each in fields(Case))


def read_plain(path: Path) -> dict[str, Any]:
    """A file of cases as plain data: ``{"name", "cases", "evaluators"}``.

    Raises:
        ConfigError: It cannot be read, or is no such file.
        MissingExtraError: It is YAML, and the extra is not installed.
    """
    readers: dict[str, Callable[[str], Any]] = {
        ".yaml": _yaml,
        ".yml": _yaml,
        ".json": json.loads,
        ".jsonl": _lines,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path} is no file of cases: its name must end in {', '.join(_READERS)}.")
    try:
        found = reader(path.read_text(encoding="utf-8"))
    except MissingExtraError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"The cases in {path} cannot be read: {error}") from error
    plain = {"cases": found} if isinstance(found, list) else found
    if not isinstance(plain, dict) or not isinstance(plain.get("cases"), list):
        raise ConfigError(f"{path} must hold a list of cases, or a mapping with the key 'cases'.")
    _refuse_unknown(plain, ("name", "cases", "evaluators"), str(path))
    return {"name": path.stem, "evaluators": [], **plain}


def _yaml(text: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise MissingExtraError("A dataset in YAML (JSON needs nothing)", "eval") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line.strip()]


_READERS: dict[str, Callable[[str], Any]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": json.loads,
    ".jsonl": _lines,
}


def case_from(plain: Any, where: str, evaluators: Callable[[Any, str], Sequence[Evaluator]]) -> Case:
    """A case from its plain form: a mapping of its fields, or the input alone.

    Args:
        where: What to call it in messages.

    Raises:
        ConfigError: It is none.
    """
    given = {"input": plain} if isinstance(plain, str) else plain
    if not isinstance(given, dict) or "input" not in given:
        raise ConfigError(f"{where} must be a mapping with the key 'input'; it is {plain!r:.80}.")
    _refuse_unknown(given, _FIELDS, where)
    return Case(**{**given, "evaluators": evaluators(given.get("evaluators", []), where)})


def _refuse_unknown(given: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise ConfigError(f"{where} has the unknown field {unknown[0]!r}. There are: {', '.join(known)}.")


def cases_of(records: Sequence[Record], session_id: str) -> list[Case]:
    """The runs of a session as cases: each with what was said before it, and its answer as `expected`.

    Runs that did not come to an answer are left out.
    """
    cases: list[Case] = []
    past, task, before = Past(), "", list[dict[str, Any]]()
    for record in records:
        if record.type == "run" and isinstance(record.data.get("task"), str):
            task, before = record.data["task"], to_wire(past.messages or record.data.get("history") or [])
        past.take(record)
        if record.type == "state" and record.data.get("stop_reason") == "completed" and task:
            answer = "".join(map(str, record.data.get("answer") or ()))
            name = f"{session_id} {len(cases) + 1}"
            cases.append(Case(task, answer, name, {"session": session_id}, messages=before))
            task = ""
    return cases
