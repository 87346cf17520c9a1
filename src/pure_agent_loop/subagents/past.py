"""What a history says about tasks: how they ended, and which of them nobody has told the end of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pure_agent_loop.llm.messages import Message

# As `SubagentWords` writes it, in both languages.
_MARK = re.compile(r"[\[【]task ([a-z][a-z0-9_-]{0,40}) (\w+)[\]】]")
_OPEN = ("pending", "backgrounded")


def told_of(texts: Iterable[str]) -> set[tuple[str, str]]:
    """Tasks and their states, as far as texts say them."""
    return {(name, state) for text in texts for name, state in _MARK.findall(text)}


def left_open(messages: Sequence[Message], told: Iterable[tuple[str, str]]) -> list[str]:
    """Tasks that were begun beside the run, and of which nothing was heard after that.

    Args:
        messages: The history.
        told: What it says of tasks; see `told_of`.
    """
    results = [str(each.get("content")) for each in messages if each["role"] == "tool"]
    begun = [found for text in results if (found := _MARK.match(text)) and found[2] in _OPEN]
    ended = {name for name, state in told if state not in _OPEN}
    return [name for name in dict.fromkeys(each[1] for each in begun) if name not in ended]
