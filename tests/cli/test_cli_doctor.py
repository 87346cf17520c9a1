"""The command ``doctor``, end to end: a real process, a real server, and what comes out of it."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest
from tests.doctor.servers import DropsTools, RefusesTemperature, Server, WritesText
from tests.doctor.test_protocols import obliging

from llm_client_conformance import Gate, ScriptedServer, Silence, unauthorized
from llm_client_conformance.faults import html_page, refusing_url
from llm_client_conformance.protocols import MessagesServer

KEY = "key-that-nobody-may-see"


def doctor(pal, handler, *words, model="scripted", **env):
    with ScriptedServer(handler=handler) as server:
        named = ["--model", model] if model else []
        return pal("doctor", "--base-url", server.base_url, *named, *words, **env), server


def test_the_table_goes_to_standard_output_and_the_progress_to_standard_error(pal):
    done, server = doctor(pal, Server(), model="")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Everything an agent needs works.", ""]
    assert lines[2].startswith("package  pure-agent-loop ")
    assert "Python 3." in lines[2]
    assert lines[3].startswith("server   http://127.0.0.1:")
    assert lines[4:7] == ["model    scripted", "key      none", ""]
    assert re.search(r"^streaming {14}yes +\d pieces, finish reason 'stop'$", done.stdout, re.M)
    assert "tool_mode: native." in done.stdout
    assert "No profile is needed" in done.stdout
    progress = done.stderr.splitlines()
    assert progress[0].startswith("pal: examining the model at http://127.0.0.1:")
    assert "streaming ... yes" in progress
    assert "\x1b" not in done.stdout + done.stderr
    assert server.requests


def test_a_profile_to_paste_is_printed(pal):
    done, _ = doctor(pal, RefusesTemperature())
    assert done.returncode == 0
    assert "refuses=('temperature',)" in done.stdout
    assert "from pure_agent_loop.llm.profiles import Profile, register" in done.stdout


def test_json_is_one_object_and_the_key_is_not_in_it(pal):
    done, server = doctor(pal, RefusesTemperature(), "--json", PAL_API_KEY=KEY)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert (result["schema_version"], result["key"], result["model"]) == (1, True, "scripted")
    assert (result["tool_mode"], result["can_drive"]) == ("native", True)
    assert result["profile"]["refuses"] == ["temperature"]
    assert "register(" in result["code"]
    assert {"name", "verdict", "detail", "seconds"} == set(result["findings"][0])
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_key_that_the_server_repeats_is_not_shown(pal, form):
    class Echoes(DropsTools):
        def text(self, request, question):
            if not request.tools:
                return super().text(request, question)
            return f"I was asked for the weather with: {request.headers['authorization']}"

    done, _ = doctor(pal, Echoes(), *form, PAL_API_KEY=KEY)
    assert "answered with text: 'I was asked for the weather with: Bearer ***'" in shown(done.stdout)
    assert KEY[:8] not in done.stdout + done.stderr


def shown(text):
    return " ".join(text.split())


def test_the_foreign_key_is_not_sent_to_this_machine(pal):
    done, server = doctor(pal, Server(), "--json", OPENAI_API_KEY=KEY)
    assert json.loads(done.stdout)["key"] is False
    assert all(KEY not in each.headers["authorization"] for each in server.requests)


def test_another_mode_is_advised_where_tools_are_dropped(pal):
    done, _ = doctor(pal, DropsTools())
    assert done.returncode == 0
    assert "tool_mode: json. The tools do not reach the model." in done.stdout


def test_a_model_that_cannot_act_is_a_failure(pal):
    class Idle(WritesText):
        def text(self, request, question):
            return "No idea."

    done, _ = doctor(pal, Idle())
    assert done.returncode == 1
    assert "tool_mode: none." in done.stdout
    assert done.stdout.startswith("Tools do not work with this model.\n\npackage ")
    assert done.stderr.endswith("pal: error: Tools do not work with this model.\n")


def test_a_server_that_is_down_is_one_sentence(pal):
    with refusing_url() as url:
        done = pal("doctor", "--base-url", url, "--model", "m")
        unnamed = pal("doctor", "--base-url", url)
    for each in (done, unnamed):
        assert each.returncode == 1
        assert "reachable" in each.stdout
        assert each.stderr.splitlines()[-1].startswith(f"pal: error: Cannot reach {url}: ")


@pytest.mark.parametrize(("item", "words"), [(html_page, "web page"), (unauthorized, "Check the API key")])
def test_a_server_that_does_not_answer_is_one_sentence(pal, item, words):
    done, _ = doctor(pal, lambda request: item())
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pal: error: ")
    assert words in last


def test_a_password_in_the_address_is_not_shown(pal):
    with refusing_url() as url:
        done = pal("doctor", "--base-url", url.replace("//", "//me:hunter22@"), "--model", "m")
    assert done.returncode == 1
    assert "hunter22" not in done.stdout + done.stderr


def test_the_model_has_to_be_named_where_there_are_several(pal):
    with ScriptedServer(handler=Server(), models=["a", "b"]) as server:
        done = pal("doctor", "--base-url", server.base_url)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Add --model NAME. It lists: a, b." in done.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "x", "1e9"])
def test_a_time_limit_that_is_none_is_refused(pal, seconds):
    done = pal("doctor", f"--timeout={seconds}")
    assert done.returncode == 2
    assert "is not a number of seconds" in done.stderr


def test_a_key_on_the_command_line_is_refused(pal):
    done = pal("doctor", "--api-key", KEY)
    assert done.returncode == 2
    assert "PAL_API_KEY" in done.stderr
    assert KEY not in done.stderr


def test_the_variables_name_the_server_too(pal):
    with ScriptedServer(handler=Server()) as server:
        pal.use(server)
        done = pal("doctor")
    assert done.returncode == 0
    assert "(selected by PAL_BASE_URL)" in done.stderr


@pytest.mark.parametrize("prefix", ["", "anthropic:"])
def test_a_server_of_another_protocol_is_examined_in_it(pal, prefix):
    with MessagesServer(handler=obliging) as server:
        words = ["--base-url", server.base_url, "--model", f"{prefix}claude-opus-4-6"]
        done = pal("doctor", *words, PAL_API_KEY=KEY)
        data = json.loads(pal("doctor", *words, "--json", PAL_API_KEY=KEY).stdout)
    assert done.returncode == 0
    assert re.search(r"^thinking sent back +yes", done.stdout, re.M)
    assert (data["protocol"], data["recommended"]["model"]) == ("Messages", "anthropic:claude-opus-4-6")
    assert ("Use model='anthropic:claude-opus-4-6'" in shown(done.stdout)) is not bool(prefix)
    assert (data["protocols"] == {}) is bool(prefix)
    assert server.requests[0].headers["x-api-key"] == KEY


def test_no_other_makers_key_goes_to_a_maker(pal):
    address = "https://api.anthropic.com"
    done = pal("doctor", "--base-url", address, "--model", "claude-x", OPENAI_API_KEY=KEY)
    assert done.returncode == 2
    assert "Set PAL_API_KEY, or ANTHROPIC_API_KEY" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_it_with_a_partial_report(pal):
    gate = Gate()

    class Hangs(Server):
        def refusal(self, request):
            return Silence(gate) if "temperature" in request.options else None

    with ScriptedServer(handler=Hangs()) as server:
        words = ["--base-url", server.base_url, "--model", "scripted"]
        with pal.start("doctor", *words) as process:
            gate.reached.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"plain answer" in out
    assert b"Stopped before the end" in out
    assert b"temperature  " not in out
    assert b"Traceback" not in err


def test_session_shows_changes_of_the_prefix(pal):
    with ScriptedServer(["3", "4"]) as server:
        pal.use(server)
        assert pal("run", "--session", "trip", "--model", "small", "1 + 2?").returncode == 0
        assert pal("run", "--session", "trip", "--model", "large", "1 + 3?").returncode == 0
    done = pal("doctor", "--session", "trip", PAL_BASE_URL="http://127.0.0.1:9")
    first, second, change = done.stdout.splitlines()
    assert first.startswith("request 1: ")
    assert first.endswith("cache: - read, - written, - missed")
    assert second.startswith("request 2: ")
    assert "model[0] changed at character 1; the first 0 % of the previous request" in change
    assert "another model" in change
    assert "large" in change
    shown = json.loads(pal("doctor", "--session", "trip", "--json").stdout)["requests"]
    assert [request["change"] and request["change"]["part"] for request in shown] == [None, "model"]
    assert pal("doctor", "--session", "none").returncode == 2


def test_failures_are_listed_before_successes(pal):
    done, _ = doctor(pal, RefusesTemperature())
    verdicts = re.findall(r"^[\w ]+?  +(failed|no|partly|unknown|yes)  ", done.stdout, re.M)
    table = verdicts[: verdicts.index("yes")]
    assert table == sorted(table, key=["failed", "no", "partly", "unknown"].index)
    assert set(verdicts[len(table) : 27]) == {"yes"}


@pytest.mark.parametrize("colour", [True, False])
def test_verdicts_have_colours_on_a_terminal(pal, screen_class, colour):
    if not colour:
        pal.env["NO_COLOR"] = "1"
    with ScriptedServer(handler=RefusesTemperature()) as server:
        words = ["--base-url", server.base_url, "--model", "scripted"]
        with screen_class(pal, "doctor", *words, rows=80) as screen:
            assert screen.end() == 0
    assert ("\x1b[32mEverything an agent needs works.\x1b[0m" in screen.coloured) is colour
    assert ("\x1b[33mno" in screen.coloured) is colour
    assert ("\x1b[3" in screen.coloured) is colour


def test_a_report_in_chinese_keeps_its_columns_and_english_json(pal, screen_class):
    with ScriptedServer(handler=DropsTools()) as server:
        pal.env["PAL_LANG"] = "zh"
        words = ["--base-url", server.base_url, "--model", "scripted"]
        with screen_class(pal, "doctor", *words, rows=80, columns=60) as screen:
            assert screen.end() == 0
        data = json.loads(pal("doctor", *words, "--json").stdout)
    text = screen.all.replace("\n\n", "\n")
    assert "智能体需要的一切都可用，工具以 json 模式调用。" in text
    assert not re.search(r"\b(yes|no|partly|unknown|failed)\b", text.partition("密钥")[2])
    assert data["conclusion"] == "Everything an agent needs works, with tools in json mode."
    assert all(finding["detail"].isascii() for finding in data["findings"])
