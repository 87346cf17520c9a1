"""A recorded session as a test: the loop must still do what it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.testing.errors import ScriptError

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.sessions import Record
    from pure_agent_loop.sessions.replay import ReplayReport


def assert_replays(
    recorded: Sequence[Record] | str | os.PathLike[str], agent: Agent | None = None
) -> ReplayReport:
    """Fail unless a recorded session comes out again exactly as it was recorded. Nothing is sent or called.

    Args:
        recorded: The records of a session, or the path of its ``.jsonl`` file.
        agent: Use its prompts, limits, permissions and tools' schemas instead of the recorded ones.

    Returns:
        What was replayed.

    Raises:
        ScriptError: Something differs, or the file is damaged; it shows what.
        ConfigError: There is no run in it.
    """
    from pure_agent_loop.sessions import parse
    from pure_agent_loop.sessions.replay import replay_session

    if isinstance(recorded, (str, os.PathLike)):
        with Path(recorded).open("rb") as lines:
            found = parse(lines)
        if found.problems:
            raise ScriptError(f"{os.fspath(recorded)} is damaged: {'; '.join(found.problems)}")
        recorded = found.records
    report = replay_session(recorded, agent=agent)
    if report.difference is not None:
        raise ScriptError(str(report))
    return report
