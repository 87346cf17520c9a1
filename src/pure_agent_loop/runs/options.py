"""What a run may be given besides its task: written once, for every way to start one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.media import MediaItem

Given = QueryState | Mapping[str, Any] | None  # where to go on, as a caller gives it


class SendOptions(TypedDict, total=False):
    """Options of one message of a conversation; `Agent.prepare` says what each does."""

    cancel_token: CancelToken | None
    inbox: Inbox | None
    media: Iterable[MediaItem] | None


class RunOptions(SendOptions, total=False):
    """Options of a run of an agent; `Agent.prepare` says what each does."""

    state: Given
    session_id: str | None
