"""Views of the page beside the conversation: requests, tasks, fleet, folders, and very long conversations."""

from __future__ import annotations

import base64
import json
import re
import time
from contextlib import closing

from playwright.sync_api import expect
from tests.server.browser import Visit

from pure_agent_loop import TokenUsage
from pure_agent_loop.durable import Schedule, Schedules
from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.database import Database
from pure_agent_loop.testing import answer, call

FILL = """async (count) => {
  const store = await import("/assets/store.js"), view = store.view.value, events = [];
  let step = 0;
  const add = (type, data) => events.push({ type, data, run: "S:1", step, timestamp: events.length });
  add("run_start", { agent: "helper", task: "Go", attempt: 1 });
  for (let n = 0; n < count; n++) {
    step = n + 1;
    add("action", { tool: "add", args: { a: n }, call_id: `c${n}` });
    add("observation", { tool: "add", result: `${n}`, call_id: `c${n}`, duration: 1 });
  }
  store.current.value = "S";
  const begun = performance.now();
  view.take(events);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begun;
}"""
# The longest frame while everything is scrolled through, and all that was drawn earlier is asked for once.
SCROLL = """async () => {
  const box = document.querySelector(".log"), frames = [];
  let last = performance.now();
  const frame = () => new Promise((done) => requestAnimationFrame((now) => {
    frames.push(now - last);
    last = now;
    done();
  }));
  await frame(); await frame(); frames.length = 0;
  for (let n = 0; n < 60; n++) { box.scrollTop -= 400; await frame(); }
  document.querySelector(".earlier").click();
  for (let n = 0; n < 60; n++) { box.scrollTop += 400; await frame(); }
  frames.sort((one, other) => one - other);
  return { median: frames[60], worst: frames.at(-1), nodes: document.querySelectorAll("*").length };
}"""


def test_requests_audit_and_folders(serve, visit):
    first, second = (TokenUsage(n, 5, n + 5, cached_tokens=n - 400) for n in (1_000, 1_100))
    script = [answer(call("add", a=1, b=2), usage=first), answer("It is 3.", usage=second)]
    guest = visit(serve(script), color_scheme="dark")
    guest.say("What is 1 + 2?")
    guest.wait(".end")
    guest.inspect("Context")
    guest.wait(".requests li", 2)
    expect(guest.page.locator(".requests").first).to_contain_text("2 of 4 messages unchanged")
    expect(guest.page.locator(".requests").first).to_contain_text("300 missed by the cache")
    guest.page.locator(".requests summary").nth(1).press("Enter")
    expect(guest.page.locator(".requests pre")).to_contain_text("SECRET-PROMPT")
    guest.page.get_by_role("button", name="Audit log", exact=True).click()
    row = guest.page.locator(".requests summary").first  # its time, and the arguments
    expect(row).to_have_text(re.compile(r"^\d{1,2}:\d\d.*ok\s*add 1 · 2\s*$"))
    guest.row_menu("Move to folder")
    guest.page.get_by_label("Folder", exact=True).fill("Sums")
    guest.page.get_by_role("button", name="Save", exact=True).click()
    expect(guest.page.locator(".folder summary")).to_contain_text("Sums")
    guest.page.reload()
    expect(guest.page.locator(".folder .session")).to_contain_text("What is 1 + 2?")


def test_the_fleet(serve, visit, tmp_path):
    server = serve(["Hello."], database=f"sqlite:///{tmp_path}/runs.sqlite")
    guest = visit(server)
    guest.say("Hello")
    guest.wait(".end")
    guest.page.get_by_role("button", name="Operator").click()
    for text in ("Workers", "Queues", "Schedules", "model scripted", "Restarts", "completed"):
        expect(guest.page.locator(".fleet")).to_contain_text(text)
    assert guest.page.url.endswith("#/operator")
    guest.page.reload()
    guest.page.get_by_role("button", name="New schedule").click()
    for label, text in (("Name", "daily"), ("When", "every day at 9"), ("Task", "Report")):
        guest.page.locator(".schedule").get_by_label(label).fill(text)
    guest.page.get_by_role("button", name="Save").click()
    expect(guest.page.locator(".fleet tr", has_text="daily")).to_contain_text("every day at 9:00 0 9 * * *")
    expect(guest.page.locator(".fleet tr", has_text="owner")).to_contain_text("1 unknown")
    with closing(Client(Database(f"sqlite:///{tmp_path}/runs.sqlite"))) as client:
        earlier = Schedules(client, lambda: time.time() - 9_000)
        earlier.add(Schedule("late", "helper", "Report", every=3_600))
    skipped = guest.page.locator(".fleet tr", has_text="late").locator(".badge.skipped")
    expect(skipped).to_have_text("skipped")
    expect(skipped.locator("..")).to_have_attribute("title", re.compile("due times left out since"))
    guest.shot("schedules")
    guest.page.locator(".fleet td").get_by_role("button", name="Hello").click()
    guest.wait(".end")
    expect(guest.page.locator(".fleet")).to_have_count(0)


def test_the_agent_and_its_model_are_chosen_where_the_server_allows_it(serve, visit):
    seen = []

    def model(request):
        seen.append(request.body["model"])
        return "Hello."

    server = serve(model, limits={"models": ["grand"]})
    guest = visit(server)
    guest.page.get_by_role("button", name="Agent").click()
    guest.page.get_by_role("button", name="other", exact=False).last.click()
    guest.page.get_by_role("button", name="Agent").click()
    guest.page.get_by_role("button", name="grand").click()
    guest.say("Hello")
    guest.wait(".end")
    expect(guest.page.locator("header .about")).to_have_text("other · grand")
    guest.page.reload()
    expect(guest.page.locator(".picker")).to_contain_text("other")
    guest.say("Again")
    guest.wait(".end", 2)
    guest.page.get_by_role("button", name="Agent").click()
    guest.page.get_by_role("button", name="grand").click()
    guest.page.get_by_role("button", name="Retry").last.click()
    guest.page.wait_for_selector("header .about >> text=grand")
    guest.wait(".end", 2)
    assert seen == ["grand", "scripted", "grand"]
    with server.client() as client:
        refused = client.post("/api/runs", json={"text": "Hello", "model": "huge"})
        assert refused.status_code == 404
        assert "scripted, grand" in refused.json()["detail"]


def test_settings_are_kept(serve, visit):
    guest = visit(serve(["Hello."]))
    guest.page.get_by_role("button", name="Settings").click()
    guest.page.get_by_label("Text size").select_option("large")
    guest.page.get_by_label("Theme").select_option("dark")
    guest.page.get_by_role("dialog").get_by_role("button", name="Close").click()
    guest.page.reload()
    guest.page.wait_for_selector("html[data-size='large'][data-theme='dark'] #message")


def test_person_without_operate_has_no_operator_views(serve, browser):
    guest = Visit(browser, serve(["Hello."], people={"ada": ["use"]}))
    guest.page.goto(f"{guest.server.url}/#token=ada-token-0123456789")
    guest.say("Hello")
    guest.wait(".end")
    guest.page.get_by_role("button", name="Inspect", exact=True).click()
    expect(guest.page.get_by_role("button", name="Timeline")).to_be_visible()
    guest.page.get_by_role("button", name="More", exact=True).click()
    for name in ("Context", "Audit log", "Operator", "Approvals"):
        expect(guest.page.get_by_role("button", name=name)).to_have_count(0)
    expect(guest.page.get_by_role("link", name="Export")).to_have_count(0)
    guest.close()


def test_tasks_stand_in_a_tree(serve, visit):
    phone = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
    guest = visit(serve([call("add", a=1, b=2), "It is **3**.\n\n```python\nx = 1 + 2\n```"]), **phone)
    guest.say("What is 1 + 2?")
    guest.wait(".end")
    guest.wait(".answer .hljs-number")
    session = guest.page.url.rpartition("=")[2]
    about = {
        "agent": "a",
        "state": "completed",
        "calls": 1,
        "tokens": 2,
        "created": 0,
        "ended": 1,
        "last_tool": "",
    }
    tasks = [
        {"id": "one", "session": session, "own_session": "S1", **about},
        {"id": "two", "session": "S1", "own_session": "S1", **about},  # a ring must not hang the page
    ]
    guest.page.route("**/api/tasks?**", lambda route: route.fulfill(json={"tasks": tasks}))
    guest.menu("Inspect")  # in the menu, where there is little room
    guest.page.get_by_role("button", name="Tasks", exact=True).click()
    guest.wait(".tasks .tasks li")


def test_a_document_goes_to_the_model(serve, visit):
    seen = []

    def handler(request):
        seen.append(request.messages[-1]["content"])
        return "A document."

    guest = visit(serve(handler))
    pdf = {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4"}
    guest.page.set_input_files("#files", [pdf])
    expect(guest.page.locator(".media .file")).to_have_text("a.pdf")
    guest.say("What is this?")
    guest.wait(".end")
    assert base64.b64encode(b"%PDF-1.4").decode() in json.dumps(seen[0])


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DRAWN = "() => [...document.querySelectorAll('.files img')].filter((each) => each.naturalWidth === 1).length"


def test_tool_output_is_shown_or_saved_and_never_run(serve, visit):
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='hacked=1'><script>hacked=1</script></svg>"
    given = {"a.png": PNG, "b <i>.pdf": b"%PDF-1.4\n<script>hacked=1</script>\n%%EOF", "c.svg": svg,
             "d.html": b"<script>hacked=1</script>", "e.png": b"GIF89a" + svg}  # fmt: skip
    script = [call("draw", kind=kind) for kind in given]
    server = serve([*script, call("hold", name="gate"), "There they are."], people={"ada": ["use"]})
    for name, data in given.items():
        (server.folder / name).write_bytes(data)
    guest = visit(server)
    guest.say("Draw them")
    guest.page.wait_for_function(DRAWN)  # while the run is still at work
    (server.folder / "gate").touch()
    guest.wait(".end")
    assert guest.texts(".files a") == ["draw-1.png", "b <i>.pdf"]
    with guest.page.expect_download() as saved:
        guest.page.locator(".files a").last.click()
    assert saved.value.path().read_bytes() == given["b <i>.pdf"]
    with server.client() as client, server.client("ada-token-0123456789") as ada:
        session = client.get("/api/sessions").json()["sessions"][0]["id"]
        path = f"/api/sessions/{session}/files"
        assert [each["media_type"] for each in client.get(path).json()["files"]] == [
            "image/png",
            "application/pdf",
        ]
        sent = client.get(f"{path}/2")
        assert sent.headers["content-disposition"].startswith("attachment;")
        assert sent.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert ada.get(f"{path}/1").status_code == client.get(f"{path}/3").status_code == 404
    guest.page.reload()
    guest.page.wait_for_function(DRAWN)
    assert guest.page.evaluate("window.hacked") is None
    assert guest.page.evaluate("window.violations") == []


def test_ten_thousand_calls_are_a_small_document(serve, visit):
    guest = visit(serve(["unused"]))
    took = guest.page.evaluate(FILL, 10_000)
    frames = guest.page.evaluate(SCROLL)
    print(f"10,000 calls: drawn in {took:.0f} ms; a frame of scrolling {frames}")
    assert guest.page.locator(".call").count() <= 240
    assert frames["nodes"] < 5_000


def test_the_browser_goes_back_and_rows_are_links(serve, visit):
    server = serve(["One it is.", "Two it is."])
    guest = visit(server)
    page = guest.page
    for number, text in enumerate(("Say one", "Say two"), 1):
        guest.say(text)
        guest.wait(".end")
        guest.wait(".sessions li", number)
        if number == 1:
            first = page.url
            page.get_by_role("button", name="New conversation").click()
    second = page.url
    guest.page.get_by_role("link", name="Say one").click()
    expect(page.locator(".answer")).to_have_text("One it is.")
    assert page.url == first
    page.go_back()
    expect(page.locator(".answer")).to_have_text("Two it is.")
    assert page.url == second
    page.go_back()
    expect(page.locator(".answer")).to_have_text("One it is.")
    with guest.context.expect_page() as opened:
        page.get_by_role("link", name="Say two").click(modifiers=["Control"])
    expect(opened.value.locator(".answer")).to_have_text("Two it is.")
    assert page.url == first
    blank = guest.window()
    blank.goto(f"{server.url}/assets/icon.svg")
    blank.goto(first)
    expect(blank.locator(".answer")).to_have_text("One it is.")
    blank.go_back()
    assert blank.url.endswith("icon.svg")
    page.locator(".said").hover()
    page.get_by_role("button", name="Edit and resend").click()
    page.keyboard.press("Escape")
    expect(page.locator(".editing")).to_have_count(0)
    page.get_by_role("button", name="More", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export (Markdown)").click()
    assert saved.value.suggested_filename == "Say one.md"


def test_the_timeline_of_a_run_that_waited_shows_its_work(serve, visit):
    guest = visit(serve([call("danger", what="one"), "Done."]))
    guest.say("Do one")
    guest.wait(".card")
    guest.page.evaluate("""() => import("/assets/store.js").then((store) => {
        store.view.value.runs[0].waitsSince -= 3600; // as if the question had come an hour ago
        for (const span of store.view.value.runs[0].spans) { span.start -= 3600; span.end -= 3600; }
        store.view.value.runs[0].started -= 3600;
    })""")
    guest.page.get_by_role("button", name="Allow", exact=True).click()
    guest.wait(".end")
    guest.page.get_by_role("button", name="Inspect", exact=True).click()
    wait = guest.page.get_by_role("img", name="waited 60 min")
    whole = guest.page.locator(".panel svg").bounding_box()["width"]
    assert 0 < wait.bounding_box()["width"] < whole / 4
    guest.shot("waited")
    guest.page.get_by_role("button", name="Context", exact=True).click()
    row = guest.page.locator(".requests summary").first
    expect(row).to_contain_text("in · ")
    expect(row).not_to_contain_text("0 cached")


ARABIC = "مرحبا بالعالم"
DIRECTIONS = """(words) => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode, element = node.parentElement;
        if (!node.data.includes(words) || !element.checkVisibility()) continue;
        const range = document.createRange();
        range.setStart(node, node.data.indexOf(words));
        range.setEnd(node, node.data.indexOf(words) + words.length);
        const block = element.closest("pre, p, li, td, h1, h2, h3, .bubble, dd") ?? element;
        const text = range.getBoundingClientRect(), box = block.getBoundingClientRect();
        const isRight = box.right - text.right < text.left - box.left;
        found.push([block.localName, isRight ? "right" : "left"]);
    }
    return found;
}"""


def sides(page, words):
    return dict(page.evaluate(DIRECTIONS, words))


def test_each_block_of_text_has_its_own_direction_and_code_is_left_to_right(serve, visit):
    answer = f"{ARABIC} أ\n\n- {ARABIC} ب\n\n> {ARABIC} ت\n\nplain English\n\n```py\nx = '{ARABIC}'\n```\n"
    guest = visit(serve([answer]))
    field = guest.page.locator("#message")
    field.fill(ARABIC)
    assert field.evaluate("field => getComputedStyle(field).unicodeBidi") == "plaintext"
    guest.say(ARABIC)
    guest.wait(".end")
    assert sides(guest.page, f"{ARABIC} أ")["p"] == "right"
    assert sides(guest.page, f"{ARABIC} ب")["li"] == "right"
    assert guest.page.locator(".prose ul").evaluate("list => getComputedStyle(list).direction") == "rtl"
    assert sides(guest.page, f"{ARABIC} ت")["p"] == "right"
    assert sides(guest.page, "plain English")["p"] == "left"
    assert sides(guest.page, "x = ")["pre"] == "left"
    code = guest.page.locator(".code code")
    assert code.evaluate("code => getComputedStyle(code).direction") == "ltr"
    document = guest.page.request.get(f"{guest.server.url}/api/sessions/{session_of(guest)}/export?form=html")
    exported = guest.window()
    exported.set_content(document.text())
    assert sides(exported, f"{ARABIC} أ")["p"] == "right"
    assert sides(exported, f"{ARABIC} ب")["li"] == "right"
    assert sides(exported, "plain English")["p"] == "left"
    assert sides(exported, "x = ")["pre"] == "left"
    assert sides(exported, ARABIC)["h1"] == "right"
    assert exported.locator("ul").evaluate("list => getComputedStyle(list).direction") == "rtl"


def session_of(guest):
    return guest.page.url.partition("#s=")[2]
