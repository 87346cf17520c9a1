"""Choose the model and report the choice with its reason; at a terminal, ask once if none is configured.

1. A configured endpoint or key: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``,
   then ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``.
2. A model server running on this machine.
3. The embedded model of the extra ``[local]``.

`runs.choose` makes the choice, for `Agent` too; this module adds messages for the terminal.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress

from pure_agent_loop.cli.options import EndpointOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.files import Server, keep_key, keep_settings
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.profiles import DEFAULT_MODEL
from pure_agent_loop.runs import (
    LOCAL_KEY,
    Choice,
    Configured,
    Embedded,
    Endpoint,
    Search,
    choose_model,
    client_type,
    find_local_model,
    model_at,
    plan_model,
    show_url,
    without_protocol,
)
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import one_line

# Model proposed for a key of a maker, by its protocol; as of 2026-11-27, of the shipped list of prices.
PROPOSED = {
    "responses": DEFAULT_MODEL,
    "anthropic": "anthropic:claude-sonnet-5-5",
    "gemini": "gemini:gemini-3.8-flash",
}
MAKERS = {"OpenAI": "responses", "Anthropic": "anthropic", "Google": "gemini"}
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
        prepared: Prepare the client now; see `OpenAIClient`.
        announced: Print the choice; warnings are always printed.

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
    """Choose a further model: a named server, a model of another protocol, or one on the same server.

    Keys of the preferred model do not go to another server.
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


# -- the first start: one question, whose answer is kept in the user's settings ---------------------------


def ask_for_model(
    options: EndpointOptions, output: CommandOutput, questions: TerminalQuestions | None
) -> None:
    """Ask which model to use if none is configured, and keep the answer; nothing is sent before.

    Args:
        options: The options after `configure`; the chosen model and server are set in them.
        questions: Asks; None without a terminal, where nothing is asked.

    Raises:
        ConfigError: No model was chosen, or the choice cannot be kept.
    """
    plan = plan_model(options.model, options.base_url, os.environ, (), options.configured)
    if questions is None or options.download or not isinstance(plan, Search) or plan.model:
        return
    server, name, key = _asked(output, questions)
    if name:
        variable = server.api_key_env
        if variable:  # first, since settings without it would fail at each start
            output.info(user_text("cli.first_key_kept", place=keep_key(variable, key)))
            os.environ[variable] = key
        place = keep_settings({"base_url": name}, name, server)
        options.base_url = server.base_url
        keys = {**options.configured.keys, **({server.base_url: variable} if variable else {})}
        options.configured = options.configured._replace(keys=keys)
    else:
        place = keep_settings({"model": server.model})
    options.model = server.model
    origins = {"model": place, "base_url": place}
    options.configured = options.configured._replace(origins=origins)
    output.info(user_text("cli.first_kept", place=place))


def _asked(output: CommandOutput, questions: TerminalQuestions) -> tuple[Server, str, str]:
    """Return the chosen server with its name and key; without a name, the server is the demo model's."""
    while True:
        found = servers_here(output.info)
        rows = [
            user_text("cli.first_server", name=name, models=one_line(", ".join(models)))
            for name, (_, models) in found.items()
        ] or [user_text("cli.first_no_server")]
        rows += [
            user_text("cli.first_key", makers=", ".join(MAKERS)),
            user_text("cli.first_demo", model=_demo()),
        ]
        lines = [f"  {number}  {row}" for number, row in enumerate(rows, 1)]
        output.info("\n".join([user_text("cli.first_start"), *lines]))
        answer = _chosen(questions, user_text("cli.first_which", most=len(rows)), len(rows))
        if answer is None or (answer == len(rows) and not _has_engine()):
            raise ConfigError(no_model())
        if answer == len(rows):
            return Server("", model="local"), "", ""
        if answer == len(rows) - 1:
            return _asked_key(output, questions)
        if found:
            name, (url, models) = list(found.items())[answer - 1]
            return Server(url, model=_asked_model(output, questions, models)), server_name(name), ""


def _asked_model(output: CommandOutput, questions: TerminalQuestions, models: list[str]) -> str:
    if len(models) == 1:
        return models[0]
    rows = [f"  {number}  {one_line(model)}" for number, model in enumerate(models, 1)]
    output.info("\n".join([user_text("cli.first_models"), *rows]))
    number = _chosen(questions, user_text("cli.first_model_number"), len(models))
    return models[(number or 1) - 1]


def _asked_key(output: CommandOutput, questions: TerminalQuestions) -> tuple[Server, str, str]:
    """Ask for a maker or a URL, its model and its key. The key is not shown, and goes to this server only."""
    makers = [*MAKERS]
    lines = [f"  {number}  {maker}" for number, maker in enumerate(makers, 1)]
    output.info("\n".join([user_text("cli.first_whose"), *lines, f"  {user_text('cli.first_other')}"]))
    while True:
        typed = (questions.line(user_text("cli.first_maker", most=len(makers))) or "").strip()
        if not typed:
            raise ConfigError(no_model())
        if typed in map(str, range(1, len(makers) + 1)):
            name, protocol = makers[int(typed) - 1], MAKERS[makers[int(typed) - 1]]
            url, proposed = client_type(protocol).default_url, str(PROPOSED[protocol])
            break
        try:
            plan_model("any", typed, {"PAL_API_KEY": "any"})  # checks the URL
            name, url, proposed = urllib.parse.urlsplit(typed).hostname or "", typed, ""
            break
        except ConfigError as error:
            output.fail(str(error))
    model = ""
    while not model:
        asked = questions.line(user_text("cli.first_model", proposed=f" [{proposed}]" if proposed else ""))
        if asked is None:
            raise ConfigError(no_model())
        model = asked.strip() or proposed
    key = questions.secret(user_text("cli.first_secret", place=show_url(url)))
    if not key:
        raise ConfigError(no_model())
    output.hide(key)
    return Server(url, f"KEY_OF_{re.sub('[^A-Z0-9]', '_', name.upper())}", model), server_name(name), key


def _chosen(questions: TerminalQuestions, question: str, most: int) -> int | None:
    """Return the typed number from 1 to `most`; None for Enter or the end of input."""
    while True:
        typed = (questions.line(question) or "").strip()
        if not typed:
            return None
        if typed in map(str, range(1, most + 1)):
            return int(typed)


def server_name(name: str) -> str:
    """Return a product's or host's name as the name of a server in ``pal.toml``."""
    return re.sub(r"\W+", "-", name.lower())


def _demo() -> str:
    """Describe the demo model, for a person."""
    return missing_model(Embedded("local", "", is_named=False)) or user_text("cli.demo_here")


def _has_engine() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def no_model() -> str:
    """Return the ways to get a model, for a person."""
    from pure_agent_loop.support.install import install_command

    if _has_engine():
        tiny = user_text("cli.tiny_download", model=_demo())
    else:
        tiny = user_text("cli.tiny_install", install=install_command("local"), model=_demo())
    return user_text("cli.no_model", tiny=tiny)


def servers_here(on_refusal: Notify) -> dict[str, tuple[str, list[str]]]:
    """Detect usable model servers on this machine; return URL and models by product name."""
    from pure_agent_loop.local import KNOWN_PORTS, Found, find_server

    async def listed(found: Found) -> list[str]:
        with suppress(PureAgentLoopError):  # a server without a list
            names, _ = await models_of(Endpoint(found.model, found.base_url, LOCAL_KEY, ""))
            return names or [found.model]
        return [found.model]

    async def look() -> dict[str, tuple[str, list[str]]]:
        searches = [find_server({name: port}, on_refusal=on_refusal) for name, port in KNOWN_PORTS.items()]
        servers = [server for server in await asyncio.gather(*searches) if server is not None]
        lists = await asyncio.gather(*map(listed, servers))
        return {server.name: (server.base_url, names) for server, names in zip(servers, lists, strict=True)}

    return run_sync(look())


class _Listed:
    """The names of models that can run on this machine, listed lazily."""

    def __contains__(self, name: object) -> bool:
        from pure_agent_loop.local import list_models

        return any(listed.name == name for listed in list_models())


async def models_of(plan: Endpoint | Embedded) -> tuple[list[str], int]:
    """Return the names of the models of a plan's server, and the context window of its model, 0 if unknown.

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
    if plan.base_url.startswith("http:") and plan.api_key != LOCAL_KEY and not is_loopback(plan.base_url):
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
    """Ask before downloading a model that was not named; a file that is here is used without a question.

    Args:
        download: The option ``--download``: the answer is yes.

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
    """Return the model that the plan would download without being asked for it; empty if there is none."""
    if plan.is_named:
        return ""
    from pure_agent_loop.local import list_models

    missing = next((listed.model for listed in list_models() if listed.is_default and not listed.path), None)
    if missing is None:
        return ""
    if missing.size is None:
        return f"{missing.name} ({missing.note})"
    return user_text("cli.demo_model", size=f"{missing.size / 1e6:.0f}")
