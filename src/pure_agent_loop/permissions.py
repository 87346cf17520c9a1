"""May this call be made? Rules and modes: one question about a call, one typed answer. Pure.

The order, from the strongest to the weakest:

1.  A deny rule denies, whatever else is said.
2.  The mode ``plan`` denies every tool that is not marked ``read_only``, unless the tool itself promises to
    make the call so that it changes nothing. A refusal of the tool itself denies in every mode.
3.  The function `can_use_tool`, if there is one, decides; it is told what the rules suggest.
4.  An ask rule asks, except in the mode ``bypass``; so does a question of the tool itself, and a tool marked
    ``destructive`` about which no rule says ``allow``.
5.  An allow rule allows; so does the tool itself.
6.  The mode decides: ``auto`` and ``bypass`` allow; ``ask`` allows tools marked ``read_only`` and asks about
    the others.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.forms import Forms, fits, forms_of
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.typed import dataclass
from pure_agent_loop.tool_context import RunContext

Behavior = Literal["allow", "deny", "ask"]
BEHAVIORS: tuple[str, ...] = get_args(Behavior)
PermissionMode = Literal["ask", "auto", "plan", "bypass"]
PERMISSION_MODES: tuple[str, ...] = get_args(PermissionMode)


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer for one call.

    Args:
        behavior: ``allow``, ``deny`` or ``ask``.
        message: Why: told to the model when the call is denied, to the person when it is asked.
        updated_args: Arguments to use instead of the model's.
        always: With ``allow``: calls of this tool are not asked about again in this run.
        interrupt: With ``deny``: the run ends with one last answer without tools.
        read_only: With ``allow``, of a tool that judges its calls: it makes this one so that it changes
            nothing, because nobody has allowed more.
    """

    behavior: Behavior
    message: str = ""
    updated_args: dict[str, Any] | None = None
    always: bool = False
    interrupt: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """What is known about a call besides its name and arguments.

    Args:
        step: The step it belongs to.
        call_id: Its id in the history.
        suggestion: What happens if the function has no opinion of its own: ``allow`` or ``ask``.
        reason: The rule or the mode that suggests it.
        read_only: The tool is marked as one that changes nothing, or would make this call so.
        session_id: The session; empty for none.
        agent: The agent's name; empty for none.
        task: What the run was asked.
        permission_mode: ``auto``, ``ask``, ``plan`` or ``bypass``.
        cwd: The folder the work is in; see `ToolContext`.
        tasks: The state of each task that the run has given to a subagent, by the task's id.
    """

    step: int
    call_id: str
    suggestion: Behavior = "allow"
    reason: str = ""
    read_only: bool = False
    session_id: str = ""
    agent: str = ""
    task: str = ""
    permission_mode: str = "auto"
    cwd: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that waits for an answer of a person.

    Args:
        call_id: Its id in the history; the answer names it.
        tool: The tool.
        args: Its arguments, as they will be used.
        reason: Why it is asked.
        step: The step it belongs to.
    """

    call_id: str
    tool: str
    args: dict[str, Any]
    reason: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What a tool is told that judges its own calls.

    Args:
        attended: A person can be asked.
        deny: Patterns of deny rules on the arguments of this tool, as they were written. The tool has to
            keep to them in its own way, because it knows what its arguments mean.
        ask: The same of ask rules.
        allow: The same of allow rules.
        approved: The mode, a rule for the whole tool or an answer of a person allows its calls, as far as no
            rule is against it.
        plan: Nothing may be changed, and nobody is asked: what it allows must be ``read_only``.
        call_id: The call's id in the history.
        seconds: How long the run may still take; None for no limit.
    """

    attended: bool = False
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    approved: bool = False
    plan: bool = False
    call_id: str = ""
    seconds: float | None = None


Opinion = Permission | None
Judge = Callable[[dict[str, Any], JudgeContext], Opinion | Awaitable[Opinion]]
Verdict = Permission | Behavior | bool
PermissionFunction = (
    Callable[[str, dict[str, Any], PermissionContext], Verdict | Awaitable[Verdict]]
    | Callable[[RunContext[Any], str, dict[str, Any], PermissionContext], Verdict | Awaitable[Verdict]]
)
AskFunction = Callable[[PermissionRequest], Verdict | Awaitable[Verdict]]

ALLOWED = Permission("allow")
_RULE = lazy_pattern(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*", re.S)
_NAMED = lazy_pattern(r"\s*(\w+)\s*=\s*(.*)", re.S)


class Rule(NamedTuple):
    """A pattern of calls.

    ``shell`` is every call of that tool, ``read_*`` of all tools whose names begin so, ``shell(git *)`` those
    with an argument that matches ``git *``, ``write_file(path=docs/*)`` those whose argument `path` does;
    several named ones are separated by commas and must all match. ``*`` is any text, ``?`` one character.

    Args:
        text: The rule as it was written.
        tool: Pattern of the name.
        args: Pairs of an argument's name (empty for any) and its pattern.
    """

    text: str
    tool: str
    args: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: object) -> Rule:
        """Read a rule.

        Raises:
            ConfigError: It is none.
        """
        found = _RULE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ConfigError(
                f"{text!r} is no permission rule. Write the name of a tool, and what its arguments must be "
                "like: 'shell', 'read_*', 'shell(git *)', 'write_file(path=docs/*)'."
            )
        inside = (found[2] or "").strip()
        return cls(str(text), found[1], _patterns(inside) if inside and inside != "*" else ())

    @property
    def rest(self) -> Rule:
        """The same rule without its first argument."""
        return Rule(self.text, self.tool, self.args[1:])

    def matches(self, tool: str, *forms: Mapping[str, Any]) -> bool:
        """True if the rule speaks of this call, given in one form or several."""
        return fnmatch.fnmatchcase(tool, self.tool) and any(map(self._fits, forms))

    def _fits(self, args: Mapping[str, Any]) -> bool:
        return all(
            any(fits(pattern, args[each], each) for each in ([name] if name else args) if each in args)
            for name, pattern in self.args
        )


def _seen(call: Mapping[str, Any] | Forms, behavior: Behavior) -> Sequence[Mapping[str, Any]]:
    forms = call if isinstance(call, Forms) else forms_of(call)
    return forms.meant if behavior == "allow" else forms.each


def _patterns(inside: str) -> tuple[tuple[str, str], ...]:
    if _NAMED.fullmatch(inside) is None:
        return (("", inside),)
    parts = re.split(r",\s*(?=\w+\s*=)", inside)
    return tuple((m[1], m[2].strip()) for m in map(_NAMED.fullmatch, parts) if m is not None)


_NO_RULES: Mapping[str, tuple[Rule, ...]] = {"deny": (), "ask": (), "allow": ()}


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """Rules on names and arguments: deny wins over ask, ask over allow.

    Args:
        deny: Calls that are never made.
        ask: Calls that a person is asked about.
        allow: Calls that need no question.
        shared: They serve several agents, or tools that come later, so that one for a tool that there is not
            is no mistake. Else it is refused.

    Raises:
        ConfigError: One of them is no rule; see `Rule`.
    """

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    shared: bool = False
    _parsed: dict[str, tuple[Rule, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("deny", "ask", "allow"):
            given = getattr(self, name)
            if isinstance(given, str) or not hasattr(given, "__iter__"):
                raise ConfigError(
                    f"PermissionRules.{name}={given!r:.80} must be a list of rules: ['shell(git *)']."
                )
            rules = tuple(given)
            self._parsed[name] = tuple(map(Rule.parse, rules))
            object.__setattr__(self, name, rules)

    def each(self) -> Iterator[Rule]:
        """All rules."""
        return chain.from_iterable(self._parsed.values())

    @property
    def is_empty(self) -> bool:
        """True if there is no rule."""
        return self._parsed == _NO_RULES

    def find(self, behavior: Behavior, tool: str, call: Mapping[str, Any] | Forms) -> Rule | None:
        """The first rule of a kind that speaks of a call."""
        if not self._parsed[behavior]:
            return None
        seen = _seen(call, behavior)
        return next((rule for rule in self._parsed[behavior] if rule.matches(tool, *seen)), None)

    def look_into(self, tool: str) -> bool:
        """True if a rule speaks of some calls of a tool and not of others."""
        return any(rule.args and fnmatch.fnmatchcase(tool, rule.tool) for rule in self.each())

    def names(self, behavior: Behavior, tool: str) -> bool:
        """True if a rule of a kind speaks of every call of a tool."""
        return any(not rule.args and fnmatch.fnmatchcase(tool, rule.tool) for rule in self._parsed[behavior])

    def patterns(self, behavior: Behavior, tool: str, call: Mapping[str, Any] | Forms) -> tuple[str, ...]:
        """The first pattern of each rule of a kind on the arguments of a tool, if its others fit the call."""
        seen = _seen(call, behavior)
        mine = [rule for rule in self._parsed[behavior] if rule.args and rule.rest.matches(tool, *seen)]
        return tuple(rule.args[0][1] for rule in mine)


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """Rules and a mode.

    Args:
        mode: ``auto``, ``ask``, ``plan`` or ``bypass``.
        rules: See `PermissionRules`.

    Raises:
        ConfigError: There is no such mode.
    """

    mode: str = "auto"
    rules: PermissionRules = field(default_factory=PermissionRules)
    is_open: bool = field(init=False, repr=False, compare=False)
    """True if it allows each call about which the tool itself has no opinion."""

    def __post_init__(self) -> None:
        if self.mode not in PERMISSION_MODES:
            raise ConfigError(
                f"permission_mode={self.mode!r} is not known. Use one of: {', '.join(PERMISSION_MODES)}."
            )
        if not isinstance(self.rules, PermissionRules):
            raise ConfigError(
                f"permission_rules must be PermissionRules(deny=[...], ask=[...], allow=[...]); "
                f"it is {self.rules!r:.80}."
            )
        # A class of a user's own may suggest something else, or find it.
        is_plain = type(self) is PermissionPolicy and type(self.rules) is PermissionRules
        is_open = is_plain and self.mode in ("auto", "bypass") and self.rules.is_empty
        object.__setattr__(self, "is_open", is_open)

    def suggest(
        self,
        tool: str,
        args: Mapping[str, Any] | Forms,
        *,
        read_only: bool,
        own: Permission | None = None,
        judges: bool = False,
        asks: str = "",
    ) -> Permission:
        """What the rules and the mode say about a call; see the top of this file.

        Args:
            tool: The tool.
            args: The arguments in force.
            read_only: The tool changes nothing.
            own: What the tool itself says.
            judges: The tool judges its calls. Then allow rules on arguments are left to it: whether a text
                fits a pattern says too little about what it does.
            asks: Why a person is to be asked in every mode but ``bypass``, unless a rule allows the call.
        """
        denied = self.rules.find("deny", tool, args)
        if denied is not None:
            return Permission("deny", say("rule_forbids", rule=denied.text))
        if own is not None and own.behavior == "deny":
            return own
        promised = own is not None and own.behavior == "allow" and own.read_only
        if self.mode == "plan" and not (read_only or promised):
            return Permission("deny", say("plan_mode"))
        asked = self.rules.find("ask", tool, args)
        if asked is not None and self.mode != "bypass":
            return Permission("ask", say("rule_asks", rule=asked.text))
        if asks and self.mode != "bypass" and not self._allows(tool, args, judges=judges):
            return Permission("ask", asks)
        if own is not None and not (own.behavior == "ask" and self.mode == "bypass"):
            return own
        if self.mode != "ask" or read_only or self._allows(tool, args, judges=judges):
            return ALLOWED
        return Permission("ask", say("mode_asks"))

    def judge_context(
        self, tool: str, args: Mapping[str, Any] | Forms, *, attended: bool, always: bool = False
    ) -> JudgeContext:
        """What a tool that judges its own calls is told.

        Args:
            tool: The tool.
            args: The arguments in force.
            attended: A person can be asked.
            always: An answer has allowed all its calls.
        """
        patterns, plan = self.rules.patterns, self.mode == "plan"
        approved = self.mode in ("auto", "bypass") or always or self.rules.names("allow", tool)
        return JudgeContext(
            attended,
            patterns("deny", tool, args),
            patterns("ask", tool, args),
            patterns("allow", tool, args),
            approved=approved and not plan,
            plan=plan,
        )

    def _allows(self, tool: str, args: Mapping[str, Any] | Forms, *, judges: bool) -> bool:
        rules = self.rules
        return rules.names("allow", tool) if judges else rules.find("allow", tool, args) is not None


class VerdictError(ConfigError):
    """A function that decides about calls gave something that is no decision. It ends the run."""


def as_permission(verdict: object) -> Permission:
    """A verdict given as a word, or as True or False for ``allow`` and ``deny``, becomes a `Permission`.

    Raises:
        ConfigError: It is none of these; the call it was about is not made.
    """
    given = _as_word_of_verdict(verdict)
    if not isinstance(given, str) or given not in BEHAVIORS:
        raise ConfigError(
            "A permission is 'allow' or True, 'deny' or False, 'ask', or a Permission(...); "
            f"it is {given!r:.80}."
        )
    if isinstance(verdict, Permission):
        return verdict
    return {"allow": ALLOWED, "deny": Permission("deny"), "ask": Permission("ask", "can_use_tool")}[given]


def as_answer(verdict: object) -> Permission:
    """What a person said to a question, as a `Permission`.

    Raises:
        ConfigError: It is neither ``allow`` nor ``deny``.
    """
    given = _as_word_of_verdict(verdict)
    if given not in ("allow", "deny"):
        raise ConfigError(f"A question is answered with 'allow' or 'deny', not with {given!r:.80}.")
    return as_permission(verdict)


def _as_word_of_verdict(verdict: object) -> object:
    if isinstance(verdict, bool):
        return "allow" if verdict else "deny"
    return verdict.behavior if isinstance(verdict, Permission) else verdict
