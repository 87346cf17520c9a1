"""A recorded session replays as it was; what was changed in it, or in the agent, is found at its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.helpers import NO_WAIT, add, foreign_threads

from pure_agent_loop import (
    Agent,
    BeforeTool,
    Budget,
    CancelToken,
    ConfigError,
    Hooks,
    Inbox,
    LLMError,
    LoopLimits,
    Permission,
    PermissionRules,
    Price,
    tool,
)
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.sessions import JsonlStore, Record
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import FakeClock, ScriptedLLM, ScriptError, answer, assert_replays, call


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    return f"{at} is red"


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(timeout=0.02)
async def hang() -> str:
    """Never come back."""
    await asyncio.sleep(60)
    return "never"


TOOLS = [add, look, fail, hang]


@dataclass
class Session:
    """Records one session in a folder, with one agent for each script."""

    store: JsonlStore
    made: list[Agent] = field(default_factory=list)

    def run(self, script: Any, task: str | None = "go", clock: Any = None, **options: Any) -> Any:
        ways = {name: options.pop(name) for name in ("messages", "inbox", "cancel_token") if name in options}
        options = {"tools": TOOLS, "retry": NO_WAIT, **options}
        agent = Agent(llm=ScriptedLLM(script, strict=False), sessions=self.store, **options)
        if clock is not None:
            agent._kit = replace(agent._kit, clock=clock)
        self.made.append(agent)
        return agent.run(task, session_id="s", **ways)

    @property
    def records(self) -> list[Record]:
        return self.store.read("s").records


@pytest.fixture
def session(tmp_path):
    return Session(JsonlStore(tmp_path))


# -- kinds of runs ---------------------------------------------------------------------------------


def plain(session):
    session.run([call("add", a=1, b=2), "3."])


def parallel_tools(session):
    calls = [call("add", a=1, b=2), call("look", at="it"), call("fail", why="so"), call("none")]
    session.run([calls, call("add", a="x"), "Done."])


def no_tools(session):
    session.run(["Hello."], tools=[], system_prompt="")


def thinking(session):
    session.run([answer("3.", reasoning="Let me see."), "4."], language="zh")


def denied(session):
    rules = PermissionRules(deny=["add(a=1)"])
    session.run([call("add", a=1, b=2), call("add", a=1, b=2), "No."], permission_rules=rules)


def plan_mode(session):
    session.run([[call("add", a=1, b=2), call("look", at="it")], "No."], permission_mode="plan")


def asked(session):
    verdicts = iter([Permission("allow", updated_args={"a": 5, "b": 5}), "deny"])
    script = [call("add", a=1, b=2), call("add", a=2, b=2), "Hm."]
    session.run(script, permission_mode="ask", on_ask=lambda _: next(verdicts))


def asked_about_what_does_not_fit(session):
    """A replay knows only the schema, which says less about it."""
    script = [call("look", of="it"), call("look", at=[1]), call("look", at="it"), "Red."]
    rules = PermissionRules(ask=["look"])
    session.run(script, permission_rules=rules, on_ask=lambda _: True)


def told_a_secret(session):
    """It is in the arguments that a tool gets, and in no record."""
    secret = "x-very-secret-1"
    calls = [call("look", at=secret), call("fail", why=secret), call("fail", why=secret)]
    session.run([*calls, "Red."], redact=Redactor([secret], env={}))
    assert secret not in str(session.records)


def undecided(session):
    session.run([call("add", a=1, b=2)], can_use_tool=lambda *_: None)
    session.run([call("add", a=1, b=2)], permission_mode="ask", on_ask=lambda _: None)


def suspended(session):
    session.run([call("add", a=1, b=2)], permission_mode="ask")
    session.run(["3."], None, permission_mode="ask", on_ask=lambda _: Permission("allow", always=True))


def decided(session):
    def can(tool, args, context):
        if args.get("a") == 1:
            return Permission("deny", "not 1")
        if args.get("a") == 2:
            raise RuntimeError("oh")
        return "allow"

    session.run([call("add", a=1, b=2), call("add", a=2, b=2), call("add", a=3, b=2), "."], can_use_tool=can)


def hooks(session):
    def before(tool, args, context):
        if args.get("b") == 9:
            return BeforeTool(block="no 9")
        if args.get("b") == 8:
            raise RuntimeError("oh")
        return BeforeTool(args={**args, "b": 7}, context="b was changed")

    def after(tool, args, result, context):
        if result == "9":
            raise KeyError("x")
        return f"<{result}>"

    wanted = iter(["Check it.", None])
    several = Hooks(before_tool=before, after_tool=[after, lambda *_: None], on_stop=lambda *_: next(wanted))
    script = [[call("add", a=1, b=b), call("add", a=2, b=b)] for b in (1, 8, 9)]
    session.run([*script, "Done.", "Checked."], hooks=several)


def cut_off_answers(session):
    session.run(
        ["", answer("One ", finish_reason="length"), answer("two ", finish_reason="length"), "three."]
    )


def closing(session):
    session.run([call("look", at=str(n)) for n in range(3)] + ["The end."], limits=LoopLimits(max_turns=3))


def soft_limits(session):
    clock = _Ticking()
    limits = LoopLimits(max_steps=2, timeout=7)
    session.run([call("look", at=str(n)) for n in range(6)] + ["The end."], limits=limits, clock=clock)


def time_is_up(session):
    clock = _Ticking()
    session.run([call("look", at="x"), call("hang"), "End."], limits=LoopLimits(max_seconds=9), clock=clock)


def tool_times_out(session):
    session.run([[call("hang"), call("add", a=1, b=1)], "Hm."])


def money(session):
    limits = LoopLimits(max_cost=0.00001, prices={"*": Price(1, 2, 0.5)})
    session.run([call("look", at="x"), "End."], limits=limits)


def shared_budget(session):
    budget = Budget(max_tool_calls=2, max_cost=100, prices={"*": Price(1, 2)})
    budget.add(tool_calls=1)
    session.run([call("look", at="x"), "End."], budget=budget)


def going_round(session):
    session.run([call("add", a=1, b=1)] * 6 + ["Stop."])


def steered(session):
    inbox = Inbox()

    def script(messages, tools, options):
        told = len(messages)
        if told == 2:
            inbox.steer("Hurry.")
            inbox.follow_up("And then?")
            return call("look", at="it")
        return "Red." if told < 7 else "Then home."

    inbox.put("By the way.", synthetic=True)
    session.run(script, inbox=inbox)


def several_tasks(session):
    session.run([call("add", a=1, b=2), "3."], messages=[{"role": "user", "content": "Hi"}])
    session.run([call("add", a=3, b=2), "5."], "more")
    session.run(["bye"], "end", system_prompt="another")


def failed(session):
    error = LLMError("no more", kind="quota")
    session.run([call("add", a=1, b=2), error])
    session.run(["3."], None)


def foreign_error(session):
    session.run([call("add", a=1, b=2), KeyError("x")])


def cancelled_between(session):
    token = CancelToken()

    @tool
    def stop() -> str:
        """Stop it."""
        token.cancel()
        return "stopped"

    session.run([call("add", a=1, b=2), call("stop"), "x"], tools=[add, stop], cancel_token=token)
    session.run(["Going on."], "Go on")


def single_mode(session):
    script = [call("add", a=1, b=2), answer("3.", call("add", a=1, b=2))]
    session.run(script, mode="single", after_tools="Answer now.")


class _Ticking(FakeClock):
    """Each look takes a second and a bit."""

    def monotonic(self) -> float:
        self.advance(1.1)
        return super().monotonic()


KINDS: list[Callable[[Session], None]] = [
    plain,
    parallel_tools,
    no_tools,
    thinking,
    denied,
    plan_mode,
    asked,
    asked_about_what_does_not_fit,
    told_a_secret,
    suspended,
    undecided,
    decided,
    hooks,
    cut_off_answers,
    closing,
    soft_limits,
    time_is_up,
    tool_times_out,
    money,
    shared_budget,
    going_round,
    steered,
    several_tasks,
    failed,
    foreign_error,
    cancelled_between,
    single_mode,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_replays(session, kind):
    kind(session)
    report = assert_replays(session.records)
    records = session.records
    states = [record.data for record in records if record.type == "state"]
    assert report.runs == sum(record.type == "run" for record in records)
    assert report.steps == sum(state["stop_reason"] is None for state in states) > 0
    assert str(report).endswith(": identical")


def test_a_record_without_marks_of_failures_replays(session):
    """Earlier versions did not mark the results of failed calls."""
    session.run([answer(call("fail", why="x"), call("look", at="y")), "Done."], "Look")
    old = deepcopy(session.records)
    marked = [m for record in old for m in record.data.get("messages", ()) if m.pop("meta", None)]
    assert [message["role"] for message in marked] == ["tool"]
    assert_replays(old)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_replays_as_far_as_it_goes(session, kind):
    """A process can end behind each record."""
    kind(session)
    records = session.records
    steps = []
    for end in range(1, len(records) + 1):
        report = replay_session(records[:end])
        assert report.difference is None, (end, records[end - 1].type, str(report))
        steps.append(report.steps)
    assert steps == sorted(steps)


@pytest.mark.parametrize("task", [None, "Something else"])
@pytest.mark.parametrize("kind", [parallel_tools, steered], ids=lambda kind: kind.__name__)
def test_a_run_that_was_resumed_replays(session, tmp_path, kind, task):
    """The process ended behind each record; another one went on."""
    kind(session)
    records = session.records
    for end in range(1, len(records) + 1):
        again = Session(JsonlStore(tmp_path / str(end)))
        (tmp_path / str(end)).mkdir()
        (tmp_path / str(end) / "s.jsonl").write_bytes(b"".join(each.to_line() for each in records[:end]))
        again.run(["Done."], task)
        report = assert_replays(again.records)
        assert report.runs == 2, end


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_changed_message_is_found(session, kind):
    kind(session)
    records = session.records
    for at, record in enumerate(records):
        if record.type in ("messages", "boundary") and not _is_unsure(records, at):
            changed = deepcopy(record.data)
            changed["messages"][-1]["content"] = "something else"
            difference = replay_session(_with(records, at, changed)).difference
            assert difference is not None, (at, changed)
            assert difference.what == "message"
            assert difference.expected["content"] == "something else"


def _is_unsure(records: list[Record], at: int) -> bool:
    """The end of a run that was cancelled may hold more than can be replayed."""
    state = next(record for record in records[at:] if record.type == "state")
    return bool(state.data["stop_reason"] == "cancelled")


def _with(records: list[Record], at: int, data: dict[str, Any]) -> list[Record]:
    return [*records[:at], replace(records[at], data=data), *records[at + 1 :]]


# -- what was changed is found ---------------------------------------------------------------------


def _set(path: str, value: Any, kind: str, number: int = 0) -> Callable[[list[Record]], list[Record]]:
    """Change one thing in the record of that kind."""

    def change(records: list[Record]) -> list[Record]:
        at = [n for n, record in enumerate(records) if record.type == kind][number]
        data = deepcopy(records[at].data)
        *inside, last = path.split(".")
        place: Any = data
        for name in inside:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = value
        return _with(records, at, data)

    return change


CHANGES = {
    "task": (_set("task", "other", "run"), (1, 1, "message", 1)),
    "second task": (_set("task", "other", "run", 1), (2, 1, "message", 5)),
    "system prompt": (_set("system_prompt", "other", "run"), (1, 1, "state", 0)),
    "answer": (_set("value.content", "Four", "answer", 1), (1, 2, "message", 4)),
    "call": (_set("value.tool_calls.0.name", "look", "answer"), (1, 2, "message", 2)),
    "call id": (_set("value.tool_calls.0.id", "x", "answer"), (1, 1, "effect", 0)),
    "tool result": (_set("value.text", "4", "outcome"), (1, 2, "message", 3)),
    "tokens": (_set("value.usage.total_tokens", 7, "answer"), (1, 2, "state", 0)),
    "limit": (_set("limits.max_turns", 1, "run"), (1, 2, "message", 4)),
    "prompts": (_set("prompts", "zh", "run", 0), None),
    "state": (_set("tool_rounds", 9, "state", 1), (1, 2, "state", 0)),
    "end": (_set("stop_reason", "output_limit", "state", 2), (1, 2, "state", 0)),
    "no function": (_set("functions.can_use_tool", True, "run"), (1, 1, "effect", 0)),
    "mode": (_set("permissions.mode", "plan", "run"), (1, 2, "message", 3)),
    "unreadable": (_set("value", 7, "answer"), (1, 1, "effect", 0)),
    "time": (_set("ledger.seconds", 400.0, "state", 1), (1, 2, "message", 4)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_at_its_place(session, name):
    change, place = CHANGES[name]
    session.run([call("add", a=1, b=2), "3."])
    session.run([call("add", a=3, b=2), "5."], "more")
    assert replay_session(session.records).difference is None
    difference = replay_session(change(session.records)).difference
    if place is None:
        assert difference is None
        return
    assert difference is not None
    assert (difference.run, difference.step, difference.what, difference.message) == place


AGENTS = {
    "system prompt": ({"system_prompt": "You are another."}, (1, 1, "state", 0)),
    "tools": ({"tools": [look]}, (1, 0, "tools", 0)),
    "temperature": ({"temperature": 0.1}, (1, 0, "options", 0)),
    "prompts": ({"prompts": replace(ENGLISH, final_answer="Out. {why}")}, (1, 4, "message", 8)),
    "language": ({"prompts": CHINESE}, (1, 1, "state", 0)),
    "limits": ({"limits": LoopLimits(max_turns=2)}, (1, 3, "message", 6)),
    "rules": ({"permission_rules": PermissionRules(deny=["look"])}, (1, 2, "message", 3)),
    "can_use_tool": ({"can_use_tool": lambda *_: "allow"}, (1, 1, "effect", 0)),
    "nothing": ({}, None),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_changed_agent_is_seen(session, name):
    options, place = AGENTS[name]
    closing(session)
    settings = {"tools": TOOLS, "limits": LoopLimits(max_turns=3), **options}
    difference = replay_session(session.records, agent=Agent(llm=ScriptedLLM([]), **settings)).difference
    if place is None:
        assert difference is None
        return
    assert difference is not None
    assert (difference.run, difference.step, difference.what, difference.message) == place


def test_a_new_hook_is_named(session):
    plain(session)
    agent = Agent(llm=ScriptedLLM([]), tools=TOOLS, hooks=Hooks(before_tool=lambda *_: None))
    difference = replay_session(session.records, agent=agent).difference
    assert difference is not None
    assert difference.what == "effect"
    assert difference.got.startswith("1:before:call_")


def test_the_difference_can_be_read(session):
    plain(session)
    changed = _set("value.text", "4\nfour", "outcome")(session.records)
    with pytest.raises(ScriptError) as caught:
        assert_replays(changed)
    lines = str(caught.value).splitlines()
    assert lines[0] == "run 1, step 2: message 3 differs"
    assert '-  "content": "3"' in lines
    assert '+  "content": "4\\nfour"' in lines


def test_a_file_and_a_damaged_one(session, tmp_path):
    plain(session)
    path = tmp_path / "s.jsonl"
    assert assert_replays(path).steps == assert_replays(str(path)).steps == 2
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ScriptError, match="is damaged"):
        assert_replays(path)


def test_invalid_recording_is_rejected():
    with pytest.raises(ConfigError, match="no run"):
        replay_session([])
    with pytest.raises(ConfigError, match="lacks data"):
        replay_session([Record("1", None, 0.0, "run", {"task": "go"})])


def test_nothing_is_called_and_nothing_waits(session):
    called: list[str] = []

    @tool(timeout=3600)
    def look(at: str) -> str:
        """Look at something."""
        called.append("look")
        return f"{at} is red"

    async def patient() -> str:
        """Never come back."""
        called.append("hang")
        return ""

    def before(*_: Any) -> None:
        called.append("before")

    def can(*_: Any) -> str:
        called.append("can")
        return "allow"

    options = {"hooks": Hooks(before_tool=before), "can_use_tool": can}
    session.run([[call("hang"), call("look", at="it")], "Hm."], tools=[look, hang], **options)
    assert sorted(called) == ["before", "before", "can", "can", "look"]
    called.clear()

    def refuse(*_: Any) -> str:
        called.append("model")
        return "no"

    agent = Agent(llm=ScriptedLLM(refuse), tools=[look, tool(name="hang", timeout=3600)(patient)], **options)

    async def inside() -> None:
        assert_replays(session.records, agent)  # also where an event loop is running

    asyncio.run(inside())
    assert called == []


def test_a_replay_leaves_no_thread(session):
    tool_times_out(session)
    before = foreign_threads()
    assert_replays(session.records)
    assert foreign_threads() == before
