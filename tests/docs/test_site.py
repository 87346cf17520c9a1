"""The documentation site: built whole, without dead links, searched from a folder without a network."""

from __future__ import annotations

import fcntl
import importlib
import inspect
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.reading import Page, measures
from PIL import Image, ImageStat
from playwright.sync_api import expect

import pure_agent_loop
from pure_agent_loop import Agent
from pure_agent_loop.errors import PureAgentLoopError

pytestmark = pytest.mark.timeout(1200)  # the first test of a session waits until the site is built
ROOT = Path(__file__).parents[2]
REFERENCE = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md"))
LISTED = re.findall(r"^::: pure_agent_loop\.([\w.]+)$", REFERENCE, re.M)
IN_MODULES = {"tool.tool", "doctor.survey.survey", "toolbox.calculator.calculator"}  # of the same name
PUBLIC = [  # modules whose names are an interface
    *(
        "toolsets",
        "events",
        "sessions",
        "ray",
        "audit",
        "snapshots",
        "compaction",
        "toolbox",
        "subagents",
        "durable",
    ),
    *("server", "otel", "mcp", "evaluation", "doctor", "restate", "testing"),
    *("assistant", "prompts"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("zensical", reason="the generator needs Python 3.11")
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / "site"
    with (root / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds it for all
        if not (folder / "versions.json").exists():
            command = [sys.executable, str(ROOT / "scripts/build_site.py"), str(folder)]
            built = subprocess.run(command, capture_output=True, text=True)
            assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    return folder


def test_the_site_has_each_page_as_text(site):
    newest = site / pure_agent_loop.__version__
    texts = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert texts <= {path.relative_to(newest) for path in newest.rglob("*.md")}
    index = (newest / "llms.txt").read_text(encoding="utf-8")
    assert "- [Quickstart](start/quickstart.md): For your first ten minutes" in index
    assert set(re.findall(r"\]\((\S+)\): (?:For |Agents that |适合)", index)) == {
        path.as_posix() for path in texts
    }
    agent = (newest / "reference/agent.md").read_text(encoding="utf-8")
    assert "class Agent(model: str | Sequence[str] | None = DEFAULT_MODEL, api_key" in agent
    assert ":::" not in agent
    assert f"url={pure_agent_loop.__version__}/" in (site / "index.html").read_text(encoding="utf-8")


class Search:
    """The search of a page of the site."""

    def __init__(self, browser: Any, address: str, **about: Any) -> None:
        self.page = browser.new_page(**about)
        self.page.set_default_timeout(60_000)
        self.asked: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.keyboard.press("/")
        self.box = self.page.get_by_role("combobox", name="Search")
        self.hits = self.page.get_by_role("option")

    def first_three(self, words: str) -> list[str]:
        """The addresses of the first hits."""
        self.box.fill("")
        expect(self.hits).to_have_count(0, timeout=60_000)
        self.box.fill(words)
        self.hits.first.wait_for()
        return [hit.get_attribute("href") or "" for hit in self.hits.all()[:3]]


# A page that a reader means, by what they type.
MEANT = {
    "dependency injection": "dependencies",
    "human in the loop": "guides/approvals",
    "FastAPI": "guides/approvals",
    "quickstart": "start/quickstart",
    "deploy": "production/deploying",
    "backup": "production/backups",
    "API reference": "reference/index",
    "DataFrame": "reference/evaluation",
    "logging": "production/operating",
    "streaming": "start/quickstart",
    "cost": "money",
    "retry": "faults",
    "rate limit": "several-models",
    "kubernetes": "production/deploying",
    "timeout": "limits",
    "structured output": "typed-output",
    "memory": "assistant",
    "multi-agent": "guides/several-agents",
    "sandbox": "sandbox",
    "approve": "guides/approvals",
    "cron": "schedules",
    "webhook": "server",
    "OpenTelemetry": "guides/tracing",
    "MCP server": "mcp",
    "Claude": "anthropic",
    "Gemini": "gemini",
    "Ollama": "compatibles",
    "fallback": "several-models",
    "Idempotency-Key": "reference/http",
}


def test_search_finds_the_intended_page(site):
    from tests.server.browser import chromium

    newest = site / pure_agent_loop.__version__
    with chromium() as browser, served(site) as host:
        for root in (newest.as_uri(), f"{host}/{newest.name}"):
            search = Search(browser, f"{root}/index.html")
            found = {words: search.first_three(words) for words in MEANT}
            pages = {
                words: [re.split(r"\.html", hit.removeprefix(f"{root}/"))[0] for hit in hits]
                for words, hits in found.items()
            }
            assert {words: hits for words, hits in pages.items() if MEANT[words] not in hits} == {}
            assert not [hit for hits in pages.values() for hit in hits if hit.startswith("zh/")]
            assert not [url for url in search.asked if not url.startswith(("file:", host, "data:", "blob:"))]

            chinese = Search(browser, f"{root}/zh/guides/testing.html")
            for words, page in {"退款": "zh/guides/approvals", "retry": "zh/guides/"}.items():
                hits = chinese.first_three(words)
                assert hits[0].startswith(f"{root}/{page}")
                assert all(hit.startswith(f"{root}/zh/") for hit in hits)


def test_the_menu_of_versions_leads_to_the_same_page(site, tmp_path):
    build = runpy.run_path(str(ROOT / "scripts/build_site.py"))
    from tests.server.browser import chromium

    newest = pure_agent_loop.__version__
    for version in (newest, "0.1.9"):
        shutil.copytree(site / newest, tmp_path / version)
    build["write_versions"](tmp_path)
    with chromium() as browser, served(tmp_path) as host:
        page = browser.new_page()
        page.goto(host)
        page.wait_for_url(f"{host}/{newest}/index.html")
        for start, end in ((newest, "0.1.9"), ("0.1.9", newest)):
            page.goto(f"{host}/{start}/guides/testing.html")
            page.get_by_role("button", name="Select version").focus()
            page.get_by_role("link", name=end, exact=True).click()
            page.wait_for_url(f"{host}/{end}/guides/testing.html")


REPRESENTATIVE = [
    *("index", "start/concepts", "guides/approvals", "zh/guides/testing", "production/deploying"),
    *("reference/subagents", "reference/http", "cli", "performance", "architecture"),
]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_are_accessible(site, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    from tests.server.browser import chromium

    with chromium() as browser:
        page = browser.new_page(
            color_scheme=scheme, reduced_motion="reduce", viewport={"width": width, "height": 800}
        )
        page.route("**/search.js", lambda route: route.abort())  # large, and not needed here
        found = {}
        for name in REPRESENTATIVE:
            page.goto((site / pure_agent_loop.__version__ / f"{name}.html").as_uri())
            results = axe.run(page)
            if results.violations_count:
                found[name] = results.generate_report()
        assert found == {}


def test_no_page_scrolls_sideways_on_a_phone(site):
    from tests.server.browser import chromium

    newest = site / pure_agent_loop.__version__
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.route("**/search.js", lambda route: route.abort())
        wide = []
        for path in sorted(newest.rglob("*.html")):
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(path.relative_to(newest))
        assert wide == []


def test_drawings_follow_the_theme_of_the_page(site):
    from tests.server.browser import chromium

    with chromium() as browser:
        page = browser.new_page(color_scheme="light")
        page.goto((site / pure_agent_loop.__version__ / "start/concepts.html").as_uri())
        drawing = page.locator('img[src$=".svg"]')
        light = brightness(drawing.screenshot(animations="disabled"))
        page.get_by_title("Switch to dark").click()
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        dark = brightness(drawing.screenshot(animations="disabled"))
        assert light > 200
        assert dark < 40


def brightness(picture: bytes) -> float:
    """The mean brightness of a picture, 0 to 255."""
    return ImageStat.Stat(Image.open(io.BytesIO(picture)).convert("L")).mean[0]


@contextmanager
def served(folder: Path, missing: bytes = b"") -> Iterator[str]:
    """The address of a server of a folder's files, with a page for addresses that it does not have."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def send_error(self, code: int, *words: Any) -> None:
            if code != 404 or not missing:
                return super().send_error(code, *words)
            self.send_response(404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(missing)
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_page_for_missing_addresses_leads_back_under_any_path(site):
    from tests.server.browser import chromium

    version = pure_agent_loop.__version__
    missing = (site / version / "404.html").read_bytes()
    with served(site.parent, missing) as address, chromium() as browser:
        root = f"{address}/{site.name}/{version}/"
        page = browser.new_page()
        failed: list[str] = []
        page.on("response", lambda each: failed.append(each.url) if each.status >= 400 else None)
        page.goto(f"{root}guides/deep/none.html")
        links = page.locator("a[href]").evaluate_all("(links) => links.map((link) => link.href)")
        assert [url for url in failed if url.startswith(f"{root}assets/")] == []
        inside = {link for link in links if link.startswith(address)}
        assert len(inside) > 50
        assert all(link.startswith(root) for link in inside), inside
        expect(page.locator(".md-version__current")).to_have_text(version)
        chosen = page.locator(".md-version__link").first.evaluate("(link) => link.href")
        assert chosen.startswith(root)
        page.locator("label[for=__palette_1]").click()
        stored = page.evaluate("Object.keys(localStorage)")
        assert [key for key in stored if "palette" in key] == [f"/{site.name}/{version}/.__palette"]
        assert Search(browser, page.url).first_three("quickstart")[0].startswith(f"{root}start/quickstart")
        answer = page.goto(sorted(inside)[1])
        assert answer is not None
        assert answer.ok


def test_links_to_files_outside_the_site_resolve():
    def names(path: Path) -> set[str]:
        heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
        return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}

    for path in (*ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            place, _, name = link.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert link.startswith("https://") or target.exists(), f"{path.name}: {link}"
            assert not name or name in names(target), f"{path.name}: {link}"


def test_the_readmes_name_this_version():
    version = pure_agent_loop.__version__
    assert f"Version {version}," in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{version} 版，" in (ROOT / "README.zh.md").read_text(encoding="utf-8")


def test_each_page_begins_with_for_whom_it_is():
    for path in (ROOT / "docs").rglob("*.md"):
        title, empty, line, *_ = path.read_text(encoding="utf-8").splitlines()
        assert title.startswith("# "), path
        words = ("*适合", "。*") if "zh" in path.parts else ("*For ", ".*")
        words = ("**Agents ", ".**") if path == ROOT / "docs/index.md" else words  # the front says what it is
        assert empty == "", path
        assert line.startswith(words[0]), path
        assert line.endswith(words[1]), path


def test_each_page_can_be_read():
    for path in (ROOT / "docs").rglob("*.md"):
        if "zh" not in path.parts:
            _, long, grade = measures(Page(path.name, path.read_text(encoding="utf-8")))
            assert grade < 11, path
            assert long < 0.3, path  # sentences of more than 30 words


def test_chinese_guides_have_the_programs_of_the_english_ones():
    for path in (ROOT / "docs/zh/guides").glob("*.md"):
        twin = ROOT / "docs/guides" / path.name
        programs = [
            re.findall(r"^```\w+\n.*?^```", each.read_text(encoding="utf-8"), re.M | re.S)
            for each in (path, twin)
        ]
        assert programs[0] == programs[1], path


def test_the_reference_lists_each_public_name_once():
    expected = set(pure_agent_loop.__all__) - {"__version__"}
    for name in PUBLIC:
        module = importlib.import_module(f"pure_agent_loop.{name}")
        for each in module.__all__:
            if getattr(pure_agent_loop, each, None) is not getattr(module, each):
                expected.add(f"{name}.{each}")
    listed = [
        name.removesuffix(f".{name.rpartition('.')[2]}") if name in IN_MODULES else name for name in LISTED
    ]
    assert sorted(listed) == sorted(expected)


def test_the_reference_has_the_methods_that_a_class_inherits(site):
    pages = (site / pure_agent_loop.__version__ / "reference").glob("*.html")
    shown = set(re.findall(r'id="pure_agent_loop\.([\w.]+)"', "".join(page.read_text() for page in pages)))
    expected = {
        f"{name}.{method}"
        for name in pure_agent_loop.__all__
        if inspect.isclass(kind := getattr(pure_agent_loop, name)) and kind.__name__ == name
        for method, function in inspect.getmembers(kind, inspect.isfunction)
        if method == function.__name__ and method[0] != "_" and function.__doc__
        if function.__module__.startswith("pure_agent_loop.")
    }
    assert {"Agent.run", "Agent.arun_stream"} <= expected
    assert expected - shown == set()


def test_the_table_of_arguments_has_each_argument_of_an_agent():
    table = REFERENCE.partition("## Arguments of `Agent` by group")[2].partition(":::")[0]
    named = [
        name
        for row in re.findall(r"^\| [^|`]+ \| (.*) \|$", table, re.M)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(named) == sorted(set(inspect.signature(Agent).parameters))


def test_the_table_of_errors_has_each_public_error():
    table = REFERENCE.partition("| Error | When |")[2].partition("\n\n")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }

    def errors(module: Any) -> set[str]:
        found = {name: getattr(module, name) for name in module.__all__}
        return {
            name for name, each in found.items() if isinstance(each, type) and issubclass(each, BaseException)
        }

    modules = [
        importlib.import_module(f"pure_agent_loop.{name}")
        for name in PUBLIC
        if not name.startswith("testing")
    ]
    public = set().union(errors(pure_agent_loop), *(errors(module) for module in modules))
    assert PureAgentLoopError.__name__ in public
    assert named == public - {"PureAgentLoopError"}
