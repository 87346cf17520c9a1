"""Long results: cut where they come in, whole on disk, readable in pieces."""

from __future__ import annotations

import os
import re
import stat
import sys
import time

from tests.helpers import E, may_call, of_type, run_agent, run_kernel, tool_texts, unframed

from pure_agent_loop import Agent, LoopLimits, tool
from pure_agent_loop.kernel.long_results import ResultFolder, cut_text, result_file_in
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import ScriptedLLM, call

LONG = "".join(f"line {number}\n" for number in range(20_000))


@tool
def dump() -> str:
    """A long text."""
    return LONG


@tool
def fail() -> str:
    """Fail at length."""
    raise ValueError(LONG)


def names(request):
    return [each["function"]["name"] for each in request.tools or ()]


def read_on(messages, tools, options):
    return call("read_result", id=result_file_in(messages[-1]["content"]), offset=50_000, limit=100)


def test_a_long_result_keeps_its_ends_and_the_rest_can_be_read(home):
    with ScriptedLLM([call("dump"), read_on, "done"]) as llm:
        result = run_agent(llm, [dump])
    cut, piece = map(unframed, tool_texts(result.messages))
    assert len(cut) <= 30_000
    assert cut.startswith("line 0\n")
    assert cut.endswith("line 19999\n")
    left_out = int(re.search(r"(\d+) of \d+ characters are left out", cut)[1])
    note = cut[cut.index("[...") : cut.index("...]") + 4]
    assert len(cut) - len(note) - 2 + left_out == len(LONG)
    assert piece.startswith(LONG[50_000:50_100])
    assert [event.data["result"] for event in of_type(result.events, E.OBSERVATION)] == [cut, piece]
    files = list((home / "results").iterdir())
    assert [file.read_text(encoding="utf-8") for file in files] == [LONG]
    if sys.platform != "win32":
        assert stat.S_IMODE((home / "results").stat().st_mode) == 0o700
        assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_the_offset_it_names_is_where_the_head_ends():
    folder = ResultFolder()
    for words in (ENGLISH, CHINESE):
        cut = cut_text(LONG, 5_000, folder, words)
        offset = int(re.search(r"offset=(\d+)", cut)[1])
        assert cut.startswith(LONG[:offset])
        assert cut[offset] == "\n"
        assert len(cut) <= 5_000


def test_the_list_of_tools_changes_once():
    with ScriptedLLM([call("dump"), call("dump"), read_on, "done"]) as llm:
        run_agent(llm, [dump])
    assert [names(request) for request in llm.requests] == [["dump"], *[["dump", "read_result"]] * 3]
    assert llm.requests[1].tools == llm.requests[3].tools


def test_a_later_run_on_the_same_history_still_reads():
    with ScriptedLLM([call("dump"), "done", read_on_last, "done"]) as llm:
        first = run_agent(llm, [dump])
        again = Agent(llm=llm, tools=[dump]).run("more", messages=first.messages)
    assert names(llm.requests[2]) == ["dump", "read_result"]
    assert unframed(tool_texts(again.messages)[-1]).startswith(LONG[:10])


def read_on_last(messages, tools, options):
    cut = next(m["content"] for m in messages if m["role"] == "tool")
    return call("read_result", id=result_file_in(cut))


def test_errors_have_a_smaller_budget():
    with ScriptedLLM([call("fail"), "done"], tools_may_fail=True) as llm:
        result = run_agent(llm, [fail])
    assert len(tool_texts(result.messages)[0]) <= 4_000


def test_a_small_window_makes_the_budget_smaller():
    with ScriptedLLM([call("dump"), "done"]) as llm:
        result = run_agent(llm, [dump], context_window=4_096, compaction=False)
    assert len(tool_texts(result.messages)[0]) <= 2 * 4_096


def test_short_results_and_agents_without_tools_are_left_alone(home):
    with ScriptedLLM(["done"]) as llm:
        run_agent(llm)
    assert not may_call(llm.requests[0])
    assert not home.exists()


def test_unknown_and_odd_ids_are_answered():
    bad = [call("read_result", id=each) for each in ("0" * 16, "../../etc/passwd")]
    with ScriptedLLM([call("dump"), bad, "done"]) as llm:
        result = run_agent(llm, [dump])
    assert all("no kept result" in text for text in tool_texts(result.messages)[1:])


def test_a_tool_of_the_user_with_that_name_stays_his():
    @tool
    def read_result(id: str) -> str:  # noqa: A002 - as ours calls it
        """Mine."""
        return f"mine {id}"

    with ScriptedLLM([call("read_result", id="x"), call("dump"), "done"]) as llm:
        result = run_agent(llm, [dump, read_result])
    assert tool_texts(result.messages)[0] == "mine x"
    assert names(llm.requests[2]) == ["dump", "read_result"]


def test_a_disk_that_refuses_costs_the_rest_not_the_run(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with ScriptedLLM([call("dump"), "done"]) as llm:
        result = run_agent(llm, [dump], results_folder=blocked)
    assert result.content == "done"
    text = tool_texts(result.messages)[0]
    assert "could not be kept" in text
    assert len(text) <= 30_000
    assert names(llm.requests[1]) == ["dump"]


def test_old_files_are_deleted_after_a_week_except_in_a_custom_folder(tmp_path):
    for own in (None, tmp_path / "own"):
        folder = ResultFolder(own)
        old = folder.path / "old.txt"
        folder.path.mkdir(parents=True)
        old.write_text("x")
        os.utime(old, (1, time.time() - 8 * 24 * 3600))
        folder.keep("new")
        assert old.exists() == (own is not None)


def test_equal_results_stay_recognisable_as_a_loop():
    with ScriptedLLM([*[call("dump")] * 4, "done"], strict=False) as llm:
        result = run_kernel(llm, [dump], limits=LoopLimits(doom_loop_threshold=3))
    assert any("same" in text for text in tool_texts(result.messages)[2:])
