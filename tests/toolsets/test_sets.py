"""Toolsets in runs: listed for each step, entered once, left at the end, and what is made out of them."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.helpers import E, check_result, tool_texts

from pure_agent_loop import (
    Agent,
    AgentLoop,
    CancelToken,
    ConfigError,
    PermissionRules,
    RunContext,
    SessionManager,
    Tool,
    ToolRegistry,
    tool,
)
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolsets import (
    StepContext,
    approval_required,
    combined,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)

pytestmark = pytest.mark.anyio
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Shelf:
    """A toolset with things of its own, which writes down what is done to it."""

    def __init__(self, *names, **options):
        self.names, self.options = list(names), options
        self.told, self.tasks = [], []
        self.failing = {}

    def _say(self, what):
        self.told.append(what)
        self.tasks.append(asyncio.current_task())
        if what in self.failing:
            raise self.failing[what]

    async def __aenter__(self):
        self._say("enter")
        return self

    async def __aexit__(self, *error):
        self._say("exit")

    async def list(self, context):
        self._say("list")
        return [
            Tool(None, name=name, description=f"Does {name}.", parameters=NUMBER, **self.options)
            for name in self.names
        ]

    async def call(self, name, args):
        self._say(f"{name} {args['n']}")
        return {"did": name, "n": args["n"]}


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def offered(llm):
    return [[each["function"]["name"] for each in request.tools or ()] for request in llm.requests]


def run(tools, script, **options):
    llm = ScriptedLLM(script)
    return check_result(Agent(llm=llm, tools=tools, **options).run("go")), llm


def test_an_agent_with_handoffs_keeps_its_toolset():
    """In its first request, after `add_handoff`, and where the last agent may hand over no more."""

    def always(messages, tools, options):
        transfers = [each["function"]["name"] for each in tools if "transfer" in each["function"]["name"]]
        return call(transfers[0]) if transfers else "Enough."

    llm = ScriptedLLM(always)
    one = Agent(llm=llm, name="one", tools=[Shelf("dig")])
    two = Agent(llm=llm, name="two", tools=[Shelf("fill")], handoffs=[one])
    one.add_handoff(two)
    assert one.run("go").content == "Enough."
    assert offered(llm) == [["transfer_to_two", "dig"], ["transfer_to_one", "fill"]] * 4 + [["dig"]]


def test_toolset_and_tools_are_combined():
    shelf = Shelf("dig", "fill")
    result, llm = run([add, shelf], [[call("dig", n=1), call("add", a=1, b=2)], "done"])
    assert tool_texts(result.messages) == ['{"did": "dig", "n": 1}', "3"]
    assert offered(llm) == [["add", "dig", "fill"]] * 2
    assert shelf.told == ["enter", "list", "dig 1", "list", "exit"]
    assert shelf.tasks[0] is shelf.tasks[-1]
    assert llm.requests[0].tools[1]["function"] == {
        "name": "dig",
        "description": "Does dig.",
        "parameters": NUMBER,
    }


def test_wrong_arguments_do_not_reach_it():
    shelf = Shelf("dig")
    result, _ = run([shelf], [call("dig", m=1), "done"])
    assert "n: field required" in tool_texts(result.messages)[0]
    assert not any(each.startswith("dig") for each in shelf.told)


def test_nothing_is_entered_before_a_run():
    shelf = Shelf("dig")
    agent = Agent(llm=ScriptedLLM([]), tools=[shelf])
    assert (shelf.told, list(agent.tools)) == ([], [])


@pytest.mark.parametrize("when", ["enter", "list"])
def test_a_toolset_that_fails_ends_the_run_and_is_left(when):
    shelf, other = Shelf("dig"), Shelf("fill")
    shelf.failing[when] = OSError("no connection")
    result, llm = run([other, shelf], ["never asked"])
    assert result.stop_reason == "error"
    assert result.error == "Tool 'Shelf' failed: the toolset Shelf failed: OSError: no connection"
    assert llm.requests == []
    assert shelf.told == (["enter"] if when == "enter" else ["enter", "list", "exit"])
    assert other.told == ["enter", "list", "exit"]


def test_a_toolset_that_fails_while_it_closes_is_logged(caplog):
    shelf = Shelf("dig")
    shelf.failing["exit"] = OSError("gone")
    result, _ = run([shelf], ["done"])
    assert (result.stop_reason, result.content) == ("completed", "done")
    assert "The toolset Shelf failed while it closed: gone" in caplog.text


def test_failed_call_is_reported_to_the_model():
    shelf = Shelf("dig")
    shelf.failing["dig 1"] = ValueError("rock")
    result, _ = run([shelf], [call("dig", n=1), "done"])
    assert "Error type: ValueError\nError: rock" in tool_texts(result.messages)[0]


class Hanging(Shelf):
    def __init__(self, where):
        super().__init__("dig")
        self.where, self.token = where, CancelToken()

    def _say(self, what):
        super()._say(what)
        if what == self.where:
            self.token.cancel()

    async def __aenter__(self):
        await super().__aenter__()
        if self.where == "enter":
            await asyncio.Event().wait()
        return self

    async def call(self, name, args):
        await super().call(name, args)
        await asyncio.Event().wait()


@pytest.mark.parametrize("where", ["enter", "list", "dig 1"])
def test_a_cancelled_run_leaves_its_toolsets(where):
    shelf = Hanging(where)
    agent = Agent(llm=ScriptedLLM([call("dig", n=1), "done"]), tools=[shelf])
    result = check_result(agent.run("go", cancel_token=shelf.token))
    assert result.stop_reason == "cancelled"
    assert shelf.told[-1] == ("enter" if where == "enter" else "exit")


def test_hanging_entry_times_out():
    shelf = Hanging("")
    shelf.where = "enter"
    shelf.token = CancelToken()
    agent = Agent(llm=ScriptedLLM(["done"]), tools=[shelf], tool_timeout=0.05)
    result = check_result(agent.run("go"))
    assert (result.stop_reason, "after 0.05 seconds" in result.error) == ("error", True)


async def test_runs_at_the_same_time_share_one_entering():
    shelf, both = Shelf("dig"), asyncio.Event()
    waiting = 0

    @tool
    async def meet() -> str:
        """Wait for the other run."""
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        return "met"

    agents = [Agent(llm=ScriptedLLM([call("meet"), "done"]), tools=[shelf, meet]) for _ in range(2)]
    results = await asyncio.gather(*(agent.arun("go") for agent in agents))
    assert [result.stop_reason for result in results] == ["completed"] * 2
    assert (shelf.told.count("enter"), shelf.told.count("exit")) == (1, 1)
    await agents[0].arun("again", messages=[])
    assert (shelf.told.count("enter"), shelf.told.count("exit")) == (2, 2)


def test_second_tool_of_a_name_is_dropped_with_one_notice():
    first, second = Shelf("dig"), Shelf("dig", "sow")
    result, llm = run([first, second, add], [call("dig", n=1), "done"])
    assert result.stop_reason == "completed"
    assert [each["function"]["name"] for each in llm.requests[0].tools] == ["add", "dig", "sow"]
    assert first.told.count("dig 1") == 1
    notices = [event.content for event in result.events if event.type is E.NOTICE]
    assert [("dig is left out" in text, "prefixed" in text) for text in notices] == [(True, True)]


def test_entry_that_is_not_a_tool_is_dropped_and_named():
    class Odd(Shelf):
        def list(self, context):
            return [None, add, {"name": "x"}, "dig"]

    for odd in (Odd(), prefixed(Odd(), "x_"), prepared(Odd(), lambda context, tools: [*tools, 7])):
        result, llm = run([odd], ["done"])
        assert [each["function"]["name"][-3:] for each in llm.requests[0].tools] == ["add"]
        notices = [event.content for event in result.events if event.type is E.NOTICE]
        assert [text for text in notices if "None is left out" in text]
        assert [text for text in notices if "'dig' is left out: Odd.list must return a list of Tools" in text]


def test_tool_with_an_invalid_new_name_is_dropped():
    shelf = Shelf("dig", "n" * 64)
    result, llm = run([prefixed(shelf, "garden_")], ["done"])
    assert [each["function"]["name"] for each in llm.requests[0].tools] == ["garden_dig"]
    (notice,) = [event.content for event in result.events if event.type is E.NOTICE]
    assert "nnn is left out: Tool name 'garden_nnn" in notice
    result, _ = run([prefixed(shelf, "no name ")], ["never asked"])
    assert "Tool name 'no name dig' is invalid" in result.error


def test_sets_made_out_of_sets():
    shelf = Shelf("dig", "fill", "burn")
    tools = combined(
        add,
        prefixed(renamed(filtered(shelf, lambda _, each: each.name != "burn"), {"fill": "heap"}), "garden_"),
        prefixed([add], "more_"),
    )
    script = [[call("garden_heap", n=2), call("more_add", a=1, b=1)], "done"]
    result, llm = run([tools], script)
    assert offered(llm)[0] == ["add", "garden_dig", "garden_heap", "more_add"]
    assert tool_texts(result.messages) == ['{"did": "fill", "n": 2}', "2"]
    assert (shelf.told[0], shelf.told[-1]) == ("enter", "exit")


def test_renaming_a_missing_tool_is_refused():
    result, _ = run([renamed(Shelf("dig"), {"dgi": "x"})], ["done"])
    assert "renamed: unknown tool dgi" in result.error


def test_function_wraps_each_call():
    seen = []

    async def around(name, args, proceed):
        seen.append((name, args))
        return f"<{await proceed({**args, 'b': 10})}>"

    result, _ = run([wrapped([add], around)], [call("add", a=1, b="2"), "done"])
    assert tool_texts(result.messages) == ["<11>"]
    assert seen == [("add", {"a": 1, "b": 2})]


def test_wrapped_tool_keeps_its_run_context():
    @tool
    def greet(ctx: RunContext[str], name: str) -> str:
        """Greet."""
        return f"{ctx.deps} greets {name}"

    llm = ScriptedLLM([call("greet", name="Ada"), "done"])
    agent = Agent(llm=llm, tools=[wrapped([greet], lambda name, args, proceed: proceed(args))])
    assert tool_texts(agent.run("go", deps="Bob").messages) == ["Bob greets Ada"]


@pytest.mark.parametrize("make", [wrapped, filtered, prepared, approval_required])
def test_argument_that_is_not_a_function_is_rejected(make):
    with pytest.raises(
        ConfigError, match="the argument after the tools must be a function; it is 'no function'"
    ):
        make([add], "no function")


@pytest.mark.parametrize("make", [prefixed, renamed])
def test_invalid_name_is_rejected(make):
    with pytest.raises(
        ConfigError,
        match=r"^(prefixed: prefix must be a string|renamed: names must map old names to new names); it is 5",
    ):
        make([add], 5)


@pytest.mark.parametrize("given", [7, {"dig": add}])
@pytest.mark.parametrize("inside", [False, True])
def test_invalid_list_is_rejected_with_its_owner(given, inside):
    class Odd(Shelf):
        def list(self, context):
            return given

    odd = Odd("dig")
    result, llm = run([prefixed(odd, "x_") if inside else odd], ["never asked"])
    assert "Odd.list must return a list of Tools; it returned " in result.error
    assert llm.requests == []


@pytest.mark.parametrize("given", [None, "add"])
def test_change_that_returns_no_tools_is_rejected(given):
    result, llm = run([prepared([add], lambda context, tools: given)], ["never asked"])
    assert "must return a list of Tools" in result.error
    assert llm.requests == []


async def test_tools_change_from_step_to_step():
    steps = []

    async def prepare(context, tools):
        steps.append((context.step, context.task, len(context.messages)))
        count = f"Called {sum(m['role'] == 'tool' for m in context.messages)} times."
        return [each.changed(description=count) for each in tools if context.step < 3]

    llm = ScriptedLLM([call("add", a=1, b=1), call("add", a=2, b=2), call("add", a=3, b=3), "done"])
    result = check_result(await Agent(llm=llm, tools=[prepared([add], prepare)]).arun("go"))
    assert steps == [(1, "go", 1), (2, "go", 3), (3, "go", 5), (4, "go", 7)]
    assert [[t["function"]["description"] for t in r.tools or ()] for r in llm.requests[:2]] == [
        ["Called 0 times."],
        ["Called 1 times."],
    ]
    assert tool_texts(result.messages)[:2] == ["2", "4"]
    assert add.description == "Add."


def test_guarded_call_needs_approval():
    guarded = approval_required([add], when=lambda name, args: args["a"] > 10)
    script = [[call("add", a=1, b=1), call("add", a=11, b=1)], "done"]
    result, _ = run([guarded], script)
    assert result.stop_reason == "waiting_permission"
    assert [each.args for each in result.questions] == [{"a": 11, "b": 1}]
    assert run([guarded], script, permission_mode="bypass")[0].stop_reason == "completed"
    rules = PermissionRules(allow=["add(a=11)"])
    assert run([guarded], script, permission_rules=rules)[0].stop_reason == "completed"
    asked = []
    result, _ = run(
        [approval_required(Shelf("dig"))],
        [call("dig", n=1), "ok"],
        on_ask=lambda q: asked.append(q) or "deny",
    )
    assert [each.reason for each in asked] == ["its effect cannot be undone"]
    assert "not allowed" in tool_texts(result.messages)[0]


def test_rule_may_name_a_tool_of_a_toolset():
    rules = PermissionRules(deny=["dig(n=2)"], ask=["fill"])
    result, _ = run([Shelf("dig")], [call("dig", n=2), "ok"], permission_rules=rules)
    assert "forbids" in tool_texts(result.messages)[0]
    with pytest.raises(ConfigError, match="no argument 'c'"):
        run([add, Shelf("dig")], ["ok"], permission_rules=PermissionRules(deny=["add(c=2)"]))


def test_hints_feed_the_permissions():
    result, _ = run([Shelf("dig", read_only=True)], [call("dig", n=1), "ok"], permission_mode="plan")
    assert tool_texts(result.messages) == ['{"did": "dig", "n": 1}']
    result, _ = run([Shelf("dig")], [call("dig", n=1), "ok"], permission_mode="ask")
    assert result.stop_reason == "waiting_permission"
    result, _ = run([Shelf("dig", destructive=True)], [call("dig", n=1), "ok"])
    assert result.stop_reason == "waiting_permission"


def test_failing_guard_denies_the_call():
    result, _ = run([approval_required([add], when=lambda *_: 1 / 0)], [call("add", a=1, b=1), "ok"])
    assert "ZeroDivisionError" in tool_texts(result.messages)[0]


def test_session_with_toolset_resumes_and_replays(tmp_path):
    shelf, sessions = Shelf("dig"), SessionManager(tmp_path)

    def prepare(context, tools):
        return [each.changed(polls=True) for each in tools if context.step != 2]

    guarded = approval_required(prepared(shelf, prepare), when=lambda _, args: args["n"] > 1)
    script = [call("dig", n=1), "one", call("dig", n=2)]
    agent = Agent(llm=ScriptedLLM(script), tools=[add, guarded], sessions=sessions.store)
    assert agent.run("go", session_id="s").content == "one"
    assert agent.run("more", session_id="s").stop_reason == "waiting_permission"
    (question,) = sessions.questions("s")
    sessions.answer("s", question.call_id, "allow")
    again = Agent(llm=ScriptedLLM(["two"]), tools=[add, guarded], sessions=sessions.store)
    assert again.run(None, session_id="s").content == "two"
    report = replay_session(sessions.load("s").records)
    assert str(report) == "3 runs, 4 steps: identical"
    assert shelf.told.count("enter") == 3
    assert "dig" in sessions.export("s")


def test_unchanged_list_is_recorded_once(tmp_path):
    sessions = SessionManager(tmp_path)
    script = [call("dig", n=1), call("dig", n=2), "done"]
    Agent(llm=ScriptedLLM(script), tools=[Shelf("dig")], sessions=sessions.store).run("go", session_id="s")
    listed = [r.data for r in sessions.load("s").records if ":tools:" in str(r.data.get("key"))]
    assert [each["key"] for each in listed] == ["1:tools:0"]


def test_explain_shows_the_tools_of_a_toolset():
    explanation = Agent(llm=ScriptedLLM([]), tools=[prefixed(Shelf("dig"), "x_")]).explain("go")
    assert [each["function"]["name"] for each in explanation.request["tools"]] == ["x_dig"]
    assert explanation.permissions == {"x_dig": "allow"}


def test_examples_of_a_toolset_are_shown():
    shown = Tool(add.function, name="plus", examples=[("1 + 1?", {"a": 1, "b": 1})])
    script = ['Thought: ok\nAction: plus\nAction Input: {"a": 2, "b": 3}', "Thought: ok\nFinal Answer: 5"]
    result, llm = run(
        [prefixed([shown], "my_")], [script[0].replace("plus", "my_plus"), script[1]], tool_mode="text"
    )
    assert "1 + 1?" in json.dumps(llm.requests[0].messages)
    assert tool_texts(result.messages) == ["5"]


async def test_closed_stream_exits_the_toolset():
    shelf = Shelf("dig")
    stream = Agent(llm=ScriptedLLM([call("dig", n=1), "x"]), tools=[shelf]).arun_stream("go")
    async for event in stream:
        if event.type is E.ACTION:
            break
    await stream.aclose()
    assert (shelf.told[0], shelf.told[-1]) == ("enter", "exit")


async def test_an_assistant_has_toolsets_too(tmp_path, monkeypatch):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    shelf = Shelf("dig")
    async with AgentLoop(ScriptedLLM([call("dig", n=1), "fine"]), tmp_path, [shelf]) as loop:
        assert await loop.process_direct("hi", "s") == "fine"
        assert await loop.execute_tool("dig", {"n": 4}) == '{"did": "dig", "n": 4}'
    assert shelf.told.count("enter") == shelf.told.count("exit") == 2


async def test_a_set_can_be_called_without_a_run():
    outcome = await prefixed([add], "x_").call("x_add", {"a": 1, "b": 2})
    assert outcome.text == "3"
    with pytest.raises(LookupError):
        await combined(add).call("nothing", {})
    assert [each.name for each in await combined(add).list(StepContext())] == ["add"]


@pytest.mark.parametrize("wrong", ["add", {"name": "x"}, 5, None])
def test_argument_that_is_not_a_set_is_rejected(wrong):
    with pytest.raises(ConfigError, match=r"toolset|list of tools"):
        filtered(wrong, lambda *_: True)


def test_registries_take_toolsets_over():
    shelf = Shelf("dig")
    registry = ToolRegistry(ToolRegistry([add, shelf]))
    assert (registry.toolsets, [each.name for each in registry]) == ([shelf], ["add"])


def test_a_tool_without_a_function_belongs_into_a_toolset():
    with pytest.raises(ConfigError, match="has no function"):
        ToolRegistry([Tool(None, name="x", parameters={})])


def test_a_tool_changes_only_where_it_can():
    with pytest.raises(ConfigError, match="cannot change parameters"):
        add.changed(parameters={})
    with pytest.raises(ConfigError, match="Tool name 'a b'"):
        add.changed(name="a b")
