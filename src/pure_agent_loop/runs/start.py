"""Where a run of an agent starts: from a task, from a state, or in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.runs.run import resumed_state, start_state

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

Given = QueryState | Mapping[str, Any] | None


def begin_run(
    kit: Kit,
    system_prompt: str,
    task: str | None,
    messages: list[Message] | None,
    state: Given,
    parts: Sequence[dict[str, Any]],
) -> tuple[QueryState, Kit]:
    """The state and the kit of a run that is kept nowhere.

    Args:
        kit: What the agent works with.
        system_prompt: Its system prompt.
        task: What to do; None, with `state`, to go on.
        messages: A history to go on from.
        state: Where to go on.
        parts: What comes with the task; see `media_parts`.

    Raises:
        ConfigError: These do not fit together.
        HistoryError: `messages` is no list of messages.
    """
    _check_parts(task, parts)
    if state is None:
        if task is None:
            raise ConfigError(
                "task must be text; None goes on from a state, which is missing: state=result.state."
            )
        start, notices = start_state(task, messages, system_prompt, kit.prompts, parts)
    elif messages is not None:
        raise ConfigError("messages and state were both given. The state has its own messages.")
    else:
        start, notices = resumed_state(task, state, kit.prompts, parts)
    return start, replace(kit, opening=(*kit.opening, *notices))


def begin_in_session(
    kit: Kit,
    system_prompt: str,
    task: str | None,
    messages: list[Message] | None,
    state: Given,
    parts: Sequence[dict[str, Any]],
    store: SessionStore | None,
    session_id: str,
) -> tuple[QueryState, Kit]:
    """The state and the kit of a run that is kept in a session, which is open from then on; see `begin_run`.

    Raises:
        ConfigError: These do not fit together.
        HistoryError: `messages` is no list of messages.
        SessionError: The session cannot be opened.
    """
    from pure_agent_loop.sessions import default_store
    from pure_agent_loop.sessions.resume import open_session

    _check_parts(task, parts)
    if state is not None:
        raise ConfigError("state and session_id were both given. The session has its own state.")
    if task is not None and not isinstance(task, str):
        raise ConfigError(f"task must be text, or None to go on; it is {task!r:.80}.")

    def begin() -> tuple[QueryState, list[str]]:
        return start_state(str(task), messages, system_prompt, kit.prompts, parts)

    opened = open_session(store or default_store(), session_id, task, begin, kit, parts)
    opening = (*kit.opening, *opened.notices)
    return opened.state, replace(kit, opening=opening, journal=opened.journal)


def _check_parts(task: str | None, parts: Sequence[dict[str, Any]]) -> None:
    if parts and task is None:
        raise ConfigError("media come with a task: give both, or neither.")
