"""Talking to a real loopback server through the real client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pytest

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.testing import ScriptedServer

T = TypeVar("T")
HI = [{"role": "user", "content": "hi"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        },
    }
]
WAYS = ("plain", "stream")


def client_of(server: ScriptedServer | str, model: str = "m", **settings: Any) -> OpenAIClient:
    """A client for a server, or for an address; it waits for a busy machine."""
    url = server if isinstance(server, str) else server.base_url
    return OpenAIClient(model, **{"api_key": "k", "base_url": url, "timeout": 60, **settings})


async def ask(client: OpenAIClient, way: str = "stream", messages: Any = HI, **options: Any) -> LLMResponse:
    """One request, streamed or plain."""
    if way == "plain":
        return await client.chat(messages, options.pop("tools", None), **options)
    assembler = Assembler()
    async for delta in client.chat_stream(messages, options.pop("tools", None), **options):
        assembler.feed(delta)
    return assembler.finish()


def run(client: OpenAIClient, work: Callable[[], Awaitable[T]]) -> T:
    """Do some work on an event loop of its own, then close the client's connections there."""

    async def main() -> T:
        try:
            return await work()
        finally:
            await client.aclose()

    return asyncio.run(main())


def get_answer(client: OpenAIClient, way: str = "stream", messages: Any = HI, **options: Any) -> LLMResponse:
    """One request on an event loop of its own."""
    return run(client, lambda: ask(client, way, messages, **options))


def get_error(client: OpenAIClient, way: str = "stream", **options: Any) -> LLMError:
    """The error that one request ends with."""
    with pytest.raises(LLMError) as caught:
        get_answer(client, way, **options)
    return caught.value


class Relay:
    """Passes connections on to a server, and counts them.

    Args:
        to: The server's base URL.
    """

    def __init__(self, to: str) -> None:
        self._port = int(to.rsplit(":", 1)[1].partition("/")[0])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.connections = 0
        self.ended = threading.Semaphore(0)  # counts the connections that the client has closed
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._port))
            self._open += [near, far]
            for source, sink, told in ((near, far, self.ended), (far, near, None)):
                thread = threading.Thread(target=_pump, args=(source, sink, told), daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """End every connection and wait for the threads."""
        for each in (self._socket, *self._open):
            _shut(each)
        for thread in self._threads:
            thread.join(10)
        for each in (self._socket, *self._open):
            each.close()


def _pump(source: socket.socket, sink: socket.socket, told: threading.Semaphore | None) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    if told is not None:
        told.release()
    _shut(sink)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def counting(server: ScriptedServer) -> Iterator[Relay]:
    """A relay in front of a server, for as long as the block lasts."""
    relay = Relay(server.base_url)
    try:
        yield relay
    finally:
        relay.close()
