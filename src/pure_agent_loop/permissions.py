"""Permission rules and modes: a pure function from a call to a ruling.

Precedence, from highest to lowest:

1.  A deny rule denies, regardless of everything below.
2.  The mode ``plan`` denies every tool that is not marked ``read_only``, unless the tool's judge makes
    the call ``read_only``. A denial by the judge denies in every mode.
3.  The function `can_use_tool`, if set, decides; its context has what the rules suggest.
4.  An ask rule asks, except in the mode ``bypass``; so do a question from the judge, and a call to a tool
    marked ``destructive`` that no rule allows.
5.  An allow rule allows; so does the judge.
6.  The mode decides: ``auto`` and ``bypass`` allow; ``ask`` allows tools marked ``read_only`` and asks about
    all others; ``guard`` is like ``ask``, but allows calls whose values come from the user (see `guard`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.schema.forms import Forms, fits, forms_of
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.language import checked_choice, model_text
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.tool_context import RunContext

Behavior = Literal["allow", "deny", "ask"]
BEHAVIORS: tuple[str, ...] = get_args(Behavior)
PermissionMode = Literal["ask", "guard", "auto", "plan", "bypass"]
PERMISSION_MODES: tuple[str, ...] = get_args(PermissionMode)
_RULE = lazy_pattern(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*", re.S)
_NAMED = lazy_pattern(r"\s*(\w+)\s*=\s*(.*)", re.S)
EDIT_TOOLS = ("write_file", "edit_file")
_PLAIN = lazy_pattern(r"[^*?()\n\r\\]+")  # no wildcard: it would allow more than the call in question
_LATER = ("unasked", "title", "origins")
_NO_RULES: Mapping[str, tuple[Rule, ...]] = {"deny": (), "ask": (), "allow": ()}


PlainOrigin = dict[str, Any]  # fields of a `guard.Origin`, and ``recipient``


@dataclass(frozen=True, slots=True)
class Permission:
    """Ruling on one call.

    Args:
        behavior: ``allow``, ``deny`` or ``ask``.
        message: Reason: sent to the model with ``deny``, shown to the person with ``ask``.
        updated_args: Arguments that replace the model's.
        always: With ``allow``: further calls of this tool in this run are allowed without asking.
        interrupt: With ``deny``: the run ends with one last answer without tools.
        read_only: With ``allow``, from a tool's judge: the tool must run the call in a way that cannot
            change anything; nothing else is allowed.
        similar: With ``allow``, from a person: in this session, further calls that match `wider_rules` (or
            equal calls, if there are no such rules) are allowed without asking. If the mode ``guard`` asked
            about a recipient, only this call is allowed, and the recipient is known from then on.
    """

    behavior: Behavior
    message: str = ""
    updated_args: dict[str, Any] | None = None
    always: bool = False
    interrupt: bool = False
    read_only: bool = False
    similar: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """Ruling on one call. Part of the state, so that nothing is decided or asked twice.

    Args:
        behavior: ``allow``: the call runs with `args`; ``deny``: it does not run; ``ask``: it is waiting for
            a person's answer.
        kind: Kind of a denial in one word, such as ``PermissionDenied`` or ``RepeatedCall``.
        message: Reason for the ruling.
        read_only: With ``allow``: the call runs in a way that cannot change anything.
        origins: In the mode ``guard``: where each value comes from, in plain form; see `guard.Origin`.
        unasked: With ``deny``: a person was not asked, because the call would have failed.
        title: With ``ask``: the question in the words of the tool; see `Tool`.
    """

    behavior: Behavior
    args: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    message: str = ""
    read_only: bool = False
    origins: list[PlainOrigin] = field(default_factory=list)
    unasked: bool = False
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form; fields added after the first version are omitted unless set."""
        return {name: value for name, value in asdict(self).items() if value or name not in _LATER}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ruling:
        """Build a ruling from what :meth:`to_dict` returned."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """Context of a call, without its name and arguments.

    Args:
        step: Step of the call.
        call_id: Id of the call in the history.
        suggestion: What the rules, the mode and the tool's judge decide: ``allow`` or ``ask``.
        reason: Rule or mode behind the suggestion.
        read_only: True if the tool is marked ``read_only``, or would make this call read-only.
        session_id: Session id; empty if none.
        agent: Name of the agent; empty if none.
        task: Task of the run.
        permission_mode: ``auto``, ``guard``, ``ask``, ``plan`` or ``bypass``.
        cwd: Working folder; see `ToolContext`.
        tasks: State of each task delegated to a subagent, by task id.
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
    """Question for a person, about a pending call or from a running tool.

    Args:
        call_id: Id of the call in the history; the answer refers to it.
        tool: Name of the tool.
        args: Effective arguments.
        reason: Reason for the question.
        step: Step of the call.
        asked_at: Time of the question in seconds since the epoch; None if unknown.
        origins: In the mode ``guard``: where each value comes from, the strange ones first. Each has the
            fields of `guard.Origin`, and ``recipient``: True if an answer with ``similar`` makes it known.
        title: The question in the words of the tool (`Tool(asks=)`), safe to show; empty if it has none.
    """

    call_id: str
    tool: str
    args: dict[str, Any]
    reason: str = ""
    step: int = 0
    asked_at: float | None = field(default=None, compare=False)
    origins: list[PlainOrigin] = field(default_factory=list)
    title: str = ""

    @property
    def recipients(self) -> list[str]:
        """Values that an answer with ``similar`` makes known; empty except in the mode ``guard``."""
        return [origin["value"] for origin in self.origins if origin.get("recipient")]

    @property
    def question(self) -> str | None:
        """Question from a running tool, to be answered with any text; None for a question about a call."""
        return self.reason if self.args == {"question": self.reason} else None


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """Context for a tool's `judge`.

    Args:
        attended: True if a person can be asked.
        deny: Patterns of deny rules on this tool's arguments, as written. The tool must enforce them itself,
            because only the tool interprets its arguments.
        approved: True if the mode, a rule for the whole tool or a person's answer allows calls to the tool;
            deny and ask rules still apply.
        plan: True in ``plan`` mode: changes and questions are forbidden, so an allowed call must be
            ``read_only``.
        seconds: Remaining seconds of the run; None for no limit.
        on_piece: Callback for output of a trial run of the call; None if not set.
        tool_timeout: Seconds for a tool without its own timeout; None for no limit.
    """

    attended: bool = False
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    approved: bool = False
    plan: bool = False
    call_id: str = ""
    seconds: float | None = None
    on_piece: Callable[[str], Awaitable[None]] | None = field(default=None, compare=False)
    tool_timeout: float | None = None


Opinion = Permission | None
Judge = Callable[[dict[str, Any], JudgeContext], Opinion | Awaitable[Opinion]]
Verdict = Permission | Behavior | bool
PermissionFunction = (
    Callable[[str, dict[str, Any], PermissionContext], Verdict | Awaitable[Verdict]]
    | Callable[[RunContext[Any], str, dict[str, Any], PermissionContext], Verdict | Awaitable[Verdict]]
)
AskFunction = Callable[[PermissionRequest], Verdict | Awaitable[Verdict]]

ALLOWED = Permission("allow")


class Rule(NamedTuple):
    """Pattern that matches tool calls.

    ``shell`` matches every call of that tool, ``read_*`` every tool with that prefix, ``shell(git *)`` calls
    with any argument that matches ``git *``, ``write_file(path=docs/*)`` calls whose argument `path` matches.
    Several named arguments are separated by commas and must all match. ``*`` matches any text, ``?`` one
    character.

    Args:
        args: Pairs of an argument name (empty for any) and its pattern.
    """

    text: str
    tool: str
    args: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: object) -> Rule:
        """Parse a rule.

        Raises:
            ConfigError: The rule is invalid.
        """
        match = _RULE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ConfigError(
                f"{text!r} is not a permission rule. Write a tool name, optionally with an argument "
                "pattern: 'shell', 'read_*', 'shell(git *)', 'write_file(path=docs/*)'."
            )
        inside = (match[2] or "").strip()
        return cls(str(text), match[1], _patterns(inside) if inside and inside != "*" else ())

    @property
    def rest(self) -> Rule:
        """Copy of the rule without its first argument."""
        return Rule(self.text, self.tool, self.args[1:])

    def matches(self, tool: str, *forms: Mapping[str, Any], too_long: bool = False) -> bool:
        """Return True if the rule matches one form of a call; overlong text matches if `too_long`."""
        return self.is_about(tool) and any(self._fits(form, too_long) for form in forms)

    def is_about(self, tool: str) -> bool:
        """Return True if the rule can match a call to the tool."""
        return fnmatch.fnmatchcase(tool, self.tool)

    def _fits(self, args: Mapping[str, Any], too_long: bool) -> bool:
        return all(
            any(
                fits(pattern, args[named], named, too_long=too_long)
                for named in ([name] if name else args)
                if named in args
            )
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


def wider_rules(tool: str, args: Mapping[str, Any]) -> list[str]:
    """Return rules that allow calls of the same kind; empty if no rule is narrow enough.

    The rules allow edits in the same top-level folder (only the file itself if it is at the top level), and
    pages on the same host.
    """
    if tool in EDIT_TOOLS:
        return _similar_edits(args.get("path"))
    return _similar_pages(args.get("url")) if tool == "fetch" else []


def _similar_edits(path: object) -> list[str]:
    if not isinstance(path, str) or not _PLAIN.fullmatch(path):
        return []
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts or "=" in path or "," in path:
        return []
    pattern = parts[0] if len(parts) == 1 else f"{parts[0]}/*"
    return [f"{tool}(path={pattern})" for tool in EDIT_TOOLS]


def _similar_pages(url: object) -> list[str]:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname, parts.port
    except ValueError:
        return []
    if parts.scheme not in ("http", "https") or not host or not _PLAIN.fullmatch(host) or "@" in parts.netloc:
        return []
    return [f"fetch(url={parts.scheme}://{host}{f':{port}' if port else ''}/*)"]


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """Rules on tool names and arguments: deny wins over ask, ask over allow.

    Args:
        deny: Calls that are never made.
        ask: Calls that a person is asked about.
        allow: Calls that are made without asking.
        shared: True for rules that serve several agents, or tools added later. A rule for an unknown tool is
            then valid; otherwise it is rejected.

    Raises:
        ConfigError: A rule is invalid; see `Rule`.
    """

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    shared: bool = False
    _parsed: dict[str, tuple[Rule, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("deny", "ask", "allow"):
            texts = getattr(self, name)
            if isinstance(texts, str) or not hasattr(texts, "__iter__"):
                raise ConfigError(
                    f"PermissionRules.{name}={texts!r:.80} must be a list of rules: ['shell(git *)']."
                )
            rules = tuple(texts)
            self._parsed[name] = tuple(map(Rule.parse, rules))
            object.__setattr__(self, name, rules)

    def each(self) -> Iterator[Rule]:
        """Iterate over all rules."""
        return chain.from_iterable(self._parsed.values())

    @property
    def is_empty(self) -> bool:
        """True if there are no rules."""
        return self._parsed == _NO_RULES

    def find(self, behavior: Behavior, tool: str, call: Mapping[str, Any] | Forms) -> Rule | None:
        """Return the first rule with this behavior that matches a call, or None."""
        if not self._parsed[behavior]:
            return None
        seen = _seen(call, behavior)
        unsure = behavior != "allow"  # deny and ask rules match text that is too long to check
        rules = self._parsed[behavior]
        return next((rule for rule in rules if rule.matches(tool, *seen, too_long=unsure)), None)

    def look_into(self, tool: str) -> bool:
        """Return True if a rule depends on the arguments of a tool."""
        return any(rule.args and rule.is_about(tool) for rule in self.each())

    def names(self, behavior: Behavior, tool: str) -> bool:
        """Return True if a rule with this behavior matches every call to a tool."""
        return any(not rule.args and rule.is_about(tool) for rule in self._parsed[behavior])

    def patterns(self, behavior: Behavior, tool: str, call: Mapping[str, Any] | Forms) -> tuple[str, ...]:
        """Return the first argument pattern of each rule with this behavior whose other patterns match."""
        seen = _seen(call, behavior)
        rules, unsure = self._parsed[behavior], behavior != "allow"
        matching = [rule for rule in rules if rule.args and rule.rest.matches(tool, *seen, too_long=unsure)]
        return tuple(rule.args[0][1] for rule in matching)


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """Permission rules and mode.

    Args:
        mode: ``auto``, ``guard``, ``ask``, ``plan`` or ``bypass``.
        rules: See `PermissionRules`.

    Raises:
        ConfigError: The mode is unknown.
    """

    mode: str = "auto"
    rules: PermissionRules = field(default_factory=PermissionRules)
    is_open: bool = field(init=False, repr=False, compare=False)
    """True if the policy allows every call that the tool's judge does not rule on."""

    def __post_init__(self) -> None:
        checked_choice("permission_mode", self.mode, PERMISSION_MODES)
        require(
            isinstance(self.rules, PermissionRules),
            "permission_rules",
            self.rules,
            "PermissionRules(deny=[...], ask=[...], allow=[...])",
        )
        # Exact types only, because a user's subclass may override `suggest` or `find`.
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
        guard: Permission | None = None,
    ) -> Permission:
        """Return the decision of the rules and the mode about a call; see the module docstring.

        Args:
            read_only: True if the tool changes nothing.
            judges: True if the tool has a judge. The judge then applies allow rules on arguments, because a
                matching pattern shows too little about the effect of a call.
            asks: Reason to ask in every mode but ``bypass``, unless a rule allows the call.
            guard: What the mode ``guard`` decides, unless the tool changes nothing or a rule allows the call.
        """
        deny_rule = self.rules.find("deny", tool, args)
        if deny_rule is not None:
            return Permission("deny", model_text("rule_forbids", rule=deny_rule.text))
        if own is not None and own.behavior == "deny":
            return own
        own_read_only = own is not None and own.behavior == "allow" and own.read_only
        if self.mode == "plan" and not (read_only or own_read_only):
            return Permission("deny", model_text("plan_mode"))
        ask_rule = self.rules.find("ask", tool, args)
        if ask_rule is not None and self.mode != "bypass":
            return Permission("ask", model_text("rule_asks", rule=ask_rule.text))
        if asks and self.mode != "bypass" and not self._allows(tool, args, judges=judges):
            return Permission("ask", asks)
        if own is not None and not (own.behavior == "ask" and self.mode == "bypass"):
            return own
        if self.mode not in ("ask", "guard") or read_only or self._allows(tool, args, judges=judges):
            return ALLOWED
        asked = Permission("ask", model_text("mode_asks"))
        return guard if guard is not None and self.mode == "guard" else asked

    def judge_context(
        self, tool: str, args: Mapping[str, Any] | Forms, *, attended: bool, always: bool = False
    ) -> JudgeContext:
        """Return the context for a tool's judge.

        Args:
            attended: True if a person can be asked.
            always: True if an answer has allowed all calls of the tool.
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
    """Permission function returned an invalid decision. The error ends the run."""


def as_permission(verdict: object) -> Permission:
    """Convert a verdict (``allow``, ``deny``, ``ask``, or a bool for the first two) to a `Permission`.

    Raises:
        ConfigError: The verdict is invalid; the call is not made.
    """
    word = _as_word_of_verdict(verdict)
    if not isinstance(word, str) or word not in BEHAVIORS:
        raise ConfigError(
            "A permission is 'allow' or True, 'deny' or False, 'ask', or a Permission(...); "
            f"it is {word!r:.80}."
        )
    if isinstance(verdict, Permission):
        return verdict
    return {"allow": ALLOWED, "deny": Permission("deny"), "ask": Permission("ask", "can_use_tool")}[word]


def as_answer(verdict: object) -> Permission:
    """Convert a person's answer to a `Permission`.

    Raises:
        ConfigError: The answer is neither ``allow`` nor ``deny``.
    """
    word = _as_word_of_verdict(verdict)
    require(word in ("allow", "deny"), "The answer to a question", word, "'allow' or 'deny'")
    return as_permission(verdict)


def _as_word_of_verdict(verdict: object) -> object:
    if isinstance(verdict, bool):
        return "allow" if verdict else "deny"
    return verdict.behavior if isinstance(verdict, Permission) else verdict
