"""Reject permission rules that cannot match any call to the agent's tools: such a rule is a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Kit, ProvidesTools
from pure_agent_loop.kernel.long_results import READ_RESULT
from pure_agent_loop.permissions import PermissionRules, Rule
from pure_agent_loop.schema.forms import fits, kinds_of
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.tool import Tool, ToolRegistry

SHARED = " For rules shared by agents, or for tools added later, use PermissionRules(..., shared=True)."
_ANY = frozenset("*?")
# Schema keywords that allow unlisted arguments.
_OPEN = ("patternProperties", "anyOf", "oneOf", "allOf", "$ref")
_Schema = Mapping[str, Any]
_Schemas = Mapping[str, _Schema]


def check_rules(rules: PermissionRules, tools: Iterable[Tool], subagents: object, hint: str = SHARED) -> None:
    """Reject a rule that cannot match any tool, or any argument of the tools it names.

    A name pattern such as ``read_*`` is accepted without a matching tool, because it also covers later tools.
    With toolsets, every name is accepted: their tools are listed during a run.

    Args:
        subagents: Manager of the agent's subagents, which may have further tools.

    Raises:
        ConfigError: A rule cannot match any call; the message names the rule and, if known, a similar name.
    """
    lending = as_protocol(subagents, ProvidesTools)
    lent = () if lending is None else lending.lent_tools()
    schemas: _Schemas = {READ_RESULT: {}, **{tool.name: tool.parameters for tool in (*tools, *lent)}}
    is_open = isinstance(tools, ToolRegistry) and bool(tools.toolsets)
    for rule in rules.each():
        matching = {name: schema for name, schema in schemas.items() if rule.is_about(name)}
        unknown = "" if is_open else _name_problem(rule, schemas)
        problem = _argument_problem(rule, matching) if matching else unknown
        if problem:
            raise ConfigError(_refusal(rule, problem, hint))


async def check_listed(rules: PermissionRules, tools: Iterable[Tool], kit: Kit, step: int) -> None:
    """Check the rules again once the toolsets have listed their tools.

    A rule for an unknown name may be for a tool of a later step, so it only causes a notice in the first
    step.

    Raises:
        ConfigError: A rule cannot match any argument of the tool it names.
    """
    schemas: _Schemas = {READ_RESULT: {}, **{tool.name: tool.parameters for tool in tools}}
    for rule in () if rules.shared else rules.each():
        matching = {name: schema for name, schema in schemas.items() if rule.is_about(name)}
        problem = _argument_problem(rule, matching) if matching else _name_problem(rule, schemas)
        if problem and matching:
            raise ConfigError(_refusal(rule, problem, SHARED))
        if (
            problem and step == 1 and kit.background is None
        ):  # with background work, the rule may be for a subagent's tool
            await kit.emit(
                Event.notice(step, f"The permission rule {rule.text!r} matches nothing yet: {problem}")
            )


def _refusal(rule: Rule, problem: str, hint: str) -> str:
    return f"The permission rule {rule.text!r} cannot match any call: {problem}{hint}"


def _name_problem(rule: Rule, known: _Schemas) -> str:
    if {*_ANY, "["} & set(rule.tool):
        return ""
    names = [name for name in known if name != READ_RESULT]
    available = f"Tools: {', '.join(names)}." if names else "The agent has no tools."
    return f"there is no tool {rule.tool!r}. {_suggestion(rule.tool, names)}{available}"


def _argument_problem(rule: Rule, schemas: _Schemas) -> str:
    problems = [_problem_with(rule, name, schema) for name, schema in schemas.items()]
    return problems[0] if all(problems) else ""


def _problem_with(rule: Rule, tool: str, schema: _Schema) -> str:
    arguments = _arguments(schema)
    if arguments is None or not rule.args:
        return ""
    if not arguments:
        return f"the tool {tool!r} has no arguments."
    for name, pattern in rule.args:
        if name and name not in arguments:
            return (
                f"the tool {tool!r} has no argument {name!r}. {_suggestion(name, arguments)}"
                f"It has: {', '.join(arguments)}. "
                f"If this is part of a value, write {tool}({arguments[0]}={name}={pattern})."
            )
        properties = {key: schema["properties"][key] for key in ([name] if name else arguments)}
        if not any(_can_fit(pattern, value, key) for key, value in properties.items()):
            target = f"the argument {name!r}" if name else "any argument"
            values = f" ({_values_of(properties[name])})" if name else ""
            return f"{pattern!r} is not a value of {target} of the tool {tool!r}{values}."
    return ""


def _values_of(schema: _Schema) -> str:
    values = schema.get("enum")
    return f"one of: {', '.join(map(str, values))}" if values else " or ".join(sorted(kinds_of(schema)))


def _can_fit(pattern: str, schema: object, name: str) -> bool:
    """Return True if a value that the schema allows could match the pattern, or if that is unknown."""
    if name == "path" and pattern[-1:] == "/" and pattern[-2:-1] not in ("", *_ANY):
        return False  # the pattern names a folder, but the path of a file does not end with a slash
    if not isinstance(schema, Mapping) or any(key in schema for key in ("$ref", "allOf")):
        return True
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return any(_can_fit(pattern, choice, name) for choice in choices)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return any(fits(pattern, value, name) for value in values)
    kinds = kinds_of(schema)
    return not kinds or any(_fits_kind(pattern, kind) for kind in kinds)


def _fits_kind(pattern: str, kind: str) -> bool:
    """Return True if a value of this JSON type, written as text, could match the pattern."""
    if kind in ("boolean", "null"):
        return any(fits(pattern, value) for value in ((True, False) if kind == "boolean" else (None,)))
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


def _arguments(schema: _Schema) -> list[str] | None:
    """Return the names of a tool's arguments; None if further arguments are allowed."""
    names = schema.get("properties")
    is_open = schema.get("additionalProperties") or any(key in schema for key in _OPEN)
    return None if is_open or not isinstance(names, Mapping) else list(names)


def _suggestion(word: str, words: list[str]) -> str:
    import difflib  # loaded only for an error

    lower = {name.lower(): name for name in words}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f"Did you mean {lower[near[0]]!r}? " if near else ""
