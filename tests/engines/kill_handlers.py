"""Runs on Restate whose handler processes and server are killed, until each run is done.

``test_restate`` starts this as a process of its own. It has imported everything and started nothing, so that
forking is safe. A few sessions run at once. A moment of chance after it has begun to serve, the handler's
process is killed, or the server, or both; what was running is to go on. Prints what was seen, as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hypercorn.asyncio
import hypercorn.protocol.h2  # noqa: F401 - else the first request imports it
import restate  # noqa: F401 - else the first run imports it
from tests.engines.restate_agents import serve_forever, work_agent
from tests.engines.restate_engine import RestateServer, end_with_parent, request
from tests.serving import free_port

from pure_agent_loop.testing import check_history
from pure_agent_loop.testing.killed_work import CALLS, DONE, TASK, check_calls, told

LANES = 4
LONGEST = 0.25  # seconds from a handler's readiness to its end; a run takes about 0.15 without a kill
SERVER_EACH = 10  # one kill of so many is one of the server
STUCK = 120  # seconds after which a run that has not ended is stranded


def fork_handler(port: int, folder: Path) -> int:
    """Serve in a child; the agent of each lane marks its calls in a file of its own."""
    pid = os.fork()
    if pid:
        return pid
    try:
        end_with_parent()
        agents = {f"lane{number}": work_agent(folder / f"marks{number}") for number in range(LANES)}
        serve_forever(port, agents)
    finally:
        os._exit(1)


class Lane:
    """One session after another, each with one run."""

    def __init__(self, server: RestateServer, number: int, folder: Path) -> None:
        self.server, self.number, self.count = server, number, 0
        self.marks = folder / f"marks{number}"
        self.session = self.invocation = ""
        self.begun = 0.0

    def begin(self) -> None:
        self.count += 1
        self.session = f"lane{self.number}-{self.count}"
        self.marks.write_text("")  # the handlers append
        self.invocation = self.server.send(self.session, agent=f"lane{self.number}", task=TASK)
        self.begun = time.monotonic()

    def outcome(self) -> dict[str, Any] | None:
        """Return the outcome of the run; None if it has not ended."""
        reply = request(f"{self.server.ingress}/restate/invocation/{self.invocation}/output")
        if isinstance(reply, dict):
            return reply
        assert reply[0] == 470, reply  # not ready
        return None

    def check(self, outcome: dict[str, Any]) -> tuple[Counter[str], list[str]]:
        messages = self.server.history(self.session)
        wrong = check_history(messages)
        if (outcome["content"], outcome["stop_reason"]) != (DONE, "completed"):
            wrong.append(f"it ended with {outcome}")
        texts = told(messages)
        if list(texts) != CALLS:
            wrong.append(f"these calls were made: {list(texts)}")
        counts, doubled = check_calls(texts, self.marks.read_text().splitlines())
        return counts, [f"{self.session}: {each}" for each in (*wrong, *doubled)]


def main(folder: Path, kills: int, seed: int) -> None:
    assert threading.active_count() == 1
    gc.freeze()
    chance, counts, wrong = random.Random(seed), Counter[str](), list[str]()
    port = free_port()
    with RestateServer(folder) as server:
        handler = fork_handler(port, folder)
        server.wait_until(lambda: request(f"http://127.0.0.1:{port}/health"))
        server.register(f"http://127.0.0.1:{port}")
        lanes = [Lane(server, number, folder) for number in range(LANES)]
        for lane in lanes:
            lane.begin()
        running = list(lanes)
        while running and not wrong:
            is_killed = counts["kills"] + counts["server kills"] < kills
            if is_killed:
                time.sleep(chance.uniform(0, LONGEST))
                if chance.randrange(SERVER_EACH) == 0:
                    counts["server kills"] += 1
                    server.kill()
                    if chance.randrange(2):  # else the next attempt is in the same process
                        handler = killed(handler, port, folder)
                    server.start()
                else:
                    counts["kills"] += 1
                    handler = killed(handler, port, folder)
                server.wait_until(lambda: request(f"http://127.0.0.1:{port}/health"))
            else:
                time.sleep(0.02)
            for lane in list(running):
                outcome = lane.outcome()
                if outcome is not None:
                    seen, problems = lane.check(outcome)
                    counts += seen
                    counts["runs"] += 1
                    wrong += problems
                    if is_killed:
                        lane.begin()
                    else:
                        running.remove(lane)
                elif time.monotonic() - lane.begun > STUCK:
                    wrong.append(f"{lane.session} is stranded: {server.invocation(lane.invocation)}")
        os.kill(handler, signal.SIGKILL)
        os.waitpid(handler, 0)
    print(json.dumps({**counts, "wrong": wrong}))


def killed(handler: int, port: int, folder: Path) -> int:
    """Kill a handler, and return the next one."""
    os.kill(handler, signal.SIGKILL)
    os.waitpid(handler, 0)
    return fork_handler(port, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
