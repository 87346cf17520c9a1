"""``--explain``: the first request, and nothing sent; ``--explain-run``: a recorded run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import pure_agent_loop
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.testing import ScriptedServer, call, status


@pytest.mark.parametrize("words", [[], ["--tool-mode", "json", "--mode", "single"], ["--tool-mode", "text"]])
def test_explain_shows_the_request_of_the_command(pal, words):
    with ScriptedServer(["Hi."]) as server:
        pal.use(server)
        explained = pal("run", *words, "--explain", "--output-format", "json", "say hi", text="\u4f60\u597d")
        assert (explained.returncode, server.requests) == (0, [])
        assert pal("run", *words, "say hi", text="\u4f60\u597d").returncode == 0
    shown = json.loads(explained.stdout)
    assert encode_body(shown["request"]) == server.requests[-1].raw
    assert shown["schema_version"] == 1
    looking = ("list_dir", "read_file", "glob", "grep", "calculator")
    assert {name: shown["permissions"][name] for name in looking} == dict.fromkeys(looking, "allow")
    assert shown["permissions"]["edit_file"] == "ask (the mode 'ask')"
    assert shown["permissions"]["shell"] == "ask (the mode 'ask'); decided per call by the tool"


def test_as_text_it_can_be_read(pal):
    with ScriptedServer([]) as server:
        pal.use(server)
        done = pal("run", "--explain", "--deny", "calc*", "--max-steps", "4", "say \x1b[2J\u202ehi")
    assert done.returncode == 0
    assert "pal: using scripted" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "model: scripted"
    assert "max_turns=4" in lines[2]
    assert "  calculator: deny (The rule 'calc*' forbids it)" in lines
    assert not set(done.stdout) & set("\x1b\u202e")
    assert json.loads(done.stdout.split("would be sent:\n")[1].replace("\\u202e", ""))["model"] == "scripted"


def test_a_stream_has_one_line(pal):
    with ScriptedServer([]) as server:
        pal.use(server)
        done = pal("run", "--explain", "--output-format", "stream-json", "say hi")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["type"] == "explanation"
    assert done.stdout.isascii()


def test_a_request_that_cannot_be_sent_gives_2(pal):
    done = pal("run", "--explain", "--base-url", "nonsense", "hi")
    assert (done.returncode, done.stdout) == (2, "")


def test_requests_begin_alike_in_each_place_and_tell_the_place_before_the_task(pal, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedServer(["One.", "Two.", "Three."]) as server:
        pal.use(server)
        pal("run", "--session", "s", "first")
        pal("run", "--session", "s", "--permission-mode", "auto", "second")
        pal("run", "--workspace", str(other), "third")
    first, second, third = (request.body for request in server.requests)
    assert {json.dumps([body["messages"][0], body["tools"]]) for body in (first, second, third)} == {
        json.dumps([first["messages"][0], first["tools"]])
    }
    _, facts, task = (message["content"] for message in first["messages"])
    assert task == "first"
    assert f"Working folder: {pal.workspace}\n" in facts
    assert second["messages"][:3] == first["messages"]
    changed, task = (message["content"] for message in second["messages"][-2:])
    assert task == "second"
    assert [line.partition(":")[0] for line in changed.splitlines()[1:]] == ["Rights"]
    assert f"Working folder: {other}\n" in third["messages"][1]["content"]
    assert "Working folder" not in pal("sessions", "show", "s").stdout + pal("sessions", "export", "s").stdout


# -- --explain-run: a recorded run in the order of the loop ------------------------------------------------

PACKAGE = Path(pure_agent_loop.__file__).parent
NUMBERED = re.compile(r"([\w/]+\.py):(\d+)  (.+)")


@pytest.fixture
def trip(pal) -> None:
    """Record a session of two tasks and three steps."""
    (pal.workspace / "a.txt").write_text("\x1b[2Jred")
    with ScriptedServer([status(503), call("read_file", path="a.txt"), "It is red.", "Bye."]) as server:
        pal.use(server)
        assert pal("run", "--session", "trip", "what is in a.txt?").returncode == 0
        assert pal("run", "--session", "trip", "and now?").returncode == 0


def test_each_value_has_the_line_that_made_it(pal, trip):
    done = pal("run", "--explain-run", "trip", PAL_BASE_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    numbered = [match.groups() for match in map(NUMBERED.search, done.stdout.splitlines()) if match]
    for file, line, source in numbered:
        assert (PACKAGE / file).read_text().splitlines()[int(line) - 1].strip() == source
    loop = [source for file, _, source in numbered if file == "kernel/loop.py"]
    order = ["kit.journal.checkpoint(state)", "response = await respond(step)", "await run_calls(step)"]
    assert [source for source in loop if source in order][:3] == order
    values = json.loads(pal("run", "--explain-run", "trip", "--output-format", "json").stdout)["values"]
    makers = {value["name"]: value["lines"][-1].partition(":")[0] for value in values}
    assert makers["thought"] == makers["1:model"] == "kernel/model_call.py"
    assert makers["observation"] == "kernel/results.py"
    assert makers["1:tool:call_1"] == "kernel/calls.py"
    ends = [value for value in values if value["name"] == "step_end"]
    assert [(end["run"], end["step"]) for end in ends] == [(1, 1), (1, 2), (2, 3)]


def test_a_number_chooses_a_step_in_either_language(pal, trip):
    done = pal("run", "--explain-run", "trip", "3", "--language", "zh")
    assert done.stdout.startswith("\u7b2c 3 \u6b65")
    assert '"and now?"' in done.stdout
    assert "It is red." not in done.stdout
    line = pal("--explain-run", "trip", "3", "--output-format", "stream-json").stdout
    assert json.loads(line)["type"] == "walk"


@pytest.mark.parametrize(
    ("words", "named"),
    [(["nope"], "no session 'nope'"), (["trip", "4"], "1 to 3"), (["trip", "--model", "m"], "--model")],
)
def test_unknown_session_or_step_exits_with_2(pal, trip, words, named):
    done = pal("run", "--explain-run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_a_changed_record_is_explained_up_to_the_difference(pal, trip):
    path = Path(pal.env["PAL_HOME"]) / "sessions" / "trip.jsonl"
    lines = path.read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines) if '"value": {"content": "It is red."' in line)
    lines[number] = lines[number].replace("red", "blue").partition(',"crc":')[0] + "}"
    path.write_text("\n".join(lines) + "\n")
    done = pal("run", "--explain-run", "trip")
    assert (done.returncode, done.stdout.count("\nstep ")) == (1, 1)
    assert "run 1, step 2: message 5 differs" in done.stderr
