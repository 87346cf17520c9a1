"""Selection of a model: the requested one, else a local one, always with a reason.

Order: the given endpoint or key; a server running on this machine; the embedded model.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
import urllib.parse
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.addresses import is_loopback, without_endpoint
from pure_agent_loop.llm.base import BaseLLMClient, StreamingClient, stream_of
from pure_agent_loop.llm.openai_client import DEFAULT_URL, OpenAIClient
from pure_agent_loop.llm.profiles import DEFAULT_MODEL, DefaultModel, Profile
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.secrets.redaction import shown_url
from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.llm.protocol_client import ProtocolClient

ASK_SECONDS = 2.0
LOCAL_KEY = "not-needed"  # sent to local servers in place of the real key
# Prefixes of model names for protocols other than chat completions.
PROTOCOLS = ("anthropic", "bedrock", "gemini", "responses", "vertex")
# Models that OpenAI serves only through the Responses protocol, with or without a date in the name;
# as of 2026-11-27.
# Source: `ResponsesModel` without `ChatModel` in the types of the ``openai`` package 3.57.0.
RESPONSES_ONLY = frozenset({
    "computer-use-preview", "gpt-5-codex", "gpt-5-pro", "gpt-5.1-codex-max", "gpt-5.5-pro", "gpt-5.6-cyber",
    "gpt-6-cyber", "gpt-6-rosalind", "gpt-6.2-astra-law", "gpt-daybreak-blue-latest",
    "gpt-daybreak-red-latest", "gpt-rosalind-research", "o1-pro", "o3-deep-research", "o3-pro",
    "o4-mini-deep-research",
})  # fmt: skip
_LEAST_KEY = 30  # letters; a shorter name is not an API key, unless it begins with "sk-"
NOTHING_AT_HAND = """No model is configured, and none was found. Do one of these:
  1. Set OPENAI_API_KEY, or pass api_key=... (and base_url=... for a provider other than OpenAI).
  2. Start a local server: Ollama, LM Studio, llama.cpp and vLLM are detected on their default ports.
  3. {embedded}"""
_CHOOSING = threading.Lock()  # one search at a time, so that the second finds the server started by the first


class Choice(NamedTuple):
    """Selected model.

    Args:
        client: Client for the model.
        model: Model name.
        reason: Sentence with the model's name, its location and the reason for the choice.
        is_tiny: True for a demonstration model that is too small for real work.
    """

    client: BaseLLMClient
    model: str
    reason: str
    is_tiny: bool = False


def without_protocol(model: str, owner: str = "model") -> str:
    """Return the name of a model without its protocol prefix.

    Raises:
        ConfigError: The protocol has no client, or the name is missing.
    """
    protocol, _, name = model.partition(":")
    if protocol not in ("openai", *PROTOCOLS) or protocol == model:
        return model
    if not name.strip():
        raise ConfigError(notice("library.no_model_name", owner=owner, model=model, protocol=protocol))
    return name


def _check_prefix(model: str, url: str, owner: str = "model") -> None:
    """Reject ``PREFIX:NAME`` at OpenAI, where only names of fine-tuned models (``ft:...``) have a colon.

    Source: ``suffix`` in ``fine_tuning.job_create_params`` of the ``openai`` package 3.57.0.
    """
    prefix, colon, _ = model.partition(":")
    if colon and prefix != "ft" and client_type("responses").is_own(url):
        known = ", ".join(("openai", *PROTOCOLS))
        raise ConfigError(
            notice("library.unknown_prefix", owner=owner, model=model, prefix=prefix, known=known)
        )


def protocol_of(model: str) -> str:
    """Return the protocol that a model's name begins with; empty for chat completions."""
    protocol, colon, _ = model.partition(":")
    return protocol if colon and protocol in PROTOCOLS else ""


def protocol_at(url: str) -> str:
    """Return the protocol of Anthropic or Google if a URL belongs to one of them; empty for other URLs."""
    return next((name for name in PROTOCOLS if name != "responses" and client_type(name).is_own(url)), "")


def client_type(protocol: str) -> type[ProtocolClient]:
    """Return the client class for one of `PROTOCOLS`."""
    if protocol == "anthropic":
        from pure_agent_loop.llm.anthropic.client import AnthropicClient

        return AnthropicClient
    if protocol in ("bedrock", "vertex"):
        from pure_agent_loop.llm.anthropic.clouds import BedrockClient, VertexClient

        return BedrockClient if protocol == "bedrock" else VertexClient
    if protocol == "gemini":
        from pure_agent_loop.llm.gemini.client import GeminiClient

        return GeminiClient
    from pure_agent_loop.llm.responses.client import ResponsesClient

    return ResponsesClient


class SourcedValue(NamedTuple):
    """A value, and where it was set; a lower `rank` takes precedence."""

    value: str
    source: str
    rank: int


class Endpoint(NamedTuple):
    """Selected model server.

    Args:
        model: Model name on the server; empty if not given.
        base_url: Server URL.
        api_key: API key.
        why: Reason for the choice, for the user.
    """

    model: str
    base_url: str
    api_key: str
    why: str

    @property
    def is_unencrypted(self) -> bool:
        """True if a key would be sent unencrypted over a network."""
        has_key = self.api_key != LOCAL_KEY
        return has_key and self.base_url.startswith("http:") and not is_loopback(self.base_url)


class Embedded(NamedTuple):
    """Selected embedded model.

    Args:
        name: Name, as for `choose_model`.
        why: Reason for the choice, for the user.
        is_named: False if it was chosen because nothing else was found.
    """

    name: str
    why: str
    is_named: bool = True


class Search(NamedTuple):
    """Search for a local model, if no server is configured.

    Args:
        model: Requested model, if any.
    """

    model: str


class Configured(NamedTuple):
    """Settings from files for a command.

    Args:
        origins: Where the model (``model``) and the URL (``base_url``) were set, for messages to people.
        keys: Environment variables with the API keys, by URL.
        servers: URLs and models of named servers; the model is empty if not given.
        fallback: Models or named servers to use if the previous ones fail, in order.
        download: True to download the embedded model without asking.
    """

    origins: Mapping[str, str] = {}
    keys: Mapping[str, str] = {}
    servers: Mapping[str, tuple[str, str]] = {}
    fallback: Sequence[str] = ()
    download: bool = False


_NOTHING = Configured()


def plan_model(
    model: str | None,
    base_url: str | None,
    environ: Mapping[str, str],
    embedded: Container[str] = (),
    configured: Configured = _NOTHING,
) -> Endpoint | Embedded | Search:
    """Select a model for a command from its options and the environment, without side effects.

    Precedence: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``, then the ``OPENAI_``
    variables. For a model ``PROTOCOL:NAME``, the variables of the protocol's maker replace
    ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

    Args:
        model: Option ``--model``.
        base_url: Option ``--base-url``.
        embedded: Names of embedded models.

    Raises:
        ConfigError: A URL is invalid, or a key is missing.
    """
    origins = configured.origins
    name = _first(environ, (origins.get("model", "--model"), model), "PAL_MODEL", "OPENAI_MODEL")
    if name and (name.value.startswith(("sk-", "sk_")) or _is_long_key(name.value)):
        raise ConfigError(notice("library.key_as_model", source=name.source))
    named, name = name, name and name._replace(value=without_protocol(name.value, name.source))
    if named and (protocol := protocol_of(named.value)):
        return _plan_protocol(client_type(protocol), named, base_url, environ, configured)
    url = _first(
        environ, (origins.get("base_url", "--base-url"), base_url), "PAL_BASE_URL", "OPENAI_BASE_URL"
    )
    key = _first(environ, ("", None), "PAL_API_KEY", "OPENAI_API_KEY")
    if name and name == named and is_embedded_name(name.value) and url is None:
        return Embedded(name.value, notice("library.selected_by", source=name.source))
    if name and name == named and url is None and name.value in embedded:
        return Embedded(f"local:{name.value}", notice("library.selected_by", source=name.source))
    model_name = name.value if name else ""
    if name and name == named and (url or key):
        _check_prefix(name.value, _check_url(url) if url else DEFAULT_URL, name.source)
    if url:
        own = configured.keys.get(url.value)
        key = key if own is None else SourcedValue(_value_of(own, environ), own, 0)
        return Endpoint(
            model_name, _check_url(url), _key_for(url, key), notice("library.selected_by", source=url.source)
        )
    if key:
        return Endpoint(model_name, DEFAULT_URL, key.value, notice("library.is_set", variable=key.source))
    return Search(model_name)


def _is_long_key(name: str) -> bool:
    if len(name) < _LEAST_KEY:
        return False
    from pure_agent_loop.support.secrets.secret_shapes import holds_key  # many patterns

    return holds_key(name)


def _plan_protocol(
    client: type[ProtocolClient],
    name: SourcedValue,
    base_url: str | None,
    environ: Mapping[str, str],
    configured: Configured,
) -> Endpoint:
    """Select a server for a maker's protocol.

    The maker's key goes only to the maker's own URL, or to the one in the maker's URL variable.
    """
    option = (configured.origins.get("base_url", "--base-url"), base_url)
    url = _first(environ, option, "PAL_BASE_URL", client.url_variable)
    address = _check_url(url) if url else client.default_address(environ)
    why = notice("library.selected_by", source=(url or name).source)
    own = configured.keys.get(address)
    if own is not None:
        return Endpoint(name.value, address, _value_of(own, environ), why)
    takes_variable = url is None or url.source == client.url_variable or client.is_own(address)
    variables = (client.key_variable, *client.other_key_variables) if takes_variable else ()
    key = _first(environ, ("", None), "PAL_API_KEY", *variables)
    if key is None and not client.needs_key:
        return Endpoint(name.value, address, "", why)
    if key is None and not is_loopback(address):
        raise ConfigError(notice("library.no_own_key", url=show_url(address), variable=client.key_variable))
    return Endpoint(name.value, address, key.value if key else LOCAL_KEY, why)


def _first(
    environ: Mapping[str, str], option: tuple[str, str | None], *variables: str
) -> SourcedValue | None:
    candidates = [option, *((name, environ.get(name)) for name in variables)]
    for rank, (source, value) in enumerate(candidates):
        if value and value.strip():
            return SourcedValue(value.strip(), source, rank)
    return None


def _value_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable, "").strip():
        raise ConfigError(notice("library.key_unset", variable=variable))
    return environ[variable].strip()


def _check_url(url: SourcedValue) -> str:
    try:
        parts = urllib.parse.urlsplit(url.value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(notice("library.not_a_url", source=url.source, url=show_url(url.value)))
    return without_endpoint(url.value)


def _key_for(url: SourcedValue, key: SourcedValue | None) -> str:
    """Return the key for a URL.

    A local server gets ``OPENAI_API_KEY`` only if the URL comes from ``OPENAI_BASE_URL``.
    """
    foreign = key is not None and key.source == "OPENAI_API_KEY" and url.source != "OPENAI_BASE_URL"
    if is_loopback(url.value):
        return LOCAL_KEY if key is None or foreign else key.value
    if key is None:
        raise ConfigError(notice("library.no_key", url=show_url(url.value)))
    return key.value


def show_url(url: str) -> str:
    """Return a URL for display, without its user name, password or query."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "(unreadable)"
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def find_local_model(model: str = "") -> Endpoint | Embedded | None:
    """Find a local model: a server running on this machine, else the embedded model.

    Args:
        model: Requested model, if any. If no server is running, the result for a requested model is None.
    """
    from pure_agent_loop.local import find_server

    refused: list[str] = []
    server = run_sync(find_server(on_refusal=refused.append))
    if server is not None:
        why = notice("library.server_found", server=server.name, owner=server.owner)
        return Endpoint(model or server.model, server.base_url, LOCAL_KEY, why)
    refusals = ""
    for reason in reversed(refused):
        refusals = notice("library.refused", reason=reason, also=refusals)
    return None if model else Embedded("local", notice("library.no_server", also=refusals), is_named=False)


def model_at(plan: Endpoint) -> str:
    """Return the default model of a server.

    Raises:
        ConfigError: The server has no default; the model must be named.
    """
    if plan.base_url == DEFAULT_URL:
        return DEFAULT_MODEL
    if is_loopback(plan.base_url):
        from pure_agent_loop.local import find_server

        port = urllib.parse.urlsplit(plan.base_url).port or 80
        server = run_sync(find_server({"": port}, ASK_SECONDS, named=True))
        if server is not None:
            return server.model
    raise ConfigError(notice("library.no_model", url=show_url(plan.base_url)))


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
    """Select a model and build its client. Blocks while it finds, downloads or starts a model.

    Args:
        model: Model name. A prefix selects a protocol (``anthropic:NAME``, ``gemini:NAME``,
            ``responses:NAME``), or Claude through a cloud (``bedrock:NAME``, ``vertex:NAME``). A name in
            `RESPONSES_ONLY` at OpenAI means ``responses:``, unless there is a profile. Without a URL,
            ``local``, ``local:NAME`` or ``PATH.gguf`` selects an embedded model. A `DefaultModel` or None
            means no preference.
        api_key: API key, if given.
        base_url: Server URL, if given.
        on_progress: Callback for slow steps.
        profile: Profile of the server; not for an embedded model, which needs none.
        prepared: True prepares the client now; see `OpenAIClient`.

    Raises:
        ConfigError: No model is requested and none is available; the message lists the options.
    """
    tell = on_progress or _ignore
    named, model = model, model and without_protocol(model)
    protocol = protocol_of(named or "")
    if named == model and profile is None and _needs_responses(named, base_url):
        protocol = "responses"
    if model is not None and protocol:
        client = client_type(protocol)
        return _by_protocol(client, model, api_key, base_url, thinking_level, profile, prepared=prepared)
    if model is not None and _is_embedded(named, base_url):
        return _embedded(model.partition(":")[2] if model.startswith("local:") else model, tell, "as asked")
    has_wish = model is not None and not isinstance(model, DefaultModel)
    if has_wish or _is_set_up(api_key, base_url):
        wish, is_bare = model or DEFAULT_MODEL, named == model  # without "openai:"
        return _asked_for(
            wish, api_key, base_url, thinking_level, profile, prepared=prepared, is_bare=is_bare
        )
    plan = find_local_model()
    if isinstance(plan, Endpoint):
        return _asked_for(
            plan.model, plan.api_key, plan.base_url, thinking_level, profile, plan.why, prepared=prepared
        )
    if importlib.util.find_spec("xllamacpp") is None:
        from pure_agent_loop.support.install import install_command

        engine = f"Install the embedded model's engine: {install_command('local')}"
        raise ConfigError(NOTHING_AT_HAND.format(embedded=engine))
    from pure_agent_loop.local import list_models

    # Do not download the model without consent.
    if not any(listed.is_default and listed.path for listed in list_models()):
        named = "Download the demo model (tiny, often wrong): pal model pull smollm2-135m, or model='local'."
        raise ConfigError(NOTHING_AT_HAND.format(embedded=named))
    return _embedded("local", tell, "nothing else is configured or running")


def _needs_responses(model: str | None, base_url: str | None) -> bool:
    """Return True for an OpenAI model at OpenAI's URL that does not support chat completions."""
    if model is None or re.sub(r"-\d{4}-\d\d-\d\d$", "", model) not in RESPONSES_ONLY:
        return False
    return client_type("responses").is_own(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL)


def _is_embedded(model: str | None, base_url: str | None) -> bool:
    """Return True if the name is that of an embedded model, without a protocol or URL."""
    if model is None or without_protocol(model) != model:
        return False
    return is_embedded_name(model) and not names_server(base_url)


def _is_set_up(api_key: str | None, base_url: str | None) -> bool:
    """Return True if a key or URL is set, so that no search is needed."""
    return bool(api_key or names_server(base_url) or os.environ.get("OPENAI_API_KEY"))


def client_for(
    model: str | None,
    api_key: str | None = None,
    base_url: str | None = None,
    thinking_level: str = "off",
    profile: Profile | None = None,
) -> tuple[BaseLLMClient, tuple[str, ...]]:
    """Return the default client of an agent, and notices that name its model; see `choose_model`.

    Raises:
        ConfigError: `model` is not a name, or the model does not exist.
    """
    name: object = DEFAULT_MODEL if model is None else model
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"model must be a model name; it is {name!r:.80}. Pass a client as llm=...")
    choose = partial(choose_model, name, api_key, base_url, thinking_level, LOG.warning, profile)
    is_unnamed = isinstance(name, DefaultModel) and not _is_set_up(api_key, base_url)
    if is_unnamed or _is_embedded(name, base_url):
        return AvailableClient(choose), ()
    choice = choose()
    return choice.client, (f"Model: {choice.reason}.",)


class AvailableClient(StreamingClient):
    """Lazy client of the local model, selected at the first request.

    Creating an agent without a model therefore never searches for, downloads or starts anything. After the
    selection, attributes come from the selected client.

    Args:
        choose: Function that selects the model; may block.
    """

    takes_meta = True
    takes_server_tools = True
    choice: Choice | None = None

    def __init__(self, choose: Callable[[], Choice]) -> None:
        self._choose = choose

    def __getattr__(self, name: str) -> Any:
        choice = None if name.startswith("_") else self.choice
        if choice is None:
            raise AttributeError(name)
        return getattr(choice.client, name)

    @property
    def base_url(self) -> str:
        """Server URL; before the selection, a local placeholder."""
        return str(getattr(self.choice.client, "base_url", "")) if self.choice else "http://127.0.0.1"

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read from another client, never set here
        """Context window in tokens; None before the selection."""
        return self.choice.client.context_window if self.choice else None

    async def become_ready(self) -> Sequence[str]:
        """Select a model, once; see `BecomesReady`.

        Raises:
            ConfigError: No model is available; the message lists the options.
        """
        choice = await self._chosen()
        return (f"Model: {choice.reason}.",)

    async def _chosen(self) -> Choice:
        return await in_thread(self._choose_once) if self.choice is None else self.choice

    def _choose_once(self) -> Choice:
        with _CHOOSING:
            choice = self.choice or self._choose()
            if self.choice is None:
                LOG.warning("Using %s.", choice.reason)
            self.choice = choice
            return choice

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Return the response. See `BaseLLMClient.chat`."""
        return await (await self._chosen()).client.chat(messages, tools, **kwargs)

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the response. See `BaseLLMClient.chat_stream`."""
        choice = await self._chosen()
        async with aclosing(stream_of(choice.client, messages, tools, kwargs)) as deltas:
            async for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        """Close the selected client."""
        if (choice := self.choice) is not None:
            await choice.client.aclose()


def names_server(base_url: str | None) -> bool:
    """Return True if a URL is set, as an argument or in the environment. A URL overrides an embedded name."""
    return bool(base_url or os.environ.get("OPENAI_BASE_URL"))


def is_embedded_name(model: str) -> bool:
    """Return True if the name is that of an embedded model."""
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
    is_bare: bool = False,
) -> Choice:
    client = OpenAIClient(model, api_key, base_url, thinking_level, profile=profile, prepared=prepared)
    if is_bare:
        _check_prefix(model, client.base_url)
    return Choice(client, client.model, f"{client.model} at {shown_url(client.base_url)}, {why}")


def _by_protocol(
    kind: type[ProtocolClient],
    model: str,
    api_key: str | None,
    base_url: str | None,
    thinking_level: str,
    profile: Profile | None,
    *,
    prepared: bool,
) -> Choice:
    if profile is not None:
        raise ConfigError(
            f"profile is for servers with chat completions. Leave it out, or pass {kind.__name__}."
        )
    client = kind(model, api_key, base_url, thinking_level, prepared=prepared)
    return Choice(client, model, f"{model} at {shown_url(client.base_url)}, as configured")


def _embedded(name: str, tell: Callable[[str], None], why: str) -> Choice:
    from pure_agent_loop.local import open_local

    client = open_local(None if name == "local" else name, tell)
    reason = f"{client.name}, embedded on this machine ({why})"
    return Choice(client, client.name, reason, is_tiny=client.is_tiny)


def _ignore(message: str) -> None:
    """Discard a progress message."""
