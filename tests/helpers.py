"""Small helpers shared by the tests of the kernel: a grammar of events, runs, and what they leave behind."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

from pure_agent_loop import Agent, Event, EventType, QueryState, RetryConfig, tool
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.loop import run_loop
from pure_agent_loop.parts import TRANSITIONS, Part
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.result import AgentResult
from pure_agent_loop.runs.run import start_state
from pure_agent_loop.stop_reasons import WAITING
from pure_agent_loop.testing import check_history
from pure_agent_loop.tool import ToolRegistry

E = EventType
_LETTERS = {
    E.LOOP_START: "S",
    E.NOTICE: "N",
    E.COMPACTION: "N",
    E.SOFT_LIMIT: "L",
    E.REASONING_DELTA: "r",
    E.TEXT_DELTA: "t",
    E.TOOL_CALL_DELTA: "c",
    E.RETRY: "y",
    E.REASONING: "R",
    E.THOUGHT: "T",
    E.ACTION: "A",
    E.OBSERVATION: "O",
    E.STEP_END: "D",
    E.ERROR: "E",
    E.LOOP_END: "X",
    E.PERMISSION: "P",
    E.FILE_CHANGE: "F",
    E.TASK: "",
    E.PROGRESS: "",
    E.PARTIAL_OUTPUT: "",
    E.PART: "",  # they have rules of their own
}
_OPEN_STEP = "L?N*[rtcyN]*R?T?P*N*A*[ON]*F*N*"
_WHOLE = re.compile(r"SN*(L?N*[rtcyN]*R?T?(P*N*A+[ON]+F*)?N*D)*X")
_BROKEN_OFF = re.compile(rf"SN*(L?N*[rtcyN]*R?T?(P*N*A+[ON]+F*)?N*D)*({_OPEN_STEP})E?X")


def check_events(events: Sequence[Event], first_step: int = 1) -> None:
    """Fail unless the events of a finished run follow the grammar at the top of `events.py`."""
    word = "".join(_LETTERS[event.type] for event in events)
    end = events[-1]
    assert end.type is E.LOOP_END, word
    broken_off = "E" in word or end.data["stop_reason"] in ("cancelled", "error", *WAITING)
    assert (_BROKEN_OFF if broken_off else _WHOLE).fullmatch(word), word
    assert check_history(end.data["messages"]) == []
    _check_numbers(events[1:-1], first_step)
    _check_parts(events, end.data["stop_reason"], first_step)
    for step in {event.step for event in events}:
        _check_step([event for event in events if event.step == step], whole=not broken_off)


def _check_parts(events: Sequence[Event], stop_reason: str, first_step: int) -> None:
    """Each part goes through the table of states, and has ended when the run has."""
    parts: dict[str, Part] = {}
    for event in of_type(events, E.PART):
        part = Part.from_dict(event.data["part"])
        before = parts.get(part.id)
        if before is None and part.type == "tool" and event.step == first_step:
            # A run that was resumed goes on with the calls that another one announced.
            assert part.state in ("pending", *TRANSITIONS["pending"]), part
        else:
            assert part.state in (TRANSITIONS[before.state] if before else ("pending",)), part
        parts[part.id] = part
        assert part.ended is None or part.ended >= (part.started or 0.0)
    if stop_reason not in WAITING:
        assert all(not TRANSITIONS[part.state] for part in parts.values()), parts


def _check_numbers(inner: Sequence[Event], first_step: int) -> None:
    """Steps count up; every event between two STEP_ENDs has the number of its step."""
    number = 0 if inner and inner[0].step == 0 else first_step
    for event in inner:
        if number == 0 and event.step == first_step:
            number = first_step
        assert event.step == number or event.type in (E.ERROR, E.TASK), (event, number)
        number += event.type is E.STEP_END


def _check_step(events: Sequence[Event], *, whole: bool) -> None:
    asked = [event.data["call_id"] for event in events if event.type is E.ACTION]
    answered = [event.data["call_id"] for event in events if event.type is E.OBSERVATION]
    assert answered == (asked if whole else asked[: len(answered)])
    shown = ""
    for event in events:
        if event.type is E.RETRY and event.data["discard"]:
            shown = ""
        elif event.type is E.TEXT_DELTA:
            shown += event.content
        elif event.type is E.THOUGHT and shown:
            assert event.content == shown


def check_result(result: AgentResult, first_step: int = 1) -> AgentResult:
    """Fail unless a run ended properly: events, history, and the two telling the same."""
    check_events(result.events, first_step)
    end = result.events[-1].data
    assert (end["stop_reason"], end["content"]) == (result.stop_reason, result.content)
    assert end["messages"] == result.messages
    assert check_history(result.messages) == []
    if result.stop_reason not in WAITING:
        assert not result.state.pending
        assert not result.state.results
    return result


def types(events: Sequence[Event]) -> list[str]:
    return [event.type.value for event in events if event.type is not E.PART]


def of_type(events: Sequence[Event], kind: EventType) -> list[Event]:
    return [event for event in events if event.type is kind]


def shape(events: Sequence[Event]) -> list[tuple[str, int, dict[str, Any]]]:
    """Events without their times, and without the parts."""
    told = [event for event in events if event.type is not E.PART]  # their times differ
    return [(e.type.value, e.step, {k: v for k, v in e.data.items() if k != "duration"}) for e in told]


def tool_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


NO_WAIT = RetryConfig(base_delay=0, jitter=0)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def start(task: str = "go", messages: list[Any] | None = None, system_prompt: str = "") -> QueryState:
    return start_state(task, messages, system_prompt, ENGLISH)[0]


async def drive(state: QueryState, client: Any, tools: Sequence[Any] = (), **kit: Any) -> AgentResult:
    """Run the kernel itself, with any part of the kit replaced."""
    events: list[Event] = []

    async def keep(event: Event) -> None:
        events.append(event)

    settings = {"emit": keep, "prompts": ENGLISH, "retry": NO_WAIT, **kit}
    await run_loop(state, Kit(client=client, tools=ToolRegistry(tools), **settings))
    return AgentResult.from_state(state, events)


def run_kernel(
    client: Any, tools: Sequence[Any] = (), *, state: QueryState | None = None, **kit: Any
) -> AgentResult:
    return check_result(asyncio.run(drive(state or start(), client, tools, **kit)))


def run_agent(llm: Any, tools: Sequence[Any] = (), task: str = "go", **options: Any) -> AgentResult:
    """One checked run of an agent."""
    return check_result(Agent(llm=llm, tools=tools, **{"retry": NO_WAIT, **options}).run(task))


@asynccontextmanager
async def nothing_left():
    """Fail if the block leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    left: set[asyncio.Task[Any]] = set()
    for _ in range(200):  # turns of the loop, for what is ending
        left = {task for task in asyncio.all_tasks() - before if not task.done()}
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"tasks left behind: {left}")


def foreign_threads() -> set[str]:
    """Names of live threads that are neither the main thread nor of the two daemon pools."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return {t.name for t in others if not (t.daemon and t.name in ("pal-tool", "pal-loop"))}


async def until(done: Any) -> None:
    """Let the event loop turn until `done()` holds; fails instead of hanging."""
    for _ in range(100_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def may_call(request: Any) -> bool:
    """True if the answer to a request of a scripted model may hold calls."""
    return bool(request.tools) and request.options.get("tool_choice") != "none"


def unframed(text: str) -> str:
    """A tool's result without the frame that marks it as data."""
    head, _, rest = text.partition("\n")
    return rest.rpartition("\n")[0] if head.startswith("[from ") else text
