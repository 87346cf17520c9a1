"""The recordings of a terminal: played for real, compared with the pictures, drawn anew with PAL_RECORD=1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

from pure_agent_loop.testing import ScriptedServer, answer, call
from tests.cli.conftest import Pal
from tests.cli.screens import ENTER, Screen
from tests.docs.recording import COLUMNS, Recording, picture

IMAGES = Path(__file__).parents[2] / "docs/images"
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SHOP = '''"""A shop whose agent may refund, if a person agrees."""

from pathlib import Path

from pure_agent_loop import Agent, tool
from pure_agent_loop.audit import AuditLog


@tool
def refund(order: int, amount: float) -> str:
    """Give money back."""
    with Path("refunds.txt").open("a") as book:
        book.write(f"order {order}: {amount:.2f}\\n")
    return f"order {order}: {amount:.2f} given back"


agents = {"shop": Agent(model="m", tools=[refund], permission_mode="ask", audit=AuditLog("audit"))}
'''


def compare(drawn: str, name: str) -> None:
    """Compare the lines of a drawing with those of a picture; figures and durations may differ."""
    path = IMAGES / name
    if os.environ.get("PAL_RECORD"):
        path.write_text(drawn, encoding="utf-8")
    shown = lines_of(path.read_text(encoding="utf-8"))
    assert lines_of(drawn) == shown, f"{name} shows something else; draw it anew: PAL_RECORD=1"


def lines_of(svg: str) -> list[str]:
    texts = [unescape(re.sub(r"<[^>]+>", "", line)) for line in re.findall(r"<text x=.*?</text>", svg)]
    figures = [re.sub(r"\b(?=[a-f]*\d)[\da-f]+(?:\.\d+)?", "0", text) for text in texts]
    seconds = re.compile(r"\b0 s, |(?: ·|  ) ?0 s\b(?!,)")  # shown from 1 s on
    return [seconds.sub("", text).rstrip() for text in figures]


def environment(folder: Path, url: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    server = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}
    return {**kept, **server, "PATH": path, "PAL_HOME": str(folder / "home")}


def model(request):
    if request.messages[-1]["role"] == "tool":
        return "Order 7 is refunded."
    return call("refund", order=7, amount=20.0)


def test_a_refund_is_made_once_though_its_worker_is_killed(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    with ScriptedServer(handler=model) as server:
        env = {**environment(tmp_path, server.base_url), "PAL_DATABASE": "sqlite:///runs.sqlite"}
        film = Recording(tmp_path, env)
        workers = []

        def work() -> None:
            film.say("\x1b[32m$\x1b[0m pal worker --agents shop:agents &\n", 0.5)
            command = [f"{Path(sys.executable).parent}/pal", "worker", "--agents", "shop:agents"]
            workers.append(
                subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
            )
            next(line for line in workers[-1].stderr if "shop" in line)  # it has named its agents

        try:
            work()
            film.run("pal submit --agent shop --id refund-7 --wait 'Refund order 7, please.'", 3)
            film.run("pal tasks --status waiting_permission", 3)
            workers[0].kill()
            workers[0].wait()
            film.say("\x1b[32m$\x1b[0m kill -9 %1\n", 2)
            film.run("pal answer refund-7 call_1 allow    # somebody else, anywhere", 2)
            work()
            assert "Order 7 is refunded." in film.run(
                "pal submit --agent shop --id refund-7 --wait 'Refund order 7, please.'", 3
            )
            assert film.run("cat refunds.txt", 2).split() == ["order", "7:", "20.00"]
            film.run("pal audit verify --file audit", 4)
        finally:
            for each in workers:
                each.kill()
                each.wait()
                each.stderr.close()
    title = "A refund waits for a person, its worker is killed, somebody allows it, and it happens once"
    compare(film.svg(title), "refund.svg")


def test_library_records_the_effects_of_an_agent(tmp_path):
    """The program of the README, in a folder with two tests."""
    shop = tmp_path / "shop"
    shop.mkdir()
    program = next(
        code for code in re.findall(r"^```python\n(.*?)^```", README, re.M | re.S) if "AuditLog" in code
    )
    (shop / "agent.py").write_text(program, encoding="utf-8")
    (shop / "test_pricing.py").write_text(TESTS, encoding="utf-8")
    script = [
        call("grep", pattern="def test_", path="."),
        call("shell", command="python3 -B -m unittest 2>&1 | tail -1"),
        "Two, both in `test_pricing.py`: a discount of 10 %, and none at all. Both pass.",
    ]
    with ScriptedServer(script) as server:
        film = Recording(shop, environment(tmp_path, server.base_url))
        assert "Both pass." in film.run("python agent.py")
        assert "unittest" in film.run("pal sessions show tests")
        film.run("pal audit list")
        assert film.run("pal audit verify").startswith("Intact")
    compare(film.still("A program, the record of its run, and the audit log"), "library.svg")


TESTS = """import unittest


class Pricing(unittest.TestCase):
    def test_ten_percent(self):
        self.assertEqual(100 - 100 * 10 / 100, 90)

    def test_nothing_off(self):
        self.assertEqual(100 - 100 * 0 / 100, 100)
"""
OLD, NEW = "return total - total * percent", "return total - total * percent / 100"


def test_a_conversation_at_the_terminal_looks_as_in_the_picture(tmp_path):
    pal = Pal(tmp_path)
    pal.env["HOME"] = str(tmp_path)
    (pal.workspace / "pricing.py").write_text(f"def discount(total, percent):\n    {OLD}\n")
    script = [
        call("shell", command="python3 -c 'import pricing; print(pricing.discount(100, 10))'"),
        answer(
            "10 % of 100 should leave 90. The percentage must be divided by 100.",
            call("edit_file", path="pricing.py", old_text=OLD, new_text=NEW),
        ),
        "Mended: `discount(100, 10)` is 90.",
    ]
    with ScriptedServer(script) as server:
        pal.use(server)
        pal.env["PAL_MODEL"] = "qwen3-coder-30b"
        with Screen(pal, columns=COLUMNS, rows=30) as screen:
            screen.until("/ commands")
            screen.type("Why is a 10 % discount wrong?" + ENTER)
            screen.until(r"Edit pricing.py(?s:.*)n  No  3\n.*\n─+\n>.*\n─+\nask .*\dk? context")
            drawn = picture(screen.cells, "A command, its result, and a question before an edit", {}, 1)
            screen.type("y" + ENTER)
            screen.until("Mended")
    compare(drawn, "terminal.svg")
