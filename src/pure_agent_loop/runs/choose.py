"""Which model to use: what was asked for, else what is at hand. It is always said which, and why.

Order: an endpoint or key that was given; a server running on this machine; the embedded model.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.redaction import shown_url

LOCAL_KEY = "not-needed"  # never a real key: what answers on a local port is not known
NOTHING_AT_HAND = """No model is configured and none is at hand. Do one of these:
  1. Set OPENAI_API_KEY, or pass api_key=... (and base_url=... for a provider other than OpenAI).
  2. Start a local server: Ollama, LM Studio, llama.cpp or vLLM is found on its usual port.
  3. Install the embedded model's engine, from the project folder: pip install '.[local]'"""


@dataclass(frozen=True, slots=True)
class Choice:
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


class DefaultModel(str):
    """The name of the model used when the caller chose none: equal to it, but recognisable."""

    __slots__ = ()


def choose_model(
    model: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    thinking_level: str = "off",
    on_progress: Callable[[str], None] | None = None,
    profile: Profile | None = None,
) -> Choice:
    """Pick a model and build its client. Blocks: it may look for servers, download and start one.

    Args:
        model: A name; ``local``, ``local:NAME`` or ``PATH.gguf`` for an embedded one; a `DefaultModel`
            or None if the caller has no wish.
        api_key: The key, if given.
        base_url: The address, if given.
        thinking_level: For servers that know it.
        on_progress: Told about slow steps.
        profile: What the server needs; not for an embedded model, which needs nothing.

    Raises:
        ConfigError: Nothing was asked for and nothing is at hand; the message lists what to do.
    """
    tell = on_progress or _ignore
    if model is not None and is_embedded_name(model):
        return _embedded(model.partition(":")[2] if model.startswith("local:") else model, tell, "as asked")
    has_wish = model is not None and not isinstance(model, DefaultModel)
    if has_wish or api_key or base_url or _environment_names_one():
        return _asked_for(model or DEFAULT_MODEL, api_key, base_url, thinking_level, profile)
    from pure_agent_loop.local import find_server

    found = run_sync(find_server(on_refusal=tell))
    if found is not None:
        client = OpenAIClient(found.model, LOCAL_KEY, found.base_url, thinking_level, profile=profile)
        reason = f"{found.model} on the {found.name} server at {found.base_url}, running here ({found.owner})"
        return Choice(client, found.model, reason)
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(NOTHING_AT_HAND)
    return _embedded("local", tell, "nothing else is configured or running")


DEFAULT_MODEL = DefaultModel("gpt-4o-mini")


def is_embedded_name(model: str) -> bool:
    """True for a name that means a model run by this package itself."""
    return model == "local" or model.startswith("local:") or model.lower().endswith(".gguf")


def _asked_for(
    model: str, api_key: str | None, base_url: str | None, thinking_level: str, profile: Profile | None
) -> Choice:
    client = OpenAIClient(str(model), api_key, base_url, thinking_level, profile=profile)
    return Choice(client, client.model, f"{client.model} at {shown_url(client.base_url)}, as configured")


def _embedded(name: str, tell: Callable[[str], None], why: str) -> Choice:
    from pure_agent_loop.local import open_local

    client = open_local(None if name == "local" else name, tell)
    reason = f"{client.name}, embedded on this machine ({why})"
    return Choice(client, client.name, reason, is_tiny=client.is_tiny)


def _environment_names_one() -> bool:
    return bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))


def _ignore(message: str) -> None:
    """Progress that nobody wants to see."""
