"""One run behind four ways to start it: awaited or streamed, from async code or from sync code."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Emit, Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.kernel.redacting import veiled
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.messages import Message, repair_history, text_of
from pure_agent_loop.media import user_content
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.result import AgentResult
from pure_agent_loop.runs.stream import EventStream
from pure_agent_loop.support.portal import get_portal, run_sync
from pure_agent_loop.support.text import clean_text


class Run:
    """A prepared run. Start it once, in one of the four ways.

    Args:
        state: Where it starts.
        kit: What it works with; its `emit` is replaced.
    """

    def __init__(self, state: QueryState, kit: Kit) -> None:
        self.state = state
        self.events: list[Event] = []
        self._kit = kit
        self._is_started = False
        weakref.finalize(self, kit.journal.close)  # one that is never started holds no session for ever

    @property
    def prompts(self) -> Prompts:
        """The words that its model reads."""
        return self._kit.prompts

    def steer(self, text: str) -> None:
        """Say something to the agent while it works; from any thread. It reads it before its next step."""
        self._kit.inbox.steer(text)

    def follow_up(self, text: str) -> None:
        """Say something that the agent takes up when it would have stopped; from any thread."""
        self._kit.inbox.follow_up(text)

    async def wait(self) -> AgentResult:
        """Run to the end.

        Raises:
            ConfigError: It was started before, in whatever way.
        """
        self._begin()
        await self._run(self._keep)
        return self.result()

    def wait_sync(self) -> AgentResult:
        """Run to the end, from sync code."""
        return run_sync(self.wait())

    def stream(self) -> AsyncGenerator[Event, None]:
        """Run while the events are read."""
        return EventStream(self._start).events()

    def stream_sync(self) -> Generator[Event, None, None]:
        """Run while the events are read, from sync code."""
        portal = get_portal()
        stream = EventStream(self._start)
        try:
            while batch := portal.call(stream.next_batch()):
                yield from batch
        finally:
            portal.leave(stream.aclose())

    def result(self) -> AgentResult:
        """The outcome, once the run has ended."""
        return AgentResult.from_state(self.state, self.events, self._kit.prompts)

    def history(self) -> list[Message]:
        """The messages so far, valid, with the thinking, which some servers want back."""
        return self.state.full_history(self._kit.prompts.tool_waiting)

    def _begin(self) -> None:
        """A second start would go on in a state that has ended, or that another task is changing."""
        if self._is_started:
            raise ConfigError(
                "This run was started already, and a run can be started only once. "
                "Make another one: agent.prepare(task), or loop.run(task)."
            )
        self._is_started = True

    async def _keep(self, event: Event) -> None:
        self.events.append(event)

    async def _start(self, emit: Emit) -> None:
        self._begin()

        async def keep_and_emit(event: Event) -> None:
            self.events.append(event)
            await emit(event)

        await self._run(keep_and_emit)

    async def _run(self, emit: Emit) -> None:
        try:
            await run_loop(self.state, replace(self._kit, emit=veiled(emit, self._kit.redactor)))
        finally:
            self._kit.journal.close()


def start_state(
    task: str,
    messages: list[Message] | None,
    system_prompt: str,
    prompts: Prompts,
    media: Sequence[dict[str, Any]] = (),
) -> tuple[QueryState, list[str]]:
    """The state a run starts from, and notices about what had to be repaired in the history.

    Args:
        task: What to do.
        messages: The history so far.
        system_prompt: Used unless the history brings its own.
        prompts: The words of the framework.
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
    state.add_user(user_content(task, media))
    return state, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


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
        prompts: The words of the framework.
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
        copy.task, copy.tool_rounds, copy.denied = task, 0, {}
        copy.must_close, copy.denied_rounds, copy.stop_hook_count = "", 0, 0  # they were about the old task
        copy.go_on(user_content(task, media), "follow_up")
    return copy, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


def check_types(**arguments: tuple[object, type]) -> None:
    """Refuse what could not work, before anything depends on it.

    Args:
        arguments: By name: the value and the type it must have, unless it is None.

    Raises:
        ConfigError: One of them is something else; the message says which.
    """
    for name, (value, kind) in arguments.items():
        if value is not None and not isinstance(value, kind):
            what = "text" if kind is str else f"a {kind.__name__}"
            raise ConfigError(f"{name} must be {what}; it is {value!r:.80}.")


def check_client(llm: object) -> None:
    """Refuse a model client that cannot answer.

    Raises:
        ConfigError: It has no method `chat`.
    """
    if not callable(getattr(llm, "chat", None)):
        raise ConfigError(
            f"llm must have an async method chat(messages, tools=None, **kwargs), like BaseLLMClient; "
            f"{type(llm).__name__} has none."
        )
