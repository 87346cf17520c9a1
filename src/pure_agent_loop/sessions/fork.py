"""Fork a session: start a new session from a point in another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.store import (
    BaseLog,
    SessionLog,
    SessionStore,
    check_session_name,
    new_session_id,
)
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import step_of
from pure_agent_loop.sessions.transcript import read_resume_point
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.support.language import notice


def fork_session(
    store: SessionStore, session_id: str, at: int | None = None, new_id: str | None = None
) -> str:
    """Copy a session, or its first steps, to a new one. The old session is not changed.

    Records keep their ids and times. Answers to calls that have not begun are left out, so those questions
    are asked again. A third-party store, whose logs are not from this package, receives only the types and
    data of the records; their ids and times are new.

    Args:
        session_id: Session to copy; the session may be in use.
        at: Last step to copy, counted from 1 over the whole session; None copies all.
        new_id: Id of the new session; None generates one.

    Returns:
        The id of the new session.

    Raises:
        ConfigError: An id is invalid, the new session exists, or the session has no such step.
        SessionNotFoundError: The old session does not exist.
        SessionLockedError: Another writer is creating a session with the new id.
        SessionReadError: The old session cannot be read at all.
        SessionWriteError: The new session cannot be written, and was removed.
    """
    name = new_session_id() if new_id is None else check_session_name(new_id)
    records = _without_unused_answers(up_to_step(store.read(session_id).records, at), session_id)
    if store.exists(name):
        raise _exists_error(name)
    log = store.open(name)
    try:
        with log:
            _copy(records, log)
    except ConfigError:
        raise
    except BaseException:
        store.delete(name)
        raise
    return name


def copy_session(
    source: SessionStore, session_id: str, target: SessionStore, name: str, run: Mapping[str, Any]
) -> None:
    """Copy a session to a new session, perhaps in another store, and begin the new session's next run.

    Args:
        run: Data of the record that begins that run.

    Raises:
        ConfigError: The new session exists.
        SessionError: The session cannot be read, or the new one cannot be written.
    """
    records = _without_unused_answers(source.read(session_id).records, session_id)
    with target.open(name) as log:
        _copy(records, log)
        log.append("run", run, durable=True)


def _without_unused_answers(records: Sequence[Record], session_id: str) -> Sequence[Record]:
    """Leave out answers to calls that have not begun: one approval allows one call in one session."""
    point = read_resume_point(records, session_id)
    unused = {key for key in point.effects if ":ask:" in key and not point.has_begun(key)}
    dropped = {number for number, record in enumerate(records) if str(record.data.get("key")) in unused}
    last_state = max((number for number, record in enumerate(records) if record.type == "state"), default=-1)
    copied: list[Record] = []
    parents: dict[str | None, str | None] = {}  # parents of dropped records, by record id
    for number, record in enumerate(records):
        if number > last_state and number in dropped:
            parents[record.id] = parents.get(record.parent, record.parent)
        else:
            copied.append(replace(record, parent=parents.get(record.parent, record.parent)))
    return copied


def up_to_step(records: Sequence[Record], at: int | None) -> Sequence[Record]:
    """Return the records up to the end of a step, as if the process had died there.

    The records of the step are included. The start of the next step is not, because the resumed run decides
    what to do next.

    Args:
        at: Step, counted from 1; None for all.

    Raises:
        ConfigError: The session has no such step.
    """
    if at is None:
        return records
    states = [index for index, record in enumerate(records) if step_of(record) == at]
    if at < 1 or not states:
        steps = max((step_of(record) or 0 for record in records), default=0)
        raise ConfigError(notice("library.fork_step", at=at, steps=steps))
    last = states[-1]
    if records[last].data.get("stop_reason") not in (None, *WAITING):
        return records[: last + 1]
    end = last + 1
    while end < len(records) and not _begins_next_step(records[end]):
        end += 1
    while (
        end < len(records) and end > last + 1 and records[end - 1].type in ("messages", "boundary", "parts")
    ):
        end -= 1  # these records repeat data of the effects, and the state that follows them is not copied
    return records[:end]


def end_of_step(records: Sequence[Record], step: int) -> float:
    """Return the time when a step ended, in seconds since 1970.

    Raises:
        ConfigError: The session has no such step.
    """
    return up_to_step(records, step)[-1].time


def _begins_next_step(record: Record) -> bool:
    if record.type == "run":  # a run that resumes without a task continues the same step
        return record.data.get("task") is not None
    return record.type == "state"


def _copy(records: Sequence[Record], log: SessionLog) -> None:
    if log.records or log.problems:  # another writer has just created the session
        raise _exists_error(log.session_id)
    if isinstance(log, BaseLog):
        log.adopt(records)
        return
    new_ids: dict[str | None, str] = {}
    for number, record in enumerate(records, 1):
        parent = new_ids.get(record.parent)
        is_last = number == len(records)
        new_ids[record.id] = log.append(record.type, record.data, parent=parent, durable=is_last).id


def _exists_error(name: str) -> ConfigError:
    return ConfigError(notice("library.session_exists", name=name))
