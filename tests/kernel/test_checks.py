"""`Tool(check=)` and the checks of built-in tools: no person is asked about a call that cannot work."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, ConfigError, EventType, ToolExecutionError, tool
from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.renderer import Renderer
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.export import to_html, to_markdown
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools


class Shop:
    """Orders that tools change, and what happened to them."""

    def __init__(self) -> None:
        self.orders = {"1": "open"}
        self.done: list[str] = []
        self.checked: list[str] = []

    def reason(self, args):
        self.checked.append(args["order"])
        return None if self.orders.get(args["order"]) == "open" else f"Order {args['order']} is not open."

    def tools(self, check=None):
        @tool(check=check or self.reason)
        def refund(order: str) -> str:
            """Refund an order."""
            self.orders[order] = "refunded"
            self.done.append(order)
            return "refunded"

        return [refund]


def run(tools, *calls, on_ask=None, **options):
    asked = []

    def person(request):
        asked.append(request.args)
        return on_ask(request) if on_ask else "allow"

    agent = Agent(
        llm=ScriptedLLM([list(calls), "end"]), tools=tools, permission_mode="ask", on_ask=person, **options
    )
    result = agent.run("Go.")
    return asked, [str(message["content"]) for message in result.messages if message["role"] == "tool"]


def test_call_that_cannot_work_is_not_asked_about():
    shop = Shop()
    asked, told = run(shop.tools(), call("refund", order="9"))
    assert (asked, shop.done) == ([], [])
    assert "Order 9 is not open." in told[0]


def test_check_is_repeated_when_the_call_is_made():
    shop = Shop()

    def late(request):
        shop.orders["1"] = "cancelled"
        return "allow"

    asked, told = run(shop.tools(), call("refund", order="1"), on_ask=late)
    assert (len(asked), shop.done) == (1, [])
    assert "Order 1 is not open." in told[0]


def test_failing_check_does_not_count_after_a_call_that_may_change_something():
    shop = Shop()

    @tool
    def reopen(order: str) -> str:
        """Open an order again."""
        shop.orders[order] = "open"
        return "open"

    asked, _ = run([*shop.tools(), reopen], call("reopen", order="2"), call("refund", order="2"))
    assert asked == [{"order": "2"}, {"order": "2"}]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_error_of_a_check_is_the_reason(is_async):
    def check(args):
        raise ToolExecutionError(f"No order {args['order']}.")

    async def check_async(args):
        check(args)

    shop = Shop()
    asked, told = run(shop.tools(check_async if is_async else check), call("refund", order="1"))
    assert (asked, shop.done) == ([], [])
    assert "No order 1." in told[0]


def test_result_of_a_check_must_be_text():
    asked, told = run(Shop().tools(lambda args: True), call("refund", order="1"))
    assert asked == []
    assert "must be a text or None" in told[0]


def test_check_must_take_the_arguments():
    def refund(order: str) -> str:
        """Refund an order."""
        return order

    with pytest.raises(ConfigError, match="check"):
        tool(check=lambda: None)(refund)


def test_caller_that_decides_is_not_asked_either():
    shop, decided = Shop(), []

    def can_use_tool(name, args, context):
        decided.append(args)
        return "allow"

    run(shop.tools(), call("refund", order="9"), can_use_tool=can_use_tool)
    assert (decided, shop.done) == ([], [])


def test_refusal_is_recorded(tmp_path):
    shop = Shop()
    agent = Agent(
        llm=ScriptedLLM([call("refund", order="9"), "end"]),
        tools=shop.tools(),
        permission_mode="ask",
        sessions=tmp_path,
    )
    result = agent.run("Go.", session_id="s")
    assert result.stop_reason == "completed"  # nothing waits for a person
    assert "is not open" in next(tmp_path.rglob("s*.jsonl")).read_text()
    assert shop.checked == ["9"]


def asking_agent(folder, *script, on_ask=lambda _: "allow", audit=None):
    llm, tools = ScriptedLLM([*script, "end"]), workspace_tools(folder)
    options = {"permission_mode": "ask", "on_ask": on_ask, "audit": audit, "sessions": folder / ".s"}
    return Agent(llm=llm, tools=tools, **options)


def test_every_view_says_that_nobody_was_asked(folder):
    pytest.importorskip("rich")  # of an extra, which the oldest dependencies are tested without
    agent = asking_agent(folder, edit("gone", "x"))
    screen, renderer = TranscriptView(70, color=False, animation=False), Renderer()
    events = list(agent.run_stream("Go.", session_id="s"))
    shown = "".join(map(screen.feed, events))
    line = next(line for line in shown.splitlines() if "a.py" in line)
    assert line.startswith("✗ Edit a.py  old_text is not in")
    assert line.endswith("  (not asked)")
    assert "<- edit_file failed (not asked)" in "".join(map(renderer.render, events))
    records = JsonlStore(folder / ".s").read("s").records
    entries = read_story(records).entries
    assert [entry.unasked for entry in entries if entry.kind == "result"] == [True]
    again = TranscriptView(70, color=False, animation=False)
    assert line in "".join(map(again.recorded, entries))
    for document in (to_markdown(records), to_html(records)):
        assert "not asked" in document
    replayed = []
    assert (
        replay_session(records, watch=lambda kind, value: replayed.append((kind, value))).difference is None
    )
    assert [value.unasked for kind, value in replayed if kind == "observation"] == [True]


def test_the_audit_log_tells_a_call_that_cannot_work_from_a_denied_one(folder):
    script, log = [edit("gone", "x"), edit("return", "x")], AuditLog(folder / ".log")
    asking_agent(folder, *script, on_ask=lambda _: "deny", audit=log).run("Go.")
    assert [(entry.verdict, entry.status) for entry in history(folder / ".log")] == [
        ("deny", "error"), ("deny", "denied"),
    ]  # fmt: skip
    assert verify(folder / ".log").ok


def test_call_that_was_asked_about_and_then_failed_was_asked(folder):
    def late(request):
        (folder / "a.py").write_text("other\n")
        return "allow"

    agent = asking_agent(folder, call("read_file", path="a.py"), edit("return", "x"), on_ask=late)
    events = list(agent.run_stream("Go."))
    observed = [event for event in events if event.type is EventType.OBSERVATION]
    assert [(event.is_error, event.unasked) for event in observed] == [(False, False), (True, False)]


def edit(old, new, path="a.py"):
    return call("edit_file", path=path, old_text=old, new_text=new)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.py").write_text("return 1\n")
    return tmp_path


def test_edits_of_one_response_see_each_other(folder):
    asked, told = run(
        workspace_tools(str(folder)),
        edit("return 1", "return 2"),
        edit("return 1", "return 9"),  # the text is gone by then
        edit("return 2", "return 3"),
        cwd=str(folder),
    )
    assert [args["new_text"] for args in asked] == ["return 2", "return 3"]
    assert "not in" in told[1]
    assert (folder / "a.py").read_text() == "return 3\n"


def test_changes_of_one_response_are_made_in_order(folder):
    write = call("write_file", path="new.txt", content="number 0")
    edits = [edit(f"number {n}", f"number {n + 1}", "new.txt") for n in range(20)]
    run(workspace_tools(str(folder)), write, *edits, cwd=str(folder))
    assert (folder / "new.txt").read_text() == "number 20"


def test_edit_after_a_command_is_asked_about(folder):
    @tool(exclusive=True)
    def make(path: str) -> str:
        """Make a file."""
        (folder / path).write_text("made\n")
        return "made"

    asked, _ = run(
        [*workspace_tools(str(folder)), make],
        call("make", path="b.py"),
        edit("made", "changed", "b.py"),
        cwd=str(folder),
    )
    assert len(asked) == 2
    assert (folder / "b.py").read_text() == "changed\n"


def test_file_that_cannot_be_written_is_not_asked_about(folder):
    (folder / "a.py").chmod(0o444)
    write = call("write_file", path="a.py", content="x")
    below = call("write_file", path="a.py/b/c.py", content="x")
    itself = call("write_file", path=".", content="x")
    asked, told = run(workspace_tools(str(folder)), write, below, itself, cwd=str(folder))
    assert asked == []
    assert len(told) == 3
