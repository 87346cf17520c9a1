"""Public questions of the Berkeley Function Calling Leaderboard: its single-turn sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.bfcl.conversion import to_tool
from pure_agent_loop.errors import ConfigError

Wanted = Literal["calls", "no_call", "any_call"]


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set of questions.

    Args:
        name: Its name in the leaderboard.
        wanted: The right answer: specific calls, no call, or any call.
        language: Language of the types in the function docs.
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
SETS = {question_set.name: question_set for question_set in (*_STANDARD, *_OTHER_LANGUAGES, *_LIVE)}
GROUPS: dict[str, tuple[str, ...]] = {
    "standard": tuple(question_set.name for question_set in _STANDARD),
    "other_languages": tuple(question_set.name for question_set in _OTHER_LANGUAGES),
    "live": tuple(question_set.name for question_set in _LIVE),
    "all": tuple(SETS),
}


@dataclass(frozen=True, slots=True)
class LeaderboardQuestion:
    """A question of a set.

    Args:
        id: Unique over all sets.
        set: Its set.
        messages: The conversation to answer.
        functions: The leaderboard's original function docs, for its checker.
        tools: The functions as tool schemas.
        answers: The calls that are right, each argument with all its right values; empty if no
            specific call is expected.
    """

    id: str
    set: QuestionSet
    messages: list[dict[str, Any]]
    functions: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    answers: list[dict[str, Any]]


def set_names(wanted: Iterable[str]) -> list[str]:
    """Return names of sets, with groups expanded and duplicates removed.

    Args:
        wanted: Names of sets or of groups.

    Raises:
        ConfigError: A name is unknown, or the list is empty.
    """
    names: list[str] = []
    for name in wanted:
        if name not in SETS and name not in GROUPS:
            raise ConfigError(f"Unknown set {name!r}. Sets: {', '.join(SETS)}. Groups: {', '.join(GROUPS)}.")
        names += GROUPS.get(name, (name,))
    if not names:
        raise ConfigError("sets must name at least one set.")
    return list(dict.fromkeys(names))


def load_questions(package: Path, name: str) -> list[LeaderboardQuestion]:
    """Return all questions of one set, in the leaderboard's order.

    Args:
        package: The folder from `ensure_package`.
    """
    which, file = SETS[name], f"BFCL_v4_{name}.json"
    data = package / "bfcl_eval" / "data"
    answers: dict[str, Any] = {}
    if which.wanted == "calls":
        answers = {line["id"]: line["ground_truth"] for line in _read(data / "possible_answer" / file)}
    return [_question(which, line, answers.get(line["id"], [])) for line in _read(data / file)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _question(which: QuestionSet, line: dict[str, Any], answers: list[dict[str, Any]]) -> LeaderboardQuestion:
    functions: list[dict[str, Any]] = line["function"]
    tools = [to_tool(function, which.language) for function in functions]
    return LeaderboardQuestion(line["id"], which, line["question"][0], functions, tools, answers)


def pick(
    questions: Sequence[LeaderboardQuestion], limit: int | None, seed: int | None
) -> list[LeaderboardQuestion]:
    """Return a reproducible sample of the questions, in their original order.

    A larger limit adds questions and drops none, on every machine and Python version.

    Args:
        limit: Number of questions; None for all.
        seed: Seed of the sample; None for the first questions.
    """
    if limit is None or limit >= len(questions):
        return list(questions)
    if seed is None:
        return list(questions[:limit])

    def place(question: LeaderboardQuestion) -> str:
        return hashlib.sha256(f"{seed}:{question.id}".encode()).hexdigest()

    chosen = {question.id for question in sorted(questions, key=place)[:limit]}
    return [question for question in questions if question.id in chosen]
