"""Path patterns such as ``src/**/*.py``, matched name by name."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Sequence
from itertools import takewhile

from pure_agent_loop.support.globs import Test, match_stars
from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.complaints import WorkspaceError, shown

MAX_PATTERN_CHARS = 1_000
MAX_CHOICES = 64
_WILD = re.compile(r"[*?\[]")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_ANY_DEPTH = "**"
NOT_SEARCHED = frozenset({"node_modules", "__pycache__"})
_Names = tuple[str, ...]


class PathPattern:
    """A path pattern: ``*``, ``?``, ``[abc]`` within a name, ``**`` for any folders, ``{a,b}`` for choices.

    Raises:
        WorkspaceError: The pattern leads outside or has too many choices.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise WorkspaceError(model_text("pattern_too_long", limit=MAX_PATTERN_CHARS))
        self._choices = [_names(choice, pattern) for choice in _choices(pattern)]
        self._tests = [tuple(map(_name_test, names)) for names in self._choices]

    @property
    def fixed(self) -> _Names:
        """The leading folder names that all matches share."""
        literal = [
            tuple(takewhile(lambda name: not _WILD.search(name), names[:-1])) for names in self._choices
        ]
        pairs = zip(min(literal), max(literal), strict=False)
        return tuple(name for name, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def matches(self, parts: Sequence[str]) -> bool:
        """Return True if a path matches."""
        return any(match_stars(tests, parts) for tests in self._tests)

    def may_contain(self, parts: Sequence[str]) -> bool:
        """Return True if a folder can contain a match."""
        return any(match_stars(tests, parts, begins=True) for tests in self._tests)

    def names_it(self, name: str) -> bool:
        """Return True if a part of the pattern that does not begin with a wildcard matches this name."""
        return any(
            part[0] not in "*?[" and fnmatch.fnmatchcase(name, part)
            for names in self._choices
            for part in names
        )


def _name_test(pattern: str) -> Test | None:
    return None if pattern == _ANY_DEPTH else functools.partial(fnmatch.fnmatchcase, pat=pattern)


def _choices(pattern: str) -> list[str]:
    expanded, pending = [], [pattern]
    while pending:
        text = pending.pop()
        choice = _CHOICE.search(text)
        if choice is None:
            expanded.append(text)
        else:
            before, after = text[: choice.start()], text[choice.end() :]
            pending += [f"{before}{option}{after}" for option in choice[1].split(",")]
        if len(expanded) + len(pending) > MAX_CHOICES:
            raise WorkspaceError(model_text("too_many_choices", pattern=shown(pattern), limit=MAX_CHOICES))
    return expanded


def _names(choice: str, pattern: str) -> _Names:
    if choice.startswith(("/", "~")) or ".." in choice.split("/"):
        raise WorkspaceError(model_text("pattern_relative", pattern=shown(pattern)))
    names: list[str] = []
    for name in choice.split("/"):
        if name in ("", ".") or (name == _ANY_DEPTH and names[-1:] == [_ANY_DEPTH]):
            continue
        names.append(name)
    if not names:
        raise WorkspaceError(model_text("pattern_empty"))
    return tuple(names)


def is_skipped(name: str) -> bool:
    """Return True if a search skips this name by default: a hidden or generated file or folder."""
    return name.startswith(".") or name in NOT_SEARCHED
