"""A rule that a history brings stays in force in the history that a result hands back."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.testing import ScriptedLLM

RULE = "Answer in French only."
PAST = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def said(request):
    return [m["content"] for m in request.messages if m["role"] in ("system", "developer")]


@pytest.mark.parametrize("prompt", [{}, {"system_prompt": "You sell shoes."}, {"system_prompt": ""}])
@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("content", [RULE, [{"type": "text", "text": RULE}], ""])
def test_a_rule_holds_in_each_turn(role, prompt, content):
    model = ScriptedLLM(["un", "deux", "trois"])
    agent, messages = Agent(llm=model, **prompt), [{"role": role, "content": content}, *PAST]
    for task in ("one", "two", "three"):
        messages = json.loads(json.dumps(agent.run(task, messages=messages).messages))
    first, *others = map(said, model.requests)
    assert first == ([RULE] if content else [])
    assert others == [first, first]


def test_history_of_an_agent_has_no_system_message():
    model = ScriptedLLM(["one", "two"])
    messages = Agent(llm=model, system_prompt="You sell shoes.").run("x", messages=PAST).messages
    assert said_roles(messages) == ["user", "assistant", "user", "assistant"]
    Agent(llm=model, system_prompt="You sell hats.").run("y", messages=messages)
    assert said(model.requests[1]) == ["You sell hats."]


def said_roles(messages):
    return [message["role"] for message in messages]


def test_several_rules_at_the_beginning_are_all_in_force_and_in_order():
    model = ScriptedLLM(["un", "deux"])
    rules = [{"role": "system", "content": RULE}, {"role": "developer", "content": "Be short."}]
    first = Agent(llm=model).run("one", messages=[*rules, *PAST])
    Agent(llm=model).run("two", messages=first.messages)
    assert said(model.requests[0]) == said(model.requests[1]) == [f"{RULE}\n\nBe short."]


def test_a_conversation_keeps_the_rule():
    model = ScriptedLLM(["un", "deux"])
    conversation = Agent(llm=model, system_prompt="You sell shoes.").conversation()
    conversation.messages = [{"role": "system", "content": RULE}, *PAST]
    conversation.send_sync("one")
    conversation.send_sync("two")
    assert [said(request) for request in model.requests] == [[RULE], [RULE]]


def test_a_run_that_was_ended_hands_the_rule_back_and_its_state_too():
    model = ScriptedLLM(["so far", "deux"])
    agent = Agent(llm=model, limits=LoopLimits(max_steps=1))
    ended = agent.run("one", messages=[{"role": "system", "content": RULE}, *PAST])
    assert ended.messages[0] == {"role": "system", "content": RULE}
    again = agent.run("two", state=json.loads(json.dumps(ended.state.to_dict())))
    assert again.messages[0] == {"role": "system", "content": RULE}
    assert said(model.requests[1]) == [RULE]
