"""Client programs are judged right, wrong or hung, whatever they print."""

from __future__ import annotations

import sys
import time

import pytest

from llm_client_conformance.judging import Terms, judge, judge_all
from llm_client_conformance.programs import BadOutput, result_of
from llm_client_conformance.scenes import PROTOCOLS, Scene, all_scenes
from llm_client_conformance.values import LLMError

SCENES = {scene.name: scene for scene in all_scenes()}
CRLF, EARLY = SCENES["crlf"], SCENES["finish-missing-without-done"]
ASK = """
import json, os, urllib.request as web
messages = [{"role": "user", "content": "hi"}]
body = {"model": os.environ["CONFORMANCE_MODEL"], "stream": True, "messages": messages}
web.urlopen(os.environ["CONFORMANCE_BASE_URL"] + "/chat/completions", json.dumps(body).encode()).read()
"""


def verdict(code: str, scene: Scene = CRLF, **terms):
    return judge(scene, [sys.executable, "-c", code], Terms(**{"deadline": 20.0, **terms}))


def test_right_result_is_right():
    code = ASK + """print("log"); print('{"text": "It is 5.", "finish_reason": "stop"}'); print("bye")"""
    assert verdict(code).word == "right"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ASK + """print('{"text": "It is 6."}')""", "text: expected 'It is 5.', got 'It is 6.'"),
        (ASK + """print('{"error": "quota"}')""", "expected an answer"),
        (ASK + """print('{"error": "no idea"}')""", "error: 'no idea' is unknown, use one of"),
        (ASK + """print('{"text": 5}')""", "text: a text or null is required"),
        (ASK + """print('{"calls": "add"}')""", "calls: a list is required"),
        (ASK + """print('{"calls": [7]}')""", "calls[0]: a name, and an object or null"),
        (ASK + """print('{"text": "It is 5.", "usage": 7}')""", "usage: null, or an object"),
        (ASK + """print("[" * 100_000); print("{" * 100_000)""", "no line of the output is a JSON object"),
        (ASK + """import sys; sys.stdout.buffer.write(bytes(range(256)) * 9)""", "no line of the output"),
        (ASK + """raise SystemExit("it broke")""", "(exit status 1: it broke)"),
        ("""print('{"text": "It is 5."}')""", "no request came"),
        (ASK + """import sys\nwhile True: sys.stdout.write("x" * 65536)""", "more than 16 MB"),
    ],
)
def test_wrong_result_is_wrong_with_reason(code, words):
    found = verdict(code)
    assert found.word == "wrong"
    assert words in found.reason


def test_program_that_does_not_end_hung_and_its_children_are_ended(tmp_path):
    mark = tmp_path / "mark"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    code = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    )
    assert verdict(code, deadline=1.0).word == "hung"
    time.sleep(3.5)
    assert not mark.exists()


def test_child_that_keeps_output_open_does_not_delay_verdict():
    code = ASK + (
        'import subprocess, sys; print(\'{"text": "It is 5."}\', flush=True);'
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    started = time.monotonic()
    assert verdict(code).word == "right"
    assert time.monotonic() - started < 15


def test_error_is_judged_by_kind_unless_any_is_accepted():
    code = ASK + """print('{"error": "unknown"}')"""
    assert "expected an error of kind incomplete, got unknown" in verdict(code, EARLY).reason
    assert verdict(code, EARLY, any_error=True).word == "right"
    assert verdict(ASK + """print('{"error": "incomplete"}')""", EARLY).word == "right"
    assert "expected an error" in verdict(ASK + """print('{"text": "It is"}')""", EARLY).reason


def test_rejected_request_is_wrong():
    code = ASK.replace('"content": "hi"', '"content": 7') + """print('{"error": "bad_request"}')"""
    assert "request 1 was invalid: messages[0]" in verdict(code).reason


def test_conversation_without_results_is_wrong():
    code = ASK + """print('{"text": "It is 5."}')"""
    assert "1 of the server's answers were not requested" in verdict(code, SCENES["chat-call"]).reason


def test_last_line_with_a_result_counts():
    result, missing = result_of(b'{"text": "one"}\n{"text": "two", "usage": null}\n{"level": "info"}\n')
    assert (result.text, missing) == ("two", {"reasoning", "finish_reason"})
    assert isinstance(result_of(b'{"error": "auth"}')[0], LLMError)
    with pytest.raises(BadOutput):
        result_of(b"")


def test_missing_ids_of_all_calls_are_not_judged():
    result, _ = result_of(
        b'{"calls": [{"name": "add", "arguments": {}}, {"name": "add", "arguments": null}]}'
    )
    assert len({call.id for call in result.calls}) == 2
    result, _ = result_of(b'{"calls": [{"name": "add", "id": ""}, {"name": "add", "id": "x"}]}')
    assert [call.id for call in result.calls] == [None, "x"]


def test_missing_program_raises():
    with pytest.raises(OSError, match="no-such"):
        judge_all([CRLF], ["/no-such-program"], Terms(), 1)


def test_scenes_are_distinct_and_cover_every_protocol():
    scenes = all_scenes()
    assert len({scene.name for scene in scenes}) == len(scenes)
    for protocol in PROTOCOLS:
        kinds = {scene.kind for scene in scenes if scene.protocol == protocol}
        assert {"conversation", "fault"} <= kinds
    assert all(scene.why.endswith((".", "?", ")", "`")) or scene.kind == "reply" for scene in scenes)
