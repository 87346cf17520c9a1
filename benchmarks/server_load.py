"""What a server costs: viewers of streaming runs, beside raw starlette with the same bytes; and attacks.

    python -m benchmarks.server_load [--runs 50] [--viewers 500] [--seconds 15] [--rate 4]

Servers and clients are separate processes; nothing leaves the machine. A model in the server's process
says the time `rate` times a second in each run. Latency is the time from then until a viewer has the frame.
CPU is
that of the server's process, from /proc: with its runs alone, then with viewers; the difference is divided by
the frames that the viewers got. The floor sends frames of the same length to as many sockets. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage

TOKEN = "owner-token-0123456789"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TICKS = os.sysconf("SC_CLK_TCK")


class Clock(BaseLLMClient):
    """A model that streams the time repeatedly, as often as the task asks."""

    model = "clock"

    async def chat(self, messages: Any, tools: Any = None, **kwargs: Any) -> LLMResponse:
        """Raise an error, because all answers are streamed."""
        raise NotImplementedError

    async def chat_stream(self, messages: Any, tools: Any = None, **kwargs: Any) -> AsyncIterator[Delta]:  # noqa: ARG002 - the shape of a client
        """Yield the time in pieces."""
        rate, seconds = json.loads(messages[-1]["content"])
        for _ in range(int(rate * seconds)):
            await asyncio.sleep(1 / rate)
            yield Delta(text=f"{time.time():.6f} ")
        yield Delta(text="end", finish_reason="stop", usage=TokenUsage(1, 1, 2))


def serve(kind: str, folder: str) -> None:
    """Run the server, or the floor."""
    from pure_agent_loop import Agent, LoopLimits
    from pure_agent_loop.server import create_app
    from pure_agent_loop.server.serving import Serving, bind_socket, uvicorn_config
    from pure_agent_loop.server.settings import Settings

    settings = Settings(max_viewers_each=2_000, max_running_each=100, rate=5_000)
    if kind == "ours":
        limits = {"max_viewers_each": 2_000, "max_running_each": 100, "rate": 5_000}
        agent = Agent(llm=Clock(), limits=LoopLimits(timeout=None, max_tokens=None))
        app = create_app(
            agent, TOKEN, sessions=Path(folder) / "sessions", folder=Path(folder) / "server", **limits
        )
    else:
        app = _floor()
    listener = bind_socket("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn_config(app, settings, "127.0.0.1", 0)
    if kind == "ours":
        Serving(config, 0.5).run([listener])
    else:
        import uvicorn

        uvicorn.Server(config).run([listener])


def _floor() -> Any:
    """Send the time over a socket at the requested rate, in frames as long as ours."""
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket

    async def tell(viewer: WebSocket) -> None:
        await viewer.accept()
        rate, seconds, length = json.loads(await viewer.receive_text())
        for _ in range(int(rate * seconds)):
            await asyncio.sleep(1 / rate)
            about = {"type": "text_delta", "data": {"content": f"{time.time():.6f} "}}
            await viewer.send_text(json.dumps(about).ljust(length))
        await viewer.send_text('{"type": "run_end"}')

    return Starlette(routes=[WebSocketRoute("/ws", tell)])


class Server:
    """A server in a separate process."""

    def __init__(self, kind: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", "benchmarks.server_load", "--serve", kind, self._folder.name]
        begun = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        while True:  # the port is bound before the server listens
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            time.sleep(0.01)
        self.seconds = time.monotonic() - begun
        self.url = f"http://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """Return the CPU seconds used so far."""
        found = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(found[11]) + int(found[12])) / TICKS

    def memory(self, what: str = "VmRSS") -> float:
        """Return the resident MB; with ``VmHWM``, the maximum so far."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    def connection(self) -> Any:
        """Return a connection to open."""
        return connect(
            f"ws://127.0.0.1:{self.port}/ws", additional_headers=HEADERS, compression=None, open_timeout=60
        )


async def _watch(viewer: ClientConnection, late: list[float], lengths: list[int]) -> None:
    async for frame in viewer:
        event = json.loads(frame)
        if event.get("type") == "text_delta" and event["data"]["content"] != "end":
            late.append(time.time() - float(event["data"]["content"]))
            lengths.append(len(frame))
        elif event.get("type") == "run_end":
            return


def _line(name: str, cpu: float, late: list[float], memory: float) -> str:
    late.sort()
    ms = [1000 * late[int(len(late) * share)] for share in (0.5, 0.99)]
    micro = 1e6 * cpu / len(late)
    return f"| {name} | {len(late):,} | {micro:.0f} | {memory:.0f} | {ms[0]:.1f} | {ms[1]:.1f} |"


async def load(runs: int, viewers: int, seconds: float, rate: float) -> None:
    """Viewers of runs, and the floor."""
    print(f"{runs} runs, {viewers} viewers, {rate:g} events a second and run, {seconds:g} s\n")
    print("| server | frames | CPU µs for each | KB for each viewer | latency p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    with contextlib.closing(Server("ours")) as server:
        length = await _ours(server, runs, viewers, seconds, rate)
    with contextlib.closing(Server("floor")) as server:
        await _floor_of(server, viewers, seconds, rate, length)


async def _ours(server: Server, runs: int, viewers: int, seconds: float, rate: float) -> int:
    alone, length = 0.0, 0
    for count in (0, viewers):
        async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60) as client:
            sockets = [await server.connection() for _ in range(count)]
            begun = [
                (await client.post("/api/runs", json={"text": json.dumps([rate, seconds])})).json()
                for _ in range(runs)
            ]
            late, lengths, before, cpu = list[float](), list[int](), server.memory(), server.cpu()
            for number, each in enumerate(sockets):
                session = begun[number % runs]["session"]
                await each.send(json.dumps({"type": "watch", "session": session, "after": 1}))
            watching = asyncio.gather(*(_watch(each, late, lengths) for each in sockets))
            await asyncio.sleep(seconds / 2)
            memory = server.memory()
            await watching
            await asyncio.sleep(0 if count else seconds / 2 + 1)
            used = server.cpu() - cpu
            if not count:
                alone = used
                continue
            length = int(statistics.median(lengths))
            print(_line("ours", used - alone, late, 1024 * (memory - before) / count))
            await asyncio.gather(*(each.close() for each in sockets))
    return length


async def _floor_of(server: Server, viewers: int, seconds: float, rate: float, length: int) -> None:
    before = server.memory()
    sockets = [await server.connection() for _ in range(viewers)]
    cpu, late = server.cpu(), []
    for each in sockets:
        await each.send(json.dumps([rate, seconds, length]))
    watching = asyncio.gather(*(_watch(each, late, []) for each in sockets))
    await asyncio.sleep(seconds / 2)
    memory = server.memory()
    await watching
    print(_line("raw starlette", server.cpu() - cpu, late, 1024 * (memory - before) / viewers))


async def _asking(client: httpx2.AsyncClient, count: int) -> float:
    """Return the median milliseconds of some ordinary requests."""
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        (await client.get("/api/agents")).raise_for_status()
        took.append(1000 * (time.perf_counter() - begun))
        await asyncio.sleep(0.01)
    return statistics.median(took)


async def _flood(server: Server, until: asyncio.Event) -> None:
    while not until.is_set():
        with contextlib.suppress(OSError, WebSocketException):  # the viewer was dropped and reconnects
            async with server.connection() as mine:
                while not until.is_set():
                    await mine.send('{"type":"ping"}')
                    await asyncio.sleep(0)
        await asyncio.sleep(0.05)


async def attacks() -> None:
    """Measure how a client affects the latency of another client, and what a body costs."""
    with contextlib.closing(Server("ours")) as server:
        await _attacked(server)


async def _attacked(server: Server) -> None:
    async with httpx2.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60) as client:
        print("\n| | latency of a request, ms |\n|---|---|")
        print(f"| nobody else | {await _asking(client, 100):.1f} |")
        sockets = [await server.connection() for _ in range(1_000)]
        print(f"| 1,000 idle connections | {await _asking(client, 100):.1f} |")
        await asyncio.gather(*(each.close() for each in sockets))
        until = asyncio.Event()
        flood = asyncio.ensure_future(_flood(server, until))
        print(f"| a flood of frames | {await _asking(client, 100):.1f} |")
        until.set()
        await flood
        before = server.memory("VmHWM")

        async def body() -> AsyncIterator[bytes]:
            for _ in range(200):
                yield b"x" * (1 << 20)

        headers = {"Content-Type": "application/json"}
        try:
            status = (await client.post("/api/runs", content=body(), headers=headers)).status_code
        except httpx2.HTTPError as error:
            status = type(error).__name__
        print(f"\na body of 200 MB in chunks: {status}, {server.memory('VmHWM') - before:.1f} MB more")
    print(f"from the start of the process until it answers: {server.seconds:.2f} s")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rate", type=float, default=4)
    parser.add_argument("--serve", nargs=2)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    asyncio.run(load(options.runs, options.viewers, options.seconds, options.rate))
    asyncio.run(attacks())


if __name__ == "__main__":
    main()
