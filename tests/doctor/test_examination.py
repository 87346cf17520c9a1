"""The examination against real servers of different kinds, and the profile that comes out of it."""

from __future__ import annotations

import asyncio

import pytest

from llm_client_conformance import ScriptedServer, Silence, unauthorized
from llm_client_conformance.faults import html_page, quota_exceeded, rate_limited, refusing_url
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.doctor import Target, Watch, examine, paste
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm import profiles
from tests.doctor.servers import (
    DropsTools,
    NeverStreams,
    OnePiece,
    RefusesTemperature,
    RefusesTools,
    Server,
    Strict,
    Thinks,
    WritesText,
    web_server,
)


def examined(handler, timeout=20.0, model="scripted", **options):
    with ScriptedServer(handler=handler, **options) as server:
        report = asyncio.run(examine(Target(server.base_url, model), timeout))
    return report, server


def verdicts(report):
    return {each.name: each.verdict for each in report.findings}


def detail(report, name):
    found = report.finding(name)
    assert found is not None, name
    return found.detail


@pytest.fixture
def own_profiles(monkeypatch):
    monkeypatch.setattr(profiles, "PROFILES", list(profiles.PROFILES))


def test_a_good_server_needs_nothing():
    report, server = examined(Server())
    found = verdicts(report)
    others = {"context size": "unknown", "chat template": "unknown"}
    others |= {"thinking shown": "no", "thinking switch": "no", "thinking returned": "no"}
    others |= {"thinking sent back": "unknown", "prompt cache": "unknown"}
    assert {name: found.pop(name) for name in others} == others
    assert set(found.values()) == {"yes"}
    assert (report.tool_mode, report.can_drive, report.needs_profile) == ("native", True, False)
    assert paste(report) == ""
    assert len(server.requests) < 30
    free = [each for each in server.requests[2:] if "temperature" not in each.options]
    assert len(free) == 1  # the one that asks for thinking
    assert all(each.options.get("max_tokens", 1) <= 600 for each in server.requests if each not in free)
    assert {each.options.get("temperature", 0) for each in server.requests[2:]} == {0}


def test_the_names_of_the_findings_differ():
    report, _ = examined(WritesText())
    names = [each.name for each in report.findings]
    assert len(names) == len(set(names))


def test_tools_that_are_dropped_are_noticed_and_json_is_advised():
    report, _ = examined(DropsTools())
    assert report.finding("tool call").verdict == "no"
    assert report.finding("tools reach the model").verdict == "no"
    assert report.finding("tool_mode json").verdict == "yes"
    assert report.tool_mode == "json"
    assert "do not reach" in report.reason


def test_tools_that_are_refused_lead_to_json():
    report, _ = examined(RefusesTools())
    assert report.finding("tool call").verdict == "no"
    assert detail(report, "tool call").startswith("refused with status 400: registry.ollama.ai")
    assert (report.tool_mode, report.reason.partition(".")[0]) == ("json", "The server rejects tools")


def test_a_model_that_only_writes_is_asked_in_text():
    report, _ = examined(WritesText())
    assert report.finding("tool_mode json").verdict == "no"
    assert report.tool_mode == "text"
    assert report.can_drive


def test_rejected_options_become_a_profile():
    report, _ = examined(RefusesTemperature())
    assert report.finding("temperature").verdict == "no"
    assert (report.finding("max_tokens").verdict, detail(report, "max_tokens")) == (
        "no",
        "sent as max_completion_tokens",
    )
    assert report.finding("max_completion_tokens").verdict == "yes"
    assert report.profile.refuses == ("temperature",)
    assert report.profile.output_limit_field == "max_completion_tokens"
    assert report.tool_mode == "native"
    assert report.to_dict()["profile"] == {
        "refuses": ("temperature",),
        "output_limit_field": "max_completion_tokens",
    }


def test_the_pasted_profile_is_found_for_this_server_and_no_other(own_profiles):
    report, _ = examined(RefusesTemperature(), model="odd (model)")
    exec(paste(report), {})
    found = profiles.profile_for(report.target.base_url, "odd (model)")
    assert (found.refuses, found.output_limit_field) == (("temperature",), "max_completion_tokens")
    assert profiles.profile_for("https://elsewhere/v1", "odd (model)") is profiles.PLAIN
    assert profiles.profile_for(report.target.base_url, "odd (model) 2") is profiles.PLAIN
    assert "client = OpenAIClient(\n    'odd (model)'," in paste(report)


def test_a_client_with_the_pasted_profile_is_not_refused_again():
    class Counting(RefusesTemperature):
        refused = 0

        def refusal(self, request):
            refused = super().refusal(request)
            self.refused += refused is not None
            return refused

    handler = Counting()
    with ScriptedServer(handler=handler) as server:
        report = asyncio.run(examine(Target(server.base_url, "scripted"), 20.0))
        space: dict = {}
        code = paste(report)
        exec(code[code.index("# or for one client") :], {"Profile": profiles.Profile}, space)
        before = handler.refused
        ask = space["client"].chat([{"role": "user", "content": "Hi"}], temperature=0, max_tokens=60)
        assert asyncio.run(ask).content
        assert handler.refused == before > 0


def test_a_server_without_streaming_is_used_without():
    report, _ = examined(NeverStreams())
    assert (report.finding("streaming").verdict, detail(report, "streaming")) == (
        "no",
        "the server rejects it; answers are not streamed",
    )
    assert report.finding("usage in streams").verdict == "unknown"
    assert report.profile.streaming is False
    assert report.tool_mode == "native"


def test_a_probe_that_fails_does_not_stop_the_others():
    report, _ = examined(OnePiece())
    assert report.finding("streaming").verdict == "failed"
    assert "The worker died" in detail(report, "streaming")
    assert report.finding("JSON schema").verdict == "yes"
    assert report.tool_mode == "native"


def test_a_strict_template_is_learned():
    report, _ = examined(Strict(), check=False)
    profile = report.profile
    assert (profile.system_role, profile.user_after_tool, profile.parallel_calls) == ("user", False, False)
    assert profile.output_limit_field == "max_completion_tokens"
    found = verdicts(report)
    assert found["system message"] == found["developer role"] == found["user after a result"] == "no"
    assert (found["parallel calls"], found["history of two calls"]) == ("partly", "no")
    assert (found["max_tokens"], found["max_completion_tokens"]) == ("partly", "yes")
    assert found["JSON schema"] == "no"
    assert report.tool_mode == "native"


def test_the_field_that_makes_it_think_is_found_and_the_refused_ones_leave_no_trace():
    report, _ = examined(Thinks())
    assert report.finding("thinking switch").verdict == "yes"
    assert detail(report, "thinking switch").startswith('{"chat_template_kwargs"')
    assert report.profile.thinking == profiles.TEMPLATE_KWARGS
    assert report.profile.refuses == ()


def test_a_server_that_is_down():
    with refusing_url() as url:
        for model in ("m", ""):
            report = asyncio.run(examine(Target(url, model), 5.0))
            assert not report.answered
            assert not report.can_drive
            assert set(verdicts(report).values()) <= {"failed", "unknown"}
            assert "Is the server running?" in report.findings[0].detail


def test_json_of_another_shape_is_not_the_schema():
    class OwnIdea(Server):
        def constrained(self, request, question):
            return '{"colour": "blue", "certain": true}'

    report, _ = examined(OwnIdea())
    assert report.finding("JSON schema").verdict == "partly"


def test_web_site_is_not_a_model_server():
    with web_server({}) as url:
        report = asyncio.run(examine(Target(url, "m"), 5.0))
    assert verdicts(report) == {
        "reachable": "no",
        "model listed": "unknown",
        "context size": "unknown",
        "chat template": "unknown",
        "plain answer": "no",
        "streaming": "no",
    }
    assert "web page" in detail(report, "reachable")
    assert not report.answered


def test_llama_cpp_properties_are_read():
    caps = {"supports_tools": False, "supports_system_role": True, "supports_odd": 3}
    props = {"default_generation_settings": {"n_ctx": 2048}, "chat_template_caps": caps}
    pages = {"/v1/models": {"data": [{"id": "m"}]}, "/props": props}
    with web_server(pages) as url:
        report = asyncio.run(examine(Target(url), 5.0))
    assert report.target.model == "m"
    assert detail(report, "context size") == "2048 tokens, /props: n_ctx"
    assert report.finding("chat template").verdict == "partly"
    assert detail(report, "chat template") == "supports: system role"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (html_page, "web page"),
        (unauthorized, "Check the API key"),
        (quota_exceeded, "quota is used up"),
        (lambda: rate_limited(0), "Rate limit"),
    ],
)
def test_a_server_that_never_answers_is_asked_little(item, words):
    report, server = examined(lambda request: item())
    assert not report.answered
    assert words in detail(report, "plain answer")
    assert len(server.requests) <= 2
    assert report.tool_mode == ""


def test_the_wrong_key_is_said_and_not_shown():
    with ScriptedServer(handler=Server(), api_key="right") as server:
        report = asyncio.run(examine(Target(server.base_url, "m", "wrong-key-1234"), 5.0))
    assert not report.answered
    assert report.finding("reachable").verdict == "failed"
    assert "wrong-key" not in str(report)


def test_too_many_requests_are_waited_for_once():
    class Busy(Server):
        busy = True

        def refusal(self, request):
            self.busy = not self.busy
            return None if self.busy else rate_limited(retry_after=0)

    report, _ = examined(Busy())
    assert report.tool_mode == "native"


def test_silence_ends_at_the_time_limit():
    report, _ = examined(lambda request: Silence(), timeout=0.2)
    assert detail(report, "plain answer") == "No complete response within 0.2 s."
    assert report.finding("plain answer").seconds < 4
    assert not report.answered


def test_a_server_that_becomes_too_slow_has_not_failed():
    class SlowAtImages(Server):
        def refusal(self, request):
            return Silence() if "image_url" in str(request.messages) else None

    report, _ = examined(SlowAtImages(), timeout=3.0)
    found = report.finding("image")
    assert found.verdict == "unknown"
    assert found.detail == "the server was too slow: No complete response within 3 s."
    assert (report.tool_mode, report.can_drive) == ("native", True)


def test_a_model_that_writes_up_to_any_limit_is_given_a_low_one():
    _, server = examined(Server())
    assert max(request.options.get("max_tokens", 0) for request in server.requests) <= 600


def test_stopped_examination_prints_its_partial_report():
    token = CancelToken()

    class StopAt(Watch):
        def begin(self, name):
            if name == "temperature":
                token.cancel()

    with ScriptedServer(handler=Server()) as server:
        report = asyncio.run(examine(Target(server.base_url, "scripted"), 20.0, StopAt(), token))
    assert report.stopped
    assert report.findings[-1].name == "streaming"


def test_the_only_model_is_taken():
    report, server = examined(Server(), model="", models=["tiny"])
    assert report.target.model == "tiny"
    assert {each.options["model"] for each in server.requests} == {"tiny"}


@pytest.mark.parametrize("models", [[], ["a", "b"], [f"m{i}" for i in range(12)]])
def test_which_model_is_asked_where_it_is_not_clear(models):
    with pytest.raises(ConfigError, match=r"--model is missing for http://127.*--model NAME") as caught:
        examined(Server(), model="", models=models)
    assert ("12 in all" in str(caught.value)) is (len(models) == 12)
    assert ("It lists: a, b." in str(caught.value)) is (len(models) == 2)


def test_a_model_that_is_not_listed_is_still_asked():
    report, _ = examined(Server(), model="other")
    found = report.finding("model listed")
    assert found.verdict == "unknown"  # no fault: a server of one model serves it under any name
    assert found.detail.startswith("not other, but scripted, the only model here")
    assert report.tool_mode == "native"


def test_an_address_with_a_password_is_not_shown():
    with refusing_url() as url:
        secret = url.replace("//", "//me:hunter22@")
        report = asyncio.run(examine(Target(secret, "m", shown=url), 5.0))
    assert "hunter22" not in str(report.to_dict())
