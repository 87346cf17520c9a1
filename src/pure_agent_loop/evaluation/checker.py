"""Right or wrong. For certain calls the leaderboard's own code decides, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.evaluation.bfcl import Question
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.support.child import ELSEWHERE, child_environment, script_argv
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from typing_extensions import Self

_CHILD = Path(__file__).with_name("checker_child.py")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a checker says.

    Args:
        right: Whether the answer is right.
        kind: What is wrong with it, in the leaderboard's words where its checker decided; else empty.
        detail: The same in a sentence.
    """

    right: bool
    kind: str = ""
    detail: str = ""


class Checker:
    """The leaderboard's checker. Use it as a context manager; it holds a process.

    Args:
        package: What `ensure_package` returned.

    Example:
        with Checker(package) as checker:
            verdict = checker.check(question, response.tool_calls)
    """

    def __init__(self, package: Path) -> None:
        self._child = subprocess.Popen(  # noqa: S603 - our own program
            script_argv(_CHILD, str(package.absolute())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=ELSEWHERE,
            env=child_environment(),
        )

    def check(self, question: Question, calls: Sequence[ToolCall]) -> Verdict:
        """Judge the calls a model made.

        Args:
            calls: The calls of the answer, in order.

        Raises:
            PureAgentLoopError: The checker's process ended.
        """
        if question.set.wanted == "no_call":
            return Verdict(True) if not calls else Verdict(False, "called", "A call, but none was wanted.")
        unusable = next((call.invalid for call in calls if call.invalid is not None), None)
        if unusable is not None:  # there are no arguments to check
            return Verdict(False, "invalid_arguments", unusable)
        if not calls:
            return Verdict(False, "no_call", "No call, but one was wanted.")
        if question.set.wanted == "any_call":
            return Verdict(True)
        return self._ask(question, calls)

    def close(self) -> None:
        """End the process."""
        self._child.__exit__(None, None, None)

    def _ask(self, question: Question, calls: Sequence[ToolCall]) -> Verdict:
        task = {
            "set": question.set.name,
            "language": question.set.language,
            "functions": question.functions,
            "answers": question.answers,
            "calls": [{call.name: to_jsonable(call.arguments)} for call in calls],
        }
        said = self._exchange(json.dumps(task))
        if said["valid"]:
            return Verdict(True)
        return Verdict(False, str(said["error_type"]) or "unclear", _sentence(said["error"]))

    def _exchange(self, line: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except (OSError, ValueError) as error:
            raise PureAgentLoopError(f"The checker's process is gone: {error}") from error
        if not answer:
            raise PureAgentLoopError("The checker's process ended; is the leaderboard's package complete?")
        verdict: dict[str, Any] = json.loads(answer)
        return verdict

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sentence(errors: Any) -> str:
    parts = errors if isinstance(errors, list) else [errors]
    return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts)
