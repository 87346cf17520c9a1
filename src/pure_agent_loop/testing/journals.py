"""Contract of a journal: requirements for a run whose process is killed at any point.

    from pure_agent_loop.testing import journal_contract

    def test_my_journal():
        journal_contract("my_package.journals:make_journal")

Another Python process imports the factory and forks a child for each attempt. A child kills itself before,
during or after one of its writes; the next child resumes the run.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.child import PYTHON
from pure_agent_loop.testing.gate import ScriptError
from pure_agent_loop.testing.killed_runs import MOMENTS, Kill, KilledRuns, MakeJournal
from pure_agent_loop.testing.killed_work import WorkVersion

_MANY, _IN_PARALLEL = 1000, 10
_SEVERAL = 5  # maximum further kills at the same write
_CHILD = "import sys; from pure_agent_loop.testing.journals import run_rule; run_rule(*sys.argv[1:])"


def journal_contract(
    make_journal: str | MakeJournal,
    *,
    rules: Iterable[str] | None = None,
    every: int = 1,
    survives: bool = True,
) -> dict[str, int]:
    """Kill an agent's process at each write to a journal, resume the run, and check what happened.

    No call may be made twice, nothing may be lost, every run must reach its end, and an interrupted call must
    be reported to the model as unknown.

    Args:
        make_journal: Function that takes an empty folder, or ``"module:function"``. It returns a `Journal` or
            a `SessionStore`; in a store, the run's session has the name of the folder. Two journals or
            stores for the same folder must share their records.
        rules: Rules to check, from `JOURNAL_RULES`; None for all.
        every: Kill only at every n-th write.
        survives: False for a journal that is lost when its process ends; the runs are then not killed.

    Returns: the number of kills by rule.

    Raises:
        ConfigError: The function cannot be imported by another process, or this system cannot fork.
        ScriptError: A rule is broken. The message names the rule and the kill.
    """
    if not hasattr(os, "fork"):
        raise ConfigError("journal_contract needs a system that can fork, such as Linux or macOS.")
    name = make_journal if isinstance(make_journal, str) else _name_of(make_journal)
    kills = {}
    for rule in JOURNAL_RULES if rules is None else rules:
        with tempfile.TemporaryDirectory(prefix="journal-") as folder:
            words = [rule, name, folder, str(every if survives else 0)]
            done = subprocess.run(  # noqa: S603 - Python itself
                [PYTHON, "-c", _CHILD, *words],
                cwd=None,  # keep the working folder, because the caller's modules may be imported from it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        if done.returncode:
            raise ScriptError(f"The rule {rule!r} could not be checked: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        if found["wrong"]:
            raise ScriptError(f"The journal breaks the rule {rule!r}: {'; '.join(found['wrong'][:5])}")
        kills[rule] = found["kills"]
    return kills


def _name_of(function: MakeJournal) -> str:
    name = getattr(function, "__qualname__", "")
    if not name.isidentifier() or function.__module__ == "__main__":
        raise ConfigError(
            f"make_journal={function!r:.80} must be a function at the top of a module, or 'module:function'."
        )
    return f"{function.__module__}:{name}"


def run_rule(rule: str, name: str, folder: str, every: str) -> None:
    """Check one rule in this process, and print the findings as JSON."""
    module, _, function = name.partition(":")
    contract = KilledRuns(getattr(importlib.import_module(module), function), Path(folder).resolve())
    wrong: list[str] = []
    for found in _RULES[rule](contract, int(every)):
        wrong += found
        if wrong:
            break
    sys.stdout.write(f"\n{json.dumps({'kills': contract.kills, 'wrong': wrong})}\n")


def _killed_anywhere(contract: KilledRuns, every: int) -> Iterator[list[str]]:
    """Kill a run at each write, several times if it reaches that write again; then let it finish."""
    at, is_beyond = every, not every
    while not is_beyond:
        for moment in MOMENTS:
            case = contract.case(kill=at, moment=moment)
            is_beyond = case.attempt(WorkVersion(), Kill(at, moment))
            kills = 0
            while kills < _SEVERAL and not case.attempt(WorkVersion(), Kill(at, moment)):
                kills += 1
            case.attempt(WorkVersion())
            yield case.check()
        at += every
    case = contract.case()
    case.attempt(WorkVersion())
    yield case.check()


def _answered_elsewhere(contract: KilledRuns, every: int) -> Iterator[list[str]]:
    """Ask in one process, answer in another that is killed, and resume in a process without a person."""
    at, is_beyond = every, not every
    while not is_beyond:
        case, wrong = contract.case(kill=at, person="elsewhere"), []
        case.attempt(WorkVersion(person=False))
        if case.result["reason"] != SUSPENDED:
            wrong.append(f"no person could allow a call, but the run ended with {case.result['reason']}")
        is_beyond = case.attempt(WorkVersion(person=True), Kill(at))
        begun = {tuple(each.split()[1:]) for each in case.marks if each.startswith("start")}
        # Resume without a person: the answers to calls that have begun must have been recorded.
        case.attempt(WorkVersion(person=False))
        asked = {(name, str(n)) for name, n in case.result["asked"]}
        wrong += [f"kill {at}: the answer to {each} was lost" for each in begun & asked]
        case.attempt(WorkVersion(person=True))
        yield [*wrong, *case.check()]
        at += every


def _thousand_calls(contract: KilledRuns, every: int) -> Iterator[list[str]]:
    """Make 1,000 calls in one run, with three kills."""
    numbers = [[("put", at + n) for n in range(_IN_PARALLEL)] for at in range(0, _MANY, _IN_PARALLEL)]
    case, work = contract.case(calls=_MANY), WorkVersion(numbers)
    for mark in (_MANY // 3, _MANY // 2, _MANY) if every else ():
        case.attempt(work, Kill(0, mark=mark))
    case.attempt(work)
    yield case.check([each for one in numbers for each in one])


def _changed_code(contract: KilledRuns, every: int) -> Iterator[list[str]]:
    """Resume a run with changed code: it must use the records and repeat no call."""
    at, is_beyond = every, not every
    while not is_beyond:
        case = contract.case(kill=at, code="changed")
        is_beyond = case.attempt(WorkVersion(), Kill(at))
        case.attempt(WorkVersion(is_new=True))
        yield case.check()
        at += every


_RULES: dict[str, Callable[[KilledRuns, int], Iterator[list[str]]]] = {
    "killed anywhere": _killed_anywhere,
    "answered elsewhere": _answered_elsewhere,
    "a thousand calls": _thousand_calls,
    "changed code": _changed_code,
}
JOURNAL_RULES = tuple(_RULES)
