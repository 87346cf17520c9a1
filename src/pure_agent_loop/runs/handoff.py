"""Handing a conversation over: one loop ends with ``handed_off``, the loop of another agent begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Protocol

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.permission_ledger import PermissionLedger
from pure_agent_loop.kernel.redacting import veiled
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message, is_question, repair_history, user_message
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.runs.live import drive
from pure_agent_loop.runs.settings import HasKit, kit_of
from pure_agent_loop.runs.words import in_both, say
from pure_agent_loop.stop_reasons import HANDED_OFF
from pure_agent_loop.support.abilities import able
from pure_agent_loop.support.language import default_language
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool import Tool, ToolOutcome, ToolRegistry

MOST_HANDOFFS = 8  # in one run; after them the agent in charge has to answer itself
Filter = Literal["all", "no_tools", "task"] | Callable[[list[Message]], list[Message]]
_FILTERS = ("all", "no_tools", "task")
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class Member(HasKit, Protocol):
    """An agent, as far as this is concerned; `Agent` is one."""

    system_prompt: str
    description: str
    handoffs: dict[str, Handoff]


@dataclass(frozen=True, slots=True)
class Handoff:
    """Another agent that a conversation can be handed over to: ``Agent(handoffs=[Handoff(billing)])``.

    Args:
        agent: Who goes on; it needs a name.
        description: When to hand over, for the model; the description of the agent if empty.
        filter: What the other one reads of the history: ``"all"``; ``"no_tools"``, without calls and results;
            ``"task"``, only what the user asked last; or a function that is given the messages (a copy) and
            returns those it is to read.

    Raises:
        ConfigError: The agent has no name, or there is no such filter.
    """

    agent: Member
    description: str = ""
    filter: Filter = "all"

    def __post_init__(self) -> None:
        if not hasattr(self.agent, "_kit"):
            raise ConfigError(f"A handoff is an Agent or a Handoff(agent); it is {self.agent!r:.80}.")
        if not self.name:
            raise ConfigError("An agent that is handed over to needs a name: Agent(name='billing').")
        if not callable(self.filter) and self.filter not in _FILTERS:
            raise ConfigError(f"Handoff.filter={self.filter!r} must be {', '.join(_FILTERS)}, or a function.")

    @property
    def name(self) -> str:
        """The agent's name."""
        found: str = self.agent._kit.name
        return found

    def tool(self) -> Tool:
        """What the model calls to hand over."""
        about = in_both("hand_over", agent=self.name, description=self.description or self.agent.description)

        async def hand_over() -> ToolOutcome:
            return ToolOutcome(say("handed_over", agent=self.name), hands_to=self.name)

        return Tool(
            hand_over,
            name=f"transfer_to_{tool_name(self.name)}",
            description=about[default_language()],
            parameters=_NOTHING,
            read_only=True,  # what the other one does is judged there
            words={language: ToolWords(text) for language, text in about.items()},
        )

    def read(self, messages: list[Message]) -> list[Message]:
        """What the other agent reads of a history."""
        if callable(self.filter):
            found: Any = self.filter(deepcopy(messages))
            if not isinstance(found, (list, tuple)) or not all(isinstance(each, dict) for each in found):
                raise ConfigError(f"Handoff.filter must return a list of messages; it gave {found!r:.80}.")
            return list(found)
        if self.filter == "task":
            users = [each for each in messages if each["role"] == "user"]
            return [each for each in users if is_question(each)][-1:] or users[-1:]
        if self.filter == "no_tools":
            return [each for each in map(_without_calls, messages) if each is not None]
        return messages


def _without_calls(message: Message) -> Message | None:
    if message["role"] == "tool" or (message.get("tool_calls") and not message.get("content")):
        return None
    return {name: value for name, value in message.items() if name != "tool_calls"}


def tool_name(name: str) -> str:
    """The name of an agent, as a tool may be called."""
    found = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_-")
    return found[:40] if found[:1].isalpha() else f"agent_{found}"[:40]


def checked_handoffs(given: Any, name: str, tools: ToolRegistry) -> tuple[dict[str, Handoff], ToolRegistry]:
    """The handoffs of an agent by name, and its tools with those that hand over.

    Raises:
        ConfigError: One is none, or two have one name.
    """
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise ConfigError(f"handoffs must be a list of agents; it is {given!r:.80}.")
    found: dict[str, Handoff] = {}
    for each in given:
        handoff = each if isinstance(each, Handoff) else Handoff(each)
        if handoff.name in found or handoff.name == name:
            raise ConfigError(f"Two agents have the name {handoff.name!r}: handoffs go by name. Rename one.")
        found[handoff.name] = handoff
    return found, ToolRegistry([*tools, *(each.tool() for each in found.values())]) if found else tools


def in_charge(first: Member | None, kit: Kit, state: QueryState, *, new_task: bool) -> tuple[Kit, list[str]]:
    """What the agent in charge of a state works with, and to whom it was handed over until then.

    Args:
        first: The agent that was asked first; None where nobody can hand over.
        state: A state to go on from; with a new task it is put in order: the same agent stays in charge.
        new_task: It has one.

    Raises:
        ConfigError: The agent in charge cannot be reached from the first one.
    """
    if first is None or not state.handed_to:
        return kit, []
    if new_task:
        state.handed_to = _shortest(state.handed_to, first._kit.name)
    names = state.handed_to[: -1 if state.stop_reason == HANDED_OFF else None]
    for number in range(len(names)):
        kit = _below(member_at(first, names[: number + 1]), kit)
    member = member_at(first, names)
    if new_task:
        state.system_prompt = member.system_prompt
    return (_at_the_end(kit, member) if len(names) >= MOST_HANDOFFS else kit), names


def _below(member: Member, above: Kit) -> Kit:
    """What an agent works with that goes on; an `output_type` of the run holds for whoever ends it."""
    from pure_agent_loop.runs.together import beneath

    below = beneath(kit_of(member), above)
    return replace(below, output=above.output, output_of_run=True) if above.output_of_run else below


def member_at(first: Member, names: Sequence[str]) -> Member:
    """The agent that a conversation was handed over to.

    Args:
        names: To whom it was handed over, in order.

    Raises:
        ConfigError: One of them cannot be reached from the one before.
    """
    for name in names:
        first = _next(first, name).agent
    return first


def _at_the_end(kit: Kit, member: Member) -> Kit:
    """Nobody is left to hand over to."""
    mine = {f"transfer_to_{tool_name(name)}" for name in member.handoffs}
    return replace(kit, tools=ToolRegistry(each for each in kit.tools if each.name not in mine))


def _next(member: Member, name: str) -> Handoff:
    if name not in member.handoffs:
        raise ConfigError(
            f"This conversation was handed over to {name!r}, and no such agent stands in the handoffs of "
            f"{member._kit.name or 'this agent'!r}: {', '.join(member.handoffs) or 'it has none'}."
        )
    return member.handoffs[name]


def _shortest(names: Sequence[str], first: str) -> list[str]:
    """The way to the agent in charge without going round in circles."""
    path = [first]
    for name in names:
        path = [*path[: path.index(name)], name] if name in path else [*path, name]
    return path[1:]


def handed_state(old: QueryState, system_prompt: str, messages: list[Message]) -> QueryState:
    """Where the loop of the next agent begins: what was counted goes on, the rest begins anew."""
    plain = old.to_dict()
    new = QueryState.from_dict(
        {**QueryState().to_dict(), **{name: plain[name] for name in ("ledger", "usage", "held", "handed_to")}}
    )
    new.system_prompt, new.messages, new.task = system_prompt, messages, old.task
    new.answers, new.session_id, new.transition_reason = old.answers, old.session_id, "handoff"
    asked = old.permissions
    new.permissions = PermissionLedger(denied=dict(asked.denied), always_allowed=list(asked.always_allowed))
    return QueryState.from_dict(new.to_dict())


class Journals(Protocol):
    """A journal that writes down that a run begins; that of a session does."""

    def begin_handed(self, state: QueryState, kit: Kit, *, history: bool) -> None:
        """The loop of the next agent begins."""
        ...


def hand_over(first: Member, state: QueryState, kit: Kit) -> tuple[QueryState, Kit]:
    """The state and the kit of the loop that follows one that ended with ``handed_off``.

    Args:
        first: The agent that was asked first.
    """
    names = state.handed_to
    handoff = _next(member_at(first, names[:-1]), names[-1])
    member: Member = handoff.agent
    messages = handoff.read(state.messages)
    if messages is not state.messages:
        messages, _ = repair_history(messages, kit.prompts.tool_lost)
        messages = messages or [user_message(state.task)]
    new = handed_state(state, member.system_prompt, messages)
    below = _below(member, kit)
    if len(names) >= MOST_HANDOFFS:
        below = _at_the_end(below, member)
    notice = f"The conversation was handed over to the agent {names[-1]!r}."
    emit = veiled(kit.emit, member._kit.redactor)
    below = replace(below, opening=(*below.opening, notice), emit=emit)
    journal = able(kit.journal, Journals)
    if journal is not None:
        journal.begin_handed(new, below, history=handoff.filter != "all")
    return new, below


async def run_loops(
    state: QueryState, kit: Kit, first: Member | None, on_state: Callable[[QueryState, Kit], None]
) -> None:
    """Drive a run through all agents it is handed over to, and close its journal.

    Args:
        first: The agent that was asked first; None where nobody can hand over.
        on_state: Told of each loop that follows, before it begins.
    """
    try:
        await drive(state, kit)
        while state.stop_reason == HANDED_OFF and first is not None:
            try:
                state, kit = hand_over(first, state, kit)
            except Exception as error:  # noqa: BLE001 - a filter of the user, a journal: the reader has to know
                state.failure, state.stop_reason = error, "error"
                words = f"The conversation cannot be handed over: {type(error).__name__}: {safe_str(error)}"
                await kit.emit(Event.error(state.step, words, fatal=True, kind="unknown"))
                await kit.emit(Event.loop_end(state.step, "error", state.content, state.history()))
                return
            on_state(state, kit)
            await drive(state, kit)
    finally:
        kit.journal.close()
