"""Choose the model and report the choice with its reason.

1. A configured endpoint or key: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``,
   then ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``.
2. A model server running on this machine.
3. The embedded model of the extra ``[local]``.

`runs.choose` makes the choice, for `Agent` too; this module adds messages for the terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.runs import (
    LOCAL_KEY,
    Choice,
    Configured,
    Embedded,
    Endpoint,
    Search,
    choose_model,
    find_local_model,
    model_at,
    plan_model,
    show_url,
)
from pure_agent_loop.support.language import user_text

LISTING_SECONDS = 3.0
Notify = Callable[[str], None]


def choose(
    model: str | None,
    base_url: str | None,
    thinking: str,
    environ: Mapping[str, str],
    output: CommandOutput,
    configured: Configured = Configured(),  # noqa: B008 - immutable
    *,
    prepared: bool = True,
) -> Choice:
    """Choose the model, build its client, and report the choice and its reason.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        prepared: Prepare the client now; see `OpenAIClient`.

    Raises:
        PureAgentLoopError: No model is available, or it cannot be started.
    """
    plan = plan_for(model, base_url, environ, configured)
    if isinstance(plan, Endpoint):
        return _open_endpoint(plan, thinking, output.info, prepared=prepared)
    return _open_embedded(plan, thinking, output.info, SlowSteps(output))


def plan_for(
    model: str | None,
    base_url: str | None,
    environ: Mapping[str, str],
    configured: Configured = Configured(),  # noqa: B008 - immutable
) -> Endpoint | Embedded:
    """Choose the model without building its client.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.

    Raises:
        ConfigError: A URL is invalid, a key is missing, or no server has the model.
    """
    plan = plan_model(model, base_url, environ, _Listed(), configured)
    if not isinstance(plan, Search):
        return plan
    detected = find_local_model(plan.model)
    if detected is None:
        raise ConfigError(f"{user_text('cli.no_such_server', model=plan.model)} {user_text('cli.ways_out')}")
    return detected


class _Listed:
    """The names of models that can run on this machine, listed lazily."""

    def __contains__(self, name: object) -> bool:
        from pure_agent_loop.local import list_models

        return any(listed.name == name for listed in list_models())


def models_at(plan: Endpoint | Embedded) -> list[str]:
    """List the model names of a plan's server; empty if it does not list them."""
    from pure_agent_loop.doctor import Target
    from pure_agent_loop.doctor.listing import get_json
    from pure_agent_loop.local import list_models

    if isinstance(plan, Embedded):
        return [f"local:{listed.name}" for listed in list_models() if listed.path]
    target = Target(plan.base_url, api_key=plan.api_key)
    try:
        response = asyncio.run(get_json(target, "/models", LISTING_SECONDS))
    except PureAgentLoopError:
        return []
    rows = response.get("data") if isinstance(response, dict) else None
    names = (row.get("id") for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    return [name for name in names if isinstance(name, str) and name.strip()]


def _open_endpoint(plan: Endpoint, thinking: str, notify: Notify, *, prepared: bool) -> Choice:
    name = plan.model or model_at(plan)
    choice = choose_model(name, plan.api_key, plan.base_url, thinking, prepared=prepared)
    notify(user_text("cli.using", model=choice.model, place=show_url(plan.base_url), why=plan.why))
    if plan.base_url.startswith("http:") and plan.api_key != LOCAL_KEY and not is_loopback(plan.base_url):
        notify(user_text("cli.unencrypted"))
    return choice


def _open_embedded(plan: Embedded, thinking: str, notify: Notify, on_progress: Notify) -> Choice:
    try:
        choice = choose_model(plan.name, thinking_level=thinking, on_progress=on_progress)
    except MissingExtraError as error:
        if plan.name == "local":
            raise ConfigError(f"{user_text('cli.nothing_to_use')} {user_text('cli.ways_out')}") from error
        raise
    notify(user_text("cli.using_embedded", model=choice.model, why=plan.why))
    if choice.is_tiny:
        notify(user_text("cli.tiny"))
    return choice
