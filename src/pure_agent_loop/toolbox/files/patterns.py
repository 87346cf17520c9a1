"""Patterns for paths, such as ``src/**/*.py``, matched name by name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from pure_agent_loop.toolbox.complaints import WorkspaceError, shown
from pure_agent_loop.toolbox.files.words import say

MAX_PATTERN_CHARS = 1_000
MAX_CHOICES = 64
_CHOICE = re.compile(r"\{([^{}]*)\}")
_ANY_DEPTH = "**"
_Names = tuple[str, ...]
NOT_SEARCHED = frozenset({"node_modules", "__pycache__"})


class PathPattern:
    """``*``, ``?`` and ``[abc]`` within a name, ``**`` for any number of folders, ``{a,b}`` for a choice.

    Args:
        pattern: As a model writes it.

    Raises:
        WorkspaceError: It leads outside, or offers too many choices.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise WorkspaceError(say("pattern_too_long", limit=MAX_PATTERN_CHARS))
        self._choices = [_names(each, pattern) for each in _choices(pattern)]
        self._regexes: dict[str, re.Pattern[str]] = {}

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the path of these names fits."""
        return any(len(names) in self._after(names, parts) for names in self._choices)

    def may_contain(self, parts: Sequence[str]) -> bool:
        """Whether something in the folder of these names could fit."""
        return any(any(place < len(names) for place in self._after(names, parts)) for names in self._choices)

    def names_it(self, name: str) -> bool:
        """Whether the pattern asks for this name, and not just for anything."""
        return any(
            part[0] not in "*?[" and self._fits(part, name) for names in self._choices for part in names
        )

    def _after(self, names: _Names, parts: Iterable[str]) -> set[int]:
        """The places in the pattern that can be reached; a set, so that no pattern takes long."""
        places = _skipping({0}, names)
        for part in parts:
            reached = {place for place in places if place < len(names) and names[place] == _ANY_DEPTH}
            reached |= {
                place + 1
                for place in places
                if place < len(names) and names[place] != _ANY_DEPTH and self._fits(names[place], part)
            }
            places = _skipping(reached, names)
        return places

    def _fits(self, pattern: str, name: str) -> bool:
        regex = self._regexes.get(pattern)
        if regex is None:
            regex = self._regexes[pattern] = re.compile(fnmatch.translate(pattern))
        return regex.match(name) is not None


def _skipping(places: set[int], names: _Names) -> set[int]:
    """``**`` may stand for nothing."""
    reached = set(places)
    for place in range(len(names)):
        if place in reached and names[place] == _ANY_DEPTH:
            reached.add(place + 1)
    return reached


def _choices(pattern: str) -> list[str]:
    done, open_ = [], [pattern]
    while open_:
        each = open_.pop()
        found = _CHOICE.search(each)
        if found is None:
            done.append(each)
        else:
            before, after = each[: found.start()], each[found.end() :]
            open_ += [f"{before}{choice}{after}" for choice in found[1].split(",")]
        if len(done) + len(open_) > MAX_CHOICES:
            raise WorkspaceError(say("too_many_choices", pattern=shown(pattern), limit=MAX_CHOICES))
    return done


def _names(choice: str, pattern: str) -> _Names:
    if choice.startswith(("/", "~")) or ".." in choice.split("/"):
        raise WorkspaceError(say("pattern_relative", pattern=shown(pattern)))
    names: list[str] = []
    for name in choice.split("/"):
        if name in ("", ".") or (name == _ANY_DEPTH and names[-1:] == [_ANY_DEPTH]):
            continue
        names.append(name)
    if not names:
        raise WorkspaceError(say("pattern_empty"))
    return tuple(names)


def is_skipped(name: str) -> bool:
    """Whether a search leaves this name out unless it is asked for: hidden, or made by programs."""
    return name.startswith(".") or name in NOT_SEARCHED
