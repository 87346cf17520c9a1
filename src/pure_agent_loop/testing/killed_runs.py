"""Runs of an agent whose process is killed at one of the journal's writes, and checks of their results."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.sessions.store import SessionStore
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.testing.gate import ScriptError
from pure_agent_loop.testing.history import check_history
from pure_agent_loop.testing.killed_work import (
    CALLS,
    DONE,
    KILL,
    TASK,
    UNKNOWN,
    Call,
    WorkVersion,
    check_calls,
    file_mark,
    told,
)

MakeJournal = Callable[[Path], "Journal | SessionStore"]

MOMENTS = ("before", "during", "after")
_WRITES = ("effect", "take", "checkpoint", "append")


class KilledRuns:
    """Creates runs, each with a folder and a journal from a factory.

    Args:
        make: Factory of the journals.
        root: Folder in which each run gets its own folder.
    """

    def __init__(self, make: MakeJournal, root: Path) -> None:
        self.make, self.root, self.kills, self.count = make, root, 0, 0

    def case(self, **about: Any) -> KilledRun:
        """Return a new run."""
        self.count += 1
        folder = self.root / f"{self.root.name}-{self.count}"
        folder.mkdir()
        return KilledRun(self, folder, about)


class KilledRun:
    """One run, which continues in a new process after each kill.

    Args:
        about: Description of the run for messages.
    """

    def __init__(self, contract: KilledRuns, folder: Path, about: Mapping[str, Any]) -> None:
        self._contract, self._folder, self._about = contract, folder, about
        self._marks, self._result = folder / "marks", folder / "result"

    @property
    def marks(self) -> list[str]:
        """The lines that tools and the person wrote in all processes."""
        return self._marks.read_text().splitlines() if self._marks.exists() else []

    @property
    def result(self) -> dict[str, Any]:
        """The result from the latest process that was not killed."""
        found: dict[str, Any] = json.loads(self._result.read_text())
        return found

    def attempt(self, work: WorkVersion, kill: Kill | None = None) -> bool:
        """Run the agent in a child process; return True unless the child was killed."""
        if sys.platform == "win32":
            raise ScriptError("This system cannot fork.")
        pid = os.fork()
        if not pid:
            code = 1
            try:
                self._run(work, kill or Kill(0))
                code = 0
            except BaseException as error:  # noqa: BLE001 - told to the parent by the exit code
                sys.stderr.write(f"{self._about}: {type(error).__name__}: {error}\n")
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code not in (0, -KILL):
            raise ScriptError(f"{self._about}: an attempt ended with exit code {code}")
        self._contract.kills += code != 0
        return code == 0

    def _run(self, work: WorkVersion, kill: Kill) -> None:
        mark = file_mark(str(self._marks))
        agent, journal = work.agent(kill.watch(mark)), self._contract.make(self._folder)
        watched: Any = _Watched(journal, kill, mark)
        if as_protocol(journal, Journal) is not None:
            result = agent.run(TASK, journal=watched)
        else:
            name, is_begun = self._folder.name, False
            with contextlib.suppress(SessionNotFoundError):
                is_begun = any(record.type == "run" for record in watched.read(name).records)
            task = None if is_begun else TASK
            options: dict[str, Any] = {"session_id": name, "sessions": watched}
            result = agent.run(task, **options)
        found = {"messages": result.messages, "content": result.content, "reason": result.stop_reason}
        asked = [(question.tool, question.args["n"]) for question in result.questions]
        self._result.write_text(json.dumps({**found, "asked": asked, "error": result.error}))

    def check(self, calls: Sequence[Call] = CALLS) -> list[str]:
        """Return the problems of the finished run."""
        found = self.result
        if (found["content"], found["reason"]) != (DONE, "completed"):
            return [
                f"{self._about}: the run ended with {found['reason']}: {found['content'] or found['error']}"
            ]
        texts = told(found["messages"])
        wrong = check_history(found["messages"]) + check_calls(texts, self.marks)[1]
        kept = {each.partition(" ")[2] for each in self.marks if each.startswith("kept ")}
        lost = [f"{name} {n}" for (name, n), text in texts.items() if UNKNOWN in text]
        wrong += [f"the recorded result of {each} was lost" for each in lost if each in kept]
        if list(texts) != list(calls):
            wrong.append(f"these calls have a result: {list(texts)}")
        return [f"{self._about}: {each}" for each in wrong]


class Kill:
    """The kill of a process at one of its writes.

    Args:
        at: Number of the write, from 1; 0 for no kill at a write.
        moment: One of `MOMENTS`.
        mark: Number of a mark at which to kill the process instead, from 1; 0 for no kill at a mark.
    """

    def __init__(self, at: int, moment: str = "before", mark: int = 0) -> None:
        self._at, self._moment, self._mark = at, moment, mark
        self._count = self._marks = 0

    def watch(self, mark: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that calls `mark`, and then kills the process if the kill is due at this mark."""

        def marked(text: str) -> None:
            mark(text)
            self._marks += 1
            if self._marks == self._mark:
                os.kill(os.getpid(), KILL)

        return marked

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Surround a write; kill the process before, during or after it if the kill is due."""
        self._count += 1
        is_due = self._count == self._at
        if is_due and self._moment == "before":
            os.kill(os.getpid(), KILL)
        if is_due and self._moment == "during":
            threading.Thread(target=os.kill, args=(os.getpid(), KILL), daemon=True).start()
        yield
        if is_due:
            os.kill(os.getpid(), KILL)


class _Watched:
    """A journal, store or log whose writes may kill the process. It marks each recorded call result."""

    def __init__(self, inner: Any, kill: Kill, mark: Callable[[str], None]) -> None:
        self._inner, self._kill, self._mark = inner, kill, mark
        self._calls: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "open":
            return lambda *args, **options: _Watched(value(*args, **options), self._kill, self._mark)
        if name not in _WRITES:
            return value
        return self._effect if name == "effect" else partial(self._written, value)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def _written(self, write: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self._kill.around():
            written = write(*args, **options)
            if args[0] == "intent":
                self._calls[args[1]["key"]] = f"{args[1]['tool']} {args[1]['args']['n']}"
            elif args[0] == "outcome":
                self._keep(self._calls.get(args[1]["key"]), args[1]["value"]["text"])
        return written

    async def _effect(
        self, key: str, run: Callable[[], Awaitable[Any]], about: Mapping[str, Any] | None = None
    ) -> Any:
        async def counted() -> Any:
            with self._kill.around():  # a kill here is between the records of intent and outcome
                return await run()

        with self._kill.around():
            value = await self._inner.effect(key, counted, about)
            if about is not None:
                self._keep(f"{about['tool']} {about['args']['n']}", value.text)
        return value

    def _keep(self, called: str | None, text: str) -> None:
        if called is not None and UNKNOWN not in text:
            self._mark(f"kept {called}\n")
