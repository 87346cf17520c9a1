"""Client for servers with Anthropic's Messages protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.anthropic.families import ClaudeFamily, family_for, refined
from pure_agent_loop.llm.anthropic.request import (
    OPTIONS,
    MessagesRequest,
    RequestWriter,
    with_handles,
)
from pure_agent_loop.llm.anthropic.stream import MessagesReader, error_of
from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.bounds import MAX_PART_BYTES
from pure_agent_loop.llm.http.bodies import read_whole
from pure_agent_loop.llm.http.connections import Connections
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.llm.learning import RequestAttempt
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.llm.response import OUTPUT_LIMIT
from pure_agent_loop.llm.values import Delta, JsonObject, Message, Options, TokenUsage, Tools, count_of
from pure_agent_loop.llm.wire import parse_json

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import Transport

MAX_CONTINUATIONS = 10  # a response that the server pauses this many times fails
# `control_tokens` is empty: servers of closed models do not parse control tokens in a request's text.
_PROFILE = Profile("Anthropic Messages", thinking={}, control_tokens=())
_COUNTED = frozenset({
    "cache_control", "context_management", "mcp_servers", "messages", "model", "output_config", "system",
    "thinking", "tool_choice", "tools",
})  # fmt: skip


class AnthropicClient(ProtocolClient):
    """A Claude model, or another model that uses the Messages protocol.

    Thinking, citations and results from server tools stay in the history, and go back to the same model only.
    The parts that are the same in each request are marked for the prompt cache.

    Args:
        model: The model's name on the server.
        api_key: The API key; default ``ANTHROPIC_API_KEY``, which is sent only to Anthropic or to
            ``ANTHROPIC_BASE_URL``. Not needed for servers on this machine.
        base_url: The server's URL; default ``ANTHROPIC_BASE_URL``, else Anthropic. ``/v1/messages`` is added.
        thinking_level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.
        family: Rules for what the model accepts; if None, chosen by the model's name.
        caches: Whether to place cache marks.
        settings: ``prepared``, ``timeout`` and ``default_headers`` of `ProtocolClient`.

    Raises:
        ConfigError: An argument is invalid, or the model does not have the thinking level. A missing key is
            reported by the first request.
    """

    default_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    key_variable = "ANTHROPIC_API_KEY"
    own_host = "anthropic.com"
    _option_names = OPTIONS
    path = "/messages"
    _window_field = "max_input_tokens"
    reader: ClassVar[type[MessagesReader]] = MessagesReader

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        family: ClaudeFamily | None = None,
        caches: bool = True,
        **settings: Any,
    ) -> None:
        self.family = family or family_for(str(model))
        super().__init__(model, api_key, base_url, thinking_level, **settings)
        self.family.thinking_fields(thinking_level)
        self.profile = _with_mode(_PROFILE, self.family)
        self._marks = ("cache_control",) if caches else ()
        self._has_asked = family is not None
        self._left_out: set[str] = set()  # digests of responses whose omitted thinking has been reported

    def _body(self, attempt: RequestAttempt) -> JsonObject:
        return self._request(attempt).body

    def _default_limit(self) -> int:
        return min(self.profile.max_output or self.family.max_output, self.family.max_output)

    def _model_address(self) -> str:
        return f"{self._settings['endpoint'].removesuffix(self.path)}/models/{self.model}"

    def _read_model(self, info: object) -> None:
        super()._read_model(info)
        if isinstance(info, Mapping):
            self.family = refined(self.family, info)
            self.profile = _with_mode(self.profile, self.family)

    async def count_tokens(self, messages: list[Message], tools: Tools | None = None, **kwargs: Any) -> int:
        """Return the number of input tokens in a request, counted by the server.

        Raises:
            LLMError: The server has no endpoint for counting tokens, or the request failed.
        """
        request = self._request(self._adapt(messages, tools, kwargs, stream=False))
        body = {name: value for name, value in request.body.items() if name in _COUNTED}
        counter = Connections(self._counting_transport, self._current_key)
        try:
            sent = _with_betas(kwargs, request.betas)
            response = await (await counter.transport()).post(encode_body(body), sent)
            try:
                answer = parse_json(await read_whole(response.read, "response", MAX_PART_BYTES))
            finally:
                await response.aclose()
        except Exception as error:  # noqa: BLE001 - raised below
            raise self._as_llm_error(error)  # noqa: B904 - its cause is set
        finally:
            await counter.aclose()
        count = count_of(answer, "input_tokens")
        if count is None:
            raise error_of(answer)
        return count

    def _counting_transport(self) -> Transport:
        return self._transport_to("/count_tokens")

    def _auth_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": self.family.version}

    def _request(self, attempt: RequestAttempt) -> MessagesRequest:
        request = self._write(attempt.messages, attempt.tools, attempt.options, stream=attempt.stream)
        return replace(request, body=self._accepted_fields(attempt, request.body))

    def _write(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        *,
        stream: bool,
    ) -> MessagesRequest:
        caches = not {*self._marks} <= {*self.profile.refuses}
        writer = RequestWriter(
            self.model, self.family, self.thinking_level, self.origin, caches, self._histories
        )
        return writer.write(messages, with_server_tools(tools, options), options, stream)

    async def _send(self, attempt: RequestAttempt) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response; whenever the server pauses, ask it to continue."""
        request = self._request(attempt)
        if notice := self._notice(request):
            yield Delta(notice=notice)
        options = _with_betas(attempt.options, request.betas)
        limit_is_ours = request.body["max_tokens"] in (self.family.max_output, attempt.limit)
        blocks: list[JsonObject] = []
        handles: JsonObject = {}
        spent: TokenUsage | None = None
        calls = 0
        # Each time the server pauses, another request is sent.
        for _ in range(MAX_CONTINUATIONS):
            reader = self.reader(request.kept, calls)
            async with aclosing(self._exchange(request.body, reader, options)) as deltas:
                async for delta in deltas:
                    yield delta
            blocks += reader.blocks
            handles |= reader.handles
            calls = reader.calls
            if reader.stop_reason != "pause_turn":
                break
            # Send the paused response back, so that the server continues it.
            spent = _sum(spent, reader.usage)
            content = [block for block in reader.blocks if block["type"] != "text" or block["text"].strip()]
            if not content:
                break
            paused = {"role": "assistant", "content": content}
            messages_so_far = [*request.body["messages"], paused]
            body = {**with_handles(request.body, handles), "messages": messages_so_far}
            request = replace(request, body=body)
        else:
            raise LLMError(
                f"The server paused its response {MAX_CONTINUATIONS} times without an end.", kind="incomplete"
            )
        # The last delta holds the blocks and the token counts of all these responses.
        last = reader.last(blocks, handles)
        if limit_is_ours and last.finish_reason == "length":
            last = last._replace(finish_reason=OUTPUT_LIMIT)
        yield last._replace(usage=_sum(spent, last.usage))

    def _notice(self, request: MessagesRequest) -> str:
        """Return a notice about omitted thinking that has not been reported yet; empty if there is none."""
        new = set(request.left_out) - self._left_out
        self._left_out |= new
        if not new:
            return ""
        return (
            f"The thinking of {len(new)} earlier responses is left out: this model accepts it only after the "
            "same system prompt, tools and messages, and these have changed."
        )


def _with_mode(profile: Profile, family: ClaudeFamily) -> Profile:
    """Return the profile with the output mode for typed answers: ``native`` if supported, else ``tool``."""
    return replace(profile, output_mode="native" if family.takes_format else "tool")


def _sum(first: TokenUsage | None, second: TokenUsage | None) -> TokenUsage | None:
    if first is None or second is None:
        return first or second
    return first + second


def _with_betas(options: JsonObject, betas: tuple[str, ...]) -> JsonObject:
    """Return the transport options, with the header ``anthropic-beta`` if there are betas."""
    if not betas:
        return options
    headers = dict(options.get("extra_headers") or {})
    name = next((known for known in headers if known.lower() == "anthropic-beta"), "anthropic-beta")
    own = [value.strip() for value in headers.get(name, "").split(",") if value.strip()]
    return {**options, "extra_headers": {**headers, name: ",".join(dict.fromkeys([*own, *betas]))}}
