"""Agents as tools of other agents: what they are given, what holds for them, and what a crash leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest
from tests.helpers import check_result, of_type, tool_texts

from pure_agent_loop import (
    Agent,
    Budget,
    ConfigError,
    EventType,
    LoopLimits,
    PermissionRules,
    Retry,
    RunContext,
    tool,
)
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.subagents import SubagentManager, TaskStore
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, assert_replays, call
from pure_agent_loop.toolsets import prefixed


@tool
def stamp(n: int) -> str:
    """Stamp it."""
    return f"stamped {n}"


def writer(script=("A line.",), **options):
    options = {"name": "writer", "description": "Writes verse.", "system_prompt": "You write.", **options}
    return Agent(llm=ScriptedLLM(script), **options)


def boss(*tools, script=None, **options):
    script = script or [call("writer", input="The sea."), "Done."]
    return Agent(llm=ScriptedLLM(script), tools=tools, name="boss", **options)


def test_an_agent_among_the_tools_answers():
    other = writer()
    mine = boss(other)
    result = check_result(mine.run("Verse, please."))
    assert tool_texts(result.messages) == ["A line."]
    assert result.usage.total_tokens == 45
    asked = other.llm.requests[0]
    assert [each["content"] for each in asked.messages] == ["You write.", "The sea."]
    offered = mine.llm.requests[0].tools[0]["function"]
    assert offered["parameters"]["required"] == ["input"]
    assert "Writes verse." in offered["description"]
    states = [event.data["task"]["state"] for event in of_type(result.events, EventType.TASK)]
    assert (states[0], states[-1]) == ("running", "completed")
    assert {event.data["task"]["agent"] for event in of_type(result.events, EventType.TASK)} == {"writer"}


def test_names_descriptions_and_languages():
    made = writer().as_tool("poet", "Rhymes.")
    assert made.name == "poet"
    assert "Rhymes." in made.description
    mine = boss(made, script=[call("poet", input="x"), "ok"], language="zh")
    mine.run("go")
    assert mine.llm.requests[0].tools[0]["function"]["description"].startswith("询问代理 'poet'")
    assert writer().as_tool("askPoet").name == "askPoet"
    with pytest.raises(ConfigError, match="'a poet' is invalid"):
        writer().as_tool("a poet")
    with pytest.raises(ConfigError, match="needs a name"):
        boss(writer(name=""))


@dataclass
class Wish:
    """A wish."""

    about: str
    lines: int = 1


def test_a_typed_input_reaches_it_as_json():
    other = writer()
    made = other.as_tool(input_type=Wish)
    wrong = call("writer", input={"about": "x", "lines": "many"})
    right = call("writer", input={"about": "the sea", "lines": 2})
    result = boss(made, script=[wrong, right, "Done."]).run("go")
    assert "lines" in tool_texts(result.messages)[0]
    assert other.llm.requests[0].messages[-1]["content"] == '{"about": "the sea", "lines": 2}'
    assert len(other.llm.requests) == 1


@pytest.mark.parametrize("has_own", [False, True], ids=["the caller has none", "the caller has one"])
def test_a_question_goes_to_the_caller_or_else_to_its_own_on_ask(has_own):
    asked = []

    def answer(who):
        return lambda request: asked.append((who, request.tool)) or "allow"

    script = [call("stamp", n=1), "A line."]
    other = writer(script, tools=[stamp], permission_mode="ask", on_ask=answer("own"))
    result = check_result(boss(other, **({"on_ask": answer("caller")} if has_own else {})).run("go"))
    assert tool_texts(result.messages) == ["A line."]
    assert asked == [("caller" if has_own else "own", "stamp")]


def test_its_own_output_type_and_checks_hold():
    other = writer(['{"about": "sea"}', '{"about": "the sea"}'], output_type=Wish)

    @other.output_check
    def whole(wish: Wish) -> None:
        if not wish.about.startswith("the"):
            raise Retry("say the")

    result = check_result(boss(other, output_type=None).run("go"))
    (seen,) = of_type(result.events, EventType.OBSERVATION)
    assert (seen.result, seen.value, seen.is_error) == ('{"about": "the sea"}', Wish("the sea"), False)


def test_an_answer_that_does_not_fit_is_a_failure_not_a_result():
    result = boss(writer(["no", "no"], output_type=Wish, output_retries=1)).run("go")
    (seen,) = of_type(result.events, EventType.OBSERVATION)
    assert (seen.is_error, "after 1 correction:" in seen.result, result.stop_reason) == (
        True,
        True,
        "completed",
    )


def test_its_prompt_functions_and_toolsets_work_for_it():
    def lead(ctx: RunContext[str]) -> str:
        return f"You write for {ctx.deps}."

    other = writer([call("my_stamp", n=3), "A line."], system_prompt=lead, tools=[prefixed([stamp], "my_")])
    boss(other).run("go", deps="Bo")
    first, second = other.llm.requests
    assert first.messages[0]["content"] == "You write for Bo."
    assert second.messages[-1]["content"] == "stamped 3"


def test_an_override_of_it_holds_in_the_run_of_another_agent():
    other = writer()
    with other.override(llm=ScriptedLLM(["From a test."])):
        assert tool_texts(boss(other).run("go").messages) == ["From a test."]


def test_outside_of_a_run_it_says_so():
    import asyncio

    text = asyncio.run(writer().as_tool().execute({"input": "x"}))
    assert text == "Tasks can be given only from inside a run."


def test_parent_restrictions_apply_to_agent_tools():
    script = [call("stamp", n=1), call("stamp", n=2), "Done."]
    other = writer(script, tools=[stamp])
    mine = boss(
        other, permission_rules=PermissionRules(deny=["stamp(n=1)"], shared=True), budget=(budget := Budget())
    )
    assert mine.run("go").stop_reason == "completed"
    texts = tool_texts(other.llm.requests[-1].messages)
    assert "stamp(n=1)" in texts[0]
    assert texts[1] == "stamped 2"
    assert budget.tokens == 75
    other = writer(script, tools=[stamp])
    assert boss(other, permission_mode="plan").run("go").stop_reason == "completed"
    assert "stamped" not in str(other.llm.requests[-1].messages)


def test_the_limits_above_end_it():
    endless = writer(
        lambda messages, tools, options: call("stamp", n=len(messages)) if tools else "?", tools=[stamp]
    )
    result = boss(endless, limits=LoopLimits(max_tool_calls=5)).run("go")
    assert result.state.ledger.tool_calls == 5


def test_failure_is_reported_to_the_parent_agent():
    broken = writer([RuntimeError("no network")])
    result = boss(broken).run("go")
    assert "It failed" in tool_texts(result.messages)[0]
    assert result.content == "Done."


def test_with_subagents_and_several_levels_deep():
    deep = writer(["deep"], name="deep")
    middle = writer([call("deep", input="x"), "middle"], tools=[deep])
    mine = boss(middle, subagents=SubagentManager())
    result = mine.run("go")
    assert tool_texts(result.messages) == ["middle"]
    assert result.usage.total_tokens == 75


def test_one_that_asks_itself_comes_to_an_end():
    other = writer(lambda messages, tools, options: call("writer", input="x") if len(messages) < 3 else "end")
    other.tools.register(other.as_tool())
    result = boss(other).run("go")
    assert result.content == "Done."


def test_one_that_hands_over_answers_with_the_other():
    last = writer(["From the last."], name="last")
    other = writer([call("transfer_to_last")], handoffs=[last])
    assert tool_texts(boss(other).run("go").messages) == ["From the last."]


def test_agent_tool_in_a_session_gets_its_own_session_without_a_notice(tmp_path):
    store = JsonlStore(tmp_path)
    mine = boss(
        writer(["A line.", "Two."]), script=[call("writer", input="x"), "Done.", "More."], sessions=store
    )
    mine.run("go", session_id="s")
    result = mine.run("on", session_id="s")
    assert [each["role"] for each in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    for path in tmp_path.glob("*.jsonl"):
        assert_replays(path)


PROGRAM = """
import os, sys
from pure_agent_loop import Agent, OpenAIClient, tool

@tool
def act(n: int) -> str:
    "Do something."
    with open(sys.argv[2], "a") as file:
        file.write(f"{n}\\n")
    if n == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
    return f"did {n}"

def client(name):
    return OpenAIClient(name, api_key="k", base_url=sys.argv[1])

helper = Agent(llm=client("helper"), name="helper", tools=[act])
boss = Agent(llm=client("boss"), tools=[helper])
found = boss.run(sys.argv[4] or None, session_id="s")
print(found.content, found.stop_reason, [m["content"] for m in found.messages if m["role"] == "tool"])
"""


@pytest.mark.parametrize("kill_at", [1, 2])
def test_run_killed_at_work_resumes(tmp_path, kill_at):
    asked = []

    def serve(request):
        results = sum(each["role"] == "tool" for each in request.messages)
        asked.append((request.body["model"], results))
        if request.body["model"] == "boss":
            return "end" if results else call("helper", input="work")
        return call("act", n=results + 1) if results < 2 else "helped"

    marks, home = tmp_path / "marks", tmp_path / "home"
    with ScriptedServer(handler=serve) as server:

        def run(kill, task):
            words = [sys.executable, "-c", PROGRAM, server.base_url, str(marks), str(kill), task]
            env = {**os.environ, "PAL_HOME": str(home)}
            return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)

        assert run(kill_at, "Go.").returncode == -signal.SIGKILL
        done = run(0, "")
    assert done.stdout == "end completed ['helped']\n", done.stderr
    assert marks.read_text().split() == ["1", "2"]
    assert len(asked) == len(set(asked))  # no answer was asked for twice
    (record,) = TaskStore(home / "sessions" / "agents").list()
    assert (record.state, record.result) == ("completed", "helped")
    for path in (home / "sessions").glob("*.jsonl"):
        assert_replays(path)


def test_run_cut_anywhere_resumes(tmp_path):
    """The two files of a run, cut where a kill could have cut them."""
    done = []

    @tool
    def act(n: int) -> str:
        """Do something once."""
        done.append(n)
        return f"did {n}"

    def agent(folder):
        def work(messages, tools, options):
            return "helped" if "did 1" in str(messages) else call("act", n=1)

        def lead(messages, tools, options):
            return "end" if "helped" in str(messages) else call("writer", input="x")

        return boss(writer(work, tools=[act]), script=lead, sessions=JsonlStore(folder))

    agent(tmp_path / "whole").run("go", session_id="s")
    files = {
        path.name: path.read_text().splitlines(keepends=True) for path in (tmp_path / "whole").glob("*.jsonl")
    }
    (child,) = set(files) - {"s.jsonl"}
    begun = next(n for n, line in enumerate(files["s.jsonl"]) if '"intent"' in line) + 1
    for number in range(len(files[child]) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "s.jsonl").write_text("".join(files["s.jsonl"][:begun]))
        if number:
            (folder / child).write_text("".join(files[child][:number]))
        had = '"text":"did' in "".join(files[child][:number]).replace(": ", ":")
        done.clear()
        result = agent(folder).run(None, session_id="s")
        assert result.content == "end", number
        assert done in ([], [1]), number
        assert not (had and done), number
