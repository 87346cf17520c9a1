"""What a run hands to functions of one's own: deps, where it stands, progress, questions; and prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.helpers import NO_WAIT, check_result

from pure_agent_loop import (
    Agent,
    BeforeTool,
    ConfigError,
    EventType,
    Hooks,
    LoopLimits,
    Permission,
    RunContext,
    Tool,
    tool,
)
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, assert_replays, call
from pure_agent_loop.tool_context import Remaining

Renamed = RunContext


class Bank:
    """Has no JSON form."""

    def __init__(self, money: int) -> None:
        self.money = money


@tool
def balance(ctx: RunContext[Bank], account: str) -> str:
    """The balance of an account."""
    return f"{account}: {ctx.deps.money}"


@tool
async def told(ctx: RunContext, loud: bool = False) -> str:
    """Say where the run stands."""
    ctx.progress("half")
    left = ctx.remaining
    about = [ctx.step, ctx.session_id, left.tool_calls, left.steps, len(ctx.messages), ctx.metadata["for"]]
    return " ".join(map(str, about))


def results(result: Any) -> list[str]:
    return [m["content"] for m in result.messages if m["role"] == "tool"]


def test_a_tool_finds_its_deps_and_the_model_never_sees_the_parameter():
    llm = ScriptedLLM([call("balance", account="a"), "ok"])
    result = check_result(Agent(llm=llm, tools=[balance]).run("x", deps=Bank(7)))
    assert results(result) == ["a: 7"]
    assert "ctx" not in json.dumps(llm.requests[0].tools)
    assert balance.parameters["required"] == ["account"]


def test_the_run_is_the_first_parameter_or_none():
    with pytest.raises(ConfigError, match="ctx, a RunContext, must be its first parameter"):

        @tool
        def late(account: str, ctx: RunContext[Bank]) -> str:
            """Too late."""
            return account


def test_an_async_tool_knows_the_run():
    llm = ScriptedLLM([call("told"), "ok"])
    limits = LoopLimits(max_tool_calls=5, max_turns=4)
    result = check_result(Agent(llm=llm, tools=[told], limits=limits).run("x", metadata={"for": "me"}))
    assert results(result) == ["1  5 3 3 me"]
    types = [event.type for event in result.events]
    assert (
        types.index(EventType.ACTION) < types.index(EventType.PROGRESS) < types.index(EventType.OBSERVATION)
    )
    progress = next(event for event in result.events if event.type is EventType.PROGRESS)
    assert (progress.data["tool"], progress.data["text"], progress.data["call_id"] != "") == (
        "told",
        "half",
        True,
    )


def test_progress_from_a_thread_comes_before_the_result():
    @tool
    def slow(ctx: RunContext[None]) -> str:
        """Work."""
        for number in range(100):
            ctx.progress(str(number))
        return "done"

    events = list(Agent(llm=ScriptedLLM([call("slow"), "ok"]), tools=[slow]).run_stream("x"))
    kinds = [e.type for e in events if e.type in (EventType.PROGRESS, EventType.OBSERVATION)]
    assert kinds == [EventType.PROGRESS] * 100 + [EventType.OBSERVATION]


def test_hooks_and_permission_functions_take_it_too():
    seen: list[Any] = []

    def before(ctx: RunContext[Bank], name: str, args: dict[str, Any], about: Any) -> BeforeTool:
        seen.append(("before", ctx.deps.money, name))
        return BeforeTool()

    async def after(ctx: RunContext[Bank], name: str, args: Any, result: str, about: Any) -> str:
        return f"{result}!{ctx.deps.money}"

    def stop(ctx: RunContext[Bank], content: str, about: Any) -> None:
        seen.append(("stop", ctx.deps.money))

    async def may(ctx: RunContext[Bank], name: str, args: Any, about: Any) -> str:
        return "deny" if ctx.deps.money < 0 else "allow"

    hooks = Hooks(before_tool=before, after_tool=after, on_stop=stop)
    llm = ScriptedLLM([call("balance", account="a"), "ok"] * 2)
    mine = Agent(llm=llm, tools=[balance], hooks=hooks, can_use_tool=may)
    assert results(mine.run("x", deps=Bank(7))) == ["a: 7!7"]
    assert seen == [("before", 7, "balance"), ("stop", 7)]
    assert "a: " not in results(mine.run("x", deps=Bank(-1)))[0]


def test_two_runs_at_once_have_their_own():
    import asyncio

    mine = Agent(
        llm=ScriptedLLM(lambda m, *_: "ok" if m[-1]["role"] == "tool" else call("balance", account="a")),
        tools=[balance],
    )

    async def both() -> Any:
        return await asyncio.gather(*(mine.arun("x", deps=Bank(n)) for n in range(5)))

    assert [results(each)[0] for each in asyncio.run(both())] == [f"a: {n}" for n in range(5)]


def test_tool_outside_a_run_names_the_missing_context():
    import asyncio

    assert "only available during a run" in asyncio.run(balance.execute({"account": "a"}))
    assert balance(RunContext(Bank(3)), "a") == "a: 3"
    empty = RunContext(None)
    assert (empty.step, empty.messages, empty.remaining, empty.session_id) == (0, [], Remaining(), "")
    empty.progress("nobody hears it")


def test_an_annotation_under_another_name_is_found():

    def look(c: Renamed[Bank], at: str) -> str:
        """Look."""
        return at

    def late(c: RunContext[Bank], at: str) -> str:
        """Look."""
        return at

    assert [list(Tool(each).parameters["properties"]) for each in (look, late)] == [["at"], ["at"]]


def test_on_ask_gets_the_deps():
    def ask(ctx: RunContext[Bank], request: Any) -> bool:
        return bool(ctx.deps.money > 5)

    for money, wanted in ((7, "a: 7"), (1, "PermissionDenied")):
        llm = ScriptedLLM([call("balance", account="a"), "ok"])
        mine = Agent(llm=llm, tools=[balance], can_use_tool=lambda *_: "ask", on_ask=ask)
        assert wanted in results(mine.run("x", deps=Bank(money)))[0]


def test_a_person_is_asked_through_on_ask():
    @tool
    async def colour(ctx: RunContext[None]) -> str:
        """Ask."""
        return await ctx.ask("Which colour?")

    def mine(on_ask: Any) -> Agent:
        return Agent(llm=ScriptedLLM([call("colour"), "ok"]), tools=[colour], on_ask=on_ask)

    seen = []

    def person(request: Any) -> Any:
        seen.append((request.tool, request.args))
        return Permission("allow", "blue")

    assert results(mine(person).run("x")) == ["blue"]
    assert seen == [("colour", {"question": "Which colour?"})]
    assert results(mine(lambda _: False).run("x")) == ["no"]
    alone = mine(None).run("x")  # a run without a person goes on, and its model knows why
    assert (alone.stop_reason, "No user can be asked" in results(alone)[0]) == ("completed", True)


# -- prompts ----------------------------------------------------------------------------------------------


def test_functions_write_the_system_prompt_for_each_run():
    async def who(ctx: RunContext[str]) -> str:
        return f"You serve {ctx.deps}."

    llm = ScriptedLLM(["a", "b"])
    mine = Agent(llm=llm, system_prompt=["Be kind.", who, lambda: None])
    mine.run("x", deps="Ada")
    mine.run("x", deps="Bob")
    assert [r.messages[0]["content"] for r in llm.requests] == [
        f"Be kind.\n\nYou serve {n}." for n in ("Ada", "Bob")
    ]


def test_or_for_each_step(tmp_path):
    def at(ctx: RunContext[None]) -> str:
        return f"This is step {ctx.step}."

    store = JsonlStore(tmp_path)
    llm = ScriptedLLM([call("balance", account="a"), "ok"])
    mine = Agent(llm=llm, system_prompt=at, system_prompt_per="step", tools=[balance], sessions=store)
    mine.run("x", session_id="s", deps=Bank(1))
    assert [r.messages[0]["content"] for r in llm.requests] == ["This is step 1.", "This is step 2."]
    assert_replays(store.read("s").records)


def test_a_new_run_in_a_session_has_its_own_prompt_and_all_is_replayed(tmp_path):
    store = JsonlStore(tmp_path)
    llm = ScriptedLLM(["a", "b", "c"])
    mine = Agent(llm=llm, system_prompt=lambda: f"Run {len(llm.requests)}.", sessions=store)
    mine.run("1", session_id="s")
    mine.run("2", session_id="s")
    mine.run("3", session_id="s", system_prompt="Other.")
    assert [r.messages[0]["content"] for r in llm.requests] == ["Run 0.", "Run 1.", "Other."]
    assert_replays(store.read("s").records)


def test_a_history_with_a_system_message_keeps_it():
    llm = ScriptedLLM(["a"])
    Agent(llm=llm, system_prompt=lambda: "Mine.").run("x", [{"role": "system", "content": "Theirs."}])
    assert llm.requests[0].messages[0]["content"] == "Theirs."


@pytest.mark.parametrize("prompt", [5, ["a", 5], lambda: 5])
def test_unknown_prompt_is_reported(prompt):
    with pytest.raises(ConfigError, match="prompt"):
        Agent(llm=ScriptedLLM([]), system_prompt=prompt, retry=NO_WAIT).run("x").raise_for_error()


def test_deps_are_never_written_down(tmp_path):
    store = JsonlStore(tmp_path)
    secret = "a-thing-of-mine"
    llm = ScriptedLLM([call("told"), "ok"])
    mine = Agent(llm=llm, tools=[told], sessions=store)
    mine.run("x", session_id="s", deps={"key": secret}, metadata={"for": "me"})
    whole = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert secret not in whole
    assert '"metadata":{"for":"me"}' in whole.replace(" ", "")
