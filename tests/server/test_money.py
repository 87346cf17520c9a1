"""Limits of money per day and person behind HTTP: over restarts, and where no session keeps the cost."""

from __future__ import annotations

from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop import TokenUsage
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.cost import expenses_of, totals_by
from pure_agent_loop.testing import answer

PEOPLE = {"ada": ["use"], "bob": ["use"]}
DONE = answer("done", usage=TokenUsage(1000, 1000, 2000))  # costs 2


def run_of(client, task="hello"):
    run = begin(client, task)
    events_of(client, run["id"])
    return client.get(f"/api/runs/{run['id'].replace(':', '%3A')}").json()


def test_each_person_has_a_day_of_their_own_that_a_restart_does_not_renew(serve):
    server = serve([DONE, DONE], people=PEOPLE, money={"max_cost_per_person_per_day": 2})
    with server.client("ada-token-0123456789") as ada, server.client("bob-token-0123456789") as bob:
        assert (first := run_of(ada))["stop_reason"] == "completed"
        assert first["cost"] == 2
        server.kill()
        server.start()
        second = run_of(ada)
        assert (second["stop_reason"], second["cost"]) == ("budget", 0)
        assert "limits.max_cost_per_person_per_day is reached; the next day" in second["content"]
        assert run_of(bob)["stop_reason"] == "completed"
    totals = totals_by("person", expenses_of(JsonlStore(server.folder / "sessions")))
    assert {name: total.cost for name, total in totals.items()} == {"ada": 2, "bob": 2}


def test_an_unknown_cost_is_none(serve):
    server = serve([DONE])
    with server.client() as client:
        assert run_of(client)["cost"] is None


def test_an_endpoint_without_sessions_refuses_a_limit_it_cannot_keep(serve):
    server = serve([], money={"max_cost_per_day": 2})
    body = {"model": "helper", "messages": [{"role": "user", "content": "hello"}]}
    with server.client() as client:
        refused = client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert "this run has no session" in refused.text
