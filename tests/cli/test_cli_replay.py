"""``pal replay``: a session of the command line comes out again, and what was changed is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pure_agent_loop.testing import ScriptedServer, assert_replays, call, status


@pytest.fixture
def trip(pal) -> Path:
    """The file of a session of two tasks."""
    (pal.workspace / "a.txt").write_text("\x1b[2Jred")
    script = [status(503), call("read_file", path="a.txt"), "It is red.", "Bye."]
    with ScriptedServer(script) as server:
        pal.use(server)
        assert pal("run", "--session", "trip", "what is in a.txt?").returncode == 0
        assert pal("run", "--session", "trip", "and now?").returncode == 0
    return Path(pal.env["PAL_HOME"]) / "sessions" / "trip.jsonl"


def change(path: Path, old: str, new: str) -> None:
    """Change records as a person would: without their checksums."""
    lines = path.read_text().splitlines()
    changed = [line.replace(old, new) for line in lines]
    assert changed != lines
    path.write_text(
        "".join(
            (was if was == line else line.partition(',"crc":')[0] + "}") + "\n"
            for was, line in zip(lines, changed, strict=True)
        )
    )


def test_a_session_is_identical(pal, trip):
    done = pal("replay", "trip", PAL_BASE_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 runs, 3 steps: identical\n", "")
    assert pal("replay", "--file", str(trip)).stdout == done.stdout
    shown = json.loads(pal("replay", "trip", "--json").stdout)
    assert shown == {"schema_version": 1, "identical": True, "runs": 2, "steps": 3, "difference": None}
    assert assert_replays(trip).steps == 3


def test_a_difference_is_shown(pal, trip):
    before = trip.read_bytes()
    change(trip, '"value": {"content": "It is red."', '"value": {"content": "It is blue."')
    done = pal("replay", "--file", str(trip))
    assert done.returncode == 1
    assert done.stdout.startswith("run 1, step 2: message 5 differs\n")
    assert '-  "content": "It is red."' in done.stdout
    assert '+  "content": "It is blue."' in done.stdout
    shown = json.loads(pal("replay", "trip", "--json").stdout)
    assert shown["identical"] is False
    assert shown["difference"]["what"] == "message"
    trip.write_bytes(before)
    change(trip, "red", "r\\u001b[2Jed")
    assert "\x1b" not in pal("replay", "trip").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Name one session"),
        (["trip", "--file", "x"], 2, "Name one session"),
        (["nothing"], 2, "no session 'nothing'"),
        (["../x"], 2, "no session '../x'"),
        (["x" * 201], 2, "is not a valid session id"),
        (["--file", "nothing.jsonl"], 2, "Cannot read nothing.jsonl"),
    ],
)
def test_unreplayable_session_is_rejected(pal, words, code, said):
    done = pal("replay", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_damage_is_reported(pal, trip):
    trip.write_bytes(trip.read_bytes()[:-30])
    done = pal("replay", "trip")
    assert done.returncode == 0
    assert "the session is damaged" in done.stderr
    assert "identical" in done.stdout
