"""A conversation without its terminal: the agent, its session, and what is going on in it."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.toolset import Toolset
from pure_agent_loop.cli.which_session import Place
from pure_agent_loop.errors import SessionError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.llm.base import close_client
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import AskFunction
from pure_agent_loop.runs.choose import Choice
from pure_agent_loop.sessions import new_session_id
from pure_agent_loop.support.language import in_language
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.threads import Raised, run_in_thread

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.assistant.memory import MemoryStore
    from pure_agent_loop.assistant.trust import Guidance
    from pure_agent_loop.kernel.kit import Compactor, Kit
    from pure_agent_loop.kernel.state import QueryState
    from pure_agent_loop.mcp import MCPServers
    from pure_agent_loop.sessions.story import Story

MEMORY_CHARS = 4_000  # of the notes that each new session begins with
MEMORY_TITLE = {
    "en": "What the person has noted about this folder:",
    "zh": "用户为此文件夹记下的内容：",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """What the parts of a conversation have in common.

    Args:
        options: The parsed command line with the settings; `/mode` and answers change it.
        workspace: The folder it works in.
        toolset: What the model works with.
        trusted: The folder's own texts, as they were at the beginning, if they may guide the model.
    """

    options: argparse.Namespace
    workspace: Path
    toolset: Toolset
    trusted: Guidance | None


@dataclass(slots=True)
class Sums:
    """What was used since the conversation was opened."""

    tokens: int = 0
    cost: float = 0.0
    steps: int = 0
    context: dict[str, Any] = field(default_factory=dict)


class CompactOnce:
    """Shortens the history before the next request, whatever its length; later ones as always.

    Args:
        words: What summaries must keep in mind, as the person said; empty for nothing.
    """

    def __init__(self, words: str) -> None:
        from pure_agent_loop.compaction import Ladder

        self._ladder: Compactor = Ladder()
        self._words = chat_word("compact_words", words=words) if words else ""
        self._is_due = True

    def with_kit(self, kit: Kit) -> CompactOnce:
        """Itself, for one run."""
        from pure_agent_loop.compaction import Ladder

        system = f"{kit.prompts.summary_system}\n{self._words}".strip()
        self._ladder = Ladder().with_kit(replace(kit, prompts=replace(kit.prompts, summary_system=system)))
        return self

    async def compact(self, state: QueryState) -> None:
        """Shorten the history."""
        from pure_agent_loop.kernel.kit import force

        due, self._is_due = self._is_due, False
        await (force(self._ladder, state) if due else self._ladder.compact(state))

    async def force(self, state: QueryState) -> None:
        """Shorten it after a refusal."""
        from pure_agent_loop.kernel.kit import force

        await force(self._ladder, state)


class Talk:
    """One conversation. What it does comes as events; what a person answers comes through `on_ask`.

    Args:
        shared: What it works with.
        choice: The model.
        place: Where it is kept.
        on_ask: Asks the person.
        say: Told what the person should know.
    """

    def __init__(
        self,
        shared: Shared,
        choice: Choice,
        place: Place,
        on_ask: AskFunction,
        say: Callable[[str], None],
    ) -> None:
        self.shared, self.choice, self.place = shared, choice, place
        self.sums = Sums()
        self.begun = time.monotonic()
        self.step = 0
        self.compact_next: str | None = None  # what to keep in mind
        self.state: QueryState | None = None
        self._on_ask, self._say = on_ask, say
        self._token: CancelToken | None = None
        self._inbox = Inbox()
        self._queued = 0
        self._has_servers = False

    @property
    def is_working(self) -> bool:
        """Whether a run is going on."""
        return self._token is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._token is not None and self._token.is_cancelled

    @property
    def queued(self) -> int:
        """How many messages wait for their turn."""
        return 0 if self._inbox.is_empty else self._queued

    def stop(self) -> None:
        """Ask the run to stop; what was said stays."""
        if self._token is not None:
            self._token.cancel("the person stopped it")

    def steer(self, text: str, *, at_end: bool = False) -> None:
        """Say something while it works: it is read after this step, or when the agent would have stopped."""
        self._queued = self.queued + 1
        self._inbox.put(text, when="end" if at_end else "step")

    def left_over(self) -> str:
        """What was typed while it worked and was not read any more; it is taken out."""
        return "\n\n".join(each.text for each in self._inbox.take(at_end=True) if not each.synthetic)

    def prepare(self) -> None:
        """Load what the first task needs, which takes a moment. Any thread may do it, and more than once.

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
        """Do a task, or go on with what was being done.

        Args:
            task: What was said; None to go on.
            media: Images that come with it.
            typed: What of it a person has typed: resources of servers that this names come with it, too.

        Raises:
            PureAgentLoopError: It cannot begin.
        """
        self._token = token = CancelToken()
        self.begun, self.step = time.monotonic(), 0
        try:
            ready = await run_in_thread(self.prepare)
            if isinstance(ready, Raised):
                raise ready.error
            servers = await self.servers()
            if servers is not None and task is not None and "@" in typed:
                from pure_agent_loop.mcp.mentions import with_all

                task = await with_all(servers, task, typed)
            agent = self._agent()
            run = self.place.prepare(agent, task, token, self._say, inbox=self._inbox, media=media)
            self.state = run.state
            async with aclosing(run.stream()) as events:
                async for event in events:
                    self._note(event)
                    yield event
            result = run.result()
            self.sums.tokens += result.usage.total_tokens
            self.sums.cost += result.cost
            self.sums.steps += result.steps
        finally:
            self._token = None

    def _agent(self) -> Agent:
        """A new one for each task, so that a changed mode, model or rule holds."""
        shared, more = self.shared, ""
        if shared.options.system is None and (known := self.memory().digest(MEMORY_CHARS)):
            more = f"{in_language(MEMORY_TITLE)}\n{known}"
        agent = make_agent(
            shared.options,
            self.choice,
            self._on_ask,
            shared.toolset,
            shared.workspace,
            trusted=shared.trusted,
            more=more,
            compaction=True if self.compact_next is None else CompactOnce(self.compact_next),
        )
        self.compact_next = None
        return agent

    def _note(self, event: Event) -> None:
        self.step = event.step or self.step
        if event.type is EventType.STEP_END:
            self.sums.context = dict(event.data.get("context") or {})

    # -- what is kept -----------------------------------------------------------------------------

    def memory(self) -> MemoryStore:
        """The notes for this folder, in the data folder of the user."""
        from pure_agent_loop.assistant.memory import MemoryStore

        name = hashlib.sha256(str(self.shared.workspace).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        folder = data_folder() / "memory" / name
        private_folder(folder)
        return MemoryStore(folder)

    def story(self) -> Story:
        """What the session holds; empty if it cannot be read or nothing is kept."""
        from pure_agent_loop.sessions.story import Story, read_story

        if self.place.session_id is None or self.place.store is None:
            return Story()
        try:
            return read_story(self.place.store.read(self.place.session_id).records)
        except SessionError:
            return Story()

    def move_to(self, session_id: str | None) -> None:
        """Go on in another session; None for a new one."""
        self.place.session_id = session_id or (new_session_id() if self.place.session_id else None)
        self.place.forget()
        self.sums, self.state = Sums(), None

    async def servers(self) -> MCPServers | None:
        """The MCP servers. What was begun of them stays for the whole conversation."""
        servers = self.shared.toolset.mcp
        if servers is not None and not self._has_servers:
            self._has_servers = True
            await servers.__aenter__()
        return servers

    async def close(self) -> None:
        """Give back connections and an embedded model."""
        if self.shared.toolset.mcp is not None and self._has_servers:
            await self.shared.toolset.mcp.__aexit__()
        await close_client(self.choice.client)
