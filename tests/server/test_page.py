"""The page in a real browser, on a real server with a scripted model."""

from __future__ import annotations

import base64
import json
import re

import pytest
from playwright.sync_api import expect
from tests.server.browser import Visit
from tests.server.conftest import OWNER

from pure_agent_loop.testing import Gate, call, deltas

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_answer_streams_with_a_call_and_finished_blocks_stay(serve, visit):
    gate = Gate()
    answer = deltas(
        "It **rains**.\n\nTake ", "an umbrella.\n\nAnd ", gate, "boots.\n\n```python\nx = 1\n```\n"
    )
    guest = visit(serve([call("add", a=1, b=2), answer]))
    assert "token" not in guest.page.url
    guest.say("What is 1 + 2?")
    guest.wait(".answer .block", 3)
    guest.page.evaluate("document.querySelector('.answer .block').dataset.kept = 'yes'")
    assert guest.texts(".call .tool") == ["add"]
    expect(guest.page.locator(".call .mark")).to_have_attribute("aria-label", "done")
    gate.open()
    guest.wait(".end")
    assert guest.page.locator(".answer .block").first.get_attribute("data-kept") == "yes"
    assert guest.texts(".answer strong") == ["rains"]
    guest.wait(".answer .hljs-number")
    guest.page.click(".call summary")
    expect(guest.page.locator(".call pre").last).to_have_text("3")
    guest.inspect("Timeline")
    guest.wait(".bar.model", 2)
    guest.wait(".bar.tool")
    assert "umbrella" in guest.page.locator("[role=log]").inner_text()  # what a screen reader is told
    assert guest.page.evaluate("window.violations") == []


FORMULAS = r"""Einstein: $E = mc^2$, or \(a_1\). It costs $5 and $10, `$x$`, $PATH and $HOME.

$$\int_0^1 \frac{x}{2}\,dx$$

\[ \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} \]

```math
\sqrt{2}
```

No formula: $\frac{1$ and $\href{javascript:alert(1)}{x}$."""


def test_formulas_are_drawn_by_the_browser_and_money_is_none(serve, visit):
    pieces = [FORMULAS[at : at + 7] for at in range(0, len(FORMULAS), 7)]
    guest = visit(serve(["Hello.", deltas(*pieces)]))
    guest.say("Hello")
    guest.wait(".end")
    assert not any("temml" in each for each in guest.requests)
    guest.say("Some formulas")
    guest.wait(".end", 2)
    guest.wait(".formula.display math", 3)
    guest.wait(".formula math", 5)
    assert guest.page.locator(".formula").count() == 5
    assert guest.page.locator(".formula math mfrac").count() == 1
    assert "It costs $5 and $10, $x$, $PATH and $HOME." in guest.page.locator(".answer").last.inner_text()
    assert guest.page.locator(".answer a, .answer math [href]").count() == 0
    assert guest.page.evaluate("window.violations") == []


@pytest.mark.parametrize("who", ["ada", "owner"])
def test_a_message_to_a_working_run_waits_until_it_is_read(serve, visit, who):
    server = serve([call("hold", name="gate"), "Done."], people={"ada": ["use"]})
    guest = visit(server)
    if who == "ada":  # who is not shown the texts of notices
        guest.context.clear_cookies()
        guest.page.goto("about:blank")
        guest.page.goto(f"{server.url}/#token=ada-token-0123456789")
    guest.say("Wait")
    guest.wait(".call.running")
    guest.say("Hurry up")
    waits = guest.page.locator(".said.unsent")
    expect(waits).to_contain_text("Hurry up")
    expect(waits.get_by_role("status")).to_have_text("waiting to be read")
    guest.page.reload()
    guest.wait(".call.running")
    expect(waits).to_contain_text("Hurry up")
    assert guest.texts(".bubble") == ["Wait", "Hurry up"]
    (server.folder / "gate").touch()
    guest.wait(".end")
    expect(waits).to_have_count(0)
    assert guest.texts(".bubble") == ["Wait", "Hurry up"]
    assert guest.page.locator(".note", has_text="Hurry up").count() == 0
    assert guest.page.evaluate("localStorage.length") == 0


def test_a_message_that_a_stopped_run_has_not_read_is_the_next_message(serve, visit):
    guest = visit(serve([call("hold", name="never"), "On it."]))
    guest.say("Wait")
    guest.wait(".call.running")
    guest.say("Hurry up")
    guest.wait(".said.unsent")
    guest.page.click("text=Stop")
    guest.wait(".end", 2)
    assert guest.texts(".bubble") == ["Wait", "Hurry up"]
    assert guest.texts(".answer") == ["On it."]
    expect(guest.page.locator(".said.unsent")).to_have_count(0)
    guest.page.reload()
    guest.wait(".end", 2)
    assert guest.texts(".bubble") == ["Wait", "Hurry up"]


@pytest.mark.parametrize("is_taken", [True, False], ids=["taken", "lost"])
def test_a_message_whose_reply_is_lost_is_read_once(serve, visit, is_taken):
    server = serve([call("hold", name="gate"), "Done."])
    guest = visit(server)
    cut = []

    def lose_the_reply(side):
        def forward(text):
            if '"steer"' in text and not cut:
                cut.append(text)
                if is_taken:
                    upstream.send(text)
                    guest.page.wait_for_timeout(300)
                side.close()
            else:
                upstream.send(text)

        upstream = side.connect_to_server()
        side.on_message(forward)

    guest.page.route_web_socket("**/ws?*", lose_the_reply)
    guest.page.reload()
    guest.say("Wait")
    guest.wait(".call.running")
    guest.say("Hurry up")
    expect(guest.page.locator(".said.unsent [role=status]")).to_have_text("waiting to be read")
    (server.folder / "gate").touch()
    guest.wait(".end")
    assert cut
    assert guest.texts(".bubble") == ["Wait", "Hurry up"]


def test_a_message_to_a_run_that_has_just_ended_is_the_next_message(serve, visit):
    server = serve([call("hold", name="gate"), "First.", "Second."])
    guest = visit(server)
    late, sides = [], []

    def delay_the_end(side):
        def forward(text):
            is_late = "control" not in json.loads(text) and (late or '"run_end"' in text)
            late.append(text) if is_late else side.send(text)

        side.connect_to_server().on_message(forward)
        sides.append(side)

    def until_ends(count):
        while sum('"run_end"' in text for text in late) < count:
            guest.page.wait_for_timeout(10)

    guest.page.route_web_socket("**/ws?*", delay_the_end)
    guest.page.reload()
    guest.say("Begin")
    guest.page.wait_for_selector(".call.running >> text=hold")  # the page follows the run
    (server.folder / "gate").touch()
    until_ends(1)
    expect(guest.page.get_by_role("button", name="Stop")).to_have_count(1)  # as far as the page can tell
    guest.say("And then?")
    until_ends(2)
    for text in late:
        sides[-1].send(text)
    guest.wait(".end", 2)
    assert guest.texts(".answer") == ["First.", "Second."]
    assert guest.page.locator(".problem").count() == 0


def test_a_draft_stays_until_it_is_sent(serve, visit):
    guest = visit(serve(["First.", "Second."]))
    guest.say("Begin")
    guest.wait(".end")
    field = guest.page.locator("#message")
    field.fill("Half of\na thought")
    guest.page.reload()
    expect(field).to_have_value("Half of\na thought")
    guest.page.get_by_role("button", name="Approvals").click()
    expect(field).to_have_count(0)
    is_ignored = """() => {
        const files = new DataTransfer();
        files.items.add(new File(["x"], "x.txt"));
        const about = { dataTransfer: files, cancelable: true };
        const drop = (type) => document.dispatchEvent(new DragEvent(type, about));
        return !drop("dragover") && !drop("drop");
    }"""
    assert guest.page.evaluate(is_ignored)  # else the browser would open the file in place of the page
    guest.page.locator(".session .title", has_text="Begin").click()
    expect(field).to_have_value("Half of\na thought")
    guest.page.get_by_role("button", name="New conversation").click()
    expect(field).to_have_value("")
    field.fill("Another")
    guest.page.locator(".session .title", has_text="Begin").click()
    expect(field).to_have_value("Half of\na thought")
    field.press("Enter")
    expect(guest.page.locator(".end")).to_have_count(2)
    guest.page.reload()
    expect(guest.page.locator(".end")).to_have_count(2)
    expect(field).to_have_value("")
    guest.page.get_by_role("button", name="New conversation").click()
    expect(field).to_have_value("Another")


def say_while_the_server_is_away(guest, server):
    """Begin a conversation, end the server, and say something more."""
    guest.say("Begin")
    guest.wait(".end")
    server.kill()
    guest.page.wait_for_selector(".offline")
    guest.say("Go on")


def test_messages_wait_for_a_server_that_restarts(serve, visit):
    server = serve(["First.", "Second.", "Third."])
    guest = visit(server)
    say_while_the_server_is_away(guest, server)
    guest.say("And on")
    waits = guest.page.locator(".said.unsent .bubble")
    expect(waits).to_have_text(["Go on", "And on"])
    expect(guest.page.locator("#message")).to_have_value("")
    server.start()
    guest.wait(".end", 2)
    expect(waits).to_have_count(0)
    assert guest.texts(".bubble") == ["Begin", "Go on", "And on"]


def test_message_waits_with_the_reason_when_the_token_changed(serve, visit):
    server = serve(["First.", "Second."])
    guest = visit(server)
    say_while_the_server_is_away(guest, server)
    next(
        server.folder.rglob("secret")
    ).unlink()  # as if the token had been changed: no cookie is valid any more
    server.start()
    expect(guest.page.locator(".problem")).to_contain_text("not sent")
    guest.page.fill("#token", OWNER)
    guest.page.press("#token", "Enter")
    guest.wait(".end", 2)
    assert guest.texts(".bubble") == ["Begin", "Go on"]


def test_message_to_a_deleted_conversation_stays_with_the_reason(serve, visit):
    server = serve(["First."])
    guest = visit(server)
    guest.say("Begin")
    guest.wait(".end")
    session = guest.page.url.partition("#s=")[2]
    with server.client() as client:
        assert client.delete(f"/api/sessions/{session}").status_code == 204
    guest.say("Go on")
    guest.wait(".problem")
    expect(guest.page.locator("#message")).to_have_value("Go on")


@pytest.mark.parametrize("indent", ["  ", "\t", "   "])
def test_code_copied_from_a_list_keeps_its_tabs(serve, visit, indent):
    code = "all:\n\tcc -o a\tb.c\n\t\tdeep"
    lines = "\n".join(indent + line for line in ["```make", *code.split("\n"), "```"])
    mark = "1." if indent == "   " else "-"
    guest = visit(serve([f"{mark} Write:\n\n{lines}\n\nA\ttab.\n"]))
    guest.say("Begin")
    guest.wait(".end")
    assert guest.page.locator(".prose li .code code").evaluate("code => code.textContent") == code


def test_questions_are_allowed_and_refused(serve, visit):
    line = f"ls{' ' * 3000}; rm -rf x\u2800\u202e"
    script = [call("danger", what="one"), "First.", call("shell", command=line), "Second."]
    server = serve([*script, call("wonder", about="Which colour?"), "Third."])
    guest = visit(server)
    guest.say("Do one")
    allow = guest.page.get_by_role("button", name="Allow", exact=True)
    allow.wait_for()
    allow.click()
    guest.wait(".end")
    assert server.effects() == ["danger one"]
    assert "restarted" not in guest.page.inner_text(".log")
    guest.say("Do two")
    card = guest.page.locator(".card")
    expect(card.locator("pre").last).to_contain_text("ls·(3000 blanks)·; rm -rf x\\u{2800}\\u{202e}")
    card.get_by_text("Details").click()
    expect(card.locator("li")).to_have_text(["ls", "rm -rf x\\u{2800}\\u{202e}"])
    card.get_by_role("button", name="Deny").click()
    card.get_by_role("textbox").fill("Too risky")
    card.get_by_role("button", name="Deny").click()
    guest.wait(".end", 2)
    assert server.effects() == ["danger one"]
    guest.say("Ask me")
    guest.page.get_by_label("Your answer").fill("Green")
    guest.page.get_by_role("button", name="Answer", exact=True).click()
    guest.wait(".end", 3)
    guest.page.locator(".call summary").last.click()
    expect(guest.page.locator(".call pre").last).to_contain_text("the person says: Green")


def test_a_late_or_failed_answer_about_questions_hides_none(serve, visit):
    server = serve([call("hold", name="go"), call("danger", what="one"), "Done."])
    guest = visit(server)
    held, count = [], []

    def slow(route):  # the first is answered last, and the second not at all
        count.append(route)
        if len(count) == 1:
            held.append(route)
        elif len(count) == 2:
            route.fulfill(status=429, json={"detail": "Too many requests."})
        else:
            route.continue_()

    guest.page.route("**/questions", slow)
    guest.say("Do one")
    guest.wait(".call.running")  # the first is asked before there is a question
    (server.folder / "go").touch()
    guest.wait(".session .dot.waiting")
    held[0].fulfill(json={"questions": []})
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    assert guest.texts(".call .tool") == ["hold", "danger"]


def test_a_question_comes_into_view(serve, visit):
    server = serve(["```python\nx = 1\n```\n\n" * 30, call("danger", what="one"), "Done."])
    guest = visit(server)
    guest.say("Tell a lot")
    guest.wait(".end")
    guest.say("Do one")
    allow = guest.page.get_by_role("button", name="Allow", exact=True)
    expect(allow).to_be_in_viewport(ratio=1)
    allow.click()
    guest.wait(".end", 2)


def test_reload_and_a_second_window_in_mid_run(serve, visit):
    gate = Gate()
    guest = visit(serve([call("add", a=1, b=2), deltas("One ", "two ", gate, "three.")]))
    guest.say("Count")
    guest.page.wait_for_selector(".answer >> text=One two")
    second = guest.window()
    second.goto(guest.page.url)
    second.wait_for_selector(".answer >> text=One two")
    guest.page.reload()
    guest.page.wait_for_selector(".answer >> text=One two")
    gate.open()
    for page in (guest.page, second):
        guest.wait(".end", page=page)
        assert guest.texts(".answer", page) == ["One two three."]
        assert guest.texts(".said .bubble", page) == ["Count"]
        assert guest.texts(".call .tool", page) == ["add"]


def test_a_server_killed_in_mid_run_loses_nothing_and_says_nothing_twice(serve, visit):
    gate = Gate()
    script = [call("add", a=1, b=2), deltas("So ", gate, "it is 3."), deltas("So ", "it is 3.")]
    server = serve(script)
    guest = visit(server)
    guest.say("Work")
    guest.page.wait_for_selector(".answer >> text=So")
    server.kill()
    guest.page.wait_for_selector(".offline")
    gate.open()
    server.start()
    guest.wait(".end")
    assert guest.texts(".answer") == ["So it is 3."]
    assert guest.texts(".call .tool") == ["add"]
    assert server.effects() == ["add 1 2"]
    expect(guest.page.locator(".offline")).to_have_count(0)
    expect(guest.page.locator(".log")).to_contain_text("The server restarted")
    shown = guest.page.inner_text(".column")
    guest.page.reload()
    guest.wait(".end")
    assert guest.page.inner_text(".column") == shown


def test_edit_fork_search_and_delete(serve, visit):
    guest = visit(serve(["First.", "Second.", "Other.", "Again."]))
    guest.say("alpha")
    guest.wait(".end")
    guest.say("beta")
    guest.wait(".end", 2)
    before = guest.page.url
    guest.page.locator(".said").last.hover()
    guest.page.get_by_role("button", name="Edit and resend").last.click()
    guest.page.locator(".editing textarea").fill("gamma")
    guest.page.locator(".editing .primary").click()
    guest.page.wait_for_selector(".answer >> text=Other.")
    assert guest.page.url != before
    assert guest.texts(".said .bubble") == ["alpha", "gamma"]
    assert guest.texts(".answer") == ["First.", "Other."]
    guest.menu("Fork")
    guest.wait(".sessions li", 2)  # both versions are one row
    guest.page.get_by_role("searchbox").fill("nothing like it")
    expect(guest.page.locator(".sessions li")).to_have_count(0)
    guest.page.get_by_role("searchbox").fill("ALPHA")
    guest.wait(".sessions li", 1)
    count = guest.page.locator(".sessions li").count()
    guest.row_menu("Delete…")
    guest.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(guest.page.locator(".sessions li")).to_have_count(count - 1)


@pytest.mark.parametrize(
    ("name", "declared"), [("pixel.png", "image/png"), ("pixel.jpg", "image/jpeg"), ("pixel", "")]
)
def test_image_is_sent_with_the_type_of_its_bytes(name, declared, serve, visit):
    seen = []

    def handler(request):
        seen.append(request.messages[-1]["content"])
        return "A pixel."

    guest = visit(serve(handler))
    image = {"name": name, "mimeType": declared, "buffer": PIXEL}
    guest.page.set_input_files("#files", [image])
    guest.wait(".media img")
    guest.say("What is this?")
    guest.wait(".end")
    assert [part["type"] for part in seen[0]] == ["text", "image_url"]
    assert seen[0][1]["image_url"]["url"].startswith("data:image/png;")
    guest.page.set_input_files(
        "#files", [{"name": "x.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}]
    )
    expect(guest.page.get_by_role("alert")).to_contain_text("x.svg")


def test_in_chinese_on_a_phone(serve, visit):
    phone = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
    guest = visit(serve(["好的。"]), locale="zh-CN", **phone)
    assert guest.page.get_attribute("html", "lang") == "zh-CN"
    guest.page.get_by_role("textbox", name="消息").fill("你好")
    guest.page.get_by_role("button", name="发送").tap()
    guest.page.wait_for_selector(".answer >> text=好的。")
    assert guest.page.evaluate("document.documentElement.scrollWidth") <= 390
    guest.page.get_by_role("button", name="对话列表").tap()
    guest.page.get_by_role("button", name="设置").tap()
    guest.page.get_by_label("语言").select_option("en")
    guest.page.get_by_role("dialog").get_by_role("button", name="Close").tap()
    expect(guest.page.get_by_role("button", name="New conversation")).to_be_visible()


def test_errors_of_the_server_are_in_the_language_of_the_page(serve, visit):
    guest = visit(serve(["Hello."]))
    guest.page.get_by_role("button", name="Settings").click()
    guest.page.get_by_label("Language").select_option("zh")
    guest.page.get_by_role("dialog").get_by_role("button", name="关闭").click()
    guest.page.goto(f"{guest.server.url}/#s=nothing")
    expect(guest.page.get_by_role("alert")).to_contain_text("没有此 ID 的会话。")


def test_with_the_keyboard_only(serve, visit):
    guest = visit(serve([call("danger", what="it"), "Done."]))
    keys = guest.page.keyboard

    def to(name):
        for _ in range(60):
            keys.press("Tab")
            focused = guest.page.evaluate(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.id "
                "|| document.activeElement.textContent"
            )
            if name in focused:
                return
        raise AssertionError(name)

    to("Skip to the message field")
    keys.press("Enter")
    keys.type("Do it")
    keys.press("Enter")
    guest.wait(".card")
    to("Skip to the message field")
    to("Allow")
    keys.press("Enter")
    guest.page.wait_for_selector(".answer >> text=Done.")
    guest.page.locator(".call summary").focus()
    keys.press("Enter")
    guest.wait(".call[open] pre", 2)


def test_without_a_token_and_with_a_wrong_one(serve, browser):
    guest = Visit(browser, serve(["unused"]))
    said: list[str] = []
    guest.page.on("console", lambda line: line.type == "error" and said.append(line.text))
    guest.page.goto(guest.server.url)
    guest.page.get_by_label("Token").fill("wrong-token-0123456789")
    assert said == []
    guest.page.get_by_role("button", name="Sign in").click()
    expect(guest.page.get_by_role("alert")).to_contain_text("Invalid token")
    guest.page.get_by_label("Token").fill("owner-token-0123456789")
    guest.page.get_by_role("button", name="Sign in").click()
    guest.page.wait_for_selector("#message")
    guest.close()


def test_primes_lines_and_colours_of_formulas_are_drawn(serve, visit):
    formulas = [
        r"p'",
        r"f''(x)",
        r"x'_1",
        r"p'^2",
        r"\left(\frac{a}{b}\right)'",
        r"\overline{AB}",
        r"\boxed{x}",
    ]
    formulas += [r"\color{red}x", r"\begin{array}{c|c}a&b\\\hline c&d\end{array}", r"\cancel{x}"]
    guest = visit(serve(["\n\n".join(f"${each}$" for each in formulas)]))
    guest.say("Some formulas")
    guest.wait(".formula math", len(formulas))
    drawn = guest.page.locator(".formula math")
    prime, double, below, square, tall, line, frame, red, table, struck = drawn.all()
    for each, text in ((prime, "p′"), (double, "f′′"), (below, "x′"), (square, "p′")):
        letter, mark = each.locator("mi").first, each.locator(".tml-prime").first
        assert letter.evaluate("(letter) => letter.parentElement.textContent") == text
        assert not mark.evaluate("(mark) => mark.parentElement.matches('msup, msubsup')")
    assert below.locator("msub > mn").text_content() == "1"
    assert square.locator("msup > mrow").last.text_content() == "2"
    assert tall.locator("msup > mpadded > .tml-prime").count() == 1
    style = "(part, name) => getComputedStyle(part)[name]"
    assert line.locator(".enclosed.top").evaluate(style, "borderTopStyle") == "solid"
    assert frame.locator("mrow").first.evaluate(style, "borderBottomStyle") == "solid"
    assert red.locator("mi").first.evaluate(style, "color") == "rgb(255, 0, 0)"
    assert table.locator("mtd").first.evaluate(style, "borderRightStyle") == "solid"
    assert "linear-gradient" in struck.locator(".enclosed").evaluate(style, "backgroundImage")
    assert guest.page.evaluate("window.violations") == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_list_of_keys_has_those_of_the_line_of_steps(serve, visit, language):
    guest = visit(serve([]), locale=language)
    guest.page.locator(".log").press("?")
    words = {"en": "Look at the step before", "zh": "查看上一步"}
    row = guest.page.locator(".keys div", has_text=words[language])
    expect(row.locator("kbd")).to_have_text(["[", "]"])


def test_code_of_javascript_and_css_is_coloured(serve, visit):
    code = "```js\nconst a = 1;\n```\n\n```css\n@media print { .a-b:hover { color: #fff; --x: 1px } }\n```"
    guest = visit(serve([code]))
    guest.say("Code")
    guest.wait(".end")
    colours = guest.page.locator(".code pre")
    expect(colours.first.locator(".hljs-keyword")).to_have_text("const")
    expect(colours.last.locator(".hljs-keyword")).to_have_text("@media")
    expect(colours.last.locator(".hljs-attribute")).to_have_text("color")
    expect(colours.last.locator(".hljs-variable")).to_have_text("--x")
    expect(colours.last.locator(".hljs-number")).to_have_text(["#fff", "1px"])


def test_message_sent_while_the_page_loads_is_delivered_where_it_was_typed(serve, visit):
    guest = visit(serve(["First.", "Second."]))
    held = []

    def send_early(text):
        with guest.page.expect_request("**/api/agents"):
            guest.page.reload()
        guest.say(text)
        expect(guest.page.locator("#message")).to_have_value("")
        while held:
            held.pop().continue_()
        guest.page.unroute("**/api/agents")

    guest.page.route("**/api/agents", lambda route: held.append(route))
    send_early("one")
    guest.wait(".end")
    guest.page.route("**/api/agents", lambda route: held.append(route))
    send_early("two")
    guest.wait(".end", 2)
    expect(guest.page.locator(".said")).to_have_text([re.compile("^one"), re.compile("^two")])
    expect(guest.page.locator(".sessions li")).to_have_count(1)
