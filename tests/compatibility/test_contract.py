"""The public contract of commit a892dbe still holds; each difference is listed with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.contract import contract

RECORDED = json.loads((Path(__file__).parent / "a892dbe" / "contract.json").read_text(encoding="utf-8"))
# Differences that were decided, by their place in the contract.
DECIDED = {
    "names/pure_agent_loop.Part/order": "Part(id, session_id, message_id, type, ...), the order of its row",
    **{
        f"names/pure_agent_loop.Part/parameters/{name} POSITIONAL_OR_KEYWORD *": "optional now"
        for name in ("id", "session_id", "message_id", "type")
    },
    **dict.fromkeys(["options/man --help", "options/man -h"], "no manual page: --help-all has it all"),
    **dict.fromkeys(
        [f"options/eval --{name}" for name in ("sets", "max-tokens")]
        + [f"names/pure_agent_loop.evaluation.{name}" for name in ("add_arguments", "run")],
        "public questions are asked by `python -m benchmarks.bfcl`, in a clone, where they always were",
    ),
    **dict.fromkeys(
        ["options/eval --model/action", "options/eval -m/action"], "may be repeated; once is as it was"
    ),
    "options/tasks --status/choices/backgrounded": "the same word, of a run of the engine",
}
MOVED = ("pure_agent_loop.testing.protocols.", "pure_agent_loop.testing.quirks.")
DECIDED |= {
    f"names/{name}": "strict servers and quirks are in the conformance kit, for whoever writes a client"
    for name in RECORDED["names"]
    if name.startswith(MOVED)
}


def differences(old: Any, new: Any, place: str) -> Iterator[str]:
    """The places where something is missing or other than it was; what was added is no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}/{key}"
            else:
                yield from differences(value, new[key], f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        yield from (f"{place}/{value}" for value in old if value not in new)
    elif old != new:
        yield place


def new_duties(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Parameters in another order, and new ones without a default."""
    for name, value in old.items():
        if not isinstance(value, dict) or not isinstance(new.get(name), dict):
            continue
        before, now = value["parameters"], new[name]["parameters"]
        kept = [parameter for parameter in now if parameter in before]
        if kept != [parameter for parameter in before if parameter in now]:
            yield f"names/{name}/order"
        added = [parameter for parameter in now if parameter not in before]
        yield from (
            f"names/{name}/parameters/{parameter}"
            for parameter in added
            if parameter.endswith(" *") and "VAR_" not in parameter
        )


@pytest.fixture(scope="module")
def current():
    return json.loads(json.dumps(contract()))


@pytest.mark.parametrize("chapter", RECORDED)
def test_nothing_that_was_promised_is_gone(current, chapter):
    missing = set(differences(RECORDED[chapter], current[chapter], chapter))
    if chapter == "names":
        missing |= set(new_duties(RECORDED[chapter], current[chapter]))
    assert missing == {place for place in DECIDED if place.startswith(f"{chapter}/")}
