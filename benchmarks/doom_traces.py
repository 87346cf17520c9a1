"""Measure how often the doom-loop detection is right, on traces with and without loops.

    python -m benchmarks.doom_traces [--set tuning|held-out|both] [--show]

The traces (`benchmarks/traces/*.jsonl`, one a line) were written by hand, after what agents do: loops, and
repetition with good reason. Every third of each file and kind is held out: all were written before the
rules, only the others were looked at while the rules were tuned.

A trace is played to the end, whatever the detection says, as a recording cannot react. `detected`: loops in
which a call was refused or the run stopped. `false alarms`: the same for the others; `warned only` stands
behind each.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pure_agent_loop.kernel.doom import DoomLedger, judge, note_answer, note_result
from pure_agent_loop.llm.values import ToolCall

FOLDER = Path(__file__).parent / "traces"
THRESHOLD = 3
SETS = ("tuning", "held-out")
ACTIONS = ("warn", "refuse", "stop")

Trace = dict[str, Any]
Said = tuple[int, str, str]  # step, action, pattern


@dataclass(frozen=True)
class Found:
    """The detections during a trace: the first step of each action (None: never), and the first pattern."""

    warn: int | None
    refuse: int | None
    stop: int | None
    pattern: str

    @property
    def alarm(self) -> int | None:
        """The first step at which a call was not run."""
        steps = [step for step in (self.refuse, self.stop) if step is not None]
        return min(steps, default=None)


def traces(folder: Path = FOLDER) -> list[Trace]:
    """All traces, in order of files and lines."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def calls_of(trace: Trace) -> Iterator[tuple[int, Any, list[tuple[ToolCall, Any]]]]:
    """Yield number, step and calls of each step."""
    for number, step in enumerate(trace["steps"], 1):
        yield (
            number,
            step,
            [
                (ToolCall(f"{number}-{place}", each["name"], each["arguments"]), each)
                for place, each in enumerate(step["calls"])
            ],
        )


def by_rules(trace: Trace) -> Iterator[Said]:
    """Yield what the detection reports for a trace."""
    ledger, polling = DoomLedger(), trace.get("polls", ())
    for number, step, calls in calls_of(trace):
        verdict = note_answer(ledger, step.get("text", ""), THRESHOLD)
        if not calls:
            yield number, verdict.action, verdict.pattern
        for call, _ in calls:
            verdict = judge(ledger, call, THRESHOLD, polls=call.name in polling)
            yield number, verdict.action, verdict.pattern
        for call, each in calls:
            text = each["error"] if "error" in each else each["result"]
            verdict = note_result(ledger, call, text, "error" in each, THRESHOLD)
            yield number, verdict.action, verdict.pattern


def by_row(trace: Trace) -> Iterator[Said]:
    """Yield what a simple rule reports: a number of equal calls in a row."""
    last, count = "", 0
    for number, _, calls in calls_of(trace):
        for call, _ in calls:
            key = f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
            count, last = (count + 1 if key == last else 1), key
            if count >= THRESHOLD:
                yield number, "refuse" if count == THRESHOLD else "stop", "identical_call"


def found(said: Iterator[Said]) -> Found:
    """Sum up the detections."""
    heard = [each for each in said if each[1] != "run"]
    first = {action: next((step for step, what, _ in heard if what == action), None) for action in ACTIONS}
    loud = [pattern for _, action, pattern in heard if action != "warn"]
    quiet = [pattern for _, _, pattern in heard]
    return Found(first["warn"], first["refuse"], first["stop"], next(iter([*loud, *quiet]), ""))


def share(part: int, whole: int) -> str:
    """Format a count with its rate."""
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "-"


def row(title: str, rule: Callable[[Trace], Iterator[Said]], chosen: list[Trace]) -> str:
    """A line of the table."""
    loops = [found(rule(trace)) for trace in chosen if trace["kind"] == "loop"]
    fine = [found(rule(trace)) for trace in chosen if trace["kind"] == "fine"]
    caught = [each.alarm for each in loops if each.alarm is not None]
    stopped = [each.stop for each in loops if each.stop is not None]
    false = sum(each.alarm is not None for each in fine)
    told, warned = (
        sum(each.alarm is None and each.warn is not None for each in part) for part in (loops, fine)
    )
    cells = [
        title,
        share(len(caught), len(loops)),
        f"{median(caught):g}" if caught else "-",
        share(len(stopped), len(loops)),
        f"{median(stopped):g}" if stopped else "-",
        share(told, len(loops)),
        share(false, len(fine)),
        share(warned, len(fine)),
    ]
    return f"| {' | '.join(cells)} |"


def table(chosen: list[Trace], sets: tuple[str, ...]) -> str:
    """The table, in Markdown."""
    lines = [
        "| set and rule | detected | at step | stopped | at step | warned only | false alarms | warned |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sets:
        part = [trace for trace in chosen if trace["set"] == name]
        lines.append(row(f"{name}, all rules", by_rules, part))
        lines.append(row(f"{name}, {THRESHOLD} equal calls in a row", by_row, part))
    return "\n".join(lines)


def show(chosen: list[Trace]) -> None:
    """Print the detections of each trace."""
    for trace in chosen:
        said = found(by_rules(trace))
        wrong = (said.alarm is None) == (trace["kind"] == "loop")
        steps = (
            f"{said.warn or '-':>4} {said.refuse or '-':>4} {said.stop or '-':>4} /{len(trace['steps']):>3}"
        )
        print(f"{'WRONG' if wrong else '     '} {trace['kind']} {trace['name']:32} {steps}  {said.pattern}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--set", choices=[*SETS, "both"], default="both")
    parser.add_argument(
        "--show", action="store_true", help="say of each trace when it was warned, refused, stopped"
    )
    options = parser.parse_args()
    sets = SETS if options.set == "both" else (options.set,)
    chosen = [trace for trace in traces() if trace["set"] in sets]
    if options.show:
        show(chosen)
    print(table(chosen, sets))


if __name__ == "__main__":
    main()
