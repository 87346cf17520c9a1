"""What people do with sessions: several tasks, questions that wait, damage, full disks."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.helpers import check_result
from tests.sessions.cuts import Site, Whole, check_cut, copied, cut, key, keys

from pure_agent_loop import Agent, ConfigError, LoopLimits, tool
from pure_agent_loop.errors import SessionLockedError, SessionWriteError
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedLLM, call, check_history
from pure_agent_loop.testing.killed_work import TASK, UNKNOWN, make_tools, next_answer, told


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "s")


def test_tasks_in_one_session_share_the_history(new_store):
    store = new_store()
    llm = ScriptedLLM(["One.", "Two.", "Three.", "Four."])
    agent = Agent(llm=llm, sessions=store)
    first = check_result(agent.run("1", session_id="s"))
    second = check_result(asyncio.run(agent.arun("2", session_id="s")))
    third = list(agent.run_stream("3", session_id="s"))[-1]

    async def streamed():
        return [event async for event in agent.arun_stream("4", session_id="s")]

    fourth = asyncio.run(streamed())[-1]
    texts = [each["content"] for each in fourth.data["messages"]]
    assert texts == ["1", "One.", "2", "Two.", "3", "Three.", "4", "Four."]
    assert [first.content, second.content, third.data["content"]] == ["One.", "Two.", "Three."]
    assert (first.state.session_id, second.steps, second.usage) == ("s", 1, first.usage)
    assert [m["content"] for m in llm.requests[1].messages[1:]] == ["1", "One.", "2"]


def test_finished_session_asks_nothing(new_store):
    store = new_store()
    first = Agent(llm=ScriptedLLM(["One."]), sessions=store).run("1", session_id="s")
    again = check_result(Agent(llm=ScriptedLLM([]), sessions=store).run(None, session_id="s"))
    assert (again.content, again.messages, again.usage) == ("One.", first.messages, first.usage)


def test_none_in_a_new_session_has_nothing_to_do(new_store):
    agent = Agent(llm=ScriptedLLM(["One."]), sessions=new_store())
    with pytest.raises(ConfigError, match="nothing to resume"):
        agent.run(None, session_id="s")
    assert agent.run("1", session_id="s").content == "One."  # and it holds no lock


@pytest.mark.parametrize("options", [{"state": {}}, {"task": 5}, {"session_id": "a\0b"}, {"session_id": ""}])
def test_impossible_value_is_rejected(store, options):
    agent = Agent(llm=ScriptedLLM([]), sessions=store)
    with pytest.raises(ConfigError):
        agent.run(**{"task": "1", "session_id": "s", **options})
    assert list(store.list()) == []


@pytest.mark.parametrize("task", ["2", None])
def test_a_history_for_a_session_that_has_begun_is_refused_by_name(new_store, task):
    store = new_store()
    agent, before = (
        Agent(llm=ScriptedLLM(["One.", "Two."]), sessions=store),
        [{"role": "user", "content": "0"}],
    )
    agent.run("1", before, session_id="s")
    records = store.read("s").records
    with pytest.raises(ConfigError, match=r"^messages \(1\) cannot be passed: session 's' has begun"):
        agent.run(task, before, session_id="s")
    assert store.read("s").records == records
    assert agent.run("3", [], session_id="s").content == "Two."  # nothing to leave out; and it holds no lock


def test_a_history_given_to_a_new_session_survives_a_crash_before_the_first_state(new_store):
    store = new_store()
    history = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "0"}]
    history.append({"role": "assistant", "content": "Zero."})
    llm = ScriptedLLM(["One."])
    Agent(llm=llm, sessions=store).run("1", history, session_id="s")
    began = copied(cut(store.read("s").records, ("run", 1)), new_store())
    again = ScriptedLLM(["One."])
    Agent(llm=again, sessions=began, system_prompt="Other.").run(None, session_id="s")
    assert again.requests[0].messages == llm.requests[0].messages


def test_new_task_after_every_cut_keeps_the_finished_work(new_store):
    """Without hooks: they get a test of their own."""
    whole = new_store()
    Site(whole, functions=False).agent.run(TASK, session_id="s")
    records = whole.read("s").records
    calls = {
        key(each): (each.data["tool"], each.data["args"]["n"]) for each in records if each.type == "intent"
    }
    for count in range(1, len(records)):
        behind = records[:count]
        store = copied(behind, new_store())
        llm = ScriptedLLM(["Hello."])
        result = Agent(llm=llm, tools=make_tools(pytest.fail), sessions=store).run("Hello?", session_id="s")
        check_result(result)
        texts = told(result.messages)
        done = {calls[each] for each in keys(behind, "outcome")}
        unclear = {calls[each] for each in set(keys(behind, "intent")) - set(keys(behind, "outcome"))}
        assert {each for each in texts if texts[each].endswith("is done")} == done
        assert {each for each in texts if UNKNOWN in texts[each]} == unclear
        rest = texts.keys() - done - unclear
        assert {texts[each] for each in rest} <= {ENGLISH.tool_not_started}
        assert result.messages[-2:] == [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hello."},
        ]
        assert (result.steps, result.usage) == (1, Agent(llm=ScriptedLLM(["x"])).run("y").usage)
        answers = sum(1 for each in result.messages if each["role"] == "assistant")
        assert answers == len(keys(behind, "answer")) + 1


def test_a_result_that_no_hook_has_seen_is_kept_back_from_a_new_task(store, new_store):
    Site(store).agent.run(TASK, session_id="s")
    records = store.read("s").records
    for place, shown in ((("outcome", 1), ENGLISH.tool_cancelled), (("state", 2), "put 1 is DONE")):
        part = copied(cut(records, place), new_store())
        result = Agent(llm=ScriptedLLM(["Hello."]), sessions=part).run("Hello?", session_id="s")
        assert told(result.messages)[("put", 1)] == shown
    after = next(r for r in records if str(r.data.get("key")).startswith("1:after"))
    part = copied(records[: records.index(after) + 1], new_store())
    result = Agent(llm=ScriptedLLM(["Hello."]), sessions=part).run("Hello?", session_id="s")
    assert told(result.messages)[("put", 1)] == "put 1 is DONE"


def test_a_run_cut_off_is_mentioned(new_store):
    full = Whole(new_store())
    part = copied(cut(full.records, ("outcome", 2)), new_store())
    result = Agent(llm=ScriptedLLM(["Hello."]), sessions=part).run("Hello?", session_id="s")
    assert any("was interrupted" in event.data.get("message", event.content) for event in result.events)


def test_a_question_waits_in_the_session(new_store):
    store, paid, asked = new_store(), [], []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def agent(script, **options):
        return Agent(llm=ScriptedLLM(script), tools=[pay], sessions=store, permission_mode="ask", **options)

    def ask(request):
        asked.append(request.args["amount"])
        return "allow"

    first = check_result(agent([[call("pay", amount=1), call("pay", amount=2)]]).run("Pay.", session_id="s"))
    assert (first.stop_reason, paid) == ("waiting_permission", [])
    again = check_result(agent([]).run(None, session_id="s"))
    assert [q.args for q in again.questions] == [{"amount": 1}, {"amount": 2}]
    result = check_result(agent(["Paid."], on_ask=ask).run(None, session_id="s"))
    assert (result.content, asked, sorted(paid), result.steps) == ("Paid.", [1, 2], [1, 2], 2)

    records = store.read("s").records
    last = [at for at, record in enumerate(records) if record.type == "run"][-1]
    for count in range(last + 1, len(records)):  # cut off after it was answered: nobody is asked again
        store, paid[:], asked[:] = copied(records[:count], new_store()), [], []
        behind = keys(records[last:count], "value", "outcome")
        result = agent(["Paid."], on_ask=ask).run(None, session_id="s")
        assert (result.content, check_history(result.messages)) == ("Paid.", [])
        unclear = set(keys(records[last:count], "intent")) - set(behind)
        assert len(asked) == 2 - sum(":ask:" in each for each in behind)
        assert len(paid) == 2 - sum(":tool:" in each for each in behind) - len(unclear)
        store = copied(records[:count], new_store())
        after = check_result(agent(["Hello."]).run("Hello?", session_id="s"))  # a new task instead
        texts = [each["content"] for each in after.messages if each["role"] == "tool"]
        finished = sum(record.type == "outcome" for record in records[last:count])
        assert sum(text.startswith("paid") for text in texts) == finished


def test_limits_count_the_whole_run(new_store):
    full = new_store()
    limits = LoopLimits(max_turns=3, max_steps=2)
    site = Agent(
        llm=ScriptedLLM(lambda m, *_: next_answer(m)), tools=make_tools(len), limits=limits, sessions=full
    )
    whole = site.run(TASK, session_id="s")
    assert (whole.stop_reason, whole.steps) == ("max_steps", 3)
    records = full.read("s").records
    for count in range(1, len(records)):
        store = copied(records[:count], new_store())
        llm = ScriptedLLM(lambda m, *_: next_answer(m))
        part = Agent(llm=llm, tools=make_tools(len), limits=limits, sessions=store).run(None, session_id="s")
        assert (part.stop_reason, part.steps, part.usage) == (whole.stop_reason, whole.steps, whole.usage)
        assert part.state.ledger.tool_calls == whole.state.ledger.tool_calls


def test_second_run_is_rejected_with_the_lock_holder(new_store):
    agent = Agent(llm=ScriptedLLM(["One.", "Two."]), sessions=new_store())
    run = agent.prepare("1", session_id="s")
    with pytest.raises(SessionLockedError, match=re.escape("open for writing in")):
        agent.run("2", session_id="s")
    assert run.wait_sync().content == "One."
    assert agent.run("2", session_id="s").content == "Two."


def test_a_run_that_is_never_started_holds_nothing(new_store):
    agent = Agent(llm=ScriptedLLM(["One."]), sessions=new_store())
    agent.prepare("0", session_id="s")
    assert agent.run("1", session_id="s").content == "One."


def test_damaged_file_is_reported_and_the_run_continues(tmp_path):
    store = JsonlStore(tmp_path)
    Site(store).agent.run(TASK, session_id="s")
    path = tmp_path / "s.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines), 5):
        damaged = lines[number].replace(b'"data":{', b'"data":[', 1)
        path.write_bytes(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
        site = Site(store)
        result = check_result(site.agent.run("Task: once more.", session_id="s"))
        assert result.content == "Checked."
        assert any("'s' was damaged" in event.content for event in result.events)
        path.unlink()


class FailingLog:
    """A log of another store, which fails at its n-th record, and from then on."""

    def __init__(self, log, left):
        self._log, self.left = log, left

    def __getattr__(self, name):
        return getattr(self._log, name)

    def append(self, *args, **options):
        self.left -= 1
        if self.left < 0:
            raise SessionWriteError("/full/s.jsonl", "No space left on device")
        return self._log.append(*args, **options)


class FailingStore(JsonlStore):
    left = 0

    def open(self, session_id, *, create=True):
        return FailingLog(super().open(session_id, create=create), self.left)


def test_failed_write_ends_the_run_which_resumes_later(tmp_path, new_store):
    full = Whole(JsonlStore(tmp_path / "full"))
    for left in range(1, len(full.records)):
        store = FailingStore(tmp_path / str(left))
        store.left = left
        site = Site(store)
        result = check_result(site.agent.run(TASK, session_id="s"))
        assert result.stop_reason == ("error" if left < len(full.records) - 3 else "completed")
        said = [event.content for event in result.events if event.type.value == "error"]
        assert said == ["SessionWriteError: Cannot write to /full/s.jsonl: No space left on device"]
        records = JsonlStore(tmp_path / str(left)).read("s").records
        assert len(records) == left
        intended = {(r.data["tool"], r.data["args"]["n"]) for r in records if r.type == "intent"}
        assert set(site.ran) <= intended  # a tool of which no intention is on the disk has not begun
        check_cut(records, full, new_store)


def test_a_session_that_cannot_be_begun_raises(tmp_path):
    store = FailingStore(tmp_path)
    agent = Agent(llm=ScriptedLLM(["One."]), sessions=store)
    with pytest.raises(SessionWriteError, match=re.escape("/full/s.jsonl")):
        agent.run("1", session_id="s")
    store.left = 10
    assert agent.run("1", session_id="s").content == "One."


@pytest.mark.parametrize("place", [("outcome", 3), ("intent", 6), ("answer", 4)])
def test_a_record_lost_to_damage_makes_nothing_that_is_recorded_happen_twice(new_store, place):
    """But for answers and messages: without them the model is asked anew, and may want the same again."""
    full = Whole(new_store())
    records = cut(full.records, place)
    names = {key(each): (each.data["tool"], each.data["args"]["n"]) for each in full.intents}
    for lost in range(1, len(records)):
        if records[lost].type in ("answer", "messages"):
            continue
        left = [*records[:lost], *records[lost + 1 :]]
        store, begun = copied(left, new_store()), {names[each] for each in keys(left, "intent", "outcome")}
        site = Site(store)
        result = site.agent.run(None, session_id="s")
        assert (result.content, check_history(result.messages)) == ("Checked.", [])
        assert {each for each in site.ran if each in begun and each[0] != "again"} == set(), records[lost]
