"""Links to sessions: what they show without a login, for how long, and who may make and end them."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import expect
from tests.server.conftest import events_of
from tests.server.test_coming_back import begin

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.server.people import hash_of
from pure_agent_loop.server.settings import Settings
from pure_agent_loop.sessions.links import DAY, LinkFolder
from pure_agent_loop.testing import call

SECRET = "zebra-harbour-7731-quilt"
ADA = "ada-token-0123456789"


def answer(request):
    last = request.messages[-1]
    if last["role"] == "tool":
        return f"It is **3**, and the key is {SECRET}. <script>alert(1)</script>"
    return call("add", a=1, b=2) if "sum" in str(last["content"]) else "Hello."


@pytest.fixture(scope="module", params=["", "sqlite", "postgres"], ids=["here", "sqlite", "postgres"])
def server(request, serve, tmp_path_factory):
    database = None
    if request.param == "postgres":
        database = request.getfixturevalue("postgres").new_database()
    elif request.param:
        database = f"sqlite:///{tmp_path_factory.mktemp('sharing')}/runs.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_API_KEY", SECRET)
        return serve(answer, people={"ada": ["use"], "bob": ["use", "approve"]}, database=database)


def finished(client, text, **about):
    run = begin(client, text, **about)
    assert events_of(client, run["id"])[-1]["data"]["state"] == "completed"
    return run["session"]


def links_of(session):
    return f"/api/sessions/{session}/links"


def shown(server, path):
    """What somebody without a login gets."""
    with server.client("") as guest:
        return guest.get(path)


def test_a_link_shows_the_session_as_it_was_until_it_is_ended(server):
    with server.client() as client:
        session = finished(client, "the sum?")
        made = client.post(links_of(session), json={})
        assert made.status_code == 201
        link = made.json()
        assert round((link["until"] - link["created"]) / DAY) == 7
        page = shown(server, link["path"])
        assert page.status_code == 200
        body = page.text.partition("<body")[2]
        export = client.get(f"/api/sessions/{session}/export", params={"form": "html"}).text
        assert body == export.partition("<body")[2]  # the same text, by the same filter
        assert "[secret" in body
        assert SECRET not in page.text
        assert "<script" not in page.text
        headers = page.headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; style-src 'unsafe-inline'; img"
        )
        assert "script" not in headers["content-security-policy"]
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")
        assert headers["x-robots-tag"].startswith("noindex")
        finished(client, "later words", session=session)
        assert "later words" not in shown(server, link["path"]).text
        server.kill()
        server.start()
        assert shown(server, link["path"]).text == page.text
        (listed,) = client.get(links_of(session)).json()["links"]
        assert listed == {name: value for name, value in link.items() if name != "path"}
        wrong = shown(server, f"{link['path'][:-1]}~")
        assert client.delete(f"{links_of(session)}/{link['id']}").status_code == 204
        assert client.delete(f"{links_of(session)}/{link['id']}").status_code == 404
        ended = shown(server, link["path"])
        assert (wrong.status_code, wrong.text) == (404, ended.text)
        assert {**wrong.headers, "date": ""} == {**ended.headers, "date": ""}
        assert client.get(links_of(session)).json() == {"links": []}


def test_a_deleted_session_has_no_links(server):
    with server.client() as client:
        session = finished(client, "hello")
        path = client.post(links_of(session), json={"days": 30}).json()["path"]
        assert shown(server, path).status_code == 200
        assert client.delete(f"/api/sessions/{session}").status_code == 204
        assert shown(server, path).status_code == 404
        assert client.get(links_of(session)).status_code == 404
        left = [each.read_bytes() for each in (server.folder / "server" / "links").iterdir()]
        assert not [data for data in left if session.encode() in data]


def test_only_who_may_read_a_session_shares_it_and_only_what_they_see(server):
    with server.client() as client, server.client(ADA) as ada, server.client("bob-token-0123456789") as bob:
        session = finished(ada, "the sum?")
        for other, token in ((bob, session), (ada, finished(client, "hello"))):
            assert other.post(links_of(token), json={}).status_code == 404
            assert other.get(links_of(token)).status_code == 404
        link = ada.post(links_of(session), json={"days": 1}).json()
        text = shown(server, link["path"]).text
        assert "It is" in text
        assert "add" not in text.partition("<body")[2]  # she does not see calls
        assert bob.delete(f"{links_of(session)}/{link['id']}").status_code == 404
        assert client.get(links_of(session)).json()["links"][0]["by"] == "ada"
        elsewhere = finished(ada, "hello")
        assert ada.delete(f"{links_of(elsewhere)}/{link['id']}").status_code == 404
        assert shown(server, link["path"]).status_code == 200


def test_links_are_stored_by_their_digests_alone(server):
    with server.client() as client:
        token = client.post(links_of(finished(client, "hello")), json={}).json()["path"].rpartition("/")[2]
        assert len(token) >= 32
        for path in (server.folder / "server").rglob("*"):
            assert token not in path.name
            assert not path.is_file() or token.encode() not in path.read_bytes()
        assert (server.folder / "server" / "links" / f"{hash_of(token)}.link").stat().st_mode & 0o077 == 0
        refused = client.post(links_of("none"), json={"days": 0})
        assert (refused.status_code, "days" in refused.json()["detail"]) == (422, True)
        client.get(f"/s/{token}")
        assert 'route="/s/{token}"' in client.get("/metrics").text


def test_a_link_expires(server):
    with server.client() as client:
        session = finished(client, "hello")
        links = LinkFolder(server.folder / "server", now=lambda: time.time() - 2 * DAY)
        made = {days: links.add(session, "hello", "<p>document", days, "ada")[0] for days in (1, 3)}
        assert shown(server, f"/s/{made[3]}").text == "<p>document"
        expired, wrong = shown(server, f"/s/{made[1]}"), shown(server, "/s/none")
        assert (expired.status_code, expired.text) == (404, wrong.text)
        assert len(client.get(links_of(session)).json()["links"]) == 1


def test_a_clock_ends_a_link(tmp_path):
    now = [1_000.0]
    links = LinkFolder(tmp_path, now=lambda: now[0])
    token, link = links.add("s", "title", "document", 7, "ada")
    now[0] = link.until - 1
    assert links.find(token) == (link, b"document")
    assert links.list("s") == [link]
    assert links.list("other") == []
    now[0] = link.until
    assert links.find(token) is None
    assert links.list() == []
    assert not [*(tmp_path / "links").iterdir()]
    for days in (0, 366):
        with pytest.raises(ConfigError, match="days"):
            links.add("s", "title", "document", days, "ada")
    (tmp_path / "links").rmdir()
    (tmp_path / "links").touch()
    with pytest.raises(ConfigError, match="cannot hold links"):
        links.add("s", "title", "document", 7, "ada")


def test_server_without_sharing_refuses_links_and_shows_none(serve):
    server = serve(answer, limits={"share": False})
    with server.client() as client:
        session = finished(client, "hello")
        assert client.get("/api/me").json()["share"] is False
        refused = client.post(links_of(session), json={}, headers={"Accept-Language": "zh"})
        assert (refused.status_code, "--no-share" in refused.json()["detail"]) == (403, True)
        token, _ = LinkFolder(server.folder / "server").add(session, "", "document", 7, "ada")
        assert shown(server, f"/s/{token}").status_code == 404
    with pytest.raises(ConfigError, match="share="):
        Settings(share="no")


def test_a_person_shares_on_the_page(serve, visit):
    server = serve(answer)
    guest = visit(server)
    guest.say("the sum?")
    guest.wait(".end")
    guest.page.locator("header").get_by_role("button", name="More").click()
    guest.page.get_by_role("button", name="Share").click()
    dialog = guest.page.get_by_role("dialog")
    expect(dialog).to_contain_text("as it is now, without later messages")
    dialog.get_by_label("Days").fill("30")
    dialog.get_by_role("button", name="Create link").click()
    url = dialog.get_by_label("Copy").input_value()
    assert re.fullmatch(rf"{server.url}/s/[\w-]{{32}}", url)
    guest.shot("share")
    other = guest.page.context.browser.new_page()
    other.goto(url)
    expect(other.locator("h1")).to_have_text("the sum?")
    assert other.evaluate("document.scripts.length") == 0
    other.close()
    dialog.get_by_role("button", name="End").click()
    expect(dialog.get_by_role("button", name="End")).to_have_count(0)
    assert shown(server, url.removeprefix(server.url)).status_code == 404


def test_the_document_of_the_interface_names_the_operations(server):
    with server.client() as client:
        paths = client.get("/api/openapi.json").json()["paths"]
        assert set(paths["/api/sessions/{session}/links"]) == {"get", "post"}
        assert "json" in json.dumps(paths["/api/sessions/{session}/links/{link}"])
