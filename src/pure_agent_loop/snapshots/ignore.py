"""Which paths ``.gitignore`` files leave out, in time that no pattern can make long.

Regular expressions would be shorter, but the files come with the workspace, and a pattern such as
``*a*a*a*a*b`` keeps an expression busy for ages. Here each star costs at most one pass.
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
    names: tuple[Match | None, ...]  # None stands for ``**``
    negated: bool
    folders_only: bool
    last: Match | None  # for a rule about a name at any depth


class Rules:
    """The rules of one file, for the folder that it lies in.

    Args:
        base: The folder, with a slash at its end; empty for the root.
        lines: The lines of the file.
    """

    def __init__(self, base: str, lines: Iterable[str]) -> None:
        self._base = len(base)
        found = [rule for line in lines if (rule := _parse(line)) is not None]
        self._rules = found[:MAX_RULES][::-1]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """True: left out. False: taken in again. None: nothing is said.

        Args:
            path: Below the workspace, with slashes; inside the folder of these rules.
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
    """What several files say together, the deepest last."""
    for each in reversed(rules):
        verdict = each.verdict(path, is_folder=is_folder)
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
        return _Rule((), negated, folders_only, _name(line))
    parts = line.removeprefix("/").split("/")
    names = tuple(None if part == "**" else _name(part) for part in parts)
    return _Rule(names, negated, folders_only, None)


def _stripped(line: str) -> str:
    """Without the spaces at the end, but one that is escaped."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare


def _matches(pattern: Sequence[Match | None], names: Sequence[str]) -> bool:
    if pattern and pattern[-1] is None:  # "a/**" is what is in a, not a itself
        pattern = [*pattern, lambda _: True]
    return _star_match(pattern, names, lambda wanted, name: wanted is not None and wanted(name), _is_none)


def _is_none(part: Match | None) -> bool:
    return part is None


def _star_match(
    pattern: Sequence[_P], items: Sequence[_T], same: Callable[[_P, _T], bool], is_star: Callable[[_P], bool]
) -> bool:
    """Glob matching that goes back only to the last star."""
    at = here = 0
    star, mark = -1, 0
    while here < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, mark = at, here
            at += 1
        elif at < len(pattern) and same(pattern[at], items[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            mark += 1
            at, here = star + 1, mark
        else:
            return False
    while at < len(pattern) and is_star(pattern[at]):
        at += 1
    return at == len(pattern)


def _name(pattern: str) -> Match:
    """A test for one name."""
    if not _WILD & set(pattern):
        return pattern.__eq__
    if pattern.startswith("*") and not _WILD & set(pattern[1:]):
        suffix = pattern[1:]
        return lambda name: name.endswith(suffix)
    tokens = _tokens(pattern)
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


def _tokens(pattern: str) -> list[Match] | None:
    """One test for each letter; None for a pattern that can match nothing."""
    tokens: list[Match] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        if letter == "*":
            tokens.append(_star)
        elif letter == "?":
            tokens.append(_any)
        elif letter == "\\":
            if at == len(pattern):
                return None
            tokens.append(pattern[at].__eq__)
            at += 1
        elif letter == "[":
            found = _choice(pattern, at)
            if found is None:
                return None
            test, at = found
            tokens.append(test)
        else:
            tokens.append(letter.__eq__)
    return tokens


def _choice(pattern: str, at: int) -> tuple[Match, int] | None:
    """A bracket: the test, and where it ends; None if it does not end."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[tuple[str, str]] = []
    first = True
    while at < len(pattern) and (first or pattern[at] != "]"):
        first = False
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
        low = high = pattern[at]
        at += 1
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            at += 1
            if pattern[at] == "\\" and at + 1 < len(pattern):
                at += 1
            high = pattern[at]
            at += 1
        ranges.append((low, high))
    if at >= len(pattern):
        return None
    return (lambda letter: any(low <= letter <= high for low, high in ranges) != negated), at + 1
