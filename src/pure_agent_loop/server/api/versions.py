"""Versions of a conversation: each edit or retry of a message is a separate session.

A version's label ``STEP PARENT`` names its origin: up to that step, the session is a copy of the parent
session; the message that follows replaces the parent's next message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pure_agent_loop.server.api import models
from pure_agent_loop.server.hub import Hub
from pure_agent_loop.server.labels import VERSION, origin_of, root_of
from pure_agent_loop.sessions.story import Entry


def family(hub: Hub, session: str) -> list[str]:
    """Return all sessions that are versions of the same conversation, beginning with the original."""
    versions = hub.file.labels[VERSION]
    root = root_of(versions, session)
    return [root, *(other for other in versions if root_of(versions, other) == root)]


def _origin(hub: Hub, session: str) -> tuple[int, str] | None:
    return origin_of(hub.file.labels[VERSION], session)


def _owner(hub: Hub, session: str, step: int) -> str:
    """Return the session that contains the first version of the message after a session's step."""
    while (origin := _origin(hub, session)) and origin[0] >= step:
        session = origin[1]
    return session


async def versions_of(hub: Hub, session: str, entries: Sequence[Entry]) -> list[models.Versions]:
    """Return a session's messages that have several versions."""
    others = family(hub, session)
    if len(others) == 1:
        return []
    others = [
        one for one in others if await asyncio.to_thread(hub.sessions.exists, one) or hub.of_session(one)
    ]
    messages: dict[int, set[str]] = {}  # step -> sessions with versions of the message after it
    for other in others:
        if (origin := _origin(hub, other)) and _owner(hub, other, origin[0]) == _owner(
            hub, session, origin[0]
        ):
            messages.setdefault(origin[0], {_owner(hub, session, origin[0])}).add(other)
    all_versions = [_versions(hub, session, *item, others, entries) for item in sorted(messages.items())]
    # Other versions may have been deleted.
    return [versions for versions in all_versions if len(versions.sessions) > 1]


def _versions(
    hub: Hub, session: str, step: int, found: set[str], others: Sequence[str], entries: Sequence[Entry]
) -> models.Versions:
    def version(other: str) -> str:
        """Return the session whose version of the message another session shows.

        Empty if that other session already differs before the message.
        """
        while other not in found:
            origin = _origin(hub, other)
            if origin is None or origin[0] < step:
                return ""
            other = origin[1]
        return other

    def used(other: str) -> float:
        return max((run.updated for run in hub.of_session(other)), default=0.0)

    members = [other for other in others if other in found]
    shown = [max((other for other in others if version(other) == one), key=used) for one in members]
    index = before = 0
    while index < len(entries) and not (entries[index].kind == "task" and before >= step):
        before = max(before, entries[index].step)
        index += 1  # reaches the end if the run has just started
    at = members.index(version(session)) if version(session) in members else 0
    return models.Versions(index=index, at=at, sessions=shown)
