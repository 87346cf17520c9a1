"""Describe a session in a list: its title, its age and its last entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pure_agent_loop.cli.output import error_text
from pure_agent_loop.errors import SessionError
from pure_agent_loop.sessions import BaseLog, SessionStore
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.terminal import one_line

if TYPE_CHECKING:
    from pure_agent_loop.sessions.story import Story

MAX_TITLE = 60
MAX_PREVIEWED = 6
_PREVIEWED = {"task": ">", "user": ">", "answer": " ", "call": "·"}  # marks, by kind of entry


def title_of(store: SessionStore, session_id: str) -> str:
    """Return the first task of a session on one line."""
    return one_line(story_of(store, session_id).title, MAX_TITLE)


def age(moment_of_use: float, now: float) -> str:
    """Return how long ago a session was used, or the day in UTC if that is more than a week ago."""
    minutes = (now - moment_of_use) / 60
    from pure_agent_loop.sessions.export import moment

    for text_id, size, most in (
        ("cli.ago_minutes", 1, 60),
        ("cli.ago_hours", 60, 24),
        ("cli.ago_days", 1_440, 8),
    ):
        if 1 <= minutes // size < most:
            return user_text(text_id, count=int(minutes // size))
    return user_text("cli.ago_now") if minutes < 1 else moment(moment_of_use)[:10]


def rename(store: SessionStore, session_id: str, title: str) -> None:
    """Record a new title of a session, without changing the time of its last use.

    Raises:
        SessionError: The session is in use, or cannot be written.
    """
    with store.open(session_id) as log:
        if isinstance(log, BaseLog) and log.records:
            log.append("title", {"title": title}, at=log.records[-1].time)
        else:  # a new session, or a session in another package's store
            log.append("title", {"title": title})


def preview(store: SessionStore, session_id: str) -> list[str]:
    """Return the last entries of a session, one line per entry."""
    story = story_of(store, session_id)
    shown = [entry for entry in story.entries if entry.kind in _PREVIEWED][-MAX_PREVIEWED:]
    lines = [" ".join(filter(None, (_PREVIEWED[entry.kind], entry.tool, entry.text))) for entry in shown]
    return [one_line(line, 100) for line in lines] or [one_line(story.title, MAX_TITLE)]


def story_of(store: SessionStore, session_id: str) -> Story:
    """Return the story of a session; if the session cannot be read, the title is the error."""
    from pure_agent_loop.sessions.story import Story, read_story

    try:
        return read_story(store.read(session_id).records)
    except SessionError as error:
        return Story(title=f"({error_text(error)})")
