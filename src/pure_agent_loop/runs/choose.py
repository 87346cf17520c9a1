"""Which model to use: what was asked for, else what is at hand. It is always said which, and why.

Order: an endpoint or key that was given; a server running on this machine; the embedded model.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import urllib.parse
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.openai_client import DEFAULT_URL, OpenAIClient
from pure_agent_loop.llm.profiles import DEFAULT_MODEL, DefaultModel, Profile
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.secrets.redaction import shown_url

LOG = logging.getLogger("pure_agent_loop")
ASK_SECONDS = 2.0
LOCAL_KEY = "not-needed"  # never a real key: what answers on a local port is not known
_OTHER_PROTOCOLS = {
    "anthropic": "there is no client for this protocol yet. Anthropic's models also answer at "
    "base_url='https://api.anthropic.com/v1' (or OPENAI_BASE_URL), with their own key, as model={name!r}.",
    "responses": "there is no client for this protocol yet. Use chat completions: model={name!r}.",
}
NOTHING_AT_HAND = """No model is configured and none is at hand. Do one of these:
  1. Set OPENAI_API_KEY, or pass api_key=... (and base_url=... for a provider other than OpenAI).
  2. Start a local server: Ollama, LM Studio, llama.cpp or vLLM is found on its usual port.
  3. Install the embedded model's engine, from the project folder: pip install '.[local]'"""


class Choice(NamedTuple):
    """A model that is ready to use.

    Args:
        client: The client for it.
        model: Its name.
        reason: A sentence that says which model it is, where it runs, and why it was chosen.
        is_tiny: True for a model too small for real work: a demonstration.
    """

    client: BaseLLMClient
    model: str
    reason: str
    is_tiny: bool = False


def without_protocol(model: str, owner: str = "model") -> str:
    """The name of a model without the prefix that says how its server is spoken to.

    Raises:
        ConfigError: There is no client for that protocol, or no name behind it.
    """
    protocol, _, name = model.partition(":")
    if protocol in _OTHER_PROTOCOLS:
        raise ConfigError(f"{owner}={model!r}: {_OTHER_PROTOCOLS[protocol].format(name=name or 'NAME')}")
    if protocol == "openai" and protocol != model:
        if not name.strip():
            raise ConfigError(f"{owner}={model!r} names no model: write openai:NAME.")
        return name
    return model


class Setting(NamedTuple):
    """A value and where it comes from; a lower `rank` goes before a higher one."""

    value: str
    source: str
    rank: int


class Endpoint(NamedTuple):
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


class Embedded(NamedTuple):
    """A model to run in this machine.

    Args:
        name: As `choose_model` takes it.
        why: Why this one, for the user.
    """

    name: str
    why: str


class Search(NamedTuple):
    """Nothing was given: look around.

    Args:
        model: The model to ask for, if one was named.
    """

    model: str


class Configured(NamedTuple):
    """What settings in files add to a command.

    Args:
        origins: Where the model (``model``) and the address (``base_url``) come from, for people.
        keys: The variables that hold the keys of addresses.
    """

    origins: Mapping[str, str] = MappingProxyType({})
    keys: Mapping[str, str] = MappingProxyType({})


_NOTHING = Configured()


def settle(
    model: str | None,
    base_url: str | None,
    environ: Mapping[str, str],
    embedded: Container[str] = (),
    configured: Configured = _NOTHING,
) -> Endpoint | Embedded | Search:
    """Decide for a command, from its options and the environment alone, without touching anything.

    Options go first, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``, then those of ``OPENAI_``.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        embedded: Names of models that can run in this machine.

    Raises:
        ConfigError: An address is none, or a key is missing.
    """
    origins = configured.origins
    name = _first(environ, (origins.get("model", "--model"), model), "PAL_MODEL", "OPENAI_MODEL")
    given, name = name, name and name._replace(value=without_protocol(name.value, name.source))
    url = _first(
        environ, (origins.get("base_url", "--base-url"), base_url), "PAL_BASE_URL", "OPENAI_BASE_URL"
    )
    key = _first(environ, ("", None), "PAL_API_KEY", "OPENAI_API_KEY")
    if name and name == given and is_embedded_name(name.value) and url is None:
        return Embedded(name.value, f"asked for by {name.source}")
    if name and name == given and url is None and name.value in embedded:
        return Embedded(f"local:{name.value}", f"asked for by {name.source}")
    wanted = name.value if name else ""
    if url:
        own = configured.keys.get(url.value)
        key = key if own is None else Setting(_value_of(own, environ), own, 0)
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


def _value_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable, "").strip():
        raise ConfigError(f"The variable {variable} is not set; your settings say that it holds the key.")
    return environ[variable].strip()


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


def look_around(model: str = "") -> Endpoint | Embedded | None:
    """What is at hand: a server running on this machine, else the embedded model.

    Args:
        model: The model to ask for, if one was named; None comes back then if no server is running.
    """
    from pure_agent_loop.local import find_server

    refused: list[str] = []
    found = run_sync(find_server(on_refusal=refused.append))
    if found is not None:
        why = f"no key is set; found here, on the usual port of {found.name}: {found.owner}"
        return Endpoint(model or found.model, found.base_url, LOCAL_KEY, why)
    also = "".join(f"; {each} (--base-url)" for each in refused)
    return None if model else Embedded("local", f"no key is set and no model server is running here{also}")


def model_at(plan: Endpoint) -> str:
    """The model of a server for which none was named.

    Raises:
        ConfigError: It has to be named.
    """
    if plan.base_url == DEFAULT_URL:
        return str(DEFAULT_MODEL)
    if is_loopback(plan.base_url):
        from pure_agent_loop.local import find_server

        port = urllib.parse.urlsplit(plan.base_url).port or 80
        found = run_sync(find_server({"": port}, ASK_SECONDS, named=True))
        if found is not None:
            return found.model
    raise ConfigError(f"Which model of {show_url(plan.base_url)}? Name it: --model NAME (or PAL_MODEL).")


def choose_model(
    model: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    thinking_level: str = "off",
    on_progress: Callable[[str], None] | None = None,
    profile: Profile | None = None,
    *,
    prepared: bool = True,
) -> Choice:
    """Pick a model and build its client. Blocks: it may look for servers, download and start one.

    Args:
        model: A name; without an address ``local``, ``local:NAME`` or ``PATH.gguf`` for an embedded one; a
            `DefaultModel` or None if the caller has no wish.
        api_key: The key, if given.
        base_url: The address, if given.
        on_progress: Told about slow steps.
        profile: What the server needs; not for an embedded model, which needs nothing.
        prepared: Whether the client is made ready now; see `OpenAIClient`.

    Raises:
        ConfigError: Nothing was asked for and nothing is at hand; the message lists what to do.
    """
    tell = on_progress or _ignore
    given, model = model, model and without_protocol(model)
    if model is not None and model == given and is_embedded_name(model) and not names_server(base_url):
        return _embedded(model.partition(":")[2] if model.startswith("local:") else model, tell, "as asked")
    has_wish = model is not None and not isinstance(model, DefaultModel)
    if has_wish or api_key or names_server(base_url) or os.environ.get("OPENAI_API_KEY"):
        return _asked_for(
            model or DEFAULT_MODEL, api_key, base_url, thinking_level, profile, prepared=prepared
        )
    plan = look_around()
    if isinstance(plan, Endpoint):
        return _asked_for(
            plan.model, plan.api_key, plan.base_url, thinking_level, profile, plan.why, prepared=prepared
        )
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(NOTHING_AT_HAND)
    return _embedded("local", tell, "nothing else is configured or running")


def client_for(
    model: str | None, api_key: str | None, base_url: str | None, thinking_level: str, profile: Profile | None
) -> tuple[BaseLLMClient, tuple[str, ...]]:
    """The client of an agent that was given none, and notices that say which model it is; see `choose_model`.

    Raises:
        ConfigError: `model` is no name, or there is no model.
    """
    name: object = DEFAULT_MODEL if model is None else model
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"model must be a model's name; it is {name!r:.80}.")
    choice = choose_model(name, api_key, base_url, thinking_level, LOG.warning, profile)
    if name is DEFAULT_MODEL and choice.model != name:
        LOG.warning("Using %s.", choice.reason)
    return choice.client, (f"Model: {choice.reason}.",)


def names_server(base_url: str | None) -> bool:
    """True if an address is given, as an argument or in the environment: it wins over an embedded name."""
    return bool(base_url or os.environ.get("OPENAI_BASE_URL"))


def is_embedded_name(model: str) -> bool:
    """True for a name that means a model run by this package itself."""
    return model == "local" or model.startswith("local:") or model.lower().endswith(".gguf")


def _asked_for(
    model: str,
    api_key: str | None,
    base_url: str | None,
    thinking_level: str,
    profile: Profile | None,
    why: str = "as configured",
    *,
    prepared: bool = True,
) -> Choice:
    client = OpenAIClient(str(model), api_key, base_url, thinking_level, profile=profile, prepared=prepared)
    return Choice(client, client.model, f"{client.model} at {shown_url(client.base_url)}, {why}")


def _embedded(name: str, tell: Callable[[str], None], why: str) -> Choice:
    from pure_agent_loop.local import open_local

    client = open_local(None if name == "local" else name, tell)
    reason = f"{client.name}, embedded on this machine ({why})"
    return Choice(client, client.name, reason, is_tiny=client.is_tiny)


def _ignore(message: str) -> None:
    """Progress that nobody wants to see."""
