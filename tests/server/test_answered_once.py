"""Answers from several people and processes at once, and those that came while the server was away."""

from __future__ import annotations

import threading
import time

import pytest
from tests.server.conftest import events_of
from tests.server.test_coming_back import begin, take_until
from tests.server.test_engine import answer

from pure_agent_loop.durable import Engine
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import call

PEOPLE = {"ann": ["use", "approve"], "bob": ["use", "approve"]}
ANSWERED = "urn:pure-agent-loop:already-answered"
WAITS = "urn:pure-agent-loop:waits"


def next_answer(request):
    last = request.messages[-1]
    name, _, what = str(last["content"]).partition(" ")
    if last["role"] == "user" and name == "both":
        return [call("danger", what=f"{what} one"), call("danger", what=f"{what} two")]
    if last["role"] == "user" and name in ("elsewhere", "wonder"):
        return call(name, **{"elsewhere": {"what": what}, "wonder": {"about": what}}[name])
    return answer(request)


@pytest.fixture(scope="module", params=["here", "engine"])
def server(request, serve, tmp_path_factory):
    place = (
        f"sqlite:///{tmp_path_factory.mktemp('engine')}/runs.sqlite" if request.param == "engine" else None
    )
    return serve(next_answer, database=place, people=PEOPLE)


@pytest.fixture(scope="module")
def plain(serve):
    return serve(next_answer, people=PEOPLE)


def waiting(client, text, state="waiting_permission"):
    """A run that waits, the calls it waits for, and what its viewers have seen."""
    run = begin(client, text)
    seen = take_until(client, run["id"], [], "run_state", state)
    return run, seen[-1]["data"]["calls"], seen


def at_once(server, run, path, bodies):
    """What each person is answered who sends something at the same moment."""
    gate, found = threading.Barrier(len(bodies)), [None] * len(bodies)

    def send(number, name, body):
        with server.client(f"{name}-token-0123456789") as client:
            client.get("/api/me")
            gate.wait()
            found[number] = client.post(f"/api/sessions/{run['session']}/{path}", json=body)

    threads = [threading.Thread(target=send, args=(n, *each)) for n, each in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_second_answer_names_the_first_person(server):
    with server.client() as client:
        for number in range(4):
            run, (call_id,), seen = waiting(client, f"danger race {number}")
            bodies = [
                (name, {"call_id": call_id, "verdict": said})
                for name, said in (("ann", "allow"), ("bob", "deny"))
            ]
            found = at_once(server, run, "answers", bodies)
            assert sorted(each.status_code for each in found) == [200, 409]
            name, body = bodies[[each.status_code for each in found].index(200)]
            (late,) = [each.json() for each in found if each.status_code == 409]
            assert (late["type"], late["by"], late["answer"]) == (ANSWERED, name, body["verdict"])
            assert late["answered_at"] > 0
            assert events_of(client, run["id"], seen[-1]["number"])[-1]["data"]["state"] == "completed"
            assert server.effects().count(f"danger race {number}") == (body["verdict"] == "allow")
            url = f"/api/sessions/{run['session']}/answers"
            with server.client(f"{name}-token-0123456789") as winner:
                assert winner.post(url, json=body).json()["by"] == name  # who repeats a request reads so
            assert client.post(url, json={**body, "verdict": "deny"}).json()["type"] == ANSWERED


def test_a_run_never_fails_on_late_answers(plain):
    with plain.client() as client:
        for number in range(8):
            run, calls, seen = waiting(client, f"both {number}")
            names = ["ann", "bob"] * 3
            bodies = [
                (name, {"call_id": calls[n % 2], "verdict": "allow"})
                for n, name in enumerate([*names, *names])
            ]
            found = at_once(plain, run, "answers", bodies)
            assert {each.status_code for each in found} <= {200, 409}
            assert events_of(client, run["id"], seen[-1]["number"])[-1]["data"]["state"] == "completed"
            assert plain.effects().count(f"danger {number} one") == 1
            assert plain.effects().count(f"danger {number} two") == 1


def test_of_two_results_one_counts(server):
    with server.client() as client:
        run, (call_id,), seen = waiting(client, "elsewhere far", "waiting_tool")
        url = f"/api/sessions/{run['session']}/results"
        assert client.post(url, json={"call_id": call_id, "result": "one"}).status_code == 200
        late = client.post(url, json={"call_id": call_id, "result": "two"})
        assert (late.status_code, late.json()["type"], late.json()["answer"]) == (409, ANSWERED, "one")
        assert events_of(client, run["id"], seen[-1]["number"])[-1]["data"]["state"] == "completed"


def test_question_of_a_tool_is_answered_once(plain):
    with plain.client() as client:
        run = begin(client, "wonder what?")
        seen = take_until(client, run["id"], [], "question", "wonder")
        call_id = seen[-1]["data"]["call_id"]
        bodies = [(name, {"call_id": call_id, "verdict": "deny", "message": name}) for name in PEOPLE]
        found = at_once(plain, run, "answers", bodies)
        assert sorted(each.status_code for each in found) == [200, 409]
        winner = bodies[[each.status_code for each in found].index(200)][0]
        (late,) = [each.json() for each in found if each.status_code == 409]
        assert late["detail"]
        seen += events_of(client, run["id"], seen[-1]["number"])
        results = [each["data"] for each in seen if each["type"] == "observation"]
        assert winner in str(results[-1]) or "denied" in str(results[-1]).lower()


def elsewhere(server):
    """Answers questions and brings results from a process that is not the server."""
    if server._about.get("database"):
        engine = Engine(server._about["database"])
        runs = {info.session_id: info.run_id for info in engine.tasks()}
        return (
            lambda session, call_id: engine.handle(runs[session]).answer(call_id, "allow"),
            lambda session, call_id: engine.handle(runs[session]).give_result(call_id, "from afar"),
        )
    sessions = SessionManager(JsonlStore(server.folder / "sessions"))
    return (
        lambda session, call_id: sessions.answer(session, call_id, "allow"),
        lambda session, call_id: sessions.give_result(session, call_id, "from afar"),
    )


@pytest.mark.parametrize("is_down", [True, False], ids=["while it is down", "while it serves"])
def test_run_resumes_after_an_answer_in_another_process(server, is_down):
    with server.client() as client:
        run, (call_id,), seen = waiting(client, f"danger afar {is_down}")
        other, (far,), seen_too = waiting(client, "elsewhere far", "waiting_tool")
    answer_there, bring_there = elsewhere(server)
    if is_down:
        server.kill()
    answer_there(run["session"], call_id)
    bring_there(other["session"], far)
    if is_down:
        server.start()
    with server.client() as client:
        for begun, before in ((run, seen), (other, seen_too)):
            events = events_of(client, begun["id"], before[-1]["number"])
            assert events[-1]["data"]["state"] == "completed"
        assert server.effects().count(f"danger afar {is_down}") == 1
        entries = client.get(f"/api/sessions/{other['session']}").json()["entries"]
        assert "from afar" in [each["text"] for each in entries if each["kind"] == "result"]


def test_message_does_not_end_a_pending_question(server):
    with server.client() as client:
        run, (call_id,), seen = waiting(client, "danger patience")
        said = {"text": "hello", "session": run["session"]}
        refused = client.post("/api/runs", json=said)
        assert (refused.status_code, refused.json()["type"]) == (409, WAITS)
        assert client.get(f"/api/runs/{run['id']}").json()["state"] == "waiting_permission"
        url = f"/api/sessions/{run['session']}/answers"
        assert client.post(url, json={"call_id": call_id, "verdict": "deny"}).status_code == 200
        assert events_of(client, run["id"], seen[-1]["number"])[-1]["data"]["state"] == "completed"
        assert client.post("/api/runs", json=said).status_code == 201


def test_answer_to_a_stopped_run_is_rejected(plain):
    with plain.client() as client:
        run, (call_id,), _ = waiting(client, "danger stopped")
        assert client.post(f"/api/runs/{run['id']}/stop", json={}).status_code == 200
        url = f"/api/sessions/{run['session']}"
        assert client.get(f"{url}/questions").json() == {"questions": []}
        late = client.post(f"{url}/answers", json={"call_id": call_id, "verdict": "allow"})
        assert (late.status_code, late.json()["by"], late.json()["answer"]) == (409, "owner", "deny")
        after = begin(client, "hello", session=run["session"])
        assert events_of(client, after["id"])[-1]["data"]["state"] == "completed"
        assert "danger stopped" not in plain.effects()


def test_run_stopped_after_one_of_two_answers_can_be_resumed(plain):
    """The call that was allowed is not made; it has a result, so that the next message is taken."""
    with plain.client("ann-token-0123456789") as client:
        run, (first, _), seen = waiting(client, "both halted")
        body = {"call_id": first, "verdict": "allow"}
        assert client.post(f"/api/sessions/{run['session']}/answers", json=body).status_code == 200
        assert client.post(f"/api/runs/{run['id']}/stop", json={}).status_code == 200
        ended = events_of(client, run["id"], seen[-1]["number"])[-1]
        assert ended["data"]["state"] == "cancelled"
        following = begin(client, "Hello", session=run["session"])
        assert events_of(client, following["id"])[-1]["data"]["state"] == "completed"
    assert "danger halted" not in plain.effects()


def test_question_names_the_person_and_the_time(server):
    with server.client("ann-token-0123456789") as client:
        before = time.time()
        run, (call_id,), seen = waiting(client, "danger patiently")
        with server.client("bob-token-0123456789") as bob:
            (found,) = [
                each for each in bob.get("/api/questions").json()["questions"] if each["call_id"] == call_id
            ]
            assert (found["owner"], found["agent"], found["tool"]) == ("ann", "helper", "danger")
            assert before <= found["asked_at"] <= time.time()
            body = {"call_id": call_id, "verdict": "allow"}
            assert bob.post(f"/api/sessions/{run['session']}/answers", json=body).status_code == 200
        events = events_of(client, run["id"], seen[-1]["number"])
        (answered,) = [each["data"] for each in events if each["type"] == "answered"]
        assert answered == {"call_id": call_id, "behavior": "allow", "by": "bob"}


def test_answer_without_a_question_is_a_not_waiting_problem(server):
    with server.client() as client:
        run = begin(client, "hello")
        events_of(client, run["id"])
        body = {"call_id": "none", "verdict": "allow"}
        late = client.post(f"/api/sessions/{run['session']}/answers", json=body)
        assert (late.status_code, late.json()["type"]) == (409, "urn:pure-agent-loop:not-waiting")


def test_a_fork_and_a_renamed_session_have_titles(server):
    with server.client() as client:
        run = begin(client, "hello titles")
        events_of(client, run["id"])
        fork = client.post(f"/api/sessions/{run['session']}/fork", json={}).json()["session"]
        again = client.post(f"/api/sessions/{fork}/fork", json={}).json()["session"]
        assert [titles_of(client)[each] for each in (fork, again)] == [
            "hello titles (fork)",
            "hello titles (fork 2)",
        ]
        for title, shown in (("  Mine ", "Mine"), ("", "hello titles")):
            assert client.post(f"/api/sessions/{fork}/title", json={"title": title}).status_code == 204
            assert titles_of(client)[fork] == shown
            assert client.get(f"/api/sessions/{fork}").json()["title"] == shown
        server.kill()
        server.start()
    with server.client() as client:
        assert titles_of(client)[again] == "hello titles (fork 2)"


def titles_of(client):
    return {each["id"]: each["title"] for each in client.get("/api/sessions").json()["sessions"]}


@pytest.mark.parametrize(
    ("task", "path", "body", "effects"),
    [
        ("danger in a fork", "answers", {"verdict": "allow"}, 1),
        ("elsewhere in a fork", "results", {"result": "seen"}, 0),
    ],
)
def test_fork_of_a_waiting_session_waits_and_resumes_by_itself(server, task, path, body, effects):
    """The question of the session stays open, and the answer to one is no answer to the other."""
    with server.client() as client:
        state = "waiting_tool" if path == "results" else "waiting_permission"
        run, (call_id,), seen = waiting(client, task, state)
        fork = client.post(f"/api/sessions/{run['session']}/fork", json={}).json()["session"]
        (forked,) = client.get("/api/runs", params={"session": fork}).json()["runs"]
        take_until(client, forked["id"], [], "run_state", state)
        sent = client.post(f"/api/sessions/{fork}/{path}", json={"call_id": call_id, **body})
        assert (sent.status_code, sent.json()["run"]) == (200, forked["id"])
        assert events_of(client, forked["id"])[-1]["data"]["state"] == "completed"
        assert server.effects().count(task) == effects
        assert client.get(f"/api/runs/{run['id']}").json()["state"] == state
        own = client.post(f"/api/sessions/{run['session']}/{path}", json={"call_id": call_id, **body})
        assert own.status_code == 200
        assert events_of(client, run["id"], seen[-1]["number"])[-1]["data"]["state"] == "completed"
        assert server.effects().count(task) == 2 * effects


def test_question_of_a_fork_is_answered_as_soon_as_it_is_listed(server):
    with server.client() as client:
        run, (call_id,), _ = waiting(client, "danger in forks")
        for _ in range(5):
            fork = client.post(f"/api/sessions/{run['session']}/fork", json={}).json()["session"]
            while not client.get("/api/questions", params={"session": fork}).json()["questions"]:
                pass
            body = {"call_id": call_id, "verdict": "allow"}
            sent = client.post(f"/api/sessions/{fork}/answers", json=body)
            assert sent.status_code == 200, sent.text
            assert events_of(client, sent.json()["run"])[-1]["data"]["state"] == "completed"
