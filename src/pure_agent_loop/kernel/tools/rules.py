"""Permission rules beside the tools there are: one that can never speak of a call is a mistake."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit, LendsTools
from pure_agent_loop.kernel.tools.long_results import READ_RESULT
from pure_agent_loop.permissions import PermissionRules, Rule
from pure_agent_loop.schema.forms import fits, kinds_of
from pure_agent_loop.support.abilities import able
from pure_agent_loop.tool import Tool, ToolRegistry

SHARED = " Rules for several agents, or for tools that come later, are PermissionRules(..., shared=True)."
_ANY = frozenset("*?")
_OPEN = ("patternProperties", "anyOf", "oneOf", "allOf", "$ref")  # there may be more than `properties` says
_Schemas = Mapping[str, Mapping[str, Any]]


def check_rules(rules: PermissionRules, tools: Iterable[Tool], subagents: object, hint: str = SHARED) -> None:
    """Refuse a rule that can match no tool, or no argument of one.

    A pattern of names, such as ``read_*``, may match none: it also speaks of tools that there are not yet. So
    does every name where there are toolsets, whose tools nobody knows before a run.

    Args:
        tools: What may be called.
        subagents: What is given tasks; its agents may have tools of their own.
        hint: What else to say.

    Raises:
        ConfigError: It names the rule, and what was probably meant.
    """
    lending = able(subagents, LendsTools)
    lent = () if lending is None else lending.lent_tools()
    known: _Schemas = {READ_RESULT: {}, **{each.name: each.parameters for each in (*tools, *lent)}}
    is_open = isinstance(tools, ToolRegistry) and bool(tools.toolsets)
    for rule in rules.each():
        mine = {name: of for name, of in known.items() if fnmatch.fnmatchcase(name, rule.tool)}
        unknown = "" if is_open else _name_problem(rule, known)
        problem = _argument_problem(rule, mine) if mine else unknown
        if problem:
            raise ConfigError(_refusal(rule, problem, hint))


async def check_listed(rules: PermissionRules, tools: Iterable[Tool], kit: Kit, step: int) -> None:
    """Look at the rules again, now that toolsets have said which tools they have.

    One for a name that no tool has may wait for a tool of a later step; in the first step it is told of.

    Raises:
        ConfigError: A rule can match no argument of the tool that it names.
    """
    known: _Schemas = {READ_RESULT: {}, **{each.name: each.parameters for each in tools}}
    for rule in () if rules.shared else rules.each():
        mine = {name: of for name, of in known.items() if fnmatch.fnmatchcase(name, rule.tool)}
        problem = _argument_problem(rule, mine) if mine else _name_problem(rule, known)
        if problem and mine:
            raise ConfigError(_refusal(rule, problem, SHARED))
        if problem and step == 1 and kit.background is None:  # else it may be for a subagent's tools
            await kit.emit(Event.notice(step, f"The permission rule {rule.text!r} waits: {problem}"))


def _refusal(rule: Rule, problem: str, hint: str) -> str:
    return f"The permission rule {rule.text!r} can match no call: {problem}{hint}"


def _name_problem(rule: Rule, known: _Schemas) -> str:
    if {*_ANY, "["} & set(rule.tool):
        return ""
    names = [name for name in known if name != READ_RESULT]
    there = f"There are: {', '.join(names)}." if names else "There are no tools at all."
    return f"there is no tool {rule.tool!r}. {_meant(rule.tool, names)}{there}"


def _argument_problem(rule: Rule, schemas: _Schemas) -> str:
    problems = [_problem_with(rule, name, of) for name, of in schemas.items()]
    return problems[0] if all(problems) else ""


def _problem_with(rule: Rule, tool: str, schema: Mapping[str, Any]) -> str:
    arguments = _arguments(schema)
    if arguments is None or not rule.args:
        return ""
    if not arguments:
        return f"the tool {tool!r} has no arguments."
    for name, pattern in rule.args:
        if name and name not in arguments:
            return (
                f"the tool {tool!r} has no argument {name!r}. {_meant(name, arguments)}"
                f"It has: {', '.join(arguments)}. "
                f"If this is part of a value, write {tool}({arguments[0]}={name}={pattern})."
            )
        asked = {each: schema["properties"][each] for each in ([name] if name else arguments)}
        if not any(_can_fit(pattern, of, each) for each, of in asked.items()):
            whose = f"the argument {name!r}" if name else "any argument"
            what = f" ({_values_of(asked[name])})" if name else ""
            return f"{pattern!r} is no value of {whose} of the tool {tool!r}{what}."
    return ""


def _values_of(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum")
    return f"one of: {', '.join(map(str, values))}" if values else " or ".join(sorted(kinds_of(schema)))


def _can_fit(pattern: str, schema: object, name: str) -> bool:
    """Whether a value that the schema takes could be what the pattern says; True where that is not known."""
    if name == "path" and pattern[-1:] == "/" and pattern[-2:-1] not in ("", *_ANY):
        return False  # the files in it are meant, and no path ends so
    if not isinstance(schema, Mapping) or any(key in schema for key in ("$ref", "allOf")):
        return True
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list):
        return any(_can_fit(pattern, each, name) for each in several)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return any(fits(pattern, each, name) for each in values)
    kinds = kinds_of(schema)
    return not kinds or any(_fits_kind(pattern, kind) for kind in kinds)


def _fits_kind(pattern: str, kind: str) -> bool:
    """Whether the text of a value of a JSON type could be what the pattern says."""
    if kind in ("boolean", "null"):
        return any(fits(pattern, each) for each in ((True, False) if kind == "boolean" else (None,)))
    if kind in ("array", "object"):
        first, last = ("[", "]") if kind == "array" else ("{", "}")
        return pattern[:1] in (first, *_ANY) and pattern[-1:] in (last, *_ANY)
    if kind not in ("integer", "number"):
        return True
    if _ANY & set(pattern):
        return set(pattern) <= {*_ANY, *"0123456789-+.eE"}
    try:
        return float(pattern).is_integer() or kind == "number"
    except ValueError:
        return False


def _arguments(schema: Mapping[str, Any]) -> list[str] | None:
    """The names of a tool's arguments; None if there may be others."""
    names = schema.get("properties")
    is_open = schema.get("additionalProperties") or any(key in schema for key in _OPEN)
    return None if is_open or not isinstance(names, Mapping) else list(names)


def _meant(word: str, words: list[str]) -> str:
    import difflib  # not before something is wrong

    lower = {each.lower(): each for each in words}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f"Did you mean {lower[near[0]]!r}? " if near else ""
