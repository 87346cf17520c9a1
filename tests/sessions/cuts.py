"""Runs of the work in sessions, and what must be true when one is resumed from a part of its records."""

from __future__ import annotations

from collections import Counter

from tests.helpers import NO_WAIT, check_result

from pure_agent_loop import Agent, Permission
from pure_agent_loop.hooks import BeforeTool, Hooks
from pure_agent_loop.testing import ScriptedLLM, check_history
from pure_agent_loop.testing.killed_work import DONE, TASK, UNKNOWN, make_tools, next_answer, told


class Site:
    """An agent whose every decision is made by a function, and what it did and was asked."""

    def __init__(self, store, functions=True, script=next_answer):
        self.marks, self.asked, self.model = [], [], None
        self.model = ScriptedLLM(lambda messages, *_: script(messages))
        options = (
            {"hooks": self.hooks(), "can_use_tool": self.permit, "on_ask": self.ask} if functions else {}
        )
        self.agent = Agent(
            llm=self.model, tools=make_tools(self.marks.append), sessions=store, retry=NO_WAIT, **options
        )

    def hooks(self):
        def before(name, args, context):
            self.asked.append(f"{context.step}:before:{context.call_id}:0")
            return BeforeTool(context="Mind the step.") if args["n"] == 6 else None

        def after(name, args, text, context):
            self.asked.append(f"{context.step}:after:{context.call_id}:0")
            return text.replace("done", "DONE")

        def stop(content, context):
            self.asked.append(f"{context.step}:stop:0")
            return "Check it." if content == DONE else None

        return Hooks(before, after, stop)

    def permit(self, name, args, context):
        self.asked.append(f"{context.step}:permit:{context.call_id}")
        return "ask" if args["n"] in (3, 9, 10) else "allow"

    def ask(self, request):
        self.asked.append(f"{request.step}:ask:{request.call_id}")
        if request.args["n"] == 10:
            return Permission("deny", "Not that.")
        return Permission("allow", updated_args=request.args)

    @property
    def ran(self):
        return Counter((name, int(n)) for what, name, n in map(str.split, self.marks) if what == "start")


def copied(records, store, session_id="s"):
    with store.open(session_id) as log:
        for record in records:
            log.append(record.type, record.data)
    return store


def keys(records, *types):
    return [record.data["key"] for record in records if record.type in types]


def check_cut(records, full, new_store, base=0):
    """Resume from these records, as after a crash behind them, and compare with the whole run."""
    site = Site(store := copied(records, new_store()))
    result = site.agent.run(None, session_id="s")
    behind = records[base:]
    calls = {key(each): (each.data["tool"], each.data["args"]["n"]) for each in full.intents}
    ended = set(keys(behind, "outcome"))
    unclear = set(keys(behind, "intent")) - ended
    ambiguous = {calls[each] for each in unclear if calls[each][0] != "again"}
    finished = {calls[each] for each in ended if each in calls}
    assert (result.content, result.stop_reason) == (full.content, "completed")
    assert check_history(result.messages) == []
    assert site.ran == Counter(set(calls.values()) - finished - ambiguous)
    texts = told(result.messages)
    already = {each for each in texts if UNKNOWN in texts[each]}
    lost = {
        calls[r.data["key"]] for r in behind if r.type == "outcome" and UNKNOWN in r.data["value"]["text"]
    }
    assert already == ambiguous | lost
    assert {each: texts[each] for each in texts.keys() - already} == {
        each: full.texts[each] for each in texts.keys() - already
    }
    assert Counter(site.asked) == Counter(set(full.asked) - set(keys(behind, "value")))
    assert len(site.model.requests) == full.requests - len(keys(behind, "answer"))
    assert (result.usage, result.steps) == (full.usage, full.steps)
    return store.read("s").records


def key(record):
    return record.data["key"]


class Whole:
    """A run that was not cut off."""

    def __init__(self, store, task=TASK):
        site = Site(store)
        result = check_result(site.agent.run(task, session_id="s"))
        self.records = store.read("s").records
        starts = [at for at, record in enumerate(self.records) if record.type == "run"]
        self.base = starts[-1]
        self.intents = [record for record in self.records[self.base :] if record.type == "intent"]
        self.content, self.usage, self.steps = result.content, result.usage, result.steps
        self.texts, self.asked, self.requests = told(result.messages), site.asked, len(site.model.requests)
        self.ran = site.ran


def cut(records, n):
    """What is there if the process ended behind the n-th record of this kind, e.g. ("outcome", 2)."""
    kind, number = n
    at = [place for place, record in enumerate(records) if record.type == kind][number - 1]
    return records[: at + 1]
