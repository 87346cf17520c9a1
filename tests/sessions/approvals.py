"""Runs whose calls somebody must allow: recorded, cut off, looked at without that somebody, and finished."""

from __future__ import annotations

from collections import Counter

from tests.helpers import NO_WAIT
from tests.sessions.cuts import copied, keys

from pure_agent_loop import Agent
from pure_agent_loop.permissions import PermissionRules
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, call, check_history
from pure_agent_loop.testing.killed_work import UNKNOWN, make_tools, told

WAITING = "waiting_permission"
ROUNDS = {
    "one call": [[("put", 1)], [("again", 2)]],
    "three calls": [[("put", 1), ("again", 2), ("put", 3)], [("put", 4)]],
}
WAYS = ["on_ask", "can_use_tool", "rules", "answer"]
DENIED = 3
NOT_RUN = (ENGLISH.tool_waiting, ENGLISH.tool_not_started)


class Desk:
    """One way to allow calls, the work, and what was done and asked."""

    def __init__(self, way, shape):
        self.way, self.rounds = way, [*ROUNDS[shape]]
        self.marks, self.asked = [], []

    def says(self, args):
        return "deny" if args["n"] == DENIED else "allow"

    def agent(self, store, *, alone=False, mark=None):
        """With the one who allows, or alone."""

        def next_answer(messages, *_):
            starts = [at for at, each in enumerate(messages) if str(each.get("content")).startswith("Task:")]
            begin = starts[-1] if starts else 0
            done = sum(1 for each in messages[begin:] if each.get("tool_calls"))
            return [call(name, n=n) for name, n in self.rounds[done]] if done < len(self.rounds) else "Done."

        def permit(name, args, context):
            self.asked.append(context.call_id)
            return self.says(args)

        def ask(request):
            self.asked.append(request.call_id)
            return self.says(request.args)

        rules = PermissionRules(allow=["put", "again"], deny=[f"put(n={DENIED})"])
        rules = PermissionRules(allow=["put", "again"], deny=[f"put(n={DENIED})"])
        ways = {
            "on_ask": {"on_ask": ask},
            "can_use_tool": {"can_use_tool": permit},
            "rules": {"permission_rules": rules},
        }
        options = {} if alone else ways.get(self.way, {})
        model = ScriptedLLM(next_answer)
        tools = make_tools(mark or self.marks.append)
        return Agent(llm=model, tools=tools, sessions=store, retry=NO_WAIT, permission_mode="ask", **options)

    def look(self, store):
        """Open it without anybody who could allow anything."""
        return self.agent(store, alone=True).run(None, session_id="s")

    def finish(self, store, task=None, mark=None):
        result = self.agent(store, mark=mark).run(task, session_id="s")
        sessions = SessionManager(store)
        while self.way == "answer" and result.stop_reason == WAITING:
            for question in sessions.questions("s"):
                self.asked.append(question.call_id)
                sessions.answer("s", question.call_id, self.says(question.args))
            result = self.agent(store, mark=mark).run(None, session_id="s")
        return result

    @property
    def started(self):
        return Counter((name, int(n)) for what, name, n in map(str.split, self.marks) if what == "start")


class Recorded:
    """A run that was not cut off."""

    def __init__(self, way, shape, store):
        self.desk = Desk(way, shape)
        result = self.desk.finish(store, "Task: go on.")
        assert result.stop_reason == "completed", result.error
        self.records, self.texts = store.read("s").records, told(result.messages)
        self.calls = {
            each.data["key"]: (each.data["tool"], each.data["args"]["n"])
            for each in self.records
            if each.type == "intent"
        }


def check_approved(full, count, looks, store):
    """Cut the run off behind so many records, look at it so often, and finish it."""
    records, desk = full.records[:count], Desk(full.desk.way, "one call")
    desk.rounds = full.desk.rounds
    copied(records, store)
    begun, ended = set(keys(records, "intent")), set(keys(records, "outcome"))
    finished = {full.calls[key] for key in ended if key in full.calls}
    unclear = {full.calls[key] for key in begun - ended if full.calls[key][0] != "again"}
    for _ in range(looks):
        seen = desk.look(store)
        assert seen.stop_reason in (WAITING, "completed"), seen.error
        texts = told(seen.messages)
        for each in finished | unclear:
            assert not any(words in texts[each] for words in NOT_RUN), (each, texts[each])
    answered = {key.split(":")[2] for key in keys(records, "value") if ":judge:" not in key}
    if full.desk.way != "answer":
        assert desk.asked == []
    result = desk.finish(store)
    assert (result.content, result.stop_reason) == ("Done.", "completed"), result.error
    assert check_history(result.messages) == []
    texts = told(result.messages)
    denied = {each for each in texts if each[1] == DENIED}
    assert {each for each in texts if UNKNOWN in texts[each]} == unclear
    for each in texts.keys() - unclear:
        assert texts[each] == full.texts[each]
    assert desk.started == Counter(texts.keys() - finished - unclear - denied)
    assert not answered & set(desk.asked)
    assert len(desk.asked) == len(set(desk.asked))
    assert replay_session(store.read("s").records).difference is None
