"""Calls and messages on the page: what runs, what became of it, and what one can do with an answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pure_agent_loop.errors import LLMError
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import call

RELOAD = "() => import('/assets/store.js').then((store) => store.loadSessions())"


def test_a_running_call_shows_its_output_and_can_be_stopped(serve, visit):
    guest = visit(serve([call("count", name="never"), "unused"]))
    guest.say("Count")
    expect(guest.page.locator(".live pre")).to_have_text("one\ntwo\nthree")
    guest.page.locator(".live").get_by_role("button", name="Stop").click()
    guest.page.wait_for_selector(".end >> text=Stopped")
    expect(guest.page.locator(".call .time")).to_contain_text("stopped")


def test_a_call_that_cannot_work_says_why_and_that_nobody_was_asked(serve, visit):
    server = serve([call("edit_file", path="a.py", old_text="gone", new_text="x"), "Done."])
    guest = visit(server)
    guest.say("Edit it")
    guest.wait(".end")
    line = guest.page.locator(".call summary")
    expect(line).to_contain_text("The text is not there.")
    expect(line.locator(".time")).to_have_text("not asked")
    expect(line.locator(".tool")).to_have_text("Edit")
    with server.client() as client:  # what a page shows when the events are gone
        entries = client.get(f"/api/sessions/{guest.page.url.rpartition('=')[2]}").json()["entries"]
    assert [entry["unasked"] for entry in entries if entry["kind"] == "result"] == [True]
    guest.page.get_by_role("button", name="Inspect", exact=True).click()
    guest.page.get_by_role("button", name="Audit log", exact=True).click()
    expect(guest.page.locator(".requests .badge")).to_have_text("not asked")


def test_settled_calls_in_a_row_are_one_line(serve, visit):
    calls = [call("add", a=1, b=n) for n in range(4)]
    guest = visit(serve([calls, "Added."]))
    guest.say("Add")
    guest.wait(".end")
    expect(guest.page.locator(".calls > summary .tool")).to_have_text("4 calls")
    expect(guest.page.locator(".call")).to_have_count(0)
    guest.inspect("Timeline")
    guest.page.locator(".bar.tool").nth(2).press("Enter")
    guest.page.wait_for_selector(".calls .call[open] pre")
    expect(guest.page.locator(".call")).to_have_count(4)


def test_own_message_is_shown_after_scrolling_up(serve, visit):
    guest = visit(serve(["Line.\n\n" * 200, "Second."]))
    guest.say("Tell a lot")
    guest.wait(".end")
    guest.page.locator(".log").hover()
    guest.page.mouse.wheel(0, -4000)
    guest.page.wait_for_selector(".latest")
    guest.say("And now?")
    guest.wait(".end", 2)
    expect(guest.page.locator(".said").last).to_be_in_viewport()
    expect(guest.page.locator(".end").last).to_be_in_viewport()
    log, said = (guest.page.locator(part).last.bounding_box() for part in (".log", ".said"))
    assert 0 <= said["y"] - log["y"] <= log["height"] / 3  # the answer has the room below


def test_an_answer_is_copied_asked_for_again_and_forked(serve, visit):
    guest = visit(serve(["First.", "Second.", "Third."]), permissions=["clipboard-read", "clipboard-write"])
    guest.say("alpha")
    guest.wait(".end")
    guest.page.get_by_role("button", name="Copy answer").click()
    guest.page.get_by_role("button", name="Copied").wait_for()
    assert guest.page.evaluate("navigator.clipboard.readText()") == "First."
    guest.say("beta")
    guest.wait(".end", 2)
    guest.page.get_by_role("button", name="Fork from here").first.click()
    guest.page.wait_for_function("() => document.querySelectorAll('.said').length === 1")
    expect(guest.page.locator("h1")).to_have_text("alpha (fork)")
    guest.page.get_by_role("button", name="Retry").click()
    expect(guest.page.locator(".answer")).to_have_text("Third.")


def test_a_failed_run_can_be_tried_again(serve, visit):
    guest = visit(serve([LLMError("no such key", kind="auth"), "Better."]))
    guest.say("Hello")
    guest.page.locator(".error").get_by_role("button", name="Try again").click()
    expect(guest.page.locator(".answer")).to_have_text("Better.")


def test_the_list_names_conversations_and_finds_none(serve, visit):
    server = serve(["Hello."])
    with JsonlStore(server.folder / "sessions").open("20200101-000000-terminal") as log:
        log.append("run", {"task": "begun at the terminal"})
    guest = visit(server)
    guest.page.wait_for_selector(".session >> text=begun at the terminal")
    guest.page.get_by_role("searchbox").fill("zzzz")
    expect(guest.page.locator(".side nav")).to_contain_text("No match for “zzzz”")
    guest.page.get_by_role("searchbox").fill("")
    guest.row_menu("Rename")
    guest.page.get_by_label("Title").fill("My sums")
    guest.page.evaluate(RELOAD)  # the list comes anew while one types
    guest.page.get_by_role("button", name="Save", exact=True).click()
    guest.page.wait_for_selector(".session >> text=My sums")
    guest.page.locator(".session").click()
    guest.page.locator("h1").get_by_role("button").click()
    guest.page.locator("h1 input").fill("My other sums")
    guest.page.keyboard.press("Enter")
    guest.page.wait_for_selector(".session >> text=My other sums")
    expect(guest.page.locator("h1")).to_have_text("My other sums")


def test_a_conversation_is_pinned_and_found_by_its_answer(serve, visit):
    guest = visit(serve(["The capital is Bern."]))
    for number, text in enumerate(("Switzerland", "Second", "Third"), 1):
        guest.page.get_by_role("button", name="New conversation").click()
        guest.say(text)
        guest.wait(".end")
        guest.wait(".sessions li", number)
    titles = guest.page.locator(".sessions .title")
    expect(titles).to_have_text(["Third", "Second", "Switzerland"])
    guest.page.locator(".sessions li").last.hover()
    guest.page.locator(".sessions li .icon").last.click()
    guest.page.get_by_role("button", name="Pin", exact=True).click()
    expect(titles).to_have_text(["Switzerland", "Third", "Second"])
    expect(guest.page.locator(".day")).to_have_text(["Pinned", "Today"])
    guest.page.reload()
    expect(titles).to_have_text(["Switzerland", "Third", "Second"])
    guest.page.get_by_role("searchbox").fill("bern")
    expect(guest.page.locator(".found")).to_have_text("3 found for “bern”")
    expect(titles.first).to_have_text("SwitzerlandThe capital is Bern.")


def test_a_starter_begins_a_conversation(serve, visit):
    guest = visit(serve(["It rains."], limits={"starters": ["Tell me the weather", "Write a poem"]}))
    guest.page.get_by_role("button", name="Tell me the weather").click()
    expect(guest.page.locator(".said")).to_contain_text("Tell me the weather")
    expect(guest.page.locator(".answer")).to_contain_text("It rains.")


def test_an_agent_has_its_own_starters(serve, visit):
    guest = visit(serve(["Sorted."], limits={"starters": ["Write a poem"]}))
    shown = guest.page.locator(".starters button")
    expect(shown).to_have_text(["Write a poem"])
    guest.page.evaluate("() => import('/assets/store.js').then((store) => store.chooseAgent('other'))")
    expect(shown).to_have_text(["Sort the mail"])
    shown.click()
    expect(guest.page.locator(".answer")).to_have_text("Sorted.")


def test_an_agent_without_a_name_is_not_called_default(serve, visit):
    guest = visit(serve([], name="default"))
    expect(guest.page.locator("#message")).to_have_attribute("placeholder", "Ask anything")


def test_the_list_leaves_out_the_sessions_of_subagents(serve, visit):
    server = serve([])
    ids = [
        "20200101-trip",
        "20200101-trip.explore-0a1b2c",
        "20200101-gone.explore-0a1b2c",
        "20200101-trip.plan-b",
    ]
    for name in ids:
        with JsonlStore(server.folder / "sessions").open(name) as log:
            log.append("run", {"task": name})
    guest = visit(server)
    expect(guest.page.locator(".session .title")).to_have_count(3)
    with server.client() as client:
        listed = {found["id"] for found in client.get("/api/sessions").json()["sessions"]}
        assert listed == {*ids} - {"20200101-trip.explore-0a1b2c"}
        assert client.get("/api/sessions/20200101-trip.explore-0a1b2c").status_code == 200


def test_a_plan_is_a_list_in_its_place(serve, visit):
    def plan(status):
        return call("todo_write", items=[{"task": "Look", "status": status}])

    guest = visit(serve([plan("in_progress"), call("add", a=1, b=2), plan("done"), "Done."]))
    guest.say("Go")
    guest.wait(".end")
    expect(guest.page.locator(".todo")).to_have_count(1)
    expect(guest.page.locator(".todo li")).to_have_text("☑Look")


TRIAL = """() => import("/assets/store.js").then((store) => {
  const event = (type, data) => ({ type, data, run: "S:1", step: 1, timestamp: Date.now() / 1000 - 3 });
  const call = { tool: "shell", call_id: "c" };
  store.current.value = "S";
  window.take = (type, data) => store.view.value.take([event(type, { ...call, ...data })]);
  window.take("run_start", { agent: "helper", task: "Build", attempt: 1 });
  window.take("part", { part: { type: "tool", state: "pending", ...call, input: { command: "make all" } } });
  window.take("progress", { text: "1 of 2\\n2 of 2\\n" });
})"""


def test_a_command_that_is_tried_is_seen_and_its_output_is_void(serve, visit):
    guest = visit(serve(["unused"]))
    guest.page.evaluate(TRIAL)
    expect(guest.page.locator(".call.running")).to_contain_text("Running make all")
    expect(guest.page.locator(".call .time")).to_contain_text("3 s")
    expect(guest.page.locator(".live pre")).to_have_text("1 of 2\n2 of 2")
    expect(guest.page.locator(".live").get_by_role("button", name="Stop")).to_be_visible()
    guest.page.evaluate("window.take('action', { args: { command: 'make all' } })")
    expect(guest.page.locator(".live pre")).to_have_text("")
    done = "{ result: '[exit code 2]', duration: 4, command: { exit_code: 2, tail: 'no rule' } }"
    guest.page.evaluate(f"window.take('observation', {done})")
    expect(guest.page.locator(".call.failed .time")).to_have_text("exit 2 · 4 s")
    expect(guest.page.locator(".tail")).to_have_text("no rule")


def test_text_files_are_sent_as_text(serve, visit):
    seen = []

    def model(request):
        seen.append(request.messages[-1]["content"])
        return "A table."

    guest = visit(serve(model))
    table = {"name": "data.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,```"}
    picture = {"name": "x.bin", "mimeType": "application/octet-stream", "buffer": b"\x00\xff"}
    guest.page.set_input_files("#files", [table, picture])
    expect(guest.page.locator(".media .file")).to_have_text("data.csv")
    expect(guest.page.get_by_role("alert")).to_contain_text("x.bin")
    guest.say("What is this?")
    guest.wait(".end")
    assert seen == ["What is this?\n\ndata.csv:\n\n````\na,b\n1,```\n````"]


def test_retry_counts_down_on_one_line_that_goes_at_the_end(serve, visit):
    soon, later = (LLMError("busy", kind="overloaded", status=503, retry_after=wait) for wait in (0.01, 50))
    guest = visit(serve([soon, later, "Better."]))
    guest.say("Hello")
    note = guest.page.locator(".note >> text=Trying again")
    expect(note).to_have_text(
        re.compile(r"The model server failed \(503\)\. Trying again in \d\d s \(3 of \d\)")
    )
    expect(guest.page.locator(".working")).to_be_hidden()  # one statement is enough
    guest.page.get_by_role("button", name="Stop", exact=True).click()
    guest.wait(".end")
    expect(note).to_have_count(0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_failure_says_what_happened_and_what_to_do_and_folds_the_rest(serve, visit, language):
    refused = LLMError("http://x/v1 said: Incorrect API key", kind="auth", status=401)
    guest = visit(serve([refused]), locale=language)
    guest.say("Hello")
    failure = guest.page.get_by_role("alert")
    titles = {"en": "The key was refused (401).", "zh": "密钥被拒绝 (401)。"}
    expect(failure.locator("p").first).to_have_text(titles[language])
    expect(failure.locator(".fix")).to_be_visible()
    expect(failure.get_by_text("Incorrect API key")).to_be_hidden()
    failure.locator("summary").click()
    expect(failure.get_by_text("Incorrect API key")).to_be_visible()


def test_command_shows_its_output_without_notes_for_the_model(serve, visit):
    guest = visit(serve([call("shell", command="make"), "It failed."]))
    guest.say("Make it")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    guest.page.locator(".call summary").click()
    expect(guest.page.locator(".call .time")).to_contain_text("exit 2")
    expect(guest.page.locator(".call .inside pre")).to_contain_text("one\ntwo")
    expect(guest.page.locator(".call .inside")).not_to_contain_text("exit code")


@pytest.mark.parametrize(
    ("what", "command", "shown"),
    [
        ("start", "null", "in the background"),
        ("start", "{ exit_code: 0, lines: 0, tail: '' }", ""),
        ("read", "null", "new output"),
        ("end", "null", "ended"),
        ("unknown", "null", ""),
    ],
)
def test_a_background_command_says_that_it_runs_and_how_it_ended(serve, visit, what, command, shown):
    guest = visit(serve(["unused"]))
    guest.page.evaluate(TRIAL)
    guest.page.evaluate(
        f"window.take('action', {{ args: {{ command: 'make serve', background: '{what}' }} }})"
    )
    guest.page.evaluate(f"window.take('observation', {{ result: 'up', duration: 0.2, command: {command} }})")
    expect(guest.page.locator(".call.done .time")).to_have_text(shown)


CHANGE = (
    "Edited shop.py\n@@ -9,5 +9,6 @@\n \n def discount(total, percent):\n"
    "-    return total - total * percent\n"
    "+    check(percent)\n+    return total - total * percent / 100\n \n \n"
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_diff_has_lines_around_and_marks_the_words_that_differ(serve, visit, language):
    server = serve(
        [call("edit_file", path="shop.py", old_text="percent\n", new_text="part / 100\n"), "Done."]
    )
    lines = [f"line {number}" for number in range(1, 6)]
    text = "\n".join([*lines, "return total - total * percent", "", "def tax():", "    pass", "    end", ""])
    (server.folder / "work" / "shop.py").write_text(text)
    guest = visit(server, locale=language)
    guest.say("Mend it")
    guest.wait(".card .diff")
    rows = [each.rstrip("\n") for each in guest.page.locator(".card .row").all_text_contents()]
    assert [row.split(maxsplit=1)[0] for row in rows] == ["3", "4", "5", "6", "6", "7", "8", "9"]
    assert rows[3:5] == ["6 -return total - total * percent", "6 +return total - total * part / 100"]
    assert guest.page.locator(".card .removed mark").all_text_contents() == ["percent"]
    assert "".join(guest.page.locator(".card .added mark").all_text_contents()) == "part / 100"
    guest.page.locator(".card .primary").click()
    guest.wait(".end")


def test_a_diff_of_a_done_call_is_that_of_its_result(serve, visit):
    guest = visit(serve(["unused"]))
    guest.page.evaluate(TRIAL.replace('"shell"', '"edit_file"'))
    args = {"path": "shop.py", "old_text": "* percent\n", "new_text": "* percent / 100\n"}
    guest.page.evaluate(
        "([args, result]) => { window.take('action', { args }); window.take('observation', { result }); }",
        [args, CHANGE],
    )
    guest.page.locator(".call summary").click()
    guest.wait(".row", 4)  # what draws a diff is loaded with the first one
    rows = [each.rstrip("\n") for each in guest.page.locator(".row").all_text_contents()]
    assert rows[1:4] == [
        "10  def discount(total, percent):",
        "11 -    return total - total * percent",
        "11 +    check(percent)",
    ]
    assert "".join(guest.page.locator("mark").all_text_contents()) == " / 100"
    cut = CHANGE.replace(
        "+    check(percent)\n", ""
    )  # fewer rows than the head says: drawn from the arguments
    guest.page.evaluate("(result) => window.take('observation', { result })", cut)
    assert [each.strip() for each in guest.page.locator(".row").all_text_contents()] == [
        "11 -* percent",
        "11 +* percent / 100",
    ]


def test_menu_without_changes_has_no_undo(serve, visit):
    guest = visit(serve(["Hello.", call("put", text="one\n"), "Written."]))
    more = guest.page.get_by_role("button", name="More", exact=True)
    undo = guest.page.get_by_role("button", name="Undo changes", exact=True)
    guest.say("Hello")
    guest.wait(".end")
    expect(guest.page.locator(".end")).to_contain_text("1 step ·")
    more.click()
    expect(guest.page.get_by_role("button", name="Fork", exact=True)).to_be_visible()
    expect(undo).to_have_count(0)
    guest.page.keyboard.press("Escape")
    guest.say("Write it")
    guest.wait(".end", 2)
    more.click()
    undo.click()
    expect(guest.page.locator(".quiet-note")).to_contain_text("Reverted file")
    more.click()
    expect(undo).to_have_count(0)


def test_forks_of_one_conversation_have_names_of_their_own(serve, visit):
    server = serve(["First."])
    guest = visit(server)
    guest.say("alpha")
    guest.wait(".end")
    for number, name in enumerate(("alpha (fork)", "alpha (fork 2)"), 2):
        guest.menu("Fork")
        expect(guest.page.locator("h1")).to_have_text(name)
        expect(guest.page.locator(".sessions li")).to_have_count(number)
    names = {"alpha", "alpha (fork)", "alpha (fork 2)"}
    assert set(guest.texts(".session .title")) == names


def test_a_title_has_two_lines_on_a_phone(serve, visit):
    guest = visit(serve(["Yes."]), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    guest.say("Explain how the discount is counted for a basket")
    guest.wait(".end")
    title = guest.page.locator("h1 .title > span")
    assert title.evaluate("(title) => title.scrollHeight <= title.clientHeight")  # all of it
    assert guest.page.locator("h1").bounding_box()["height"] <= 48


def test_times_are_short_and_of_another_day_have_the_date(serve, visit):
    guest = visit(serve(["unused"]), timezone_id="UTC")
    clock = "(time) => import('/assets/words.js').then((words) => words.clock(time))"
    now = guest.page.evaluate("() => new Date().setHours(18, 22) / 1000")
    assert guest.page.evaluate(clock, now) == "6:22 PM"
    assert re.fullmatch(r"[A-Z][a-z]{2} \d+, 6:22 PM", guest.page.evaluate(clock, now - 86400))
