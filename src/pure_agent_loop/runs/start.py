"""Where a run of an agent starts: from a task or from a state. `sessions.resume` starts one in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message, repair_history, text_of
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.runs.handoff import Member, in_charge
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.support.typed import dataclass

if TYPE_CHECKING:
    from pure_agent_loop.runs.options import Given


@dataclass(frozen=True, slots=True)
class RunInput:
    """What a run begins with, besides the kit.

    Args:
        task: What to do; None to go on with what was being done.
        messages: A history to go on from.
        system_prompt: Used unless the history brings its own.
        state: Where to go on.
        media: Parts that come with the task; see `media_parts`.
        first: The agent itself, which may have handed the state or the session over to another one.

    Raises:
        ConfigError: `task` is no text, or there are media without a task.
    """

    task: str | None
    messages: list[Message] | None = None
    system_prompt: str = ""
    state: Given = None
    media: Sequence[dict[str, Any]] = ()
    first: Member | None = None

    def __post_init__(self) -> None:
        if self.task is not None and not isinstance(self.task, str):
            raise ConfigError(f"task must be text, or None to go on; it is {self.task!r:.80}.")
        if self.media and self.task is None:
            raise ConfigError("media come with a task: give both, or neither.")


def begin_run(kit: Kit, given: RunInput) -> tuple[QueryState, Kit]:
    """The state and the kit of a run that is kept nowhere.

    Raises:
        ConfigError: These do not fit together.
        HistoryError: Its `messages` are no list of messages.
    """
    if given.state is not None:
        if given.messages is not None:
            raise ConfigError("messages and state were both given. The state has its own messages.")
        start, notices = resumed_state(given.task, given.state, kit.prompts, given.media)
        kit, _ = in_charge(given.first, kit, start, new_task=given.task is not None)
    elif given.task is None:
        raise ConfigError(
            "task must be text; None goes on from a state, which is missing: state=result.state."
        )
    else:
        start, notices = start_state(
            given.task, given.messages, given.system_prompt, kit.prompts, given.media
        )
    return start, kit.changed(opening=(*kit.opening, *notices)) if notices else kit


def start_state(
    task: str,
    messages: list[Message] | None,
    system_prompt: str,
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """The state a run starts from, and notices about what had to be repaired in the history.

    Args:
        system_prompt: Used unless the history brings its own.
        media: Parts of the message besides the text; see `media_parts`.

    Raises:
        ConfigError: `task` or `system_prompt` is no text.
        HistoryError: `messages` is no list of messages.
    """
    if not isinstance(task, str):
        raise ConfigError(f"task must be text; it is {task!r:.80}.")
    if not isinstance(system_prompt, str):
        raise ConfigError(f"system_prompt must be text; it is {system_prompt!r:.80}.")
    history, fixes = repair_history([] if messages is None else messages, prompts.tool_lost)
    if history and history[0]["role"] in ("system", "developer"):
        system_prompt = text_of(history.pop(0)["content"])
    state = QueryState(system_prompt=clean_text(system_prompt), messages=history, task=task)
    state.add_user(task, media)
    return state, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


def brings_system(messages: object) -> bool:
    """True if a history begins with a system message of its own."""
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, Mapping) and first.get("role") in ("system", "developer")


def resumed_state(
    task: str | None,
    state: QueryState | Mapping[str, Any],
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """A copy of a state, ready to go on, and notices about what had to be repaired.

    Args:
        task: Something more to do, under the same limits; None to go on with what it was doing.
        state: A state or its plain form.
        media: Parts that come with the task; see `media_parts`.

    Raises:
        ConfigError: `task` is no text, or `state` is no state.
        HistoryError: Its messages are none.
    """
    if task is not None and not isinstance(task, str):
        raise ConfigError(f"task must be text, or None to go on; it is {task!r:.80}.")
    data = state.to_dict() if isinstance(state, QueryState) else state
    copy = QueryState.from_dict(data)
    last = copy.messages[-1:] if copy.pending else []  # its calls are open on purpose
    fixed, fixes = repair_history(copy.messages[: len(copy.messages) - len(last)], prompts.tool_lost)
    copy.messages = [*fixed, *last]
    copy.resume()
    if task is not None:
        copy.close(prompts.tool_not_started)
        copy.task, copy.tool_rounds = task, 0
        copy.must_close, copy.stop_hook_count = "", 0  # they were about the old task
        copy.permissions.forget_refusals()
        copy.tools.retries = {}
        copy.go_on(task, "follow_up", media)
    return copy, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []
