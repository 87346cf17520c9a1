"""Whether a shell line may run unasked, must be asked about, or is refused.

Allowed is what the user's own rules name, and a short list of commands that look and change nothing. Nobody
has approved the rest: in a sandbox it is tried read-only, elsewhere it is a question.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.toolbox.shell.disasters import disaster, disaster_of_line
from pure_agent_loop.toolbox.shell.harmless import leaves, objection
from pure_agent_loop.toolbox.shell.line import Line, Redirect, Simple
from pure_agent_loop.toolbox.shell.rules import Rule, read_rules
from pure_agent_loop.toolbox.shell.syntax import parser, read_line
from pure_agent_loop.toolbox.shell.wrappers import reachable

ShellBehavior = Literal["allow", "ask", "deny"]
_ALLOW_RULE, _ASK_RULE = "the allow rule", "the ask rule"
_RANK = {"allow": 0, "ask": 1, "deny": 2}


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
            rules = read_rules(name, getattr(self, name))
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
        parts = self.explain(command)
        worst = max(parts, key=lambda part: _RANK[part[1]])
        if worst[1] == "allow":
            by_rule = any(why.startswith(_ALLOW_RULE) for _, _, why in parts)
            reason = "; ".join(dict.fromkeys(f"{text}: {why}" for text, _, why in parts))
            return Verdict("allow", reason, by_rule)
        by_rule = any(said == "ask" and why.startswith(_ASK_RULE) for _, said, why in parts)
        return Verdict(worst[1], f"{_short(worst[0])}: {worst[2]}", by_rule and worst[1] == "ask")

    def explain(self, command: str) -> list[tuple[str, ShellBehavior, str]]:
        """Each simple command of a line, with what is said about it and why.

        Args:
            command: What would be given to ``bash -c``.
        """
        if not isinstance(command, str):
            raise ConfigError(f"command must be a text, not {command!r}")
        if parser() is None:
            return [(command, "ask", str(MissingExtraError("judging shell lines", "shell")))]
        try:
            return list(self._parts(command, read_line(command)))
        except RecursionError:
            return [(command, "ask", "the line cannot be parsed: too many levels")]

    def _parts(self, command: str, line: Line) -> Iterator[tuple[str, ShellBehavior, str]]:
        said = disaster_of_line(command, line)
        if said:
            yield command, "deny", said
        if line.trouble:
            yield command, "ask", f"the line cannot be parsed for sure: {line.trouble[0]}"
        strict = self._strict(line)
        for redirect in line.redirects:
            said = self._redirect(redirect)
            if said:
                yield redirect.text, "ask", said
        for simple in line.commands:
            yield simple.text, *(strict.get(id(simple)) or self._part(simple))
        if not line.commands:
            yield command, "ask", "there is no command in it"

    def _strict(self, line: Line) -> dict[int, tuple[ShellBehavior, str]]:
        """What the deny and ask rules say, by the simple command they are about."""
        found: dict[int, tuple[ShellBehavior, str]] = {}
        for simple, words in reachable(line):
            said = disaster(words)
            if said:
                found[id(simple)] = ("deny", said)
            for rule in self._deny:
                if rule.catches(words):
                    found[id(simple)] = ("deny", f"the deny rule {rule.text!r}")
            for rule in self._ask:
                if id(simple) not in found and rule.catches(words):
                    found[id(simple)] = ("ask", f"{_ASK_RULE} {rule.text!r}")
        return found

    def _part(self, simple: Simple) -> tuple[ShellBehavior, str]:
        if simple.words and not simple.assignments:
            for rule in self._allow:
                if rule.covers(simple.words, after_cd=simple.after_cd):
                    return "allow", f"{_ALLOW_RULE} {rule.text!r}"
        said = objection(simple, self.root)
        return ("ask", said) if said else ("allow", "known to change nothing")

    def _redirect(self, redirect: Redirect) -> str | None:
        target = redirect.target
        if redirect.operator == "<<<":
            return None if target.is_literal else "what it feeds is not known"
        if redirect.operator in (">&", "<&"):
            return None if target.is_plain and target.text in ("1", "2") else "the redirection is not known"
        if redirect.operator == "<":
            inside = target.is_literal and not leaves(target, self.root)
            return None if inside else "what it reads is not known to be inside"
        return None if target.is_plain and target.text == "/dev/null" else "it writes a file"


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
