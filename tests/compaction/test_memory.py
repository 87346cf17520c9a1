"""The oldest messages go into MEMORY.md, and only once they are written down."""

from __future__ import annotations

import pytest
from tests.compaction.sessions import long_session, prose
from tests.compaction.test_ladder import FREE, rungs, summarising
from tests.helpers import E, of_type, run_kernel

from pure_agent_loop import ConfigError, QueryState
from pure_agent_loop.compaction import Chain, Ladder, MemoryOverflow
from pure_agent_loop.llm.messages import user_message
from pure_agent_loop.testing import FakeClock, check_history
from pure_agent_loop.toolbox import Workspace


def run_on(history, compactor, llm, **kit):
    return run_kernel(llm, state=QueryState(messages=list(history)), compactor=compactor, limits=FREE, **kit)


def test_past_the_limit_the_oldest_are_written_down_and_dropped(tmp_path):
    history = long_session(rounds=30, words=20)
    policy = MemoryOverflow(Workspace(tmp_path), max_history=40)
    with summarising("done") as llm:
        result = run_on(history, policy, llm, clock=FakeClock())
    text = (tmp_path / "MEMORY.md").read_text(encoding="utf-8")
    assert text.startswith("# Memory\n\n## ")
    assert " UTC\n\nGoal: to mend the parser." in text
    assert "src/module_0.py" in text
    assert rungs(result) == ["memory"]
    sent = llm.requests[-1].messages
    assert check_history(sent) == []
    assert len(sent) <= 21
    assert "MEMORY.md" in sent[0]["content"]
    assert sent[1] == history[0], "the newest question stays"
    assert sent[-1] == history[-1]


def test_sections_are_added_and_nothing_is_lost(tmp_path):
    (tmp_path / "MEMORY.md").write_text("# Mine\n\nA fact.\n", encoding="utf-8")
    policy = MemoryOverflow(tmp_path, max_history=10, keep=3)
    for rounds in (8, 9):  # the same summary is written once
        with summarising("done") as llm:
            run_on(long_session(rounds=rounds, words=20), policy, llm)
    text = (tmp_path / "MEMORY.md").read_text(encoding="utf-8")
    assert text.startswith("# Mine\n\nA fact.\n\n## ")
    assert text.count("\n## ") == 2
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["MEMORY.md"]


def test_without_a_summary_the_users_words_and_the_record_are_written(tmp_path):
    history = [user_message("The port is 4711."), *long_session(rounds=20, words=20)]
    with summarising("done", summary="") as llm:
        run_on(history, MemoryOverflow(tmp_path, max_history=20), llm)
    text = (tmp_path / "MEMORY.md").read_text(encoding="utf-8")
    assert "- The port is 4711." in text
    assert "Tools called: read_file" in text


@pytest.mark.parametrize("obstacle", ["link", "no folder"])
def test_unwritable_memory_keeps_its_messages(tmp_path, obstacle):
    folder = tmp_path / "w"
    if obstacle == "link":
        folder.mkdir()
        (folder / "MEMORY.md").symlink_to(tmp_path / "outside.md")
    history = long_session(rounds=20, words=20)
    with summarising("done") as llm:
        result = run_on(history, MemoryOverflow(folder, max_history=20), llm)
    assert rungs(result) == []
    assert result.messages[:-1] == history
    assert any("cannot be written" in event.content for event in of_type(result.events, E.NOTICE))
    assert not (tmp_path / "outside.md").exists()


def test_it_goes_before_the_ladder(tmp_path):
    chain = Chain(MemoryOverflow(tmp_path, max_history=30), Ladder())
    with summarising("done") as llm:
        result = run_on(long_session(rounds=40, words=200), chain, llm, context_window=4_000)
    assert rungs(result)[0] == "memory"
    assert len(rungs(result)) > 1
    assert result.content == "done"


def test_short_histories_write_nothing(tmp_path):
    with summarising("done") as llm:
        run_on([user_message(prose(1, 2_000))], MemoryOverflow(tmp_path, max_history=10), llm)
    assert not (tmp_path / "MEMORY.md").exists()


@pytest.mark.parametrize("numbers", [{"max_history": 1}, {"max_history": 5, "keep": 5}])
def test_numbers_that_cannot_work(tmp_path, numbers):
    with pytest.raises(ConfigError, match="MemoryOverflow"):
        MemoryOverflow(tmp_path, **numbers)
