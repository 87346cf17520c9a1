"""A conversation without a terminal: the agent, the session and the current run."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.choose import choose, models_of, plan_of
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.options import CommandOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.session_list import story_of
from pure_agent_loop.cli.toolset import RunToolset
from pure_agent_loop.cli.which_session import SessionTarget
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.llm.base import close_client, origin_of
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import AskFunction
from pure_agent_loop.runs import Choice, Embedded, protocol_of
from pure_agent_loop.sessions import new_session_id
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop import QueryState, TokenUsage
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.assistant import Guidance, MemoryStore
    from pure_agent_loop.compaction import Compactor
    from pure_agent_loop.durable import SessionCopy
    from pure_agent_loop.kernel.kit import Kit
    from pure_agent_loop.mcp import MCPServers
    from pure_agent_loop.runs import Run
    from pure_agent_loop.sessions.story import Entry, Story
    from pure_agent_loop.toolbox import BackgroundCommand, BackgroundCommands

MEMORY_CHARS = 4_000  # maximum characters of the notes that the model gets


@dataclass(frozen=True, slots=True)
class ChatConfig:
    """The configuration of a conversation.

    Args:
        options: The command line and settings; changed by `/mode` and answers.
        trusted: The guidance files of the folder, as read at the start, if they are trusted.
    """

    options: CommandOptions
    workspace: Path
    toolset: RunToolset
    trusted: Guidance | None


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, cost in dollars (None if unknown) and seconds of one or more runs."""

    usage: TokenUsage
    cost: float | None
    seconds: float

    def __add__(self, other: Spent) -> Spent:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Spent(self.usage + other.usage, cost, self.seconds + other.seconds)


@dataclass(slots=True)
class UsageTotals:
    """Usage of the last task, and of all tasks since the conversation started."""

    task: Spent | None = None  # None before the first task has ended
    all: Spent | None = None
    context: dict[str, Any] = field(default_factory=dict)


class CompactOnce:
    """Compacts the history before the next request regardless of length, and later only when needed.

    Args:
        words: What summaries must keep, in the user's words; empty if the user said nothing.
    """

    def __init__(self, words: str) -> None:
        from pure_agent_loop.compaction import Ladder

        self._ladder: Compactor = Ladder()
        self._words = user_text("chat.compact_words", words=words) if words else ""
        self._is_due = True

    def with_kit(self, kit: Kit) -> CompactOnce:
        """Bind the compactor to a run."""
        from pure_agent_loop.compaction import Ladder

        system = f"{kit.prompts.summary_system}\n{self._words}".strip()
        self._ladder = Ladder().with_kit(replace(kit, prompts=replace(kit.prompts, summary_system=system)))
        return self

    async def compact(self, state: QueryState) -> None:
        """Compact the history."""
        from pure_agent_loop.kernel.kit import compact_now

        due, self._is_due = self._is_due, False
        await (compact_now(self._ladder, state) if due else self._ladder.compact(state))

    async def force(self, state: QueryState) -> None:
        """Compact the history after the server has rejected its length."""
        from pure_agent_loop.kernel.kit import compact_now

        await compact_now(self._ladder, state)


class ChatSession:
    """A conversation: yields events and asks the user through `on_ask`.

    Args:
        shows_reasoning: True to also yield reasoning that the server sends without being asked.
    """

    def __init__(
        self,
        shared: ChatConfig,
        choice: Choice,
        place: SessionTarget,
        on_ask: AskFunction,
        notify: Callable[[str], None],
        *,
        shows_reasoning: bool = False,
    ) -> None:
        self._shows_reasoning = shows_reasoning
        self.shared, self.choice, self.place = shared, choice, place
        self.usage = UsageTotals()
        self.begun = time.monotonic()
        # What the next summary must keep; None if no compaction was requested.
        self.compact_next: str | None = None
        self.state: QueryState | None = None
        self.mark()
        self._on_ask, self._notify = on_ask, notify
        self._token: CancelToken | None = None
        self._run: Run[Any] | None = None  # the current run, and its settings at the start
        self._settings: dict[str, Any] = {}
        self._inbox = Inbox()
        self._queued: list[str] = []
        self._has_servers = False
        self._background: BackgroundCommands | None = None  # set once a run may have started commands
        self._windows: dict[str, int] = {}  # sizes of context windows that servers list, by model

    @property
    def is_working(self) -> bool:
        """True during a run."""
        return self._token is not None

    @property
    def is_stopping(self) -> bool:
        """True if the run has been asked to stop."""
        return self._token is not None and self._token.is_cancelled

    @property
    def queued(self) -> list[str]:
        """The messages that the agent has not read yet."""
        return [text for text in self._queued if text in self._inbox]

    def stop(self) -> None:
        """Ask the run to stop; the conversation is kept."""
        if self._token is not None:
            self._token.cancel("the person stopped it")

    def steer(self, text: str, *, at_end: bool = False) -> None:
        """Send a message to the running agent, which reads it after the current step or before it stops."""
        self._queued = [*self.queued, text]
        self._inbox.put(text, when="end" if at_end else "step")

    async def prepare_to_leave(self) -> SessionCopy:
        """Check that the run can be handed over, and return the receiver for `leave`.

        Raises:
            PureAgentLoopError: The run cannot be handed over.
        """
        from pure_agent_loop.cli.detached import STORED, agent_name, refusal

        place = self.place
        if self._run is None or place.session_id is None:
            raise ConfigError(notice("cli.left_unrecorded"))
        engine = await in_thread(place.open_engine)
        shares_costs = place.store is engine.sessions
        if refused := refusal(self._settings, self.shared.toolset, shares_costs=shares_costs):
            raise ConfigError(notice("cli.left_refused", settings=refused))
        await in_thread(engine.register)
        return place.receiver(agent_name(), metadata={STORED: self._settings})

    async def leave(self, receiver: SessionCopy, *, at_once: bool) -> tuple[str, bool]:
        """Hand the run over to a worker, with a copy of the session.

        Args:
            at_once: False to wait until running calls have ended.

        Returns:
            The id of the durable run, and True if a worker is alive.

        Raises:
            PureAgentLoopError: The run cannot be handed over and continues here, or the hand-over failed and
                the run has ended.
        """
        from pure_agent_loop.cli.detached import agent_name
        from pure_agent_loop.durable import to_session

        if self._run is None or self.place.session_id is None:
            raise ConfigError(notice("library.not_detachable"))
        deliver, grace = to_session(self.place.session_id), 0.0 if at_once else None
        handle = await self._run.detach(receiver, agent_name(), deliver, grace=grace)
        return handle.run_id, await in_thread(lambda: bool(self.place.open_engine().workers()))

    def left_over(self) -> str:
        """Remove and return the queued messages that the agent has not read."""
        return "\n\n".join(item.text for item in self._inbox.take(at_end=True) if not item.synthetic)

    def prepare(self) -> None:
        """Load the modules and the model of the first task. Thread-safe and idempotent.

        Raises:
            PureAgentLoopError: The model cannot be used.
        """
        importlib.import_module("pure_agent_loop.agent")
        prepare = getattr(self.choice.client, "prepare", None)
        if prepare is not None:
            prepare()

    async def run(
        self, task: str | None, media: Sequence[MediaItem] = (), typed: str = ""
    ) -> AsyncGenerator[Event, None]:
        """Run a task, or resume the interrupted run, and yield its events.

        Args:
            task: The task; None to resume.
            typed: The part of the task that the user typed; resources named in this part are attached.

        Raises:
            PureAgentLoopError: The run cannot start.
        """
        self._token = token = CancelToken()
        self.begun = time.monotonic()
        self._hold_background()
        try:
            await in_thread(self.prepare)
            servers = await self.servers()
            if servers is not None and task is not None and "@" in typed:
                from pure_agent_loop.mcp import expand_mentions

                task = await expand_mentions(servers, task, typed)
            agent = self._agent()
            run = self.place.prepare(agent, task, token, self._notify, inbox=self._inbox, media=media)
            self.state, self._run = run.state, run
            async with aclosing(run.stream()) as events:
                async for event in events:
                    if event.type is EventType.STEP_END:
                        self.usage.context = dict(event.data.get("context") or {})
                    yield event
            result = run.result()
            self.usage.task = Spent(result.usage, result.cost, time.monotonic() - self.begun)
            self.usage.all = self.usage.task if self.usage.all is None else self.usage.all + self.usage.task
        finally:
            self._token = self._run = None
            self.mark()

    @property
    def background(self) -> list[BackgroundCommand]:
        """The conversation's background commands, including some that have ended."""
        return [] if self._background is None else list(self._background)

    def stop_background(self) -> None:
        """Ask all background commands to end, and notify the user."""
        if self._background is not None and (running := self._background.running):
            from pure_agent_loop.cli.chat.background import background_row

            rows = "\n".join(map(background_row, running))
            self._notify(user_text("chat.background_leaving", commands=rows))
            self._background.stop(running)

    async def end_background(self, commands: Sequence[BackgroundCommand]) -> None:
        """End background commands, and wait until they have ended."""
        if self._background is not None:
            await self._background.end(commands)

    def _hold_background(self) -> None:
        """Keep background commands alive between runs, until `close` or a change of session."""
        from pure_agent_loop.cli.chat.background import background_row

        def tell(command: BackgroundCommand) -> None:
            self._notify(user_text("chat.background_ended", command=background_row(command)))

        if self.shared.toolset.shell is not None:
            self._background = self.shared.toolset.shell.background
            self._background.hold(tell)

    def _agent(self) -> Agent:
        """Create an agent for each task, so that a changed mode, model or rule takes effect."""
        shared = self.shared
        agent = make_agent(
            shared.options,
            self.choice,
            self._on_ask,
            shared.toolset,
            shared.workspace,
            trusted=shared.trusted,
            is_attended=True,
            remembered=self.memory().digest(MEMORY_CHARS),
            compaction=True if self.compact_next is None else CompactOnce(self.compact_next),
            shows_reasoning=self._shows_reasoning,
        )
        self.compact_next = None
        from pure_agent_loop.cli.detached import settings_of

        self._settings = settings_of(
            shared.options, self.choice.client, shared.toolset, shared.workspace, shared.trusted
        )
        return agent

    # -- the server -------------------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """Tokens of the context window; 0 if unknown."""
        return int(self.usage.context.get("window") or self._windows.get(self.choice.model) or 0)

    async def find_window(self) -> None:
        """Look up an unknown context window in the server's list of models, once per model."""
        if not self.window and self.choice.model not in self._windows:
            self._windows[self.choice.model] = 0
            with suppress(Exception):  # without a list, the window remains unknown
                await self.models()

    async def models(self) -> list[str]:
        """Return the names of the server's models.

        Raises:
            PureAgentLoopError: The server has no list, or the request failed.
        """
        options, model = self.shared.options, self.choice.model
        plan = await in_thread(lambda: plan_of(options))
        if not isinstance(plan, Embedded):
            protocol = protocol_of(options.model or os.environ.get("PAL_MODEL", ""))
            plan = plan._replace(model=f"{protocol}:{model}" if protocol else model)
        names, self._windows[model] = await models_of(plan)
        return names

    # -- storage ----------------------------------------------------------------------------------------

    def memory(self) -> MemoryStore:
        """Open the notes of this folder, which are stored in the user's data folder."""
        from pure_agent_loop.assistant import MemoryStore

        name = hashlib.sha256(str(self.shared.workspace).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        folder = data_folder() / "memory" / name
        private_folder(folder)
        return MemoryStore(folder)

    def story(self) -> Story:
        """Read the session; return an empty story if the session is unreadable or nothing is recorded."""
        from pure_agent_loop.sessions.story import Story

        if self.place.session_id is None or self.place.store is None:
            return Story()
        return story_of(self.place.store, self.place.session_id)

    def use_model(self, model: str | None) -> Choice:
        """Use a model, or the same model with another key, from the next task on; this call blocks.

        Raises:
            PureAgentLoopError: The model cannot be used.
        """
        self.choice = self._choose(model)
        self.shared.options.model = model
        return self.choice

    def _choose(self, model: str | None) -> Choice:
        named, quiet = replace(self.shared.options, model=model), io.StringIO()
        return choose(named, named.thinking, CommandOutput(quiet, quiet, colour=False))

    def use_model_of(self, story: Story) -> None:
        """Use the model of a resumed session if it is on the same server, unless ``--model`` was typed."""
        options = self.shared.options
        protocol = protocol_of(options.model or os.environ.get("PAL_MODEL", ""))
        model = f"{protocol}:{story.model}" if protocol else story.model
        is_typed = options.model and options.configured.origins.get("model", "--model") == "--model"
        if not story.model or story.model == self.choice.model or is_typed:
            return
        with suppress(PureAgentLoopError):
            if origin_of(self._choose(model).client) == story.origin:
                self.use_model(model)

    def move_to(self, session_id: str | None) -> None:
        """Switch to another session; None starts a new session."""
        self.place.session_id = session_id or (new_session_id() if self.place.session_id else None)
        self.place.forget()
        self.stop_background()
        self.usage, self.state = UsageTotals(), None
        self.mark()
        if not self.place.attend():
            self._notify(user_text("cli.open_elsewhere", session=self.place.session_id))

    def mark(self) -> None:
        """Record that this conversation has shown the current state of the session."""
        self._shown, self._shown_at = self.place.stamp(), time.time()

    def news(self) -> Sequence[Entry] | None:
        """Return what other processes have added since `mark`; None if the session has been deleted."""
        stamp, before = self.place.stamp(), self._shown_at
        if stamp == self._shown:
            return ()
        self.mark()
        return None if stamp is None else [entry for entry in self.story().entries if entry.time > before]

    async def servers(self) -> MCPServers | None:
        """Start the MCP servers if needed and return them; they run until `close`."""
        servers = self.shared.toolset.mcp
        if servers is not None and not self._has_servers:
            self._has_servers = True
            await servers.__aenter__()
        return servers

    async def close(self) -> None:
        """End background commands; close connections and the embedded model."""
        await self.end_background([each for each in self.background if each.finished is None])
        if self.shared.toolset.mcp is not None and self._has_servers:
            await self.shared.toolset.mcp.__aexit__()
        await close_client(self.choice.client)
