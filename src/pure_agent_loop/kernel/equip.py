"""Bind a kit to one run, and check its tools, rules and deps before the first request."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from pure_agent_loop.budget import price_for
from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Background, Ends, Kit, KitAware, ProvidesTools, RunAware
from pure_agent_loop.kernel.long_results import READ_RESULT, ReadableTools, ResultFolder, any_cut
from pure_agent_loop.kernel.prefix import DEBUG_VARIABLE, PrefixWatch
from pure_agent_loop.kernel.request import result_chars
from pure_agent_loop.kernel.run_tools import RunTools
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.base import BecomesReady, is_on_this_machine, model_of
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.llm.profiles import DefaultFloat
from pure_agent_loop.permissions import PermissionRules, Rule
from pure_agent_loop.schema.forms import fits, kinds_of
from pure_agent_loop.schema.signature import callable_name, wanted_deps
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice, use_messages
from pure_agent_loop.support.threads import Raised
from pure_agent_loop.tool import StepContext, Tool, ToolRegistry

SHARED = " For rules of several agents, or for later tools, use PermissionRules(..., shared=True)."
_ANY = frozenset("*?")
_OPEN = ("patternProperties", "anyOf", "oneOf", "allOf", "$ref")  # allow more than `properties` lists


# -- functions that want `deps` in their `RunContext`: a run without any is refused before it begins -----


def check_deps(kit: Kit) -> None:
    """Reject a run without deps if a function needs them.

    Raises:
        ConfigError: A function needs deps; the message names it and the type.
    """
    if kit.deps is not None:
        return
    for tool in kit.tools:
        if tool.wanted_deps:
            raise ConfigError(no_deps(f"The tool {tool.name!r}", tool.wanted_deps))
    hooks, functions = kit.hooks, [kit.can_use_tool, kit.on_ask]
    functions += [*hooks.before_tool, *hooks.after_tool, *hooks.on_stop]
    if kit.lead is not None:
        functions += getattr(kit.lead, "parts", ())
    if kit.output is not None:
        functions += getattr(kit.output, "functions", ())
    for function in functions:
        if function is not None and (wanted := wanted_deps(function)):
            raise ConfigError(no_deps(f"The function {callable_name(function)!r}", wanted))


def check_made(kit: Kit) -> None:
    """Raise the error of the function that makes the deps of a run, if it failed."""
    if isinstance(kit.deps, Raised):
        raise kit.deps.error


def no_deps(owner: str, wanted: str) -> str:
    """Return the error text for a function that lacks its deps."""
    return (
        f"{owner} needs deps of type {wanted} (see its RunContext), and this run has none. Pass them with "
        "agent.run(task, deps=...), or pass a function that makes them per run: Engine(..., deps=...), "
        "create_app(agents, deps=...), --deps MODULE:NAME. If None is enough, annotate it as "
        f"RunContext[{wanted} | None]."
    )


# -- permission rules and tools: a rule that can match no call is a mistake ------------------------------

_Schemas = Mapping[str, Mapping[str, Any]]


def check_rules(rules: PermissionRules, tools: Iterable[Tool], subagents: object, hint: str = SHARED) -> None:
    """Reject a rule that cannot match a tool, or an argument of one.

    A name pattern such as ``read_*`` may match no tool, because it also covers tools that come later. With
    toolsets every name is accepted: their tools are listed during a run.

    Args:
        subagents: Manager of its subagents, which may have further tools.

    Raises:
        ConfigError: A rule cannot match any call; the message names it and the most similar name.
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

    A rule for an unknown name may be for a tool of a later step; the first step sends a notice about it.

    Raises:
        ConfigError: A rule can match no argument of the tool it names.
    """
    schemas: _Schemas = {READ_RESULT: {}, **{tool.name: tool.parameters for tool in tools}}
    for rule in () if rules.shared else rules.each():
        matching = {name: schema for name, schema in schemas.items() if rule.is_about(name)}
        problem = _argument_problem(rule, matching) if matching else _name_problem(rule, schemas)
        if problem and matching:
            raise ConfigError(_refusal(rule, problem, SHARED))
        if (
            problem and step == 1 and kit.background is None
        ):  # with a background it may be for a subagent's tool
            await kit.emit(
                Event.notice(step, f"The permission rule {rule.text!r} matches nothing yet: {problem}")
            )


def _refusal(rule: Rule, problem: str, hint: str) -> str:
    return f"The permission rule {rule.text!r} can match no call: {problem}{hint}"


def _name_problem(rule: Rule, known: _Schemas) -> str:
    if {*_ANY, "["} & set(rule.tool):
        return ""
    names = [name for name in known if name != READ_RESULT]
    available = f"Tools: {', '.join(names)}." if names else "The agent has no tools."
    return f"there is no tool {rule.tool!r}. {_suggestion(rule.tool, names)}{available}"


def _argument_problem(rule: Rule, schemas: _Schemas) -> str:
    problems = [_problem_with(rule, name, schema) for name, schema in schemas.items()]
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


def _values_of(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum")
    return f"one of: {', '.join(map(str, values))}" if values else " or ".join(sorted(kinds_of(schema)))


def _can_fit(pattern: str, schema: object, name: str) -> bool:
    """True if a value that the schema allows could match the pattern; True if that is unknown."""
    if name == "path" and pattern[-1:] == "/" and pattern[-2:-1] not in ("", *_ANY):
        return False  # it names the files in a folder, but a path does not end with a slash
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
    """True if the text of a value of a JSON type could match the pattern."""
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


def _arguments(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the names of a tool's arguments; None if it may take others."""
    names = schema.get("properties")
    is_open = schema.get("additionalProperties") or any(key in schema for key in _OPEN)
    return None if is_open or not isinstance(names, Mapping) else list(names)


def _suggestion(word: str, words: list[str]) -> str:
    import difflib  # needed for errors only

    lower = {name.lower(): name for name in words}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f"Did you mean {lower[near[0]]!r}? " if near else ""


Drive = Callable[[QueryState, Kit], Coroutine[Any, Any, None]]


def use_kit_messages(drive: Drive) -> Drive:
    """Run with the messages of the kit, in its tools and judges too."""

    @wraps(drive)
    async def with_messages(state: QueryState, kit: Kit) -> None:
        with use_messages(kit.prompts):
            await drive(state, kit)

    return with_messages


def bind_kit(state: QueryState, kit: Kit) -> Kit:
    """Bind a kit to a run: add the tool that reads cut results, bind compactor and background."""
    state.context.results_cut = state.context.results_cut or any_cut(state.messages)
    folder = ResultFolder(kit.results.folder)
    tasks, compactor = as_protocol(background_of(kit), RunAware), as_protocol(kit.compactor, KitAware)
    if tasks is not None:  # first: the runs it starts are bound on their own
        kit = kit.replace(background=tasks.with_run(state, kit))
    tools = with_toolsets(kit).tools
    reading = ReadableTools(tools, folder, result_chars(state, kit), kit.prompts)
    if isinstance(kit.timeouts.first_byte, DefaultFloat) and is_on_this_machine(kit.client):
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None))
    if getattr(kit.client, "takes_timeouts", False):  # it may have another model to ask
        limits = {"timeouts": (kit.timeouts.first_byte, kit.timeouts.idle)}
        kit = kit.replace(timeouts=replace(kit.timeouts, first_byte=None, idle=None), client_options=limits)
    kit = kit.replace(tools=reading, silence=Interrupt(keeps_timer=True))
    if os.environ.get(DEBUG_VARIABLE):
        kit = kit.replace(prefix_watch=PrefixWatch(str if kit.redactor is None else kit.redactor.redact))
    return kit if compactor is None else kit.replace(compactor=compactor.with_kit(kit))


def check_price(kit: Kit) -> None:
    """Reject a cost limit for a model without a price, which would never be reached.

    A client that has not chosen its model yet passes: this is called again when the run has begun.

    Raises:
        ConfigError: The price is unknown; it names the limit and the ways to give a price.
    """
    if money := kit.limits.money:
        field = f"limits.{next(iter(money))}"
    elif kit.budget is not None and kit.budget.max_cost is not None:
        field = "budget.max_cost"
    else:
        return
    given = {**kit.limits.prices, **({} if kit.budget is None else kit.budget.prices)}
    for client in _single_clients(kit.client):
        model = str(kit.options.get("model") or model_of(client))
        is_chosen = model or as_protocol(client, BecomesReady) is None
        if is_chosen and price_for(given, model) is None and price_of(client, kit.options) is None:
            raise ConfigError(notice("library.no_price", field=field, model=model))


def _single_clients(client: Any) -> list[Any]:
    """Return the clients of the models that may answer."""
    client = getattr(client, "inner", client)
    members = getattr(client, "clients", None)
    return [single for member in members for single in _single_clients(member)] if members else [client]


async def notices_of_client(kit: Kit) -> Sequence[str]:
    """Return the notices of a client that chooses its model at the first request."""
    client = as_protocol(kit.client, BecomesReady)
    return () if client is None else await client.become_ready()


def background_of(kit: Kit) -> Background | None:
    """Return the background of a kit: its own, else the one that a tool needs."""
    needed = (getattr(tool, "background_work", None) for tool in kit.tools)
    return kit.background or next(filter(None, needed), None)


def with_toolsets(kit: Kit) -> Kit:
    """Return the kit with tools that are listed before each step, if it has toolsets."""
    if isinstance(kit.tools, RunTools) or not kit.tools.toolsets:
        return kit
    return kit.replace(tools=RunTools(kit.tools, kit.prompts))


def _run_tools(kit: Kit) -> RunTools | None:
    tools = kit.tools.inner if isinstance(kit.tools, ReadableTools) else kit.tools
    return tools if isinstance(tools, RunTools) else None


async def list_tools(state: QueryState, kit: Kit) -> None:
    """List the tools of the toolsets for the current step.

    Raises:
        ConfigError: A permission rule can match no argument of a tool, or a tool lacks its deps.
        ToolExecutionError: A toolset failed, or took longer than a tool may.
    """
    tools = _run_tools(kit)
    if tools is None:
        return
    step = state.step + (not state.pending and not state.awaiting)  # the next one, which has not begun
    context = StepContext(step, state.task, state.session_id, state.messages, state.tools.found)
    with Interrupt() as block:
        block.after(kit.timeouts.tool)
        is_changed = await tools.refresh(context, kit.journal)
        for text in tools.new_notices():
            await kit.emit(Event.notice(step, text))
        if is_changed:
            if tools.is_listed_anew:
                state.rewritten["tools"] = "toolsets"
            await check_listed(kit.permissions.rules, tools, kit, step)
            check_deps(kit)
    if block.fired:
        seconds = f"{kit.timeouts.tool:g}"
        raise ToolExecutionError("toolsets", kit.prompts.tool_timed_out.format(seconds=seconds))


async def release_toolsets(kit: Kit) -> None:
    """Close the toolsets of a run and its silence watch."""
    if kit.silence is not None:
        kit.silence.close()
    tools = _run_tools(kit)
    if tools is not None:
        await tools.leave()


async def end_background(state: QueryState, kit: Kit) -> None:
    """End the background and the toolsets of a run that has ended."""
    await release_toolsets(kit)
    ending = as_protocol(kit.background, Ends)
    if ending is not None:
        await ending.end(state)
