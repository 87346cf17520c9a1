"""Leaving while the history is being shortened, and what it looks like in Chinese."""

from __future__ import annotations

import asyncio

import pytest
from tests.compaction.sessions import long_session
from tests.compaction.test_ladder import FREE, run_with, rungs
from tests.helpers import check_result, drive

from pure_agent_loop import CancelToken, QueryState
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.prompts import CHINESE
from pure_agent_loop.testing import ScriptedLLM, check_history

pytestmark = pytest.mark.anyio


async def test_a_run_that_is_cancelled_during_the_summary_keeps_a_valid_history():
    token = CancelToken()
    history = long_session(rounds=60, words=100)
    state = QueryState(messages=list(history))

    async def cancelled(*_):
        token.cancel()
        await asyncio.Event().wait()

    kit = {"compactor": Ladder(), "context_window": 4_000, "limits": FREE, "cancel_token": token}
    result = check_result(await drive(state, ScriptedLLM(cancelled), **kit))
    assert result.stop_reason == "cancelled"
    assert rungs(result) == ["prune"], "what was done is done, what was not is not"
    assert check_history(result.messages) == []
    assert len(result.messages) == len(history)


def test_in_chinese_the_same_happens():
    def play(messages, tools, options):
        return "目标：修复解析器。" if messages[0]["content"] == CHINESE.summary_system else "完成"

    with ScriptedLLM(play, usage=None) as llm:
        result = run_with(long_session(rounds=60, words=100), llm, prompts=CHINESE)
    assert rungs(result) == ["prune", "summary"]
    summary = llm.requests[-1].messages[1]["content"]
    assert summary.startswith(CHINESE.summary_head)
    assert CHINESE.summary_files in summary
    assert "src/module_0.py" in summary
    assert "-> part 58" in summary
