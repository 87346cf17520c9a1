"""A server whose runs an engine of durable runs does, on SQLite and on PostgreSQL."""

from __future__ import annotations

import base64
import signal

import pytest
from tests.server.conftest import events_of, transcript
from tests.server.test_coming_back import begin, recorded, take_until

from pure_agent_loop.testing import call, deltas


def answer(request):
    """Calls what the task names, once; then says that it is done."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return deltas("Done ", "with it.")
    if isinstance(last["content"], list):
        return deltas("It holds ", ", ".join(part["type"] for part in last["content"]))
    name, _, what = str(last["content"]).partition(" ")
    kinds = {"danger": {"what": what}, "hold": {"name": what}, "add": {"a": 1, "b": 2}}
    return call(name, **kinds[name]) if name in kinds else deltas("Hello ", "there.")


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    return serve(answer, database=f"sqlite:///{tmp_path_factory.mktemp('engine')}/runs.sqlite")


def test_a_run_its_events_and_its_records(server):
    with server.client() as client:
        assert client.get("/api/me").json()["engine"] is True
        run = begin(client, "add")
        whole = events_of(client, run["id"])
        assert [each["number"] for each in whole] == list(range(1, len(whole) + 1))
        assert whole[-1]["data"]["state"] == "completed"
        assert transcript(whole) == recorded(client, run["session"])
        again = begin(client, "hello", session=run["session"])
        whole += events_of(client, again["id"])
        assert [each["number"] for each in whole] == list(range(1, len(whole) + 1))
        assert transcript(whole) == recorded(client, run["session"])
        assert client.get(f"/api/runs/{again['id']}").json()["content"] == "Hello there."


def test_the_fleet(server):
    with server.client() as client:
        run = begin(client, "hold fleet")
        take_until(client, run["id"], [], "action", "hold")
        found = client.get("/api/fleet").json()
        (worker,) = found["workers"]
        assert worker["runs"] == found["states"]["running"] == 1
        assert worker["host"]
        assert [each["agents"] for each in found["queues"]] == [["helper", "other"]]
        assert found["runs"][0]["session"] == run["session"]
        (server.folder / "fleet").touch()
        assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"


def test_a_question_is_answered(server):
    with server.client() as client:
        run = begin(client, "danger thing")
        seen = take_until(client, run["id"], [], "run_state", "waiting_permission")
        (question,) = client.get(f"/api/sessions/{run['session']}/questions").json()["questions"]
        assert question["tool"] == "danger"
        busy = client.post("/api/runs", json={"text": "hello", "session": run["session"]})
        assert busy.status_code == 409
        said = {"call_id": question["call_id"], "verdict": "allow"}
        assert client.post(f"/api/sessions/{run['session']}/answers", json=said).json() == {"run": run["id"]}
        seen += events_of(client, run["id"], seen[-1]["number"])
        assert seen[-1]["data"]["state"] == "completed"
        assert server.effects().count("danger thing") == 1
        fleet = client.get("/api/fleet").json()["runs"]
        assert [each["handovers"] for each in fleet if each["session"] == run["session"]] == [0]
        entries = client.get(f"/api/sessions/{run['session']}").json()["entries"]
        (result,) = (each for each in entries if each["kind"] == "result")
        assert (result["by"], result["verdict"]) == ("owner", "allow")


def test_the_words_of_a_denial_stay(server):
    with server.client() as client:
        run = begin(client, "danger again")
        take_until(client, run["id"], [], "run_state", "waiting_permission")
        (question,) = client.get(f"/api/sessions/{run['session']}/questions").json()["questions"]
        said = {"call_id": question["call_id"], "verdict": "deny", "message": "Not today."}
        assert client.post(f"/api/sessions/{run['session']}/answers", json=said).status_code == 200
        events_of(client, run["id"])
        entries = client.get(f"/api/sessions/{run['session']}").json()["entries"]
        (result,) = (each for each in entries if each["kind"] == "result")
        assert (result["by"], result["verdict"], result["said"]) == ("owner", "deny", "Not today.")


def test_a_run_is_stopped_at_work_and_while_it_waits(server):
    with server.client() as client:
        for task, kind, word in (
            ("hold never", "action", "hold"),
            ("danger x", "run_state", "waiting_permission"),
        ):
            run = begin(client, task)
            take_until(client, run["id"], [], kind, word)
            assert client.post(f"/api/runs/{run['id']}/stop", json={}).status_code == 200
            assert events_of(client, run["id"])[-1]["data"]["state"] == "cancelled"
            assert client.get(f"/api/runs/{run['id']}").json()["state"] == "cancelled"


def test_run_resumes_after_a_kill_of_the_server(server):
    goes_on_after(signal.SIGKILL, server)


def test_run_on_postgres_resumes_after_a_stop_of_the_server(serve, postgres):
    server = serve(answer, database=postgres.url)
    goes_on_after(signal.SIGTERM, server)
    server.kill(signal.SIGTERM)


PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB"
    "JRU5ErkJggg=="
)
PAPER = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1.4 nothing').decode()}"


def test_attachments_of_a_task_survive_a_kill_of_the_server(serve, tmp_path):
    server = serve(answer, database=f"sqlite:///{tmp_path}/runs.sqlite")
    for is_killed in (False, True):
        with server.client() as client:
            sent = {"text": "look", "media": [PICTURE, PAPER]}
            run = client.post("/api/runs", json=sent).json()
        if is_killed:
            server.kill()
            server.start()
        with server.client() as client:
            assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"
            found = client.get(f"/api/runs/{run['id']}").json()["content"]
            assert found == "It holds text, image_url, file"
            assert not list(server.folder.rglob("media/*.json"))  # the session has them


def goes_on_after(number, server):
    with server.client() as client:
        run = begin(client, "hold it")
        seen = take_until(client, run["id"], [], "action", "hold")
    if number == signal.SIGKILL:  # else it would have to be waited for
        server.kill(number)
    (server.folder / "it").touch()
    if server.process is not None:
        server.kill(number)
    server.start()
    with server.client() as client:
        seen += events_of(client, run["id"], seen[-1]["number"])
        assert [each["number"] for each in seen] == list(range(1, len(seen) + 1))
        assert seen[-1]["data"]["state"] == "completed"
        assert transcript(seen) == recorded(client, run["session"])
        assert server.effects().count("hold it") == 1
        fleet = client.get("/api/fleet").json()["runs"]
        (left,) = [each["handovers"] for each in fleet if each["session"] == run["session"]]
        assert left == 1 or number == signal.SIGTERM


def test_schedules(server):
    about = {
        "name": "daily",
        "agent": "helper",
        "prompt": "hello",
        "cron": "0 6 * * *",
        "timezone": "Asia/Shanghai",
    }
    with server.client() as client:
        made = client.post("/api/schedules", json=about)
        assert made.status_code == 201, made.text
        assert made.json()["next"] > 0
        assert client.post("/api/schedules", json=about).status_code == 409
        assert (
            client.post("/api/schedules", json={**about, "name": "x", "cron": "nonsense"}).status_code == 409
        )
        assert client.get("/api/schedules").json()["schedules"] == [made.json()]
        assert client.post("/api/schedules/daily/pause", json={}).json()["next"] is None
        assert client.get("/api/schedules/daily").json()["enabled"] is False
        assert client.post("/api/schedules/daily/resume", json={}).json()["enabled"] is True
        assert client.delete("/api/schedules/daily").status_code == 204
        assert client.get("/api/schedules/daily").status_code == 404
        assert client.get("/api/schedules").json()["schedules"] == []
