"""A permission rule that cannot match any call of an agent is refused where it is given."""

from __future__ import annotations

from typing import Literal

import pytest

from pure_agent_loop import (
    Agent,
    AgentLoop,
    ConfigError,
    EventType,
    PermissionRules,
    Tool,
    ToolRegistry,
    tool,
)
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import workspace_tools
from pure_agent_loop.toolsets import prefixed


@tool
def write_file(path: str, text: str = "") -> str:
    """Write."""
    return path


@tool
def now() -> str:
    """Tell the time."""
    return "noon"


def given(name, parameters):
    return Tool(lambda **_: "", name=name, description="d", parameters=parameters)


CLOSED = given("closed", {"type": "object", "properties": {"size": {}}, "additionalProperties": False})
OPEN = given("open", {"type": "object", "properties": {"size": {}}, "additionalProperties": True})
UNKNOWN = given("unknown", {})
TOOLS = [write_file, now, CLOSED, OPEN, UNKNOWN]


def agent(*rules, kind="deny", tools=TOOLS, shared=False, **more):
    return Agent(
        llm=ScriptedLLM(["hi"]),
        tools=tools,
        permission_rules=PermissionRules(**{kind: list(rules)}, shared=shared),
        **more,
    )


@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("writefile", ["there is no tool 'writefile'", "Did you mean 'write_file'?", "write_file, now"]),
        ("Write_File(path=a)", ["Did you mean 'write_file'?"]),
        ("zzz", ["Tools: write_file, now", "shared=True"]),
        ("write_file(paht=docs/*)", ["has no argument 'paht'", "Did you mean 'path'?", "path, text"]),
        ("write_file(path=a, txt=b)", ["has no argument 'txt'", "'text'"]),
        ("write_*(paht=docs/*)", ["has no argument 'paht'"]),
        ("now(x*)", ["'now' has no arguments"]),
        ("now(zone=*)", ["'now' has no arguments"]),
        ("closed(sise=1)", ["Did you mean 'size'?"]),
        ("write_file(FOO=1 make)", ["write write_file(path=FOO=1 make)"]),
    ],
)
def test_a_rule_that_can_match_no_call_is_refused(kind, rule, words):
    with pytest.raises(ConfigError) as caught:
        agent("now", rule, kind=kind)
    assert repr(rule) in str(caught.value)
    for each in words:
        assert each in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        "now",
        "write_file(docs/*)",
        "write_file(path=docs/*, text=*)",
        "*(path=docs/*)",  # one of the tools has it
        "mcp__*",  # speaks also of tools that there are not yet
        "no_such_?ool(anything=*)",
        "open(anything=*)",
        "unknown(anything=*)",
        "unknown(words)",
        "read_result",
        "read_result(id=*)",
        "now()",
    ],
)
def test_a_rule_that_can_match_a_call_is_taken(rule):
    assert agent(rule).run("go").content == "hi"


def test_an_agent_without_tools_says_so():
    with pytest.raises(ConfigError, match="The agent has no tools"):
        agent("write_file", tools=None)


def test_a_shared_rule_is_in_force_for_a_tool_that_comes_later():
    llm, tools, done = ScriptedLLM([call("act", x=1), "done"]), ToolRegistry(), []
    made = Agent(llm=llm, tools=tools, permission_rules=PermissionRules(deny=["act"], shared=True))

    @tools.register
    def act(x: int) -> str:
        """Act."""
        done.append(x)
        return "acted"

    result = made.run("go")
    assert done == []
    assert "forbids" in str(result.messages)


def test_the_tools_of_subagents_count():
    helper = AgentDefinition("helper", "Helps.", "Help.", tools=[write_file])
    manager = SubagentManager([helper], wait=False)
    assert agent("write_file(path=x)", "task(agent=helper)", tools=[now], subagents=manager)
    with pytest.raises(ConfigError, match="no argument 'paht'"):
        agent("write_file(paht=x)", tools=[now], subagents=manager)
    with pytest.raises(ConfigError, match="Did you mean 'task'"):
        agent("taks", tools=[now], subagents=manager)


def test_the_tools_of_an_assistant_count(tmp_path):
    def loop(rule):
        rules = PermissionRules(deny=[rule])
        return AgentLoop(ScriptedLLM([]), tmp_path, tools=[now], permission_rules=rules)

    names = [each.name for each in loop("now").tools]
    assert len(names) > 1
    assert all(loop(name) for name in names)
    with pytest.raises(ConfigError, match="no tool 'nwo'"):
        loop("nwo")


def test_the_tools_of_a_workspace(tmp_path):
    tools = workspace_tools(tmp_path, sandbox="none")
    assert agent("shell(git *)", "shell(command=git *)", "edit_file(path=docs/*)", tools=tools)
    for wrong in ("bash(git *)", "shell(cmd=git *)", "edit_file(file=docs/*)"):
        with pytest.raises(ConfigError, match="cannot match any call"):
            agent(wrong, tools=tools)


@tool
def pay(amount: float, count: int = 1, now: bool = False, to: Literal["ann", "bob"] = "ann") -> str:
    """Pay."""
    return "paid"


OBJECT = {"type": "object", "properties": {"names": {"type": "array"}, "of": {"type": "object"}}}
LISTS = given("lists", OBJECT)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("pay(amount=abc)", "'abc' is not a value of the argument 'amount' of the tool 'pay' (number)"),
        ("pay(amount=>100)", "(number)"),
        ("pay(amount=a*)", "(number)"),
        ("pay(count=1.5)", "(integer)"),
        ("pay(now=yes)", "(boolean)"),
        ("pay(to=Ann)", "(one of: ann, bob)"),
        ("pay(amount=5, to=zoe)", "(one of: ann, bob)"),
        ("lists(names=ann)", "(array)"),
        ("lists(of=ann)", "(object)"),
        ("lists(ann)", "of any argument"),
        ("write_file(path=docs/)", "'docs/' is not a value"),
    ],
)
def test_a_rule_whose_value_no_argument_can_have_is_refused(rule, words):
    with pytest.raises(ConfigError) as caught:
        agent(rule, tools=[pay, LISTS, write_file])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        *("pay(amount=100)", "pay(amount=1e3)", "pay(amount=-1*)", "pay(count=?0)", "pay(now=True)"),
        *("pay(to=b*)", "pay(ann)", "pay(*)", "lists(names=*ann*)", 'lists(names=["ann"])', "lists(of={*)"),
        *("write_file(path=*/)", "write_file(path=/)"),
    ],
)
def test_a_rule_whose_value_an_argument_can_have_is_taken(rule):
    assert agent(rule, tools=[pay, LISTS, write_file]).run("go").content == "hi"


def test_the_tools_of_one_run_count():
    made = agent("write_file(path=x)")
    assert made.run("go", tools=[write_file]).content == "hi"
    for wrong in ([now], [given("write_file", CLOSED.parameters)]):
        with pytest.raises(ConfigError, match="cannot match any call"):
            made.run("go", tools=wrong)
        with made.override(tools=wrong), pytest.raises(ConfigError, match="cannot match any call"):
            made.run("go")
    shared = agent("write_file(path=x)", shared=True)
    assert shared.run("go", tools=[now]).content == "hi"


def test_the_tools_of_toolsets_count_as_soon_as_they_are_there():
    def run(rule, **more):
        return agent(rule, tools=[prefixed([write_file], "x_"), now], **more).run("go")

    assert run("x_write_file(path=a)").content == "hi"
    wrong = run("x_write_file(paht=a)")
    assert wrong.stop_reason == "error"
    assert "Did you mean 'path'?" in str(wrong.error)
    assert run("x_write_file(paht=a)", shared=True).content == "hi"
    waiting = run("write_file(path=a)")
    (notice,) = [each.data["message"] for each in waiting.events if each.type is EventType.NOTICE]
    assert "matches nothing yet: there is no tool 'write_file'. Did you mean 'x_write_file'?" in notice
