"""Start of a run from a task or a state. `sessions.resume` starts a run in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import DAY_LIMITS
from pure_agent_loop.llm.messages import Message, repair_history, text_of
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.runs.handoff import HandoffTarget, resolve_handoff
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import clean_text

if TYPE_CHECKING:
    from pure_agent_loop.runs.options import Given


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunInput:
    """Input of a run, without the kit.

    Args:
        task: Task text; None to resume.
        system_prompt: System message, unless the history has its own.
        media: Parts attached to the task; see `media_parts`.
        first: Initial agent, which may have handed the state or the session over to another one.

    Raises:
        ConfigError: `task` is not a string, or media are given without a task.
    """

    task: str | None
    messages: list[Message] | None = None
    system_prompt: str = ""
    state: Given = None
    media: Sequence[dict[str, Any]] = ()
    first: HandoffTarget | None = None

    def __post_init__(self) -> None:
        if self.task is not None and not isinstance(self.task, str):
            raise ConfigError(f"task must be text, or None to continue; it is {self.task!r:.80}.")
        if self.media and self.task is None:
            raise ConfigError("media needs a task. Pass both, or neither.")


def begin_run(kit: Kit, run_input: RunInput) -> tuple[QueryState, Kit]:
    """Return the state and the kit of a run without a session.

    Raises:
        ConfigError: The inputs conflict.
        HistoryError: `messages` is not a list of messages.
    """
    if kit.limits.money.keys() & {*DAY_LIMITS}:
        raise ConfigError(notice("library.day_needs_session"))
    if run_input.state is not None:
        if run_input.messages is not None:
            raise ConfigError(
                "messages and state were both given. Pass only state: it includes its messages."
            )
        start, notices = resumed_state(run_input.task, run_input.state, kit.prompts, run_input.media)
        kit, _ = resolve_handoff(run_input.first, kit, start, new_task=run_input.task is not None)
    elif run_input.task is None:
        raise ConfigError("task must be text; None needs a state to continue from: state=result.state.")
    else:
        start, notices = start_state(
            run_input.task, run_input.messages, run_input.system_prompt, kit.prompts, run_input.media
        )
    return start, kit.replace(start_notices=(*kit.start_notices, *notices)) if notices else kit


def start_state(
    task: str,
    messages: list[Message] | None,
    system_prompt: str,
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """Return the initial state of a run, and notices about repairs of the history.

    Args:
        system_prompt: System message, unless the history has its own.
        media: Parts attached to the message; see `media_parts`.

    Raises:
        ConfigError: `task` or `system_prompt` is not a string.
        HistoryError: `messages` is not a list of messages.
    """
    if not isinstance(task, str):
        raise ConfigError(f"task must be text; it is {task!r:.80}.")
    if not isinstance(system_prompt, str):
        raise ConfigError(f"system_prompt must be text; it is {system_prompt!r:.80}.")
    history, fixes = repair_history([] if messages is None else messages, prompts.tool_lost)
    own = None
    if history and history[0]["role"] in ("system", "developer"):
        system_prompt = own = clean_text(text_of(history.pop(0)["content"] or ""))
    state = QueryState(system_prompt=clean_text(system_prompt), own_prompt=own, messages=history, task=task)
    state.add_user(task, media)
    return state, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


def brings_system(messages: object) -> bool:
    """Return True if a history begins with its own system message."""
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, Mapping) and first.get("role") in ("system", "developer")


def resumed_state(
    task: str | None,
    state: QueryState | Mapping[str, Any],
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """Return a copy of a state, ready to resume, and notices about repairs.

    Args:
        task: Additional task, under the same limits; None to resume the current one.
        state: State or its plain form.
        media: Parts attached to the task; see `media_parts`.

    Raises:
        ConfigError: `task` is not a string, or `state` is not a state.
        HistoryError: The messages of the state are invalid.
    """
    if task is not None and not isinstance(task, str):
        raise ConfigError(f"task must be text, or None to continue; it is {task!r:.80}.")
    data = state.to_dict() if isinstance(state, QueryState) else state
    copy = QueryState.from_dict(data)
    last = copy.messages[-1:] if copy.pending else []  # its calls are pending on purpose
    fixed, fixes = repair_history(copy.messages[: len(copy.messages) - len(last)], prompts.tool_lost)
    copy.messages = [*fixed, *last]
    copy.resume()
    if task is not None:
        copy.close(prompts.tool_not_started)
        copy.task, copy.tool_rounds = task, 0
        copy.must_close, copy.stop_hook_count = "", 0  # both belong to the old task
        copy.permissions.forget_refusals()
        copy.tools.retries = {}
        copy.go_on(task, "follow_up", media)
    return copy, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []
