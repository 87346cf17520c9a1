"""A user's compactor names its change; the run reports it with its numbers."""

from __future__ import annotations

from pure_agent_loop import Agent, EventType
from pure_agent_loop.compaction import Chain, Ladder
from pure_agent_loop.testing import ScriptedLLM, check_history


class Oldest:
    """Drop the oldest message."""

    async def compact(self, state):
        if len(state.messages) > 1:
            state.replace_messages(state.messages[1:], "oldest")


def compactions(result):
    return [event for event in result.events if event.type is EventType.COMPACTION]


def test_named_change_is_an_event():
    history = [{"role": "user", "content": "x" * 4_000}]
    agents = [
        Agent(llm=ScriptedLLM(["Hi."]), compaction=each) for each in (Oldest(), Chain(Oldest(), Ladder()))
    ]
    for agent in agents:
        result = agent.run("Hello.", messages=history)
        (event,) = compactions(result)
        assert (event.rung, event.messages_before, event.messages_after) == ("oldest", 2, 1)
        assert event.tokens_before > 500 > event.tokens_after > 0
        assert result.state.auto_compact_tracking["oldest"]["acted"] == 1
        check_history(result.messages)
