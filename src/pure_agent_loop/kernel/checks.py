"""Reject a kit that cannot run: a function lacks its deps, or a cost limit has no price."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.budget import price_for
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.base import BecomesReady, model_of
from pure_agent_loop.llm.prices import price_of
from pure_agent_loop.schema.signature import callable_name, wanted_deps
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.threads import Raised


def check_deps(kit: Kit) -> None:
    """Reject a run without deps if a function needs them.

    Raises:
        ConfigError: A function needs deps; the message names the function and the type of the deps.
    """
    if kit.deps is not None:
        return
    for tool in kit.tools:
        if tool.wanted_deps:
            raise ConfigError(no_deps(f"The tool {tool.name!r}", tool.wanted_deps))
    hooks, functions = kit.hooks, [kit.can_use_tool, kit.on_ask]
    functions += [*hooks.before_tool, *hooks.after_tool, *hooks.on_stop]
    for writer in (kit.lead, kit.facts):
        functions += getattr(writer, "parts", ())
    if kit.output is not None:
        functions += getattr(kit.output, "functions", ())
    for function in functions:
        if function is not None and (wanted := wanted_deps(function)):
            raise ConfigError(no_deps(f"The function {callable_name(function)!r}", wanted))


def check_made(kit: Kit) -> None:
    """If the function that makes a run's deps failed, raise its error."""
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


def check_price(kit: Kit) -> None:
    """Reject a cost limit for a model without a price: such a limit would never be reached.

    A client that has not chosen its model yet is accepted: the check is repeated when the run has begun.

    Raises:
        ConfigError: The price is unknown; the message names the limit and the ways to set a price.
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
