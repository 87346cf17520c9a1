"""Pictures of the terminal and of the page in the states that people see most, to be looked at.

    python -m benchmarks.screens FOLDER [terminal] [page]

Writes into FOLDER, with an index.html of them all:

- the terminal at 120x40, 80x24 and 40x10, in English and Chinese: a text of each state, and one picture with
  its colours for each size and language
- the page at 1280 and 390 pixels, light and dark, in English and Chinese: a picture of each state

Both run for real, on a scripted model and the tools of a workspace. Needs what the tests need (a terminal,
`/usr/bin/chromium`); Chinese pictures need a font with Chinese characters.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page
from tests.cli.conftest import Pal
from tests.cli.screens import CTRL_C, CTRL_O, ENTER, ESC, Screen
from tests.server.browser import chromium

from pure_agent_loop import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.server import create_app
from pure_agent_loop.support.language import LANGUAGE_VARIABLE
from pure_agent_loop.testing import ScriptedServer, answer, call, unauthorized
from pure_agent_loop.toolbox import TodoList, workspace_tools

SIZES = ((120, 40), (80, 24), (40, 10))
VIEWS = ((1280, 800), (390, 844))
TOKEN = "owner-token-0123456789"
PRICING = '''"""Prices of the shop."""

RATES = {"member": 10, "staff": 25}


def discount(total, percent):
    """Take a percentage off."""
    return total - total * percent


def tax(total, percent):
    return total + total * percent / 100
'''
OLD = "    return total - total * percent\n"
NEW = """\
    if not 0 <= percent <= 100:
        raise ValueError(f"percent: {percent}")
    return total - total * percent / 100
"""
STEPS = "for n in 1 2 3 4 5 6 7 8; do echo step $n of 8; sleep 0.7; done"
CHECK = (
    'python3 -c \'import sys; print("2 tests ran"); '
    'print("discount(100, 10): expected 90, got -900"); sys.exit(1)\''
)
FENCE = (
    "```python\ndef discount(total, percent):\n"
    "    return total - total * percent / 100  # 10 means 10 %\n```\n"
)
REPORT = {
    "en": "## What `discount` does\n\nIt takes a **percentage** off, but multiplies by the number itself:\n\n"
    f"{FENCE}\n| argument | type | example | what it means to the caller |\n|---|---|--:|---|\n"
    "| `total` | float | 100 | the price before anything is taken off |\n"
    "| `percent` | float | 10 | ten per cent, not a fraction |\n\n- [x] read the file\n- [ ] add a test\n\n"
    "> Prices are never negative.\n\nIn short: $p' = p(1 - r/100)$. The end.",
    "zh": "## `discount` 做什么\n\n它按**百分比**打折，但直接乘了这个数：\n\n"
    f"{FENCE}\n| 参数 | 类型 | 例子 | 对调用者的含义 |\n|---|---|--:|---|\n"
    "| `total` | float | 100 | 打折之前的价格 |\n| `percent` | float | 10 | 百分之十，不是小数 |\n\n"
    "- [x] 读文件\n- [ ] 加测试\n\n> 价格永远不为负。\n\n即 $p' = p(1 - r/100)$。完毕。",
}
WORDS = {  # the task, and the end of its last answer
    "en": {
        "report": ("What does discount do?", "The end."),
        "plan": ("Plan the fix", "Plan written."),
        "fix": ("Fix the discount bug", "Fixed."),
        "run": ("Build everything", "Built."),
        "fail": ("Run the tests", "One test fails."),
        "error": ("Ask without a key", "401"),
    },
    "zh": {
        "report": ("discount 是做什么的？", "完毕。"),
        "plan": ("规划修复步骤", "计划已写好。"),
        "fix": ("修复打折的错误", "修好了。"),
        "run": ("构建整个项目", "构建完成。"),
        "fail": ("运行测试", "有一个测试失败。"),
        "error": ("不带密钥提问", "401"),
    },
}
TASKS = {
    "en": ("Read pricing.py", "Correct the formula", "Add a test"),
    "zh": ("阅读 pricing.py", "改正公式", "添加测试"),
}


def model(lang: str) -> Callable[[Any], Any]:
    """Return the handler of a model that knows the tasks above."""
    words = {ask: name for name, (ask, _) in WORDS[lang].items()}

    def plan(*states: str) -> Any:
        items = [{"task": task, "status": state} for task, state in zip(TASKS[lang], states, strict=True)]
        return answer("", call("todo_write", items=items))

    read = call("read_file", path="src/pricing.py")
    items = {
        "report": [
            answer("", read, call("grep", pattern="discount"), call("list_dir", path=".")),
            REPORT[lang],
        ],
        "plan": [
            plan("in_progress", "pending", "pending"),
            answer("", read),
            plan("done", "in_progress", "pending"),
        ],
        "fix": [answer("", call("edit_file", path="src/pricing.py", old_text=OLD, new_text=NEW))],
        "run": [answer("", call("shell", command=STEPS))],
        "fail": [answer("", call("shell", command=CHECK))],
        "error": [unauthorized()],
    }

    def respond(request: Any) -> Any:
        messages = request.body["messages"]
        at = max(n for n, each in enumerate(messages) if each["role"] == "user")
        name = next((name for ask, name in words.items() if ask in str(messages[at]["content"])), "report")
        said = sum(each["role"] == "assistant" for each in messages[at:])
        return items[name][said] if said < len(items[name]) else WORDS[lang][name][1]

    return respond


# -- terminal -----------------------------------------------------------------------------------------------


def settle(screen: Screen, quiet: float = 0.5, most: float = 4.0) -> None:
    """Wait until nothing is drawn for a moment; good enough for pictures, not for tests."""
    ends = still = time.monotonic()
    while time.monotonic() < ends + most and time.monotonic() < still + quiet:
        if screen._read(0.1):
            still = time.monotonic()


def conversation(screen: Screen, lang: str) -> Iterator[str]:
    """Go to the next state of the terminal, and name it."""

    def ask(name: str, until: str = "") -> None:
        screen.type(WORDS[lang][name][0] + ENTER)
        screen.until(until or WORDS[lang][name][1])

    screen.until("/ .* · @")
    yield "start"
    screen.type("/")
    yield "menu"
    screen.type("\x15")
    ask("report")
    yield "answer"
    ask("plan")
    yield "plan"
    ask("fix", "❯ y")
    yield "question"
    screen.type("y" + ENTER)
    screen.until(WORDS[lang]["fix"][1])
    yield "edited"
    ask("run", "step 3 of 8")
    yield "running"
    screen.until(WORDS[lang]["run"][1])
    ask("fail")
    yield "failed"
    screen.type(CTRL_O)
    yield "unfolded"
    ask("error")
    yield "error"
    for name in ("help", "context", "cost", "status", "mode"):
        screen.type(f"/{name}{ENTER}")
        yield name
    screen.type("?")
    yield "keys"
    screen.type(ESC + CTRL_C)
    yield "ctrl-c"


def terminal(folder: Path, browser: Browser) -> None:
    """Write the states of the terminal."""
    for lang in WORDS:
        for columns, rows in SIZES:
            sheet, size = [], f"{columns}x{rows}"
            with _shop() as shop, ScriptedServer(handler=model(lang)) as server:
                pal = Pal(shop)
                _fill(pal.workspace)
                pal.use(server)
                pal.env |= {LANGUAGE_VARIABLE: lang, "TERM": "xterm-256color"}
                with Screen(pal, columns=columns, rows=rows) as screen:
                    for name in conversation(screen, lang):
                        settle(screen, 0.1 if name == "running" else 0.5)
                        title = f"terminal-{size}-{lang}-{name}"
                        (folder / f"{title}.txt").write_text(screen.text + "\n")
                        sheet.append(f"<div><h3>{name}</h3><pre>{coloured(screen)}</pre></div>")
            page = browser.new_page(
                viewport={"width": 8 * columns * max(1, 240 // columns) + 80, "height": 600}
            )
            page.set_content(STYLE + "".join(sheet))
            page.screenshot(path=folder / f"terminal-{size}-{lang}.png", full_page=True)
            page.close()
            print(f"terminal {size} {lang}", flush=True)


def coloured(screen: Screen) -> str:
    """Return what is on the screen as HTML, a span for each colour."""
    lines = []
    for row in range(screen._screen.lines):
        cells, line = screen._screen.buffer[row], ""
        for column in range(screen._screen.columns):
            cell = cells[column]
            fore, back = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
            style = f"color:{_css(fore, '#ddd' if not cell.reverse else '#111')}"
            style += f";background:{_css(back, '#111' if not cell.reverse else '#ddd')}"
            style += ";font-weight:bold" * cell.bold
            plain = style == "color:#ddd;background:#111"
            line += (
                html.escape(cell.data) if plain else f'<span style="{style}">{html.escape(cell.data)}</span>'
            )
        lines.append(line)
    return "\n".join(lines)


def _css(name: str, default: str) -> str:
    known = {
        "default": default,
        "brown": "#cc3",
        "cyan": "#3cc",
        "green": "#4c4",
        "red": "#f55",
        "blue": "#79f",
    }
    return known.get(
        name, f"#{name}" if len(name) == 6 and name.isalnum() and name[:1] in "0123456789abcdef" else name
    )


STYLE = """<meta charset=utf-8><style>
body { background: #444; color: #fff; display: flex; flex-wrap: wrap; gap: 12px; font: 13px sans-serif }
pre { background: #111; color: #ddd; padding: 6px; margin: 0;
      font: 13px/1.25 "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace }
h3 { margin: 4px 0 } img { max-width: 100% } a { color: #9cf }
</style>"""


# -- page ---------------------------------------------------------------------------------------------------


def visit(page: Page, address: str, lang: str, is_phone: bool) -> Iterator[str]:
    """Go from one state of the page to the next, and name it."""
    words, at = WORDS[lang], 1 if lang == "zh" else 0

    def named(english: str, chinese: str) -> Any:
        return page.get_by_role("button", name=(english, chinese)[at], exact=True)

    def ask(name: str) -> None:
        page.fill("#message", words[name][0])
        page.press("#message", "Enter")

    def ended(count: int) -> None:
        page.wait_for_function("n => document.querySelectorAll('.end').length >= n", arg=count)

    page.goto(f"{address}/")
    page.wait_for_selector(".login input")
    yield "sign-in"
    page.goto("about:blank")
    page.goto(f"{address}/#token={TOKEN}")
    page.wait_for_selector("#message")
    yield "empty"
    ask("report")
    ended(1)
    page.wait_for_selector(".answer table")
    yield "conversation"
    ask("plan")
    ended(2)
    yield "plan"
    ask("run")
    page.get_by_text("step 3 of 8").wait_for()
    yield "running"
    ended(3)
    ask("fail")
    ended(4)
    yield "failed"
    page.locator(".call summary").last.click()
    yield "unfolded"
    ask("error")
    ended(5)
    yield "error"
    ask("fix")
    page.wait_for_selector(".card")
    yield "approval"
    page.goto("about:blank")
    page.goto(f"{address}/#/approvals")
    page.wait_for_selector(".inbox .card")
    yield "inbox"
    page.locator(".inbox .card button").first.click()
    page.wait_for_function("() => !document.querySelector('.inbox .card')")
    yield "inbox-empty"
    if is_phone:
        page.locator("header .menu").click()
        yield "sidebar"
    page.locator(".sessions .session").first.click()
    ended(6)
    yield "edited"
    named("More", "更多").click()
    yield "menu"
    page.keyboard.press("Escape")
    named("Inspect", "检查").click()
    page.wait_for_selector(".drawer .bar")
    yield "drawer-timeline"
    named("Context", "上下文").click()
    page.wait_for_selector(".drawer .requests")
    yield "drawer-context"
    page.goto("about:blank")
    page.goto(f"{address}/#/operator")
    page.wait_for_selector(".fleet")
    yield "operator"
    if is_phone:
        page.locator("header .menu").click()
    named("Settings", "设置").click()
    yield "settings"


def pages(folder: Path, browser: Browser) -> None:
    """Write the states of the page."""
    for lang in WORDS:
        for width, height in VIEWS:
            for theme in ("light", "dark"):
                about: dict[str, Any] = {
                    "viewport": {"width": width, "height": height},
                    "color_scheme": theme,
                }
                about |= {"locale": {"en": "en-GB", "zh": "zh-CN"}[lang]}
                about |= {"has_touch": True, "is_mobile": True} if width < 500 else {}
                with _served(lang) as address:
                    context = browser.new_context(**about)
                    page = context.new_page()
                    for name in visit(page, address, lang, width < 500):
                        page.wait_for_timeout(300)  # colours of code, and fonts
                        page.screenshot(
                            path=folder / f"page-{width}-{theme}-{lang}-{name}.png", animations="disabled"
                        )
                    context.close()
                print(f"page {width} {theme} {lang}", flush=True)


@contextmanager
def _served(lang: str) -> Iterator[str]:
    with _shop() as shop, ScriptedServer(handler=model(lang)) as scripted:
        work = shop / "work"
        work.mkdir()
        _fill(work)
        agent = Agent(
            "scripted",
            "k",
            scripted.base_url,
            tools=[*workspace_tools(work), *TodoList().tools()],
            audit=AuditLog(shop / "audit"),
            language=lang,
            permission_mode="ask",
        )
        asked = [words[0] for words in list(WORDS[lang].values())[:4]]
        database = f"sqlite:///{shop}/runs.sqlite"
        app = create_app({"shop": agent}, TOKEN, database=database, folder=shop / "server", starters=asked)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


@contextmanager
def _shop() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _fill(work: Path) -> None:
    (work / "src").mkdir()
    (work / "src" / "pricing.py").write_text(PRICING)
    (work / "README.md").write_text("# Shop\n\nPrices with a discount.\n")


def index(folder: Path) -> None:
    """Write index.html: every picture, and every text behind a link."""
    pictures = sorted(each.name for each in folder.glob("*.png"))
    texts = sorted(each.name for each in folder.glob("*.txt"))
    links = " ".join(f"<a href={name}>{name[:-4]}</a>" for name in texts)
    shown = "".join(f"<div><h3>{name[:-4]}</h3><img src={name} width=600></div>" for name in pictures)
    (folder / "index.html").write_text(f"{STYLE}<p>{links}</p>{shown}")


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", nargs="*", choices=["terminal", "page"], default=["terminal", "page"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for name, make in (("terminal", terminal), ("page", pages)):
            if name in options.what:
                make(options.folder, browser)
    index(options.folder)


if __name__ == "__main__":
    main()
