"""Subagents on the page: a line that says what each does, the same after a reload, and its steps below."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pure_agent_loop import Agent
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
MONEY = {"max_cost": 1000.0}


def model(request):
    """Two scouts at once: each adds, then waits for a file with the name of its task."""
    task = next(each["content"] for each in reversed(request.messages) if each["role"] == "user")
    results = sum(each["role"] == "tool" for each in request.messages)
    if task.startswith("find "):
        name = task.removeprefix("find ")
        return [call("add", a=2, b=len(name)), call("hold", name=name), f"Found **{name}**."][results]
    if task == "Look" and not results:
        return [call("task", agent="scout", prompt=f"find {name}") for name in ("discount", "tax")]
    return "Both are found."


@pytest.mark.parametrize("place", ["here", "engine"])
def test_subagent_row_shows_its_work_live_and_after_a_reload(serve, visit, place, tmp_path):
    database = f"sqlite:///{tmp_path}/runs.sqlite" if place == "engine" else None
    server = serve(model, subagents=True, money=MONEY, database=database)
    guest = visit(server)
    guest.say("Look")
    lines = guest.page.locator(".call > summary")

    def check_lines():
        for at, name in enumerate(("discount", "tax")):
            line = lines.nth(at)
            expect(line.locator(".tool")).to_have_text("scout")
            expect(line.locator(".brief")).to_have_text(f"find {name}")
            expect(line.locator(".by")).to_contain_text(f"hold {name}")
            expect(line.locator(".time")).to_have_text(re.compile(r"^2 calls · \$\d+\.\d{4}( · \d+ s)?$"))
            expect(line.locator(".spinner")).to_have_count(1)

    check_lines()
    guest.page.reload()
    check_lines()
    lines.first.click()
    steps = guest.page.locator(".call").first.locator(".members")
    expect(steps.locator(".call .tool")).to_have_text(["add", "hold"])
    expect(steps.locator(".call .brief")).to_have_text(["2 · 8", "discount"])
    expect(steps.locator(".call.running .tool")).to_have_text("hold")
    guest.shot("subagents")
    (server.folder / "discount").touch()
    expect(steps.locator(".answer strong")).to_have_text("discount")  # while the other works
    expect(guest.page.locator(".call .spinner")).to_have_count(1)
    (server.folder / "tax").touch()
    guest.wait(".end")
    expect(guest.page.locator(".call .spinner")).to_have_count(0)


def test_subagents_of_earlier_runs_come_from_records(serve, visit):
    server = serve(model, subagents=True, money=MONEY)
    for name in ("discount", "tax"):
        (server.folder / name).touch()
    guest = visit(server, **PHONE)
    guest.say("Look")
    guest.wait(".end")
    guest.say("Thanks")
    guest.wait(".end", 2)
    guest.page.reload()
    lines = guest.page.locator(".call > summary")
    expect(lines.locator(".tool")).to_have_text(["scout", "scout"])
    expect(lines.first.locator(".time")).to_contain_text("2 calls · $")
    lines.first.click()
    expect(guest.page.locator(".members .answer strong")).to_have_text("discount")
    assert guest.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_subagent_has_its_session_and_its_record_where_its_run_is(tmp_path):
    scout = AgentDefinition("scout", "Looks.", "You look.")
    agent = Agent(
        llm=ScriptedLLM([call("task", agent="scout", prompt="go"), "Found.", "Done."]),
        subagents=SubagentManager([scout]),
        sessions=tmp_path / "own",
    )
    agent.run("Look", session_id="trip", sessions=tmp_path / "other")
    assert not (tmp_path / "own").exists()
    assert len(list((tmp_path / "other" / "agents").glob("scout-*.json"))) == 1
    assert len(list((tmp_path / "other").glob("trip.scout-*"))) >= 1
