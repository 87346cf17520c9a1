"""Choose the model and report the choice with its reason.

1. A configured endpoint or key: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``,
   then ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``.
2. A model server running on this machine.
3. The embedded model from the ``[local]`` extra.

`runs.choose` makes the choice, also for `Agent`; this module adds messages for the terminal.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping

from pure_agent_loop.cli.options import EndpointOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.runs import (
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
    without_protocol,
)
from pure_agent_loop.support.language import user_text

LISTING_SECONDS = 3.0
Notify = Callable[[str], None]


def choose(
    options: EndpointOptions,
    thinking: str,
    output: CommandOutput,
    *,
    questions: TerminalQuestions | None = None,
    prepared: bool = True,
    announced: bool = True,
) -> Choice:
    """Choose the model, build its client, and report the choice and its reason.

    Args:
        options: The options after `configure`.
        thinking: The option ``--thinking``.
        questions: Asks before a model is downloaded; None without a terminal.
        prepared: True to prepare the client now; see `OpenAIClient`.
        announced: True to print the choice; warnings are always printed.

    Raises:
        PureAgentLoopError: No model is available, or it cannot be started.
    """
    configured = options.configured
    plans = [plan_of(options)]
    plans += [_plan_fallback(name, options.base_url, os.environ, configured) for name in configured.fallback]
    choices = [
        _open_endpoint(plan, thinking, output.info, prepared=prepared, announced=announced)
        if isinstance(plan, Endpoint)
        else _open_embedded(plan, thinking, output, questions, download=configured.download)
        for plan in plans
    ]
    if len(choices) == 1:
        return choices[0]
    from pure_agent_loop import Fallback

    return choices[0]._replace(client=Fallback([choice.client for choice in choices]))


def _plan_fallback(
    name: str, base_url: str | None, environ: Mapping[str, str], configured: Configured
) -> Endpoint | Embedded:
    """Choose an additional model: on a named server, with another protocol, or on the same server.

    Keys of the preferred model are not sent to another server.
    """
    configured = configured._replace(origins={"model": "--fallback", "base_url": "--fallback"})
    if name in configured.servers:
        url, model = configured.servers[name]
        own_key = configured.keys.get(url, "")
        return plan_for(model or None, url, {own_key: environ.get(own_key, "")}, configured)
    if without_protocol(name, "--fallback") != name:
        own = {key: value for key, value in environ.items() if not key.startswith("PAL_")}
        return plan_for(name, None, own, configured)
    return plan_for(name, base_url, environ, configured)


def plan_of(options: EndpointOptions) -> Endpoint | Embedded:
    """Choose the model without building its client; see `plan_for`."""
    return plan_for(options.model, options.base_url, os.environ, options.configured)


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
        raise ConfigError(f"{user_text('cli.no_such_server', model=plan.model)}\n{no_model()}")
    return detected


def demo_text() -> str:
    """Return a description of the demo model, for a person."""
    return missing_model(Embedded("local", "", is_named=False)) or user_text("cli.demo_here")


def has_engine() -> bool:
    """Return True if the extra for embedded models is installed."""
    return importlib.util.find_spec("xllamacpp") is not None


def no_model() -> str:
    """Return a description of the ways to get a model, for a person."""
    from pure_agent_loop.support.install import install_command

    if has_engine():
        tiny = user_text("cli.tiny_download", model=demo_text())
    else:
        tiny = user_text("cli.tiny_install", install=install_command("local"), model=demo_text())
    return user_text("cli.no_model", tiny=tiny)


class _Listed:
    """The names of models that can run on this machine, listed lazily."""

    def __contains__(self, name: object) -> bool:
        from pure_agent_loop.local import list_models

        return any(listed.name == name for listed in list_models())


async def models_of(plan: Endpoint | Embedded) -> tuple[list[str], int]:
    """Return the names of the models on a plan's server, and the context window (0 if unknown).

    Raises:
        PureAgentLoopError: The server has no list, or the request failed.
    """
    from pure_agent_loop.doctor import Target, server_models
    from pure_agent_loop.local import list_models

    if isinstance(plan, Embedded):
        return [f"local:{listed.name}" for listed in list_models() if listed.path], 0
    names, window = await server_models(Target(plan.base_url, plan.model, plan.api_key), LISTING_SECONDS)
    return names, window or 0


def _open_endpoint(
    plan: Endpoint, thinking: str, notify: Notify, *, prepared: bool, announced: bool
) -> Choice:
    name = plan.model or model_at(plan)
    choice = choose_model(name, plan.api_key, plan.base_url, thinking, prepared=prepared)
    if announced:
        notify(user_text("cli.using", model=choice.model, place=show_url(plan.base_url), why=plan.why))
    if plan.is_unencrypted:
        notify(user_text("cli.unencrypted"))
    return choice


def _open_embedded(
    plan: Embedded,
    thinking: str,
    output: CommandOutput,
    questions: TerminalQuestions | None,
    *,
    download: bool,
) -> Choice:
    allow_download(plan, questions, download=download)
    with SlowSteps(output) as steps:
        choice = choose_model(plan.name, thinking_level=thinking, on_progress=steps)
    notify = output.info
    notify(user_text("cli.using_embedded", model=choice.model, why=plan.why))
    if choice.is_tiny:
        notify(user_text("cli.tiny"))
    return choice


def allow_download(plan: Embedded, questions: TerminalQuestions | None, *, download: bool) -> None:
    """Ask before downloading a model that was not named; use an existing file without asking.

    Args:
        download: The option ``--download``, which skips the question.

    Raises:
        ConfigError: The engine is missing, or the user did not agree.
        MissingExtraError: The engine of a named model is missing.
    """
    from pure_agent_loop.local import check_engine

    try:
        check_engine()
    except MissingExtraError as error:
        if plan.name == "local":
            raise ConfigError(no_model()) from error
        raise
    what = "" if download else missing_model(plan)
    if not what:
        return
    if questions is None or not questions.confirm(user_text("cli.download", model=what)):
        raise ConfigError(no_model())


def missing_model(plan: Embedded) -> str:
    """Return the model that the plan would download although it was not named; empty if there is none."""
    if plan.is_named:
        return ""
    from pure_agent_loop.local import list_models

    missing = next((listed.model for listed in list_models() if listed.is_default and not listed.path), None)
    if missing is None:
        return ""
    if missing.size is None:
        return f"{missing.name} ({missing.note})"
    return user_text("cli.demo_model", size=f"{missing.size / 1e6:.0f}")
