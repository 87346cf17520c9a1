"""Checker of answers. Specific calls are checked by the leaderboard's code in a separate process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bfcl.questions import LeaderboardQuestion
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment, script_argv
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from typing_extensions import Self

_CHILD = Path(__file__).with_name("checker_child.py")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """CheckResult of a checker.

    Args:
        right: Whether the answer is right.
        kind: Kind of error, as named by the leaderboard's checker; else empty.
        detail: The error as a sentence.
    """

    right: bool
    kind: str = ""
    detail: str = ""


class Checker:
    """Leaderboard's checker in a child process. Use it as a context manager.

    Args:
        package: The folder from `ensure_package`.

    Example:
        with Checker(package) as checker:
            verdict = checker.check(question, response.tool_calls)
    """

    def __init__(self, package: Path) -> None:
        self._child = subprocess.Popen(
            script_argv(_CHILD, str(package.absolute())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=NEUTRAL_DIR,
            env=child_environment(),
        )

    def check(self, question: LeaderboardQuestion, calls: Sequence[ToolCall]) -> CheckResult:
        """Check the calls of a model.

        Args:
            calls: The calls of the answer, in order.

        Raises:
            PureAgentLoopError: The checker's process ended.
        """
        if question.set.wanted == "no_call":
            return (
                CheckResult(True)
                if not calls
                else CheckResult(False, "called", "A call was made, but none was expected.")
            )
        unusable = next((call.invalid for call in calls if call.invalid is not None), None)
        if unusable is not None:  # no arguments to check
            return CheckResult(False, "invalid_arguments", unusable)
        if not calls:
            return CheckResult(False, "no_call", "No call was made, but one was expected.")
        if question.set.wanted == "any_call":
            return CheckResult(True)
        return self._ask(question, calls)

    def close(self) -> None:
        """End the process."""
        self._child.__exit__(None, None, None)

    def _ask(self, question: LeaderboardQuestion, calls: Sequence[ToolCall]) -> CheckResult:
        task = {
            "set": question.set.name,
            "language": question.set.language,
            "functions": question.functions,
            "answers": question.answers,
            "calls": [{call.name: to_jsonable(call.arguments)} for call in calls],
        }
        reply = self._exchange(json.dumps(task))
        if reply["valid"]:
            return CheckResult(True)
        return CheckResult(False, str(reply["error_type"]) or "unclear", _sentence(reply["error"]))

    def _exchange(self, line: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except (OSError, ValueError) as error:
            raise PureAgentLoopError(f"The checker's process ended: {error}") from error
        if not answer:
            raise PureAgentLoopError(
                "The checker's process ended. Check that the leaderboard's package is complete."
            )
        verdict: dict[str, Any] = json.loads(answer)
        return verdict

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sentence(errors: Any) -> str:
    parts = errors if isinstance(errors, list) else [errors]
    return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts)
