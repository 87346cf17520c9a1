"""Whether a shell line may run unasked, must be asked about, or is refused.

Allowed is what the user's own rules name, and a short list of commands that look and change nothing. Nobody
has approved the rest: in a sandbox it is tried read-only, elsewhere it is a question.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.toolbox.shell.reasons import say

if TYPE_CHECKING:  # what reads lines is loaded with the first of them
    from pure_agent_loop.toolbox.shell.line import Line, Redirect, Simple
    from pure_agent_loop.toolbox.shell.rules import Rule

ShellBehavior = Literal["allow", "ask", "deny"]
_RANK = {"allow": 0, "ask": 1, "deny": 2}


class _Part(NamedTuple):
    text: str
    behavior: ShellBehavior
    why: str
    by_rule: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a policy says about a line, and why.

    Args:
        behavior: ``"allow"``, ``"ask"`` or ``"deny"``.
        reason: Names the simple command and the rule, or what is not known about it.
        by_rule: A rule of the user asks, or has allowed some of it; else it is asked because nobody has
            approved it, or allowed because every command is on the short list.
    """

    behavior: ShellBehavior
    reason: str
    by_rule: bool = False


@dataclass(frozen=True)
class ShellPolicy:
    """Rules for shell lines, on top of a short list of harmless commands.

    A rule is one simple command: ``"npm test"``, ``"git push *"``. A star is any text inside a word; a last
    word that is a star is any further operands, or none, but no options. Deny wins over ask, ask over
    allow; a line is as its strictest part. Allow rules are taken literally; deny and ask rules are looked
    for behind paths, quotes and wrappers, and with further words behind them.

    Args:
        allow: Commands that run unasked.
        deny: Commands that are refused.
        ask: Commands that are asked about in any case.
        root: The workspace's absolute path, so that absolute paths below it count as inside. The line
            is taken to run in that folder or below it in any case.

    Raises:
        ConfigError: A rule cannot work. The message names it.
    """

    allow: Iterable[str] = ()
    deny: Iterable[str] = ()
    ask: Iterable[str] = ()
    root: str | None = None
    _allow: tuple[Rule, ...] = field(init=False, repr=False, compare=False)
    _deny: tuple[Rule, ...] = field(init=False, repr=False, compare=False)
    _ask: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("allow", "deny", "ask"):
            rules = _read_rules(name, getattr(self, name))
            object.__setattr__(self, f"_{name}", rules)
            object.__setattr__(self, name, tuple(rule.text for rule in rules))
        root = self.root
        if root is not None:
            root = str(root)
            if not root.startswith("/") or posixpath.normpath(root) == "/":
                raise ConfigError(f"root is {root!r}; give the workspace's absolute path")
            root = posixpath.normpath(root)
            object.__setattr__(self, "root", root)

    def judge(self, command: str) -> Verdict:
        """Say whether a line may run. Never raises for any text.

        Args:
            command: What would be given to ``bash -c``.
        """
        parts = self._read(command)
        worst = max(parts, key=lambda part: _RANK[part.behavior])
        by_rule = any(part.by_rule and part.behavior == worst.behavior for part in parts)
        if worst.behavior == "allow":
            reason = "; ".join(dict.fromkeys(f"{part.text}: {part.why}" for part in parts))
            return Verdict("allow", reason, by_rule)
        return Verdict(worst.behavior, f"{_short(worst.text)}: {worst.why}", by_rule)

    def explain(self, command: str) -> list[tuple[str, ShellBehavior, str]]:
        """Each simple command of a line, with what is said about it and why.

        Args:
            command: What would be given to ``bash -c``.
        """
        return [part[:3] for part in self._read(command)]

    def _read(self, command: str) -> list[_Part]:
        if not isinstance(command, str):
            raise ConfigError(f"command must be a text, not {command!r}")
        from pure_agent_loop.toolbox.shell.syntax import parser, read_line

        if parser() is None:
            return [_Part(command, "ask", str(MissingExtraError("judging shell lines", "shell")))]
        try:
            return list(self._parts(command, read_line(command)))
        except RecursionError:
            return [_Part(command, "ask", say("shell_too_many_levels_line"))]

    def _parts(self, command: str, line: Line) -> Iterator[_Part]:
        from pure_agent_loop.toolbox.shell.disasters import disaster_of_line

        said = disaster_of_line(command, line)
        if said:
            yield _Part(command, "deny", said)
        if line.trouble:
            yield _Part(command, "ask", say("shell_unsure", trouble=line.trouble[0]))
        strict = self._strict(line)
        for redirect in line.redirects:
            said = self._redirect(redirect)
            if said:
                yield _Part(redirect.text, "ask", said)
        for simple in line.commands:
            yield strict.get(id(simple)) or self._part(simple)
        if not line.commands:
            yield _Part(command, "ask", say("shell_no_command"))

    def _strict(self, line: Line) -> dict[int, _Part]:
        """What the deny and ask rules say, by the simple command they are about."""
        from pure_agent_loop.toolbox.shell.disasters import disaster
        from pure_agent_loop.toolbox.shell.wrappers import reachable

        found: dict[int, _Part] = {}
        for simple, words in reachable(line):
            said = disaster(words)
            if said:
                found[id(simple)] = _Part(simple.text, "deny", said)
            for rule in self._deny:
                if rule.catches(words):
                    found[id(simple)] = _Part(simple.text, "deny", say("shell_deny_rule", rule=rule.text))
            for rule in self._ask:
                if id(simple) not in found and rule.catches(words):
                    why = say("shell_ask_rule", rule=rule.text)
                    found[id(simple)] = _Part(simple.text, "ask", why, by_rule=True)
        return found

    def _part(self, simple: Simple) -> _Part:
        from pure_agent_loop.toolbox.shell.harmless import objection

        if simple.words and not simple.assignments:
            for rule in self._allow:
                if rule.covers(simple.words, after_cd=simple.after_cd):
                    return _Part(simple.text, "allow", say("shell_allow_rule", rule=rule.text), by_rule=True)
        said = objection(simple, self.root)
        return _Part(simple.text, *(("ask", said) if said else ("allow", say("shell_changes_nothing"))))

    def _redirect(self, redirect: Redirect) -> str | None:
        from pure_agent_loop.toolbox.shell.harmless import leaves

        target = redirect.target
        if redirect.operator == "<<<":
            return None if target.is_literal else say("shell_feeds_unknown")
        if redirect.operator in (">&", "<&"):
            return None if target.is_plain and target.text in ("1", "2") else say("shell_redirection_unknown")
        if redirect.operator == "<":
            inside = target.is_literal and not leaves(target, self.root)
            return None if inside else say("shell_reads_unknown")
        return None if target.is_plain and target.text == "/dev/null" else say("shell_writes_file")


def _read_rules(name: Literal["allow", "deny", "ask"], given: Iterable[str]) -> tuple[Rule, ...]:
    if given == ():
        return ()
    from pure_agent_loop.toolbox.shell.rules import read_rules

    return read_rules(name, given)


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
