"""Requests of a session: what each changed of the previous one, and who changed it, read from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, LoopLimits, TokenUsage, tool
from pure_agent_loop.sessions import JsonlStore, requests_in
from pure_agent_loop.testing import ScriptedLLM, answer, call

FREE = LoopLimits(max_steps=None, max_tokens=None, doom_loop_threshold=None)


@tool
def read(n: int) -> str:
    """Read a page."""
    return f"page {n}: " + "all is well " * 300


def writers(store: JsonlStore, first: int = 1) -> list[str | None]:
    sent = requests_in(store.read("s").records, first)
    return [None if request.change is None else request.change.writer for request in sent]


def test_a_function_that_writes_the_time_into_the_prompt_is_named(tmp_path: Path) -> None:
    store, times = JsonlStore(tmp_path), iter(range(9))
    llm = ScriptedLLM([answer(call("read", n=1)), answer(call("read", n=2)), "done"])
    agent = Agent(
        llm=llm, tools=[read], sessions=store, system_prompt=lambda: f"It is 12:0{next(times)}.",
        system_prompt_per="step",
    )  # fmt: skip
    agent.run("x", session_id="s")
    assert writers(store) == [None, "system_function", "system_function"]
    assert writers(store, first=3) == ["system_function"]


def test_a_rung_of_the_ladder_is_named(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    llm = ScriptedLLM([*(answer(call("read", n=n)) for n in range(12)), "done"], usage=None)
    Agent(llm=llm, tools=[read], sessions=store, limits=FREE, context_window=8_000).run("x", session_id="s")
    found = writers(store)
    assert any(str(writer).startswith("compaction:") for writer in found)
    assert all(writer is None or writer.startswith("compaction:") for writer in found)


def test_other_tools_of_the_program_are_named_and_a_longer_history_is_not(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    for tools in ([read], [read], []):
        llm = ScriptedLLM(["ok"])
        Agent(llm=llm, tools=tools, sessions=store).run("x", session_id="s")
    assert writers(store) == [None, None, "program"]


def test_tokens_that_the_cache_missed_are_those_of_the_run(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    usages: list[Any] = [TokenUsage(1_000, 5, 1_005, cached_tokens=n) for n in (0, 700)]
    llm = ScriptedLLM([answer(call("read", n=1), usage=usages[0]), answer("ok", usage=usages[1])])
    result = Agent(llm=llm, tools=[read], sessions=store).run("x", session_id="s")
    sent = [*requests_in(store.read("s").records)]
    missed = [request.usage and request.usage.cache_missed_tokens for request in sent]
    assert missed == [0, 300]
    assert result.usage.cache_missed_tokens == 300
