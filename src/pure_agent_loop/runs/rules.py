"""Permission rules beside the tools there are: one that can never speak of a call is a mistake."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import LendsTools
from pure_agent_loop.kernel.tools.long_results import READ_RESULT
from pure_agent_loop.permissions import PermissionRules, Rule
from pure_agent_loop.support.abilities import able
from pure_agent_loop.tool import Tool, ToolRegistry

SHARED = " Rules for several agents, or for tools that come later, are PermissionRules(..., shared=True)."
_WILDCARDS = frozenset("*?[")
_OPEN = ("patternProperties", "anyOf", "oneOf", "allOf", "$ref")  # there may be more than `properties` says
_Schemas = Mapping[str, Mapping[str, Any]]


def check_rules(rules: PermissionRules, tools: Iterable[Tool], subagents: object, hint: str = SHARED) -> None:
    """Refuse a rule that can match no tool, or no argument of one.

    A pattern of names, such as ``read_*``, may match none: it also speaks of tools that there are not yet. So
    does every name where there are toolsets, whose tools nobody knows before a run.

    Args:
        rules: The rules.
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
            raise ConfigError(f"The permission rule {rule.text!r} can match no call: {problem}{hint}")


def _name_problem(rule: Rule, known: _Schemas) -> str:
    if _WILDCARDS & set(rule.tool):
        return ""
    names = [name for name in known if name != READ_RESULT]
    there = f"There are: {', '.join(names)}." if names else "There are no tools at all."
    return f"there is no tool {rule.tool!r}. {_meant(rule.tool, names)}{there}"


def _argument_problem(rule: Rule, schemas: _Schemas) -> str:
    problems = [_problem_with(rule, name, _arguments(of)) for name, of in schemas.items()]
    return problems[0] if all(problems) else ""


def _problem_with(rule: Rule, tool: str, arguments: list[str] | None) -> str:
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
    return ""


def _arguments(schema: Mapping[str, Any]) -> list[str] | None:
    """The names of a tool's arguments; None if there may be others."""
    names = schema.get("properties")
    is_open = schema.get("additionalProperties") or any(key in schema for key in _OPEN)
    return None if is_open or not isinstance(names, Mapping) else list(names)


def _meant(word: str, words: list[str]) -> str:
    lower = {each.lower(): each for each in words}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f"Did you mean {lower[near[0]]!r}? " if near else ""
