"""Strict servers of four protocols that also refuse something, each in the words of a real one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from llm_client_conformance import ScriptedServer, status
from llm_client_conformance.protocols import (
    DIALECTS,
    ChatServer,
    GeminiServer,
    MessagesServer,
    ResponsesServer,
)
from pure_agent_loop import AnthropicClient, GeminiClient, OpenAIClient, ResponsesClient

if TYPE_CHECKING:
    from typing_extensions import Self

MODELS: dict[str, tuple[str, ...]] = {
    "chat": ("anthropic/claude-opus-5",),
    "messages": ("claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "claude-sonnet-5-5"),
    "gemini": ("gemini-3-flash", "gemini-2.5-flash"),
    "responses": ("gpt-5",),
}
CLIENTS: dict[str, Any] = {
    "chat": OpenAIClient, "messages": AnthropicClient, "gemini": GeminiClient, "responses": ResponsesClient,
}  # fmt: skip
SERVERS: dict[str, Any] = {"messages": MessagesServer, "gemini": GeminiServer, "responses": ResponsesServer}
_ID_FIELDS = ("call_id", "tool_use_id", "tool_call_id")
_CALLS = ("tool_calls", "tool_use", "functionCall", "functionResponse")
_STAND_IN = "skip_thought_signature_validator"


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of a body with its key."""
    yield key, value
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from walk(inner, name)
    for inner in value if isinstance(value, list) else ():
        yield from walk(inner, key)


def property_names(body: Any) -> list[str]:
    """Return the names of all properties in the schemas of a request."""
    return [name for key, value in walk(body) if key == "properties" and value for name in value]


def call_ids(body: Any) -> list[str]:
    """Return the ids of the calls and of their results."""
    ids = [value for key, value in walk(body) if key in _ID_FIELDS]
    calls = [v for k, v in walk(body) if isinstance(v, dict) and (k in _CALLS or v.get("type") in _CALLS)]
    return [*ids, *(call["id"] for call in calls if call.get("id") and "call_id" not in call)]


def signatures(body: Any) -> set[str]:
    """Return the signatures, and the encrypted reasoning, of a request."""
    names = ("signature", "thoughtSignature", "encrypted_content")
    found = {value for key, value in walk(body) if key in names and isinstance(value, str)}
    return found - {_STAND_IN, ""}


def pictures(body: Any) -> list[str]:
    """Return the data of the PNG files of a request, in order."""
    texts = [value for _, value in walk(body) if isinstance(value, str)]
    return [text.rpartition(",")[2] for text in texts if "iVBORw0KGgo" in text]


def limit(body: Any) -> int | None:
    """Return the output limit of a request."""
    fields = {**body.get("generationConfig", {}), **body}
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    return next((fields[name] for name in names if name in fields), None)


class Refusing:
    """A server that refuses requests by rules, and plays a script for the others.

    Args:
        kind: The protocol.
        rules: Functions of a body that return the words of a refusal, or None.
        play: Function of the body that returns the item to play.
    """

    def __init__(
        self, kind: str, rules: list[Callable[[Any], str | None]], play: Callable[[Any], Any]
    ) -> None:
        self._kind, self._rules, self._play = kind, rules, play
        self.refusals: list[str] = []
        self.bodies: list[Any] = []
        rules_of = {"dialect": DIALECTS["openrouter"]} if kind == "chat" else {}
        self._server: ScriptedServer = SERVERS.get(kind, ChatServer)(handler=self._handle, **rules_of)

    def _handle(self, request: Any) -> Any:
        self.bodies.append(json.loads(json.dumps(request.body)))
        words = next(filter(None, (rule(request.body) for rule in self._rules)), None)
        if words is None:
            return self._play(request.body)
        self.refusals.append(words)
        return status(400, words, kind="invalid_request_error")

    def client(self, model: str = "", **settings: Any) -> Any:
        """Return a client of the server."""
        return CLIENTS[self._kind](model or MODELS[self._kind][0], "k", self._server.base_url, **settings)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)  # type: ignore[arg-type] # passed on
