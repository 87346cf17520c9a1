"""`AIClient`, the mode ``single`` behind it, and what is said after tools."""

from __future__ import annotations

import pytest
from tests.helpers import NO_WAIT, add, check_result, may_call, tool_texts

from pure_agent_loop import (
    Agent,
    AIClient,
    ConfigError,
    Inbox,
    LLMError,
    Permission,
    PermissionRules,
    ReactLoop,
    tool,
)
from pure_agent_loop.testing import ScriptedLLM, answer, call

TWO = [call("add", a=1, b=2), call("add", a=3, b=4)]


def client(llm, **options):
    return AIClient(llm=llm, tools=[add], retry=NO_WAIT, **options)


def test_tools_are_offered_once_and_run_together():
    with ScriptedLLM([TWO, "3 and 7."]) as llm:
        assert client(llm).chat("1 + 2? 3 + 4?") == "3 and 7."
    first, second = llm.requests
    assert may_call(first)
    assert not may_call(second)
    assert second.tools == first.tools
    assert tool_texts(second.messages) == ["3", "7"]


def test_a_second_round_of_calls_is_none():
    with ScriptedLLM([TWO[:1], answer("It is 3.", TWO[1])]) as llm:
        result = check_result(client(llm).run("go"))
    assert (result.content, result.stop_reason) == ("It is 3.", "completed")
    assert len(tool_texts(result.messages)) == 1


def test_an_answer_without_calls_is_the_answer():
    with ScriptedLLM(["Hello."]) as llm:
        assert client(llm).chat("hi") == "Hello."


@pytest.mark.anyio
async def test_it_can_be_awaited():
    with ScriptedLLM([TWO, "3 and 7."]) as llm:
        assert await client(llm).achat("go") == "3 and 7."


def test_nothing_is_remembered_between_queries():
    with ScriptedLLM(["one", TWO[:1], "two"]) as llm:
        it = client(llm)
        assert (it.chat("first"), it.chat("second")) == ("one", "two")
    assert [m["content"] for m in llm.requests[1].messages if m["role"] == "user"] == ["second"]
    assert llm.requests[1].tools is not None


def test_a_failure_is_raised():
    error = LLMError("no such key", kind="auth")
    with pytest.raises(LLMError) as caught:
        client(ScriptedLLM([error])).chat("hi")
    assert caught.value is error


def test_unanswered_question_names_the_next_command():
    with ScriptedLLM([TWO]) as llm, pytest.raises(ConfigError) as caught:
        client(llm, permission_mode="ask").chat("go")
    for word in ("'add'", "on_ask=", "PermissionRules(allow=[...])", "run()"):
        assert word in str(caught.value)


def test_a_question_can_be_answered():
    with ScriptedLLM([TWO, "ok"]) as llm:
        it = client(llm, permission_mode="ask", on_ask=lambda _: Permission("allow", always=True))
        assert it.chat("go") == "ok"
    assert tool_texts(llm.requests[1].messages) == ["3", "7"]


def test_a_rule_that_allows_needs_no_question():
    with ScriptedLLM([TWO, "ok"]) as llm:
        rules = PermissionRules(allow=["add"])
        assert client(llm, permission_mode="ask", permission_rules=rules).chat("go") == "ok"


def test_the_mode_is_an_option_of_both():
    for it, rounds in ((Agent, 2), (AIClient, 1)):
        with ScriptedLLM([TWO[:1], *([TWO[1]] if rounds == 2 else []), "ok"]) as llm:
            it(llm=llm, tools=[add]).run("go")
    with ScriptedLLM([TWO[:1], "ok"]) as llm:
        Agent(llm=llm, tools=[add], mode="single").run("go")
    assert not may_call(llm.requests[1])
    with ScriptedLLM([TWO[:1], TWO[1], "ok"]) as llm:
        AIClient(llm=llm, tools=[add], mode="react").run("go")
    with pytest.raises(ConfigError, match=r"mode='twice' is unknown\. Use one of: react, single"):
        Agent(llm=llm, mode="twice")


def test_a_new_task_for_an_old_state_has_its_own_round():
    with ScriptedLLM([TWO[:1], "3", TWO[1], "7"]) as llm:
        it = client(llm)
        result = it.run("1 + 2?")
        assert it.run("3 + 4?", state=result.state).content == "7"
    assert llm.requests[2].tools is not None


# -- the message after tools ----------------------------------------------------------------------


def texts(messages):
    return [(m["role"], m["content"]) for m in messages if m["role"] in ("tool", "user")]


def test_note_after_tools_follows_each_round_and_is_marked():
    with ScriptedLLM([*([each] for each in TWO), "ok"]) as llm:
        result = check_result(Agent(llm=llm, tools=[add], after_tools="Is that right?").run("go"))
    said = ("user", "Is that right?")
    assert texts(llm.requests[2].messages) == [("user", "go"), ("tool", "3"), said, ("tool", "7"), said]
    marked = [m["content"] for m in result.state.messages if m.get("meta", {}).get("synthetic")]
    assert marked == ["Is that right?"] * 2
    assert not any("meta" in message for message in result.messages)


def test_note_comes_once_a_round_and_before_a_persons_message():
    inbox = Inbox()

    @tool
    def interrupted() -> str:
        """Be interrupted."""
        inbox.steer("Stop it.")
        return "done"

    with ScriptedLLM([[call("interrupted"), call("interrupted")], "ok"]) as llm:
        Agent(llm=llm, tools=[interrupted], after_tools="And now?").run("go", inbox=inbox)
    said = [text for role, text in texts(llm.requests[1].messages) if role == "user"]
    assert said == ["go", "And now?", "Stop it.", "Stop it."]


@pytest.mark.anyio
async def test_the_loop_has_it_too():
    with ScriptedLLM([TWO[:1], "ok"]) as llm:
        assert await ReactLoop(llm, [add], after_tools="And now?").run("go") == "ok"
    assert texts(llm.requests[1].messages)[-1] == ("user", "And now?")


@pytest.mark.parametrize("make", [Agent, ReactLoop])
def test_it_must_be_text(make):
    with pytest.raises(ConfigError, match="after_tools must be text; it is 5"):
        make(llm=ScriptedLLM([]), after_tools=5)
