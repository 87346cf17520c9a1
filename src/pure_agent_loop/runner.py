"""One run behind four ways to start it: awaited or streamed, from async code or from sync code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import replace

from pure_agent_loop.bridge import get_portal, run_sync
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel import run_loop
from pure_agent_loop.kit import Emit, Kit
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.messages import Message, repair_history, text_of
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryConfig
from pure_agent_loop.state import QueryState
from pure_agent_loop.stream import EventStream
from pure_agent_loop.text import clean_text


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

    async def wait(self) -> AgentResult:
        """Run to the end."""
        await run_loop(self.state, replace(self._kit, emit=self._keep))
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
        return AgentResult.from_state(self.state, self.events)

    async def _keep(self, event: Event) -> None:
        self.events.append(event)

    async def _start(self, emit: Emit) -> None:
        async def keep_and_emit(event: Event) -> None:
            self.events.append(event)
            await emit(event)

        await run_loop(self.state, replace(self._kit, emit=keep_and_emit))


def start_state(
    task: str, messages: list[Message] | None, system_prompt: str, prompts: Prompts
) -> tuple[QueryState, list[str]]:
    """The state a run starts from, and notices about what had to be repaired in the history.

    Args:
        task: What to do.
        messages: The history so far.
        system_prompt: Used unless the history brings its own.
        prompts: The words of the framework.

    Raises:
        ConfigError: `task` or `system_prompt` is no text.
        HistoryError: `messages` is no list of messages.
    """
    if not isinstance(task, str):
        raise ConfigError(f"task must be text; it is {task!r:.80}.")
    check_types(system_prompt)
    history, fixes = repair_history([] if messages is None else messages, prompts.tool_lost)
    if history and history[0]["role"] in ("system", "developer"):
        system_prompt = text_of(history.pop(0)["content"])
    state = QueryState(system_prompt=clean_text(system_prompt), messages=history, task=task)
    state.add_user(task)
    return state, [f"The history was repaired: {'; '.join(fixes)}."] if fixes else []


def check_types(system_prompt: object = "", limits: object = None, retry: object = None) -> None:
    """Refuse what could not work, before anything depends on it.

    Raises:
        ConfigError: One of them is something else; the message says which.
    """
    expected: list[tuple[str, object, type]] = [("limits", limits, LoopLimits), ("retry", retry, RetryConfig)]
    for name, value, kind in expected:
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{name} must be a {kind.__name__}; it is {value!r:.80}.")
    if not isinstance(system_prompt, str):
        raise ConfigError(f"system_prompt must be text; it is {system_prompt!r:.80}.")


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
