"""Scenes: a server's behaviour on loopback, and the expected result of a client program.

A ``reply`` scene has one answer, a ``fault`` scene one failure, for each request; in a ``conversation`` a
strict server plays a script, and the program returns the results of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from llm_client_conformance.faults import Drip, HangUp, html_page, rate_limited, unavailable
from llm_client_conformance.protocols import (
    DIALECTS,
    BedrockServer,
    ChatServer,
    GeminiServer,
    MessagesServer,
    ResponsesServer,
    VertexServer,
)
from llm_client_conformance.quirks import PROTOCOL_QUIRKS, QUIRKS, Expected, Quirk, serve
from llm_client_conformance.scripted.faults import Reset, Silence, status, unauthorized
from llm_client_conformance.scripted.script import answer, call, deltas, raw_call
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import ErrorKind

KEY = "conformance-key"
TASK = "What is 2 + 3?"
RESULTS = {"add": "5", "now": "12:00", "say": "said"}
MakeServer = Callable[[int | None], ScriptedServer]  # called with the size of the body's pieces


@dataclass(frozen=True)
class Protocol:
    """Protocol of a model server.

    Args:
        server: Strict server of the protocol.
        model: Name of a model that the server recognises.
        base_path: Path of the base URL, as in the vendor's own client.
        title: Name to show to people.
    """

    server: Callable[..., ScriptedServer]
    model: str
    base_path: str
    title: str

    def base_url(self, server: ScriptedServer) -> str:
        """Return the base URL of a running server."""
        return server.base_url.removesuffix("/v1") + self.base_path


def _bedrock(script: Any = None, **options: Any) -> ScriptedServer:
    options.pop("api_key", None)
    return BedrockServer(script, keys={"": KEY}, **options)


PROTOCOLS = {
    "chat": Protocol(ScriptedServer, "gpt-4o-mini", "/v1", "chat completions"),
    "messages": Protocol(MessagesServer, "claude-opus-4-6", "", "Anthropic's Messages"),
    "responses": Protocol(ResponsesServer, "gpt-5", "/v1", "OpenAI's Responses"),
    "gemini": Protocol(GeminiServer, "gemini-3-flash", "", "Google's Gemini API"),
    "bedrock": Protocol(_bedrock, "us.anthropic.claude-opus-4-6-v1", "", "Claude through Amazon Bedrock"),
    "vertex": Protocol(VertexServer, "claude-opus-4-6", "/v1", "Claude through Vertex AI"),
}
_VENDOR_MODELS = {
    "deepseek": "deepseek-v4",
    "kimi": "kimi-k2.6",
    "qwen": "qwen3-max",
    "glm": "glm-4.7",
    "mistral": "mistral-large-latest",
    "openrouter": "anthropic/claude-opus-4.6",
    "gemini": "gemini-3-flash",
}


@dataclass(frozen=True)
class Scene:
    """Behaviour of a server, and the expected result of a client program.

    Args:
        name: Unique.
        protocol: Key of `PROTOCOLS`.
        kind: Kind of the scene: ``reply``, ``fault`` or ``conversation``.
        why: Servers that behave in this way, or the failure of clients.
        make: Function that creates the server, for one program.
        expected: The result of a correct program.
        accepts: Kinds of error that a correct program may report; empty if it must answer.
        model: Name of the model.
    """

    name: str
    protocol: str
    kind: Literal["reply", "fault", "conversation"]
    why: str
    make: MakeServer = field(repr=False)
    expected: Expected
    accepts: tuple[ErrorKind, ...] = ()
    model: str = ""

    @property
    def results(self) -> Mapping[str, str]:
        """Results of the tools, by name; empty except in conversations."""
        return RESULTS if self.kind == "conversation" else {}


def _playing(server: Callable[..., ScriptedServer], item: Callable[[], Any]) -> MakeServer:
    """Return a function that creates a server which plays an item for each request."""
    return lambda rechunk: server(handler=lambda _: item(), rechunk=rechunk)


def _scripted(server: Callable[..., ScriptedServer], script: Callable[[], Sequence[Any]]) -> MakeServer:
    """Return a function that creates a server which plays a script."""
    return lambda rechunk: server(script(), rechunk=rechunk)


def _reply(quirk: Quirk) -> Scene:
    error = quirk.expected.error
    return Scene(
        quirk.name,
        quirk.protocol,
        "reply",
        quirk.why,
        lambda rechunk: serve(quirk, rechunk=rechunk),
        quirk.expected,
        () if error is None else (error,),
        PROTOCOLS[quirk.protocol].model,
    )


# -- faults: what happens to each request, and the kinds of error that name it ---------------------------

_LOST: tuple[ErrorKind, ...] = ("connection", "incomplete")
_FAULTS: dict[str, tuple[str, Callable[[], Any], tuple[ErrorKind, ...]]] = {
    "status-401": ("The key is wrong.", unauthorized, ("auth",)),
    "status-404": (
        "There is no such model.",
        lambda: status(404, "The model does not exist.", kind="not_found_error"),
        ("not_found",),
    ),
    "status-429": (
        "Too many requests, with `Retry-After: 0`.",
        lambda: rate_limited(retry_after=0),
        ("rate_limit",),
    ),
    "status-500": ("The server failed.", lambda: status(500, "Internal error."), ("overloaded",)),
    "status-503-text": ("A proxy answers in plain text.", unavailable, ("overloaded",)),
    "status-502-page": ("A proxy answers with a web page.", lambda: html_page(502), ("overloaded",)),
    "reset-at-once": ("TCP reset before any byte.", Reset, ("connection",)),
    "closed-at-once": ("The connection is closed before any byte.", HangUp, ("connection", "incomplete")),
    "reset-in-text": ("TCP reset in the middle of the text.", lambda: deltas("It is ", Reset()), _LOST),
    "closed-in-text": (
        "The connection is closed in the middle of the text.",
        lambda: deltas("It is ", HangUp()),
        _LOST,
    ),
    "closed-after-call": (
        "The connection is closed after a call, before the end: more calls may be missing.",
        lambda: deltas(call("add", a=2, b=3), HangUp()),
        _LOST,
    ),
    "silence-at-once": ("No byte comes, and the connection stays open.", Silence, ("timeout",)),
    "silence-in-text": (
        "Nothing comes after the first piece of the text, and the connection stays open.",
        lambda: deltas("It is ", Silence()),
        ("timeout",),
    ),
}


def _faults(name: str, protocol: Protocol) -> Iterator[Scene]:
    for fault, (why, item, accepts) in _FAULTS.items():
        yield Scene(
            f"{name}-{fault}",
            name,
            "fault",
            why,
            _playing(protocol.server, item),
            Expected(error=accepts[0]),
            accepts,
            protocol.model,
        )
    yield Scene(
        f"{name}-keep-alives",
        name,
        "fault",
        "Comments keep the stream alive before and inside the text.",
        _playing(protocol.server, lambda: deltas(Drip(5), "It is ", Drip(5), "5.")),
        Expected("It is 5."),
        (),
        protocol.model,
    )


# -- conversations: a strict server refuses a request that it could not have made itself ------------------

_ID = "a1b2c3d4e"  # valid everywhere: Mistral requires nine letters and digits
_TALKS: dict[str, tuple[str, Callable[[], Sequence[Any]], str]] = {
    "call": ("A call, its result, and the answer.", lambda: [call("add", a=2, b=3), "It is 5."], "It is 5."),
    "two-calls": (
        "Two calls in one answer: both results come back, in the order of the calls.",
        lambda: [[call("add", a=2, b=3), call("now")], "It is 5, at noon."],
        "It is 5, at noon.",
    ),
    "text-and-calls": (
        "Text before a call, and a call in the answer after it.",
        lambda: [["I add.", call("add", a=2, b=3)], raw_call("now", "{}", _ID), "It is 5, at noon."],
        "It is 5, at noon.",
    ),
    "reasoning": (
        "Reasoning before a call, which comes back as it was sent where the server wants it.",
        lambda: [answer(raw_call("now", "{}", _ID), reasoning="I need a clock."), "It is noon."],
        "It is noon.",
    ),
}


def _talks(name: str, protocol: Protocol) -> Iterator[Scene]:
    for talk, (why, script, text) in _TALKS.items():
        yield Scene(
            f"{name}-{talk}",
            name,
            "conversation",
            why,
            _scripted(protocol.server, script),
            Expected(text),
            (),
            protocol.model,
        )


def _vendors() -> Iterator[Scene]:
    for vendor, dialect in DIALECTS.items():
        _, script, text = _TALKS["reasoning"]
        yield Scene(
            f"chat-of-{vendor}",
            "chat",
            "conversation",
            f"The rules of {dialect.name}: its reasoning, its ids, its fields.",
            _scripted(partial(ChatServer, dialect=vendor), script),
            Expected(text),
            (),
            _VENDOR_MODELS[vendor],
        )


def all_scenes() -> list[Scene]:
    """Return every scene, by protocol."""
    scenes = [_reply(quirk) for quirk in QUIRKS]
    scenes += _vendors()
    for name, protocol in PROTOCOLS.items():
        scenes += [_reply(quirk) for quirk in PROTOCOL_QUIRKS.get(name, ())]
        scenes += _talks(name, protocol)
        scenes += _faults(name, protocol)
    order = list(PROTOCOLS)
    return sorted(scenes, key=lambda scene: order.index(scene.protocol))
