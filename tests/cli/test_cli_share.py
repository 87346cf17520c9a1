"""`pal share`: links that `pal serve` of the same folder shows."""

from __future__ import annotations

import json
import re

import httpx2
import pytest
from tests.cli.served import PATIENCE, address, serving

from pure_agent_loop.testing import ScriptedServer


@pytest.fixture
def trip(pal):
    with ScriptedServer(["A day in Oslo."]) as server:
        pal.use(server)
        assert pal("run", "--session", "trip", "Plan a day.").returncode == 0
    return "trip"


def test_a_session_is_shared_listed_and_ended(pal, trip):
    done = pal("share", "--days", "3")
    assert done.returncode == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:8484/s/[\w-]{32}\n", done.stdout)
    token = done.stdout.strip().rpartition("/")[2]
    assert "trip is shared as it is now, without later messages, until 20" in done.stderr
    assert "to show it: pal serve" in done.stderr
    chinese = pal("share", trip, PAL_LANG="zh")
    assert "不含之后的消息" in chinese.stderr
    with serving(pal) as lines:
        url = address(lines)
        page = httpx2.get(f"{url}/s/{token}", timeout=PATIENCE)
        assert (page.status_code, "A day in Oslo." in page.text) == (200, True)
        known = json.loads(pal("share", "trip", "--json").stdout)
        assert known["url"].startswith(f"{url}/s/")
        listed = pal("share", "--list").stdout.splitlines()
        assert len(listed) == 3
        assert any("(3 d)" in line and "Plan a day." in line and "trip" in line for line in listed)
        assert pal("share", "--end", known["url"]).returncode == 0
        assert httpx2.get(known["url"], timeout=PATIENCE).status_code == 404
        assert pal("share", "--end", known["id"]).returncode == 1
        with ScriptedServer(["More."]) as server:
            pal.use(server)
            assert pal("run", "--session", "trip", "Later words.").returncode == 0
        assert "Later words" not in httpx2.get(f"{url}/s/{token}", timeout=PATIENCE).text
        assert pal("sessions", "delete", "trip", "--yes").returncode == 0
        assert httpx2.get(f"{url}/s/{token}", timeout=PATIENCE).status_code == 404
        assert pal("share", "--list").stderr == "pal: no links; to share a session: pal share SESSION\n"
    assert '"path": "/s/"' in "".join(lines)
    assert token not in "".join(lines)
    missing = pal("share", "nowhere")
    assert (missing.returncode, missing.stdout) == (2, "")


def test_a_server_with_its_own_folder_and_database_shows_the_links_of_that_folder(pal, tmp_path):
    database = f"sqlite:///{tmp_path}/runs.sqlite"
    with ScriptedServer(["Hello there."]) as server:
        pal.use(server)
        assert pal("run", "--database", database, "--session", "s", "hello").returncode == 0
    folder = ("--folder", str(tmp_path / "own"))
    done = pal("share", "s", "--database", database, *folder)
    assert done.returncode == 0
    assert f"pal serve --folder {tmp_path / 'own'}" in done.stderr
    with serving(pal, "--database", database, "--no-work", *folder) as lines:
        path = done.stdout.strip().partition("8484")[2]
        url = address(lines)
        assert "Hello there." in httpx2.get(url + path, timeout=PATIENCE).text
    with serving(pal, "--database", database, "--no-work", "--no-share", *folder) as lines:
        url = address(lines)
        assert httpx2.get(url + path, timeout=PATIENCE).status_code == 404
