"""The ladder: four rungs, from the cheapest to the hardest, each only while the history is still too long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pure_agent_loop.compaction.change import take_over
from pure_agent_loop.compaction.shape import Unit, estimate, joined, units_of
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Compactor, Kit
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.long_results import READ_RESULT, ReadableTools, ResultFolder
from pure_agent_loop.kernel.window import find_window, fixed_tokens, measure, window_in_step
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import Message, user_message
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.typed import dataclass

if TYPE_CHECKING:
    from pure_agent_loop.compaction.summary import Summariser

RUNGS = ("prune", "repeated", "summary", "trim")
CHEAP = ("prune", "repeated")
LEAST_SAVING = 0.1  # of the limit, for the cheap ones: less is not worth a cold prompt cache at every step
WORTH_ASKING = 1_000  # tokens: no window is so small that a shorter history would not fit
FORCED_SHARE = 0.5  # of a request that was refused
TAIL_SHARE = 0.25  # of the room: the newest messages, which a summary leaves alone
SPOKEN_SHARE = 0.15  # of the room: what the user said before, which stays word for word
SUMMARY_SHARE = 0.2  # of the room: the summary
LEAST_SUMMARY = 200  # tokens


@dataclass(frozen=True, slots=True)
class Ladder:
    """Shortens a history that comes near the end of the model's window.

    Args:
        share: Of the window: a request that is longer is shortened.
        unknown_window_tokens: The same in tokens where nobody knows the window.
        keep_tool_tokens: So many tokens of the newest tool output stay whole; in a small window at most half
            of what fits.
        summarise: Whether the model may be asked for a summary.

    Raises:
        ConfigError: A number cannot work.
    """

    share: float = 0.8
    unknown_window_tokens: int = 100_000
    keep_tool_tokens: int = 40_000
    summarise: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"Ladder.share={self.share!r} must be a number above 0, up to 1.")
        if self.unknown_window_tokens < 1 or self.keep_tool_tokens < 0:
            raise ConfigError("Ladder.unknown_window_tokens and keep_tool_tokens must be positive numbers.")

    def with_kit(self, kit: Kit) -> Compactor:
        """The ladder for one run."""
        return LadderRun(self, kit)

    async def compact(self, state: QueryState) -> None:  # noqa: ARG002 - the protocol's shape
        """Not possible without a kit.

        Raises:
            ConfigError: Always; a run uses what `with_kit` gives.
        """
        raise ConfigError("A Ladder needs the kit of a run: Ladder().with_kit(kit).compact(state).")


class LadderRun:
    """The ladder at work in one run; see `Ladder`."""

    def __init__(self, settings: Ladder, kit: Kit) -> None:
        self._settings = settings
        self._kit = kit
        self._asked_for_window = False
        self._ceiling = math.inf  # what a server has refused
        self._summariser: Summariser | None = None

    async def compact(self, state: QueryState) -> None:
        """Shorten the history if the next request comes near the end of the window."""
        tokens, _, _ = measure(state, self._kit)
        if tokens > WORTH_ASKING and not self._asked_for_window:
            self._asked_for_window = True
            await find_window(state, self._kit)
        limit = self._limit(state)
        if tokens > limit:
            await self._climb(state, limit)

    async def force(self, state: QueryState) -> None:
        """Shorten the history after a refusal, whatever was thought of its length."""
        tokens = measure(state, self._kit).tokens
        self._ceiling = min(self._ceiling, self._settings.share * tokens)
        await self._climb(state, min(self._limit(state), int(FORCED_SHARE * tokens)))

    def _limit(self, state: QueryState) -> int:
        """Tokens above which the history is shortened."""
        window = window_in_step(state, self._kit)
        if window is None:
            return int(min(self._settings.unknown_window_tokens, self._ceiling))
        options = self._kit.options
        output = max((options[n] for n in TOKEN_LIMITS if isinstance(options.get(n), int)), default=0)
        free = max(window - output, window // 2)
        return int(min(self._settings.share * window, free, self._ceiling))

    async def _climb(self, state: QueryState, limit: int) -> None:
        for rung in RUNGS:
            if measure(state, self._kit).tokens <= limit:
                return
            messages = await self._try(rung, state, limit)
            if messages is not None:
                least = LEAST_SAVING * limit if rung in CHEAP else 0.0
                await take_over(rung, messages, state, self._kit, least)

    async def _try(self, rung: str, state: QueryState, limit: int) -> list[Message] | None:
        from pure_agent_loop.compaction.rungs import drop_repeated, prune, trim  # most runs are short

        words, room = self._kit.prompts, self._room(state, limit)
        if rung == "prune":
            keep_tokens = min(self._settings.keep_tool_tokens, room // 2)
            return prune(state.messages, keep_tokens, self._keep, words)
        if rung == "repeated":
            return drop_repeated(state.messages, words)
        if rung == "summary":
            return await self._summarised(state, limit, room) if self._settings.summarise else None
        return trim(state.messages, room, words)

    def _room(self, state: QueryState, limit: int) -> int:
        """Tokens of our own guess that the messages may have, where a server counts otherwise."""
        fixed, guessed = fixed_tokens(state, self._kit), state.context.estimate(state.messages)
        measured = max(1, measure(state, self._kit).tokens)
        return max(0, int(limit * (fixed + guessed) / measured) - fixed)

    def _keep(self, text: str) -> str | None:
        tools = self._kit.tools
        if not isinstance(tools, ReadableTools) or not len(tools) or READ_RESULT in tools:
            return None
        try:
            return ResultFolder(self._kit.results.folder).keep(text)
        except OSError:
            return None

    async def _summarised(self, state: QueryState, limit: int, room: int) -> list[Message] | None:
        from pure_agent_loop.compaction.summary import Summariser

        stays, old, tail = divide(units_of(state.messages), room)
        tokens = max(LEAST_SUMMARY, int(SUMMARY_SHARE * room))
        if estimate(joined(old)) <= 2 * tokens:  # a summary would not be much shorter
            return None
        summariser = self._summariser = self._summariser or Summariser(state, self._kit, "compact")
        try:
            text = await summariser.summarise(joined(old), limit, tokens)
        except LLMError as error:
            message = f"No summary could be written: {safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            return None
        summary = user_message(f"{self._kit.prompts.summary_head}\n\n{text}", synthetic=True)
        return [*joined(stays), summary, *joined(tail)]


def divide(units: Sequence[Unit], room: int) -> tuple[list[Unit], list[Unit], list[Unit]]:
    """What a summary leaves in front of it, what it takes the place of, and what follows it."""
    begin, left = len(units) - 1, TAIL_SHARE * room - (units[-1].tokens if units else 0)
    while begin > 0 and left >= units[begin - 1].tokens:
        begin -= 1
        left -= units[begin].tokens
    head, tail = list(units[: max(begin, 0)]), list(units[max(begin, 0) :])
    kept = _spoken(head, SPOKEN_SHARE * room)
    stays = [unit for index, unit in enumerate(head) if unit.fixed or index in kept]
    old = [unit for index, unit in enumerate(head) if not unit.fixed and index not in kept]
    return stays, old, tail


def _spoken(units: Sequence[Unit], tokens: float) -> set[int]:
    """Which messages of the user stay word for word: the first, then the newest that fit."""
    spoken = [index for index, unit in enumerate(units) if unit.spoken and not unit.fixed]
    kept: set[int] = set()
    for index in [*spoken[:1], *reversed(spoken[1:])]:
        if units[index].tokens <= tokens:
            kept.add(index)
            tokens -= units[index].tokens
    return kept
