"""Rules that check a custom `Carrier` (an engine for durable runs) while its processes are being killed.

    from pure_agent_loop.testing import carrier_agents, carrier_contract

    @contextlib.contextmanager
    def my_engine(folder):
        with MyEngine(folder / "d.sqlite", agents=partial(carrier_agents, str(folder))) as engine:
            yield CarrierPlace(engine, engine.ensure_processes)

    carrier_contract(my_engine)

The engine's processes kill themselves before or after a write to a session or to the database, and before or
after the effect of a tool.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.testing.carried_agents import CHANGED
from pure_agent_loop.testing.gate import ScriptError
from pure_agent_loop.testing.killed_work import KILL
from pure_agent_loop.testing.stores import need

if TYPE_CHECKING:
    from pure_agent_loop.durable import Handle, TaskInfo
    from pure_agent_loop.durable.client import Client

KILLS = 12
CALLS = 1_000
PATIENCE = 60.0  # maximum seconds to wait for other processes
_WIDE = 10
_TOO_LATE = 1_000_000  # a point number that no run reaches


@dataclass(frozen=True, slots=True)
class CarrierPlace:
    """An engine under test.

    Args:
        client: Client for the engine's runs, in the process of the test.
        revive: Function that makes sure that at least one process can execute runs with `carrier_agents`. It
            is called often; if the engine replaces its processes by itself, it need not do anything.
    """

    client: Client
    revive: Callable[[], None]


MakeCarrier = Callable[[Path], AbstractContextManager[CarrierPlace]]


def carrier_contract(
    make_carrier: MakeCarrier,
    *,
    rules: Iterable[str] | None = None,
    kills: int = KILLS,
    calls: int = CALLS,
    seed: int = 0,
) -> None:
    """Run the rules against an engine: nothing happens twice, nothing is lost, no run is stranded.

    Args:
        make_carrier: Function that takes an empty folder and returns a context manager, which starts an
            engine whose processes execute ``carrier_agents(folder)``, and stops them all at the end.
        rules: Rules to check, from `CARRIER_RULES`; None for all.
        kills: Number of kills at writes, in the rule ``killed at a write``.
        calls: Number of calls that the run makes in the rule ``many calls``.
        seed: Random seed for choosing the writes.

    Raises:
        ScriptError: A rule is broken. The message names the rule.
    """
    trial = {"kills": kills, "calls": calls, "seed": seed}
    for name in CARRIER_RULES if rules is None else rules:
        with tempfile.TemporaryDirectory(prefix="carrier-") as folder:
            try:
                with make_carrier(Path(folder).resolve()) as place:
                    place.revive()
                    _RULES[name](_Trial(place, Path(folder).resolve(), **trial))
            except (ScriptError, PureAgentLoopError, TimeoutError) as error:
                what = f"{type(error).__name__}: {error}"
                raise ScriptError(f"The carrier breaks the rule {name!r}: {what}") from error


class _Trial:
    def __init__(self, place: CarrierPlace, folder: Path, *, kills: int, calls: int, seed: int) -> None:
        self.place, self.client, self.folder = place, place.client, folder
        self.kills, self.calls = kills, calls
        self.chance = random.Random(seed)  # noqa: S311 - a reproducible choice
        self._number = 0

    def submit(
        self, calls: int, width: int = 1, name: str = "put", agent: str = "put", **more: Any
    ) -> Handle:
        """Submit a run that makes calls; its lines in the file of effects begin with the run's id."""
        self._number += 1
        run_id = f"run{self._number}"
        task = f"{run_id}: {calls} calls in rounds of {width} for {name}"
        return self.client.submit(agent, task, run_id=run_id, max_attempts=1_000_000, **more)

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def effects(self, run_id: str) -> Counter[int]:
        return Counter(int(n) for run, n, _ in map(str.split, self.lines("effects")) if run == run_id)

    def order_kill(self, number: int) -> None:
        """Order the kill of the first process that reaches the point with this number."""
        (self.folder / "kill.new").write_text(str(number))
        (self.folder / "kill.new").replace(self.folder / "kill")

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        """Wait until other processes fulfil a condition; meanwhile, revive them."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise ScriptError(f"{what}: it has not happened in {PATIENCE:.0f} s")
            self.place.revive()
            time.sleep(0.05)
        return found

    def stopped(self, handle: Handle) -> TaskInfo:
        """Wait until a run has ended or is suspended."""

        def info() -> TaskInfo | None:
            found = handle.info()
            return found if found.has_ended or found.status in WAITING else None

        stopped: TaskInfo = self.until(f"the end of {handle.run_id}", info)
        return stopped

    def check(self, handle: Handle, calls: int, unknown: int = 0) -> int:
        """Check the effects of a completed run; return the number of calls reported as unknown.

        Args:
            unknown: Maximum number of calls that may be reported as unknown.
        """
        info = self.stopped(handle)
        need(info.status == "completed", f"{handle.run_id} is {info.status} {info.error}")
        results, effects = json.loads(info.content), self.effects(handle.run_id)
        need(len(results) == calls, f"{handle.run_id}: {len(results)} results of {calls} calls")
        doubled = sorted(n for n, count in effects.items() if count > 1)
        need(not doubled, f"{handle.run_id}: the calls {doubled} happened twice")
        reported = [n for n, text in enumerate(results) if text != f"put {n}"]
        lost = sorted({*range(calls)} - {*effects, *reported})
        need(not lost, f"{handle.run_id}: the calls {lost} are reported as done, but had no effect")
        need(len(reported) <= unknown, f"{handle.run_id}: {len(reported)} calls are unknown: {results}")
        return len(reported)


def _executed(trial: _Trial) -> None:
    handles = [trial.submit(3) for _ in range(3)]
    again = trial.client.submit("put", handles[0].info().task, run_id=handles[0].run_id)
    for handle in (*handles, again):
        trial.check(handle, 3)
    listed = {info.run_id for info in trial.client.tasks()}
    need(listed == {handle.run_id for handle in handles}, f"the list has {sorted(listed)}")
    need(trial.client.counts() == {"completed": 3}, f"the counts are {trial.client.counts()}")


def _killed_at_a_write(trial: _Trial) -> None:
    """Kill only once per pair of runs, because after a kill the same number would mean another point."""
    points = _points_of_a_run(trial)
    for number in _spread(points, trial.kills, trial.chance):
        trial.order_kill(number)
        pair = [trial.submit(2), trial.submit(2, 2)]
        unknown = sum(trial.check(handle, 2, unknown=2) for handle in pair)
        need(
            unknown <= 3, f"a kill at point {number} cuts off at most three calls, but {unknown} are unknown"
        )
        (trial.folder / "kill").unlink(missing_ok=True)
    need(bool(trial.lines("killed")), "no process was killed: do they execute `carrier_agents`?")


def _points_of_a_run(trial: _Trial) -> int:
    """Count the points that a run of two calls reaches, by ordering a kill at a point beyond its end."""
    trial.order_kill(_TOO_LATE)
    trial.check(trial.submit(2), 2)
    (trial.folder / "kill").unlink()
    return int((trial.folder / "points").read_text())


def _spread(points: int, kills: int, chance: random.Random) -> list[int]:
    """Return a point for each kill: all points in turn or, with fewer kills, points spread evenly."""
    if kills >= points:
        return [1 + number % points for number in range(kills)]
    width = points / kills
    return [1 + int(part * width + chance.random() * width) for part in range(kills)]


def _answered_elsewhere(trial: _Trial) -> None:
    handle = trial.submit(2, agent="ask")
    for number in range(2):
        info = trial.stopped(handle)
        need(info.status == "waiting_permission", f"the run is {info.status}, but must wait")
        need(sum(trial.effects(handle.run_id).values()) == number, "a call was made before its answer")
        _kill_all(trial)
        handle.answer(info.questions[0].call_id, "allow", by="somebody")
        trial.place.revive()
        trial.until("the call", partial(_has_effects, trial, handle.run_id, number + 1))
    trial.check(handle, 2)


def _has_effects(trial: _Trial, run_id: str, number: int) -> bool:
    return sum(trial.effects(run_id).values()) >= number


def _kill_all(trial: _Trial) -> None:
    """Kill each process of the engine that has created agents and is still running."""
    for pid in map(int, trial.lines("pids")):
        try:
            os.kill(pid, KILL)
        except ProcessLookupError:
            continue
        trial.until(f"the end of process {pid}", partial(_is_dead, pid))
    (trial.folder / "pids").unlink(missing_ok=True)


def _is_dead(pid: int) -> bool:
    """Return True for a process that has ended, even if its parent has not reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _one_after_another(trial: _Trial) -> None:
    trial.order_kill(9)
    handles = [trial.submit(2, session_id="shared") for _ in range(3)]
    for handle in handles:
        trial.check(handle, 2, unknown=1)
    order = list(dict.fromkeys(line.split()[0] for line in trial.lines("effects")))
    need(order == [handle.run_id for handle in handles], f"the runs of a session began in the order {order}")


def _cancelled(trial: _Trial) -> None:
    handle, behind = trial.submit(2, name="hold", session_id="c"), trial.submit(1, session_id="c")
    trial.until("the first call", lambda: trial.effects(handle.run_id))
    need(handle.cancel().status == "cancelled", "a running call must be cancelled")
    trial.check(behind, 1)
    waiting = trial.submit(1, agent="ask")
    trial.stopped(waiting)
    need(waiting.cancel().status == "cancelled", "a waiting run must be cancelled")
    (trial.folder / "gate").touch()
    need(len(trial.effects(handle.run_id)) == 1, "a cancelled run made another call")
    need(not trial.effects(waiting.run_id), "a cancelled run made a call that waited for a person")


def _parallel_calls(trial: _Trial) -> None:
    handle = trial.submit(2, 2, name="hold")
    trial.until("both calls", lambda: len(trial.effects(handle.run_id)) == 2)
    _kill_all(trial)
    (trial.folder / "gate").touch()
    trial.place.revive()
    need(trial.check(handle, 2, unknown=2) == 2, "both calls were cut off, and must be reported as unknown")


def _many_calls(trial: _Trial) -> None:
    handle = trial.submit(trial.calls, _WIDE)
    trial.until("half of the calls", lambda: len(trial.effects(handle.run_id)) >= trial.calls / 2)
    _kill_all(trial)
    trial.place.revive()
    trial.check(handle, trial.calls, unknown=_WIDE)


def _changed_code(trial: _Trial) -> None:
    """Continue a run in a process with changed agents; it must use the records and make the missing calls."""
    handle = trial.submit(2, name="hold")
    trial.until("the first call", lambda: trial.effects(handle.run_id))
    (trial.folder / CHANGED).touch()
    _kill_all(trial)
    (trial.folder / "gate").touch()
    trial.place.revive()
    trial.check(handle, 2, unknown=1)
    last = next(line.split() for line in trial.lines("effects") if line.startswith(f"{handle.run_id} 1 "))
    need(last[2] in trial.lines(CHANGED), "the last call was made by a process with the old code")


_RULES: dict[str, Callable[[_Trial], None]] = {
    "each run is executed once": _executed,
    "killed at a write": _killed_at_a_write,
    "answered elsewhere": _answered_elsewhere,
    "one after another": _one_after_another,
    "cancelled": _cancelled,
    "parallel calls": _parallel_calls,
    "many calls": _many_calls,
    "changed code": _changed_code,
}
CARRIER_RULES = tuple(_RULES)
