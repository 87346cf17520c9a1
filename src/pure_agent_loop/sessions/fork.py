"""A new session that begins as another one did: to try from there what was not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions.store import SessionLog, SessionStore, check_session_id, new_session_id
from pure_agent_loop.sessions.stores.log import BaseLog
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import step_of
from pure_agent_loop.stop_reasons import WAITING


def fork_session(
    store: SessionStore, session_id: str, at: int | None = None, new_id: str | None = None
) -> str:
    """Make a new session of what there was in another one. The other one stays as it is.

    Each record is copied as it is, with its id and its time. (Into a store of your own, whose logs do not
    come from this package, type and data are copied, and the rest is new.)

    Args:
        store: Where both are kept.
        session_id: The old one; it may be in use.
        at: The last step to copy, counted from 1 over the whole session; None for all there is.
        new_id: The name of the new one; None to make one.

    Returns:
        The id of the new session.

    Raises:
        ConfigError: An id cannot be one, the new one exists, or there is no such step.
        SessionNotFoundError: There is no such session.
        SessionLockedError: Somebody is just making a session of the new name.
        SessionReadError: The old one cannot be read at all.
        SessionWriteError: The new one cannot be written; nothing is left of it.
    """
    name = new_session_id() if new_id is None else check_session_id(new_id)
    records = up_to_step(store.read(session_id).records, at)
    if store.exists(name):
        raise _taken(name)
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


def up_to_step(records: Sequence[Record], at: int | None) -> Sequence[Record]:
    """The records up to the end of a step, as if the process had ended there.

    What the step did is part of it, where the next one began is not: the run that goes on decides that anew.

    Args:
        records: Of a whole session.
        at: The step, from 1; None for all.

    Raises:
        ConfigError: There is no such step.
    """
    if at is None:
        return records
    standing = [index for index, record in enumerate(records) if step_of(record) == at]
    if at < 1 or not standing:
        steps = max((step_of(record) or 0 for record in records), default=0)
        raise ConfigError(f"at={at} is no step of this session; it has {steps}, counted from 1.")
    last = standing[-1]
    if records[last].data.get("stop_reason") not in (None, *WAITING):
        return records[: last + 1]
    end = last + 1
    while end < len(records) and not _begins_more(records[end]):
        end += 1
    while (
        end < len(records) and end > last + 1 and records[end - 1].type in ("messages", "boundary", "parts")
    ):
        end -= 1  # the effects say the same, and the state that these belong to is not copied
    return records[:end]


def _begins_more(record: Record) -> bool:
    if record.type == "run":  # without a task, it goes on with the same step
        return record.data.get("task") is not None
    return record.type == "state"


def _copy(records: Sequence[Record], log: SessionLog) -> None:
    if log.records or log.problems:  # somebody made it just now
        raise _taken(log.session_id)
    if isinstance(log, BaseLog):
        log.adopt(records)
        return
    new: dict[str | None, str] = {}
    for number, record in enumerate(records, 1):
        above = new.get(record.parent)
        is_last = number == len(records)
        new[record.id] = log.append(record.type, record.data, parent=above, durable=is_last).id


def _taken(name: str) -> ConfigError:
    return ConfigError(f"There is a session {name!r} already. Choose another name for the new one.")
