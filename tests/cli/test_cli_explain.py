"""``--explain``: the first request on standard output, and nothing sent."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.testing import ScriptedServer


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
