"""Handoffs: the loop of one agent ends with ``handed_off``, and the loop of another agent begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.origins import keep_origins, with_meta
from pure_agent_loop.kernel.redacting import redacting_emit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message, as_messages, is_question, repair_history, user_message
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.runs.settings import HasKit, kit_of, with_handoff_tools
from pure_agent_loop.stop_reasons import HANDED_OFF
from pure_agent_loop.support.abilities import as_protocol, check_shape
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.failures import log_failure
from pure_agent_loop.support.language import default_language, in_each_language, model_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, ToolOutcome, ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

MAX_HANDOFFS = 8  # per run; after the last handoff, the current agent must answer
Filter = Literal["all", "no_tools", "task"] | Callable[[list[Message]], list[Message]]
_FILTERS = ("all", "no_tools", "task")
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class HandoffTarget(HasKit, Protocol):
    """Interface of an agent for handoffs, implemented by `Agent`."""

    system_prompt: str
    description: str
    handoffs: dict[str, Handoff]


@dataclass(frozen=True, slots=True)
class Handoff:
    """Target agent of a handoff: ``Agent(handoffs=[Handoff(billing)])``.

    Args:
        agent: Target agent; it must have a name.
        description: When to hand over, worded for the model; if empty, the agent's description.
        filter: History for the agent: ``"all"``; ``"no_tools"``, without calls and results; ``"task"``,
            only the last user message; or a function that takes a copy of the messages and returns those to
            keep.

    Raises:
        ConfigError: The agent has no name, or the filter is unknown.
    """

    agent: HandoffTarget
    description: str = ""
    filter: Filter = "all"

    def __post_init__(self) -> None:
        require(hasattr(self.agent, "_kit"), "A handoff", self.agent, "an Agent or a Handoff(agent)")
        if not self.name:
            raise ConfigError("Handoff.agent needs a name: Agent(name='billing').")
        if callable(self.filter):
            check_shape("Handoff.filter", self.filter, ("messages",))
        elif self.filter not in _FILTERS:
            raise ConfigError(f"Handoff.filter={self.filter!r} must be {', '.join(_FILTERS)}, or a function.")

    @property
    def name(self) -> str:
        """Name of the agent."""
        agent_name: str = self.agent._kit.name
        return agent_name

    def tool(self) -> Tool:
        """Return the tool that the model calls to hand over."""
        descriptions = in_each_language(
            "hand_over", agent=self.name, description=self.description or self.agent.description
        )

        async def hand_over() -> ToolOutcome:
            return ToolOutcome(model_text("handed_over", agent=self.name), hands_to=self.name)

        return Tool(
            hand_over,
            name=f"transfer_to_{tool_name(self.name)}",
            description=descriptions[default_language()],
            parameters=_NOTHING,
            # A handoff itself changes nothing; the target agent's calls are checked separately.
            read_only=True,
            words={language: ToolWords(text) for language, text in descriptions.items()},
        )

    def read(self, messages: list[Message]) -> list[Message]:
        """Return the history for the target agent."""
        if callable(self.filter):
            filtered: Any = self.filter(deepcopy(messages))
            if not isinstance(filtered, (list, tuple)) or not all(
                isinstance(message, dict) for message in filtered
            ):
                raise ConfigError(
                    f"Handoff.filter must return a list of messages; it returned {filtered!r:.80}."
                )
            return list(filtered)
        if self.filter == "task":
            users = [message for message in messages if message["role"] == "user"]
            return [message for message in users if is_question(message)][-1:] or users[-1:]
        if self.filter == "no_tools":
            return [message for message in map(_without_calls, messages) if message is not None]
        return messages


def _without_calls(message: Message) -> Message | None:
    if message["role"] == "tool" or (message.get("tool_calls") and not message.get("content")):
        return None
    return {name: value for name, value in message.items() if name != "tool_calls"}


def tool_name(name: str) -> str:
    """Return the name of an agent as a valid part of a tool name."""
    name_part = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_-")
    return name_part[:40] if name_part[:1].isalpha() else f"agent_{name_part}"[:40]


def checked_handoffs(targets: Any, name: str, tools: ToolRegistry) -> tuple[dict[str, Handoff], ToolRegistry]:
    """Return the handoffs of an agent by name, and its tools with the handoff tools.

    Raises:
        ConfigError: A handoff is invalid, or two have the same name.
    """
    require(
        isinstance(targets, Iterable) and not isinstance(targets, (str, Mapping)),
        "handoffs",
        targets,
        "a list of agents",
    )
    handoffs: dict[str, Handoff] = {}
    for target in targets:
        handoff = target if isinstance(target, Handoff) else Handoff(target)
        if handoff.name in handoffs or handoff.name == name:
            raise ConfigError(f"handoffs: two agents have the name {handoff.name!r}. Rename one.")
        handoffs[handoff.name] = handoff
    return handoffs, with_handoff_tools(tools, handoffs)


def resolve_handoff(
    first: HandoffTarget | None, kit: Kit, state: QueryState, *, new_task: bool
) -> tuple[Kit, list[str]]:
    """Return the kit of a state's current agent, and the names of the handoffs that led to it.

    Args:
        first: Initial agent; None if handoffs are impossible.
        state: State to resume. For a new task, the state's handoff chain and system prompt are updated, but
            its current agent stays the same.
        new_task: True if the state has a new task.

    Raises:
        ConfigError: The current agent cannot be reached from the initial one.
    """
    if first is None or not state.handed_to:
        return kit, []
    if new_task:
        state.handed_to = _shortest(state.handed_to, first._kit.name)
    names = state.handed_to[: -1 if state.stop_reason == HANDED_OFF else None]
    for number in range(len(names)):
        kit = _restrict(member_at(first, names[: number + 1]), kit)
    member = member_at(first, names)
    if new_task:
        state.system_prompt, state.rewritten["system"] = member.system_prompt, "handoff"
    return (_at_the_end(kit, member) if len(names) >= MAX_HANDOFFS else kit), names


def _restrict(member: HandoffTarget, above: Kit) -> Kit:
    """Return the kit of a target agent; the run's `output_type` applies to the last agent."""
    from pure_agent_loop.runs.together import restricted_kit

    below = replace(restricted_kit(kit_of(member), above), leave=above.leave)
    return replace(below, output=above.output, output_of_run=True) if above.output_of_run else below


def member_at(first: HandoffTarget, names: Sequence[str]) -> HandoffTarget:
    """Return the agent that a conversation was handed over to.

    Args:
        names: Names of the target agents, in order.

    Raises:
        ConfigError: An agent cannot be reached from the previous one.
    """
    for name in names:
        first = _next(first, name).agent
    return first


def _at_the_end(kit: Kit, member: HandoffTarget) -> Kit:
    """Return the kit without handoff tools."""
    transfer_tools = {f"transfer_to_{tool_name(name)}" for name in member.handoffs}
    kept = [tool for tool in kit.tools.entries() if getattr(tool, "name", "") not in transfer_tools]
    return replace(kit, tools=ToolRegistry(kept))


def _next(member: HandoffTarget, name: str) -> Handoff:
    if name not in member.handoffs:
        raise ConfigError(
            f"This conversation was handed over to {name!r}, which is not in the handoffs of "
            f"{member._kit.name or 'this agent'!r}: {', '.join(member.handoffs) or 'none'}."
        )
    return member.handoffs[name]


def _shortest(names: Sequence[str], first: str) -> list[str]:
    """Return the path to the current agent, with cycles removed."""
    path = [first]
    for name in names:
        path = [*path[: path.index(name)], name] if name in path else [*path, name]
    return path[1:]


def handed_state(old: QueryState, system_prompt: str, messages: list[HistoryMessage]) -> QueryState:
    """Return the initial state of the next agent's loop: counters are kept, everything else is reset."""
    plain = old.to_dict()
    new = QueryState.from_dict(
        {
            **QueryState().to_dict(),
            **{name: plain[name] for name in ("ledger", "usage", "held", "handed_to", "own_prompt")},
        }
    )
    new.system_prompt, new.messages, new.task = system_prompt, messages, old.task
    new.answers, new.session_id, new.transition_reason = old.answers, old.session_id, "handoff"
    new.permissions = replace(old.permissions.for_next(), denied=dict(old.permissions.denied))
    return QueryState.from_dict(new.to_dict())


class Journals(Protocol):
    """Journal that records the start of a run, such as that of a session."""

    def begin_handed(self, state: QueryState, kit: Kit, *, history: bool) -> None:
        """Record the start of the next agent's loop."""


def hand_over(first: HandoffTarget, state: QueryState, kit: Kit) -> tuple[QueryState, Kit]:
    """Return the state and kit for the next agent's loop, after one that ended with ``handed_off``."""
    names = state.handed_to
    handoff = _next(member_at(first, names[:-1]), names[-1])
    member: HandoffTarget = handoff.agent
    below, messages = _restrict(member, kit), state.messages
    state.permissions.is_guarded |= below.permissions.mode == "guard"
    chosen = handoff.read(as_messages(messages))
    if chosen is not messages:
        messages, _ = repair_history(chosen, kit.prompts.tool_lost)
        messages = messages or [user_message(state.task)]
        if state.permissions.is_guarded:  # a message written by a filter does not count as the user's
            messages = [
                message
                if message in state.messages or not is_question(message)
                else with_meta(message, model=True)
                for message in messages
            ]
            messages = keep_origins(state.messages, messages)
    new = handed_state(state, member.system_prompt, messages)
    if len(names) >= MAX_HANDOFFS:
        below = _at_the_end(below, member)
    notice = f"The conversation was handed over to the agent {names[-1]!r}."
    emit = kit.emit if below.redactor is kit.redactor else redacting_emit(kit.emit, below.redactor)
    below = replace(below, start_notices=(*below.start_notices, notice), emit=emit)
    journal = as_protocol(kit.journal, Journals)
    if journal is not None:
        journal.begin_handed(new, below, history=handoff.filter != "all")
    return new, below


async def following(
    first: HandoffTarget | None, state: QueryState, kit: Kit
) -> tuple[QueryState, Kit] | None:
    """Return the state and kit for the next agent's loop; None if the run was not handed over.

    A handoff that fails ends the run with an error.

    Args:
        first: Initial agent; None if handoffs are impossible.
    """
    if state.stop_reason != HANDED_OFF or first is None:
        return None
    try:
        return hand_over(first, state, kit)
    except Exception as error:  # noqa: BLE001 - a filter of the user, a journal: the reader has to know
        await end_with(error, state, kit)
        return None


async def end_with(error: Exception, state: QueryState, kit: Kit) -> None:
    """End a run with an error, because handing it over after its loop has failed."""
    log_failure("The handoff", error)
    state.failure, state.stop_reason = error, "error"
    words = f"The conversation cannot be handed over: {type(error).__name__}: {safe_str(error)}"
    await kit.emit(Event.error(state.step, words, fatal=True, kind="unknown"))
    await kit.emit(Event.loop_end(state.step, "error", state.content, state.history()))
