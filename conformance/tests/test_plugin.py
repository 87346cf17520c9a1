"""The plugin gives each server as a fixture, and a rejected request fails the test."""

from __future__ import annotations

import os
import subprocess
import sys

CASES = """
import json, urllib.error, urllib.request
from llm_client_conformance import call
from llm_client_conformance.quirks import QUIRKS

def ask(url, **body):
    with urllib.request.urlopen(url, json.dumps(body).encode()) as reply:
        return reply.read().decode()

HI = [{"role": "user", "content": "hi"}]

def test_chat(chat_server):
    assert "Yes." in ask(chat_server(["Yes."]).base_url + "/chat/completions", model="m", messages=HI)
    assert "api.z.ai" in chat_server([], "glm").base_url

def test_others(
    messages_server, responses_server, gemini_server, bedrock_server, vertex_server, quirk_server
):
    items = [{"role": "user", "content": "hi"}]
    assert "Yes." in ask(responses_server(["Yes."]).base_url + "/responses", model="m", input=items)
    for start in (messages_server, gemini_server, bedrock_server, vertex_server):
        assert start([]).base_url.startswith("http://127.0.0.1:")
    assert ask(quirk_server(QUIRKS[0]).base_url + "/chat/completions", model="m", messages=HI)

def test_rejected(chat_server):
    try:
        ask(chat_server(["Yes."], strict=False).base_url + "/chat/completions", model="m", messages=[])
    except urllib.error.HTTPError:
        pass

def test_unused(chat_server):
    chat_server(["Yes."])
"""


def test_fixtures_start_servers_and_fail_tests(tmp_path):
    (tmp_path / "test_mine.py").write_text(CASES, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    command += ["-p", "llm_client_conformance.pytest_plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the kit may be installed, or on the path
    plain = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True)
    assert "4 passed, 2 errors" in plain.stdout, plain.stdout
    assert "'messages' is not a list with at least one message" in plain.stdout
    assert "1 of 1 item(s) were never requested" in plain.stdout
