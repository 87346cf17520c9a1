"""What the page shows of the past: from records, as it was live, and in versions."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect
from tests.server.browser import Visit
from tests.server.test_page import PIXEL

from pure_agent_loop import Agent
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.testing import Gate, ScriptedLLM, answer, call, deltas

CSV = b"name,price\nlamp,30\nchair,90\n"
# Scroll up as a person does, again and again, until the first message has this text.
SCROLL_UP = """(text) => {
    const log = document.querySelector(".log");
    log.dispatchEvent(new WheelEvent("wheel"));
    log.scrollTop = 0;
    return document.querySelector(".bubble").innerText === text;
}"""


def shown(guest):
    """Everything in the log, without durations and costs of the moment."""
    texts = (re.sub(r"\d[\d.]* (s|min)( · )?", "", each) for each in guest.texts(".log .item"))
    return [re.sub(r"\s+", " ", each).strip() for each in texts if each]


def listen(guest):
    """The types of all events that the page receives from now on."""
    types: list[str] = []
    guest.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: note(types, frame)))
    return types


def note(types, frame):
    types.append(json.loads(frame).get("type"))


def attach(guest, *files):
    guest.page.set_input_files(
        "#files", [{"name": name, "mimeType": kind, "buffer": data} for name, kind, data in files]
    )
    guest.wait(".media li", len(files))


def open_versions(guest, words):
    expect(guest.page.locator(".versions > span")).to_have_text(words)


def test_the_past_is_shown_from_records_as_it_was(serve, visit):
    script = [
        answer("It is 42.", reasoning="Let me think."),
        [call("add", a=1, b=2), call("add", a=3, b=4), call("shell", command="make")],
        "Done.",
        call("danger", what="the disk"),
        "As you like.",
        call("todo_write", items=[{"task": "one", "status": "done"}, {"task": "two", "status": "pending"}]),
        "Planned.",
        "The end.",
    ]
    guest = visit(serve(script))
    guest.say("Think")
    guest.wait(".end")
    guest.say("Calculate")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end", 2)
    guest.say("Dare")
    guest.wait(".card")
    guest.say("Take the other disk")
    guest.wait(".end", 3)
    guest.say("Plan")
    guest.wait(".end", 4)
    guest.say("End")
    guest.wait(".end", 5)
    live = shown(guest)
    assert "Take the other disk" in guest.texts(".bubble")
    assert guest.texts(".call.denied .time") == ["denied"]
    types = listen(guest)
    guest.page.reload()
    guest.wait(".end", 5)
    assert shown(guest) == live
    guest.shot("records")
    assert {"thought", "run_end"} <= set(types)
    assert not {each for each in types if each and each.endswith("_delta")}
    assert types.count("run_start") == 1  # earlier runs are in the records
    assert not any("Setup" in each for each in live)
    guest.page.locator(".call.denied summary").click()
    assert "PermissionDenied" not in guest.page.locator(".call.denied").inner_text()


def test_a_long_conversation_opens_at_its_end(serve, visit):
    server = serve([])
    session = "20260101-000000-0123456789abcdef0123456789abcdef"
    agent = Agent(llm=ScriptedLLM([f"Answer {n}." for n in range(120)]), sessions=server.folder / "sessions")
    for number in range(120):
        agent.run(f"Question {number}", session_id=session)
    guest = visit(server)
    guest.page.goto(f"{server.url}/#s={session}")
    guest.wait(".answer")
    assert guest.texts(".bubble")[-1] == "Question 119"
    asked = [each for each in guest.requests if f"/api/sessions/{session}?" in each]
    assert len(asked) == 1
    assert "before=" in asked[0]
    guest.page.wait_for_function(SCROLL_UP, arg="Question 0", polling=100)
    assert len(set(guest.texts(".bubble"))) == 120
    expect(guest.page.locator(".earlier")).to_have_count(0)


def test_what_was_sent_stays_as_it_was_sent(serve, visit):
    gate = Gate()
    server = serve([deltas(gate, "A lamp."), "A chair.", "Both."])
    guest = visit(server)

    def is_shown():
        expect(guest.page.locator(".bubble").last).to_contain_text("what is this?")
        expect(guest.page.locator(".bubble .chip")).to_have_text("data.csv 2 rows")
        assert "lamp,30" not in guest.page.locator(".bubble").last.inner_text()
        guest.page.wait_for_function("() => document.querySelector('.bubble img')?.naturalWidth === 1")

    attach(guest, ("receipt.png", "image/png", PIXEL), ("data.csv", "text/csv", CSV))
    guest.say("what is this?")
    is_shown()
    guest.wait(".working")
    assert "Reading your message…" in guest.page.locator(".working").inner_text()
    is_shown()
    guest.page.reload()
    guest.wait(".working")
    is_shown()
    gate.open()
    guest.wait(".end")
    guest.page.reload()
    guest.wait(".end")
    is_shown()
    assert guest.texts(".sessions .title") == ["what is this?"]
    guest.page.get_by_role("button", name="Retry").click()
    open_versions(guest, "2/2")
    guest.wait(".end")
    is_shown()
    guest.page.focus("#message")
    guest.page.keyboard.press("ArrowUp")
    editor = guest.page.locator(".editing textarea")
    expect(editor).to_have_value("what is this?")
    editor.press("End")
    editor.press("Shift+Enter")
    editor.type("Now!")
    editor.press("Enter")
    open_versions(guest, "3/3")
    guest.wait(".end")
    is_shown()
    assert guest.texts(".bubble")[0].endswith("what is this?\nNow!")
    with server.client() as client:
        session = client.get("/api/sessions").json()["sessions"][0]["id"]
        document = client.get(f"/api/sessions/{session}/export?form=html").text
    assert '<img src="data:image/png;base64,' in document
    assert "<summary>data.csv (3 lines)</summary>" in document


def test_edits_and_retries_are_versions_of_one_conversation(serve, visit):
    server = serve([f"Answer {number}." for number in range(9)])
    guest = visit(server)
    for number, text in enumerate(("one", "two", "three"), 1):
        guest.say(text)
        guest.wait(".end", number)
    assert guest.page.locator(".versions").count() == 0
    guest.page.locator(".said").nth(1).get_by_role("button").click()
    guest.page.fill(".editing textarea", "2b")
    guest.page.press(".editing textarea", "Enter")
    open_versions(guest, "2/2")
    guest.wait(".end", 2)
    assert guest.texts(".bubble") == ["one", "2b"]
    guest.page.get_by_role("button", name="Retry").last.click()
    open_versions(guest, "3/3")
    expect(guest.page.locator(".sessions li")).to_have_count(1)
    expect(guest.page.get_by_role("button", name="Next version")).to_be_disabled()
    guest.page.get_by_role("button", name="Previous version").click()
    open_versions(guest, "2/3")
    guest.page.get_by_role("button", name="Previous version").click()
    open_versions(guest, "1/3")
    guest.wait(".end", 3)
    assert guest.texts(".bubble") == ["one", "two", "three"]
    guest.page.get_by_role("button", name="Next version").focus()
    guest.shot("versions")
    with server.client() as client:
        (info,) = client.get("/api/sessions").json()["sessions"]
        assert info["title"] == "one"
        assert len(info["versions"]) == 2
        assert client.post(f"/api/sessions/{info['id']}/title", json={"title": "All"}).status_code == 204
        for session in (info["id"], *info["versions"]):
            assert client.get(f"/api/sessions/{session}").json()["title"] == "All"
        assert client.delete(f"/api/sessions/{info['id']}").status_code == 204
        assert client.get("/api/sessions").json()["sessions"] == []
        assert client.get(f"/api/sessions/{info['versions'][0]}").status_code == 404


def test_thinking_ends_at_the_first_word(serve, visit):
    gate, word = Gate(), Gate()
    guest = visit(serve([deltas(Delta(reasoning="Hm."), gate, "So ", word, "it is.")]))
    guest.say("Why?")
    guest.wait(".reasoning")
    assert guest.texts(".reasoning summary")[0].startswith("Thinking…")
    gate.open()
    guest.wait(".answer.open")
    assert guest.texts(".reasoning summary")[0].startswith("Thought")
    word.open()
    guest.wait(".end")
    assert "0.0 s" not in guest.page.locator(".reasoning").inner_text()


def test_thinking_is_not_shown_to_everybody(serve, visit):
    server = serve([answer("Yes.", reasoning="Hm.")], people={"ada": ["use"]})
    guest = visit(server)
    guest.context.clear_cookies()
    guest.page.goto("about:blank")
    guest.page.goto(f"{server.url}/#token=ada-token-0123456789")
    guest.say("Why?")
    guest.wait(".end")
    assert guest.texts(".answer") == ["Yes."]
    assert guest.page.locator(".reasoning").count() == 0
    guest.page.reload()
    guest.wait(".end")
    assert guest.texts(".answer") == ["Yes."]
    assert guest.page.locator(".reasoning").count() == 0


def test_a_palette_and_keys(serve, visit):
    guest = visit(serve(["First.", "Second."]))
    guest.say("refund please")
    guest.wait(".end")
    assert guest.page.title() == "refund please"
    headings = guest.page.locator(".log :is(h2, h3)")
    assert [each.strip() for each in headings.all_text_contents()] == ["You", "helper"]
    expect(guest.page.locator("article.answer")).to_have_attribute("aria-label", "helper")
    guest.page.click(".new")
    expect(guest.page.locator(".bubble")).to_have_count(0)
    guest.page.keyboard.press("Control+k")
    guest.wait(".palette li")
    guest.shot("palette")
    guest.page.keyboard.type("refund")
    expect(guest.page.locator(".palette li")).to_have_count(1)
    guest.page.keyboard.press("Enter")
    guest.wait(".end")
    expect(guest.page.locator("dialog")).to_have_count(0)
    guest.page.locator(".log").focus()
    guest.page.keyboard.press("?")
    guest.wait(".keys div", 7)
    guest.shot("keys")
    guest.page.keyboard.press("Escape")
    expect(guest.page.locator("dialog")).to_have_count(0)
    guest.page.keyboard.press("Control+k")
    guest.page.keyboard.type("switch to other")
    guest.page.keyboard.press("Enter")
    expect(guest.page.locator(".picker")).to_contain_text("other")
    assert guest.page.evaluate("window.violations") == []


def test_an_undone_edit_says_so(serve, visit):
    server = serve([call("edit_file", path="a.py", old_text="x = 1\n", new_text="x = 2\n"), "Changed."])
    (server.folder / "work" / "a.py").write_text("x = 1\n")
    guest: Visit = visit(server)
    guest.say("Edit")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    line = guest.page.locator(".call summary")
    expect(line).not_to_contain_text("undone")
    guest.menu("Undo changes")
    expect(line).to_contain_text("(undone)")
    guest.page.reload()
    expect(line).to_contain_text("(undone)")
    line.click()
    expect(guest.page.locator(".call .diff")).to_have_count(1)
    expect(guest.page.locator(".call .code")).to_have_count(0)
