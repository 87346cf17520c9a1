"""What only who operates may see: requests as they were sent, the audit log, folders of everybody's lists."""

from __future__ import annotations

from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop.testing import call, status


def test_requests_are_shown_as_the_model_got_them(serve):
    seen = []

    def model(request):
        seen.append(request.body)
        return "It is 3." if len(seen) % 2 == 0 else call("add", a=1, b=2)

    server = serve(model, people={"ada": ["use", "approve"]})
    with server.client() as client, server.client("ada-token-0123456789") as ada:
        run = begin(ada, "What is 1 + 2?")
        events_of(ada, run["id"])
        events_of(ada, begin(ada, "Again?", session=run["session"])["id"])
        url = f"/api/sessions/{run['session']}/requests"
        assert {ada.get(url).status_code, ada.get(f"{url}/1").status_code} == {403}
        found = client.get(url).json()
        assert found["total"] == len(found["requests"]) == 4
        for about, sent in zip(found["requests"], seen, strict=True):
            body = client.get(f"{url}/{about['number']}").json()["request"]
            assert body["messages"] == sent["messages"]
            assert body["tools"] == sent["tools"]
            assert about["messages"] == len(sent["messages"])
            assert about["prompt_tokens"] > 0
        assert [each["same"] for each in found["requests"]] == [0, 2, 4, 6]
        assert [each["changed"] for each in found["requests"]] == [None] * 4
        assert [each["same_tools"] for each in found["requests"]] == [False, True, True, True]
        assert set(found["requests"][1]["parts"]) == {"system", "user", "assistant", "tool", "tools"}
        newest = client.get(url, params={"limit": 1}).json()
        assert newest == {"requests": found["requests"][-1:], "total": 4}
        assert client.get(f"{url}/5").status_code == client.get(f"{url}/x").status_code == 404
        calls = client.get(f"/api/sessions/{run['session']}/audit").json()["calls"]
        assert [(each["tool"], each["args"], each["status"]) for each in calls] == [
            ("add", {"a": 1, "b": 2}, "ok")
        ] * 2
        assert ada.get(f"/api/sessions/{run['session']}/audit").status_code == 403
        assert client.get("/api/fleet").status_code == 404


def test_a_session_is_put_into_a_folder(serve):
    server = serve(["Hello."], people={"ada": ["use"], "bob": ["use"]})
    with server.client("ada-token-0123456789") as ada, server.client("bob-token-0123456789") as bob:
        run = begin(ada, "hello")
        events_of(ada, run["id"])
        url = f"/api/sessions/{run['session']}/folder"
        assert bob.post(url, json={"folder": "x"}).status_code == 404
        assert ada.post(url, json={"folder": "Work"}).status_code == 204
        server.kill()
        server.start()
        assert [each["folder"] for each in ada.get("/api/sessions").json()["sessions"]] == ["Work"]
        assert ada.post(url, json={"folder": ""}).status_code == 204
        assert [each["folder"] for each in ada.get("/api/sessions").json()["sessions"]] == [""]


def test_row_of_a_failed_run_names_the_failure_first(serve, tmp_path):
    server = serve([status(401, "bad key")], database=f"sqlite:///{tmp_path}/runs.sqlite")
    with server.client() as client:
        assert events_of(client, begin(client, "hello")["id"])[-1]["data"]["state"] == "failed"
        (run,) = client.get("/api/fleet").json()["runs"]
    assert run["failure"] == {"en": "The key was refused (401).", "zh": "密钥被拒绝 (401)。"}
    assert "http://" in run["error"]


def test_the_cost_of_today_is_by_agent_and_person(serve, tmp_path):
    def costs(name, **about):
        database = f"sqlite:///{tmp_path}/{name}.sqlite"
        server = serve(lambda _: "Hello.", people={"ada": ["use"]}, database=database, **about)
        with server.client() as client, server.client("ada-token-0123456789") as ada:
            for who, more in ((client, {}), (client, {}), (ada, {"agent": "other"})):
                events_of(who, begin(who, "hello", **more)["id"])
            return client.get("/api/fleet").json()["costs_today"]

    unknown = [(each["agent"], each["person"], each["runs"], each["unknown"]) for each in costs("unknown")]
    assert sorted(unknown) == [("helper", "owner", 2, 2), ("other", "ada", 1, 1)]
    known = costs("known", money={})
    assert [(each["agent"], each["person"], each["unknown"]) for each in known] == [
        ("helper", "owner", 0),
        ("other", "ada", 0),
    ]
    assert known[0]["cost"] == 2 * known[1]["cost"] > 0


def test_a_schedule_is_made_and_shown_in_words(serve, tmp_path):
    server = serve(["Hello."], database=f"sqlite:///{tmp_path}/runs.sqlite")
    with server.client() as client:

        def add(name, **when):
            return client.post(
                "/api/schedules", json={"name": name, "agent": "helper", "prompt": "x", **when}
            )

        daily = add("a", when="Weekdays at 6:30pm").json()
        assert (daily["cron"], daily["when"]["en"]) == ("30 18 * * 1-5", "weekdays at 18:30")
        assert daily["when"]["zh"] == "工作日 18:30"
        often = add("b", when="每 15 分钟").json()
        assert (often["every"], often["when"]["en"]) == (900, "every 15 minutes")
        assert add("c", cron="*/5 * * * *").json()["when"]["en"] == "*/5 * * * *"
        refused, words = add("d", when="now and then"), "when='now and then' is not understood. Examples: "
        assert refused.status_code == 409
        assert refused.json()["detail"].startswith(f"{words}every day at 9, weekdays at 18:30")
        both = add("d", when="every hour", cron="0 9 * * *")
        assert (both.status_code, "when excludes cron" in both.json()["detail"]) == (409, True)
