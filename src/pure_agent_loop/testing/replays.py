"""Replay of a recorded session as a test: the loop must behave as recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.testing.gate import ScriptError

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.sessions import Record
    from pure_agent_loop.sessions.replay import ReplayReport


def assert_replays(
    recorded: Sequence[Record] | str | os.PathLike[str], agent: Agent | None = None
) -> ReplayReport:
    """Fail unless a replay equals the recorded session. No request is sent and no tool is called.

    Args:
        recorded: The records of a session, or the path of its ``.jsonl`` file.
        agent: Agent whose prompts, limits, permissions and tool schemas replace the recorded ones.

    Returns:
        The replay.

    Raises:
        ScriptError: The replay differs, or the file is damaged; the message shows where.
        ConfigError: The session has no run.
    """
    from pure_agent_loop.sessions import parse
    from pure_agent_loop.sessions.replay import replay_session

    if isinstance(recorded, (str, os.PathLike)):
        with Path(recorded).open("rb") as lines:
            parsed = parse(lines)
        if parsed.problems:
            raise ScriptError(f"{os.fspath(recorded)} is damaged: {'; '.join(parsed.problems)}")
        recorded = parsed.records
    report = replay_session(recorded, agent=agent)
    if report.difference is not None:
        raise ScriptError(str(report))
    return report
