"""The state of one call of `examine`: the client, the request timeout, and facts shared by the probes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pure_agent_loop.cancel import CancelToken, Interrupt
from pure_agent_loop.doctor.values import Target
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import ChatModel, stream_of
from pure_agent_loop.llm.completions import first_choice
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.protocol_client import ProtocolClient
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import get
from pure_agent_loop.runs.choose import client_type
from pure_agent_loop.support.language import notice

ANSWER_TOKENS = 300  # maximum tokens, enough for a short answer and some reasoning before it
FEW_TOKENS = 16  # the smallest limit that OpenAI accepts for Responses
LONGEST_WAIT = 20.0
DoctorClient = OpenAIClient | ProtocolClient
Message = dict[str, Any]
T = TypeVar("T")
Tools = list[dict[str, Any]]


def user(text: str) -> list[Message]:
    """Return a history of one question."""
    return [{"role": "user", "content": text}]


def client_of(target: Target) -> DoctorClient:
    """Return a client for a target with a model.

    Raises:
        ConfigError: The URL or the model is invalid.
    """
    kind = client_type(target.protocol) if target.protocol else OpenAIClient
    client = kind(target.model, target.api_key, target.base_url, default_headers=dict(target.headers))
    if isinstance(client, OpenAIClient):
        # A rejected field is a finding, so the client must not remember the rejection and omit the field.
        client.keeps_choices = False
    return client


class StoppedError(Exception):
    """The check was cancelled."""


async def within(work: Awaitable[T], timeout: float, token: CancelToken | None, late: str) -> T:
    """Wait until `work` ends, `timeout` seconds have passed, or `token` is cancelled.

    Args:
        timeout: Seconds.
        late: Error message for a timeout.

    Raises:
        LLMError: The timeout has expired.
        StoppedError: The token was cancelled.
    """
    with Interrupt() as block:
        block.after(timeout)
        block.on(token)
        return await work
    if token is not None and token.is_cancelled:
        raise StoppedError
    raise LLMError(late, kind="timeout")


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """A response and its delivery.

    Args:
        raw: The JSON document; None if streamed.
    """

    response: LLMResponse
    pieces: int
    raw: Any

    @property
    def text(self) -> str:
        """The text of the response."""
        return self.response.content or ""

    @property
    def message(self) -> Any:
        """The server's raw message, if the response was not streamed."""
        return get(first_choice(self.raw), "message") if self.raw else None

    @property
    def thinking_tokens(self) -> int:
        """The number of thinking tokens; 0 if not reported."""
        return (self.response.usage.reasoning_tokens or 0) if self.response.usage else 0

    @property
    def thinks(self) -> bool:
        """True if the response contained thinking, or the server counted thinking tokens."""
        return bool(self.response.reasoning_content or self.thinking_tokens)


@dataclass
class ProbeSession:
    """State shared by all probes of one call of `examine`.

    Args:
        target: The server, with a model.
        client: The client of the target; probes adapt its profile.
    """

    target: Target
    client: DoctorClient
    timeout: float
    token: CancelToken | None = None
    listing: Any = None
    props: Any = None
    before: Profile = field(init=False)
    plain: ProbeResponse | None = None
    streamed: ProbeResponse | None = None
    native: ProbeResponse | None = None
    thought: ProbeResponse | None = None  # response to a request with tools and thinking
    acts: dict[str, bool] = field(default_factory=dict)  # tool mode -> whether the model could act with it
    is_steady: bool = False  # True if temperature 0 is accepted, which makes findings repeatable
    tools_dropped: bool = False
    limit_ignored: bool = False  # True if the server ignores the usual field for the output limit

    def __post_init__(self) -> None:
        self.before = self.client.profile

    @property
    def has_answered(self) -> bool:
        """True if a response arrived."""
        return self.plain is not None or self.streamed is not None

    async def ask(
        self,
        messages: list[Message],
        tools: Tools | None = None,
        *,
        stream: bool = False,
        client: ChatModel | None = None,
        **options: Any,
    ) -> ProbeResponse:
        """Send one request within the timeout; retry once after the server's Retry-After.

        Args:
            options: Fields of the request; the output is limited unless they set a limit.

        Raises:
            LLMError: No response arrived.
            StoppedError: The check was cancelled.
        """
        if not {"max_tokens", "max_completion_tokens"} & set(options):
            options["max_tokens"] = ANSWER_TOKENS
        if self.is_steady:
            options.setdefault("temperature", 0)
        options["stream"] = stream
        send = partial(_read, client or self.client, messages, tools, options)
        try:
            return await self.within(send())
        except LLMError as error:
            if error.kind != "rate_limit":
                raise
            await self._pause(2.0 if error.retry_after is None else error.retry_after)
        return await self.within(send())

    async def within(self, work: Awaitable[T]) -> T:
        """Wait for an answer within the timeout. Raises the same errors as `ask`."""
        late = notice("library.no_complete_response", timeout=self.timeout)
        return await within(work, self.timeout, self.token, late)

    async def _pause(self, seconds: float) -> None:
        with Interrupt() as block:
            block.on(self.token)
            await asyncio.sleep(min(LONGEST_WAIT, seconds))
            return
        raise StoppedError

    @contextmanager
    def trying(self, **changes: Any) -> Iterator[None]:
        """Change the profile during the block, and restore it afterwards."""
        kept = self.client.profile
        self.client.profile = replace(kept, **changes)
        try:
            yield
        finally:
            self.client.profile = kept

    def adopt(self, **changes: Any) -> None:
        """Keep a profile change that a probe has confirmed."""
        self.client.profile = replace(self.client.profile, **changes)


async def _read(
    client: ChatModel, messages: list[Message], tools: Tools | None, options: dict[str, Any]
) -> ProbeResponse:
    assembler, pieces, raw = Assembler(), 0, None
    async with aclosing(stream_of(client, messages, tools, options)) as deltas:
        async for delta in deltas:
            assembler.feed(delta)
            pieces += bool(delta.text or delta.reasoning or delta.tool_calls)
            raw = raw if delta.raw is None else delta.raw
    return ProbeResponse(assembler.finish(), pieces, raw)
