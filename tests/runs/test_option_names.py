"""Arguments with a wrong name or order, and the one rule for two system messages."""

from __future__ import annotations

import pytest

from pure_agent_loop import Agent, Event, EventType, LoopLimits, ReactLoop, RetryConfig
from pure_agent_loop.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("make", "near"),
    [
        (lambda: LoopLimits(max_step=3), "max_steps"),
        (lambda: RetryConfig(max_retry=3), "max_retries"),
        (lambda: ReactLoop(ScriptedLLM([]), tools=[]), "tool_registry"),
        (lambda: ReactLoop(ScriptedLLM([]), max_step=3), "max_steps"),
    ],
)
def test_unknown_option_is_rejected_with_the_nearest_name(make, near):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '\w+'\. Did you mean {near}\?"):
        make()


def test_event_by_position_may_have_the_timestamp_before_the_data():
    event = Event(EventType.THOUGHT, 1, 12.5, {"content": "hm"})
    assert event == Event(EventType.THOUGHT, 1, {"content": "hm"}, 12.5)
    assert (event.timestamp, event.content) == (12.5, "hm")


@pytest.mark.parametrize("option", [{}, {"system_prompt": "Of the run."}])
def test_leading_system_message_of_a_history_replaces_every_system_prompt(option):
    llm = ScriptedLLM(["Yes."])
    history = [
        {"role": "system", "content": "Of the history."},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Later."},
    ]
    Agent(llm=llm, system_prompt="Of the agent.").run("Go", messages=history, **option)
    sent = [(message["role"], message["content"]) for message in llm.requests[0].messages]
    assert sent[0] == ("system", "Of the history.")
    assert [role for role, _ in sent].count("system") == 1
    assert ("user", "Later.") in sent
