"""The pictures of the page show the page of today: a refund of the support desk, asked about and allowed."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from pure_agent_loop.testing import ScriptedServer, answer, call
from tests.docs.page_pictures import take
from tests.docs.test_applications import TOKEN, Desk
from tests.server.browser import chromium

CUSTOMER = "The lamp of order 7 is broken. Can I have my money back?"
SCRIPT = [
    answer("Let me look that order up.", call("look_up_order", number=7)),
    answer(
        "The lamp cost **30.00** and was delivered on Monday, so the 14 days are not over.",
        call("refund", order=7, amount=30.0),
    ),
    "I am sorry about the lamp. Your **30.00** are on their way; you need not send it back.",
]
DESKTOP = {"viewport": {"width": 1100, "height": 680}, "device_scale_factor": 2}
WIDE = {"width": 1280, "height": 760}  # the inspector stands beside the conversation
PHONE = {
    "viewport": {"width": 390, "height": 740},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}


def when_it_waits(page: Page) -> Page:
    for shown in (page.locator(".card h2"), page.get_by_role("button", name="Stop")):
        shown.wait_for(timeout=60_000)
    page.get_by_role("region", name="Conversation").get_by_text("waiting for you").wait_for(timeout=60_000)
    return page


def test_the_pictures_of_the_page_show_the_page_of_today(tmp_path):
    with ScriptedServer(SCRIPT) as model, chromium() as browser:
        desk = Desk(tmp_path, model.base_url).start()
        try:
            page = browser.new_context(**DESKTOP).new_page()
            page.goto(f"{desk.url}/agents/#token={TOKEN}")
            page.fill("#message", CUSTOMER)
            page.press("#message", "Enter")
            take(when_it_waits(page), "question")

            phone = browser.new_context(**PHONE).new_page()
            phone.goto(f"{desk.url}/agents/#token={TOKEN}")
            phone.wait_for_selector("#message")
            phone.goto(page.url)
            take(when_it_waits(phone), "phone")
            expect(phone.locator(".waits")).to_have_text("1", use_inner_text=True)
            expect(phone.locator(".card").get_by_text("Details")).to_be_in_viewport(ratio=1)

            page.get_by_role("button", name="Allow", exact=True).click()
            page.locator(".end").wait_for(timeout=60_000)
            page.set_viewport_size(WIDE)
            page.get_by_role("button", name="Inspect", exact=True).click()
            page.get_by_role("button", name="Timeline", exact=True).click()
            page.locator(".bar.tool").nth(1).wait_for()
            take(page, "timeline")
            page.get_by_role("button", name="Context", exact=True).click()
            page.locator(".requests li").nth(2).wait_for()
            page.locator(".requests summary").nth(2).press("Enter")
            expect(page.locator(".requests pre")).to_contain_text("look_up_order")
            take(page, "requests")
        finally:
            desk.kill()
