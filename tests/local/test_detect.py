"""The look for servers on loopback, against small real ones."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import pytest

from pure_agent_loop.local.engine.detect import Found, find_server

MODELS = json.dumps({"object": "list", "data": [{"id": "qwen"}, {"id": "other"}]}).encode()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def whole(body):
    return OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


@contextlib.asynccontextmanager
async def server(reply, seen=None, hold=False):
    """A server that answers every request with these bytes; `hold` leaves the connection open."""
    release = asyncio.Event()

    async def serve(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if seen is not None:
                seen.append(head)
            writer.write(reply)
            await writer.drain()
            if hold:
                await release.wait()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        release.set()
        running.close()
        await running.wait_closed()


def look(*replies, hold=False, timeout=5.0):
    async def run():
        async with contextlib.AsyncExitStack() as stack:
            ports = {}
            for number, reply in enumerate(replies):
                ports[f"s{number}"] = await stack.enter_async_context(server(reply, hold=hold))
            return await find_server(ports, timeout), ports

    return asyncio.run(run())


def test_a_server_is_found_with_its_first_model():
    found, ports = look(whole(MODELS))
    assert found == Found("s0", f"http://127.0.0.1:{ports['s0']}/v1", "qwen", found.owner)
    assert str(os.getpid()) in found.owner


def test_a_server_that_keeps_the_connection_open_is_found():
    assert look(whole(MODELS), hold=True)[0].model == "qwen"


def test_a_body_without_length_is_read_to_its_end():
    assert look(OK + b"\r\n" + MODELS)[0].model == "qwen"


def test_the_order_of_the_ports_decides():
    assert look(whole(MODELS), whole(MODELS))[0].name == "s0"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\x00\xff\x16garbage",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n" + MODELS,
        OK + b"Content-Length: many\r\n\r\n" + MODELS,
        OK + b"Content-Length: -5\r\n\r\n" + MODELS,
        OK + b"Content-Length: 9999\r\n\r\n" + MODELS,
        OK + b"\r\n<html>hello</html>",
        OK + b"\r\n\xff\xfe\x00",
        OK + b'\r\n{"data": []}',
        OK + b'\r\n{"data": "x"}',
        OK + b'\r\n{"data": [1, null, {"id": 5}, {"id": ""}]}',
        OK + b"\r\n[]",
        OK + b"\r\n" + b"[" * 100_000,
        b"A" * 200_000,
    ],
)
def test_whatever_else_answers_is_passed_over(reply):
    assert look(reply, whole(MODELS))[0].name == "s1"


def test_a_silent_server_and_a_closed_port_do_not_hold_up_the_others():
    found, _ = look(b"HTTP/1.1 200", whole(MODELS), hold=True, timeout=0.3)
    assert found.name == "s1"


def test_nothing_there_is_none():
    async def run():
        async with server(b"") as port:
            pass
        return await find_server({"gone": port}, 5.0)

    assert asyncio.run(run()) is None


def test_no_key_and_no_other_header_is_sent():
    seen = []

    async def run():
        async with server(whole(MODELS), seen) as port:
            await find_server({"s": port}, 5.0)
            return port

    port = asyncio.run(run())
    assert seen == [f"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()]


def test_looking_loads_no_http_library():
    code = (
        "import asyncio, sys\nfrom pure_agent_loop.local import find_server\n"
        "asyncio.run(find_server({}))\n"
        "print([m for m in ('openai', 'httpx', 'httpx2', 'xllamacpp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
