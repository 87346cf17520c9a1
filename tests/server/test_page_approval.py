"""Approvals on the page: what a card shows, who may answer it, and what becomes of a late answer."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect
from tests.server.browser import Visit

from pure_agent_loop import Permission
from pure_agent_loop.durable import Engine
from pure_agent_loop.session import SessionManager
from pure_agent_loop.testing import call

OLD = "def discount(total, percent):\n    return total - total * percent\n"
NEW = "def discount(total, percent):\n    check(percent)\n    return total - total * percent / 100\n"
EDIT = call("edit_file", path="src/pricing.py", old_text=OLD, new_text=NEW)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def signed_in(browser, server, name, **about):
    guest = Visit(browser, server, **about)
    guest.page.goto(f"{server.url}/#token={name}-token-0123456789")
    guest.page.wait_for_selector("#message")
    return guest


@pytest.fixture(params=["here", "engine"])
def place(request, tmp_path):
    return f"sqlite:///{tmp_path}/runs.sqlite" if request.param == "engine" else None


def test_a_card_goes_at_once_and_the_second_answer_is_a_quiet_note(serve, visit, place):
    server = serve([call("danger", what="one"), call("hold", name="gate"), "Done."], database=place)
    guest = visit(server)
    guest.say("Do one")
    guest.wait(".card")
    second = guest.window()
    second.goto(guest.page.url)
    guest.wait(".card", page=second)
    guest.page.evaluate("""() => import("/assets/store.js").then((store) => {
        window.asked = store.questions.value[0];
    })""")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    for page in (guest.page, second):
        expect(page.locator(".card")).to_have_count(0)
        page.wait_for_selector(".call.running >> text=hold")
        assert page.locator(".card").count() == 0
    with server.client() as client:
        session = guest.page.url.rpartition("=")[2]
        for path in ("/api/questions", f"/api/sessions/{session}/questions"):
            assert client.get(path).json() == {"questions": []}
    guest.page.evaluate("""() => import("/assets/store.js").then((store) => {
        store.answer(window.asked, "deny");
    })""")
    expect(guest.page.locator(".quiet-note")).to_contain_text("owner allowed this at")
    expect(guest.page.get_by_role("alert")).to_have_count(0)
    (server.folder / "gate").touch()
    guest.wait(".end")
    assert server.effects().count("danger one") == 1


def test_a_card_is_small_and_shows_the_change_once(serve, visit):
    for about in ({}, PHONE):
        guest = visit(serve([EDIT, "Done."]), **about)
        guest.say("Mend it")
        card = guest.page.locator(".card")
        expect(card.locator("h2")).to_have_text("Edit src/pricing.py?")
        expect(card.locator(".counts")).to_have_text("+2 −1")
        expect(card).to_be_focused()  # the message field is empty
        assert card.evaluate("card => getComputedStyle(card).outlineOffset") == "-2px"
        assert card.locator(".row").count() == 4
        expect(card).not_to_contain_text("old_text")
        assert card.bounding_box()["height"] <= 320
        for name in ("Allow", "Allow edits in src/", "Deny"):
            expect(card.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
        expect(card.locator(".since")).to_contain_text("waiting")
        expect(card).to_contain_text("Asks because of: the rule 'edit_file'")
        card.get_by_text("Details").click()
        expect(card).to_contain_text("old_text")
        assert (
            guest.page.evaluate("document.documentElement.scrollWidth") <= guest.page.viewport_size["width"]
        )
        assert guest.page.title().startswith("(1) ")
        card.focus()
        guest.page.keyboard.press("Enter")
        guest.wait(".end")
        expect(guest.page.locator("#message")).to_be_focused()
        expect(guest.page.locator(".call .tool")).to_have_text("Edited")
        guest.page.wait_for_function("() => document.title === 'Mend it'")


def test_a_card_does_not_take_the_focus_from_who_writes(serve, visit):
    server = serve(
        [call("hold", name="gate"), call("danger", what="it"), call("danger", what="more"), "Done."]
    )
    guest = visit(server)
    guest.say("Do it")
    guest.page.wait_for_selector(".call.running >> text=hold")
    field, keys = guest.page.locator("#message"), guest.page.keyboard
    field.press("N")
    (server.folder / "gate").touch()
    guest.wait(".card")
    expect(field).to_be_focused()
    keys.type("o")
    expect(field).to_have_value("No")
    keys.press("Enter")
    expect(guest.page.locator(".card h2")).to_contain_text("danger")
    expect(guest.page.locator(".said")).to_have_count(2)
    expect(guest.page.locator(".card")).to_be_focused()
    keys.type("Not")  # a message begins: no key of it is an answer
    expect(field).to_be_focused()
    expect(field).to_have_value("Not")


def test_the_next_card_has_the_focus_also_if_it_comes_before_the_reply(serve, visit):
    guest = visit(serve([call("danger", what="it"), call("danger", what="more"), "Done."]))
    held, answers = [], []

    def hold_the_reply(side):
        def forward(text):
            is_reply = answers and json.loads(text).get("control") == "reply"
            held.append((side, text)) if is_reply else side.send(text)

        side.connect_to_server().on_message(forward)

    guest.page.route_web_socket("**/ws?*", hold_the_reply)
    guest.page.reload()
    guest.say("Do it")
    guest.wait(".card")
    answers.append("Not so")
    guest.say(answers[0])
    expect(guest.page.locator(".card .why + *")).to_contain_text("more")
    expect(guest.page.locator(".card")).to_be_focused()
    for side, text in held:
        side.send(text)
    expect(guest.page.locator("#message")).to_have_value("")
    expect(guest.page.locator(".card")).to_be_focused()


def test_a_tool_asks_in_its_own_words(serve, visit, place):
    server = serve([call("refund", order="A-1", amount=89.9), "Done."], database=place)
    guest = visit(server)
    guest.page.evaluate("""() => { window.told = []; window.Notification = class {
        static permission = "granted"; constructor(title, about) { window.told.push(about.body); } };
        Object.defineProperty(document, "hidden", { get: () => true }); }""")
    guest.say("Give it back")
    expect(guest.page.locator(".card h2")).to_have_text("Refund 89.9 for A-1?")
    guest.page.wait_for_function("() => document.title === '(1) Refund 89.9 for A-1?'")
    guest.page.wait_for_function("() => window.told.length")
    assert guest.page.evaluate("window.told") == ["Refund 89.9 for A-1?"]
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    tool = guest.page.locator(".call .tool")
    expect(tool).to_have_text("Refunding A-1…")
    (server.folder / "A-1").touch()
    expect(tool).to_have_text("Refunding A-1")
    guest.wait(".end")


@pytest.mark.parametrize("size", [(844, 390), (390, 400), (667, 375), (360, 330)])
def test_the_buttons_of_a_card_are_in_reach_on_a_low_screen(serve, visit, size):
    """A turned phone, or one with an open keyboard."""
    lines = "".join(f"line {number}\n" for number in range(400))
    edit = call("edit_file", path="src/a/file/with/a/long/name/pricing.py", old_text=OLD, new_text=lines)
    viewport = {"viewport": {"width": size[0], "height": size[1]}, "has_touch": True, "is_mobile": True}
    guest = visit(serve([edit, "Done."]), **viewport)
    guest.say("Mend it")
    card = guest.page.locator(".card")
    expect(card.locator(".choices button")).to_have_count(3)
    for button in card.locator(".choices button").all():
        expect(button).to_be_in_viewport(ratio=1)
        button.click(trial=True)  # nothing covers it
    shown = guest.page.locator(".questions").bounding_box()["height"]
    assert shown - card.locator(".choices").bounding_box()["height"] >= 40  # something of what is asked
    more = card.locator("> .link")  # counts all of them
    assert 402 >= int(more.text_content().split()[1]) >= 390
    more.click()
    expect(card.locator(".diff .link")).to_have_text("Show 202 more lines")
    card.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")


def test_long_command_states_its_hidden_part(serve, visit):
    command = (
        "set -e\n" + "\n".join(f"make part-{number} of-a-long-build" for number in range(18)) + "\nrm -rf /"
    )
    for about in ({}, PHONE):
        guest = visit(
            serve([call("shell", command=command.replace("set -e", "set -e " + "x" * 80)), "Done."]), **about
        )
        guest.say("Build it")
        card = guest.page.locator(".card")
        expect(card.locator("h2")).to_have_text("Run set -e…?")
        assert card.locator("h2").evaluate("(title) => title.scrollWidth <= title.clientWidth")
        more = card.get_by_role("button", name="more lines")
        hidden = int(more.inner_text().split()[1])
        row, shown = 18, card.locator(".what").bounding_box()["height"]
        assert abs(card.locator(".what > div").bounding_box()["height"] - shown - hidden * row) <= row
        guest.shot("command")
        more.click()
        expect(more).to_have_count(0)
        card.get_by_role("button", name="Deny", exact=True).scroll_into_view_if_needed()
        assert card.locator(".what").evaluate("(box) => box.scrollHeight <= box.clientHeight")
        card.get_by_role("button", name="Deny", exact=True).click()


def test_a_command_is_shown_once_and_its_parts_on_request(serve, visit):
    guest = visit(serve([call("shell", command="make build && make test"), "Done."]))
    guest.say("Build it")
    card = guest.page.locator(".card")
    expect(card.locator("h2")).to_have_text("Run make build && make test?")
    expect(card).to_have_attribute("aria-label", "Run make build && make test?")
    assert card.inner_text().count("make build") == 2  # the title, and all of it in its box
    card.get_by_text("Details").click()
    expect(card.locator(".commands li")).to_have_text(["make build", "make test"])
    box, details = card.bounding_box(), card.locator("details").bounding_box()
    assert (
        details["y"] + details["height"] <= box["y"] + box["height"]
    )  # all of it, without another scroll bar
    assert card.locator(".what").evaluate("(box) => box.scrollHeight <= box.clientHeight")


def test_the_whole_change_can_be_reached_in_approvals_on_a_phone(serve, browser):
    lines = "".join(f"line {number}\n" for number in range(30))
    edit = call("edit_file", path="src/a.py", old_text="a", new_text=lines)
    guest = Visit(browser, serve([edit, "Done."]), **PHONE).enter()
    guest.say("Mend it")
    guest.page.get_by_role("button", name="1 waiting").tap()
    card = guest.page.locator(".inbox .card")
    drawn = card.locator(".what").evaluate(
        "(box) => box.clientHeight / box.querySelector('.row').clientHeight"
    )
    assert drawn >= 20
    last = card.get_by_text("line 29")
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport()
    guest.close()


def test_a_message_while_a_call_waits_denies_it(serve, visit):
    seen = []

    def model(request):
        seen.append(str(request.messages[-1]["content"]))
        return EDIT if len(seen) == 1 else "As you like."

    guest = visit(serve(model))
    guest.say("Mend it")
    guest.wait(".card")
    expect(guest.page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    expect(guest.page.get_by_role("button", name="Deny and say this")).to_be_disabled()
    guest.say("Leave it, write a test")
    guest.wait(".end")
    assert "Leave it, write a test" in seen[1]
    expect(guest.page.locator(".call.denied .time")).to_have_text("denied")
    expect(guest.page.locator(".card")).to_have_count(0)


def test_a_waiting_run_can_be_stopped(serve, visit):
    guest = visit(serve([EDIT, "unused"]))
    guest.say("Mend it")
    guest.wait(".card")
    guest.page.get_by_role("button", name="Stop", exact=True).click()
    guest.page.wait_for_selector(".end >> text=Stopped")
    expect(guest.page.locator(".card")).to_have_count(0)
    guest.wait(".call.stopped")


def test_approver_has_an_inbox_and_others_no_live_buttons(serve, browser):
    server = serve([EDIT, "Done."], people={"ada": ["use"], "bob": ["use", "approve"]})
    ada, bob = signed_in(browser, server, "ada"), signed_in(browser, server, "bob", **PHONE)
    ada.say("Mend it")
    card = ada.page.locator(".card")
    expect(card).to_contain_text("Waiting for someone who may approve.")
    assert card.get_by_role("button").count() == 0
    expect(ada.page.locator(".call .time")).to_have_text("waiting for approval")
    expect(ada.page.get_by_text("waiting for you")).to_have_count(0)
    bob.page.get_by_role("button", name="1 waiting").tap()
    theirs = bob.page.locator(".inbox .card")
    expect(theirs.locator("h2")).to_have_text("Edit src/pricing.py?")
    expect(theirs.locator(".row.added")).to_have_count(2)
    expect(bob.page.locator(".inbox .since")).to_have_text(
        re.compile(r"ada · helper · “Mend it” · waiting \d+ s")
    )
    assert bob.page.evaluate("document.documentElement.scrollWidth") <= 390
    theirs.get_by_role("button", name="Allow", exact=True).tap()
    expect(bob.page.locator(".inbox")).to_contain_text("Nothing is waiting")
    ada.wait(".end")
    expect(card).to_have_count(0)
    expect(ada.page.locator(".call .by")).to_contain_text("bob allowed this at")
    for guest in (ada, bob):
        guest.close()


def test_an_answer_allows_calls_of_its_kind_also_in_the_inbox(serve, visit):
    def edit(path, new):
        return call("edit_file", path=path, old_text="a = 1\nb = 2\n", new_text=new)

    script = [edit("src/a.py", "b = 2\n"), edit("src/b.py", "a = 1\n"), edit("test.py", "c = 3\n"), "Done."]
    server = serve(script)
    (server.folder / "work" / "src").mkdir()
    (server.folder / "work" / "src" / "a.py").write_text("# one\n# two\na = 1\nb = 2\n")
    guest = visit(server)
    guest.say("Edit them")
    guest.page.get_by_role("button", name="1 waiting").click()
    card = guest.page.locator(".inbox .card")
    expect(card.locator(".hunk")).to_have_text("@@ -1,4 +1,3 @@\n")
    expect(card.locator(".row .number")).to_have_text(["1 ", "2 ", "3 ", "3 "])
    card.get_by_role("button", name="Allow edits in src/").click()
    expect(card.locator("h2")).to_have_text("Edit test.py?")  # that one is of another kind
    expect(card.get_by_role("button", name="Allow edits of test.py")).to_be_visible()
    card.get_by_role("button", name="Allow", exact=True).click()
    guest.page.locator(".session").click()
    guest.wait(".end")
    expect(guest.page.locator(".call .by")).to_have_count(2)


def test_calls_of_two_conversations_may_have_one_id(serve, visit):
    danger = call("danger", what="one")  # the ids count from 1 in each history
    guest = visit(serve([danger, danger, "Done."]))
    for number in (1, 2):
        guest.page.get_by_role("button", name="New conversation").click()
        guest.say(f"Do {number}")
        expect(guest.page.get_by_role("button", name=f"{number} waiting")).to_be_visible()
    guest.page.get_by_role("button", name="2 waiting").click()
    cards = guest.page.locator(".inbox .card")
    expect(cards).to_have_count(2)
    cards.first.get_by_role("button", name="Allow", exact=True).click()
    expect(cards).to_have_count(1)
    guest.page.reload()
    expect(cards).to_have_count(1)


def test_messages_to_a_run_of_the_engine_wait_for_its_end(serve, visit, tmp_path):
    script = [call("hold", name="gate"), "Done.", "First.", "Third."]
    server = serve(script, database=f"sqlite:///{tmp_path}/runs.sqlite")
    guest = visit(server)
    guest.say("Hold")
    guest.wait(".call.running")
    for text in ("One", "Two", "Three"):
        guest.say(text)
    waits, field = guest.page.locator(".said.unsent .bubble"), guest.page.locator("#message")
    expect(waits).to_have_text(["One", "Two", "Three"])
    expect(field).to_have_value("")
    field.fill("Half")
    guest.page.get_by_role("button", name="Take back").nth(1).click()
    expect(field).to_have_value("Two\n\nHalf")
    guest.page.reload()
    expect(waits).to_have_text(["One", "Three"])
    (server.folder / "gate").touch()
    guest.wait(".end", 3)
    assert guest.texts(".bubble") == ["Hold", "One", "Three"]
    assert guest.texts(".answer") == ["Done.", "First.", "Third."]
    expect(waits).to_have_count(0)
    expect(field).to_have_value("Two\n\nHalf")


def with_message_waiting(serve, visit, script, folder):
    """Return a server on a database, and a guest whose second message waits for the end of a run."""
    server = serve(script, database=f"sqlite:///{folder}/runs.sqlite")
    guest = visit(server)
    guest.say("Hold")
    guest.wait(".call.running")
    guest.say("And then?")
    guest.wait(".said.unsent")
    return server, guest


def test_a_message_waits_for_a_run_that_waits_for_approval(serve, visit, tmp_path):
    script = [call("hold", name="gate"), call("danger", what="one"), "Done.", "Next."]
    server, guest = with_message_waiting(serve, visit, script, tmp_path)
    (server.folder / "gate").touch()
    guest.wait(".card")
    guest.page.get_by_role("button", name="New conversation").click()
    expect(guest.page.locator(".said")).to_have_count(0)
    guest.page.locator(".session .title", has_text="Hold").click()
    expect(guest.page.locator(".said.unsent")).to_contain_text("And then?")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end", 2)
    assert guest.texts(".answer") == ["Done.", "Next."]
    assert guest.texts(".bubble") == ["Hold", "And then?"]


def test_a_message_in_a_closed_window_is_sent_from_the_next(serve, visit, tmp_path):
    script = [call("hold", name="gate"), "Done.", "Next."]
    server, guest = with_message_waiting(serve, visit, script, tmp_path)
    url = guest.page.url
    with guest.page.expect_event("close"):
        guest.page.close(run_before_unload=True)
    guest.page = guest.window()
    guest.page.goto(url)
    guest.wait(".said.unsent")
    guest.page.get_by_role("button", name="New conversation").click()
    (server.folder / "gate").touch()
    guest.page.wait_for_function("() => localStorage.length === 0")
    guest.page.locator(".session .title", has_text="Hold").click()
    guest.wait(".end", 2)
    assert guest.texts(".answer") == ["Done.", "Next."]


def test_an_answer_allows_the_waiting_calls_of_its_kind(serve, visit, place):
    def edit(path):
        return call("edit_file", path=path, old_text="a", new_text="b")

    links = [
        edit("src/a.py"),
        edit("src/b.py"),
        edit("src/link.py"),
        edit("test.py"),
        call("danger", what="one"),
    ]
    server = serve([links, "Done."], database=place)
    (server.folder / "work" / "src").mkdir()
    (server.folder / "work" / "src" / "link.py").symlink_to("../test.py")
    guest = visit(server)
    guest.say("Edit them")
    cards = guest.page.locator(".card")
    expect(cards).to_have_count(5)
    cards.first.get_by_role("button", name="Allow edits in src/").click()
    expect(cards.locator("h2")).to_have_text(["Edit src/link.py?", "Edit test.py?", "Call danger?"])
    for _ in range(3):
        cards.first.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    expect(guest.page.locator(".call .by")).to_have_count(5)


def test_an_answer_from_another_process_has_its_name_and_time(serve, visit, place):
    server = serve([call("danger", what="one"), "As you like."], database=place)
    guest = visit(server)
    guest.say("Do one")
    guest.wait(".card")
    session = guest.page.url.rpartition("=")[2]
    if place is None:
        manager = SessionManager(server.folder / "sessions")
        (question,) = manager.questions(session)
        manager.answer(session, question.call_id, "deny", "Too dear.", by="Carl")
    else:
        client = Engine(place)
        (task,) = client.tasks()
        (question,) = task.questions
        client.handle(task.run_id).answer(question.call_id, Permission("deny", "Too dear."), by="Carl")
        client.close()
    expect(guest.page.locator(".call .by")).to_contain_text("Carl denied this at", timeout=60_000)
    expect(guest.page.locator(".card")).to_have_count(0)
    guest.wait(".end")
    assert guest.texts(".bubble") == ["Do one", "Too dear."]
    guest.page.reload()
    expect(guest.page.locator(".call .by")).to_contain_text("Carl denied this at")
    if place is None:  # the history of a fork comes from its records
        at = guest.page.locator(".call .by").text_content()
        guest.menu("Fork")
        expect(guest.page.locator("h1")).to_contain_text("(fork)")
        expect(guest.page.locator(".call.denied .by")).to_have_text(at)


def test_person_with_approve_alone_has_only_the_inbox(serve, browser):
    server = serve([EDIT, "Done."], people={"ada": ["use"], "eve": ["approve"]})
    ada, eve = signed_in(browser, server, "ada"), Visit(browser, server, **PHONE)
    ada.say("Mend it")
    ada.wait(".card")
    eve.page.goto(f"{server.url}/#token=eve-token-0123456789")
    eve.page.locator(".inbox .card").get_by_role("button", name="Deny", exact=True).tap()
    eve.page.get_by_label("Tell it what to do instead").fill("Write a test first")
    eve.page.locator(".inbox .card").get_by_role("button", name="Deny", exact=True).tap()
    expect(eve.page.locator(".inbox")).to_contain_text("Nothing is waiting")
    expect(eve.page.locator("#message, .alert, .problem")).to_have_count(0)
    ada.wait(".end")
    expect(ada.page.locator(".call .by")).to_contain_text("eve denied this at")
    for guest in (ada, eve):
        guest.close()


def test_a_question_of_guard_says_where_each_value_is_from_and_can_make_a_recipient_known(serve, visit):
    script = [call("add", a=2, b=3)] + [call("danger", what="eve@evil.com")] * 2 + ["Done."]
    server = serve(script, mode="guard")
    guest = visit(server)
    guest.say("Add 2 and 3.")
    guest.wait(".card")
    expect(guest.page.locator(".card .origins .strange")).to_contain_text(
        "what eve@evil.com: in nothing that was read; the model chose it"
    )
    expect(guest.page.get_by_role("button", name="Allow all danger calls")).to_have_count(0)
    guest.page.get_by_role("button", name="Allow, and eve@evil.com is known from now on").click()
    guest.wait(".end")  # without another question
    assert server.effects().count("danger eve@evil.com") == 2


def test_a_fork_of_a_waiting_conversation_asks_and_allows_by_itself(serve, visit, place):
    guest = visit(serve([call("danger", what="one"), "Done."], database=place))
    guest.say("Do one")
    guest.wait(".card")
    guest.menu("Fork")
    expect(guest.page.locator("h1")).to_contain_text("(fork)")
    guest.wait(".card")
    expect(guest.page.locator(".said")).to_have_count(1)
    guest.page.locator(".card").get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    expect(guest.page.locator(".prose").last).to_have_text("Done.")
    expect(guest.page.locator(".said")).to_have_count(1)
