"""The contract of a journal, on the journals of this package and on two that break it.

It kills at each `EVERY`-th write; ``PAL_KILLS=1`` kills at each.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.testing import made_journals

from pure_agent_loop import Agent, ConfigError, MemoryJournal
from pure_agent_loop.sessions import KeyJournal, SessionReadError
from pure_agent_loop.testing import JOURNAL_RULES, ScriptedLLM, ScriptError, call, journal_contract

EVERY = 1 if os.environ.get("PAL_KILLS") else 23
ANYWHERE, CHANGED = JOURNAL_RULES[0], JOURNAL_RULES[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked, to be killed")


@pytest.mark.parametrize("rule", JOURNAL_RULES)
@pytest.mark.parametrize("name", ["in_keys", "in_files", "in_sqlite"])
def test_journal_keeps_its_contract(name, rule):
    kills = journal_contract(f"tests.testing.made_journals:{name}", rules=[rule], every=EVERY)
    assert kills[rule] > 0


@pytest.mark.parametrize("rule", JOURNAL_RULES)
def test_postgres_keeps_the_contract(postgres, rule, monkeypatch):
    monkeypatch.setenv("PAL_TEST_POSTGRES", postgres.new_database())
    kills = journal_contract(made_journals.in_postgres, rules=[rule], every=EVERY)
    assert kills[rule] > 0


def test_memory_journal_keeps_its_rules_without_kills():
    assert set(journal_contract(made_journals.in_memory, survives=False).values()) == {0}


@pytest.mark.parametrize(
    ("make", "words"), [(made_journals.forgetful, "starts"), (made_journals.lossy, "recorded result")]
)
def test_journal_that_breaks_the_contract_fails(make, words):
    with pytest.raises(ScriptError, match=f"breaks the rule '{ANYWHERE}'.*{words}"):
        journal_contract(make, rules=[ANYWHERE], every=1)  # ends at the first kill that shows it


def test_factory_that_another_process_cannot_import_is_refused():
    with pytest.raises(ConfigError, match="must be a function at the top of a module"):
        journal_contract(lambda folder: MemoryJournal())
    with pytest.raises(ScriptError, match="No module named"):
        journal_contract("no_such_module:make", rules=[ANYWHERE])


# -- a journal that is passed to a run -------------------------------------------------------------------


def agent():
    return Agent(llm=ScriptedLLM([call("nothing"), "Done."]))


def test_journal_cannot_be_combined_with_a_session():
    with pytest.raises(ConfigError, match="session_id and journal were both given"):
        agent().run("t", session_id="s", journal=MemoryJournal())


def test_object_without_the_methods_of_a_journal_is_refused():
    with pytest.raises(ConfigError, match="journal must have the methods of Journal"):
        agent().run("t", journal={})


def test_records_of_another_task_are_refused():
    records = {}
    assert agent().run("one", journal=KeyJournal(records)).content == "Done."
    result = agent().run("two", journal=KeyJournal(records))
    assert "the records of another task" in result.error


def test_damaged_record_ends_the_run():
    records = {"1:model": '["answer", 5]'}
    result = agent().run("t", journal=KeyJournal(records))
    assert isinstance(result.state.failure, SessionReadError)


def test_second_agent_uses_the_records(tmp_path: Path):
    records = made_journals.FolderRecords(tmp_path / "records")
    first = agent().run("t", journal=KeyJournal(records))
    again = Agent(llm=ScriptedLLM([])).run(
        "t", journal=KeyJournal(made_journals.FolderRecords(tmp_path / "records"))
    )
    assert again.messages == first.messages
