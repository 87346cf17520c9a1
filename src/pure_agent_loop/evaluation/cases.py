"""Cases of an evaluation, their trials, and readers of case files and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.events import EventType
from pure_agent_loop.llm.messages import to_keep
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.transcript import ResumePoint
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import module_of_extra
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import as_text

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent, AgentResult

MAX_NAME_CHARS = 60
_TYPES: dict[str, type | tuple[type, ...]] = {
    "input": str,
    "name": str,
    "metadata": Mapping,
    "messages": (list, tuple),
    "evaluators": (list, tuple),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A task of an evaluation.

    Args:
        input: The task.
        expected: Expected output, for evaluators that compare; None if there is none.
        name: Name, unique in the dataset and the same in every evaluation; the beginning of `input` if empty.
        metadata: Custom values, not used by the evaluation.
        messages: A history to continue.
        evaluators: Evaluators of this case only, in addition to the dataset's.

    Raises:
        ConfigError: A field has the wrong type.
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
                raise ConfigError(notice("library.case_value", name=name, value=getattr(self, name)))
        if not self.name:
            object.__setattr__(self, "name", " ".join(self.input.split())[:MAX_NAME_CHARS])


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a case, as evaluators receive it.

    Args:
        case: The case.
        result: The result of the run.
        agent: The agent.
        seconds: Duration in seconds.
    """

    case: Case
    result: AgentResult
    agent: Agent
    seconds: float = 0.0

    @property
    def output(self) -> Any:
        """Typed output if the agent has one, else the answer."""
        return getattr(self.result, "output", self.result.content)

    @property
    def text(self) -> str:
        """Output as text."""
        return as_text(self.output)

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Called tools in order, each with the arguments of the call."""
        actions = (event.data for event in self.result.events if event.type is EventType.ACTION)
        return [(action["tool"], action["args"]) for action in actions]

    @property
    def tools(self) -> list[str]:
        """Names of the called tools."""
        return [name for name, _ in self.calls]


Evaluator = Callable[[Trial], Any]
_FIELDS = tuple(field_.name for field_ in fields(Case))


def read_plain(path: Path) -> dict[str, Any]:
    """Read a file of cases as plain data: ``{"name", "cases", "evaluators"}``.

    Raises:
        ConfigError: The file cannot be read, or is not a file of cases.
        MissingExtraError: The file is YAML, and the extra is not installed.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(notice("library.cases_file", path=path, readers=", ".join(_READERS)))
    try:
        content = reader(path.read_text(encoding="utf-8"))
    except MissingExtraError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(notice("library.cases_unreadable", path=path, error=error)) from error
    plain = {"cases": content} if isinstance(content, list) else content
    if not isinstance(plain, dict) or not isinstance(plain.get("cases"), list):
        raise ConfigError(notice("library.cases_list", path=path))
    _refuse_unknown(plain, ("name", "cases", "evaluators"), str(path))
    return {"name": path.stem, "evaluators": [], **plain}


def _yaml(text: str) -> Any:
    yaml = module_of_extra("yaml", notice("library.feature_yaml"), "eval")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _lines(text: str) -> list[Any]:
    return [read_json(line) for line in text.split("\n") if line.strip()]


_READERS: dict[str, Callable[[str], Any]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": read_json,
    ".jsonl": _lines,
}


def case_from(plain: Any, where: str, evaluators: Callable[[Any, str], Sequence[Evaluator]]) -> Case:
    """Make a case from the plain form: a mapping of fields, or only the input.

    Raises:
        ConfigError: The value is not a case.
    """
    table = {"input": plain} if isinstance(plain, str) else plain
    if not isinstance(table, dict) or "input" not in table:
        raise ConfigError(notice("library.case_input", where=where, plain=plain))
    _refuse_unknown(table, _FIELDS, where)
    return Case(**{**table, "evaluators": evaluators(table.get("evaluators", []), where)})


def _refuse_unknown(table: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    if unknown := [str(name) for name in table if name not in known]:
        raise ConfigError(
            notice("library.case_field", where=where, unknown=unknown[0], known=", ".join(known))
        )


def cases_of(records: Sequence[Record], session_id: str) -> list[Case]:
    """Return the runs of a session as cases, each with its history, and its answer as `expected`.

    Runs without an answer are omitted.
    """
    cases: list[Case] = []
    point, task, before = ResumePoint(), "", list[dict[str, Any]]()
    for record in records:
        if record.type == "run" and isinstance(record.data.get("task"), str):
            task, before = record.data["task"], to_keep(point.messages or record.data.get("history") or [])
        point.take(record)
        if record.type == "state" and record.data.get("stop_reason") == "completed" and task:
            answer = "".join(map(str, record.data.get("answer") or ()))
            name = f"{session_id} {len(cases) + 1}"
            cases.append(Case(task, answer, name, {"session": session_id}, messages=before))
            task = ""
    return cases
