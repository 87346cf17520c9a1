"""The pure parts: what a server says about itself, the advice, and the table."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop.doctor import Finding, Report, Target, as_text, paste
from pure_agent_loop.doctor.listing import context_size, is_listed, models_in, template_caps
from pure_agent_loop.doctor.report_text import table
from pure_agent_loop.doctor.values import choose_mode
from pure_agent_loop.llm.profiles import PLAIN, Profile

TARGET = Target("http://127.0.0.1:8080/v1", "m")


def listing(**entry):
    return {"data": [{"id": "other", "max_model_len": 7}, {"id": "m", **entry}]}


@pytest.mark.parametrize(
    ("entry", "size", "said"),
    [
        ({"max_model_len": 32768}, 32768, "max_model_len"),
        ({"context_length": 8192}, 8192, "context_length"),
        ({"context_window": 131072}, 131072, "context_window"),
        ({"max_context_length": 4096.0}, 4096, "max_context_length"),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 8192}}, 4096, "meta.n_ctx"),
        ({"meta": {"n_ctx_train": 2048}}, 2048, "n_ctx_train; the server may allow less"),
    ],
)
def test_the_context_size_is_found_wherever_servers_put_it(entry, size, said):
    found = context_size(listing(**entry), None, "m")
    assert found is not None
    assert found[0] == size
    assert said in found[1]


@pytest.mark.parametrize(
    "entry", [{}, {"context_length": 0}, {"context_length": True}, {"context_length": "8k"}, {"meta": 3}]
)
def test_a_size_that_is_none_is_not_believed(entry):
    assert context_size(listing(**entry), None, "m") is None


def test_running_server_overrides_the_list():
    props = {"default_generation_settings": {"n_ctx": 512}}
    assert context_size(listing(max_model_len=9), props, "m") == (512, "/props: n_ctx")


def test_a_list_of_one_speaks_of_the_model_whatever_it_is_called():
    assert context_size({"data": [{"id": "x", "n_ctx": 5}]}, None, "m") == (5, "/models: n_ctx")
    assert context_size({"data": [{"id": "x", "n_ctx": 5}, {"id": "y"}]}, None, "m") is None


@pytest.mark.parametrize("odd", [None, "text", 3, [], {}, {"data": None}, {"data": [1, None, {}]}])
def test_an_odd_list_names_nothing(odd):
    assert models_in(odd) == []
    assert not is_listed(odd, "m")
    assert context_size(odd, odd, "m") is None
    assert template_caps(odd) == {}


def test_a_model_may_be_listed_under_another_name():
    assert is_listed({"data": [{"id": "x", "aliases": ["m"]}]}, "m")
    assert is_listed([{"id": "m"}], "m")


def finding(verdict, detail=""):
    return lambda name: Finding(name, verdict, detail)


@pytest.mark.parametrize(
    ("acts", "found", "dropped", "rejected", "mode", "why"),
    [
        ({"native": True}, finding("yes"), False, False, "native", "proper tool calls"),
        ({"native": True, "json": True}, finding("yes"), True, False, "json", "do not reach"),
        ({"native": False, "json": True}, finding("partly"), False, False, "json", "not reliable"),
        ({"json": True}, finding("no", "any words"), False, True, "json", "rejects tools"),
        ({"json": True}, finding("no", "refused in words"), False, False, "json", "no native tool calls"),
        ({"json": False, "text": True}, finding("no"), False, False, "text", "no native tool calls"),
        ({"json": False, "text": False}, finding("failed"), False, False, "", "any other tool mode"),
        ({"text": True}, finding("unknown"), False, False, "text", "too slow to test native tool calls"),
        ({}, finding("unknown"), False, False, "", "unknown whether it calls tools in another"),
        ({}, lambda name: None, False, False, "", "not tested"),
    ],
)
def test_the_mode_follows_from_how_the_model_acted(acts, found, dropped, rejected, mode, why):
    chosen, reason = choose_mode(acts, found, dropped=dropped, rejected=rejected)
    assert chosen == mode
    assert why in reason


def test_a_long_profile_is_pasted_one_field_a_line_and_is_the_same():
    profile = Profile(
        "any other server",
        refuses=["temperature", "stream_options"],
        output_limit_field="max_completion_tokens",
        call_id_length=9,
        streaming=False,
    )
    code = paste(Report(TARGET, profile=profile))
    assert max(map(len, code.splitlines())) < 80
    space: dict = {}
    exec(code.partition("\n# or")[0].replace("register(", "made = ("), {}, space)
    made = space["made"]
    assert (made.refuses, made.call_id_length, made.streaming) == (profile.refuses, 9, False)
    assert made.matches(TARGET.base_url, "m")
    assert not made.matches("http://127.0.0.1:8081/v1", "m")


def test_names_from_outside_cannot_become_code():
    evil = Target("http://h/v1", "'); raise SystemExit('\n", shown="http://h/v1")
    code = paste(Report(evil, profile=Profile("x", alternates=True)))
    compile(code, "pasted", "exec")
    space: dict = {}
    exec(code.partition("\n# or")[0].replace("register(", "made = ("), {}, space)
    assert space["made"].matches("http://h/v1", evil.model)


@pytest.mark.parametrize("width", [50, 80, 200])
def test_the_table_keeps_to_the_width_and_folds_under_the_detail(width):
    rows = (Finding("a long name", "yes", "word " * 40), Finding("b", "partly"))
    lines = table(rows, width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "b            partly"  # what does not work comes first
    assert lines[1].startswith("a long name  yes     word")
    assert all(line.startswith(" " * 21 + "word") for line in lines[2:])


def test_nothing_from_a_server_controls_the_terminal():
    shown = table((Finding("a", "no", "\x1b[2J\x1b]0;owned\x07\nnext"),), 80)
    assert shown.count("\n") == 1
    assert not set(shown) & set("\x1b\x07")


def test_text_names_the_next_step():
    plain = Report(TARGET, tool_mode="native", reason="Because.", answered=True)
    assert "tool_mode: native. Because." in as_text(plain, 80)
    assert "No profile is needed: it is a plain server." in as_text(plain, 80)
    known = Profile("Known", url="x")
    assert "the built-in one (Known) fits" in as_text(Report(TARGET, (), known, known, answered=True), 80)
    learned = Report(TARGET, (), PLAIN, Profile("y", alternates=True), answered=True)
    assert "register(Profile(" in as_text(learned, 80)
    assert "tool_mode: none." in as_text(learned, 80)
    stopped = Report(TARGET, (), PLAIN, Profile("y", alternates=True), answered=True, stopped=True)
    assert "register" not in as_text(stopped, 80)
    assert "Stopped before the end" in as_text(stopped, 80)


def test_embedded_model_is_recognised():
    target = Target("http://127.0.0.1:1/v1", "tiny", is_embedded=True)
    report = Report(target, answered=True)
    assert report.can_drive
    assert not Report(TARGET, answered=True).can_drive
    assert "a special client" in as_text(report, 200)
    assert "profile" not in as_text(report, 80)
    assert "tool_mode" not in as_text(report, 80)


def test_key_is_redacted_and_a_short_one_is_not_a_secret():
    assert Target("http://h/v1", "m", "secret-key").cleaned("a secret-key b") == "a *** b"
    assert Target("http://h/v1", "m", "k").cleaned("a k b") == "a k b"


def test_a_report_is_json_and_never_holds_the_key():
    report = Report(
        Target("http://h/v1", "m", "secret-key"),
        (Finding("a", "yes"),),
        profile=Profile("x", thinking={"t": 1}),
    )
    text = json.dumps(report.to_dict())
    assert "secret" not in text + repr(report)
    assert json.loads(text)["profile"] == {"thinking": {"t": 1}}
