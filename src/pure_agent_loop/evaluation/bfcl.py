"""The public questions of the Berkeley Function Calling Leaderboard: its single-turn sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.evaluation.conversion import to_tool

Wanted = Literal["calls", "no_call", "any_call"]


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """One set of questions.

    Args:
        name: As the leaderboard calls it.
        wanted: What is right: certain calls, no call at all, or any call.
        language: Whose types the function docs use.
    """

    name: str
    wanted: Wanted = "calls"
    language: str = "python"


_STANDARD = (
    QuestionSet("simple_python"),
    QuestionSet("multiple"),
    QuestionSet("parallel"),
    QuestionSet("parallel_multiple"),
    QuestionSet("irrelevance", "no_call"),
)
_OTHER_LANGUAGES = (
    QuestionSet("simple_java", language="java"),
    QuestionSet("simple_javascript", language="javascript"),
)
_LIVE = (
    QuestionSet("live_simple"),
    QuestionSet("live_multiple"),
    QuestionSet("live_parallel"),
    QuestionSet("live_parallel_multiple"),
    QuestionSet("live_irrelevance", "no_call"),
    QuestionSet("live_relevance", "any_call"),
)
SETS = {each.name: each for each in (*_STANDARD, *_OTHER_LANGUAGES, *_LIVE)}
GROUPS: dict[str, tuple[str, ...]] = {
    "standard": tuple(each.name for each in _STANDARD),
    "other_languages": tuple(each.name for each in _OTHER_LANGUAGES),
    "live": tuple(each.name for each in _LIVE),
    "all": tuple(SETS),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Args:
        id: Unique over all sets.
        set: Where it belongs.
        messages: The conversation to answer.
        functions: The function docs as the leaderboard wrote them; its checker needs them.
        tools: The same as tool schemas.
        answers: The calls that are right, each argument with all its right values; empty where no
            certain call is wanted.
    """

    id: str
    set: QuestionSet
    messages: list[dict[str, Any]]
    functions: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    answers: list[dict[str, Any]]


def set_names(wanted: Iterable[str]) -> list[str]:
    """Names of sets, with groups spelled out and doubles left out.

    Args:
        wanted: Names of sets or of groups.

    Raises:
        ConfigError: There is no set of that name, or none is named.
    """
    names: list[str] = []
    for name in wanted:
        if name not in SETS and name not in GROUPS:
            raise ConfigError(
                f"There is no set {name!r}. Sets: {', '.join(SETS)}. Groups: {', '.join(GROUPS)}."
            )
        names += GROUPS.get(name, (name,))
    if not names:
        raise ConfigError("No set is named.")
    return list(dict.fromkeys(names))


def load_questions(package: Path, name: str) -> list[Question]:
    """All questions of one set, in the leaderboard's order.

    Args:
        package: What `ensure_package` returned.
    """
    which, file = SETS[name], f"BFCL_v4_{name}.json"
    data = package / "bfcl_eval" / "data"
    answers: dict[str, Any] = {}
    if which.wanted == "calls":
        answers = {line["id"]: line["ground_truth"] for line in _read(data / "possible_answer" / file)}
    return [_question(which, line, answers.get(line["id"], [])) for line in _read(data / file)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _question(which: QuestionSet, line: dict[str, Any], answers: list[dict[str, Any]]) -> Question:
    functions: list[dict[str, Any]] = line["function"]
    tools = [to_tool(function, which.language) for function in functions]
    return Question(line["id"], which, line["question"][0], functions, tools, answers)


def pick(questions: Sequence[Question], limit: int | None, seed: int | None) -> list[Question]:
    """A fixed part of the questions, in their own order.

    A larger limit adds questions and drops none, on every machine and Python version.

    Args:
        limit: How many; None for all.
        seed: Decides which ones; None for the first ones.
    """
    if limit is None or limit >= len(questions):
        return list(questions)
    if seed is None:
        return list(questions[:limit])

    def place(question: Question) -> str:
        return hashlib.sha256(f"{seed}:{question.id}".encode()).hexdigest()

    chosen = {question.id for question in sorted(questions, key=place)[:limit]}
    return [question for question in questions if question.id in chosen]
