"""Ask once, at the first start, which model to use, and save the answer in the user's settings."""

from __future__ import annotations

import asyncio
import os
import re
import urllib.parse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from pure_agent_loop.cli.choose import Notify, demo_text, has_engine, models_of, no_model
from pure_agent_loop.cli.options import EndpointOptions
from pure_agent_loop.cli.output import CommandOutput, error_text
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.files import Server, check_key, keep_key, keep_settings
from pure_agent_loop.errors import ConfigError, LLMError, PureAgentLoopError
from pure_agent_loop.llm.profiles import DEFAULT_MODELS
from pure_agent_loop.runs import (
    LOCAL_KEY,
    Endpoint,
    Search,
    client_type,
    plan_model,
    show_url,
)
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import yes_or_no
from pure_agent_loop.support.variables import set_from_file

_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")

_MAX_LISTED = 20
_LEAVE = ("\x1b", "q")
MAKERS = {"OpenAI": "responses", "Anthropic": "anthropic", "Google": "gemini"}


def is_lasting(model: str) -> bool:
    """Return True unless the model has a known shutdown date."""
    return not DEFAULT_MODELS.get(_DATE.sub("", model))


# Model to propose for a provider's key, by protocol; from the shipped price list, as of 2026-11-27.
PROPOSED = {
    "responses": next(filter(is_lasting, DEFAULT_MODELS)),
    "anthropic": "anthropic:claude-sonnet-5-5",
    "gemini": "gemini:gemini-3.8-flash",
}


def ask_for_model(
    options: EndpointOptions, output: CommandOutput, questions: TerminalQuestions | None
) -> None:
    """Ask which model to use if none is configured, and save the answer; no data is sent before the answer.

    Args:
        options: The options after `configure`; the chosen model and server are set in them.
        questions: Asks the user; None if there is no terminal to ask at.

    Raises:
        ConfigError: No model was chosen, or the choice cannot be saved.
    """
    plan = plan_model(options.model, options.base_url, os.environ, (), options.configured)
    if questions is None or options.download or not isinstance(plan, Search) or plan.model:
        return
    server, name, key = _asked(output, questions)
    if name:
        if key:
            output.info(user_text("cli.first_key_kept", place=_use_key(options, server, key)))
        place = keep_settings({"base_url": name}, name, server)
        options.base_url = server.base_url
    else:
        place = keep_settings({"model": server.model})
    options.model = server.model
    origins = {"model": place, "base_url": place}
    options.configured = options.configured._replace(origins=origins)
    output.info(user_text("cli.first_kept", place=place))


def _use_key(options: EndpointOptions, server: Server, key: str) -> str:
    """Save a server's key, start using it, and return the path of its file.

    The key is saved before the settings, because settings without a key would fail at each start.
    """
    place = keep_key(server.api_key_env, key)
    set_from_file(server.api_key_env, key, place, replaces=True)
    keys = {**options.configured.keys, server.base_url: server.api_key_env}
    options.configured = options.configured._replace(keys=keys)
    return place


async def replace_key(options: EndpointOptions, plan: Endpoint, key: str) -> str:
    """Try another key once, save it for its server, start using it, and return the path of its file.

    Raises:
        ConfigError: The text is not a key, or cannot be saved.
        LLMError: The server refuses the key.
    """
    check_key(key)
    try:
        await models_of(plan._replace(api_key=key))
    except LLMError as error:
        if error.kind == "auth":  # otherwise, the server has no list or is unreachable
            raise
    url = plan.base_url
    variable = options.configured.keys.get(url)
    server = _server_of(urllib.parse.urlsplit(url).hostname or "", url)
    if variable:
        return _use_key(options, replace(server, api_key_env=variable), key)
    place, name = _use_key(options, server, key), server_name(urllib.parse.urlsplit(url).hostname or "")
    is_default = url == client_type("responses").default_url and not options.base_url
    keep_settings({"base_url": name} if is_default else {}, name, server)
    return place


def _server_of(name: str, url: str, model: str = "") -> Server:
    return Server(url, f"KEY_OF_{re.sub('[^A-Z0-9]', '_', name.upper())}", model)


def _asked(output: CommandOutput, questions: TerminalQuestions) -> tuple[Server, str, str]:
    """Return the chosen server with its name and key; an empty name stands for the demo model's server."""
    while True:
        found = servers_here(output.info)
        rows = [
            user_text("cli.first_server", name=name, models=one_line(", ".join(models)))
            for name, (_, models) in found.items()
        ] or [user_text("cli.first_no_server")]
        rows += [
            user_text("cli.first_key", makers=", ".join(MAKERS)),
            user_text("cli.first_demo", model=demo_text()),
        ]
        lines = [f"  {number}  {row}" for number, row in enumerate(rows, 1)]
        output.question("\n".join([user_text("cli.first_start"), *lines, ""]))
        answer = _chosen(output, questions, user_text("cli.first_which", most=len(rows)), len(rows))
        if answer == len(rows) and not has_engine():
            raise ConfigError(no_model())
        if answer == len(rows):
            return Server("", model="local"), "", ""
        if answer == len(rows) - 1:
            return _asked_key(output, questions)
        if found:
            name, (url, models) = list(found.items())[answer - 1]
            return Server(url, model=_asked_model(output, questions, models)), server_name(name), ""


def _asked_model(
    output: CommandOutput, questions: TerminalQuestions, models: Sequence[str], proposed: str = ""
) -> str:
    """Ask for a model from a list, by number or name; the proposed model is first if it is listed."""
    lasting = [model for model in models if is_lasting(model)] or [*models]
    lasting.sort(key=lambda model: model != proposed)
    if len(models) == 1:
        return models[0]
    rows = [f"  {number}  {one_line(model)}" for number, model in enumerate(lasting[:_MAX_LISTED], 1)]
    if more := len(lasting[_MAX_LISTED:]):
        rows.append(f"  {user_text('cli.first_more', count=more)}")
    output.question("\n".join([user_text("cli.first_models"), *rows, ""]))
    while True:
        typed = _typed(output, questions, user_text("cli.first_model_number"), "1")
        if typed in map(str, range(1, len(lasting) + 1)):
            return lasting[int(typed) - 1]
        if typed in models:
            return typed


def _asked_key(output: CommandOutput, questions: TerminalQuestions) -> tuple[Server, str, str]:
    """Ask for a provider or a URL, then for its key, then for one of the models that the server lists.

    The key is not shown, and is sent only to this server.
    """
    makers = [*MAKERS]
    lines = [f"  {number}  {maker}" for number, maker in enumerate(makers, 1)]
    output.question(
        "\n".join([user_text("cli.first_whose"), *lines, f"  {user_text('cli.first_other')}", ""])
    )
    while True:
        typed = _typed(output, questions, user_text("cli.first_maker", most=len(makers)))
        if typed in map(str, range(1, len(makers) + 1)):
            name, protocol = makers[int(typed) - 1], MAKERS[makers[int(typed) - 1]]
            url, proposed = client_type(protocol).default_url, PROPOSED[protocol]
            break
        try:
            plan_model("any", typed, {"PAL_API_KEY": "any"})  # raises an error if the URL is invalid
            name, url, proposed = urllib.parse.urlsplit(typed).hostname or "", typed, ""
            break
        except ConfigError as error:
            output.fail(str(error))
    key, models = _checked_key(output, questions, url, proposed)
    if models:
        model = _asked_model(output, questions, models, proposed)
    else:
        model = _typed_model(output, questions, url, proposed)
    return _server_of(name, url, model), server_name(name), key


def _typed_model(output: CommandOutput, questions: TerminalQuestions, url: str, proposed: str) -> str:
    asked = user_text("cli.first_model", proposed=f" [{proposed}]" if proposed else "")
    while True:
        typed = _typed(output, questions, asked, proposed)
        try:
            plan_model(typed, url, {"PAL_API_KEY": "any"})  # raises an error for a key, or an unknown prefix
        except ConfigError as error:
            output.fail(error_text(error))
        else:
            return typed


def _checked_key(
    output: CommandOutput, questions: TerminalQuestions, url: str, proposed: str
) -> tuple[str, list[str]]:
    """Ask for a key until the server accepts it; return it with the server's models, if they are listed."""
    while True:
        key = questions.secret(user_text("cli.first_secret", place=show_url(url)))
        if not key:
            raise ConfigError(no_model())
        output.hide(key)
        check_key(key)
        try:
            names, _ = run_sync(models_of(Endpoint(proposed, url, key, "")))
        except LLMError as error:
            output.fail(error_text(error))
            if error.kind != "auth":  # the server has no list or is unreachable
                return key, []
        else:
            output.info(user_text("cli.first_accepted"))
            before, colon, _ = proposed.partition(":")
            return key, [f"{before}:{name}" if colon else name for name in names]


def _typed(output: CommandOutput, questions: TerminalQuestions, question: str, default: str = "") -> str:
    """Return the typed line, or the default for Enter; ask again if the line contains a key.

    Raises:
        ConfigError: The user cancelled: by q, Esc, a no, the end of input, or Enter without a default.
    """
    from pure_agent_loop.support.secrets.secret_shapes import holds_key  # many patterns

    while holds_key((line := questions.line(question)) or ""):
        output.fail(user_text("cli.first_is_key"))
    typed = "" if line is None else line.strip() or default
    if not typed or typed in _LEAVE or yes_or_no(typed) is False:
        raise ConfigError(no_model())
    return typed


def _chosen(output: CommandOutput, questions: TerminalQuestions, question: str, most: int) -> int:
    """Return the typed number from 1 to `most`."""
    while (typed := _typed(output, questions, question)) not in map(str, range(1, most + 1)):
        pass
    return int(typed)


def server_name(name: str) -> str:
    """Return a product's or host's name as the name of a server in ``pal.toml``."""
    return re.sub(r"\W+", "-", name.lower())


def servers_here(on_refusal: Notify) -> dict[str, tuple[str, list[str]]]:
    """Detect usable model servers on this machine; return URL and models by product name."""
    from pure_agent_loop.local import KNOWN_PORTS, Found, find_server

    async def listed(found: Found) -> list[str]:
        with suppress(PureAgentLoopError):  # the server has no list of models
            names, _ = await models_of(Endpoint(found.model, found.base_url, LOCAL_KEY, ""))
            return names or [found.model]
        return [found.model]

    async def look() -> dict[str, tuple[str, list[str]]]:
        searches = [find_server({name: port}, on_refusal=on_refusal) for name, port in KNOWN_PORTS.items()]
        servers = [server for server in await asyncio.gather(*searches) if server is not None]
        lists = await asyncio.gather(*map(listed, servers))
        return {server.name: (server.base_url, names) for server, names in zip(servers, lists, strict=True)}

    return run_sync(look())
