"""A client that comes back with its last number misses nothing and sees nothing twice."""

from __future__ import annotations

import json
import signal
import time

from tests.server.conftest import events_of, transcript

from pure_agent_loop.testing import Gate, call, deltas

SHOWN = ("task", "answer", "call", "result")


def begin(client, text, **about):
    answer = client.post("/api/runs", json={"text": text, **about})
    assert answer.status_code == 201, answer.text
    return answer.json()


def read_session(client, session):
    return client.get(f"/api/sessions/{session}").json()


def recorded(client, session):
    """What the session's own records say, in the same form."""
    entries = read_session(client, session)["entries"]
    return [(each["kind"], each["tool"] or each["text"]) for each in entries if each["kind"] in SHOWN]


def test_at_every_number_with_and_without_a_restart(serve):
    script = [call("add", a=1, b=2), deltas("It ", "is ", "3."), deltas("You ", "are ", "welcome.")]
    server = serve(script)
    with server.client() as client:
        run = begin(client, "What is 1 + 2?")
        first = events_of(client, run["id"])
        again = begin(client, "Thanks", session=run["session"])
        whole = first + events_of(client, again["id"])
        assert [each["number"] for each in whole] == list(range(1, len(whole) + 1))
        assert transcript(whole) == recorded(client, run["session"])
        check_every_number(client, run, whole)
    server.kill()
    server.start()
    with server.client() as client:
        check_every_number(client, run, whole)
        assert client.get(f"/api/runs/{again['id']}/events", params={"after": len(whole)}).status_code == 204
    with server.socket() as socket:
        socket.recv()
        for number in range(len(whole)):
            socket.send(
                json.dumps({"type": "watch", "session": run["session"], "after": number, "id": number})
            )
            frames = []
            while len(frames) < len(whole) - number + 1:
                frames.append(json.loads(socket.recv(30)))
            assert [each for each in frames if "control" not in each] == whole[number:]


def check_every_number(client, run, whole):
    for number in range(len(whole)):
        url = f"/api/sessions/{run['session']}/events"
        with client.stream("GET", url, headers={"Last-Event-ID": str(number)}) as response:
            found = []
            for line in response.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line[6:]))
                    if len(found) == len(whole) - number:
                        break
        assert found == whole[number:]


def test_killed_run_and_its_viewer_resume(serve):
    gate, script = Gate(), []
    script += [
        call("add", a=1, b=2),
        call("hold", name="first"),
        deltas("So ", gate, "it is 3."),
        deltas("So ", "it is 3."),
    ]
    server = serve(script)
    with server.client() as client:
        run = begin(client, "Work")
        seen = take_until(client, run["id"], [], "action", "hold")
        while "hold first" not in server.effects():  # the call is announced before it begins
            time.sleep(0.01)
    server.kill()  # a tool is running: its outcome stays unknown
    server.start()
    with server.client() as client:
        seen = take_until(client, run["id"], seen, "text_delta", "So ")
    server.kill()  # an answer is being written
    gate.open()
    server.start()
    with server.client() as client:
        seen += events_of(client, run["id"], seen[-1]["number"])
        assert [each["number"] for each in seen] == list(range(1, len(seen) + 1))
        assert seen[-1]["type"] == "run_end"
        assert seen[-1]["data"]["state"] == "completed"
        assert [each["data"]["attempt"] for each in seen if each["type"] == "run_start"] == [1, 2, 3]
        assert transcript(seen) == recorded(client, run["session"])
        assert server.effects() == ["add 1 2", "hold first"]  # nothing happened twice
        for number in range(len(seen)):
            assert events_of(client, run["id"], number) == seen[number:]
        assert client.get(f"/api/runs/{run['id']}").json()["attempt"] == 3


def take_until(client, run, seen, kind, word):
    """Read on behind what was seen, until an event comes; then leave."""
    after = seen[-1]["number"] if seen else 0
    with client.stream("GET", f"/api/runs/{run}/events", params={"after": after}) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                seen = [*seen, event]
                if event["type"] == kind and word in event["data"].values():
                    return seen
    raise AssertionError([each["type"] for each in seen])


def test_a_dropped_connection_stops_no_run_and_many_look_on(serve):
    server = serve([call("hold", name="go"), "Done."])
    with server.client() as client, server.client() as other:
        run = begin(client, "Wait")
        seen = take_until(client, run["id"], [], "action", "hold")
        assert take_until(other, run["id"], [], "action", "hold") == seen
        (server.folder / "go").touch()
        whole = events_of(other, run["id"])
        assert whole[: len(seen)] == seen
        assert whole[-1]["data"]["state"] == "completed"
        assert seen + events_of(client, run["id"], seen[-1]["number"]) == whole


def test_a_message_right_behind_a_stop_waits_for_its_end(serve):
    server = serve([call("hold", name="never"), "Done."])
    with server.client() as client:
        run = begin(client, "Wait")
        take_until(client, run["id"], [], "action", "hold")
        assert client.post(f"/api/runs/{run['id']}/stop", json={}).status_code == 200
        again = begin(client, "Go on", session=run["session"])
        assert events_of(client, again["id"])[-1]["data"]["state"] == "completed"
        assert client.get(f"/api/runs/{run['id']}").json()["state"] == "cancelled"


def test_server_stop_lets_runs_end_and_keeps_the_unfinished(serve):
    server = serve([call("hold", name="never"), "Done."], limits={"grace": 0.5})
    with server.client() as client:
        run = begin(client, "Wait")
        seen = take_until(client, run["id"], [], "action", "hold")
        url, after = f"/api/runs/{run['id']}/events", {"after": seen[-1]["number"]}
        with client.stream("GET", url, params=after) as response:
            server.process.send_signal(signal.SIGTERM)
            lines = list(response.iter_lines())
        assert 'data: {"reason": "the server stops"}' in lines
    assert server.kill(0) == 0
    server.start()
    with server.client() as client:
        seen += events_of(client, run["id"], seen[-1]["number"])
        assert [each["number"] for each in seen] == list(range(1, len(seen) + 1))
        assert seen[-1]["data"]["state"] == "completed"
        assert server.effects() == ["hold never"]
