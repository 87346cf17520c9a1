"""Partial typed answers of durable runs: stored as differences, read as wholes."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing

import pytest
from pydantic import BaseModel

from pure_agent_loop import Agent
from pure_agent_loop.durable import Engine
from pure_agent_loop.durable.database import Database, EventClock, EventWriter, read_events
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.testing import ScriptedLLM, deltas


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    url = f"sqlite:///{tmp_path}/d.sqlite"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").new_database()
    with closing(Database(url)) as made:
        made.prepare()
        yield made


def partials(count):
    """The outputs of an answer that grows: names, nested values, letters that JSON escapes."""
    lines = [f'line {number} says "é" \\ {{' for number in range(count)]
    return [{"title": "T" * min(number, 3), "lines": lines[:number], "rest": None} for number in range(count)]


async def in_thread(work, *values):
    return await asyncio.to_thread(work, *values)


async def write(database, run, *steps, attempt="attempt"):
    """Store each output on its own, as a slow model sends them."""
    writer = EventWriter(EventClock(database, in_thread), run, attempt)
    for step, output in ((step, output) for step, outputs in enumerate(steps, 1) for output in outputs):
        writer.add(Event.text_delta(step, "x"))
        writer.add(Event.partial_output(step, output))
        await writer.close()


def stored_bytes(database, run):
    ((found,),) = database.rows(
        "SELECT SUM(LENGTH(line)) FROM @events WHERE run = ? AND type = 'partial_output'", run
    )
    return int(found)


def outputs_of(database, run, after=0):
    found = []
    while events := read_events(database, run, after):
        after = events[-1].number
        found += [event for event in events if event.type is EventType.PARTIAL_OUTPUT]
    return found


def test_stored_output_grows_with_the_answer(database):
    sizes = {}
    for count in (100, 200):
        outputs = partials(count)
        asyncio.run(write(database, f"run {count}", outputs))
        sizes[count] = stored_bytes(database, f"run {count}")
        assert [event.output for event in outputs_of(database, f"run {count}")] == outputs
    assert sizes[200] / sizes[100] < 2.3
    assert sizes[200] < 10 * len(json.dumps(partials(200)[-1]))


def test_a_reader_that_comes_back_sees_whole_outputs(database):
    outputs = partials(30)
    asyncio.run(write(database, "run", outputs))
    whole = outputs_of(database, "run")
    for number, event in enumerate(whole):
        later = outputs_of(database, "run", event.number)
        assert [each.output for each in later] == outputs[number + 1 :]


def test_attempts_and_steps_do_not_mix(database):
    first, second = partials(5), [[number] for number in range(5)]
    asyncio.run(write(database, "run", first, attempt="one"))
    asyncio.run(write(database, "run", second, first, attempt="two"))
    assert [event.output for event in outputs_of(database, "run")] == [*first, *second, *first]


def test_outputs_of_older_versions_are_read(database):
    insert = "INSERT INTO @events (run, attempt, place, step, type, line) VALUES (?, ?, ?, ?, ?, ?)"
    for place, output in enumerate(partials(3)):
        line = json.dumps(Event.partial_output(1, output).to_dict())
        database.change(insert, "run", "old", place, 1, "partial_output", line)
    asyncio.run(write(database, "run", partials(4), attempt="new"))
    assert [event.output for event in outputs_of(database, "run")] == [*partials(3), *partials(4)]


def test_the_outputs_of_a_run_begin_its_answer(tmp_path):
    class Report(BaseModel):
        lines: list[str]

    answer = {"lines": [f"line {number}" for number in range(50)]}
    text = json.dumps(answer)
    llm = ScriptedLLM([deltas(*(text[start : start + 7] for start in range(0, len(text), 7)))])
    agents = {"a": Agent(llm=llm, output_type=Report)}
    with Engine(f"sqlite:///{tmp_path}/d.sqlite", agents=agents) as engine:
        handle = engine.submit("a", "report")
        assert handle.result(60).output == answer
        lines = outputs_of(engine.database, handle.run_id)[-1].output["lines"]
        assert lines[:-1] == answer["lines"][: len(lines) - 1]  # the last one may have more to come
        assert len(lines) > 40
