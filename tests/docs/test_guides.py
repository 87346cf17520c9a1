"""What the guides claim: the programs as they stand there, attacked and used by several people at once."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Thread

import httpx2
import pytest

from pure_agent_loop import Agent, SessionManager
from pure_agent_loop.testing import ScriptedLLM, call
from tests import forked
from tests.helpers import tool_texts
from tests.processes import running
from tests.serving import free_port

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def programs(name):
    return re.findall(r"^```python\n(.*?)^```", (GUIDES / name).read_text(encoding="utf-8"), re.M | re.S)


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT {} FROM t"
REFUSED = """
PRAGMA query_only = OFF | PRAGMA writable_schema = 1 | PRAGMA journal_mode = WAL
SELECT * FROM pragma_journal_mode | DELETE FROM orders | DELETE FROM orders RETURNING *
WITH t AS (SELECT 1) DELETE FROM orders | UPDATE orders SET total = 0
INSERT INTO orders VALUES (9, 'x', 1) | REPLACE INTO orders VALUES (9, 'x', 1)
EXPLAIN DELETE FROM orders | DROP TABLE orders | ALTER TABLE orders RENAME TO o | CREATE TABLE t (a)
CREATE TEMP TABLE t (a) | CREATE VIEW v AS SELECT 1 | CREATE INDEX i ON orders (id)
CREATE VIRTUAL TABLE f USING fts5(x) | REINDEX | ANALYZE | VACUUM | VACUUM INTO 'copy.db'
ATTACH 'y.db' AS y | ATTACH 'file:z.db?mode=rwc' AS z | DETACH main | BEGIN EXCLUSIVE | COMMIT
SAVEPOINT s | SELECT 1; DELETE FROM orders | SELECT load_extension('x') | SELECT zeroblob(1000000000)
SELECT printf('%.*c', 1000000000, 'x') | SELECT replace('a', 'a', 'aa')
"""
ATTACKS = [each.strip() for line in REFUSED.strip().splitlines() for each in line.split(" | ")]
ATTACKS += [ENDLESS.format("count(*)"), ENDLESS.format("max(x)")]


def test_the_tool_of_the_database_guide_only_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = {"__name__": "guide"}
    exec(programs("database-tool.md")[0], guide)
    shop = sqlite3.connect("shop.db", check_same_thread=False)
    shop.executescript("CREATE TABLE orders (id, customer, total); CREATE INDEX by_id ON orders (id)")
    shop.execute("INSERT INTO orders VALUES (1, 'Ann', 20.0)")
    shop.commit()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shop.set_authorizer(guide["only_reading"])
    for sql in ATTACKS:
        with ScriptedLLM([call("query", sql=sql), "I may not."]) as llm:
            Agent(llm=llm, tools=[guide["query"]]).run("Attack.", deps=shop)
        assert "The database says" in llm.requests[1].messages[-1]["content"], sql
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    reading = "SELECT COUNT(*) AS n, Round(sum(total)) FROM orders WHERE id IN (SELECT id FROM orders)"
    with ScriptedLLM([call("query", sql=reading), "One."]) as llm:
        Agent(llm=llm, tools=[guide["query"]]).run("How many?", deps=shop)
    assert '"n": 1' in llm.requests[1].messages[-1]["content"]


def test_the_tool_of_the_database_guide_is_bounded():
    guide = {"__name__": "guide"}
    exec(programs("database-tool.md")[0], guide)
    numbers = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a LIMIT 200000) "
    counting, many = numbers + "SELECT count(*) AS n FROM a", numbers + "SELECT x FROM a"
    double = "SELECT o.id, p.id FROM orders AS o, orders AS p"
    script = [
        [call("query", sql=counting), call("query", sql="SELECT 1 AS one")],  # on one connection
        call("query", sql=many),
        call("query", sql=double),
        "Done.",
    ]
    with ScriptedLLM(script) as llm:
        Agent(llm=llm, tools=[guide["query"]]).run("Count.", deps=guide["open_shop"]())
    (counted, one, fifty, renamed) = tool_texts(llm.requests[-1].messages)
    assert '"n": 200000' in counted
    assert '"one": 1' in one
    assert '"x": 50' in fifty
    assert '"x": 51' not in fifty
    assert '"complete": false' in fifty
    assert "rename them with AS" in renamed


# The program of the guide, with a model that asks for two refunds a case, and a book that outlives it.
BOOK = """
import os
from pathlib import Path


class Book:
    def append(self, entry):
        with Path("book.txt").open("a") as file:
            file.write(f"{entry[0]}\\n")
        if os.path.exists("die"):
            os.kill(os.getpid(), 9)


def decide(messages, tools, options):
    task = next(each["content"] for each in messages if each["role"] == "user")
    if messages[-1]["role"] == "tool":
        return "Refunded."
    return [call("refund", order=int(task) + more, amount=1.0) for more in (0, 1)]


refunds = Book()
"""
OWN = """
agent = Agent(llm=ScriptedLLM(decide), tools=[refund], permission_mode="ask", sessions=sessions)
"""
DURABLE = """
def refund(order: int, amount: float) -> str:
    refunds.append((order, amount))
    return "refunded"


agents = {"support": Agent(llm=ScriptedLLM(decide), tools=[refund], permission_mode="ask")}
"""
ANN, BOB = {"X-User": "Ann"}, {"X-User": "Bob"}


@contextlib.contextmanager
def served(folder):
    """Serve the module web in a folder; yields a client and its process."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--no-access-log", "--port", str(port), "web:app"]
    with running(command, forked.Popen, cwd=folder, stderr=-1, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("".join(lines))
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as page:
            yield page, process


def at_once(*requests):
    """Send requests at the same moment; the answers, in their order."""
    barrier = Barrier(len(requests))

    def send(request):
        barrier.wait(60)
        return request()

    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(send, requests))


def own_endpoints(folder):
    program = programs("approvals.md")[0].partition("ann, bob =")[0]
    (folder / "web.py").write_text(program + BOOK + OWN)
    return SessionManager(folder / "sessions")


def refunded(folder):
    return Counter((folder / "book.txt").read_text().split())


def begin(client, case):
    return client.post(f"/cases/{case}", json={"text": case})


def answer(client, who, case, call_id):
    return client.post(f"/cases/{case}/answers/{call_id}", json={"verdict": "allow"}, headers=who)


def test_people_at_once_get_no_error_from_the_endpoints_of_the_guide(tmp_path):
    own_endpoints(tmp_path)
    with served(tmp_path) as (page, _), served(tmp_path) as (other, _):
        codes = Counter()
        for case in map(str, range(0, 40, 2)):
            clicks = [partial(begin, client, case) for client in (page, other) * 2]
            codes.update(each.status_code for each in at_once(*clicks))
            calls = [each["call"] for each in page.get("/questions").json() if each["case"] == case]
            people = [(page, ANN), (other, BOB)]
            answers = [partial(answer, *person, case, each) for each in calls for person in people]
            given = Counter(each.status_code for each in at_once(*answers))
            assert given == {200: 2, 409: 2}
            codes.update(given)
    assert set(codes) == {200, 409}
    assert refunded(tmp_path) == Counter(map(str, range(40)))


def test_two_starting_processes_resume_leftover_runs_once(tmp_path):
    sessions = own_endpoints(tmp_path)
    with served(tmp_path) as (page, _):
        for case in ("0", "2", "4", "6"):
            begin(page, case)
        for question in sessions.questions("0"):  # killed while it gives the first of them
            (tmp_path / "die").touch()
            with contextlib.suppress(httpx2.HTTPError):
                answer(page, ANN, "0", question.call_id)
    (tmp_path / "die").unlink()
    for case in ("2", "4"):
        for question in sessions.questions(case):
            sessions.answer(case, question.call_id, "allow", by="Ann")
    with served(tmp_path) as (page, _), served(tmp_path) as (other, _):
        at_once(*(partial(client.get, "/questions") for client in (page, other)))
        while sessions.resumable():
            assert page.get("/questions").status_code == 200
        assert {each["case"] for each in other.get("/questions").json()} == {"6"}
    assert all(sessions.load(case).stop_reason == "completed" for case in ("0", "2", "4"))
    cut_off = Counter(["0", "1"])  # both were at work when the process died
    assert refunded(tmp_path) - cut_off == Counter(["2", "3", "4", "5"])


def test_people_at_once_get_no_error_from_the_durable_program_of_the_guide(tmp_path):
    program = programs("approvals.md")[2].partition("if __name__")[0]
    (tmp_path / "web.py").write_text(program + BOOK + DURABLE)
    work = [sys.executable, "-m", "pure_agent_loop", "worker", "--agents", "web:agents"]
    work += ["--database", "sqlite:///work.sqlite"]
    with running(work, forked.Popen, cwd=tmp_path, stderr=-1, text=True) as worker:
        assert any("started" in line for line in worker.stderr)
        Thread(target=worker.stderr.read, daemon=True).start()
        with served(tmp_path) as (page, _), served(tmp_path) as (other, _):
            codes = Counter()
            cases = [str(number) for number in range(0, 12, 2)]
            clicks = [partial(begin, client, case) for client in (page, other) for case in cases]
            codes.update(each.status_code for each in at_once(*clicks))
            while len(asked := page.get("/questions").json()) < 12:
                assert worker.poll() is None
            people = [(page, ANN), (other, BOB)]
            answers = [
                partial(answer, *person, each["case"], each["call"]) for each in asked for person in people
            ]
            codes.update(each.status_code for each in at_once(*answers))
            while any(other.get(f"/cases/{case}").json()["state"] != "completed" for case in cases):
                assert worker.poll() is None
    assert codes == {200: 24, 409: 12}
    assert refunded(tmp_path) == Counter(map(str, range(12)))
