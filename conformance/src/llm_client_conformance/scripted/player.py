# Copied by scripts/share_testing.py from src/pure_agent_loop/testing/player.py.
"""Player of a script for models and servers: takes items in order and records problems."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any

from llm_client_conformance.scripted.gate import ScriptError
from llm_client_conformance.scripted.script import Fault, Stream, check_item
from llm_client_conformance.values import ConfigError


class Player:
    """Player of a script: returns the items in order, each once, to any number of threads.

    Args:
        script: The items, or one callable that answers every request.
        strict: True to fail if the script runs out or items are left. If False, the last item repeats.
    """

    def __init__(self, script: Iterable[object] | Callable[..., Any], *, strict: bool, faults: bool) -> None:
        if isinstance(script, str):
            raise ConfigError(f"script={script!r:.60} must be a list of items; write [{script!r:.60}].")
        self._always = script if callable(script) else None
        self._items: list[Any] = [] if callable(script) else list(script)
        self._strict = strict
        self._taken = 0
        self._lock = threading.Lock()
        self._problems: list[str] = []
        for number, item in enumerate(self._items):
            check_item(item, f"script[{number}]")
            if not faults:
                _refuse_faults(item, f"script[{number}]")

    @property
    def remaining(self) -> int:
        """Number of items not yet used."""
        return len(self._items) - self._taken

    @property
    def problems(self) -> list[str]:
        """Problems recorded so far; unused items are not included."""
        with self._lock:
            return list(self._problems)

    def note(self, problem: str) -> None:
        """Record a problem that must fail the test, unless it is already recorded."""
        with self._lock:
            if not any(problem in known for known in self._problems):
                self._problems.append(problem)

    async def next(self, *request: Any) -> Any:
        """Return the item for a request, or the result of a callable item.

        Raises:
            ScriptError: The script ran out.
            Exception: The exception of a callable.
        """
        item = self._take()
        try:
            while callable(item):
                item = item(*request)
                if inspect.isawaitable(item):
                    item = await item
        except AssertionError as error:  # a check that fails in a script must fail the test, not only the run
            self.note(f"a callable of the script failed: {error}")
            raise
        return item

    def _take(self) -> Any:
        if self._always is not None:
            return self._always
        with self._lock:
            self._taken += 1
            if self._taken <= len(self._items):
                return self._items[self._taken - 1]
            self._taken = len(self._items)
            if self._items and not self._strict:
                return self._items[-1]
            problem = f"The script ran out: it has {len(self._items)} item(s), but one more was requested."
            self._problems.append(problem)
        raise ScriptError(problem)

    def assert_done(self) -> None:
        """Fail on a recorded problem or, for a strict script, on unused items.

        Raises:
            ScriptError: The message lists all problems.
        """
        problems = self.problems
        if self._strict and self.remaining:
            rest = ", ".join(f"{item!r:.60}" for item in self._items[self._taken :][:3])
            problems.append(f"{self.remaining} of {len(self._items)} item(s) were never requested: {rest}")
        if problems:
            raise ScriptError("\n".join(problems))

    def leave(self, error: BaseException | None) -> None:
        """End a ``with`` block: fail as `assert_done` does, but never hide the error of the block.

        Raises:
            ScriptError: The block did not raise an error, but the script did not match.
        """
        if error is None:
            self.assert_done()
        elif self.problems and hasattr(error, "add_note"):
            error.add_note("Script problems: " + "; ".join(self.problems))


def _refuse_faults(item: Any, where: str) -> None:
    parts = item.parts if isinstance(item, Stream) else (item,)
    for part in parts:
        if isinstance(part, Fault):
            raise ConfigError(
                f"{where} holds {part!r:.80}: only ScriptedServer supports it. Use an exception instead."
            )
