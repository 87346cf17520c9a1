"""The command lists scenes, serves a protocol, and checks a client program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from llm_client_conformance import cli

COMMAND = [sys.executable, "-m", "llm_client_conformance"]
RIGHT = """
import json, os, urllib.request as web
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
web.urlopen(os.environ["CONFORMANCE_BASE_URL"] + "/chat/completions", json.dumps(body).encode()).read()
print('{"text": "It is 5."}')
"""


def test_list_names_each_scene_of_a_protocol(capsys):
    assert cli.main(["list", "--protocol", "gemini"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 47
    assert all(line.startswith("gemini ") for line in lines)


def test_check_prints_table_and_exit_code_tells_result(capsys):
    words = [
        "check",
        "--scene",
        "crlf",
        "--scene",
        "cr",
        "--scene",
        "nothing",
        "--",
        sys.executable,
        "-c",
        RIGHT,
    ]
    assert cli.main(words) == 1
    out = capsys.readouterr().out
    assert "wrong  chat  nothing: expected an error of kind 'incomplete'" in out
    assert re.search(r"chat +reply +2 +1 +0\nall +2 +1 +0\n$", out)
    assert cli.main(["check", "--scene", "crlf", "--quiet", "--", sys.executable, "-c", RIGHT]) == 0
    assert capsys.readouterr().out.count("\n") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check"], "PROGRAM is missing"),
        (["check", "--", "no-such-program"], "PROGRAM 'no-such-program' was not found"),
        (["check", "--scene", "nonsense", "--", "true"], "--scene 'nonsense' is unknown"),
        (["serve", "gemini", "--scene", "crlf"], "--scene 'crlf' is unknown"),
    ],
)
def test_mistake_is_one_line_with_the_fix(capsys, words, message):
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["check", "--jobs", "0"], ["check", "--deadline", "x"], ["serve", "smtp"], []]
)
def test_invalid_option_is_rejected(capsys, words):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_help_explains_the_contract(capsys):
    with pytest.raises(SystemExit):
        cli.main(["check", "--help"])
    page = capsys.readouterr().out
    for name in ("PROTOCOL", "BASE_URL", "API_KEY", "MODEL", "TASK", "TOOLS", "RESULTS", "TIMEOUT"):
        assert f"CONFORMANCE_{name} " in page


def test_serve_answers_on_its_port_until_ctrl_c():
    with subprocess.Popen([*COMMAND, "serve", "chat:deepseek"], stdout=subprocess.PIPE, text=True) as serving:
        line = serving.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/api\.deepseek\.com/v1", line)[0]
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        with urllib.request.urlopen(f"{url}/chat/completions", json.dumps(body).encode()) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "It is 5."
        body["nonsense"] = 1
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{url}/chat/completions", json.dumps(body).encode())
        told = [serving.stdout.readline() for _ in range(3)]
        assert told[0] == "POST /api.deepseek.com/v1/chat/completions\n"
        assert "nonsense: unknown field (DeepSeek)" in told[2]
        serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 0


def test_ctrl_c_ends_check_and_its_programs(tmp_path):
    begun = tmp_path / "begun"
    program = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(600)"
    words = [*COMMAND, "check", "--jobs", "2", "--", sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as checking:
        while not begun.exists():
            assert checking.poll() is None
        checking.send_signal(signal.SIGINT)
        assert checking.wait(60) == 130
