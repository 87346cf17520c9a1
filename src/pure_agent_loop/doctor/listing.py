"""A server's metadata: its model list, and llama.cpp's ``/props``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pure_agent_loop.doctor.session import client_of
from pure_agent_loop.doctor.values import Target
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.addresses import is_private
from pure_agent_loop.llm.failures import translate_error
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.support.language import notice

# Keys for the context window: vLLM, OpenRouter, LM Studio, Groq, Mistral, llama.cpp, Anthropic, Gemini.
_SIZES = (
    "max_model_len",
    "context_length",
    "loaded_context_length",
    "context_window",
    "max_context_length",
    "max_context_window_tokens",
    "n_ctx",
    "max_input_tokens",
    "inputTokenLimit",
)
_MAX_SHOWN = 10  # maximum model names in an error message


class NotJSONError(LLMError):
    """The server answered with a web page or plain text instead of JSON."""


async def get_json(target: Target, url: str, timeout: float) -> Any:
    """Send a GET request with the key.

    Args:
        url: A path under the base URL, or a full URL on the server.
        timeout: Timeout in seconds.

    Raises:
        LLMError: The request failed.
        NotJSONError: The response is not JSON.
    """
    from openai import AsyncOpenAI

    try:
        async with AsyncOpenAI(
            api_key=target.api_key,
            base_url=target.base_url,
            max_retries=0,
            timeout=timeout,
            default_headers=dict(target.headers),
        ) as sdk:
            sdk._platform = "Unknown"  # otherwise the SDK would run whatever `uname` is in the PATH
            document: Any = await sdk.get(url, cast_to=object)
    except Exception as error:
        translated = translate_error(error, target.base_url, target.model)
        if translated is error:
            raise
        raise translated from error
    if isinstance(document, str):
        raise NotJSONError(notice("library.web_page"), kind="bad_request")
    return document


async def get_listing(target: Target, timeout: float) -> Any:
    """Return a server's list of models, exactly as the server sends it.

    Raises:
        LLMError: The server has no list, or the request failed.
    """
    if not target.protocol:
        return await get_json(target, "/models", timeout)
    client = client_of(target)
    assert isinstance(client, ProtocolClient)
    try:
        return await client.models()
    finally:
        await client.aclose()


class ServerModels(NamedTuple):
    """Models that a server lists.

    Args:
        names: Names of the models.
        window: Tokens of the context window of the target's model; None if the server does not report it.
    """

    names: list[str]
    window: int | None


async def server_models(target: Target, timeout: float) -> ServerModels:
    """Ask a server for its models.

    Args:
        timeout: Timeout in seconds.

    Raises:
        LLMError: The server has no list, or the request failed.
    """
    listing = await get_listing(target, timeout)
    size = context_size(listing, None, target.model)
    return ServerModels(models_in(listing), size[0] if size else None)


async def get_props(target: Target, timeout: float) -> Any:
    """Return the properties of a llama.cpp server, or None; public servers are not queried."""
    if not is_private(target.base_url):
        return None
    root = target.base_url.rstrip("/").removesuffix("/v1")
    try:
        return await get_json(target, f"{root}/props", timeout)
    except Exception:  # noqa: BLE001 - the endpoint is optional
        return None


def models_in(listing: Any) -> list[str]:
    """Return the model names in a list of any known form."""
    names = (_name_of(entry) for entry in _entries(listing))
    return [str(name) for name in names if name]


def _name_of(entry: Mapping[str, Any]) -> Any:
    """Return the name in an entry; Gemini's names begin with ``models/``."""
    return entry.get("id") or str(entry.get("name") or "").removeprefix("models/")


def only_model(target: Target, listing: Any) -> str:
    """Return the only model of a server.

    Raises:
        ConfigError: The server has no model, or several.
    """
    names = models_in(listing)
    if len(names) == 1:
        return names[0]
    rest = f", ... ({len(names)} in all)" if len(names) > _MAX_SHOWN else ""
    known = f" It lists: {', '.join(names[:_MAX_SHOWN])}{rest}." if names else ""
    raise ConfigError(notice("library.model_missing", address=target.address, known=known))


def is_listed(listing: Any, model: str) -> bool:
    """True if the list has the model, by name or alias."""
    return any(is_named(entry, model) for entry in _entries(listing))


def is_named(entry: Mapping[str, Any], model: str) -> bool:
    """True if the entry is for this model."""
    aliases = entry.get("aliases")
    return _name_of(entry) == model or (isinstance(aliases, list) and model in aliases)


def _entries(listing: Any) -> list[Mapping[str, Any]]:
    data = listing.get("data", listing.get("models")) if isinstance(listing, Mapping) else listing
    return [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []


def context_size(listing: Any, props: Any, model: str) -> tuple[int, str] | None:
    """Return the context window and its source; None if not reported."""
    running = _number(_get(props, "default_generation_settings"), "n_ctx")
    if running is not None:
        return running, "/props: n_ctx"
    entries = _entries(listing)
    entry = next(
        (candidate for candidate in entries if is_named(candidate, model)),
        entries[0] if len(entries) == 1 else None,
    )
    if entry is None:
        return None
    for name in _SIZES:
        size = _number(entry, name)
        if size is not None:
            return size, f"/models: {name}"
    running = _number(entry.get("meta"), "n_ctx")
    if running is not None:
        return running, "/models: meta.n_ctx"
    trained = _number(entry.get("meta"), "n_ctx_train")
    return None if trained is None else (trained, "/models: meta.n_ctx_train; the server may allow less")


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _number(value: Any, name: str) -> int | None:
    number = _get(value, name)
    is_size = isinstance(number, (int, float)) and not isinstance(number, bool) and number > 0
    return int(number) if is_size else None


def template_caps(props: Any) -> dict[str, bool]:
    """Return the reported capabilities of a llama.cpp server's chat template."""
    caps = _get(props, "chat_template_caps")
    if not isinstance(caps, Mapping):
        return {}
    return {str(name): value for name, value in caps.items() if isinstance(value, bool)}
