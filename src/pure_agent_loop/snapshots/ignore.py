"""Match paths against ``.gitignore`` files, in bounded time.

Regular expressions would be shorter, but the files are untrusted, and a pattern such as ``*a*a*a*a*b``
takes a regular expression exponential time. Here each star costs at most one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

MAX_RULES = 2_000
_T = TypeVar("_T")
_P = TypeVar("_P")
_WILD = frozenset("*?[\\")

Match = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    names: tuple[Match | None, ...]  # None for ``**``
    negated: bool
    folders_only: bool
    last: Match | None  # for a pattern that matches a name at any depth


class Rules:
    """Rules of one file, for the folder that contains it.

    Args:
        base: Path of the folder, ending in a slash; empty for the root.
    """

    def __init__(self, base: str, lines: Iterable[str]) -> None:
        self._base = len(base)
        rules = [rule for line in lines if (rule := _parse(line)) is not None]
        self._rules = rules[:MAX_RULES][::-1]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return True if a path is ignored, False if it is re-included, None if no rule matches.

        Args:
            path: Path below the workspace, with slashes; inside the folder of these rules.
        """
        names: list[str] | None = None
        last = path.rpartition("/")[2]
        for rule in self._rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.last is not None:
                matches = rule.last(last)
            else:
                names = path[self._base :].split("/") if names is None else names
                matches = _matches(rule.names, names)
            if matches:
                return not rule.negated
        return None


def is_left_out(rules: Sequence[Rules], path: str, *, is_folder: bool) -> bool:
    """Combine the rules of several files, the deepest last: the deepest match wins."""
    for file_rules in reversed(rules):
        verdict = file_rules.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _parse(line: str) -> _Rule | None:
    line = _stripped(line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    if "/" not in line:
        return _Rule((), negated, folders_only, _name_matcher(line))
    parts = line.removeprefix("/").split("/")
    names = tuple(None if part == "**" else _name_matcher(part) for part in parts)
    return _Rule(names, negated, folders_only, None)


def _stripped(line: str) -> str:
    """Strip trailing spaces, except an escaped one."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare


def _matches(pattern: Sequence[Match | None], names: Sequence[str]) -> bool:
    if pattern and pattern[-1] is None:  # "a/**" matches the content of a, not a itself
        pattern = [*pattern, lambda _: True]
    return _star_match(pattern, names, lambda matcher, name: matcher is not None and matcher(name), _is_none)


def _is_none(part: Match | None) -> bool:
    return part is None


def _star_match(
    pattern: Sequence[_P],
    items: Sequence[_T],
    matches: Callable[[_P, _T], bool],
    is_star: Callable[[_P], bool],
) -> bool:
    """Match a glob; backtracks only to the last star."""
    position = item_index = 0
    star, star_item = -1, 0
    while item_index < len(items):
        if position < len(pattern) and is_star(pattern[position]):
            star, star_item = position, item_index
            position += 1
        elif position < len(pattern) and matches(pattern[position], items[item_index]):
            position, item_index = position + 1, item_index + 1
        elif star >= 0:
            star_item += 1
            position, item_index = star + 1, star_item
        else:
            return False
    while position < len(pattern) and is_star(pattern[position]):
        position += 1
    return position == len(pattern)


def _name_matcher(pattern: str) -> Match:
    """Return a test for one name."""
    if not _WILD & set(pattern):
        return pattern.__eq__
    if pattern.startswith("*") and not _WILD & set(pattern[1:]):
        suffix = pattern[1:]
        return lambda name: name.endswith(suffix)
    tokens = _parse_tokens(pattern)
    if tokens is None:
        return lambda _: False
    known = tokens
    return lambda name: _star_match(known, name, lambda token, letter: token(letter), _is_star)


def _any(_: str) -> bool:
    return True


def _star(_: str) -> bool:
    return True


def _is_star(token: Match) -> bool:
    return token is _star


def _parse_tokens(pattern: str) -> list[Match] | None:
    """Return one test per character; None if the pattern cannot match anything."""
    tokens: list[Match] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        position += 1
        if letter == "*":
            tokens.append(_star)
        elif letter == "?":
            tokens.append(_any)
        elif letter == "\\":
            if position == len(pattern):
                return None
            tokens.append(pattern[position].__eq__)
            position += 1
        elif letter == "[":
            choice = _parse_bracket(pattern, position)
            if choice is None:
                return None
            test, position = choice
            tokens.append(test)
        else:
            tokens.append(letter.__eq__)
    return tokens


def _parse_bracket(pattern: str, position: int) -> tuple[Match, int] | None:
    """Parse a bracket expression: return its test and its end; None if it is not closed."""
    negated = pattern[position : position + 1] in ("!", "^")
    position += negated
    ranges: list[tuple[str, str]] = []
    first = True
    while position < len(pattern) and (first or pattern[position] != "]"):
        first = False
        if pattern[position] == "\\" and position + 1 < len(pattern):
            position += 1
        low = high = pattern[position]
        position += 1
        if pattern[position : position + 1] == "-" and pattern[position + 1 : position + 2] not in ("", "]"):
            position += 1
            if pattern[position] == "\\" and position + 1 < len(pattern):
                position += 1
            high = pattern[position]
            position += 1
        ranges.append((low, high))
    if position >= len(pattern):
        return None
    return (lambda letter: any(low <= letter <= high for low, high in ranges) != negated), position + 1
