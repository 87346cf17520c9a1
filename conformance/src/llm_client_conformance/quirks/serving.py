"""Serve a quirk from loopback, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from llm_client_conformance.protocols.gemini import GeminiServer
from llm_client_conformance.protocols.messages import MessagesServer
from llm_client_conformance.protocols.responses import ResponsesServer
from llm_client_conformance.quirks.quirk import EVENT_STREAM, JSON, Quirk
from llm_client_conformance.scripted.completions import Writing
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import ServerFault
from llm_client_conformance.scripted.server import ScriptedServer

_SERVERS: dict[str, type[ScriptedServer]] = {
    "chat": ScriptedServer,
    "messages": MessagesServer,
    "responses": ResponsesServer,
    "gemini": GeminiServer,
}


@dataclass(frozen=True, slots=True)
class RawBody(ServerFault):
    """Script item for a `ScriptedServer`: the body of a quirk, byte for byte.

    The body is sent in chunks of the server's ``rechunk``; a content type other than an event stream or JSON
    is sent in one piece.

    Args:
        quirk: The quirk.
    """

    quirk: Quirk
    ends_with_done: ClassVar[bool] = False

    async def play(self, out: Exchange) -> bool:
        """Send the body and end the answer."""
        if self.quirk.status != 200 or self.quirk.content_type not in (EVENT_STREAM, JSON):
            out.writing = Writing(0, "")  # leaves the body of an error unchanged
            await out.respond(self.quirk.status, self.quirk.body, self.quirk.content_type)
            return False
        out.streamed = self.quirk.content_type == EVENT_STREAM  # decides the content type
        await out.write(self.quirk.body)
        await out.end()
        return False


def serve(quirk: Quirk, *, rechunk: int | Sequence[int] | None = None, check: bool = True) -> ScriptedServer:
    """Return a loopback server of the quirk's protocol that answers every request with the quirk's body.

    Args:
        quirk: The quirk.
        rechunk: Size in bytes of the body's pieces, if the request asks for a stream.
        check: True to reject requests that a strict server would reject.

    Returns: The server, to be used in a ``with`` block; clients need the server's ``base_url``.

    Example:
        with serve(quirk) as server:
            client = OpenAIClient("m", api_key="k", base_url=server.base_url)
    """
    server = _SERVERS[quirk.protocol]
    return server(handler=lambda _: RawBody(quirk), rechunk=rechunk, check=check)
