"""Match paths against ``.gitignore`` files, in bounded time: the files are untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pure_agent_loop.support.globs import Test, match_stars

MAX_RULES = 2_000
_WILD = frozenset("*?[\\")
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|\[(?P<negated>[!^]|(?![!^]))(?P<choice>(?:\\.|[^\\])(?:\\.|[^\\\]])*)\]|[^\\\[]", re.S
)
_RANGE = re.compile(r"\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.S)  # in brackets


@dataclass(frozen=True, slots=True)
class _Rule:
    names: tuple[Test | None, ...]  # None for ``**``
    negated: bool
    folders_only: bool
    last: Test | None  # test for a path's last name, if the pattern matches at any depth


class Rules:
    """Rules of one ``.gitignore`` file, for the folder that contains the file.

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
            path: Path below the workspace, with slashes; it must lie in the folder of these rules.
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
                matches = match_stars(rule.names, names)
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
        return _Rule((), negated, folders_only, _name_test(line))
    parts = line.removeprefix("/").split("/")
    names = tuple(None if part == "**" else _name_test(part) for part in parts)
    inside = (_any,) if names[-1] is None else ()  # "a/**" matches the content of a, not a itself
    return _Rule((*names, *inside), negated, folders_only, None)


def _stripped(line: str) -> str:
    """Strip trailing spaces, except an escaped one."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare


def _name_test(pattern: str) -> Test:
    if not _WILD & set(pattern):
        return pattern.__eq__
    if pattern.startswith("*") and not _WILD & set(pattern[1:]):
        suffix = pattern[1:]
        return lambda name: name.endswith(suffix)
    tests: list[Test | None] = []
    end = 0
    while end < len(pattern):
        token = _TOKEN.match(pattern, end)
        if token is None:  # an open bracket, or a backslash at the end, matches nothing
            return lambda _: False
        tests.append(_letter_test(token))
        end = token.end()
    return lambda name: match_stars(tests, name)


def _letter_test(token: re.Match[str]) -> Test | None:
    """Return a test for one character; None for a star."""
    if token["choice"] is not None:
        negated = token["negated"] != ""
        ranges = [(part["low"], part["high"] or part["low"]) for part in _RANGE.finditer(token["choice"])]
        return lambda letter: any(low <= letter <= high for low, high in ranges) != negated
    wildcards = {"*": None, "?": _any}
    return wildcards[token[0]] if token[0] in wildcards else (token["escaped"] or token[0]).__eq__


def _any(_: str) -> bool:
    return True
