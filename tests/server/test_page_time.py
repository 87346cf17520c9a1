"""The line of steps under the title of a conversation: looking back, at the talk and at the files."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pure_agent_loop import Agent
from pure_agent_loop.testing import ScriptedLLM, call

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SLIDER = ".steps input[type=range]"


@pytest.fixture
def guest(serve, visit):
    guest = visit(serve([call("put", text="one\n"), "First.", call("put", text="two\n"), "Second."]))
    guest.say("Put one")
    guest.wait(".end")
    guest.say("Put two")
    guest.wait(".end", 2)
    expect(guest.page.locator(SLIDER)).to_have_attribute("max", "4")
    return guest


def file_of(guest):
    return guest.server.folder / "work" / "file"


@pytest.mark.parametrize("about", [{}, PHONE])
def test_the_line_appears_without_moving_the_text(serve, visit, about):
    server = serve([call("add", a=1, b=2), call("hold", name="gate"), "Done."])
    guest = visit(server, **about)
    guest.say("Add")
    guest.page.wait_for_selector(".call.running >> text=hold")
    before = guest.page.locator(".log").bounding_box()["y"]
    expect(guest.page.locator(".steps")).to_have_count(0)
    (server.folder / "gate").touch()
    guest.page.wait_for_selector(SLIDER)
    assert guest.page.locator(".log").bounding_box()["y"] == before


def test_looking_back_changes_nothing(guest):
    slider = guest.page.locator(SLIDER)
    assert slider.get_attribute("aria-valuetext") == "now"
    guest.page.locator(".log").press("[")
    guest.page.locator(".log").press("[")
    guest.page.locator(".log").press("[")
    expect(guest.page.locator(".steps strong")).to_contain_text("step 2 of 4")
    expect(guest.page.locator(".said")).to_have_count(1)
    expect(guest.page.locator(".prose").last).to_have_text("First.")
    expect(guest.page.locator(".past summary")).to_contain_text("file +1 −1")
    guest.page.locator(".past summary").click()
    expect(guest.page.locator(".past .row.removed")).to_have_text("1 -one")
    expect(guest.page.locator(".past .row.added")).to_have_text("1 +two")
    guest.page.keyboard.press("Escape")
    expect(guest.page.locator(".said")).to_have_count(2)
    expect(slider).to_have_attribute("aria-valuetext", "now")
    assert file_of(guest).read_text() == "two\n"
    assert len(guest.page.locator(".sessions li").all()) == 1


@pytest.mark.parametrize("files", [True, False])
def test_continue_from_a_step(guest, files):
    guest.page.locator(SLIDER).fill("1")
    expect(guest.page.locator(".steps strong")).to_contain_text("step 2 of 4")
    guest.page.locator(".past input[type=checkbox]").set_checked(files)
    guest.page.get_by_role("button", name="Continue from here").click()
    expect(guest.page.locator("h1")).to_contain_text("(fork)")
    expect(guest.page.locator(".said")).to_have_count(1)
    assert file_of(guest).read_text() == ("one\n" if files else "two\n")


def test_files_that_a_person_has_changed_are_named(guest):
    file_of(guest).write_text("by hand\n")
    guest.page.locator(SLIDER).fill("1")
    guest.page.get_by_role("button", name="Continue from here").click()
    expect(guest.page.locator(".quiet-note")).to_contain_text("Not restored: file (")
    assert file_of(guest).read_text() == "by hand\n"


def test_a_step_that_is_not_loaded_yet_is_loaded_when_looked_at(serve, visit):
    server = serve([])
    session = "20260101-000000-0123456789abcdef0123456789abcdee"
    agent = Agent(llm=ScriptedLLM([f"Answer {n}." for n in range(120)]), sessions=server.folder / "sessions")
    for number in range(120):
        agent.run(f"Question {number}", session_id=session)
    guest = visit(server)
    guest.page.goto(f"{server.url}/#s={session}")
    guest.page.locator(SLIDER).focus()
    expect(guest.page.locator(SLIDER)).to_have_attribute("max", "120")
    guest.page.locator(SLIDER).fill("0")
    expect(guest.page.locator(".prose").last).to_have_text("Answer 0.")
    expect(guest.page.locator(".said")).to_have_count(1)
    expect(guest.page.locator(".past")).to_contain_text("No snapshots of files")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_message_that_is_written_in_the_past_says_where_it_goes(serve, visit, language):
    guest = visit(serve([call("put", text="one\n"), "First.", "Second.", "Third."]), locale=language)
    guest.say("Put one")
    guest.wait(".end")
    guest.say("Say two")
    guest.wait(".end", 2)
    guest.page.locator(SLIDER).fill("1")
    expect(guest.page.locator(".warning")).to_have_count(0)
    guest.page.fill("#message", "And now?")
    words = {
        "en": "Showing step 2. Your message goes to the end",
        "zh": "正在显示第 2 步。消息会发送到对话末尾。",
    }
    expect(guest.page.locator(".warning")).to_contain_text(words[language])
    guest.page.locator(".warning button").click()
    expect(guest.page.locator("h1")).to_contain_text("(fork)")
    expect(guest.page.locator(".warning")).to_have_count(0)
    expect(guest.page.locator("#message")).to_have_value("And now?")  # it came along
    guest.page.press("#message", "Enter")
    expect(guest.page.locator(".prose").last).to_have_text("Third.")
    assert guest.texts(".bubble") == ["Put one", "And now?"]
