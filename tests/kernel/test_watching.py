"""What watches the tools of a run: an audit log, snapshots; and tools that judge their own calls."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers import E, check_events, of_type, tool_texts

from pure_agent_loop import (
    Agent,
    BeforeTool,
    CancelToken,
    Hooks,
    Permission,
    PermissionRules,
    PureAgentLoopError,
    Tool,
    tool,
)
from pure_agent_loop.kernel.observers import FileChange, StepChanges
from pure_agent_loop.testing import ScriptedLLM, assert_replays, call


class Watch:
    """An audit and snapshots that note what they are told."""

    def __init__(self, *, fail_at: str = "") -> None:
        self.told: list[tuple] = []
        self._fail_at = fail_at

    def _note(self, *what) -> None:
        if what[0] == self._fail_at:
            raise PureAgentLoopError("the disk is full")
        self.told.append(what)

    def begin(self, record) -> None:
        self._note("begin", record.tool, dict(record.args), record.behavior, record.step, record.agent)

    def end(self, record, text, status, seconds) -> None:
        self._note("end", record.tool, text, status)

    async def before(self, session_id, step) -> None:
        self._note("before", step)

    async def after(self, session_id, step) -> StepChanges:
        self._note("after", step)
        return StepChanges([FileChange("a.txt", "modified", "-a\n+b\n", 1, 1)], "one file was too large")


@tool
def act(x: int) -> str:
    """Act."""
    if x < 0:
        raise ValueError("negative")
    return f"did {x}"


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


def run(script, watch, **options):
    agent = Agent(
        llm=ScriptedLLM(script), tools=[act, look], audit=watch, snapshots=watch, name="worker", **options
    )
    result = agent.run("do it")
    check_events(result.events)
    return result


def test_every_call_is_written_down_before_and_after():
    watch = Watch()
    rules = PermissionRules(deny=["act(x=3)"])
    run([[call("act", x=1), call("act", x=-1), call("act", x=3)], "done"], watch, permission_rules=rules)
    begun = [each for each in watch.told if each[0] == "begin"]
    assert sorted(begun, key=str) == [
        ("begin", "act", {"x": -1}, "allow", 1, "worker"),
        ("begin", "act", {"x": 1}, "allow", 1, "worker"),
        ("begin", "act", {"x": 3}, "deny", 1, "worker"),
    ]
    ended = {(text.split(":")[0], status) for _, _, text, status in (e for e in watch.told if e[0] == "end")}
    assert {status for _, status in ended} == {"ok", "error", "denied"}


def test_a_call_that_cannot_be_written_down_is_not_made():
    done = []

    @tool
    def write() -> str:
        """Write."""
        done.append(1)
        return "ok"

    agent = Agent(llm=ScriptedLLM([call("write"), "end"]), tools=[write], audit=Watch(fail_at="begin"))
    result = agent.run("go")
    assert done == []
    assert result.stop_reason == "error"
    assert "disk is full" in str(of_type(result.events, E.ERROR)[0].content)


def test_a_call_whose_end_cannot_be_written_down_keeps_its_result():
    agent = Agent(llm=ScriptedLLM([call("act", x=1), "end"]), tools=[act], audit=Watch(fail_at="end"))
    result = agent.run("go")
    assert (result.content, tool_texts(result.messages)) == ("end", ["did 1"])
    assert any("disk is full" in event.content for event in of_type(result.events, E.NOTICE))


def test_a_log_that_fails_does_not_hide_a_cancellation():
    token = CancelToken()

    @tool
    async def hang() -> str:
        """Hang."""
        token.cancel()
        await asyncio.sleep(60)
        return "never"

    agent = Agent(llm=ScriptedLLM([call("hang")]), tools=[hang], audit=Watch(fail_at="end"))
    assert agent.run("go", cancel_token=token).stop_reason == "cancelled"


def test_changes_are_told_after_the_round_and_only_for_tools_that_may_change_something():
    watch = Watch()
    result = run([call("look"), call("act", x=1), "done"], watch)
    assert [each for each in watch.told if each[0] in ("before", "after")] == [("before", 2), ("after", 2)]
    changes = of_type(result.events, E.FILE_CHANGE)
    assert [(each.step, each.data["path"], each.data["kind"]) for each in changes] == [
        (2, "a.txt", "modified")
    ]
    assert "one file was too large" in [event.content for event in of_type(result.events, E.NOTICE)]


def test_rejected_round_is_not_a_change():
    watch = Watch()
    run([call("act", x=1), "done"], watch, permission_rules=PermissionRules(deny=["act"]))
    assert "before" not in [each[0] for each in watch.told]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_snapshots_that_fail_are_told_and_end_nothing(moment):
    result = run([call("act", x=1), "done"], Watch(fail_at=moment))
    assert result.content == "done"
    assert any("disk is full" in event.content for event in of_type(result.events, E.NOTICE))


# -- a tool that judges ----------------------------------------------------------------------------------


def judged(verdicts, script, sessions=None, **options):
    """Run a script with a tool that answers about each command as `verdicts` says."""
    done, contexts = [], []

    def judge(args, context):
        contexts.append(context)
        return verdicts.get(args["command"])

    def shell(command: str) -> str:
        """Run."""
        done.append(command)
        return "ran"

    agent = Agent(llm=ScriptedLLM(script), tools=[Tool(shell, judge=judge)], sessions=sessions, **options)
    result = agent.run("go", session_id="s" if sessions else None)
    return done, contexts, result


@pytest.mark.parametrize(
    ("mode", "verdict", "outcome"),
    [
        ("auto", None, "done"),
        ("ask", None, "asked"),
        ("bypass", None, "done"),
        ("auto", Permission("allow"), "done"),
        ("ask", Permission("allow"), "done"),
        ("plan", Permission("allow"), "denied"),
        ("auto", Permission("ask", "why not"), "asked"),
        ("ask", Permission("ask", "why not"), "asked"),
        ("bypass", Permission("ask", "why not"), "done"),
        ("auto", Permission("deny", "no"), "denied"),
        ("bypass", Permission("deny", "no"), "denied"),
    ],
)
def test_verdict_of_the_tool_and_the_mode(mode, verdict, outcome):
    done, _, result = judged({"x": verdict}, [call("shell", command="x"), "end"], permission_mode=mode)
    assert done == (["x"] if outcome == "done" else [])
    assert (result.stop_reason == "waiting_permission") == (outcome == "asked")


def test_rules_on_arguments_are_left_to_the_tool():
    rules = PermissionRules(
        allow=["shell(git *)", "other(x)"], deny=["shell(command=rm *)"], ask=["shell(a, b)"], shared=True
    )
    done, contexts, result = judged(
        {}, [call("shell", command="git x; y"), "end"], permission_mode="ask", permission_rules=rules
    )
    assert done == []
    assert result.stop_reason == "waiting_permission"
    assert contexts[0].allow == ("git *",)
    assert contexts[0].deny == ("rm *",)
    assert contexts[0].ask == ("a, b",)
    assert not contexts[0].attended
    denied, _, _ = judged({}, [call("shell", command="rm x"), "end"], permission_rules=rules)
    assert denied == []
    named = PermissionRules(allow=["shell"])
    assert judged({}, [call("shell", command="x"), "end"], permission_mode="ask", permission_rules=named)[
        0
    ] == ["x"]


def test_arguments_that_a_hook_or_an_answer_brought_are_judged_again():
    deny = {"bad": Permission("deny", "no")}
    hooks = Hooks(before_tool=[lambda name, args, context: BeforeTool(args={"command": "bad"})])
    assert judged(deny, [call("shell", command="good"), "end"], hooks=hooks)[0] == []
    changed = Permission("allow", updated_args={"command": "bad"})
    script = [call("shell", command="good"), "end"]
    assert judged(deny, script, can_use_tool=lambda *_: changed)[0] == []
    asked = {**deny, "good": Permission("ask")}
    done, contexts, result = judged(asked, script, on_ask=lambda request: changed)
    assert done == []
    assert contexts[0].attended
    assert "no" in tool_texts(result.messages)[0]


def test_a_judge_that_fails_lets_nothing_through():
    def judge(args, context):
        raise RuntimeError("broken")

    def shell(command: str) -> str:
        """Run."""
        raise AssertionError

    agent = Agent(llm=ScriptedLLM([call("shell", command="x"), "end"]), tools=[Tool(shell, judge=judge)])
    assert "broken" in tool_texts(agent.run("go").messages)[0]


def test_verdict_of_a_tool_is_replayed(tmp_path):
    from pure_agent_loop.sessions import JsonlStore

    store = JsonlStore(tmp_path)
    script = [[call("shell", command="x"), call("shell", command="y")], "end"]
    done, _, _ = judged({"x": Permission("deny", "no")}, script, sessions=store)
    assert done == ["y"]
    assert_replays(store.read("s").records)


@pytest.mark.parametrize(("seconds", "told"), [(5, ("git *",)), (6, ())])
def test_all_arguments_of_a_rule_are_matched_before_the_call(seconds, told):
    contexts, rules = [], PermissionRules(allow=["shell(command=git *, seconds=5)"])

    def shell(command: str, seconds: int) -> str:
        """Run."""
        return "ran"

    made = Tool(shell, judge=lambda args, context: contexts.append(context))
    Agent(
        llm=ScriptedLLM([call("shell", command="git x", seconds=seconds), "end"]),
        tools=[made],
        permission_rules=rules,
    ).run("go")
    assert contexts[0].allow == told


@pytest.mark.parametrize("verdict", ["perhaps", 1, Permission("allow", updated_args=3)])
def test_a_judge_that_gives_no_decision_ends_the_run(verdict):
    done, _, result = judged({"x": verdict}, [call("shell", command="x")])
    assert (done, result.stop_reason) == ([], "error")
    assert "The tool's judge gave no decision" in result.error
