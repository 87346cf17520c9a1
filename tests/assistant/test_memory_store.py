"""Memory: written by several at once, found again in any script, and never more than a text."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import ConfigError, MemoryStore
from pure_agent_loop.assistant import MemoryStoreError
from pure_agent_loop.support.locking import append_section

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=timezone.utc)
WRITER = """
import sys
from pure_agent_loop.assistant.memory import MemoryStore
from pure_agent_loop.support.locking import append_section
store = MemoryStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    if number % 2:
        store.write(f"fact {number} of {sys.argv[2]}")
    else:
        append_section(store.file, f"## 2026-01-01 00:00 UTC\\n\\nfact {number} of {sys.argv[2]}\\n")
"""


def store(folder, **options):
    return MemoryStore(folder, now=lambda: NOON, **options)


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("ada", "bob")
    ]
    for each in writers:
        assert each.stdout.readline() == "ready\n"
    for each in writers:
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in writers:
        each.communicate(timeout=60)
        assert each.returncode == 0
    found = {entry.text for entry in store(tmp_path).entries()}
    assert found == {f"fact {number} of {name}" for number in range(40) for name in ("ada", "bob")}
    assert [path.name for path in tmp_path.iterdir()] == ["MEMORY.md"]


def test_entries_have_dates_and_stand_in_the_file_of_the_workspace(tmp_path):
    memory = store(tmp_path)
    assert memory.write("The cat is called Miso.")
    assert not memory.write("The cat is called Miso.")
    text = (tmp_path / "MEMORY.md").read_text(encoding="utf-8")
    assert text == "# Memory\n\n## 2026-01-31 12:00 UTC\n\nThe cat is called Miso.\n"
    assert str(memory.read()[0]) == "[2026-01-31 12:00 UTC] The cat is called Miso."


def test_user_text_and_moved_messages_are_found(tmp_path):
    (tmp_path / "MEMORY.md").write_text("# Mine\n\nPort 4711.\n\n## Food\n\nNo nuts.\n", "utf-8")
    append_section(tmp_path / "MEMORY.md", "## 2026-01-01 00:00 UTC\n\nGoal: mend the parser.\n")
    memory = store(tmp_path)
    assert [entry.when for entry in memory.entries()] == ["", "", "2026-01-01 00:00 UTC"]
    assert memory.search("port")[0].text == "# Mine\n\nPort 4711."
    assert memory.search("parsers")[0].when


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cats", "The cat is called Miso."),
        ("MISO", "The cat is called Miso."),
        ("猫", "用户的猫叫小花"),
        ("小花是谁", "用户的猫叫小花"),
        ("东京", "下周去东京出差"),
        ("café", "The cafe\u0301 opens at nine."),
        ("パスタ", "夕食はパスタでした"),
    ],
)
def test_words_are_found_in_any_script(tmp_path, query, expected):
    memory = store(tmp_path)
    for text in (
        "The cat is called Miso.",
        "用户的猫叫小花",
        "下周去东京出差",
        "The cafe\u0301 opens at nine.",
        "夕食はパスタでした",
        "The the the the dog.",
    ):
        memory.write(text)
    assert memory.search(query)[0].text == expected
    assert memory.search("zzz") == []
    assert memory.search("") == []


def test_rare_words_count_more_and_of_equals_the_newest_comes_first(tmp_path):
    memory = store(tmp_path)
    for text in ("the plan is old", "the plan is new", "the plan is about zebras"):
        memory.write(text)
    assert memory.search("plan zebras")[0].text == "the plan is about zebras"
    assert [entry.text for entry in memory.search("old new", limit=1)] == ["the plan is new"]


def test_caps_are_told_to_the_model(tmp_path):
    memory = store(tmp_path, max_entry_chars=50, max_file_bytes=120)
    for bad in ("", "  \n", "x" * 51):
        with pytest.raises(MemoryStoreError):
            memory.write(bad)
    memory.write("a" * 50)
    with pytest.raises(MemoryStoreError, match="full"):
        memory.write("b" * 50)
    assert len(memory.entries()) == 1
    with pytest.raises(ConfigError, match="not an existing folder"):
        MemoryStore(tmp_path / "none")


def test_a_link_out_of_the_workspace_is_neither_read_nor_written(tmp_path):
    outside, work = tmp_path / "outside.md", tmp_path / "work"
    work.mkdir()
    outside.write_text("## 2026-01-01 00:00 UTC\n\nsecret\n", encoding="utf-8")
    (work / "MEMORY.md").symlink_to(outside)
    memory = store(work)
    assert memory.entries() == []
    with pytest.raises(MemoryStoreError, match="link"):
        memory.write("x")
    assert "x" not in outside.read_text(encoding="utf-8").split()


def test_tools_report_their_action(tmp_path):
    write, search, read = store(tmp_path).tools()

    def use(tool, **args):
        return asyncio.run(tool.execute(args))

    assert use(read) == "Memory is empty."
    assert use(write, text="The cat is Miso.") == "Written to memory."
    assert use(write, text="The cat is Miso.") == "This is already in memory."
    assert "Miso" in use(search, query="cat")
    assert "No memory entry" in use(search, query="dog")
    assert "Miso" in use(read, limit=1)
    assert "failed" in use(write, text="")
    assert (write.read_only, search.read_only, read.read_only) == (False, True, True)
    assert max(len(tool.description) for tool in (write, search, read)) < 100
    chinese = store(tmp_path, language="zh").tools()
    assert use(chinese[0], text="新的") == "已写入记忆。"


@given(texts=st.lists(st.text(max_size=80), max_size=6))
def test_any_text_comes_back_as_one_entry(tmp_path_factory, texts):
    memory = store(tmp_path_factory.mktemp("memory"))
    written = [text for text in texts if text.strip() and memory.write(text)]
    assert len(memory.entries()) == len(written)
    assert all(entry.when for entry in memory.entries())


def test_a_section_with_the_same_text_is_not_added_again(tmp_path):
    path = tmp_path / "MEMORY.md"
    first = "## 2026-01-01 00:00 UTC\n\nGoal: mend the parser.\n\n- one\n"
    for section in (first, "## 2026-01-01 00:00 UTC\n\nGoal\n", first.replace("01-01", "02-02")):
        append_section(path, section)
    assert path.read_text() == f"# Memory\n\n{first}\n## 2026-01-01 00:00 UTC\n\nGoal\n"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    append_section(path, first)
    assert path.read_text().count("mend the parser") == 1


def test_search_terms_are_in_the_excerpt(tmp_path):
    store = MemoryStore(tmp_path)
    entry = "word " * 5_000 + "the cat is called Miso " + "word " * 5_000
    (tmp_path / "MEMORY.md").write_text(f"# Memory\n\n## One\n\n{entry}\n\n## Two\n\nMiso eats fish.\n")
    search = {tool.name: tool for tool in store.tools()}["memory_search"]
    found = asyncio.run(search.execute({"query": "Miso"}))
    assert "the cat is called Miso" in found
    assert "Miso eats fish" in found
    assert len(found) < 13_000
