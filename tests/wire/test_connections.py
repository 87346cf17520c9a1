"""Connections: reused, released, and one pool for each event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from llm_client_conformance import Gate, ScriptedServer, Status, answer, call, deltas, status
from llm_client_conformance.faults import Raw
from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.events import EventType

from .talk import HI, WAYS, ask, client_of, counting, run

pytestmark = pytest.mark.usefixtures("transport")

EVENTS = b'data: {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\n'


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


async def no_task_is_left() -> None:
    """Fail if a task goes on. (The HTTP library leaves a generator that the event loop closes by itself.)"""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, others = await asyncio.wait(others, timeout=10)
    assert not others


@pytest.mark.parametrize("way", WAYS)
def test_one_connection_for_many_requests(way: str):
    items: list[Any] = ["a", answer("b", usage=None), status(500), call("f"), deltas("c", done=False), "d"]
    with ScriptedServer(items) as server, counting(server) as relay:
        client = client_of(relay.base_url)

        async def work() -> None:
            for item in items:
                if item is items[2]:
                    with pytest.raises(Exception, match="status 500"):
                        await ask(client, way)
                else:
                    await ask(client, way)

        run(client, work)
        assert relay.connections == 1


def test_the_rest_behind_done_is_read_so_that_the_connection_stays_usable():
    tail = Raw(EVENTS + b"data: [DONE]\n\n" + b": the end\n\n" * 1000)
    with (
        ScriptedServer([deltas(tail, finish_reason=None, done=False), "b"]) as server,
        counting(server) as relay,
    ):
        client = client_of(relay.base_url)

        async def work() -> None:
            await ask(client)
            await ask(client)

        run(client, work)
        assert relay.connections == 1


def test_one_connection_for_the_steps_of_a_run():
    script = [call("add", a=1, b=2), call("add", a=3, b=3), "6"]
    with ScriptedServer(script) as server, counting(server) as relay:
        agent = Agent(model="m", api_key="k", base_url=relay.base_url, tools=[add])

        async def work() -> str:
            return (await agent.arun("count")).content

        assert run(agent.llm, work) == "6"  # type: ignore[arg-type]  # the default client
        assert relay.connections == 1


def test_sync_runs_share_their_connections():
    with ScriptedServer(["a", "b", "c"]) as server, counting(server) as relay:
        agent = Agent(model="m", api_key="k", base_url=relay.base_url)
        assert [agent.run("x").content for _ in range(3)] == ["a", "b", "c"]
        assert relay.connections == 1


def test_one_client_on_several_loops_one_after_the_other():
    with ScriptedServer(["a", "b", "c"]) as server, counting(server) as relay:
        client = client_of(relay.base_url)
        contents = [run(client, lambda: ask(client)).content for _ in range(3)]
        assert contents == ["a", "b", "c"]
        assert relay.connections == 3


def test_one_client_on_several_loops_at_the_same_time():
    gate, count = Gate(), 8
    with ScriptedServer(handler=lambda request: deltas("hel", gate, "lo")) as server:
        client = client_of(server)
        answers: list[Any] = []
        start = threading.Barrier(count)

        def work() -> None:
            start.wait(10)
            answers.append(run(client, lambda: ask(client)).content)

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        gate.reached.wait()
        gate.open()
        for thread in threads:
            thread.join(20)
    assert answers == ["hello"] * count


def test_many_requests_at_once_on_one_loop():
    with ScriptedServer(handler=lambda request: request.messages[0]["content"]) as server:
        client = client_of(server)

        async def work() -> list[str | None]:
            asked = [
                ask(client, way, [{"role": "user", "content": f"{n}"}]) for n in range(20) for way in WAYS
            ]
            return [response.content for response in await asyncio.gather(*asked)]

        assert run(client, work) == [f"{n}" for n in range(20) for _ in WAYS]


def test_a_stream_closed_early_releases_the_connection_and_leaves_no_task():
    gate = Gate()
    with ScriptedServer([deltas("first", gate, "second"), "next"]) as server:
        client = client_of(server)

        async def work() -> None:
            stream = client.chat_stream(HI)
            assert (await stream.__anext__()).text == "first"
            await stream.aclose()  # type: ignore[attr-defined]  # generators have it
            await server.requests[0].left.wait_async()
            await no_task_is_left()
            assert (await ask(client)).content == "next"

        run(client, work)
        gate.open()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["before", "middle"])
def test_a_cancelled_request_releases_the_connection_and_leaves_no_task(way: str, where: str):
    gate = Gate()
    item = deltas(gate, "late") if where == "before" else deltas("first", gate, "second")
    with ScriptedServer([item, "next"]) as server:
        client = client_of(server)

        async def work() -> None:
            task = asyncio.create_task(ask(client, way))
            await gate.reached.wait_async()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.requests[0].left.wait_async()
            await no_task_is_left()
            assert (await ask(client, way)).content == "next"

        run(client, work)
        gate.open()


def test_cancelled_run_keeps_its_partial_text_and_closes_the_connection():
    gate, token = Gate(), CancelToken()
    with ScriptedServer([deltas("first ", gate, "second")]) as server:
        agent = Agent(model="m", api_key="k", base_url=server.base_url)
        for event in agent.run_stream("x", cancel_token=token):
            if event.type is EventType.TEXT_DELTA:
                token.cancel()
        server.requests[0].left.wait()
        gate.open()
    assert event.data["stop_reason"] == "cancelled"
    assert event.data["content"] == "first "


def test_connections_end_with_the_event_loop_they_belong_to():
    with ScriptedServer(["a", "b", "c"]) as server, counting(server) as relay:
        client = client_of(relay.base_url)
        agent = Agent(llm=client)
        assert asyncio.run(ask(client)).content == "a"  # nobody closes anything
        assert asyncio.run(agent.arun("x")).content == "b"
        assert relay.ended.acquire(timeout=10)
        assert relay.ended.acquire(timeout=10)
        assert run(client, lambda: ask(client)).content == "c"
        gc.collect()  # an unclosed transport would be a ResourceWarning here, which fails the test


def test_a_client_that_is_forgotten_gives_its_connections_back():
    with ScriptedServer(["a"]) as server, counting(server) as relay:

        async def main() -> None:
            assert (await ask(client_of(relay.base_url))).content == "a"
            gc.collect()
            assert await asyncio.to_thread(relay.ended.acquire, timeout=10)

        asyncio.run(main())
        gc.collect()


def test_a_forgotten_client_is_freed_without_a_search_for_garbage():
    gc.disable()
    try:
        client = client_of("http://127.0.0.1:9/v1")
        is_alive = weakref.ref(client)
        del client
        assert is_alive() is None
    finally:
        gc.enable()


def test_client_closed_twice_accepts_the_next_request():
    with ScriptedServer(["a", "b"]) as server:
        client = client_of(server)

        async def work() -> list[str | None]:
            first = await ask(client)
            await client.aclose()
            await client.aclose()
            return [first.content, (await ask(client)).content]

        assert run(client, work) == ["a", "b"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, [1, 5, 64]])
def test_cut_into_any_pieces_on_a_real_connection(size: Any):
    text = "naïve 😀 " * 20
    with ScriptedServer([answer(text, call("f", x="é😀"))], rechunk=size) as server:
        client = client_of(server)
        response = run(client, lambda: ask(client))
    assert response.content == text
    assert response.tool_calls[0].arguments == {"x": "é😀"}


def test_line_ends_comments_and_labels_on_a_real_connection():
    body = b"\xef\xbb\xbf: hi\r\n\r\nevent: x\rid: 1\r" + EVENTS.replace(b"\n", b"\r\n") + b"data:[DONE]\r\r"
    with ScriptedServer([Status(200, body, "text/plain")]) as server:
        client = client_of(server)
        assert run(client, lambda: ask(client)).content == "hello"
