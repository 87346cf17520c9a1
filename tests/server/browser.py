"""A real browser for tests of the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Page, expect, sync_playwright
from tests.server.conftest import OWNER, ServerProcess

expect.set_options(timeout=60_000)  # as for other waits: a busy machine takes its time
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=QUIET.split())
        yield browser
        browser.close()


class Visit:
    """Somebody with the page open: what they do, and what went wrong meanwhile."""

    def __init__(self, browser: Browser, server: ServerProcess, **about: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **about})
        self.context.set_default_timeout(60_000)
        self.context.add_init_script(VIOLATIONS)
        self.server = server
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.page = self.window()

    def window(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        return page

    def enter(self) -> Visit:
        self.page.goto(f"{self.server.url}/#token={OWNER}")
        self.page.wait_for_selector("#message")
        return self

    def say(self, text: str, page: Page | None = None) -> None:
        page = page or self.page
        page.fill("#message", text)
        page.press("#message", "Enter")

    def menu(self, name: str, of: str = "More") -> None:
        self.page.get_by_role("button", name=of, exact=True).click()
        self.page.get_by_role("button", name=name, exact=True).click()

    def inspect(self, name: str) -> None:
        self.menu(name, "Inspect")

    def row_menu(self, name: str) -> None:
        """Choose from the menu of the first conversation in the list, with the keyboard."""
        self.page.locator(".sessions li .icon").first.focus()
        self.page.keyboard.press("Enter")
        self.page.get_by_role("button", name=name, exact=True).click()

    def texts(self, selector: str, page: Page | None = None) -> list[str]:
        return [each.strip() for each in (page or self.page).locator(selector).all_inner_texts()]

    def wait(self, selector: str, count: int = 1, page: Page | None = None) -> None:
        page = page or self.page
        are_there = "([selector, count]) => document.querySelectorAll(selector).length >= count"
        try:  # at an interval: a browser that nobody sees may stop drawing frames
            page.wait_for_function(are_there, arg=[selector, count], polling=50)
        except Error as error:
            shown = page.inner_text("body")
            raise AssertionError(f"{count} {selector} did not come. The page shows:\n{shown}") from error

    def shot(self, name: str) -> None:
        """A picture to look at, where somebody asked for them: SCREENSHOTS=FOLDER."""
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"page-{name}.png", animations="disabled")

    def close(self) -> None:
        self.context.close()
        assert self.errors == [], self.errors
        assert self.dialogs == []
