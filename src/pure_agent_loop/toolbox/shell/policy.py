"""Decide whether a shell line runs without asking, needs a person's approval, or is denied.

A command runs without asking if the user's allow rules or a short list of harmless commands cover it. All
other commands are tried read-only in a sandbox; without a sandbox, a person is asked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support.language import model_text

if TYPE_CHECKING:  # imported later, because only a shell line needs the parser
    from pure_agent_loop.toolbox.shell.line import Redirect, ShellLine, Simple
    from pure_agent_loop.toolbox.shell.rules import ShellRule
    from pure_agent_loop.toolbox.shell.unheld import WorkingDirectory

ShellBehavior = Literal["allow", "ask", "deny"]
_RANK = {"allow": 0, "ask": 1, "deny": 2}


class _PartVerdict(NamedTuple):
    text: str
    behavior: ShellBehavior
    why: str
    by_rule: bool = False


@dataclass(frozen=True)
class Verdict:
    """A policy's decision about a line, with its reason.

    Args:
        behavior: ``"allow"``, ``"ask"`` or ``"deny"``.
        reason: Names the simple command and the rule, or what is unknown about the command.
        by_rule: True if a rule of the user asks about the line, or allows a part of it. If False, the line is
            unapproved, or is allowed because every command in it is on the short list.
    """

    behavior: ShellBehavior
    reason: str
    by_rule: bool = False


@dataclass(frozen=True)
class ShellPolicy:
    """Rules for shell lines, on top of a short list of harmless commands.

    A rule is one simple command: ``"npm test"``, ``"git push *"``. A star matches any text inside a word. A
    star as the last word matches any further operands, or none, but no options. Deny overrides ask, and ask
    overrides allow; the strictest part decides about a line. Allow rules match literally. Deny and ask rules
    also match commands after paths, in quotes, in wrappers, and with further words.

    Args:
        allow: Commands that run without asking.
        deny: Commands that are denied.
        ask: Commands that a person is always asked about.
        root: Absolute path of the workspace; absolute paths below it count as inside. Lines are assumed to
            run in that folder or below it.

    Raises:
        ConfigError: A rule is invalid; the message names the rule.
    """

    allow: Iterable[str] = ()
    deny: Iterable[str] = ()
    ask: Iterable[str] = ()
    root: str | None = None
    _allow: tuple[ShellRule, ...] = field(init=False, repr=False, compare=False)
    _deny: tuple[ShellRule, ...] = field(init=False, repr=False, compare=False)
    _ask: tuple[ShellRule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("allow", "deny", "ask"):
            rules = _read_rules(name, getattr(self, name))
            object.__setattr__(self, f"_{name}", rules)
            object.__setattr__(self, name, tuple(rule.text for rule in rules))
        root = self.root
        if root is not None:
            root = str(root)
            if not root.startswith("/") or posixpath.normpath(root) == "/":
                raise ConfigError(f"root={root!r} must be the absolute path of the workspace")
            root = posixpath.normpath(root)
            object.__setattr__(self, "root", root)

    def judge(self, command: str, folder: WorkingDirectory | None = None) -> Verdict:
        """Decide whether a line may run. This never raises, whatever the text is.

        Args:
            command: The argument of ``bash -c``.
            folder: Working directory of a line that runs without a sandbox; its content is checked too.
        """
        parts = self._read(command, folder)
        worst = max(parts, key=lambda part: _RANK[part.behavior])
        by_rule = any(part.by_rule and part.behavior == worst.behavior for part in parts)
        if worst.behavior == "allow":
            reason = "; ".join(dict.fromkeys(f"{part.text}: {part.why}" for part in parts))
            return Verdict("allow", reason, by_rule)
        return Verdict(worst.behavior, f"{_short(worst.text)}: {worst.why}", by_rule)

    def explain(self, command: str) -> list[tuple[str, ShellBehavior, str]]:
        """Return each simple command of a line with its decision and reason.

        Args:
            command: The argument of ``bash -c``.
        """
        return [part[:3] for part in self._read(command)]

    def _read(self, command: str, folder: WorkingDirectory | None = None) -> list[_PartVerdict]:
        if not isinstance(command, str):
            raise ConfigError(f"command must be a string, not {command!r}")
        from pure_agent_loop.toolbox.shell.syntax import parser, read_line

        if parser() is None:
            return [_PartVerdict(command, "ask", str(MissingExtraError("Checking shell commands", "shell")))]
        try:
            return list(self._parts(command, read_line(command), folder))
        except RecursionError:
            why = model_text("shell_too_many_levels_line")
        except Exception as error:  # noqa: BLE001 - after any error the line is undecided
            why = model_text("shell_not_judged", error=type(error).__name__)
        return [_PartVerdict(command, "ask", why, by_rule=bool(self._deny or self._ask))]

    def _parts(
        self, command: str, line: ShellLine, folder: WorkingDirectory | None
    ) -> Iterator[_PartVerdict]:
        from pure_agent_loop.toolbox.shell.disasters import disaster_of_line

        reason = disaster_of_line(command, line)
        if reason:
            yield _PartVerdict(command, "deny", reason)
        if line.trouble:
            # An unparsed line may contain a command that a rule forbids.
            by_rule = not line.commands and bool(self._deny or self._ask)
            yield _PartVerdict(command, "ask", model_text("shell_unsure", trouble=line.trouble[0]), by_rule)
        strict = self._strict(line)
        for redirect in line.redirects:
            reason = self._redirect(redirect, folder)
            if reason:
                yield _PartVerdict(redirect.text, "ask", reason)
        for simple in line.commands:
            yield strict.get(id(simple)) or self._part(simple, folder)
        if not line.commands:
            yield _PartVerdict(command, "ask", model_text("shell_no_command"))

    def _strict(self, line: ShellLine) -> dict[int, _PartVerdict]:
        """Apply the deny and ask rules; return the verdicts, keyed by the `id` of each simple command."""
        from pure_agent_loop.toolbox.shell.disasters import disaster
        from pure_agent_loop.toolbox.shell.wrappers import reachable

        parts: dict[int, _PartVerdict] = {}
        for simple, words in reachable(line):
            reason = disaster(words)
            if reason:
                parts[id(simple)] = _PartVerdict(simple.text, "deny", reason)
            for rule in self._deny:
                if rule.catches(words):
                    parts[id(simple)] = _PartVerdict(
                        simple.text, "deny", model_text("shell_deny_rule", rule=rule.text)
                    )
            for rule in self._ask:
                if id(simple) not in parts and rule.catches(words):
                    why = model_text("shell_ask_rule", rule=rule.text)
                    parts[id(simple)] = _PartVerdict(simple.text, "ask", why, by_rule=True)
        return parts

    def _part(self, simple: Simple, folder: WorkingDirectory | None) -> _PartVerdict:
        from pure_agent_loop.toolbox.shell.harmless import objection

        if simple.words and not simple.assignments:
            for rule in self._allow:
                if rule.covers(simple.words, after_cd=simple.after_cd):
                    return _PartVerdict(
                        simple.text, "allow", model_text("shell_allow_rule", rule=rule.text), by_rule=True
                    )
        reason = objection(simple, self.root) or (folder and folder.objection(simple))
        return _PartVerdict(
            simple.text, *(("ask", reason) if reason else ("allow", model_text("shell_changes_nothing")))
        )

    def _redirect(self, redirect: Redirect, folder: WorkingDirectory | None) -> str | None:
        from pure_agent_loop.toolbox.shell.harmless import leaves

        target = redirect.target
        if redirect.operator == "<<<":
            return None if target.is_literal else model_text("shell_feeds_unknown")
        if redirect.operator in (">&", "<&"):
            return (
                None
                if target.is_plain and target.text in ("1", "2")
                else model_text("shell_redirection_unknown")
            )
        if redirect.operator == "<":
            inside = target.is_literal and not leaves(target, self.root)
            inside = inside and not (folder and folder.leads_out(target))
            return None if inside else model_text("shell_reads_unknown")
        return None if target.is_plain and target.text == "/dev/null" else model_text("shell_writes_file")


def _read_rules(name: Literal["allow", "deny", "ask"], rules: Iterable[str]) -> tuple[ShellRule, ...]:
    if rules == ():
        return ()
    from pure_agent_loop.toolbox.shell.rules import read_rules

    return read_rules(name, rules)


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
