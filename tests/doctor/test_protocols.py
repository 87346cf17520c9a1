"""The protocols of a server are recognised and examined; real servers on loopback answer."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from llm_client_conformance import ScriptedServer, answer, call, status, unauthorized
from llm_client_conformance.faults import refusing_url
from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.doctor import Finding, Report, Survey, Target, Watch, examine, survey, survey_text
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import TokenUsage
from tests.doctor.servers import Server, web_server

MODELS = {
    "anthropic": (MessagesServer, "claude-opus-4-6"),
    "responses": (ResponsesServer, "gpt-5"),
    "gemini": (GeminiServer, "gemini-3-flash"),
}
NAMES = {"anthropic": "Messages", "responses": "Responses", "gemini": "Gemini"}
USAGE = TokenUsage(100, 5, 105, cached_tokens=50)


def obliging(request):
    """Answer like a model that does what it is asked, in any protocol."""
    body = request.raw.decode()
    thought = (
        "I need it." if any(f in body for f in ('"thinking"', '"reasoning"', "thinkingConfig")) else None
    )
    if '"tools"' in body and "Oslo" in body and "Rain, 8" not in body:
        cities = ["Oslo", "Lima"] if "Lima" in body else ["Oslo"]
        return answer(*[call("get_weather", city=city) for city in cities], reasoning=thought, usage=USAGE)
    if "Count from 1" in body:
        return answer("1, 2", finish_reason="length", usage=USAGE)
    if '"sure"' in body:
        return answer('{"colour": "red", "sure": true}', usage=USAGE)
    return answer("Red banana.", usage=USAGE)


def examined(kind, model, handler=obliging):
    with kind(handler=handler) as server:
        report = asyncio.run(examine(Target(server.base_url, model), 20.0))
    server.assert_clean()
    return report, server


def surveyed(url, model, **options):
    return asyncio.run(survey(Target(url, model, **options), 20.0))


def verdicts(found):
    return {finding.name: finding.verdict for finding in found.protocols}


@contextmanager
def one_port(servers):
    """Forward each path to the server whose protocol it belongs to; yield the shared address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.partition("?")[0]
            target = next((url for end, url in servers.items() if path.endswith(end)), None)
            if target is None:
                self.reply(404, b"404 page not found", "text/plain")
                return
            url = target.removesuffix("/v1") + self.path
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
            request = urllib.request.Request(url, body or None, headers, method=self.command)
            try:
                response = urllib.request.urlopen(request)
            except urllib.error.HTTPError as error:
                response = error
            with response:
                self.reply(response.status, response.read(), response.headers["content-type"])

        do_GET = do_POST  # noqa: N815 - the name that the library calls

        def reply(self, code, body, kind):
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("protocol", MODELS)
def test_a_strict_server_of_a_protocol_can_do_everything(protocol):
    kind, model = MODELS[protocol]
    report, _ = examined(kind, f"{protocol}:{model}")
    found = {finding.name: finding.verdict for finding in report.findings}
    open_questions = {"model listed", "token count"}
    assert {name: found[name] for name in found if found[name] != "yes"}.keys() <= open_questions
    for name in ("streaming", "tool call", "forced call", "parallel calls", "image", "JSON schema"):
        assert found[name] == "yes"
    assert found["thinking returned"] == found["thinking sent back"] == found["prompt cache"] == "yes"
    assert (report.tool_mode, report.can_drive) == ("native", True)
    assert report.to_dict()["model"] == f"{protocol}:{model}"


def test_tokens_are_counted_where_the_protocol_counts():
    report, server = examined(MessagesServer, "anthropic:claude-opus-4-6")
    assert report.finding("token count").verdict == "yes"
    assert any(each.path.endswith("/count_tokens") for each in server.other_requests)


def test_client_side_rejection_counts_as_unsupported():
    report, _ = examined(MessagesServer, "anthropic:claude-sonnet-5.5")
    assert report.finding("forced call").verdict == report.finding("temperature").verdict == "no"
    assert "rejects a forced call" in report.finding("forced call").detail


def test_thinking_that_does_not_come_is_not_sent_back():
    def silent(request):
        given = obliging(request)
        return call("get_weather", city="Oslo") if "I need it." in repr(given) else given

    report, _ = examined(MessagesServer, "anthropic:claude-opus-4-6", silent)
    assert report.finding("thinking returned").verdict == "no"
    assert report.finding("thinking sent back").verdict == "unknown"


@pytest.mark.parametrize("protocol", MODELS)
def test_a_protocol_is_recognised_by_its_answer(protocol):
    kind, model = MODELS[protocol]
    with kind(handler=obliging) as server:
        found = surveyed(server.base_url, model)
    others = {"chat completions", *NAMES.values()} - {NAMES[protocol]}
    assert verdicts(found)[NAMES[protocol]] == "yes"
    assert "yes" not in {verdicts(found)[name] for name in others}
    assert found.best.target.full_model == f"{protocol}:{model}"
    assert found.advice().startswith(f"Use model='{protocol}:{model}'")


@pytest.mark.parametrize("protocol", ["anthropic", "gemini"])
def test_an_error_in_the_shape_of_a_protocol_is_a_sign(protocol):
    kind, model = MODELS[protocol]
    with kind(handler=lambda request: unauthorized()) as server:
        found = surveyed(server.base_url, model)
    assert {name for name, verdict in verdicts(found).items() if verdict == "yes"} == {NAMES[protocol]}
    assert not found.best.can_drive
    assert found.advice() == ""


def test_a_rejected_key_does_not_tell_two_protocols_apart():
    with ResponsesServer(handler=lambda request: unauthorized()) as server:
        found = surveyed(server.base_url, "gpt-5")
    assert verdicts(found)["Responses"] == "unknown"


def test_a_missing_model_is_another_thing_than_a_missing_endpoint():
    words = "The model 'claude-opus-4-6' does not exist"
    with MessagesServer(handler=lambda request: status(404, words, kind="not_found_error")) as server:
        found = surveyed(server.base_url, "claude-opus-4-6")
    assert {name for name, verdict in verdicts(found).items() if verdict == "yes"} == {"Messages"}


def test_a_server_with_several_protocols_gets_a_report_for_each():
    class Plain(Server):
        def reply(self, request):
            given = super().reply(request)
            return given[:1] if isinstance(given, list) else given  # one call at a time

    with ExitStack() as stack:
        chat = stack.enter_context(ScriptedServer(handler=Plain()))
        messages = stack.enter_context(MessagesServer(handler=obliging))
        ends = {"/chat/completions": chat, "/models": chat, "/messages": messages}
        ends |= {"/count_tokens": messages, "/claude-opus-4-6": messages}
        url = stack.enter_context(one_port({end: server.base_url for end, server in ends.items()}))
        for base in (f"{url}/v1", url):  # a server's address may lack the version
            found = surveyed(base, "claude-opus-4-6", api_key="k-0123456789")
            assert verdicts(found) == {
                "chat completions": "yes", "Messages": "yes", "Responses": "no", "Gemini": "no"
            }  # fmt: skip
        assert {each.headers["x-api-key"] for each in messages.requests} == {"k-0123456789"}
    assert [report.target.full_model for report in found.reports] == [
        "claude-opus-4-6",
        "anthropic:claude-opus-4-6",
    ]
    assert found.best is found.reports[1]  # calls in parallel, images, thinking, cache
    text = survey_text(found, 100)
    assert "\nMessages, model='anthropic:claude-opus-4-6'\n" in text
    assert text.rstrip().endswith(f"{found._abilities(found.reports[0])}.")
    data = json.loads(json.dumps(found.to_dict()))
    assert data["recommended"]["model"] == "anthropic:claude-opus-4-6"
    assert [report["protocol"] for report in data["reports"]] == ["chat completions", "Messages"]


def test_of_equal_protocols_the_makers_is_used_else_chat_completions():
    def best(url):
        found = (Finding("tool call", "yes"),)
        reports = [
            Report(Target(url, name), found, tool_mode="native", answered=True)
            for name in ("m", "responses:m", "anthropic:m")
        ]
        return Survey(tuple(reports)).best.target.full_model

    assert best("http://127.0.0.1:1/v1") == "m"
    assert best("https://api.openai.com/v1") == "responses:m"
    assert best("https://api.anthropic.com") == "anthropic:m"


def test_a_server_with_no_protocol_is_a_failure_that_names_each():
    with web_server({}) as url:
        found = surveyed(url, "m")
    assert set(verdicts(found).values()) == {"no"}
    assert set(verdicts(found)) == {"chat completions", *NAMES.values()}
    assert not found.best.can_drive
    assert "protocols" in survey_text(found, 100)


def test_other_json_is_not_a_protocol():
    class Everything(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b'{"hello": "world"}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name that the library calls

        def log_message(self, *_):
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Everything) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found = surveyed(f"http://127.0.0.1:{server.server_address[1]}/v1", "m")
        server.shutdown()
    assert len(verdicts(found)) == 4
    assert "yes" not in verdicts(found).values()


def test_a_server_that_is_down_is_asked_for_one_protocol():
    with refusing_url() as url:
        found = surveyed(url, "m")
    assert found.protocols == ()
    assert found.best.unreachable


def test_an_examination_can_be_stopped_between_protocols():
    token = CancelToken()

    class Stop(Watch):
        def begin(self, name):
            if name == "Messages":
                token.cancel()

    with ScriptedServer(handler=obliging) as server:
        found = asyncio.run(survey(Target(server.base_url, "m"), 20.0, Stop(), token))
    assert found.stopped
    assert found.best.answered


def test_a_model_without_a_name_is_refused_before_a_request():
    with pytest.raises(ConfigError, match="anthropic"):
        Target("http://127.0.0.1:9/v1", "anthropic:")
