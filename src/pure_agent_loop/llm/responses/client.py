"""Client for servers with OpenAI's Responses protocol."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from pure_agent_loop.cancel import Interrupt
from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.learning import RequestAttempt
from pure_agent_loop.llm.messages import META, SYSTEM_ROLES
from pure_agent_loop.llm.profiles import Profile, profile_for, takes_cache_key
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.llm.responses.request import (
    ENCRYPTED,
    ITEMS,
    OPTIONS,
    OWN,
    RESPONSE_ID,
    ResponsesWriter,
    held_by_server,
)
from pure_agent_loop.llm.responses.stream import ResponsesReader
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, Options, get
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.text import shorten

MAX_FAILED_POLLS = 10  # maximum consecutive failed polls of a background response
POLL_SECONDS, CANCEL_SECONDS = 30.0, 5.0  # timeouts in seconds of a poll and of a cancellation
_PROFILE = Profile("OpenAI Responses", thinking={}, control_tokens=(), output_mode="native")


class ResponsesClient(ProtocolClient):
    """A model that uses OpenAI's Responses protocol.

    The server stores nothing (``store=False``) unless `continues`, ``background`` or ``store`` is set.
    Reasoning comes back encrypted, stays in the history, and is sent with each step to the same model only.

    With the option ``background=True``, the server is polled until the response has ended. If the run is
    cancelled, the response is cancelled on the server.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``OPENAI_API_KEY``, which is sent only to OpenAI or to
            ``OPENAI_BASE_URL``. Not needed for servers on this machine.
        base_url: The server's URL; default ``OPENAI_BASE_URL``, else OpenAI.
        thinking_level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.
        continues: Whether the server stores responses, so that a request holds only the messages after the
            newest response (``previous_response_id``). A history that has changed is sent in full.
        custom_tools: Tools that the model calls with free text: the ``format`` of the text, by tool name. The
            format is None for unconstrained text, or ``{"type": "grammar", "syntax": "lark" or "regex",
            "definition": ...}`` for a grammar. Each of these tools must have one parameter, a string.
        appends_tools: Whether to keep the field ``tools`` as it was in the first request, so that the prompt
            cache stays valid. Tools added later are then items of the history (``additional_tools``), and
            removed tools are excluded by ``tool_choice`` (``allowed_tools``). Use it only for models that
            support both.
        poll_seconds: Seconds between two polls of a background response.
        settings: ``prepared``, ``timeout`` and ``default_headers`` of `ProtocolClient`.

    Raises:
        ConfigError: An argument is invalid. A missing key is reported by the first request.
    """

    profile = _PROFILE
    default_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    key_variable = "OPENAI_API_KEY"
    own_host = "openai.com"
    _option_names = OPTIONS
    path = "/responses"

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        continues: bool = False,
        custom_tools: Mapping[str, JsonFields | None] | None = None,
        appends_tools: bool = False,
        poll_seconds: float = 2.0,
        **settings: Any,
    ) -> None:
        seconds: Any = poll_seconds
        require_value(
            isinstance(seconds, (int, float)) and seconds > 0, "poll_seconds", seconds, "a number above 0"
        )
        named: object = custom_tools
        if named is not None and not isinstance(named, Mapping):
            raise ConfigError(f"custom_tools={named!r:.80} must be a dict: a format, or None, by tool name.")
        self._custom = dict(custom_tools or {})
        for name, form in self._custom.items():
            _check_format(name, form)
        super().__init__(model, api_key, base_url, thinking_level, **settings)
        self.origin += OWN
        self.continues, self.appends_tools, self.poll_seconds = continues, appends_tools, poll_seconds
        self._encrypts = True
        self._gone: set[str] = set()  # stored responses that the server has deleted
        # Names of custom tools that no request has included so far.
        self._unknown_custom = dict.fromkeys(self._custom)
        self.context_window = profile_for(self.default_url, self.model).window

    def _endpoint(self) -> str:
        return f"{self.base_url.rstrip('/')}{self.path}"

    def _body(self, attempt: RequestAttempt) -> JsonObject:
        return self._write(attempt, self._writer(attempt.messages))

    def _write(self, attempt: RequestAttempt, writer: ResponsesWriter) -> JsonObject:
        tools = with_server_tools(attempt.tools, attempt.options)
        body = writer.write(attempt.messages, tools, attempt.options, attempt.stream)
        return self._accepted_fields(attempt, body)

    def _writer(self, messages: Sequence[JsonObject]) -> ResponsesWriter:
        return ResponsesWriter(
            self.model,
            self.thinking_level,
            self.origin,
            self._encrypts,
            self._histories,
            self._custom,
            held_by_server(messages, self.origin) if self.continues else None,
            bool(self._gone) and self._are_gone(messages),
            self.appends_tools,
            takes_cache_key(self.base_url),
        )

    def _are_gone(self, messages: Sequence[JsonObject]) -> bool:
        """Return True if the server has deleted stored responses that a history needs."""
        own = [digest for message in messages if (digest := self._own_digest(message))]
        return not self._gone.isdisjoint(own[-1:] if self.continues else own)

    def _own_digest(self, message: JsonFields) -> str:
        """Return a string that identifies a response from this server; empty for other messages."""
        is_own = message.get(META, {}).get("origin") == self.origin
        return repr((message.get(RESPONSE_ID), message.get(ITEMS))) if is_own else ""

    async def _send(self, attempt: RequestAttempt) -> AsyncGenerator[Delta, None]:
        messages, options = attempt.messages, attempt.options
        tools = with_server_tools(attempt.tools, options)
        if missing := self._missing_tools(tools):
            yield Delta(notice=missing)
        writer = self._writer(messages)
        body = self._write(attempt, writer)
        history = [message for message in messages if message["role"] not in SYSTEM_ROLES]
        offer = writer.offer(history, tools, options.get("tool_choice"))
        reader = ResponsesReader(writer.held, tools, offer.record)
        async with aclosing(self._respond(body, reader, options)) as deltas:
            async for delta in deltas:
                yield delta

    def _learn_own(self, attempt: RequestAttempt, error: LLMError) -> Delta | None:
        """Adapt if the server has deleted responses or cannot encrypt reasoning; return a notice, or None."""
        details = shorten(error.said, 200)
        own = set(filter(None, map(self._own_digest, attempt.messages))) - self._gone
        if own and attempt.body.get("store") is not False and _is_gone(error, attempt.body):
            self._gone |= own
            return Delta(notice=f"The whole history is sent: the server has deleted responses ({details}).")
        if self._cannot_encrypt(attempt.body, error):
            self._encrypts = False
            notice = f"From now on no reasoning is kept: the server cannot encrypt it ({details})."
            return Delta(notice=notice)
        return None

    async def _respond(
        self, body: JsonObject, reader: ResponsesReader, options: JsonObject
    ) -> AsyncGenerator[Delta, None]:
        """Send one request and stream its response; poll a background response until it has ended."""
        is_background = body.get("background") is True
        if is_background and (options.get("extra_headers") or options.get("extra_query")):
            raise ConfigError(
                "extra_headers and extra_query are not sent when a background response is polled. Pass "
                "default_headers=... to the client instead."
            )
        try:
            try:
                async with aclosing(self._exchange(body, reader, options)) as deltas:
                    async for delta in deltas:
                        yield delta
            except LLMError as error:
                if not (is_background and reader.is_running and error.is_transient):
                    raise
            while not reader.is_done:
                for delta in reader.read_whole(await self._poll(reader.response_id, body)):
                    yield delta
        except BaseException:
            if reader.is_running and (is_background or reader.is_document):
                await self._cancel(reader.response_id, options)
            raise

    async def _poll(self, response_id: str, body: JsonFields) -> Any:
        """Wait, then return the state of a background response.

        Raises:
            LLMError: The server rejects the query, or too many queries in a row fail.
        """
        transport = await self._connections.transport()
        query = urllib.parse.urlencode([("include[]", name) for name in body.get("include") or ()])
        url = f"{self._settings['endpoint']}{_path_of(response_id)}{f'?{query}' if query else ''}"
        failures = 0
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                return await transport.get(url, POLL_SECONDS)
            except Exception as error:
                failure, failures = self._as_llm_error(error), failures + 1
                is_final = isinstance(failure, LLMError) and not failure.is_transient
                if is_final or failures >= MAX_FAILED_POLLS:
                    raise failure from error

    async def _cancel(self, response_id: str, options: Options) -> None:
        """Cancel a background response; ignore any failure."""
        with Interrupt() as block, suppress(Exception):
            block.after(CANCEL_SECONDS)
            transport = self._transport_to(f"{_path_of(response_id)}/cancel")
            try:
                await (await transport.post(b"{}", options)).aclose()
            finally:
                await transport.close()

    def _missing_tools(self, tools: Sequence[JsonFields] | None) -> str:
        """Return a notice, once, about custom tools that no request has included; empty if there are none."""
        for tool in tools or ():
            self._unknown_custom.pop(get(tool.get("function"), "name"), None)
        if not tools or not self._unknown_custom:
            return ""
        names, self._unknown_custom = ", ".join(self._unknown_custom), {}
        return f"custom_tools names tools that this request does not have: {names}."

    def _cannot_encrypt(self, body: JsonFields, error: LLMError) -> bool:
        """Return True if an error is a refusal of encrypted reasoning."""
        said = error.said.lower()
        is_refusal = error.kind == "bad_request" and "encrypted" in said and "not supported" in said
        return is_refusal and self._encrypts and ENCRYPTED in body.get("include", ())


def _check_format(name: str, form: object) -> None:
    """Reject a custom tool's format if the protocol has no such format."""
    if form is None or form == {"type": "text"}:
        return
    fields = form if isinstance(form, Mapping) else {}
    is_grammar = fields.get("type") == "grammar" and fields.get("syntax") in ("lark", "regex")
    if not is_grammar or not isinstance(fields.get("definition"), str):
        raise ConfigError(
            f"custom_tools[{name!r}]={form!r:.120} is not a format. Use None, or "
            "{'type': 'grammar', 'syntax': 'lark' or 'regex', 'definition': ...}."
        )


def _path_of(response_id: str) -> str:
    return f"/{urllib.parse.quote(response_id, safe='')}"


def _is_gone(error: LLMError, body: JsonFields) -> bool:
    """Return True if the server refused a request because it no longer holds a response or an item."""
    if error.kind not in ("bad_request", "not_found"):
        return False
    if "previous_response_id" in body and re.search("previous[ _]response", error.said, re.I):
        return True
    ids = [str(item.get("id") or "") for item in body["input"]]
    return "not found" in error.said and any(name and name in error.said for name in ids)
