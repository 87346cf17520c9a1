"""Approved calls that are killed at work, each in a process of its own; `test_approvals` starts this.

It has imported everything and started nothing, so that forking is safe. Prints what was seen, as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from tests.sessions.approvals import NOT_RUN, ROUNDS, WAITING, WAYS, Desk
from tests.sessions.cuts import keys
from tests.sessions.kills import LATE, forked

from pure_agent_loop.sessions import JsonlStore, SqliteStore
from pure_agent_loop.testing.killed_work import UNKNOWN, file_mark, told

STORES = {"jsonl": JsonlStore, "sqlite": SqliteStore}


class Case:
    """One run, killed at one of its marks, looked at so often, and finished."""

    def __init__(self, folder, kind, way, shape, at, looks):
        self.name = f"{kind}, {way}, {shape}, killed at mark {at}, {looks} looks"
        self.store = lambda: STORES[kind](folder / kind)
        self.desk, self.at, self.looks = Desk(way, shape), at, looks
        self.marks, self.said, self.wrong = folder / "marks", folder / "said", []

    def begin(self):
        write, left = file_mark(str(self.marks)), [self.at]

        def mark(text):
            write(text)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        self.desk.finish(self.store(), "Task: go on.", mark)

    def go_on(self, look):
        mark, store = file_mark(str(self.marks)), self.store()
        if look:
            result = self.desk.agent(store, alone=True, mark=mark).run(None, session_id="s")
        else:
            result = self.desk.finish(store, None, mark)
        said = [result.stop_reason, result.content, result.messages, self.desk.asked]
        self.said.write_text(json.dumps(said))

    def in_a_child(self, work, *args):
        return os.waitstatus_to_exitcode(os.waitpid(forked(work, *args), 0)[1])

    def run(self):
        if self.in_a_child(self.begin) != -signal.SIGKILL:
            return False  # it has no such mark
        records = self.store().read("s").records
        answered = {key.split(":")[2] for key in keys(records, "value")}
        calls = {each.data["key"]: (each.data["tool"], each.data["args"]["n"]) for each in records
                 if each.type == "intent"}  # fmt: skip
        begun = set(calls.values())
        unclear = {calls[key] for key in calls.keys() - set(keys(records, "outcome"))} - {("again", 2)}
        for _ in range(self.looks):
            self.check(self.in_a_child(self.go_on, True) == 0, "a look failed")
            reason, _, messages, _ = json.loads(self.said.read_text())
            self.check(reason in (WAITING, "completed"), f"a look ended with {reason}")
            for each, text in told(messages).items():
                lies = each in begun - {("again", 2)} and any(words in text for words in NOT_RUN)
                self.check(not lies, f"{each} began, and the history says: {text}")
        self.check(self.in_a_child(self.go_on, False) == 0, "it could not be finished")
        reason, content, messages, asked = json.loads(self.said.read_text())
        self.check((reason, content) == ("completed", "Done."), f"it ended with {reason}: {content}")
        self.check(not answered & set(asked), f"asked again: {answered & set(asked)}")
        marks = Counter(self.marks.read_text().splitlines())
        for (name, n), text in told(messages).items():
            starts = marks[f"start {name} {n}"]
            self.check((UNKNOWN in text) == ((name, n) in unclear), f"{name} {n}: {text}")
            right = starts <= 1 + (name == "again") and (starts > 0 or n == 3)
            self.check(right or (name, n) in unclear, f"{name} {n} was begun {starts} times")
        return True

    def check(self, right, what):
        if not right:
            self.wrong.append(f"{self.name}: {what}")


def main(folder):
    for name in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    kills, wrong, number = 0, [], 0
    for way in WAYS:
        for shape, rounds in ROUNDS.items():
            for at in range(1, 2 * sum(map(len, rounds)) + 1):
                for kind, looks in (("jsonl", 1), ("jsonl", 2), ("sqlite", 1)):
                    number += 1
                    (place := folder / str(number)).mkdir()
                    case = Case(place, kind, way, shape, at, looks)
                    kills += case.run()
                    wrong += case.wrong
    print(json.dumps({"kills": kills, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
