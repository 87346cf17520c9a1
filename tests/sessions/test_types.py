"""A record that holds values of other types: it is read around, or refused with an error that says so."""

from __future__ import annotations

import copy
import itertools
import json
import os
import shutil
from dataclasses import asdict

import pytest
from tests.sessions.approvals import Desk
from tests.sessions.cuts import Site

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import call

OTHERS = [None, True, 5, -1.5, "x", [], [5], {}, {"a": 5}]
EVERY = bool(os.environ.get("PAL_TYPES"))  # each other type at each place (7,500 sessions); else one of them
SHARES = 8 if EVERY else 4  # so that pytest-xdist can do them side by side


def one_call(messages):
    return "Done." if any(each.get("tool_calls") for each in messages) else call("put", n=3)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Hooks, a message that came in, questions, one that is answered."""
    store = JsonlStore(tmp_path_factory.mktemp("recorded"))
    site, inbox = Site(store, script=one_call), Inbox()
    inbox.put("Mind the gap.")
    site.agent.prepare("Task: first.", session_id="s", inbox=inbox).wait_sync()
    Desk("answer", "three calls").agent(store).run("Task: go on.", session_id="s")
    sessions = SessionManager(store)
    sessions.answer("s", sessions.questions("s")[0].call_id, "allow")
    return store.read("s").records


def places(value, path=()):
    """Where something stands in a JSON value."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from places(each, (*path, key))


def with_other(record, path, value):
    """The record with this value there; None if it is of the same type."""
    fields = copy.deepcopy(asdict(record))
    *above, last = path
    at = fields
    for key in above:
        at = at[key]
    if type(at[last]) is type(value):
        return None
    at[last] = value
    return fields


def attempts(store):
    sessions, desk = SessionManager(store), Desk("on_ask", "three calls")
    yield "load", lambda: sessions.load("s")
    yield "list", sessions.list
    yield "waiting", sessions.waiting
    yield "questions", lambda: sessions.questions("s")
    yield "export", lambda: (sessions.export("s"), sessions.export("s", "html"))
    yield "fork", lambda: sessions.fork("s", new_id="whole")
    yield "fork at", lambda: sessions.fork("s", 1, new_id="first")
    yield "repair", lambda: sessions.repair("s")
    yield "replay", lambda: replay_session(store.read("s").records)
    yield "answer", lambda: [sessions.answer("s", each.call_id, "allow") for each in sessions.questions("s")]
    yield "resume", lambda: desk.finish(store)
    yield "another task", lambda: desk.agent(store).run("Task: more.", session_id="whole")


def check_typed(records, folder):
    """Do everything with a session of these; only our own errors may come of it."""
    store = JsonlStore(folder)
    store.open("s").close()
    (path,) = [each for each in folder.rglob("*") if each.is_file() and each.suffix == ".jsonl"]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    for name, attempt in attempts(store):
        try:
            result = attempt()
        except PureAgentLoopError:
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        failure = getattr(getattr(result, "state", None), "failure", None)
        if failure is not None and not isinstance(failure, PureAgentLoopError):
            raise AssertionError(f"{name}: {failure!r}") from failure


@pytest.mark.parametrize("share", range(SHARES))
def test_values_of_other_types_end_in_typed_errors(recorded, tmp_path, share):
    others, number, seen = itertools.cycle(OTHERS), 0, []
    whole = [asdict(each) for each in recorded]
    for at, record in enumerate(recorded):
        for path in places(asdict(record)):
            for value in OTHERS if EVERY else [next(others)]:
                fields = with_other(record, path, value)
                if fields is None:
                    continue
                number += 1
                if number % SHARES != share:
                    continue
                end = len(whole) if number // SHARES % 2 else at + 1
                (folder := tmp_path / str(number)).mkdir()
                try:
                    check_typed([*whole[:at], fields, *whole[at + 1 : end]], folder)
                except AssertionError as error:
                    seen.append(f"{record.type} {'.'.join(map(str, path))} = {value!r}, {end}: {error}")
                shutil.rmtree(folder)
    assert number > 600
    assert "\n".join(seen) == ""
