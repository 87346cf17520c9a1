"""Find a model server that is already running on this machine (loopback only)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pure_agent_loop.local.engine.leases import HOST
from pure_agent_loop.local.engine.owner import owner_of
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import parsed_object

KNOWN_PORTS: Mapping[str, int] = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
TIMEOUT_SECONDS = 0.3
MAX_BYTES = 1_000_000
_UNUSABLE = (
    OSError,
    ValueError,
    TimeoutError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)


@dataclass(frozen=True, slots=True)
class Found:
    """A model server that has answered.

    Args:
        name: Product that uses this port by default.
        base_url: Base URL for clients, ending in ``/v1``.
        model: First model in the server's list.
        owner: Process or account that owns the port.
        is_safe: True if the owner is this user or the system; another user's server could read every task.
    """

    name: str
    base_url: str
    model: str
    owner: str = ""
    is_safe: bool = True

    @property
    def refusal(self) -> str:
        """Reason why an unsafe server is not used."""
        return notice("library.not_used", url=self.base_url, owner=self.owner)


async def find_server(
    ports: Mapping[str, int] = KNOWN_PORTS,
    timeout: float = TIMEOUT_SECONDS,
    *,
    named: bool = False,
    on_refusal: Callable[[str], None] | None = None,
) -> Found | None:
    """Request ``/v1/models`` on all ports at once.

    A server that the user did not name is used only if its owner is this user or a system account. The owner
    can be found only on Linux; elsewhere, only a named server is used.

    Args:
        ports: Ports by product name, the preferred one first.
        timeout: Seconds after which a port counts as unused.
        named: True if the user named the server; the owner is then irrelevant.
        on_refusal: Function called with a message about each server that is not used.

    Returns:
        The first server, in the order of `ports`, that has a model; or None. Server errors are not raised.
    """
    requests = (_look(name, port, timeout) for name, port in ports.items())
    for server in await asyncio.gather(*requests):
        if server and (server.is_safe or named):
            return server
        if server and on_refusal:
            on_refusal(server.refusal)
    return None


async def _look(name: str, port: int, timeout: float) -> Found | None:
    try:
        answer = await within(timeout, _get_models(port))
    except _UNUSABLE:
        return None
    model = _first_model(answer)
    if not model:
        return None
    owner = owner_of(port)
    return Found(name, f"http://{HOST}:{port}/v1", model, owner.name, owner.is_safe)


async def _get_models(port: int) -> bytes:
    """Return the body of a successful response, else an empty one."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        # With HTTP/1.0 there are no chunks, and the server closes the connection after the body.
        writer.write(f"GET /v1/models HTTP/1.0\r\nHost: {HOST}:{port}\r\n\r\n".encode())
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            return b""
        return await _read_body(reader, head)
    finally:
        writer.transport.abort()  # a graceful close could exceed the time limit


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Read up to Content-Length, because the connection may stay open; without that header, to the end."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return await reader.readexactly(min(int(line.partition(b":")[2]), MAX_BYTES))
    body = b""
    while len(body) < MAX_BYTES and (piece := await reader.read(65536)):
        body += piece
    return body


def _first_model(body: bytes) -> str | None:
    entries = (parsed_object(body) or {}).get("data")
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            return name
    return None
