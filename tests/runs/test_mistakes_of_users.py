"""Mistakes in functions of the user: refused where they are given, logged, told, failed in tests."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from typing import Any

import pytest

from pure_agent_loop import (
    Agent,
    BeforeTool,
    ConfigError,
    EventType,
    Hooks,
    Permission,
    Retry,
    RunContext,
    Tool,
    tool,
)
from pure_agent_loop.budget import check_limit
from pure_agent_loop.errors import ToolExecutionError
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.testing.gate import ScriptError
from pure_agent_loop.toolsets import prepared


@tool
def look(k: str) -> str:
    """Look."""
    return {"a": "found"}[k]


@tool
def meant(k: str) -> str:
    """Fail on purpose."""
    if k == "retry":
        raise Retry("not so")
    raise ToolExecutionError("nobody is there")


def failures(caplog, kind=KeyError):
    return [r for r in caplog.records if r.exc_info and r.exc_info[0] is kind and r.levelno == logging.ERROR]


def script(*items):
    return ScriptedLLM([*items, "done"], tools_may_fail=True)


def test_tool_exception_is_logged_and_in_the_event(caplog):
    result = Agent(llm=script(call("look", k="x")), tools=[look]).run("q")
    (record,) = failures(caplog)
    assert record.name == "pure_agent_loop"
    assert "The tool 'look' failed: KeyError" in record.getMessage()
    assert record.exc_info[2] is not None
    first = look.function.__code__.co_firstlineno
    assert (record.filename, record.funcName) == ("test_mistakes_of_users.py", "look")
    assert record.lineno == first + 3  # where it was raised
    (event,) = [e for e in result.events if e.type is EventType.OBSERVATION]
    assert isinstance(event.exception, KeyError)
    assert "exception" not in event.to_dict()["data"]
    assert "exception" not in event.public(tools=True)["data"]
    json.dumps(event.to_dict())


@pytest.mark.parametrize("call_", [call("meant", k="retry"), call("meant", k="x"), call("look", z=1)])
def test_intended_use_is_not_a_mistake(caplog, call_):
    result = Agent(llm=ScriptedLLM([call_, "done"]), tools=[look, meant]).run("q")
    assert not [r for r in caplog.records if r.exc_info]
    assert all(getattr(e, "exception", None) is None for e in result.events)


def test_a_test_whose_tools_failed_fails():
    agent = Agent(llm=ScriptedLLM([]), tools=[look])
    with pytest.raises(ScriptError, match=r"look: KeyError: 'x'.*tools_may_fail=True") as found:  # noqa: SIM117 - the outer one sees the end of the inner
        with agent.override(llm=ScriptedLLM([call("look", k="x"), "done"])):
            assert agent.run("q").content == "done"
    assert isinstance(found.value.__cause__, KeyError)
    with pytest.raises(ScriptError, match="KeyError"), ScriptedLLM([call("look", k="x"), "done"]) as llm:
        Agent(llm=llm, tools=[look]).run("q")
    llm = ScriptedLLM([call("look", k="x"), "done"])
    Agent(llm=llm, tools=[look]).run("q")
    with pytest.raises(ScriptError, match="KeyError"):
        llm.assert_done()
    with agent.override(llm=script(call("look", k="x"))):
        agent.run("q")
    failing = Tool(lambda: raising(), name="raising", description="Fail.")
    llm = ScriptedLLM([call("raising"), "done"])
    Agent(llm=llm, tools=[failing]).run("q")
    with pytest.raises(ScriptError, match=r"Tools failed: raising: LookupError: a mistake\. If the test"):
        llm.assert_tools_worked()


def raising(*_: Any, **__: Any) -> Any:
    raise LookupError("a mistake.")


@pytest.mark.parametrize(
    "options",
    [
        {"hooks": Hooks(before_tool=raising)},
        {"can_use_tool": raising},
        {"permission_mode": "ask", "on_ask": raising},
    ],
    ids=["hook", "can_use_tool", "on_ask"],
)
def test_failing_permission_function_denies_the_call_and_is_logged(caplog, options):
    result = Agent(llm=script(call("look", k="a")), tools=[look], **options).run("q")
    (event,) = [e for e in result.events if e.type is EventType.OBSERVATION]
    assert event.is_error
    assert failures(caplog, LookupError)
    told = [e for e in result.events if e.type is EventType.PERMISSION and e.data["behavior"] == "deny"]
    assert any("a mistake" in str(event.data) for event in told)


@pytest.mark.parametrize(
    "options",
    [{"hooks": Hooks(after_tool=raising)}, {"hooks": Hooks(on_stop=raising)}, {"system_prompt": raising}],
    ids=["after", "stop", "prompt"],
)
def test_other_functions_that_fail_are_logged(caplog, options):
    Agent(llm=script(call("look", k="a")), tools=[look], **options).run("q")
    assert failures(caplog, LookupError)


class Caller:
    """Something to call."""

    def __init__(self, count: int) -> None:
        self.count = count

    def two(self, name: str, args: dict[str, Any]) -> None: ...

    def three(self, name: str, args: dict[str, Any], context: object) -> None: ...

    def __call__(self, name: str) -> str:
        return "allow"


WRONG = {
    "before_tool": [lambda name: None, lambda: None, Caller(1).two, Caller(1), lambda a, b, c, d: None],
    "after_tool": [lambda name, args, context: None, Caller(1).three],
    "on_stop": [lambda answer: None, lambda a, b, c: None],
    "can_use_tool": [lambda name, args: "allow", Caller(1), functools.partial(Caller(1).three, "x")],
    "on_ask": [lambda: "allow", lambda request, other: "allow"],
    "system_prompt": [lambda name: "x"],
}
RIGHT = {
    "before_tool": [
        lambda name, args, context: None,
        lambda *args: None,
        lambda name, args, context, more=None: None,
        Caller(1).three,
        functools.partial(lambda x, name, args, context: None, 1),
        print,
    ],
    "on_stop": [lambda answer, context: None, lambda *_: None],
    "can_use_tool": [lambda name, args, context: "allow", lambda *_, **__: "allow"],
    "on_ask": [lambda request: "allow", lambda request, note="": "allow"],
    "system_prompt": [lambda: "x", lambda name="x": name],
}


def with_function(name: str, function: Any) -> Agent[Any, Any]:
    options: dict[str, Any] = {name: function}
    if name in ("before_tool", "after_tool", "on_stop"):
        options = {"hooks": Hooks(**{name: function})}
    return Agent(llm=ScriptedLLM(["ok"]), **options)


@pytest.mark.parametrize(("name", "function"), [(n, f) for n, fs in WRONG.items() for f in fs])
def test_a_function_of_the_wrong_shape_is_refused_when_the_agent_is_made(name, function):
    with pytest.raises(ConfigError, match=name):
        with_function(name, function)


@pytest.mark.parametrize(("name", "function"), [(n, f) for n, fs in RIGHT.items() for f in fs])
def test_a_function_that_can_be_called_is_taken(name, function):
    assert with_function(name, function).run("q").content == "ok"


def in_run(ctx: RunContext, name: str, args: dict[str, Any], context: object) -> None: ...


def in_run_and_too_few(ctx: RunContext, name: str) -> None: ...


def test_run_context_parameter_is_allowed():
    assert with_function("before_tool", in_run).run("q").content == "ok"
    with pytest.raises(ConfigError, match="before_tool"):
        with_function("before_tool", in_run_and_too_few)
    with pytest.raises(ConfigError, match="output_check"):
        Agent(llm=ScriptedLLM([])).output_check(lambda: None)


CHANGED = {
    "hook": {"hooks": Hooks(before_tool=lambda name, args, context: BeforeTool(args={"k": "a"}))},
    "can_use_tool": {
        "can_use_tool": lambda name, args, context: Permission("allow", updated_args={"k": "a"})
    },
    "on_ask": {
        "permission_mode": "ask",
        "on_ask": lambda request: Permission("allow", updated_args={"k": "a"}),
    },
}


@pytest.mark.parametrize("mode", ["react", "single"])
@pytest.mark.parametrize("options", CHANGED.values(), ids=CHANGED.keys())
def test_model_gets_the_run_call_and_the_original_is_kept(options, mode):
    llm = ScriptedLLM([call("look", k="secret"), "done"])
    result = Agent(llm=llm, tools=[look], mode=mode, **options).run("q")
    written, told = llm.requests[1].messages[-2:]
    assert json.loads(written["tool_calls"][0]["function"]["arguments"]) == {"k": "secret"}
    assert told["content"] == (
        'found\n\n(The arguments of this call were changed before it ran. It ran with: {"k": "a"})'
    )
    assert [e.content for e in result.events if e.type is EventType.OBSERVATION] == [told["content"]]


def test_an_answer_that_changes_nothing_is_not_told_and_one_in_a_session_is(tmp_path):
    from pure_agent_loop.sessions import JsonlStore

    same = Permission("allow", updated_args={"k": "a"})
    llm = ScriptedLLM([call("look", k="a"), "done"])
    Agent(llm=llm, tools=[look], can_use_tool=lambda *_: same).run("q")
    assert llm.requests[1].messages[-1]["content"] == "found"
    llm = ScriptedLLM([call("look", k="b"), "done"])
    agent = Agent(llm=llm, tools=[look], permission_mode="ask", sessions=JsonlStore(tmp_path), language="zh")
    waiting = agent.run("q", session_id="s")
    run = agent.prepare(None, session_id="s")
    run.state.answer_permission(waiting.questions[0].call_id, same)
    assert run.wait_sync().content == "done"
    assert '实际使用的参数：{"k": "a"}' in llm.requests[1].messages[-1]["content"]


class NoWords:
    """Something that cannot be written down."""

    def __str__(self) -> str:
        raise LookupError("no words")

    __repr__ = __str__


@tool
async def cancels() -> str:
    """Cancel itself."""
    raise asyncio.CancelledError


@tool
def cancels_in_thread() -> str:
    """Cancel itself."""
    raise asyncio.CancelledError


@tool
def stops() -> str:
    """Run out of things."""
    return next(iter(()))


@tool
async def stops_async() -> str:
    """Run out of things."""
    return next(iter(()))


@tool
def wordless() -> dict[str, Any]:
    """Return what has no words."""
    return {"is": NoWords()}


@tool
def raises_from_itself() -> str:
    """Fail, as its own cause."""
    error = LookupError("nothing there")
    raise error from error


@tool
def raises_from_ours() -> str:
    """Fail because this package did."""
    raise LookupError("nothing there") from ToolExecutionError("other", "it failed")


@tool
def raises_from_a_refusal() -> str:
    """Fail because a function of this package raised on purpose."""
    try:
        check_limit("limit", -1)
    except ConfigError as error:
        raise LookupError("nothing there") from error
    return ""


@pytest.mark.parametrize(
    "mistaken",
    [
        cancels,
        cancels_in_thread,
        stops,
        stops_async,
        wordless,
        raises_from_itself,
        raises_from_ours,
        raises_from_a_refusal,
    ],
)
def test_no_mistake_of_a_tool_goes_without_a_traceback(caplog, mistaken):
    Agent(llm=script(call(mistaken.name)), tools=[mistaken]).run("q")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.levelno == logging.ERROR
    where = "__str__" if mistaken is wordless else mistaken.name
    assert f"in {where}\n" in record.exc_text


def test_exception_in_tool_preparation_is_logged(caplog):
    toolset = prepared([look], lambda context, tools: tools[7])
    assert Agent(llm=ScriptedLLM([]), tools=[toolset]).run("q").stop_reason == "error"
    (record,) = failures(caplog, IndexError)
    assert "The toolset Derived failed" in record.getMessage()
    assert "in <lambda>\n" in record.exc_text
